//! What must hold of every image.

use std::sync::Arc;

use triune::inspect::{FindingCode, FsckOptions, FsckReport, fsck_directory};
use triune::io::sim::SimDirectory;
use triune::{Database, Document, ErrorCode, Options, Schema};

use super::model::{Held, State};
use super::probe::Progress;
use super::sweep::Budget;

/// What an image may hold.
#[derive(Debug, Clone)]
pub struct Allowed {
    /// The state after each commit, by lsn; the last one is the greatest that may be there.
    pub states: Vec<Arc<State>>,
    /// The least lsn that must be there.
    pub least: usize,
    /// Whether the creation may be unfinished.
    pub unfinished: bool,
}

impl Allowed {
    pub fn after_power_cut(progress: &Progress) -> Allowed {
        Allowed { states: progress.states.clone(), least: progress.synced, unfinished: !progress.created }
    }

    pub fn after_kill(progress: &Progress) -> Allowed {
        Allowed { least: progress.acknowledged, ..Allowed::after_power_cut(progress) }
    }

    /// Exactly what a first recovery found.
    pub fn exactly(&self, found: Found) -> Allowed {
        match found {
            Found::Unfinished => Allowed { states: vec![self.states[0].clone()], least: 0, unfinished: true },
            Found::At(lsn) => Allowed { states: self.states[..=lsn].to_vec(), least: lsn, unfinished: false },
        }
    }

    /// Whether it may be `found`; checked anew for an image that was seen before.
    pub fn admits(&self, found: Found) -> Result<(), String> {
        match found {
            Found::Unfinished if self.unfinished => Ok(()),
            Found::Unfinished => Err("an unfinished create is found where a database was created".into()),
            Found::At(lsn) if (self.least..self.states.len()).contains(&lsn) => Ok(()),
            Found::At(lsn) => Err(format!("lsn {lsn} was recovered; {} to {} are allowed", self.least, self.states.len() - 1)),
        }
    }
}

/// What an image turned out to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Unfinished,
    At(usize),
}

pub fn options() -> Options {
    Options { background: false, ..Options::default() }
}

fn writer(disk: &SimDirectory) -> triune::Result<Database> {
    Database::open_with(Arc::new(disk.clone()), options())
}

fn reader(disk: &SimDirectory) -> triune::Result<Database> {
    Database::open_read_only_with(Arc::new(disk.clone()), options())
}

/// What a database shows, held against what it may show.
fn shown(db: &Database, allowed: &Allowed) -> Result<usize, String> {
    let lsn = db.snapshot().lsn().0 as usize;
    allowed.admits(Found::At(lsn))?;
    same_state(&State::read(db)?, &allowed.states[lsn], lsn)?;
    Ok(lsn)
}

pub fn same_state(found: &State, expected: &State, lsn: usize) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("the state at lsn {lsn} is\n  {}\nexpected was\n  {}", found.outline(), expected.outline()))
}

/// Holds every promise about recovery against one image.
pub fn check(image: &SimDirectory, allowed: &Allowed) -> Result<Found, String> {
    check_and_count(image, allowed, Budget::of_this_run().judge_every(0), &mut 0)
}

/// As [`check`]; `fsck` looks at one image of `every`, as it was found and at what became of it, and `judged` counts its looks.
pub fn check_and_count(image: &SimDirectory, allowed: &Allowed, every: usize, judged: &mut usize) -> Result<Found, String> {
    let (before, found) = (image.operations(), image.snapshot());
    let read = reader(image);
    if image.operations() != before {
        return Err(format!("a read-only open performed {:?}", &image.trace()[before..]));
    }
    let read = match read {
        Err(e) if e.code() == ErrorCode::NotFound => {
            allowed.admits(Found::Unfinished)?;
            return completed(image, allowed, Judge { found, every, judged }).map(|()| Found::Unfinished);
        }
        Err(e) => return Err(format!("a read-only open: {e}")),
        Ok(db) => db,
    };
    let lsn = shown(&read, allowed)?;
    refuses_create(image)?;
    let exactly = allowed.exactly(Found::At(lsn));

    let db = writer(image).map_err(|e| format!("a writer's open: {e}"))?;
    shown(&db, &exactly).map_err(|e| format!("a writer sees something else than a reader: {e}"))?;
    // What a reader opened before reads on, although the writer replaced files.
    shown(&read, &exactly).map_err(|e| format!("an open reader after a recovery: {e}"))?;
    drop((db, read));

    let recovered = image.image_hash();
    let db = writer(image).map_err(|e| format!("a second open: {e}"))?;
    shown(&db, &exactly).map_err(|e| format!("a second open: {e}"))?;
    if db.recovery().replayed_commits != 0 || image.image_hash() != recovered {
        return Err(format!("a second open changed something: {:?}", db.recovery()));
    }
    goes_on(image, db, &exactly.states[lsn], lsn, Judge { found, every, judged })?;
    Ok(Found::At(lsn))
}

/// What a reader sees, and nothing more: for disks that go on failing.
pub fn check_reading(image: &SimDirectory, allowed: &Allowed) -> Result<(), String> {
    let db = reader(image).map_err(|e| format!("a read-only open: {e}"))?;
    shown(&db, allowed).map(drop)
}

/// An unfinished create: nobody opens it, and creating again makes a database of it.
fn completed(image: &SimDirectory, allowed: &Allowed, judge: Judge<'_>) -> Result<(), String> {
    match writer(image) {
        Err(e) if e.code() == ErrorCode::NotFound => {}
        other => return Err(format!("a reader finds an unfinished create, a writer {other:?}")),
    }
    let db = Database::create_with(Arc::new(image.clone()), options()).map_err(|e| format!("completing a create: {e}"))?;
    shown(&db, &allowed.exactly(Found::At(0))).map_err(|e| format!("after completing a create: {e}"))?;
    goes_on(image, db, &State::default(), 0, judge)
}

fn refuses_create(image: &SimDirectory) -> Result<(), String> {
    let before = image.operations();
    match Database::create_with(Arc::new(image.clone()), options()) {
        Err(e) if e.code() == ErrorCode::AlreadyExists && image.operations() == before => Ok(()),
        other => Err(format!("create where a database is: {other:?}")),
    }
}

/// A commit after a recovery succeeds, is durable when it is acknowledged, and leaves everything else as it was.
fn goes_on(image: &SimDirectory, db: Database, state: &State, lsn: usize, mut judge: Judge<'_>) -> Result<(), String> {
    const NAME: &str = "after recovery";
    let document = Document::new("new").text("written after a recovery");
    db.create_collection(NAME, Schema::default()).map_err(|e| format!("a commit after a recovery: {e}"))?;
    db.put(NAME, vec![document.clone()]).map_err(|e| format!("a commit after a recovery: {e}"))?;
    drop(db);
    let mut expected = state.clone();
    expected.0.insert(NAME.into(), Held { dimension: None, documents: vec![document] });
    let (judged, turn) = (lsn.wrapping_add(image.operations()).is_multiple_of(judge.every), image.operations() % 2);
    if judged {
        judge.what_was_found()?;
    }
    let cut = image.survivors_none();
    // What is closed and judged is what a power cut left of one image and what a kill left of the next.
    for (i, (what, disk)) in [("after a power cut", &cut), ("after a kill", image)].into_iter().enumerate() {
        let db = writer(disk).map_err(|e| format!("opening after one more commit {what}: {e}"))?;
        let found = db.snapshot().lsn().0 as usize;
        if found != lsn + 2 {
            return Err(format!("one more commit {what}: lsn {found} instead of {}", lsn + 2));
        }
        same_state(&State::read(&db)?, &expected, found).map_err(|e| format!("one more commit {what}: {e}"))?;
        if judged && turn == i {
            db.close().map_err(|e| format!("closing {what}: {e}"))?;
            judge.is_sound(disk).map_err(|e| format!("closed {what}: {e}"))?;
        }
    }
    Ok(())
}

/// Asks `fsck` of an image as it was found, and of what became of it.
struct Judge<'a> {
    found: SimDirectory,
    /// It is asked of one image of so many.
    every: usize,
    judged: &'a mut usize,
}

impl Judge<'_> {
    /// As [`Judge::is_sound`]; what opens as nothing is nothing to it too, or an unfinished create.
    fn what_was_found(&mut self) -> Result<(), String> {
        let found = self.found.snapshot();
        let unfinished = reader(&found).is_err();
        let said = match self.look(&found) {
            Err(e) if unfinished && e.code() == ErrorCode::NotFound => return Ok(()),
            Ok(report) => report,
            Err(e) => return Err(format!("fsck of what was found: {e}")),
        };
        let named = said.findings.iter().any(|f| f.code == FindingCode::CreateUnfinished);
        if said.is_sound() && named == unfinished { Ok(()) } else { Err(format!("fsck of what was found: {:?}", said.findings)) }
    }

    /// It finds nothing but what a crash may leave: orphans, a tail that was never synced.
    fn is_sound(&mut self, disk: &SimDirectory) -> Result<(), String> {
        let report = self.look(disk).map_err(|e| e.to_string())?;
        if report.is_sound() { Ok(()) } else { Err(format!("{:?}", report.findings)) }
    }

    fn look(&mut self, disk: &SimDirectory) -> triune::Result<FsckReport> {
        *self.judged += 1;
        fsck_directory(disk, &FsckOptions::level(2))
    }
}

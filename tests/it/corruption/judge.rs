//! Opens a damaged database every way there is, asks it everything, and holds each answer against the sound one.

use super::answers::{Answer, Question, address, answers, questions};
use super::fixture::{document, open, options};
use super::mutation::Mutation;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use triune::io::SimDirectory;
use triune::io::names::FileName;
use triune::{Database, Document, Error, ErrorCode, IoMode, Result};

/// How a database is opened.
pub const WAYS: [(Role, IoMode); 4] =
    [(Role::Writer, IoMode::Mmap), (Role::Reader, IoMode::Mmap), (Role::Writer, IoMode::Pread), (Role::Reader, IoMode::Pread)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Writer,
    Reader,
}

/// What a damaged database may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Every answer as before.
    Exact,
    /// It opens, and says where the damage is when an answer needs the damaged bytes.
    Partly,
    /// It does not open, and says where the damage is.
    Refused,
    /// It opens as it was at an earlier commit: the documented residual case, or records that were never synced.
    Shorter,
}

/// A database and what it answers.
pub struct Reference {
    pub questions: Vec<Question>,
    pub answers: Vec<std::result::Result<Answer, ErrorCode>>,
}

impl Reference {
    pub fn of(image: &SimDirectory) -> Reference {
        let db = open(&image.snapshot());
        let questions = questions(&db);
        let answers = answers(&db, &questions);
        assert!(answers.iter().all(|a| a.is_ok()), "a sound database answers everything");
        Reference { questions, answers }
    }

    /// What another sound image answers to the same questions.
    pub fn asked_of(&self, image: &SimDirectory) -> Reference {
        let db = open(&image.snapshot());
        Reference { questions: self.questions.clone(), answers: answers(&db, &self.questions) }
    }
}

pub fn open_as(dir: &SimDirectory, (role, io_mode): (Role, IoMode)) -> Result<Database> {
    let dir = Arc::new(dir.clone());
    match role {
        Role::Writer => Database::open_with(dir, options(io_mode)),
        Role::Reader => Database::open_read_only_with(dir, options(io_mode)),
    }
}

/// Refuses an error that does not say where the damage is.
pub fn located(error: &Error, mutation: &Mutation, image: &SimDirectory) -> std::result::Result<(), String> {
    let (file, offset) = address(error).ok_or_else(|| format!("not an error of damage: {error:?}"))?;
    if mutation.file().is_some_and(|damaged| damaged != file) {
        return Err(format!("names another file: {error:?}"));
    }
    let fixed = ["HEAD", "LOCK", "WITNESS", "BALLAST"].contains(&file);
    if !fixed && FileName::parse(file).is_none() {
        return Err(format!("names no file of the database: {error:?}"));
    }
    let len = image.read_file(file).map_or(u64::MAX, |bytes| bytes.len() as u64);
    if offset > len.saturating_add(1 << 14) {
        return Err(format!("names an offset beyond the file of {len} bytes: {error:?}"));
    }
    Ok(())
}

/// Asks an open database everything: how many answers are exact, and how many are errors with an address.
pub fn ask_all(db: &Database, reference: &Reference, mutation: &Mutation, image: &SimDirectory) -> std::result::Result<Outcome, String> {
    let snapshot = db.snapshot();
    let mut outcome = Outcome::Exact;
    for (question, expected) in reference.questions.iter().zip(&reference.answers) {
        match question.ask(&snapshot) {
            Ok(answer) if expected.as_ref().is_ok_and(|e| answer == *e) => {}
            Err(e) if expected.as_ref().is_err_and(|code| e.code() == *code) => {}
            Ok(answer) => return Err(format!("WRONG ANSWER to {question:?}: {answer:?}, expected {expected:?}")),
            Err(e) => {
                located(&e, mutation, image).map_err(|why| format!("{question:?}: {why}"))?;
                outcome = Outcome::Partly;
            }
        }
    }
    Ok(outcome)
}

/// Opens `damaged` one way and asks everything.
pub fn judge(
    damaged: &SimDirectory,
    way: (Role, IoMode),
    reference: &Reference,
    mutation: &Mutation,
    image: &SimDirectory,
) -> std::result::Result<Outcome, String> {
    let dir = damaged.snapshot();
    let before = dir.image_hash();
    let outcome = match open_as(&dir, way) {
        Ok(db) => ask_all(&db, reference, mutation, image)?,
        Err(e) => {
            located(&e, mutation, image).map_err(|why| format!("open: {why}"))?;
            Outcome::Refused
        }
    };
    if (way.0 == Role::Reader) && dir.image_hash() != before {
        return Err("a reader wrote".into());
    }
    Ok(outcome)
}

/// Writes to a damaged database, closes it and opens it again: what was committed is there, and damage stays damage.
pub fn judge_writing(
    damaged: &SimDirectory,
    references: &Written,
    mutation: &Mutation,
    image: &SimDirectory,
) -> std::result::Result<(), String> {
    let dir = damaged.snapshot();
    let Ok(db) = open_as(&dir, (Role::Writer, IoMode::Mmap)) else { return Ok(()) };
    let committed = match db.put("main", vec![references.added.clone()]) {
        Ok(_) => true,
        Err(e) => {
            located(&e, mutation, image).map_err(|why| format!("commit: {why}"))?;
            false
        }
    };
    if let Err(e) = db.compact() {
        located(&e, mutation, image).map_err(|why| format!("compact: {why}"))?;
    }
    if let Err(e) = db.close() {
        located(&e, mutation, image).map_err(|why| format!("close: {why}"))?;
    }
    let reference = if committed { &references.after } else { &references.before };
    for way in [(Role::Reader, IoMode::Pread), (Role::Writer, IoMode::Mmap)] {
        match open_as(&dir, way) {
            Ok(db) => {
                ask_all(&db, reference, mutation, image).map_err(|why| format!("after a write (committed: {committed}): {why}"))?;
            }
            Err(e) => located(&e, mutation, image).map_err(|why| format!("open after a write (committed: {committed}): {why}"))?,
        }
    }
    Ok(())
}

/// What the sound database answers before and after the write of [`judge_writing`].
pub struct Written {
    pub before: Reference,
    pub after: Reference,
    added: Document,
}

impl Written {
    pub fn of(image: &SimDirectory) -> Written {
        let dir = image.snapshot();
        let db = open(&dir);
        let dimension = db.snapshot().collection("main").unwrap().schema().dimension.unwrap();
        let added = document("added-main", 1, dimension as usize);
        db.put("main", vec![added.clone()]).unwrap();
        db.close().unwrap();
        let before = Reference::of(image);
        Written { after: before.asked_of(&dir), before, added }
    }
}

/// Nothing creates over a damaged database.
pub fn judge_creating(damaged: &SimDirectory) -> std::result::Result<(), String> {
    let dir = damaged.snapshot();
    let before = dir.image_hash();
    match Database::create_with(Arc::new(dir.clone()), options(IoMode::Mmap)) {
        Err(e) if e.code() == ErrorCode::AlreadyExists && dir.image_hash() == before => Ok(()),
        other => Err(format!("create answered {:?}", other.map(drop))),
    }
}

/// Counts of outcomes by kind of damage, kind of file and way of opening.
pub type Counts = BTreeMap<(String, Outcome), usize>;

/// What came of a sweep.
#[derive(Default)]
pub struct Report {
    pub cases: usize,
    pub counts: Counts,
    pub failures: Vec<String>,
}

/// Judges every mutation on all cores. A panic is a failure of its case.
pub fn sweep(
    mutations: &[Mutation],
    case: impl Fn(usize, &Mutation) -> std::result::Result<Vec<(String, Outcome)>, String> + Sync,
) -> Report {
    const FAILURES_MAX: usize = 40;
    let next = AtomicUsize::new(0);
    let work = || {
        let mut report = Report::default();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(mutation) = mutations.get(index) else { return report };
            if report.failures.len() >= FAILURES_MAX {
                return report;
            }
            match catch_unwind(AssertUnwindSafe(|| case(index, mutation))) {
                Ok(Ok(outcomes)) => {
                    report.cases += outcomes.len();
                    outcomes.into_iter().for_each(|outcome| *report.counts.entry(outcome).or_default() += 1);
                }
                Ok(Err(why)) => report.failures.push(format!("{mutation}: {}", why.chars().take(1200).collect::<String>())),
                Err(_) => report.failures.push(format!("{mutation}: PANICKED")),
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        let mut all = Report::default();
        for worker in workers {
            let report = worker.join().unwrap();
            all.cases += report.cases;
            report.counts.into_iter().for_each(|(key, n)| *all.counts.entry(key).or_default() += n);
            all.failures.extend(report.failures);
        }
        all
    })
}

/// A writer that refused to open has changed nothing but the pid in LOCK.
pub fn unchanged_but_lock(dir: &SimDirectory, before: &SimDirectory) -> std::result::Result<(), String> {
    let files = |d: &SimDirectory| -> Vec<_> { d.file_names().into_iter().filter(|n| n != "LOCK").map(|n| (d.read_file(&n), n)).collect() };
    if files(dir) == files(before) { Ok(()) } else { Err("a refused open changed a file".into()) }
}

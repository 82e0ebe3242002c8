//! A state machine: random sequences of everything that a database can be asked to do, against a model of plain maps and vectors.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `operations` | what may happen |
//! | `draw` | how it is drawn |
//! | `model` | what every write means |
//! | `filters` | how filters are drawn, and what they mean |
//! | `graph` | what documents mention and relate, and the searches that follow it, the plain way |
//! | `oracle` | every read, held against the model |
//! | `nearest_oracle` | the nearest vectors, held against the model: exactly, and as a search finds them by itself |
//! | `graph_oracle` | the same of entities, relations and PageRank |
//! | `cases` | faults that were found, each as small as it gets |
//! | `disk` | a simulated disk that lets commits happen in the middle of a checkpoint or merge |
//!
//! `PROPTEST_CASES` sets the number of runs (default 48), `TRIUNE_STEPS` the most steps of one (default 40). Runs that once failed are kept in
//! `proptest-regressions/` and come first.

mod cases;
mod content;
mod disk;
mod draw;
mod filters;
mod graph;
mod graph_oracle;
mod model;
mod nearest_oracle;
mod operations;
mod oracle;

use disk::Interrupted;
use model::Model;
use nearest_oracle::Walked;
use operations::{Call, Settings, Step, Work, Write, write_batch};
use oracle::Questions;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use std::cell::Cell;
use std::sync::{Arc, Mutex};
use triune::io::sim::SimDirectory;
use triune::{Commit, Database, Error, ErrorCode, Lsn, Snapshot};

/// Snapshots that are kept at one time.
const KEPT_MAX: usize = 4;

/// What a commit answered, and what was to be seen right after it.
type Answer = (Result<Commit, Error>, Snapshot);

/// What a batch should come to.
type Verdict = Result<Vec<model::Outcome>, Vec<ErrorCode>>;

struct Machine {
    disk: Arc<Interrupted>,
    /// `None` only while it is being reopened.
    db: Option<Arc<Database>>,
    settings: Settings,
    model: Model,
    lsn: Lsn,
    /// Snapshots with what they must go on saying.
    kept: Vec<(Snapshot, Model)>,
    reader: Option<(Database, Model)>,
    questions: Questions,
}

impl Machine {
    fn new(settings: Settings) -> Machine {
        let disk = Interrupted::new(SimDirectory::new());
        let db = Database::create_with(disk.clone(), settings.options()).unwrap();
        let db = Some(Arc::new(db));
        let (model, questions) = (Model::default(), Questions::new(1));
        let mut machine = Machine { disk, db, settings, model, lsn: Lsn(0), kept: Vec::new(), reader: None, questions };
        // Most runs want something to write to.
        machine.commit(&[
            Call::Create { name: 0, dimension: 0, metric: 0, scorer: false, key: false, plain: false },
            Call::Create { name: 0, dimension: 2, metric: 1, scorer: true, key: true, plain: false },
        ]);
        machine
    }

    fn db(&self) -> &Arc<Database> {
        self.db.as_ref().unwrap()
    }

    /// Names a batch's calls one after another, each in the state that the ones before it leave.
    fn name(calls: &[Call], model: &Model) -> Vec<Write> {
        let mut scratch = model.clone();
        let name = |call: &Call| {
            let write = call.name(&scratch);
            let _ = scratch.write(&write);
            write
        };
        calls.iter().map(name).collect()
    }

    fn commit(&mut self, calls: &[Call]) {
        let writes = Machine::name(calls, &self.model);
        let before = self.model.clone();
        let verdict = self.model.apply(&writes);
        let result = self.db().commit(write_batch(&writes));
        self.judge(&writes, &before, &verdict, result);
        self.no_background_error();
    }

    /// Holds a commit's answer against the verdict of the model, which stands at the state after it.
    fn judge(&mut self, writes: &[Write], before: &Model, verdict: &Verdict, result: Result<Commit, Error>) {
        match (verdict, result) {
            (Ok(wanted), Ok(commit)) => {
                let outcomes: Vec<model::Outcome> = commit.outcomes.iter().map(|o| (o.written, o.deleted)).collect();
                assert_eq!(outcomes, *wanted, "outcomes of {writes:?}");
                let least = if *before == self.model { self.lsn } else { self.lsn.next() };
                assert!(commit.lsn >= least && commit.lsn <= self.lsn.next(), "lsn {} after {}", commit.lsn, self.lsn);
                self.lsn = commit.lsn;
            }
            (Err(codes), Err(e)) => assert!(codes.contains(&e.code()), "{e}: refused for another reason than {codes:?}: {writes:?}"),
            (Ok(_), Err(e)) => panic!("{e}: {writes:?} should be committed"),
            (Err(codes), Ok(_)) => panic!("{writes:?} should be refused for {codes:?}"),
        }
    }

    fn no_background_error(&self) {
        assert!(self.db().take_background_error().is_none_or(|e| panic!("work after a commit: {e}")));
    }

    fn step(&mut self, step: &Step) {
        let same = matches!(step, Step::Checkpoint | Step::Merge | Step::Compact | Step::Close(_) | Step::Vanish { .. });
        let before = same.then(|| graph_oracle::answers(&self.db().snapshot(), &self.model));
        self.carry_out(step);
        if let Some(before) = before {
            assert_eq!(
                graph_oracle::answers(&self.db().snapshot(), &self.model),
                before,
                "{step:?} changes where things lie, not what is answered"
            );
        }
        oracle::check(&self.db().snapshot(), &self.model, &mut self.questions);
        assert_eq!(self.db().snapshot().lsn(), self.lsn);
        match step {
            Step::Commit(_) | Step::Keep | Step::Forget(_) | Step::StopReading => {}
            _ => self.check_kept(),
        }
    }

    fn carry_out(&mut self, step: &Step) {
        match step {
            Step::Commit(calls) => self.commit(calls),
            Step::Group(batches) => self.group(batches),
            Step::Full { room, batches, work } => self.full(*room, batches, *work),
            Step::Checkpoint => self.work(Work::Checkpoint),
            Step::Merge => self.work(Work::Merge),
            Step::Compact => {
                self.work(Work::Compact);
                self.nothing_is_left_over();
            }
            Step::Amid { work, at, before, batches } => {
                for calls in before {
                    self.commit(calls);
                    if !matches!(work, Work::Checkpoint) {
                        self.work(Work::Checkpoint);
                    }
                }
                self.amid(*work, *at, batches);
            }
            Step::Close(settings) => {
                Arc::try_unwrap(self.db.take().unwrap()).unwrap().close().unwrap();
                self.open(*settings);
                let recovery = self.db().recovery();
                assert_eq!((recovery.replayed_commits, &recovery.torn_tail), (0, &None), "a clean close leaves nothing to replay");
            }
            Step::Vanish { settings, kill } => {
                self.db = None;
                if *kill {
                    self.reader = None;
                    self.disk = Interrupted::new(self.disk.disk().after_kill());
                }
                self.open(*settings);
                assert_eq!(self.db().recovery().torn_tail, None, "what a process wrote is there after it");
            }
            Step::Keep => {
                if self.kept.len() == KEPT_MAX {
                    self.kept.remove(0);
                }
                self.kept.push((self.db().snapshot(), self.model.clone()));
            }
            Step::Forget(i) if !self.kept.is_empty() => drop(self.kept.remove(usize::from(*i) % self.kept.len())),
            Step::Forget(_) => {}
            Step::Read { settings } => self.read(*settings),
            Step::StopReading => self.reader = None,
        }
    }

    fn work(&mut self, work: Work) {
        do_work(self.db(), work).unwrap();
        self.no_background_error();
    }

    /// Work on files, with commits in the middle of it. A commit that starts a checkpoint would wait for the work it interrupts, so with tiny
    /// limits the commits come first.
    fn amid(&mut self, work: Work, at: u8, batches: &[Vec<Call>]) {
        if self.settings.tiny() {
            batches.iter().for_each(|b| self.commit(b));
            return self.work(work);
        }
        let plan = self.plan(batches);
        let commits: Vec<_> = plan.iter().map(|(writes, ..)| write_batch(writes)).collect();
        let answers: Arc<Mutex<Vec<Answer>>> = Arc::default();
        let (db, given) = (self.db().clone(), answers.clone());
        self.disk.after(at, move || {
            for batch in commits {
                let result = db.commit(batch);
                given.lock().unwrap().push((result, db.snapshot()));
            }
        });
        self.work(work);
        self.disk.never_mind();
        let answers = std::mem::take(&mut *answers.lock().unwrap());
        for ((writes, verdict, after), (result, snapshot)) in plan.into_iter().zip(answers) {
            let before = std::mem::replace(&mut self.model, after.clone());
            self.judge(&writes, &before, &verdict, result);
            assert_eq!(snapshot.lsn(), self.lsn);
            oracle::check(&snapshot, &after, &mut self.questions);
        }
    }

    /// Names batches one after another, each in the state that the ones before it leave, with what each should come to and the state after it.
    fn plan(&self, batches: &[Vec<Call>]) -> Vec<(Vec<Write>, Verdict, Model)> {
        let mut state = self.model.clone();
        let plan = |calls: &Vec<Call>| {
            let writes = Machine::name(calls, &state);
            let verdict = state.apply(&writes);
            (writes, verdict, state.clone())
        };
        batches.iter().map(plan).collect()
    }

    fn group(&mut self, batches: &[Vec<Call>]) {
        let plan = self.plan(batches);
        let answers = self.db().commit_many(plan.iter().map(|(writes, ..)| write_batch(writes)).collect());
        assert_eq!(answers.len(), plan.len());
        for ((writes, verdict, after), answer) in plan.into_iter().zip(answers) {
            let before = std::mem::replace(&mut self.model, after);
            self.judge(&writes, &before, &verdict, answer);
        }
        self.no_background_error();
    }

    /// What the disk has no room for is refused and leaves no trace; what is acknowledged is there.
    fn full(&mut self, room: u16, batches: &[Vec<Call>], work: Work) {
        let plan = self.plan(batches);
        self.disk.disk().disk_limit(self.db().bytes_on_disk().unwrap() + u64::from(room));
        let answers = self.db().commit_many(plan.iter().map(|(writes, ..)| write_batch(writes)).collect());
        for ((writes, verdict, _), answer) in plan.into_iter().zip(answers) {
            match answer {
                Ok(_) => {
                    let before = self.model.clone();
                    let verdict = self.model.apply(&writes);
                    self.judge(&writes, &before, &verdict, answer);
                }
                Err(e) => {
                    let refused = |verdict: &Verdict| verdict.as_ref().is_err_and(|codes| codes.contains(&e.code()));
                    let known = e.code() == ErrorCode::DiskFull || refused(&verdict) || refused(&self.model.clone().apply(&writes));
                    assert!(known, "{e}: {writes:?} on a full disk");
                }
            }
        }
        let fits = |result: Result<(), Error>| {
            assert!(result.as_ref().map_or_else(|e| e.code() == ErrorCode::DiskFull, |()| true), "work on a full disk: {result:?}")
        };
        fits(do_work(self.db(), work));
        fits(self.db().take_background_error().map_or(Ok(()), Err));
        oracle::check(&self.db().snapshot(), &self.model, &mut self.questions);
        self.disk.disk().disk_limit(u64::MAX);
    }

    /// After `compact`: one segment a collection, no tombstones, and no file that nothing reaches.
    fn nothing_is_left_over(&self) {
        let snapshot = self.db().snapshot();
        for name in snapshot.collections() {
            let stats = snapshot.collection(&name).unwrap().stats().unwrap();
            assert_eq!(stats.segments, u64::from(stats.documents > 0), "segments of {name} after compact");
        }
        let names = self.disk.disk().file_names();
        let count = |kind: &str| names.iter().filter(|n| n.starts_with(kind)).count();
        let full = self.model.collections.values().filter(|c| !c.documents.is_empty()).count();
        assert!(count("s-") <= full && count("d-") == 0 && count("m-") == 1 && count("w-") == 1, "left over after compact: {names:?}");
    }

    fn open(&mut self, settings: Settings) {
        self.settings = settings;
        self.db = Some(Arc::new(Database::open_with(self.disk.clone(), settings.options()).unwrap()));
    }

    fn read(&mut self, settings: Settings) {
        match &mut self.reader {
            None => self.reader = Some((Database::open_read_only_with(self.disk.clone(), settings.options()).unwrap(), self.model.clone())),
            Some((reader, seen)) => {
                let old = reader.snapshot();
                reader.refresh().unwrap();
                oracle::check(&old, seen, &mut self.questions);
                *seen = self.model.clone();
            }
        }
        let reader = &self.reader.as_ref().unwrap().0;
        assert_eq!(reader.snapshot().lsn(), self.lsn, "a reader sees every commit");
        assert_eq!(reader.put("main", Vec::new()).unwrap_err().code(), ErrorCode::ReadOnly);
    }

    fn check_kept(&mut self) {
        for (snapshot, model) in &self.kept {
            oracle::check(snapshot, model, &mut self.questions);
        }
        if let Some((reader, model)) = &self.reader {
            oracle::check(&reader.snapshot(), model, &mut self.questions);
        }
    }
}

fn do_work(db: &Database, work: Work) -> Result<(), Error> {
    match work {
        Work::Checkpoint => db.checkpoint(),
        Work::Merge => db.merge(),
        Work::Compact => db.compact(),
    }
}

/// A number from the environment.
fn number(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

#[allow(clippy::print_stderr, reason = "what was looked at is what it is worth; shown with --nocapture")]
fn report(runs: u64, steps: u64, commits: u64, walked: Walked) {
    eprintln!("properties: {runs} runs, {steps} steps, {commits} commits that changed something, {walked:?}");
}

#[test]
fn any_sequence_of_operations_leaves_what_the_model_says() {
    let regressions = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/proptest-regressions/properties.txt");
    let config = ProptestConfig {
        cases: number("PROPTEST_CASES", 48),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(regressions))),
        max_shrink_iters: number("PROPTEST_MAX_SHRINK_ITERS", 4000),
        ..ProptestConfig::default()
    };
    let most = number("TRIUNE_STEPS", 40) as usize;
    let (runs, taken, commits) = (Cell::new(0u64), Cell::new(0u64), Cell::new(0u64));
    let walked = Cell::new(Walked::default());
    proptest!(config, |((settings, steps) in draw::run(most))| {
        let mut machine = Machine::new(settings);
        for step in &steps {
            machine.step(step);
        }
        machine.check_kept();
        machine.step(&Step::Compact);
        machine.step(&Step::Close(settings));
        machine.check_kept();
        runs.set(runs.get() + 1);
        taken.set(taken.get() + steps.len() as u64);
        commits.set(commits.get() + machine.lsn.0);
        walked.set(walked.get().and(machine.questions.walked));
    });
    report(runs.get(), taken.get(), commits.get(), walked.get());
    assert!(commits.get() > 0);
    // Few runs may have no graph; so many have hundreds of walks.
    assert!(runs.get() < 40 || walked.get().plain > 20 && walked.get().filtered > 5, "{:?}", walked.get());
}

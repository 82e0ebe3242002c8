//! How a workload is carried out, and what is known while it is.

use std::sync::{Arc, Mutex};

use triune::io::LockMode;
use triune::io::names::HEAD;
use triune::io::sim::SimDirectory;
use triune::maintenance::upgrade_directory;
use triune::{Commit, Database, Durability, Error, ErrorCode, Options};

use super::backups;
use super::model::{Op, State, batch_of};
use super::probe::{Moment, Probe, Progress};
use super::workloads::Step;

/// How a step went, when it did not succeed.
pub type Failure = Error;

/// A program at work on a simulated disk.
pub struct Run {
    pub probe: Arc<Probe>,
    options: Options,
    db: Mutex<Option<Arc<Database>>>,
    failures: Mutex<Vec<Failure>>,
    backups: Mutex<Vec<Backup>>,
}

/// A backup that was made, by links or not: its moments.
pub struct Backup {
    pub link: bool,
    pub moments: Vec<Moment>,
}

impl Run {
    /// Creates the database.
    pub fn create(disk: SimDirectory, options: Options) -> Result<Arc<Run>, Failure> {
        let probe = Probe::new(disk, Progress { states: vec![Arc::default()], ..Progress::default() });
        let db = Database::create_with(probe.directory(), options.clone())?;
        probe.learn(|p| p.created = true);
        Ok(Arc::new(Run { probe, options, db: Mutex::new(Some(Arc::new(db))), failures: Mutex::default(), backups: Mutex::default() }))
    }

    /// The next process on a disk that an earlier one left, which knew this much.
    pub fn resume(disk: SimDirectory, options: Options, progress: Progress) -> Arc<Run> {
        let probe = Probe::new(disk, progress);
        let run = Arc::new(Run { probe, options, db: Mutex::default(), failures: Mutex::default(), backups: Mutex::default() });
        run.open();
        run
    }

    pub fn database(&self) -> Option<Arc<Database>> {
        self.db.lock().unwrap().clone()
    }

    /// What failed since this was asked last.
    pub fn take_failures(&self) -> Vec<Failure> {
        std::mem::take(&mut *self.failures.lock().unwrap())
    }

    /// The backups made since this was asked last.
    pub fn take_backups(&self) -> Vec<Backup> {
        std::mem::take(&mut *self.backups.lock().unwrap())
    }

    /// Carries out a step. Whatever fails is noted; without a handle only opening does anything.
    pub fn step(self: &Arc<Run>, step: &Step) {
        match step {
            Step::Commit(ops) => self.commit(ops, Durability::Sync),
            Step::Buffered(ops) => self.commit(ops, Durability::Buffered),
            Step::Group(batches) => self.group(batches),
            Step::Sync => self.with(|db| db.sync()),
            Step::Checkpoint => self.with(|db| db.checkpoint()),
            Step::Merge => self.merge(),
            Step::MergeWith(steps) => {
                let (run, steps) = (self.clone(), steps.clone());
                self.probe.do_meanwhile(Box::new(move || steps.iter().for_each(|s| run.step(s))));
                self.merge();
                // A merge that failed early has not come to it.
                self.probe.finish_meanwhile();
            }
            Step::Compact => self.with(|db| db.compact()),
            Step::Pinned(steps) => {
                let pin = self.probe.directory().try_lock(HEAD, LockMode::Shared).unwrap().expect("nobody removes files now");
                steps.iter().for_each(|step| self.step(step));
                drop(pin);
            }
            Step::Backup(link, steps) => self.back_up(*link, steps),
            Step::Upgrade => self.upgrade(),
            Step::Reopen => {
                *self.db.lock().unwrap() = None;
                self.open();
            }
            Step::Close => {
                let db = self.db.lock().unwrap().take();
                if let Some(db) = db.and_then(Arc::into_inner) {
                    match db.close() {
                        Ok(()) => self.probe.learn(|p| p.synced = p.acknowledged),
                        Err(e) => self.note(e),
                    }
                }
                self.open();
            }
        }
        if let Some(db) = self.database()
            && let Some(e) = db.take_background_error()
        {
            self.note(e);
        }
    }

    fn note(&self, e: Failure) {
        self.failures.lock().unwrap().push(e);
    }

    /// Acts that make everything acknowledged durable.
    fn with(&self, act: impl FnOnce(&Database) -> triune::Result<()>) {
        let Some(db) = self.database() else { return };
        let before = self.probe.progress().acknowledged;
        match act(&db) {
            Ok(()) => self.probe.learn(|p| p.synced = p.synced.max(before)),
            Err(e) => self.note(e),
        }
    }

    fn merge(&self) {
        let Some(db) = self.database() else { return };
        if let Err(e) = db.merge() {
            self.note(e);
        }
    }

    /// A backup writes nothing to the original, and holds what that showed when it began.
    fn back_up(self: &Arc<Run>, link: bool, steps: &[Step]) {
        let (progress, before) = (self.probe.progress(), self.probe.operations());
        let shown = progress.acknowledged;
        let holds = Progress { states: progress.states[..=shown].to_vec(), acknowledged: shown, ..Progress::default() };
        let dest = Probe::beside(SimDirectory::newly_made(), holds, &self.probe);
        let (run, meanwhile) = (self.clone(), steps.to_vec());
        dest.do_meanwhile(Box::new(move || meanwhile.iter().for_each(|step| run.step(step))));
        match backups::back_up(&*self.probe.directory(), dest.directory(), link) {
            Ok(lsn) => {
                assert_eq!(lsn, shown, "a backup holds what the original shows");
                dest.learn(|p| (p.created, p.synced) = (true, lsn));
            }
            Err(e) => self.note(e),
        }
        assert!(!steps.is_empty() || self.probe.operations() == before, "a backup wrote to the original");
        // By links nothing is copied, and nothing has set it off.
        dest.finish_meanwhile();
        self.backups.lock().unwrap().push(Backup { link, moments: dest.take_moments() });
    }

    /// An upgrade has nothing to do yet, so it changes nothing; a database that is in use stays so.
    fn upgrade(&self) {
        let before = self.probe.operations();
        match upgrade_directory(self.probe.directory()) {
            Ok(report) => assert!(!report.changed, "{report:?}"),
            Err(e) => self.note(e),
        }
        assert_eq!(self.probe.operations(), before, "an upgrade changed something");
    }

    /// Opens; what the database then shows is the truth from there on, whatever was unknown before.
    pub fn open(&self) {
        match Database::open_with(self.probe.directory(), self.options.clone()) {
            Ok(db) => {
                let lsn = db.snapshot().lsn().0 as usize;
                let replayed = db.recovery().replayed_commits > 0;
                self.probe.learn(|p| {
                    p.states.truncate(lsn + 1);
                    p.acknowledged = lsn;
                    if replayed {
                        p.synced = lsn;
                    }
                });
                *self.db.lock().unwrap() = Some(Arc::new(db));
            }
            Err(e) => self.note(e),
        }
    }

    fn commit(&self, ops: &[Op], durability: Durability) {
        let Some(db) = self.database() else { return };
        let issued = self.issue(&[ops.to_vec()]);
        let answer = db.commit_with(batch_of(ops), durability);
        self.settle(issued, vec![answer], &[ops.to_vec()], durability == Durability::Sync);
    }

    fn group(&self, batches: &[Vec<Op>]) {
        let Some(db) = self.database() else { return };
        let issued = self.issue(batches);
        let answers = db.commit_many(batches.iter().map(|ops| batch_of(ops)).collect());
        self.settle(issued, answers, batches, true);
    }

    /// Notes what is about to be committed; the lsn before it.
    fn issue(&self, batches: &[Vec<Op>]) -> usize {
        let mut before = 0;
        self.probe.learn(|p| {
            before = p.states.len() - 1;
            let mut state = State::clone(&p.states[before]);
            for ops in batches {
                if state.apply(ops) == Some(true) {
                    p.states.push(Arc::new(state.clone()));
                }
            }
        });
        before
    }

    /// Notes what was answered. A commit that failed for good is as if it had never been asked for.
    fn settle(&self, before: usize, answers: Vec<triune::Result<Commit>>, batches: &[Vec<Op>], sync: bool) {
        let mut state = State::clone(&self.probe.progress().states[before]);
        let (mut states, mut acknowledged) = (Vec::new(), 0);
        for (answer, ops) in answers.into_iter().zip(batches) {
            match answer {
                Ok(commit) => {
                    let changed = state.apply(ops).unwrap_or_else(|| panic!("{ops:?} was committed, and the model refuses it"));
                    if changed {
                        states.push(Arc::new(state.clone()));
                        acknowledged = before + states.len();
                    }
                    assert_eq!(commit.lsn.0 as usize, before + states.len(), "the lsn of {ops:?}");
                }
                Err(e) => match e.code() {
                    ErrorCode::OutcomeUnknown => {
                        if state.apply(ops) == Some(true) {
                            states.push(Arc::new(state.clone()));
                        }
                        self.note(e);
                    }
                    ErrorCode::AlreadyExists | ErrorCode::NotFound => {
                        assert_eq!(state.clone().apply(ops), None, "{ops:?} was refused ({e}), and the model takes it");
                    }
                    _ => self.note(e),
                },
            }
        }
        self.probe.learn(|p| {
            // A merge with steps meanwhile settles inner commits before outer ones; commits themselves never nest.
            p.states.truncate(before + 1);
            p.states.extend(states);
            p.acknowledged = p.acknowledged.max(acknowledged);
            if sync {
                p.synced = p.synced.max(acknowledged);
            }
        });
    }
}

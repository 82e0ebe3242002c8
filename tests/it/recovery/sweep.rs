//! Runs a workload once and looks at what each of its moments may leave.

use std::collections::HashMap;

use triune::io::sim::SimDirectory;
use triune::{Database, ErrorCode};

use super::model::State;
use super::oracle::{self, Allowed, Found};
use super::probe::{Moment, Probe, Progress};
use super::run::{Backup, Run};
use super::workloads::Workload;

/// How much is looked at. `TRIUNE_SWEEP=full` looks at all that is feasible, else it is a slice that fits into every test run.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    pub full: bool,
    /// Images a moment.
    pub images: usize,
    /// Every how many moments recovery is stopped too.
    pub nested_every: usize,
    /// Images at each moment of a recovery.
    pub nested_images: usize,
    /// How many crashed recoveries there are before the one that has to succeed.
    pub depth: usize,
    /// Of the moments whose recovery is stopped, every how many the recovery from that is stopped too, up to the depth.
    pub deep_every: usize,
}

impl Budget {
    pub fn of_this_run() -> Budget {
        match std::env::var("TRIUNE_SWEEP").as_deref() {
            Ok("full") => Budget { full: true, images: 256, nested_every: 4, nested_images: 6, depth: 2, deep_every: 4 },
            _ => Budget { full: false, images: 8, nested_every: 23, nested_images: 3, depth: 1, deep_every: 1 },
        }
    }

    /// Of how many images `fsck`, which reads every byte, looks at one: at whole size at each that a first crash leaves, and at every fourth of
    /// the many more that `crashed` recoveries lead to.
    pub fn judge_every(self, crashed: usize) -> usize {
        match (self.full, crashed) {
            (false, _) => 8,
            (true, 0) => 1,
            (true, _) => 4,
        }
    }
}

/// What was looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub moments: usize,
    /// Images made, and those among them that were not seen before, each of which was opened several times.
    pub images: usize,
    pub distinct: usize,
    /// Of the distinct ones, those that a crashed recovery left.
    pub nested: usize,
    /// How many times `fsck` looked: at a distinct image as it was found, and at what became of it when it was written to and closed.
    pub judged: usize,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.moments += other.moments;
        self.images += other.images;
        self.distinct += other.distinct;
        self.nested += other.nested;
        self.judged += other.judged;
    }
}

/// Images that were checked, with what they held.
#[derive(Default)]
pub struct Checked {
    seen: HashMap<u64, Found>,
    /// How many crashed recoveries lead to what is checked now.
    crashed: usize,
    pub tally: Tally,
}

impl Checked {
    /// Checks an image, unless an equal one was: one that shows the same and has the same pending, since that decides what the next crash leaves.
    pub fn check(&mut self, image: &SimDirectory, allowed: &Allowed) -> Result<Found, String> {
        self.tally.images += 1;
        let hash = image.state_hash();
        if let Some(&found) = self.seen.get(&hash) {
            allowed.admits(found)?;
            return Ok(found);
        }
        self.tally.distinct += 1;
        let every = Budget::of_this_run().judge_every(self.crashed);
        let found = oracle::check_and_count(image, allowed, every, &mut self.tally.judged)?;
        self.seen.insert(hash, found);
        Ok(found)
    }
}

/// Carries out a workload on a new database; the moments of its creation, and those after it.
pub fn moments_of(workload: &Workload) -> (Vec<Moment>, Vec<Moment>) {
    let (creation, moments, _) = moments_and_backups_of(workload);
    (creation, moments)
}

/// As [`moments_of`], with the moments of each backup that it made.
pub fn moments_and_backups_of(workload: &Workload) -> (Vec<Moment>, Vec<Moment>, Vec<Backup>) {
    let run = Run::create(SimDirectory::newly_made(), workload.options.clone()).unwrap_or_else(|e| panic!("{}: {e}", workload.name));
    let creation = run.probe.take_moments();
    for step in &workload.steps {
        run.step(step);
        let failures = run.take_failures();
        assert!(failures.is_empty(), "{}: {step:?}: {failures:?}", workload.name);
        let (shown, progress) = (State::read(&run.database().unwrap()).unwrap(), run.probe.progress());
        let last = progress.states.len() - 1;
        assert_eq!(progress.acknowledged, last, "{}: {step:?}", workload.name);
        oracle::same_state(&shown, &progress.states[last], last).unwrap_or_else(|e| panic!("{}: after {step:?}, live: {e}", workload.name));
    }
    (creation, run.probe.take_moments(), run.take_backups())
}

/// Checks what every moment may leave, and what a crash of the recovery from it may leave.
pub fn sweep(name: &str, moments: &[Moment], budget: Budget, garbage: bool) -> Result<Tally, String> {
    let mut checked = Checked::default();
    for (n, moment) in moments.iter().enumerate() {
        let at = |e: String| format!("{name}: stopped before {}: {e}", operation_after(moments, n));
        moment.disk.set_garbage(garbage);
        checked.tally.moments += 1;
        let (of_cut, of_kill) = (Allowed::after_power_cut(&moment.progress), Allowed::after_kill(&moment.progress));
        // The two passes of a workload, without and with garbage, take turns.
        let turn = n + if garbage { budget.nested_every / 2 } else { 0 };
        let nested = turn.is_multiple_of(budget.nested_every);
        if nested {
            let before = checked.tally.distinct;
            let depth = if turn.is_multiple_of(budget.nested_every * budget.deep_every) { budget.depth } else { 1 };
            crash_recovery(&moment.disk.after_kill(), &of_cut, &of_kill, budget, depth, &mut checked).map_err(at)?;
            checked.tally.nested += checked.tally.distinct - before;
        }
        checked.check(&moment.disk.after_kill(), &of_kill).map_err(|e| at(format!("killed: {e}")))?;
        let mut seen_here = 0;
        for (i, image) in moment.disk.survivor_images(budget.images).enumerate() {
            let before = checked.tally.distinct;
            let copy = image.snapshot();
            let found = checked.check(&image, &of_cut).map_err(|e| at(format!("image {i}: {e}")))?;
            if nested && checked.tally.distinct > before && seen_here < budget.nested_images {
                seen_here += 1;
                let (exactly, before) = (of_cut.exactly(found), checked.tally.distinct);
                crash_recovery(&copy, &exactly, &exactly, budget, 1, &mut checked)
                    .map_err(|e| at(format!("image {i}, recovered at {found:?}: {e}")))?;
                checked.tally.nested += checked.tally.distinct - before;
            }
        }
    }
    Ok(checked.tally)
}

/// Stops a writer's open (or the create that finishes an unfinished one), and a compaction as its first act, before each of their operations, and recovers from what that leaves.
pub fn crash_recovery(
    image: &SimDirectory,
    of_cut: &Allowed,
    of_kill: &Allowed,
    budget: Budget,
    depth: usize,
    checked: &mut Checked,
) -> Result<(), String> {
    checked.crashed += 1;
    let probe = Probe::new(image.snapshot(), Progress::default());
    let opened = match Database::open_with(probe.directory(), oracle::options()) {
        // What comes after an unfinished create is another one.
        Err(e) if e.code() == ErrorCode::NotFound => Database::create_with(probe.directory(), oracle::options()),
        opened => opened,
    };
    if let Ok(db) = opened {
        // Once it was synced, what a writer's open showed stays, even if all that it rests on was only in the cache before.
        db.sync().map_err(|e| format!("a sync after a recovery: {e}"))?;
        probe.learn(|p| (p.created, p.synced) = (true, db.snapshot().lsn().0 as usize));
        db.compact().map_err(|e| format!("a compaction after a recovery: {e}"))?;
    }
    let moments = probe.take_moments();
    for (n, moment) in moments.iter().enumerate() {
        let at = |e: String| format!("recovery stopped before {}: {e}", operation_after(&moments, n));
        let now = |allowed: &Allowed| match moment.progress.created {
            true => allowed.exactly(Found::At(moment.progress.synced)),
            false => allowed.clone(),
        };
        let (of_cut, of_kill) = (&now(of_cut), &now(of_kill));
        if depth > 1 {
            let plainest = Budget { nested_images: 2, ..budget };
            crash_recovery(&moment.disk.after_kill(), of_cut, of_kill, plainest, depth - 1, checked).map_err(at)?;
        }
        checked.check(&moment.disk.after_kill(), of_kill).map_err(|e| at(format!("killed: {e}")))?;
        for (i, image) in moment.disk.survivor_images(budget.nested_images).enumerate() {
            checked.check(&image, of_cut).map_err(|e| at(format!("image {i}: {e}")))?;
        }
    }
    checked.crashed -= 1;
    Ok(())
}

/// The operation that the moment `n` stands before.
pub fn operation_after(moments: &[Moment], n: usize) -> String {
    let number = moments[n].disk.operations();
    let trace = moments.last().expect("the end is a moment").disk.trace();
    trace.get(number).map_or("the end".into(), |operation| format!("operation {number} ({operation})"))
}

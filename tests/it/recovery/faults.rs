//! Operations that fail, one at a time or from one on, in every manner: what the program is told stays true.

use std::sync::Arc;

use triune::io::sim::{FailureKind, SimDirectory};
use triune::{Database, ErrorCode};

use super::model::{Op, State, batch_of, document, documents};
use super::oracle::{Allowed, check_reading, options, same_state};
use super::sweep::{Checked, Tally, operation_after};
use super::workloads::{Run, Step, Workload};

/// How an operation is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Once(FailureKind),
    FromThen(FailureKind),
}

impl Fault {
    pub fn plan(self, disk: &SimDirectory, n: usize) {
        match self {
            Fault::Once(kind) => disk.fail(n, kind),
            Fault::FromThen(kind) => disk.fail_from(n, kind),
        }
    }

    fn kind(self) -> FailureKind {
        match self {
            Fault::Once(kind) | Fault::FromThen(kind) => kind,
        }
    }

    /// A sync that reports success without having written anything: what it acknowledged may be lost to a power cut.
    fn lies(self) -> bool {
        self.kind() == FailureKind::Late
    }
}

/// Carries out the workload with a fault at operation `n`, and checks the moments after it.
pub fn survive(workload: &Workload, n: usize, fault: Fault, moments_checked: usize, images: usize) -> Result<Tally, String> {
    let disk = SimDirectory::new();
    fault.plan(&disk, n);
    let Ok(run) = Run::create(disk, workload.options.clone()) else {
        return Err("the fault is in the creation".into());
    };
    for step in &workload.steps {
        run.step(step);
        let failures = run.take_failures();
        let said = |e: String| format!("{step:?}: {e}");
        for failure in &failures {
            expected(failure).map_err(said)?;
        }
        if failures.iter().any(|e| matches!(e.code(), ErrorCode::OutcomeUnknown | ErrorCode::Poisoned)) {
            // A close or a reopen ended with another handle.
            if !matches!(step, Step::Close | Step::Reopen) {
                stopped(&run).map_err(said)?;
            }
            // A sync that failed may have taken from the cache what no sync had confirmed.
            run.probe.learn(|p| p.acknowledged = p.synced);
        }
        if !failures.is_empty() && (run.database().is_none() || is_stopped(&run)) {
            reopen(&run).map_err(said)?;
        }
        live(&run).map_err(said)?;
    }
    let moments = run.probe.take_moments();
    let from = moments.iter().position(|m| m.disk.operations() > n).ok_or("the operation was never reached")?;
    let after: Vec<usize> = (from..moments.len()).collect();
    let mut checked = Checked::default();
    let chosen = after.iter().take(moments_checked).chain(after.last());
    for &at in chosen {
        let moment = &moments[at];
        checked.tally.moments += 1;
        let here = |e: String| format!("stopped before {}: {e}", operation_after(&moments, at));
        let allowed = Allowed::after_power_cut(&moment.progress);
        if fault.lies() {
            // The disk still owes an error, so a writer may fail on it.
            check_reading(&moment.disk.after_kill(), &allowed).map_err(|e| here(format!("killed: {e}")))?;
            continue;
        }
        checked.check(&moment.disk.after_kill(), &allowed).map_err(|e| here(format!("killed: {e}")))?;
        for (i, image) in moment.disk.survivor_images(images).enumerate() {
            checked.check(&image, &allowed).map_err(|e| here(format!("image {i}: {e}")))?;
        }
    }
    Ok(checked.tally)
}

/// What a program may be told when the disk fails.
fn expected(failure: &triune::Error) -> Result<(), String> {
    match failure.code() {
        ErrorCode::Io | ErrorCode::DiskFull | ErrorCode::OutcomeUnknown | ErrorCode::Poisoned => Ok(()),
        _ => Err(format!("a failing disk is told as {failure}")),
    }
}

fn probe_commit(run: &Run) -> Option<triune::Result<triune::Commit>> {
    run.database().map(|db| db.commit(batch_of(&[Op::Put("a", vec![document("refused", "refused")])])))
}

/// Whether the writer says that it stopped.
fn is_stopped(run: &Run) -> bool {
    // An empty sync of the log asks without writing.
    run.database().is_some_and(|db| db.sync().is_err_and(|e| e.code() == ErrorCode::Poisoned))
}

/// A writer that does not know an outcome refuses every write from there on, and reads go on.
fn stopped(run: &Run) -> Result<(), String> {
    let Some(db) = run.database() else { return Ok(()) };
    match probe_commit(run) {
        Some(Err(e)) if e.code() == ErrorCode::Poisoned => {}
        other => return Err(format!("a stopped writer answered {other:?} to a commit")),
    }
    match db.checkpoint() {
        Err(e) if e.code() == ErrorCode::Poisoned => {}
        other => return Err(format!("a stopped writer answered {other:?} to a checkpoint")),
    }
    State::read(&db).map(drop)
}

/// What the live handle shows is what was acknowledged: nothing that failed, nothing that is unknown.
fn live(run: &Run) -> Result<(), String> {
    let Some(db) = run.database() else { return Ok(()) };
    let (lsn, progress) = (db.snapshot().lsn().0 as usize, run.probe.progress());
    let state = progress.states.get(lsn).ok_or(format!("the live handle shows lsn {lsn}"))?;
    same_state(&State::read(&db)?, state, lsn)
}

/// The next process. If the disk fails only once, it opens.
fn reopen(run: &Arc<Run>) -> Result<(), String> {
    let least = run.probe.progress().synced;
    for _ in 0..2 {
        run.step(&Step::Reopen);
        let failures = run.take_failures();
        if let Some(db) = run.database() {
            let lsn = db.snapshot().lsn().0 as usize;
            return if lsn < least { Err(format!("reopened at lsn {lsn}; {least} was acknowledged")) } else { Ok(()) };
        }
        failures.iter().try_for_each(expected)?;
    }
    Ok(())
}

/// A database that was closed with some documents, on a disk without another free byte.
fn on_a_full_disk(steps: &[Step]) -> (SimDirectory, State) {
    let disk = SimDirectory::new();
    let run = Run::create(disk.clone(), options()).unwrap();
    steps.iter().for_each(|step| run.step(step));
    assert!(run.take_failures().is_empty());
    let progress = run.probe.progress();
    let left = disk.after_kill();
    left.disk_limit(left.file_names().iter().map(|name| left.read_file(name).unwrap().len() as u64).sum());
    (left, State::clone(progress.states.last().unwrap()))
}

fn filled() -> Vec<Step> {
    vec![Step::Commit(vec![Op::Create("a"), Op::Put("a", documents("x", 5, "s"))])]
}

#[test]
fn a_full_disk_does_not_stop_what_frees_room() {
    let (disk, _) = on_a_full_disk(&[filled(), vec![Step::Close]].concat());
    let db = Database::open_with(Arc::new(disk.clone()), options()).unwrap();
    let refused = db.put("a", vec![document("y", "no room")]).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::DiskFull, "{refused}");
    assert_eq!(db.delete("a", vec!["x0".into()]).unwrap(), 1, "the first commit of a process, which needs a log");
    assert_eq!(db.clear("a").unwrap(), 4);
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = Database::open_with(Arc::new(disk.survivors_none()), options()).unwrap();
    assert_eq!(db.snapshot().collection("a").unwrap().count(), 0);
}

#[test]
fn a_recovery_without_room_says_so_and_loses_nothing() {
    let (disk, state) = on_a_full_disk(&filled());
    let refused = Database::open_with(Arc::new(disk.clone()), options()).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::DiskFull, "{refused}");
    assert!(refused.to_string().contains("bytes of room"), "{refused}");
    let reading = Database::open_read_only_with(Arc::new(disk.clone()), options()).unwrap();
    assert_eq!(State::read(&reading).unwrap(), state);
    disk.disk_limit(u64::MAX);
    let db = Database::open_with(Arc::new(disk.clone()), options()).unwrap();
    assert_eq!(State::read(&db).unwrap(), state);
}

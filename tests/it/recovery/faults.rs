//! Operations that fail, one at a time or from one on, in every manner: what the program is told stays true.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use triune::io::Directory;
use triune::io::sim::{FailureKind, SimDirectory};
use triune::{Database, ErrorCode, Schema};

use super::model::{Op, State, batch_of, document, documents};
use super::oracle::{Allowed, check, check_reading, options, same_state};
use super::run::Run;
use super::sweep::{Checked, Tally, operation_after};
use super::workloads::{Step, Workload};

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

/// Runs a program on a disk that has room for so many bytes more than it takes when new, and looks at what is left.
fn within(workload: &Workload, room: u64) -> Result<bool, String> {
    let disk = SimDirectory::new();
    let run = Run::create(disk.clone(), workload.options.clone()).map_err(|e| e.to_string())?;
    run.probe.stop_looking();
    disk.disk_limit(disk.used() + room);
    let mut full = false;
    for step in &workload.steps {
        run.step(step);
        for failure in run.take_failures() {
            if !matches!(failure.code(), ErrorCode::DiskFull | ErrorCode::OutcomeUnknown | ErrorCode::Poisoned) {
                return Err(format!("{step:?}: a full disk is told as {failure}"));
            }
            full = true;
        }
        if run.database().is_none() || is_stopped(&run) {
            // Room was made, and the next process opens.
            disk.disk_limit(u64::MAX);
            reopen(&run)?;
            disk.disk_limit(disk.used() + room);
        }
        live(&run).map_err(|e| format!("{step:?}: {e}"))?;
    }
    let progress = run.probe.progress();
    check(&disk.after_kill(), &Allowed::after_kill(&progress)).map_err(|e| format!("killed: {e}"))?;
    for image in disk.survivor_images(2) {
        check(&image, &Allowed::after_power_cut(&progress)).map_err(|e| format!("after a power cut: {e}"))?;
    }
    // What frees room works on the full disk, and so does closing.
    let Some(db) = run.database() else { return Ok(full) };
    drop(run);
    let said = |what: &str, e: triune::Error| format!("{what} on a full disk: {e}");
    let names = db.snapshot().collections();
    for name in &names {
        db.clear(name).map_err(|e| said("clearing", e))?;
    }
    let db = Arc::into_inner(db).expect("the only handle");
    match db.close() {
        Ok(()) => {}
        Err(e) if e.code() == ErrorCode::DiskFull => {}
        Err(e) => return Err(said("closing", e)),
    }
    disk.disk_limit(u64::MAX);
    let after = Database::open_with(Arc::new(disk.after_kill()), options()).map_err(|e| format!("after a full disk: {e}"))?;
    let left: u64 =
        names.iter().map(|name| after.snapshot().collection(name).map(|c| c.count())).sum::<Result<u64, _>>().map_err(|e| e.to_string())?;
    if left == 0 { Ok(full) } else { Err(format!("{left} documents are there after everything was cleared")) }
}

#[test]
fn a_disk_with_room_for_any_number_of_bytes_loses_nothing_and_lets_go_of_documents() {
    let workload = super::workloads::mixed();
    let most = {
        let disk = SimDirectory::new();
        let run = Run::create(disk.clone(), workload.options.clone()).unwrap();
        let before = disk.used();
        workload.steps.iter().for_each(|step| run.step(step));
        let moments = run.probe.take_moments();
        moments.iter().map(|m| m.disk.used()).max().unwrap() - before
    };
    let step = if super::sweep::Budget::of_this_run().full { 1 } else { 1021 };
    let begun = std::time::Instant::now();
    let budgets: Vec<u64> = (0..most + step).step_by(step as usize).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut full = 0;
        while let Some(&room) = budgets.get(next.fetch_add(1, Ordering::Relaxed)) {
            full += usize::from(within(&workload, room).unwrap_or_else(|e| panic!("room for {room} bytes of {most}: {e}")));
        }
        full
    };
    let full: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let all = budgets.len();
    super::report(&format!("disk budgets, {all} of {most} bytes, {full} of them too small"), Tally::default(), begun);
    assert!(full > 10 && full < all, "{full} of {all} budgets were too small");
}

/// A call that only looks fails, in a read-only open, a writer's open and a search: an error of the system, never an end or an empty answer.
#[test]
fn a_read_that_fails_is_an_error_of_the_system_and_changes_nothing() {
    let run = Run::create(SimDirectory::new(), super::workloads::mixed().options).unwrap();
    super::workloads::mixed().steps.iter().for_each(|step| run.step(step));
    let left = run.probe.take_moments().pop().unwrap().disk.after_kill();
    let expected = State::read(&Database::open_read_only_with(Arc::new(left.snapshot()), options()).unwrap()).unwrap();
    let mut failed = 0;
    for (kind, writing) in [(FailureKind::Eio, false), (FailureKind::Eio, true), (FailureKind::Emfile, false), (FailureKind::Emfile, true)]
    {
        for n in 0.. {
            let disk = left.snapshot();
            disk.fail_access(n, kind);
            let before = disk.image_hash();
            let opened = match writing {
                true => Database::open_with(Arc::new(disk.clone()), options()),
                false => Database::open_read_only_with(Arc::new(disk.clone()), options()),
            };
            let read = opened.map_err(|e| (e.code(), e.to_string())).and_then(|db| match State::read(&db) {
                Ok(state) if state == expected => Ok(()),
                Ok(state) => panic!("{kind:?} at call {n}: {}", state.outline()),
                Err(e) => Err((ErrorCode::Io, e)),
            });
            if let Err((code, e)) = &read {
                assert!(
                    *code == ErrorCode::Io && (e.contains("os error 5)") || e.contains("os error 24)")),
                    "{kind:?} at call {n}: {code:?} {e}"
                );
                failed += 1;
            }
            assert!(writing || disk.image_hash() == before, "{kind:?} at call {n}: a reader wrote");
            // Whatever failed: the next open finds everything.
            if writing {
                let again =
                    Database::open_with(Arc::new(disk.after_kill()), options()).unwrap_or_else(|e| panic!("{kind:?} at call {n}: {e}"));
                assert_eq!(State::read(&again).unwrap(), expected, "{kind:?} at call {n}");
            }
            if disk.accesses() <= n {
                break;
            }
        }
    }
    assert!(failed > 50, "{failed}");
}

/// Too many open files, at each create of a workload: told as an error of the system, and nothing is lost.
#[test]
fn a_file_that_cannot_be_made_loses_nothing() {
    let workload = super::workloads::mixed();
    let (creation, moments) = super::sweep::moments_of(&workload);
    let trace = moments.last().unwrap().disk.trace();
    let creates = trace.iter().enumerate().skip(creation.last().unwrap().disk.operations());
    let mut cases = 0;
    for (n, _) in creates.filter(|(_, o)| matches!(o, triune::io::sim::Operation::Create { .. })) {
        survive(&workload, n, Fault::Once(FailureKind::Emfile), 2, 3).unwrap_or_else(|e| panic!("operation {n}: {e}"));
        cases += 1;
    }
    assert!(cases > 8, "{cases}");
}

/// A descriptor whose every second call is interrupted, and whose other calls move one byte at most.
struct Stuttering {
    bytes: std::cell::RefCell<Vec<u8>>,
    calls: std::cell::Cell<usize>,
}

impl Stuttering {
    fn interrupt(&self) -> std::io::Result<()> {
        self.calls.set(self.calls.get() + 1);
        if self.calls.get() % 2 == 1 { Err(std::io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }
}

impl std::os::unix::fs::FileExt for Stuttering {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.interrupt()?;
        let Some(&byte) = self.bytes.borrow().get(offset as usize) else { return Ok(0) };
        buf[0] = byte;
        Ok(1)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> std::io::Result<usize> {
        self.interrupt()?;
        let mut bytes = self.bytes.borrow_mut();
        let at = offset as usize;
        let end = bytes.len().max(at + 1);
        bytes.resize(end, 0);
        bytes[at] = buf[0];
        Ok(1)
    }
}

/// Files are read and written with these two calls of the standard library alone, which go on after a short or interrupted one.
#[test]
fn short_and_interrupted_calls_are_taken_up_again() {
    use std::os::unix::fs::FileExt;
    let file = Stuttering { bytes: Vec::new().into(), calls: 0.into() };
    file.write_all_at(b"every byte", 3).unwrap();
    let mut read = [0; 10];
    file.read_exact_at(&mut read, 3).unwrap();
    assert_eq!(&read, b"every byte");
    assert_eq!(file.read_exact_at(&mut read, 4).unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(file.calls.get(), 2 * (10 + 10 + 10));
}

/// A write that the disk takes only in part: what was taken is cut away again, and the error says that the disk is full.
#[test]
fn a_short_write_of_the_log_is_cut_away() {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("a", Schema::default()).unwrap();
    let log = disk.file_names().into_iter().rfind(|name| name.ends_with(".wal")).unwrap();
    let before = disk.read_file(&log).unwrap();
    for taken in [1, 39, 40, 41, 511, 512, 513, 4000] {
        disk.disk_limit(disk.used() + taken);
        let refused = db.put("a", vec![document("y", &"no room ".repeat(600))]).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::DiskFull, "{taken}: {refused}");
        assert!(disk.read_file(&log).unwrap() == before, "{taken} bytes");
        assert_eq!(disk.open(&log).unwrap().len().unwrap(), before.len() as u64);
    }
}

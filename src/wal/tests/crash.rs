//! Logs after power cuts, kills and failures: a prefix of what was appended, with everything acknowledged, and nothing that was refused.

use super::*;
use crate::io::sim::{CrashMode, FailureKind};

/// At most this many images a moment.
const IMAGES: usize = 300;

/// What a writer told its callers, and which log both slots of HEAD name.
#[derive(Default)]
struct Told {
    active: Option<(u64, Uuid)>,
    /// The greatest lsn acknowledged as durable.
    durable: u64,
    /// Every lsn that was acknowledged in some way, or whose outcome was not reported as a failure, with its payload; a reused lsn has the last.
    appended: Vec<Vec<u8>>,
    /// The process lives on; else it stopped.
    alive: bool,
}

/// A writer: groups synced and not, a rotation, more groups. It stops at the first error that leaves it poisoned.
struct Script<'a> {
    dir: &'a SimDirectory,
    told: Told,
    witness: Option<Witness>,
    attempt: u64,
}

impl Script<'_> {
    fn run(dir: &SimDirectory) -> Told {
        let mut script = Script { dir, told: Told::default(), witness: None, attempt: 0 };
        script.told.alive = script.steps().is_ok();
        script.told
    }

    fn steps(&mut self) -> Result<()> {
        create_witness(self.dir)?;
        let mut log = self.log(1, None)?;
        self.witness = Witness::open(self.dir);
        self.group(&mut log, 1, true)?;
        self.group(&mut log, 2, true)?;
        self.group(&mut log, 2, false)?;
        self.group(&mut log, 1, true)?;
        let mut log = self.log(2, Some(log.link_for_successor()))?;
        self.group(&mut log, 1, false)?;
        self.group(&mut log, 1, true)
    }

    /// Creates a log, and lets HEAD name it.
    fn log(&mut self, sequence: u64, link: Option<Link>) -> Result<WalWriter> {
        let first = Lsn(link.map_or(1, |l| l.last_lsn.0 + 1));
        let log = WalWriter::create(&shared(self.dir), DATABASE, sequence, first, Lsn(first.0 - 1), link)?;
        self.dir.sync().map_err(|e| Error::io("syncing the directory", e))?;
        self.told.active = Some((sequence, log.id()));
        Ok(log)
    }

    /// Appends `count` records. A failed write is cut back, refused, and tried once more with other payloads.
    fn group(&mut self, log: &mut WalWriter, count: u64, sync: bool) -> Result<()> {
        let next = log.last_lsn().0 + 1;
        for _ in 0..2 {
            self.attempt += 1;
            let payloads: Vec<Vec<u8>> = (0..count).map(|i| format!("attempt {} record {i}", self.attempt).into_bytes()).collect();
            let records: Vec<NewRecord<'_>> =
                (next..).zip(&payloads).map(|(lsn, payload)| NewRecord { lsn: Lsn(lsn), kind: RECORD_COMMIT, payload }).collect();
            self.told.appended.extend(payloads.iter().cloned());
            if log.append(&records).is_ok() {
                return if sync { self.sync(log) } else { Ok(()) };
            }
            log.cut_back()?;
            // Refused for certain: it may never come back, not even by a crash before the next write. All before it is durable now.
            self.told.appended.truncate((next - 1) as usize);
            self.told.durable = next - 1;
            create_marker(self.dir)?;
        }
        Ok(())
    }

    fn sync(&mut self, log: &mut WalWriter) -> Result<()> {
        log.sync()?;
        self.told.durable = log.last_lsn().0;
        if let Some(witness) = &mut self.witness {
            witness.record(log.id(), log.durable_lsn(), log.end_offset());
        }
        Ok(())
    }
}

/// An operation that has nothing to do with the log, so that a crash can happen right after a refusal.
fn create_marker(dir: &SimDirectory) -> Result<()> {
    dir.create_new("marker").map(drop).map_err(|e| Error::io("creating a file", e))
}

/// Recovers from what is left, and compares it with what the callers were told.
fn check(image: &SimDirectory, told: &Told) -> std::result::Result<(), String> {
    let Some((sequence, id)) = told.active else { return Ok(()) };
    let recovered = Witness::read(image).and_then(|witness| recover(image, DATABASE, sequence, id, Lsn(0), Lsn(0), witness));
    let recovered = recovered.map_err(|e| format!("refused: {e}"))?;
    if recovered.last_lsn.0 < told.durable {
        return Err(format!("lsn {} is left of {}", recovered.last_lsn, told.durable));
    }
    let payloads: Vec<&[u8]> = recovered.records.iter().map(|r| &*r.payload).collect();
    if !told.appended.iter().map(Vec::as_slice).take(payloads.len()).eq(payloads) {
        return Err("something was changed, or came back".into());
    }
    Ok(())
}

/// Checks what a kill leaves and what power cuts may leave; how many images that were.
fn check_all(dir: &SimDirectory, told: &Told) -> std::result::Result<usize, String> {
    check(&dir.after_kill(), told).map_err(|e| format!("killed: {e}"))?;
    let mut images = 0;
    for image in dir.survivor_images(IMAGES) {
        check(&image, told).map_err(|e| format!("image {images}: {e}"))?;
        images += 1;
    }
    Ok(images)
}

/// A disk on which a torn sector may hold anything.
fn disk() -> SimDirectory {
    let dir = SimDirectory::new();
    dir.set_garbage(true);
    dir
}

#[test]
fn after_a_crash_at_any_operation_every_durable_commit_is_there() {
    let sound = disk();
    assert!(Script::run(&sound).alive);
    let mut images = 0;
    for operation in 0..=sound.operations() {
        for mode in CrashMode::ALL {
            let dir = disk();
            dir.crash_at(operation, mode);
            let told = Script::run(&dir);
            images += check_all(&dir, &told).unwrap_or_else(|e| panic!("crash at {operation} {mode:?}: {e}"));
        }
    }
    assert!(images > 1000, "{images} images");
}

#[test]
fn after_a_failure_of_any_operation_nothing_acknowledged_is_lost_and_nothing_refused_comes_back() {
    let sound = disk();
    assert!(Script::run(&sound).alive);
    for operation in 0..sound.operations() {
        // A sync that lies is not survived by anybody who believes it.
        for kind in FailureKind::REPORTED.into_iter().filter(|&kind| kind != FailureKind::Late) {
            let dir = disk();
            dir.fail(operation, kind);
            let told = Script::run(&dir);
            check_all(&dir, &told).unwrap_or_else(|e| panic!("{kind:?} at {operation}: {e}"));
        }
    }
}

#[test]
fn what_was_refused_for_lack_of_space_does_not_come_back_after_a_crash_at_any_later_operation() {
    let sound = disk();
    assert!(Script::run(&sound).alive);
    for full in 0..sound.operations() {
        for crash in full + 1..full + 5 {
            let dir = disk();
            dir.fail(full, FailureKind::Enospc);
            dir.crash_at(crash, CrashMode::Before);
            let told = Script::run(&dir);
            check_all(&dir, &told).unwrap_or_else(|e| panic!("full at {full}, crash at {crash}: {e}"));
        }
    }
}

#[test]
fn a_sync_that_is_left_out_is_noticed() {
    // The teeth of the tests above. WITNESS is synced only so that it exists.
    let sound = disk();
    assert!(Script::run(&sound).alive);
    for (operation, what) in sound.trace().iter().enumerate().filter(|(_, o)| o.is_sync() && o.to_string() != "sync WITNESS") {
        let unnoticed = (operation..=sound.operations()).all(|crash| {
            let dir = disk();
            dir.fail(operation, FailureKind::Skip);
            dir.crash_at(crash, CrashMode::Before);
            let told = Script::run(&dir);
            check_all(&dir, &told).is_ok()
        });
        assert!(!unnoticed, "leaving out operation {operation}, {what}, goes unnoticed");
    }
}

//! Findings of a review of the engine, each as the scenario that showed it: what must hold whatever fails, and in whatever order threads run.

use std::sync::Arc;
use triune::format::effects::{CatalogChange, CommitEffects};
use triune::format::wal::{RECORD_HEADER_BYTES, RecordHeader, WAL_HEADER_BYTES, WalHeader};
use triune::inspect::{FindingCode, FsckOptions, fsck_directory};
use triune::io::SimDirectory;
use triune::io::sim::{CrashMode, FailureKind, Operation};
use triune::{Database, Document, Durability, Error, ErrorCode, Incarnation, Lsn, Options, Schema, Seq, Uuid, WriteBatch};

/// A simulated disk, and a database on it whose work is all done by its callers.
fn created() -> (SimDirectory, Database) {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), quiet()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    (disk, db)
}

fn quiet() -> Options {
    Options { background: false, ..Options::default() }
}

fn open(disk: &SimDirectory) -> Result<Database, Error> {
    Database::open_with(Arc::new(disk.clone()), quiet())
}

fn put(id: &str) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put("main", vec![Document::new(id).text("one text")]);
    batch
}

fn ids(db: &Database) -> Vec<String> {
    db.snapshot().collection("main").unwrap().scan().map(|d| d.unwrap().1.id.to_string()).collect()
}

#[test]
fn a_commit_after_a_failed_group_is_seen_and_survives_a_checkpoint() {
    let (disk, db) = created();
    disk.fail(disk.operations(), FailureKind::Eio);
    let failed = db.commit_many(vec![put("a"), put("b"), put("c")]);
    assert!(failed.iter().all(|r| r.as_ref().is_err_and(|e| e.code() == ErrorCode::Io)), "{failed:?}");
    assert!(disk.trace().iter().any(|o| matches!(o, Operation::SetLen { .. })), "the log was cut back");

    let vector = Document::new("d").text("kept").vector(vec![1.0, 0.0]);
    db.put("main", vec![vector]).unwrap();
    assert_eq!(ids(&db), ["d"]);
    assert_eq!(db.snapshot().collection("main").unwrap().nearest(&[1.0, 0.0], None, 5).unwrap().len(), 1);
    db.checkpoint().unwrap();
    assert_eq!(ids(&db), ["d"]);
    db.close().unwrap();
    assert_eq!(ids(&open(&disk).unwrap()), ["d"]);
}

#[test]
fn merging_ends_while_deletes_wait_for_their_checkpoint() {
    let (_, db) = created();
    let documents = (0..1200).map(|i| Document::new(format!("{i}")).text("some text")).collect();
    db.put("main", documents).unwrap();
    db.checkpoint().unwrap();
    assert_eq!(db.delete("main", (0..600).map(|i| format!("{i}")).collect()).unwrap(), 600);
    let (done, ended) = std::sync::mpsc::channel();
    let merging = std::thread::spawn(move || {
        db.merge().unwrap();
        done.send(()).unwrap();
        db
    });
    // No measure of speed: without an end there would be none.
    ended.recv_timeout(std::time::Duration::from_secs(60)).expect("merging comes to an end");
    let db = merging.join().unwrap();
    assert_eq!(db.snapshot().collection("main").unwrap().count(), 600);
    db.checkpoint().unwrap();
    db.merge().unwrap();
    assert_eq!(db.snapshot().collection("main").unwrap().count(), 600);
}

#[test]
fn compacting_removes_nothing_that_a_slot_which_may_be_lost_leaves_in_charge() {
    for operation in 0.. {
        let (disk, db) = created();
        db.commit(put("a")).unwrap();
        disk.crash_at(disk.operations() + operation, CrashMode::During);
        let finished = db.checkpoint().is_ok() && !disk.crashed();
        drop(db);
        let killed = disk.after_kill();
        open(&killed).unwrap().compact().unwrap();
        // Power goes, and takes some of what no sync made certain.
        for survivor in killed.survivor_images(100) {
            let db = open(&survivor).unwrap_or_else(|e| panic!("killed at operation {operation} of a checkpoint: {e}"));
            assert_eq!(ids(&db), ["a"], "killed at operation {operation} of a checkpoint");
        }
        if finished {
            break;
        }
    }
}

#[test]
fn a_full_disk_does_not_stop_a_delete_in_a_new_session() {
    let (disk, db) = created();
    db.commit(put("a")).unwrap();
    db.commit(put("b")).unwrap();
    db.close().unwrap();
    let used = disk.file_names().iter().map(|n| disk.read_file(n).unwrap().len() as u64).sum();
    let db = open(&disk).unwrap();
    disk.disk_limit(used);
    assert_eq!(db.commit(put("c")).unwrap_err().code(), ErrorCode::DiskFull);
    assert_eq!(db.delete("main", vec!["a".into()]).unwrap(), 1);
    assert_eq!(ids(&db), ["b"]);
}

#[test]
fn an_interval_that_no_thread_keeps_is_a_sync() {
    let (disk, db) = created();
    db.commit_with(put("a"), Durability::Interval(std::time::Duration::from_millis(50))).unwrap();
    assert_eq!(ids(&open(&disk.survivors_none()).unwrap()), ["a"]);
}

#[test]
fn a_failed_sync_of_the_directory_stops_the_writer() {
    // Such an error may have dropped names for good that a later sync, of another thread too, would claim to have made durable.
    let (disk, db) = created();
    db.commit(put("a")).unwrap();
    let probe = disk.operations();
    db.checkpoint().unwrap();
    let position = disk.trace()[probe..].iter().position(|o| *o == Operation::SyncDirectory).unwrap();

    let (disk, db) = created();
    db.commit(put("a")).unwrap();
    disk.fail(disk.operations() + position, FailureKind::Keep);
    assert!(db.checkpoint().is_err());
    assert_eq!(db.commit(put("b")).unwrap_err().code(), ErrorCode::Poisoned);
    assert_eq!(ids(&db), ["a"]);
    drop(db);
    assert_eq!(ids(&open(&disk.survivors_none()).unwrap()), ["a"]);
}

#[test]
fn of_two_that_create_at_once_one_does_and_loses_nothing() {
    for round in 0..100 {
        let disk = SimDirectory::new();
        let create = |disk: SimDirectory| -> Option<Database> {
            match Database::create_with(Arc::new(disk), quiet()) {
                Ok(db) => {
                    db.create_collection("main", Schema::default()).unwrap();
                    Some(db)
                }
                Err(e) => {
                    assert!(matches!(e.code(), ErrorCode::AlreadyExists | ErrorCode::Locked), "{e}");
                    None
                }
            }
        };
        let other = std::thread::spawn({
            let disk = disk.clone();
            move || create(disk)
        });
        let mine = create(disk.clone());
        let theirs = other.join().unwrap();
        assert!(mine.is_none() || theirs.is_none(), "round {round}");
        if mine.is_some() || theirs.is_some() {
            drop((mine, theirs));
            assert_eq!(open(&disk).unwrap().snapshot().collections(), ["main"], "round {round}");
        }
    }
}

/// Puts other effects into the last record of the youngest log, behind sound checksums.
fn forge(disk: &SimDirectory, change: impl FnOnce(&mut CommitEffects)) {
    let name = disk.file_names().into_iter().rfind(|name| name.ends_with(".wal")).unwrap();
    let mut log = disk.read_file(&name).unwrap();
    let id = Uuid(WalHeader::decode(&log[..WAL_HEADER_BYTES]).unwrap().id);
    let header_at = |at: usize| RecordHeader::decode(&log[at..at + RECORD_HEADER_BYTES], id, at as u64).ok();
    let (at, old) = (WAL_HEADER_BYTES..log.len() - RECORD_HEADER_BYTES).step_by(8).rev().find_map(|at| Some((at, header_at(at)?))).unwrap();
    let payload = at + RECORD_HEADER_BYTES;
    let mut effects = CommitEffects::decode(&log[payload..payload + old.payload_length.get() as usize]).unwrap();
    change(&mut effects);
    let mut forged = Vec::new();
    effects.encode(&mut forged);
    let (lsn, durable) = (Lsn(old.lsn.get()), Lsn(old.durable_lsn.get()));
    let header = RecordHeader::encode(id, at as u64, lsn, durable, old.previous_header_crc.get(), old.kind, &forged);
    log.truncate(at);
    log.extend([zerocopy::IntoBytes::as_bytes(&header), &forged].concat());
    disk.write_file(&name, log);
}

#[test]
fn a_log_that_gives_a_number_twice_is_corrupt() {
    let (disk, db) = created();
    db.commit(put("a")).unwrap();
    db.commit(put("b")).unwrap();
    drop(db);
    type Change = fn(&mut CommitEffects);
    let changes: [(Change, bool); 5] = [
        (|_| {}, true),
        (|e| e.next_seq = Seq(1), false),
        (|e| e.next_incarnation = Incarnation(0), false),
        (|e| e.collections[0].rows[0].seq = Seq(1), false),
        (|e| e.collections[0].rows[0].seq = e.next_seq, false),
    ];
    for (i, (change, sound)) in changes.into_iter().enumerate() {
        let forged = disk.snapshot();
        forge(&forged, change);
        let read_only = Database::open_read_only_with(Arc::new(forged.clone()), quiet()).map(drop);
        for opened in [read_only, open(&forged).map(drop)] {
            match opened {
                Ok(()) => assert!(sound, "change {i} is seen"),
                Err(e) => assert!(!sound && e.code() == ErrorCode::Corrupt, "change {i}: {e}"),
            }
        }
    }
}

#[test]
fn what_opening_refuses_of_a_commit_fsck_calls_primary_damage() {
    let (disk, db) = created();
    db.put("main", vec![Document::new("a").vector(vec![1.0, 2.0])]).unwrap();
    db.put("main", vec![Document::new("b").vector(vec![3.0, 4.0])]).unwrap();
    drop(db);
    type Change = fn(&mut CommitEffects);
    fn begins(e: &mut CommitEffects, incarnation: Incarnation) {
        e.catalog.push(CatalogChange::Create { name: "other".into(), incarnation, schema: Schema::default() });
    }
    let vector = |e: &mut CommitEffects| {
        let row = &mut e.collections[0].rows[0];
        Arc::make_mut(&mut row.document).vector = Some(vec![1.0, 2.0, 3.0].into());
    };
    let descending = |e: &mut CommitEffects| {
        let mut again = e.collections[0].clone();
        e.collections[0].rows[0].seq = e.next_seq;
        Arc::make_mut(&mut again.rows[0].document).id = "c".into();
        e.next_seq = Seq(e.next_seq.0 + 1);
        e.collections.push(again);
    };
    let fixed = |e: &mut CommitEffects| {
        let incarnation = e.collections[0].incarnation;
        e.catalog.push(CatalogChange::FixDimension { incarnation, dimension: 65_535 });
    };
    let changes: [Change; 5] = [vector, descending, fixed, |e| begins(e, e.next_incarnation), |e| begins(e, Incarnation(0))];
    for (i, change) in changes.into_iter().enumerate() {
        let forged = disk.snapshot();
        forge(&forged, change);
        let refused = open(&forged).map(drop).expect_err("no writer opens it");
        assert_eq!(refused.code(), ErrorCode::Corrupt, "change {i}: {refused}");
        let report = fsck_directory(&forged, &FsckOptions::level(2)).unwrap();
        assert!(report.findings.iter().any(|f| f.code == FindingCode::LogRecord), "change {i}: {report:?}");
    }
}

#[test]
fn a_writer_whose_lock_was_replaced_acknowledges_nothing_and_removes_nothing() {
    for again in [false, true] {
        let (disk, db) = created();
        db.commit(put("a")).unwrap();
        disk.remove_file("LOCK");
        if again {
            disk.write_file("LOCK", b"of another writer".to_vec());
        }
        let names = disk.file_names();
        let refused = db.commit(put("b")).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::OutcomeUnknown, "{refused}");
        assert!(refused.to_string().contains("replaced or removed"), "{refused}");
        assert_eq!(db.commit(put("c")).unwrap_err().code(), ErrorCode::Poisoned);
        assert!(db.checkpoint().is_err() && db.compact().is_err());
        assert_eq!(ids(&db), ["a"], "reading goes on");
        drop(db);
        assert_eq!(disk.file_names(), names);
    }
}

//! What `health` tells: what is held, what waits, what failed.

use super::{doc, fresh, main_of, options, put, refused};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use triune::io::sim::{FailureKind, Operation};
use triune::io::{Directory, LockMode, SimDirectory};
use triune::{Database, Durability, ErrorCode, Options, Schema, WriteBatch};

#[test]
fn a_held_snapshot_shows_with_what_only_it_keeps_until_it_is_dropped() {
    let (_disk, db) = fresh();
    put(&db, vec![doc("a", "red fox")]);
    db.checkpoint().unwrap();
    put(&db, vec![doc("b", "blue fox")]);
    db.checkpoint().unwrap();
    assert_eq!(db.health().unwrap().snapshots.count, 0);
    let held = db.snapshot();
    let (collection, clone) = (held.collection("main").unwrap(), held.clone());
    let health = db.health().unwrap();
    assert_eq!((health.snapshots.count, health.snapshots.files, health.snapshots.bytes), (1, 0, 0), "the state needs the same files");
    assert_eq!(health.snapshots.oldest_lsn, Some(held.lsn()));

    db.compact().unwrap();
    put(&db, vec![doc("c", "green fox")]);
    let second = db.snapshot();
    let snapshots = db.health().unwrap().snapshots;
    assert_eq!((snapshots.count, snapshots.files, snapshots.oldest_lsn), (2, 2, Some(held.lsn())));
    assert!(snapshots.bytes > 0 && snapshots.oldest_age.is_some());

    drop((second, held, clone));
    assert_eq!(db.health().unwrap().snapshots.files, 2, "a collection holds its snapshot");
    assert_eq!(collection.count(), 2);
    drop(collection);
    let snapshots = db.health().unwrap().snapshots;
    assert_eq!((snapshots.count, snapshots.files, snapshots.bytes), (0, 0, 0));
    assert_eq!((snapshots.oldest_age, snapshots.oldest_lsn), (None, None));
}

#[test]
fn garbage_waits_for_a_process_that_is_opening_and_then_goes() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "red fox")]);
    let opening = disk.try_lock("HEAD", LockMode::Shared).unwrap().expect("nobody holds it");
    db.checkpoint().unwrap();
    let garbage = db.health().unwrap().garbage;
    assert!(garbage.delayed_by_reader && garbage.files > 0 && garbage.bytes > 0, "{garbage:?}");
    let seen = Database::open_read_only_with(Arc::new(disk.clone()), options()).unwrap().health().unwrap();
    assert_eq!((seen.garbage.files, seen.garbage.bytes), (garbage.files, garbage.bytes), "another process sees the same files");

    drop(opening);
    db.compact().unwrap();
    let garbage = db.health().unwrap().garbage;
    assert_eq!((garbage.files, garbage.bytes, garbage.delayed_by_reader), (0, 0, false));
}

#[test]
fn merges_and_memory_and_unsynced_bytes_wait_until_they_are_seen_to() {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk), Options { merge_fan_in: 4, ..options() }).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    for i in 0..4 {
        assert_eq!(db.health().unwrap().merges.segments, 0);
        put(&db, vec![doc(&i.to_string(), "red fox")]);
        assert!(db.health().unwrap().memtable_bytes > 0);
        db.checkpoint().unwrap();
        assert_eq!(db.health().unwrap().memtable_bytes, 0);
    }
    let waiting = db.health().unwrap().merges;
    assert!(waiting.segments == 4 && waiting.bytes > 0, "{waiting:?}");
    db.merge().unwrap();
    assert_eq!(db.health().unwrap().merges.segments, 0);

    let mut batch = WriteBatch::new();
    batch.put("main", vec![doc("late", "red fox")]);
    db.commit_with(batch, Durability::Buffered).unwrap();
    assert!(db.health().unwrap().unsynced_bytes > 0);
    db.sync().unwrap();
    assert_eq!(db.health().unwrap().unsynced_bytes, 0);
}

/// Until a thread has done what it was called for.
fn until(db: &Database, done: impl Fn(&triune::Health) -> bool) -> triune::Health {
    loop {
        let health = db.health().unwrap();
        if done(&health) {
            return health;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_merge_that_fails_in_the_background_shows_its_error_until_the_work_is_done() {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    for name in ["damaged", "main"] {
        db.create_collection(name, Schema::default()).unwrap();
    }
    db.put("damaged", vec![doc("a", "red fox")]).unwrap();
    db.checkpoint().unwrap();
    let file = disk.file_names().into_iter().find(|n| n.starts_with("s-")).unwrap();
    db.put("damaged", vec![doc("b", "red fox")]).unwrap();
    db.checkpoint().unwrap();
    drop(db);
    let length = disk.read_file(&file).unwrap().len();
    disk.write_file(&file, vec![0x5a; length]);

    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let options = Options { background: true, merge_fan_in: 2, memtable_bytes: 1, ..Options::default() };
    let db = Database::open_with(Arc::new(disk.clone()), options).unwrap();
    let health = until(&db, |h| h.background_error.is_some());
    let error = health.background_error.unwrap();
    assert_eq!(error.code, ErrorCode::Corrupt);
    assert!(error.message.contains(&file) && error.time_ms >= now, "{error:?}");
    assert_eq!(health.merges.segments, 2, "they are still due");
    assert_eq!(health.poisoned, None);

    db.drop_collection("damaged").unwrap();
    put(&db, vec![doc("c", "red fox")]);
    until(&db, |h| h.background_error.is_none() && h.waiting_flushes == 0);
    assert_eq!(main_of(&db).count(), 1);
    assert_eq!(db.take_background_error().unwrap().code(), ErrorCode::Corrupt, "and is still there to be taken");
}

#[test]
fn a_writer_that_stopped_says_why() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "")]);
    assert_eq!(db.health().unwrap().poisoned, None);
    // The write, and the sync of taking it back.
    disk.fail_from(disk.operations(), FailureKind::Eio);
    refused(db.put("main", vec![doc("b", "")]), ErrorCode::OutcomeUnknown, &[]);
    assert!(db.health().unwrap().poisoned.is_some());
}

/// A database whose checkpoint is to remove a file, and the operation that does so.
fn before_an_unlink() -> (SimDirectory, Database, usize) {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "red fox")]);
    let start = disk.operations();
    db.checkpoint().unwrap();
    let unlink = disk.trace()[start..].iter().position(|o| matches!(o, Operation::Unlink { .. })).unwrap();
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "red fox")]);
    let at = disk.operations() + unlink;
    (disk, db, at)
}

#[test]
fn a_checkpoint_that_cannot_remove_files_is_made_and_health_tells() {
    let (disk, db, unlink) = before_an_unlink();
    disk.fail(unlink, FailureKind::Eio);
    db.checkpoint().unwrap();
    let health = db.health().unwrap();
    assert_eq!(health.background_error.unwrap().code, ErrorCode::Io);
    assert!(health.garbage.files > 0 && !health.garbage.delayed_by_reader);
    assert_eq!(main_of(&db).stats().unwrap().segments, 1);

    // A close that cannot is an error that says what stands.
    let (disk, db, unlink) = before_an_unlink();
    disk.fail_from(unlink, FailureKind::Eio);
    refused(db.close(), ErrorCode::Io, &["removing", "every commit is in the files"]);
    let db = Database::open_with(Arc::new(disk.after_kill()), options()).unwrap();
    assert_eq!((main_of(&db).count(), db.recovery().replayed_commits), (1, 0));
}

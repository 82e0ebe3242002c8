//! What only the inside can arrange: moments between two steps of another thread.

use super::Database;
use super::batch::Staged;
use super::commit::Request;
use super::core::Core;
use crate::WriteBatch;
use crate::document::Document;
use crate::error::ErrorCode;
use crate::io::SimDirectory;
use crate::io::sim::{FailureKind, Operation};
use crate::options::{Durability, Options, Schema, Thresholds};
use crate::progress::{Observer, Progress};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Batches of more than 600 bytes land as segments.
fn options() -> Options {
    let thresholds = Thresholds { record_bytes: 600, ..Thresholds::default() };
    Options { background: false, thresholds, ..Options::default() }
}

fn created() -> (SimDirectory, Database) {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    (disk, db)
}

fn put(collection: &str, text: &str) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(collection, vec![Document::new("a").text(text)]);
    batch
}

#[test]
fn a_landed_file_stays_while_replay_would_ask_for_it() {
    let (disk, db) = created();
    db.commit(put("main", "small")).unwrap();
    let mut batch = WriteBatch::new();
    batch.create_collection("brief", Schema::default());
    batch.put("brief", vec![Document::new("a").text("word ".repeat(200))]);
    db.commit(batch).unwrap();
    db.drop_collection("brief").unwrap();
    // What the background thread does: flushes what was frozen before the batch landed, and removes what nothing reaches.
    {
        let _maintenance = db.core.maintenance.lock();
        db.core.flush_frozen().unwrap();
    }
    let db = Database::open_with(Arc::new(disk.after_kill()), options()).unwrap();
    assert_eq!(db.snapshot().collections(), ["main"]);
}

#[test]
fn a_writer_that_stopped_removes_nothing_that_its_last_record_names() {
    let (disk, db) = created();
    let start = disk.operations();
    db.commit(put("main", &"word ".repeat(200))).unwrap();
    let last_sync = disk.trace()[start..].iter().rposition(Operation::is_sync).unwrap();

    let (disk, db) = created();
    disk.fail(disk.operations() + last_sync, FailureKind::Eio);
    let error = db.commit(put("main", &"word ".repeat(200))).unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutcomeUnknown);
    db.core.collect_garbage().unwrap();
    assert_eq!(db.snapshot().collection("main").unwrap().count(), 0);
    Database::open_with(Arc::new(disk.after_kill()), options()).unwrap();
}

#[test]
fn what_a_stopped_writer_staged_is_never_shown() {
    let (disk, db) = created();
    // The write, then the sync.
    disk.fail(disk.operations() + 1, FailureKind::Eio);
    assert_eq!(db.commit(put("main", "small")).unwrap_err().code(), ErrorCode::OutcomeUnknown);
    // As a merge does that was under way.
    db.core.publish(&db.core.writer.lock());
    assert_eq!(db.snapshot().collection("main").unwrap().count(), 0);
}

#[test]
fn a_panic_of_the_leader_answers_everyone_and_stops_the_writer() {
    let (_, db) = created();
    let request = |text: &str| {
        let staged = Staged::prepare(put("main", text), 0, |_| Some(Schema::default())).unwrap();
        Request::new(staged, Durability::Sync, 0)
    };
    let (first, twice, waiting) = (request("first"), request("twice"), request("waiting"));
    // A request that is led twice is a bug, and panics.
    db.core.queue.lock().extend([first.clone(), twice.clone(), twice, waiting.clone()]);
    assert!(catch_unwind(AssertUnwindSafe(|| db.commit(put("main", "leader")))).is_err());
    for request in [first, waiting] {
        assert_eq!(request.take_answer().unwrap().unwrap_err().code(), ErrorCode::OutcomeUnknown);
    }
    assert_eq!(db.commit(put("main", "after")).unwrap_err().code(), ErrorCode::Poisoned);
    assert_eq!(db.snapshot().collection("main").unwrap().count(), 0);
}

#[test]
fn a_commit_looks_for_work_without_the_writers_lock() {
    let (_, db) = created();
    db.commit(put("main", "small")).unwrap();
    // Whoever holds it leads the next group; taking it here a second time would never end.
    let _leading = db.core.writer.lock();
    db.core.after_commit();
}

#[test]
fn an_interval_is_kept_while_a_merge_and_a_checkpoint_take_long() {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk), Options { background: true, ..options() }).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    let _long = (db.core.merging.lock(), db.core.maintenance.lock());
    db.commit_with(put("main", "small"), Durability::Interval(std::time::Duration::from_millis(1))).unwrap();
    while db.health().unwrap().unsynced_bytes > 0 {
        std::thread::yield_now();
    }
}

/// A database with a commit that was promised to be synced some time, and whose thread is asleep: it has none.
fn promised() -> (SimDirectory, Database) {
    let (disk, db) = created();
    db.core.background.promise(std::time::Duration::from_secs(3600));
    db.commit_with(put("main", "promised"), Durability::Buffered).unwrap();
    (disk, db)
}

fn text_of(disk: SimDirectory) -> Option<String> {
    let db = Database::open_with(Arc::new(disk), options()).unwrap();
    let found = db.snapshot().collection("main").unwrap().get("a").unwrap();
    found.map(|document| document.text.to_string())
}

#[test]
fn dropping_a_handle_keeps_what_was_promised_and_no_more() {
    let (disk, db) = promised();
    drop(db);
    assert_eq!(text_of(disk.survivors_none()).as_deref(), Some("promised"));

    let (disk, db) = created();
    db.commit_with(put("main", "not promised"), Durability::Buffered).unwrap();
    let before = disk.operations();
    drop(db);
    assert_eq!((disk.operations(), text_of(disk.survivors_none())), (before, None));

    // A sync that fails is no panic, and nothing is written after it.
    let (disk, db) = promised();
    let before = disk.operations();
    disk.fail(before, FailureKind::Eio);
    drop(db);
    assert_eq!(disk.operations(), before + 1, "{:?}", &disk.trace()[before..]);
    assert_eq!(text_of(disk.after_kill()).as_deref(), Some("promised"));
}

#[test]
fn a_close_that_is_refused_keeps_what_was_promised() {
    let (disk, db) = promised();
    // As after a failed sync of the directory: no new file can be relied on, but the log can.
    db.core.names_unknown.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(db.close().unwrap_err().code(), ErrorCode::Poisoned);
    assert_eq!(text_of(disk.survivors_none()).as_deref(), Some("promised"));
}

#[test]
fn a_count_that_does_not_hold_names_the_files_in_which_it_does_not() {
    let (disk, db) = created();
    db.commit(put("main", "small")).unwrap();
    db.checkpoint().unwrap();
    let file = disk.file_names().into_iter().find(|n| n.starts_with("s-")).unwrap();
    {
        // As a bug of ours would: a total that no segment has.
        let mut w = db.core.writer.lock();
        let collections = &mut Arc::make_mut(&mut w.version).collections;
        collections.values_mut().for_each(|c| Arc::make_mut(c).totals.documents += 1);
    }
    let mut batch = WriteBatch::new();
    batch.put("main", vec![Document::new("b")]);
    db.commit(batch).unwrap();
    let crate::Error::Corrupt(damage) = db.checkpoint().unwrap_err() else { panic!("it is damage") };
    assert_eq!((damage.file, damage.what.contains("counts 3 documents")), (file, true), "{}", damage.what);
}

/// The merge in the background is held at its first document until it is asked to give way.
#[test]
fn a_compaction_does_not_wait_for_a_merge_that_it_would_do_again() {
    let disk = SimDirectory::new();
    // How many merges the thread in the background began, and how many others did.
    let (began, others) = (Arc::new((Mutex::new(0), Condvar::new())), Arc::new(AtomicU64::new(0)));
    let core: Arc<OnceLock<Weak<Core>>> = Arc::default();
    let observer = Observer::new({
        let (began, others, core) = (began.clone(), others.clone(), core.clone());
        move |progress| {
            let Progress::Rewritten { done: 0, .. } = progress else { return };
            let core = core.get().and_then(Weak::upgrade).expect("nothing is merged before it is set, nor after it is closed");
            if !core.background.is_own_thread() {
                others.fetch_add(1, Ordering::Relaxed);
                return;
            }
            *began.0.lock() += 1;
            began.1.notify_all();
            // Whoever never asks fails below, in place of waiting for ever.
            let until = Instant::now() + Duration::from_secs(30);
            while !core.background.stop_flag().load(Ordering::Relaxed) && Instant::now() < until {
                std::thread::yield_now();
            }
        }
    });
    let options = Options { background: true, observer: Some(observer), merge_fan_in: 2, ..Options::default() };
    let db = Database::create_with(Arc::new(disk.clone()), options).unwrap();
    let _ = core.set(Arc::downgrade(&db.core));
    db.create_collection("main", Schema::default()).unwrap();
    for id in ["a", "b"] {
        db.put("main", vec![Document::new(id).text("two segments"), Document::new(format!("{id}{id}")).text("of two")]).unwrap();
        db.checkpoint().unwrap();
    }
    db.core.background.call();
    let mut begun = began.0.lock();
    while *begun == 0 {
        began.1.wait(&mut begun);
    }
    drop(begun);
    db.compact().unwrap();
    // There would have been nothing left to merge.
    assert_eq!((*began.0.lock(), others.load(Ordering::Relaxed)), (1, 1));
    assert_eq!(db.snapshot().collection("main").unwrap().stats().unwrap().segments, 1);
    assert!(db.take_background_error().is_none());
}

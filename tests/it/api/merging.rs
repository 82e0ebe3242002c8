//! Checkpoints and merges: when they run changes no answer, and they come to an end.

use super::{doc, fresh, ids, main_of, open, options, put};
use std::collections::BTreeMap;
use std::sync::Arc;
use triune::io::SimDirectory;
use triune::io::sim::{FailureKind, Operation};
use triune::{Database, ErrorCode, IoMode, Mode, Options, Schema, Search};

#[test]
fn merging_ends_when_many_rows_died_since_the_last_checkpoint() {
    let (disk, db) = fresh();
    put(&db, (0..1500).map(|i| doc(&i.to_string(), "words")).collect());
    db.checkpoint().unwrap();
    db.delete("main", (0..1000).map(|i| i.to_string()).collect()).unwrap();
    // Nothing that died since the manifest may be dropped yet, so there is nothing to do.
    let files = disk.file_names();
    db.merge().unwrap();
    assert_eq!(disk.file_names(), files);
    db.checkpoint().unwrap();
    let before = disk.file_names();
    db.merge().unwrap();
    assert_ne!(disk.file_names(), before, "two thirds of the segment are dead and stay");
    assert_eq!(main_of(&db).count(), 500);
}

#[test]
fn compacting_ends_while_others_delete() {
    let (_disk, db) = fresh();
    for part in 0..10 {
        put(&db, (0..40).map(|i| doc(&format!("{part} {i}"), "words")).collect());
        db.checkpoint().unwrap();
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut ids = (0..400).map(|n| format!("{} {}", n % 10, n / 10));
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                match ids.next() {
                    Some(id) => assert_eq!(db.delete("main", vec![id]).unwrap(), 1),
                    None => return,
                }
            }
        });
        (0..3).for_each(|_| db.compact().unwrap());
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    db.compact().unwrap();
    let main = main_of(&db);
    assert_eq!(main.count() as usize, ids(&main).len());
    assert!(main.stats().unwrap().segments <= 1);
}

/// What `put`s and deletes of several threads in collections of their own leave behind, against what they should.
fn churn(options: Options) {
    const THREADS: usize = 3;
    let disk = SimDirectory::new();
    let open = || Database::open_with(Arc::new(disk.clone()), options.clone()).unwrap();
    let db = Database::create_with(Arc::new(disk.clone()), options.clone()).unwrap();
    for t in 0..THREADS {
        db.create_collection(&format!("c{t}"), Schema::default()).unwrap();
    }
    let text = |n: usize| format!("words of number {n} {}", "and the same again ".repeat(n % 40));
    let write = |db: &Database, t: usize, from: usize| -> BTreeMap<String, usize> {
        let (mut expected, name) = (BTreeMap::new(), format!("c{t}"));
        for n in from..from + 300 {
            let id = format!("{}", n * 7 % 180);
            if n % 5 == 4 {
                let existed = expected.remove(&id).is_some();
                assert_eq!(db.delete(&name, vec![id]).unwrap() == 1, existed || n >= 300);
            } else {
                db.put(&name, vec![doc(&id, &text(n)).vector([n as f32, 1.0]).source(format!("s{}", n % 4))]).unwrap();
                expected.insert(id, n);
            }
            if n % 50 == 0 {
                let snapshot = db.snapshot().collection(&name).unwrap();
                assert_eq!(snapshot.count() as usize, ids(&snapshot).len());
            }
        }
        expected
    };
    let expected: Vec<BTreeMap<String, usize>> = std::thread::scope(|scope| {
        let (db, write) = (&db, &write);
        let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || write(db, t, 0))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let check = |db: &Database, what: &str| {
        for (t, expected) in expected.iter().enumerate() {
            let c = db.snapshot().collection(&format!("c{t}")).unwrap();
            let found: BTreeMap<String, String> = c.scan().map(|d| d.unwrap().1).map(|d| (d.id.into(), d.text.into())).collect();
            let wanted: BTreeMap<String, String> = expected.iter().map(|(id, n)| (id.clone(), text(*n))).collect();
            assert!(found == wanted, "{what}: collection {t} differs");
            let per_source: u64 = c.sources().unwrap().iter().map(|s| s.documents).sum();
            assert_eq!((c.count(), per_source), (wanted.len() as u64, wanted.len() as u64), "{what}");
            let ask = |mode| {
                let search = Search { query: Some("number".into()), vector: Some(vec![1.0, 0.0]), mode, k: 1000, ..Search::default() };
                c.search(&search).unwrap().hits.len()
            };
            assert_eq!((ask(Mode::Text), ask(Mode::Vector)), (wanted.len(), wanted.len()), "{what}");
        }
    };
    check(&db, "at the end");
    assert!(db.take_background_error().is_none());
    drop(db);
    let db = open();
    check(&db, "reopened");
    db.compact().unwrap();
    check(&db, "compacted");
    db.close().unwrap();
    check(&open(), "closed and opened");
}

#[test]
fn checkpoints_and_merges_in_the_background_change_no_answer() {
    churn(Options { background: true, memtable_bytes: 8 << 10, wal_bytes: 64 << 10, merge_fan_in: 2, ..Options::default() });
}

#[test]
fn checkpoints_and_merges_inside_commits_change_no_answer() {
    churn(Options { memtable_bytes: 8 << 10, wal_bytes: 64 << 10, merge_fan_in: 3, ..options() });
}

#[test]
fn reading_by_system_calls_changes_no_answer() {
    churn(Options { io_mode: IoMode::Pread, memtable_bytes: 16 << 10, merge_fan_in: 2, ..options() });
}

#[test]
fn compacting_leaves_one_segment_and_nothing_that_is_not_needed() {
    let (disk, db) = fresh();
    for round in 0..4 {
        put(&db, (0..10).map(|i| doc(&format!("{round} {i}"), "words")).collect());
        db.delete("main", vec![format!("{round} 3")]).unwrap();
        db.checkpoint().unwrap();
    }
    db.compact().unwrap();
    assert_eq!((main_of(&db).stats().unwrap().segments, main_of(&db).count()), (1, 36));
    let count = |start: &str| disk.file_names().iter().filter(|n| n.starts_with(start)).count();
    assert_eq!((count("s-"), count("d-"), count("m-")), (1, 0, 1), "{:?}", disk.file_names());
    // Doing it again does nothing.
    let names = disk.file_names();
    db.compact().unwrap();
    assert_eq!(disk.file_names(), names);
    db.clear("main").unwrap();
    db.compact().unwrap();
    assert_eq!((count("s-"), count("d-")), (0, 0), "{:?}", disk.file_names());
    db.close().unwrap();
    assert_eq!(main_of(&open(&disk)).count(), 0);
}

/// Removing what a compaction replaced is its last step: an error of that does not look as if nothing had been done.
#[test]
fn a_compaction_that_cannot_remove_the_old_files_says_that_it_stands() {
    let scattered = || {
        let (disk, db) = fresh();
        for part in 0..4 {
            put(&db, (0..10).map(|i| doc(&format!("{part} {i}"), "words")).collect());
            db.checkpoint().unwrap();
        }
        (disk, db)
    };
    let (disk, db) = scattered();
    let before = disk.operations();
    db.compact().unwrap();
    let trace = disk.trace();
    let published = trace.iter().rposition(|o| matches!(o, Operation::SyncFile { name } if name == "HEAD")).unwrap();
    let mut told = 0;
    for n in published + 1 - before..trace.len() - before {
        let (disk, db) = scattered();
        disk.fail_from(disk.operations() + n, FailureKind::Eio);
        let Err(e) = db.compact() else { continue };
        assert!(e.code() == ErrorCode::Io && e.to_string().contains("what was compacted stands"), "operation {n}: {e}");
        let reopened = open(&disk.after_kill());
        assert_eq!((main_of(&reopened).count(), main_of(&reopened).stats().unwrap().segments), (40, 1), "operation {n}");
        told += 1;
    }
    assert!(told > 0);
}

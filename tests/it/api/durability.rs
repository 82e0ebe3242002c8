//! What is there after a handle was dropped, a process was killed or the power went.

use super::{doc, fresh, ids, main_of, open, options, put};
use std::sync::Arc;
use std::time::Duration;
use triune::inspect::{FsckOptions, fsck_directory};
use triune::io::SimDirectory;
use triune::io::sim::FailureKind;
use triune::{Database, Durability, Options, WriteBatch};

fn one(id: &str) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put("main", vec![doc(id, "text")]);
    batch
}

#[test]
fn dropping_a_handle_loses_nothing_that_was_acknowledged() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "")]);
    db.checkpoint().unwrap();
    put(&db, vec![doc("b", "")]);
    db.commit_with(one("c"), Durability::Buffered).unwrap();
    drop(db);
    let db = open(&disk);
    assert_eq!((db.recovery().replayed_commits, &db.recovery().torn_tail), (2, &None));
    assert_eq!(ids(&main_of(&db)), ["a", "b", "c"]);
    drop(db);
    // A recovery ends with a checkpoint.
    assert_eq!(open(&disk).recovery().replayed_commits, 0);
}

#[test]
fn a_synced_commit_survives_a_power_cut_and_takes_earlier_ones_with_it() {
    let (disk, db) = fresh();
    db.commit_with(one("a"), Durability::Buffered).unwrap();
    db.commit_with(one("b"), Durability::Sync).unwrap();
    db.commit_with(one("c"), Durability::Buffered).unwrap();
    assert_eq!(ids(&main_of(&open(&disk.survivors_none()))), ["a", "b"]);
    db.sync().unwrap();
    assert_eq!(ids(&main_of(&open(&disk.survivors_none()))), ["a", "b", "c"]);
}

#[test]
fn a_buffered_commit_survives_a_kill_and_is_whole_or_gone_after_a_power_cut() {
    let (disk, db) = fresh();
    put(&db, vec![doc("synced", "")]);
    for i in 0..3 {
        db.commit_with(one(&format!("{i}")), Durability::Buffered).unwrap();
    }
    assert_eq!(ids(&main_of(&open(&disk.after_kill()))), ["synced", "0", "1", "2"]);
    let mut left = std::collections::BTreeSet::new();
    for survivor in disk.survivor_images(100) {
        let found = ids(&main_of(&open(&survivor)));
        assert!(["synced", "0", "1", "2"].map(String::from).starts_with(&found), "{found:?} is no prefix");
        left.insert(found.len());
    }
    assert!(left.first() == Some(&1) && left.last() == Some(&4), "{left:?}");
}

#[test]
fn at_most_16_mib_are_ever_unsynced() {
    let (disk, db) = fresh();
    put(&db, vec![doc("first", "")]);
    let text = "some text that fills the log ".repeat(40_000);
    for i in 0..20 {
        let mut batch = WriteBatch::new();
        batch.put("main", vec![doc(&format!("{i}"), &text)]);
        db.commit_with(batch, Durability::Buffered).unwrap();
    }
    let lost = 21 - main_of(&open(&disk.survivors_none())).count();
    assert!(lost as usize * text.len() <= triune::limits::UNSYNCED_BYTES_MAX as usize && lost < 20, "{lost} of 20 commits were lost");
}

#[test]
fn an_interval_commit_is_synced_in_the_background() {
    let interval = Durability::Interval(Duration::from_millis(1));
    // As the database's durability, and as that of one commit.
    for (of_database, of_commit) in
        [(interval, interval), (Durability::Sync, interval), (Durability::Buffered, Durability::Interval(Duration::ZERO))]
    {
        let disk = SimDirectory::new();
        let options = Options { durability: of_database, background: true, ..options() };
        let db = Database::create_with(Arc::new(disk.clone()), options).unwrap();
        db.create_collection("main", triune::Schema::default()).unwrap();
        db.commit_with(one("a"), of_commit).unwrap();
        // It is visible at once; when it is synced is not for this test to say, only that it is without another commit.
        assert_eq!(main_of(&db).count(), 1);
        let durable = || {
            let survivor = disk.survivors_none();
            let reader = super::open_read_only(&survivor);
            reader.is_ok_and(|db| db.snapshot().collection("main").is_ok_and(|main| main.count() == 1))
        };
        let synced = (0..10_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            durable()
        });
        assert!(synced, "the background never synced");
        assert!(db.take_background_error().is_none());
        db.close().unwrap();
    }
}

#[test]
fn an_interval_is_kept_by_a_handle_that_is_dropped_before_it_is_over() {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), Options { background: true, ..options() }).unwrap();
    db.create_collection("main", triune::Schema::default()).unwrap();
    let interval = Durability::Interval(Duration::from_secs(3600));
    db.commit_with(one("first"), interval).unwrap();
    // The first promise starts the thread, which may sync once before it sleeps; it sleeps when the next commit comes.
    std::thread::sleep(Duration::from_millis(50));
    db.commit_with(one("next"), interval).unwrap();
    drop(db);
    let db = open(&disk.survivors_none());
    assert_eq!((ids(&main_of(&db)), &db.recovery().torn_tail), (vec!["first".to_string(), "next".into()], &None));
}

#[test]
fn without_a_background_an_interval_commit_is_synced_at_once() {
    let (disk, db) = fresh();
    db.commit_with(one("a"), Durability::Interval(Duration::from_secs(3600))).unwrap();
    assert_eq!(ids(&main_of(&open(&disk.survivors_none()))), ["a"]);
}

#[test]
fn closing_makes_every_commit_durable() {
    let (disk, db) = fresh();
    db.commit_with(one("a"), Durability::Buffered).unwrap();
    db.close().unwrap();
    let db = open(&disk.survivors_none());
    assert_eq!((ids(&main_of(&db)), db.recovery().replayed_commits), (vec!["a".to_string()], 0));
}

#[test]
fn a_large_batch_is_one_commit() {
    let (disk, db) = fresh();
    put(&db, vec![doc("0", "before")]);
    // More than a record of the log can hold: it lands as a segment.
    let text = "words that do not fit into one record ".repeat(6_000);
    let documents: Vec<_> = (0..60).map(|i| doc(&format!("{i}"), &text)).collect();
    assert!(documents.iter().map(|d| d.text.len()).sum::<usize>() > triune::limits::RECORD_BYTES_MAX);
    let before = main_of(&db);
    let commit = db.put("main", documents).unwrap();
    assert_eq!((commit.outcomes[0].written, before.count(), main_of(&db).count()), (60, 1, 60));
    put(&db, vec![doc("after", "")]);
    db.delete("main", vec!["5".into()]).unwrap();
    let expected: Vec<String> = (0..60).filter(|i| *i != 5).map(|i| i.to_string()).chain(["after".to_string()]).collect();
    for disk in [disk.survivors_none(), disk.survivors_all(), disk.after_kill()] {
        let db = open(&disk);
        assert_eq!(ids(&main_of(&db)), expected);
        db.close().unwrap();
        assert_eq!(ids(&main_of(&open(&disk))), expected);
    }
}

/// A closed database, some of whose files somebody removed.
fn without(names: &[&str]) -> SimDirectory {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "")]);
    db.close().unwrap();
    names.iter().for_each(|name| disk.remove_file(name));
    disk
}

#[test]
fn a_witness_and_a_ballast_that_were_removed_are_made_again_by_the_next_writer_that_commits() {
    let disk = without(&["WITNESS", "BALLAST"]);
    let before = disk.trace().len();
    open(&disk).close().unwrap();
    // It left its pid, and no more.
    assert!(disk.trace()[before..].iter().all(|o| o.to_string().starts_with("write LOCK")), "{:?}", &disk.trace()[before..]);
    let db = open(&disk);
    put(&db, vec![doc("b", "")]);
    let witness = disk.read_file("WITNESS").unwrap();
    assert!(witness.len() == 1024 && witness.starts_with(b"TRIUNEWT"), "the first commit is no evidence");
    db.close().unwrap();
    let report = fsck_directory(&disk, &FsckOptions::level(3)).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
    for left in [disk.survivors_none(), disk.survivors_all()] {
        assert_eq!(ids(&main_of(&open(&left))), ["a", "b"]);
    }
}

#[test]
fn no_commit_waits_for_a_witness_or_a_ballast_that_cannot_be_made() {
    let session = |disk: &SimDirectory| {
        let db = open(disk);
        put(&db, vec![doc("b", "")]);
        db.close().unwrap();
        assert_eq!(ids(&main_of(&open(disk))), ["a", "b"]);
    };
    let sound = without(&["WITNESS", "BALLAST"]);
    let before = sound.operations();
    session(&sound);
    let mut failed = 0;
    for (n, operation) in sound.trace().iter().enumerate().skip(before) {
        if operation.to_string().split(' ').any(|word| ["WITNESS", "BALLAST"].contains(&word)) {
            let disk = without(&["WITNESS", "BALLAST"]);
            disk.fail(n, FailureKind::Enospc);
            session(&disk);
            failed += 1;
        }
    }
    assert!(failed >= 6, "{failed} operations");
}

//! Many small collections: one pass for all, few files, few descriptors; and files that are mostly waste go.

use super::watched::Watched;
use super::{doc, fresh, main_of, open_read_only, options, put, refused, try_open};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use triune::io::SimDirectory;
use triune::{Database, ErrorCode, IoMode, Options, Schema, WriteBatch};

const COLLECTIONS: usize = 200;

fn name(collection: usize) -> String {
    format!("c{collection:03}")
}

/// What every collection gets, in one commit for all, brought into segments.
fn for_all(db: &Database, collections: usize, fill: impl Fn(&mut WriteBatch, String)) {
    let mut batch = WriteBatch::new();
    (0..collections).for_each(|c| fill(&mut batch, name(c)));
    db.commit(batch).unwrap();
    db.checkpoint().unwrap();
}

fn with_collections(disk: &SimDirectory, collections: usize) -> Database {
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    for_all(&db, collections, |b, c| {
        b.create_collection(&c, Schema::default()).put(&c, (0..4).map(|i| doc(&i.to_string(), "red fox")).collect());
    });
    db
}

fn files(disk: &SimDirectory, kind: &str) -> Vec<String> {
    disk.file_names().into_iter().filter(|n| n.starts_with(kind)).collect()
}

#[test]
fn descriptors_do_not_grow_with_the_collections() {
    for io_mode in [IoMode::Mmap, IoMode::Pread] {
        let disk = SimDirectory::new();
        let db = with_collections(&disk, COLLECTIONS);
        for_all(&db, COLLECTIONS, |b, c| {
            b.delete(c, vec!["1".into()]);
        });
        drop(db);
        let watched = Watched::new(&disk);
        let db = Database::open_with(Arc::new(watched.clone()), Options { io_mode, ..options() }).unwrap();
        let at_open = watched.watch.open.load(Ordering::Relaxed);
        for c in 0..COLLECTIONS {
            assert_eq!(db.snapshot().collection(&name(c)).unwrap().best_texts("fox", None, None, 9).unwrap().len(), 3);
        }
        assert!(watched.watch.open.load(Ordering::Relaxed) <= at_open.min(8), "{at_open} at open, {:?}", watched.watch.open);
    }
}

#[test]
fn one_pass_merges_many_collections_into_one_file() {
    let disk = SimDirectory::new();
    let db = with_collections(&disk, COLLECTIONS);
    for round in 0..3 {
        for_all(&db, COLLECTIONS, |b, c| {
            b.put(c, vec![doc(&format!("r{round}"), "blue fox")]);
        });
    }
    let before = db.snapshot().generation().0;
    db.compact().unwrap();
    assert!(db.snapshot().generation().0 <= before + 6, "one publishing for all collections, not one each");
    assert_eq!((files(&disk, "s-").len(), files(&disk, "d-").len()), (1, 0));
    for c in 0..COLLECTIONS {
        let collection = db.snapshot().collection(&name(c)).unwrap();
        assert_eq!((collection.count(), collection.stats().unwrap().segments), (7, 1));
    }
}

#[test]
fn compacting_passes_over_a_damaged_collection_and_says_so() {
    let disk = SimDirectory::new();
    let db = with_collections(&disk, 3);
    db.create_collection("damaged", Schema::default()).unwrap();
    db.put("damaged", vec![doc("a", "green fox")]).unwrap();
    db.checkpoint().unwrap();
    let file = files(&disk, "s-").pop().unwrap();
    for_all(&db, 3, |b, c| {
        b.put(c, vec![doc("more", "blue fox")]);
    });
    db.put("damaged", vec![doc("b", "green fox")]).unwrap();
    drop(db);
    let bytes = disk.read_file(&file).unwrap();
    disk.write_file(&file, vec![0x5a; bytes.len()]);

    let db = try_open(&disk).unwrap();
    refused(db.compact(), ErrorCode::Corrupt, &[&file]);
    for c in 0..3 {
        assert_eq!(db.snapshot().collection(&name(c)).unwrap().stats().unwrap().segments, 1);
    }
    assert!(disk.file_names().contains(&file), "what is damaged is kept");
    refused(db.snapshot().collection("damaged").unwrap().get("a"), ErrorCode::Corrupt, &[&file]);
}

#[test]
fn a_file_of_segments_that_is_mostly_waste_is_written_again() {
    let (disk, db) = fresh();
    db.create_collection("large", Schema::default()).unwrap();
    let mut batch = WriteBatch::new();
    // Texts that do not compress.
    let noise =
        |seed: u64| (0..60_000u64).map(|i| format!("{:x}", (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect::<Vec<_>>().join(" ");
    batch.put("large", (0..3).map(|i| doc(&i.to_string(), &noise(i))).collect()).put("main", vec![doc("kept", "red fox")]);
    db.commit(batch).unwrap();
    db.checkpoint().unwrap();
    let before = files(&disk, "s-");
    db.drop_collection("large").unwrap();
    db.checkpoint().unwrap();
    assert_eq!(files(&disk, "s-"), before, "one of its segments is needed");
    db.merge().unwrap();
    assert_ne!(files(&disk, "s-"), before, "and is written again, alone");
    assert_eq!(main_of(&db).get("kept").unwrap().unwrap().text.to_string(), "red fox");
    assert!(db.bytes_on_disk().unwrap() < (3 << 20));
}

#[test]
fn a_file_of_tombstones_that_is_mostly_stale_is_written_again() {
    let disk = SimDirectory::new();
    let db = with_collections(&disk, 5);
    for_all(&db, 5, |b, c| {
        b.delete(c, vec!["0".into()]);
    });
    for_all(&db, 4, |b, c| {
        b.delete(c, vec!["1".into()]);
    });
    assert_eq!(files(&disk, "d-").len(), 1, "the fifth went along");
    let db = try_open(&{
        drop(db);
        disk
    })
    .unwrap();
    let counts: Vec<u64> = (0..5).map(|c| db.snapshot().collection(&name(c)).unwrap().count()).collect();
    assert_eq!(counts, [2, 2, 2, 2, 3]);
    assert_eq!(db.snapshot().collection(&name(4)).unwrap().best_texts("fox", None, None, 9).unwrap().len(), 3);
}

#[test]
fn a_refresh_reads_nothing_when_nothing_changed() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "red fox")]);
    let watched = Watched::new(&disk);
    let reader = Database::open_read_only_with(Arc::new(watched.clone()), options()).unwrap();
    let opened = || -> BTreeSet<String> { watched.watch.opened.lock().drain(..).map(|n| n[..1].to_string()).collect() };
    opened();
    reader.refresh().unwrap();
    assert_eq!(opened(), ["H".to_string(), "w".into()].into(), "HEAD and the log");

    put(&db, vec![doc("b", "red fox")]);
    reader.refresh().unwrap();
    assert_eq!(main_of(&reader).count(), 2);
    opened();
    reader.refresh().unwrap();
    assert_eq!(opened(), ["H".to_string(), "w".into()].into());

    db.checkpoint().unwrap();
    reader.refresh().unwrap();
    assert_eq!((main_of(&reader).count(), reader.snapshot().generation()), (2, db.snapshot().generation()));
}

#[test]
fn a_refresh_sees_a_commit_that_leaves_the_log_as_long_as_it_was() {
    let (disk, db) = fresh();
    let reader = open_read_only(&disk).unwrap();
    for i in 0..20 {
        // Unsynced records fill up the block of the one before.
        let mut batch = WriteBatch::new();
        batch.put("main", vec![doc(&i.to_string(), "fox")]);
        db.commit_with(batch, triune::Durability::Buffered).unwrap();
        reader.refresh().unwrap();
        assert_eq!(main_of(&reader).count(), i + 1);
    }
}

#[test]
fn a_panic_in_a_callers_checkpoint_stops_the_writer() {
    let disk = SimDirectory::new();
    let watched = Watched::new(&disk);
    let db = Database::create_with(Arc::new(watched.clone()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    put(&db, vec![doc("a", "red fox")]);
    watched.watch.panic.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| db.checkpoint())).is_err());
    watched.watch.panic.store(false, Ordering::Relaxed);
    refused(db.put("main", vec![doc("b", "")]), ErrorCode::Poisoned, &["checkpoint panicked"]);
    assert!(db.health().unwrap().poisoned.unwrap().contains("panicked"));
    drop(db);
    assert_eq!(main_of(&try_open(&disk).unwrap()).count(), 1);
}

#[test]
fn a_damaged_segment_in_which_nothing_changes_keeps_no_checkpoint_from_being_made() {
    let disk = SimDirectory::new();
    let db = with_collections(&disk, 5);
    let file = files(&disk, "s-").pop().unwrap();
    for_all(&db, 5, |b, c| {
        b.delete(c, vec!["0".into()]);
    });
    drop(db);
    // The end of the last segment, the fifth collection's.
    let mut bytes = disk.read_file(&file).unwrap();
    let last = bytes.len() - 16;
    bytes[last..].fill(0x5a);
    disk.write_file(&file, bytes);
    let db = try_open(&disk).unwrap();
    refused(db.snapshot().collection(&name(4)).unwrap().get("2"), ErrorCode::Corrupt, &[&file]);
    for_all(&db, 4, |b, c| {
        b.delete(c, vec!["1".into()]);
    });
    assert_eq!(files(&disk, "d-").len(), 2, "its tombstones stay where they were");
    assert_eq!(db.snapshot().collection(&name(3)).unwrap().count(), 2);
}

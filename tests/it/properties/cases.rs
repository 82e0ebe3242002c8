//! Faults that random sequences or a reader found, each as small as it gets.

use super::disk::Interrupted;
use std::sync::Arc;
use triune::io::Directory;
use triune::io::sim::{FailureKind, SimDirectory};
use triune::options::Thresholds;
use triune::{Database, Document, ErrorCode, Metadata, Options, Schema, WriteBatch};

fn options() -> Options {
    Options { background: false, ..Options::default() }
}

fn database() -> (Arc<Interrupted>, Arc<Database>) {
    let disk = Interrupted::new(SimDirectory::new());
    let db = Database::create_with(disk.clone(), options()).unwrap();
    (disk, Arc::new(db))
}

fn documents(from: usize, to: usize) -> Vec<Document> {
    (from..to).map(|i| Document::new(format!("{i:04}")).text("red fox")).collect()
}

fn ids(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|i| format!("{i:04}")).collect()
}

#[test]
fn a_document_is_judged_by_the_schema_of_the_collection_it_goes_to() {
    let (_, db) = database();
    db.create_collection("a", Schema { source_key: "file".into(), ..Schema::default() }).unwrap();
    db.create_collection("b", Schema { source_key: "origin".into(), ..Schema::default() }).unwrap();
    let number = || Document::new("x").metadata(Metadata::from_json(r#"{"file":7,"origin":"o.md"}"#).unwrap());

    // Under its name of now, collection `a` would refuse it.
    let mut batch = WriteBatch::new();
    batch.swap_collections("a", "b").put("a", vec![number()]);
    db.commit(batch).unwrap();
    assert_eq!(db.snapshot().collection("a").unwrap().get("x").unwrap().unwrap().source.as_deref(), Some("o.md"));

    // A collection that does not exist yet, with a key of its own.
    let mut batch = WriteBatch::new();
    batch.create_collection("c", Schema { source_key: "origin".into(), ..Schema::default() });
    batch.put("c", vec![Document::new("y").source("s.md").metadata(Metadata::from_json(r#"{"file_hash":"other"}"#).unwrap())]);
    db.commit(batch).unwrap();
    assert_eq!(db.snapshot().collection("c").unwrap().get("y").unwrap().unwrap().source.as_deref(), Some("s.md"));

    // And the other way round: what fits the old schema is refused by the new one.
    let mut batch = WriteBatch::new();
    batch.swap_collections("a", "b").put("a", vec![number()]);
    assert_eq!(db.commit(batch).unwrap_err().code(), ErrorCode::InvalidArgument);
    assert_eq!(db.snapshot().collection("b").unwrap().count(), 0);
}

#[test]
fn deaths_that_no_checkpoint_holds_yet_make_no_merge_due() {
    let (disk, db) = database();
    db.create_collection("a", Schema::default()).unwrap();
    db.put("a", documents(0, 1000)).unwrap();
    db.checkpoint().unwrap();
    db.delete("a", ids(0, 300)).unwrap();
    disk.after(1, || panic!("a second merge of the same segment"));
    db.merge().unwrap();
    disk.never_mind();

    // Once a checkpoint holds them, the segment is rewritten without them, once.
    db.checkpoint().unwrap();
    disk.after(2, || panic!("a second merge of the same segment"));
    db.merge().unwrap();
    assert_eq!(db.snapshot().collection("a").unwrap().count(), 700);
}

#[test]
fn a_delete_amid_a_compaction_does_not_keep_it_going() {
    let (disk, db) = database();
    db.create_collection("a", Schema::default()).unwrap();
    for i in 0..3 {
        db.put("a", documents(i * 10, i * 10 + 10)).unwrap();
        db.checkpoint().unwrap();
    }
    let other = db.clone();
    disk.after(0, move || assert_eq!(other.delete("a", ids(5, 15)).unwrap(), 10));
    db.compact().unwrap();
    let stats = db.snapshot().collection("a").unwrap().stats().unwrap();
    assert_eq!((stats.documents, stats.segments, stats.terms), (20, 1, 2));
}

#[test]
fn a_landed_batch_stays_replayable_when_its_collection_goes_amid_a_checkpoint() {
    let (disk, db) = database();
    db.create_collection("a", Schema::default()).unwrap();
    db.put("a", documents(0, 10)).unwrap();
    let other = db.clone();
    disk.after(0, move || {
        let mut batch = WriteBatch::new();
        let large = || Document::new(format!("large {}", " ".repeat(5))).text(" ".repeat(9 << 20));
        batch.create_collection("b", Schema::default()).put("b", vec![large()]);
        other.commit(batch).unwrap();
        other.drop_collection("b").unwrap();
    });
    // The checkpoint is of the moment before the batch; the log after it names the batch's segment.
    db.checkpoint().unwrap();
    drop(db);
    let db = Database::open_with(disk, options()).unwrap();
    assert_eq!(db.snapshot().collections(), ["a"]);
    assert_eq!(db.snapshot().collection("a").unwrap().count(), 10);
}

#[test]
fn what_a_failed_sync_leaves_unknown_stays_unseen_and_no_file_is_deleted() {
    let (disk, db) = database();
    db.create_collection("a", Schema::default()).unwrap();
    for i in 0..2 {
        db.put("a", documents(i * 10, i * 10 + 10)).unwrap();
        db.checkpoint().unwrap();
    }
    let before = disk.list().unwrap();
    let (other, disk_of_other) = (db.clone(), disk.clone());
    disk.after(1, move || {
        let failing = disk_of_other.disk();
        // The next operation writes the record, the one after it syncs the log.
        failing.fail(failing.operations() + 1, FailureKind::Keep);
        let mut batch = WriteBatch::new();
        batch.put("a", documents(50, 60)).create_collection("b", Schema::default());
        assert_eq!(other.commit(batch).unwrap_err().code(), ErrorCode::OutcomeUnknown);
    });
    // The merge has its inputs together; only its manifest is missing when the writer is poisoned.
    let _ = db.compact();
    disk.never_mind();
    assert_eq!(db.snapshot().collections(), ["a"]);
    assert_eq!(db.snapshot().collection("a").unwrap().count(), 20);
    assert_eq!(db.put("a", documents(70, 71)).unwrap_err().code(), ErrorCode::Poisoned);
    let after = disk.list().unwrap();
    assert!(before.iter().all(|name| after.contains(name)), "{before:?} became {after:?}");
}

#[test]
fn what_a_refused_batch_made_goes_with_the_next_garbage() {
    let disk = Interrupted::new(SimDirectory::new());
    let thresholds = Thresholds { dead_inline_bytes: 0, ..Thresholds::default() };
    let open = || Database::open_with(disk.clone(), Options { thresholds, ..options() }).unwrap();
    let db = Database::create_with(disk.clone(), options()).unwrap();
    db.create_collection("a", Schema::default()).unwrap();
    db.put("a", documents(0, 10)).unwrap();
    db.close().unwrap();

    // The first log of this handle and a file of dying seqs fit the disk, the record does not.
    let db = open();
    disk.disk().disk_limit(db.bytes_on_disk().unwrap() + 8000);
    let text = "fox ".repeat(3000);
    assert_eq!(db.put("a", vec![Document::new("0000").text(text)]).unwrap_err().code(), ErrorCode::DiskFull);
    disk.disk().disk_limit(u64::MAX);
    let kinds = |kind: &str| disk.list().unwrap().iter().filter(|n| n.starts_with(kind)).count();
    assert_eq!((kinds("d-"), kinds("w-")), (1, 2), "this is about what a refused batch made");
    db.compact().unwrap();
    assert_eq!((kinds("d-"), kinds("w-")), (0, 1));
    drop(db);
    assert_eq!(open().snapshot().collection("a").unwrap().count(), 10);
}

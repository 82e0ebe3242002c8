//! Batches that change collections and their documents together, also when they are too large for a record of the log.

use super::{doc, done, fresh, ids, open, put};
use triune::{Database, Schema, WriteBatch};

/// Commits a batch to a database with `main` (documents `a` and `b` in a segment, `c` in memory) and `other` (`x`), and compares what the
/// collections hold afterwards: at once, after a kill and a recovery, and after a close.
#[track_caller]
fn leaves(what: &str, fill: impl Fn(&mut WriteBatch), expected: &[(&str, &[&str])]) {
    let (disk, db) = fresh();
    db.create_collection("other", Schema::default()).unwrap();
    put(&db, vec![doc("a", "one").vector([1.0, 0.0]).source("s"), doc("b", "two")]);
    db.put("other", vec![doc("x", "")]).unwrap();
    db.checkpoint().unwrap();
    put(&db, vec![doc("c", "three")]);
    let before = db.snapshot();
    let mut batch = WriteBatch::new();
    fill(&mut batch);
    let outcomes = db.commit(batch).unwrap().outcomes.len();
    assert!(outcomes > 0);
    let check = |db: &Database, when: &str| {
        let snapshot = db.snapshot();
        let found: Vec<(String, Vec<String>)> = snapshot
            .collections()
            .into_iter()
            .map(|name| {
                let collection = snapshot.collection(&name).unwrap();
                assert_eq!(collection.count() as usize, ids(&collection).len(), "{what}, {when}");
                (name, ids(&collection))
            })
            .collect();
        let wanted: Vec<(String, Vec<String>)> =
            expected.iter().map(|(name, ids)| (name.to_string(), ids.iter().map(|id| id.to_string()).collect())).collect();
        assert_eq!(found, wanted, "{what}, {when}");
    };
    check(&db, "at once");
    assert_eq!(ids(&before.collection("main").unwrap()), ["a", "b", "c"], "{what}");
    for (killed, when) in [(disk.after_kill(), "after a kill"), (disk.survivors_none(), "after a power cut")] {
        check(&super::open_read_only(&killed).unwrap(), when);
        let db = open(&killed);
        check(&db, when);
        db.compact().unwrap();
        check(&db, "after a kill and compacting");
        db.close().unwrap();
        check(&open(&killed), "after a kill and a close");
    }
    db.checkpoint().unwrap();
    check(&db, "checkpointed");
    db.compact().unwrap();
    check(&db, "compacted");
    db.close().unwrap();
    check(&open(&disk), "closed");
}

/// Documents that together do not fit into one record.
fn large(ids: &[&str]) -> Vec<triune::Document> {
    let text = "a text that does not fit into one record of the log ".repeat(190_000 / ids.len());
    let documents: Vec<_> = ids.iter().map(|id| doc(id, &text).vector([1.0, 1.0]).source("large")).collect();
    assert!(ids.len() * text.len() > triune::limits::RECORD_BYTES_MAX);
    documents
}

#[test]
fn a_batch_may_change_collections_and_their_documents_together() {
    let plain = Schema::default;
    leaves("nothing left of a new collection", drop_made, &[("main", &["a", "b", "c"]), ("other", &["x"])]);
    leaves(
        "clear, then put",
        |b| done(b.clear("main").put("main", vec![doc("c", ""), doc("n", "")])),
        &[("main", &["c", "n"]), ("other", &["x"])],
    );
    leaves(
        "put, then clear",
        |b| done(b.put("main", vec![doc("n", "").vector([0.0, 1.0])]).clear("main")),
        &[("main", &[]), ("other", &["x"])],
    );
    leaves(
        "a first vector, then clear and drop",
        |b| done(b.put("other", vec![doc("n", "").vector([1.0; 5])]).clear("other").drop_collection("other")),
        &[("main", &["a", "b", "c"])],
    );
    leaves(
        "create, put, rename, put",
        |b| {
            b.create_collection("new", plain()).put("new", vec![doc("1", "").vector([1.0; 4])]);
            b.rename_collection("new", "renamed").put("renamed", vec![doc("2", "")]).delete("renamed", vec!["1".into()]);
        },
        &[("main", &["a", "b", "c"]), ("other", &["x"]), ("renamed", &["2"])],
    );
    leaves(
        "swap between writes",
        |b| done(b.put("main", vec![doc("m", "")]).swap_collections("main", "other").put("main", vec![doc("o", "")])),
        &[("main", &["x", "o"]), ("other", &["a", "b", "c", "m"])],
    );
    leaves("swap with itself", |b| done(b.swap_collections("main", "main")), &[("main", &["a", "b", "c"]), ("other", &["x"])]);
    leaves(
        "drop one, give its name to another",
        |b| done(b.drop_collection("main").rename_collection("other", "main").delete("main", vec!["x".into()])),
        &[("main", &[])],
    );
    leaves(
        "clear twice with documents between",
        |b| done(b.clear("main").put("main", vec![doc("1", "")]).clear("main").put("main", vec![doc("2", "")])),
        &[("main", &["2"]), ("other", &["x"])],
    );
}

#[test]
fn a_batch_too_large_for_a_record_does_all_that_a_small_one_does() {
    let plain = Schema::default;
    leaves("put", |b| done(b.put("main", large(&["1", "2"]))), &[("main", &["a", "b", "c", "1", "2"]), ("other", &["x"])]);
    leaves("replacing", |b| done(b.put("main", large(&["c", "a", "n"]))), &[("main", &["b", "c", "a", "n"]), ("other", &["x"])]);
    leaves("clear, then put", |b| done(b.clear("main").put("main", large(&["c", "n"]))), &[("main", &["c", "n"]), ("other", &["x"])]);
    leaves("put, then clear", |b| done(b.put("main", large(&["n"])).clear("main")), &[("main", &[]), ("other", &["x"])]);
    leaves(
        "put, then delete some",
        |b| done(b.put("main", large(&["1", "2", "3"])).delete("main", vec!["2".into(), "a".into()])),
        &[("main", &["b", "c", "1", "3"]), ("other", &["x"])],
    );
    leaves(
        "put, then delete the source",
        |b| done(b.put("main", large(&["1", "2"])).put("main", vec![doc("3", "")]).delete_source("main", "large")),
        &[("main", &["a", "b", "c", "3"]), ("other", &["x"])],
    );
    leaves(
        "two collections, one of them new",
        |b| {
            done(
                b.create_collection("new", plain())
                    .put("new", large(&["1", "2"]))
                    .put("other", large(&["1"]))
                    .put("main", vec![doc("d", "")]),
            )
        },
        &[("main", &["a", "b", "c", "d"]), ("new", &["1", "2"]), ("other", &["x", "1"])],
    );
    leaves(
        "replace_source",
        |b| done(b.replace_source("main", "s", large(&["a", "b"]).into_iter().map(|d| d.source("s")).collect())),
        &[("main", &["c", "a", "b"]), ("other", &["x"])],
    );
}

fn drop_made(b: &mut WriteBatch) {
    b.create_collection("new", Schema::default()).put("new", vec![doc("1", "").vector([1.0])]).drop_collection("new");
}

//! Collections come and go in the same log as their documents.

use super::{at_every_stage, doc, done, fresh, ids, main_of, open, put, refused, search};
use std::sync::Arc;
use triune::io::SimDirectory;
use triune::retrieval::RetrievalConfig;
use triune::{Builder, Database, ErrorCode, Metric, Mode, Options, Schema, Scorer, Search, WriteBatch};

fn batch(fill: impl FnOnce(&mut WriteBatch)) -> WriteBatch {
    let mut batch = WriteBatch::new();
    fill(&mut batch);
    batch
}

fn ids_in(db: &Database, name: &str) -> Vec<String> {
    ids(&db.snapshot().collection(name).unwrap())
}

#[test]
fn a_schema_is_stored_and_a_taken_name_is_refused() {
    let (disk, db) = fresh();
    let schema = Schema {
        dimension: Some(3),
        metric: Metric::L2,
        scorer: Scorer::Okapi,
        source_key: "path".into(),
        embedder: Some("model 7".into()),
        ..Schema::default()
    };
    db.create_collection("other", schema.clone()).unwrap();
    at_every_stage(&disk, db, |db| {
        assert_eq!(db.snapshot().collection("other").unwrap().schema(), &schema);
        assert_eq!(main_of(db).schema(), &Schema::default());
        refused(db.create_collection("other", Schema::default()), ErrorCode::AlreadyExists, &["\"other\""]);
        assert_eq!(db.snapshot().collections(), ["main", "other"]);
    });
}

#[test]
fn clear_keeps_the_schema() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "words").vector([1.0, 2.0]).source("s")]);
    db.checkpoint().unwrap();
    put(&db, vec![doc("b", "words")]);
    let before = main_of(&db);
    assert_eq!(db.clear("main").unwrap(), 2);
    at_every_stage(&disk, db, |db| {
        let main = main_of(db);
        assert_eq!((main.count(), main.schema().dimension, main.sources().unwrap().len()), (0, Some(2), 0));
        assert!(search(db, Search { query: Some("words".into()), mode: Mode::Text, ..Search::default() }).unwrap().hits.is_empty());
    });
    assert_eq!(ids(&before), ["a", "b"]);
    let db = open(&disk);
    put(&db, vec![doc("b", "again"), doc("a", "again")]);
    assert_eq!(ids(&main_of(&db)), ["b", "a"]);
}

#[test]
fn a_dropped_collection_is_gone_and_one_of_its_name_starts_empty() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "words").vector([1.0, 2.0])]);
    db.checkpoint().unwrap();
    put(&db, vec![doc("b", "words")]);
    assert_eq!(db.drop_collection("main").unwrap().outcomes[0].deleted, 2);
    refused(db.drop_collection("main"), ErrorCode::NotFound, &["\"main\""]);
    refused(db.put("main", vec![doc("c", "")]), ErrorCode::NotFound, &["\"main\""]);
    assert!(db.snapshot().collections().is_empty());
    // Dropped and made again by a recovery, in the state of a checkpoint, and in one batch.
    drop(db);
    let db = open(&disk);
    refused(db.snapshot().collection("main"), ErrorCode::NotFound, &[]);
    db.create_collection("main", Schema::default()).unwrap();
    assert_eq!((main_of(&db).count(), main_of(&db).schema().dimension), (0, None));
    put(&db, vec![doc("a", "new").vector([1.0, 2.0, 3.0])]);
    db.commit(batch(|b| {
        b.drop_collection("main").create_collection("main", Schema::default()).put("main", vec![doc("c", "")]);
    }))
    .unwrap();
    at_every_stage(&disk, db, |db| assert_eq!((ids_in(db, "main"), main_of(db).schema().dimension), (vec!["c".to_string()], None)));
}

#[test]
fn a_rename_takes_a_free_name_only() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "")]);
    db.create_collection("other", Schema::default()).unwrap();
    let rename = |from: &str, to: &str| {
        db.commit(batch(|b| {
            b.rename_collection(from, to);
        }))
    };
    refused(rename("main", "other"), ErrorCode::AlreadyExists, &["\"other\""]);
    refused(rename("main", "main"), ErrorCode::AlreadyExists, &["\"main\""]);
    refused(rename("gone", "new"), ErrorCode::NotFound, &["\"gone\""]);
    rename("main", "docs").unwrap();
    db.put("docs", vec![doc("b", "")]).unwrap();
    at_every_stage(&disk, db, |db| {
        assert_eq!(
            (db.snapshot().collections(), ids_in(db, "docs")),
            (vec!["docs".to_string(), "other".into()], vec!["a".into(), "b".into()])
        );
        refused(db.snapshot().collection("main"), ErrorCode::NotFound, &["\"main\""]);
    });
}

#[test]
fn a_swap_exchanges_two_names_at_once() {
    let (disk, db) = fresh();
    put(&db, vec![doc("old", "").vector([1.0])]);
    db.create_collection("next", Schema::default()).unwrap();
    db.put("next", vec![doc("new", "").vector([1.0, 2.0])]).unwrap();
    let before = db.snapshot();
    db.commit(batch(|b| {
        b.swap_collections("main", "next");
    }))
    .unwrap();
    assert_eq!(ids(&before.collection("main").unwrap()), ["old"]);
    at_every_stage(&disk, db, |db| {
        assert_eq!((ids_in(db, "main"), ids_in(db, "next")), (vec!["new".to_string()], vec!["old".to_string()]));
        assert_eq!(main_of(db).schema().dimension, Some(2));
        refused(
            db.commit(batch(|b| {
                b.swap_collections("main", "gone");
            })),
            ErrorCode::NotFound,
            &["\"gone\""],
        );
    });
}

#[test]
fn a_swap_that_would_give_what_is_kept_beside_a_collection_too_long_a_name_is_refused_and_changes_nothing() {
    let (disk, db) = fresh();
    let config = RetrievalConfig { chunks: 3, ..RetrievalConfig::default() };
    db.commit(batch(|b| {
        done(b.configure_source("main", "s", config).unwrap());
    }))
    .unwrap();
    let long = "x".repeat(1020);
    db.create_collection(&long, Schema::default()).unwrap();
    let refusals = [
        batch(|b| done(b.swap_collections("main", &*long))),
        batch(|b| done(b.swap_collections(&*long, "main"))),
        batch(|b| done(b.drop_collection(&*long).rename_collection("main", &*long))),
    ];
    for refusal in refusals {
        refused(db.commit(refusal), ErrorCode::LimitExceeded, &["1028", "1024"]);
    }
    at_every_stage(&disk, db, |db| {
        assert_eq!(db.snapshot().collections(), ["main".to_string(), "main:sources".into(), long.clone()]);
    });
}

#[test]
fn a_schema_is_refused_that_the_record_of_a_creation_could_not_hold() {
    let (disk, db) = fresh();
    let named = |bytes: usize| Schema { embedder: Some("\0".repeat(bytes)), source_key: "\0".repeat(1024), ..Schema::default() };
    refused(db.create_collection("next", named(1025)), ErrorCode::LimitExceeded, &["1025", "1024", "embedder"]);
    refused(
        db.commit(batch(|b| done(b.put_entity_vectors_by("main", "e".repeat(70_000), vec![("E".to_string(), vec![1.0])])))),
        ErrorCode::LimitExceeded,
        &["70000", "1024"],
    );
    let mut builder = Builder::create_in(Arc::new(SimDirectory::new()), Options::default()).unwrap();
    refused(builder.collection("next", named(1025)), ErrorCode::LimitExceeded, &["1025"]);
    refused(builder.collection("next:sources", Schema::default()), ErrorCode::InvalidArgument, &[":sources"]);
    // The longest that is taken, in the spelling that takes the most bytes, is found again after a kill.
    db.create_collection("next", named(1024)).unwrap();
    at_every_stage(&disk, db, |db| {
        assert_eq!(*db.snapshot().collection("next").unwrap().schema(), named(1024));
    });
}

#[test]
fn collections_keep_their_documents_apart() {
    let (disk, db) = fresh();
    db.create_collection("other", Schema::default()).unwrap();
    put(&db, vec![doc("a", "shared words").source("s"), doc("b", "words").source("s")]);
    db.put("other", vec![doc("a", "shared").source("s")]).unwrap();
    assert_eq!(db.delete_source("main", "s").unwrap(), 2);
    at_every_stage(&disk, db, |db| {
        assert_eq!((ids_in(db, "main").len(), ids_in(db, "other")), (0, vec!["a".to_string()]));
        assert_eq!(&*db.snapshot().collection("other").unwrap().get("a").unwrap().unwrap().text, "shared");
    });
}

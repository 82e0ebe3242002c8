//! Collections come and go in the same log as their documents.

use super::{at_every_stage, doc, fresh, ids, main_of, open, put, refused, search};
use triune::{Database, ErrorCode, Metric, Mode, Schema, Scorer, Search, WriteBatch};

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

//! What a patch changes, and what it leaves.

use super::{at_every_stage, doc, found, fresh, fresh_with, ids, json, main_of, metadata_of, put, refused, source_of, sources};
use triune::{Document, Entity, ErrorCode, Mode, Patch, Relation, Schema, Search};

fn patch(id: &str, metadata: &str) -> Patch {
    Patch::new(id).metadata(metadata).unwrap()
}

#[test]
fn metadata_is_kept_byte_for_byte_until_a_patch() {
    let (disk, db) = fresh();
    let odd = r#"  { "b":1.50,"a" : 1e3 ,"big":123456789012345678901234567890,"u":"\u00fc\/","a":2 }  "#;
    put(&db, vec![doc("a", "").metadata(json(odd)), doc("b", "").metadata(json("{}")), doc("c", "")]);
    at_every_stage(&disk, db, |db| {
        assert_eq!(metadata_of(db, "a").as_deref(), Some(odd));
        assert_eq!(metadata_of(db, "b").as_deref(), Some("{}"));
        assert_eq!(metadata_of(db, "c"), None);
    });
    let db = super::open(&disk);
    db.patch("main", vec![patch("a", r#"{"b":null,"new":[1, 2]}"#)]).unwrap();
    // What the patch does not name keeps its spelling, a key that stands twice too.
    let stored = metadata_of(&db, "a").unwrap();
    assert_eq!(stored, r#"{"a":1e3,"big":123456789012345678901234567890,"u":"\u00fc\/","a":2,"new":[1, 2]}"#);
    // A patch of something else leaves it.
    db.patch("main", vec![Patch::new("a").text("new words")]).unwrap();
    assert_eq!(metadata_of(&db, "a").unwrap(), stored);
}

#[test]
fn a_patch_sets_keys_and_a_null_deletes_them() {
    let (_disk, db) = fresh();
    put(&db, vec![doc("a", "").metadata(json(r#"{"keep":1,"change":{"x":1},"drop":true}"#)), doc("b", "")]);
    db.patch("main", vec![patch("a", r#"{"change":{"y":2},"drop":null,"absent":null,"add":""}"#), patch("b", r#"{"first":null}"#)])
        .unwrap();
    // One level deep: an object is replaced whole.
    assert_eq!(metadata_of(&db, "a").as_deref(), Some(r#"{"keep":1,"change":{"y":2},"add":""}"#));
    assert_eq!(metadata_of(&db, "b"), None);
}

#[test]
fn a_patch_replaces_text_or_vector_and_leaves_the_rest() {
    let (disk, db) = fresh();
    let whole = || doc("a", "old words").vector([1.0, 2.0]).metadata(json(r#"{"k":1}"#)).source("s");
    put(&db, vec![whole(), doc("z", "other")]);
    db.checkpoint().unwrap();
    db.patch("main", vec![Patch::new("a").text("new words")]).unwrap();
    at_every_stage(&disk, db, |db| {
        let a = main_of(db).get("a").unwrap().unwrap();
        assert_eq!(a.to_document(), whole().text("new words"));
        let text = |query: &str| found(db, Search { query: Some(query.into()), mode: Mode::Text, ..Search::default() });
        assert_eq!((text("old"), text("new")), (vec![], vec!["a".to_string()]));
        // It takes a new place at the end.
        assert_eq!(ids(&main_of(db)), ["z", "a"]);
    });
    let db = super::open(&disk);
    db.patch("main", vec![Patch::new("a").vector([3.0, 4.0])]).unwrap();
    assert_eq!(main_of(&db).get("a").unwrap().unwrap().vector.as_deref(), Some(&[3.0, 4.0][..]));
    db.patch("main", vec![Patch::new("a").without_vector()]).unwrap();
    let a = main_of(&db).get("a").unwrap().unwrap();
    assert_eq!((a.vector, &*a.text), (None, "new words"));
    assert_eq!(main_of(&db).stats().unwrap().vectors, 0);
}

#[test]
fn a_patch_of_what_is_not_there_refuses_the_batch() {
    let (_disk, db) = fresh();
    put(&db, vec![doc("a", "before")]);
    refused(db.patch("main", vec![Patch::new("a").text("after"), Patch::new("gone")]), ErrorCode::NotFound, &["\"gone\""]);
    refused(db.patch("main", vec![Patch::new("a").text("x"), Patch::new("a").text("y")]), ErrorCode::DuplicateId, &["\"a\""]);
    refused(db.patch("main", vec![Patch::new("")]), ErrorCode::InvalidArgument, &["empty"]);
    assert_eq!(&*main_of(&db).get("a").unwrap().unwrap().text, "before");
}

#[test]
fn a_patch_of_the_source_key_moves_the_document() {
    let (disk, db) = fresh();
    put(
        &db,
        vec![doc("a", "").metadata(json(r#"{"file_hash":"old"}"#)), doc("b", "").metadata(json(r#"{"file_hash":"old"}"#)), doc("c", "")],
    );
    db.patch("main", vec![patch("a", r#"{"file_hash":"new"}"#), patch("c", r#"{"file_hash":"new"}"#)]).unwrap();
    at_every_stage(&disk, db, |db| assert_eq!(sources(db), [("new".to_string(), 2), ("old".to_string(), 1)]));
    let db = super::open(&disk);
    db.patch("main", vec![patch("b", r#"{"file_hash":null}"#)]).unwrap();
    assert_eq!(source_of(&db, "b"), None);
    refused(db.patch("main", vec![patch("a", r#"{"file_hash":7}"#)]), ErrorCode::InvalidArgument, &["file_hash", "7"]);
    assert_eq!(db.delete_source("main", "new").unwrap(), 2);
    assert_eq!(ids(&main_of(&db)), ["b"]);
}

#[test]
fn a_patch_may_not_contradict_a_source_that_was_given() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "").source("given")]);
    at_every_stage(&disk, db, |db| {
        refused(db.patch("main", vec![patch("a", r#"{"file_hash":"other"}"#)]), ErrorCode::InvalidArgument, &["given", "other"]);
        assert_eq!((source_of(db, "a").as_deref(), metadata_of(db, "a")), (Some("given"), None));
    });
    let db = super::open(&disk);
    db.patch("main", vec![patch("a", r#"{"file_hash":"given","k":1}"#)]).unwrap();
    db.patch("main", vec![patch("a", r#"{"file_hash":null}"#)]).unwrap();
    assert_eq!(source_of(&db, "a").as_deref(), Some("given"));
}

#[test]
fn a_source_is_given_or_taken_from_the_metadata_and_never_both() {
    let (disk, db) = fresh_with(Schema { source_key: "path".into(), ..Schema::default() });
    put(
        &db,
        vec![
            doc("given", "").source("x"),
            doc("taken", "").metadata(json(r#"{"path":"x"}"#)),
            doc("equal", "").source("x").metadata(json(r#"{"path":"x"}"#)),
            doc("escaped", "").metadata(json(r#"{"p\u0061th":"x"}"#)),
            doc("null", "").metadata(json(r#"{"path":null}"#)),
            doc("default key", "").metadata(json(r#"{"file_hash":"x"}"#)),
            doc("nested", "").metadata(json(r#"{"in":{"path":"x"}}"#)),
            doc("none", ""),
        ],
    );
    let both = doc("both", "").source("x").metadata(json(r#"{"path":"y"}"#));
    refused(db.put("main", vec![doc("c", ""), both]), ErrorCode::InvalidArgument, &["\"x\"", "\"y\"", "\"path\""]);
    let number = doc("number", "").metadata(json(r#"{"path":3}"#));
    refused(db.put("main", vec![number]), ErrorCode::InvalidArgument, &["\"path\"", "3"]);
    at_every_stage(&disk, db, |db| {
        assert_eq!(sources(db), [("x".to_string(), 4)]);
        assert_eq!((source_of(db, "given").as_deref(), source_of(db, "null")), (Some("x"), None));
        let main = main_of(db);
        let back = |id: &str| main.get(id).unwrap().unwrap().to_document();
        assert_eq!((back("given").source.as_deref(), back("taken").source), (Some("x"), None));
    });
}

#[test]
fn a_put_replaces_whole() {
    let (_disk, db) = fresh();
    put(&db, vec![doc("a", "text").vector([1.0]).metadata(json(r#"{"k":1}"#)).source("s")]);
    put(&db, vec![Document::new("a")]);
    assert_eq!(main_of(&db).get("a").unwrap().unwrap().to_document(), Document::new("a"));
    assert!(sources(&db).is_empty());
}

#[test]
fn a_patch_replaces_entities_and_relations_and_leaves_the_rest() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "Google Cloud").metadata(json(r#"{"k":1}"#))]);
    let (entities, relations) = ([Entity::new("Rag").mentions(3)], [Relation::new("Rag", "Bm25").weight(2.5)]);
    db.patch("main", vec![Patch::new("a").entities(entities.clone()).relations(relations.clone())]).unwrap();
    at_every_stage(&disk, db, |db| {
        let a = main_of(db).get("a").unwrap().unwrap();
        assert_eq!(
            a.to_document(),
            doc("a", "Google Cloud").metadata(json(r#"{"k":1}"#)).entities(entities.clone()).relations(relations.clone())
        );
        assert_eq!(main_of(db).entity("rag").unwrap().unwrap().occurrences, 3);
        assert!(main_of(db).entity("google cloud").unwrap().is_none());
    });
    let db = super::open(&disk);
    db.patch("main", vec![Patch::new("a").relations([])]).unwrap();
    assert_eq!(main_of(&db).entity("rag").unwrap().unwrap().relations, 0);
    // Left to the collection's extractor again.
    db.patch("main", vec![Patch { entities: Some(None), ..Patch::new("a") }]).unwrap();
    assert!(main_of(&db).entity("google cloud").unwrap().is_some() && main_of(&db).entity("rag").unwrap().is_none());
}

#[test]
fn a_patch_with_entities_or_relations_that_mean_nothing_is_refused_whole() {
    let (_disk, db) = fresh();
    put(&db, vec![doc("a", "")]);
    let half = "x".repeat(triune::limits::GRAPH_BYTES_MAX / 2);
    let described = || Relation::new("x", "y").description(half.clone());
    refused(db.patch("main", vec![Patch::new("a").entities([Entity::new("")])]), ErrorCode::InvalidArgument, &[]);
    refused(db.patch("main", vec![Patch::new("a").relations([Relation::new("x", "y").weight(f64::NAN)])]), ErrorCode::InvalidArgument, &[]);
    refused(db.patch("main", vec![Patch::new("a").relations([described(), described()])]), ErrorCode::LimitExceeded, &[]);
    db.patch("main", vec![Patch::new("a").relations([described()])]).unwrap();
    // Each part fits, and both together do not.
    let names: Vec<Entity> = (0..2_000).map(|i| Entity::new(format!("{i}{}", "n".repeat(1_000))).kind("k".repeat(1_000))).collect();
    refused(db.patch("main", vec![Patch::new("a").entities(names)]), ErrorCode::LimitExceeded, &[]);
    assert_eq!(main_of(&db).get("a").unwrap().unwrap().entities, None);
}

#[test]
fn a_patch_for_a_version_changes_that_version_and_no_later_one() {
    let (_disk, db) = fresh();
    put(&db, vec![doc("a", "one"), doc("b", "two")]);
    let version = |db: &triune::Database, id: &str| main_of(db).scan().map(|item| item.unwrap()).find(|(_, d)| &*d.id == id).unwrap().0;
    let first = version(&db, "a");
    db.checkpoint().unwrap();
    db.patch("main", vec![Patch::new("a").text("better").of_version(first)]).unwrap();
    refused(
        db.patch("main", vec![Patch::new("b").text("x"), Patch::new("a").text("late").of_version(first)]),
        ErrorCode::NotFound,
        &["it was written since", "nothing of the batch was written"],
    );
    assert_eq!(&*main_of(&db).get("a").unwrap().unwrap().text, "better");
    assert_eq!(&*main_of(&db).get("b").unwrap().unwrap().text, "two");
    // The batch's own earlier calls count.
    let mut batch = triune::WriteBatch::new();
    batch.patch("main", vec![Patch::new("a").text("first")]);
    batch.patch("main", vec![Patch::new("a").text("second").of_version(version(&db, "a"))]);
    refused(db.commit(batch), ErrorCode::NotFound, &["it was written since", "nothing of the batch was written"]);
    db.compact().unwrap();
    db.patch("main", vec![Patch::new("a").text("kept through merges").of_version(version(&db, "a"))]).unwrap();
}

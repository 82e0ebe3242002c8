//! What vectors may be and what their collection makes of them.

use super::{at_every_stage, doc, fresh, fresh_with, ids, main_of, open, put, refused, search};
use triune::{Document, ErrorCode, Metric, Mode, Patch, Schema, Search};

fn near(vector: impl Into<Vec<f32>>, k: usize) -> Search {
    Search { vector: Some(vector.into()), mode: Mode::Vector, k, ..Search::default() }
}

#[test]
fn a_vector_or_query_that_is_not_finite_is_refused() {
    let (_disk, db) = fresh();
    put(&db, vec![Document::new("a").vector([1.0, 2.0])]);
    let lsn = db.snapshot().lsn();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let parts = ["component 1", &bad.to_string()];
        refused(db.put("main", vec![doc("b", ""), Document::new("c").vector([1.0, bad])]), ErrorCode::InvalidArgument, &parts);
        refused(db.insert("main", vec![Document::new("c").vector([1.0, bad])]), ErrorCode::InvalidArgument, &parts);
        refused(db.replace_source("main", "s", vec![Document::new("c").vector([1.0, bad])]), ErrorCode::InvalidArgument, &parts);
        refused(db.patch("main", vec![Patch::new("a").vector([1.0, bad])]), ErrorCode::InvalidArgument, &parts);
        refused(search(&db, near([1.0, bad], 1)), ErrorCode::InvalidArgument, &[]);
        let hybrid = Search { query: Some("x".into()), mode: Mode::Hybrid, ..near([1.0, bad], 1) };
        refused(search(&db, hybrid), ErrorCode::InvalidArgument, &[]);
    }
    assert_eq!((db.snapshot().lsn(), ids(&main_of(&db))), (lsn, vec!["a".to_string()]));
}

#[test]
fn the_first_vector_fixes_the_dimension() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "no vector")]);
    assert_eq!(main_of(&db).schema().dimension, None);
    // The documents of one call count one after another.
    let mixed = vec![Document::new("b").vector([1.0; 3]), Document::new("c").vector([1.0; 2])];
    refused(db.put("main", mixed), ErrorCode::SchemaMismatch, &["2", "3", "\"c\""]);
    assert_eq!((main_of(&db).schema().dimension, main_of(&db).count()), (None, 1));
    let before = main_of(&db);
    put(&db, vec![Document::new("b").vector([1.0; 3])]);
    assert_eq!((before.schema().dimension, main_of(&db).schema().dimension), (None, Some(3)));
    at_every_stage(&disk, db, |db| {
        refused(db.put("main", vec![Document::new("x").vector([1.0; 4])]), ErrorCode::SchemaMismatch, &["4 components", "dimension 3"]);
        refused(db.patch("main", vec![Patch::new("a").vector([1.0; 2])]), ErrorCode::SchemaMismatch, &["2 components", "dimension 3"]);
        refused(search(db, near([1.0; 2], 1)), ErrorCode::SchemaMismatch, &["2", "3"]);
        assert_eq!(ids(&main_of(db)), ["a", "b"]);
    });
    // The dimension outlives the documents that fixed it.
    let db = open(&disk);
    db.clear("main").unwrap();
    refused(db.put("main", vec![Document::new("x").vector([1.0; 4])]), ErrorCode::SchemaMismatch, &["4", "3"]);
}

#[test]
fn a_zero_vector_is_stored_and_scores_zero_by_cosine() {
    let (disk, db) = fresh();
    put(
        &db,
        vec![Document::new("zero").vector([0.0, 0.0]), Document::new("up").vector([0.0, 2.0]), Document::new("down").vector([0.0, -1.0])],
    );
    at_every_stage(&disk, db, |db| {
        let scored = |vector: [f32; 2]| -> Vec<(String, f64)> {
            search(db, near(vector, 9)).unwrap().hits.into_iter().map(|h| (h.id, h.score)).collect()
        };
        assert_eq!(scored([0.0, 1.0]), [("up".to_string(), 1.0), ("zero".into(), 0.0), ("down".into(), -1.0)]);
        // By a zero query all score zero, and stand in the order of insertion.
        assert_eq!(scored([0.0, 0.0]), [("zero".to_string(), 0.0), ("up".into(), 0.0), ("down".into(), 0.0)]);
    });
}

#[test]
fn every_metric_ranks_the_nearer_first() {
    for (metric, expected) in [
        (Metric::Cosine, [("a", 1.0), ("far", 1.0), ("c", 0.0)]),
        (Metric::Dot, [("far", 10.0), ("a", 1.0), ("c", 0.0)]),
        (Metric::L2, [("a", 0.0), ("c", -2.0), ("far", -81.0)]),
    ] {
        let (disk, db) = fresh_with(Schema { metric, ..Schema::default() });
        let vectors = [("a", [1.0, 0.0]), ("far", [10.0, 0.0]), ("c", [0.0, 1.0])];
        put(&db, vectors.iter().map(|(id, v)| Document::new(*id).vector(*v)).collect());
        at_every_stage(&disk, db, |db| {
            let hits = search(db, near([1.0, 0.0], 9)).unwrap().hits;
            let scored: Vec<_> = hits.iter().map(|h| (h.id.as_str(), h.score)).collect();
            assert_eq!(scored, expected, "{metric}");
        });
    }
}

#[test]
fn documents_without_a_vector_are_absent_from_vector_results_only() {
    let (disk, db) = fresh();
    put(&db, vec![doc("text", "a word"), Document::new("vector").vector([1.0]), doc("both", "a word").vector([-1.0])]);
    put(&db, vec![doc("patched", "a word").vector([0.5]), doc("gone", "").vector([1.0])]);
    db.patch("main", vec![Patch::new("patched").without_vector()]).unwrap();
    db.delete("main", vec!["gone".into()]).unwrap();
    at_every_stage(&disk, db, |db| {
        let hits = |s: Search| -> Vec<String> { search(db, s).unwrap().hits.into_iter().map(|h| h.id).collect() };
        assert_eq!(hits(near([1.0], 1000)), ["vector", "both"]);
        let text = Search { query: Some("word".into()), mode: Mode::Text, ..Search::default() };
        assert_eq!(hits(text), ["text", "both", "patched"]);
        assert_eq!((main_of(db).count(), main_of(db).stats().unwrap().vectors), (4, 2));
    });
}

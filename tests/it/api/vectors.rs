//! What vectors may be and what their collection makes of them.

use super::{at_every_stage, doc, fresh, fresh_with, ids, main_of, open, options, put, refused, search};
use std::sync::Arc;
use triune::io::SimDirectory;
use triune::{Builder, Components, Database, Document, ErrorCode, Metric, Mode, Patch, Schema, Search, WriteBatch};

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

/// Numbers with the binary16 that they become.
const ROUNDED: [(f32, f32); 12] = [
    (0.1, 0.099_975_586),
    (1.0 / 3.0, 0.333_251_95),
    (2_049.0, 2_048.0),
    (2_051.0, 2_052.0),
    (65_504.0, 65_504.0),
    (-65_519.9, -65_504.0),
    (6.103_515_6e-5, 6.103_515_6e-5),
    (5.960_464_5e-8, 5.960_464_5e-8),
    (-4e-8, -5.960_464_5e-8),
    (2.980_232_2e-8, 0.0),
    (f32::MIN_POSITIVE, 0.0),
    (-0.0, -0.0),
];

fn f16() -> Schema {
    Schema { components: Components::F16, ..Schema::default() }
}

fn bits(vector: &[f32]) -> Vec<u32> {
    vector.iter().map(|x| x.to_bits()).collect()
}

fn vector_of(db: &Database, collection: &str, id: &str) -> Vec<u32> {
    let document = db.snapshot().collection(collection).unwrap().get(id).unwrap().unwrap();
    bits(&document.vector.unwrap())
}

#[test]
fn components_of_two_bytes_are_rounded_when_they_are_given_and_stay_so() {
    let (given, stored): (Vec<f32>, Vec<f32>) = ROUNDED.into_iter().unzip();
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        let (disk, db) = fresh_with(Schema { metric, ..f16() });
        put(&db, vec![Document::new("given").vector(given.clone()), Document::new("other").vector([0.7; 12]), doc("none", "")]);
        db.patch("main", vec![Patch::new("other").vector(given.clone())]).unwrap();
        // A collection that keeps all four bytes gives a rounded vector the same score.
        db.create_collection("wide", Schema { metric, ..Schema::default() }).unwrap();
        db.put("wide", vec![Document::new("rounded").vector(stored.clone())]).unwrap();
        let query: Vec<f32> = (0..12).map(|i| 0.3 + i as f32 / 7.0).collect();
        let wide = db.snapshot().collection("wide").unwrap().search(&near(query.clone(), 1)).unwrap().hits[0].score;
        at_every_stage(&disk, db, |db| {
            assert_eq!(vector_of(db, "main", "given"), bits(&stored), "{metric}");
            assert_eq!(vector_of(db, "main", "other"), bits(&stored), "{metric}");
            let hits = search(db, near(query.clone(), 9)).unwrap().hits;
            let scores: Vec<u64> = hits.iter().map(|h| h.score.to_bits()).collect();
            assert_eq!(scores, [wide.to_bits(); 2], "{metric}");
            assert_eq!(main_of(db).schema().components, Components::F16);
        });
    }
}

#[test]
fn a_component_beyond_two_bytes_is_refused_with_its_batch() {
    let (_disk, db) = fresh_with(f16());
    put(&db, vec![Document::new("a").vector([1.0, 2.0])]);
    let lsn = db.snapshot().lsn();
    for beyond in [65_520.0, -70_000.0, f32::MAX] {
        let parts = ["component 1", &beyond.to_string(), "65504", "f16"];
        refused(db.put("main", vec![doc("b", ""), Document::new("c").vector([1.0, beyond])]), ErrorCode::InvalidArgument, &parts);
        refused(db.replace_source("main", "s", vec![Document::new("c").vector([1.0, beyond])]), ErrorCode::InvalidArgument, &parts);
        refused(db.patch("main", vec![Patch::new("a").vector([1.0, beyond])]), ErrorCode::InvalidArgument, &parts);
    }
    assert_eq!((db.snapshot().lsn(), ids(&main_of(&db))), (lsn, vec!["a".to_string()]));
    // A question may be any finite vector.
    assert_eq!(search(&db, near([f32::MAX, 0.1], 1)).unwrap().hits.len(), 1);
}

#[test]
fn a_vector_is_rounded_by_the_schema_of_the_collection_it_goes_to() {
    let (_disk, db) = fresh_with(f16());
    db.create_collection("wide", Schema::default()).unwrap();
    // Under their names of now, each would be stored as the other one stores.
    let mut batch = WriteBatch::new();
    batch.swap_collections("main", "wide");
    batch.put("main", vec![Document::new("wide").vector([0.1, 1e9])]).put("wide", vec![Document::new("narrow").vector([0.1, 0.0])]);
    db.commit(batch).unwrap();
    assert_eq!(vector_of(&db, "main", "wide"), bits(&[0.1, 1e9]));
    assert_eq!(vector_of(&db, "wide", "narrow"), bits(&[0.099_975_586, 0.0]));
    // A collection of the same batch.
    let mut batch = WriteBatch::new();
    batch.create_collection("new", f16()).put("new", vec![Document::new("a").vector([0.1])]);
    db.commit(batch).unwrap();
    assert_eq!(vector_of(&db, "new", "a"), bits(&[0.099_975_586]));
}

#[test]
fn two_bytes_a_component_take_half_the_room() {
    let bytes = |components| {
        let (disk, db) = fresh_with(Schema { components, ..Schema::default() });
        let vector = |i: usize| (0..256).map(|j| ((i * 31 + j * 17) % 101) as f32 / 64.0).collect::<Vec<f32>>();
        put(&db, (0..1_000).map(|i| Document::new(format!("{i}")).vector(vector(i))).collect());
        db.compact().unwrap();
        assert_eq!(main_of(&db).vector_bytes().unwrap().vectors, 1_000 * (256 * components_bytes(components) + 8));
        db.close().unwrap();
        let segments = disk.file_names().into_iter().filter(|name| name.starts_with("s-"));
        segments.map(|name| disk.read_file(&name).unwrap().len()).sum::<usize>()
    };
    let (wide, narrow) = (bytes(Components::F32), bytes(Components::F16));
    // What is not vectors is the same.
    assert_eq!(wide - narrow, 1_000 * 256 * 2);
    assert!(narrow * 100 < wide * 55, "{narrow} of {wide}");
}

fn components_bytes(components: Components) -> u64 {
    if components == Components::F16 { 2 } else { 4 }
}

#[test]
fn what_is_built_at_once_has_rounded_vectors_too() {
    let (given, stored): (Vec<f32>, Vec<f32>) = ROUNDED.into_iter().unzip();
    let disk = SimDirectory::newly_made();
    let mut builder = Builder::create_in(Arc::new(disk.clone()), options()).unwrap();
    builder.collection("main", f16()).unwrap();
    let beyond = builder.push(Document::new("beyond").vector([65_520.0; 12]));
    refused(beyond, ErrorCode::InvalidArgument, &["component 0", "65520", "65504"]);
    builder.push(Document::new("given").vector(given)).unwrap();
    builder.finish().unwrap();
    let db = open(&disk);
    assert_eq!((vector_of(&db, "main", "given"), main_of(&db).count()), (bits(&stored), 1));
}

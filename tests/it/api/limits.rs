//! Every documented limit: kept at its value, refused just beyond it with both numbers, and nothing of the batch written.

use super::{doc, fresh, fresh_with, ids, json, main_of, open, put, refused, search};
use triune::limits::{DIMENSION_MAX, K_MAX, METADATA_BYTES_MAX, METADATA_DEPTH_MAX, NAME_BYTES_MAX, RECORD_BYTES_MAX, TEXT_BYTES_MAX};
use triune::{Document, ErrorCode, Metadata, Patch, Relation, Schema, Search, WriteBatch};

const LONG: usize = NAME_BYTES_MAX + 1;

#[test]
fn ids_and_sources_have_1_to_1024_bytes() {
    let (_disk, db) = fresh();
    let (fits, long) = ("x".repeat(NAME_BYTES_MAX), "x".repeat(LONG));
    put(&db, vec![doc(&fits, "").source(fits.clone())]);
    assert!(main_of(&db).get(&fits).unwrap().is_some());
    assert_eq!(db.delete_source("main", &fits).unwrap(), 1);
    for (what, document) in [
        ("id", doc(&long, "")),
        ("source", doc("a", "").source(long.clone())),
        ("source", doc("a", "").metadata(json(&format!("{{\"file_hash\":\"{long}\"}}")))),
    ] {
        refused(db.put("main", vec![doc("b", ""), document]), ErrorCode::LimitExceeded, &[what, "1025", "1024"]);
    }
    for document in [doc("", ""), doc("a", "").source(""), doc("a", "").metadata(json(r#"{"file_hash":""}"#))] {
        refused(db.put("main", vec![doc("b", ""), document]), ErrorCode::InvalidArgument, &["empty"]);
    }
    refused(db.replace_source("main", &long, vec![]), ErrorCode::LimitExceeded, &["1025", "1024"]);
    refused(db.replace_source("main", "", vec![]), ErrorCode::InvalidArgument, &["empty"]);
    // Bytes, not characters.
    refused(db.put("main", vec![doc(&"ü".repeat(513), "")]), ErrorCode::LimitExceeded, &["1026", "1024"]);
    put(&db, vec![doc(&"ü".repeat(512), "")]);
    assert_eq!(main_of(&db).count(), 1);
}

#[test]
fn names_of_collections_have_1_to_1024_bytes() {
    let (_disk, db) = fresh();
    let (fits, long) = ("x".repeat(NAME_BYTES_MAX), "x".repeat(LONG));
    db.create_collection(&fits, Schema::default()).unwrap();
    refused(db.create_collection(&long, Schema::default()), ErrorCode::LimitExceeded, &["1025", "1024"]);
    refused(db.create_collection("", Schema::default()), ErrorCode::InvalidArgument, &["empty"]);
    for (to, code) in [(&long, ErrorCode::LimitExceeded), (&String::new(), ErrorCode::InvalidArgument)] {
        let mut batch = WriteBatch::new();
        batch.rename_collection("main", to.as_str());
        refused(db.commit(batch), code, &[]);
    }
    refused(
        db.create_collection("other", Schema { source_key: long, ..Schema::default() }),
        ErrorCode::LimitExceeded,
        &["source key", "1025", "1024"],
    );
    assert_eq!(db.snapshot().collections(), ["main".to_string(), fits]);
}

#[test]
fn metadata_has_at_most_1_mib_and_64_levels() {
    let (_disk, db) = fresh();
    let object = |bytes: usize| format!("{{\"k\":\"{}\"}}", "x".repeat(bytes - 8));
    put(&db, vec![doc("a", "").metadata(json(&object(METADATA_BYTES_MAX)))]);
    refused(Metadata::from_json(object(METADATA_BYTES_MAX + 1)), ErrorCode::LimitExceeded, &["1048577", "1048576"]);
    let nested = |depth: usize| format!("{{\"k\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    put(&db, vec![doc("b", "").metadata(json(&nested(METADATA_DEPTH_MAX)))]);
    refused(Metadata::from_json(nested(METADATA_DEPTH_MAX + 1)), ErrorCode::LimitExceeded, &["65", "64"]);
    refused(Metadata::from_json("[".repeat(100_000)), ErrorCode::LimitExceeded, &["100000", "64"]);
    for text in ["[1]", "3", "\"x\"", "null", "{", "{}x", ""] {
        refused(Metadata::from_json(text), ErrorCode::InvalidArgument, &[]);
    }
    // What a patch would make of it counts too.
    let grown = db.patch("main", vec![Patch::new("a").metadata(r#"{"more":1}"#).unwrap()]);
    refused(grown, ErrorCode::LimitExceeded, &["1048576"]);
    assert_eq!(main_of(&db).get("a").unwrap().unwrap().metadata.unwrap().as_str().len(), METADATA_BYTES_MAX);
}

#[test]
fn a_text_has_at_most_64_mib() {
    let (disk, db) = fresh();
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    let numbers = ["67108865", "67108864"];
    refused(db.put("main", vec![doc("a", &long)]), ErrorCode::LimitExceeded, &numbers);
    put(&db, vec![doc("a", "short")]);
    refused(db.patch("main", vec![Patch::new("a").text(long.clone())]), ErrorCode::LimitExceeded, &numbers);
    // The longest one that fits lands beside the log, whose records have at most 8 MiB.
    const { assert!(RECORD_BYTES_MAX < TEXT_BYTES_MAX) };
    put(&db, vec![doc("b", &long[1..])]);
    drop(db);
    let db = super::open(&disk);
    assert_eq!(main_of(&db).get("b").unwrap().unwrap().text.len(), TEXT_BYTES_MAX);
    assert_eq!(main_of(&db).count(), 2);
}

#[test]
fn a_vector_has_1_to_65535_components() {
    let (_disk, db) = fresh();
    let long = vec![1.0; DIMENSION_MAX + 1];
    refused(db.put("main", vec![Document::new("a").vector(long.clone())]), ErrorCode::LimitExceeded, &["65536", "65535"]);
    refused(db.put("main", vec![Document::new("a").vector(vec![])]), ErrorCode::InvalidArgument, &["no components"]);
    assert_eq!(main_of(&db).schema().dimension, None);
    put(&db, vec![Document::new("a").vector(&long[1..])]);
    assert_eq!(main_of(&db).schema().dimension, Some(65_535));
    refused(db.patch("main", vec![Patch::new("a").vector(long.clone())]), ErrorCode::LimitExceeded, &["65536", "65535"]);
    let (_disk, db) = fresh_with(Schema { dimension: Some(65_535), ..Schema::default() });
    let schema = |dimension| Schema { dimension: Some(dimension), ..Schema::default() };
    refused(db.create_collection("x", schema(65_536)), ErrorCode::LimitExceeded, &["65536", "65535"]);
    refused(db.create_collection("x", schema(0)), ErrorCode::InvalidArgument, &["0"]);
}

#[test]
fn k_is_at_most_a_million() {
    let (_disk, db) = fresh();
    put(&db, vec![doc("a", "word").vector([1.0, 0.0]), doc("b", "word other")]);
    for (query, vector) in [(Some("word"), None), (None, Some(vec![1.0, 0.0])), (Some("word"), Some(vec![1.0, 0.0]))] {
        let asked = |k| Search { query: query.map(String::from), vector: vector.clone(), k, ..Search::default() };
        let hits = |k| search(&db, asked(k)).unwrap().hits.len();
        let all = if query.is_some() { 2 } else { 1 };
        assert_eq!((hits(K_MAX), hits(3), hits(1), hits(0)), (all, all, 1, 0));
        refused(search(&db, asked(K_MAX + 1)), ErrorCode::LimitExceeded, &["1000001", "1000000"]);
        refused(search(&db, asked(usize::MAX)), ErrorCode::LimitExceeded, &["1000000"]);
    }
}

#[test]
fn the_greatest_weights_add_up_to_a_number() {
    let (_disk, db) = fresh();
    let greatest = || Relation::new("Alpha", "Beta").weight(f64::MAX);
    put(&db, vec![doc("a", "").relations([greatest(), greatest()])]);
    let found = main_of(&db).neighbours("alpha").unwrap();
    assert_eq!((found[0].relations, found[0].weight), (2, f64::MAX));
}

#[test]
fn a_file_of_the_last_number_is_named_by_the_writes_that_it_stops() {
    for left in ["s-7fffffffffffffff.segments", "w-7fffffffffffffff.wal"] {
        let (disk, db) = fresh();
        put(&db, vec![doc("a", "")]);
        db.close().unwrap();
        disk.write_file(left, *b"");
        refused(open(&disk).put("main", vec![doc("b", "")]), ErrorCode::LimitExceeded, &[left, "ORPHAN", "remove it"]);
        let report = triune::inspect::fsck_directory(&disk, &triune::inspect::FsckOptions::level(0)).unwrap();
        assert!(report.findings.iter().any(|f| f.code.as_str() == "ORPHAN" && f.file == left), "{:#?}", report.findings);
        disk.remove_file(left);
        let db = open(&disk);
        put(&db, vec![doc("b", "")]);
        assert_eq!(ids(&main_of(&db)), ["a", "b"]);
    }
}

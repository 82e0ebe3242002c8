//! A small database with everything odd in it, and its dump.

use std::sync::Arc;
use triune::io::SimDirectory;
use triune::maintenance::dump;
use triune::{Database, Document, Entity, ExtractorKind, Metadata, Metric, Options, Patch, Relation, Schema, Scorer, WriteBatch};

pub(crate) fn options() -> Options {
    Options { background: false, ..Options::default() }
}

pub(crate) fn open(disk: &SimDirectory) -> Database {
    Database::open_with(Arc::new(disk.clone()), options()).unwrap()
}

pub(crate) fn dump_of(db: &Database) -> Vec<u8> {
    let mut text = Vec::new();
    dump(&db.snapshot(), None, &mut text).unwrap();
    text
}

pub(crate) fn dump_of_disk(disk: &SimDirectory) -> Vec<u8> {
    dump_of(&Database::open_read_only_with(Arc::new(disk.clone()), options()).unwrap())
}

/// A disk with the same files, all of them durable.
pub(crate) fn copy(disk: &SimDirectory) -> SimDirectory {
    let copy = SimDirectory::new();
    for name in disk.file_names() {
        copy.write_file(&name, disk.read_file(&name).unwrap());
    }
    copy
}

/// Documents at the edges of what can be stored.
pub(crate) fn odd_documents() -> Vec<Document> {
    let metadata = |json: &str| Metadata::from_json(json).unwrap();
    vec![
        Document::new("empty"),
        Document::new("nul\u{0}\u{2028}\u{1f}\"\\/").text("a\u{0}b\u{2028}c\u{7f}\r\n\té 日本 \u{10ffff}"),
        Document::new("spaced").metadata(metadata("{ \"a\" :1.0,\t\"a\": 2, \"file_hash\":\"from metadata\" ,\"x\":[ ] }")),
        Document::new("given").source("given.md").metadata(metadata(r#"{"file_hash":"given.md"}"#)),
        Document::new("zeros").vector([-0.0, 0.0, f32::MIN_POSITIVE / 8.0]),
        Document::new("limits").vector([f32::MAX, f32::MIN, -f32::MIN_POSITIVE]).text("Torn Tail of the RAG log"),
        Document::new("nothing mentioned").entities([]).relations([]).text("Big Names Here"),
        Document::new("graph").entities([Entity::new("Marie Curie").kind("person").mentions(u32::MAX), Entity::new("x")]).relations([
            Relation::new("Marie Curie", "radium").kind("discovered").description("in\n1898").weight(1e16),
            Relation::new("a", "b").weight(2.5e-7),
            Relation::new("b", "a").weight(f64::MIN_POSITIVE / 8.0),
        ]),
    ]
}

pub(crate) fn plain(range: std::ops::Range<usize>) -> Vec<Document> {
    let text = |i: usize| format!("document {i} of the Torn Tail number{} word{}", i % 7, i % 3);
    let document = |i: usize| Document::new(format!("p{i}")).text(text(i)).source(format!("file {}", i % 4));
    range.map(|i| if i % 3 == 0 { document(i) } else { document(i).vector([i as f32, 1.0 / (i as f32 + 1.0), -1.0]) }).collect()
}

/// Several segments with dead rows, a log with commits after them, collections of every kind.
pub(crate) fn fixture() -> (SimDirectory, Database) {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.create_collection("empty", Schema::default()).unwrap();
    let fixed = Schema {
        dimension: Some(7),
        metric: Metric::L2,
        scorer: Scorer::Okapi,
        extractor: ExtractorKind::None,
        embedder: Some("some/model".into()),
        source_key: "path".into(),
        ..Schema::default()
    };
    db.create_collection("fixed, no vectors", fixed).unwrap();
    db.put("fixed, no vectors", vec![Document::new("only").text("text alone")]).unwrap();
    db.put("main", odd_documents()).unwrap();
    db.put("main", plain(0..60)).unwrap();
    db.checkpoint().unwrap();
    db.put("main", plain(60..90)).unwrap();
    db.delete("main", (5..15).map(|i| format!("p{i}")).collect()).unwrap();
    db.checkpoint().unwrap();
    let mut batch = WriteBatch::new();
    batch.put("main", vec![Document::new("p70").text("replaced after the checkpoint")]);
    batch.patch("main", vec![Patch::new("p20").text("patched after the checkpoint")]);
    batch.delete_source("main", "file 3");
    db.commit(batch).unwrap();
    (disk, db)
}

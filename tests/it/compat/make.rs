//! Makes the databases of `tests/fixtures`: the same operations, whatever version of the program performs them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use triune::format::head::{HEAD_SLOT_BYTES, HeadSlot};
use triune::format::wal::WAL_HEADER_BYTES;
use triune::io::SimDirectory;
use triune::io::names::FileName;
use triune::options::Thresholds;
use triune::{
    Database, Document, Durability, Entity, ExtractorKind, Hnsw, Metadata, Metric, Options, Patch, Quantisation, Relation, Schema, Scorer,
    WriteBatch,
};

/// Names and bytes of the files of a database, without BALLAST, which a writer makes again.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What makes the files of a fixture.
type Make = fn() -> Files;

/// Every fixture by its name.
pub const FIXTURES: [(&str, Make); 8] = [
    ("empty", empty),
    ("one-document", one_document),
    ("everything", everything),
    ("torn-tail", torn_tail),
    ("killed", killed),
    ("vector-graph", vector_graph),
    ("wide-codes", wide_codes),
    // As it was written before 2026-12-03, when every row of codes held its scale and its bias.
    ("wide-codes-earlier", wide_codes),
];

fn options() -> Options {
    // Low, so that small batches land as segments and small sets of dying seqs as files.
    let thresholds = Thresholds { record_bytes: 6_000, dead_inline_bytes: 100, ..Thresholds::default() };
    Options { background: false, thresholds, ..Options::default() }
}

fn create(disk: &SimDirectory) -> Database {
    Database::create_with(Arc::new(disk.clone()), options()).unwrap()
}

fn open(disk: &SimDirectory) -> Database {
    Database::open_with(Arc::new(disk.clone()), options()).unwrap()
}

fn files(disk: &SimDirectory) -> Files {
    let mut files: Files = disk.file_names().into_iter().map(|name| (name.clone(), disk.read_file(&name).unwrap())).collect();
    files.remove("BALLAST");
    // It names a process that is long gone.
    files.insert("LOCK".into(), Vec::new());
    files
}

fn commit(db: &Database, durability: Durability, fill: impl FnOnce(&mut WriteBatch)) {
    let mut batch = WriteBatch::new();
    fill(&mut batch);
    db.commit_with(batch, durability).unwrap();
}

fn json(text: &str) -> Metadata {
    Metadata::from_json(text).unwrap()
}

fn empty() -> Files {
    let disk = SimDirectory::new();
    create(&disk).close().unwrap();
    files(&disk)
}

fn one_document() -> Files {
    let disk = SimDirectory::new();
    let db = create(&disk);
    db.create_collection("notes", Schema::default()).unwrap();
    let document = Document::new("a")
        .text("A torn tail is dropped when the log of Triune is read.")
        .metadata(json(r#"{ "page": 7, "tags": ["log", null], "ß": {"deep": 1.50} }"#))
        .source("guide.md")
        .vector([0.5, -0.25, 0.0]);
    db.put("notes", vec![document]).unwrap();
    db.close().unwrap();
    files(&disk)
}

/// Document `i` of the collection `main`: what it has depends on `i`, so that every combination stands somewhere.
fn document(i: usize) -> Document {
    const WORDS: [&str; 8] = ["segment", "log", "torn", "tail", "straße", "日本", "vector", "ΟΔΟΣ"];
    let mut text = format!("row {i} of Triune");
    (0..i % 7).for_each(|j| write!(text, " {}", WORDS[(i * 5 + j * 3) % WORDS.len()]).unwrap());
    let mut document = Document::new(format!("row-{i:03}")).text(text);
    if i % 3 != 2 {
        document = document.vector([(i % 11) as f32 / 4.0 - 1.0, (i % 5) as f32, -0.5, (i % 2) as f32]);
    }
    if i % 4 < 2 && i % 5 != 1 {
        document = document.source(format!("файл-{}.md", i % 6));
    }
    match i % 5 {
        0 => document.metadata(json(&format!(r#"{{"page":{i},"even":{},"tags":["a","b"]}}"#, i.is_multiple_of(2)))),
        1 => document.metadata(json(&format!(r#"{{"page":{}.5,"nested":{{"x":null}},"file_hash":"h{}"}}"#, i, i % 2))),
        2 => document.entities(vec![Entity::new("Grace Hopper").kind("person"), Entity::new("COBOL").mentions(2)]).relations(vec![
            Relation::new("Grace Hopper", "COBOL").kind("designed").description("with others").weight(2.5),
            Relation::new("COBOL", format!("Machine {}", i % 3)),
        ]),
        _ => document,
    }
}

fn documents(range: std::ops::Range<usize>) -> Vec<Document> {
    range.map(document).collect()
}

/// What lies at the limits of an index: a term too long for the dictionary, a string and a path too long for a key, an empty document.
fn edges() -> Vec<Document> {
    let path = "p".repeat(300);
    vec![
        Document::new("long term").text(format!("short {} short", "x".repeat(1_100))),
        Document::new("long metadata")
            .metadata(json(&format!(r#"{{"{path}":"{}","big":18446744073709551615,"small":-1e-300}}"#, "s".repeat(200)))),
        Document::new("nothing"),
        Document::new("no entities").text("Google Cloud is here, but was declared absent").entities(vec![]).relations(vec![]),
        Document::new("zero").vector([0.0; 4]).text("\u{0}\t\"quoted\" \\ back"),
    ]
}

/// Collections of every metric and scorer, with segments that were merged, segments with tombstones, one all of whose rows died, and every
/// change of the set of collections; closed.
fn full(disk: &SimDirectory) {
    let db = create(disk);
    let schema = |metric, scorer| Schema { metric, scorer, ..Schema::default() };
    commit(&db, Durability::Sync, |b| {
        b.create_collection("main", Schema { embedder: Some("a model".into()), ..schema(Metric::Cosine, Scorer::Lucene) });
        b.create_collection("пункт", Schema { extractor: ExtractorKind::None, ..schema(Metric::Dot, Scorer::Okapi) });
        b.create_collection("l2", Schema { dimension: Some(4), source_key: "doc".into(), ..schema(Metric::L2, Scorer::Lucene) });
        b.create_collection("empty", Schema::default()).create_collection("emptied", Schema::default());
        b.create_collection("cleared", Schema::default()).create_collection("dropped", Schema::default());
        b.put("main", documents(0..20)).put("пункт", documents(0..8)).put("l2", documents(20..30)).put("emptied", documents(0..3));
        b.put("cleared", documents(0..2)).put("dropped", documents(2..4));
    });
    commit(&db, Durability::Sync, |b| {
        b.put("main", documents(20..140)).put("main", edges());
    });
    db.compact().unwrap();
    commit(&db, Durability::Sync, |b| {
        b.put("main", documents(140..150)).delete("main", (3..9).map(|i| format!("row-{i:03}")).collect());
        b.delete_source("emptied", "файл-0.md").clear("cleared").drop_collection("dropped");
        b.rename_collection("empty", "renamed");
        b.delete("emptied", (1..3).map(|i| format!("row-{i:03}")).collect());
    });
    db.checkpoint().unwrap();
    commit(&db, Durability::Sync, |b| {
        b.put("main", documents(12..14))
            .patch("пункт", vec![Patch::new("row-001").text("patched"), Patch::new("row-003").without_vector()]);
        b.swap_collections("renamed", "emptied");
    });
    db.checkpoint().unwrap();
    drop(db);
    open(disk).close().unwrap();
}

fn everything() -> Files {
    let disk = SimDirectory::new();
    full(&disk);
    files(&disk)
}

/// As `everything`, and then a process that was killed: a log with every kind of effect, among them a segment and a set of dying seqs that
/// stand in files of their own, which only the log names.
fn killed() -> Files {
    let disk = SimDirectory::new();
    full(&disk);
    let db = open(&disk);
    commit(&db, Durability::Sync, |b| {
        b.put("пункт", documents(40..90));
    });
    commit(&db, Durability::Sync, |b| {
        b.delete("main", (30..130).step_by(2).map(|i| format!("row-{i:03}")).collect());
    });
    commit(&db, Durability::Sync, |b| {
        b.put("main", documents(150..153)).delete("main", vec!["row-020".into(), "row-150".into()]);
    });
    commit(&db, Durability::Buffered, |b| {
        b.patch("l2", vec![Patch::new("row-021").text("the patched tail").metadata(r#"{"doc":"new.md"}"#).unwrap()]);
    });
    commit(&db, Durability::Buffered, |b| {
        b.create_collection("later", Schema::default()).put("later", documents(0..2)).swap_collections("later", "cleared");
    });
    db.sync().unwrap();
    drop(db);
    files(&disk)
}

/// A process that was killed while the last of its records was written: half of it is there.
fn torn_tail() -> Files {
    let disk = SimDirectory::new();
    let db = create(&disk);
    db.create_collection("main", Schema::default()).unwrap();
    db.put("main", documents(0..4)).unwrap();
    db.close().unwrap();
    let db = open(&disk);
    commit(&db, Durability::Sync, |b| {
        b.put("main", documents(4..6));
    });
    let whole = log_end(&files(&disk));
    commit(&db, Durability::Buffered, |b| {
        b.put("main", documents(6..8)).delete("main", vec!["row-000".into()]);
    });
    drop(db);
    let mut files = files(&disk);
    let (log, end) = log_end(&files);
    assert!(end > whole.1, "the last record stands behind what was synced");
    let bytes = files.get_mut(&log).unwrap();
    bytes[whole.1 + (end - whole.1) / 2..].fill(0);
    files
}

/// Merged segments with a vector graph over 50 and more vectors: under each metric, with codes and without, rows that are dead and rows that
/// have no vector, and documents that came later.
fn vector_graph() -> Files {
    let disk = SimDirectory::new();
    let thresholds = Thresholds { graph_vectors: 40, ..Thresholds::default() };
    let options = Options { background: false, thresholds, ..Options::default() };
    let db = Database::create_with(Arc::new(disk.clone()), options).unwrap();
    let collections =
        [("cosine", Metric::Cosine, Quantisation::Sq7), ("dot", Metric::Dot, Quantisation::Sq7), ("plain", Metric::L2, Quantisation::None)];
    let point = |i: usize| {
        let vector = std::array::from_fn::<f32, 4, _>(|j| ((i * (j + 3) * 7919 + j * 104_729) % 1009) as f32 / 100.0 - 5.0);
        let document = Document::new(format!("point-{i:02}")).metadata(json(&format!(r#"{{"page":{i}}}"#)));
        if i % 9 == 4 { document } else { document.vector(vector) }
    };
    for (name, metric, quantisation) in collections {
        let hnsw = Hnsw { m: 3, ef_construction: 24, quantisation };
        db.create_collection(name, Schema { metric, hnsw, ..Schema::default() }).unwrap();
        db.put(name, (0..60).map(point).collect()).unwrap();
    }
    db.compact().unwrap();
    db.delete("dot", vec!["point-03".into(), "point-41".into()]).unwrap();
    db.put("cosine", (60..64).map(point).collect()).unwrap();
    db.close().unwrap();
    files(&disk)
}

/// Rows of codes with room for their scale and bias, and without.
fn wide_codes() -> Files {
    let disk = SimDirectory::new();
    let thresholds = Thresholds { graph_vectors: 40, ..Thresholds::default() };
    let options = Options { background: false, thresholds, ..Options::default() };
    let db = Database::create_with(Arc::new(disk.clone()), options).unwrap();
    for (name, metric, dimension) in [("room", Metric::Cosine, 100), ("none", Metric::L2, 64)] {
        let hnsw = Hnsw { m: 3, ef_construction: 24, quantisation: Quantisation::Sq7 };
        db.create_collection(name, Schema { metric, hnsw, ..Schema::default() }).unwrap();
        let point = |i: usize| {
            let vector: Vec<f32> = (0..dimension).map(|j| ((i * (j + 3) * 7919 + j * 104_729) % 1009) as f32 / 100.0 - 5.0).collect();
            Document::new(format!("point-{i:02}")).vector(vector)
        };
        db.put(name, (0..48).map(point).collect()).unwrap();
    }
    db.compact().unwrap();
    db.delete("none", vec!["point-03".into()]).unwrap();
    db.close().unwrap();
    files(&disk)
}

/// The log that HEAD names, and where its last byte that is not zero stands.
fn log_end(files: &Files) -> (String, usize) {
    let slots = files["HEAD"].chunks(HEAD_SLOT_BYTES).map(|slot| HeadSlot::decode(slot).unwrap());
    let sequence = slots.max_by_key(|slot| slot.generation.get()).unwrap().wal_sequence.get();
    let name = FileName::Wal(sequence).to_string();
    let end = files[&name].iter().rposition(|b| *b != 0).unwrap() + 1;
    assert!(end > WAL_HEADER_BYTES, "it holds records");
    (name, end)
}

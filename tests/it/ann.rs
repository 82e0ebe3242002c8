//! Vector graphs through the library: what is found of the true nearest, with deaths, filters and merges, however files are read.
//!
//! | file | role |
//! | --- | --- |
//! | `ann.rs` | how much is found, and what is said about it |
//! | `asking.rs` | helper: what holds of every answer |
//! | `damage.rs` | what a search answers when a graph is damaged |
//! | `deaths.rs` | much of a graph is dead: clusters, the entry, everything |
//! | `extremes.rs` | vectors that are unlike those of an embedder |
//! | `filters.rs` | filters of every share, with the question and against it, by every way to answer |
//! | `segments.rs` | several graphs, and what is in memory |
//! | `sizes.rs` | graphs of hardly anything, and of many keys |

mod asking;
mod damage;
mod deaths;
mod extremes;
mod filters;
mod segments;
mod sizes;

use std::collections::BTreeSet;
use std::sync::Arc;
use triune::io::sim::SimDirectory;
use triune::options::Thresholds;
use triune::{Collection, Components, Database, Document, Effort, Filter, Hnsw, IoMode, Metadata, Metric, Options, Quantisation, Schema};

const DIMENSION: usize = 24;

/// Numbers that look random, the same at every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// About normal, by twelve uniform ones.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| (self.next() >> 40) as f32 / (1 << 24) as f32).sum::<f32>() - 6.0
    }
}

/// A vector of one of 40 clusters, which have lengths and a place of their own.
fn vector(noise: &mut Noise) -> Vec<f32> {
    let mut cluster = Noise(1 + noise.next() % 40);
    let length = 0.2 + (cluster.next() % 100) as f32 / 20.0;
    (0..DIMENSION).map(|_| length * (1.0 + cluster.normal() + 0.4 * noise.normal())).collect()
}

fn options(io_mode: IoMode) -> Options {
    let thresholds = Thresholds { graph_vectors: 500, ..Thresholds::default() };
    Options { background: false, io_mode, thresholds, ..Options::default() }
}

fn documents(range: std::ops::Range<usize>) -> Vec<Document> {
    let document = |i: usize| {
        let metadata =
            serde_json::json!({ "half": i.is_multiple_of(2), "tenth": i.is_multiple_of(10), "hundredth": i.is_multiple_of(100) });
        Document::new(format!("d{i}")).vector(vector(&mut Noise(i as u64 + 7))).metadata(Metadata::from_json(metadata.to_string()).unwrap())
    };
    range.map(document).collect()
}

fn made(disk: &SimDirectory, schema: Schema, sizes: &[usize]) -> Database {
    let db = Database::create_with(Arc::new(disk.clone()), options(IoMode::Mmap)).unwrap();
    db.create_collection("main", schema).unwrap();
    let mut begin = 0;
    for size in sizes {
        db.put("main", documents(begin..begin + size)).unwrap();
        db.checkpoint().unwrap();
        begin += size;
    }
    db
}

fn ids(collection: &Collection, query: &[f32], filter: Option<&Filter>, effort: Effort) -> Vec<(String, u64)> {
    let hits = collection.nearest_with(query, filter, 10, effort).unwrap();
    hits.iter().map(|hit| (collection.id_of(hit).unwrap(), hit.score.to_bits())).collect()
}

/// The share of the true ten nearest that is found. Every score is that of an exact search, to the bit.
fn recall(collection: &Collection, filter: Option<&Filter>, effort: Effort) -> f64 {
    let (mut found, mut there) = (0, 0);
    for q in 0..50 {
        let query = vector(&mut Noise(1_000_000 + q));
        let exact = ids(collection, &query, filter, Effort::Exact);
        let walked = ids(collection, &query, filter, effort);
        assert_eq!(walked.len(), exact.len(), "there are as many hits as there can be");
        let truth: BTreeSet<_> = exact.iter().collect();
        found += walked.iter().filter(|hit| truth.contains(hit)).count();
        there += exact.len();
    }
    found as f64 / there as f64
}

fn filter(json: &str) -> Filter {
    Filter::parse(json).unwrap()
}

#[test]
fn a_walk_finds_nearly_all_of_the_nearest_under_every_metric() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        for quantisation in [Quantisation::Sq7, Quantisation::None] {
            let schema = Schema { metric, hnsw: Hnsw { quantisation, ..Hnsw::default() }, ..Schema::default() };
            let disk = SimDirectory::newly_made();
            let db = made(&disk, schema, &[1_500, 1_000]);
            let flat = db.snapshot().collection("main").unwrap();
            assert_eq!(recall(&flat, None, Effort::DEFAULT), 1.0, "segments without a graph are scanned");
            db.compact().unwrap();
            let whole = db.snapshot().collection("main").unwrap();
            let found = recall(&whole, None, Effort::Ef(64));
            assert!(found > 0.97, "{metric}, {quantisation}: {found}");
            let hasty = recall(&whole, None, Effort::Ef(10));
            assert!(hasty < 1.0, "{metric}, {quantisation}: a walk was taken, and {hasty} is not what a scan finds");
        }
    }
}

#[test]
fn a_graph_over_vectors_of_two_bytes_a_component_is_walked_like_any_other() {
    for (metric, quantisation) in [
        (Metric::Cosine, Quantisation::Sq7),
        (Metric::Dot, Quantisation::None),
        (Metric::L2, Quantisation::Sq7),
        (Metric::L2, Quantisation::None),
    ] {
        let hnsw = Hnsw { quantisation, ..Hnsw::default() };
        let disk = SimDirectory::newly_made();
        let db = made(&disk, Schema { metric, hnsw, components: Components::F16, ..Schema::default() }, &[1_500, 500]);
        let whole = |db: &Database| db.snapshot().collection("main").unwrap();
        let scores = |c: &Collection| ids(c, &vector(&mut Noise(1_000_003)), None, Effort::Exact);
        let flat = scores(&whole(&db));
        db.compact().unwrap();
        assert_eq!(scores(&whole(&db)), flat, "{metric}: one stored vector has one score");
        for io_mode in [IoMode::Mmap, IoMode::Pread] {
            let db = Database::open_read_only_with(Arc::new(disk.clone()), options(io_mode)).unwrap();
            let found = recall(&whole(&db), None, Effort::Ef(64));
            assert!(found > 0.97, "{metric}, {quantisation}: {found}");
            let hasty = recall(&whole(&db), None, Effort::Ef(10));
            assert!(hasty < 1.0, "{metric}, {quantisation}: a walk was taken, and {hasty} is not what a scan finds");
        }
    }
}

#[test]
fn filters_of_any_share_get_all_their_hits() {
    let disk = SimDirectory::newly_made();
    let db = made(&disk, Schema::default(), &[4_000]);
    db.compact().unwrap();
    let whole = db.snapshot().collection("main").unwrap();
    for json in [r#"{"half":true}"#, r#"{"half":{"$ne":true}}"#, r#"{"tenth":true}"#, r#"{"hundredth":true}"#, r#"{"none":1}"#] {
        for effort in [Effort::DEFAULT, Effort::Ef(64)] {
            let found = recall(&whole, Some(&filter(json)), effort);
            assert!(found.is_nan() || found > 0.95, "{json}, {effort:?}: {found}");
        }
    }
}

#[test]
fn the_dead_lead_on_and_are_never_hits() {
    let disk = SimDirectory::newly_made();
    let db = made(&disk, Schema::default(), &[3_000]);
    db.compact().unwrap();
    let mut dead = 0;
    for share in [10, 3, 2] {
        let gone: Vec<String> = (0..3_000).filter(|i| i % share == 1).map(|i| format!("d{i}")).collect();
        dead = gone.len();
        db.delete("main", gone).unwrap();
        let collection = db.snapshot().collection("main").unwrap();
        let found = recall(&collection, None, Effort::Ef(64));
        assert!(found > 0.95, "one of {share} is dead: {found}");
    }
    // Merging again makes a graph of what is left of the old one.
    db.compact().unwrap();
    let collection = db.snapshot().collection("main").unwrap();
    assert!(collection.count() < 3_000 - dead as u64);
    let found = recall(&collection, None, Effort::Ef(64));
    assert!(found > 0.97, "after merging: {found}");
}

/// USearch #447: a filter that left out the entry of an index in a mapped file left nothing of the answer.
#[test]
fn a_graph_is_walked_alike_however_files_are_read() {
    let cases = [
        (Metric::Cosine, Quantisation::Sq7),
        (Metric::Dot, Quantisation::Sq7),
        (Metric::Dot, Quantisation::None),
        (Metric::L2, Quantisation::Sq7),
        (Metric::L2, Quantisation::None),
    ];
    for (metric, quantisation) in cases {
        let disk = SimDirectory::newly_made();
        let db = made(&disk, Schema { metric, hnsw: Hnsw { quantisation, ..Hnsw::default() }, ..Schema::default() }, &[1_500]);
        db.compact().unwrap();
        let asked = |db: &Database| {
            let (collection, mut walks) = (db.snapshot().collection("main").unwrap(), 0);
            // One of the halves leaves the entry out.
            let filters = [None, Some(filter(r#"{"half":true}"#)), Some(filter(r#"{"half":false}"#)), Some(filter(r#"{"tenth":true}"#))];
            let ask = |(q, filter): (u64, &Option<Filter>)| {
                let found = collection.nearest_explained(&vector(&mut Noise(5_000 + q)), filter.as_ref(), 10, Effort::Ef(16)).unwrap();
                assert_eq!(found.hits.len(), 10, "{metric}, {quantisation}, {filter:?}");
                walks += found.walks;
                found
            };
            let answers: Vec<_> = (0..15).flat_map(|q| filters.iter().map(move |filter| (q, filter))).map(ask).collect();
            assert!(walks >= 45, "{metric}, {quantisation}: {walks} walks");
            answers
        };
        let by_its_writer = asked(&db);
        db.close().unwrap();
        for io_mode in [IoMode::Mmap, IoMode::Pread, IoMode::Pinned] {
            let db = Database::open_read_only_with(Arc::new(disk.clone()), options(io_mode)).unwrap();
            assert!(asked(&db) == by_its_writer, "{metric}, {quantisation}, {io_mode:?}");
        }
    }
}

#[test]
fn a_vector_is_found_by_the_next_query_after_its_commit() {
    let disk = SimDirectory::newly_made();
    let db = made(&disk, Schema::default(), &[1_000]);
    db.compact().unwrap();
    for i in 1_000..1_020 {
        db.put("main", documents(i..i + 1)).unwrap();
        let collection = db.snapshot().collection("main").unwrap();
        let first = ids(&collection, &vector(&mut Noise(i as u64 + 7)), None, Effort::DEFAULT).remove(0);
        assert_eq!(first.0, format!("d{i}"));
    }
}

#[test]
fn an_effort_that_is_none_is_refused() {
    let disk = SimDirectory::newly_made();
    let db = made(&disk, Schema::default(), &[10]);
    let collection = db.snapshot().collection("main").unwrap();
    for effort in [Effort::Ef(0), Effort::Recall(1.5), Effort::Recall(f64::NAN), Effort::Recall(-0.1)] {
        assert!(collection.nearest_with(&[0.0; DIMENSION], None, 1, effort).is_err(), "{effort:?}");
    }
}

#[test]
fn an_audit_measures_what_a_search_finds_of_the_true_nearest() {
    let disk = SimDirectory::newly_made();
    let db = made(&disk, Schema::default(), &[1_500, 1_000]);
    db.compact().unwrap();
    let whole = db.snapshot().collection("main").unwrap();
    let told = std::cell::RefCell::new(Vec::new());
    let audit = whole.audit_recall_with(50, Effort::Ef(64), |done, of| told.borrow_mut().push((done, of))).unwrap();
    assert_eq!((audit.vectors, audit.sampled, audit.walks), (2_500, 50, 1.0));
    assert!(audit.recall > 0.97 && audit.perfect > 25, "{audit:?}");
    assert_eq!(told.into_inner(), (1..=50).map(|done| (done, 50)).collect::<Vec<_>>());
    let hasty = whole.audit_recall(50, Effort::Ef(1)).unwrap();
    assert!(hasty.recall < audit.recall && hasty.perfect < 50, "{hasty:?}");
    let exact = whole.audit_recall(50, Effort::Exact).unwrap();
    assert_eq!((exact.recall, exact.perfect, exact.walks), (1.0, 50, 0.0));
    // More than there are is all of them. The dead are not asked about, what is in memory is.
    db.delete("main", (0..2_490).map(|i| format!("d{i}")).collect()).unwrap();
    db.put("main", documents(2_500..2_505)).unwrap();
    let few = db.snapshot().collection("main").unwrap().audit_recall(1_000, Effort::DEFAULT).unwrap();
    assert_eq!((few.vectors, few.sampled, few.recall, few.perfect), (15, 15, 1.0, 15));
    db.clear("main").unwrap();
    db.put("main", vec![Document::new("no vector")]).unwrap();
    let none = db.snapshot().collection("main").unwrap().audit_recall(100, Effort::DEFAULT).unwrap();
    assert_eq!((none.vectors, none.sampled, none.recall), (0, 0, 1.0));
}

#[test]
fn what_vectors_and_graphs_take_is_reported_and_what_is_pinned() {
    for (quantisation, coded) in [(Quantisation::Sq7, true), (Quantisation::None, false)] {
        let disk = SimDirectory::newly_made();
        let schema = Schema { hnsw: Hnsw { quantisation, ..Hnsw::default() }, ..Schema::default() };
        let db = made(&disk, schema, &[800, 700]);
        let before = db.snapshot().collection("main").unwrap().vector_bytes().unwrap();
        assert_eq!((before.graphs, before.links, before.codes, before.pinned), (0, 0, 0, 0));
        assert_eq!(before.vectors, 1_500 * (DIMENSION as u64 * 4 + 8));
        db.compact().unwrap();
        db.close().unwrap();
        for (io_mode, pins) in [(IoMode::Mmap, false), (IoMode::Pinned, true)] {
            let db = Database::open_read_only_with(Arc::new(disk.clone()), options(io_mode)).unwrap();
            let collection = db.snapshot().collection("main").unwrap();
            let bytes = collection.vector_bytes().unwrap();
            assert_eq!((bytes.graphs, bytes.vectors), (1, before.vectors));
            // As docs/vectors.md says: 4 + 8 m + 4 m / (m - 1), and a stride of 64 for 24 codes; a little more for headers.
            assert!((1_500 * 132..1_500 * 138 + 1_000).contains(&bytes.links), "{bytes:?}");
            assert!(if coded { (1_500 * 64..1_500 * 64 + 200).contains(&bytes.codes) } else { bytes.codes == 0 }, "{bytes:?}");
            assert_eq!((bytes.pinned, db.health().unwrap().pinned_graph_bytes), (0, 0), "nothing was searched yet");
            ids(&collection, &vector(&mut Noise(5)), None, Effort::Ef(32));
            let pinned = if pins { bytes.links + bytes.codes } else { 0 };
            assert_eq!((collection.vector_bytes().unwrap().pinned, db.health().unwrap().pinned_graph_bytes), (pinned, pinned));
        }
    }
}

#[test]
fn what_was_walked_and_what_was_compared_is_said() {
    let disk = SimDirectory::newly_made();
    let db = made(&disk, Schema::default(), &[2_000]);
    db.compact().unwrap();
    db.put("main", documents(2_000..2_030)).unwrap();
    let collection = db.snapshot().collection("main").unwrap();
    let went = |effort, filter: Option<&Filter>| {
        let nearest = collection.nearest_explained(&vector(&mut Noise(5)), filter, 10, effort).unwrap();
        assert_eq!(nearest.hits.len(), 10);
        (nearest.walks, nearest.compared)
    };
    assert_eq!(went(Effort::Ef(20), None), (1, 30));
    assert_eq!(went(Effort::Exact, None), (0, 2_030));
    // So few are compared one by one: every hundredth, in the segment and in memory.
    assert_eq!(went(Effort::Ef(20), Some(&filter(r#"{"hundredth":true}"#))), (0, 21));
}

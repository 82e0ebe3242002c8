//! The golden answers, through the library: what the libraries whose results are reproduced say, at every layout of the same documents.
//!
//! Scores are read from the golden files by the standard library, which rounds correctly.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use triune::io::SimDirectory;
use triune::retrieval::fusion::{WeightedList, reciprocal_rank_fusion};
use triune::{Analyzer, AnalyzerKind, Collection, Database, Document, Hit, Metric, Mode, Options, Schema, Scorer, Search};

/// An expected hit: a number that is the document's id, or an id, and the score as it is spelled.
type Expected = (serde_json::Value, Box<RawValue>);

fn cases<T: for<'de> Deserialize<'de>>(text: &str) -> Vec<T> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A database that merges only when it is told to.
fn create(disk: &SimDirectory, schema: Schema) -> Database {
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", schema).unwrap();
    db
}

fn options() -> Options {
    Options { background: false, ..Options::default() }
}

fn open(disk: &SimDirectory) -> Database {
    Database::open_with(Arc::new(disk.clone()), options()).unwrap()
}

fn main_of(db: &Database) -> Collection {
    db.snapshot().collection("main").unwrap()
}

fn put_in_batches(db: &Database, documents: &[Document], batch: usize) {
    documents.chunks(batch).for_each(|part| drop(db.put("main", part.to_vec()).unwrap()));
}

/// Compares hits with what is expected: same ids in the same order, scores within `relative` or `absolute`.
#[track_caller]
fn assert_hits(hits: &[Hit], expected: &[Expected], relative: f64, absolute: f64, what: &str) {
    let ids: Vec<&str> = hits.iter().map(|h| h.id.as_str()).collect();
    let wanted: Vec<String> = expected.iter().map(|(id, _)| id.as_str().map_or_else(|| id.to_string(), String::from)).collect();
    assert_eq!(ids, wanted, "{what}: the documents or their order");
    for (hit, (_, score)) in hits.iter().zip(expected) {
        let score: f64 = score.get().parse().unwrap();
        let allowed = absolute.max(relative * score.abs().max(hit.score.abs()));
        assert!((hit.score - score).abs() <= allowed, "{what}: {} scores {}, expected {score}", hit.id, hit.score);
    }
}

#[test]
fn the_word_analyzer_cuts_the_golden_tokens() {
    #[derive(Deserialize)]
    struct Case {
        text: String,
        tokens: Vec<String>,
    }
    let analyzer = Analyzer::new(AnalyzerKind::Word);
    let cases: Vec<Case> = cases(include_str!("../golden/tokens.jsonl"));
    for Case { text, tokens } in &cases {
        let mut found = Vec::new();
        analyzer.tokens(text, &mut |token: &str| found.push(token.to_string()));
        assert_eq!(found, *tokens, "{text:?}");
    }
    assert_eq!(cases.len(), 90);
}

#[derive(Deserialize)]
struct TextCase {
    docs: Vec<String>,
    deleted: Vec<u64>,
    queries: Vec<TextQuery>,
}

#[derive(Deserialize)]
struct TextQuery {
    query: String,
    k: usize,
    hits: Vec<Expected>,
    lucene: Vec<Expected>,
}

/// How the same live documents come to lie in a database.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Layout {
    /// One commit, in memory.
    One,
    /// Three loads in batches of 7, each load in a process of its own.
    Three,
    /// As `Three`, then compacted.
    Compacted,
    DeletedThenCompacted,
    CompactedThenDeleted,
    /// A segment for every batch of 7, never merged, and the deletes in memory.
    Segments,
    /// As `Segments`, closed and opened again, with the deletes in tombstones.
    SegmentsReopened,
    /// Every document was there before under the same id with other words, and was replaced.
    Replaced,
}

const LAYOUTS: [Layout; 8] = [
    Layout::One,
    Layout::Three,
    Layout::Compacted,
    Layout::DeletedThenCompacted,
    Layout::CompactedThenDeleted,
    Layout::Segments,
    Layout::SegmentsReopened,
    Layout::Replaced,
];

/// The documents of `case` in a database of their own.
fn laid_out(case: &TextCase, layout: Layout) -> Database {
    let disk = SimDirectory::new();
    let mut db = create(&disk, Schema::default());
    let documents: Vec<Document> = case.docs.iter().enumerate().map(|(i, text)| Document::new(i.to_string()).text(text)).collect();
    let gone: Vec<String> = case.deleted.iter().map(u64::to_string).collect();
    match layout {
        Layout::One => put_in_batches(&db, &documents, documents.len()),
        Layout::Segments | Layout::SegmentsReopened => {
            for part in documents.chunks(7) {
                db.put("main", part.to_vec()).unwrap();
                db.checkpoint().unwrap();
            }
        }
        Layout::Replaced => {
            let other = |d: &Document| Document::new(d.id.clone()).text(format!("{} other words, the same id", d.text));
            db.put("main", documents.iter().rev().map(other).collect()).unwrap();
            db.checkpoint().unwrap();
            put_in_batches(&db, &documents, 7);
        }
        Layout::Three | Layout::Compacted | Layout::DeletedThenCompacted | Layout::CompactedThenDeleted => {
            for third in 0..3 {
                let n = documents.len();
                put_in_batches(&db, &documents[third * n / 3..(third + 1) * n / 3], 7);
                db.close().unwrap();
                db = open(&disk);
            }
        }
    }
    if matches!(layout, Layout::Compacted | Layout::CompactedThenDeleted) {
        db.compact().unwrap();
    }
    assert_eq!(db.delete("main", gone.clone()).unwrap(), gone.len() as u64);
    match layout {
        Layout::DeletedThenCompacted => db.compact().unwrap(),
        Layout::SegmentsReopened => {
            db.checkpoint().unwrap();
            drop(db);
            db = open(&disk);
        }
        _ => {}
    }
    let segments = main_of(&db).stats().unwrap().segments as usize;
    match layout {
        Layout::One => assert_eq!(segments, 0),
        Layout::Segments | Layout::SegmentsReopened => assert_eq!(segments, documents.len().div_ceil(7)),
        Layout::Compacted | Layout::DeletedThenCompacted | Layout::CompactedThenDeleted => assert!(segments <= 1, "{segments}"),
        Layout::Three | Layout::Replaced => {}
    }
    db
}

/// Asks every question of every case at a layout; how many answers were compared.
fn compare(layout: Layout, scorer: Scorer) -> usize {
    let mut compared = 0;
    for (n, case) in cases::<TextCase>(include_str!("../golden/okapi.jsonl")).iter().enumerate() {
        let db = laid_out(case, layout);
        let main = main_of(&db);
        assert_eq!(main.count() as usize, case.docs.len() - case.deleted.len());
        for q in &case.queries {
            let search = Search { query: Some(q.query.clone()), mode: Mode::Text, k: q.k, scorer: Some(scorer), ..Search::default() };
            let expected = if scorer == Scorer::Okapi { &q.hits } else { &q.lucene };
            let what = format!("case {n}, layout {layout:?}, {scorer}, query {:?}", q.query);
            assert_hits(&main.search(&search).unwrap().hits, expected, 1e-9, 1e-12, &what);
            compared += 1;
        }
    }
    compared
}

#[test]
fn okapi_gives_the_scores_of_rank_bm25() {
    let compared: usize = LAYOUTS.iter().map(|&layout| compare(layout, Scorer::Okapi)).sum();
    assert_eq!(compared, LAYOUTS.len() * QUESTIONS);
}

#[test]
fn lucene_gives_the_golden_scores_at_every_layout() {
    let compared: usize = LAYOUTS.iter().map(|&layout| compare(layout, Scorer::Lucene)).sum();
    assert_eq!(compared, LAYOUTS.len() * QUESTIONS);
}

/// Questions in the golden file.
const QUESTIONS: usize = 107;

#[test]
fn scores_do_not_depend_on_the_layout_or_on_deletes() {
    let cases: Vec<TextCase> = cases(include_str!("../golden/okapi.jsonl"));
    let mut compared = 0;
    for case in cases.iter().filter(|c| c.docs.len() > 20 && !c.deleted.is_empty()) {
        let answers = |layout| -> Vec<Vec<(String, u64)>> {
            let db = laid_out(case, layout);
            let main = main_of(&db);
            let scorers = [Scorer::Okapi, Scorer::Lucene];
            let asked = case.queries.iter().flat_map(|q| scorers.map(|scorer| (q, scorer)));
            let answer = |(q, scorer): (&TextQuery, Scorer)| {
                let search = Search { query: Some(q.query.clone()), mode: Mode::Text, k: 1000, scorer: Some(scorer), ..Search::default() };
                main.search(&search).unwrap().hits.into_iter().map(|h| (h.id, h.score.to_bits())).collect()
            };
            asked.map(answer).collect()
        };
        let one = answers(Layout::One);
        for layout in &LAYOUTS[1..] {
            // To the last bit, not only within a tolerance.
            assert_eq!(answers(*layout), one, "{layout:?}");
            compared += one.len();
        }
    }
    assert!(compared > 300, "{compared} answers");
}

#[derive(Deserialize)]
struct VectorCase {
    dim: u32,
    vectors: Vec<Vec<f32>>,
    queries: Vec<VectorQuery>,
}

#[derive(Deserialize)]
struct VectorQuery {
    vector: Vec<f32>,
    cosine: Vec<Expected>,
    dot: Vec<Expected>,
    l2: Vec<Expected>,
}

#[test]
fn vector_search_gives_the_golden_answers() {
    let mut compared = 0;
    for (n, case) in cases::<VectorCase>(include_str!("../golden/exact.jsonl")).iter().enumerate() {
        for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
            let disk = SimDirectory::new();
            let mut db = create(&disk, Schema { dimension: Some(case.dim), metric, ..Schema::default() });
            let documents: Vec<Document> =
                case.vectors.iter().enumerate().map(|(i, v)| Document::new(i.to_string()).vector(v.clone())).collect();
            put_in_batches(&db, &documents, 13);
            let mut ask = |db: &Database, layout: &str| {
                let main = main_of(db);
                for q in &case.queries {
                    let expected = match metric {
                        Metric::Cosine => &q.cosine,
                        Metric::Dot => &q.dot,
                        Metric::L2 => &q.l2,
                    };
                    let search =
                        Search { vector: Some(q.vector.clone()), mode: Mode::Vector, effort: triune::Effort::Exact, ..Search::default() };
                    let hits = main.search(&search).unwrap().hits;
                    assert_hits(&hits, expected, 2e-5, 2e-5, &format!("case {n}, {metric}, {layout}"));
                    compared += 1;
                }
            };
            ask(&db, "in memory");
            db.checkpoint().unwrap();
            ask(&db, "flushed");
            db.compact().unwrap();
            ask(&db, "compacted");
            db.close().unwrap();
            db = open(&disk);
            ask(&db, "reopened");
            db.close().unwrap();
            // A segment for every batch.
            let db = create(&SimDirectory::new(), Schema { dimension: Some(case.dim), metric, ..Schema::default() });
            for part in documents.chunks(13) {
                db.put("main", part.to_vec()).unwrap();
                db.checkpoint().unwrap();
            }
            ask(&db, "in many segments");
        }
    }
    assert!(compared >= 4 * 3 * 5 * 4, "{compared} answers");
}

#[test]
fn fusion_gives_the_golden_lists() {
    #[derive(Deserialize)]
    struct Case {
        lists: Vec<Vec<String>>,
        k: f64,
        fused: Vec<Expected>,
    }
    let cases: Vec<Case> = cases(include_str!("../golden/rrf.jsonl"));
    for Case { lists, k, fused: expected } in &cases {
        let lists: Vec<_> = lists.iter().map(|keys| WeightedList { keys, weight: 1.0 }).collect();
        let fused = reciprocal_rank_fusion(&lists, *k, usize::MAX);
        let expected: Vec<(&str, f64)> = expected.iter().map(|(id, s)| (id.as_str().unwrap(), s.get().parse().unwrap())).collect();
        assert_eq!(fused.iter().map(|f| (f.key.as_str(), f.score)).collect::<Vec<_>>(), expected);
    }
    assert_eq!(cases.len(), 20);
}

#[test]
fn hybrid_is_the_fusion_of_the_two_lists() {
    #[derive(Deserialize)]
    struct Text {
        text: String,
        tokens: Vec<String>,
    }
    let texts: Vec<Text> = cases(include_str!("../golden/tokens.jsonl"));
    let texts: Vec<&str> = texts.iter().filter(|t| !t.tokens.is_empty()).map(|t| t.text.as_str()).collect();
    let case = &cases::<VectorCase>(include_str!("../golden/exact.jsonl"))[1];
    let db = create(&SimDirectory::new(), Schema { dimension: Some(case.dim), ..Schema::default() });
    let document = |(i, vector): (usize, &Vec<f32>)| {
        Document::new(i.to_string()).vector(vector.clone()).text(format!("{} token{}", texts[i % texts.len()], i % 7))
    };
    let documents: Vec<Document> = case.vectors.iter().enumerate().map(document).collect();
    let words = ["token1 token2", "token3", "absentword", "token5 token6 token0"];
    for layout in ["in memory", "compacted"] {
        match layout {
            "in memory" => put_in_batches(&db, &documents, 1000),
            _ => db.compact().unwrap(),
        }
        let main = main_of(&db);
        for (q, words) in case.queries.iter().zip(words) {
            let ask = |mode, k| {
                let search = Search { query: Some(words.into()), vector: Some(q.vector.clone()), mode, k, ..Search::default() };
                main.search(&search).unwrap().hits
            };
            let lists = [ask(Mode::Vector, 20), ask(Mode::Text, 20)];
            let mut scores: BTreeMap<&str, f64> = BTreeMap::new();
            let mut order: Vec<&str> = Vec::new();
            for (rank, hit) in lists.iter().flat_map(|list| list.iter().enumerate()) {
                if !scores.contains_key(hit.id.as_str()) {
                    order.push(&hit.id);
                }
                *scores.entry(&hit.id).or_default() += 1.0 / (60.0 + rank as f64);
            }
            order.sort_by(|a, b| scores[b].total_cmp(&scores[a]));
            let expected: Vec<(&str, f64)> = order.iter().take(10).map(|id| (*id, scores[id])).collect();
            let hits = ask(Mode::Hybrid, 10);
            assert_eq!(hits.iter().map(|h| (h.id.as_str(), h.score)).collect::<Vec<_>>(), expected, "{words:?} {layout}");
            for hit in &hits {
                let places: Vec<_> = hit.retrievers.iter().map(|r| (r.name, r.rank, r.score)).collect();
                let place = |name, list: &[Hit]| list.iter().find(|h| h.id == hit.id).map(|h| (name, h.rank, h.score));
                let wanted: Vec<_> = [place("vector", &lists[0]), place("text", &lists[1])].into_iter().flatten().collect();
                assert_eq!(places, wanted);
            }
        }
    }
}

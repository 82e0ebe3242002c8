//! Holds what a snapshot answers against the model: every read, and both retrievers recomputed the plain way.

use super::graph_oracle;
use super::model::{Collection, Model, Stored};
use super::nearest_oracle::{self, Walked, vector_scores};
use super::operations::{IDS, SOURCES, WORDS};
use super::{filters, graph::Graph};
use std::collections::{BTreeMap, BTreeSet};
use triune::{Effort, Filter, Legs, Mode, Scorer, Search, Seq, Snapshot, StoredDocument};

/// How far a score may be from the one computed here.
pub const TOLERANCE: f64 = 1e-9;

/// Which questions are asked this time: small numbers, so that a failure repeats.
#[derive(Debug, Clone, Copy)]
pub struct Questions {
    state: u64,
    /// What vector graphs answered of them.
    pub walked: Walked,
}

impl Questions {
    pub fn new(seed: u64) -> Questions {
        Questions { state: seed, walked: Walked::default() }
    }

    pub fn pick(&mut self, below: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.state >> 33) as usize) % below
    }
}

/// Everything that the snapshot can be asked.
pub fn check(snapshot: &Snapshot, model: &Model, q: &mut Questions) {
    assert_eq!(snapshot.collections(), model.collections.keys().cloned().collect::<Vec<_>>(), "names");
    for (name, expected) in &model.collections {
        check_collection(&snapshot.collection(name).unwrap(), name, expected, q);
    }
    assert_eq!(snapshot.collection("nowhere").unwrap_err().code(), triune::ErrorCode::NotFound);
}

fn check_collection(found: &triune::Collection, name: &str, expected: &Collection, q: &mut Questions) {
    let schema = found.schema();
    assert_eq!(schema.dimension.map(|d| d as usize), expected.dimension, "{name}: dimension");
    assert_eq!((schema.metric, schema.scorer, &schema.source_key), (expected.metric, expected.scorer, &expected.source_key), "{name}");
    assert_eq!(schema.extractor, expected.extractor, "{name}");
    assert_eq!((found.name(), found.count()), (name, expected.documents.len() as u64), "{name}: count");
    check_documents(found, name, expected, q);
    check_sources(found, name, expected, q);
    let graph = Graph::of(expected);
    check_stats(found, name, expected, &graph);
    graph_oracle::check(found, name, expected, &graph, q);
    for _ in 0..2 {
        let (query, vector) = question(expected, q);
        let k = [0, 1, 2, 5, 1000][q.pick(5)];
        check_searches(found, name, expected, &query, &vector, k);
        nearest_oracle::check(found, name, expected, &vector, q);
        check_filter(found, name, expected, q);
    }
}

/// Words of a query, and a vector.
fn question(expected: &Collection, q: &mut Questions) -> (String, Vec<f32>) {
    let query: Vec<&str> = (0..q.pick(4)).map(|_| WORDS[q.pick(WORDS.len())]).chain(["the"]).collect();
    let query = query[..query.len() - q.pick(2)].join(" ");
    (query, (0..expected.dimension.unwrap_or(2)).map(|_| q.pick(5) as f32 * 0.5 - 1.0).collect())
}

/// The registry of sources, whole and one by one. Times were noted when the documents were seen.
fn check_sources(found: &triune::Collection, name: &str, expected: &Collection, q: &mut Questions) {
    let sources = expected.sources();
    assert_eq!(found.sources().unwrap(), sources, "{name}: sources");
    let asked = SOURCES[q.pick(SOURCES.len())];
    assert_eq!(found.source(asked).unwrap().as_ref(), sources.iter().find(|s| s.source == asked), "{name}: source {asked}");
    let ids: Vec<String> = found.documents_of_source(asked).unwrap().into_iter().map(|d| d.id.into()).collect();
    let wanted = expected.documents.iter().filter(|d| d.source.as_deref() == Some(asked));
    assert_eq!(ids, wanted.map(|d| d.id.clone()).collect::<Vec<_>>(), "{name}: documents of source {asked}");
}

/// A filter in every place that takes one. What it restricts is what the same question answers without it.
fn check_filter(found: &triune::Collection, name: &str, expected: &Collection, q: &mut Questions) {
    let json = filters::draw(&mut |below| q.pick(below), 2);
    let filter = Filter::parse(&json.to_string()).unwrap();
    let matching: Vec<&str> = expected.documents.iter().filter(|d| d.matches(&json)).map(|d| d.id.as_str()).collect();
    let about = format!("{name}: filter {json}");
    assert_eq!(filter.is_empty(), filters::constant(&json) == Some(true), "{about}");
    for d in &expected.documents {
        let metadata = d.metadata.as_ref().and_then(|m| m.value.as_object().cloned()).unwrap_or_default();
        assert_eq!(
            filter.matches(&metadata, &d.text, d.source.as_deref()),
            matching.contains(&d.id.as_str()),
            "{about}: {metadata:?} {:?}",
            d.id
        );
    }
    assert_eq!(found.count_where(&filter).unwrap(), matching.len() as u64, "{about}: count, {matching:?} match");
    let scanned: Vec<String> = found.scan().filtered(&filter).unwrap().map(|item| item.unwrap().1.id.into()).collect();
    assert_eq!(scanned, matching, "{about}: scan");
    let (query, vector) = question(expected, q);
    let (k, hops) = ([0, 1, 2, 5, 1000][q.pick(5)], 1 + q.pick(2) as u32);
    let legs = Legs { graph: q.pick(2) == 0, ..Legs::default() };
    let search = |mode, k, filter: Option<&Filter>, effort| {
        let (query, vector, filter) = (Some(query.clone()), Some(vector.clone()), filter.cloned());
        let result = found.search(&Search { query, vector, mode, k, filter, hops, legs, effort, ..Search::default() }).unwrap();
        result.hits.into_iter().map(|h| (h.id, h.score)).collect::<Vec<_>>()
    };
    for mode in [Mode::Vector, Mode::Text, Mode::Graph, Mode::Ppr] {
        let mut wanted = search(mode, 1000, None, Effort::Exact);
        wanted.retain(|(id, _)| matching.contains(&id.as_str()));
        wanted.truncate(k);
        assert_eq!(search(mode, k, Some(&filter), Effort::Exact), wanted, "{about}: {mode} {query:?} {vector:?} k {k}");
    }
    let candidates = k.max((2 * k).clamp(20, 500));
    let modes = &[Mode::Vector, Mode::Text, Mode::Graph][..if legs.graph { 3 } else { 2 }];
    let lists: Vec<_> = modes.iter().map(|mode| search(*mode, candidates, Some(&filter), Effort::DEFAULT)).collect();
    assert_eq!(search(Mode::Hybrid, k, Some(&filter), Effort::DEFAULT), fused(&lists, k), "{about}: hybrid");
}

fn check_documents(found: &triune::Collection, name: &str, expected: &Collection, q: &mut Questions) {
    for id in IDS.iter().chain(&["never"]) {
        let wanted = expected.documents.iter().find(|d| d.id == *id);
        match (found.get(id).unwrap(), wanted) {
            (None, None) => {}
            (Some(document), Some(wanted)) => same_document(&document, wanted, true, name),
            (document, _) => panic!("{name}: get({id:?}) is {document:?}, expected {wanted:?}"),
        }
    }
    let vectors = q.pick(2) == 0;
    let scanned: Vec<(Seq, StoredDocument)> = found.scan().with_vectors(vectors).map(Result::unwrap).collect();
    let ids = |all: &[(Seq, StoredDocument)]| all.iter().map(|(_, d)| d.id.to_string()).collect::<Vec<_>>();
    assert_eq!(ids(&scanned), expected.documents.iter().map(|d| d.id.clone()).collect::<Vec<_>>(), "{name}: scan");
    assert!(scanned.windows(2).all(|w| w[0].0 < w[1].0), "{name}: seqs ascend");
    for ((seq, document), wanted) in scanned.iter().zip(&expected.documents) {
        same_document(document, wanted, vectors, name);
        let stamp = (*seq, document.time_ms);
        match wanted.stamp.get() {
            None => wanted.stamp.set(Some(stamp)),
            Some(known) => assert_eq!(known, stamp, "{name}: seq and time of {:?} changed", wanted.id),
        }
    }
    // From a seq that is there, one that is not, and from before and behind all.
    let last = scanned.last().map_or(0, |(seq, _)| seq.0);
    let cursor = Seq(match scanned.get(q.pick(scanned.len() + 1)) {
        Some((seq, _)) => seq.0 - (q.pick(2) as u64).min(seq.0),
        None => last + q.pick(3) as u64,
    });
    let after: Vec<_> = found.scan_after(cursor).unwrap().map(Result::unwrap).collect();
    let wanted: Vec<_> = scanned.iter().filter(|(seq, _)| *seq > cursor).cloned().collect();
    assert_eq!(ids(&after), ids(&wanted), "{name}: scan after {cursor}");
}

fn same_document(found: &StoredDocument, wanted: &Stored, with_vector: bool, name: &str) {
    assert_eq!(&*found.id, wanted.id, "{name}");
    assert!(*found.text == *wanted.text, "{name}: text of {:?}", wanted.id);
    assert_eq!(found.source.as_deref(), wanted.source.as_deref(), "{name}: source of {:?}", wanted.id);
    assert_eq!((&found.entities, &found.relations), (&wanted.entities, &wanted.relations), "{name}: what is given of {:?}", wanted.id);
    assert_eq!(found.source_given, wanted.source_given, "{name}: where the source of {:?} comes from", wanted.id);
    match (&found.metadata, &wanted.metadata) {
        (None, None) => {}
        (Some(found), Some(wanted)) => {
            let value: serde_json::Value = serde_json::from_str(found.as_str()).unwrap();
            assert_eq!(value, wanted.value, "{name}: metadata");
            if let Some(verbatim) = &wanted.verbatim {
                assert_eq!(found.as_str(), verbatim, "{name}: metadata is kept byte for byte");
            }
        }
        (found, wanted) => panic!("{name}: metadata is {found:?}, expected {wanted:?}"),
    }
    let vector = wanted.vector.as_deref().filter(|_| with_vector);
    let bits = |v: Option<&[f32]>| v.map(|v| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
    assert_eq!(bits(found.vector.as_deref()), bits(vector), "{name}: vector of {:?}", wanted.id);
}

fn check_stats(found: &triune::Collection, name: &str, expected: &Collection, graph: &Graph<'_>) {
    let stats = found.stats().unwrap();
    let terms: BTreeSet<&String> = expected.documents.iter().flat_map(|d| &d.tokens).collect();
    let wanted = triune::CollectionStats {
        documents: expected.documents.len() as u64,
        sources: expected.sources().len() as u64,
        vectors: expected.documents.iter().filter(|d| d.vector.is_some()).count() as u64,
        terms: terms.len() as u64,
        tokens: expected.documents.iter().map(|d| d.tokens.len() as u64).sum(),
        segments: stats.segments,
        // Every live document looked at by itself: what deletes, merges and replays must come to.
        entities: graph.mentioned.len() as u64,
        mentions: expected.documents.iter().map(|d| d.mentions.len() as u64).sum(),
        relations: graph.edges.len() as u64,
    };
    assert_eq!(stats, wanted, "{name}: stats");
    assert_eq!(found.cooccurrences().unwrap(), graph.cooccurrences(), "{name}: cooccurrences");
}

fn check_searches(found: &triune::Collection, name: &str, expected: &Collection, query: &str, vector: &[f32], k: usize) {
    let about = format!("{name}: {query:?} {vector:?} k {k}");
    let search = |mode, k, scorer, effort| {
        let search = Search { query: Some(query.into()), vector: Some(vector.into()), mode, k, scorer, effort, ..Search::default() };
        let result = found.search(&search).unwrap();
        for (rank, hit) in result.hits.iter().enumerate() {
            let wanted = expected.documents.iter().find(|d| d.id == hit.id).unwrap_or_else(|| panic!("{about}: {} is dead", hit.id));
            assert!(hit.rank == rank && *hit.text == *wanted.text && hit.source == wanted.source, "{about}: hit {hit:?}");
            assert_eq!(hit.metadata.is_some(), wanted.metadata.is_some(), "{about}");
        }
        result.hits.into_iter().map(|h| (h.id, h.score)).collect::<Vec<_>>()
    };
    let nearest = vector_scores(expected, vector);
    let identical = |a: usize, b: usize| expected.documents[a].vector == expected.documents[b].vector;
    ranked(&search(Mode::Vector, k, None, Effort::Exact), expected, &nearest, k, identical, &format!("{about}: vector"));
    // Scores are sums, and what is equal as a sum of other parts may differ in the last digit.
    let profiles = text_profiles(expected, query);
    for scorer in [Scorer::Lucene, Scorer::Okapi] {
        let (scores, floor) = text_scores(expected, query, scorer);
        let hits = search(Mode::Text, k, Some(scorer), Effort::DEFAULT);
        // Okapi keeps scores above 0; what rounding may have put on either side of it may stay or go.
        let sure = scores.iter().map(|s| s.filter(|s| floor.is_none_or(|f| *s > f))).collect::<Vec<_>>();
        let possible = scores.iter().zip(&sure).map(|(s, sure)| sure.or(s.filter(|s| floor.is_some_and(|f| *s > -f)))).collect::<Vec<_>>();
        let about = format!("{about}: {scorer}");
        if possible == sure {
            ranked(&hits, expected, &sure, k, |a, b| profiles[a] == profiles[b], &about);
        } else {
            assert!(hits.iter().all(|(id, _)| possible[place(expected, id)].is_some()), "{about}: {hits:?}");
        }
        if expected.scorer == scorer {
            assert_eq!(search(Mode::Text, k, None, Effort::DEFAULT), hits, "{about}: the default scorer");
        }
    }
    // Fusion is held against the lists that were just held against the model.
    let candidates = k.max((2 * k).clamp(20, 500));
    let lists = [Mode::Vector, Mode::Text].map(|mode| search(mode, candidates, None, Effort::DEFAULT));
    assert_eq!(search(Mode::Hybrid, k, None, Effort::DEFAULT), fused(&lists, k), "{about}: hybrid");
}

/// The sum of `1 / (60 + rank)`, ties by first appearance.
fn fused(lists: &[Vec<(String, f64)>], k: usize) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = Vec::new();
    for list in lists {
        for (rank, (id, _)) in list.iter().enumerate() {
            let gain = 1.0 / (60.0 + rank as f64);
            match all.iter_mut().find(|(known, _)| known == id) {
                Some((_, score)) => *score += gain,
                None => all.push((id.clone(), gain)),
            }
        }
    }
    all.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap());
    all.truncate(k);
    all
}

/// All that a text score is made of, by document: its length, and how often it holds each token of the query.
fn text_profiles(expected: &Collection, query: &str) -> Vec<(usize, Vec<usize>)> {
    let query = super::model::tokens(query);
    let count = |tokens: &[String], term: &String| tokens.iter().filter(|t| *t == term).count();
    expected.documents.iter().map(|d| (d.tokens.len(), query.iter().map(|term| count(&d.tokens, term)).collect())).collect()
}

/// Scores by document, `None` for one that holds no token of the query; and for `okapi` the size of a score that rounding may have made.
fn text_scores(expected: &Collection, query: &str, scorer: Scorer) -> (Vec<Option<f64>>, Option<f64>) {
    let corpus: Vec<&Vec<String>> = expected.documents.iter().map(|d| &d.tokens).collect();
    let n = corpus.len() as f64;
    let total: usize = corpus.iter().map(|t| t.len()).sum();
    let average = total as f64 / n;
    let mut frequencies: BTreeMap<&String, f64> = BTreeMap::new();
    for tokens in &corpus {
        for term in tokens.iter().collect::<BTreeSet<_>>() {
            *frequencies.entry(term).or_default() += 1.0;
        }
    }
    let raw = |df: f64| (n - df + 0.5).ln() - (df + 0.5).ln();
    let mean = frequencies.values().map(|&df| raw(df)).sum::<f64>() / frequencies.len() as f64;
    let idf = |df: f64| match scorer {
        Scorer::Lucene => (1.0 + (n - df + 0.5) / (df + 0.5)).ln(),
        Scorer::Okapi if raw(df) < 0.0 => 0.25 * mean,
        Scorer::Okapi => raw(df),
    };
    let (k1, b) = match scorer {
        Scorer::Lucene => (1.2, 0.75),
        Scorer::Okapi => (1.5, 0.75),
    };
    let query = super::model::tokens(query);
    let score = |tokens: &&Vec<String>| {
        let mut score = None;
        for term in &query {
            let tf = tokens.iter().filter(|t| *t == term).count() as f64;
            if tf == 0.0 {
                continue;
            }
            let norm = k1 * (1.0 - b + b * tokens.len() as f64 / average);
            let gain = match scorer {
                Scorer::Lucene => tf / (tf + norm),
                Scorer::Okapi => tf * (k1 + 1.0) / (tf + norm),
            };
            *score.get_or_insert(0.0) += idf(frequencies[term]) * gain;
        }
        score
    };
    (corpus.iter().map(score).collect(), (scorer == Scorer::Okapi).then_some(1e-12))
}

pub fn place(expected: &Collection, id: &str) -> usize {
    expected.documents.iter().position(|d| d.id == id).unwrap()
}

/// Holds a ranked list against the scores it should have: the same documents, scores, and order; the earlier insertion first among equals.
/// Where two scores differ by less than the tolerance their order is free, unless they are equal and `tied` says that they must be.
pub fn ranked(hits: &[(String, f64)], c: &Collection, scores: &[Option<f64>], k: usize, tied: impl Fn(usize, usize) -> bool, about: &str) {
    let places: Vec<usize> = hits.iter().map(|(id, _)| place(c, id)).collect();
    let expected = || scores.iter().enumerate().filter_map(|(i, s)| s.map(|s| (c.documents[i].id.as_str(), s))).collect::<Vec<_>>();
    let fail = |why: &str| panic!("{about}: {why}\n  found    {hits:?}\n  possible {:?}", expected());
    let possible = scores.iter().flatten().count();
    if hits.len() != k.min(possible) {
        fail("wrong number of hits");
    }
    if places.iter().collect::<BTreeSet<_>>().len() != hits.len() {
        fail("a document twice");
    }
    for ((_, found), &at) in hits.iter().zip(&places) {
        match scores[at] {
            Some(s) if (s - found).abs() <= TOLERANCE * s.abs().max(1.0) => {}
            _ => fail("a score differs"),
        }
    }
    let before = |a: usize, b: usize| {
        let (x, y) = (scores[a].unwrap(), scores[b].unwrap());
        x > y + TOLERANCE || (x == y && tied(a, b) && a < b)
    };
    for w in 0..hits.len().saturating_sub(1) {
        let ((_, x), (_, y)) = (&hits[w], &hits[w + 1]);
        if x < y || (x == y && places[w] > places[w + 1]) {
            fail("out of order by its own scores");
        }
    }
    for (i, &a) in places.iter().enumerate() {
        if places[i + 1..].iter().any(|&b| before(b, a)) {
            fail("out of order");
        }
        let left_out = (0..scores.len()).filter(|at| scores[*at].is_some() && !places.contains(at));
        if left_out.into_iter().any(|b| before(b, a)) {
            fail("a better document was left out");
        }
    }
}

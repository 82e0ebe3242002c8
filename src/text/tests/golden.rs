//! Scores of rank_bm25 at any layout of segments, after deletes and merges.

use super::*;
use crate::options::Scorer;
use std::collections::BTreeMap;

struct Case {
    texts: Vec<String>,
    dead: Vec<bool>,
    queries: Vec<serde_json::Value>,
}

fn cases() -> Vec<Case> {
    let strings = |v: &serde_json::Value| -> Vec<String> {
        v.as_array().expect("an array").iter().map(|s| s.as_str().expect("a string").to_string()).collect()
    };
    let cases: Vec<Case> = include_str!("../../../tests/golden/okapi.jsonl")
        .lines()
        .map(|line| {
            let case: serde_json::Value = serde_json::from_str(line).expect("a golden line is JSON");
            let texts = strings(&case["docs"]);
            let mut dead = vec![false; texts.len()];
            for row in case["deleted"].as_array().expect("deleted rows") {
                dead[row.as_u64().expect("a row") as usize] = true;
            }
            Case { texts, dead, queries: case["queries"].as_array().expect("queries").clone() }
        })
        .collect();
    assert_eq!(cases.len(), 13);
    assert!(cases.iter().any(|c| c.dead.contains(&true)), "some cases have deleted documents");
    cases
}

/// The documents cut into `parts` segments, dead ones left in them.
fn live_parts(case: &Case, parts: usize) -> Vec<LivePart> {
    let size = case.texts.len().div_ceil(parts).max(1);
    case.texts
        .chunks(size)
        .zip(case.dead.chunks(size))
        .enumerate()
        .map(|(i, (texts, dead))| {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            LivePart { reader: Model::of_texts(&texts).reader(i % 2 == 0), first_seq: (i * size) as u64, dead: dead.to_vec() }
        })
        .collect()
}

/// All parts merged into one without the dead rows, and the seq of each row of it.
fn merged(parts: &[LivePart]) -> (TextReader, Vec<u64>) {
    let (mut maps, mut lengths, mut seqs) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        let map: Vec<u32> = (0..part.reader.documents())
            .map(|row| {
                if part.dead[row as usize] {
                    return DROPPED;
                }
                lengths.push(part.reader.length(row).expect("a length"));
                seqs.push(part.first_seq + u64::from(row));
                seqs.len() as u32 - 1
            })
            .collect();
        maps.push(map);
    }
    let inputs: Vec<(&TextReader, &[u32])> = parts.iter().zip(&maps).map(|(p, m)| (&p.reader, m.as_slice())).collect();
    let (bytes, summary) = segment(|out| merge_text(&inputs, &analyzer(), lengths, out)).expect("merges");
    (open(bytes, summary, true).expect("opens"), seqs)
}

struct MergedPart(TextReader, Vec<u64>);

impl TextPart for MergedPart {
    fn collect(&self, term: &str, out: &mut Vec<Posting>) -> Result<()> {
        self.0.term(term.as_bytes())?.map_or(Ok(()), |info| self.0.postings(&info, out))
    }
    fn length(&self, row: u32) -> Result<u32> {
        self.0.length(row)
    }
    fn seq(&self, row: u32) -> Result<Seq> {
        Ok(Seq(self.1[row as usize]))
    }
}

fn check<P: TextPart>(case: &Case, parts: &[P], layout: &str) {
    let live: Vec<&str> = case.texts.iter().zip(&case.dead).filter(|(_, dead)| !**dead).map(|(t, _)| t.as_str()).collect();
    let model = Model::of_texts(&live);
    let statistics = CorpusStatistics { documents: live.len() as u64, tokens: model.lengths.iter().map(|&l| u64::from(l)).sum() };
    let mut histogram: BTreeMap<u64, u64> = BTreeMap::new();
    model.terms.values().for_each(|p| *histogram.entry(p.len() as u64).or_default() += 1);
    for query in &case.queries {
        let text = query["query"].as_str().expect("a query");
        let k = query["k"].as_u64().expect("k") as usize;
        for (scorer, key) in [(Scorer::Okapi, "hits"), (Scorer::Lucene, "lucene")] {
            let mut asked = 0;
            let mut average = || {
                asked += 1;
                Ok(average_idf(histogram.iter().map(|(&df, &n)| (df, n)), statistics.documents))
            };
            let found = search(parts, &tokens(text), scorer, &statistics, &mut average, k).expect("searches");
            assert!(asked <= usize::from(scorer == Scorer::Okapi));
            let expected = query[key].as_array().expect("hits");
            let what = format!("{layout}, {scorer}, {text:?}: {found:?} against {expected:?}");
            assert_eq!(found.len(), expected.len(), "{what}");
            for (hit, expected) in found.iter().zip(expected) {
                let score = expected[1].as_f64().expect("a score");
                assert_eq!(Some(hit.seq.0), expected[0].as_u64(), "{what}");
                assert!((hit.score - score).abs() <= 1e-9 * score.abs(), "{what}");
            }
        }
    }
}

#[test]
fn golden_scores_hold_at_any_layout_and_after_merging() {
    for (i, case) in cases().iter().enumerate() {
        for n in [1, 2, 3, 7] {
            let parts = live_parts(case, n);
            check(case, &parts, &format!("case {i} in {n} parts"));
            let (reader, seqs) = merged(&parts);
            check(case, &[MergedPart(reader, seqs)], &format!("case {i}, {n} parts merged"));
        }
    }
}

fn search_texts(texts: &[&str], query: &str, scorer: Scorer, k: usize) -> Vec<(u64, f64)> {
    let model = Model::of_texts(texts);
    let statistics = CorpusStatistics { documents: texts.len() as u64, tokens: model.lengths.iter().map(|&l| u64::from(l)).sum() };
    let part = LivePart { reader: model.reader(true), first_seq: 0, dead: vec![false; texts.len()] };
    let mut average = || Ok(average_idf(model.terms.values().map(|p| (p.len() as u64, 1)), statistics.documents));
    let hits = search(&[part], &tokens(query), scorer, &statistics, &mut average, k).expect("searches");
    hits.iter().map(|h| (h.seq.0, h.score)).collect()
}

#[test]
fn nothing_to_find_is_an_empty_answer() {
    for scorer in [Scorer::Lucene, Scorer::Okapi] {
        assert!(search_texts(&[], "word", scorer, 10).is_empty(), "no document");
        assert!(search_texts(&["", "..."], "word", scorer, 10).is_empty(), "no token");
        assert!(search_texts(&["a b", "c d", "e f"], "", scorer, 10).is_empty(), "no query");
        assert!(search_texts(&["a b", "c d", "e f"], "zebra", scorer, 10).is_empty(), "no known term");
        assert!(search_texts(&["a b", "c d", "e f"], "a", scorer, 0).is_empty(), "no hit asked for");
    }
}

#[test]
fn equal_scores_come_in_insertion_order_over_window_and_part_edges() {
    let texts: Vec<&str> = (0..10_000).map(|i| if i % 3 == 0 { "needle in it" } else { "only other words" }).collect();
    let hits = search_texts(&texts, "needle", Scorer::Lucene, 4);
    assert_eq!(hits.iter().map(|h| h.0).collect::<Vec<_>>(), [0, 3, 6, 9]);
    assert_eq!(search_texts(&texts, "needle", Scorer::Lucene, 100_000).len(), 3334);
}

#[test]
fn a_repeated_token_is_added_as_often_as_it_stands_in_the_query() {
    let texts = ["the cat sat", "the dog ran", "the bird flew"];
    let once = search_texts(&texts, "cat", Scorer::Okapi, 10)[0].1;
    let both = search_texts(&texts, "cat the cat", Scorer::Okapi, 10)[0].1;
    let floor = search_texts(&texts, "the", Scorer::Okapi, 10)[0].1;
    assert_eq!(both, once + floor + once);
}

//! Search against a straightforward port of rank_bm25 over the live documents alone: the same bits at any layout.

use super::*;
use crate::options::Scorer;
use proptest::prelude::*;
use std::cell::Cell;

/// Scores of all documents, in the order that rank_bm25 computes them; `average` stands for its mean idf.
fn oracle(documents: &[Vec<String>], query: &[String], scorer: Scorer, average: f64) -> Vec<f64> {
    let count = documents.len() as f64;
    let average_length = documents.iter().map(Vec::len).sum::<usize>() as f64 / count;
    let mut scores = vec![0.0; documents.len()];
    for token in query {
        let n = documents.iter().filter(|d| d.contains(token)).count() as f64;
        let raw = (count - n + 0.5).ln() - (n + 0.5).ln();
        let idf = match scorer {
            Scorer::Okapi if raw < 0.0 => 0.25 * average,
            Scorer::Okapi => raw,
            Scorer::Lucene => (1.0 + (count - n + 0.5) / (n + 0.5)).ln(),
        };
        for (document, score) in documents.iter().zip(&mut scores) {
            let tf = document.iter().filter(|t| *t == token).count() as f64;
            let length = document.len() as f64;
            if tf > 0.0 {
                *score += match scorer {
                    Scorer::Okapi => idf * (tf * (1.5 + 1.0) / (tf + 1.5 * (1.0 - 0.75 + 0.75 * length / average_length))),
                    Scorer::Lucene => idf * (tf / (tf + 1.2 * (1.0 - 0.75 + 0.75 * length / average_length))),
                };
            }
        }
    }
    scores
}

/// The mean idf over the vocabulary in its order of first occurrence, summed as rank_bm25 sums it.
fn naive_average_idf(documents: &[Vec<String>]) -> f64 {
    let mut vocabulary: Vec<&String> = Vec::new();
    for token in documents.iter().flatten() {
        if !vocabulary.contains(&token) {
            vocabulary.push(token);
        }
    }
    let idf = |token: &String| {
        let n = documents.iter().filter(|d| d.contains(token)).count() as f64;
        (documents.len() as f64 - n + 0.5).ln() - (n + 0.5).ln()
    };
    vocabulary.iter().map(|t| idf(t)).sum::<f64>() / vocabulary.len() as f64
}

fn words(numbers: &[u32]) -> Vec<String> {
    // Squaring makes low numbers common, so that many terms are in more than half of the documents.
    numbers.iter().map(|n| format!("w{}", n * n / 64)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn scores_are_those_of_rank_bm25_over_the_live_documents_to_the_bit(
        parts in prop::collection::vec(prop::collection::vec((prop::collection::vec(0u32..30, 0..12), any::<bool>()), 1..20), 1..6),
        query in prop::collection::vec(0u32..32, 1..8),
        k in 1usize..40,
        okapi: bool,
    ) {
        let scorer = if okapi { Scorer::Okapi } else { Scorer::Lucene };
        let query = words(&query);
        let (mut live, mut seqs, mut search_parts, mut next) = (Vec::new(), Vec::new(), Vec::new(), 0u64);
        for part in &parts {
            let texts: Vec<String> = part.iter().map(|(numbers, _)| words(numbers).join(" ")).collect();
            let reader = Model::of_texts(&texts.iter().map(String::as_str).collect::<Vec<_>>()).reader(true);
            search_parts.push(LivePart { reader, first_seq: next, dead: part.iter().map(|(_, dead)| *dead).collect() });
            for (i, (numbers, dead)) in part.iter().enumerate() {
                if !dead {
                    live.push(words(numbers));
                    seqs.push(next + i as u64);
                }
            }
            next += part.len() as u64;
        }
        let statistics =
            CorpusStatistics { documents: live.len() as u64, tokens: live.iter().map(|d| d.len() as u64).sum() };
        let asked = Cell::new(0);
        let average = if statistics.tokens == 0 { 0.0 } else { naive_average_idf(&live) };
        let mut give = || {
            asked.set(asked.get() + 1);
            Ok(average)
        };
        let found = search(&search_parts, &query, scorer, &statistics, &mut give, k).expect("searches");
        prop_assert!(asked.get() <= 1);
        if statistics.tokens == 0 {
            prop_assert!(found.is_empty());
            return Ok(());
        }
        let scores = oracle(&live, &query, scorer, average);
        let matches = |d: &Vec<String>| d.iter().any(|t| query.contains(t));
        let mut expected: Vec<(f64, u64)> = (0..live.len())
            .filter(|&i| matches(&live[i]) && (scorer == Scorer::Lucene || scores[i] > 0.0))
            .map(|i| (scores[i], seqs[i]))
            .collect();
        expected.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        expected.truncate(k);
        let found: Vec<(f64, u64)> = found.iter().map(|h| (h.score, h.seq.0)).collect();
        prop_assert_eq!(found, expected);
        let histogram = Model::of_texts(&live.iter().map(|d| d.join(" ")).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
        let compensated = average_idf(histogram.terms.values().map(|p| (p.len() as u64, 1)), statistics.documents);
        prop_assert!((compensated - average).abs() <= 1e-12 * (1.0 + average.abs()));
    }
}

//! Filters of every share of the documents: drawn at random, and standing near the queries or far from them.

use crate::ours::{load, quiet, triune_directory};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;
use triune::vector::kernel::dot;
use triune::{Collection, Database, Effort, Filter, Metadata};
use triune_benches::Failure;
use triune_benches::neighbours::{K, Neighbours};

/// Shares in hundredths of a percent.
const SHARES: [usize; 6] = [5_000, 2_000, 500, 100, 10, 1];
/// Queries of each kind.
const QUERIES: usize = 100;
const ROUNDS: usize = 3;

/// Measures recall and latency of filtered searches, beside the exact scan of what the filter admits and the unfiltered search.
pub(crate) fn measure(data: &Neighbours, path: &Path) -> Result<(), Failure> {
    // Documents by how near they stand to the first query: a filter on the rank takes a region of the space.
    let mut near: Vec<usize> = (0..data.points()).collect();
    let pivot = &data.queries[0];
    let scores: Vec<f64> = near.iter().map(|&i| dot(pivot, data.row(i))).collect();
    near.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let mut rank = vec![0; near.len()];
    near.iter().enumerate().for_each(|(r, &i)| rank[i] = r);
    if !path.join("HEAD").exists() {
        let spread = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 20;
        let flags = |i: usize| {
            let drawn = SHARES.iter().filter(|share| spread(i) % 10_000 < **share).map(|share| format!("drawn{share}"));
            let region = SHARES.iter().filter(|share| rank[i] < data.points() * **share / 10_000).map(|share| format!("region{share}"));
            let all: serde_json::Map<_, _> = drawn.chain(region).map(|key| (key, true.into())).collect();
            serde_json::Value::Object(all).to_string()
        };
        let metadata = |i| Metadata::from_json(flags(i)).expect("it is an object");
        let db = load(data, path, 16, 200, |document, i| document.metadata(metadata(i)))?;
        db.compact()?;
        db.close()?;
    }
    let db = Database::open_read_only_with(triune_directory(path)?, quiet())?;
    let collection = db.snapshot().collection("main")?;
    let mut by_nearness: Vec<&Vec<f32>> = data.queries.iter().collect();
    by_nearness.sort_by(|a, b| dot(pivot, b).total_cmp(&dot(pivot, a)));
    let spread: Vec<&Vec<f32>> = data.queries.iter().step_by(data.queries.len() / QUERIES).collect();
    let kinds = [
        ("random", "drawn", spread),
        ("correlated", "region", by_nearness[..QUERIES].to_vec()),
        ("anti-correlated", "region", by_nearness[by_nearness.len() - QUERIES..].to_vec()),
    ];
    for (name, key, queries) in kinds {
        for share in SHARES {
            let filter = Filter::parse(&format!(r#"{{"{key}{share}":true}}"#))?;
            one(&collection, name, share, &filter, &queries)?;
        }
    }
    Ok(())
}

fn one(collection: &Collection, name: &str, share: usize, filter: &Filter, queries: &[&Vec<f32>]) -> Result<(), Failure> {
    let asked = |filter: Option<&Filter>, effort| -> Result<(f64, Vec<BTreeSet<u64>>), Failure> {
        let begun = Instant::now();
        let mut all = Vec::with_capacity(queries.len());
        for query in queries {
            all.push(collection.nearest_with(query, filter, K, effort)?);
        }
        let took = begun.elapsed().as_secs_f64() * 1e6 / queries.len() as f64;
        Ok((took, all.into_iter().map(|hits| hits.into_iter().map(|h| h.seq.0).collect()).collect()))
    };
    let (mut filtered, mut exact, mut free) = (Vec::new(), Vec::new(), Vec::new());
    let (mut recall, mut short) = (0.0, 0);
    for _ in 0..ROUNDS {
        let (took, hits) = asked(Some(filter), Effort::DEFAULT)?;
        let (took_exact, truth) = asked(Some(filter), Effort::Exact)?;
        let (took_free, _) = asked(None, Effort::DEFAULT)?;
        let found: usize = hits.iter().zip(&truth).map(|(h, t)| h.intersection(t).count()).sum();
        recall = found as f64 / truth.iter().map(BTreeSet::len).sum::<usize>() as f64;
        short = hits.iter().zip(&truth).filter(|(h, t)| h.len() < t.len()).count();
        filtered.push(took);
        exact.push(took_exact);
        free.push(took_free);
    }
    let [filtered, exact, free] = [filtered, exact, free].map(|mut v| {
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    });
    let better = exact.min(free / (share as f64 / 10_000.0));
    println!(
        "filter {name:<15} {:>6.2} %: recall {recall:.4}, {filtered:>7.1} us; exact scan {exact:>8.1} us, unfiltered {free:.1} us: {:.2}x the better{}",
        share as f64 / 100.0,
        filtered / better,
        if short > 0 { format!(", {short} queries came short") } else { String::new() }
    );
    Ok(())
}

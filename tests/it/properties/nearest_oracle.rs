//! Holds what a search for vectors finds by itself against the model: walks may miss what belongs among the nearest, and nothing else may be wrong.

use super::filters;
use super::model::Collection;
use super::oracle::{Questions, TOLERANCE, place};
use std::collections::BTreeSet;
use triune::{Effort, Filter, Metric, Nearest};

/// Questions that vector graphs answered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Walked {
    pub plain: u64,
    /// With a filter, by a walk or a scan of codes.
    pub filtered: u64,
    /// Hits of all these, and those of them that an exact search has too.
    pub hits: u64,
    pub true_hits: u64,
}

impl Walked {
    pub fn and(self, other: Walked) -> Walked {
        Walked {
            plain: self.plain + other.plain,
            filtered: self.filtered + other.filtered,
            hits: self.hits + other.hits,
            true_hits: self.true_hits + other.true_hits,
        }
    }
}

/// With a filter and without. So few are asked for that a walk may be worth it.
pub fn check(found: &triune::Collection, name: &str, expected: &Collection, vector: &[f32], q: &mut Questions) {
    let scores = vector_scores(expected, vector);
    for filtered in [false, true] {
        let json = if filtered { filters::draw(&mut |below| q.pick(below), 1) } else { serde_json::json!({}) };
        let filter = Filter::parse(&json.to_string()).unwrap();
        let possible: Vec<Option<f64>> = expected.documents.iter().zip(&scores).map(|(d, s)| s.filter(|_| d.matches(&json))).collect();
        let (k, effort) = (1 + q.pick(4), [Effort::DEFAULT, Effort::DEFAULT, Effort::Ef(1), Effort::Recall(1.0)][q.pick(4)]);
        let ask = |effort| found.nearest_explained(vector, filtered.then_some(&filter), k, effort).unwrap();
        let (nearest, exact) = (ask(effort), ask(Effort::Exact));
        let about = format!("{name}: {vector:?} k {k}, {json}, {effort:?}: {nearest:?}, exactly {exact:?}");
        assert_eq!((exact.walks, exact.code_scans), (0, 0), "{about}");
        if nearest.walks + nearest.code_scans == 0 {
            assert_eq!(nearest, exact, "nothing was walked: {about}");
            continue;
        }
        are_hits(found, expected, &possible, &nearest, k, &about);
        let kept = exact.hits.last().map_or(f64::NEG_INFINITY, |hit| hit.score);
        let true_hits = nearest.hits.iter().filter(|hit| hit.score >= kept).count();
        // So few are all neighbours of each other: what is equally near may be another, nothing nearer is missing. Beside one that is longer by
        // powers of ten the codes of all others are alike, which nobody promises to walk well.
        if effort == Effort::DEFAULT && found.schema().hnsw.m == 16 && !expected.outsized {
            let scores = |of: &Nearest| of.hits.iter().map(|hit| hit.score).collect::<Vec<_>>();
            assert_eq!(scores(&nearest), scores(&exact), "{about}");
        }
        let (plain, filtered) = (u64::from(!filtered), u64::from(filtered));
        q.walked = q.walked.and(Walked { plain, filtered, hits: nearest.hits.len() as u64, true_hits: true_hits as u64 });
    }
}

/// As many as there can be, each of them one that may be a hit, with its score, in order.
fn are_hits(found: &triune::Collection, expected: &Collection, possible: &[Option<f64>], nearest: &Nearest, k: usize, about: &str) {
    assert_eq!(nearest.hits.len(), k.min(possible.iter().flatten().count()), "wrong number of hits: {about}");
    let places: Vec<usize> = nearest.hits.iter().map(|hit| place(expected, &found.id_of(hit).unwrap())).collect();
    assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), places.len(), "a document twice: {about}");
    for (hit, &at) in nearest.hits.iter().zip(&places) {
        let wanted = possible[at].unwrap_or_else(|| panic!("{:?} may not be a hit: {about}", expected.documents[at].id));
        assert!((hit.score - wanted).abs() <= TOLERANCE * wanted.abs().max(1.0), "a score differs from {wanted}: {about}");
    }
    let in_order = |i: usize| {
        let (x, y) = (&nearest.hits[i], &nearest.hits[i + 1]);
        x.score > y.score || (x.score == y.score && places[i] < places[i + 1])
    };
    assert!((1..places.len()).all(|i| in_order(i - 1)), "out of order: {about}");
}

/// Scores by document, `None` for one without a vector.
pub fn vector_scores(expected: &Collection, query: &[f32]) -> Vec<Option<f64>> {
    let wide = |v: &[f32]| v.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let q = wide(query);
    let score = |v: &[f32]| {
        let v = wide(v);
        match expected.metric {
            Metric::Dot => dot(&q, &v),
            Metric::L2 => -q.iter().zip(&v).map(|(x, y)| (x - y) * (x - y)).sum::<f64>(),
            Metric::Cosine => {
                let norms = (dot(&q, &q) * dot(&v, &v)).sqrt();
                if norms == 0.0 { 0.0 } else { dot(&q, &v) / norms }
            }
        }
    };
    expected.documents.iter().map(|d| d.vector.as_deref().map(score)).collect()
}

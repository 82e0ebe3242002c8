//! Equal texts become one passage, which keeps every finding; and the order by rank fusion.

use crate::error::Result;
use crate::retrieval::fusion::{CONSTANT, gain};
use crate::retrieval::passage::{Passage, Provenance};
use crate::retrieval::stage::{Stage, StageContext};
use rustc_hash::FxHashMap;

/// How passages of several retrievers are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By rank fusion over the lists in which they were found: scores of different kinds are never compared.
    #[default]
    RankFusion,
    /// By raw score, as adrag does: `compat`.
    RawScore,
}

/// Makes one passage of those with the same text, byte for byte, and orders what is left.
///
/// A passage stands where its text stood first. A later one replaces it there when its score is strictly greater, and the findings of all are kept, in
/// the order in which they came. Then, stably: by [`by_rank_fusion`], or by raw score descending, where a passage without a score counts 0. O(n log n).
///
/// ```
/// use triune::retrieval::stages::{Order, aggregate};
/// use triune::retrieval::{Passage, Provenance};
/// let found = |retriever: &str, rank, text: &str, score| Passage {
///     text: text.into(),
///     score: Some(score),
///     provenance: vec![Provenance { retriever: retriever.into(), source: "notes".into(), id: text.into(), rank, score }],
///     ..Passage::default()
/// };
/// let lists = vec![found("vector", 0, "a", 0.9), found("vector", 1, "b", 0.8), found("text", 0, "b", 7.5)];
/// let merged = aggregate(lists.clone(), Order::RankFusion);
/// assert_eq!(merged.iter().map(|p| (p.text.as_str(), p.provenance.len())).collect::<Vec<_>>(), [("b", 2), ("a", 1)]);
/// assert_eq!(merged[0].score, Some(7.5));
/// ```
pub fn aggregate(passages: Vec<Passage>, order: Order) -> Vec<Passage> {
    let mut merged: Vec<Passage> = Vec::with_capacity(passages.len());
    let mut places: FxHashMap<Box<str>, usize> = FxHashMap::default();
    for passage in passages {
        match places.get(passage.text.as_str()) {
            None => {
                places.insert(passage.text.as_str().into(), merged.len());
                merged.push(passage);
            }
            Some(&place) => {
                let kept = &mut merged[place];
                if comparable(&passage) > comparable(kept) {
                    let earlier = std::mem::replace(kept, passage);
                    let later = std::mem::replace(&mut kept.provenance, earlier.provenance);
                    kept.provenance.extend(later);
                } else {
                    kept.provenance.extend(passage.provenance);
                }
            }
        }
    }
    match order {
        Order::RankFusion => by_rank_fusion(&mut merged),
        Order::RawScore => merged.sort_by(|a, b| comparable(b).total_cmp(&comparable(a))),
    }
    merged
}

/// A passage's raw score; 0 without one, and for what is no number.
fn comparable(passage: &Passage) -> f64 {
    // Adding zero makes of the negative zero the other one, which it equals.
    passage.score.filter(|score| !score.is_nan()).unwrap_or(0.0) + 0.0
}

/// Orders passages by reciprocal rank fusion (1 / (60 + rank), rank from 0) over the lists in which they were found: one for each retriever and source
/// of their findings. A list counts once for a passage, with its best rank. Equal ones keep their order. Passages without a finding are one more
/// list, as they stand.
pub fn by_rank_fusion(passages: &mut Vec<Passage>) {
    let mut unfound = 0;
    let mut score = |passage: &Passage| {
        if passage.provenance.is_empty() {
            unfound += 1;
            return gain(CONSTANT, unfound - 1);
        }
        fused(&passage.provenance)
    };
    let mut scored: Vec<(f64, Passage)> = passages.drain(..).map(|passage| (score(&passage), passage)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    passages.extend(scored.into_iter().map(|(_, passage)| passage));
}

/// What the findings of one passage add up to.
fn fused(findings: &[Provenance]) -> f64 {
    let mut best: Vec<(&str, &str, usize)> = findings.iter().map(|f| (&*f.retriever, &*f.source, f.rank)).collect();
    best.sort_unstable();
    best.dedup_by_key(|(retriever, source, _)| (*retriever, *source));
    let mut ranks: Vec<usize> = best.into_iter().map(|(_, _, rank)| rank).collect();
    // In one order, so that equal ranks give equal sums whichever list came first.
    ranks.sort_unstable();
    ranks.into_iter().map(|rank| gain(CONSTANT, rank)).sum()
}

/// [`aggregate`] as a stage: for what a dispatcher found in several groups.
#[derive(Debug, Clone, Copy, Default)]
pub struct AggregateStage {
    /// How what is left is ordered.
    pub order: Order,
}

impl Stage for AggregateStage {
    fn name(&self) -> &str {
        "aggregate"
    }

    fn apply(&self, _: &StageContext<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>> {
        Ok(aggregate(passages, self.order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(retriever: &str, rank: usize, text: &str, score: Option<f64>) -> Passage {
        let finding = Provenance {
            retriever: retriever.into(),
            source: "s".into(),
            id: format!("{retriever}{rank}"),
            rank,
            score: score.unwrap_or(0.0),
        };
        Passage { id: finding.id.clone(), text: text.into(), score, provenance: vec![finding], ..Passage::default() }
    }

    fn shape(passages: &[Passage]) -> Vec<(&str, &str, usize)> {
        passages.iter().map(|p| (p.text.as_str(), p.id.as_str(), p.provenance.len())).collect()
    }

    #[test]
    fn a_strictly_greater_score_replaces_at_the_place_of_the_first_and_every_finding_is_kept() {
        let lists = vec![
            found("vector", 0, "a", Some(0.5)),
            found("vector", 1, "b", Some(0.4)),
            found("text", 0, "b", Some(0.4)),
            found("text", 1, "a", Some(3.0)),
            found("graph", 0, "a", Some(2.0)),
        ];
        let merged = aggregate(lists, Order::RawScore);
        // An equal score does not replace.
        assert_eq!(shape(&merged), [("a", "text1", 3), ("b", "vector1", 2)]);
        let of_a: Vec<&str> = merged[0].provenance.iter().map(|f| f.id.as_str()).collect();
        assert_eq!(of_a, ["vector0", "text1", "graph0"]);
    }

    #[test]
    fn raw_scores_order_stably_and_an_absent_one_counts_zero() {
        let lists = vec![
            found("web", 0, "none", None),
            found("vector", 0, "minus", Some(-0.1)),
            found("vector", 1, "zero", Some(-0.0)),
            found("vector", 2, "nan", Some(f64::NAN)),
            found("text", 0, "plus", Some(0.1)),
        ];
        let order: Vec<String> = aggregate(lists, Order::RawScore).into_iter().map(|p| p.text).collect();
        assert_eq!(order, ["plus", "none", "zero", "nan", "minus"]);
    }

    #[test]
    fn rank_fusion_compares_no_scores_and_ties_keep_their_order() {
        let lists = vec![
            found("vector", 0, "v0", Some(0.9)),
            found("vector", 1, "both", Some(0.8)),
            found("text", 0, "t0", Some(99.0)),
            found("text", 1, "both", Some(50.0)),
            found("text", 2, "v0 is not this", Some(40.0)),
        ];
        let order: Vec<String> = aggregate(lists, Order::RankFusion).into_iter().map(|p| p.text).collect();
        assert_eq!(order, ["both", "v0", "t0", "v0 is not this"]);
    }

    #[test]
    fn a_text_that_stands_often_in_one_list_gains_once_by_its_best_place() {
        let mut lists = vec![found("vector", 0, "answer", Some(0.9))];
        lists.extend((1..9).map(|rank| found("vector", rank, "footer", Some(0.5))));
        let merged = aggregate(lists, Order::RankFusion);
        assert_eq!(shape(&merged), [("answer", "vector0", 1), ("footer", "vector1", 8)]);
        // The same place in lists of two sources is two findings.
        let mut of_other = found("vector", 5, "answer", Some(0.1));
        of_other.provenance[0].source = "other".into();
        assert!(fused(&[of_other.provenance[0].clone(), merged[0].provenance[0].clone()]) > fused(&merged[0].provenance));
    }

    #[test]
    fn passages_without_a_finding_are_a_list_as_they_stand() {
        let plain = |text: &str| Passage { text: text.into(), ..Passage::default() };
        let mut passages = vec![found("vector", 2, "third", None), plain("x"), plain("y"), found("vector", 1, "second", None)];
        by_rank_fusion(&mut passages);
        let order: Vec<&str> = passages.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(order, ["x", "y", "second", "third"]);
        assert!(aggregate(Vec::new(), Order::RankFusion).is_empty());
    }
}

//! What an answer is worth, given the judgements of its question.
//!
//! nDCG as Järvelin and Kekäläinen (2002) have it, in the form that trec_eval computes: the gain of a document is its grade, a document at rank
//! r (from 1) counts 1 / log2(1 + r) of it, and the sum is divided by that of the best order of all judged documents. Grades of 0 and below
//! are as good as no judgement.

use std::collections::HashMap;

/// The relevant documents of a question with their grades, all above 0.
pub(super) type Grades = HashMap<String, f64>;

/// What one answer is worth; each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Worth {
    /// Normalised discounted cumulative gain.
    pub(super) ndcg: f64,
    /// Relevant documents found, over all relevant ones.
    pub(super) recall: f64,
    /// 1 over the rank of the first relevant document, from 1; 0 without one.
    pub(super) reciprocal_rank: f64,
}

/// The worth of the first `k` ids of an answer, best first. `grades` holds at least one document.
pub(super) fn worth(answer: &[&str], grades: &Grades, k: usize) -> Worth {
    let top = &answer[..answer.len().min(k)];
    let gains: Vec<f64> = top.iter().map(|id| grades.get(*id).copied().unwrap_or(0.0)).collect();
    let mut ideal: Vec<f64> = grades.values().copied().collect();
    ideal.sort_by(|a, b| b.total_cmp(a));
    ideal.truncate(k);
    let found = gains.iter().filter(|g| **g > 0.0).count();
    let first = gains.iter().position(|g| *g > 0.0);
    Worth {
        ndcg: discounted(&gains) / discounted(&ideal),
        recall: found as f64 / grades.len() as f64,
        reciprocal_rank: first.map_or(0.0, |rank| 1.0 / (rank + 1) as f64),
    }
}

fn discounted(gains: &[f64]) -> f64 {
    // The sum of nothing would be -0.
    gains.iter().enumerate().map(|(rank, gain)| gain / ((rank + 2) as f64).log2()).fold(0.0, |sum, gain| sum + gain)
}

/// The mean of several.
pub(super) fn mean(worths: &[Worth]) -> Worth {
    let n = worths.len().max(1) as f64;
    let of = |what: fn(&Worth) -> f64| worths.iter().map(what).sum::<f64>() / n;
    Worth { ndcg: of(|w| w.ndcg), recall: of(|w| w.recall), reciprocal_rank: of(|w| w.reciprocal_rank) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grades(of: &[(&str, f64)]) -> Grades {
        of.iter().map(|(id, grade)| ((*id).to_string(), *grade)).collect()
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} and {b}");
    }

    #[test]
    fn the_best_order_is_worth_one() {
        let judged = grades(&[("a", 1.0), ("b", 2.0)]);
        assert_eq!(worth(&["b", "a", "x"], &judged, 10), Worth { ndcg: 1.0, recall: 1.0, reciprocal_rank: 1.0 });
    }

    #[test]
    fn graded_documents_in_another_order_are_worth_what_a_hand_computes() {
        // Gains 1, 0, 3 at ranks 1, 2, 3: 1 + 3/2. The best order is 3, 2, 1: 3 + 2/log2(3) + 1/2.
        let w = worth(&["a", "x", "c"], &grades(&[("a", 1.0), ("b", 2.0), ("c", 3.0)]), 10);
        near(w.ndcg, 2.5 / (3.5 + 2.0 / 3f64.log2()));
        near(w.recall, 2.0 / 3.0);
        near(w.reciprocal_rank, 1.0);
    }

    #[test]
    fn what_lies_below_k_counts_for_nothing_and_the_best_order_ends_there_too() {
        let judged = grades(&[("a", 1.0), ("b", 1.0), ("c", 1.0)]);
        let w = worth(&["x", "a", "b", "c"], &judged, 2);
        // 1/log2(3) over 1 + 1/log2(3): of three relevant documents two fit.
        near(w.ndcg, (1.0 / 3f64.log2()) / (1.0 + 1.0 / 3f64.log2()));
        near(w.recall, 1.0 / 3.0);
        near(w.reciprocal_rank, 0.5);
    }

    #[test]
    fn an_answer_without_a_relevant_document_is_worth_nothing() {
        for answer in [&["x", "y"][..], &[]] {
            assert_eq!(worth(answer, &grades(&[("a", 1.0)]), 10), Worth::default());
        }
    }

    #[test]
    fn of_two_documents_with_equal_scores_the_order_of_the_answer_decides() {
        let judged = grades(&[("a", 1.0)]);
        near(worth(&["a", "b"], &judged, 10).ndcg, 1.0);
        near(worth(&["b", "a"], &judged, 10).ndcg, 1.0 / 3f64.log2());
    }

    #[test]
    fn the_mean_counts_every_question_alike() {
        let one = Worth { ndcg: 1.0, recall: 0.5, reciprocal_rank: 1.0 };
        assert_eq!(mean(&[one, Worth::default()]), Worth { ndcg: 0.5, recall: 0.25, reciprocal_rank: 0.5 });
        assert_eq!(mean(&[]), Worth::default());
    }
}

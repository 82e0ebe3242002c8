//! Reciprocal rank fusion: several ranked lists into one, by rank alone, so that scores of different kinds never have to be compared.
//!
//! Pure: it knows neither documents nor retrievers. The result depends on the order of the lists, never on the hash of a key.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// One ranked list, best first.
#[derive(Debug, Clone, Copy)]
pub struct WeightedList<'a, K> {
    /// What was ranked.
    pub keys: &'a [K],
    /// How much the list counts; 1 is usual. Finite and not negative.
    pub weight: f64,
}

/// A key with its fused score and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Fused<K> {
    /// What was ranked.
    pub key: K,
    /// The sum of its contributions, greater is better.
    pub score: f64,
    /// Its first rank in each list, from 0, in the order of the lists; `None` where it is absent.
    pub ranks: Vec<Option<usize>>,
}

/// What flattens the difference between ranks, where nobody says otherwise.
pub const CONSTANT: f64 = 60.0;

/// What a list of weight 1 adds for its entry at `rank`, from 0.
pub fn gain(constant: f64, rank: usize) -> f64 {
    1.0 / (constant + rank as f64)
}

/// Fuses ranked lists: a key at `rank` (from 0) of a list gains `1 / (constant + rank)` times the list's weight. Best first, at most `k`;
/// equal scores keep the order in which the keys first appear, the first list first. A key that stands in one list twice gains twice.
///
/// `constant` is positive; 60 is usual. O(n log n) in the number of all keys.
///
/// ```
/// use triune::retrieval::fusion::{WeightedList, reciprocal_rank_fusion};
/// let (by_vector, by_text) = (["a", "b"], ["c", "b"]);
/// let lists = [WeightedList { keys: &by_vector, weight: 1.0 }, WeightedList { keys: &by_text, weight: 1.0 }];
/// let fused = reciprocal_rank_fusion(&lists, 60.0, 10);
/// assert_eq!(fused.iter().map(|f| f.key).collect::<Vec<_>>(), ["b", "a", "c"]);
/// assert_eq!(fused[0].ranks, [Some(1), Some(1)]);
/// ```
pub fn reciprocal_rank_fusion<K: Hash + Eq + Clone>(lists: &[WeightedList<'_, K>], constant: f64, k: usize) -> Vec<Fused<K>> {
    let mut fused: Vec<Fused<K>> = Vec::new();
    let mut places: FxHashMap<&K, usize> = FxHashMap::default();
    for (l, list) in lists.iter().enumerate() {
        for (rank, key) in list.keys.iter().enumerate() {
            let place = *places.entry(key).or_insert_with(|| {
                fused.push(Fused { key: key.clone(), score: 0.0, ranks: vec![None; lists.len()] });
                fused.len() - 1
            });
            let entry = &mut fused[place];
            entry.score += gain(constant, rank) * list.weight;
            entry.ranks[l].get_or_insert(rank);
        }
    }
    // The sort is stable, so ties stay in the order of first appearance.
    fused.sort_by(|a, b| b.score.total_cmp(&a.score));
    fused.truncate(k);
    fused
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    /// A golden case. Scores stay text until the standard library, which rounds correctly, reads them.
    #[derive(serde::Deserialize)]
    struct Case {
        lists: Vec<Vec<String>>,
        k: f64,
        fused: Vec<(String, Box<RawValue>)>,
    }

    fn fuse<'a>(lists: &[&[&'a str]], weights: &[f64], k: usize) -> Vec<Fused<&'a str>> {
        let lists: Vec<_> = lists.iter().zip(weights).map(|(&keys, &weight)| WeightedList { keys, weight }).collect();
        reciprocal_rank_fusion(&lists, 60.0, k)
    }

    #[test]
    fn the_golden_lists_fuse_to_the_golden_answers() {
        let golden = include_str!("../../tests/golden/rrf.jsonl");
        let mut cases = 0;
        for line in golden.lines() {
            let Case { lists, k, fused: expected } = serde_json::from_str(line).expect("golden files are JSON lines");
            let exactly = |score: &RawValue| score.get().parse::<f64>().expect("a number");
            let expected: Vec<_> = expected.into_iter().map(|(id, score)| (id, exactly(&score))).collect();
            let weighted: Vec<_> = lists.iter().map(|keys| WeightedList { keys, weight: 1.0 }).collect();
            let fused = reciprocal_rank_fusion(&weighted, k, usize::MAX);
            let got: Vec<(String, f64)> = fused.iter().map(|f| (f.key.clone(), f.score)).collect();
            assert_eq!(got, expected);
            for f in &fused {
                let ranks: Vec<_> = lists.iter().map(|list| list.iter().position(|id| *id == f.key)).collect();
                assert_eq!(f.ranks, ranks, "{}", f.key);
            }
            cases += 1;
        }
        assert_eq!(cases, 20);
    }

    #[test]
    fn ties_keep_the_order_of_first_appearance() {
        let fused = fuse(&[&["a", "b"], &["c", "d"]], &[1.0, 1.0], 10);
        assert_eq!(fused.iter().map(|f| f.key).collect::<Vec<_>>(), ["a", "c", "b", "d"]);
        assert_eq!(fused[1].ranks, [None, Some(0)]);
    }

    #[test]
    fn a_heavier_list_goes_first() {
        let fused = fuse(&[&["a", "b"], &["c", "d"]], &[1.0, 2.0], 10);
        assert_eq!(fused.iter().map(|f| f.key).collect::<Vec<_>>(), ["c", "d", "a", "b"]);
        assert_eq!(fused[0].score, 2.0 / 60.0);
    }

    #[test]
    fn a_repeated_key_gains_twice_and_keeps_its_first_rank() {
        let fused = fuse(&[&["a", "b", "b"]], &[1.0], 10);
        assert_eq!(fused[0].key, "b");
        assert_eq!(fused[0].score, 1.0 / 61.0 + 1.0 / 62.0);
        assert_eq!(fused[0].ranks, [Some(1)]);
    }

    #[test]
    fn at_most_k_are_returned() {
        assert_eq!(fuse(&[&["a", "b", "c"]], &[1.0], 2).len(), 2);
        assert!(fuse(&[&["a"]], &[1.0], 0).is_empty());
        assert!(fuse(&[], &[], 5).is_empty());
        assert!(fuse(&[&[], &[]], &[1.0, 1.0], 5).is_empty());
    }
}

//! The one order of results: score descending, then insertion order.

use crate::ids::Seq;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Where a stored document version lies inside one snapshot: which part of its collection, and which row of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowAddress {
    /// Index of the part (segment or memtable) in the snapshot's collection.
    pub part: u32,
    /// Row inside the part.
    pub row: u32,
}

/// A row with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// Greater is better.
    pub score: f64,
    /// Breaks ties: the lower one, committed earlier, comes first.
    pub seq: Seq,
    /// Where the row is.
    pub address: RowAddress,
}

impl Scored {
    /// `Less` when `self` comes before `other` in results.
    pub fn ranking(&self, other: &Scored) -> Ordering {
        other.score.total_cmp(&self.score).then(self.seq.cmp(&other.seq))
    }
}

/// A `Scored` ordered so that the worst of a heap is on top.
#[derive(Debug)]
struct Worst(Scored);

impl PartialEq for Worst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Worst {}
impl PartialOrd for Worst {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Worst {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.ranking(&other.0)
    }
}

/// Keeps the best `k` of what it is offered. O(log k) an offer that enters, O(1) one that does not.
#[derive(Debug)]
pub struct TopK {
    k: usize,
    heap: BinaryHeap<Worst>,
}

impl TopK {
    /// Keeps at most `k`.
    pub fn new(k: usize) -> TopK {
        TopK { k, heap: BinaryHeap::with_capacity(k.min(1024)) }
    }

    /// Whether a row of this score could still enter (its seq may decide).
    #[inline]
    pub fn admits(&self, score: f64) -> bool {
        self.heap.len() < self.k || self.heap.peek().is_some_and(|w| score >= w.0.score)
    }

    /// Offers a row.
    #[inline]
    pub fn offer(&mut self, hit: Scored) {
        if self.heap.len() < self.k {
            self.heap.push(Worst(hit));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && hit.ranking(&worst.0) == Ordering::Less
        {
            worst.0 = hit;
        }
    }

    /// The kept rows, best first.
    pub fn into_sorted(self) -> Vec<Scored> {
        let mut hits: Vec<Scored> = self.heap.into_iter().map(|w| w.0).collect();
        hits.sort_by(Scored::ranking);
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(score: f64, seq: u64) -> Scored {
        Scored { score, seq: Seq(seq), address: RowAddress { part: 0, row: seq as u32 } }
    }

    #[test]
    fn the_best_k_are_kept_and_ties_go_to_the_earlier_seq() {
        let mut top = TopK::new(3);
        for (score, seq) in [(1.0, 5), (2.0, 4), (1.0, 1), (0.5, 0), (1.0, 3)] {
            top.offer(hit(score, seq));
        }
        assert_eq!(top.into_sorted().iter().map(|h| h.seq.0).collect::<Vec<_>>(), [4, 1, 3]);
    }

    #[test]
    fn k_of_zero_keeps_nothing() {
        let mut top = TopK::new(0);
        assert!(!top.admits(f64::INFINITY));
        top.offer(hit(1.0, 1));
        assert!(top.into_sorted().is_empty());
    }
}

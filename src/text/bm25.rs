//! The arithmetic of both scorers, in `f64` and in the order that rank_bm25 computes it.
//!
//! The order of operations is part of the answer: a compiler never fuses or reorders these by itself, and `mul_add` has no place here.

use crate::options::Scorer;

/// The share of the average idf that a term gets whose own is negative (Okapi).
pub const OKAPI_EPSILON: f64 = 0.25;

/// How a document's length and a term's frequency weigh.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    scorer: Scorer,
    k1: f64,
    b: f64,
    average_length: f64,
}

impl Weights {
    /// The weights of `scorer` in a corpus of `documents` documents (at least 1) with `tokens` tokens (at least 1).
    pub fn new(scorer: Scorer, documents: u64, tokens: u64) -> Weights {
        let k1 = match scorer {
            Scorer::Lucene => 1.2,
            Scorer::Okapi => 1.5,
        };
        Weights { scorer, k1, b: 0.75, average_length: tokens as f64 / documents as f64 }
    }

    /// What a document of `length` tokens adds to each frequency below the fraction bar.
    #[inline]
    pub fn norm(&self, length: u32) -> f64 {
        self.k1 * (1.0 - self.b + self.b * f64::from(length) / self.average_length)
    }

    /// What one query token adds to a document's score: its term has `idf` and occurs `frequency` times in a document of this norm.
    #[inline]
    pub fn contribution(&self, idf: f64, frequency: u32, norm: f64) -> f64 {
        let frequency = f64::from(frequency);
        match self.scorer {
            Scorer::Lucene => idf * (frequency / (frequency + norm)),
            Scorer::Okapi => idf * (frequency * (self.k1 + 1.0) / (frequency + norm)),
        }
    }
}

/// Lucene's idf of a term that `df` of `documents` documents hold: always positive.
pub fn lucene_idf(documents: u64, df: u64) -> f64 {
    let n = df as f64;
    (1.0 + (documents as f64 - n + 0.5) / (n + 0.5)).ln()
}

/// Okapi's idf of a term that `df` of `documents` documents hold, before the floor: negative when more than half do.
pub fn okapi_raw_idf(documents: u64, df: u64) -> f64 {
    let n = df as f64;
    (documents as f64 - n + 0.5).ln() - (n + 0.5).ln()
}

/// What Okapi puts in the place of a negative idf. Negative itself when most terms are in most documents.
pub fn okapi_floor(average_idf: f64) -> f64 {
    OKAPI_EPSILON * average_idf
}

/// The mean of the raw idf over all live terms, from how many terms have which document frequency. The sum is compensated, so that it does
/// not depend on the number of terms. 0 without a term.
pub fn average_idf(histogram: impl Iterator<Item = (u64, u64)>, documents: u64) -> f64 {
    let (mut sum, mut lost, mut terms) = (0.0f64, 0.0f64, 0u64);
    for (df, count) in histogram {
        let value = okapi_raw_idf(documents, df) * count as f64;
        let next = sum + value;
        // Neumaier: what the addition rounded away is kept, whichever operand was smaller.
        lost += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        sum = next;
        terms += count;
    }
    if terms == 0 { 0.0 } else { (sum + lost) / terms as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn okapi_has_the_values_of_rank_bm25() {
        // ["the cat sat", "the dog ran", "the bird flew"]: `the` in three documents, six terms in one.
        let average = average_idf([(1, 6), (3, 1)].into_iter(), 3);
        assert!((average - 0.159_863_370_5).abs() < 1e-10);
        assert!((okapi_raw_idf(3, 1) - 0.510_825_623_8).abs() < 1e-10);
        assert!((okapi_floor(average) - 0.039_965_842_6).abs() < 1e-10);
        assert_eq!(okapi_raw_idf(2, 1), 0.0);
        assert_eq!(average_idf(std::iter::empty(), 3), 0.0);
    }

    #[test]
    fn lucene_is_positive_even_for_a_term_of_every_document() {
        assert!(lucene_idf(1_000_000, 1_000_000) > 0.0);
        let w = Weights::new(Scorer::Lucene, 1, 3);
        assert!(w.contribution(lucene_idf(1, 1), 1, w.norm(3)) > 0.0);
    }
}

//! A query vector, and its score against a stored one.

use super::kernel;
use crate::options::Metric;

/// A query vector under a metric. Its components are finite; the callers refuse others.
#[derive(Debug, Clone)]
pub struct QueryVector {
    metric: Metric,
    components: Box<[f32]>,
    inverse_norm: f64,
}

impl QueryVector {
    /// Takes the query's components.
    pub fn new(metric: Metric, components: &[f32]) -> QueryVector {
        QueryVector { metric, components: components.into(), inverse_norm: kernel::inverse_norm(components) }
    }

    /// How many components it has.
    pub fn dimension(&self) -> usize {
        self.components.len()
    }

    /// Its components.
    pub fn components(&self) -> &[f32] {
        &self.components
    }

    /// How it is compared.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Whether scores depend on the inverse norm of the stored vector.
    pub fn needs_norms(&self) -> bool {
        self.metric == Metric::Cosine
    }

    /// The score of a stored vector, greater is nearer: its cosine in [-1, 1] (0 when either vector is zero), the inner product, or the
    /// negated squared distance. `inverse_norm` is the stored vector's [`kernel::inverse_norm`]; only the cosine looks at it. O(dimension).
    ///
    /// # Panics
    /// When `vector` has another dimension.
    pub fn score(&self, vector: &[f32], inverse_norm: f64) -> f64 {
        match self.metric {
            Metric::Cosine => self.cosine(kernel::dot(&self.components, vector), inverse_norm),
            Metric::Dot => kernel::dot(&self.components, vector),
            Metric::L2 => negated(kernel::squared_distance(&self.components, vector)),
        }
    }

    /// [`QueryVector::score`] of each of the `scores.len()` vectors that lie one after another in `rows`, the same bits, faster.
    /// `inverse_norm(i)` is asked only under the cosine.
    ///
    /// # Panics
    /// When `rows` does not hold exactly `scores.len()` vectors of the query's dimension.
    pub fn score_rows(&self, rows: &[f32], inverse_norm: impl Fn(usize) -> f64, scores: &mut [f64]) {
        match self.metric {
            Metric::Cosine => {
                kernel::dot_rows(&self.components, rows, scores);
                for (i, score) in scores.iter_mut().enumerate() {
                    *score = self.cosine(*score, inverse_norm(i));
                }
            }
            Metric::Dot => kernel::dot_rows(&self.components, rows, scores),
            Metric::L2 => {
                kernel::squared_distance_rows(&self.components, rows, scores);
                scores.iter_mut().for_each(|score| *score = negated(*score));
            }
        }
    }

    fn cosine(&self, dot: f64, inverse_norm: f64) -> f64 {
        (dot * self.inverse_norm * inverse_norm).clamp(-1.0, 1.0)
    }
}

/// The negation, but of 0.0 it is 0.0: total order sets -0.0 below.
fn negated(squared_distance: f64) -> f64 {
    0.0 - squared_distance
}

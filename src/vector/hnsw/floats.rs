//! Points compared by their components.

use super::space::Space;
use crate::vector::kernel::walk;

/// Vectors one after another, compared by inner product: cosine, when they have length 1.
#[derive(Debug)]
pub struct FloatSpace<'a> {
    rows: &'a [f32],
    dimension: usize,
}

impl<'a> FloatSpace<'a> {
    /// The vectors in `rows`.
    ///
    /// # Panics
    /// When `rows` has no whole number of vectors.
    pub fn new(rows: &'a [f32], dimension: usize) -> FloatSpace<'a> {
        assert!(dimension > 0 && rows.len().is_multiple_of(dimension), "whole vectors");
        FloatSpace { rows, dimension }
    }
}

impl Space for FloatSpace<'_> {
    type Query = Vec<f32>;

    fn points(&self) -> usize {
        self.rows.len() / self.dimension
    }

    fn query_of(&self, point: u32, query: &mut Vec<f32>) {
        let at = point as usize * self.dimension;
        query.clear();
        query.extend_from_slice(&self.rows[at..at + self.dimension]);
    }

    #[inline]
    fn distances(&self, query: &Vec<f32>, points: &[u32], out: &mut [f32]) {
        walk::negative_dots(query, self.rows, points, out);
    }

    fn are_copies(&self, a: u32, b: u32) -> bool {
        let row = |point: u32| &self.rows[point as usize * self.dimension..][..self.dimension];
        row(a) == row(b)
    }
}

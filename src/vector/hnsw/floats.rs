//! Points compared by the components of their images.

use super::images::{Images, Vectors};
use super::space::Space;
use crate::error::Result;
use crate::options::Metric;
use crate::vector::kernel::{self, walk};
use std::borrow::Cow;

/// Images one after another, compared as their metric says.
#[derive(Debug)]
pub struct FloatSpace<'a> {
    rows: Cow<'a, [f32]>,
    dimension: usize,
    metric: Metric,
}

impl FloatSpace<'_> {
    /// The vectors in `rows`, compared by inner product: cosine, when they have length 1.
    ///
    /// # Panics
    /// When `rows` has no whole number of vectors.
    pub fn new(rows: &[f32], dimension: usize) -> FloatSpace<'_> {
        assert!(dimension > 0 && rows.len().is_multiple_of(dimension), "whole vectors");
        FloatSpace { rows: Cow::Borrowed(rows), dimension, metric: Metric::Cosine }
    }

    /// The images of these vectors, in their order. O(vectors x dimension), and as much memory.
    pub fn of_vectors(images: &Images, count: u32, vectors: &dyn Vectors) -> Result<FloatSpace<'static>> {
        let (mut rows, mut image) = (Vec::with_capacity(count as usize * images.dimension()), Vec::new());
        vectors.for_each(&mut |x| {
            images.image(x, &mut image);
            rows.extend_from_slice(&image);
            Ok(())
        })?;
        Ok(FloatSpace { rows: Cow::Owned(rows), dimension: images.dimension(), metric: images.metric() })
    }

    fn row(&self, point: u32) -> &[f32] {
        &self.rows[point as usize * self.dimension..][..self.dimension]
    }
}

impl Space for FloatSpace<'_> {
    type Query = Vec<f32>;

    fn points(&self) -> usize {
        self.rows.len() / self.dimension
    }

    fn query_of(&self, point: u32, query: &mut Vec<f32>) {
        query.clear();
        query.extend_from_slice(self.row(point));
    }

    #[inline]
    fn distances(&self, query: &Vec<f32>, points: &[u32], out: &mut [f32]) {
        if self.metric == Metric::L2 {
            for (&point, out) in points.iter().zip(out) {
                *out = kernel::squared_distance(query, self.row(point)) as f32;
            }
            return;
        }
        walk::negative_dots(query, &self.rows, points, out);
    }

    fn are_copies(&self, a: u32, b: u32) -> bool {
        self.row(a) == self.row(b)
    }
}

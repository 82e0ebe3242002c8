//! Vectors, queries, and the true neighbours of the queries.

use std::path::Path;
use triune::vector::kernel::dot_rows;
use triune_benches::Failure;
pub(crate) use triune_benches::neighbours::K;
use triune_benches::neighbours::Neighbours;

pub(crate) struct Data {
    /// All vectors, one after another.
    pub(crate) base: Vec<f32>,
    pub(crate) dimension: usize,
    pub(crate) queries: Vec<Vec<f32>>,
    /// By query, its nearest K.
    pub(crate) truth: Vec<Vec<u32>>,
}

impl Data {
    /// Reads `base.npy`, `queries.npy` and `truth.npy`; of the base only the first `points`.
    pub(crate) fn read(folder: &Path, points: Option<usize>) -> Result<Data, Failure> {
        let Neighbours { mut base, dimension, queries, mut truth } = Neighbours::read(folder)?;
        if let Some(points) = points {
            base.truncate(points * dimension);
            truth = exact(&base, &queries);
        }
        Ok(Data { base, dimension, queries, truth })
    }

    pub(crate) fn points(&self) -> usize {
        self.base.len() / self.dimension
    }

    pub(crate) fn row(&self, point: u32) -> &[f32] {
        &self.base[point as usize * self.dimension..][..self.dimension]
    }

    /// The vectors of some points, in this order.
    pub(crate) fn rows(&self, points: &[u32]) -> Vec<f32> {
        points.iter().flat_map(|&point| self.row(point)).copied().collect()
    }

    /// The same data with all points in another order.
    pub(crate) fn renumbered(&self, points: &[u32]) -> Data {
        let mut nodes = vec![0; points.len()];
        points.iter().zip(0u32..).for_each(|(&point, node)| nodes[point as usize] = node);
        let truth = self.truth.iter().map(|t| t.iter().map(|&p| nodes[p as usize]).collect()).collect();
        Data { base: self.rows(points), dimension: self.dimension, queries: self.queries.clone(), truth }
    }

    /// Some of the points alone, with their true neighbours.
    pub(crate) fn subset(&self, points: &[u32]) -> Data {
        let base = self.rows(points);
        let truth = exact(&base, &self.queries);
        Data { base, dimension: self.dimension, queries: self.queries.clone(), truth }
    }
}

/// The nearest K of each query, by the canonical kernel, on two threads.
fn exact(base: &[f32], queries: &[Vec<f32>]) -> Vec<Vec<u32>> {
    let of = |query: &Vec<f32>| {
        let mut scores = vec![0.0; base.len() / query.len()];
        dot_rows(query, base, &mut scores);
        let mut all: Vec<(f64, u32)> = scores.into_iter().zip(0u32..).collect();
        let order = |a: &(f64, u32), b: &(f64, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        let k = K.min(all.len());
        all.select_nth_unstable_by(k - 1, order);
        all.truncate(k);
        all.iter().map(|(_, point)| *point).collect()
    };
    let (left, right) = queries.split_at(queries.len() / 2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| right.iter().map(of).collect::<Vec<_>>());
        let mut all: Vec<Vec<u32>> = left.iter().map(of).collect();
        all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        all
    })
}

//! Images: what a graph compares in place of the vectors, so that one kernel serves every metric. Spec §12.5.

use crate::error::Result;
use crate::format::vector_codes::image_dimension;
use crate::options::Metric;
use crate::vector::kernel;

/// Calls a sink with the vectors of a segment in order of their positions, as often as it is asked to, by several threads at once: what building
/// reads in several passes.
pub trait Vectors: Sync {
    /// Every vector, in the same order each time. Stops at the first error of `sink`.
    fn for_each(&self, sink: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()>;
}

/// Makes images of the vectors of one segment.
#[derive(Debug, Clone, PartialEq)]
pub struct Images {
    metric: Metric,
    dimension: u32,
    unit: f64,
}

impl Images {
    /// Images with a unit that is known already.
    pub fn with_unit(metric: Metric, dimension: u32, unit: f64) -> Images {
        Images { metric, dimension, unit }
    }

    /// Reads what the images of these vectors need: their greatest length, or their greatest component. O(vectors x dimension).
    pub fn of(metric: Metric, dimension: u32, vectors: &dyn Vectors) -> Result<Images> {
        let mut greatest = 0f64;
        match metric {
            Metric::Cosine => {}
            Metric::Dot => vectors.for_each(&mut |x| {
                greatest = greatest.max(kernel::dot(x, x).sqrt());
                Ok(())
            })?,
            Metric::L2 => vectors.for_each(&mut |x| {
                greatest = x.iter().fold(greatest, |most, c| most.max(f64::from(c.abs())));
                Ok(())
            })?,
        }
        Ok(Images { metric, dimension, unit: if greatest > 0.0 { greatest } else { 1.0 } })
    }

    /// How images are compared.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// What vectors are divided by; 1 under the cosine.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// Components of an image.
    pub fn dimension(&self) -> usize {
        image_dimension(self.metric, self.dimension) as usize
    }

    /// Writes the image of a stored vector into `image`.
    pub fn image(&self, vector: &[f32], image: &mut Vec<f32>) {
        image.clear();
        let factor = match self.metric {
            Metric::Cosine => kernel::inverse_norm(vector),
            Metric::Dot | Metric::L2 => 1.0 / self.unit,
        };
        image.extend(vector.iter().map(|&x| (f64::from(x) * factor) as f32));
        if self.metric == Metric::Dot {
            image.push((1.0 - kernel::dot(image, image)).max(0.0).sqrt() as f32);
        }
    }

    /// How far a vector with this image is from the image of a query, in binary64: smaller is nearer. O(dimension).
    pub fn distance(&self, query: &[f32], vector: &[f32], image: &[f32]) -> f64 {
        match self.metric {
            Metric::Cosine => -kernel::dot(query, vector) * kernel::inverse_norm(vector),
            Metric::Dot => {
                let (query, added) = query.split_at(vector.len());
                -kernel::dot(query, vector) / self.unit - kernel::dot(added, &image[vector.len()..])
            }
            Metric::L2 => kernel::squared_distance(query, image),
        }
    }

    /// Writes the image of a query into `image`: its distances from images of vectors are in the order of the metric. A query may be as long
    /// as f32 allows, and it has no unit of its own under the inner product; there its length does not matter to the order.
    pub fn query(&self, vector: &[f32], image: &mut Vec<f32>) {
        image.clear();
        let factor = match self.metric {
            Metric::Cosine | Metric::Dot => kernel::inverse_norm(vector),
            Metric::L2 => 1.0 / self.unit,
        };
        // Beyond this a vector is so far away that every stored one is as near; squares must stay finite.
        let most = 1e15;
        image.extend(vector.iter().map(|&x| (f64::from(x) * factor).clamp(-most, most) as f32));
        if self.metric == Metric::Dot {
            image.push(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rows(Vec<Vec<f32>>);

    impl Vectors for Rows {
        fn for_each(&self, sink: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
            self.0.iter().try_for_each(|row| sink(row))
        }
    }

    /// Distances of images, in the order of the vectors.
    fn distances(metric: Metric, rows: &Rows, query: &[f32]) -> Vec<f64> {
        let images = Images::of(metric, query.len() as u32, rows).expect("no disk is read");
        let (mut q, mut image) = (Vec::new(), Vec::new());
        images.query(query, &mut q);
        let distance = |row: &Vec<f32>| {
            images.image(row, &mut image);
            assert!(image.iter().all(|c| c.is_finite() && c.abs() <= 1.0), "{metric}: {image:?}");
            if metric == Metric::L2 { kernel::squared_distance(&q, &image) } else { -kernel::dot(&q, &image) }
        };
        rows.0.iter().map(distance).collect()
    }

    #[test]
    fn images_are_in_the_order_of_the_metric_whatever_the_lengths() {
        for size in [1e-30f32, 1.0, 1e30] {
            let rows = Rows(vec![vec![3.0 * size, 0.0], vec![size, size], vec![0.0, 0.0], vec![-size, 2.0 * size], vec![0.1 * size, 0.01 * size]]);
            let query = [2.0 * size, 0.5 * size];
            for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
                let query = crate::vector::QueryVector::new(metric, &query);
                let scores: Vec<f64> = rows.0.iter().map(|row| query.score(row, kernel::inverse_norm(row))).collect();
                let found = distances(metric, &rows, &[2.0 * size, 0.5 * size]);
                let order = |by: &dyn Fn(usize) -> f64| {
                    let mut order: Vec<usize> = (0..scores.len()).collect();
                    order.sort_by(|&a, &b| by(a).total_cmp(&by(b)));
                    order
                };
                assert_eq!(order(&|i| found[i]), order(&|i| -scores[i]), "{metric} at {size}: {found:?} for {scores:?}");
            }
        }
    }

    #[test]
    fn under_the_inner_product_every_image_has_length_one() {
        let rows = Rows(vec![vec![3.0, 4.0], vec![0.5, 0.0], vec![0.0, 0.0]]);
        let images = Images::of(Metric::Dot, 2, &rows).expect("no disk is read");
        assert_eq!((images.unit(), images.dimension()), (5.0, 3));
        let mut image = Vec::new();
        for row in &rows.0 {
            images.image(row, &mut image);
            assert!((kernel::dot(&image, &image) - 1.0).abs() < 1e-6, "{image:?}");
        }
    }
}

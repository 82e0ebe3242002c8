//! Points compared by codes of 7 bits a component.
//!
//! With `mu` the centre of all images and r = y - mu, component j has the code `round(r_j / scale) + 64`, where `scale` is a 63rd of the
//! greatest |r_j|: 1 to 127, so that a product with a signed byte, twice, fits 16 bits and the sums are exact. Of y a row also holds its
//! bias: -<mu, r> under cosine and inner product, <r, r> under the Euclidean distance. A query q has bytes for q - mu of its own scale. Then
//!
//! -<q, y> = -<q, mu> - <mu, r> - <q - mu, r>, about: constant + bias - scale x query scale x (sum of code x byte - 64 x sum of bytes),
//!
//! |q - y|^2 = |q - mu|^2 + <r, r> - 2 <q - mu, r>, about: constant + bias - 2 x scale x query scale x (the same sum).
//!
//! The walk is steered by these; what is returned is scored by the canonical kernel. Spec §12.6.

use super::images::{Images, Vectors};
use super::space::Space;
use crate::error::Result;
use crate::format::vector_codes::CodesShape;
use crate::options::Metric;
use crate::vector::kernel::walk::{self, CodeQuery, CodeRows};
use std::borrow::Cow;

/// Makes codes of images.
#[derive(Debug, Clone)]
pub struct Coder {
    centre: Vec<f32>,
    metric: Metric,
}

impl Coder {
    /// A coder around a centre that is known already.
    pub fn new(metric: Metric, centre: Vec<f32>) -> Coder {
        Coder { centre, metric }
    }

    /// A coder around the mean of the images of these vectors. O(vectors x dimension).
    pub fn of(images: &Images, vectors: &dyn Vectors) -> Result<Coder> {
        let (mut sum, mut count, mut image) = (vec![0f64; images.dimension()], 0u64, Vec::new());
        vectors.for_each(&mut |x| {
            images.image(x, &mut image);
            sum.iter_mut().zip(&image).for_each(|(sum, y)| *sum += f64::from(*y));
            count += 1;
            Ok(())
        })?;
        let centre = sum.iter().map(|sum| (sum / count.max(1) as f64) as f32).collect();
        Ok(Coder::new(images.metric(), centre))
    }

    /// The mean of the images.
    pub fn centre(&self) -> &[f32] {
        &self.centre
    }

    /// Writes the row of an image: its codes, its scale and its bias.
    pub fn encode(&self, image: &[f32], row: &mut [u8]) {
        let residual = || image.iter().zip(&self.centre).map(|(y, m)| y - m);
        let greatest = residual().fold(0f32, |most, r| most.max(r.abs()));
        // Where all components are nearly those of the centre, a 63rd of the rest may be no number to divide by.
        let scale = if greatest > 0.0 { (greatest / 63.0).max(f32::MIN_POSITIVE) } else { 1.0 };
        row.iter_mut().zip(residual()).for_each(|(c, r)| *c = ((r / scale).round() as i32 + 64).clamp(1, 127) as u8);
        let bias: f64 = match self.metric {
            Metric::L2 => residual().map(|r| f64::from(r) * f64::from(r)).sum(),
            Metric::Cosine | Metric::Dot => residual().zip(&self.centre).map(|(r, m)| -f64::from(r) * f64::from(*m)).sum(),
        };
        walk::set_meta(row, scale, bias as f32);
    }

    /// Prepares the image of a query.
    pub fn query(&self, image: &[f32], query: &mut CodeQuery) {
        let residual = || image.iter().zip(&self.centre).map(|(y, m)| y - m);
        let greatest = residual().fold(0f32, |most, r| most.max(r.abs()));
        let scale = if greatest > 0.0 { greatest / 127.0 } else { 1.0 };
        query.bytes.clear();
        query.bytes.extend(residual().map(|r| (r / scale).round() as i8));
        let sum: i32 = query.bytes.iter().map(|b| i32::from(*b)).sum();
        query.bytes.resize(self.centre.len().next_multiple_of(walk::BLOCK), 0);
        (query.factor, query.offset, query.base) = (self.factor() * scale, 64 * sum, 0.0);
    }

    /// Prepares a row to be compared with others.
    pub fn query_of_row(&self, row: &[u8], query: &mut CodeQuery) {
        let (scale, bias) = walk::meta(row);
        query.bytes.clear();
        query.bytes.extend(row[..self.centre.len()].iter().map(|&c| (i32::from(c) - 64) as i8));
        let sum: i32 = query.bytes.iter().map(|b| i32::from(*b)).sum();
        query.bytes.resize(self.centre.len().next_multiple_of(walk::BLOCK), 0);
        (query.factor, query.offset, query.base) = (self.factor() * scale, 64 * sum, bias);
    }

    fn factor(&self) -> f32 {
        if self.metric == Metric::L2 { -2.0 } else { -1.0 }
    }
}

/// Rows of codes, and how they are compared.
#[derive(Debug)]
pub struct CodeSpace<'a> {
    coder: Coder,
    rows: Cow<'a, [u8]>,
    stride: usize,
}

impl CodeSpace<'_> {
    /// The codes of the images of these vectors, in their order. O(vectors x dimension).
    pub fn of_vectors(images: &Images, count: u32, vectors: &dyn Vectors) -> Result<CodeSpace<'static>> {
        let coder = Coder::of(images, vectors)?;
        let shape = CodesShape::new(count, images.dimension() as u32);
        let mut rows = vec![0; shape.rows_bytes() as usize];
        let (mut free, mut image) = (rows.chunks_exact_mut(shape.stride), Vec::new());
        vectors.for_each(&mut |x| {
            images.image(x, &mut image);
            if let Some(row) = free.next() {
                coder.encode(&image, row);
            }
            Ok(())
        })?;
        Ok(CodeSpace { coder, rows: Cow::Owned(rows), stride: shape.stride })
    }

    /// The codes of vectors of length 1 that lie one after another, compared by inner product. O(rows x dimension).
    pub fn of(rows: &[f32], dimension: usize) -> CodeSpace<'static> {
        struct Plain<'a>(&'a [f32], usize);
        impl Vectors for Plain<'_> {
            fn for_each(&self, sink: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
                self.0.chunks_exact(self.1).try_for_each(sink)
            }
        }
        assert!(dimension > 0 && rows.len().is_multiple_of(dimension), "whole vectors");
        let images = Images::with_unit(Metric::Cosine, dimension as u32, 1.0);
        let count = (rows.len() / dimension) as u32;
        CodeSpace::of_vectors(&images, count, &Plain(rows, dimension)).expect("nothing is read that can fail")
    }

    /// Bytes of a row.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// How images become rows.
    pub fn coder(&self) -> &Coder {
        &self.coder
    }

    /// The row of a point.
    pub fn row(&self, point: u32) -> &[u8] {
        &self.rows[point as usize * self.stride..][..self.stride]
    }

    /// Prepares the image of a query.
    pub fn query(&self, image: &[f32], query: &mut CodeQuery) {
        self.coder.query(image, query);
    }
}

impl Space for CodeSpace<'_> {
    type Query = CodeQuery;

    fn points(&self) -> usize {
        self.rows.len() / self.stride
    }

    fn query_of(&self, point: u32, query: &mut CodeQuery) {
        self.coder.query_of_row(self.row(point), query);
    }

    #[inline]
    fn distances(&self, query: &CodeQuery, points: &[u32], out: &mut [f32]) {
        walk::code_distances(query, CodeRows { bytes: &self.rows, stride: self.stride }, points, out);
    }

    fn are_copies(&self, a: u32, b: u32) -> bool {
        self.row(a) == self.row(b)
    }
}

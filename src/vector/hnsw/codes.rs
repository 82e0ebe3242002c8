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
use crate::error::{Error, Result};
use crate::format::vector_codes::{CodesShape, META_BYTES, set_row_meta};
use crate::io::mmap::Pages;
use crate::options::Metric;
use crate::vector::kernel::walk::{self, CodeQuery, CodeRows};

/// Of what is off by anything up to half of 1, evenly; and a quarter more, for a query is rounded too, to about half as much.
const ROUNDING_VARIANCE: f32 = 1.25 / 12.0;
/// Standard deviations of a distance: two differ by more than what one of them may be off.
const DOUBTED: f32 = 5.0;

/// Differences that are compared at once.
const LANES: usize = 16;

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

    /// Writes the codes of an image to the beginning of a row, and returns its scale and its bias.
    pub fn encode(&self, image: &[f32], row: &mut [u8]) -> (f32, f32) {
        let residual = || image.iter().zip(&self.centre).map(|(y, m)| y - m);
        let greatest = greatest(image, &self.centre);
        // Where all components are nearly those of the centre, a 63rd of the rest may be no number to divide by.
        let scale = if greatest > 0.0 { (greatest / 63.0).max(f32::MIN_POSITIVE) } else { 1.0 };
        row.iter_mut().zip(residual()).for_each(|(c, r)| *c = ((r / scale).round() as i32 + 64).clamp(1, 127) as u8);
        let bias: f64 = match self.metric {
            Metric::L2 => residual().map(|r| f64::from(r) * f64::from(r)).sum(),
            Metric::Cosine | Metric::Dot => residual().zip(&self.centre).map(|(r, m)| -f64::from(r) * f64::from(*m)).sum(),
        };
        (scale, bias as f32)
    }

    /// Prepares the image of a query.
    pub fn query(&self, image: &[f32], query: &mut CodeQuery) {
        let residual = || image.iter().zip(&self.centre).map(|(y, m)| y - m);
        let greatest = greatest(image, &self.centre);
        let scale = if greatest > 0.0 { greatest / 127.0 } else { 1.0 };
        query.bytes.clear();
        // Halves go away from zero: what rounds is not called once a component.
        query.bytes.extend(residual().map(|r| (r / scale + 0.5f32.copysign(r)) as i8));
        let (sum, squares) = query.bytes.iter().fold((0i32, 0i32), |(sum, squares), &b| (sum + i32::from(b), squares + i32::from(b) * i32::from(b)));
        self.complete(query, sum, scale, 0.0);
        query.spread = query.factor.abs() * ((squares as f32) * ROUNDING_VARIANCE).sqrt();
    }

    /// Prepares a row with its scale and its bias to be compared with others. A build does so with every candidate, so it counts no more than it
    /// needs: what a row finds is in doubt whatever it is.
    pub fn query_of_row(&self, row: &[u8], (scale, bias): (f32, f32), query: &mut CodeQuery) {
        let row = &row[..self.centre.len()];
        query.bytes.clear();
        query.bytes.extend(row.iter().map(|&c| c.wrapping_sub(64).cast_signed()));
        let sum: u32 = row.iter().map(|&c| u32::from(c)).sum();
        self.complete(query, sum as i32 - 64 * row.len() as i32, scale, bias);
        query.spread = f32::INFINITY;
    }

    /// Computes what does not depend on the row that the bytes of a query, which have this sum, are compared with.
    fn complete(&self, query: &mut CodeQuery, sum: i32, scale: f32, base: f32) {
        query.bytes.resize(self.centre.len().next_multiple_of(walk::BLOCK), 0);
        (query.factor, query.offset, query.base) = (self.factor() * scale, 64 * sum, base);
    }

    fn factor(&self) -> f32 {
        if self.metric == Metric::L2 { -2.0 } else { -1.0 }
    }
}

/// Rows of codes, and how they are compared.
#[derive(Debug)]
pub struct CodeSpace {
    coder: Coder,
    /// Rows and what belongs to them, as in a section.
    bytes: Pages,
    shape: CodesShape,
}

impl CodeSpace {
    /// The codes of the images of these vectors, in their order. O(vectors x dimension).
    pub fn of_vectors(images: &Images, count: u32, vectors: &dyn Vectors) -> Result<CodeSpace> {
        let coder = Coder::of(images, vectors)?;
        let shape = CodesShape::new(count, images.dimension() as u32);
        let length = shape.unit_offset() as usize;
        let mut bytes = Pages::new(length).map_err(|e| Error::io(format!("taking {length} bytes of memory for the codes of {count} vectors"), e))?;
        let (mut points, mut image) = (0..count, Vec::new());
        vectors.for_each(&mut |x| {
            images.image(x, &mut image);
            if let Some(point) = points.next() {
                let (scale, bias) = coder.encode(&image, &mut bytes[point as usize * shape.stride..][..shape.codes_bytes()]);
                set_row_meta(&mut bytes[shape.meta_offset(point) as usize..][..META_BYTES], scale, bias);
            }
            Ok(())
        })?;
        Ok(CodeSpace { coder, bytes, shape })
    }

    /// The codes of vectors of length 1 that lie one after another, compared by inner product. O(rows x dimension).
    pub fn of(rows: &[f32], dimension: usize) -> CodeSpace {
        struct Plain<'a>(&'a [f32], usize);
        impl Vectors for Plain<'_> {
            fn for_each(&self, sink: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
                self.0.chunks_exact(self.1).try_for_each(sink)
            }
        }
        assert!(dimension > 0 && rows.len().is_multiple_of(dimension), "whole vectors");
        let images = Images::with_unit(Metric::Cosine, dimension as u32, 1.0);
        let count = (rows.len() / dimension) as u32;
        CodeSpace::of_vectors(&images, count, &Plain(rows, dimension)).expect("nothing is read that can fail, and there is memory")
    }

    /// Where what stands in a section of these codes.
    pub fn shape(&self) -> &CodesShape {
        &self.shape
    }

    /// How images become rows.
    pub fn coder(&self) -> &Coder {
        &self.coder
    }

    /// The rows.
    #[inline]
    pub fn rows(&self) -> CodeRows<'_> {
        CodeRows::new(&self.bytes, &self.shape)
    }

    /// Prepares the image of a query.
    pub fn query(&self, image: &[f32], query: &mut CodeQuery) {
        self.coder.query(image, query);
    }
}

impl Space for CodeSpace {
    type Query = CodeQuery;

    fn points(&self) -> usize {
        self.shape.count as usize
    }

    fn query_of(&self, point: u32, query: &mut CodeQuery) {
        self.coder.query_of_row(self.rows().row(point), self.rows().meta(point), query);
    }

    #[inline]
    fn distances(&self, query: &CodeQuery, points: &[u32], out: &mut [f32]) {
        walk::code_distances(query, self.rows(), points, out);
    }

    fn doubt(&self, query: &CodeQuery, point: u32) -> f32 {
        doubt(query, self.rows().meta(point))
    }

    fn are_copies(&self, a: u32, b: u32) -> bool {
        self.rows().row(a) == self.rows().row(b) && self.rows().meta(a) == self.rows().meta(b)
    }
}

/// By how much distances by codes may differ and be in the wrong order, one of them that of a row with this scale.
pub fn doubt(query: &CodeQuery, (scale, _): (f32, f32)) -> f32 {
    DOUBTED * query.spread * scale
}

/// The greatest absolute difference of two components, many compared at once.
fn greatest(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            let difference = (a - b).abs();
            *lane = if difference > *lane { difference } else { *lane };
        }
    }
    lanes.into_iter().fold(0.0, f32::max)
}

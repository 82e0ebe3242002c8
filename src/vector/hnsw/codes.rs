//! Points compared by codes of 7 bits a component.
//!
//! With `mu` the centre of all vectors and r = x - mu, component j has the code `round(r_j / scale) + 64`, where `scale` is a 63rd of the
//! greatest |r_j|: 1 to 127, so that a product with a signed byte, twice, fits 16 bits and the sums are exact. Of x a row also holds its
//! bias, -<mu, r>. A query q has bytes for q - mu of its own scale. Then
//!
//! -<q, x> = -<q, mu> - <mu, r> - <q - mu, r>, about: constant + bias - scale x query scale x (sum of code x byte - 64 x sum of bytes).
//!
//! The walk is steered by these; what is returned is scored by the canonical kernel.

use super::space::Space;
use crate::vector::kernel::walk::{self, CodeQuery, CodeRows, META_BYTES, ROW_ALIGN};

/// Codes of vectors that have length 1 (cosine), one row each.
#[derive(Debug)]
pub struct CodeSpace {
    centre: Vec<f32>,
    bytes: Vec<u8>,
    stride: usize,
    len: usize,
}

impl CodeSpace {
    /// The codes of the vectors in `rows`. O(rows x dimension).
    pub fn of(rows: &[f32], dimension: usize) -> CodeSpace {
        assert!(dimension > 0 && rows.len().is_multiple_of(dimension), "whole vectors");
        let len = rows.len() / dimension;
        let mut centre = vec![0f64; dimension];
        for row in rows.chunks_exact(dimension) {
            centre.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
        }
        let centre: Vec<f32> = centre.iter().map(|sum| (sum / len.max(1) as f64) as f32).collect();
        let stride = (dimension.next_multiple_of(walk::BLOCK) + META_BYTES).next_multiple_of(ROW_ALIGN);
        let mut space = CodeSpace { centre, bytes: vec![0; stride * len], stride, len };
        for (row, code) in rows.chunks_exact(dimension).zip(space.bytes.chunks_exact_mut(stride)) {
            encode(&space.centre, row, code);
        }
        space
    }

    /// Bytes of a row.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// A query that is no point.
    pub fn query(&self, vector: &[f32], query: &mut CodeQuery) {
        let residual = || vector.iter().zip(&self.centre).map(|(x, m)| x - m);
        let greatest = residual().fold(0f32, |most, r| most.max(r.abs()));
        let scale = if greatest > 0.0 { greatest / 127.0 } else { 1.0 };
        let (mut bytes, mut sum) = (std::mem::take(&mut query.bytes), 0);
        bytes.clear();
        bytes.extend(residual().map(|r| (r / scale).round() as i8));
        bytes.iter().for_each(|b| sum += i32::from(*b));
        bytes.resize(self.centre.len().next_multiple_of(walk::BLOCK), 0);
        *query = CodeQuery { bytes, factor: -scale, offset: 64 * sum, base: 0.0 };
    }

    fn rows(&self) -> CodeRows<'_> {
        CodeRows { bytes: &self.bytes, stride: self.stride }
    }
}

/// Writes the code of a vector, its scale and its bias.
fn encode(centre: &[f32], vector: &[f32], code: &mut [u8]) {
    let residual = || vector.iter().zip(centre).map(|(x, m)| x - m);
    let greatest = residual().fold(0f32, |most, r| most.max(r.abs()));
    let scale = if greatest > 0.0 { greatest / 63.0 } else { 1.0 };
    code.iter_mut().zip(residual()).for_each(|(c, r)| *c = ((r / scale).round() as i32 + 64) as u8);
    let bias: f64 = residual().zip(centre).map(|(r, m)| -f64::from(r) * f64::from(*m)).sum();
    walk::set_meta(code, scale, bias as f32);
}

impl Space for CodeSpace {
    type Query = CodeQuery;

    fn points(&self) -> usize {
        self.len
    }

    fn query_of(&self, point: u32, query: &mut CodeQuery) {
        let row = &self.bytes[point as usize * self.stride..][..self.stride];
        let (scale, bias) = walk::meta(row);
        query.bytes.clear();
        query.bytes.extend(row[..self.centre.len()].iter().map(|&c| (i32::from(c) - 64) as i8));
        let sum: i32 = query.bytes.iter().map(|b| i32::from(*b)).sum();
        query.bytes.resize(self.centre.len().next_multiple_of(walk::BLOCK), 0);
        (query.factor, query.offset, query.base) = (-scale, 64 * sum, bias);
    }

    #[inline]
    fn distances(&self, query: &CodeQuery, points: &[u32], out: &mut [f32]) {
        walk::code_distances(query, self.rows(), points, out);
    }
}

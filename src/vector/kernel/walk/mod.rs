//! Kernels that steer walks through a graph: many rows against one query, approximately, as fast as memory gives.
//!
//! What they return orders candidates and is never shown; the canonical kernel scores what is.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod portable;

use std::sync::OnceLock;

pub use crate::format::vector_codes::{CODES_BLOCK as BLOCK, META_BYTES, ROW_ALIGN, row_meta as meta, set_row_meta as set_meta};

/// Rows of codes, one after another: codes, padding, scale, bias.
#[derive(Debug, Clone, Copy)]
pub struct CodeRows<'a> {
    /// All rows.
    pub bytes: &'a [u8],
    /// Bytes of each.
    pub stride: usize,
}

/// A query for rows of codes. The distance of a row is `base + bias + scale x factor x (sum of code x byte - offset)`.
#[derive(Debug, Clone, Default)]
pub struct CodeQuery {
    /// Signed bytes, padded with zeros to a multiple of [`BLOCK`].
    pub bytes: Vec<i8>,
    /// What a row's scale is multiplied with.
    pub factor: f32,
    /// 64 times the sum of the bytes.
    pub offset: i32,
    /// What is added to every distance.
    pub base: f32,
}

type Codes = fn(&CodeQuery, CodeRows<'_>, &[u32], &mut [f32]);
type Floats = fn(&[f32], &[f32], &[u32], &mut [f32]);

struct Kernels {
    codes: Codes,
    floats: Floats,
}

fn kernels() -> &'static Kernels {
    static CHOSEN: OnceLock<Kernels> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = avx2::detect() {
            return avx2;
        }
        portable::KERNELS
    })
}

/// The distances of rows of codes from a query.
///
/// # Panics
/// When `points` and `out` differ in length, a row lies beyond the bytes, or the query is longer than a row.
#[inline]
pub fn code_distances(query: &CodeQuery, rows: CodeRows<'_>, points: &[u32], out: &mut [f32]) {
    assert_eq!(points.len(), out.len(), "a distance a point");
    assert!(query.bytes.len().is_multiple_of(BLOCK) && query.bytes.len() + META_BYTES <= rows.stride, "a query is as long as a row");
    let rows_there = rows.bytes.len() / rows.stride;
    assert!(points.iter().all(|&p| (p as usize) < rows_there), "every point has a row");
    (kernels().codes)(query, rows, points, out);
}

/// The negative inner products of a query with vectors.
///
/// # Panics
/// When `points` and `out` differ in length, the query is empty, or a vector lies beyond `rows`.
#[inline]
pub fn negative_dots(query: &[f32], rows: &[f32], points: &[u32], out: &mut [f32]) {
    assert_eq!(points.len(), out.len(), "a distance a point");
    let rows_there = rows.len() / query.len();
    assert!(points.iter().all(|&p| (p as usize) < rows_there), "every point has a row");
    (kernels().floats)(query, rows, points, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that look random, the same at every run.
    fn noise(count: usize) -> impl Iterator<Item = u32> {
        (0..count as u32).map(|i| (i + 1).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(40_503) >> 8)
    }

    #[test]
    fn every_processor_gives_the_distances_of_plain_rust() {
        for dimension in [1usize, 31, 32, 33, 100, 384, 1_000] {
            let padded = dimension.next_multiple_of(BLOCK);
            let stride = (padded + META_BYTES).next_multiple_of(ROW_ALIGN);
            let mut bytes: Vec<u8> = noise(stride * 9).map(|n| (n % 128) as u8).collect();
            bytes.chunks_exact_mut(stride).for_each(|row| set_meta(row, 0.5, -1.25));
            let mut query = CodeQuery { bytes: noise(dimension).map(|n| (n % 255) as u8 as i8).collect(), ..CodeQuery::default() };
            query.bytes.iter_mut().for_each(|b| *b = (*b).max(-127));
            query.bytes.resize(padded, 0);
            (query.factor, query.offset, query.base) = (-0.25, 77, 3.0);
            let rows = CodeRows { bytes: &bytes, stride };
            let points = [0, 8, 3, 3, 7, 1, 2];
            let (mut fast, mut plain) = ([0.0; 7], [0.0; 7]);
            code_distances(&query, rows, &points, &mut fast);
            (portable::KERNELS.codes)(&query, rows, &points, &mut plain);
            assert_eq!(fast, plain, "{dimension} codes: sums of integers are exact");
            let floats: Vec<f32> = noise(dimension * 9).map(|n| (n % 2_001) as f32 / 1_000.0 - 1.0).collect();
            negative_dots(&floats[..dimension], &floats, &points, &mut fast);
            (portable::KERNELS.floats)(&floats[..dimension], &floats, &points, &mut plain);
            let error = 4.0 * f32::EPSILON * dimension as f32;
            assert!(fast.iter().zip(&plain).all(|(a, b)| (a - b).abs() <= error), "{dimension}: {fast:?}, {plain:?}");
        }
    }

    #[test]
    fn the_greatest_codes_and_bytes_do_not_overflow() {
        let bytes = vec![127u8; 4_160];
        for byte in [127, -127] {
            let query = CodeQuery { bytes: vec![byte; 4_096], factor: 1.0, offset: 0, base: 0.0 };
            let mut row = bytes.clone();
            set_meta(&mut row, 1.0, 0.0);
            let mut out = [0.0];
            code_distances(&query, CodeRows { bytes: &row, stride: 4_160 }, &[0], &mut out);
            assert_eq!(out[0], (127 * i32::from(byte) * 4_096) as f32);
        }
    }
}

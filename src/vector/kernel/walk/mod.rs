//! Kernels that steer walks through a graph: many rows against one query, approximately, as fast as memory gives.
//!
//! What they return orders candidates and is never shown; the canonical kernel scores what is.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use std::sync::OnceLock;

pub use crate::format::vector_codes::{CODES_BLOCK as BLOCK, CodesShape, META_BYTES};
use crate::format::vector_codes::row_meta;

/// Rows of codes, and a scale and a bias each.
#[derive(Debug, Clone, Copy)]
pub struct CodeRows<'a> {
    /// All rows, one after another.
    codes: &'a [u8],
    /// Bytes of each.
    stride: usize,
    /// From the scale of row 0 on.
    meta: &'a [u8],
    /// Bytes from the scale of one row to that of the next.
    step: usize,
}

impl<'a> CodeRows<'a> {
    /// The rows of a section, or of bytes that are laid out as one.
    ///
    /// # Panics
    /// When `bytes` are fewer than the shape says.
    #[inline]
    pub fn new(bytes: &'a [u8], shape: &CodesShape) -> CodeRows<'a> {
        let codes = &bytes[..shape.rows_bytes() as usize];
        let all = &bytes[..shape.unit_offset() as usize];
        // Without rows there is no scale of the first either.
        let meta = all.get(shape.meta_offset(0) as usize..).unwrap_or_default();
        CodeRows { codes, stride: shape.stride, meta, step: shape.meta_step() }
    }

    /// How many rows there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.codes.len() / self.stride
    }

    /// The bytes of a row.
    #[inline]
    pub fn row(&self, point: u32) -> &'a [u8] {
        &self.codes[point as usize * self.stride..][..self.stride]
    }

    /// Scale and bias of a row.
    #[inline]
    pub fn meta(&self, point: u32) -> (f32, f32) {
        row_meta(&self.meta[point as usize * self.step..][..META_BYTES])
    }

    /// The distance of a row whose products with the query have this sum.
    #[inline]
    fn distance(&self, query: &CodeQuery, point: u32, sum: i32) -> f32 {
        let (scale, bias) = self.meta(point);
        query.base + bias + scale * query.factor * (sum - query.offset) as f32
    }

    /// Asks the processor for a row.
    #[inline]
    fn fetch(&self, point: u32) {
        fetch(self.row(point));
        if self.step != self.stride {
            fetch(&self.meta[point as usize * self.step..][..META_BYTES]);
        }
    }
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
    /// Of a distance that is off by what rounding to codes does: the standard deviation, by a row's scale.
    pub spread: f32,
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
        if let Some(found) = avx512::detect().or_else(avx2::detect) {
            return found;
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
    assert!(query.bytes.len().is_multiple_of(BLOCK) && query.bytes.len() <= rows.stride, "a query is as long as a row");
    let rows_there = rows.count();
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

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks the processor for some bytes that will soon be read. Changes nothing but time.
#[inline]
pub fn fetch<T>(row: &[T]) {
    fetch_some(row, usize::MAX);
}

/// The same, but for what lies beyond so many lines.
#[inline]
#[allow(unsafe_code, reason = "a hint to the processor's caches has no safe interface everywhere")]
pub(super) fn fetch_some<T>(row: &[T], lines: usize) {
    const { assert!(size_of::<T>() > 0 && size_of::<T>() <= LINE, "a line has a few of them") };
    #[cfg(target_arch = "x86_64")]
    for line in row.chunks(LINE / size_of::<T>()).take(lines) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that a program could see, and every processor of this family has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (row, lines);
}

#[cfg(test)]
mod tests;

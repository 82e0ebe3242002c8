//! AVX2 and FMA: four rows at a time share the loads of the query, and the next rows are fetched meanwhile.

#![allow(unsafe_code, reason = "vector instructions: called only after the processor was asked for them, loading only from checked rows")]

use super::{BLOCK, CodeQuery, CodeRows, Kernels, fetch_some};
use std::arch::x86_64::{
    __m256, __m256i, _mm_add_epi32, _mm_add_ps, _mm_cvtsi128_si32, _mm_cvtss_f32, _mm_hadd_epi32, _mm_hadd_ps, _mm_storeu_si128,
    _mm256_add_epi32, _mm256_add_ps, _mm256_castps256_ps128, _mm256_castsi256_si128, _mm256_cmpgt_epi32, _mm256_extractf128_ps,
    _mm256_extracti128_si256, _mm256_fmadd_ps, _mm256_hadd_epi32, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_maddubs_epi16, _mm256_maskload_ps, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setr_epi32, _mm256_setzero_ps,
    _mm256_setzero_si256,
};

/// Rows scored at once.
const ROWS: usize = 4;
/// Rows that are fetched before the first is scored.
const AHEAD: usize = 16;
/// Lines of a row of floats that are fetched: these processors notice the rest by themselves, and more requests would crowd them.
const FLOAT_LINES: usize = 8;

pub(super) fn detect() -> Option<Kernels> {
    if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
        return None;
    }
    // The table is made only here, so nobody can call these functions on a processor without the features.
    Some(Kernels {
        // SAFETY: AVX2 and FMA were detected above, before this closure could be had; the caller checked that every point has a row.
        codes: |query, rows, points, out| unsafe { codes(query, rows, points, out) },
        // SAFETY: as above.
        floats: |query, rows, points, out| unsafe { floats(query, rows, points, out) },
    })
}

/// # Safety
/// Every point has a whole row in `rows`, and the query is a multiple of [`BLOCK`] and no longer than a row.
#[target_feature(enable = "avx2,fma")]
unsafe fn codes(query: &CodeQuery, rows: CodeRows<'_>, points: &[u32], out: &mut [f32]) {
    points.iter().take(AHEAD).for_each(|&point| rows.fetch(point));
    let mut ahead = points.iter().skip(AHEAD);
    let (fours, rest) = points.as_chunks::<ROWS>();
    let (out_fours, out_rest) = out.as_chunks_mut::<ROWS>();
    for (&[a, b, c, d], out) in fours.iter().zip(out_fours) {
        ahead.by_ref().take(ROWS).for_each(|&point| rows.fetch(point));
        // SAFETY: each row is at least as long as the query, which the caller promised.
        let sums = unsafe { dots(&query.bytes, [rows.row(a), rows.row(b), rows.row(c), rows.row(d)]) };
        for ((out, point), sum) in out.iter_mut().zip([a, b, c, d]).zip(sums) {
            *out = rows.distance(query, point, sum);
        }
    }
    for (&point, out) in rest.iter().zip(out_rest) {
        // SAFETY: as above.
        let [sum] = unsafe { dots(&query.bytes, [rows.row(point)]) };
        *out = rows.distance(query, point, sum);
    }
}

/// The sums of the products of a query with rows of codes below 128: exact, since two products stay below 2^15.
///
/// # Safety
/// The query's length is a multiple of [`BLOCK`], and each row is at least as long.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn dots<const N: usize>(query: &[i8], rows: [&[u8]; N]) -> [i32; N] {
    let ones = _mm256_set1_epi16(1);
    let mut sums = [_mm256_setzero_si256(); N];
    for at in (0..query.len()).step_by(BLOCK) {
        // SAFETY: `at + BLOCK` is at most the query's length.
        let q = unsafe { _mm256_loadu_si256(query.as_ptr().add(at).cast::<__m256i>()) };
        for (sum, row) in sums.iter_mut().zip(rows) {
            // SAFETY: the row is at least as long as the query.
            let codes = unsafe { _mm256_loadu_si256(row.as_ptr().add(at).cast::<__m256i>()) };
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, q), ones));
        }
    }
    if N == ROWS {
        let pairs = _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2 % N], sums[3 % N]));
        let four = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
        let mut out = [0i32; ROWS];
        // SAFETY: `out` has the 16 bytes that are stored.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), four) };
        return std::array::from_fn(|i| out[i]);
    }
    sums.map(|sum| {
        let half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        let quarter = _mm_hadd_epi32(half, half);
        _mm_cvtsi128_si32(_mm_hadd_epi32(quarter, quarter))
    })
}

/// # Safety
/// Every point has a whole vector in `rows`.
#[target_feature(enable = "avx2,fma")]
unsafe fn floats(query: &[f32], rows: &[f32], points: &[u32], out: &mut [f32]) {
    let row = |point: u32| &rows[point as usize * query.len()..][..query.len()];
    points.iter().take(ROWS).for_each(|&point| fetch_some(row(point), FLOAT_LINES));
    let mut ahead = points.iter().skip(ROWS);
    let (fours, rest) = points.as_chunks::<ROWS>();
    let (out_fours, out_rest) = out.as_chunks_mut::<ROWS>();
    for (four, out) in fours.iter().zip(out_fours) {
        ahead.by_ref().take(ROWS).for_each(|&point| fetch_some(row(point), FLOAT_LINES));
        *out = float_dots::<ROWS>(query, four.map(row)).map(|dot| -dot);
    }
    for (&point, out) in rest.iter().zip(out_rest) {
        let [dot] = float_dots::<1>(query, [row(point)]);
        *out = -dot;
    }
}

/// The inner products of a query with vectors of its length.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn float_dots<const N: usize>(query: &[f32], rows: [&[f32]; N]) -> [f32; N] {
    let (blocks, rest) = query.as_chunks::<16>();
    let mut sums = [[_mm256_setzero_ps(); 2]; N];
    let row_blocks = rows.map(|row| row.as_chunks::<16>().0);
    for (i, q) in blocks.iter().enumerate() {
        let (q0, q1) = (load(&q[..8]), load(&q[8..]));
        for (sum, row) in sums.iter_mut().zip(row_blocks) {
            let x = &row[i];
            sum[0] = _mm256_fmadd_ps(q0, load(&x[..8]), sum[0]);
            sum[1] = _mm256_fmadd_ps(q1, load(&x[8..]), sum[1]);
        }
    }
    let mut done = query.len() - rest.len();
    if let Some(q) = rest.get(..8) {
        let q = load(q);
        for (sum, row) in sums.iter_mut().zip(rows) {
            sum[0] = _mm256_fmadd_ps(q, load(&row[done..done + 8]), sum[0]);
        }
        done += 8;
    }
    if done < query.len() {
        let q = load_tail(&query[done..]);
        for (sum, row) in sums.iter_mut().zip(rows) {
            sum[1] = _mm256_fmadd_ps(q, load_tail(&row[done..]), sum[1]);
        }
    }
    sums.map(|sum| {
        let sum = _mm256_add_ps(sum[0], sum[1]);
        let half = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
        let quarter = _mm_hadd_ps(half, half);
        _mm_cvtss_f32(_mm_hadd_ps(quarter, quarter))
    })
}

/// Fewer than eight components, and zeros.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn load_tail(few: &[f32]) -> __m256 {
    debug_assert!(few.len() < 8);
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(few.len() as i32), lanes);
    // SAFETY: only the lanes below the slice's length are loaded.
    unsafe { _mm256_maskload_ps(few.as_ptr(), mask) }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn load(eight: &[f32]) -> __m256 {
    debug_assert_eq!(eight.len(), 8);
    // SAFETY: the slice has the 32 bytes that are loaded, and this load needs no alignment.
    unsafe { _mm256_loadu_ps(eight.as_ptr()) }
}

//! AVX-512 with VNNI: 64 codes an instruction, exact as the others are, and sixteen floats.

#![allow(unsafe_code, reason = "vector instructions: called only after the processor was asked for them, loading only from checked rows")]

use super::{BLOCK, CodeQuery, CodeRows, Kernels, fetch};
use std::arch::x86_64::{
    __m512, _mm_add_epi32, _mm_storeu_si128, _mm256_add_epi32, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_hadd_epi32,
    _mm256_loadu_si256, _mm512_add_ps, _mm512_castsi512_si256, _mm512_dpbusd_epi32, _mm512_extracti64x4_epi64, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_loadu_si512, _mm512_maskz_loadu_ps, _mm512_reduce_add_ps, _mm512_setzero_ps, _mm512_setzero_si512,
    _mm512_zextsi256_si512,
};

/// Rows scored at once.
const ROWS: usize = 4;
/// Rows of codes that are fetched before the first is scored. Of floats it is as many as are scored at once: their lines are many.
const AHEAD: usize = 16;
/// Bytes of a register.
const WIDE: usize = 64;
/// Floats of a register.
const LANES: usize = 16;

pub(super) fn detect() -> Option<Kernels> {
    let detected = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni");
    if !detected {
        return None;
    }
    // The table is made only here, so nobody can call these functions on a processor without the features.
    Some(Kernels {
        // SAFETY: all features were detected above, before this closure could be had; the caller checked that every point has a row.
        codes: |query, rows, points, out| unsafe { codes(query, rows, points, out) },
        // SAFETY: as above.
        floats: |query, rows, points, out| unsafe { floats(query, rows, points, out) },
    })
}

/// # Safety
/// Every point has a whole row in `rows`, and the query is a multiple of [`BLOCK`] and no longer than a row.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn codes(query: &CodeQuery, rows: CodeRows<'_>, points: &[u32], out: &mut [f32]) {
    points.iter().take(AHEAD).for_each(|&point| rows.fetch(point));
    let mut ahead = points.iter().skip(AHEAD);
    for (points, out) in points.chunks(ROWS).zip(out.chunks_mut(ROWS)) {
        ahead.by_ref().take(ROWS).for_each(|&point| rows.fetch(point));
        // The last few are filled up with the first of them, which costs less than scoring them one by one.
        let mut four = [rows.row(points[0]); ROWS];
        for (row, &point) in four.iter_mut().zip(points) {
            *row = rows.row(point);
        }
        // SAFETY: each row is at least as long as the query, which the caller promised.
        let sums = unsafe { dots(&query.bytes, four) };
        for ((out, &point), sum) in out.iter_mut().zip(points).zip(sums) {
            *out = rows.distance(query, point, sum);
        }
    }
}

/// The sums of the products of a query with rows of codes below 128: exact.
///
/// # Safety
/// The query's length is a multiple of [`BLOCK`], and each row is at least as long.
#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn dots(query: &[i8], rows: [&[u8]; ROWS]) -> [i32; ROWS] {
    const { assert!(WIDE == 2 * BLOCK) };
    let mut sums = [_mm512_setzero_si512(); ROWS];
    let wide = query.len() / WIDE * WIDE;
    for at in (0..wide).step_by(WIDE) {
        // SAFETY: `at + WIDE` is at most the query's length.
        let q = unsafe { _mm512_loadu_si512(query.as_ptr().add(at).cast()) };
        for (sum, row) in sums.iter_mut().zip(rows) {
            // SAFETY: the row is at least as long as the query.
            let codes = unsafe { _mm512_loadu_si512(row.as_ptr().add(at).cast()) };
            *sum = _mm512_dpbusd_epi32(*sum, codes, q);
        }
    }
    if wide < query.len() {
        // SAFETY: a multiple of BLOCK that is none of WIDE leaves BLOCK bytes.
        let q = _mm512_zextsi256_si512(unsafe { _mm256_loadu_si256(query.as_ptr().add(wide).cast()) });
        for (sum, row) in sums.iter_mut().zip(rows) {
            // SAFETY: the row is at least as long as the query.
            let codes = _mm512_zextsi256_si512(unsafe { _mm256_loadu_si256(row.as_ptr().add(wide).cast()) });
            *sum = _mm512_dpbusd_epi32(*sum, codes, q);
        }
    }
    let [a, b, c, d] = sums.map(|sum| _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum)));
    let pairs = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    let four = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
    let mut out = [0i32; ROWS];
    // SAFETY: `out` has the 16 bytes that are stored.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), four) };
    out
}

/// # Safety
/// Every point has a whole vector in `rows`.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn floats(query: &[f32], rows: &[f32], points: &[u32], out: &mut [f32]) {
    let row = |point: u32| &rows[point as usize * query.len()..][..query.len()];
    points.iter().take(ROWS).for_each(|&point| fetch(row(point)));
    let mut ahead = points.iter().skip(ROWS);
    for (points, out) in points.chunks(ROWS).zip(out.chunks_mut(ROWS)) {
        ahead.by_ref().take(ROWS).for_each(|&point| fetch(row(point)));
        let four: [&[f32]; ROWS] = std::array::from_fn(|i| row(points.get(i).copied().unwrap_or(points[0])));
        let dots = float_dots(query, four);
        for (i, out) in out.iter_mut().enumerate() {
            *out = -dots[i];
        }
    }
}

/// The inner products of a query with vectors of its length.
#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
fn float_dots(query: &[f32], rows: [&[f32]; ROWS]) -> [f32; ROWS] {
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    let (blocks, rest) = query.as_chunks::<{ 2 * LANES }>();
    let row_blocks = rows.map(|row| row.as_chunks::<{ 2 * LANES }>().0);
    for (i, q) in blocks.iter().enumerate() {
        let (q0, q1) = (load(&q[..LANES]), load(&q[LANES..]));
        for (sum, row) in sums.iter_mut().zip(row_blocks) {
            sum[0] = _mm512_fmadd_ps(q0, load(&row[i][..LANES]), sum[0]);
            sum[1] = _mm512_fmadd_ps(q1, load(&row[i][LANES..]), sum[1]);
        }
    }
    let done = query.len() - rest.len();
    for (lane, q) in rest.chunks(LANES).enumerate() {
        let from = done + lane * LANES;
        let q = load(q);
        for (sum, row) in sums.iter_mut().zip(rows) {
            sum[lane] = _mm512_fmadd_ps(q, load(&row[from..row.len().min(from + LANES)]), sum[lane]);
        }
    }
    sums.map(|[a, b]| _mm512_reduce_add_ps(_mm512_add_ps(a, b)))
}

/// At most sixteen components, and zeros.
#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
fn load(some: &[f32]) -> __m512 {
    debug_assert!(some.len() <= LANES);
    if some.len() == LANES {
        // SAFETY: the slice has the 64 bytes that are loaded, and this load needs no alignment.
        return unsafe { _mm512_loadu_ps(some.as_ptr()) };
    }
    // SAFETY: only the lanes below the slice's length are loaded.
    unsafe { _mm512_maskz_loadu_ps((1u16 << some.len()).wrapping_sub(1), some.as_ptr()) }
}

//! The canonical kernel with AVX2 and FMA: four registers of four f64 are its 16 lanes.
//!
//! A register holds lanes `4r..4r+4`, so a block of 16 components is one addition to each. Components beyond the last whole block are
//! padded with zeros to a multiple of four: adding the zero that a padded pair gives leaves a lane, which is never -0.0, unchanged.

#![allow(unsafe_code, reason = "vector instructions: called only after the processor was asked for them, loading only from references")]

use super::Kernels;
use std::arch::x86_64::{
    __m256d, _mm_add_pd, _mm_add_sd, _mm_cvtsd_f64, _mm_loadu_ps, _mm_unpackhi_pd, _mm256_add_pd, _mm256_castpd256_pd128, _mm256_cvtps_pd,
    _mm256_extractf128_pd, _mm256_fmadd_pd, _mm256_mul_pd, _mm256_setzero_pd, _mm256_sub_pd,
};

/// What a component pair adds to its lane.
const DOT: bool = false;
const SQUARED_DISTANCE: bool = true;

/// This implementation, if the processor has its instructions.
pub(super) fn detect() -> Option<Kernels> {
    if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
        return None;
    }
    // The table is made only here, so nobody can call these functions on a processor without the features.
    Some(Kernels {
        // SAFETY: AVX2 and FMA were detected above, before this closure could be had.
        dot: |a, b| unsafe { pair::<DOT>(a, b) },
        // SAFETY: as above.
        squared_distance: |a, b| unsafe { pair::<SQUARED_DISTANCE>(a, b) },
        // SAFETY: as above.
        dot_rows: |query, rows, out| unsafe { each_row::<DOT>(query, rows, out) },
        // SAFETY: as above.
        squared_distance_rows: |query, rows, out| unsafe { each_row::<SQUARED_DISTANCE>(query, rows, out) },
    })
}

#[target_feature(enable = "avx2,fma")]
fn pair<const SQUARED: bool>(a: &[f32], b: &[f32]) -> f64 {
    let [sum] = sums::<1, SQUARED>(a, [b]);
    sum
}

/// Two rows at a time share the loads of the query; more would not leave enough registers for their lanes.
#[target_feature(enable = "avx2,fma")]
fn each_row<const SQUARED: bool>(query: &[f32], rows: &[f32], out: &mut [f64]) {
    let dimension = query.len();
    let mut twos = rows.chunks_exact(2 * dimension);
    let (out_twos, out_last) = out.as_chunks_mut::<2>();
    for (two, scores) in (&mut twos).zip(out_twos) {
        let (first, second) = two.split_at(dimension);
        *scores = sums::<2, SQUARED>(query, [first, second]);
    }
    if let [score] = out_last {
        *score = pair::<SQUARED>(query, twos.remainder());
    }
}

/// The sums of `query` with each of `rows`, all of one length.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn sums<const ROWS: usize, const SQUARED: bool>(query: &[f32], rows: [&[f32]; ROWS]) -> [f64; ROWS] {
    let mut lanes = [[_mm256_setzero_pd(); 4]; ROWS];
    let (query_quads, query_rest) = query.as_chunks::<4>();
    let (query_blocks, query_tail) = query_quads.as_chunks::<4>();
    let quads = rows.map(|row| row.as_chunks::<4>().0);
    let blocks = quads.map(|quads| quads.as_chunks::<4>().0);
    for (i, query_block) in query_blocks.iter().enumerate() {
        let row_blocks = blocks.map(|blocks| &blocks[i]);
        for q in 0..4 {
            let x = widen(&query_block[q]);
            for r in 0..ROWS {
                lanes[r][q] = add_term::<SQUARED>(lanes[r][q], x, widen(&row_blocks[r][q]));
            }
        }
    }
    let done = query_blocks.len() * 4;
    for (q, query_quad) in query_tail.iter().enumerate() {
        for r in 0..ROWS {
            lanes[r][q] = add_term::<SQUARED>(lanes[r][q], widen(query_quad), widen(&quads[r][done + q]));
        }
    }
    if !query_rest.is_empty() {
        // At most three quads preceded the rest, so it has a register of its own to go to.
        let q = query_tail.len();
        for r in 0..ROWS {
            let rest = &rows[r][query.len() - query_rest.len()..];
            lanes[r][q] = add_term::<SQUARED>(lanes[r][q], widen(&padded(query_rest)), widen(&padded(rest)));
        }
    }
    lanes.map(|lanes| reduce(lanes))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_term<const SQUARED: bool>(lane: __m256d, x: __m256d, y: __m256d) -> __m256d {
    if SQUARED {
        // Not fused: the square is rounded before it is added, as in plain Rust.
        let difference = _mm256_sub_pd(x, y);
        _mm256_add_pd(lane, _mm256_mul_pd(difference, difference))
    } else {
        _mm256_fmadd_pd(x, y, lane)
    }
}

/// The fixed tree of the canonical sum.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn reduce(lanes: [__m256d; 4]) -> f64 {
    let s = _mm256_add_pd(_mm256_add_pd(lanes[0], lanes[1]), _mm256_add_pd(lanes[2], lanes[3]));
    let halves = _mm_add_pd(_mm256_castpd256_pd128(s), _mm256_extractf128_pd::<1>(s));
    _mm_cvtsd_f64(_mm_add_sd(halves, _mm_unpackhi_pd(halves, halves)))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn widen(quad: &[f32; 4]) -> __m256d {
    // SAFETY: the reference covers the 16 bytes that are loaded, and this load needs no alignment.
    _mm256_cvtps_pd(unsafe { _mm_loadu_ps(quad.as_ptr()) })
}

#[inline]
fn padded(rest: &[f32]) -> [f32; 4] {
    let mut quad = [0.0; 4];
    quad[..rest.len()].copy_from_slice(rest);
    quad
}

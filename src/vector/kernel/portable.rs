//! The canonical kernel in plain Rust: its definition, and what processors without AVX2 run.

use super::{Kernels, LANES};

pub(super) const KERNELS: Kernels = Kernels {
    dot,
    squared_distance,
    dot_rows: |query, rows, out| each_row(query, rows, out, dot),
    squared_distance_rows: |query, rows, out| each_row(query, rows, out, squared_distance),
};

fn dot(a: &[f32], b: &[f32]) -> f64 {
    sum(a, b, |x, y| x * y)
}

fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    sum(a, b, |x, y| (x - y) * (x - y))
}

/// Adds up the terms of all components, lane by lane. Whole blocks go first so that the compiler can keep the lanes in registers.
#[inline(always)]
fn sum(a: &[f32], b: &[f32], term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let (a_blocks, a_tail) = a.as_chunks::<LANES>();
    let (b_blocks, b_tail) = b.as_chunks::<LANES>();
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for j in 0..LANES {
            lanes[j] += term(f64::from(x[j]), f64::from(y[j]));
        }
    }
    for ((lane, &x), &y) in lanes.iter_mut().zip(a_tail).zip(b_tail) {
        *lane += term(f64::from(x), f64::from(y));
    }
    let s = |j: usize| (lanes[j] + lanes[j + 4]) + (lanes[j + 8] + lanes[j + 12]);
    (s(0) + s(2)) + (s(1) + s(3))
}

#[inline(always)]
fn each_row(query: &[f32], rows: &[f32], out: &mut [f64], kernel: impl Fn(&[f32], &[f32]) -> f64) {
    for (row, score) in rows.chunks_exact(query.len()).zip(out) {
        *score = kernel(query, row);
    }
}

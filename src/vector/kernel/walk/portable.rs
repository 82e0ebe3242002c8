//! Plain Rust, for every processor.

use super::{CodeQuery, CodeRows, Kernels};

pub(super) const KERNELS: Kernels = Kernels { codes, floats };

fn codes(query: &CodeQuery, rows: CodeRows<'_>, points: &[u32], out: &mut [f32]) {
    for (&point, out) in points.iter().zip(out) {
        let sum: i32 = query.bytes.iter().zip(rows.row(point)).map(|(q, c)| i32::from(*q) * i32::from(*c)).sum();
        *out = rows.distance(query, point, sum);
    }
}

fn floats(query: &[f32], rows: &[f32], points: &[u32], out: &mut [f32]) {
    for (&point, out) in points.iter().zip(out) {
        *out = -float_dot(query, &rows[point as usize * query.len()..][..query.len()]);
    }
}

/// Lanes of a sum: the compiler keeps them in registers, as many as the processor has room for.
const LANES: usize = 16;

fn float_dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    let (a_blocks, a_tail) = a.as_chunks::<LANES>();
    let (b_blocks, b_tail) = b.as_chunks::<LANES>();
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for j in 0..LANES {
            lanes[j] += x[j] * y[j];
        }
    }
    for ((lane, x), y) in lanes.iter_mut().zip(a_tail).zip(b_tail) {
        *lane += x * y;
    }
    lanes.iter().sum()
}

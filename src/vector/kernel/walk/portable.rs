//! Plain Rust, for every processor.

use super::{CodeQuery, CodeRows, Kernels, meta};

pub(super) const KERNELS: Kernels = Kernels { codes, floats };

fn codes(query: &CodeQuery, rows: CodeRows<'_>, points: &[u32], out: &mut [f32]) {
    for (&point, out) in points.iter().zip(out) {
        let row = &rows.bytes[point as usize * rows.stride..][..rows.stride];
        let sum: i32 = query.bytes.iter().zip(row).map(|(q, c)| i32::from(*q) * i32::from(*c)).sum();
        let (scale, bias) = meta(row);
        *out = query.base + bias + scale * query.factor * (sum - query.offset) as f32;
    }
}

fn floats(query: &[f32], rows: &[f32], points: &[u32], out: &mut [f32]) {
    for (&point, out) in points.iter().zip(out) {
        let row = &rows[point as usize * query.len()..][..query.len()];
        *out = -query.iter().zip(row).map(|(q, x)| q * x).sum::<f32>();
    }
}

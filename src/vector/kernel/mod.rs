//! The canonical kernel: the one way two vectors are compared, with the same bits on every processor.
//!
//! Components are widened to f64. Component `i` belongs to lane `i mod 16`; each of the 16 lanes starts at zero and adds its terms in
//! ascending order; the lanes are summed by a fixed tree: with `s[j] = (lane[j] + lane[j+4]) + (lane[j+8] + lane[j+12])` for `j` in 0..4,
//! the sum is `(s[0] + s[2]) + (s[1] + s[3])`. The product of two f32 is exact in f64, so a fused multiply-add rounds a dot product exactly
//! where a multiplication and an addition do. The square of a difference is not exact, so a squared distance never fuses.
//! `docs/decisions/0003-canonical-kernel.md` says why; spec §12.4 repeats the definition.
//!
//! A sum of at most 65,535 terms of finite f32 can't overflow f64, so finite vectors have finite results. No result is -0.0.
//!
//! | file | role |
//! | --- | --- |
//! | `portable.rs` | plain Rust, for every processor |
//! | `avx2.rs` | x86-64 with AVX2 and FMA: the same bits, several times faster |
//! | `halves.rs` | components that are stored as binary16 to f32, exactly |
//! | `walk/` | approximate kernels that steer a walk; nothing that they return is shown |

#[cfg(target_arch = "x86_64")]
mod avx2;
mod halves;
mod portable;
pub mod walk;

pub use halves::widen;

use std::sync::OnceLock;

/// Lanes of the canonical sum.
const LANES: usize = 16;

type Pair = fn(&[f32], &[f32]) -> f64;
type Rows = fn(&[f32], &[f32], &mut [f64]);

/// One implementation of the kernel. All give the same bits.
struct Kernels {
    dot: Pair,
    squared_distance: Pair,
    dot_rows: Rows,
    squared_distance_rows: Rows,
}

/// The fastest implementation that this processor runs, chosen at first use.
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

/// Inner product of two vectors of equal length. O(length).
///
/// # Panics
/// When the lengths differ.
pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "vectors that are compared have one dimension");
    (kernels().dot)(a, b)
}

/// Squared Euclidean distance of two vectors of equal length. O(length).
///
/// # Panics
/// When the lengths differ.
pub fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "vectors that are compared have one dimension");
    (kernels().squared_distance)(a, b)
}

/// 1 / the Euclidean length of `v`, and 0 for the zero vector.
pub fn inverse_norm(v: &[f32]) -> f64 {
    let squared = dot(v, v);
    if squared > 0.0 { 1.0 / squared.sqrt() } else { 0.0 }
}

/// [`dot`] of `query` with each of the `out.len()` vectors that lie one after another in `rows`, with one dispatch for all.
///
/// # Panics
/// When `query` is empty or `rows` does not hold exactly `out.len()` vectors.
pub fn dot_rows(query: &[f32], rows: &[f32], out: &mut [f64]) {
    check_rows(query, rows, out);
    (kernels().dot_rows)(query, rows, out);
}

/// [`squared_distance`] of `query` and each of the `out.len()` vectors that lie one after another in `rows`, with one dispatch for all.
///
/// # Panics
/// When `query` is empty or `rows` does not hold exactly `out.len()` vectors.
pub fn squared_distance_rows(query: &[f32], rows: &[f32], out: &mut [f64]) {
    check_rows(query, rows, out);
    (kernels().squared_distance_rows)(query, rows, out);
}

fn check_rows(query: &[f32], rows: &[f32], out: &[f64]) {
    assert!(!query.is_empty(), "a vector has at least one component");
    assert_eq!(rows.len(), query.len() * out.len(), "every score has its row, of the query's dimension");
}

#[cfg(test)]
mod tests;

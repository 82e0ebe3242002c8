//! Binary16 to binary32, many at a time: by F16C where the processor has it, else by plain Rust. Both are exact.

#![allow(unsafe_code, reason = "vector instructions: called only after the processor was asked for them, between references of checked length")]

use crate::format::half::half_to_single;
use std::sync::OnceLock;

pub(super) type Widen = fn(&[[u8; 2]], &mut [f32]);

/// Puts the values of `halves` into `out`, which has as many places. NaNs stay NaNs; anything else has one value.
///
/// # Panics
/// When the lengths differ.
pub fn widen(halves: &[[u8; 2]], out: &mut [f32]) {
    static CHOSEN: OnceLock<Widen> = OnceLock::new();
    assert_eq!(halves.len(), out.len(), "every half has its place");
    CHOSEN.get_or_init(|| detect().unwrap_or(portable))(halves, out);
}

/// The implementation by F16C, if the processor has it.
pub(super) fn detect() -> Option<Widen> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx") && is_x86_feature_detected!("f16c") {
        // SAFETY: AVX and F16C were detected above, before this closure could be had.
        return Some(|halves, out| unsafe { f16c(halves, out) });
    }
    None
}

pub(super) fn portable(halves: &[[u8; 2]], out: &mut [f32]) {
    for (half, out) in halves.iter().zip(out) {
        *out = half_to_single(u16::from_le_bytes(*half));
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,f16c")]
fn f16c(halves: &[[u8; 2]], out: &mut [f32]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
    let (eights, rest) = halves.as_chunks::<8>();
    let (places, places_of_rest) = out.as_chunks_mut::<8>();
    for (eight, place) in eights.iter().zip(places) {
        // SAFETY: the references cover the 16 bytes that are loaded and the 32 that are stored; neither needs an alignment.
        unsafe { _mm256_storeu_ps(place.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(eight.as_ptr().cast()))) }
    }
    portable(rest, places_of_rest);
}

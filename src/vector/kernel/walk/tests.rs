//! Every implementation against plain Rust, and against simsimd.

use super::*;
use crate::format::vector_codes::set_row_meta;
use crate::vector::kernel::dot;
use simsimd::SpatialSimilarity;

/// Bytes that look random, the same at every run.
fn noise(count: usize) -> impl Iterator<Item = u32> {
    (0..count as u32).map(|i| (i + 1).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(40_503) >> 8)
}

/// Every implementation that this processor runs.
fn implementations() -> Vec<Kernels> {
    #[cfg(target_arch = "x86_64")]
    let all = [avx512::detect(), avx2::detect()].into_iter().flatten().chain([portable::KERNELS]).collect();
    #[cfg(not(target_arch = "x86_64"))]
    let all = vec![portable::KERNELS];
    all
}

#[test]
fn every_processor_gives_the_distances_of_plain_rust() {
    for dimension in [1usize, 31, 32, 33, 100, 384, 1_000] {
        let padded = dimension.next_multiple_of(BLOCK);
        let mut query = CodeQuery { bytes: noise(dimension).map(|n| (n % 255) as u8 as i8).collect(), ..CodeQuery::default() };
        query.bytes.iter_mut().for_each(|b| *b = (*b).max(-127));
        query.bytes.resize(padded, 0);
        (query.factor, query.offset, query.base) = (-0.25, 77, 3.0);
        let points = [0, 8, 3, 3, 7, 1, 2];
        let (mut fast, mut plain) = ([0.0; 7], [0.0; 7]);
        for shape in [CodesShape::new(9, dimension as u32), CodesShape::earlier(9, dimension as u32)] {
            let mut bytes: Vec<u8> = noise(shape.length() as usize).map(|n| (n % 128) as u8).collect();
            for row in 0..9 {
                let at = shape.meta_offset(row) as usize;
                set_row_meta(&mut bytes[at..at + META_BYTES], 0.5 + row as f32, -1.25);
            }
            let rows = CodeRows::new(&bytes, &shape);
            (portable::KERNELS.codes)(&query, rows, &points, &mut plain);
            for kernels in implementations() {
                (kernels.codes)(&query, rows, &points, &mut fast);
                assert_eq!(fast, plain, "{dimension} codes, {shape:?}: sums of integers are exact");
            }
        }
        let floats: Vec<f32> = noise(dimension * 9).map(|n| (n % 2_001) as f32 / 1_000.0 - 1.0).collect();
        (portable::KERNELS.floats)(&floats[..dimension], &floats, &points, &mut plain);
        let error = 4.0 * f32::EPSILON * dimension as f32;
        for kernels in implementations() {
            (kernels.floats)(&floats[..dimension], &floats, &points, &mut fast);
            assert!(fast.iter().zip(&plain).all(|(a, b)| (a - b).abs() <= error), "{dimension}: {fast:?}, {plain:?}");
            let mut alone = [0.0; 7];
            points.iter().zip(&mut alone).for_each(|(&point, out)| {
                (kernels.floats)(&floats[..dimension], &floats, &[point], std::slice::from_mut(out));
            });
            assert_eq!(alone, fast, "{dimension}: a distance does not depend on what else is compared");
        }
    }
}

/// Dimensions at and around every width of a register or a block, and what lies between.
fn dimensions() -> impl Iterator<Item = usize> {
    (1..=130).chain([255, 256, 257, 383, 384, 385, 511, 767, 768, 1_000, 1_536, 2_047, 3_072, 4_095, 4_096])
}

/// Rows of codes of which the first byte lies at any address.
fn distances_at(kernels: &Kernels, shift: usize, query: &CodeQuery, codes: &[u8]) -> [f32; 5] {
    let shape = CodesShape::new(5, codes.len() as u32);
    let mut bytes = vec![0; shift + shape.length() as usize];
    for row in 0..5 {
        let at = shift + row * shape.stride;
        bytes[at..at + codes.len()].copy_from_slice(codes);
        let at = shift + shape.meta_offset(row as u32) as usize;
        set_row_meta(&mut bytes[at..at + META_BYTES], 1.0, 0.0);
    }
    let mut out = [0.0; 5];
    (kernels.codes)(query, CodeRows::new(&bytes[shift..], &shape), &[0, 4, 1, 3, 2], &mut out);
    out
}

#[test]
fn sums_of_codes_are_exact_at_the_extremes_and_at_any_address() {
    let signs: [fn(usize) -> i8; 4] = [|_| 127, |_| -127, |i| if i % 2 == 0 { 127 } else { -127 }, |i| (i * 37 % 255) as u8 as i8];
    for dimension in dimensions().chain([33_000]) {
        let padded = dimension.next_multiple_of(BLOCK);
        for (sign, code) in signs.into_iter().zip([127u8, 127, 127, 101]) {
            let mut bytes: Vec<i8> = (0..dimension).map(|i| sign(i).max(-127)).collect();
            let codes = vec![code as i8; dimension];
            let sum: i64 = bytes.iter().zip(&codes).map(|(b, c)| i64::from(*b) * i64::from(*c)).sum();
            assert_eq!(i8::dot(&bytes, &codes), Some(sum as f64), "simsimd, {dimension} codes");
            bytes.resize(padded, 0);
            let query = CodeQuery { bytes, factor: 1.0, ..CodeQuery::default() };
            for (kernels, shift) in implementations().iter().flat_map(|k| [0, 1, 31].map(|shift| (k, shift))) {
                assert_eq!(distances_at(kernels, shift, &query, &vec![code; dimension]), [sum as f32; 5], "{dimension} codes at {shift}");
            }
        }
    }
}

#[test]
fn inner_products_are_within_four_ulp_times_the_root_of_the_dimension() {
    let values: [fn(u32) -> f32; 4] = [
        |n| (n % 2_001) as f32 / 1_000.0 - 1.0,
        |n| if n % 2 == 0 { 1e17 } else { -1e17 },
        |n| 1e-18 * ((n % 7) as f32 - 3.0),
        |n| if n % 5 == 0 { 1e6 } else { (n % 3) as f32 * 1e-3 },
    ];
    for dimension in dimensions() {
        for (value, shift) in values.into_iter().zip([0, 1, 3, 7]) {
            let floats: Vec<f32> = noise(dimension * 6 + shift).map(value).collect();
            let (query, rows) = floats[shift..].split_at(dimension);
            for kernels in implementations() {
                let mut all = [0.0; 5];
                (kernels.floats)(query, rows, &[0, 4, 2, 2, 1], &mut all);
                for (&ours, row) in all.iter().zip([0, 4, 2, 2, 1]) {
                    let row = &rows[row * dimension..][..dimension];
                    let ulps = 4.0 * f64::from(f32::EPSILON) * (dimension as f64).sqrt();
                    let most = ulps * (dot(query, query) * dot(row, row)).sqrt();
                    let exact = -dot(query, row);
                    for (name, found) in [("ours", f64::from(ours)), ("simsimd", -f32::dot(query, row).unwrap())] {
                        assert!(
                            (found - exact).abs() <= most,
                            "{name}, {dimension} components at {shift}: {found}, {exact}, at most {most} apart"
                        );
                    }
                }
            }
        }
    }
}

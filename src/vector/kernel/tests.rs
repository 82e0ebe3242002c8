//! All implementations give the same bits, those of the definition; and the definition is what simsimd means, too.

use super::*;
use proptest::prelude::*;
use simsimd::SpatialSimilarity;

/// Every implementation that this processor runs.
fn implementations() -> Vec<(&'static str, Kernels)> {
    let mut all = vec![("portable", portable::KERNELS)];
    #[cfg(target_arch = "x86_64")]
    all.extend(avx2::detect().map(|kernels| ("avx2", kernels)));
    all
}

/// The definition, word for word: component `i` belongs to lane `i mod 16`.
fn by_definition(a: &[f32], b: &[f32], term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lane = [0.0f64; 16];
    for i in 0..a.len() {
        lane[i % 16] += term(f64::from(a[i]), f64::from(b[i]));
    }
    let s = [0, 1, 2, 3].map(|j| (lane[j] + lane[j + 4]) + (lane[j + 8] + lane[j + 12]));
    (s[0] + s[2]) + (s[1] + s[3])
}

fn assert_all_equal_the_definition(a: &[f32], b: &[f32]) {
    let dot = by_definition(a, b, |x, y| x * y);
    let distance = by_definition(a, b, |x, y| (x - y) * (x - y));
    for (name, kernels) in implementations() {
        assert_eq!((kernels.dot)(a, b).to_bits(), dot.to_bits(), "{name} dot, {} components", a.len());
        assert_eq!((kernels.squared_distance)(a, b).to_bits(), distance.to_bits(), "{name} distance, {} components", a.len());
    }
}

/// Reproducible values of a linear congruential generator, in [-1, 1).
fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Any finite f32, subnormals and extremes as likely as others.
fn any_finite() -> impl Strategy<Value = f32> {
    any::<u32>().prop_map(f32::from_bits).prop_filter("finite", |x| x.is_finite())
}

/// Values that cancel, vanish or dominate each other.
fn adversarial() -> impl Strategy<Value = f32> {
    prop_oneof![
        Just(0.0f32),
        Just(-0.0),
        Just(f32::MAX),
        Just(f32::MIN),
        Just(f32::MIN_POSITIVE),
        Just(1e-45),
        Just(-1e-45),
        Just(1.0),
        Just(-1.0),
        Just(16_777_217.0),
        any_finite(),
        -1.0f32..1.0,
    ]
}

proptest! {
    #[test]
    fn every_implementation_gives_the_bits_of_the_definition(pairs in prop::collection::vec((adversarial(), adversarial()), 0..200)) {
        let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        assert_all_equal_the_definition(&a, &b);
    }

    #[test]
    fn alignment_changes_nothing(values in prop::collection::vec(adversarial(), 8..150), shift_a in 0usize..4, shift_b in 0usize..4) {
        let length = values.len() - 4;
        assert_all_equal_the_definition(&values[shift_a..shift_a + length], &values[shift_b..shift_b + length]);
    }

    #[test]
    fn rows_scored_together_have_the_bits_of_rows_scored_alone(
        dimension in 1usize..70, count in 0usize..9, values in prop::collection::vec(adversarial(), 700), shift in 0usize..3,
    ) {
        let query = &values[..dimension];
        let rows = &values[dimension + shift..][..dimension * count];
        for (name, kernels) in implementations() {
            let mut dots = vec![f64::NAN; count];
            let mut distances = vec![f64::NAN; count];
            (kernels.dot_rows)(query, rows, &mut dots);
            (kernels.squared_distance_rows)(query, rows, &mut distances);
            for (i, row) in rows.chunks_exact(dimension).enumerate() {
                prop_assert_eq!(dots[i].to_bits(), by_definition(query, row, |x, y| x * y).to_bits(), "{} row {}", name, i);
                let distance = by_definition(query, row, |x, y| (x - y) * (x - y));
                prop_assert_eq!(distances[i].to_bits(), distance.to_bits(), "{} row {}", name, i);
            }
        }
    }

    #[test]
    fn finite_vectors_have_finite_results_and_never_minus_zero(pairs in prop::collection::vec((adversarial(), adversarial()), 0..100)) {
        let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        for result in [dot(&a, &b), squared_distance(&a, &b), inverse_norm(&a)] {
            prop_assert!(result.is_finite());
            prop_assert_ne!(result.to_bits(), (-0.0f64).to_bits());
        }
    }
}

#[test]
fn long_vectors_agree_at_every_tail_length() {
    for length in (0..=130).chain([255, 256, 257, 383, 384, 767, 768, 1023, 1536, 3071, 4093, 4096, 65_535]) {
        let (a, b) = (noise(length as u64, length), noise(!length as u64, length));
        assert_all_equal_the_definition(&a, &b);
    }
}

#[test]
fn simsimd_agrees_within_its_single_precision() {
    for length in (1..=64).chain([65, 100, 127, 128, 300, 384, 511, 768, 1000, 1024, 2047, 3072, 4096]) {
        for shift in 0..3 {
            let (a, b) = (noise(length as u64, length + shift), noise(77 + length as u64, length));
            let (a, b) = (&a[shift..], &b[..]);
            // simsimd adds in f32: its error is bounded by the number of additions times the sum of the terms' magnitudes.
            let ulps = f64::from(f32::EPSILON) * (length as f64 + 8.0);
            let dot_scale: f64 = a.iter().zip(b).map(|(x, y)| f64::from(x * y).abs()).sum();
            let oracle = f32::dot(a, b).expect("equal lengths");
            assert!((dot(a, b) - oracle).abs() <= ulps * dot_scale, "dot of {length}: {} against {oracle}", dot(a, b));
            let oracle = f32::sqeuclidean(a, b).expect("equal lengths");
            let distance = squared_distance(a, b);
            assert!((distance - oracle).abs() <= ulps * distance, "distance of {length}: {distance} against {oracle}");
            let oracle = 1.0 - f32::cosine(a, b).expect("equal lengths");
            let cosine = dot(a, b) * inverse_norm(a) * inverse_norm(b);
            assert!((cosine - oracle).abs() <= 1e-3, "cosine of {length}: {cosine} against {oracle}");
        }
    }
}

#[test]
fn extremes_are_exact_where_single_precision_is_not() {
    assert_eq!(dot(&[f32::MAX, 1.0], &[f32::MAX, 0.0]), f64::from(f32::MAX) * f64::from(f32::MAX));
    assert_eq!(dot(&[1e-45], &[1e-45]), f64::from(1e-45f32) * f64::from(1e-45f32));
    assert!(inverse_norm(&[1e-45]) > 1e44);
    assert_eq!(squared_distance(&[f32::MAX], &[f32::MIN]), 4.0 * f64::from(f32::MAX) * f64::from(f32::MAX));
}

#[test]
fn the_zero_vector_has_no_direction() {
    assert_eq!(inverse_norm(&[0.0, -0.0, 0.0]), 0.0);
    assert_eq!(inverse_norm(&[]), 0.0);
    assert_eq!(inverse_norm(&[3.0, -4.0]), 0.2);
}

#[test]
#[should_panic(expected = "one dimension")]
fn vectors_of_different_dimension_are_a_mistake_of_the_caller() {
    dot(&[1.0, 2.0], &[1.0]);
}

/// Bits computed from the specification by another program: scores must not drift from one version to the next.
#[test]
fn the_bits_of_the_specification_hold() {
    let a: Vec<f32> = (0..37u32).map(|i| (i * 7 % 11) as f32 / 10.0 - 0.3).collect();
    let b: Vec<f32> = (0..37u32).map(|i| (i * 5 % 13) as f32 / 7.0 - 0.9).collect();
    assert_eq!(dot(&a, &b).to_bits(), 0x3ff5_3620_720b_b3b8);
    assert_eq!(squared_distance(&a, &b).to_bits(), 0x402b_489e_bbb3_b920);
    assert_eq!(inverse_norm(&a).to_bits(), 0x3fdb_a4cf_6eb2_2483);
}

#[test]
fn every_half_is_widened_to_its_value_by_every_implementation() {
    let halves: Vec<[u8; 2]> = (0..=u16::MAX).map(u16::to_le_bytes).collect();
    let expected: Vec<f32> = (0..=u16::MAX).map(crate::format::half::half_to_single).collect();
    let ways: Vec<halves::Widen> = [Some(halves::portable as halves::Widen), halves::detect(), Some(widen)].into_iter().flatten().collect();
    for way in ways {
        // Lengths and places that are no multiple of what is done at once.
        for range in [0..65_536, 3..65_529, 1_000..1_007, 31_743..31_745, 5..5] {
            let mut found = vec![7.0; range.len()];
            way(&halves[range.clone()], &mut found);
            for (found, expected) in found.iter().zip(&expected[range]) {
                assert!(found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(), "{found} is {expected}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "every half has its place")]
fn halves_and_places_of_different_number_are_a_mistake_of_the_caller() {
    widen(&[[0, 0]; 3], &mut [0.0; 2]);
}

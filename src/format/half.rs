//! IEEE 754 binary16, the narrow form of a vector's component: 1 bit of sign, 5 of exponent, 10 of fraction. Spec §12.1.
//!
//! Every binary16 is a binary32 exactly, so what is stored as one is computed with as the other without a difference.

/// The greatest finite magnitude.
pub const HALF_MAX: f32 = 65_504.0;

/// The exponent of an infinity or a NaN.
const EXPONENT: u16 = 0x7c00;
/// 2^112, which takes the bias of binary16 to that of binary32.
const REBIAS: f32 = f32::from_bits((127 + 112) << 23);

/// The value of a binary16; exact. A NaN stays one.
#[inline]
pub fn half_to_single(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    // With its exponent too small by 112, subnormals included; the product is exact.
    let magnitude = f32::from_bits(u32::from(half & 0x7fff) << 13) * REBIAS;
    let special = if half & EXPONENT == EXPONENT { f32::INFINITY.to_bits() } else { 0 };
    f32::from_bits(magnitude.to_bits() | special | sign)
}

/// The binary16 nearest to a value, of two equally near ones the even one. Magnitudes from 65,520 on become infinite.
pub fn single_to_half(single: f32) -> u16 {
    let sign = (single.to_bits() >> 16 & 0x8000) as u16;
    let magnitude = single.to_bits() & 0x7fff_ffff;
    let rounded = match magnitude {
        m if f32::from_bits(m).is_nan() => 0x7e00,
        // From 2^16 on.
        0x4780_0000.. => u32::from(EXPONENT),
        // From 2^-14 on: normal. The carry of rounding up goes into the exponent, and from the greatest one into that of the infinities.
        0x3880_0000.. => (magnitude - (112 << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13,
        // Below 0.5 the last bit of a sum with it is 2^-24, the unit of the subnormals.
        m => (f32::from_bits(m) + 0.5).to_bits() - 0.5f32.to_bits(),
    };
    sign | rounded as u16
}

/// What is left of a value that is stored as a binary16; infinite when it is beyond them.
pub fn rounded_to_half(single: f32) -> f32 {
    half_to_single(single_to_half(single))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The value by the definition of the standard.
    fn defined(half: u16) -> f64 {
        let (exponent, fraction) = (i32::from(half >> 10 & 0x1f), f64::from(half & 0x3ff));
        let sign = if half >> 15 == 1 { -1.0 } else { 1.0 };
        match exponent {
            0 => sign * fraction * 2f64.powi(-24),
            31 if fraction == 0.0 => sign * f64::INFINITY,
            31 => f64::NAN,
            e => sign * (1.0 + fraction / 1024.0) * 2f64.powi(e - 15),
        }
    }

    #[test]
    fn every_half_has_its_value_and_rounds_to_itself() {
        for half in 0..=u16::MAX {
            let (found, expected) = (half_to_single(half), defined(half));
            if expected.is_nan() {
                assert!(found.is_nan() && half_to_single(single_to_half(found)).is_nan(), "{half:#06x}");
                continue;
            }
            assert_eq!(f64::from(found).to_bits(), expected.to_bits(), "{half:#06x}");
            assert_eq!(single_to_half(found), half, "{half:#06x}");
        }
    }

    #[test]
    fn between_two_halves_the_nearer_is_taken_and_of_equally_near_ones_the_even() {
        for half in 0..EXPONENT {
            // The value above the greatest is where the next one would lie: 65,536.
            let above = if half + 1 == EXPONENT { 65_536.0 } else { half_to_single(half + 1) };
            // Exact: it has one bit more than a binary16.
            let middle = (half_to_single(half) + above) / 2.0;
            let even = half + (half & 1);
            for (value, expected) in [(middle, even), (middle.next_down(), half), (middle.next_up(), half + 1)] {
                assert_eq!(single_to_half(value), expected, "{value}");
                assert_eq!(single_to_half(-value), expected | 0x8000, "-{value}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_range_are_where_the_standard_has_them() {
        assert_eq!((rounded_to_half(HALF_MAX), rounded_to_half(65_519.996)), (HALF_MAX, HALF_MAX));
        for beyond in [65_520.0, 65_536.0, 1e30, f32::MAX, f32::INFINITY] {
            assert_eq!(rounded_to_half(-beyond), f32::NEG_INFINITY, "{beyond}");
        }
        assert_eq!(rounded_to_half(2f32.powi(-24)), 2f32.powi(-24));
        assert_eq!(rounded_to_half(2f32.powi(-25)).to_bits(), 0, "half of the least subnormal is a tie, and 0 is even");
        assert_eq!(rounded_to_half(-2f32.powi(-25)).to_bits(), (-0.0f32).to_bits());
        assert_eq!(rounded_to_half(2f32.powi(-25).next_up()), 2f32.powi(-24));
        assert_eq!(rounded_to_half(f32::from_bits(1)).to_bits(), 0);
    }

    proptest! {
        #[test]
        fn no_other_half_is_nearer(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            prop_assume!(value.abs() < 65_520.0);
            let half = single_to_half(value);
            let distance = |half: u16| (defined(half) - f64::from(value)).abs();
            for other in [half.wrapping_sub(1), half.wrapping_add(1)] {
                prop_assert!(distance(other).is_nan() || distance(half) <= distance(other), "{} became {half:#06x}", value);
            }
        }
    }
}

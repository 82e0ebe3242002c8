//! Roaring bitmaps: sets of rows and of seqs. Spec §22.
//!
//! The crate `roaring` reads them and checks every value. It makes room for what a header claims before it looks whether that is there, so
//! the sizes are held against the bytes here first: a bitmap takes no more memory than a small multiple of its bytes.

use super::error::FormatError;
use roaring::{RoaringBitmap, RoaringTreemap};

/// The cookie of a bitmap without containers of runs.
const COOKIE_PLAIN: u32 = 12_346;
/// The lower half of the cookie of any other.
const COOKIE_RUNS: u16 = 12_347;
/// The most containers that a bitmap can have.
const CONTAINERS_MAX: usize = 1 << 16;
/// Bitmaps with runs of fewer containers do not say where each starts.
const OFFSETS_FROM: usize = 4;
/// A container of more members is a bit set.
const ARRAY_MEMBERS_MAX: usize = 4096;
/// Bytes of a bit set.
const BITS_BYTES: usize = 8192;

/// Reads a bitmap from the start of `bytes`, every value checked, and answers what is left.
pub fn decode_bitmap(bytes: &[u8]) -> Result<(RoaringBitmap, &[u8]), FormatError> {
    let refused = |what: &str| FormatError::new(0, format!("{} bytes are not a roaring bitmap: {what}", bytes.len()));
    measure(bytes).ok_or_else(|| refused("its containers do not fit them"))?;
    let mut rest = bytes;
    let bitmap = RoaringBitmap::deserialize_from(&mut rest).map_err(|e| refused(&e.to_string()))?;
    Ok((bitmap, rest))
}

/// Reads a 64-bit bitmap that takes up all of `bytes`: its parts ascend strictly by the upper halves of their members.
pub fn decode_treemap(bytes: &[u8]) -> Result<RoaringTreemap, FormatError> {
    let cut = |rest: &[u8]| FormatError::new(bytes.len() - rest.len(), "a set of seqs is cut off");
    let (count, mut rest) = bytes.split_first_chunk::<8>().ok_or_else(|| cut(bytes))?;
    let (mut parts, mut last) = (Vec::new(), None);
    // A part has at least 12 bytes, so a count too great ends with the bytes.
    for _ in 0..u64::from_le_bytes(*count) {
        let at = bytes.len() - rest.len();
        let (high, after) = rest.split_first_chunk::<4>().ok_or_else(|| cut(rest))?;
        let high = u32::from_le_bytes(*high);
        let (bitmap, after) = decode_bitmap(after).map_err(|e| e.shifted(at as u64 + 4))?;
        if last.is_some_and(|last| last >= high) {
            return Err(FormatError::new(at, format!("part {high} of a set of seqs is out of order")));
        }
        last = Some(high);
        parts.push((high, bitmap));
        rest = after;
    }
    if !rest.is_empty() {
        return Err(FormatError::new(bytes.len() - rest.len(), format!("{} bytes follow a set of seqs", rest.len())));
    }
    Ok(RoaringTreemap::from_bitmaps(parts))
}

/// The bytes of the bitmap that begins here, by its header and the numbers of runs; `None` when they are not there.
fn measure(bytes: &[u8]) -> Option<usize> {
    let half = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let cookie = word(0)?;
    let (containers, runs) = if cookie == COOKIE_PLAIN {
        (usize::try_from(word(4)?).ok()?, None)
    } else if cookie as u16 == COOKIE_RUNS {
        ((cookie >> 16) as usize + 1, Some(4))
    } else {
        return None;
    };
    if containers > CONTAINERS_MAX {
        return None;
    }
    let descriptions = if runs.is_some() { 4 + containers.div_ceil(8) } else { 8 };
    let offsets = if runs.is_none() || containers >= OFFSETS_FROM { 4 * containers } else { 0 };
    let mut at = descriptions + 4 * containers + offsets;
    for i in 0..containers {
        let members = usize::from(half(descriptions + 4 * i + 2)?) + 1;
        let of_runs = match runs {
            Some(flags) => bytes.get(flags + i / 8)? >> (i % 8) & 1 == 1,
            None => false,
        };
        at += match members {
            _ if of_runs => 2 + 4 * usize::from(half(at)?),
            ..=ARRAY_MEMBERS_MAX => 2 * members,
            _ => BITS_BYTES,
        };
    }
    (at <= bytes.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(bitmap: &RoaringBitmap) -> Vec<u8> {
        let mut bytes = Vec::new();
        bitmap.serialize_into(&mut bytes).unwrap();
        bytes
    }

    /// Single members, ranges that become runs when they are optimised, and containers too full for a list.
    fn bitmaps() -> impl Strategy<Value = RoaringBitmap> {
        let range = (0..9u32 << 16, prop_oneof![3 => 0..3u32, 1 => 0..9000u32], 1..3usize);
        (prop::collection::vec(range, 0..40), any::<bool>()).prop_map(|(ranges, optimised)| {
            let members = ranges.into_iter().flat_map(|(from, length, step)| (from..=from + length).step_by(step));
            let mut bitmap: RoaringBitmap = members.collect();
            if optimised {
                bitmap.optimize();
            }
            bitmap
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_bitmap_is_measured_to_its_last_byte(bitmap in bitmaps(), more in 0..9usize) {
            let bytes = encode(&bitmap);
            prop_assert_eq!(measure(&bytes), Some(bytes.len()));
            prop_assert_eq!(measure(&bytes[..bytes.len() - 1]), None);
            let followed = [&bytes[..], &vec![7; more]].concat();
            prop_assert_eq!(decode_bitmap(&followed), Ok((bitmap, &followed[bytes.len()..])));
        }

        #[test]
        fn any_bytes_are_read_within_what_was_measured(
            bitmap in bitmaps(),
            damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut bytes = encode(&bitmap);
            for (at, byte) in damages {
                let at = at.index(bytes.len().min(40));
                bytes[at] = byte;
            }
            match (measure(&bytes), RoaringBitmap::deserialize_from(&bytes[..])) {
                (None, theirs) => prop_assert!(theirs.is_err()),
                (Some(length), Ok(theirs)) => {
                    let (ours, rest) = decode_bitmap(&bytes).unwrap();
                    prop_assert_eq!((ours, rest.len()), (theirs, bytes.len() - length));
                }
                (Some(_), Err(_)) => prop_assert!(decode_bitmap(&bytes).is_err()),
            }
        }
    }

    #[test]
    fn a_header_that_claims_more_than_there_is_is_refused_before_room_is_made() {
        let most = [COOKIE_PLAIN.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
        let runs = [u32::MAX << 16 | u32::from(COOKIE_RUNS)].map(u32::to_le_bytes).concat();
        let run = [u32::from(COOKIE_RUNS).to_le_bytes(), [1, 0, 0, 0], [0, 0xff, 0xff, 0]].concat();
        for bytes in [&most[..], &runs, &run, b"", b"abcdefgh"] {
            assert_eq!(measure(bytes), None, "{bytes:?}");
            assert!(decode_bitmap(bytes).unwrap_err().what.contains("do not fit"));
        }
    }

    #[test]
    fn the_parts_of_a_wide_bitmap_ascend_and_fill_it() {
        let set: RoaringTreemap = [3, 1 << 33, (1 << 33) + 7].into_iter().collect();
        let mut bytes = Vec::new();
        set.serialize_into(&mut bytes).unwrap();
        assert_eq!(decode_treemap(&bytes), Ok(set));
        assert!(decode_treemap(&bytes[..bytes.len() - 1]).is_err());
        assert_eq!(decode_treemap(&[&bytes[..], &[0]].concat()).unwrap_err().offset, bytes.len() as u64);
        let part = [&7u32.to_le_bytes()[..], &encode(&RoaringBitmap::from_iter([1]))].concat();
        let twice = [&2u64.to_le_bytes()[..], &part, &part].concat();
        assert_eq!(decode_treemap(&twice).unwrap_err().offset, 8 + part.len() as u64);
        assert!(decode_treemap(&u64::MAX.to_le_bytes()).unwrap_err().what.contains("cut off"));
    }
}

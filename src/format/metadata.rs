//! The metadata index as bytes: keys whose byte order is the order of values, and the table of each key's rows. Spec §12a.
//!
//! A key is a path, a kind and a value. Numbers are written so that their exact values, integers and floats together, order the bytes;
//! strings are their UTF-8 bytes, whose order is that of code points. What is too long is cut and hashed, so that no document is refused
//! and no key is long; whoever meets a cut key asks the document itself.

use super::bitmap::decode_bitmap;
use super::error::FormatError;
use roaring::RoaringBitmap;
use serde_json::Number;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a path that a key holds whole; of a longer one it holds this many and a hash.
pub const METADATA_PATH_BYTES_MAX: usize = 256;
/// Bytes of a string that a key holds whole; of a longer one it holds this many and a hash.
pub const METADATA_STRING_BYTES_MAX: usize = 128;
/// Lists of at most this many rows are plain numbers.
pub const METADATA_PLAIN_ROWS_MAX: u32 = 8;
/// In a [`MetadataRowsEntry`]: the key has one row, which is the low half.
pub const METADATA_SOLE_ROW: u64 = 1 << 63;

/// Ends a path. UTF-8 has no such byte.
const PATH_END: u8 = 0xff;
/// Stands before the hash of a path that was cut.
const PATH_CUT: u8 = 0xfe;
/// Stands before the hash of a string that was cut. UTF-8 has no such byte.
const STRING_CUT: u8 = 0xff;
/// Bytes of a hash.
const HASH_BYTES: usize = 8;

/// What stands between path and value in a key. The numbers are those of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum KeyKind {
    /// There is a value at the path, of whatever kind. No value follows.
    Exists = 1,
    /// Null. No value follows.
    Null = 2,
    /// A byte follows: 0 false, 1 true.
    Boolean = 3,
    /// Ten bytes follow.
    Number = 4,
    /// The string follows.
    String = 5,
}

/// Added to the kind of a value that is an element of the array at the path.
const ELEMENT: u8 = 0x10;

/// A value that has a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyValue<'a> {
    /// Null.
    Null,
    /// True or false.
    Boolean(bool),
    /// A number.
    Number(&'a Number),
    /// A string.
    String(&'a str),
}

impl KeyValue<'_> {
    /// Its kind.
    pub fn kind(&self) -> KeyKind {
        match self {
            KeyValue::Null => KeyKind::Null,
            KeyValue::Boolean(_) => KeyKind::Boolean,
            KeyValue::Number(_) => KeyKind::Number,
            KeyValue::String(_) => KeyKind::String,
        }
    }

    /// Whether its key does not hold it whole, so that another value can have the same key.
    pub fn is_cut(&self) -> bool {
        matches!(self, KeyValue::String(s) if s.len() > METADATA_STRING_BYTES_MAX)
    }
}

/// A running FNV-1a hash, so that a path is hashed step by step as it grows.
#[derive(Debug, Clone, Copy)]
pub struct KeyHash(u64);

impl KeyHash {
    /// The hash of no bytes.
    pub const EMPTY: KeyHash = KeyHash(0xcbf2_9ce4_8422_2325);

    /// The hash of the bytes so far and then these.
    pub fn extend(self, bytes: &[u8]) -> KeyHash {
        KeyHash(bytes.iter().fold(self.0, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)))
    }

    #[allow(clippy::big_endian_bytes, reason = "every number of a key stands in the order of its bytes")]
    fn bytes(self) -> [u8; HASH_BYTES] {
        self.0.to_be_bytes()
    }
}

/// Appends a path of this hash. Answers whether it was held whole: another path can have the key of one that was not.
pub fn encode_path(path: &str, hash: KeyHash, out: &mut Vec<u8>) -> bool {
    let whole = path.len() <= METADATA_PATH_BYTES_MAX;
    if whole {
        out.extend_from_slice(path.as_bytes());
    } else {
        out.extend_from_slice(&path.as_bytes()[..METADATA_PATH_BYTES_MAX]);
        out.push(PATH_CUT);
        out.extend_from_slice(&hash.bytes());
    }
    out.push(PATH_END);
    whole
}

/// Appends a kind; `element` says that the value is one of an array.
pub fn encode_kind(kind: KeyKind, element: bool, out: &mut Vec<u8>) {
    out.push(kind as u8 | if element { ELEMENT } else { 0 });
}

/// Appends what stands above every value of this kind and below every greater kind.
pub fn encode_after_kind(kind: KeyKind, element: bool, out: &mut Vec<u8>) {
    out.push((kind as u8 | if element { ELEMENT } else { 0 }) + 1);
}

/// Appends kind and value. Answers false, and appends nothing, for a number beyond the range of `f64`, which equals nothing.
pub fn encode_value(value: KeyValue<'_>, element: bool, out: &mut Vec<u8>) -> bool {
    let kind = value.kind();
    match value {
        KeyValue::Null => encode_kind(kind, element, out),
        KeyValue::Boolean(b) => {
            encode_kind(kind, element, out);
            out.push(b.into());
        }
        KeyValue::Number(n) => {
            let Some(number) = number_bytes(n) else { return false };
            encode_kind(kind, element, out);
            out.extend_from_slice(&number);
        }
        KeyValue::String(s) => {
            encode_kind(kind, element, out);
            if value.is_cut() {
                encode_cut(s, out);
                out.extend_from_slice(&KeyHash::EMPTY.extend(s.as_bytes()).bytes());
            } else {
                out.extend_from_slice(s.as_bytes());
            }
        }
    }
    true
}

/// Appends what a long string's key holds of it before the hash. Every string of this beginning that is cut has a key that starts with
/// these bytes and ends with the `HASH_BYTES` of its hash.
pub fn encode_cut(string: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&string.as_bytes()[..METADATA_STRING_BYTES_MAX]);
    out.push(STRING_CUT);
}

/// Appends what stands above every hash.
pub fn encode_after_hash(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0xff; HASH_BYTES]);
    out.push(0);
}

/// The nearest `f64`, its bits turned so that they order as the numbers do, and by how much the number exceeds it: an integer of at most
/// half a unit in the last place, 1,024 for the largest.
#[allow(clippy::big_endian_bytes, reason = "keys are ordered by their bytes")]
fn number_bytes(number: &Number) -> Option<[u8; 10]> {
    let (nearest, excess) = if let Some(n) = number.as_u64() {
        (n as f64, i128::from(n) - (n as f64) as i128)
    } else if let Some(n) = number.as_i64() {
        (n as f64, i128::from(n) - (n as f64) as i128)
    } else {
        (number.as_f64().filter(|x| x.is_finite())?, 0)
    };
    // Adding 0 makes one zero of the two.
    let bits = (nearest + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    let excess = u16::try_from(excess + 0x8000).expect("an integer of 64 bits is within 1,024 of a float");
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&ordered.to_be_bytes());
    bytes[8..].copy_from_slice(&excess.to_be_bytes());
    Some(bytes)
}

/// Spec §12a.4: the rows of one key, one entry a key in the order of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MetadataRowsEntry {
    /// Where the list starts in the section. With [`METADATA_SOLE_ROW`]: the key's only row.
    pub location: U64,
}
const _: () = assert!(size_of::<MetadataRowsEntry>() == 8);

/// Spec §12a.5: what stands before a list of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MetadataListHeader {
    /// How many rows the list has, at least 2.
    pub rows: U32,
    /// Bytes of the list, which follows.
    pub length: U32,
}
const _: () = assert!(size_of::<MetadataListHeader>() == 8);

/// Bytes of an entry.
pub const ENTRY_BYTES: u64 = size_of::<MetadataRowsEntry>() as u64;
/// Bytes of a list's header.
pub const LIST_HEADER_BYTES: u64 = size_of::<MetadataListHeader>() as u64;

/// Where a key's rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsPlace {
    /// Its only row.
    Sole(u32),
    /// Where the list's header starts in the section.
    List(u64),
}

impl MetadataRowsEntry {
    /// The entry of these rows' place.
    pub fn new(place: RowsPlace) -> MetadataRowsEntry {
        let location = match place {
            RowsPlace::Sole(row) => METADATA_SOLE_ROW | u64::from(row),
            RowsPlace::List(offset) => offset,
        };
        MetadataRowsEntry { location: U64::new(location) }
    }

    /// Reads an entry from its 8 bytes, in a segment of `rows` rows with `lists` bytes of lists.
    pub fn decode(bytes: &[u8], rows: u32, lists: u64) -> Result<RowsPlace, FormatError> {
        let entry = MetadataRowsEntry::read_from_bytes(bytes).map_err(|_| FormatError::new(0, "a key's entry has 8 bytes"))?;
        let location = entry.location.get();
        if location & METADATA_SOLE_ROW == 0 {
            if location.checked_add(LIST_HEADER_BYTES).is_none_or(|end| end > lists) {
                return Err(FormatError::new(0, format!("a list at {location} of {lists} bytes of lists")));
            }
            return Ok(RowsPlace::List(location));
        }
        match u32::try_from(location ^ METADATA_SOLE_ROW) {
            Ok(row) if row < rows => Ok(RowsPlace::Sole(row)),
            _ => Err(FormatError::new(0, format!("the only row of a key is {}; the segment has {rows}", location ^ METADATA_SOLE_ROW))),
        }
    }
}

impl MetadataListHeader {
    /// Reads the header at `offset` from its 8 bytes, and checks it against the rows of the segment and the bytes of lists.
    pub fn decode(bytes: &[u8], offset: u64, rows: u32, lists: u64) -> Result<MetadataListHeader, FormatError> {
        let header = MetadataListHeader::read_from_bytes(bytes).map_err(|_| FormatError::new(0, "a list's header has 8 bytes"))?;
        let (count, length) = (header.rows.get(), header.length.get());
        let inside = offset.checked_add(LIST_HEADER_BYTES + u64::from(length)).is_some_and(|end| end <= lists);
        if count < 2 || count > rows || !inside {
            let what = format!("a list of {count} rows in {length} bytes, in a segment of {rows} rows and {lists} bytes of lists");
            return Err(FormatError::new(0, what));
        }
        Ok(header)
    }

    /// Reads the list that follows this header, `bytes` exactly: rows of a segment of `rows` rows.
    pub fn decode_list(&self, bytes: &[u8], rows: u32) -> Result<RoaringBitmap, FormatError> {
        let count = self.rows.get();
        let (bitmap, rest) = if count <= METADATA_PLAIN_ROWS_MAX {
            let (words, rest) = bytes.as_chunks::<4>();
            let ascending = RoaringBitmap::from_sorted_iter(words.iter().map(|w| u32::from_le_bytes(*w)));
            (ascending.map_err(|_| FormatError::new(0, "the rows of a key do not ascend"))?, rest)
        } else {
            decode_bitmap(bytes)?
        };
        if bitmap.len() != u64::from(count) || bitmap.max().is_some_and(|last| last >= rows) || !rest.is_empty() {
            let what = format!("{} rows up to {:?}, expected {count} below {rows}", bitmap.len(), bitmap.max());
            return Err(FormatError::new(0, what));
        }
        Ok(bitmap)
    }
}

/// Encodes the rows of a key, at least two, as header and list.
pub fn encode_list(rows: &RoaringBitmap, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let start = out.len();
    let count = u32::try_from(rows.len()).map_err(|_| FormatError::new(0, "a key has at most 2^32 - 1 rows"))?;
    let mut header = MetadataListHeader { rows: U32::new(count), length: U32::new(0) };
    out.extend_from_slice(header.as_bytes());
    if count <= METADATA_PLAIN_ROWS_MAX {
        rows.iter().for_each(|row| out.extend_from_slice(&row.to_le_bytes()));
    } else {
        rows.serialize_into(&mut *out).expect("writing to memory does not fail");
    }
    let length = out.len() - start - LIST_HEADER_BYTES as usize;
    header.length = U32::new(u32::try_from(length).map_err(|_| FormatError::new(0, "a list has at most 4 GiB"))?);
    out[start..start + LIST_HEADER_BYTES as usize].copy_from_slice(header.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    fn key(json: &str) -> Vec<u8> {
        let number: Number = serde_json::from_str(json).unwrap();
        let mut out = Vec::new();
        assert!(encode_value(KeyValue::Number(&number), false, &mut out));
        out
    }

    #[test]
    fn keys_of_numbers_order_as_their_exact_values() {
        let mut numbers: Vec<String> = ["-0.0", "0", "0.0", "5e-324", "-5e-324", "1e308", "-1e308", "18446744073709551616"].map(String::from).to_vec();
        for power in 0..64 {
            for near in -2i128..=2 {
                for n in [(1i128 << power) + near, -(1i128 << power) + near] {
                    if i64::try_from(n).is_ok() || u64::try_from(n).is_ok() {
                        numbers.extend([n.to_string(), format!("{}.5", n), format!("{}.0", n)]);
                    }
                }
            }
        }
        // The oracle of the filters compares numbers in another way.
        let value = |json: &str| serde_json::from_str::<Number>(json).unwrap();
        for a in &numbers {
            for b in &numbers {
                let expected = crate::filter::compare_numbers(&value(a), &value(b));
                assert_eq!(Some(key(a).cmp(&key(b))), expected, "{a} and {b}");
            }
        }
        // The examples of the specification.
        let spec = |json: &str| key(json)[1..].iter().map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(" ");
        assert_eq!(spec("-1"), "40 0F FF FF FF FF FF FF 80 00");
        assert_eq!(spec("-0.0"), "80 00 00 00 00 00 00 00 80 00");
        assert_eq!(spec("2.0"), "C0 00 00 00 00 00 00 00 80 00");
        assert_eq!(spec("1152921504606846977"), "C3 B0 00 00 00 00 00 00 80 01");
        assert_eq!(spec("18446744073709551615"), "C3 F0 00 00 00 00 00 00 7F FF");
        assert_eq!(key("2"), key("2.0"));
        assert_eq!(key("0"), key("-0.0"));
        assert_eq!(key("1152921504606846976").cmp(&key("1152921504606846977")), Ordering::Less);
    }

    #[test]
    fn keys_of_strings_order_by_code_points_even_when_cut() {
        let long = |last: &str| "é".repeat(METADATA_STRING_BYTES_MAX / 2) + last;
        let strings = ["", "\0", "a", "ab", "b", "z", "é", &long("")[2..], &long(""), &long("a"), "中", "\u{10ffff}"];
        let keys: Vec<Vec<u8>> = strings
            .iter()
            .map(|s| {
                let mut out = Vec::new();
                encode_value(KeyValue::String(s), false, &mut out);
                out
            })
            .collect();
        for (a, x) in strings.iter().zip(&keys) {
            for (b, y) in strings.iter().zip(&keys) {
                assert_eq!(x.cmp(y), a.cmp(b), "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn lists_of_every_length_read_back() {
        for n in [2u32, 3, 8, 9, 5000, 70_000] {
            let rows: RoaringBitmap = (0..n).map(|i| i * 3).collect();
            let mut bytes = Vec::new();
            encode_list(&rows, &mut bytes).unwrap();
            let header = MetadataListHeader::decode(&bytes[..8], 0, n * 3, bytes.len() as u64).unwrap();
            assert_eq!(header.decode_list(&bytes[8..], n * 3).unwrap(), rows);
            assert!(header.decode_list(&bytes[8..], n * 3 - 3).is_err(), "a row beyond the segment");
            assert!(header.decode_list(&bytes[8..bytes.len() - 1], n * 3).is_err(), "a list cut short");
        }
    }
}

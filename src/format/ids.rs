//! Which row has which id and which seq: the `Ids`, `Seqs` and `IdMap` sections. Spec §10.3, §10.4 and §10.6.

use super::error::FormatError;
use crate::options::limits;
use std::ops::Range;

/// Where the `Ids` section of `rows` rows starts its text.
pub fn ids_text_start(rows: u32) -> u64 {
    (u64::from(rows) + 1) * 8
}

/// Checks the sizes that the table entry of an `Ids` section gives and answers the number of rows.
pub fn check_ids(items: u64, text_bytes: u64, length: u64) -> Result<u32, FormatError> {
    let rows = u32::try_from(items).ok().filter(|_| items <= limits::SEGMENT_ROWS_MAX);
    let rows = rows.ok_or_else(|| FormatError::new(0, format!("{items} rows; at most {} are allowed", limits::SEGMENT_ROWS_MAX)))?;
    if ids_text_start(rows).checked_add(text_bytes) != Some(length) {
        return Err(FormatError::new(0, format!("{length} bytes do not hold {rows} ids of {text_bytes} bytes in all")));
    }
    Ok(rows)
}

/// Reads the two `u64` before and after one name and answers where it lies in `text_bytes` bytes of text. A name has 1 to 1,024 bytes.
pub fn name_range(bounds: &[u8], text_bytes: u64) -> Result<Range<u64>, FormatError> {
    let (words, _) = bounds.as_chunks::<8>();
    let &[start, end] = words else {
        return Err(FormatError::new(0, "the bounds of a name have 16 bytes"));
    };
    let (start, end) = (u64::from_le_bytes(start), u64::from_le_bytes(end));
    if start >= end || end > text_bytes || end - start > limits::NAME_BYTES_MAX as u64 {
        return Err(FormatError::new(0, format!("a name is bytes {start}..{end} of {text_bytes}; it has 1 to {}", limits::NAME_BYTES_MAX)));
    }
    Ok(start..end)
}

/// How the `Seqs` section stores its numbers; the number is its `aux`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeqWidth {
    /// Nothing is stored: the seq of a row is the row.
    Consecutive = 0,
    /// A `u32` a row.
    Four = 4,
    /// A `u64` a row.
    Eight = 8,
}

impl SeqWidth {
    /// The narrowest width for these ascending relative seqs.
    pub fn narrowest(seqs: &[u64]) -> SeqWidth {
        match seqs.last() {
            None => SeqWidth::Consecutive,
            // They ascend, so the last is the number of rows before it only if none is skipped.
            Some(&last) if last == seqs.len() as u64 - 1 => SeqWidth::Consecutive,
            Some(&last) if u32::try_from(last).is_ok() => SeqWidth::Four,
            Some(_) => SeqWidth::Eight,
        }
    }

    /// Checks the sizes that the table entry of a `Seqs` section gives.
    pub fn decode(aux: u64, length: u64, rows: u32) -> Result<SeqWidth, FormatError> {
        let width = match aux {
            0 => SeqWidth::Consecutive,
            4 => SeqWidth::Four,
            8 => SeqWidth::Eight,
            _ => return Err(FormatError::new(0, format!("a seq has 0, 4 or 8 bytes, not {aux}"))),
        };
        if u64::from(rows) * aux != length {
            return Err(FormatError::new(0, format!("{length} bytes do not hold {rows} seqs of {aux} bytes")));
        }
        Ok(width)
    }

    /// Appends one relative seq.
    pub fn encode(self, seqs: &[u64]) -> Vec<u8> {
        match self {
            SeqWidth::Consecutive => Vec::new(),
            SeqWidth::Four => seqs.iter().flat_map(|s| (*s as u32).to_le_bytes()).collect(),
            SeqWidth::Eight => seqs.iter().flat_map(|s| s.to_le_bytes()).collect(),
        }
    }

    /// Where the seq of `row` stands in the section.
    pub fn range(self, row: u32) -> Range<u64> {
        let width = self as u64;
        u64::from(row) * width..(u64::from(row) + 1) * width
    }

    /// Reads what stands there.
    pub fn value(self, row: u32, bytes: &[u8]) -> u64 {
        let mut word = [0; 8];
        match self {
            SeqWidth::Consecutive => return u64::from(row),
            SeqWidth::Four => word[..4].copy_from_slice(&bytes[..4]),
            SeqWidth::Eight => word.copy_from_slice(&bytes[..8]),
        }
        u64::from_le_bytes(word)
    }
}

/// Buckets of the `IdMap` for `rows` rows: the least power of two that is at most seven tenths full, and never full.
pub fn id_map_buckets(rows: u32) -> u64 {
    (u64::from(rows) * 10).div_ceil(7).max(1).next_power_of_two()
}

/// Checks the sizes that the table entry of an `IdMap` section gives and answers the number of buckets.
pub fn check_id_map(items: u64, buckets: u64, length: u64, rows: u32) -> Result<u64, FormatError> {
    if items != u64::from(rows) || buckets != id_map_buckets(rows) || length != buckets * 8 {
        let what = format!("{items} rows in {buckets} buckets of {length} bytes; {rows} rows need {} buckets", id_map_buckets(rows));
        return Err(FormatError::new(0, what));
    }
    Ok(buckets)
}

/// The bucket that the probing for an id of hash `hash` starts at.
pub fn first_bucket(hash: u64, buckets: u64) -> u64 {
    hash & (buckets - 1)
}

/// What the bucket of `row` holds. Never 0, which is an empty bucket.
pub fn bucket(hash: u64, row: u32) -> u64 {
    hash >> 32 << 32 | (u64::from(row) + 1)
}

/// The row in a bucket, when its upper half agrees with `hash`.
pub fn row_in_bucket(bucket: u64, hash: u64) -> Option<u32> {
    // A lower half of 0 in a bucket that is not 0 names no row; the caller's check against the number of rows refuses it.
    (bucket >> 32 == hash >> 32).then_some((bucket as u32).wrapping_sub(1))
}

/// Encodes the hash table over the ids of all rows, given by their hashes in the order of rows. Linear probing; rows are inserted in
/// ascending order, so equal ids are found in ascending order too.
pub fn encode_id_map(hashes: &[u64]) -> Vec<u8> {
    let buckets = id_map_buckets(u32::try_from(hashes.len()).expect("a segment has at most 2^31 rows"));
    let mut table = vec![0u64; usize::try_from(buckets).expect("the table fits in memory")];
    for (row, &hash) in hashes.iter().enumerate() {
        let mut at = first_bucket(hash, buckets) as usize;
        while table[at] != 0 {
            at = (at + 1) & (table.len() - 1);
        }
        table[at] = bucket(hash, row as u32);
    }
    table.iter().flat_map(|b| b.to_le_bytes()).collect()
}

//! Document bodies in LZ4 blocks, and the index over the blocks. Spec §10.1 and §10.2.
//!
//! A raw block of `n` rows is `n` little-endian `u32`, each the end of one body counted from the first body, and then the bodies. It is
//! stored as one LZ4 block without a frame, or as it is when that is not longer.

use super::error::FormatError;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Raw bytes after which a block is closed.
pub const BLOCK_RAW_TARGET: usize = 16 << 10;
/// The most raw bytes a block has: the target, and one largest document that came last.
pub const BLOCK_RAW_MAX: u32 = 72 << 20;
/// The most that one byte of an LZ4 block stands for.
const LZ4_RATIO_MAX: u64 = 255;

/// Spec §10.2: one block of the `Docs` section, in the order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DocIndexEntry {
    /// Where its stored bytes start in `Docs`.
    pub offset: U64,
    /// Its first row.
    pub first_row: U32,
    /// How many rows it holds, at least 1.
    pub rows: U32,
    /// Its bytes in `Docs`. Equal to `raw_length`: not compressed.
    pub stored_length: U32,
    /// Its bytes when decompressed.
    pub raw_length: U32,
}
const _: () = assert!(size_of::<DocIndexEntry>() == 24);

/// Bytes of a [`DocIndexEntry`].
pub const DOC_INDEX_ENTRY_BYTES: u64 = size_of::<DocIndexEntry>() as u64;

impl DocIndexEntry {
    /// Reads an entry and checks what it says against itself and the number of rows of the segment.
    pub fn decode(bytes: &[u8], segment_rows: u32) -> Result<DocIndexEntry, FormatError> {
        let e = DocIndexEntry::read_from_bytes(bytes).map_err(|_| FormatError::new(0, "an entry of the block index has 24 bytes"))?;
        let (first, rows) = (e.first_row.get(), e.rows.get());
        if rows == 0 || first.checked_add(rows).is_none_or(|end| end > segment_rows) {
            return Err(FormatError::new(8, format!("a block holds {rows} rows from {first} on; the segment has {segment_rows} rows")));
        }
        let (stored, raw) = (e.stored_length.get(), e.raw_length.get());
        if raw > BLOCK_RAW_MAX || u64::from(raw) < u64::from(rows) * 4 {
            return Err(FormatError::new(20, format!("a block of {rows} rows has {raw} raw bytes; at most {BLOCK_RAW_MAX} are allowed")));
        }
        if stored > raw || u64::from(stored) * LZ4_RATIO_MAX < u64::from(raw) {
            return Err(FormatError::new(16, format!("{stored} stored bytes cannot stand for {raw} raw bytes")));
        }
        Ok(e)
    }

    /// Whether `row` is in this block.
    pub fn contains(&self, row: u32) -> bool {
        row.checked_sub(self.first_row.get()).is_some_and(|i| i < self.rows.get())
    }
}

/// Gathers bodies into one raw block at a time and compresses it. Its buffers are reused from block to block.
pub struct BlockEncoder {
    ends: Vec<u8>,
    bodies: Vec<u8>,
    rows: u32,
    raw: Vec<u8>,
    stored: Vec<u8>,
    table: lz4_flex::block::CompressTable,
}

impl Default for BlockEncoder {
    fn default() -> BlockEncoder {
        BlockEncoder {
            ends: Vec::new(),
            bodies: Vec::new(),
            rows: 0,
            raw: Vec::new(),
            stored: Vec::new(),
            table: lz4_flex::block::CompressTable::small(),
        }
    }
}

impl std::fmt::Debug for BlockEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockEncoder").field("rows", &self.rows).field("bytes", &self.bodies.len()).finish_non_exhaustive()
    }
}

impl BlockEncoder {
    /// Rows in the open block.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Raw bytes of the open block.
    pub fn raw_length(&self) -> usize {
        self.ends.len() + self.bodies.len()
    }

    /// Adds a body.
    pub fn push(&mut self, body: &[u8]) {
        self.bodies.extend_from_slice(body);
        let end = u32::try_from(self.bodies.len()).expect("a block is closed long before 4 GiB");
        self.ends.extend_from_slice(&end.to_le_bytes());
        self.rows += 1;
    }

    /// Closes the block and answers its stored bytes and its raw length.
    pub fn finish(&mut self) -> (&[u8], usize) {
        self.raw.clear();
        self.raw.append(&mut self.ends);
        self.raw.append(&mut self.bodies);
        self.rows = 0;
        let bound = lz4_flex::block::get_maximum_output_size(self.raw.len());
        self.stored.resize(bound, 0);
        let compressed = if self.raw.len() < usize::from(u16::MAX) {
            lz4_flex::block::compress_into_with_table(&self.raw, &mut self.stored, &mut self.table)
        } else {
            lz4_flex::block::compress_into(&self.raw, &mut self.stored)
        };
        match compressed {
            Ok(length) if length < self.raw.len() => (&self.stored[..length], self.raw.len()),
            _ => (&self.raw, self.raw.len()),
        }
    }
}

/// One block, decompressed.
#[derive(Debug, Clone, Default)]
pub struct DocBlock {
    raw: Vec<u8>,
    first_row: u32,
    rows: u32,
}

impl DocBlock {
    /// Decompresses the `stored` bytes of a block that `entry` describes.
    pub fn decode(entry: &DocIndexEntry, stored: &[u8]) -> Result<DocBlock, FormatError> {
        let raw_length = entry.raw_length.get() as usize;
        // The room that is made was allowed for as many stored bytes as the entry says.
        if stored.len() as u64 != u64::from(entry.stored_length.get()) {
            return Err(FormatError::new(0, format!("{} bytes are here of a block that has {} stored", stored.len(), entry.stored_length)));
        }
        let raw = if entry.stored_length == entry.raw_length {
            stored.to_vec()
        } else {
            let mut raw = vec![0; raw_length];
            let length = lz4_flex::block::decompress_into(stored, &mut raw)
                .map_err(|e| FormatError::new(0, format!("a block of {} rows does not decompress: {e}", entry.rows)))?;
            raw.truncate(length);
            raw
        };
        if raw.len() != raw_length {
            return Err(FormatError::new(0, format!("a block decompresses to {} bytes, not {raw_length}", raw.len())));
        }
        Ok(DocBlock { raw, first_row: entry.first_row.get(), rows: entry.rows.get() })
    }

    /// Whether `row` is in this block.
    pub fn contains(&self, row: u32) -> bool {
        row.checked_sub(self.first_row).is_some_and(|i| i < self.rows)
    }

    /// The body of `row`, which is in this block.
    pub fn body(&self, row: u32) -> Result<&[u8], FormatError> {
        let i = row.checked_sub(self.first_row).filter(|i| *i < self.rows);
        let i =
            i.ok_or_else(|| FormatError::new(0, format!("row {row} is not in the block of {} rows from {}", self.rows, self.first_row)))?;
        let bodies = self.rows as usize * 4;
        let start = if i == 0 { 0 } else { self.end(i - 1) };
        let end = self.end(i);
        let inside = |at: u32| bodies + at as usize <= self.raw.len();
        if start > end || !inside(end) {
            let what = format!("the body of row {row} is {start}..{end} of the {} bytes of its block", self.raw.len() - bodies);
            return Err(FormatError::new(0, what));
        }
        Ok(&self.raw[bodies + start as usize..bodies + end as usize])
    }

    /// The `i`th end. `DocIndexEntry::decode` checked that the block is long enough for all of them.
    fn end(&self, i: u32) -> u32 {
        let at = i as usize * 4;
        let b = &self.raw[at..at + 4];
        u32::from_le_bytes([b[0], b[1], b[2], b[3]])
    }
}

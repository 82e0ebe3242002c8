//! Posting lists: rows and frequencies of one term, in bit-packed blocks of 128. Spec §11.3.
//!
//! A list of n postings holds n / 128 block headers, then the payload of each block, then the n % 128 postings that are left as varints.
//! A block is self-contained: its rows are deltas from its own first row, so that it can be moved to other rows by changing its header.
//! A term of a single posting has no list; its posting stands in its [`super::terms::TermInfoEntry`].

use super::error::FormatError;
use bitpacking::{BitPacker, BitPacker4x};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Postings of one block.
pub const BLOCK_POSTINGS: usize = 128;
const _: () = assert!(BLOCK_POSTINGS == BitPacker4x::BLOCK_LEN);

/// The layout of the `Postings` section that this version writes, in the section's `aux`.
pub const POSTINGS_LAYOUT: u64 = 1;

/// Bytes that a varint takes at most here: 35 bits hold a gap of 32 bits and a flag.
const VARINT_BYTES_MAX: usize = 5;

/// A term's occurrence in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    /// The row that holds the term.
    pub row: u32,
    /// How often it does; at least 1.
    pub frequency: u32,
}

/// Spec §11.3: the header of one block of a posting list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PostingBlock {
    /// The first row of the block.
    pub first_row: U32,
    /// The last row of the block.
    pub last_row: U32,
    /// Where the block's payload ends, counted from the first block's payload.
    pub end: U32,
    /// Bits of each row's delta.
    pub row_bits: u8,
    /// Bits of each frequency less 1.
    pub frequency_bits: u8,
    /// Zero.
    pub reserved: [u8; 2],
}
const _: () = assert!(size_of::<PostingBlock>() == 16);

/// The fewest bytes that a list of `count` postings can have. No list is longer than memory allows to count in a `u64`.
pub fn list_bytes_min(count: u32) -> u64 {
    let blocks = u64::from(count) / BLOCK_POSTINGS as u64;
    blocks * size_of::<PostingBlock>() as u64 + u64::from(count) % BLOCK_POSTINGS as u64
}

/// Encodes posting lists; keeps its buffers from one list to the next.
#[derive(Debug, Default)]
pub struct PostingEncoder {
    payload: Vec<u8>,
}

impl PostingEncoder {
    /// Appends the list of `postings`, whose rows ascend strictly and whose frequencies are at least 1, to `out`.
    pub fn encode(&mut self, postings: &[Posting], out: &mut Vec<u8>) {
        self.payload.clear();
        let (blocks, tail) = postings.as_chunks::<BLOCK_POSTINGS>();
        for block in blocks {
            let header = self.encode_block(block);
            out.extend_from_slice(header.as_bytes());
        }
        out.extend_from_slice(&self.payload);
        let mut next = blocks.last().map_or(0, |b| b[BLOCK_POSTINGS - 1].row + 1);
        for p in tail {
            let gap = u64::from(p.row - next);
            if p.frequency == 1 {
                put_varint(out, gap << 1 | 1);
            } else {
                put_varint(out, gap << 1);
                put_varint(out, u64::from(p.frequency - 2));
            }
            // A row is below 2^31, so that the row after it is a u32 too.
            next = p.row + 1;
        }
    }

    fn encode_block(&mut self, block: &[Posting; BLOCK_POSTINGS]) -> PostingBlock {
        let packer = BitPacker4x::new();
        let rows = block.map(|p| p.row);
        let frequencies = block.map(|p| p.frequency - 1);
        let before = rows[0].checked_sub(1);
        let row_bits = packer.num_bits_strictly_sorted(before, &rows);
        let frequency_bits = packer.num_bits(&frequencies);
        let at = self.payload.len();
        let split = at + packed_bytes(row_bits);
        self.payload.resize(split + packed_bytes(frequency_bits), 0);
        packer.compress_strictly_sorted(before, &rows, &mut self.payload[at..split], row_bits);
        packer.compress(&frequencies, &mut self.payload[split..], frequency_bits);
        PostingBlock {
            first_row: U32::new(rows[0]),
            last_row: U32::new(rows[BLOCK_POSTINGS - 1]),
            // Lists over 4 GiB are refused by their writer, which sees the length of the whole.
            end: U32::new(self.payload.len() as u32),
            row_bits,
            frequency_bits,
            reserved: [0; 2],
        }
    }
}

/// Bytes of 128 integers of `bits` bits.
fn packed_bytes(bits: u8) -> usize {
    usize::from(bits) * BLOCK_POSTINGS / 8
}

/// Appends the `count` postings of the list `bytes` to `out`. Every row is below `rows`; on an error `out` is as before.
pub fn decode_list(bytes: &[u8], count: u32, rows: u32, out: &mut Vec<Posting>) -> Result<(), FormatError> {
    let before = out.len();
    let result = decode_into(bytes, count, rows, out);
    if result.is_err() {
        out.truncate(before);
    }
    result
}

fn decode_into(bytes: &[u8], count: u32, rows: u32, out: &mut Vec<Posting>) -> Result<(), FormatError> {
    if count > rows || list_bytes_min(count) > bytes.len() as u64 {
        return Err(FormatError::new(0, format!("{count} postings of {rows} rows do not fit a list of {} bytes", bytes.len())));
    }
    let blocks = count as usize / BLOCK_POSTINGS;
    let (headers, _) = <[PostingBlock]>::ref_from_prefix_with_elems(bytes, blocks)
        .map_err(|_| FormatError::new(0, format!("{blocks} block headers do not fit a list of {} bytes", bytes.len())))?;
    let payload = size_of_val(headers);
    out.reserve(count as usize);
    let mut next = 0;
    let mut from = 0;
    for (i, header) in headers.iter().enumerate() {
        let at = i * size_of::<PostingBlock>();
        let length = check_header(header, next, from).map_err(|what| FormatError::new(at, format!("block {i}: {what}")))?;
        let packed = bytes.get(payload + from..payload + from + length).ok_or_else(|| {
            FormatError::new(at, format!("block {i} ends at byte {}, its list has {}", payload + from + length, bytes.len()))
        })?;
        decode_block(header, packed, out).map_err(|what| FormatError::new(payload + from, format!("block {i}: {what}")))?;
        next = u64::from(header.last_row.get()) + 1;
        from += length;
    }
    if next > u64::from(rows) {
        return Err(FormatError::new(0, format!("row {} is named in a segment of {rows} rows", next - 1)));
    }
    decode_tail(bytes, payload + from, count as usize % BLOCK_POSTINGS, next, rows, out)
}

/// Checks a block's header against the row after the block before and the end of that block's payload. Gives the bytes of its payload.
fn check_header(header: &PostingBlock, next: u64, from: usize) -> Result<usize, String> {
    let PostingBlock { first_row, last_row, end, row_bits, frequency_bits, reserved } = header;
    if *row_bits > 32 || *frequency_bits > 32 || *reserved != [0; 2] {
        return Err(format!("packs rows in {row_bits} and frequencies in {frequency_bits} bits; at most 32 exist"));
    }
    if u64::from(first_row.get()) < next || last_row.get() < first_row.get() {
        return Err(format!("spans the rows {first_row} to {last_row} behind row {next}: rows ascend"));
    }
    let length = packed_bytes(*row_bits) + packed_bytes(*frequency_bits);
    if end.get() as usize != from + length {
        return Err(format!("ends at byte {end} of the payload, expected {}", from + length));
    }
    Ok(length)
}

/// Unpacks one block whose header was checked and whose payload has the right length.
fn decode_block(header: &PostingBlock, packed: &[u8], out: &mut Vec<Posting>) -> Result<(), String> {
    let packer = BitPacker4x::new();
    let mut rows = [0u32; BLOCK_POSTINGS];
    let mut frequencies = [0u32; BLOCK_POSTINGS];
    let (packed_rows, packed_frequencies) = packed.split_at(packed_bytes(header.row_bits));
    packer.decompress_strictly_sorted(header.first_row.get().checked_sub(1), packed_rows, &mut rows, header.row_bits);
    packer.decompress(packed_frequencies, &mut frequencies, header.frequency_bits);
    // Deltas from damaged bits wrap around, so that the order is checked, not assumed.
    let ascending = rows.windows(2).fold(true, |ok, w| ok & (w[0] < w[1]));
    if !ascending || rows[0] != header.first_row.get() || rows[BLOCK_POSTINGS - 1] != header.last_row.get() {
        return Err(format!("its rows do not ascend from {} to {}", header.first_row, header.last_row));
    }
    if header.frequency_bits == 32 && frequencies.contains(&u32::MAX) {
        return Err("a frequency exceeds 32 bits".into());
    }
    out.extend(rows.iter().zip(&frequencies).map(|(&row, &f)| Posting { row, frequency: f + 1 }));
    Ok(())
}

/// Reads the varints behind the last block, which must end where the list ends.
fn decode_tail(bytes: &[u8], mut at: usize, count: usize, mut next: u64, rows: u32, out: &mut Vec<Posting>) -> Result<(), FormatError> {
    for _ in 0..count {
        let start = at;
        let gap = get_varint(bytes, &mut at)?;
        let frequency = if gap & 1 == 1 { 1 } else { get_varint(bytes, &mut at)? + 2 };
        let row = next + (gap >> 1);
        if row >= u64::from(rows) || frequency > u64::from(u32::MAX) {
            return Err(FormatError::new(start, format!("row {row} with frequency {frequency} in a segment of {rows} rows")));
        }
        out.push(Posting { row: row as u32, frequency: frequency as u32 });
        next = row + 1;
    }
    if at != bytes.len() {
        return Err(FormatError::new(at, format!("the list ends here, but {} bytes were named", bytes.len())));
    }
    Ok(())
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads one varint of at most 35 bits, written in as few bytes as its value needs.
fn get_varint(bytes: &[u8], at: &mut usize) -> Result<u64, FormatError> {
    let start = *at;
    let mut value = 0;
    for i in 0..VARINT_BYTES_MAX {
        let Some(&byte) = bytes.get(start + i) else {
            return Err(FormatError::new(start, "a varint goes on behind the end of its list"));
        };
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            if byte == 0 && i > 0 {
                return Err(FormatError::new(start, "a varint has more bytes than its value needs"));
            }
            *at = start + i + 1;
            return Ok(value);
        }
    }
    Err(FormatError::new(start, format!("a varint has more than {VARINT_BYTES_MAX} bytes")))
}

#[cfg(test)]
#[path = "postings_tests.rs"]
mod tests;

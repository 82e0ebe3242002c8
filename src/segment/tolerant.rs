//! Opens a segment whose frame may be damaged, for saving what is left of it.
//!
//! The footer's checksum, which the manifest repeats, covers the checksum of the section table. So a table and even a footer that were
//! damaged can be found again and proved: of the fields of a footer all but one follow from the table's copy, and the checksum says which
//! value the last one had. Nothing is believed that no checksum vouches for.

use super::reader::{SegmentReader, Source, read_table};
use crate::error::{Error, Result};
use crate::format::checksum::crc32;
use crate::format::segment::{BLOCK_BYTES, FOOTER_MAGIC, SECTIONS_MAX, SegmentFooter, SegmentHeader, decode_table};
use crate::io::File;
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

const FRAME_BYTES: u64 = 64;

impl SegmentReader {
    /// Opens the segment at `offset`, by system calls, though its header, its footer or one of its section tables may be damaged. Blocks are
    /// checked when they are read, as ever; a damaged array of block checksums takes those blocks with it that it does not fit.
    ///
    /// # Errors
    /// `Corrupt` when no section table can be proved to be the one that was written.
    pub(crate) fn open_damaged(handle: Arc<dyn File>, file: &str, offset: u64, length: u64, crc: u32) -> Result<SegmentReader> {
        let file_length = handle.len().map_err(|e| Error::io(format!("reading the length of {file}"), e))?;
        if length < 2 * FRAME_BYTES || offset.checked_add(length).is_none_or(|end| end > file_length) {
            return Err(Error::corrupt(file, offset, format!("a segment of {length} bytes is named here, but the file has {file_length}")));
        }
        let source = Source::Pread(handle);
        let read = |at: u64, len: u64| source.read(file, offset, at, len);
        let stored = SegmentFooter::decode(&read(length - FRAME_BYTES, FRAME_BYTES)?).ok().filter(|footer| footer.crc.get() == crc);
        let footer = match stored {
            Some(footer) => footer,
            None => {
                let header_crc = SegmentHeader::decode(&read(0, FRAME_BYTES)?).map_err(|e| e.in_file(file, offset))?.crc;
                let from = (length - FRAME_BYTES).saturating_sub(SECTIONS_MAX as u64 * 64).max(FRAME_BYTES);
                let tail = read(from, length - FRAME_BYTES - from)?;
                found_again(&tail, length, header_crc, crc)
                    .ok_or_else(|| Error::corrupt(file, offset + length - FRAME_BYTES, "the footer of the segment and its section table"))?
            }
        };
        let sections = read_table(&footer, length, file, offset, read)?;
        Ok(SegmentReader::of(source, file, offset, sections, true))
    }
}

/// The footer with this checksum, made from the copy of the section table that ends `tail`, which ends where the footer begins.
fn found_again(tail: &[u8], length: u64, header_crc: U32, crc: u32) -> Option<SegmentFooter> {
    for sections in 1..=tail.len() / 64 {
        let table = &tail[tail.len() - 64 * sections..];
        let table_crc = crc32(table);
        if decode_table(table, table_crc, length).is_err() {
            continue;
        }
        let copy = length - FRAME_BYTES - table.len() as u64;
        // The table ends where its copy starts, or up to a block before.
        for gap in 0..=BLOCK_BYTES as u64 / 64 {
            let Some(table_offset) = copy.checked_sub(table.len() as u64 + gap * 64) else { break };
            let footer = SegmentFooter {
                magic: FOOTER_MAGIC,
                length: U64::new(length),
                table_offset: U64::new(table_offset),
                table_copy_offset: U64::new(copy),
                sections: U32::new(sections as u32),
                table_crc: U32::new(table_crc),
                header_crc,
                reserved: [0; 16],
                crc: U32::new(0),
            }
            .sealed();
            if footer.crc.get() == crc {
                return Some(footer);
            }
        }
    }
    None
}

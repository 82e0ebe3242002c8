//! Opens a segment whose frame may be damaged, for saving what is left of it.
//!
//! The footer's checksum, which the manifest repeats, covers the checksum of the section table. So a table and even a footer that were
//! damaged can be found again and proved: of the fields of a footer all but one follow from the table's copy, and the checksum says which
//! value the last one had. Nothing is believed that no checksum vouches for. What a file was cut by reads as zeros, which no checksum of a
//! block that held anything vouches for.

use super::reader::{SegmentReader, Source, read_table};
use crate::error::{Error, Result};
use crate::format::checksum::crc32;
use crate::format::segment::{BLOCK_BYTES, FOOTER_MAGIC, SECTIONS_MAX, SegmentFooter, SegmentHeader, decode_table};
use crate::io::{Bytes, File};
use std::io;
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

const FRAME_BYTES: u64 = 64;

impl SegmentReader {
    /// Opens the segment at `offset`, by system calls, though its header, its footer or one of its section tables may be damaged. Blocks are
    /// checked when they are read, as ever; a damaged array of block checksums takes those blocks with it that it does not fit.
    ///
    /// # Errors
    /// `Corrupt` when no section table can be proved to be the one that was written; `UnsupportedVersion` when an intact header says that a newer
    /// version wrote it: what its footer and sections mean is not known then.
    pub(crate) fn open_damaged(handle: Arc<dyn File>, file: &str, offset: u64, length: u64, crc: u32) -> Result<SegmentReader> {
        let file_length = handle.len().map_err(|e| Error::io(format!("reading the length of {file}"), e))?;
        let short = || Error::corrupt(file, offset, format!("a segment of {length} bytes is named here, but the file has {file_length}"));
        let Some(end) = offset.checked_add(length).filter(|_| length >= 2 * FRAME_BYTES && offset + FRAME_BYTES <= file_length) else {
            return Err(short());
        };
        let source = if end > file_length {
            // The tables end a segment. Without either there is nothing to go by, and what is named may be longer than any memory.
            let tables = 2 * SECTIONS_MAX as u64 * 64 + BLOCK_BYTES as u64 + FRAME_BYTES;
            if end - file_length > tables {
                return Err(short());
            }
            Source::Pread(Arc::new(Cut { file: handle, len: file_length }))
        } else {
            Source::Pread(handle)
        };
        let read = |at: u64, len: u64| source.read(file, offset, at, len);
        let header = read(0, FRAME_BYTES).and_then(|bytes| SegmentHeader::decode(&bytes).map_err(|e| e.in_file(file, offset)));
        if let Err(Error::UnsupportedVersion(what)) = header {
            return Err(Error::UnsupportedVersion(what));
        }
        let stored = SegmentFooter::decode(&read(length - FRAME_BYTES, FRAME_BYTES)?).ok().filter(|footer| footer.crc.get() == crc);
        let footer = match stored {
            Some(footer) => footer,
            None => {
                let header_crc = header?.crc;
                let from = (length - FRAME_BYTES).saturating_sub(2 * SECTIONS_MAX as u64 * 64 + BLOCK_BYTES as u64).max(FRAME_BYTES);
                let tail = read(from, length - FRAME_BYTES - from)?;
                found_again(&tail, length, header_crc, crc)
                    .ok_or_else(|| Error::corrupt(file, offset + length - FRAME_BYTES, "the footer of the segment and its section table"))?
            }
        };
        let sections = read_table(&footer, length, file, offset, read)?;
        Ok(SegmentReader::of(source, file, offset, sections, true))
    }
}

/// The footer with this checksum, made from the section table or from its copy. Both stand in `tail`, which ends where the footer begins.
fn found_again(tail: &[u8], length: u64, header_crc: U32, crc: u32) -> Option<SegmentFooter> {
    let tail_start = length - FRAME_BYTES - tail.len() as u64;
    for sections in 1..=SECTIONS_MAX {
        let bytes = sections * 64;
        let Some(copy) = tail.len().checked_sub(bytes) else { break };
        // The table ends where its copy starts, or up to a block before.
        for table in (0..=BLOCK_BYTES / 64).map_while(|gap| copy.checked_sub(bytes + gap * 64)) {
            for one in [&tail[copy..], &tail[table..table + bytes]] {
                let table_crc = crc32(one);
                if decode_table(one, table_crc, length).is_err() {
                    continue;
                }
                let footer = SegmentFooter {
                    magic: FOOTER_MAGIC,
                    length: U64::new(length),
                    table_offset: U64::new(tail_start + table as u64),
                    table_copy_offset: U64::new(tail_start + copy as u64),
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
    }
    None
}

/// A file that was cut: behind its end stand zeros.
#[derive(Debug)]
struct Cut {
    file: Arc<dyn File>,
    /// Where it ends.
    len: u64,
}

impl File for Cut {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let there = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (read, beyond) = buf.split_at_mut(there);
        beyond.fill(0);
        if read.is_empty() { Ok(()) } else { self.file.read_exact_at(offset, read) }
    }

    fn write_all_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn map(&self, _: u64) -> io::Result<Bytes> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

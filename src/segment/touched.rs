//! Bytes of a section for parsers that say what they are about to look at: each block is checked the first time that it is touched.

use super::reader::Section;
use crate::error::{Error, Result};
use crate::format::error::FormatError;
use crate::format::segment::BLOCK_BYTES;
use crate::format::transducer::TransducerBytes;
use crate::io::Bytes;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes from the start of a section.
#[derive(Debug)]
pub struct TouchedBytes {
    section: Section,
    bytes: Bytes,
    /// One bit per block that was checked; none when all are. The section has such bits, too: these are at hand where a walk takes a few
    /// nanoseconds a step.
    seen: Option<Box<[AtomicU64]>>,
}

impl TouchedBytes {
    /// The first bytes of a section; `whole` says that they are checked.
    pub(super) fn new(section: Section, bytes: Bytes, whole: bool) -> TouchedBytes {
        let words = bytes.len().div_ceil(BLOCK_BYTES).div_ceil(64);
        let seen = (!whole).then(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        TouchedBytes { section, bytes, seen }
    }

    #[cold]
    #[inline(never)]
    fn check_blocks(&self, seen: &[AtomicU64], range: Range<usize>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let blocks = range.start / BLOCK_BYTES..=(range.end - 1) / BLOCK_BYTES;
        self.section.check_blocks(range)?;
        for block in blocks {
            seen[block / 64].fetch_or(1 << (block % 64), Ordering::Release);
        }
        Ok(())
    }
}

impl TransducerBytes for TouchedBytes {
    type Error = Error;

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    fn check(&self, range: Range<usize>) -> Result<()> {
        let Some(seen) = &self.seen else { return Ok(()) };
        let (first, last) = (range.start / BLOCK_BYTES, range.end.wrapping_sub(1) / BLOCK_BYTES);
        if first == last && seen[first / 64].load(Ordering::Acquire) >> (first % 64) & 1 == 1 {
            return Ok(());
        }
        self.check_blocks(seen, range)
    }

    #[cold]
    fn damage(&self, found: FormatError) -> Error {
        self.section.corrupt(found.offset, found.what)
    }
}

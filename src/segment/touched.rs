//! The first bytes of a region as an fst takes them: each block is checked the first time that a walk touches it.

use super::region::Region;
use crate::error::{Error, Result};
use crate::format::error::FormatError;
use crate::format::transducer::TransducerBytes;
use std::ops::Range;

/// Bytes from the start of a section.
#[derive(Debug, Clone)]
pub struct TouchedBytes {
    region: Region,
    length: usize,
}

impl TouchedBytes {
    /// The first `length` bytes of a region, or `Corrupt` when it has fewer.
    pub(super) fn open(region: Region, length: u64) -> Result<TouchedBytes> {
        match usize::try_from(length) {
            Ok(length) if length <= region.bytes().len() => Ok(TouchedBytes { region, length }),
            _ => Err(region.section().corrupt(0, format!("its first part has {length} bytes, the section {}", region.bytes().len()))),
        }
    }
}

impl TransducerBytes for TouchedBytes {
    type Error = Error;

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.region.bytes()[..self.length]
    }

    #[inline]
    fn check(&self, range: Range<usize>) -> Result<()> {
        if range.is_empty() { Ok(()) } else { self.region.admit(range.start, range.end) }
    }

    #[cold]
    fn damage(&self, found: FormatError) -> Error {
        self.region.section().corrupt(found.offset, found.what)
    }
}

//! A section that is touched here and there, very often: what a walk through a vector graph does.
//!
//! [`Section::read`] checks a range and hands it out, one call a range. A kernel that compares a query with a dozen rows wants all bytes of the
//! section at once. A [`Region`] has them, and [`Region::admit`] checks the blocks of a range before they are looked at: two loads and a
//! comparison once they were.

use super::reader::Section;
use crate::error::Result;
use crate::format::segment::BLOCK_BYTES;
use crate::io::{Bytes, Usage};
use crate::io::mmap::anonymous_copy;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All bytes of a section, in place where it is mapped, in memory where it is not.
#[derive(Debug, Clone)]
pub struct Region {
    section: Section,
    bytes: Bytes,
    /// One bit per block that was checked; `None` when all were.
    verified: Option<Arc<[AtomicU64]>>,
}

impl Region {
    /// The section in place. Where it is read by system calls it is read whole, and checked, once.
    pub fn open(section: Section) -> Result<Region> {
        Ok(match section.mapped_parts() {
            Some((bytes, verified)) => Region { section, bytes, verified: Some(verified) },
            None => Region { bytes: section.whole_bytes()?, section, verified: None },
        })
    }

    /// A copy in memory of its own, checked whole, which no other use of memory can push out to the disk's cache. O(bytes).
    pub fn pinned(&self) -> Result<Region> {
        let bytes = anonymous_copy(self.section.whole()?);
        let bytes = bytes.map_err(|e| crate::error::Error::io(format!("taking {} bytes of memory to pin a section", self.section.len()), e))?;
        Ok(Region { section: self.section.clone(), bytes, verified: None })
    }

    /// The same region with other bytes: those of the section in another form, made after all of it was checked.
    pub fn replaced(&self, bytes: Bytes) -> Region {
        Region { section: self.section.clone(), bytes, verified: None }
    }

    /// The section.
    pub fn section(&self) -> &Section {
        &self.section
    }

    /// Its bytes. Only those that [`Region::admit`] was asked about are checked.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Tells the operating system how the bytes will be used.
    pub fn advise(&self, usage: Usage) {
        self.bytes.advise(usage);
    }

    /// Whether the bytes lie in memory of their own.
    pub fn is_pinned(&self) -> bool {
        self.verified.is_none()
    }

    /// Checks the bytes from `from` to before `to`, unless they were. Neither may lie outside.
    #[inline]
    pub fn admit(&self, from: usize, to: usize) -> Result<()> {
        if from >= to || to > self.bytes.len() {
            return Err(self.section.corrupt(from as u64, format!("bytes {from} to {to} lie outside a section of {}", self.bytes.len())));
        }
        let Some(verified) = &self.verified else { return Ok(()) };
        let (first, last) = (from / BLOCK_BYTES, (to - 1) / BLOCK_BYTES);
        let mut known = is_set(verified, first) && is_set(verified, last);
        for block in first + 1..last {
            known &= is_set(verified, block);
        }
        if known { Ok(()) } else { self.section.check_mapped(from, to) }
    }

    /// Checks rows of `stride` bytes, which start at multiples of it after `start`. A row may not lie outside.
    #[inline]
    pub fn admit_rows(&self, rows: &[u32], start: usize, stride: usize) -> Result<()> {
        // A row in at most two blocks is known when both its ends are. All are looked at without a branch on the way.
        let known = |verified: &[AtomicU64]| {
            rows.iter().fold(true, |known, &row| {
                let from = start + row as usize * stride;
                known & is_set(verified, from / BLOCK_BYTES) & is_set(verified, (from + stride - 1) / BLOCK_BYTES)
            })
        };
        let verified = self.verified.as_deref();
        let inside = rows.iter().fold(true, |inside, &row| inside & (start + (row as usize + 1) * stride <= self.bytes.len()));
        if inside && stride <= BLOCK_BYTES && verified.is_none_or(known) {
            return Ok(());
        }
        rows.iter().try_for_each(|&row| self.admit(start + row as usize * stride, start + (row as usize + 1) * stride))
    }
}

/// Whether a bit is set, of a block that was checked say; not one beyond the last.
#[inline]
pub(crate) fn is_set(bits: &[AtomicU64], at: usize) -> bool {
    bits.get(at / 64).is_some_and(|word| word.load(Ordering::Acquire) >> (at % 64) & 1 != 0)
}

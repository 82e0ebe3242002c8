//! Reads one segment: the frame is checked at open, a block when it is first touched.

use super::region::Region;
use super::touched::TouchedBytes;
use crate::error::{Error, Result};
use crate::format::checksum::crc32;
use crate::format::sabotage::skips_checksum;
use crate::format::segment::{BLOCK_BYTES, SECTIONS_MAX, SectionEntry, SectionKind, SegmentFooter, SegmentHeader, decode_table};
use crate::ids::Uuid;
use crate::io::{Bytes, File};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// One segment, open for reading. Cheap to clone; `Send + Sync`.
#[derive(Debug, Clone)]
pub struct SegmentReader {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Source,
    file: String,
    start: u64,
    sections: Vec<SectionState>,
    /// Whether block checksums whose own checksum fails are compared block by block; see `tolerant.rs`.
    tolerant: bool,
}

/// Where the bytes of a segment come from.
#[derive(Debug)]
pub(super) enum Source {
    /// Mapped: a block is checked once.
    Mapped(Bytes),
    /// Read by system calls: every read is checked.
    Pread(Arc<dyn File>),
}

#[derive(Debug)]
struct SectionState {
    entry: SectionEntry,
    /// Loaded and checked at first use.
    crcs: OnceLock<Vec<u32>>,
    /// One bit per block that was checked. A set bit is released after its block was read and compared.
    verified: OnceLock<Arc<[AtomicU64]>>,
    /// The whole section, in `Pread` mode, once someone asked for all of it.
    whole: OnceLock<Bytes>,
}

impl SegmentReader {
    /// Opens the segment at `offset` of a mapped file. `length` and `crc` are what the manifest says of it.
    pub fn open_mapped(file_bytes: &Bytes, file: &str, database: Uuid, offset: u64, length: u64, crc: u32) -> Result<SegmentReader> {
        let bytes = file_bytes.slice(offset, length).ok_or_else(|| {
            Error::corrupt(file, offset, format!("a segment of {length} bytes is named here, but the file has {}", file_bytes.len()))
        })?;
        Self::open(Source::Mapped(bytes), file, database, offset, length, crc)
    }

    /// Opens the segment at `offset` of a file that is read by system calls.
    pub fn open_pread(handle: Arc<dyn File>, file: &str, database: Uuid, offset: u64, length: u64, crc: u32) -> Result<SegmentReader> {
        let file_length = handle.len().map_err(|e| Error::io(format!("reading the length of {file}"), e))?;
        if offset.checked_add(length).is_none_or(|end| end > file_length) {
            return Err(Error::corrupt(file, offset, format!("a segment of {length} bytes is named here, but the file has {file_length}")));
        }
        Self::open(Source::Pread(handle), file, database, offset, length, crc)
    }

    fn open(source: Source, file: &str, database: Uuid, start: u64, length: u64, crc: u32) -> Result<SegmentReader> {
        let read = |at: u64, len: u64| source.read(file, start, at, len);
        if length < 128 {
            return Err(Error::corrupt(file, start, format!("a segment has at least 128 bytes, not {length}")));
        }
        let header = SegmentHeader::decode(&read(0, 64)?).map_err(|e| e.in_file(file, start))?;
        let footer = SegmentFooter::decode(&read(length - 64, 64)?).map_err(|e| e.in_file(file, start + length - 64))?;
        let differs = |what: &str, expected: &dyn std::fmt::Display, found: &dyn std::fmt::Display| {
            Err(Error::corrupt(
                file,
                start,
                format!("{what} of this segment is {found}, expected {expected}: another file stands in its place"),
            ))
        };
        if header.database != database.0 {
            return differs("the database", &database, &Uuid(header.database));
        }
        if footer.crc.get() != crc && !skips_checksum("segment in the manifest") {
            return differs("the checksum", &format!("{crc:#010x}"), &format!("{:#010x}", footer.crc.get()));
        }
        if footer.length.get() != length || footer.header_crc != header.crc {
            return differs("the length", &length, &footer.length.get());
        }
        let sections = read_table(&footer, length, file, start, read)?;
        Ok(SegmentReader::of(source, file, start, sections, false))
    }

    /// A reader of sections whose table was checked.
    pub(super) fn of(source: Source, file: &str, start: u64, sections: Vec<SectionEntry>, tolerant: bool) -> SegmentReader {
        let sections = sections
            .into_iter()
            .map(|entry| SectionState { entry, crcs: OnceLock::new(), verified: OnceLock::new(), whole: OnceLock::new() })
            .collect();
        SegmentReader { inner: Arc::new(Inner { source, file: file.to_string(), start, sections, tolerant }) }
    }

    /// The section of `kind`, if the segment has one.
    pub fn section(&self, kind: SectionKind) -> Option<Section> {
        let index = self.inner.sections.iter().position(|s| s.entry.kind.get() == kind as u16)?;
        Some(Section { inner: self.inner.clone(), index })
    }

    /// The section of `kind`, which every segment of this kind must have.
    pub fn require(&self, kind: SectionKind) -> Result<Section> {
        self.section(kind)
            .ok_or_else(|| Error::corrupt(&self.inner.file, self.inner.start, format!("the segment has no {} section", kind.name())))
    }

    /// Every section with its flags, in file order, those of a kind that this version does not know too.
    pub fn sections(&self) -> impl Iterator<Item = (Section, u16)> + '_ {
        let section = |(index, state): (usize, &SectionState)| (Section { inner: self.inner.clone(), index }, state.entry.flags.get());
        self.inner.sections.iter().enumerate().map(section)
    }

    /// The section table, in file order.
    pub fn entries(&self) -> impl Iterator<Item = &SectionEntry> {
        self.inner.sections.iter().map(|s| &s.entry)
    }

    /// The file it lies in.
    pub fn file(&self) -> &str {
        &self.inner.file
    }

    /// Where it starts in that file.
    pub fn start(&self) -> u64 {
        self.inner.start
    }
}

/// Reads the section table, or its copy when the first fails its checksum.
pub(super) fn read_table<'a>(
    footer: &SegmentFooter,
    length: u64,
    file: &str,
    start: u64,
    read: impl Fn(u64, u64) -> Result<Cow<'a, [u8]>>,
) -> Result<Vec<SectionEntry>> {
    let count = footer.sections.get() as usize;
    if count > SECTIONS_MAX {
        return Err(Error::corrupt(file, start + length - 32, format!("a segment has at most {SECTIONS_MAX} sections, not {count}")));
    }
    let bytes = count as u64 * 64;
    let at = |offset: u64| -> Result<Vec<SectionEntry>> {
        if offset.checked_add(bytes).is_none_or(|end| end > length) {
            return Err(Error::corrupt(file, start + length - 64, format!("the section table at {offset} lies outside the segment")));
        }
        decode_table(&read(offset, bytes)?, footer.table_crc.get(), length).map_err(|e| e.in_file(file, start + offset))
    };
    match at(footer.table_offset.get()) {
        Err(Error::Corrupt(_)) => at(footer.table_copy_offset.get()),
        other => other,
    }
}

impl Source {
    /// Bytes of the segment, unchecked.
    pub(super) fn read(&self, file: &str, start: u64, at: u64, len: u64) -> Result<Cow<'_, [u8]>> {
        match self {
            Source::Mapped(bytes) => Ok(Cow::Borrowed(&bytes[at as usize..(at + len) as usize])),
            Source::Pread(handle) => {
                let mut buf = vec![0; usize::try_from(len).map_err(|_| Error::corrupt(file, start, "a read longer than memory"))?];
                handle.read_exact_at(start + at, &mut buf).map_err(|e| Error::io(format!("reading {file} at byte {}", start + at), e))?;
                Ok(Cow::Owned(buf))
            }
        }
    }
}

/// One section of an open segment. Every read is checked against the section's block checksums before anyone sees it.
#[derive(Debug, Clone)]
pub struct Section {
    inner: Arc<Inner>,
    index: usize,
}

impl Section {
    fn state(&self) -> &SectionState {
        &self.inner.sections[self.index]
    }

    /// Its bytes.
    #[allow(clippy::len_without_is_empty, reason = "a section's length, not a container's size")]
    pub fn len(&self) -> u64 {
        self.state().entry.length.get()
    }

    /// The number of things in it, as its table entry says.
    pub fn items(&self) -> u64 {
        self.state().entry.items.get()
    }

    /// The second number of its table entry.
    pub fn aux(&self) -> u64 {
        self.state().entry.aux.get()
    }

    /// Damage at byte `at` of this section.
    pub fn corrupt(&self, at: u64, what: impl Into<String>) -> Error {
        let kind = SectionKind::from_number(self.state().entry.kind.get()).map_or("unknown", SectionKind::name);
        Error::corrupt(&self.inner.file, self.inner.start + self.state().entry.offset.get() + at, format!("{kind}: {}", what.into()))
    }

    /// The bytes of `range`, checked.
    pub fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        if range.start > range.end || range.end > self.len() {
            return Err(self.corrupt(range.start.min(self.len()), format!("bytes {range:?} lie outside a section of {}", self.len())));
        }
        if range.is_empty() {
            return Ok(Cow::Borrowed(&[]));
        }
        if let Some(whole) = self.state().whole.get() {
            return Ok(Cow::Borrowed(&whole[range.start as usize..range.end as usize]));
        }
        let first = range.start / BLOCK_BYTES as u64;
        let last = (range.end - 1) / BLOCK_BYTES as u64;
        match &self.inner.source {
            Source::Mapped(bytes) => {
                self.verify_mapped(bytes, first as usize, last as usize)?;
                let at = self.state().entry.offset.get();
                Ok(Cow::Borrowed(&bytes[(at + range.start) as usize..(at + range.end) as usize]))
            }
            Source::Pread(_) => {
                let from = first * BLOCK_BYTES as u64;
                let to = ((last + 1) * BLOCK_BYTES as u64).min(self.len());
                let blocks =
                    self.inner.source.read(&self.inner.file, self.inner.start, self.state().entry.offset.get() + from, to - from)?;
                for (i, block) in blocks.chunks(BLOCK_BYTES).enumerate() {
                    self.check_block(first as usize + i, block)?;
                }
                Ok(Cow::Owned(blocks[(range.start - from) as usize..(range.end - from) as usize].to_vec()))
            }
        }
    }

    /// The bytes of `range` where they are mapped, unchecked: nothing may be made of them, they can only be asked for ahead of reading.
    #[inline]
    pub fn ahead(&self, range: Range<u64>) -> &[u8] {
        let Source::Mapped(bytes) = &self.inner.source else { return &[] };
        let at = self.state().entry.offset.get();
        bytes.get((at + range.start) as usize..(at + range.end) as usize).unwrap_or(&[])
    }

    /// The whole section, checked. In `Pread` mode it is read into memory once.
    pub fn whole(&self) -> Result<&[u8]> {
        match &self.inner.source {
            Source::Mapped(bytes) => {
                if self.len() > 0 {
                    self.verify_mapped(bytes, 0, ((self.len() - 1) / BLOCK_BYTES as u64) as usize)?;
                }
                let at = self.state().entry.offset.get() as usize;
                Ok(&bytes[at..at + self.len() as usize])
            }
            Source::Pread(_) => {
                if self.state().whole.get().is_none() {
                    let bytes = self.read(0..self.len())?.into_owned();
                    let _ = self.state().whole.set(Bytes::new(bytes));
                }
                Ok(self.state().whole.get().expect("was set above"))
            }
        }
    }

    /// The whole section as bytes that outlive this handle.
    pub fn whole_bytes(&self) -> Result<Bytes> {
        self.whole()?;
        match &self.inner.source {
            Source::Mapped(bytes) => Ok(bytes.slice(self.state().entry.offset.get(), self.len()).expect("checked at open")),
            Source::Pread(_) => Ok(self.state().whole.get().expect("whole() set it").clone()),
        }
    }

    /// The first `length` bytes, each block checked when it is touched. In `Pread` mode the whole section is read into memory, and checked,
    /// here.
    pub fn touched(&self, length: u64) -> Result<TouchedBytes> {
        TouchedBytes::open(Region::open(self.clone())?, length)
    }

    /// Checks every block not checked yet.
    fn verify_mapped(&self, bytes: &Bytes, first: usize, last: usize) -> Result<()> {
        let (state, verified) = (self.state(), self.verified());
        for block in first..=last {
            let bit = 1u64 << (block % 64);
            if verified[block / 64].load(Ordering::Acquire) & bit != 0 {
                continue;
            }
            let from = block * BLOCK_BYTES;
            let to = (from + BLOCK_BYTES).min(self.len() as usize);
            let at = state.entry.offset.get() as usize;
            self.check_block(block, &bytes[at + from..at + to])?;
            verified[block / 64].fetch_or(bit, Ordering::Release);
        }
        Ok(())
    }

    fn verified(&self) -> &Arc<[AtomicU64]> {
        self.state().verified.get_or_init(|| {
            let words = (self.len() as usize).div_ceil(BLOCK_BYTES).div_ceil(64);
            (0..words).map(|_| AtomicU64::new(0)).collect()
        })
    }

    /// The section as a region, for who touches it here and there, very often.
    pub(super) fn mapped_parts(&self) -> Option<(Bytes, Arc<[AtomicU64]>)> {
        let Source::Mapped(bytes) = &self.inner.source else { return None };
        let bytes = bytes.slice(self.state().entry.offset.get(), self.len()).expect("checked at open");
        Some((bytes, self.verified().clone()))
    }

    /// Checks the blocks that hold these bytes of a mapped section.
    pub(super) fn check_mapped(&self, from: usize, to: usize) -> Result<()> {
        let Source::Mapped(bytes) = &self.inner.source else { return Ok(()) };
        self.verify_mapped(bytes, from / BLOCK_BYTES, (to - 1) / BLOCK_BYTES)
    }

    fn check_block(&self, block: usize, bytes: &[u8]) -> Result<()> {
        let stored = self.crcs()?[block];
        let computed = crc32(bytes);
        if stored == computed || skips_checksum("block") {
            return Ok(());
        }
        Err(self.corrupt((block * BLOCK_BYTES) as u64, format!("checksum of the block is {stored:#010x}, its bytes give {computed:#010x}")))
    }

    /// Whether its block checksums are those that the section table vouches for, also when there is no block.
    pub fn verify_checksums(&self) -> Result<()> {
        self.crcs().map(drop)
    }

    fn crcs(&self) -> Result<&[u32]> {
        let state = self.state();
        if let Some(crcs) = state.crcs.get() {
            return Ok(crcs);
        }
        let count = self.len().div_ceil(BLOCK_BYTES as u64);
        let at = state.entry.crcs_offset.get();
        let bytes = self.inner.source.read(&self.inner.file, self.inner.start, at, count * 4)?;
        let computed = crc32(&bytes);
        if computed != state.entry.crcs_crc.get() && self.inner.tolerant {
            return Ok(state.crcs.get_or_init(|| self.mended_crcs(&bytes)));
        }
        if computed != state.entry.crcs_crc.get() && !skips_checksum("block checksums") {
            return Err(Error::corrupt(
                &self.inner.file,
                self.inner.start + at,
                format!("checksum of the block checksums is {:#010x}, their bytes give {computed:#010x}", state.entry.crcs_crc.get()),
            ));
        }
        Ok(state.crcs.get_or_init(|| crcs_of(&bytes)))
    }

    /// The block checksums when their own checksum fails: those that the bytes give, if that checksum holds for them, so that all bytes are as
    /// they were written; else those that are stored, of which each vouches for its own block.
    fn mended_crcs(&self, stored: &[u8]) -> Vec<u32> {
        let mut computed = Vec::with_capacity(stored.len());
        let (at, mut from) = (self.state().entry.offset.get(), 0);
        while from < self.len() {
            let length = (self.len() - from).min(BLOCK_BYTES as u64);
            let Ok(block) = self.inner.source.read(&self.inner.file, self.inner.start, at + from, length) else { return crcs_of(stored) };
            computed.extend_from_slice(&crc32(&block).to_le_bytes());
            from += length;
        }
        if crc32(&computed) == self.state().entry.crcs_crc.get() { crcs_of(&computed) } else { crcs_of(stored) }
    }
}

fn crcs_of(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(*c)).collect()
}

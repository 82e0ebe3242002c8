//! Writes one segment: sections in sequence, then their checksums, the table twice, the footer.

use crate::error::{Error, Result};
use crate::format::checksum::crc32;
use crate::format::segment::{
    BLOCK_BYTES, FOOTER_MAGIC, SECTION_PAGE_THRESHOLD, SectionEntry, SectionKind, SegmentFooter, SegmentHeader, encode_table,
};
use crate::ids::Uuid;
use crate::io::File;
use std::sync::Arc;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes one segment to a file at the file's end so far. Nothing is durable until the caller syncs the file.
#[derive(Debug)]
pub struct SegmentWriter {
    file: Arc<dyn File>,
    name: String,
    /// Where the segment starts in the file.
    start: u64,
    /// Bytes of the segment so far, those in `buffer` included.
    length: u64,
    buffer: Vec<u8>,
    header: SegmentHeader,
    sections: Vec<SectionEntry>,
    /// Block checksums of every finished section, in order.
    crcs: Vec<Vec<u32>>,
    open: Option<OpenSection>,
}

#[derive(Debug)]
struct OpenSection {
    kind: SectionKind,
    /// Its first bytes, while it may still turn out to be small: then where it starts is not decided.
    held: Option<Vec<u8>>,
    offset: u64,
    length: u64,
    crcs: Vec<u32>,
    block: crc32fast::Hasher,
    block_bytes: usize,
}

/// What a manifest repeats of a finished segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Where it starts in its file.
    pub offset: u64,
    /// Its bytes.
    pub length: u64,
    /// The checksum of its footer, which covers every other checksum.
    pub crc: u32,
}

impl SegmentWriter {
    /// Starts the segment `index` at offset `start` (a multiple of 4,096) of the file `name` with number `file_number`.
    pub fn new(file: Arc<dyn File>, name: impl Into<String>, database: Uuid, file_number: u64, index: u32, start: u64) -> SegmentWriter {
        debug_assert!(start.is_multiple_of(BLOCK_BYTES as u64), "segments start at a multiple of 4,096");
        let header = SegmentHeader::new(database, file_number, index);
        SegmentWriter {
            file,
            name: name.into(),
            start,
            length: size_of::<SegmentHeader>() as u64,
            buffer: header.as_bytes().to_vec(),
            header,
            sections: Vec::new(),
            crcs: Vec::new(),
            open: None,
        }
    }

    /// Begins a section. Where it starts is decided when its size is known, or known to be large.
    pub fn begin(&mut self, kind: SectionKind) -> Result<()> {
        assert!(self.open.is_none(), "sections are written one after another");
        self.open = Some(OpenSection {
            kind,
            held: Some(Vec::new()),
            offset: 0,
            length: 0,
            crcs: Vec::new(),
            block: crc32fast::Hasher::new(),
            block_bytes: 0,
        });
        Ok(())
    }

    /// Writes a whole section at once.
    pub fn section(&mut self, kind: SectionKind, items: u64, aux: u64, bytes: &[u8]) -> Result<()> {
        self.begin(kind)?;
        self.write(bytes)?;
        self.end(items, aux)
    }

    /// Appends to the open section.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let open = self.open.as_mut().expect("a section is open");
        open.length += bytes.len() as u64;
        open.checksum(bytes);
        match &mut open.held {
            Some(held) if open.length < SECTION_PAGE_THRESHOLD => {
                held.extend_from_slice(bytes);
                return Ok(());
            }
            Some(_) => self.place(BLOCK_BYTES as u64),
            None => {}
        }
        self.put(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Decides where the open section starts, and writes what was held of it.
    fn place(&mut self, align: u64) {
        self.pad_to(align);
        let at = self.length;
        let open = self.open.as_mut().expect("a section is open");
        open.offset = at;
        let held = open.held.take().expect("a section is placed once");
        self.put(&held);
    }

    /// Bytes written to the open section so far.
    pub fn position(&self) -> u64 {
        self.open.as_ref().map_or(0, |o| o.length)
    }

    /// Ends the open section. `items` and `aux` go to the section table.
    pub fn end(&mut self, items: u64, aux: u64) -> Result<()> {
        if self.open.as_ref().is_some_and(|o| o.held.is_some()) {
            self.place(64);
        }
        let mut open = self.open.take().expect("a section is open");
        if open.block_bytes > 0 {
            open.crcs.push(open.block.finalize());
        }
        self.sections.push(SectionEntry {
            kind: U16::new(open.kind as u16),
            flags: U16::new(open.kind.flags()),
            crcs_crc: U32::new(crc32(&crc_bytes(&open.crcs))),
            offset: U64::new(open.offset),
            length: U64::new(open.length),
            items: U64::new(items),
            aux: U64::new(aux),
            crcs_offset: U64::new(0),
            reserved: [0; 16],
        });
        self.crcs.push(open.crcs);
        Ok(())
    }

    /// Writes checksums, table and footer. The next segment of the file starts at the next multiple of 4,096.
    pub fn finish(mut self) -> Result<SegmentSummary> {
        assert!(self.open.is_none(), "every section was ended");
        self.pad_to(64);
        for (entry, crcs) in self.sections.iter_mut().zip(std::mem::take(&mut self.crcs)) {
            entry.crcs_offset = U64::new(self.length);
            let bytes = crc_bytes(&crcs);
            self.buffer.extend_from_slice(&bytes);
            self.length += bytes.len() as u64;
        }
        let table = encode_table(&self.sections);
        self.pad_to(64);
        let table_offset = self.length;
        self.put(&table);
        // In a large segment the copy stands in another block, so that one bad block never takes both. A small one has few blocks anyway.
        self.pad_to(if self.length >= SECTION_PAGE_THRESHOLD { BLOCK_BYTES as u64 } else { 64 });
        let table_copy_offset = self.length;
        self.put(&table);
        let length = self.length + size_of::<SegmentFooter>() as u64;
        let footer = SegmentFooter {
            magic: FOOTER_MAGIC,
            length: U64::new(length),
            table_offset: U64::new(table_offset),
            table_copy_offset: U64::new(table_copy_offset),
            sections: U32::new(u32::try_from(self.sections.len()).expect("a segment has few sections")),
            table_crc: U32::new(crc32(&table)),
            header_crc: self.header.crc,
            reserved: [0; 16],
            crc: U32::new(0),
        }
        .sealed();
        self.put(footer.as_bytes());
        self.flush()?;
        Ok(SegmentSummary { offset: self.start, length, crc: footer.crc.get() })
    }

    fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        self.length += bytes.len() as u64;
    }

    fn pad_to(&mut self, align: u64) {
        let target = self.length.next_multiple_of(align);
        self.buffer.resize(self.buffer.len() + usize::try_from(target - self.length).expect("padding is short"), 0);
        self.length = target;
    }

    fn flush(&mut self) -> Result<()> {
        let at = self.start + self.length - self.buffer.len() as u64;
        self.file.write_all_at(at, &self.buffer).map_err(|e| Error::io(format!("writing {}", self.name), e))?;
        self.buffer.clear();
        Ok(())
    }
}

impl OpenSection {
    /// Takes bytes into the block checksums.
    fn checksum(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let take = bytes.len().min(BLOCK_BYTES - self.block_bytes);
            self.block.update(&bytes[..take]);
            self.block_bytes += take;
            bytes = &bytes[take..];
            if self.block_bytes == BLOCK_BYTES {
                self.crcs.push(std::mem::take(&mut self.block).finalize());
                self.block_bytes = 0;
            }
        }
    }
}

fn crc_bytes(crcs: &[u32]) -> Vec<u8> {
    crcs.iter().flat_map(|c| c.to_le_bytes()).collect()
}

//! Documents in, sections out.

use crate::document::StoredDocument;
use crate::error::{Error, Result};
use crate::format::docs::{BLOCK_RAW_TARGET, BlockEncoder, DocIndexEntry};
use crate::format::document::encode_body;
use crate::format::ids::{SeqWidth, encode_id_map, id_map_buckets};
use crate::format::row_hash::id_hash;
use crate::format::segment::{SECTION_PAGE_THRESHOLD, SectionKind};
use crate::format::sources::encode_sources;
use crate::options::limits;
use crate::segment::SegmentWriter;
use std::collections::BTreeMap;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

/// Writes the rows of one segment. Bodies are streamed; ids, seqs and sources are held until [`RowsBuilder::finish`] (about 30 bytes a row
/// and the ids themselves).
///
/// Between `begin` and `finish` the `Docs` section is open, so nothing else can be written to the segment.
#[derive(Debug, Default)]
pub struct RowsBuilder {
    block: BlockEncoder,
    body: Vec<u8>,
    index: Vec<DocIndexEntry>,
    raw_bytes: u64,
    id_offsets: Vec<u8>,
    id_text: Vec<u8>,
    id_hashes: Vec<u64>,
    seqs: Vec<u64>,
    /// Each source seen, numbered as it came.
    sources: BTreeMap<Box<str>, u32>,
    source_of_row: Vec<Option<u32>>,
}

impl RowsBuilder {
    /// Opens the `Docs` section.
    pub fn begin(out: &mut SegmentWriter) -> Result<RowsBuilder> {
        out.begin(SectionKind::Docs)?;
        Ok(RowsBuilder::default())
    }

    /// Rows so far.
    pub fn rows(&self) -> u32 {
        self.seqs.len() as u32
    }

    /// Adds the next row. `relative_seq` counts from the segment's base and ascends strictly; the vector is not stored here.
    ///
    /// # Errors
    /// `LimitExceeded` when the segment has 2^31 rows; `Io` or `DiskFull` when a block cannot be written.
    pub fn push(&mut self, out: &mut SegmentWriter, relative_seq: u64, document: &StoredDocument) -> Result<()> {
        debug_assert!(self.seqs.last().is_none_or(|last| *last < relative_seq), "seqs ascend");
        debug_assert!((1..=limits::NAME_BYTES_MAX).contains(&document.id.len()), "an id has 1 to 1,024 bytes");
        if self.seqs.len() as u64 >= limits::SEGMENT_ROWS_MAX {
            return Err(Error::LimitExceeded(format!("a segment has at most {} rows", limits::SEGMENT_ROWS_MAX)));
        }
        self.body.clear();
        encode_body(document, &mut self.body);
        if self.block.rows() > 0 && self.block.raw_length() + self.body.len() + 4 > BLOCK_RAW_TARGET {
            self.close_block(out)?;
        }
        self.block.push(&self.body);
        self.id_offsets.extend_from_slice(&(self.id_text.len() as u64).to_le_bytes());
        self.id_text.extend_from_slice(document.id.as_bytes());
        self.id_hashes.push(id_hash(&document.id));
        self.seqs.push(relative_seq);
        let source = document.source.as_deref().map(|source| self.number_of(source));
        self.source_of_row.push(source);
        Ok(())
    }

    /// Ends `Docs` and writes `DocIndex`, `Ids`, `Seqs`, `Sources` and `IdMap`.
    pub fn finish(mut self, out: &mut SegmentWriter) -> Result<()> {
        if self.block.rows() > 0 {
            self.close_block(out)?;
        }
        let rows = self.rows();
        out.end(u64::from(rows), self.raw_bytes)?;
        out.section(SectionKind::DocIndex, self.index.len() as u64, 0, self.index.as_bytes())?;
        let text_bytes = self.id_text.len() as u64;
        self.id_offsets.extend_from_slice(&text_bytes.to_le_bytes());
        section_of(out, SectionKind::Ids, u64::from(rows), text_bytes, &[&self.id_offsets, &self.id_text])?;
        let width = SeqWidth::narrowest(&self.seqs);
        out.section(SectionKind::Seqs, u64::from(rows), width as u64, &width.encode(&self.seqs))?;
        self.write_sources(out)?;
        out.section(SectionKind::IdMap, u64::from(rows), id_map_buckets(rows), &encode_id_map(&self.id_hashes))
    }

    /// The number of a source, given when it is first seen.
    fn number_of(&mut self, source: &str) -> u32 {
        if let Some(&number) = self.sources.get(source) {
            return number;
        }
        let number = self.sources.len() as u32;
        self.sources.insert(source.into(), number);
        number
    }

    fn close_block(&mut self, out: &mut SegmentWriter) -> Result<()> {
        let rows = self.block.rows();
        let (stored, raw_length) = self.block.finish();
        let length = |bytes: usize| U32::new(u32::try_from(bytes).expect("a block has at most 72 MiB"));
        self.raw_bytes += raw_length as u64;
        self.index.push(DocIndexEntry {
            offset: U64::new(out.position()),
            first_row: U32::new(self.seqs.len() as u32 - rows),
            rows: U32::new(rows),
            stored_length: length(stored.len()),
            raw_length: length(raw_length),
        });
        out.write(stored)
    }

    /// Renumbers the sources in the order of their names and writes their section.
    fn write_sources(&mut self, out: &mut SegmentWriter) -> Result<()> {
        let mut ordinals = vec![0u32; self.sources.len()];
        for (ordinal, number) in self.sources.values().enumerate() {
            ordinals[*number as usize] = ordinal as u32;
        }
        for source in self.source_of_row.iter_mut().flatten() {
            *source = ordinals[*source as usize];
        }
        let names: Vec<&str> = self.sources.keys().map(|name| &**name).collect();
        let (bytes, text_bytes) = encode_sources(&names, &self.source_of_row);
        out.section(SectionKind::Sources, names.len() as u64, text_bytes, &bytes)
    }
}

/// Writes a section given in parts as [`SegmentWriter::section`] would write it given whole, without joining large parts in memory.
fn section_of(out: &mut SegmentWriter, kind: SectionKind, items: u64, aux: u64, parts: &[&[u8]]) -> Result<()> {
    if (parts.iter().map(|p| p.len() as u64).sum::<u64>()) < SECTION_PAGE_THRESHOLD {
        return out.section(kind, items, aux, &parts.concat());
    }
    out.begin(kind)?;
    parts.iter().try_for_each(|part| out.write(part))?;
    out.end(items, aux)
}

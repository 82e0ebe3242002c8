//! Level 2 of the rows of a segment: documents, ids, seqs, sources, and the map from ids to rows.

use super::check::{At, Progress};
use super::codes::FindingCode as Code;
use crate::docstore::{RowsReader, content_hash};
use crate::document::StoredDocument;
use crate::error::Result;
use crate::format::docs::{DOC_INDEX_ENTRY_BYTES, DocIndexEntry};
use crate::format::ids::{check_id_map, encode_id_map};
use crate::format::row_hash::id_hash;
use crate::format::segment::SectionKind;
use crate::format::sources::encode_sources;
use crate::ids::Seq;
use crate::segment::SegmentReader;
use crate::vector::VectorsReader;
use std::collections::BTreeMap;

/// Rows whose ids or seqs are read at once.
const ROWS_AT_ONCE: u32 = 4096;

/// Seqs: ascending, and those that the manifest gives.
pub(super) fn seqs(rows: &RowsReader, at: &mut At<'_>) -> Result<()> {
    let entry = &at.segment.entry;
    let (base, last_seq) = (entry.base_seq, entry.last_seq);
    let mut last: Option<Seq> = None;
    for from in (0..rows.rows()).step_by(ROWS_AT_ONCE as usize) {
        let to = from.saturating_add(ROWS_AT_ONCE).min(rows.rows());
        let seqs = rows.seqs(from..to)?;
        if last.is_some_and(|last| seqs.first().is_some_and(|first| *first <= last)) {
            at.note(Code::Rows, Some(SectionKind::Seqs), 0, format!("the seq of row {from} is not above that of the row before"));
        }
        last = seqs.last().copied().or(last);
    }
    if last.is_some_and(|last| last != last_seq) {
        let what = format!("the last seq is {}, the manifest says {last_seq} (from {base} on)", last.unwrap_or_default());
        at.note(Code::SegmentCounts, Some(SectionKind::Seqs), 0, what);
    }
    Ok(())
}

/// The block index: every row in one block, every stored byte in one block.
pub(super) fn blocks(reader: &SegmentReader, rows: &RowsReader, at: &mut At<'_>) -> Result<()> {
    let (index, docs) = (reader.require(SectionKind::DocIndex)?, reader.require(SectionKind::Docs)?);
    let (mut offset, mut row, mut raw) = (0u64, 0u64, 0u64);
    let bytes = index.whole()?;
    for (i, bytes) in bytes.chunks_exact(DOC_INDEX_ENTRY_BYTES as usize).enumerate() {
        let here = i as u64 * DOC_INDEX_ENTRY_BYTES;
        let entry = DocIndexEntry::decode(bytes, rows.rows()).map_err(|e| index.corrupt(here + e.offset, e.what))?;
        if entry.offset.get() != offset || u64::from(entry.first_row.get()) != row {
            let what = format!("block {i} starts at byte {} with row {}, expected {offset} and {row}", entry.offset, entry.first_row);
            return Err(index.corrupt(here, what));
        }
        offset += u64::from(entry.stored_length.get());
        row += u64::from(entry.rows.get());
        raw += u64::from(entry.raw_length.get());
    }
    if offset != docs.len() || row != u64::from(rows.rows()) || raw != docs.aux() {
        let what = format!(
            "the blocks hold {row} rows in {offset} stored and {raw} raw bytes, expected {} in {} and {}",
            rows.rows(),
            docs.len(),
            docs.aux()
        );
        at.note(Code::Rows, Some(SectionKind::DocIndex), 0, what);
    }
    Ok(())
}

/// Ids: whole, without gaps. Answers their hashes, in the order of rows.
pub(super) fn ids(reader: &SegmentReader, rows: &RowsReader, at: &mut At<'_>) -> Result<Vec<u64>> {
    let section = reader.require(SectionKind::Ids)?;
    let mut hashes = Vec::new();
    for from in (0..rows.rows()).step_by(ROWS_AT_ONCE as usize) {
        let to = from.saturating_add(ROWS_AT_ONCE).min(rows.rows());
        hashes.extend(rows.ids(from..to)?.iter().map(|id| id_hash(id)));
    }
    let starts = u64::from(rows.rows()) * 8;
    let word = |at: u64| -> Result<u64> {
        let bytes = section.read(at..at + 8)?;
        Ok(bytes.first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b)))
    };
    let (first, last) = (word(0)?, word(starts)?);
    if first != 0 || last != section.aux() {
        let what = format!("the ids are bytes {first} to {last}, expected 0 to {}", section.aux());
        at.note(Code::Rows, Some(SectionKind::Ids), 0, what);
    }
    Ok(hashes)
}

/// The map is the one that the ids make: the specification leaves no choice.
pub(super) fn id_map(reader: &SegmentReader, hashes: &[u64]) -> Result<()> {
    let section = reader.require(SectionKind::IdMap)?;
    check_id_map(section.items(), section.aux(), section.len(), hashes.len() as u32).map_err(|e| section.corrupt(0, e.what))?;
    let found = section.whole()?;
    let expected = encode_id_map(hashes);
    let word = |bytes: &[u8], i: usize| bytes.get(i * 8..i * 8 + 8).map_or("nothing".to_string(), |w| format!("{w:02x?}"));
    match (0..expected.len().max(found.len()).div_ceil(8)).find(|&i| word(found, i) != word(&expected, i)) {
        None => Ok(()),
        Some(i) => {
            let what = format!("bucket {i} holds {}, the ids give {}", word(found, i), word(&expected, i));
            Err(section.corrupt(i as u64 * 8, what))
        }
    }
}

/// Reads every document; with its vector it gives the content hash. Answers the sources in the order of rows, each a number of a name.
pub(super) fn documents(
    rows: &RowsReader,
    vectors: Option<&VectorsReader>,
    at: &mut At<'_>,
    progress: &mut Progress<'_>,
) -> Result<Sources> {
    let mut sources = Sources::default();
    let mut scanner = rows.scanner();
    let mut hash = 0u64;
    for row in 0..rows.rows() {
        if row.is_multiple_of(1024) {
            progress.add(0)?;
        }
        let mut document = scanner.document(row)?;
        sources.push(&document);
        if let Some(vectors) = vectors {
            document.vector = vectors.get(row)?.map(|v| v.into_owned().into());
        }
        hash = hash.wrapping_add(content_hash(&document));
    }
    let expected = at.segment.entry.content_hash;
    if hash != expected {
        at.note(Code::ContentHash, None, 0, format!("the content hashes of all rows add up to {hash:#x}, the manifest says {expected:#x}"));
    }
    Ok(sources)
}

/// The sources of documents, gathered row by row.
#[derive(Debug, Default)]
pub(super) struct Sources {
    names: BTreeMap<Box<str>, u32>,
    of_row: Vec<Option<u32>>,
}

impl Sources {
    fn push(&mut self, document: &StoredDocument) {
        let next = self.names.len() as u32;
        let number = document.source.as_ref().map(|source| match self.names.get(source) {
            Some(&number) => number,
            None => {
                self.names.insert(source.clone(), next);
                next
            }
        });
        self.of_row.push(number);
    }

    /// The section is the one that the documents make.
    pub(super) fn check(&self, reader: &SegmentReader) -> Result<()> {
        let section = reader.require(SectionKind::Sources)?;
        let mut ordinals = vec![0u32; self.names.len()];
        (0u32..).zip(self.names.values()).for_each(|(ordinal, &number)| ordinals[number as usize] = ordinal);
        let of_row: Vec<Option<u32>> = self.of_row.iter().map(|s| s.map(|number| ordinals[number as usize])).collect();
        let names: Vec<&str> = self.names.keys().map(|name| &**name).collect();
        let (expected, _) = encode_sources(&names, &of_row);
        let found = section.whole()?;
        if found == expected && section.items() == names.len() as u64 {
            return Ok(());
        }
        let differs = found.iter().zip(&expected).position(|(a, b)| a != b).unwrap_or(found.len().min(expected.len()));
        let what = format!(
            "{} sources in {} bytes; the documents name {} in {}. The first difference is at byte {differs} of the section",
            section.items(),
            found.len(),
            names.len(),
            expected.len()
        );
        Err(section.corrupt(differs as u64, what))
    }
}

//! Writes rows of memtables into segments: for a checkpoint, and for a batch too large for a log record.

use super::files::NewFile;
use super::segments::SegmentHandle;
use crate::docstore::{RowsBuilder, content_hash};
use crate::document::StoredDocument;
use crate::error::Result;
use crate::format::manifest::SegmentEntry;
use crate::graph::{GraphBuilder, mentions};
use crate::ids::{Incarnation, Lsn, Seq, Uuid};
use crate::memtable::{MemCollection, MemRow, Memtable};
use crate::metadata::MetadataBuilder;
use crate::options::{Components, Derivation};
use crate::segment::{SegmentSummary, SegmentWriter};
use crate::text::{Analyzer, Posting, TextBuilder};
use crate::vector::VectorsBuilder;
use std::sync::Arc;

/// A segment that a flush wrote, and which memtable row each of its rows was.
#[derive(Debug)]
pub(crate) struct Flushed {
    pub(crate) incarnation: Incarnation,
    pub(crate) memory: Arc<MemCollection>,
    pub(crate) entry: SegmentEntry,
    /// Memtable row of each segment row.
    pub(crate) rows: Vec<u32>,
}

/// Writes the rows that live at `lsn`, one segment a collection, one after another into `file`. Collections without such a row have none.
/// The caller syncs the file.
pub(crate) fn write_memtable(
    file: &NewFile,
    database: Uuid,
    memtable: &Memtable,
    lsn: Lsn,
    wanted: impl Fn(Incarnation) -> bool,
) -> Result<Vec<Flushed>> {
    let mut flushed = Vec::new();
    let mut end = 0;
    for (incarnation, memory) in memtable.collections() {
        let rows: Vec<u32> = memory.rows_at(lsn).filter(|(_, r)| r.visible(lsn)).map(|(row, _)| row).collect();
        if rows.is_empty() || !wanted(incarnation) {
            continue;
        }
        let index = flushed.len() as u32;
        let mut out = SegmentWriter::new(file.handle().clone(), file.name(), database, file.number(), index, end);
        let mut entry = write_rows(&mut out, &memory, &rows)?;
        fill(&mut entry, file.number(), out.finish()?);
        end = (entry.offset + entry.length).next_multiple_of(4096);
        flushed.push(Flushed { incarnation, memory, entry, rows });
    }
    Ok(flushed)
}

/// Says where a segment lies.
pub(crate) fn fill(entry: &mut SegmentEntry, file: u64, summary: SegmentSummary) {
    (entry.file, entry.offset, entry.length, entry.crc) = (file, summary.offset, summary.length, summary.crc);
}

/// An entry for rows of these seqs, with nothing counted yet.
pub(crate) fn new_entry(base_seq: Seq, last_seq: Seq, rows: u64) -> SegmentEntry {
    SegmentEntry {
        file: 0,
        offset: 0,
        length: 0,
        crc: 0,
        base_seq,
        last_seq,
        rows,
        vectors: 0,
        tokens: 0,
        content_hash: 0,
        tombstones: None,
        unknown: Default::default(),
    }
}

fn write_rows(out: &mut SegmentWriter, memory: &MemCollection, rows: &[u32]) -> Result<SegmentEntry> {
    let row = |r: u32| -> &MemRow { memory.row(r).expect("the row was just listed") };
    let (first, last) = (row(rows[0]), row(rows[rows.len() - 1]));
    let mut entry = new_entry(first.seq, last.seq, rows.len() as u64);
    let mut documents = RowsBuilder::begin(out)?;
    for &r in rows {
        let r = row(r);
        documents.push(out, r.seq.0 - entry.base_seq.0, &r.document)?;
        entry.content_hash = entry.content_hash.wrapping_add(content_hash(&r.document));
        entry.tokens += u64::from(r.tokens);
    }
    documents.finish(out)?;
    let vectors = rows.iter().map(|&r| row(r).document.vector.as_deref());
    write_vectors(out, vectors, memory.derivation().components, &mut entry)?;
    write_text(out, memory, rows)?;
    write_derived(out, memory, rows)?;
    Ok(entry)
}

/// The metadata index and the entity graph of the rows.
fn write_derived(out: &mut SegmentWriter, memory: &MemCollection, rows: &[u32]) -> Result<()> {
    let mut derived = DerivedBuilder::new(memory.derivation());
    for (new, &old) in (0u32..).zip(rows) {
        derived.add(new, &memory.row(old).expect("the row was just listed").document)?;
    }
    derived.finish(out)
}

/// Gathers what is derived from whole documents, for a flush and for a merge.
pub(crate) struct DerivedBuilder {
    derivation: Derivation,
    rows: u32,
    metadata: MetadataBuilder,
    graph: GraphBuilder,
}

impl DerivedBuilder {
    pub(crate) fn new(derivation: Derivation) -> DerivedBuilder {
        DerivedBuilder { derivation, rows: 0, metadata: MetadataBuilder::new(), graph: GraphBuilder::new() }
    }

    /// Adds the next row.
    pub(crate) fn add(&mut self, row: u32, document: &StoredDocument) -> Result<()> {
        self.rows = row + 1;
        self.metadata.add(row, document.metadata.as_ref());
        let mentions = mentions(document.entities.as_deref(), &document.text, self.derivation.extractor);
        self.graph.add(row, &mentions, document.relations.as_deref().unwrap_or_default())
    }

    /// Writes the sections.
    pub(crate) fn finish(self, out: &mut SegmentWriter) -> Result<()> {
        self.metadata.finish(out)?;
        self.graph.finish(self.rows, out)
    }
}

fn write_vectors<'a>(
    out: &mut SegmentWriter,
    vectors: impl Iterator<Item = Option<&'a [f32]>>,
    components: Components,
    entry: &mut SegmentEntry,
) -> Result<()> {
    let mut builder: Option<VectorsBuilder> = None;
    for (row, vector) in (0u32..).zip(vectors) {
        let Some(vector) = vector else { continue };
        if builder.is_none() {
            builder = Some(VectorsBuilder::begin(out, vector.len() as u32, components)?);
        }
        builder.as_mut().expect("was set above").push(out, row, vector)?;
        entry.vectors += 1;
    }
    builder.map_or(Ok(()), |b| b.finish(out, entry.rows as u32))
}

fn write_text(out: &mut SegmentWriter, memory: &MemCollection, rows: &[u32]) -> Result<()> {
    let mut new_row = vec![u32::MAX; memory.row_count() as usize];
    for (new, &old) in (0u32..).zip(rows) {
        new_row[old as usize] = new;
    }
    let lengths = rows.iter().map(|&r| memory.row(r).map_or(0, |r| r.tokens)).collect();
    let mut text = TextBuilder::begin(out, &Analyzer::new(memory.derivation().analyzer), lengths)?;
    let mut postings = Vec::new();
    for (term, list) in memory.terms() {
        postings.clear();
        // Rows appended after the list of rows was taken, and dead ones, have no new row.
        list.for_each(|row, frequency| match new_row.get(row as usize) {
            Some(&new) if new != u32::MAX => postings.push(Posting { row: new, frequency }),
            _ => {}
        });
        if !postings.is_empty() {
            text.term(out, term.as_bytes(), &postings)?;
        }
    }
    text.finish(out)
}

/// Gives the new segment the deaths that came after the lsn it was written for. Under the writer's lock: no death is missed.
pub(crate) fn carry_deaths(flushed: &Flushed, handle: &SegmentHandle) -> Result<()> {
    let mut deaths: Vec<(u64, u32)> = Vec::new();
    for (new, &old) in (0u32..).zip(&flushed.rows) {
        if let Some(death) = flushed.memory.row(old).map(MemRow::death).filter(|d| *d != crate::memtable::deaths::ALIVE) {
            deaths.push((death, new));
        }
    }
    deaths.sort_unstable();
    for (lsn, row) in deaths {
        handle.kill(row, Lsn(lsn), handle.row_totals(row)?)?;
    }
    Ok(())
}

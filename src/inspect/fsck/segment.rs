//! Levels 2 and 3 of one segment: its rooms, each on its own, so that damage in one does not hide that in another.

use super::check::{At, Progress};
use super::codes::FindingCode as Code;
use super::graph::Graph;
use super::live::Live;
use super::state::State;
use super::vector_graph::{self, Graph as VectorGraph};
use super::{metadata, rows, text, vector_codes, vectors};
use crate::docstore::RowsReader;
use crate::error::{Error, Result};
use crate::format::segment::SectionKind as Kind;
use crate::io::names::FileName;
use crate::options::Schema;
use crate::segment::SegmentReader;
use crate::text::TextReader;
use crate::tombstones::TombstonesPart;
use crate::vector::VectorsReader;
use roaring::RoaringBitmap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Sections that are read into memory as a whole; larger ones are read piece by piece.
const WHOLE_BYTES_MAX: u64 = 256 << 20;

const ROWS: &[Kind] = &[Kind::Docs, Kind::DocIndex, Kind::Ids, Kind::Seqs];
const VECTORS: &[Kind] = &[Kind::Vectors, Kind::VectorRows];
const TEXT: &[Kind] = &[Kind::Terms, Kind::TermInfos, Kind::Postings, Kind::Lengths, Kind::Statistics];
const METADATA: &[Kind] = &[Kind::MetadataTerms, Kind::MetadataRows];
const GRAPH: &[Kind] =
    &[Kind::Entities, Kind::EntityNames, Kind::Mentions, Kind::EntityDocs, Kind::RelationsBySource, Kind::RelationsByTarget];

/// What the check of a segment learned for those of its collection.
#[derive(Debug)]
pub(super) struct Facts {
    /// Rows that the manifest's tombstones call dead.
    pub(super) dead: RoaringBitmap,
    pub(super) rows: u32,
    /// Tokens and vectors of the rows that are not dead, where they could be counted.
    pub(super) tokens: Option<u64>,
    pub(super) vectors: Option<u64>,
}

/// Checks a segment whose frame was read. `None` when its rows cannot be read.
pub(super) fn check(
    state: &State,
    live: &Live,
    reader: &SegmentReader,
    level: u8,
    at: &mut At<'_>,
    progress: &mut Progress<'_>,
) -> Result<Option<Facts>> {
    let schema = live.schema(at.segment.incarnation).unwrap_or_default();
    hold_small_sections(reader, at);
    let opened = room(at, ROWS, Code::Rows, |at| {
        let rows = RowsReader::open(reader, at.segment.entry.base_seq)?;
        if u64::from(rows.rows()) != at.segment.entry.rows {
            let what = format!("the segment has {} rows, the manifest says {}", rows.rows(), at.segment.entry.rows);
            at.note(Code::SegmentCounts, Some(Kind::Ids), 0, what);
        }
        rows::seqs(&rows, at)?;
        rows::blocks(reader, &rows, at)?;
        Ok(rows)
    })?;
    table_numbers(reader, at);
    let Some(all) = opened else { return Ok(None) };
    let mut facts = Facts { dead: RoaringBitmap::new(), rows: all.rows(), tokens: None, vectors: None };
    let dead_df = dead_rows(state, &mut facts, at);
    let segment = Segment { reader, rows: &all, schema: &schema, level };
    if let Some(vectors) = segment.vectors(&mut facts, at)? {
        segment.vector_graph(&vectors, at, progress)?;
    }
    segment.documents(at, progress)?;
    segment.text(&mut facts, &dead_df, at, progress)?;
    segment.metadata(at, progress)?;
    segment.graph(at, progress)?;
    at.report.rows += u64::from(all.rows());
    Ok(Some(facts))
}

/// One segment whose rows can be read.
struct Segment<'a> {
    reader: &'a SegmentReader,
    rows: &'a RowsReader,
    schema: &'a Schema,
    level: u8,
}

impl Segment<'_> {
    fn vectors(&self, facts: &mut Facts, at: &mut At<'_>) -> Result<Option<VectorsReader>> {
        let vectors = room(at, VECTORS, Code::Vectors, |at| {
            let vectors = VectorsReader::open(self.reader)?;
            vectors::counts(self.reader, vectors.as_ref(), self.rows.rows(), self.schema.dimension, at);
            let live = vectors.as_ref().map_or(Ok(0), |v| vectors::values(self.reader, v, &facts.dead))?;
            Ok((vectors, live))
        })?;
        let Some((vectors, live)) = vectors else { return Ok(None) };
        facts.vectors = Some(live);
        if let Some(vectors) = &vectors {
            room(at, &[Kind::VectorNorms], Code::VectorNorms, |at| vectors::norms(self.reader, vectors, self.level >= 3, at))?;
        }
        Ok(vectors)
    }

    fn vector_graph(&self, vectors: &VectorsReader, at: &mut At<'_>, progress: &mut Progress<'_>) -> Result<()> {
        let Schema { metric, hnsw, .. } = self.schema;
        vector_graph::presence(self.reader, hnsw.quantisation, at);
        let graph = room(at, &[Kind::VectorGraph], Code::VectorGraph, |_| VectorGraph::open(self.reader, vectors, progress))?;
        let codes = room(at, &[Kind::VectorCodes], Code::VectorGraph, |_| vector_codes::open(self.reader, vectors, *metric, progress))?;
        let Some(Some(graph)) = graph.filter(|_| self.level >= 3) else { return Ok(()) };
        if let Some(Some(codes)) = codes {
            let needed: Vec<Kind> = [VECTORS, &[Kind::VectorCodes]].concat();
            room(at, &needed, Code::VectorCodes, |_| codes.semantics(&graph.nodes(), vectors, *metric, progress))?;
        }
        room(at, VECTORS, Code::VectorRecall, |_| graph.recall(vectors, *metric, progress))?;
        Ok(())
    }

    fn documents(&self, at: &mut At<'_>, progress: &mut Progress<'_>) -> Result<()> {
        let hashes = room(at, ROWS, Code::Rows, |at| rows::ids(self.reader, self.rows, at))?;
        if let Some(hashes) = hashes {
            room(at, &[Kind::IdMap], Code::IdMap, |_| rows::id_map(self.reader, &hashes))?;
        }
        let both: Vec<Kind> = [ROWS, VECTORS].concat();
        let sources = room(at, &both, Code::Rows, |at| {
            // Vectors that do not open were noted; without them there is no hash to compare.
            let vectors = VectorsReader::open(self.reader)?;
            rows::documents(self.rows, vectors.as_ref(), at, progress)
        })?;
        if let Some(sources) = sources {
            room(at, &[Kind::Sources], Code::Sources, |_| sources.check(self.reader))?;
        }
        Ok(())
    }

    fn text(&self, facts: &mut Facts, stored: &DeadFrequencies, at: &mut At<'_>, progress: &mut Progress<'_>) -> Result<()> {
        let analyzer = self.schema.analyzer;
        let found = room(at, TEXT, Code::TextIndex, |at| {
            let Some(text) = TextReader::open(self.reader)? else {
                at.note(Code::TextIndex, None, 0, "the segment has no text index");
                return Ok(None);
            };
            let (tokens, dead_df) = text::structure(self.reader, &text, self.rows.rows(), analyzer, &facts.dead, at)?;
            Ok(Some((text, tokens, dead_df)))
        })?;
        let Some(Some((text, tokens, dead_df))) = found else { return Ok(()) };
        facts.tokens = Some(tokens);
        if let Some((file, offset, stored)) = stored
            && *stored != dead_df
        {
            let differs = stored.iter().zip(&dead_df).find(|(a, b)| a != b);
            let what = format!(
                "{} terms stand in dead rows, the postings say {}; the first difference of (term, rows) is {differs:?}",
                stored.len(),
                dead_df.len()
            );
            at.report.note(Code::DeadFrequencies, file.clone(), *offset, what);
        }
        if self.level >= 3 {
            let needed: Vec<Kind> = [ROWS, TEXT].concat();
            room(at, &needed, Code::TextPostings, |_| text::semantics(self.reader, &text, self.rows, analyzer, progress))?;
        }
        Ok(())
    }

    fn metadata(&self, at: &mut At<'_>, progress: &mut Progress<'_>) -> Result<()> {
        let index = room(at, METADATA, Code::MetadataIndex, |at| {
            let index = metadata::Index::open(self.reader, self.rows.rows(), at)?;
            index.as_ref().map_or(Ok(()), metadata::Index::structure)?;
            Ok(index)
        })?;
        if let Some(Some(index)) = index
            && self.level >= 3
        {
            let needed: Vec<Kind> = [ROWS, METADATA].concat();
            room(at, &needed, Code::MetadataKeys, |_| index.semantics(self.rows, progress))?;
        }
        Ok(())
    }

    fn graph(&self, at: &mut At<'_>, progress: &mut Progress<'_>) -> Result<()> {
        let graph = room(at, GRAPH, Code::GraphIndex, |_| Graph::open(self.reader, self.rows.rows()))?;
        let Some(graph) = graph.filter(|_| self.level >= 3) else { return Ok(()) };
        let needed: Vec<Kind> = [ROWS, GRAPH].concat();
        let extractor = self.schema.extractor;
        room(at, &needed, Code::GraphEdges, |_| match &graph {
            Some(graph) => graph.semantics(self.rows, extractor, progress),
            None => super::graph::nothing_to_index(self.reader, self.rows, extractor),
        })?;
        Ok(())
    }
}

/// Where dead document frequencies stand, and what they are: by term.
type DeadFrequencies = Option<(String, u64, Vec<(u32, u32)>)>;

/// The dead rows of a segment as the manifest's tombstones say. That they can be read was checked at level 1.
fn dead_rows(state: &State, facts: &mut Facts, at: &At<'_>) -> DeadFrequencies {
    let t = at.segment.entry.tombstones.as_ref()?;
    let (file, _) = state.tombstones.get(&t.file)?;
    let part = TombstonesPart { offset: t.offset, length: t.length, crc: t.crc };
    let (dead, frequencies) = file.tombstones(part, facts.rows).ok()?;
    facts.dead = dead;
    Some((FileName::Tombstones(t.file).to_string(), t.offset, frequencies))
}

/// Numbers of the section table that no reader needs. Spec §9.5, §11, §12.3.
fn table_numbers(reader: &SegmentReader, at: &mut At<'_>) {
    let fixed = [
        (Kind::DocIndex, None, Code::Rows),
        (Kind::TermInfos, None, Code::TextIndex),
        (Kind::Statistics, Some(1), Code::TextIndex),
        (Kind::VectorNorms, None, Code::VectorNorms),
    ];
    for (kind, items, code) in fixed {
        let Some(section) = reader.section(kind) else { continue };
        if section.aux() != 0 || items.is_some_and(|items| items != section.items()) {
            let what = format!("the section table says {} items and aux {} of {}", section.items(), section.aux(), kind.name());
            at.note(code, Some(kind), 0, what);
        }
    }
}

/// Reads the sections that are small enough once, so that many small reads of them cost nothing.
fn hold_small_sections(reader: &SegmentReader, at: &At<'_>) {
    let large = [Kind::Docs, Kind::Vectors, Kind::VectorCodes];
    for kind in Kind::ALL.iter().filter(|kind| !large.contains(kind) && !at.bad.contains(&(**kind as u16))) {
        if let Some(section) = reader.section(*kind).filter(|s| s.len() <= WHOLE_BYTES_MAX) {
            // A failure shows again where the section is asked for.
            let _ = section.whole();
        }
    }
}

/// Makes one check that rests on sections `needed`; `None` when one of them is damaged, or when the check failed, which is noted as `code`.
///
/// A parser that trusts its bytes may panic over bytes that pass every checksum and were never written by it: that ends the check, not
/// the program.
fn room<T>(at: &mut At<'_>, needed: &[Kind], code: Code, check: impl FnOnce(&mut At<'_>) -> Result<T>) -> Result<Option<T>> {
    if needed.iter().any(|kind| at.bad.contains(&(*kind as u16))) {
        return Ok(None);
    }
    match catch_unwind(AssertUnwindSafe(|| check(at))) {
        Ok(Ok(value)) => Ok(Some(value)),
        Ok(Err(e @ Error::Interrupted(_))) => Err(e),
        Ok(Err(e)) => {
            at.error(code, &e);
            Ok(None)
        }
        Err(_) => {
            at.note(code, needed.first().copied(), 0, "its bytes break what their parser relies on: reading them ended in a panic");
            Ok(None)
        }
    }
}

//! One way to read a row, whether a segment or a memtable holds it.

use super::segments::Rooms;
use super::version::{Part, Parts};
use crate::document::StoredDocument;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::graph::{DocumentEdge, GraphPart, Live, RelationEdge};
use crate::ids::{Lsn, Seq};
use crate::memtable::{MemCollection, Totals};
use crate::metadata::{Beside, evaluate};
use crate::options::{AnalyzerKind, Effort};
use crate::text::{Posting, TextPart};
use crate::vector::{self, Admitted, Found, QueryVector};
use roaring::RoaringBitmap;
use std::borrow::Cow;

impl Part {
    /// Rows, dead ones included.
    pub(crate) fn row_count(&self) -> u32 {
        match self {
            Part::Segment(s) => s.rows(),
            Part::Memory(m) => m.row_count(),
        }
    }

    /// Whether the row is seen at `lsn`.
    #[inline]
    pub(crate) fn visible(&self, row: u32, lsn: Lsn) -> Result<bool> {
        match self {
            Part::Segment(s) => Ok(s.rooms()?.deaths.lives(row, lsn)),
            Part::Memory(m) => Ok(m.row(row).is_some_and(|r| r.visible(lsn))),
        }
    }

    /// The row of `id` that is seen at `lsn`.
    pub(crate) fn find(&self, id: &str, lsn: Lsn) -> Result<Option<u32>> {
        match self {
            Part::Segment(s) => s.find(id, lsn),
            Part::Memory(m) => Ok(m.find(id, lsn)),
        }
    }

    /// The row of `seq`, dead or alive.
    pub(crate) fn row_of_seq(&self, seq: Seq) -> Result<Option<u32>> {
        match self {
            Part::Segment(s) => s.row_of_seq(seq),
            Part::Memory(m) => Ok(m.row_of_seq(seq)),
        }
    }

    /// The seq of a row.
    pub(crate) fn seq(&self, row: u32) -> Result<Seq> {
        match self {
            Part::Segment(s) => s.rooms()?.rows.seq(row),
            Part::Memory(m) => Ok(memory_row(m, row).seq),
        }
    }

    /// The id of a row.
    pub(crate) fn id(&self, row: u32) -> Result<Cow<'_, str>> {
        match self {
            Part::Segment(s) => s.rooms()?.rows.id(row),
            Part::Memory(m) => Ok(Cow::Borrowed(&memory_row(m, row).document.id)),
        }
    }

    /// The document of a row, with its vector when asked for.
    pub(crate) fn document(&self, row: u32, with_vector: bool) -> Result<StoredDocument> {
        match self {
            Part::Segment(s) => {
                let rooms = s.rooms()?;
                let mut document = rooms.rows.document(row)?;
                if with_vector && let Some(vectors) = &rooms.vectors {
                    document.vector = vectors.get(row)?.map(|v| v.into_owned().into());
                }
                Ok(document)
            }
            Part::Memory(m) => {
                let document = &memory_row(m, row).document;
                let vector = document.vector.clone().filter(|_| with_vector);
                Ok(StoredDocument { vector, ..StoredDocument::clone(document) })
            }
        }
    }

    /// What a row adds to the totals.
    pub(crate) fn row_totals(&self, row: u32) -> Result<Totals> {
        match self {
            Part::Segment(s) => s.row_totals(row),
            Part::Memory(m) => Ok(memory_row(m, row).totals()),
        }
    }

    /// As [`Part::row_totals`]; a length that is damaged is counted in the text. For who cannot refuse: the death of the row was acknowledged.
    pub(crate) fn row_totals_anew(&self, row: u32, analyzer: AnalyzerKind) -> Result<Totals> {
        match (self, self.row_totals(row)) {
            (Part::Segment(s), Err(Error::Corrupt(_))) => s.row_totals_of_text(row, analyzer),
            (_, totals) => totals,
        }
    }

    /// The rows of a source that are seen at `lsn`, ascending.
    pub(crate) fn source_rows(&self, source: &str, lsn: Lsn) -> Result<Vec<u32>> {
        match self {
            Part::Segment(s) => {
                let rooms = s.rooms()?;
                let mut rows = rooms.rows.source_rows(source)?;
                rows.retain(|&row| rooms.deaths.lives(row, lsn));
                Ok(rows)
            }
            Part::Memory(m) => Ok(m.source_rows(source, lsn)),
        }
    }

    /// Calls `sink` with every source that has rows seen at `lsn`, and those rows.
    pub(crate) fn for_each_source(&self, lsn: Lsn, mut sink: impl FnMut(&str, Vec<u32>)) -> Result<()> {
        match self {
            Part::Segment(s) => {
                let rooms = s.rooms()?;
                for entry in rooms.rows.sources() {
                    let (source, mut rows) = entry?;
                    rows.retain(|&row| rooms.deaths.lives(row, lsn));
                    if !rows.is_empty() {
                        sink(&source, rows);
                    }
                }
            }
            Part::Memory(m) => {
                for (source, list) in m.sources() {
                    let mut rows = Vec::new();
                    list.for_each(|row, _| {
                        if m.row(row).is_some_and(|r| r.visible(lsn)) {
                            rows.push(row);
                        }
                    });
                    if !rows.is_empty() {
                        sink(&source, rows);
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows seen at `lsn` whose documents match a filter, ascending. A filter that few match costs what those few cost.
    pub(crate) fn matching(&self, filter: &Filter, lsn: Lsn) -> Result<RoaringBitmap> {
        let mut beside = BesideMetadata { part: self, lsn };
        let mut rows = match self {
            Part::Segment(s) => match &s.rooms()?.metadata {
                Some(index) => evaluate(filter, index, &mut beside)?,
                None => {
                    let mut rows = RoaringBitmap::new();
                    for row in 0..s.rows() {
                        if beside.matches(row, &[filter])? {
                            rows.insert(row);
                        }
                    }
                    rows
                }
            },
            Part::Memory(m) => evaluate(filter, &m.metadata().first_rows(m.rows_born_by(lsn)), &mut beside)?,
        };
        match self {
            // Of a segment the deaths are listed: what lives costs nothing.
            Part::Segment(s) if s.dead_rows(lsn) == 0 => {}
            Part::Segment(s) => s.rooms()?.deaths.for_each(lsn, |row, _| {
                rows.remove(row);
            }),
            Part::Memory(m) => {
                let dead: RoaringBitmap = rows.iter().filter(|&row| !m.row(row).is_some_and(|r| r.visible(lsn))).collect();
                rows -= dead;
            }
        }
        Ok(rows)
    }

    /// Scores every vector of these rows, which are seen at the snapshot's lsn.
    pub(crate) fn score_rows(&self, query: &QueryVector, rows: &RoaringBitmap, mut sink: impl FnMut(u32, f64)) -> Result<()> {
        match self {
            Part::Segment(s) => {
                let Some(vectors) = &s.rooms()?.vectors else { return Ok(()) };
                for row in rows {
                    if let Some(score) = vectors.score(query, row)? {
                        sink(row, score);
                    }
                }
            }
            Part::Memory(m) => {
                for row in rows {
                    let r = memory_row(m, row);
                    if let Some(vector) = &r.document.vector {
                        sink(row, query.score(vector, r.inverse_norm));
                    }
                }
            }
        }
        Ok(())
    }

    /// Walks the vector graph, when the part has one and a walk costs less than a scan, and offers the nearest with their scores.
    pub(crate) fn nearest(
        &self,
        query: &QueryVector,
        lsn: Lsn,
        admitted: Option<&RoaringBitmap>,
        effort: Effort,
        k: usize,
        sink: &mut dyn FnMut(u32, f64),
    ) -> Result<Found> {
        let Part::Segment(s) = self else { return Ok(Found::Scan) };
        let rooms = s.rooms()?;
        let Some(vectors) = &rooms.vectors else { return Ok(Found::Scan) };
        let lives = |row: u32| rooms.deaths.lives(row, lsn);
        let admitted = match admitted {
            Some(rows) => Admitted::Only(rows),
            None => match s.dead_rows(lsn) {
                0 => Admitted::All,
                dead => Admitted::Living { dead, lives: &lives },
            },
        };
        vector::nearest(vectors, query, admitted, effort, k, sink)
    }

    /// Scores every vector seen at `lsn`.
    pub(crate) fn scan_vectors(&self, query: &QueryVector, lsn: Lsn, mut sink: impl FnMut(u32, f64)) -> Result<()> {
        match self {
            Part::Segment(s) => {
                let rooms = s.rooms()?;
                let Some(vectors) = &rooms.vectors else { return Ok(()) };
                vectors.scan(query, |row| rooms.deaths.lives(row, lsn), sink)
            }
            Part::Memory(m) => {
                for (row, r) in m.rows_at(lsn) {
                    if let Some(vector) = &r.document.vector
                        && r.visible(lsn)
                    {
                        sink(row, query.score(vector, r.inverse_norm));
                    }
                }
                Ok(())
            }
        }
    }
}

impl Parts {
    /// Part and row of the document that holds `id` at this lsn. The youngest part is asked first: it is where a replaced id lives.
    pub(crate) fn find(&self, id: &str) -> Result<Option<(usize, u32)>> {
        for (i, part) in self.parts.iter().enumerate().rev() {
            if let Some(row) = part.find(id, self.lsn)? {
                return Ok(Some((i, row)));
            }
        }
        Ok(None)
    }

    /// Of each part, the rows that match a filter.
    pub(crate) fn matching(&self, filter: &Filter) -> Result<Vec<RoaringBitmap>> {
        self.parts.iter().map(|part| part.matching(filter, self.lsn)).collect()
    }

    /// The parts as the graph room reads them.
    pub(crate) fn graph(&self) -> Result<Vec<GraphView<'_>>> {
        self.parts
            .iter()
            .map(|part| {
                Ok(match part {
                    Part::Segment(s) => GraphView::Segment { rooms: s.rooms()?, lsn: self.lsn },
                    Part::Memory(m) => GraphView::Memory { rows: m, lsn: self.lsn },
                })
            })
            .collect()
    }

    /// The parts as the text room reads them.
    pub(crate) fn text<'a>(&'a self, admitted: Option<&'a [RoaringBitmap]>) -> Vec<TextView<'a>> {
        let view = |(i, part)| TextView { part, lsn: self.lsn, admitted: admitted.map(|a| &a[i]) };
        self.parts.iter().enumerate().map(view).collect()
    }
}

/// One part at one lsn, for text search: only what is seen then exists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextView<'a> {
    part: &'a Part,
    lsn: Lsn,
    /// The rows that may be answers; all when absent.
    admitted: Option<&'a RoaringBitmap>,
}

impl TextPart for TextView<'_> {
    fn collect(&self, term: &str, out: &mut Vec<Posting>) -> Result<()> {
        match self.part {
            Part::Segment(s) => {
                let rooms = s.rooms()?;
                let Some(text) = &rooms.text else { return Ok(()) };
                let Some(info) = text.term(term.as_bytes())? else { return Ok(()) };
                let from = out.len();
                text.postings(&info, out)?;
                let mut kept = from;
                for i in from..out.len() {
                    if rooms.deaths.lives(out[i].row, self.lsn) {
                        out[kept] = out[i];
                        kept += 1;
                    }
                }
                out.truncate(kept);
            }
            Part::Memory(m) => {
                if let Some(list) = m.postings(term) {
                    list.for_each(|row, frequency| {
                        if m.row(row).is_some_and(|r| r.visible(self.lsn)) {
                            out.push(Posting { row, frequency });
                        }
                    });
                }
            }
        }
        Ok(())
    }

    fn length(&self, row: u32) -> Result<u32> {
        match self.part {
            Part::Segment(s) => s.rooms()?.text.as_ref().map_or(Ok(0), |t| t.length(row)),
            Part::Memory(m) => Ok(memory_row(m, row).tokens),
        }
    }

    fn seq(&self, row: u32) -> Result<Seq> {
        self.part.seq(row)
    }

    fn admits(&self, row: u32) -> bool {
        self.admitted.is_none_or(|rows| rows.contains(row))
    }
}

/// Whether a document matches a filter.
pub(crate) fn matches(filter: &Filter, document: &StoredDocument) -> bool {
    let metadata = document.metadata.as_ref().map(crate::document::Metadata::to_object).unwrap_or_default();
    filter.matches(&metadata, &document.text, document.source.as_deref())
}

/// What a filter asks of a part at one lsn beside its index of metadata.
struct BesideMetadata<'a> {
    part: &'a Part,
    lsn: Lsn,
}

impl Beside for BesideMetadata<'_> {
    fn matches(&mut self, row: u32, filters: &[&Filter]) -> Result<bool> {
        // Of a memtable's row the document is at hand; of a segment's it is read.
        let document = self.part.document(row, false)?;
        Ok(filters.iter().all(|f| matches(f, &document)))
    }

    fn of_source(&mut self, source: Option<&str>) -> Result<RoaringBitmap> {
        if let Some(source) = source {
            return Ok(self.part.source_rows(source, self.lsn)?.into_iter().collect());
        }
        let mut rows = RoaringBitmap::new();
        self.part.for_each_source(self.lsn, |_, of_it| rows.extend(of_it))?;
        Ok(rows)
    }
}

/// One part at one lsn, for the graph: only rows that are seen then exist.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GraphView<'a> {
    Segment { rooms: &'a Rooms, lsn: Lsn },
    Memory { rows: &'a MemCollection, lsn: Lsn },
}

/// Calls a method on the living part of either kind.
macro_rules! on_live {
    ($view:expr, $live:ident => $call:expr) => {
        match $view {
            GraphView::Segment { rooms, lsn } => {
                let $live = Live { part: rooms.graph.as_ref(), live: |row| rooms.deaths.lives(row, *lsn) };
                $call
            }
            GraphView::Memory { rows, lsn } => {
                let $live = Live { part: rows.graph(), live: |row| rows.row(row).is_some_and(|r| r.visible(*lsn)) };
                $call
            }
        }
    };
}

impl GraphPart for GraphView<'_> {
    fn entity(&self, key: &str) -> Result<Option<u32>> {
        on_live!(self, live => live.entity(key))
    }

    fn key(&self, entity: u32) -> Result<Cow<'_, str>> {
        match self {
            GraphView::Segment { rooms, .. } => rooms.graph.as_ref().map_or(Ok(Cow::Borrowed("")), |g| g.key(entity)),
            GraphView::Memory { rows, .. } => rows.graph().map_or(Ok(Cow::Borrowed("")), |g| g.key(entity)),
        }
    }

    fn name(&self, entity: u32, name: u32) -> Result<Cow<'_, str>> {
        match self {
            GraphView::Segment { rooms, .. } => rooms.graph.as_ref().map_or(Ok(Cow::Borrowed("")), |g| g.name(entity, name)),
            GraphView::Memory { rows, .. } => rows.graph().map_or(Ok(Cow::Borrowed("")), |g| g.name(entity, name)),
        }
    }

    fn for_each_document(&self, entity: u32, sink: &mut dyn FnMut(DocumentEdge)) -> Result<()> {
        on_live!(self, live => live.for_each_document(entity, sink))
    }

    fn for_each_entity(&self, row: u32, sink: &mut dyn FnMut(u32)) -> Result<()> {
        on_live!(self, live => live.for_each_entity(row, sink))
    }

    fn for_each_relation(&self, entity: u32, sink: &mut dyn FnMut(RelationEdge)) -> Result<()> {
        on_live!(self, live => live.for_each_relation(entity, sink))
    }

    fn for_each_outgoing(&self, entity: u32, sink: &mut dyn FnMut(RelationEdge)) -> Result<()> {
        on_live!(self, live => live.for_each_outgoing(entity, sink))
    }

    fn for_each_key(&self, sink: &mut dyn FnMut(u32, &str)) -> Result<()> {
        on_live!(self, live => live.for_each_key(sink))
    }
}

/// A row that some structure of the memtable named.
fn memory_row(m: &crate::memtable::MemCollection, row: u32) -> &crate::memtable::MemRow {
    m.row(row).expect("a memtable's structures name rows that it holds")
}

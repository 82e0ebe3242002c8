//! One way to read a row, whether a segment or a memtable holds it.

use super::version::{Part, Parts};
use crate::document::StoredDocument;
use crate::error::Result;
use crate::ids::{Lsn, Seq};
use crate::memtable::Totals;
use crate::text::{Posting, TextPart};
use crate::vector::QueryVector;
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

    /// Calls `sink` with every source that has rows seen at `lsn`, and their number.
    pub(crate) fn for_each_source(&self, lsn: Lsn, mut sink: impl FnMut(&str, u64)) -> Result<()> {
        match self {
            Part::Segment(s) => {
                let rooms = s.rooms()?;
                for entry in rooms.rows.sources() {
                    let (source, rows) = entry?;
                    let live = rows.iter().filter(|&&row| rooms.deaths.lives(row, lsn)).count() as u64;
                    if live > 0 {
                        sink(&source, live);
                    }
                }
            }
            Part::Memory(m) => {
                for (source, list) in m.sources() {
                    let mut live = 0;
                    list.for_each(|row, _| live += u64::from(m.row(row).is_some_and(|r| r.visible(lsn))));
                    if live > 0 {
                        sink(&source, live);
                    }
                }
            }
        }
        Ok(())
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

    /// The parts as the text room reads them.
    pub(crate) fn text(&self) -> Vec<TextView<'_>> {
        self.parts.iter().map(|part| TextView { part, lsn: self.lsn }).collect()
    }
}

/// One part at one lsn, for text search: only what is seen then exists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextView<'a> {
    part: &'a Part,
    lsn: Lsn,
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
}

/// A row that some structure of the memtable named.
fn memory_row(m: &crate::memtable::MemCollection, row: u32) -> &crate::memtable::MemRow {
    m.row(row).expect("a memtable's structures name rows that it holds")
}

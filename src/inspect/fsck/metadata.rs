//! Levels 2 and 3 of the metadata index of a segment.

use super::check::{At, Progress};
use super::codes::FindingCode as Code;
use crate::docstore::RowsReader;
use crate::error::Result;
use crate::format::metadata::{ENTRY_BYTES, LIST_HEADER_BYTES, MetadataListHeader, MetadataRowsEntry, RowsPlace};
use crate::format::segment::SectionKind;
use crate::format::transducer::Transducer;
use crate::metadata::{MetadataIndex, MetadataReader, keys};
use crate::segment::{Section, SegmentReader, TouchedBytes};
use roaring::RoaringBitmap;

/// Both sections, open.
pub(super) struct Index {
    terms: Section,
    lists: Section,
    fst: Transducer<TouchedBytes>,
    rows: u32,
}

impl Index {
    /// Opens the index; `None`, and a finding, when the segment has none.
    pub(super) fn open(reader: &SegmentReader, rows: u32, at: &mut At<'_>) -> Result<Option<Index>> {
        let Some(index) = MetadataReader::open(reader)? else {
            at.note(Code::MetadataIndex, None, 0, "the segment has no metadata index");
            return Ok(None);
        };
        let (terms, lists) = (reader.require(SectionKind::MetadataTerms)?, reader.require(SectionKind::MetadataRows)?);
        if index.rows() != rows {
            return Err(terms.corrupt(0, format!("the index is of {} rows, the segment has {rows}", index.rows())));
        }
        let fst = Transducer::open(terms.touched(terms.len())?)?;
        fst.verify()?;
        if fst.len() != index.key_count() {
            return Err(terms.corrupt(0, format!("{} keys in the fst, expected {}", fst.len(), index.key_count())));
        }
        Ok(Some(Index { terms, lists, fst, rows }))
    }

    /// The rows of the key of this rank.
    fn rows_of(&self, ordinal: u64) -> Result<RoaringBitmap> {
        self.list(ordinal, &mut None)
    }

    /// The rows of a key. With a place where its list has to start, if it has one: the place where the next one has to.
    fn list(&self, ordinal: u64, starts: &mut Option<u64>) -> Result<RoaringBitmap> {
        let (lists, end) = (&self.lists, self.lists.aux());
        let at = end + ordinal * ENTRY_BYTES;
        let place = MetadataRowsEntry::decode(&lists.read(at..at + ENTRY_BYTES)?, self.rows, end);
        match place.map_err(|e| lists.corrupt(at + e.offset, e.what))? {
            RowsPlace::Sole(row) => Ok(RoaringBitmap::from_iter([row])),
            RowsPlace::List(at) => {
                let header = MetadataListHeader::decode(&lists.read(at..at + LIST_HEADER_BYTES)?, at, self.rows, end);
                let header = header.map_err(|e| lists.corrupt(at + e.offset, e.what))?;
                let start = at + LIST_HEADER_BYTES;
                let end = start + u64::from(header.length.get());
                if let Some(wanted) = starts.replace(end).filter(|wanted| *wanted != at) {
                    return Err(lists.corrupt(at, format!("a list starts here, the one before ends at {wanted}")));
                }
                let bytes = lists.read(start..end)?;
                header.decode_list(&bytes, self.rows).map_err(|e| lists.corrupt(start + e.offset, e.what))
            }
        }
    }

    /// Keys are numbered in their order, and every list is one of rows of the segment.
    pub(super) fn structure(&self) -> Result<()> {
        let mut stream = self.fst.stream();
        let mut end = Some(0);
        for rank in 0..self.fst.len() {
            match stream.next()? {
                Some((_, ordinal)) if ordinal == rank => {}
                _ => return Err(self.terms.corrupt(0, format!("the key of rank {rank} is not where the order puts it"))),
            }
            self.list(rank, &mut end)?;
        }
        match end {
            Some(end) if end != self.lists.aux() => {
                Err(self.lists.corrupt(end, format!("the lists end at byte {end} of {}", self.lists.aux())))
            }
            _ => Ok(()),
        }
    }

    /// Makes the keys of every document again and compares.
    pub(super) fn semantics(&self, rows: &RowsReader, progress: &mut Progress<'_>) -> Result<()> {
        let mut expected: Vec<(u64, u32)> = Vec::new();
        let mut scanner = rows.scanner();
        for row in 0..rows.rows() {
            if row.is_multiple_of(1024) {
                progress.add(0)?;
            }
            let Some(metadata) = scanner.document(row)?.metadata else { continue };
            for key in keys(&metadata).iter() {
                let Some(ordinal) = self.fst.get(key)? else {
                    let what = format!("row {row} has the key {:?}, which is not in the index", String::from_utf8_lossy(key));
                    return Err(self.terms.corrupt(0, what));
                };
                expected.push((ordinal, row));
            }
        }
        expected.sort_unstable();
        let mut expected = expected.into_iter().peekable();
        for ordinal in 0..self.fst.len() {
            let found = self.rows_of(ordinal)?;
            let mut wanted = Vec::new();
            while let Some((_, row)) = expected.next_if(|(o, _)| *o == ordinal) {
                wanted.push(row);
            }
            if !found.iter().eq(wanted.iter().copied()) {
                let what = format!("the key of rank {ordinal} has {} rows, the stored metadata gives {}", found.len(), wanted.len());
                return Err(self.lists.corrupt(self.lists.aux() + ordinal * ENTRY_BYTES, what));
            }
        }
        Ok(())
    }
}

//! Reads the metadata index of one segment.

use super::{KeyRange, MetadataIndex};
use crate::error::Result;
use crate::format::metadata::{ENTRY_BYTES, LIST_HEADER_BYTES, MetadataListHeader, MetadataRowsEntry, RowsPlace};
use crate::format::segment::SectionKind;
use crate::format::transducer::Transducer;
use crate::options::limits;
use crate::segment::{Section, SegmentReader, TouchedBytes};
use roaring::RoaringBitmap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Entries that are read at once: a checksummed block of them.
const ENTRIES_AT_ONCE: u64 = 512;
/// Single rows that are gathered before they are sorted into the answer.
const SOLE_ROWS_AT_ONCE: usize = 1 << 16;
/// Ranges of at most this many keys are asked how long their lists are.
const KEYS_MEASURED: u64 = 4;
/// Rows of a list that take as long to read as a key takes to look up.
const ROWS_PER_KEY: u64 = 64;

/// The metadata index of one segment, open for reading. Cheap to clone; `Send + Sync`. Dead rows are in it.
#[derive(Debug, Clone)]
pub struct MetadataReader {
    inner: Arc<Inner>,
}

struct Inner {
    terms: Section,
    lists: Section,
    rows: u32,
    keys: u64,
    dictionary: OnceLock<Transducer<TouchedBytes>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MetadataReader({} keys of {} rows)", self.keys, self.rows)
    }
}

impl MetadataReader {
    /// Opens the index of a segment; `None` when it was written without. O(1): the dictionary is opened at its first use.
    pub fn open(segment: &SegmentReader) -> Result<Option<MetadataReader>> {
        if segment.section(SectionKind::MetadataTerms).is_none() && segment.section(SectionKind::MetadataRows).is_none() {
            return Ok(None);
        }
        let (terms, lists) = (segment.require(SectionKind::MetadataTerms)?, segment.require(SectionKind::MetadataRows)?);
        let rows = u32::try_from(terms.aux()).ok().filter(|_| terms.aux() <= limits::SEGMENT_ROWS_MAX);
        let rows = rows.ok_or_else(|| terms.corrupt(0, format!("{} rows; at most {} are allowed", terms.aux(), limits::SEGMENT_ROWS_MAX)))?;
        let keys = terms.items();
        let expected = keys.checked_mul(ENTRY_BYTES).and_then(|entries| entries.checked_add(lists.aux()));
        if lists.items() != keys || expected != Some(lists.len()) {
            let what = format!(
                "{} entries and {} bytes of lists in {} bytes, expected {keys} entries",
                lists.items(),
                lists.aux(),
                lists.len()
            );
            return Err(lists.corrupt(0, what));
        }
        Ok(Some(MetadataReader { inner: Arc::new(Inner { terms, lists, rows, keys, dictionary: OnceLock::new() }) }))
    }

    /// Distinct keys.
    pub fn key_count(&self) -> u64 {
        self.inner.keys
    }
}

impl MetadataIndex for MetadataReader {
    fn rows(&self) -> u32 {
        self.inner.rows
    }

    fn cost(&self, range: &KeyRange, _enough: u64) -> Result<u64> {
        let ordinals = self.inner.ordinals(range)?;
        let mut cost = ordinals.end - ordinals.start;
        if cost <= KEYS_MEASURED {
            for ordinal in ordinals {
                if let RowsPlace::List(at) = self.inner.place(ordinal)? {
                    cost += u64::from(self.inner.header(at)?.rows.get()) / ROWS_PER_KEY;
                }
            }
        }
        Ok(cost)
    }

    fn collect(&self, range: &KeyRange, out: &mut RoaringBitmap) -> Result<()> {
        let Range { mut start, end } = self.inner.ordinals(range)?;
        let mut sole = Vec::new();
        while start < end {
            let next = end.min(start + ENTRIES_AT_ONCE);
            let entries = self.inner.entries(start..next)?;
            for (ordinal, entry) in (start..).zip(entries.chunks_exact(ENTRY_BYTES as usize)) {
                match self.inner.decode_entry(ordinal, entry)? {
                    RowsPlace::Sole(row) => sole.push(row),
                    RowsPlace::List(at) => *out |= self.inner.list(at)?,
                }
            }
            if sole.len() >= SOLE_ROWS_AT_ONCE || next == end {
                sole.sort_unstable();
                sole.dedup();
                *out |= RoaringBitmap::from_sorted_iter(sole.drain(..)).expect("sorted above");
            }
            start = next;
        }
        Ok(())
    }
}

impl Inner {
    fn dictionary(&self) -> Result<&Transducer<TouchedBytes>> {
        if let Some(dictionary) = self.dictionary.get() {
            return Ok(dictionary);
        }
        let dictionary = Transducer::open(self.terms.touched(self.terms.len())?)?;
        if dictionary.len() != self.keys {
            return Err(self.terms.corrupt(0, format!("{} keys in the fst, expected {}", dictionary.len(), self.keys)));
        }
        Ok(self.dictionary.get_or_init(|| dictionary))
    }

    /// The ordinals of the keys in a range.
    fn ordinals(&self, range: &KeyRange) -> Result<Range<u64>> {
        let (start, end) = (self.first_from(range.from())?, self.first_from(range.to())?);
        if start > end {
            return Err(self.terms.corrupt(0, format!("the ordinals {start} and {end} of two keys do not ascend")));
        }
        Ok(start..end)
    }

    /// The ordinal of the first key at or above this one; the number of keys when there is none.
    fn first_from(&self, key: &[u8]) -> Result<u64> {
        match self.dictionary()?.first_from(key)? {
            None => Ok(self.keys),
            Some(ordinal) if ordinal < self.keys => Ok(ordinal),
            Some(ordinal) => Err(self.terms.corrupt(0, format!("a key has the ordinal {ordinal} of {}", self.keys))),
        }
    }

    /// The entries of these ordinals, which are below the number of keys.
    fn entries(&self, ordinals: Range<u64>) -> Result<std::borrow::Cow<'_, [u8]>> {
        let at = self.lists.aux();
        self.lists.read(at + ordinals.start * ENTRY_BYTES..at + ordinals.end * ENTRY_BYTES)
    }

    fn place(&self, ordinal: u64) -> Result<RowsPlace> {
        self.decode_entry(ordinal, &self.entries(ordinal..ordinal + 1)?)
    }

    fn decode_entry(&self, ordinal: u64, bytes: &[u8]) -> Result<RowsPlace> {
        MetadataRowsEntry::decode(bytes, self.rows, self.lists.aux())
            .map_err(|e| self.lists.corrupt(self.lists.aux() + ordinal * ENTRY_BYTES + e.offset, e.what))
    }

    fn header(&self, at: u64) -> Result<MetadataListHeader> {
        let bytes = self.lists.read(at..at + LIST_HEADER_BYTES)?;
        MetadataListHeader::decode(&bytes, at, self.rows, self.lists.aux()).map_err(|e| self.lists.corrupt(at + e.offset, e.what))
    }

    fn list(&self, at: u64) -> Result<RoaringBitmap> {
        let header = self.header(at)?;
        let start = at + LIST_HEADER_BYTES;
        let bytes = self.lists.read(start..start + u64::from(header.length.get()))?;
        header.decode_list(&bytes, self.rows).map_err(|e| self.lists.corrupt(start + e.offset, e.what))
    }
}

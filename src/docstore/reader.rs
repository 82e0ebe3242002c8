//! Single rows, by row, id or seq.

use super::scan::RowsScanner;
use crate::document::StoredDocument;
use crate::error::{Error, Result};
use crate::format::docs::{DOC_INDEX_ENTRY_BYTES, DocBlock, DocIndexEntry};
use crate::format::document::decode_body;
use crate::format::error::FormatError;
use crate::format::ids::{SeqWidth, check_id_map, check_ids, first_bucket, ids_text_start, name_range, row_in_bucket};
use crate::format::row_hash::id_hash;
use crate::format::segment::SectionKind;
use crate::format::sources::SourcesLayout;
use crate::ids::Seq;
use crate::segment::{Section, SegmentReader};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// The rows of one open segment. Cheap to clone; `Send + Sync`.
#[derive(Debug, Clone)]
pub struct RowsReader {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) base: Seq,
    pub(super) rows: u32,
    docs: Section,
    doc_index: Section,
    pub(super) ids: Section,
    pub(super) ids_text_bytes: u64,
    pub(super) seqs: Section,
    pub(super) seq_width: SeqWidth,
    /// Its section and number of buckets; or why it cannot be used. It is derived: rows are read without it.
    id_map: Result<(Section, u64)>,
    pub(super) sources: Section,
    pub(super) sources_layout: SourcesLayout,
}

/// Damage in `section`, found by a decoder in bytes that began at `at`.
pub(super) fn located(section: &Section, at: u64) -> impl Fn(FormatError) -> Error {
    move |e| {
        let damage = section.corrupt(at.saturating_add(e.offset), e.what.clone());
        if let (Error::Corrupt(c), true) = (&damage, e.newer) {
            return FormatError { offset: 0, ..e }.in_file(&c.file, c.offset);
        }
        damage
    }
}

/// UTF-8 of `section` in the bytes `range`.
pub(super) fn text(section: &Section, range: Range<u64>) -> Result<Cow<'_, str>> {
    let at = range.start;
    let not_text = |e: std::str::Utf8Error| section.corrupt(at + e.valid_up_to() as u64, "a name is not UTF-8");
    match section.read(range)? {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(not_text),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|e| not_text(e.utf8_error())),
    }
}

impl RowsReader {
    /// Opens the rows of `segment`, whose seqs count from `base_seq`. O(1): compares what the section table says; reads no section.
    ///
    /// # Errors
    /// `Corrupt` when a section is missing or its size does not fit the number of rows. Of the map from ids to rows only finding by id says so.
    pub fn open(segment: &SegmentReader, base_seq: Seq) -> Result<RowsReader> {
        let ids = segment.require(SectionKind::Ids)?;
        let rows = check_ids(ids.items(), ids.aux(), ids.len()).map_err(located(&ids, 0))?;
        let docs = segment.require(SectionKind::Docs)?;
        if docs.items() != u64::from(rows) {
            return Err(docs.corrupt(0, format!("{} documents, but {rows} ids", docs.items())));
        }
        let doc_index = segment.require(SectionKind::DocIndex)?;
        let blocks = doc_index.items();
        if blocks.checked_mul(DOC_INDEX_ENTRY_BYTES) != Some(doc_index.len()) || blocks > u64::from(rows) {
            return Err(doc_index.corrupt(0, format!("{} bytes do not index {blocks} blocks of {rows} rows", doc_index.len())));
        }
        let seqs = segment.require(SectionKind::Seqs)?;
        let seq_width = SeqWidth::decode(seqs.aux(), seqs.len(), rows).map_err(located(&seqs, 0))?;
        if seqs.items() != u64::from(rows) {
            return Err(seqs.corrupt(0, format!("{} seqs, but {rows} ids", seqs.items())));
        }
        let sources = segment.require(SectionKind::Sources)?;
        let sources_layout = SourcesLayout::decode(sources.items(), sources.aux(), sources.len(), rows).map_err(located(&sources, 0))?;
        let id_map = segment.require(SectionKind::IdMap).and_then(|map| {
            let buckets = check_id_map(map.items(), map.aux(), map.len(), rows).map_err(located(&map, 0))?;
            Ok((map, buckets))
        });
        let ids_text_bytes = ids.aux();
        Ok(RowsReader {
            inner: Arc::new(Inner {
                base: base_seq,
                rows,
                docs,
                doc_index,
                ids,
                ids_text_bytes,
                seqs,
                seq_width,
                id_map,
                sources,
                sources_layout,
            }),
        })
    }

    /// Whether rows can be found by id, as far as the section table says.
    pub(crate) fn check_id_map(&self) -> Result<()> {
        self.inner.id_map.as_ref().map(drop).map_err(Error::duplicate)
    }

    /// How many rows there are, dead ones included.
    pub fn rows(&self) -> u32 {
        self.inner.rows
    }

    /// The id of `row`. O(1).
    ///
    /// # Errors
    /// `Corrupt` on damage, and when there is no such row: a row that another section named.
    pub fn id(&self, row: u32) -> Result<Cow<'_, str>> {
        let ids = &self.inner.ids;
        self.check_row(ids, row)?;
        let at = u64::from(row) * 8;
        let name = name_range(&ids.read(at..at + 16)?, self.inner.ids_text_bytes).map_err(located(ids, at))?;
        let start = ids_text_start(self.inner.rows);
        text(ids, start + name.start..start + name.end)
    }

    /// The greatest row with this id. Expected O(1), and never more than one pass over the map, whatever its bytes are.
    pub fn find(&self, id: &str) -> Result<Option<u32>> {
        let mut found = None;
        self.find_all(id, |row| {
            found = found.max(Some(row));
            Ok(false)
        })?;
        Ok(found)
    }

    /// Hands every row with this id to `each`, in ascending order, until it answers `true` (stop). An id has more than one row only when an
    /// older version died after it was written to this segment's input.
    pub fn find_all(&self, id: &str, mut each: impl FnMut(u32) -> Result<bool>) -> Result<()> {
        /// Buckets read at once: one cache line, which no block boundary divides.
        const GROUP: u64 = 8;
        let (map, buckets) = self.inner.id_map.as_ref().map(|(map, buckets)| (map, *buckets)).map_err(Error::duplicate)?;
        let hash = id_hash(id);
        let (mut at, mut left) = (first_bucket(hash, buckets), buckets);
        while left > 0 {
            let end = (at / GROUP * GROUP + GROUP).min(buckets).min(at + left);
            let bytes = map.read(at * 8..end * 8)?;
            for (i, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
                let bucket = u64::from_le_bytes(*word);
                if bucket == 0 {
                    return Ok(());
                }
                let Some(row) = row_in_bucket(bucket, hash) else { continue };
                if row >= self.inner.rows {
                    return Err(map.corrupt((at + i as u64) * 8, format!("a bucket names row {row} of {}", self.inner.rows)));
                }
                if *self.id(row)? == *id && each(row)? {
                    return Ok(());
                }
            }
            left -= end - at;
            at = if end == buckets { 0 } else { end };
        }
        Ok(())
    }

    /// The seq of `row`. O(1).
    ///
    /// # Errors
    /// `Corrupt` on damage, and when there is no such row.
    pub fn seq(&self, row: u32) -> Result<Seq> {
        self.check_row(&self.inner.seqs, row)?;
        let relative = self.relative_seq(row)?;
        match self.inner.base.0.checked_add(relative) {
            Some(seq) => Ok(Seq(seq)),
            None => {
                Err(self.inner.seqs.corrupt(self.inner.seq_width.range(row).start, format!("seq {relative} from {} on", self.inner.base)))
            }
        }
    }

    /// As [`RowsReader::seq`], of a row whose seq has to be above `before`, that of the row before it. O(1).
    ///
    /// # Errors
    /// `Corrupt` as well when it is not.
    pub fn seq_after(&self, row: u32, before: Option<Seq>) -> Result<Seq> {
        let seq = self.seq(row)?;
        match before.filter(|before| seq <= *before) {
            None => Ok(seq),
            Some(before) => {
                let what = format!("row {row} has seq {seq}, the row before it {before}");
                Err(self.inner.seqs.corrupt(self.inner.seq_width.range(row).start, what))
            }
        }
    }

    /// The row with this seq. O(log rows).
    pub fn row_of_seq(&self, seq: Seq) -> Result<Option<u32>> {
        let Some(wanted) = seq.0.checked_sub(self.inner.base.0) else { return Ok(None) };
        if self.inner.seq_width == SeqWidth::Consecutive {
            return Ok(u32::try_from(wanted).ok().filter(|row| *row < self.inner.rows));
        }
        let (mut low, mut high) = (0, self.inner.rows);
        let (mut at_least, mut below) = (0, None);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.relative_seq(middle)?;
            if found < at_least || below.is_some_and(|b| found >= b) {
                return Err(self.inner.seqs.corrupt(self.inner.seq_width.range(middle).start, format!("seq {found} is out of order")));
            }
            match found.cmp(&wanted) {
                std::cmp::Ordering::Equal => return Ok(Some(middle)),
                std::cmp::Ordering::Less => (low, at_least) = (middle + 1, found + 1),
                std::cmp::Ordering::Greater => (high, below) = (middle, Some(found)),
            }
        }
        Ok(None)
    }

    /// The document of `row`, without its vector. Reads and decompresses one block; for many rows see [`RowsReader::scanner`].
    ///
    /// # Errors
    /// `Corrupt` on damage, and when there is no such row.
    pub fn document(&self, row: u32) -> Result<StoredDocument> {
        let (_, entry) = self.find_block(row)?;
        self.document_in(&self.block(&entry)?, entry.offset.get(), row, self.id(row)?.into())
    }

    /// Reads documents of ascending rows: each block is decompressed once.
    pub fn scanner(&self) -> RowsScanner {
        RowsScanner::new(self.clone())
    }

    /// The number of the block that holds `row`, and what the index says of it. O(log blocks).
    pub(super) fn find_block(&self, row: u32) -> Result<(u64, DocIndexEntry)> {
        self.check_row(&self.inner.docs, row)?;
        let (mut low, mut high) = (0, self.inner.doc_index.items());
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.block_entry(middle)?;
            if entry.contains(row) {
                return Ok((middle, entry));
            }
            if entry.first_row.get() > row { high = middle } else { low = middle + 1 }
        }
        Err(self.inner.doc_index.corrupt(low * DOC_INDEX_ENTRY_BYTES, format!("no block holds row {row}")))
    }

    /// What the index says of block `number`; `number` is below the number of blocks.
    pub(super) fn block_entry(&self, number: u64) -> Result<DocIndexEntry> {
        let index = &self.inner.doc_index;
        let at = number * DOC_INDEX_ENTRY_BYTES;
        DocIndexEntry::decode(&index.read(at..at + DOC_INDEX_ENTRY_BYTES)?, self.inner.rows).map_err(located(index, at))
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> u64 {
        self.inner.doc_index.items()
    }

    /// The index of blocks.
    pub(super) fn index_section(&self) -> &Section {
        &self.inner.doc_index
    }

    /// Reads and decompresses a block.
    pub(super) fn block(&self, entry: &DocIndexEntry) -> Result<DocBlock> {
        let docs = &self.inner.docs;
        let at = entry.offset.get();
        let end = at.checked_add(u64::from(entry.stored_length.get()));
        let end = end.ok_or_else(|| docs.corrupt(0, format!("a block starts at {at}")))?;
        DocBlock::decode(entry, &docs.read(at..end)?).map_err(located(docs, at))
    }

    /// Reads the document of `row`, whose id is `id`, from its block, which starts at `at`.
    pub(super) fn document_in(&self, block: &DocBlock, at: u64, row: u32, id: Box<str>) -> Result<StoredDocument> {
        let docs = &self.inner.docs;
        let body = block.body(row).map_err(located(docs, at))?;
        // The bytes of a body have no address of their own in the file, so damage in it is named by its block and row.
        decode_body(body, id).map_err(|e| {
            let what = format!("row {row}, body byte {}: {}", e.offset, e.what);
            located(docs, at)(FormatError { offset: 0, what, newer: e.newer })
        })
    }

    fn relative_seq(&self, row: u32) -> Result<u64> {
        let width = self.inner.seq_width;
        Ok(width.value(row, &self.inner.seqs.read(width.range(row))?))
    }

    pub(super) fn check_row(&self, section: &Section, row: u32) -> Result<()> {
        if row < self.inner.rows {
            return Ok(());
        }
        Err(section.corrupt(0, format!("row {row} was asked for; the segment has {}", self.inner.rows)))
    }
}

//! Documents in ascending order, a block at a time.

use super::reader::{RowsReader, located, text};
use crate::document::StoredDocument;
use crate::error::Result;
use crate::format::docs::DocBlock;
use crate::format::ids::{ids_text_start, name_range};
use crate::ids::Seq;
use std::ops::Range;

/// Reads documents and keeps the last block it decompressed, and the ids of its rows: for ascending rows everything is read once.
#[derive(Debug)]
pub struct RowsScanner {
    rows: RowsReader,
    block: DocBlock,
    /// The ids of the block's rows, each until its document is asked for.
    ids: Vec<Option<Box<str>>>,
    /// The row of the first of them.
    first: u32,
    /// Where `block` starts in `Docs`.
    at: u64,
    /// The number of the block after it.
    next: u64,
}

impl RowsScanner {
    pub(super) fn new(rows: RowsReader) -> RowsScanner {
        RowsScanner { rows, block: DocBlock::default(), ids: Vec::new(), first: 0, at: 0, next: 0 }
    }

    /// The document of `row`, without its vector. Any order is right; an ascending one is fast.
    ///
    /// # Errors
    /// `Corrupt` on damage, and when there is no such row.
    pub fn document(&mut self, row: u32) -> Result<StoredDocument> {
        if !self.block.contains(row) {
            self.load(row)?;
        }
        let id = match self.ids.get_mut((row - self.first) as usize).and_then(Option::take) {
            Some(id) => id,
            None => self.rows.id(row)?.into(),
        };
        self.rows.document_in(&self.block, self.at, row, id)
    }

    /// Loads the block of `row`: the next one when it is there, else by search.
    fn load(&mut self, row: u32) -> Result<()> {
        let following = (self.next > 0 && self.next < self.rows.blocks()).then(|| self.rows.block_entry(self.next)).transpose()?;
        let (number, entry) = match following {
            Some(entry) if entry.contains(row) => (self.next, entry),
            _ => self.rows.find_block(row)?,
        };
        let (first, rows) = (entry.first_row.get(), entry.rows.get());
        let ids = self.rows.ids(first..first + rows)?;
        self.block = self.rows.block(&entry)?;
        self.ids = ids.into_iter().map(Some).collect();
        (self.first, self.at, self.next) = (first, entry.offset.get(), number + 1);
        Ok(())
    }
}

impl RowsReader {
    /// The ids of a range of rows, in two reads.
    ///
    /// # Errors
    /// `Corrupt` on damage, and when the range goes beyond the last row.
    pub fn ids(&self, rows: Range<u32>) -> Result<Vec<Box<str>>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, text_bytes) = (&self.inner.ids, self.inner.ids_text_bytes);
        self.check_row(ids, rows.end - 1)?;
        let at = u64::from(rows.start) * 8;
        let starts = ids.read(at..(u64::from(rows.end) + 1) * 8)?;
        let bounds = |i: usize| name_range(&starts[i * 8..i * 8 + 16], text_bytes).map_err(located(ids, at + i as u64 * 8));
        let count = rows.len();
        // Every name ends where the next one starts, so the first start and the last end bound all of them once each is in order.
        let (first, last) = (bounds(0)?.start, bounds(count - 1)?.end);
        let text_at = ids_text_start(self.inner.rows) + first;
        let all = text(ids, text_at..(ids_text_start(self.inner.rows) + last).max(text_at))?;
        let name = |i: usize| {
            let name = bounds(i)?;
            let inside = (name.start - first) as usize..(name.end - first) as usize;
            let name =
                all.get(inside).ok_or_else(|| ids.corrupt(at + i as u64 * 8, "an id begins inside a character or ends after the last"))?;
            Ok(name.into())
        };
        (0..count).map(name).collect()
    }

    /// The seqs of a range of rows, in one read; they ascend strictly.
    ///
    /// # Errors
    /// `Corrupt` on damage, and when the range goes beyond the last row.
    pub fn seqs(&self, rows: Range<u32>) -> Result<Vec<Seq>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let (section, width, base) = (&self.inner.seqs, self.inner.seq_width, self.inner.base);
        self.check_row(section, rows.end - 1)?;
        let at = width.range(rows.start).start;
        let bytes = section.read(at..width.range(rows.end - 1).end)?;
        let mut seqs = Vec::with_capacity(rows.len());
        for row in rows.clone() {
            let stands = width.range(row).start;
            let seq = base.0.checked_add(width.value(row, &bytes[(stands - at) as usize..])).map(Seq);
            match seq.filter(|seq| seqs.last().is_none_or(|last| last < seq)) {
                Some(seq) => seqs.push(seq),
                None => return Err(section.corrupt(stands, format!("the seq of row {row} is out of order"))),
            }
        }
        Ok(seqs)
    }
}

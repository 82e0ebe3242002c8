//! Documents in ascending order, a block at a time.

use super::reader::RowsReader;
use crate::document::StoredDocument;
use crate::error::Result;
use crate::format::docs::DocBlock;

/// Reads documents and keeps the last block it decompressed: for ascending rows every block is read once.
#[derive(Debug)]
pub struct RowsScanner {
    rows: RowsReader,
    block: DocBlock,
    /// Where `block` starts in `Docs`.
    at: u64,
    /// The number of the block after it.
    next: u64,
}

impl RowsScanner {
    pub(super) fn new(rows: RowsReader) -> RowsScanner {
        RowsScanner { rows, block: DocBlock::default(), at: 0, next: 0 }
    }

    /// The document of `row`, without its vector. Any order is right; an ascending one is fast.
    ///
    /// # Errors
    /// `Corrupt` on damage, and when there is no such row.
    pub fn document(&mut self, row: u32) -> Result<StoredDocument> {
        if !self.block.contains(row) {
            self.load(row)?;
        }
        self.rows.document_in(&self.block, self.at, row)
    }

    /// Loads the block of `row`: the next one when it is there, else by search.
    fn load(&mut self, row: u32) -> Result<()> {
        let following = (self.next > 0 && self.next < self.rows.blocks()).then(|| self.rows.block_entry(self.next)).transpose()?;
        let (number, entry) = match following {
            Some(entry) if entry.contains(row) => (self.next, entry),
            _ => self.rows.find_block(row)?,
        };
        self.block = self.rows.block(&entry)?;
        self.at = entry.offset.get();
        self.next = number + 1;
        Ok(())
    }
}

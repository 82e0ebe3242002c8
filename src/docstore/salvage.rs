//! Every row of a segment of which something can be read, however much of the rest is damaged.

use super::reader::{RowsReader, located};
use crate::document::StoredDocument;
use crate::error::{Error, Result};
use crate::ids::Seq;

/// What is left of a row.
#[derive(Debug)]
pub(crate) struct SalvagedRow {
    pub(crate) row: u32,
    /// Its id, if that can be read.
    pub(crate) id: Option<Box<str>>,
    /// Its seq, or why it cannot be read.
    pub(crate) seq: Result<Seq>,
    /// Its document without the vector, or why it cannot be read.
    pub(crate) document: Result<StoredDocument>,
}

/// Damage is passed over; anything else is an error.
pub(crate) fn tolerated<T>(result: Result<T>) -> Result<Result<T>> {
    match result {
        Err(e @ (Error::Corrupt(_) | Error::Io { .. })) => Ok(Err(e)),
        Err(e) => Err(e),
        Ok(value) => Ok(Ok(value)),
    }
}

impl RowsReader {
    /// Hands every row to `each`, in ascending order: whole, or with what can be read of it. Blocks are taken one by one, so that a damaged
    /// one, or a damaged place of the index, costs its own rows and no other.
    pub(crate) fn salvage(&self, mut each: impl FnMut(SalvagedRow) -> Result<()>) -> Result<()> {
        let mut next = 0;
        let mut damage: Option<Error> = None;
        for number in 0..self.blocks() {
            let entry = match tolerated(self.block_entry(number))? {
                Ok(entry) => entry,
                Err(e) => {
                    damage.get_or_insert(e);
                    continue;
                }
            };
            let (first, end) = (entry.first_row.get(), entry.first_row.get() + entry.rows.get());
            for row in next..first {
                let why = damage.as_ref().map_or_else(|| self.no_block(row), Error::duplicate);
                each(self.salvaged(row, Err(why))?)?;
            }
            damage = None;
            let block = tolerated(self.block(&entry))?;
            for row in first.max(next)..end {
                let document = match (&block, tolerated(self.id(row))?) {
                    (Ok(block), Ok(id)) => self.document_in(block, entry.offset.get(), row, id.into()),
                    (Err(e), _) => Err(e.duplicate()),
                    (_, Err(e)) => Err(e),
                };
                each(self.salvaged(row, tolerated(document)?)?)?;
            }
            next = next.max(end);
        }
        for row in next..self.rows() {
            let why = damage.as_ref().map_or_else(|| self.no_block(row), Error::duplicate);
            each(self.salvaged(row, Err(why))?)?;
        }
        Ok(())
    }

    fn salvaged(&self, row: u32, document: Result<StoredDocument>) -> Result<SalvagedRow> {
        let id = match &document {
            Ok(document) => Some(document.id.clone()),
            Err(_) => tolerated(self.id(row))?.ok().map(Into::into),
        };
        Ok(SalvagedRow { row, id, seq: tolerated(self.seq(row))?, document })
    }

    fn no_block(&self, row: u32) -> Error {
        let what = format!("no block holds row {row}");
        located(self.index_section(), 0)(crate::format::FormatError::new(0, what))
    }
}

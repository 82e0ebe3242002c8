//! The metadata index: from a value at a path to the rows that have it. Spec §12a.
//!
//! Answers a filter by bitmaps of rows ([`evaluate()`]), for a segment ([`MetadataReader`]) and for anything else that keeps the same keys in
//! order ([`MetadataIndex`]). What a key cannot tell (a regular expression, a text, a value too long for a key) is asked of the document
//! itself, and only for the rows that everything else left ([`Beside`]). Never here: which rows live, where documents are, of which source.
//!
//! Invariants: the answer is that of [`crate::filter::Filter::matches`] for every row; a document has the keys of its metadata alone, so
//! that the index can be rebuilt from the documents.
//!
//! | file | role |
//! | --- | --- |
//! | `keys.rs` | the keys of one document |
//! | `lookup.rs` | the ranges of keys that answer one test |
//! | `evaluate.rs` | from a filter to its rows |
//! | `builder.rs`, `reader.rs` | the sections of a segment |

mod builder;
mod evaluate;
mod keys;
mod lookup;
mod reader;

pub use builder::MetadataBuilder;
pub use evaluate::{Beside, evaluate, evaluate_within};
pub use keys::{Keys, keys};
pub use lookup::KeyRange;
pub use reader::MetadataReader;

use crate::error::Result;
use roaring::RoaringBitmap;

/// Rows by key, keys in the order of their bytes.
pub trait MetadataIndex {
    /// How many rows there are: they are below it.
    fn rows(&self) -> u32;

    /// About what [`MetadataIndex::collect`] of this range costs, in keys to look at. Counting may stop above `enough`.
    fn cost(&self, range: &KeyRange, enough: u64) -> Result<u64>;

    /// Adds to `out` every row that has a key in the range. It may add rows that are not below [`MetadataIndex::rows`].
    fn collect(&self, range: &KeyRange, out: &mut RoaringBitmap) -> Result<()>;
}

#[cfg(test)]
mod tests;

//! The rows of a segment: its documents, their ids, seqs and sources. Spec §10.
//!
//! Answers: the document, id, seq or source of a row; the row of an id or a seq; the rows of a source. Never knows which rows are alive, and
//! never sees a vector or a term: those are other rooms of the segment.
//!
//! Invariants: a row is a `u32` index into the segment, rows ascend with their seqs, and every section speaks of the same number of rows.
//! [`RowsReader::open`] looks at the section table only; whatever is read later is checked when it is read, and damage is
//! [`crate::Error::Corrupt`] with its address, never a shorter answer.
//!
//! | file | role |
//! | --- | --- |
//! | `builder.rs` | [`RowsBuilder`]: documents in, sections out |
//! | `reader.rs` | [`RowsReader`]: single rows, by row, id or seq |
//! | `scan.rs` | [`RowsScanner`]: documents in ascending order, a block at a time |
//! | `salvage.rs` | what is left of damaged rows |
//! | `sources.rs` | sources and their rows |

mod builder;
mod reader;
pub(crate) mod salvage;
mod scan;
mod sources;

pub use crate::format::row_hash::content_hash;
pub use builder::RowsBuilder;
pub use reader::RowsReader;
pub use scan::RowsScanner;

#[cfg(test)]
mod tests;

//! Vectors: how near is a stored vector to the query's, exactly?
//!
//! Vectors are stored as given, with the inverse norm beside each. Every score that anyone sees is computed here from the query and the
//! stored vector alone, so one vector has the same score, to the bit, in the memtable, in any segment and on any processor.
//!
//! This room never decides what is alive (the caller's closure does), never orders results (`crate::ranking` does) and never shows an approximate
//! score: what a walk compares by only chooses what is scored.
//!
//! | file | role |
//! | --- | --- |
//! | `kernel/` | inner product and squared distance, the same bits everywhere |
//! | `query.rs` | [`QueryVector`]: a query under its collection's metric |
//! | `builder.rs` | [`VectorsBuilder`]: writes the vectors of a segment |
//! | `reader.rs` | [`VectorsReader`]: reads and scans them |
//! | `hnsw/` | a navigable graph over vectors, in memory: building, merging, walking |
//! | `ann/` | the graph of a segment: writing it, walking it where it lies, and when to scan instead |
//!
//! The bytes are in `crate::format::vectors`. Spec §12.

mod ann;
pub mod hnsw;
pub mod kernel;

mod builder;
mod query;
mod reader;

pub use ann::{Admitted, Found, GraphBytes, GraphOptions, JUDGED, StoredGraph, nearest, write_graph};
pub use builder::VectorsBuilder;
pub use query::QueryVector;
pub use reader::{VectorBytes, VectorsReader};

#[cfg(test)]
mod tests;

//! Bytes and structs: what every file holds, section by section of `format-spec.md`. Pure: no files, no clocks, no state.
//!
//! All integers are little-endian. Every structure has an `encode`, which a valid value cannot fail, and a `decode`, which checks length,
//! magic, version, checksum and limits in that order and returns a [`FormatError`] that says what was expected and what was found.

pub mod bitmap;
pub mod checksum;
pub mod docs;
pub mod document;
pub mod dump;
pub mod effects;
pub mod error;
pub mod graph;
pub mod head;
pub mod ids;
pub mod manifest;
pub mod metadata;
pub mod postings;
pub mod row_hash;
pub mod sabotage;
pub mod segment;
pub mod sources;
pub mod terms;
pub mod tombstones;
pub mod transducer;
pub mod varint;
pub mod vector_codes;
pub mod vector_graph;
pub mod vectors;
pub mod wal;
pub mod witness;

pub use error::FormatError;

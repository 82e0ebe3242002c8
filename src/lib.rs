//! Triune: an embedded retrieval database.

pub mod docstore;
pub mod document;
pub mod error;
pub mod format;
pub mod ids;
pub mod io;
pub mod manifest;
pub mod options;
pub mod ranking;
pub mod retrieval;
pub mod segment;
pub mod text;
pub mod tombstones;
pub mod vector;
pub mod wal;

pub use document::{Document, Metadata, Patch, StoredDocument};
pub use error::{Corruption, Error, ErrorCode, Result};
pub use ids::{Generation, Incarnation, Lsn, Seq, Uuid};
pub use options::{AnalyzerKind, Durability, ExtractorKind, IoMode, Metric, Options, Schema, Scorer, limits};

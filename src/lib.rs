//! Triune is an embedded retrieval database: one directory holds documents, their vectors, a full-text index and an entity graph, and one
//! atomic, crash-safe commit changes all of them together.
//!
//! ```
//! use triune::{Database, Document, Schema, Search};
//!
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("notes.triune");
//! let db = Database::create(&path)?;
//! db.create_collection("main", Schema::default())?;
//! db.put(
//!     "main",
//!     vec![
//!         Document::new("a").text("A torn tail is dropped when the log is read.").vector([0.9, 0.1, 0.0]),
//!         Document::new("b").text("Vectors are stored as they were given.").vector([0.1, 0.9, 0.0]),
//!     ],
//! )?;
//!
//! let notes = db.snapshot().collection("main")?;
//! let answer = notes.search(&Search { query: Some("torn log".into()), vector: Some(vec![1.0, 0.0, 0.0]), k: 1, ..Search::default() })?;
//! assert_eq!(answer.hits[0].id, "a");
//! assert_eq!(answer.retrievers, ["vector", "text"]);
//! db.close()?;
//! # Ok::<(), triune::Error>(())
//! ```
//!
//! Read in this order: [`Database`] (open, commit, close), [`WriteBatch`] (what a commit may do), [`Snapshot`] and [`Collection`] (reading),
//! [`Search`] (asking), [`Error`] (what can go wrong, and what to do then). [`io::Directory`] is where files live; [`inspect`] looks at
//! them when opening refuses; [`maintenance`] dumps, restores, backs up and repairs.

// Without `internals` the rooms are private, and what only tests, fuzz targets and benches use of them is not used at all.
#![cfg_attr(
    not(feature = "internals"),
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        reason = "rooms are public to the crate's own tests, fuzz targets and benches alone"
    )
)]

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("Triune reads its files in place: it needs a little-endian host with 64-bit addresses");

/// Modules that the feature `internals` makes public.
macro_rules! rooms {
    ($($room:ident)+) => {
        $(
            #[cfg(feature = "internals")]
            pub mod $room;
            #[cfg(not(feature = "internals"))]
            mod $room;
        )+
    };
}

pub mod connections;
pub mod document;
pub mod engine;
pub mod error;
pub mod filter;
pub mod ids;
pub mod inspect;
pub mod io;
pub mod maintenance;
pub mod models;
pub mod options;
pub mod progress;
pub mod ranking;
pub mod retrieval;
rooms! { docstore format graph manifest memtable metadata segment text tombstones unicode vector wal }
mod workers;

pub use document::{Document, Entity, Metadata, Patch, Relation, StoredDocument};
pub use engine::{
    BackgroundError, BuildReport, Builder, EntityVectors, Health, MergeBacklog, NearestEntity, PinnedSnapshots, WaitingGarbage,
};
pub use engine::{
    Collection, CollectionStats, Commit, Database, Nearest, Outcome, RecallAudit, RecoveryReport, Scan, Snapshot, SourceInfo, WriteBatch,
    check_new_collection,
};
pub use error::{Corruption, Error, ErrorCode, Result};
pub use filter::Filter;
pub use graph::{EntityView, Neighbour};
pub use ids::{Generation, Incarnation, Lsn, Seq, Uuid};
pub use options::{
    AnalyzerKind, Components, Durability, Effort, ExtractorKind, Hnsw, IoMode, LegWeights, Metric, Options, Quantisation, Schema, Scorer,
    limits,
};
pub use progress::{Observer, Progress};
pub use retrieval::{Fusion, Hit, Legs, Mode, Rerank, RetrieverRank, Search, SearchResult, VectorSearch};
pub use text::Analyzer;
pub use vector::VectorBytes;

/// The entities that an extractor finds in a text: each spelling with its number of mentions, in order of first appearance.
///
/// ```
/// let found = triune::extract_entities(triune::ExtractorKind::Compat, "RAG with Google Cloud, and RAG again");
/// assert_eq!(found, [("RAG".to_string(), 2), ("Google Cloud".to_string(), 1)]);
/// ```
pub fn extract_entities(extractor: ExtractorKind, text: &str) -> Vec<(String, u32)> {
    match extractor {
        ExtractorKind::None => Vec::new(),
        ExtractorKind::Compat => graph::extract::compat(text).into_iter().map(|s| (s.text.to_string(), s.occurrences)).collect(),
    }
}

/// The examples of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

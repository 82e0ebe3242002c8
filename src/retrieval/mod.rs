//! From a question to hits: which retrievers take part, and how their answers become one.
//!
//! It sees a [`crate::Collection`] and ranked lists, never a segment, a file or a page.
//!
//! | file | role |
//! | --- | --- |
//! | `search.rs` | [`Search`] and its answer |
//! | `fusion.rs` | reciprocal rank fusion, pure |
//! | `passage.rs` | [`Passage`]: what a retriever hands on |
//! | `stage.rs` | [`Stage`]: a step between finding passages and handing them on |
//! | `config/` | [`RetrievalConfig`]: how a source is asked, and where that is stored |

pub mod config;
pub mod fusion;
mod passage;
mod search;
mod stage;

pub use config::{Exposure, GraphConfig, PreScreenConfig, RetrievalConfig, SourceConfig};
pub use passage::{Passage, Provenance, ScoreKind};
pub use search::{Fusion, Hit, Legs, Mode, Rerank, RetrieverRank, Search, SearchResult, VectorSearch};
pub use stage::{Stage, StageContext, StageReport};

//! From a question to hits: which retrievers take part, and how their answers become one.
//!
//! It sees a [`crate::Collection`] and ranked lists, never a segment, a file or a page.
//!
//! | file | role |
//! | --- | --- |
//! | `search.rs` | [`Search`] and its answer |
//! | `fusion.rs` | reciprocal rank fusion, pure |
//! | `passage.rs` | [`Passage`]: what a retriever hands on |

pub mod fusion;
mod passage;
mod search;

pub use passage::{Passage, Provenance, ScoreKind};
pub use search::{Fusion, Hit, Legs, Mode, Rerank, RetrieverRank, Search, SearchResult, VectorSearch};

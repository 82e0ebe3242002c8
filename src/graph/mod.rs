//! The entity graph: which documents mention which entities, and how entities are related.
//!
//! | file | role |
//! | --- | --- |
//! | `extract.rs` | text to mentions |
//! | `ppr.rs` | personalised PageRank on a graph in memory |

pub mod extract;
pub mod ppr;

pub use extract::{Mention, key, mentions, query_entities};

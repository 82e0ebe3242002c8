//! Approximate nearest neighbours in one segment, with exact scores.
//!
//! A walk through the graph chooses candidates by their codes; each candidate is then scored by the canonical kernel, and those scores are what is
//! returned and what decides the order. Where a walk would cost more than a scan, or came short, the caller scans.
//!
//! | file | role |
//! | --- | --- |
//! | `stored.rs` | [`StoredGraph`]: links, positions and codes where they lie |
//! | `spaces.rs` | what a walk compares: codes, or the vectors themselves |
//! | `plan.rs` | [`Admitted`], and how a question is answered: walk, restricted walk, or scan |
//! | `search.rs` | [`nearest`]: walk, then score |
//! | `write.rs` | [`write_graph`]: builds or merges the graph of a segment, measures it, writes it |
//!
//! The bytes are in `crate::format::vector_graph` and `vector_codes`. Spec §12.5 to §12.8.

mod plan;
mod search;
mod spaces;
mod stored;
mod write;

pub use plan::Admitted;
pub(super) use search::Searchers;
pub use search::{Found, nearest};
pub use stored::{GraphBytes, StoredGraph};
pub use write::{GraphOptions, JUDGED, write_graph};

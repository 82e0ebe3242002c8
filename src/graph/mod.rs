//! The entity graph: which documents mention which entities, how entities are related, and which documents that brings near a question.
//!
//! It answers over any number of parts, segments and memtables, as over one store of the live documents: an entity is known by its key, its
//! name in lower case; ordinals are those of one part. It never looks at documents, vectors or tokens, and stores nothing that could not be
//! made again from the documents (decision record 8).
//!
//! - An edge lives as long as the document that it came from: what a document contributed goes with it, and nothing else does.
//! - An entity without a live mention or relation does not exist, whatever a part's dictionary holds.
//! - Answers, their order and every sum of floating-point numbers depend on the live documents alone, not on how they are spread over parts.
//! - Opening is O(1). The dictionary is checked as a whole before it is parsed, at its first use.
//!
//! | file | role |
//! | --- | --- |
//! | `extract.rs` | text to mentions |
//! | `builder.rs` | [`GraphBuilder`]: mentions and relations to sections |
//! | `dictionary.rs` | keys to ordinals: an fst |
//! | `reader.rs` | [`GraphReader`]: sections to edges |
//! | `spellings.rs` | [`Spellings`]: an entity's names, however many it has |
//! | `part.rs` | [`GraphPart`]: what the rest needs of a segment or a memtable; [`Live`] leaves out the dead |
//! | `pages.rs` | a number for each row or entity, where there is one |
//! | `union.rs` | entities across parts |
//! | `hops.rs` | [`hops::search`]: documents one and two steps from a question's entities |
//! | `ppr.rs` | personalised PageRank on a graph in memory |
//! | `walk.rs` | [`walk::docsgpt`]: documents by PageRank around a question's entities |
//! | `subgraph.rs` | [`subgraph::around`]: the surroundings of some entities, for a walk of somebody else's |
//! | `describe.rs` | entities, neighbours, the whole graph, and statistics |
//!
//! Spec §19.

mod builder;
pub mod describe;
mod dictionary;
pub mod extract;
pub mod hops;
mod pages;
mod part;
pub mod ppr;
mod reader;
mod spellings;
pub mod subgraph;
mod union;
pub mod walk;

pub use builder::GraphBuilder;
pub use describe::{EntityView, GraphStatistics, Neighbour, WholeGraph, counts, entity, exists, names, neighbours, statistics, whole};
pub use extract::{Mention, key, mentions, query_entities};
pub use part::{DocumentEdge, GraphPart, Live, RelationEdge};
pub use reader::GraphReader;
pub use spellings::Spellings;

#[cfg(test)]
mod tests;

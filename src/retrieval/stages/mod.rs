//! Triune's own stages: screening by a language model, reranking, merging equal texts.
//!
//! A stage that fails never loses what it was given: a screening keeps the batches that nobody judged, a rerank falls back to rank fusion, and both
//! say so beside the answer. No stage says a word of a question or a document in what it reports.
//!
//! | file | role |
//! | --- | --- |
//! | `prescreen.rs` | [`PreScreenStage`]: a language model says which passages bear on the question |
//! | `rerank.rs` | [`RerankStage`]: a reranker orders, or else rank fusion |
//! | `aggregate.rs` | [`aggregate`]: equal texts become one passage, which keeps every finding |
//! | `fence.rs` | texts of others in a prompt, and the JSON object in a reply |

mod aggregate;
pub(crate) mod fence;
mod prescreen;
mod rerank;

pub use aggregate::{AggregateStage, Order, aggregate, by_rank_fusion};
pub use prescreen::PreScreenStage;
pub use rerank::{RERANK_TOP, RerankStage};

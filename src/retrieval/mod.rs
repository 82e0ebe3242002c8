//! From a question to passages: which retrievers take part, and how their answers become one.
//!
//! Two floors in one room. Below, one collection: a [`Search`] and its hits. Above, many sources: a [`Dispatcher`] asks each [`Store`] in its own
//! way through a [`Retriever`], with the models that [`Models`] names, and hands on [`Passage`]s within a budget of tokens. It sees
//! a [`crate::Collection`] and ranked lists, never a segment, a file or a page. How a question travels: `docs/retrieval.md`.
//!
//! | file | role |
//! | --- | --- |
//! | `search.rs` | [`Search`] and its answer |
//! | `fusion.rs` | reciprocal rank fusion, pure |
//! | `dispatcher/` | [`Dispatcher`]: one question to many sources |
//! | `request.rs` | [`Request`], [`Retriever`], [`Retrieved`]: what a retriever is asked and answers |
//! | `classic.rs` `hybrid.rs` `graph_retriever.rs` | the retrievers |
//! | `registry.rs` | [`Registry`]: retrievers by name |
//! | `gather.rs` | asking sources side by side, and making passages of their answers |
//! | `rewrite.rs` | questions that stand alone, and their vectors, once each |
//! | `ledger.rs` | the budget of tokens |
//! | `labels.rs` | what a passage is cited by |
//! | `store.rs` `collection_store.rs` | [`Store`]: where sources are kept; a collection as one |
//! | `passage.rs` | [`Passage`]: what a retriever hands on |
//! | `stage.rs` | [`Stage`]: a step between finding passages and handing them on |
//! | `stages/` | Triune's own stages: pre-screen, rerank, aggregate |
//! | `pipeline.rs` | [`Pipeline`]: vectors, texts and graph of one collection, merged and reranked in one call |
//! | `extraction/` | [`extraction`]: entities and relations out of texts, by a language model |
//! | `config/` | [`RetrievalConfig`]: how a source is asked, and where that is stored |

mod classic;
mod collection_store;
pub mod config;
mod dispatcher;
pub mod extraction;
pub mod fusion;
mod gather;
mod graph_retriever;
mod hybrid;
mod labels;
mod ledger;
mod passage;
mod pipeline;
mod registry;
mod request;
mod rewrite;
mod search;
mod stage;
pub mod stages;
mod store;

pub use classic::ClassicRetriever;
pub use collection_store::CollectionStore;
pub use config::{Exposure, GraphConfig, PreScreenConfig, RetrievalConfig, SourceConfig};
pub use dispatcher::{Answer, Dispatcher, Question, ScreenMaker, SourceEntry};
pub use graph_retriever::GraphRetriever;
pub use hybrid::HybridRetriever;
pub use ledger::spendable;
pub use passage::{Passage, Provenance, ScoreKind};
pub use pipeline::{Exported, Pipeline, PipelineAnswer, PipelineQuestion, Sufficiency};
pub use registry::Registry;
pub use request::{Models, Request, RetrievalError, Retrieved, Retriever, SourceRequest, Turn};
pub use search::{Fusion, Hit, Legs, Mode, Rerank, RetrieverRank, Search, SearchResult, VectorSearch};
pub use stage::{Stage, StageContext, StageReport};
pub use store::{Body, Candidate, EntityGraph, EntityNode, Seed, Store, Stores};

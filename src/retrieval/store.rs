//! What a retriever needs of a source: nearest vectors, best texts, a graph, documents. A Triune collection is one ([`super::CollectionStore`]);
//! others can follow.

use super::config::SourceConfig;
use super::passage::ScoreKind;
use crate::document::Metadata;
use crate::error::Result;
use crate::models::Call;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A document that a store found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Candidate {
    /// Its id, unique in the source.
    pub id: String,
    /// Its score; greater is better. Absent where the store gives none.
    pub score: Option<f64>,
    /// Its text and metadata, where the store has them at hand; else [`Store::bodies`] is asked for those that are needed.
    pub body: Option<Body>,
    /// Where the store has it, in whatever way the store counts: handed back to [`Store::bodies`], so that it need not be looked up again.
    pub place: Option<u64>,
}

/// What a document says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Body {
    /// Its text.
    pub text: String,
    /// Its metadata.
    pub metadata: Option<Metadata>,
}

/// An entity at which a walk starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Seed {
    /// Its name.
    pub name: String,
    /// How much it counts. What is negative or not a number counts nothing; when nothing counts, all do alike.
    pub weight: f64,
}

/// Entities around seeds, the edges between them, and the documents they stand in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EntityGraph {
    /// The entities.
    pub nodes: Vec<EntityNode>,
    /// Two positions in `nodes` and the weight of what joins them. Parallel edges add up; a weight that is not finite and above 0 counts nothing.
    pub edges: Vec<(u32, u32, f64)>,
    /// The documents that mention an entity, in the order that breaks ties, each with positions in `nodes`, ascending.
    pub documents: Vec<(String, Vec<u32>)>,
}

/// An entity of an [`EntityGraph`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityNode {
    /// Its name.
    pub name: String,
    /// Distinct documents of the source that mention it.
    pub documents: u64,
}

/// Where sources are kept. Each call names the source; a store may keep one or many.
///
/// Synchronous, object-safe and shared by threads. An error is never an empty answer: retrievers fall back on both, and report the first. With each
/// question comes the [`Call`] that it serves: a store that waits for something else ends with that call's deadline or cancellation
/// ([`Call::check`]), and may hand its request id on.
///
/// ```
/// use triune::models::Call;
/// use triune::retrieval::{Body, Candidate, ScoreKind, Store};
///
/// /// One page that answers everything.
/// struct OnePage(String);
///
/// impl Store for OnePage {
///     fn dense_kind(&self) -> ScoreKind {
///         ScoreKind::External
///     }
///     fn dense(&self, _: &Call<'_>, _: &str, _: &[f32], k: usize, _: Option<f64>) -> triune::Result<Vec<Candidate>> {
///         let body = Some(Body { text: self.0.clone(), metadata: None });
///         Ok(vec![Candidate { id: "page".into(), body, ..Candidate::default() }].into_iter().take(k).collect())
///     }
///     fn documents(&self, _: &Call<'_>, _: &str, ids: &[&str]) -> triune::Result<Vec<Option<Body>>> {
///         Ok(ids.iter().map(|id| (*id == "page").then(|| Body { text: self.0.clone(), metadata: None })).collect())
///     }
/// }
/// ```
pub trait Store: Send + Sync {
    /// What the scores of [`Store::dense`] mean.
    fn dense_kind(&self) -> ScoreKind;

    /// The `k` documents of the source whose vectors are nearest, best first; with a `threshold` only those that score at least that, itself
    /// included.
    ///
    /// # Errors
    /// Whatever kept the store from answering.
    fn dense(&self, call: &Call<'_>, source: &str, vector: &[f32], k: usize, threshold: Option<f64>) -> Result<Vec<Candidate>>;

    /// The `k` documents of the source whose texts fit the words best, best first. A store that cannot search so finds nothing.
    ///
    /// # Errors
    /// Whatever kept the store from answering.
    fn keyword(&self, call: &Call<'_>, source: &str, query: &str, k: usize) -> Result<Vec<Candidate>> {
        let _ = (call, source, query, k);
        Ok(Vec::new())
    }

    /// The documents of these ids, in their order; `None` for one that the source does not have.
    ///
    /// # Errors
    /// Whatever kept the store from answering.
    fn documents(&self, call: &Call<'_>, source: &str, ids: &[&str]) -> Result<Vec<Option<Body>>>;

    /// The documents of candidates: ids with the places that this store gave them, in their order. As [`Store::documents`] of the ids, unless the
    /// store has a shorter way to a place; whether the document there is the one is for it to see.
    ///
    /// # Errors
    /// As [`Store::documents`].
    fn bodies(&self, call: &Call<'_>, source: &str, wanted: &[(&str, Option<u64>)]) -> Result<Vec<Option<Body>>> {
        let ids: Vec<&str> = wanted.iter().map(|(id, _)| *id).collect();
        self.documents(call, source, &ids)
    }

    /// How many documents the source has; `None` where the store does not know. What has none is told from what does not answer a question.
    ///
    /// # Errors
    /// Whatever kept the store from counting.
    fn count(&self, call: &Call<'_>, source: &str) -> Result<Option<u64>> {
        let _ = (call, source);
        Ok(None)
    }

    /// How many entities each of these sources has: 0 for one without a graph. A store without graphs has none.
    ///
    /// # Errors
    /// Whatever kept the store from counting: that is not the same as having none.
    fn entity_counts(&self, call: &Call<'_>, sources: &[&str]) -> Result<Vec<u64>> {
        let _ = call;
        Ok(vec![0; sources.len()])
    }

    /// Whether each of these sources has a graph that covers all of its documents. One that is still being extracted hides the rest.
    ///
    /// # Errors
    /// As [`Store::entity_counts`].
    fn have_graphs(&self, call: &Call<'_>, sources: &[&str]) -> Result<Vec<bool>> {
        Ok(self.entity_counts(call, sources)?.into_iter().map(|count| count > 0).collect())
    }

    /// The entities of the source that a question names, each weighted by how rare it is.
    ///
    /// # Errors
    /// Whatever kept the store from answering.
    fn entities_in(&self, call: &Call<'_>, source: &str, question: &str) -> Result<Vec<Seed>> {
        let _ = (call, source, question);
        Ok(Vec::new())
    }

    /// Whether the entities of a source have vectors, so that [`Store::nearest_entities`] finds some.
    ///
    /// # Errors
    /// Whatever kept the store from answering.
    fn has_entity_vectors(&self, call: &Call<'_>, source: &str) -> Result<bool> {
        let _ = (call, source);
        Ok(false)
    }

    /// The `k` entities of the source whose names' vectors are nearest, by cosine similarity, which is their weight.
    ///
    /// # Errors
    /// Whatever kept the store from answering.
    fn nearest_entities(&self, call: &Call<'_>, source: &str, vector: &[f32], k: usize) -> Result<Vec<Seed>> {
        let _ = (call, source, vector, k);
        Ok(Vec::new())
    }

    /// What stands around these entities in the documents of the source.
    ///
    /// # Errors
    /// Whatever kept the store from answering.
    fn entity_graph(&self, call: &Call<'_>, source: &str, seeds: &[Seed]) -> Result<EntityGraph> {
        let _ = (call, source, seeds);
        Ok(EntityGraph::default())
    }

    /// Names the model that made the vectors of the source; `None` when that is not known. See [`crate::models::Embedder::fingerprint`].
    fn embedder(&self, source: &str) -> Option<&str> {
        let _ = source;
        None
    }

    /// Names the model that made the vectors of the source's entities; `None` when that is not known. That of its documents unless a store knows
    /// better.
    ///
    /// # Errors
    /// Whatever kept the store from answering.
    fn entity_embedder(&self, call: &Call<'_>, source: &str) -> Result<Option<String>> {
        let _ = call;
        Ok(self.embedder(source).map(String::from))
    }

    /// How much its nearest vectors and its best texts count when both are fused: finite, not negative. Alike unless a store knows better.
    fn leg_weights(&self, source: &str) -> (f64, f64) {
        let _ = source;
        (1.0, 1.0)
    }

    /// How the source is asked, where the store keeps that.
    ///
    /// # Errors
    /// Whatever kept the store from answering.
    fn config(&self, call: &Call<'_>, source: &str) -> Result<Option<SourceConfig>> {
        let _ = (call, source);
        Ok(None)
    }
}

/// Which store keeps which source.
#[derive(Clone, Default)]
pub struct Stores {
    by_source: BTreeMap<String, Arc<dyn Store>>,
    others: Option<Arc<dyn Store>>,
}

impl Stores {
    /// No store at all.
    pub fn new() -> Stores {
        Stores::default()
    }

    /// One store for every source.
    pub fn all_in(store: Arc<dyn Store>) -> Stores {
        Stores { by_source: BTreeMap::new(), others: Some(store) }
    }

    /// Keeps a source in a store of its own; the last word on a source holds.
    pub fn with(mut self, source: impl Into<String>, store: Arc<dyn Store>) -> Stores {
        self.by_source.insert(source.into(), store);
        self
    }

    /// Keeps every source that has no store of its own in this one.
    pub fn otherwise(mut self, store: Arc<dyn Store>) -> Stores {
        self.others = Some(store);
        self
    }

    /// The store of a source.
    pub fn of(&self, source: &str) -> Option<&Arc<dyn Store>> {
        self.by_source.get(source).or(self.others.as_ref())
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").field("sources", &self.by_source.keys()).field("others", &self.others.is_some()).finish()
    }
}

//! A Triune collection as a [`Store`]: each source of its documents, or the whole of it as one.

use super::config::SourceConfig;
use super::passage::{ScoreKind, is_near_to_nothing};
use super::store::{Body, Candidate, EntityGraph, EntityNode, Seed, Store};
use crate::document::StoredDocument;
use crate::engine::scope::{NamedSubgraph, SourceView};
use crate::engine::{Collection, Snapshot};
use crate::error::Result;
use crate::models::Call;
use crate::options::{Effort, LegWeights, Scorer};
use crate::ranking::Scored;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A collection of a snapshot, asked source by source: the source id is the source of the documents, and only they are answers. Scores are
/// those of the whole collection, whose statistics they rest on.
///
/// It sees what its snapshot sees: make a new one to see later commits. What it learns of a source is kept as long as it lives.
///
/// ```
/// # use triune::{Database, Document, Schema};
/// use triune::models::Call;
/// use triune::retrieval::{CollectionStore, Store};
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = Database::create(dir.path().join("db"))?;
/// # db.create_collection("notes", Schema::default())?;
/// db.put("notes", vec![Document::new("a").text("segments").source("x"), Document::new("b").text("segments").source("y")])?;
/// let store = CollectionStore::new(&db.snapshot(), "notes")?;
/// assert_eq!(store.keyword(&Call::default(), "y", "segments", 10)?[0].id, "b");
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Debug)]
pub struct CollectionStore {
    snapshot: Snapshot,
    collection: Collection,
    whole: bool,
    effort: Effort,
    scorer: Option<Scorer>,
    views: Mutex<FxHashMap<Box<str>, Arc<SourceView>>>,
    /// Whether the graph of a source covers all of its documents.
    covered: Mutex<FxHashMap<Box<str>, bool>>,
}

impl CollectionStore {
    /// The sources of a collection.
    ///
    /// # Errors
    /// `NotFound` when there is no such collection.
    pub fn new(snapshot: &Snapshot, collection: &str) -> Result<CollectionStore> {
        Ok(CollectionStore {
            snapshot: snapshot.clone(),
            collection: snapshot.collection(collection)?,
            whole: false,
            effort: Effort::DEFAULT,
            scorer: None,
            views: Mutex::new(FxHashMap::default()),
            covered: Mutex::new(FxHashMap::default()),
        })
    }

    /// The whole collection as one source, by whatever id it is asked for.
    ///
    /// # Errors
    /// As [`CollectionStore::new`].
    pub fn whole(snapshot: &Snapshot, collection: &str) -> Result<CollectionStore> {
        Ok(CollectionStore { whole: true, ..CollectionStore::new(snapshot, collection)? })
    }

    /// How hard the vector retriever tries. Default: [`Effort::DEFAULT`].
    pub fn effort(mut self, effort: Effort) -> CollectionStore {
        self.effort = effort;
        self
    }

    /// The text scorer. Default: the collection's own.
    pub fn scorer(mut self, scorer: Scorer) -> CollectionStore {
        self.scorer = Some(scorer);
        self
    }

    fn view(&self, source: &str) -> Result<Arc<SourceView>> {
        let source = (!self.whole).then_some(source);
        if let Some(view) = self.views.lock().get(source.unwrap_or_default()) {
            return Ok(view.clone());
        }
        // Not under the lock: other sources need not wait, and two makers of one view make the same.
        let view = Arc::new(self.collection.view(source)?);
        self.views.lock().insert(source.unwrap_or_default().into(), view.clone());
        Ok(view)
    }

    /// Whether the graph of a source covers all of its documents. One that a language model makes does so when every document was extracted.
    fn is_covered(&self, source: &str) -> Result<bool> {
        let source = (!self.whole).then_some(source);
        if let Some(covered) = self.covered.lock().get(source.unwrap_or_default()) {
            return Ok(*covered);
        }
        let progress = self.snapshot.extraction_progress(self.collection.name(), source)?;
        let covered = progress.is_none_or(|progress| progress.is_complete());
        self.covered.lock().insert(source.unwrap_or_default().into(), covered);
        Ok(covered)
    }

    fn candidates(&self, hits: &[Scored]) -> Result<Vec<Candidate>> {
        let candidate = |hit: &Scored| {
            let (id, place) = (self.collection.id_of(hit)?, Some(u64::from(hit.address.part) << 32 | u64::from(hit.address.row)));
            Ok(Candidate { id, score: Some(hit.score), body: None, place })
        };
        hits.iter().map(candidate).collect()
    }
}

fn body(document: StoredDocument) -> Body {
    Body { text: document.text.into(), metadata: document.metadata }
}

impl Store for CollectionStore {
    fn dense_kind(&self) -> ScoreKind {
        ScoreKind::of_metric(self.collection.schema().metric)
    }

    fn dense(&self, call: &Call<'_>, source: &str, vector: &[f32], k: usize, threshold: Option<f64>) -> Result<Vec<Candidate>> {
        call.check()?;
        let mut hits = self.view(source)?.nearest(vector, k, self.effort)?;
        if is_near_to_nothing(self.collection.schema().metric, vector) {
            return Ok(Vec::new());
        }
        if let Some(threshold) = threshold {
            hits.retain(|hit| hit.score >= threshold);
        }
        self.candidates(&hits)
    }

    fn keyword(&self, call: &Call<'_>, source: &str, query: &str, k: usize) -> Result<Vec<Candidate>> {
        call.check()?;
        let hits = self.view(source)?.best_texts(query, self.scorer, k)?;
        self.candidates(&hits)
    }

    fn documents(&self, _: &Call<'_>, source: &str, ids: &[&str]) -> Result<Vec<Option<Body>>> {
        let view = self.view(source)?;
        ids.iter().map(|id| Ok(view.get(id)?.map(body))).collect()
    }

    fn bodies(&self, _: &Call<'_>, source: &str, wanted: &[(&str, Option<u64>)]) -> Result<Vec<Option<Body>>> {
        let view = self.view(source)?;
        let document = |(id, place): &(&str, Option<u64>)| match place {
            Some(place) => view.get_at(id, (place >> 32) as usize, *place as u32),
            None => view.get(id),
        };
        wanted.iter().map(|wanted| Ok(document(wanted)?.map(body))).collect()
    }

    fn count(&self, _: &Call<'_>, source: &str) -> Result<Option<u64>> {
        Ok(Some(self.view(source)?.count()))
    }

    fn entity_counts(&self, call: &Call<'_>, sources: &[&str]) -> Result<Vec<u64>> {
        call.check()?;
        sources.iter().map(|source| self.view(source)?.entities()).collect()
    }

    fn have_graphs(&self, call: &Call<'_>, sources: &[&str]) -> Result<Vec<bool>> {
        call.check()?;
        sources.iter().map(|source| Ok(self.view(source)?.mentions_entities()? && self.is_covered(source)?)).collect()
    }

    fn has_entity_vectors(&self, _: &Call<'_>, _: &str) -> Result<bool> {
        Ok(self.snapshot.entity_vectors(self.collection.name())?.is_some_and(|vectors| vectors.count() > 0))
    }

    fn nearest_entities(&self, call: &Call<'_>, source: &str, vector: &[f32], k: usize) -> Result<Vec<Seed>> {
        call.check()?;
        let Some(vectors) = self.snapshot.entity_vectors(self.collection.name())? else { return Ok(Vec::new()) };
        let found = self.view(source)?.nearest_entities(&vectors, vector, k)?;
        // Of a number and what is none, `max` takes the number.
        Ok(found.into_iter().map(|entity| Seed { name: entity.key.into(), weight: entity.similarity.max(0.0) }).collect())
    }

    fn entities_in(&self, call: &Call<'_>, source: &str, question: &str) -> Result<Vec<Seed>> {
        call.check()?;
        let seeds = self.view(source)?.seeds(question)?;
        Ok(seeds.into_iter().map(|(name, weight)| Seed { name: name.into(), weight }).collect())
    }

    fn entity_graph(&self, call: &Call<'_>, source: &str, seeds: &[Seed]) -> Result<EntityGraph> {
        call.check()?;
        let seeds: Vec<(&str, f64)> = seeds.iter().map(|seed| (seed.name.as_str(), seed.weight)).collect();
        let NamedSubgraph { graph, ids } = self.view(source)?.subgraph(&seeds)?;
        let node = |(key, documents): (Box<str>, u64)| EntityNode { name: key.into(), documents };
        Ok(EntityGraph {
            nodes: graph.keys.into_iter().zip(graph.documents).map(node).collect(),
            edges: graph.edges,
            documents: ids.into_iter().zip(graph.links.into_iter().map(|(_, nodes)| nodes)).collect(),
        })
    }

    fn embedder(&self, _: &str) -> Option<&str> {
        self.collection.schema().embedder.as_deref()
    }

    fn entity_embedder(&self, _: &Call<'_>, _: &str) -> Result<Option<String>> {
        let vectors = self.snapshot.entity_vectors(self.collection.name())?;
        Ok(vectors.and_then(|vectors| vectors.embedder().map(String::from)))
    }

    fn leg_weights(&self, _: &str) -> (f64, f64) {
        let weights = self.collection.schema().leg_weights;
        (LegWeights::factor(weights.vector), LegWeights::factor(weights.text))
    }

    fn config(&self, _: &Call<'_>, source: &str) -> Result<Option<SourceConfig>> {
        self.snapshot.source_config(self.collection.name(), source)
    }
}

//! The vector of each entity's name, kept beside a collection in its companion `:entities`: what a walk of the graph starts from.
//!
//! A vector belongs to a name, not to a document, so it outlives the last mention: whoever searches passes over names that no live document
//! mentions or relates, and [`Database::remove_stale_entity_vectors`] removes them. All vectors are of one embedder, whose fingerprint stands in
//! the companion's schema.

use super::companions::Companion;
use super::snapshot::{Collection, Snapshot};
use super::{Database, WriteBatch};
use crate::document::Document;
use crate::error::Result;
use crate::graph;
use crate::ids::Seq;
use crate::models::{Call, Embedder, ModelError, Purpose, TextRole};
use crate::options::limits;
use rustc_hash::{FxHashMap, FxHashSet};

/// Names that are embedded in one call and stored in one commit.
const NAMES_A_COMMIT: usize = 256;

impl WriteBatch {
    /// Stores vectors of entities' names, in the same commit as the rest of the batch: of each name its vector, all of one dimension. A name that
    /// has one gets this one. Names that differ in letter case alone are one, and stand in a call once.
    ///
    /// The vectors are taken to be of the collection's embedder, if its schema names one; [`WriteBatch::put_entity_vectors_by`] says whose they are.
    ///
    /// ```
    /// # use triune::{Database, Document, Entity, Schema, WriteBatch};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::create(dir.path().join("db"))?;
    /// let mut batch = WriteBatch::new();
    /// batch.create_collection("notes", Schema::default());
    /// batch.put("notes", vec![Document::new("a").entities([Entity::new("Marie Curie"), Entity::new("radium")])]);
    /// batch.put_entity_vectors("notes", vec![("Marie Curie".into(), vec![0.9, 0.1]), ("radium".into(), vec![0.2, 0.8])]);
    /// db.commit(batch)?;
    ///
    /// let vectors = db.snapshot().entity_vectors("notes")?.expect("some were stored");
    /// assert_eq!(&*vectors.nearest(&[1.0, 0.0], 1)?[0].name, "Marie Curie");
    /// # Ok::<(), triune::Error>(())
    /// ```
    pub fn put_entity_vectors(&mut self, collection: impl Into<String>, vectors: Vec<(String, Vec<f32>)>) -> &mut WriteBatch {
        self.put_companion(collection, Companion::Entities, documents(vectors))
    }

    /// As [`WriteBatch::put_entity_vectors`], of vectors that the embedder of this fingerprint made. A batch with vectors of another embedder than
    /// the collection's own, or than the one that made the names' vectors before, is refused with `EmbedderMismatch`.
    pub fn put_entity_vectors_by(
        &mut self,
        collection: impl Into<String>,
        embedder: impl Into<String>,
        vectors: Vec<(String, Vec<f32>)>,
    ) -> &mut WriteBatch {
        self.put_companion_by(collection, Companion::Entities, embedder, documents(vectors))
    }

    /// Removes the vectors of these names, in whatever spelling; what has none is passed over.
    pub fn delete_entity_vectors(&mut self, collection: impl Into<String>, names: &[String]) -> &mut WriteBatch {
        let keys = names.iter().map(|name| graph::key(name).into()).collect();
        self.delete_companion(collection, Companion::Entities, keys)
    }

    /// Removes the vectors of all names: the way to another embedder.
    pub fn drop_entity_vectors(&mut self, collection: impl Into<String>) -> &mut WriteBatch {
        self.drop_companion(collection, Companion::Entities)
    }
}

fn documents(vectors: Vec<(String, Vec<f32>)>) -> Vec<Document> {
    vectors.into_iter().map(|(name, vector)| Document::new(graph::key(&name)).text(name).vector(vector)).collect()
}

/// An entity whose name is near.
#[derive(Debug, Clone, PartialEq)]
pub struct NearestEntity {
    /// Its key: the name in lower case.
    pub key: Box<str>,
    /// Its name, as it was spelled when its vector was stored.
    pub name: Box<str>,
    /// Cosine similarity, in [-1, 1].
    pub similarity: f64,
}

/// The vectors of a collection's entities, as they are in a snapshot.
#[derive(Debug, Clone)]
pub struct EntityVectors {
    vectors: Collection,
    of: Collection,
}

impl Snapshot {
    /// The vectors of a collection's entities; `None` as long as none was stored.
    ///
    /// # Errors
    /// `NotFound` when there is no such collection.
    pub fn entity_vectors(&self, collection: &str) -> Result<Option<EntityVectors>> {
        let of = self.collection(collection)?;
        Ok(self.companion(collection, Companion::Entities)?.map(|vectors| EntityVectors { vectors, of }))
    }

    /// The names of entities that some live document mentions or relates and that have no vector, by key. O(edges of the graph).
    ///
    /// # Errors
    /// `NotFound` when there is no such collection.
    pub fn entities_without_vector(&self, collection: &str) -> Result<Vec<String>> {
        let names = graph::names(&self.collection(collection)?.parts.graph()?)?;
        let vectors = self.entity_vectors(collection)?;
        let mut without = Vec::new();
        for (key, name) in names {
            // A key that is longer than an id can be has no room for a vector; lower case can be longer than the name was.
            if key.len() <= limits::NAME_BYTES_MAX && !vectors.as_ref().map_or(Ok(false), |v| v.has_key(&key))? {
                without.push(name.into());
            }
        }
        Ok(without)
    }
}

impl EntityVectors {
    /// Names the model that made them; `None` when that is not known.
    pub fn embedder(&self) -> Option<&str> {
        self.vectors.schema().embedder.as_deref()
    }

    /// Components of each; `None` before the first.
    pub fn dimension(&self) -> Option<u32> {
        self.vectors.schema().dimension
    }

    /// How many names have one, those of entities that do not exist any more included.
    pub fn count(&self) -> u64 {
        self.vectors.count()
    }

    /// The vector of a name, in whatever spelling.
    ///
    /// # Errors
    /// `Corrupt` when the file that holds it is damaged.
    pub fn get(&self, name: &str) -> Result<Option<Box<[f32]>>> {
        Ok(self.vectors.get(&graph::key(name))?.and_then(|document| document.vector))
    }

    /// The `k` entities whose names' vectors are nearest, best first; equal ones in the order in which they were stored. Only entities that a live
    /// document mentions or relates.
    ///
    /// # Errors
    /// `SchemaMismatch` for a vector of another dimension, `InvalidArgument` for one that is not finite.
    pub fn nearest(&self, vector: &[f32], k: usize) -> Result<Vec<NearestEntity>> {
        let views = self.of.parts.graph()?;
        self.nearest_that(vector, k, |key| graph::exists(&views, key))
    }

    /// As [`EntityVectors::nearest`], of the entities whose keys are `wanted`.
    pub(crate) fn nearest_that(&self, vector: &[f32], k: usize, wanted: impl Fn(&str) -> Result<bool>) -> Result<Vec<NearestEntity>> {
        let mut known: FxHashMap<Seq, Option<NearestEntity>> = FxHashMap::default();
        let mut depth = k.saturating_mul(2).clamp(k.min(limits::K_MAX), limits::K_MAX);
        loop {
            let hits = self.vectors.nearest(vector, None, depth)?;
            let mut found = Vec::with_capacity(k.min(hits.len()));
            for hit in &hits {
                if found.len() == k {
                    break;
                }
                let entity = match known.get(&hit.seq) {
                    Some(entity) => entity.clone(),
                    None => {
                        let document = self.vectors.document_of(hit)?;
                        let entity = NearestEntity { key: document.id, name: document.text, similarity: hit.score };
                        let entity = wanted(&entity.key)?.then_some(entity);
                        known.insert(hit.seq, entity.clone());
                        entity
                    }
                };
                found.extend(entity);
            }
            if found.len() == k || hits.len() < depth || depth == limits::K_MAX {
                return Ok(found);
            }
            // Too many of the nearest do not exist any more.
            depth = depth.saturating_mul(4).min(limits::K_MAX);
        }
    }

    /// The keys that have a vector although no live document mentions or relates their entity, in the order in which they were stored. O(vectors x
    /// their edges).
    ///
    /// # Errors
    /// `Corrupt` when a file that holds them is damaged.
    pub fn stale(&self) -> Result<Vec<String>> {
        let views = self.of.parts.graph()?;
        let mut stale = Vec::new();
        for found in self.vectors.scan() {
            let (_, document) = found?;
            if !graph::exists(&views, &document.id)? {
                stale.push(document.id.into());
            }
        }
        Ok(stale)
    }

    pub(crate) fn has_key(&self, key: &str) -> Result<bool> {
        Ok(self.vectors.parts.find(key)?.is_some())
    }
}

impl Database {
    /// Embeds the bare names of the entities that have no vector, and returns how many there were. 256 names a call of the embedder, and a commit:
    /// when it is stopped, what was done is done, and the next call goes on.
    ///
    /// # Errors
    /// `EmbedderMismatch` when the collection's vectors, or those of its other names, are of another model; nothing is embedded then. `Model` with
    /// what kept the embedder from answering, when it is cancelled or its deadline is past.
    pub fn embed_entities(&self, collection: &str, embedder: &dyn Embedder, call: &Call<'_>) -> Result<u64> {
        let snapshot = self.snapshot();
        snapshot.refuse_other_entity_embedder(collection, embedder.fingerprint())?;
        let names = snapshot.entities_without_vector(collection)?;
        for names in names.chunks(NAMES_A_COMMIT) {
            let vectors = embed_names(embedder, names, call)?;
            let mut batch = WriteBatch::new();
            batch.put_entity_vectors_by(collection, embedder.fingerprint(), vectors);
            self.commit(batch)?;
        }
        Ok(names.len() as u64)
    }

    /// Removes the vectors of entities that no live document mentions or relates, and returns how many there were. O(vectors x their edges).
    ///
    /// # Errors
    /// `NotFound` when there is no such collection.
    pub fn remove_stale_entity_vectors(&self, collection: &str) -> Result<u64> {
        let Some(vectors) = self.snapshot().entity_vectors(collection)? else { return Ok(0) };
        let stale = vectors.stale()?;
        if stale.is_empty() {
            return Ok(0);
        }
        let mut batch = WriteBatch::new();
        batch.delete_companion(collection, Companion::Entities, stale);
        Ok(self.commit(batch)?.outcomes[0].deleted)
    }
}

impl Snapshot {
    /// Refuses an embedder whose vectors could not stand beside those that are there.
    pub(crate) fn refuse_other_entity_embedder(&self, collection: &str, embedder: &str) -> Result<()> {
        let of = self.collection(collection)?;
        if of.schema().embedder.is_some() {
            super::catalog::refuse_other_embedder(collection, of.schema(), embedder)?;
        }
        match self.entity_vectors(collection)? {
            Some(known) => super::catalog::refuse_other_embedder(known.vectors.name(), known.vectors.schema(), embedder),
            None => Ok(()),
        }
    }
}

/// Each name with its vector. Of names that differ in letter case alone the first counts.
pub(crate) fn embed_names(embedder: &dyn Embedder, names: &[String], call: &Call<'_>) -> Result<Vec<(String, Vec<f32>)>> {
    let call = call.with_purpose(Purpose::EMBED_DOCUMENTS);
    call.check()?;
    let mut seen = FxHashSet::default();
    let texts: Vec<&str> = names.iter().map(String::as_str).filter(|name| seen.insert(graph::key(name))).collect();
    let vectors = embedder.embed(&call, &texts, TextRole::Document)?;
    if vectors.len() != texts.len() {
        let what = format!("{} gave {} vectors for {} names", embedder.fingerprint(), vectors.len(), texts.len());
        return Err(ModelError::malformed(what).into());
    }
    let dimension = embedder.dimension() as usize;
    if let Some(other) = vectors.iter().map(Vec::len).find(|length| *length != dimension) {
        let what = format!("{} gave a vector of {other} components, and has dimension {dimension}", embedder.fingerprint());
        return Err(ModelError::malformed(what).into());
    }
    if vectors.iter().flatten().any(|component| !component.is_finite()) {
        return Err(ModelError::malformed(format!("{} gave a vector with a component that is not finite", embedder.fingerprint())).into());
    }
    Ok(texts.into_iter().map(String::from).zip(vectors).collect())
}

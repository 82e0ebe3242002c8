//! The run of an extraction: what is pending, waves of calls, a commit a chunk.

use super::mark::{Marks, State, mark};
use super::prompt::prompt;
use super::reply::{Extracted, read};
use super::{CHUNKS_MAX_DEFAULT, ExtractionSummary, GraphExtraction};
use crate::document::{Patch, StoredDocument};
use crate::engine::companions::Companion;
use crate::engine::entity_vectors::embed_names;
use crate::engine::{Collection, Database, Snapshot, WriteBatch};
use crate::error::{Error, Result};
use crate::graph::key;
use crate::ids::Seq;
use crate::models::{Call, Embedder, ModelError, ModelErrorKind, Purpose};
use crate::options::limits;
use crate::workers::side_by_side;
use rustc_hash::FxHashSet;

/// A chunk that is to be extracted, as it was when the run began.
struct Chunk {
    seq: Seq,
    document: StoredDocument,
}

/// A run under way.
struct Run<'a> {
    extraction: &'a GraphExtraction,
    db: &'a Database,
    collection: &'a str,
    call: Call<'a>,
    /// Keys of names that were embedded in this run.
    embedded: FxHashSet<Box<str>>,
    summary: ExtractionSummary,
}

/// A chunk's part of a wave that can be committed.
struct Answered<'a> {
    chunk: &'a Chunk,
    extracted: Extracted,
    vectors: Vec<(String, Vec<f32>)>,
}

impl GraphExtraction {
    /// Extracts from the chunks of a source, or of the whole collection, that were not yet or have changed since: in insertion order, as many as
    /// the configuration allows. Chunks that fail are counted and stay pending.
    ///
    /// What was committed before an error, a deadline or a cancellation stays.
    ///
    /// # Errors
    /// `NotFound` when there is no such collection; `EmbedderMismatch` when the names' vectors are of another embedder, before any call; what keeps
    /// the database from committing. A model that gives no answer is no error: see [`ExtractionSummary`].
    pub fn run(&self, db: &Database, collection: &str, source: Option<&str>, call: &Call<'_>) -> Result<ExtractionSummary> {
        let snapshot = db.snapshot();
        if let Some(embedder) = &self.embedder {
            snapshot.refuse_other_entity_embedder(collection, embedder.fingerprint())?;
        }
        let documents = snapshot.collection(collection)?;
        let call = call.with_purpose(Purpose::EXTRACT_GRAPH);
        let mut run = Run { extraction: self, db, collection, call, embedded: FxHashSet::default(), summary: ExtractionSummary::default() };
        let pending = run.pending(&snapshot, &documents, source)?;
        for wave in pending.chunks(self.calls) {
            if let Err(stop) = run.call.check() {
                run.summary.stopped = Some(stop);
            }
            if run.summary.stopped.is_some() {
                return Ok(run.summary);
            }
            let chunks = wave
                .iter()
                .filter_map(|(seq, id)| documents.get(id).map(|found| found.map(|document| Chunk { seq: *seq, document })).transpose());
            run.wave(&snapshot, &chunks.collect::<Result<Vec<Chunk>>>()?)?;
        }
        run.remove_orphans(source)?;
        Ok(run.summary)
    }
}

impl Run<'_> {
    /// Versions and ids of the chunks that are to be extracted.
    fn pending(&mut self, snapshot: &Snapshot, documents: &Collection, source: Option<&str>) -> Result<Vec<(Seq, Box<str>)>> {
        let most = self.extraction.config.max_chunks.unwrap_or(CHUNKS_MAX_DEFAULT);
        let marks = Marks::of(snapshot, self.collection)?;
        let mut pending = Vec::new();
        for found in documents.scan_of(source)? {
            let (seq, document) = found?;
            match marks.state(&document)? {
                State::Done => self.summary.already_done += 1,
                State::Given if !self.extraction.replaces_given => self.summary.given += 1,
                State::Given | State::Pending if pending.len() == most => self.summary.skipped_over_cap += 1,
                State::Given | State::Pending => pending.push((seq, document.id)),
            }
        }
        Ok(pending)
    }

    /// Asks about some chunks at once, and commits them one by one.
    fn wave(&mut self, snapshot: &Snapshot, chunks: &[Chunk]) -> Result<()> {
        let replies = side_by_side(chunks.len(), chunks.len(), |i| self.ask(&chunks[i].document.text));
        let mut answered = Vec::with_capacity(chunks.len());
        for (chunk, reply) in chunks.iter().zip(replies) {
            match reply {
                Ok(extracted) => answered.push(Answered { chunk, extracted, vectors: Vec::new() }),
                Err(error) => match self.call.check() {
                    // Nobody waits for this one any more: it did not fail.
                    Err(stop) => self.summary.stopped = Some(stop),
                    Ok(()) => {
                        self.summary.failed_chunks += 1;
                        self.summary.fail(error);
                    }
                },
            }
        }
        if let Some(embedder) = self.extraction.embedder.clone()
            && let Err(error) = self.embed(snapshot, embedder.as_ref(), &mut answered)
        {
            // The graph is worth having without them: `Database::embed_entities` makes up for it.
            let Error::Model(error) = error else { return Err(error) };
            self.summary.fail(error);
        }
        let batches = answered.iter().map(|answered| self.batch(answered)).collect::<Result<Vec<_>>>()?;
        let commits = self.db.commit_many(batches);
        for (answered, commit) in answered.into_iter().zip(commits) {
            self.count(answered, commit.map(drop))?;
        }
        Ok(())
    }

    /// What the model finds in a text.
    fn ask(&self, text: &str) -> std::result::Result<Extracted, ModelError> {
        if text.trim().is_empty() {
            return Ok(Extracted::default());
        }
        self.call.check()?;
        let extraction = self.extraction;
        let reply = extraction.model.complete(&self.call, &prompt(text, extraction.config.extraction_model.as_deref()))?;
        let malformed = || ModelError::new(ModelErrorKind::Malformed, format!("{} replied with no graph", extraction.model.name()));
        read(&reply, text).ok_or_else(malformed)
    }

    /// Embeds the names that have no vector yet, each for the first chunk that has it.
    fn embed(&self, snapshot: &Snapshot, embedder: &dyn Embedder, answered: &mut [Answered<'_>]) -> Result<()> {
        let known = snapshot.entity_vectors(self.collection)?;
        let (mut names, mut of, mut seen) = (Vec::new(), Vec::new(), FxHashSet::default());
        for (i, Answered { extracted, .. }) in answered.iter().enumerate() {
            let ends = extracted.relations.iter().flat_map(|relation| [&relation.source, &relation.target]);
            for name in extracted.entities.iter().map(|entity| &entity.name).chain(ends) {
                let key = key(name);
                let is_new = key.len() <= limits::NAME_BYTES_MAX
                    && !self.embedded.contains(&key)
                    && !known.as_ref().map_or(Ok(false), |known| known.has_key(&key))?;
                if is_new && seen.insert(key) {
                    names.push(name.clone());
                    of.push(i);
                }
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        for (vector, i) in embed_names(embedder, &names, &self.call)?.into_iter().zip(of) {
            answered[i].vectors.push(vector);
        }
        Ok(())
    }

    /// One chunk's graph, mark and vectors.
    fn batch(&self, Answered { chunk: Chunk { seq, document }, extracted, vectors }: &Answered<'_>) -> Result<WriteBatch> {
        let (id, source, text) = (&*document.id, document.source.as_deref(), &*document.text);
        let mut batch = WriteBatch::new();
        // One without text is left as it is; the patch says only that it must be this version.
        let (patch, mark) = if text.trim().is_empty() {
            (Patch::new(id), mark(id, source, text, document.entities.as_deref(), document.relations.as_deref())?)
        } else {
            let Extracted { entities, relations, .. } = extracted;
            let patch = Patch::new(id).entities(entities.as_slice()).relations(relations.as_slice());
            (patch, mark(id, source, text, Some(entities), Some(relations))?)
        };
        batch.patch(self.collection, vec![patch.of_version(*seq)]);
        batch.put_companion(self.collection, Companion::Extraction, vec![mark]);
        if let (Some(embedder), false) = (&self.extraction.embedder, vectors.is_empty()) {
            batch.put_entity_vectors_by(self.collection, embedder.fingerprint(), vectors.clone());
        }
        Ok(batch)
    }

    /// Adds a chunk to the summary.
    fn count(&mut self, answered: Answered<'_>, commit: Result<()>) -> Result<()> {
        let summary = &mut self.summary;
        match commit {
            Ok(()) => {
                summary.chunks_processed += 1;
                summary.nodes += answered.extracted.entities.len() as u64;
                summary.edges += answered.extracted.relations.len() as u64;
                summary.mended_weights += answered.extracted.mended;
                summary.dropped += answered.extracted.dropped;
                summary.embedded += answered.vectors.len() as u64;
                self.embedded.extend(answered.vectors.iter().map(|(name, _)| key(name)));
                Ok(())
            }
            Err(Error::NotFound(_)) if self.db.snapshot().collection(self.collection).is_ok() => {
                summary.changed_meanwhile += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Removes the marks of chunks that are gone.
    fn remove_orphans(&mut self, source: Option<&str>) -> Result<()> {
        let snapshot = self.db.snapshot();
        let orphans = Marks::of(&snapshot, self.collection)?.orphans(&snapshot.collection(self.collection)?, source)?;
        if !orphans.is_empty() {
            let mut batch = WriteBatch::new();
            batch.delete_companion(self.collection, Companion::Extraction, orphans);
            self.summary.marks_removed = self.db.commit(batch)?.outcomes[0].deleted;
        }
        Ok(())
    }
}

//! Entities and relations out of texts, by a language model: [`GraphExtraction`] asks about one chunk after the other, and stores what it is told with the
//! chunk itself.
//!
//! - One call of the model a chunk. The text is material for it, fenced; what it replies is checked, trimmed and brought into range before it is stored.
//! - Entities and relations of a chunk, the mark that says so, and the vectors of new names are one commit: after a crash a chunk is extracted or it is
//!   not, and never twice. Running again goes on where the last run stopped.
//! - What a chunk contributed belongs to that chunk: it goes with it, and is replaced, never added to, when the chunk is extracted again.
//! - A chunk that was changed while the model read it is left alone, and pending.
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | [`GraphExtraction`], [`ExtractionSummary`] |
//! | `run.rs` | the run: what is pending, waves of calls, commits |
//! | `prompt.rs` | what the model is asked |
//! | `reply.rs` | what its reply says |
//! | `mark.rs` | which chunks are done: [`ExtractionProgress`] |

mod mark;
mod prompt;
mod reply;
mod run;

pub use mark::ExtractionProgress;

use super::config::GraphConfig;
use crate::error::Result;
use crate::models::{Embedder, LanguageModel, ModelError};
use std::fmt;
use std::sync::Arc;

/// Chunks that one run extracts from at most when nobody says how many.
pub const CHUNKS_MAX_DEFAULT: usize = 2_000;
/// Calls of the model that are under way at once when nobody says how many.
const CALLS_DEFAULT: usize = 4;

/// Asks a language model for the entities and relations of chunks, and stores them.
///
/// ```
/// use std::sync::Arc;
/// use triune::models::{Call, LanguageModel, ModelError, Prompt};
/// use triune::retrieval::extraction::GraphExtraction;
/// # use triune::{Database, Document, Schema};
///
/// /// Knows one fact.
/// struct Chemist;
///
/// impl LanguageModel for Chemist {
///     fn name(&self) -> &str {
///         "chemist"
///     }
///     fn complete(&self, _: &Call<'_>, prompt: &Prompt) -> Result<String, ModelError> {
///         let knows = prompt.user.contains("Curie");
///         Ok(if knows { r#"{"entities": [{"name": "Curie"}], "relationships": [{"source": "Curie", "target": "radium", "weight": 3}]}"# } else { "{}" }.into())
///     }
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = Database::create(dir.path().join("db"))?;
/// # db.create_collection("notes", Schema::default())?;
/// db.put("notes", vec![Document::new("a").text("Curie discovered radium."), Document::new("b").text("Bees see red as black.")])?;
/// let extraction = GraphExtraction::new(Arc::new(Chemist));
/// let summary = extraction.run(&db, "notes", None, &Call::default())?;
/// assert_eq!((summary.chunks_processed, summary.nodes, summary.edges), (2, 1, 1));
/// assert_eq!(db.snapshot().collection("notes")?.neighbours("curie")?[0].weight, 3.0);
///
/// // Nothing is pending any more.
/// assert_eq!(extraction.run(&db, "notes", None, &Call::default())?.already_done, 2);
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Clone)]
pub struct GraphExtraction {
    model: Arc<dyn LanguageModel>,
    embedder: Option<Arc<dyn Embedder>>,
    config: GraphConfig,
    calls: usize,
    replaces_given: bool,
}

impl fmt::Debug for GraphExtraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphExtraction")
            .field("model", &self.model.name())
            .field("embedder", &self.embedder.as_ref().map(|m| m.fingerprint().to_string()))
            .field("config", &self.config)
            .field("calls", &self.calls)
            .field("replaces_given", &self.replaces_given)
            .finish()
    }
}

impl GraphExtraction {
    /// Asks this model, four calls at once, about 2,000 chunks at most.
    pub fn new(model: Arc<dyn LanguageModel>) -> GraphExtraction {
        GraphExtraction { model, embedder: None, config: GraphConfig::default(), calls: CALLS_DEFAULT, replaces_given: false }
    }

    /// Extracts as a source is configured: by which model, from how many chunks. Further questions about a chunk (`gleanings`) are not asked.
    ///
    /// # Errors
    /// `InvalidArgument` that names every number out of range.
    pub fn configured(mut self, config: GraphConfig) -> Result<GraphExtraction> {
        config.validate()?;
        self.config = config;
        Ok(self)
    }

    /// Embeds the bare names of entities that have no vector, in the commits of the chunks that name them.
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> GraphExtraction {
        self.embedder = Some(embedder);
        self
    }

    /// How many calls of the model are under way at once, one at least. Default: 4.
    pub fn calls_at_once(mut self, calls: usize) -> GraphExtraction {
        self.calls = calls.max(1);
        self
    }

    /// Whether chunks whose entities or relations the caller gave are extracted too, and lose what was given. Default: no, they are left alone.
    pub fn replaces_given(mut self, replaces: bool) -> GraphExtraction {
        self.replaces_given = replaces;
        self
    }
}

/// What a run of a [`GraphExtraction`] did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExtractionSummary {
    /// Entities that were stored: those of each chunk, added up. The ends of relations that are not among them are not counted.
    pub nodes: u64,
    /// Relations that were stored.
    pub edges: u64,
    /// Chunks that are done now and were not before. One without text is done without a call.
    pub chunks_processed: u64,
    /// Chunks that were pending beyond the most that one run extracts from.
    pub skipped_over_cap: u64,
    /// Chunks about which the model gave no answer, or none that can be read. They stay pending.
    pub failed_chunks: u64,
    /// Chunks that were done before.
    pub already_done: u64,
    /// Chunks that were left alone because their entities or relations are the caller's own.
    pub given: u64,
    /// Chunks that were written or deleted while the model read them. They stay pending, if they are there.
    pub changed_meanwhile: u64,
    /// Weights that were brought into their range.
    pub mended_weights: u64,
    /// Entities and relations that were dropped because they had no name that can be stored.
    pub dropped: u64,
    /// Names that were embedded.
    pub embedded: u64,
    /// Marks that were removed because their chunks are gone.
    pub marks_removed: u64,
    /// Why chunks failed or names were not embedded: the first error of each kind, and how often that kind occurred.
    pub failures: Vec<(ModelError, u64)>,
    /// Why the run stopped before its end: it was cancelled, or its deadline is past. What was done is done.
    pub stopped: Option<ModelError>,
}

impl ExtractionSummary {
    fn fail(&mut self, error: ModelError) {
        match self.failures.iter_mut().find(|(first, _)| first.kind == error.kind) {
            Some((_, times)) => *times += 1,
            None => self.failures.push((error, 1)),
        }
    }
}

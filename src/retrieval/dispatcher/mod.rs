//! One question to many sources, each asked in its own way: groups them by retriever, runs stages over what was found, and keeps all of it within
//! one budget.
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | [`Dispatcher`], [`Question`], [`Answer`]: the road of a question |
//! | `groups.rs` | which sources are asked together |
//! | `steps.rs` | stages and screenings, whose failures change nothing |

mod groups;
mod steps;

use super::classic::ClassicRetriever;
use super::config::{PreScreenConfig, RetrievalConfig};
use super::ledger::{TokenLedger, shares};
use super::passage::Passage;
use super::registry::{CLASSIC, Registry};
use super::request::{Models, Request, RetrievalError, Retrieved, Retriever, SourceRequest, Turn};
use super::stage::Stage;
use super::store::Stores;
use crate::error::Result;
use crate::models::{Call, Purpose, Usage, UsageLedger};
use groups::{Group, groups, plain};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Makes the stage that screens a source's candidates as it is configured.
pub type ScreenMaker = Arc<dyn Fn(&PreScreenConfig) -> Result<Arc<dyn Stage>> + Send + Sync>;

/// A source that a question names.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceEntry {
    /// Its id.
    pub id: String,
    /// How it is asked; absent, as its store says, and as by default when that says nothing.
    pub config: Option<RetrievalConfig>,
}

impl SourceEntry {
    /// A source, asked as its store says.
    pub fn stored(id: impl Into<String>) -> SourceEntry {
        SourceEntry { id: id.into(), config: None }
    }

    /// A source, asked like this.
    pub fn with(id: impl Into<String>, config: RetrievalConfig) -> SourceEntry {
        SourceEntry { id: id.into(), config: Some(config) }
    }
}

/// What is asked, of whom, and how much of an answer is wanted.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// The question, as it was asked.
    pub text: &'a str,
    /// The conversation before it, the oldest turn first.
    pub history: &'a [Turn],
    /// The sources that are asked, each in its own way.
    pub sources: Vec<SourceEntry>,
    /// Further sources, asked by the classic retriever as by default; those that `sources` names too are asked once.
    pub active: Vec<String>,
    /// Passages over all sources of a group that have no number of their own, at most 500. 0 asks nobody. Default: 2.
    pub chunks: usize,
    /// Tokens that the passages may take together. Nine tenths of it are spent, and 100 at least. Default: no limit.
    pub token_limit: Option<usize>,
    /// On whose behalf, and until when.
    pub call: Call<'a>,
}

impl<'a> Question<'a> {
    /// A question to no source yet.
    pub fn new(text: &'a str) -> Question<'a> {
        Question {
            text,
            history: &[],
            sources: Vec::new(),
            active: Vec::new(),
            chunks: super::config::CHUNKS_DEFAULT,
            token_limit: None,
            call: Call::default(),
        }
    }
}

/// What was found, and what kept it from being more: partial results stand beside errors.
#[derive(Debug, Default)]
pub struct Answer {
    /// Passages: groups in the order of their retrievers, sources in theirs, best first in each, unless a stage ordered them anew.
    pub passages: Vec<Passage>,
    /// What a person should know.
    pub notes: Vec<String>,
    /// Sources, legs and stages that failed.
    pub errors: Vec<RetrievalError>,
    /// The question that was searched for in place of the one that was asked, where a source had it rewritten to stand without the history.
    pub rewritten: Option<String>,
    /// What models took, by purpose.
    pub usage: BTreeMap<Purpose, Usage>,
}

/// Asks many sources, each in its own way.
///
/// ```
/// use std::sync::Arc;
/// use triune::models::{Call, Embedder, ModelError, TextRole};
/// use triune::retrieval::{CollectionStore, Dispatcher, Models, Question, RetrievalConfig, SourceEntry, Stores};
/// use triune::{Database, Document, Schema, WriteBatch};
///
/// /// Counts vowels: a poor embedder, but a whole one.
/// struct Vowels;
///
/// impl Embedder for Vowels {
///     fn fingerprint(&self) -> &str {
///         "vowels-v1"
///     }
///     fn dimension(&self) -> u32 {
///         5
///     }
///     fn embed(&self, _: &Call<'_>, texts: &[&str], _: TextRole) -> Result<Vec<Vec<f32>>, ModelError> {
///         let count = |text: &str, vowel| text.chars().filter(|c| *c == vowel).count() as f32;
///         Ok(texts.iter().map(|text| "aeiou".chars().map(|vowel| count(text, vowel)).collect()).collect())
///     }
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = Database::create(dir.path().join("db"))?;
/// let embed = |text: &str| Vowels.embed_one(&Call::default(), text, TextRole::Document);
/// let mut batch = WriteBatch::new();
/// batch.create_collection("notes", Schema { embedder: Some("vowels-v1".into()), ..Schema::default() });
/// for (id, source, text) in [("t1", "trees.md", "Oaks drop acorns."), ("t2", "trees.md", "Birches are white."), ("b1", "bees.md", "Bees see red as black.")] {
///     batch.put("notes", vec![Document::new(id).text(text).source(source).vector(embed(text)?)]);
/// }
/// batch.configure_source("notes", "trees.md", RetrievalConfig { retriever: "hybrid".into(), chunks: 1, ..Default::default() })?;
/// db.commit(batch)?;
///
/// let store = Arc::new(CollectionStore::new(&db.snapshot(), "notes")?);
/// let models = Models { embedder: Some(Arc::new(Vowels)), ..Models::default() };
/// let dispatcher = Dispatcher::new(Stores::all_in(store), models);
/// let answer = dispatcher.ask(&Question {
///     sources: vec![SourceEntry::stored("trees.md"), SourceEntry::stored("bees.md")],
///     ..Question::new("what do oaks drop")
/// });
/// assert!(answer.errors.is_empty());
/// let cited: Vec<_> = answer.passages.iter().map(|p| (p.id.as_str(), p.source.as_str())).collect();
/// assert_eq!(cited, [("t1", "trees.md"), ("b1", "bees.md")]);
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Clone)]
pub struct Dispatcher {
    stores: Stores,
    models: Models,
    registry: Registry,
    group_stages: Vec<Arc<dyn Stage>>,
    stages: Vec<Arc<dyn Stage>>,
    screens: Option<ScreenMaker>,
    per_source: bool,
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |stages: &[Arc<dyn Stage>]| stages.iter().map(|stage| stage.name().to_string()).collect::<Vec<_>>();
        f.debug_struct("Dispatcher")
            .field("stores", &self.stores)
            .field("models", &self.models)
            .field("registry", &self.registry)
            .field("group_stages", &names(&self.group_stages))
            .field("stages", &names(&self.stages))
            .field("screens", &self.screens.is_some())
            .field("per_source", &self.per_source)
            .finish()
    }
}

impl Dispatcher {
    /// A dispatcher without stages, which knows Triune's own retrievers.
    pub fn new(stores: Stores, models: Models) -> Dispatcher {
        let (group_stages, stages) = (Vec::new(), Vec::new());
        Dispatcher { stores, models, registry: Registry::default(), group_stages, stages, screens: None, per_source: true }
    }

    /// Knows these retrievers instead.
    pub fn with_registry(mut self, registry: Registry) -> Dispatcher {
        self.registry = registry;
        self
    }

    /// Adds a stage over what each group found, before its screenings.
    pub fn with_group_stage(mut self, stage: Arc<dyn Stage>) -> Dispatcher {
        self.group_stages.push(stage);
        self
    }

    /// Adds a stage over what all groups found: a reranker, as a rule.
    pub fn with_stage(mut self, stage: Arc<dyn Stage>) -> Dispatcher {
        self.stages.push(stage);
        self
    }

    /// Screens the candidates of sources that are configured so.
    pub fn with_screens(mut self, maker: ScreenMaker) -> Dispatcher {
        self.screens = Some(maker);
        self
    }

    /// Whether sources are asked in their own ways. Without, the classic retriever asks all of them as by default, and no stage runs: the switch
    /// for when something here goes wrong. Default: true.
    pub fn per_source(mut self, on: bool) -> Dispatcher {
        self.per_source = on;
        self
    }

    /// Asks. Whatever fails is reported beside what was found all the same.
    pub fn ask(&self, question: &Question<'_>) -> Answer {
        let usage = UsageLedger::default();
        let call = Call { usage: Some(&usage), ..question.call.clone() };
        let request = Request {
            history: question.history,
            chunks: question.chunks,
            token_limit: question.token_limit,
            call,
            ..Request::new(question.text, &self.stores, &self.models)
        };
        let found = if self.per_source { self.in_their_own_ways(question, &request) } else { plainly(question, &request) };
        let by_purpose = usage.by_purpose();
        if let Some(callers) = question.call.usage {
            by_purpose.iter().for_each(|(purpose, usage)| callers.add(purpose, *usage));
        }
        let rewritten = request.questions.rewritten().filter(|rewritten| **rewritten != *question.text);
        let rewritten = rewritten.map(|rewritten| rewritten.to_string());
        Answer { passages: found.passages, notes: found.notes, errors: found.errors, rewritten, usage: by_purpose }
    }

    fn in_their_own_ways(&self, question: &Question<'_>, request: &Request<'_>) -> Retrieved {
        let mut all = Retrieved::default();
        let entries = self.configured(question, &mut all);
        let groups = groups(&entries, &question.active);
        let several = groups.len() > 1;
        let limits = question.token_limit.map(|limit| shares(limit, groups.len()));
        for (i, group) in groups.into_iter().enumerate() {
            let request = Request {
                token_limit: limits.as_ref().map(|shares| shares[i]),
                counts_screened_later: true,
                ..request.narrowed(group.sources.clone())
            };
            match self.registry.get(&group.retriever) {
                Ok(retriever) => {
                    let found = self.of_group(retriever.as_ref(), &group, &request, &mut all);
                    all.passages.extend(found);
                }
                Err(e) => {
                    let unasked = |source: &SourceRequest| RetrievalError::of_source(&source.id, "dispatcher", e.duplicate());
                    all.errors.extend(group.sources.iter().map(unasked));
                }
            }
        }
        all.passages = steps::apply_all(&self.stages, request, std::mem::take(&mut all.passages), &mut all);
        if several || !self.stages.is_empty() {
            self.cut(question.token_limit, &mut all.passages);
        }
        all
    }

    /// What each entry's source is asked with.
    fn configured(&self, question: &Question<'_>, out: &mut Retrieved) -> Vec<SourceRequest> {
        let config = |entry: &SourceEntry| match (&entry.config, self.stores.of(&entry.id)) {
            // A retriever's name is looked up where it is asked.
            (Some(config), _) => {
                let named = RetrievalConfig { retriever: CLASSIC.into(), ..config.clone() };
                named.validate().map(|()| Some(config.clone()))
            }
            (None, Some(store)) => store.config(&question.call, &entry.id).map(|stored| stored.map(|config| config.retrieval)),
            (None, None) => Ok(None),
        };
        let mut entries = Vec::with_capacity(question.sources.len());
        for entry in &question.sources {
            let config = config(entry).unwrap_or_else(|e| {
                let error = e.noting("the source was asked as by default");
                out.errors.push(RetrievalError::of_source(&entry.id, "reading its configuration", error));
                None
            });
            entries.push(SourceRequest { id: entry.id.clone(), config: config.unwrap_or_default() });
        }
        entries
    }

    /// What one group gives after its stages, within its share.
    fn of_group(&self, retriever: &dyn Retriever, group: &Group, request: &Request<'_>, all: &mut Retrieved) -> Vec<Passage> {
        let mut found = retriever.search(request);
        all.notes.append(&mut found.notes);
        all.errors.append(&mut found.errors);
        let mut passages = steps::apply_all(&self.group_stages, request, found.passages, all);
        let screened: Vec<&SourceRequest> = group.sources.iter().filter(|source| source.config.prescreen.is_some()).collect();
        for source in &screened {
            passages = steps::screen(self.screens.as_ref(), request, source, passages, all);
        }
        if !(retriever.keeps_budget() && screened.is_empty() && self.group_stages.is_empty()) {
            self.cut(request.token_limit, &mut passages);
        }
        passages
    }

    /// Leaves what fits a limit.
    fn cut(&self, limit: Option<usize>, passages: &mut Vec<Passage>) {
        let mut ledger = TokenLedger::new(limit, self.models.counter.as_deref());
        if ledger.counts() {
            passages.retain(|passage| ledger.accept(passage));
        }
    }
}

/// The classic retriever over every source that the question names.
fn plainly(question: &Question<'_>, request: &Request<'_>) -> Retrieved {
    let entry = |entry: &SourceEntry| SourceRequest::new(&entry.id);
    let entries: Vec<SourceRequest> = question.sources.iter().map(entry).collect();
    ClassicRetriever.search(&request.narrowed(plain(&entries, &question.active)))
}

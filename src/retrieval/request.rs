//! What a retriever is asked, and what it answers.

use super::config::{CHUNKS_DEFAULT, CHUNKS_MAX, RetrievalConfig};
use super::ledger::TokenLedger;
use super::passage::Passage;
use super::rewrite::Questions;
use super::store::{Store, Stores};
use crate::error::{Error, Result};
use crate::models::{Call, Embedder, LanguageModel, TokenCounter};
use std::fmt;
use std::sync::Arc;

/// A question and its answer, earlier in the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// What was asked.
    pub question: String,
    /// What was answered.
    pub answer: String,
}

impl Turn {
    /// A turn of the conversation.
    pub fn new(question: impl Into<String>, answer: impl Into<String>) -> Turn {
        Turn { question: question.into(), answer: answer.into() }
    }
}

/// The models that a request may use. What is absent is not used: without an embedder nothing is found by vectors, without a language model
/// questions stay as they are, and without a counter there is no budget.
#[derive(Clone, Default)]
pub struct Models {
    /// Embeds questions.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// Rewrites questions.
    pub language_model: Option<Arc<dyn LanguageModel>>,
    /// Counts what passages take of the budget.
    pub counter: Option<Arc<dyn TokenCounter>>,
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models")
            .field("embedder", &self.embedder.as_ref().map(|m| m.fingerprint().to_string()))
            .field("language_model", &self.language_model.as_ref().map(|m| m.name().to_string()))
            .field("counter", &self.counter.as_ref().map(|m| m.name().to_string()))
            .finish()
    }
}

/// A source to be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceRequest {
    /// Its id.
    pub id: String,
    /// How it is asked; where nothing of it is out of the ordinary, it takes its share of what the request asks for.
    pub config: RetrievalConfig,
}

impl SourceRequest {
    /// A source that is asked as by default.
    pub fn new(id: impl Into<String>) -> SourceRequest {
        SourceRequest { id: id.into(), config: RetrievalConfig::default() }
    }
}

/// A question to some sources.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The question, as it was asked.
    pub question: &'a str,
    /// The conversation before it, the oldest turn first.
    pub history: &'a [Turn],
    /// The sources, in the order in which their passages are given; blank ids are passed over.
    pub sources: Vec<SourceRequest>,
    /// Passages over all sources that have no number of their own, at most 500. 0 asks nobody. Default: 2.
    pub chunks: usize,
    /// Tokens that the passages may take, with whatever counter the models have. Nine tenths of it are spent, and 100 at least. Default: no limit.
    pub token_limit: Option<usize>,
    /// On whose behalf, and until when.
    pub call: Call<'a>,
    /// Where the sources are.
    pub stores: &'a Stores,
    /// What may be asked of models.
    pub models: &'a Models,
    /// Sources that are screened afterwards: what they give is counted then.
    pub(crate) counts_screened_later: bool,
    /// What was rewritten and embedded so far.
    pub(crate) questions: Arc<Questions>,
}

impl<'a> Request<'a> {
    /// A question to no source yet.
    pub fn new(question: &'a str, stores: &'a Stores, models: &'a Models) -> Request<'a> {
        Request {
            question,
            history: &[],
            sources: Vec::new(),
            chunks: CHUNKS_DEFAULT,
            token_limit: None,
            call: Call::default(),
            stores,
            models,
            counts_screened_later: false,
            questions: Arc::new(Questions::default()),
        }
    }

    /// The same question to other sources, or with other numbers. What was rewritten and embedded for one is not for the other again.
    pub fn narrowed(&self, sources: Vec<SourceRequest>) -> Request<'a> {
        Request { sources, ..self.clone() }
    }

    /// The sources whose ids are not blank.
    pub fn asked(&self) -> Vec<&SourceRequest> {
        self.sources.iter().filter(|source| !source.id.trim().is_empty()).collect()
    }

    /// Whether there is nothing to do: no source, or no passage wanted.
    pub fn is_idle(&self) -> bool {
        self.chunks == 0 || self.sources.iter().all(|source| source.id.trim().is_empty())
    }

    /// Passages that a source gives at most: its own number where it is asked in a way of its own, else an even share of [`Request::chunks`] and
    /// one at least; with a screening as many as that judges, if those are more.
    pub fn top_k(&self, source: &SourceRequest) -> usize {
        let config = &source.config;
        let share = self.chunks.min(CHUNKS_MAX) / self.asked().len().max(1);
        let own = if config.is_override() { config.chunks } else { share };
        let judged = config.prescreen.as_ref().map_or(0, |screen| screen.candidate_k);
        own.max(1).max(judged)
    }

    /// The store of a source.
    ///
    /// # Errors
    /// `NotFound` when no store has it.
    pub fn store(&self, source: &str) -> Result<&'a Arc<dyn Store>> {
        let store = self.stores.of(source);
        store.ok_or_else(|| Error::NotFound(format!("source {source:?} in any of the stores; nothing was asked of it. Give it a store")))
    }

    /// The question to ask of a source: rewritten to stand without the history where there is one and the source wants that, else as it was
    /// asked. A model is asked once at most, whoever wants to know.
    pub fn question_for(&self, source: &SourceRequest) -> Arc<str> {
        self.questions.for_source(self, source)
    }

    /// The vector of a question. Each distinct question is embedded once, whoever wants to know.
    ///
    /// # Errors
    /// `Model`, with what kept the embedder from answering; without one, that it is not configured.
    pub fn vector_of(&self, question: &str) -> Result<Arc<[f32]>> {
        self.questions.vector(self, question)
    }

    /// The vector of a question for a source.
    ///
    /// # Errors
    /// As [`Request::vector_of`], and `EmbedderMismatch` when the source's vectors are of another model.
    pub fn vector_for(&self, source: &str, question: &str) -> Result<Arc<[f32]>> {
        if let Some(embedder) = &self.models.embedder {
            let made_by = self.store(source)?.embedder(source);
            refuse_other_embedder(&format!("source {source:?}"), made_by, embedder.as_ref(), "nothing was asked of it")?;
        }
        self.vector_of(question)
    }

    /// The vector of a question for the entities of a source.
    ///
    /// # Errors
    /// As [`Request::vector_of`], and `EmbedderMismatch` when the entities' vectors are of another model.
    pub fn entity_vector_for(&self, source: &str, question: &str) -> Result<Arc<[f32]>> {
        if let Some(embedder) = &self.models.embedder {
            let made_by = self.store(source)?.entity_embedder(&self.call, source)?;
            refuse_other_embedder(
                &format!("the entities of source {source:?}"),
                made_by.as_deref(),
                embedder.as_ref(),
                "they were not compared",
            )?;
        }
        self.vector_of(question)
    }

    /// The budget of the request.
    pub(crate) fn ledger(&self) -> TokenLedger<'a> {
        if self.token_limit.is_some() && self.models.counter.is_none() {
            self.questions.note_uncounted();
        }
        TokenLedger::new(self.token_limit, self.models.counter.as_deref().map(|counter| counter as &dyn TokenCounter))
    }

    /// What rewriting had to say, once.
    pub(crate) fn drain(&self, into: &mut Retrieved) {
        self.questions.drain(into);
    }
}

/// Refuses to compare a question with vectors of another model; where it is not known which made them, nothing speaks against it. `unasked` says
/// what was left out.
pub(crate) fn refuse_other_embedder(of: &str, made_by: Option<&str>, embedder: &dyn Embedder, unasked: &str) -> Result<()> {
    let asks = embedder.fingerprint();
    match made_by {
        Some(made_by) if made_by != asks => Err(Error::EmbedderMismatch(format!(
            "the vectors of {of} were made by {made_by:?}, the question would be embedded by {asks:?}; {unasked}. Use the embedder of its documents"
        ))),
        _ => Ok(()),
    }
}

/// Why a source, or a step, gave nothing or less.
#[derive(Debug, thiserror::Error)]
#[error("{step}{}: {error}", source_id.as_ref().map(|s| format!(" of source {s:?}")).unwrap_or_default())]
pub struct RetrievalError {
    /// The source that was asked; absent when it concerns all.
    pub source_id: Option<String>,
    /// The retriever, leg or stage.
    pub step: String,
    /// What happened.
    #[source]
    pub error: Error,
}

impl RetrievalError {
    /// An error of a source.
    pub fn of_source(source: &str, step: impl Into<String>, error: Error) -> RetrievalError {
        RetrievalError { source_id: Some(source.into()), step: step.into(), error }
    }

    /// An error that concerns all sources.
    pub fn of_step(step: impl Into<String>, error: Error) -> RetrievalError {
        RetrievalError { source_id: None, step: step.into(), error }
    }
}

/// What a retriever found, and what kept it from finding more: partial results stand beside errors.
#[derive(Debug, Default)]
pub struct Retrieved {
    /// Passages, in the order of the sources, best first in each.
    pub passages: Vec<Passage>,
    /// What a person should know.
    pub notes: Vec<String>,
    /// Sources and steps that failed.
    pub errors: Vec<RetrievalError>,
}

/// A way to find passages.
///
/// Object-safe and shared by threads. It does what it can: a source that fails is reported and the others go on; a request that is cancelled or
/// past its deadline gets what was found until then, with an error that says so.
pub trait Retriever: Send + Sync {
    /// Its name, in lower case.
    fn name(&self) -> &str;

    /// The passages of every source that answer the question.
    fn search(&self, request: &Request<'_>) -> Retrieved;

    /// Whether what it gives stays within [`Request::token_limit`] as [`super::spendable`] says. If not, whoever asks it cuts the answer.
    fn keeps_budget(&self) -> bool {
        false
    }
}

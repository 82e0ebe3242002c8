//! A step between finding passages and handing them on: it judges, reorders, merges or drops them.

use super::passage::Passage;
use crate::error::{Error, Result};
use crate::models::Call;
use parking_lot::Mutex;

/// What a stage is told beside the passages.
#[derive(Debug)]
pub struct StageContext<'a> {
    /// The question that passages are judged by: as it was rewritten to stand without the history, where a source had that done, else as it was
    /// asked.
    pub query: &'a str,
    /// The question as it was asked.
    pub asked: &'a str,
    /// On whose behalf and until when; a stage that asks a model gives it a purpose of its own with [`Call::with_purpose`].
    pub call: Call<'a>,
    /// What the stage wants said beside its answer.
    pub report: &'a StageReport,
}

/// What a stage says beside its answer: notes for people, and what failed without keeping it from answering. Shared by its threads.
#[derive(Debug, Default)]
pub struct StageReport {
    notes: Mutex<Vec<String>>,
    failures: Mutex<Vec<Error>>,
}

impl StageReport {
    /// Says something that a person should know. It holds no text of a question or a document.
    pub fn note(&self, note: impl Into<String>) {
        self.notes.lock().push(note.into());
    }

    /// Says what failed although there is an answer: a batch that a model did not judge, a rerank that fell back to rank fusion. Its words hold no
    /// text of a question or a document. The dispatcher reports it beside the answer, with the stage's name.
    pub fn failure(&self, error: impl Into<Error>) {
        self.failures.lock().push(error.into());
    }

    /// Everything that was said, in the order in which it was said: notes, and failures.
    pub fn into_parts(self) -> (Vec<String>, Vec<Error>) {
        (self.notes.into_inner(), self.failures.into_inner())
    }
}

/// A step between finding passages and handing them on.
///
/// Stages run in the order in which they were given, each on what the one before it left. One that fails changes nothing: the passages that it
/// was given go on as they were, and the failure is reported beside the answer.
///
/// ```
/// use triune::retrieval::{Passage, Stage, StageContext};
///
/// /// Keeps passages that say something.
/// struct LongEnough(usize);
///
/// impl Stage for LongEnough {
///     fn name(&self) -> &str {
///         "long-enough"
///     }
///     fn apply(&self, _: &StageContext<'_>, mut passages: Vec<Passage>) -> triune::Result<Vec<Passage>> {
///         passages.retain(|p| p.text.len() >= self.0);
///         Ok(passages)
///     }
/// }
/// ```
pub trait Stage: Send + Sync {
    /// Names it in reports.
    fn name(&self) -> &str;

    /// What goes on of `passages`, best first.
    ///
    /// # Errors
    /// Whatever kept it from answering; then `passages` go on as they were.
    fn apply(&self, context: &StageContext<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>>;
}

//! What goes with every call of a model.

use super::{ModelError, UsageLedger};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a model is asked for. A stable spelling, by which usage is reported and a gateway may route.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Purpose(Cow<'static, str>);

impl Purpose {
    /// Rewriting a question so that it stands without the conversation before it.
    pub const CONDENSE: Purpose = Purpose(Cow::Borrowed("rag_condense"));
    /// Judging which passages bear on a question.
    pub const PRESCREEN: Purpose = Purpose(Cow::Borrowed("rag_prescreen"));
    /// Scoring passages against a question.
    pub const RERANK: Purpose = Purpose(Cow::Borrowed("rag_rerank"));
    /// Embedding a question.
    pub const EMBED_QUERY: Purpose = Purpose(Cow::Borrowed("rag_embed_query"));
    /// Embedding what is stored.
    pub const EMBED_DOCUMENTS: Purpose = Purpose(Cow::Borrowed("rag_embed_documents"));
    /// Finding entities and relations in a chunk.
    pub const EXTRACT_GRAPH: Purpose = Purpose(Cow::Borrowed("graph_extract"));
    /// Anything that has no purpose of its own.
    pub const OTHER: Purpose = Purpose(Cow::Borrowed("other"));

    /// A purpose of the caller's own.
    pub fn new(name: impl Into<String>) -> Purpose {
        Purpose(Cow::Owned(name.into()))
    }

    /// The stable spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A wish to stop, shared by whoever may wish it and whoever works.
///
/// ```
/// use triune::models::{Call, Cancellation, ModelErrorKind};
/// let stop = Cancellation::new();
/// let call = Call { cancellation: stop.clone(), ..Call::default() };
/// stop.cancel();
/// assert_eq!(call.check().unwrap_err().kind, ModelErrorKind::Cancelled);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Nobody wishes to stop yet.
    pub fn new() -> Cancellation {
        Cancellation::default()
    }

    /// Wishes to stop, for good.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether somebody wishes to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What goes with every call of a model: what it is for, whose request it serves, and until when an answer is of use.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// What the model is asked for.
    pub purpose: Purpose,
    /// The caller's name for the request that this call serves; it goes to the model's server and into events, so it holds nothing private.
    pub request_id: Option<&'a str>,
    /// When an answer is of no use any more.
    pub deadline: Option<Instant>,
    /// Whether somebody wishes to stop.
    pub cancellation: Cancellation,
    /// Where the tokens that are spent are added up.
    pub usage: Option<&'a UsageLedger>,
}

impl Default for Call<'_> {
    fn default() -> Self {
        Call { purpose: Purpose::OTHER, request_id: None, deadline: None, cancellation: Cancellation::new(), usage: None }
    }
}

impl<'a> Call<'a> {
    /// The same request, for another purpose.
    pub fn with_purpose(&self, purpose: Purpose) -> Call<'a> {
        Call { purpose, ..self.clone() }
    }

    /// Time until the deadline, zero when it is past; `None` without one.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Whether the call is still of use: asked before work begins, and between its steps.
    ///
    /// # Errors
    /// `Cancelled` or `TimedOut`.
    pub fn check(&self) -> Result<(), ModelError> {
        if self.cancellation.is_cancelled() {
            return Err(ModelError::cancelled(&self.purpose));
        }
        if self.remaining() == Some(Duration::ZERO) {
            return Err(ModelError::timed_out(&self.purpose));
        }
        Ok(())
    }
}

//! Why a model gave no answer.

use super::Purpose;
use std::time::Duration;

/// What a caller can do about a model that gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// Somebody wished to stop.
    Cancelled,
    /// There was no answer before the deadline. Trying again with more time may help.
    TimedOut,
    /// The model's server asks for fewer requests. Trying again later helps.
    RateLimited,
    /// The server cannot be reached, or failed on its side. Trying again may help.
    Unavailable,
    /// The server refuses the request: a wrong key, an unknown model, a text too long. Trying again does not help.
    Refused,
    /// The answer is not what the protocol promises.
    Malformed,
    /// The connection is not set up: a key, a file or a program is missing.
    Configuration,
}

impl ModelErrorKind {
    /// The stable spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            ModelErrorKind::Cancelled => "cancelled",
            ModelErrorKind::TimedOut => "timed out",
            ModelErrorKind::RateLimited => "rate limited",
            ModelErrorKind::Unavailable => "unavailable",
            ModelErrorKind::Refused => "refused",
            ModelErrorKind::Malformed => "malformed answer",
            ModelErrorKind::Configuration => "not configured",
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(self) -> bool {
        matches!(self, ModelErrorKind::TimedOut | ModelErrorKind::RateLimited | ModelErrorKind::Unavailable)
    }
}

/// Why a model gave no answer. Its words never hold a key, an address with one, a question or a document's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("model {}: {message}", kind.as_str())]
pub struct ModelError {
    /// What a caller can do about it.
    pub kind: ModelErrorKind,
    /// What happened.
    pub message: String,
    /// How long the server asks to wait before the next try.
    pub retry_after: Option<Duration>,
}

impl ModelError {
    /// An error of any kind. `message` holds no key and no text of a question or document.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
        ModelError { kind, message: message.into(), retry_after: None }
    }

    /// An answer that is not what the protocol promises.
    pub fn malformed(message: impl Into<String>) -> ModelError {
        ModelError::new(ModelErrorKind::Malformed, message)
    }

    /// Somebody wished to stop.
    pub fn cancelled(purpose: &Purpose) -> ModelError {
        ModelError::new(ModelErrorKind::Cancelled, format!("{} was cancelled", named(purpose)))
    }

    /// The deadline is past.
    pub fn timed_out(purpose: &Purpose) -> ModelError {
        ModelError::new(ModelErrorKind::TimedOut, format!("{} had no answer before its deadline", named(purpose)))
    }
}

/// What a person calls it: a request that asks no model has no purpose of its own.
fn named(purpose: &Purpose) -> &str {
    if *purpose == Purpose::OTHER { "the request" } else { purpose.as_str() }
}

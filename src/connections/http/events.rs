//! Every event of this room: numbers, fixed words, and the two names that a call brings for being told, its purpose and its request.

use super::retry::Failure;
use crate::models::Call;
use std::time::Duration;
use tracing::{debug, warn};

/// One request, from its first try.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) call: &'a Call<'a>,
    /// A path of the protocol.
    pub(super) path: &'static str,
    pub(super) sent_bytes: usize,
}

impl Request<'_> {
    fn purpose(&self) -> String {
        plain(self.call.purpose.as_str())
    }

    fn request_id(&self) -> String {
        plain(self.call.request_id.unwrap_or(""))
    }

    /// The server answered.
    pub(super) fn answered(&self, tries: u32, reply_bytes: usize, tokens: (u64, u64), elapsed: Duration) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            debug!(
                path = self.path,
                purpose = self.purpose(),
                request_id = self.request_id(),
                tries,
                sent_bytes = self.sent_bytes,
                reply_bytes,
                prompt_tokens = tokens.0,
                completion_tokens = tokens.1,
                elapsed_ms = elapsed.as_millis() as u64,
                "model answered"
            );
        }
    }

    /// A try failed, and there will be another.
    pub(super) fn trying_again(&self, tries: u32, failure: &Failure, wait: Duration) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            let (kind, status) = (failure.kind.as_str(), failure.status.unwrap_or(0));
            let (purpose, request_id, wait_ms) = (self.purpose(), self.request_id(), wait.as_millis() as u64);
            debug!(path = self.path, purpose, request_id, tries, kind, status, wait_ms, "trying again");
        }
    }

    /// The last try failed.
    pub(super) fn failed(&self, tries: u32, failure: &Failure) {
        let (kind, status) = (failure.kind.as_str(), failure.status.unwrap_or(0));
        warn!(path = self.path, purpose = self.purpose(), request_id = self.request_id(), tries, kind, status, "model gave no answer");
    }
}

/// A name as it may stand in a header or an event: printable ASCII, at most 128 characters.
pub(super) fn plain(name: &str) -> String {
    name.chars().take(128).map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect::<String>().trim().to_string()
}

//! What is said of one file.

use crate::error::Error;
use crate::format::error::FormatError;
use std::fmt::Display;

/// Fields in the order in which they were found, and the first thing wrong.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) fields: Vec<(String, String)>,
    pub(super) problem: Option<String>,
}

impl Findings {
    /// Adds a field. A key that is there already is left as it is.
    pub(super) fn field(&mut self, key: impl Into<String>, value: impl Display) {
        let key = key.into();
        debug_assert!(self.fields.iter().all(|(k, _)| *k != key), "the key {key:?} stands twice");
        self.fields.push((key, value.to_string()));
    }

    /// Notes what is wrong; only the first is kept.
    pub(super) fn problem(&mut self, what: impl Into<String>) {
        self.problem.get_or_insert_with(|| what.into());
    }

    /// The value, or a note of why there is none.
    pub(super) fn take<T>(&mut self, doing: &str, result: std::io::Result<T>) -> Option<T> {
        result.map_err(|e| self.problem(format!("{doing}: {e}"))).ok()
    }
}

/// An error in one line, without the advice that belongs to opening.
pub(super) fn what(error: &Error) -> String {
    if let Error::Corrupt(c) = error { format!("byte {}: {}", c.offset, c.what) } else { error.to_string() }
}

/// Damage found by a decoder, whose bytes began at `at` in the file.
pub(super) fn located(error: FormatError, at: u64) -> String {
    let newer = if error.newer { " (written by a newer version, not damage)" } else { "" };
    format!("{}{newer}", error.shifted(at))
}

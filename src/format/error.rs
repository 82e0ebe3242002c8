//! What a decoder found wrong, and where inside the bytes it was given.

use crate::error::Error;
use std::fmt;

/// Damage found by a decoder: an offset inside the decoded bytes, and what was expected and found there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatError {
    /// Byte offset inside the bytes that were decoded.
    pub offset: u64,
    /// What was expected, and what was found.
    pub what: String,
    /// Whether the bytes are whole, but written by a newer version.
    pub newer: bool,
}

impl FormatError {
    /// Damage at `offset`.
    pub fn new(offset: usize, what: impl Into<String>) -> FormatError {
        FormatError { offset: offset as u64, what: what.into(), newer: false }
    }

    /// A structure that passed its checksum and needs a newer program.
    pub fn newer(offset: usize, what: impl Into<String>) -> FormatError {
        FormatError { offset: offset as u64, what: what.into(), newer: true }
    }

    /// Moves the address: these bytes began at `by` in what the caller decodes.
    pub fn shifted(mut self, by: u64) -> FormatError {
        self.offset += by;
        self
    }

    /// The error a user sees: these bytes began at `at` in `file`.
    pub fn in_file(self, file: impl fmt::Display, at: u64) -> Error {
        if self.newer {
            Error::UnsupportedVersion(format!(
                "{file} at byte {}: {}. Nothing was changed. Open it with the version of Triune that wrote it, or a newer one",
                at + self.offset,
                self.what
            ))
        } else {
            Error::corrupt(file.to_string(), at + self.offset, self.what)
        }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.what)
    }
}

impl std::error::Error for FormatError {}

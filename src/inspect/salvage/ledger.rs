//! What a salvage could not save, line by line.

use crate::error::Error;
use crate::ids::Lsn;
use serde::Serialize;

/// What kind of loss it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// A document is lost.
    Document,
    /// A document is kept without its vector, or without knowing whether it had one.
    Vector,
    /// A document is kept although it may have been deleted or replaced: what says so is lost.
    Death,
    /// Documents are lost whose ids are not known; `rows` says how many at most.
    Documents,
    /// Documents are kept, and some of them are not what was stored: the checksums of their bytes hold, the hash of their contents does not.
    /// `rows` says how many there are.
    Altered,
    /// Commits are lost, whatever they did: documents that they wrote are missing, and such that they deleted are back.
    Commits,
    /// The name or the schema of a collection is lost; its documents are kept under a name that was made up, and said.
    Collection,
    /// No manifest can be read, or the one that is used is not known to be the last: which collections there were, and which documents were in
    /// segments, is not known.
    Manifest,
}

/// One loss. Keys that mean nothing for its kind are absent; 64-bit numbers are numbers of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// What kind.
    pub kind: LossKind,
    /// The collection, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// The document, where its id is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How many documents at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// The first lost commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_lsn: Option<u64>,
    /// The last lost commit; absent when nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_lsn: Option<u64>,
    /// The damaged file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where in it, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How many bytes from there are lost, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// What is wrong there.
    pub reason: String,
}

impl Loss {
    /// A loss with nothing known but the reason.
    pub(super) fn new(kind: LossKind, reason: impl Into<String>) -> Loss {
        Loss {
            kind,
            collection: None,
            id: None,
            rows: None,
            first_lsn: None,
            last_lsn: None,
            file: None,
            offset: None,
            length: None,
            reason: reason.into(),
        }
    }

    /// A loss whose reason, file and offset are those of an error.
    pub(super) fn of(kind: LossKind, error: &Error) -> Loss {
        if let Error::Corrupt(c) = error {
            return Loss { file: Some(c.file.clone()), offset: Some(c.offset), ..Loss::new(kind, c.what.clone()) };
        }
        Loss::new(kind, error.to_string())
    }

    pub(super) fn collection(mut self, name: &str) -> Loss {
        self.collection = Some(name.into());
        self
    }

    pub(super) fn id(mut self, id: Option<&str>) -> Loss {
        self.id = id.map(Into::into);
        self
    }

    pub(super) fn rows(mut self, rows: u64) -> Loss {
        self.rows = Some(rows);
        self
    }

    pub(super) fn lsns(mut self, first: Lsn, last: Option<Lsn>) -> Loss {
        self.first_lsn = Some(first.0);
        self.last_lsn = last.map(|l| l.0);
        self
    }

    pub(super) fn place(mut self, file: &str, offset: u64, length: Option<u64>) -> Loss {
        (self.file, self.offset, self.length) = (Some(file.into()), Some(offset), length);
        self
    }
}

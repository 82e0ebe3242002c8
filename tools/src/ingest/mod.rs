//! From files to chunks of text, for `triune ingest`.
//!
//! Parsers meet whatever people keep in folders, so none runs in the process that holds the database: a child (`worker.rs`) reads one file
//! after another under a limit of time and memory, and a parser that panics, hangs, overflows its stack or asks for all memory costs one
//! file its place, with a reason. What leaves this module is whole: all chunks of a file, or why there are none.
//!
//! Never here: a database. `cmd/ingest.rs` decides what is stored.
//!
//! | file | role |
//! | --- | --- |
//! | `walk.rs` | which files there are under the paths given |
//! | `ignored.rs` | what ignore files leave out |
//! | `regular.rs` | reading regular files, and waiting for no pipe |
//! | `kind.rs` | what a file is, by name and content; bytes to text |
//! | `worker.rs` | the child process, both ends |
//! | `extract.rs` | a file's bytes to text, by kind; Markdown and plain text pass as they are |
//! | `pdf.rs` `docx.rs` `html.rs` | text of documents |
//! | `records.rs` | JSON, JSON lines and CSV as lines of `name: value` |
//! | `chunk.rs` | text to chunks |

pub(crate) mod chunk;
mod docx;
mod extract;
mod html;
mod ignored;
pub(crate) mod kind;
mod pdf;
mod records;
pub(crate) mod regular;
pub(crate) mod walk;
pub(crate) mod worker;

use serde::{Deserialize, Serialize};

/// One piece of a file's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chunk {
    /// Never empty.
    pub(crate) text: String,
    /// The page it starts on, from 1, where the file has pages.
    pub(crate) page: Option<u32>,
}

/// What a file gave.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extracted {
    /// In the order of the text. Empty when the file has no text.
    pub(crate) chunks: Vec<Chunk>,
    /// What was not taken as it stands, for people.
    pub(crate) remark: Option<String>,
}

/// The text of a file before it is cut.
#[derive(Debug, PartialEq, Eq)]
struct Text {
    /// Pages, or one piece without a number.
    pieces: Vec<(Option<u32>, String)>,
    remark: Option<String>,
}

impl Text {
    fn whole(text: String, remark: Option<String>) -> Text {
        Text { pieces: vec![(None, text)], remark }
    }
}

/// Bytes that a compressed or repetitive file may grow to as text. More is taken for an attack, not for a document.
const EXPANDED_BYTES_MAX: usize = 256 << 20;

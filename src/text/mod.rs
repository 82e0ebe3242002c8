//! Full text: which rows hold a term, how often, and how well they answer a query.
//!
//! It answers searches with BM25 in two forms, exactly: scores are those of an index built from the live documents alone, whatever the
//! parts are and whatever was deleted. It never looks at documents, vectors or files other than a segment's own sections, and it keeps no
//! statistics of a collection: those come with each search.
//!
//! - Terms of a segment are numbered by their rank; ordinals, terms and rows all ascend wherever they are listed.
//! - Frequencies are exact and at least 1; lengths are exact; the sum of all frequencies is the sum of all lengths.
//! - Dead rows stay in a segment's lists until a merge drops them: who searches gives live postings only.
//! - Opening is O(1). The dictionary is checked as a whole before it is parsed, at its first use.
//!
//! | file | role |
//! | --- | --- |
//! | `analyzer.rs` | [`Analyzer`]: text to tokens |
//! | `builder.rs` | [`TextBuilder`]: terms and postings to sections |
//! | `dictionary.rs` | terms to ordinals: an fst, and a table for terms too long for it |
//! | `reader.rs` | [`TextReader`] and [`TermStream`]: sections to terms and postings |
//! | `merge.rs` | [`merge_text`]: the text of several segments to that of one |
//! | `bm25.rs` | the arithmetic of both scorers |
//! | `search.rs` | [`search()`]: exhaustive evaluation over all parts |
//!
//! Spec §11.

mod analyzer;
pub mod bm25;
mod builder;
mod dictionary;
mod merge;
mod reader;
mod search;

pub use crate::format::postings::Posting;
pub use crate::format::terms::{PostingsPlace, TermInfo};
pub use analyzer::Analyzer;
pub use builder::TextBuilder;
pub use merge::{DROPPED, merge_text};
pub use reader::{LengthsView, TermStream, TextReader};
pub use search::{CorpusStatistics, TextPart, average_idf, search};

#[cfg(test)]
mod tests;

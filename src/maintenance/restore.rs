//! Makes a database out of a dump, whole or not at all. Spec §20.

use super::dump::hex;
use crate::document::StoredDocument;
use crate::engine::batch::source_of;
use crate::engine::in_new_directory;
use crate::engine::restore::Restorer;
use crate::error::{Error, Result};
use crate::format::FormatError;
use crate::format::dump::{CollectionLine, HeaderLine, TrailerLine, decode_document};
use crate::io::Directory;
use crate::options::Options;
use sha2::{Digest, Sha256};
use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::Arc;

/// Bytes that a line may have: more than a document at every limit, each character escaped.
const LINE_BYTES_MAX: u64 = 448 << 20;

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// Collections.
    pub collections: u64,
    /// Documents of all of them.
    pub documents: u64,
}

/// Makes a database in `path`, where none is, out of a dump. O(bytes) time; memory for [`Options::memtable_bytes`] and one document.
///
/// All of it or nothing: after an error there is no database, and a directory that was made for it is gone again. Killed in the middle, it
/// leaves a directory that `open` refuses as unfinished, and in which the next restore begins anew.
///
/// # Errors
/// `AlreadyExists` when `path` holds a database, `InvalidArgument` when it holds something else, or when the dump is damaged, cut short or
/// none at all: the message names the line. `UnsupportedVersion` for a newer dump.
pub fn restore(path: impl AsRef<Path>, input: impl BufRead) -> Result<RestoreReport> {
    in_new_directory(path.as_ref(), |dir| restore_into(dir, Options::default(), input))
}

/// As [`restore()`], in any directory and with options.
pub fn restore_into(dir: Arc<dyn Directory>, options: Options, input: impl BufRead) -> Result<RestoreReport> {
    let mut lines = Lines { input, hash: Sha256::new(), before: Sha256::new(), number: 0, line: Vec::new() };
    let header = HeaderLine::decode(lines.next("the header")?).map_err(|e| lines.refused(e))?;
    let mut restorer = Restorer::begin(&dir, options)?;
    let mut documents = 0;
    let mut before: Option<String> = None;
    for _ in 0..header.collections {
        let collection = CollectionLine::decode(lines.next("a collection")?).map_err(|e| lines.refused(e))?;
        if before.as_ref().is_some_and(|before| *before >= collection.collection) {
            let what = format!("collection {:?} does not come after {:?} by its bytes", collection.collection, before.unwrap_or_default());
            return Err(lines.refused(FormatError::new(0, what)));
        }
        let source_key = collection.schema.source_key.clone();
        restorer.collection(&collection.collection, collection.schema).map_err(|e| lines.wrong(e))?;
        for _ in 0..collection.documents.0 {
            let document: StoredDocument = decode_document(lines.next("a document")?).map_err(|e| lines.refused(e))?;
            refuse_two_sources(&document, &source_key).map_err(|e| lines.wrong(e))?;
            restorer.document(document).map_err(|e| lines.wrong(e))?;
            documents += 1;
        }
        before = Some(collection.collection);
    }
    let trailer = TrailerLine::decode(lines.next("the trailer")?).map_err(|e| lines.refused(e))?;
    if (trailer.collections, trailer.documents.0) != (header.collections, documents) {
        let what = format!(
            "the trailer counts {} collections and {} documents; {} and {documents} stand before it",
            trailer.collections, trailer.documents.0, header.collections
        );
        return Err(lines.refused(FormatError::new(0, what)));
    }
    let found = hex(&lines.before.clone().finalize());
    if trailer.sha256 != found {
        let what = format!("the SHA-256 of the lines before is {found}, the trailer says {}: the dump was changed", trailer.sha256);
        return Err(lines.refused(FormatError::new(0, what)));
    }
    lines.end()?;
    restorer.finish()?;
    Ok(RestoreReport { collections: u64::from(header.collections), documents })
}

/// A document has the source that its metadata name, or one that was given beside equal or no metadata: a dump of another is forged.
fn refuse_two_sources(document: &StoredDocument, key: &str) -> Result<()> {
    let given = document.source.as_deref().filter(|_| document.source_given);
    let (named, _) = source_of(&document.id, given, document.metadata.as_ref(), key)?;
    if named.as_deref() == document.source.as_deref() {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "document {:?} has source {:?}, and by its metadata, key {key:?}, it has {:?}; they must be equal",
        document.id,
        document.source.as_deref().unwrap_or_default(),
        named.unwrap_or_default()
    )))
}

/// The lines of a dump, counted from 1.
struct Lines<R> {
    input: R,
    /// Of every line so far.
    hash: Sha256,
    /// Of every line before the one read last.
    before: Sha256,
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// The next line, without its line feed. `expected` says what it should be, should the dump end here.
    fn next(&mut self, expected: &str) -> Result<&[u8]> {
        self.line.clear();
        self.number += 1;
        let read = (&mut self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
        read.map_err(|e| Error::io(format!("reading line {} of the dump", self.number), e))?;
        if self.line.is_empty() {
            return Err(self.refused(FormatError::new(0, format!("the dump ends here; {expected} should follow: it was cut short"))));
        }
        if self.line.last() != Some(&b'\n') {
            let what = if self.line.len() as u64 >= LINE_BYTES_MAX {
                "it is longer than any line of a dump"
            } else {
                "the dump was cut short in it"
            };
            return Err(self.refused(FormatError::new(0, what)));
        }
        self.before = self.hash.clone();
        self.hash.update(&self.line);
        Ok(&self.line[..self.line.len() - 1])
    }

    /// Refuses anything after the trailer.
    fn end(&mut self) -> Result<()> {
        let more = self.input.fill_buf().map_err(|e| Error::io("reading the end of the dump", e))?;
        if more.is_empty() {
            return Ok(());
        }
        self.number += 1;
        Err(self.refused(FormatError::new(0, "something follows the trailer")))
    }

    /// What is wrong with the line read last.
    fn refused(&self, error: FormatError) -> Error {
        let what = format!("line {} of the dump: {}; nothing was restored", self.number, error.what);
        if error.newer { Error::UnsupportedVersion(what) } else { Error::InvalidArgument(what) }
    }

    /// Why the line read last cannot be stored. What the operating system said is passed on.
    #[allow(clippy::wildcard_enum_match_arm, reason = "only what a document can be refused for is about the line")]
    fn wrong(&self, error: Error) -> Error {
        let at = |what: String| format!("line {} of the dump: {what}; nothing was restored", self.number);
        match error {
            Error::InvalidArgument(what) => Error::InvalidArgument(at(what)),
            Error::LimitExceeded(what) => Error::LimitExceeded(at(what)),
            Error::SchemaMismatch(what) => Error::SchemaMismatch(at(what)),
            Error::DuplicateId(what) => Error::DuplicateId(at(what)),
            other => other,
        }
    }
}

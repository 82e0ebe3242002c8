//! How far extraction came: one mark a document, in the companion `:extraction`, written in the commit of what was extracted.
//!
//! A mark names the text and the graph that it was written for by their digests. So it holds as long as the document stays as extraction left it:
//! whoever changes the text, or writes the document anew, has it extracted again, and need not know that there are marks.

use crate::document::{Document, Entity, Metadata, Relation, StoredDocument};
use crate::engine::companions::Companion;
use crate::engine::{Collection, Snapshot};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The metadata of a mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    status: Status,
    /// SHA-256 of the text, in hexadecimal.
    text: String,
    /// SHA-256 of entities and relations, in hexadecimal.
    graph: String,
    /// Entities and relations that were found.
    nodes: u64,
    edges: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Status {
    #[serde(rename = "done")]
    Done,
}

/// What extraction has to do with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is as extraction left it.
    Done,
    /// It is new, or its text changed.
    Pending,
    /// Its entities or relations are the caller's own.
    Given,
}

/// The mark of a document that is as it will be after the commit.
pub(super) fn mark(
    id: &str,
    source: Option<&str>,
    text: &str,
    entities: Option<&[Entity]>,
    relations: Option<&[Relation]>,
) -> Result<Document> {
    let count = |list: Option<usize>| list.unwrap_or(0) as u64;
    let mark = Mark {
        status: Status::Done,
        text: digest_of(text.as_bytes()),
        graph: graph_digest(entities, relations)?,
        nodes: count(entities.map(<[Entity]>::len)),
        edges: count(relations.map(<[Relation]>::len)),
    };
    let json = serde_json::to_string(&mark).map_err(|e| Error::InvalidArgument(format!("a mark is not JSON: {e}")))?;
    let mut document = Document::new(id).metadata(Metadata::from_json(json)?);
    document.source = source.map(Into::into);
    Ok(document)
}

/// The marks of a collection.
pub(super) struct Marks(Option<Collection>);

impl Marks {
    pub(super) fn of(snapshot: &Snapshot, collection: &str) -> Result<Marks> {
        Ok(Marks(snapshot.companion(collection, Companion::Extraction)?))
    }

    /// What extraction has to do with a document.
    pub(super) fn state(&self, document: &StoredDocument) -> Result<State> {
        let is_given = document.entities.is_some() || document.relations.as_ref().is_some_and(|relations| !relations.is_empty());
        let without_mark = if is_given { State::Given } else { State::Pending };
        let Some(mark) = self.mark(&document.id)? else { return Ok(without_mark) };
        if mark.graph != graph_digest(document.entities.as_deref(), document.relations.as_deref())? {
            return Ok(without_mark);
        }
        Ok(if mark.text == digest_of(document.text.as_bytes()) { State::Done } else { State::Pending })
    }

    /// A mark that cannot be read is none.
    fn mark(&self, id: &str) -> Result<Option<Mark>> {
        let Some(marks) = &self.0 else { return Ok(None) };
        let metadata = marks.get(id)?.and_then(|document| document.metadata);
        Ok(metadata.and_then(|metadata| serde_json::from_str(metadata.as_str()).ok()))
    }

    /// Marks of documents that are not there any more, of one source or of all.
    pub(super) fn orphans(&self, documents: &Collection, source: Option<&str>) -> Result<Vec<String>> {
        let Some(marks) = &self.0 else { return Ok(Vec::new()) };
        let mut orphans = Vec::new();
        for found in marks.scan() {
            let (_, mark) = found?;
            let is_asked_for = source.is_none() || mark.source.as_deref() == source;
            if is_asked_for && documents.get(&mark.id)?.is_none() {
                orphans.push(mark.id.into());
            }
        }
        Ok(orphans)
    }
}

/// The digest of entities and relations. Without relations is the same as with none; without entities is not: then the collection's extractor finds
/// some.
fn graph_digest(entities: Option<&[Entity]>, relations: Option<&[Relation]>) -> Result<String> {
    let json = serde_json::to_vec(&(entities, relations.unwrap_or_default()));
    json.map(|json| digest_of(&json)).map_err(|e| Error::InvalidArgument(format!("entities and relations are not JSON: {e}")))
}

fn digest_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How far the extraction of a source, or of a collection, came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExtractionProgress {
    /// Documents that are as extraction left them.
    pub done: u64,
    /// Documents that were never extracted, or changed since.
    pub pending: u64,
    /// Documents whose entities or relations are the caller's own.
    pub given: u64,
}

impl ExtractionProgress {
    /// Whether the graph covers every document.
    pub fn is_complete(self) -> bool {
        self.pending == 0
    }
}

impl Snapshot {
    /// How far the extraction of a source came, or of the whole collection; `None` when no document is as extraction left it. O(its documents, which are
    /// read).
    ///
    /// # Errors
    /// `NotFound` when there is no such collection.
    pub fn extraction_progress(&self, collection: &str, source: Option<&str>) -> Result<Option<ExtractionProgress>> {
        let documents = self.collection(collection)?;
        let marks = Marks::of(self, collection)?;
        if marks.0.is_none() {
            return Ok(None);
        }
        let mut progress = ExtractionProgress::default();
        for found in documents.scan_of(source)? {
            match marks.state(&found?.1)? {
                State::Done => progress.done += 1,
                State::Pending => progress.pending += 1,
                State::Given => progress.given += 1,
            }
        }
        Ok((progress.done > 0).then_some(progress))
    }
}

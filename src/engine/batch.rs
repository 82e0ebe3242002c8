//! What a caller asks for: a write batch, checked and prepared before the writer's lock is taken.

use super::companions::{Companion, check_new_collection, refuse_companion};
use crate::document::{Document, Metadata, Patch, StoredDocument};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::format::half::HALF_MAX;
use crate::format::vectors::round_components;
use crate::memtable::Analysis;
use crate::options::{Components, Derivation, Schema, check_name};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Writes that become visible and durable together, or not at all. It may span collections.
///
/// Its calls resolve in order when it is committed, each seeing the ones before it and every commit before it; the batch itself reads
/// nothing. Any refusal drops the whole batch.
///
/// ```
/// # use triune::{Database, Document, Schema, WriteBatch};
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = Database::create(dir.path().join("db"))?;
/// let mut batch = WriteBatch::new();
/// batch.create_collection("notes", Schema::default());
/// batch.put("notes", vec![Document::new("a").text("one"), Document::new("b").text("two")]);
/// batch.delete("notes", vec!["a".into()]);
/// let commit = db.commit(batch)?;
/// assert_eq!((commit.outcomes[1].written, commit.outcomes[2].deleted), (2, 1));
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct WriteBatch {
    pub(crate) operations: Vec<Operation>,
}

/// One call on a batch.
#[derive(Debug)]
pub(crate) enum Operation {
    Put { collection: String, documents: Vec<Document>, insert: bool },
    Patch { collection: String, patches: Vec<Patch> },
    Delete { collection: String, ids: Vec<String> },
    DeleteWhere { collection: String, filter: Filter },
    DeleteSource { collection: String, source: String },
    ReplaceSource { collection: String, source: String, documents: Vec<Document> },
    Clear { collection: String },
    Create { name: String, schema: Schema },
    Drop { name: String },
    Rename { from: String, to: String },
    Swap { a: String, b: String },
    PutCompanion { collection: String, companion: Companion, embedder: Option<String>, documents: Vec<Document> },
    DeleteCompanion { collection: String, companion: Companion, ids: Vec<String> },
    DropCompanion { collection: String, companion: Companion },
}

impl WriteBatch {
    /// An empty batch. Committing it costs nothing and writes nothing.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Inserts each document, or replaces the one of its id whole.
    pub fn put(&mut self, collection: impl Into<String>, documents: Vec<Document>) -> &mut WriteBatch {
        self.push(Operation::Put { collection: collection.into(), documents, insert: false })
    }

    /// Inserts each document; an id that exists refuses the batch.
    pub fn insert(&mut self, collection: impl Into<String>, documents: Vec<Document>) -> &mut WriteBatch {
        self.push(Operation::Put { collection: collection.into(), documents, insert: true })
    }

    /// Changes parts of existing documents; an id that does not exist refuses the batch.
    pub fn patch(&mut self, collection: impl Into<String>, patches: Vec<Patch>) -> &mut WriteBatch {
        self.push(Operation::Patch { collection: collection.into(), patches })
    }

    /// Deletes documents by id; unknown ids are passed over.
    pub fn delete(&mut self, collection: impl Into<String>, ids: Vec<String>) -> &mut WriteBatch {
        self.push(Operation::Delete { collection: collection.into(), ids })
    }

    /// Deletes every document that matches a filter. The empty filter, which matches all, is refused: [`WriteBatch::clear`] is for that.
    pub fn delete_where(&mut self, collection: impl Into<String>, filter: Filter) -> &mut WriteBatch {
        self.push(Operation::DeleteWhere { collection: collection.into(), filter })
    }

    /// Deletes every document of a source.
    pub fn delete_source(&mut self, collection: impl Into<String>, source: impl Into<String>) -> &mut WriteBatch {
        self.push(Operation::DeleteSource { collection: collection.into(), source: source.into() })
    }

    /// Replaces all documents of a source by these. An id that lives under another source moves here.
    pub fn replace_source(
        &mut self,
        collection: impl Into<String>,
        source: impl Into<String>,
        documents: Vec<Document>,
    ) -> &mut WriteBatch {
        self.push(Operation::ReplaceSource { collection: collection.into(), source: source.into(), documents })
    }

    /// Deletes every document of a collection and keeps its schema. O(1).
    pub fn clear(&mut self, collection: impl Into<String>) -> &mut WriteBatch {
        self.push(Operation::Clear { collection: collection.into() })
    }

    /// Creates a collection; its name must be free.
    pub fn create_collection(&mut self, name: impl Into<String>, schema: Schema) -> &mut WriteBatch {
        self.push(Operation::Create { name: name.into(), schema })
    }

    /// Removes a collection with all its documents.
    pub fn drop_collection(&mut self, name: impl Into<String>) -> &mut WriteBatch {
        self.push(Operation::Drop { name: name.into() })
    }

    /// Gives a collection a new name, which must be free.
    pub fn rename_collection(&mut self, from: impl Into<String>, to: impl Into<String>) -> &mut WriteBatch {
        self.push(Operation::Rename { from: from.into(), to: to.into() })
    }

    /// Exchanges the names of two collections: the way to change dimension, analyzer or embedder without a gap.
    pub fn swap_collections(&mut self, a: impl Into<String>, b: impl Into<String>) -> &mut WriteBatch {
        self.push(Operation::Swap { a: a.into(), b: b.into() })
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    pub(super) fn push(&mut self, operation: Operation) -> &mut WriteBatch {
        self.operations.push(operation);
        self
    }
}

/// A document ready to be stored: checked, its source found, its text cut.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) document: Arc<StoredDocument>,
    pub(crate) analysis: Analysis,
    /// What of the schema it was prepared with.
    derivation: Derivation,
    source_key: String,
    /// Why a collection of that source key does not take it. Told only when the document goes to such a collection: an earlier call of the
    /// batch, or a commit that is staged, may have put another one under the name.
    refusal: Option<Error>,
}

/// A batch whose documents are prepared.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) operations: Vec<StagedOperation>,
}

impl Staged {
    /// Whether any of it may write documents.
    pub(crate) fn may_add_rows(&self) -> bool {
        use StagedOperation::{Patch, Put, PutCompanion, ReplaceSource};
        self.operations.iter().any(|o| matches!(o, Put { .. } | Patch { .. } | ReplaceSource { .. } | PutCompanion { .. }))
    }
}

#[derive(Debug)]
pub(crate) enum StagedOperation {
    Put { collection: String, documents: Vec<Prepared>, insert: bool },
    Patch { collection: String, patches: Vec<Patch> },
    Delete { collection: String, ids: Vec<String> },
    DeleteWhere { collection: String, filter: Filter },
    DeleteSource { collection: String, source: String },
    ReplaceSource { collection: String, source: String, documents: Vec<Prepared> },
    Clear { collection: String },
    Create { name: String, schema: Schema },
    Drop { name: String },
    Rename { from: String, to: String },
    Swap { a: String, b: String },
    PutCompanion { collection: String, companion: Companion, embedder: Option<String>, documents: Vec<Prepared> },
    DeleteCompanion { collection: String, companion: Companion, ids: Vec<String> },
    DropCompanion { collection: String, companion: Companion },
}

impl Staged {
    /// Checks everything that needs no state and does the costly part of every put. `schema_of` gives the schema a collection has now; a
    /// collection that an earlier commit is about to create gets its documents prepared again.
    pub(crate) fn prepare(batch: WriteBatch, time_ms: u64, schema_of: impl Fn(&str) -> Option<Schema>) -> Result<Staged> {
        let prepare_all = |collection: &str, documents: Vec<Document>, source: Option<&str>| -> Result<Vec<Prepared>> {
            refuse_duplicates(documents.iter().map(|d| d.id.as_str()))?;
            let schema = schema_of(collection).unwrap_or_default();
            documents.into_iter().map(|d| Prepared::new(claim(d, source)?, &schema, time_ms)).collect()
        };
        let stage = |operation| -> Result<StagedOperation> {
            Ok(match operation {
                Operation::PutCompanion { collection, companion, embedder, documents } => {
                    let documents = prepare_all(&companion.of(&collection), documents, None)?;
                    StagedOperation::PutCompanion { collection, companion, embedder, documents }
                }
                Operation::DeleteCompanion { collection, companion, ids } => {
                    StagedOperation::DeleteCompanion { collection, companion, ids }
                }
                Operation::DropCompanion { collection, companion } => StagedOperation::DropCompanion { collection, companion },
                Operation::Put { collection, documents, insert } => {
                    let documents = prepare_all(&collection, documents, None)?;
                    StagedOperation::Put { collection, documents, insert }
                }
                Operation::ReplaceSource { collection, source, documents } => {
                    check_name("a source", &source)?;
                    let documents = prepare_all(&collection, documents, Some(&source))?;
                    StagedOperation::ReplaceSource { collection, source, documents }
                }
                Operation::Patch { collection, patches } => {
                    refuse_duplicates(patches.iter().map(|p| p.id.as_str()))?;
                    patches.iter().try_for_each(Patch::validate)?;
                    StagedOperation::Patch { collection, patches }
                }
                Operation::Delete { collection, ids } => StagedOperation::Delete { collection, ids },
                Operation::DeleteWhere { collection, filter } => {
                    if filter.is_empty() {
                        return Err(Error::InvalidArgument(
                            "a delete by the empty filter would delete all; clear the collection instead".into(),
                        ));
                    }
                    StagedOperation::DeleteWhere { collection, filter }
                }
                Operation::DeleteSource { collection, source } => StagedOperation::DeleteSource { collection, source },
                Operation::Clear { collection } => StagedOperation::Clear { collection },
                Operation::Create { name, schema } => {
                    check_new_collection(&name, &schema)?;
                    StagedOperation::Create { name, schema }
                }
                Operation::Drop { name } => StagedOperation::Drop { name },
                Operation::Rename { from, to } => {
                    check_name("a collection's name", &to)?;
                    refuse_companion(&to)?;
                    StagedOperation::Rename { from, to }
                }
                Operation::Swap { a, b } => {
                    refuse_companion(&a)?;
                    refuse_companion(&b)?;
                    StagedOperation::Swap { a, b }
                }
            })
        };
        Ok(Staged { operations: batch.operations.into_iter().map(stage).collect::<Result<_>>()? })
    }
}

/// Two documents of one id in one call have no order that a caller could mean.
fn refuse_duplicates<'a>(ids: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = FxHashSet::default();
    for id in ids {
        if !seen.insert(id) {
            return Err(Error::DuplicateId(format!("{id:?} stands twice in one call; nothing of the batch was written")));
        }
    }
    Ok(())
}

/// Gives a document of a `replace_source` call its source.
fn claim(mut document: Document, source: Option<&str>) -> Result<Document> {
    let Some(source) = source else { return Ok(document) };
    match &document.source {
        Some(own) if own != source => Err(Error::InvalidArgument(format!(
            "document {:?} names source {own:?} in a call that replaces source {source:?}; nothing was written",
            document.id
        ))),
        _ => {
            document.source = Some(source.to_string());
            Ok(document)
        }
    }
}

impl Prepared {
    /// Checks the document, finds its source and cuts its text. See [`Prepared::under`] for what it does not refuse yet.
    pub(crate) fn new(document: Document, schema: &Schema, time_ms: u64) -> Result<Prepared> {
        let (document, refusal) = stored(document, schema, time_ms)?;
        Ok(Prepared {
            analysis: Analysis::of(schema.derivation(), &document),
            document: Arc::new(document),
            derivation: schema.derivation(),
            source_key: schema.source_key.clone(),
            refusal,
        })
    }

    /// The same document under `schema`, prepared again when it was prepared under another, with its vector as it is stored. An error when
    /// `schema` does not take it.
    pub(crate) fn under(self, schema: &Schema) -> Result<Prepared> {
        let fits = self.derivation == schema.derivation() && self.source_key == schema.source_key;
        let mut prepared = if fits { self } else { Prepared::new(self.document.to_document(), schema, self.document.time_ms)? };
        if let Some(refusal) = prepared.refusal.take() {
            return Err(refusal);
        }
        // Not before it is known which schema that is: what is rounded does not come back. Nobody else has the document yet.
        if schema.components != Components::default() {
            round_vector(Arc::make_mut(&mut prepared.document), schema.components)?;
        }
        Ok(prepared)
    }
}

/// Makes of a document's vector what is stored of it, so that it is the same in memory, in the log and in every segment.
pub(crate) fn round_vector(document: &mut StoredDocument, components: Components) -> Result<()> {
    let Some(vector) = &mut document.vector else { return Ok(()) };
    round_components(vector, components).map_err(|i| {
        Error::InvalidArgument(format!(
            "the vector of document {:?} holds {} at component {i}; the collection stores components as {components}, at most {HALF_MAX} in \
             magnitude. The document was not stored: scale its vector, or make a collection that stores f32",
            document.id, vector[i]
        ))
    })
}

/// A document as it is stored, checked; and why a collection of that source key does not take it, if it does not.
pub(super) fn stored(document: Document, schema: &Schema, time_ms: u64) -> Result<(StoredDocument, Option<Error>)> {
    document.validate()?;
    let found = source_of(&document.id, document.source.as_deref(), document.metadata.as_ref(), &schema.source_key);
    let (source, source_given, refusal) = match found {
        Ok((source, source_given)) => (source, source_given, None),
        Err(e) => (document.source.clone(), document.source.is_some(), Some(e)),
    };
    let document = StoredDocument {
        id: document.id.into(),
        text: document.text.into(),
        metadata: document.metadata,
        vector: document.vector.map(Into::into),
        source: source.map(Into::into),
        source_given,
        time_ms,
        entities: document.entities,
        relations: document.relations,
    };
    Ok((document, refusal))
}

/// The source of a document, and whether it was given top-level: that wins; else the string under the source key; else none. Both present
/// and different has no meaning.
pub(crate) fn source_of(id: &str, given: Option<&str>, metadata: Option<&Metadata>, key: &str) -> Result<(Option<String>, bool)> {
    // Parsing is the costly part, so metadata that cannot hold the key is not parsed. An escaped spelling of the key holds a backslash.
    let may_hold = |m: &&Metadata| m.as_str().contains(key) || m.as_str().contains('\\');
    let in_metadata = match metadata.filter(may_hold).map(Metadata::to_object).and_then(|mut m| m.remove(key)) {
        None | Some(serde_json::Value::Null) => None,
        Some(serde_json::Value::String(s)) => {
            check_name(&format!("the source of document {id:?}, metadata key {key:?},"), &s)?;
            Some(s)
        }
        Some(other) => {
            return Err(Error::InvalidArgument(format!(
                "metadata key {key:?} of document {id:?} names its source and is a string; {other} was given"
            )));
        }
    };
    match (given, in_metadata) {
        (Some(given), Some(other)) if given != other => Err(Error::InvalidArgument(format!(
            "document {id:?} has source {given:?} and metadata key {key:?} with {other:?}; they must be equal, or one absent"
        ))),
        (Some(given), _) => Ok((Some(given.to_string()), true)),
        (None, found) => Ok((found, false)),
    }
}

//! Companion collections: what is known of a collection beside its documents, kept as documents of collections of their own, so that it needs no
//! format and is committed, logged, merged, checked, dumped and backed up as everything else is.
//!
//! The companion of `notes` is called `notes:sources`, and so on. It is made by the first write to it, in the same commit. Renaming, swapping,
//! dropping and clearing a collection does the same to its companions, in the same commit; nothing else makes a collection of such a name.
//!
//! Spec §8a.

use super::batch::{Operation, WriteBatch};
use super::snapshot::{Collection, Snapshot};
use crate::document::Document;
use crate::error::{Error, ErrorCode, Result};
use crate::options::{ExtractorKind, Metric, Schema, check_name};

/// What a companion collection holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Companion {
    /// How each source is asked: id = source, metadata = its configuration.
    Sources,
    /// The vector of each entity: id = key of the entity.
    Entities,
    /// How far extraction came: id = id of the document.
    Extraction,
}

impl Companion {
    /// Every kind.
    pub(crate) const ALL: [Companion; 3] = [Companion::Sources, Companion::Entities, Companion::Extraction];

    /// What its name ends in.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Companion::Sources => ":sources",
            Companion::Entities => ":entities",
            Companion::Extraction => ":extraction",
        }
    }

    /// The name of this companion of a collection.
    pub(crate) fn of(self, collection: &str) -> String {
        format!("{collection}{}", self.suffix())
    }

    /// The kind of a companion's name; `None` for the name of any other collection.
    pub(crate) fn named(name: &str) -> Option<Companion> {
        Companion::ALL.into_iter().find(|companion| name.ends_with(companion.suffix()))
    }

    /// What it is made with, beside a collection of this schema. Nothing is extracted from its documents.
    pub(crate) fn schema(self, parent: &Schema) -> Schema {
        let schema = Schema { extractor: ExtractorKind::None, ..Schema::default() };
        match self {
            Companion::Sources | Companion::Extraction => schema,
            Companion::Entities => Schema { metric: Metric::Cosine, embedder: parent.embedder.clone(), ..schema },
        }
    }
}

/// Refuses a name and a schema that no new collection can have.
///
/// # Errors
/// `LimitExceeded` or `InvalidArgument`.
///
/// ```
/// use triune::{ErrorCode, Schema};
/// triune::check_new_collection("notes", &Schema::default())?;
/// let refused = triune::check_new_collection("notes:sources", &Schema::default()).unwrap_err();
/// assert_eq!(refused.code(), ErrorCode::InvalidArgument);
/// # Ok::<(), triune::Error>(())
/// ```
pub fn check_new_collection(name: &str, schema: &Schema) -> Result<()> {
    check_name("a collection's name", name)?;
    refuse_companion(name)?;
    schema.validate()
}

/// Refuses a name that only a write to a companion gives.
pub(super) fn refuse_companion(name: &str) -> Result<()> {
    match Companion::named(name) {
        None => Ok(()),
        Some(companion) => Err(Error::InvalidArgument(format!(
            "{name:?} is the name of what is kept beside a collection, which is made with its first entry; nothing was written. A \
             name that does not end in {:?} is free",
            companion.suffix()
        ))),
    }
}

impl WriteBatch {
    /// Inserts or replaces documents of a companion of `collection`, which is made when there is none yet.
    pub(crate) fn put_companion(
        &mut self,
        collection: impl Into<String>,
        companion: Companion,
        documents: Vec<Document>,
    ) -> &mut WriteBatch {
        self.push(Operation::PutCompanion { collection: collection.into(), companion, embedder: None, documents })
    }

    /// As [`WriteBatch::put_companion`], of vectors that this embedder made: it is stored with the first of them, and another one is refused.
    pub(crate) fn put_companion_by(
        &mut self,
        collection: impl Into<String>,
        companion: Companion,
        embedder: impl Into<String>,
        documents: Vec<Document>,
    ) -> &mut WriteBatch {
        let embedder = Some(embedder.into());
        self.push(Operation::PutCompanion { collection: collection.into(), companion, embedder, documents })
    }

    /// Deletes documents of a companion of `collection` by id; without such a companion there is nothing to delete.
    pub(crate) fn delete_companion(&mut self, collection: impl Into<String>, companion: Companion, ids: Vec<String>) -> &mut WriteBatch {
        self.push(Operation::DeleteCompanion { collection: collection.into(), companion, ids })
    }

    /// Removes a companion of `collection` with all it holds, its schema too, if there is one.
    pub(crate) fn drop_companion(&mut self, collection: impl Into<String>, companion: Companion) -> &mut WriteBatch {
        self.push(Operation::DropCompanion { collection: collection.into(), companion })
    }
}

impl Snapshot {
    /// A companion of a collection; `None` as long as nothing was written to it.
    pub(crate) fn companion(&self, collection: &str, companion: Companion) -> Result<Option<Collection>> {
        match self.collection(&companion.of(collection)) {
            Ok(found) => Ok(Some(found)),
            Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_companion_is_known_by_the_end_of_its_name() {
        for companion in Companion::ALL {
            assert_eq!(Companion::named(&companion.of("notes")), Some(companion));
            assert!(refuse_companion(&companion.of("notes")).is_err());
        }
        for free in ["notes", "sources", "notes:source", "notes:sources2", ":"] {
            assert_eq!(Companion::named(free), None, "{free}");
            assert!(refuse_companion(free).is_ok());
        }
    }
}

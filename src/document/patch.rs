//! Changes to one document.

use super::{Entity, Metadata, Relation, check_graph, check_text, check_vector};
use crate::error::Result;
use crate::ids::Seq;
use crate::options::check_name;

/// What a patch does to one document; whatever is `None` stays.
///
/// ```
/// use triune::Patch;
/// let p = Patch::new("a").metadata(r#"{"reviewed":true,"draft":null}"#)?.text("better words");
/// assert_eq!(p.id, "a");
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patch {
    /// The document to change.
    pub id: String,
    /// Keys to set; a null deletes its key.
    pub metadata: Option<Metadata>,
    /// The new text.
    pub text: Option<String>,
    /// The new vector; `Some(None)` removes it.
    pub vector: Option<Option<Vec<f32>>>,
    /// What it mentions from now on; `Some(None)` leaves that to the collection's extractor again.
    pub entities: Option<Option<Vec<Entity>>>,
    /// The relations that it tells of from now on; an empty list for none.
    pub relations: Option<Vec<Relation>>,
    /// The version that the patch is meant for, as a scan gave it: if the document was written since, the batch is refused with `NotFound`.
    pub version: Option<Seq>,
}

impl Patch {
    /// A patch that changes nothing yet.
    pub fn new(id: impl Into<String>) -> Patch {
        Patch { id: id.into(), ..Patch::default() }
    }

    /// Merges `json` into the metadata: its keys are set, and a null deletes.
    pub fn metadata(mut self, json: impl Into<Box<str>>) -> Result<Patch> {
        self.metadata = Some(Metadata::from_json(json)?);
        Ok(self)
    }

    /// Replaces the text.
    pub fn text(mut self, text: impl Into<String>) -> Patch {
        self.text = Some(text.into());
        self
    }

    /// Replaces the vector.
    pub fn vector(mut self, vector: impl Into<Vec<f32>>) -> Patch {
        self.vector = Some(Some(vector.into()));
        self
    }

    /// Removes the vector.
    pub fn without_vector(mut self) -> Patch {
        self.vector = Some(None);
        self
    }

    /// Replaces the entities that it mentions.
    pub fn entities(mut self, entities: impl Into<Vec<Entity>>) -> Patch {
        self.entities = Some(Some(entities.into()));
        self
    }

    /// Replaces the relations that it tells of.
    pub fn relations(mut self, relations: impl Into<Vec<Relation>>) -> Patch {
        self.relations = Some(relations.into());
        self
    }

    /// Changes this version of the document and no later one.
    pub fn of_version(mut self, version: Seq) -> Patch {
        self.version = Some(version);
        self
    }

    /// Checks everything that needs no schema.
    pub fn validate(&self) -> Result<()> {
        check_name("a document's id", &self.id)?;
        if let Some(text) = &self.text {
            check_text(text)?;
        }
        check_graph(&self.id, self.entities.as_ref().and_then(|given| given.as_deref()), self.relations.as_deref())?;
        match &self.vector {
            Some(Some(v)) => check_vector(&format!("the vector of document {:?}", self.id), v),
            _ => Ok(()),
        }
    }
}

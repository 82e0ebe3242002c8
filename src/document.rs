//! What a caller stores, and what it gets back.

use crate::error::{Error, Result};
use crate::options::{check_name, limits};
use std::fmt;

/// A JSON object, kept byte for byte as it was given.
///
/// ```
/// use triune::Metadata;
/// let m = Metadata::from_json(r#"{"page": 3,  "lang":"en"}"#)?;
/// assert_eq!(m.as_str(), r#"{"page": 3,  "lang":"en"}"#);
/// assert!(Metadata::from_json("[1]").is_err());
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Metadata(Box<str>);

impl Metadata {
    /// Takes a JSON object of at most 1 MiB, nested at most 64 deep.
    pub fn from_json(json: impl Into<Box<str>>) -> Result<Metadata> {
        let json: Box<str> = json.into();
        if json.len() > limits::METADATA_BYTES_MAX {
            return Err(Error::LimitExceeded(format!(
                "metadata has {} bytes; at most {} are allowed",
                json.len(),
                limits::METADATA_BYTES_MAX
            )));
        }
        let depth = nesting_depth(&json);
        if depth > limits::METADATA_DEPTH_MAX {
            return Err(Error::LimitExceeded(format!(
                "metadata is nested {depth} deep; at most {} are allowed",
                limits::METADATA_DEPTH_MAX
            )));
        }
        let value: serde_json::Value =
            serde_json::from_str(&json).map_err(|e| Error::InvalidArgument(format!("metadata is not JSON: {e}")))?;
        if !value.is_object() {
            return Err(Error::InvalidArgument("metadata is a JSON object; something else was given".into()));
        }
        Ok(Metadata(json))
    }

    /// Takes text that was checked when it was stored.
    pub(crate) fn trusted(json: Box<str>) -> Metadata {
        Metadata(json)
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parsed object.
    pub fn to_object(&self) -> serde_json::Map<String, serde_json::Value> {
        match serde_json::from_str(&self.0) {
            Ok(serde_json::Value::Object(map)) => map,
            _ => serde_json::Map::new(),
        }
    }

    /// The string under the top-level key `key`, if there is one.
    pub fn string(&self, key: &str) -> Option<String> {
        match self.to_object().remove(key) {
            Some(serde_json::Value::String(s)) => Some(s),
            _ => None,
        }
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How deep brackets nest outside strings. Counted before parsing, so that a hostile depth never recurses.
fn nesting_depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for b in json.bytes() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// One chunk of text with all that belongs to it, as a caller gives it.
///
/// ```
/// use triune::{Document, Metadata};
/// let d = Document::new("guide#0")
///     .text("Compaction rewrites segments.")
///     .metadata(Metadata::from_json(r#"{"page":1}"#)?)
///     .vector(vec![0.1, 0.2, 0.3])
///     .source("guide.md");
/// assert_eq!(d.id, "guide#0");
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    /// Unique in its collection; 1 to 1,024 bytes.
    pub id: String,
    /// The text. Absent equals empty.
    pub text: String,
    /// Anything the caller wants back, byte for byte.
    pub metadata: Option<Metadata>,
    /// The embedding, stored as given.
    pub vector: Option<Vec<f32>>,
    /// The file or origin this document came from. Absent: the string under the schema's source key in the metadata, if any.
    pub source: Option<String>,
}

impl Document {
    /// A document without text.
    pub fn new(id: impl Into<String>) -> Document {
        Document { id: id.into(), ..Document::default() }
    }

    /// Sets the text.
    pub fn text(mut self, text: impl Into<String>) -> Document {
        self.text = text.into();
        self
    }

    /// Sets the metadata.
    pub fn metadata(mut self, metadata: Metadata) -> Document {
        self.metadata = Some(metadata);
        self
    }

    /// Sets the vector.
    pub fn vector(mut self, vector: impl Into<Vec<f32>>) -> Document {
        self.vector = Some(vector.into());
        self
    }

    /// Sets the source.
    pub fn source(mut self, source: impl Into<String>) -> Document {
        self.source = Some(source.into());
        self
    }

    /// Checks everything that needs no schema: lengths, and that the vector is finite.
    pub fn validate(&self) -> Result<()> {
        check_name("a document's id", &self.id)?;
        if let Some(source) = &self.source {
            check_name("a document's source", source)?;
        }
        check_text(&self.text)?;
        self.vector.as_deref().map_or(Ok(()), |v| check_vector(&format!("the vector of document {:?}", self.id), v))
    }
}

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

    /// Checks everything that needs no schema.
    pub fn validate(&self) -> Result<()> {
        check_name("a document's id", &self.id)?;
        if let Some(text) = &self.text {
            check_text(text)?;
        }
        match &self.vector {
            Some(Some(v)) => check_vector(&format!("the vector of document {:?}", self.id), v),
            _ => Ok(()),
        }
    }
}

/// Refuses text over the limit.
fn check_text(text: &str) -> Result<()> {
    if text.len() > limits::TEXT_BYTES_MAX {
        return Err(Error::LimitExceeded(format!("a text has {} bytes; at most {} are allowed", text.len(), limits::TEXT_BYTES_MAX)));
    }
    Ok(())
}

/// Refuses a vector that is empty, too long or not finite; `what` names it in the message.
pub fn check_vector(what: &str, vector: &[f32]) -> Result<()> {
    if vector.is_empty() {
        return Err(Error::InvalidArgument(format!("{what} has no components; it has 1 to {}", limits::DIMENSION_MAX)));
    }
    if vector.len() > limits::DIMENSION_MAX {
        return Err(Error::LimitExceeded(format!("{what} has {} components; at most {} are allowed", vector.len(), limits::DIMENSION_MAX)));
    }
    match vector.iter().position(|x| !x.is_finite()) {
        Some(i) => Err(Error::InvalidArgument(format!("{what} holds {} at component {i}; every component is a finite number", vector[i]))),
        None => Ok(()),
    }
}

/// A document version as it is stored: what the log, the memtable and the segments hold of it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredDocument {
    /// Unique in its collection.
    pub id: Box<str>,
    /// The text; empty when absent.
    pub text: Box<str>,
    /// The metadata, byte for byte.
    pub metadata: Option<Metadata>,
    /// The vector, as given.
    pub vector: Option<Box<[f32]>>,
    /// The source it belongs to.
    pub source: Option<Box<str>>,
    /// Whether the source was given on the document itself rather than taken from the metadata.
    pub source_given: bool,
    /// When this version was committed, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
}

impl StoredDocument {
    /// The document as its caller gave it: a source taken from the metadata is not repeated.
    pub fn to_document(&self) -> Document {
        Document {
            id: self.id.to_string(),
            text: self.text.to_string(),
            metadata: self.metadata.clone(),
            vector: self.vector.as_ref().map(|v| v.to_vec()),
            source: self.source.as_ref().filter(|_| self.source_given).map(|s| s.to_string()),
        }
    }
}

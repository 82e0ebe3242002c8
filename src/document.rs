//! What a caller stores, and what it gets back.

use self::json::Twice;
use crate::error::{Error, Result};
use crate::options::{check_name, limits};
use serde::{Deserialize, Serialize};
use std::fmt;

pub(crate) mod json;
mod patch;

pub use patch::Patch;

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
        let value = json::parse(&json, Twice::LastCounts).map_err(|e| Error::InvalidArgument(format!("metadata is not JSON: {e}")))?;
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
        match json::parse(&self.0, Twice::LastCounts) {
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

/// Something that a document mentions, as a caller gives it.
///
/// Names that differ in letter case alone name one entity: its key is the lower-cased name.
///
/// ```
/// use triune::Entity;
/// let e = Entity::new("Marie Curie").kind("person").mentions(3);
/// assert_eq!((e.name.as_str(), e.mentions), ("Marie Curie", 3));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entity {
    /// 1 to 1,024 bytes.
    pub name: String,
    /// What sort of thing it is; at most 1,024 bytes. `type` in JSON.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// How often the document mentions it; at least 1, and 1 by default.
    #[serde(default = "once")]
    pub mentions: u32,
}

/// A typed edge between two entities that a document tells of, as a caller gives it.
///
/// ```
/// use triune::Relation;
/// let r = Relation::new("Marie Curie", "radium").kind("discovered").weight(2.0);
/// assert_eq!((r.target.as_str(), r.weight), ("radium", 2.0));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relation {
    /// The name of the entity it starts at; 1 to 1,024 bytes.
    pub source: String,
    /// The name of the entity it leads to; 1 to 1,024 bytes.
    pub target: String,
    /// What sort of relation it is; at most 1,024 bytes. `type` in JSON.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// A sentence about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How strong it is: finite and above 0; 1 by default. The weights of parallel relations add up.
    #[serde(default = "unit_weight")]
    pub weight: f64,
}

fn once() -> u32 {
    1
}

fn unit_weight() -> f64 {
    1.0
}

impl Entity {
    /// An entity mentioned once, of no kind.
    pub fn new(name: impl Into<String>) -> Entity {
        Entity { name: name.into(), kind: None, mentions: once() }
    }

    /// Sets its kind.
    pub fn kind(mut self, kind: impl Into<String>) -> Entity {
        self.kind = Some(kind.into());
        self
    }

    /// Sets how often it is mentioned.
    pub fn mentions(mut self, mentions: u32) -> Entity {
        self.mentions = mentions;
        self
    }

    /// What it counts towards [`limits::GRAPH_BYTES_MAX`].
    pub(crate) fn bytes(&self) -> usize {
        32 + self.name.len() + self.kind.as_ref().map_or(0, String::len)
    }

    fn validate(&self) -> Result<()> {
        check_name("an entity's name", &self.name)?;
        check_kind("an entity", self.kind.as_deref())?;
        if self.mentions == 0 {
            return Err(Error::InvalidArgument(format!("entity {:?} is mentioned 0 times; once is the least", self.name)));
        }
        Ok(())
    }
}

impl Relation {
    /// A relation of weight 1, of no kind.
    pub fn new(source: impl Into<String>, target: impl Into<String>) -> Relation {
        Relation { source: source.into(), target: target.into(), kind: None, description: None, weight: unit_weight() }
    }

    /// Sets its kind.
    pub fn kind(mut self, kind: impl Into<String>) -> Relation {
        self.kind = Some(kind.into());
        self
    }

    /// Sets its description.
    pub fn description(mut self, description: impl Into<String>) -> Relation {
        self.description = Some(description.into());
        self
    }

    /// Sets its weight.
    pub fn weight(mut self, weight: f64) -> Relation {
        self.weight = weight;
        self
    }

    /// What it counts towards [`limits::GRAPH_BYTES_MAX`].
    pub(crate) fn bytes(&self) -> usize {
        let optional = |s: &Option<String>| s.as_ref().map_or(0, String::len);
        32 + self.source.len() + self.target.len() + optional(&self.kind) + optional(&self.description)
    }

    fn validate(&self) -> Result<()> {
        check_name("the source of a relation", &self.source)?;
        check_name("the target of a relation", &self.target)?;
        check_kind("a relation", self.kind.as_deref())?;
        if self.weight > 0.0 && self.weight.is_finite() {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!(
            "the relation from {:?} to {:?} has weight {}; a weight is a finite number above 0",
            self.source, self.target, self.weight
        )))
    }
}

fn check_kind(of: &str, kind: Option<&str>) -> Result<()> {
    match kind {
        Some(kind) if kind.len() > limits::NAME_BYTES_MAX => {
            Err(Error::LimitExceeded(format!("the type of {of} has {} bytes; at most {} are allowed", kind.len(), limits::NAME_BYTES_MAX)))
        }
        _ => Ok(()),
    }
}

/// What entities and relations count towards [`limits::GRAPH_BYTES_MAX`].
pub(crate) fn graph_bytes(entities: Option<&[Entity]>, relations: Option<&[Relation]>) -> usize {
    let entities: usize = entities.unwrap_or_default().iter().map(Entity::bytes).sum();
    entities + relations.unwrap_or_default().iter().map(Relation::bytes).sum::<usize>()
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
    /// What it mentions. Absent: what the collection's extractor finds in the text. An empty list: nothing.
    pub entities: Option<Vec<Entity>>,
    /// Edges between entities. Absent equals empty.
    pub relations: Option<Vec<Relation>>,
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

    /// Sets the entities that it mentions; nothing is extracted from the text then.
    pub fn entities(mut self, entities: impl Into<Vec<Entity>>) -> Document {
        self.entities = Some(entities.into());
        self
    }

    /// Sets the relations that it tells of.
    pub fn relations(mut self, relations: impl Into<Vec<Relation>>) -> Document {
        self.relations = Some(relations.into());
        self
    }

    /// Checks everything that needs no schema: lengths, that the vector is finite, and that weights are finite and above 0.
    pub fn validate(&self) -> Result<()> {
        check_name("a document's id", &self.id)?;
        if let Some(source) = &self.source {
            check_name("a document's source", source)?;
        }
        check_text(&self.text)?;
        check_graph(&self.id, self.entities.as_deref(), self.relations.as_deref())?;
        self.vector.as_deref().map_or(Ok(()), |v| check_vector(&format!("the vector of document {:?}", self.id), v))
    }
}

/// Refuses entities and relations that mean nothing, or take more than they may together.
pub(crate) fn check_graph(id: &str, entities: Option<&[Entity]>, relations: Option<&[Relation]>) -> Result<()> {
    entities.unwrap_or_default().iter().try_for_each(Entity::validate)?;
    relations.unwrap_or_default().iter().try_for_each(Relation::validate)?;
    let graph = graph_bytes(entities, relations);
    if graph > limits::GRAPH_BYTES_MAX {
        let most = limits::GRAPH_BYTES_MAX;
        return Err(Error::LimitExceeded(format!(
            "the entities and relations of document {id:?} take {graph} bytes; at most {most} are allowed"
        )));
    }
    Ok(())
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
    /// The entities, as given; `None` when none were given, and then the collection's extractor says what the text mentions.
    pub entities: Option<Vec<Entity>>,
    /// The relations, as given.
    pub relations: Option<Vec<Relation>>,
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
            entities: self.entities.clone(),
            relations: self.relations.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_with_a_key_of_the_parsers_own_is_the_object_that_was_given() {
        let deep = "[".repeat(1_000);
        for inside in [r#"{\"page\":3}"#, "[1]", "no JSON", deep.as_str()] {
            let json = format!(r#"{{"$serde_json::private::RawValue":"{inside}"}}"#);
            let metadata = Metadata::from_json(json.as_str()).unwrap();
            let value = metadata.string("$serde_json::private::RawValue");
            assert_eq!((value, metadata.to_object().len()), (Some(inside.replace('\\', "")), 1), "{json}");
        }
    }

    #[test]
    fn entities_and_relations_that_mean_nothing_are_refused() {
        let entity = |e: Entity| Document::new("a").entities([e]).validate();
        let relation = |r: Relation| Document::new("a").relations([r]).validate();
        assert!(entity(Entity::new("x")).is_ok() && relation(Relation::new("x", "y")).is_ok());
        for bad in [Entity::new(""), Entity::new("x").mentions(0)] {
            assert!(matches!(entity(bad), Err(Error::InvalidArgument(_))));
        }
        let long = "x".repeat(limits::NAME_BYTES_MAX + 1);
        for bad in [Entity::new(long.clone()), Entity::new("x").kind(long.clone())] {
            assert!(matches!(entity(bad), Err(Error::LimitExceeded(_))));
        }
        for weight in [0.0, -1.0, -0.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(relation(Relation::new("x", "y").weight(weight)), Err(Error::InvalidArgument(_))), "{weight}");
        }
        assert!(relation(Relation::new("", "y")).is_err() && relation(Relation::new("x", "")).is_err());
        let described = Relation::new("x", "y").description("z".repeat(limits::GRAPH_BYTES_MAX));
        assert!(matches!(relation(described), Err(Error::LimitExceeded(_))));
    }

    #[test]
    fn entities_and_relations_read_from_json_with_their_defaults() {
        let parsed: Entity = serde_json::from_str(r#"{"name":"Rag","type":null}"#).expect("an entity");
        assert_eq!(parsed, Entity::new("Rag"));
        let parsed: Relation = serde_json::from_str(r#"{"source":"a","target":"b","type":"is","weight":0.5}"#).expect("a relation");
        assert_eq!(parsed, Relation::new("a", "b").kind("is").weight(0.5));
        assert!(serde_json::from_str::<Entity>(r#"{"name":"a","kind":"b"}"#).is_err(), "an unknown key is named, not dropped");
    }
}

//! What a database should hold: plain maps and vectors, and the meaning of every write.
//!
//! Written from the promises of the documentation, not from `src/`.

use super::filters;
use super::graph::{Mention, mentions};
use super::operations::{DocumentSpec, PatchSpec, Write};
use serde_json::Value;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use triune::{Components, Entity, ErrorCode, ExtractorKind, Metric, Relation, Scorer, Seq, SourceInfo};

/// The collections by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    pub collections: BTreeMap<String, Collection>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    pub dimension: Option<usize>,
    pub metric: Metric,
    pub components: Components,
    pub scorer: Scorer,
    pub extractor: ExtractorKind,
    pub source_key: String,
    /// In insertion order.
    pub documents: Vec<Rc<Stored>>,
    /// Whether some vector, perhaps of a document that is gone, was longer than the others by powers of ten.
    pub outsized: bool,
}

/// A document version.
#[derive(Debug, PartialEq)]
pub struct Stored {
    pub id: String,
    pub text: Rc<str>,
    pub tokens: Vec<String>,
    pub metadata: Option<Metadata>,
    pub vector: Option<Vec<f32>>,
    pub source: Option<String>,
    pub source_given: bool,
    /// As given.
    pub entities: Option<Vec<Entity>>,
    pub relations: Option<Vec<Relation>>,
    /// What follows from the entities given, or else from the text.
    pub mentions: Vec<Mention>,
    /// Seq and time, once the database was seen to give them. They never change afterwards.
    pub stamp: Cell<Option<(Seq, u64)>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Metadata {
    pub value: Value,
    /// The bytes as given, until a patch.
    pub verbatim: Option<String>,
}

/// Written and deleted.
pub type Outcome = (u64, u64);

/// Why a batch may be refused. A batch with several faults may be refused for any of them.
type Refusal = ErrorCode;

/// Lower-cased runs of letters, digits and underscores.
pub fn tokens(text: &str) -> Vec<String> {
    text.to_lowercase().split(|c: char| !c.is_alphanumeric() && c != '_').filter(|t| !t.is_empty()).map(String::from).collect()
}

impl Model {
    /// Applies a batch whole, or changes nothing.
    pub fn apply(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, Vec<Refusal>> {
        let mut next = self.clone();
        let mut outcomes = Vec::new();
        let mut refusals = Vec::new();
        for write in batch {
            match next.write(write) {
                Ok(outcome) => outcomes.push(outcome),
                Err(codes) => refusals.extend(codes),
            }
        }
        if refusals.is_empty() {
            *self = next;
            Ok(outcomes)
        } else {
            Err(refusals)
        }
    }

    /// Applies one call. With an error it may have changed part of it; the caller drops the whole copy in the end.
    pub fn write(&mut self, write: &Write) -> Result<Outcome, Vec<Refusal>> {
        match write {
            Write::Put { collection, documents, insert } => self.put(collection, documents, *insert, None),
            Write::Patch { collection, patches } => self.patch(collection, patches),
            Write::Delete { collection, ids } => {
                let c = self.collection(collection)?;
                Ok((0, c.remove(|d| ids.contains(&d.id)).len() as u64))
            }
            Write::DeleteWhere { collection, filter } => {
                let refused = (filters::constant(filter) == Some(true)).then_some(ErrorCode::InvalidArgument);
                match self.collection(collection) {
                    Ok(c) if refused.is_none() => Ok((0, c.remove(|d| d.matches(filter)).len() as u64)),
                    other => Err(other.err().into_iter().flatten().chain(refused).collect()),
                }
            }
            Write::DeleteSource { collection, source } => {
                let c = self.collection(collection)?;
                Ok((0, c.remove(|d| d.source.as_ref() == Some(source)).len() as u64))
            }
            Write::ReplaceSource { collection, source, documents } => {
                let gone = match self.collections.get_mut(collection) {
                    Some(c) => c.remove(|d| d.source.as_ref() == Some(source)),
                    None => Vec::new(),
                };
                let (written, _) = self.put(collection, documents, false, Some(source))?;
                Ok((written, gone.iter().filter(|id| !documents.iter().any(|d| d.id == **id)).count() as u64))
            }
            Write::Clear { collection } => {
                let c = self.collection(collection)?;
                Ok((0, std::mem::take(&mut c.documents).len() as u64))
            }
            Write::Create { name, dimension, metric, components, hnsw: _, scorer, extractor, source_key } => {
                if name.is_empty() || *dimension == Some(0) {
                    return Err(vec![ErrorCode::InvalidArgument]);
                }
                if self.collections.contains_key(name) {
                    return Err(vec![ErrorCode::AlreadyExists]);
                }
                let created = Collection {
                    dimension: *dimension,
                    metric: *metric,
                    components: *components,
                    scorer: *scorer,
                    extractor: *extractor,
                    source_key: source_key.clone(),
                    documents: Vec::new(),
                    outsized: false,
                };
                self.collections.insert(name.clone(), created);
                Ok((0, 0))
            }
            Write::Drop { name } => match self.collections.remove(name) {
                Some(c) => Ok((0, c.documents.len() as u64)),
                None => Err(vec![ErrorCode::NotFound]),
            },
            Write::Rename { from, to } => {
                if !self.collections.contains_key(from) {
                    return Err(vec![ErrorCode::NotFound]);
                }
                if self.collections.contains_key(to) {
                    return Err(vec![ErrorCode::AlreadyExists]);
                }
                let moved = self.collections.remove(from).unwrap();
                self.collections.insert(to.clone(), moved);
                Ok((0, 0))
            }
            Write::Swap { a, b } => {
                let (Some(of_a), Some(of_b)) = (self.collections.get(a).cloned(), self.collections.get(b).cloned()) else {
                    return Err(vec![ErrorCode::NotFound]);
                };
                self.collections.insert(a.clone(), of_b);
                self.collections.insert(b.clone(), of_a);
                Ok((0, 0))
            }
        }
    }

    fn collection(&mut self, name: &str) -> Result<&mut Collection, Vec<Refusal>> {
        self.collections.get_mut(name).ok_or_else(|| vec![ErrorCode::NotFound])
    }

    fn put(&mut self, name: &str, documents: &[DocumentSpec], insert: bool, source: Option<&String>) -> Result<Outcome, Vec<Refusal>> {
        let mut refusals = Vec::new();
        let mut ids = BTreeSet::new();
        for d in documents {
            if !ids.insert(&d.id) {
                refusals.push(ErrorCode::DuplicateId);
            }
            if d.id.is_empty() || d.source.as_deref() == Some("") || source.is_some_and(|s| d.source.as_ref().is_some_and(|own| own != s)) {
                refusals.push(ErrorCode::InvalidArgument);
            }
            refusals.extend(vector_refusal(d.vector.as_deref()));
            refusals.extend(graph_refusal(d));
        }
        let Some(c) = self.collections.get_mut(name) else {
            refusals.push(ErrorCode::NotFound);
            return Err(refusals);
        };
        for d in documents {
            let metadata =
                d.metadata.as_ref().map(|json| Metadata { value: serde_json::from_str(json).unwrap(), verbatim: Some(json.clone()) });
            let parts = Parts {
                id: d.id.clone(),
                text: d.text.as_str().into(),
                metadata,
                vector: d.vector.clone(),
                source: source.cloned().or(d.source.clone()),
                entities: d.entities.clone(),
                relations: d.relations.clone(),
            };
            match parts.stored(c) {
                Ok(stored) => {
                    let replaced = !c.remove(|other| other.id == d.id).is_empty();
                    if insert && replaced {
                        refusals.push(ErrorCode::AlreadyExists);
                    }
                    refusals.extend(c.push(stored));
                }
                Err(code) => refusals.push(code),
            }
        }
        if refusals.is_empty() { Ok((documents.len() as u64, 0)) } else { Err(refusals) }
    }

    fn patch(&mut self, name: &str, patches: &[PatchSpec]) -> Result<Outcome, Vec<Refusal>> {
        let mut refusals = Vec::new();
        let mut ids = BTreeSet::new();
        for p in patches {
            if !ids.insert(&p.id) {
                refusals.push(ErrorCode::DuplicateId);
            }
            refusals.extend(p.vector.as_ref().and_then(|v| vector_refusal(v.as_deref())));
        }
        let Some(c) = self.collections.get_mut(name) else {
            refusals.push(ErrorCode::NotFound);
            return Err(refusals);
        };
        for p in patches {
            let Some(current) = c.documents.iter().find(|d| d.id == p.id).cloned() else {
                refusals.push(ErrorCode::NotFound);
                continue;
            };
            let metadata = match &p.metadata {
                Some(changes) => merged(current.metadata.as_ref(), changes),
                None => current.metadata.clone(),
            };
            let parts = Parts {
                id: p.id.clone(),
                text: p.text.as_ref().map_or(current.text.clone(), |t| t.as_str().into()),
                metadata,
                vector: p.vector.clone().unwrap_or(current.vector.clone()),
                source: current.source.clone().filter(|_| current.source_given),
                entities: current.entities.clone(),
                relations: current.relations.clone(),
            };
            match parts.stored(c) {
                Ok(stored) => {
                    c.remove(|d| d.id == p.id);
                    refusals.extend(c.push(stored));
                }
                Err(code) => refusals.push(code),
            }
        }
        if refusals.is_empty() { Ok((patches.len() as u64, 0)) } else { Err(refusals) }
    }
}

fn vector_refusal(vector: Option<&[f32]>) -> Option<Refusal> {
    vector.filter(|v| v.is_empty() || v.iter().any(|x| !x.is_finite())).map(|_| ErrorCode::InvalidArgument)
}

fn graph_refusal(d: &DocumentSpec) -> Option<Refusal> {
    let nothing = |e: &Entity| e.name.is_empty() || e.mentions == 0;
    let no_weight = |r: &Relation| r.source.is_empty() || r.target.is_empty() || !(r.weight.is_finite() && r.weight > 0.0);
    let refused = d.entities.iter().flatten().any(nothing) || d.relations.iter().flatten().any(no_weight);
    refused.then_some(ErrorCode::InvalidArgument)
}

fn merged(current: Option<&Metadata>, changes: &str) -> Option<Metadata> {
    let Value::Object(changes) = serde_json::from_str(changes).unwrap() else { panic!("patches are objects") };
    let mut object = match current {
        Some(Metadata { value: Value::Object(object), .. }) => object.clone(),
        _ => serde_json::Map::new(),
    };
    for (key, value) in changes {
        if value.is_null() {
            object.remove(&key);
        } else {
            object.insert(key, value);
        }
    }
    if object.is_empty() && current.is_none() {
        return None;
    }
    Some(Metadata { value: Value::Object(object), verbatim: None })
}

/// What a document is made of.
struct Parts {
    id: String,
    text: Rc<str>,
    metadata: Option<Metadata>,
    vector: Option<Vec<f32>>,
    /// As given beside the metadata.
    source: Option<String>,
    entities: Option<Vec<Entity>>,
    relations: Option<Vec<Relation>>,
}

impl Parts {
    /// The document that a collection makes of it.
    fn stored(self, collection: &Collection) -> Result<Stored, Refusal> {
        let named = match self.metadata.as_ref().and_then(|m| m.value.get(&collection.source_key)) {
            None | Some(Value::Null) => None,
            Some(Value::String(s)) if !s.is_empty() => Some(s.clone()),
            Some(_) => return Err(ErrorCode::InvalidArgument),
        };
        if self.source.is_some() && named.is_some() && self.source != named {
            return Err(ErrorCode::InvalidArgument);
        }
        let vector = self.vector.map(|v| v.into_iter().map(|x| stored_component(x, collection.components)).collect::<Vec<_>>());
        // What was not finite to begin with is refused before.
        if vector.iter().flatten().any(|x| !x.is_finite()) {
            return Err(ErrorCode::InvalidArgument);
        }
        Ok(Stored {
            id: self.id,
            tokens: tokens(&self.text),
            mentions: mentions(self.entities.as_deref(), &self.text, collection.extractor),
            text: self.text,
            metadata: self.metadata,
            vector,
            source_given: self.source.is_some(),
            source: self.source.or(named),
            entities: self.entities,
            relations: self.relations,
            stamp: Cell::new(None),
        })
    }
}

/// What a collection keeps of a component: all of it, or the nearest number of eleven bits, no finer than 2^-24 and below 2^16; of two equally
/// near ones the even. Beyond them it is infinite.
fn stored_component(x: f32, components: Components) -> f32 {
    if components == Components::F32 || x == 0.0 || !x.is_finite() {
        return x;
    }
    let x = f64::from(x);
    let unit = 2f64.powi((x.abs().log2().floor() as i32).max(-14) - 10);
    let rounded = (x / unit).round_ties_even() * unit;
    if rounded.abs() >= 65_536.0 { f32::INFINITY } else { rounded as f32 }
}

impl Stored {
    /// Whether a filter means this document.
    pub fn matches(&self, filter: &Value) -> bool {
        let none = Value::Object(serde_json::Map::new());
        filters::matches(filter, self.metadata.as_ref().map_or(&none, |m| &m.value), &self.text, self.source.as_deref())
    }
}

impl Collection {
    /// Removes documents, and returns their ids.
    fn remove(&mut self, goes: impl Fn(&Stored) -> bool) -> Vec<String> {
        let gone = self.documents.iter().filter(|d| goes(d)).map(|d| d.id.clone()).collect();
        self.documents.retain(|d| !goes(d));
        gone
    }

    /// Adds a document at the end. The first vector fixes the dimension.
    fn push(&mut self, document: Stored) -> Option<Refusal> {
        if let Some(vector) = &document.vector
            && *self.dimension.get_or_insert(vector.len()) != vector.len()
        {
            return Some(ErrorCode::SchemaMismatch);
        }
        self.outsized |= document.vector.iter().flatten().any(|x| x.abs() > 1_000.0);
        self.documents.push(Rc::new(document));
        None
    }

    /// What is stored of each source. Times are known once the documents were seen in the database.
    pub fn sources(&self) -> Vec<SourceInfo> {
        let names: BTreeSet<&String> = self.documents.iter().filter_map(|d| d.source.as_ref()).collect();
        names.into_iter().map(|name| self.source(name)).collect()
    }

    fn source(&self, name: &String) -> SourceInfo {
        let of_it: Vec<&Rc<Stored>> = self.documents.iter().filter(|d| d.source.as_ref() == Some(name)).collect();
        let called = |d: &&Rc<Stored>| d.metadata.as_ref()?.value.get("file_name")?.as_str().filter(|s| !s.is_empty()).map(String::from);
        SourceInfo {
            source: name.clone(),
            display_name: of_it.iter().find_map(called).unwrap_or_else(|| name.clone()),
            documents: of_it.len() as u64,
            vectors: of_it.iter().filter(|d| d.vector.is_some()).count() as u64,
            entities: of_it.iter().flat_map(|d| &d.mentions).map(|m| &m.key).collect::<BTreeSet<_>>().len() as u64,
            mentions: of_it.iter().map(|d| d.mentions.len() as u64).sum(),
            bytes: of_it.iter().map(|d| d.text.len() as u64).sum(),
            time_ms: of_it.iter().filter_map(|d| d.stamp.get()).map(|(_, time)| time).max().unwrap_or(0),
        }
    }
}

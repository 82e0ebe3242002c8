//! What a database should hold: plain maps and vectors, and the meaning of every write.
//!
//! Written from the promises of the documentation, not from `src/`.

use super::operations::{DocumentSpec, PatchSpec, Write};
use serde_json::Value;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use triune::{ErrorCode, Metric, Scorer, Seq};

/// The collections by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    pub collections: BTreeMap<String, Collection>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    pub dimension: Option<usize>,
    pub metric: Metric,
    pub scorer: Scorer,
    pub source_key: String,
    /// In insertion order.
    pub documents: Vec<Rc<Stored>>,
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
            Write::Create { name, dimension, metric, scorer, source_key } => {
                if name.is_empty() || *dimension == Some(0) {
                    return Err(vec![ErrorCode::InvalidArgument]);
                }
                if self.collections.contains_key(name) {
                    return Err(vec![ErrorCode::AlreadyExists]);
                }
                let created = Collection {
                    dimension: *dimension,
                    metric: *metric,
                    scorer: *scorer,
                    source_key: source_key.clone(),
                    documents: Vec::new(),
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
        }
        let Some(c) = self.collections.get_mut(name) else {
            refusals.push(ErrorCode::NotFound);
            return Err(refusals);
        };
        for d in documents {
            let metadata =
                d.metadata.as_ref().map(|json| Metadata { value: serde_json::from_str(json).unwrap(), verbatim: Some(json.clone()) });
            let given = source.cloned().or(d.source.clone());
            let stored = Stored::new(&d.id, d.text.as_str().into(), metadata, d.vector.clone(), given, &c.source_key);
            match stored {
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
            let text = p.text.as_ref().map_or(current.text.clone(), |t| t.as_str().into());
            let vector = p.vector.clone().unwrap_or(current.vector.clone());
            let given = current.source.clone().filter(|_| current.source_given);
            match Stored::new(&p.id, text, metadata, vector, given, &c.source_key) {
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

impl Stored {
    fn new(
        id: &str,
        text: Rc<str>,
        metadata: Option<Metadata>,
        vector: Option<Vec<f32>>,
        given: Option<String>,
        source_key: &str,
    ) -> Result<Stored, Refusal> {
        let named = match metadata.as_ref().and_then(|m| m.value.get(source_key)) {
            None | Some(Value::Null) => None,
            Some(Value::String(s)) if !s.is_empty() => Some(s.clone()),
            Some(_) => return Err(ErrorCode::InvalidArgument),
        };
        if given.is_some() && named.is_some() && given != named {
            return Err(ErrorCode::InvalidArgument);
        }
        Ok(Stored {
            id: id.into(),
            tokens: tokens(&text),
            text,
            metadata,
            vector,
            source_given: given.is_some(),
            source: given.or(named),
            stamp: Cell::new(None),
        })
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
        self.documents.push(Rc::new(document));
        None
    }

    pub fn sources(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for source in self.documents.iter().filter_map(|d| d.source.clone()) {
            *all.entry(source).or_default() += 1;
        }
        all
    }
}

//! Entities across parts: one number for each key, whatever ordinals the parts give it.

use super::pages::Pages;
use super::part::{GraphPart, RelationEdge};
use crate::error::{Error, Result};
use rustc_hash::FxHashMap;

/// The entities met so far, numbered in the order in which they were met.
#[derive(Debug)]
pub(super) struct Union<'a, P> {
    parts: &'a [P],
    keys: Vec<Box<str>>,
    by_key: FxHashMap<Box<str>, u32>,
    /// By entity: its ordinal in each part that knows it, parts ascending.
    places: Vec<Vec<(u32, u32)>>,
    /// By part, by ordinal: the entity + 1, or 0.
    known: Vec<Pages<u32>>,
}

impl<'a, P: GraphPart> Union<'a, P> {
    /// No entity yet.
    pub(super) fn new(parts: &'a [P]) -> Result<Union<'a, P>> {
        u32::try_from(parts.len()).map_err(|_| Error::LimitExceeded("a collection has at most 2^32 parts".into()))?;
        let known = vec![Pages::default(); parts.len()];
        Ok(Union { parts, keys: Vec::new(), by_key: FxHashMap::default(), places: Vec::new(), known })
    }

    /// Every entity of every part.
    pub(super) fn all(parts: &'a [P]) -> Result<Union<'a, P>> {
        let mut union = Union::new(parts)?;
        for (part, p) in (0u32..).zip(parts) {
            p.for_each_key(&mut |ordinal, key| {
                let entity = union.number(key);
                union.place(entity, part, ordinal);
            })?;
        }
        Ok(union)
    }

    /// How many entities there are.
    pub(super) fn len(&self) -> u32 {
        self.keys.len() as u32
    }

    /// The key of an entity.
    pub(super) fn key(&self, entity: u32) -> &str {
        &self.keys[entity as usize]
    }

    /// The part of this number.
    pub(super) fn part(&self, part: u32) -> &'a P {
        &self.parts[part as usize]
    }

    /// The ordinals of an entity, by part.
    pub(super) fn places(&self, entity: u32) -> &[(u32, u32)] {
        &self.places[entity as usize]
    }

    fn number(&mut self, key: &str) -> u32 {
        if let Some(&entity) = self.by_key.get(key) {
            return entity;
        }
        let entity = self.keys.len() as u32;
        self.keys.push(key.into());
        self.by_key.insert(key.into(), entity);
        self.places.push(Vec::new());
        entity
    }

    fn place(&mut self, entity: u32, part: u32, ordinal: u32) {
        self.places[entity as usize].push((part, ordinal));
        *self.known[part as usize].slot(ordinal) = entity + 1;
    }

    /// The entity of a key, if some part knows it. It may have no live edge.
    pub(super) fn by_key(&mut self, key: &str) -> Result<Option<u32>> {
        if let Some(&entity) = self.by_key.get(key) {
            return Ok(Some(entity));
        }
        let mut places = Vec::new();
        for (part, p) in (0u32..).zip(self.parts) {
            if let Some(ordinal) = p.entity(key)? {
                places.push((part, ordinal));
            }
        }
        if places.is_empty() {
            return Ok(None);
        }
        let entity = self.number(key);
        places.into_iter().for_each(|(part, ordinal)| self.place(entity, part, ordinal));
        Ok(Some(entity))
    }

    /// The entity of an ordinal, if it was met.
    pub(super) fn known(&self, part: u32, ordinal: u32) -> Option<u32> {
        self.known[part as usize].get(ordinal).checked_sub(1)
    }

    /// The entity of an ordinal.
    pub(super) fn by_ordinal(&mut self, part: u32, ordinal: u32) -> Result<u32> {
        if let Some(entity) = self.known(part, ordinal) {
            return Ok(entity);
        }
        let key = self.parts[part as usize].key(ordinal)?;
        if let Some(&entity) = self.by_key.get(&*key) {
            // Its places were looked up, and this part did not own up to it: damage that no checksum saw. The edge counts all the same.
            self.place(entity, part, ordinal);
            return Ok(entity);
        }
        let entity = self.number(&key);
        for (other, p) in (0u32..).zip(self.parts) {
            let found = if other == part { Some(ordinal) } else { p.entity(&key)? };
            if let Some(ordinal) = found {
                self.place(entity, other, ordinal);
            }
        }
        Ok(entity)
    }

    /// The live documents that mention an entity: part and row, ascending.
    pub(super) fn documents(&self, entity: u32) -> Result<Vec<(u32, u32)>> {
        let mut documents = Vec::new();
        for &(part, ordinal) in self.places(entity) {
            self.part(part).for_each_document(ordinal, &mut |edge| documents.push((part, edge.row)))?;
        }
        Ok(documents)
    }

    /// Whether a live document mentions an entity.
    pub(super) fn is_mentioned(&self, entity: u32) -> Result<bool> {
        let mut mentioned = false;
        for &(part, ordinal) in self.places(entity) {
            self.part(part).for_each_document(ordinal, &mut |_| mentioned = true)?;
        }
        Ok(mentioned)
    }

    /// Gives the live relations of an entity with their parts, in the order of age.
    pub(super) fn for_each_relation(&self, entity: u32, sink: &mut dyn FnMut(u32, RelationEdge)) -> Result<()> {
        for &(part, ordinal) in self.places(entity) {
            self.part(part).for_each_relation(ordinal, &mut |edge| sink(part, edge))?;
        }
        Ok(())
    }

    /// The spelling that the oldest live edge of an entity has: of its documents' and its relations', a mention before a relation of the
    /// same document. `None` when the entity has no live edge and so does not exist.
    pub(super) fn display_name(&self, entity: u32) -> Result<Option<Box<str>>> {
        for &(part, ordinal) in self.places(entity) {
            let part = self.part(part);
            let mut first: Option<(u32, u32)> = None;
            part.for_each_document(ordinal, &mut |edge| first = first.or(Some((edge.row, edge.name))))?;
            let mut related: Option<(u32, u32)> = None;
            part.for_each_relation(ordinal, &mut |edge| related = related.or(Some((edge.row, edge.name))))?;
            let oldest = match (first, related) {
                (Some(mention), Some(relation)) if relation.0 < mention.0 => Some(relation),
                (mention, relation) => mention.or(relation),
            };
            if let Some((_, name)) = oldest {
                return Ok(Some(part.name(ordinal, name)?.into()));
            }
        }
        Ok(None)
    }
}

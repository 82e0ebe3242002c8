//! The entity graph of the rows in memory.
//!
//! One writer appends, many read, as with postings: a row's mentions and relations are here before the row can be seen, and stay when it
//! dies. Whoever reads leaves out the rows that its snapshot does not see.

use super::append::AppendVec;
use super::postings::{Names, PostingList};
use crate::document::Relation;
use crate::error::{Error, Result};
use crate::graph::{DocumentEdge, GraphPart, Mention, RelationEdge, key};
use std::borrow::Cow;

/// The graph of the rows of one collection. Entities are numbered in the order of first appearance.
#[derive(Debug, Default)]
pub struct MemGraph {
    by_key: Names<u32>,
    entities: AppendVec<MemEntity>,
    /// Spellings that edges name by their place.
    names: AppendVec<Box<str>>,
    mentions: AppendVec<MemMention>,
    relations: AppendVec<MemRelation>,
    /// The rows that mention something, ascending.
    rows: AppendVec<MemRow>,
}

#[derive(Debug)]
struct MemEntity {
    key: Box<str>,
    /// The spelling met first.
    name: u32,
    /// Rows, each with the place of its mention.
    documents: PostingList,
    /// Rows, each with the place of a relation; a row once for each of them.
    relations: PostingList,
}

#[derive(Debug)]
struct MemMention {
    entity: u32,
    variants: u32,
    occurrences: u32,
    name: u32,
}

#[derive(Debug)]
struct MemRelation {
    index: u32,
    source: u32,
    target: u32,
    source_name: u32,
    target_name: u32,
    weight: f64,
}

#[derive(Debug)]
struct MemRow {
    row: u32,
    first: u32,
    mentions: u32,
}

impl MemGraph {
    /// No row yet.
    pub fn new() -> MemGraph {
        MemGraph::default()
    }

    /// Adds what one row contributes, and returns about how many bytes that takes. Rows ascend; the keys of `mentions` differ. For one thread
    /// at a time, and before the row can be seen.
    pub fn add(&self, row: u32, mentions: &[Mention], relations: &[Relation]) -> usize {
        let mut bytes = 0;
        let first = place(self.mentions.len());
        for mention in mentions {
            let (entity, name) = self.intern(&mention.key, &mention.name, &mut bytes);
            let (variants, occurrences) = (mention.variants.max(1), mention.occurrences.max(1));
            let at = self.mentions.push(MemMention { entity, variants, occurrences, name });
            self.entity_at(entity).documents.push(row, place(at));
        }
        if !mentions.is_empty() {
            self.rows.push(MemRow { row, first, mentions: place(mentions.len()) });
        }
        for (index, relation) in (0u32..).zip(relations) {
            let (source, source_name) = self.intern(&key(&relation.source), &relation.source, &mut bytes);
            let (target, target_name) = self.intern(&key(&relation.target), &relation.target, &mut bytes);
            let at = self.relations.push(MemRelation { index, source, target, source_name, target_name, weight: relation.weight });
            self.entity_at(source).relations.push(row, place(at));
            if target != source {
                self.entity_at(target).relations.push(row, place(at));
            }
        }
        bytes + mentions.len() * (size_of::<MemMention>() + 16) + relations.len() * (size_of::<MemRelation>() + 32)
    }

    /// The number of an entity and of a spelling of it, made when they are new.
    fn intern(&self, key: &str, name: &str, bytes: &mut usize) -> (u32, u32) {
        let push_name = |bytes: &mut usize| {
            *bytes += name.len() + size_of::<Box<str>>() + 8;
            place(self.names.push(name.into()))
        };
        if let Some(entity) = self.by_key.get(key) {
            let first = self.entity_at(entity).name;
            let known = self.names.get(first as usize).is_some_and(|n| **n == *name);
            return (entity, if known { first } else { push_name(bytes) });
        }
        let name = push_name(bytes);
        *bytes += 2 * key.len() + size_of::<MemEntity>() + 48;
        let entity = MemEntity { key: key.into(), name, documents: PostingList::default(), relations: PostingList::default() };
        let entity = place(self.entities.push(entity));
        // Last: who finds the key finds the entity.
        self.by_key.insert(key, entity);
        (entity, name)
    }

    fn entity_at(&self, entity: u32) -> &MemEntity {
        self.entities.get(entity as usize).expect("an entity is there before anything names it")
    }

    fn known(&self, entity: u32) -> Result<&MemEntity> {
        self.entities.get(entity as usize).ok_or_else(|| Error::InvalidArgument(format!("no entity {entity} is in memory")))
    }

    /// Entities met, dead ones included. Ordinals are below it.
    pub fn entities(&self) -> u32 {
        place(self.entities.len())
    }

    /// The mentions of a row.
    fn row(&self, row: u32) -> Option<&MemRow> {
        let (mut low, mut high) = (0, self.rows.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.rows.get(middle).is_some_and(|r| r.row < row) { low = middle + 1 } else { high = middle }
        }
        self.rows.get(low).filter(|r| r.row == row)
    }
}

/// An index as it is kept. A memtable is flushed long before it holds 2^32 of anything.
fn place(index: usize) -> u32 {
    u32::try_from(index).expect("a memtable is flushed long before 2^32 edges")
}

impl GraphPart for MemGraph {
    fn entity(&self, key: &str) -> Result<Option<u32>> {
        Ok(self.by_key.get(key))
    }

    fn key(&self, entity: u32) -> Result<Cow<'_, str>> {
        Ok(Cow::Borrowed(&self.known(entity)?.key))
    }

    fn name(&self, entity: u32, name: u32) -> Result<Cow<'_, str>> {
        let found = self.names.get(name as usize);
        found.map(|n| Cow::Borrowed(&**n)).ok_or_else(|| Error::InvalidArgument(format!("entity {entity} has no spelling {name} in memory")))
    }

    fn for_each_document(&self, entity: u32, sink: &mut dyn FnMut(DocumentEdge)) -> Result<()> {
        self.known(entity)?.documents.for_each(|row, at| {
            if let Some(m) = self.mentions.get(at as usize) {
                sink(DocumentEdge { row, variants: m.variants, occurrences: m.occurrences, name: m.name });
            }
        });
        Ok(())
    }

    fn for_each_entity(&self, row: u32, sink: &mut dyn FnMut(u32)) -> Result<()> {
        if let Some(found) = self.row(row) {
            (found.first..found.first + found.mentions).filter_map(|at| self.mentions.get(at as usize)).for_each(|m| sink(m.entity));
        }
        Ok(())
    }

    fn for_each_relation(&self, entity: u32, sink: &mut dyn FnMut(RelationEdge)) -> Result<()> {
        self.known(entity)?.relations.for_each(|row, at| {
            let Some(r) = self.relations.get(at as usize) else { return };
            let outgoing = r.source == entity;
            let (other, name) = if outgoing { (r.target, r.source_name) } else { (r.source, r.target_name) };
            sink(RelationEdge { row, index: r.index, other, weight: r.weight, outgoing, name });
        });
        Ok(())
    }

    fn for_each_key(&self, sink: &mut dyn FnMut(u32, &str)) -> Result<()> {
        (0u32..).zip(self.entities.iter()).for_each(|(entity, e)| sink(entity, &e.key));
        Ok(())
    }
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;

//! What searches need of one part of a snapshot.

use crate::error::Result;
use std::borrow::Cow;

/// An edge from an entity to a document that mentions it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentEdge {
    /// The document's row.
    pub row: u32,
    /// Distinct spellings in the document; at least 1.
    pub variants: u32,
    /// Mentions in the document; at least 1.
    pub occurrences: u32,
    /// The spelling that comes first in the document, for [`GraphPart::name`].
    pub name: u32,
}

/// A relation, seen from one of its ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelationEdge {
    /// The row of the document that tells of it; its kind and description stand there.
    pub row: u32,
    /// Which of that document's relations it is, from 0.
    pub index: u32,
    /// The entity at the other end; this one, of a self-loop.
    pub other: u32,
    /// Finite and above 0.
    pub weight: f64,
    /// Whether it starts at this end. A self-loop does.
    pub outgoing: bool,
    /// The spelling of the entity at this end, for [`GraphPart::name`].
    pub name: u32,
}

/// One part of a snapshot's collection, a segment or a memtable. Ordinals of entities and rows are those of the part.
///
/// Searches take parts in which only rows alive in the snapshot exist: [`Live`] makes one of any part. Parts stand in the order of age, so
/// that seqs ascend from one part to the next, and within a part with the rows.
pub trait GraphPart {
    /// The entity of this key. One that is known may have no edge left.
    fn entity(&self, key: &str) -> Result<Option<u32>>;

    /// The key of an entity.
    fn key(&self, entity: u32) -> Result<Cow<'_, str>>;

    /// A spelling of an entity, of the number that an edge of the entity gives.
    fn name(&self, entity: u32, name: u32) -> Result<Cow<'_, str>>;

    /// Gives every document that mentions an entity, rows ascending.
    fn for_each_document(&self, entity: u32, sink: &mut dyn FnMut(DocumentEdge)) -> Result<()>;

    /// Gives every entity that a document mentions, once each.
    fn for_each_entity(&self, row: u32, sink: &mut dyn FnMut(u32)) -> Result<()>;

    /// Gives every relation of an entity, ascending by row and index; a self-loop once.
    fn for_each_relation(&self, entity: u32, sink: &mut dyn FnMut(RelationEdge)) -> Result<()>;

    /// As [`GraphPart::for_each_relation`], but only those that start at the entity: over all entities, each relation once.
    fn for_each_outgoing(&self, entity: u32, sink: &mut dyn FnMut(RelationEdge)) -> Result<()> {
        self.for_each_relation(entity, &mut |edge| {
            if edge.outgoing {
                sink(edge);
            }
        })
    }

    /// Gives every entity that is known, with its key, in no order that means anything.
    fn for_each_key(&self, sink: &mut dyn FnMut(u32, &str)) -> Result<()>;
}

impl<P: GraphPart + ?Sized> GraphPart for &P {
    fn entity(&self, key: &str) -> Result<Option<u32>> {
        (**self).entity(key)
    }

    fn key(&self, entity: u32) -> Result<Cow<'_, str>> {
        (**self).key(entity)
    }

    fn name(&self, entity: u32, name: u32) -> Result<Cow<'_, str>> {
        (**self).name(entity, name)
    }

    fn for_each_document(&self, entity: u32, sink: &mut dyn FnMut(DocumentEdge)) -> Result<()> {
        (**self).for_each_document(entity, sink)
    }

    fn for_each_entity(&self, row: u32, sink: &mut dyn FnMut(u32)) -> Result<()> {
        (**self).for_each_entity(row, sink)
    }

    fn for_each_relation(&self, entity: u32, sink: &mut dyn FnMut(RelationEdge)) -> Result<()> {
        (**self).for_each_relation(entity, sink)
    }

    fn for_each_outgoing(&self, entity: u32, sink: &mut dyn FnMut(RelationEdge)) -> Result<()> {
        (**self).for_each_outgoing(entity, sink)
    }

    fn for_each_key(&self, sink: &mut dyn FnMut(u32, &str)) -> Result<()> {
        (**self).for_each_key(sink)
    }
}

/// A part without its dead rows. `part` is `None` where a segment holds no graph: then nothing is found.
#[derive(Debug, Clone, Copy)]
pub struct Live<P, F> {
    /// All edges, those of dead rows too.
    pub part: Option<P>,
    /// Whether a row is alive in the snapshot.
    pub live: F,
}

impl<P: GraphPart, F: Fn(u32) -> bool> GraphPart for Live<P, F> {
    fn entity(&self, key: &str) -> Result<Option<u32>> {
        self.part.as_ref().map_or(Ok(None), |p| p.entity(key))
    }

    fn key(&self, entity: u32) -> Result<Cow<'_, str>> {
        self.part.as_ref().map_or(Ok(Cow::Borrowed("")), |p| p.key(entity))
    }

    fn name(&self, entity: u32, name: u32) -> Result<Cow<'_, str>> {
        self.part.as_ref().map_or(Ok(Cow::Borrowed("")), |p| p.name(entity, name))
    }

    fn for_each_document(&self, entity: u32, sink: &mut dyn FnMut(DocumentEdge)) -> Result<()> {
        let Some(part) = &self.part else { return Ok(()) };
        part.for_each_document(entity, &mut |edge| {
            if (self.live)(edge.row) {
                sink(edge);
            }
        })
    }

    fn for_each_entity(&self, row: u32, sink: &mut dyn FnMut(u32)) -> Result<()> {
        match &self.part {
            Some(part) if (self.live)(row) => part.for_each_entity(row, sink),
            _ => Ok(()),
        }
    }

    fn for_each_relation(&self, entity: u32, sink: &mut dyn FnMut(RelationEdge)) -> Result<()> {
        let Some(part) = &self.part else { return Ok(()) };
        part.for_each_relation(entity, &mut |edge| {
            if (self.live)(edge.row) {
                sink(edge);
            }
        })
    }

    fn for_each_outgoing(&self, entity: u32, sink: &mut dyn FnMut(RelationEdge)) -> Result<()> {
        let Some(part) = &self.part else { return Ok(()) };
        part.for_each_outgoing(entity, &mut |edge| {
            if (self.live)(edge.row) {
                sink(edge);
            }
        })
    }

    fn for_each_key(&self, sink: &mut dyn FnMut(u32, &str)) -> Result<()> {
        self.part.as_ref().map_or(Ok(()), |p| p.for_each_key(sink))
    }
}

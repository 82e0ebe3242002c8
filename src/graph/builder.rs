//! Writes the graph sections of one segment. Spec §19.

use super::dictionary;
use super::extract::{Mention, key};
use super::spellings::Gathered;
use crate::document::Relation;
use crate::error::{Error, Result};
use crate::format::graph::{ListsEncoder, MentionEdge, RelationRecord, encode_mentions, encode_name, encode_relations};
use crate::format::segment::SectionKind;
use crate::segment::SegmentWriter;
use rustc_hash::FxHashMap;

/// Gathers the graph of one segment's rows and writes its sections. Memory: the keys and spellings, 20 bytes a mention, 40 a relation.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    by_key: FxHashMap<Box<str>, u32>,
    /// By number of first appearance.
    names: Vec<Gathered>,
    mentions: Vec<MentionOf>,
    relations: Vec<RelationOf>,
    /// One above the row added last.
    next_row: u32,
}

/// A mention; `edge.to` is the row.
#[derive(Debug, Clone, Copy)]
struct MentionOf {
    entity: u32,
    edge: MentionEdge,
}

/// A relation between entities in the order of first appearance.
#[derive(Debug, Clone, Copy)]
struct RelationOf {
    row: u32,
    index: u32,
    source: (u32, u32),
    target: (u32, u32),
    weight: f64,
}

impl GraphBuilder {
    /// No row yet.
    pub fn new() -> GraphBuilder {
        GraphBuilder::default()
    }

    /// Adds what one row contributes. Rows ascend strictly; those without mentions and relations may be left out. The keys of `mentions`
    /// differ. `InvalidArgument` otherwise.
    pub fn add(&mut self, row: u32, mentions: &[Mention], relations: &[Relation]) -> Result<()> {
        if row < self.next_row || row == u32::MAX {
            return Err(Error::InvalidArgument(format!("row {row} of a graph does not ascend")));
        }
        self.next_row = row + 1;
        let first = self.mentions.len();
        for mention in mentions {
            let (entity, name) = self.intern(mention.key.clone(), &mention.name)?;
            let edge = MentionEdge {
                to: row,
                variants: mention.variants.max(1),
                occurrences: mention.occurrences.max(mention.variants).max(1),
                name,
            };
            self.mentions.push(MentionOf { entity, edge });
        }
        let mut entities: Vec<u32> = self.mentions[first..].iter().map(|m| m.entity).collect();
        entities.sort_unstable();
        if entities.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::InvalidArgument(format!("row {row} of a graph mentions one entity twice")));
        }
        for (index, relation) in (0u32..).zip(relations) {
            let source = self.intern(key(&relation.source), &relation.source)?;
            let target = self.intern(key(&relation.target), &relation.target)?;
            self.relations.push(RelationOf { row, index, source, target, weight: relation.weight });
        }
        Ok(())
    }

    /// The number of an entity, and that of the spelling.
    fn intern(&mut self, key: Box<str>, name: &str) -> Result<(u32, u32)> {
        let next = u32::try_from(self.names.len()).ok().filter(|&n| n < u32::MAX);
        let next = next.ok_or_else(|| Error::LimitExceeded("a segment has at most 2^32 - 1 entities".into()))?;
        let entity = *self.by_key.entry(key).or_insert(next);
        if entity == next {
            self.names.push(Gathered::default());
        }
        Ok((entity, self.names[entity as usize].number(name)))
    }

    /// Writes all graph sections of a segment of `rows` rows; none when no row mentions or relates anything.
    pub fn finish(self, rows: u32, out: &mut SegmentWriter) -> Result<()> {
        if self.next_row > rows {
            return Err(Error::InvalidArgument(format!("row {} of a graph in a segment of {rows}", self.next_row - 1)));
        }
        if self.names.is_empty() {
            return Ok(());
        }
        let GraphBuilder { by_key, names, mut mentions, relations, .. } = self;
        let mut sorted: Vec<(Box<str>, u32)> = by_key.into_iter().collect();
        sorted.sort_unstable();
        let mut ordinals = vec![0u32; sorted.len()];
        for (ordinal, (_, entity)) in (0u32..).zip(&sorted) {
            ordinals[*entity as usize] = ordinal;
        }
        let fst = dictionary::encode(sorted.iter().map(|(key, _)| &**key))?;
        out.section(SectionKind::Entities, sorted.len() as u64, fst.len() as u64, &fst)?;
        let spellings = sorted.iter().map(|(_, entity)| &names[*entity as usize]);
        lists(out, SectionKind::EntityNames, spellings, |names, list| names.iter().for_each(|n| encode_name(n, list)))?;

        mentions.iter_mut().for_each(|m| m.entity = ordinals[m.entity as usize]);
        write_mentions(rows, &mut mentions, sorted.len(), out)?;
        write_relations(&relations, &ordinals, out)
    }
}

/// Writes `Mentions` and `EntityDocs`.
fn write_mentions(rows: u32, mentions: &mut [MentionOf], entities: usize, out: &mut SegmentWriter) -> Result<()> {
    mentions.sort_unstable_by_key(|m| (m.edge.to, m.entity));
    let by_row = grouped(mentions, rows as usize, |m| m.edge.to);
    lists(out, SectionKind::Mentions, by_row, |of_row, list| {
        let edges: Vec<MentionEdge> = of_row.iter().map(|m| MentionEdge { to: m.entity, ..m.edge }).collect();
        encode_mentions(&edges, list);
    })?;
    mentions.sort_unstable_by_key(|m| (m.entity, m.edge.to));
    let by_entity = grouped(mentions, entities, |m| m.entity);
    lists(out, SectionKind::EntityDocs, by_entity, |of_entity, list| {
        let edges: Vec<MentionEdge> = of_entity.iter().map(|m| m.edge).collect();
        encode_mentions(&edges, list);
    })
}

/// Writes `RelationsBySource` and `RelationsByTarget`.
fn write_relations(relations: &[RelationOf], ordinals: &[u32], out: &mut SegmentWriter) -> Result<()> {
    type End = fn(&RelationOf) -> (u32, u32);
    let directions: [(SectionKind, End, End); 2] =
        [(SectionKind::RelationsBySource, |r| r.source, |r| r.target), (SectionKind::RelationsByTarget, |r| r.target, |r| r.source)];
    for (kind, own, other) in directions {
        let record = |r: &RelationOf| {
            let ((own, name), (other, _)) = (own(r), other(r));
            let record = RelationRecord { row: r.row, index: r.index, other: ordinals[other as usize], weight: r.weight, name };
            (ordinals[own as usize], record)
        };
        let mut records: Vec<(u32, RelationRecord)> = relations.iter().map(record).collect();
        // Stable: they come ascending by row and index.
        records.sort_by_key(|r| r.0);
        let by_entity = grouped(&records, ordinals.len(), |r| r.0);
        lists(out, kind, by_entity, |of_entity, list| {
            let records: Vec<RelationRecord> = of_entity.iter().map(|r| r.1).collect();
            encode_relations(&records, list);
        })?;
    }
    Ok(())
}

/// The runs of `items` that belong to 0, 1, 2 and so on below `groups`; they are sorted by what they belong to.
fn grouped<T>(items: &[T], groups: usize, group: impl Fn(&T) -> u32) -> impl Iterator<Item = &[T]> {
    let mut rest = items;
    (0..groups as u64).map(move |number| {
        let run = rest.iter().take_while(|item| u64::from(group(item)) == number).count();
        let (of_group, others) = rest.split_at(run);
        rest = others;
        of_group
    })
}

/// Writes a section of lists.
fn lists<T>(
    out: &mut SegmentWriter,
    kind: SectionKind,
    items: impl Iterator<Item = T>,
    encode: impl Fn(T, &mut Vec<u8>),
) -> Result<()> {
    let mut encoder = ListsEncoder::default();
    let mut list = Vec::new();
    for item in items {
        list.clear();
        encode(item, &mut list);
        encoder.push(&list);
    }
    let (items, aux, bytes) = encoder.finish();
    out.section(kind, items, aux, &bytes)
}

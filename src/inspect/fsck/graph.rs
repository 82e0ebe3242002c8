//! Levels 2 and 3 of the entity graph of a segment. Its lists are read here, byte by byte, and not by the room that answers from them: what
//! that room skips is checked too.

use super::check::Progress;
use crate::docstore::RowsReader;
use crate::document::Relation;
use crate::error::Result;
use crate::format::graph::{LISTS_PER_BLOCK, ListsLayout, MentionEdge, RelationRecord, decode_mentions, decode_relations};
use crate::format::segment::SectionKind;
use crate::format::varint::Reader;
use crate::graph::{GraphPart, GraphReader, Spellings, key, mentions};
use crate::options::{ExtractorKind, limits};
use crate::segment::{Section, SegmentReader};
use rustc_hash::FxHashSet;
use std::borrow::Cow;
use std::ops::Range;

/// A section of lists, and where each of them stands.
struct Lists {
    section: Section,
    ranges: Vec<Range<u64>>,
}

impl Lists {
    /// Finds every list; together they fill the section.
    fn open(reader: &SegmentReader, kind: SectionKind) -> Result<Lists> {
        let section = reader.require(kind)?;
        let layout = ListsLayout::decode(section.items(), section.aux(), section.len()).map_err(|e| section.corrupt(e.offset, e.what))?;
        section.whole()?;
        let mut ranges = Vec::new();
        let mut end = (u64::from(layout.lists().div_ceil(LISTS_PER_BLOCK)) + 1) * section.aux();
        for first in (0..layout.lists()).step_by(LISTS_PER_BLOCK as usize) {
            let bounds = layout.bounds(first);
            let block =
                layout.decode_bounds(&section.read(bounds.clone())?).map_err(|e| section.corrupt(bounds.start + e.offset, e.what))?;
            let bytes = section.read(block.clone())?;
            let mut lengths = Reader::new(&bytes);
            let located = |e: crate::format::error::FormatError| section.corrupt(block.start + e.offset, e.what);
            let count = LISTS_PER_BLOCK.min(layout.lists() - first);
            let lengths_of: std::result::Result<Vec<u64>, _> = (0..count).map(|_| lengths.varint("the length of a list")).collect();
            let mut at = block.start + lengths.position() as u64;
            for length in lengths_of.map_err(located)? {
                let to = at.checked_add(length).filter(|to| *to <= block.end);
                let to =
                    to.ok_or_else(|| section.corrupt(at, format!("a list of {length} bytes in a block that ends at {}", block.end)))?;
                ranges.push(at..to);
                at = to;
            }
            if block.start != end || at != block.end {
                let what = format!("the block of list {first} is bytes {block:?}, its lists end at {at} and it should start at {end}");
                return Err(section.corrupt(bounds.start, what));
            }
            end = block.end;
        }
        if end != section.len() {
            return Err(section.corrupt(end, format!("{} bytes follow the last list", section.len() - end)));
        }
        Ok(Lists { section, ranges })
    }

    fn count(&self) -> u32 {
        self.ranges.len() as u32
    }

    /// The bytes of a list, and where they start.
    fn get(&self, list: u32) -> Result<(Cow<'_, [u8]>, u64)> {
        let range = self.ranges[list as usize].clone();
        Ok((self.section.read(range.clone())?, range.start))
    }

    /// Gives every edge of every list.
    fn mentions(&self, ends: u32, mut sink: impl FnMut(u32, MentionEdge)) -> Result<()> {
        for list in 0..self.count() {
            let (bytes, at) = self.get(list)?;
            decode_mentions(&bytes, ends, &mut |edge| sink(list, edge)).map_err(|e| self.section.corrupt(at + e.offset, e.what))?;
        }
        Ok(())
    }

    fn relations(&self, rows: u32, mut sink: impl FnMut(u32, RelationRecord)) -> Result<()> {
        for list in 0..self.count() {
            let (bytes, at) = self.get(list)?;
            let decoded = decode_relations(&bytes, rows, self.count(), &mut |record| sink(list, record));
            decoded.map_err(|e| self.section.corrupt(at + e.offset, e.what))?;
        }
        Ok(())
    }
}

/// One relation, as both directions together tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    row: u32,
    index: u32,
    source: u32,
    target: u32,
    weight: u64,
    /// Spellings, of the source from one direction and of the target from the other.
    source_name: u32,
    target_name: u32,
}

/// The graph of a segment, every edge of it read and found to agree with its other direction.
pub(super) struct Graph {
    reader: GraphReader,
    mentions: Section,
    by_source: Section,
    relations: Vec<Edge>,
}

impl Graph {
    /// Checks all sections against each other; `None` when the segment has no graph.
    pub(super) fn open(segment: &SegmentReader, rows: u32) -> Result<Option<Graph>> {
        let Some(reader) = GraphReader::open(segment)? else { return Ok(None) };
        let lists = |kind| Lists::open(segment, kind);
        let by_row = lists(SectionKind::Mentions)?;
        if by_row.count() != rows {
            return Err(by_row.section.corrupt(0, format!("the graph is of {} rows, the segment has {rows}", by_row.count())));
        }
        let spellings = spellings(&reader, &lists(SectionKind::EntityNames)?)?;
        let mut used = vec![false; spellings.len()];
        check_mentions(&by_row, &lists(SectionKind::EntityDocs)?, rows, &spellings, &mut used)?;
        let by_source = lists(SectionKind::RelationsBySource)?;
        let relations = check_relations(&by_source, &lists(SectionKind::RelationsByTarget)?, rows, &spellings)?;
        relations.iter().for_each(|r| [r.source, r.target].iter().for_each(|&entity| used[entity as usize] = true));
        if let Some(entity) = used.iter().position(|used| !used) {
            let what = format!("entity {entity} is neither mentioned nor related by any row");
            return Err(segment.require(SectionKind::Entities)?.corrupt(0, what));
        }
        Ok(Some(Graph { reader, mentions: by_row.section, by_source: by_source.section, relations }))
    }

    /// Finds the mentions of every document again, and compares them and its relations.
    pub(super) fn semantics(&self, rows: &RowsReader, extractor: ExtractorKind, progress: &mut Progress<'_>) -> Result<()> {
        let mut scanner = rows.scanner();
        let mut names = Spellings::new(&self.reader);
        let mut left = &self.relations[..];
        for row in 0..rows.rows() {
            if row.is_multiple_of(1024) {
                progress.add(0)?;
            }
            let document = scanner.document(row)?;
            let mut expected = mentions(document.entities.as_deref(), &document.text, extractor);
            expected.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            let found = names.mentions(row)?;
            let same = |(a, b): (&crate::graph::Mention, &crate::graph::Mention)| {
                // A builder never writes fewer of either than one.
                let most = b.variants.max(1);
                (&a.key, &a.name, a.variants, a.occurrences) == (&b.key, &b.name, most, b.occurrences.max(most))
            };
            if found.len() != expected.len() || !found.iter().zip(&expected).all(same) {
                let what = format!("row {row} mentions {found:?}, its document gives {expected:?}");
                return Err(self.mentions.corrupt(0, crate::inspect::fsck::check::shortened(what)));
            }
            let (own, rest) = left.split_at(left.iter().take_while(|r| r.row == row).count());
            left = rest;
            self.compare_relations(&mut names, row, own, document.relations.as_deref().unwrap_or_default())?;
        }
        Ok(())
    }

    fn compare_relations(&self, names: &mut Spellings<'_>, row: u32, found: &[Edge], expected: &[Relation]) -> Result<()> {
        let differs = |index: usize| self.by_source.corrupt(0, format!("relation {index} of row {row} is not that of its document"));
        if found.len() != expected.len() {
            let what = format!("row {row} has {} relations, its document {}", found.len(), expected.len());
            return Err(self.by_source.corrupt(0, what));
        }
        for (i, (edge, relation)) in found.iter().zip(expected).enumerate() {
            let source = names.name(edge.source, edge.source_name)?;
            let target = names.name(edge.target, edge.target_name)?;
            let numbers = edge.index as usize == i && edge.weight == relation.weight.to_bits();
            if !numbers || *source != *relation.source || *target != *relation.target {
                return Err(differs(i));
            }
        }
        Ok(())
    }
}

/// How many spellings each entity has. They differ, and all of them have the entity's key, in the order of the dictionary.
fn spellings(reader: &GraphReader, names: &Lists) -> Result<Vec<u32>> {
    let mut counts = Vec::with_capacity(names.ranges.len());
    let mut keys: Vec<Box<str>> = Vec::with_capacity(names.ranges.len());
    reader.for_each_key(&mut |_, key| keys.push(key.into()))?;
    for entity in 0..names.count() {
        let (bytes, at) = names.get(entity)?;
        let mut list = Reader::new(&bytes);
        let mut seen: FxHashSet<&str> = FxHashSet::default();
        let located = |e: crate::format::error::FormatError| names.section.corrupt(at + e.offset, e.what);
        while list.remaining() > 0 {
            let name = list.text("an entity's name", limits::NAME_BYTES_MAX).map_err(located)?;
            if name.is_empty() || key(name) != keys[entity as usize] || !seen.insert(name) {
                return Err(names.section.corrupt(at, format!("entity {entity}, {:?}, has the spelling {name:?}", keys[entity as usize])));
            }
        }
        if seen.is_empty() {
            return Err(names.section.corrupt(at, format!("entity {entity} has no spelling")));
        }
        counts.push(seen.len() as u32);
    }
    Ok(counts)
}

/// Both sections hold the same edges.
fn check_mentions(by_row: &Lists, by_entity: &Lists, rows: u32, spellings: &[u32], used: &mut [bool]) -> Result<()> {
    let tuple = |row: u32, entity: u32, e: MentionEdge| (row, entity, e.variants, e.occurrences, e.name);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    by_row.mentions(spellings.len() as u32, |row, edge| a.push(tuple(row, edge.to, edge)))?;
    by_entity.mentions(rows, |entity, edge| b.push(tuple(edge.to, entity, edge)))?;
    b.sort_unstable();
    if a != b {
        let i = a.iter().zip(&b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
        let what = format!("edge {i} (row, entity, spellings, mentions, first) is {:?} here and {:?} in EntityDocs", a.get(i), b.get(i));
        return Err(by_row.section.corrupt(0, what));
    }
    for (row, entity, _, _, name) in a {
        if name >= spellings[entity as usize] {
            return Err(by_row.section.corrupt(0, format!("row {row} mentions entity {entity} by spelling {name}, which it has not")));
        }
        used[entity as usize] = true;
    }
    Ok(())
}

/// Both sections hold the same relations. Answers them by row and index.
fn check_relations(by_source: &Lists, by_target: &Lists, rows: u32, spellings: &[u32]) -> Result<Vec<Edge>> {
    let mut relations = Vec::new();
    by_source.relations(rows, |source, r| {
        let (row, index, target, weight) = (r.row, r.index, r.other, r.weight.to_bits());
        relations.push(Edge { row, index, source, target, weight, source_name: r.name, target_name: 0 });
    })?;
    relations.sort_unstable();
    let mut back = Vec::new();
    by_target.relations(rows, |target, r| back.push((r.row, r.index, r.other, target, r.weight.to_bits(), r.name)))?;
    back.sort_unstable();
    let forth = |e: &Edge| (e.row, e.index, e.source, e.target, e.weight);
    let same = |(e, b): (&Edge, &(u32, u32, u32, u32, u64, u32))| forth(e) == (b.0, b.1, b.2, b.3, b.4);
    if relations.len() != back.len() || !relations.iter().zip(&back).all(same) {
        let what = format!("{} relations by source and {} by target are not the same ones", relations.len(), back.len());
        return Err(by_source.section.corrupt(0, what));
    }
    relations.iter_mut().zip(back).for_each(|(edge, b)| edge.target_name = b.5);
    let unknown = |e: &&Edge| e.source_name >= spellings[e.source as usize] || e.target_name >= spellings[e.target as usize];
    if let Some(e) = relations.iter().find(unknown) {
        return Err(by_source.section.corrupt(0, format!("relation {} of row {} names a spelling that there is not", e.index, e.row)));
    }
    if let Some(w) = relations.windows(2).find(|w| (w[0].row, w[0].index) == (w[1].row, w[1].index)) {
        return Err(by_source.section.corrupt(0, format!("relation {} of row {} is there twice", w[0].index, w[0].row)));
    }
    Ok(relations)
}

/// A segment without a graph: no document mentions or relates anything.
pub(super) fn nothing_to_index(segment: &SegmentReader, rows: &RowsReader, extractor: ExtractorKind) -> Result<()> {
    let mut scanner = rows.scanner();
    for row in 0..rows.rows() {
        let document = scanner.document(row)?;
        let mentioned = mentions(document.entities.as_deref(), &document.text, extractor).len();
        let related = document.relations.as_deref().map_or(0, <[Relation]>::len);
        if mentioned + related > 0 {
            let what = format!("the segment has no graph, and row {row} has {mentioned} entities and {related} relations");
            return Err(segment.require(SectionKind::Docs)?.corrupt(0, what));
        }
    }
    Ok(())
}

//! Reads the graph sections of one segment. Spec §19.

use super::dictionary::Dictionary;
use super::part::{DocumentEdge, GraphPart, RelationEdge};
use crate::error::Result;
use crate::format::graph::{ListsLayout, MentionEdge, RelationRecord, decode_mentions, decode_name, decode_relations};
use crate::format::segment::SectionKind;
use crate::segment::{Section, SegmentReader};
use crate::unicode::lower;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// The kinds of section that the graph is kept in: a segment has all of them, or none.
const KINDS: [SectionKind; 6] = [
    SectionKind::Entities,
    SectionKind::EntityNames,
    SectionKind::Mentions,
    SectionKind::EntityDocs,
    SectionKind::RelationsBySource,
    SectionKind::RelationsByTarget,
];

/// The graph of one segment, open for reading. Cheap to clone; `Send + Sync`. Dead rows are in it: it knows nothing of deletions.
#[derive(Debug, Clone)]
pub struct GraphReader {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    entities: Section,
    names: Lists,
    mentions: Lists,
    documents: Lists,
    by_source: Lists,
    by_target: Lists,
    dictionary: OnceLock<Dictionary>,
}

/// A section of lists, open.
#[derive(Debug)]
struct Lists {
    section: Section,
    layout: ListsLayout,
}

impl Lists {
    fn open(segment: &SegmentReader, kind: SectionKind) -> Result<Lists> {
        let section = segment.require(kind)?;
        let layout = ListsLayout::decode(section.items(), section.aux(), section.len()).map_err(|e| section.corrupt(e.offset, e.what))?;
        Ok(Lists { section, layout })
    }

    /// The bytes of a list, and where they stand. The list is one that the section has, else `Corrupt`.
    fn get(&self, list: u32) -> Result<(Cow<'_, [u8]>, u64)> {
        if list >= self.layout.lists() {
            return Err(self.section.corrupt(0, format!("list {list} of {}", self.layout.lists())));
        }
        let bounds = self.layout.bounds(list);
        let block = self.layout.decode_bounds(&self.section.read(bounds.clone())?);
        let block = block.map_err(|e| self.section.corrupt(bounds.start + e.offset, e.what))?;
        let header = self.section.read(ListsLayout::header(&block))?;
        let range = self.layout.locate(list, &block, &header).map_err(|e| self.section.corrupt(block.start + e.offset, e.what))?;
        Ok((self.section.read(range.clone())?, range.start))
    }
}

impl GraphReader {
    /// Opens the graph of a segment; `None` when it has none. O(1): the dictionary is opened at its first use.
    pub fn open(segment: &SegmentReader) -> Result<Option<GraphReader>> {
        if KINDS.iter().all(|&kind| segment.section(kind).is_none()) {
            return Ok(None);
        }
        let inner = Inner {
            entities: segment.require(SectionKind::Entities)?,
            names: Lists::open(segment, SectionKind::EntityNames)?,
            mentions: Lists::open(segment, SectionKind::Mentions)?,
            documents: Lists::open(segment, SectionKind::EntityDocs)?,
            by_source: Lists::open(segment, SectionKind::RelationsBySource)?,
            by_target: Lists::open(segment, SectionKind::RelationsByTarget)?,
            dictionary: OnceLock::new(),
        };
        for lists in [&inner.names, &inner.documents, &inner.by_source, &inner.by_target] {
            if u64::from(lists.layout.lists()) != inner.entities.items() {
                let what = format!("{} lists for {} entities", lists.layout.lists(), inner.entities.items());
                return Err(lists.section.corrupt(0, what));
            }
        }
        if inner.entities.aux() != inner.entities.len() {
            let what = format!("an fst of {} bytes in a section of {}", inner.entities.aux(), inner.entities.len());
            return Err(inner.entities.corrupt(0, what));
        }
        Ok(Some(GraphReader { inner: Arc::new(inner) }))
    }

    /// Entities of the segment, those without a live edge included. Ordinals are below it.
    pub fn entities(&self) -> u32 {
        self.inner.names.layout.lists()
    }

    /// Rows of the segment.
    pub fn rows(&self) -> u32 {
        self.inner.mentions.layout.lists()
    }

    /// The edges of a row.
    pub(super) fn mention_edges(&self, row: u32) -> Result<Vec<MentionEdge>> {
        let mut edges = Vec::new();
        let (list, at) = self.inner.mentions.get(row)?;
        decode_mentions(&list, self.entities(), &mut |e| edges.push(e)).map_err(|e| self.inner.mentions.section.corrupt(at + e.offset, e.what))?;
        Ok(edges)
    }

    /// The section of spellings.
    pub(super) fn names_section(&self) -> &Section {
        &self.inner.names.section
    }

    /// The list of an entity's spellings, and where it stands.
    pub(super) fn names_of(&self, entity: u32) -> Result<(Cow<'_, [u8]>, u64)> {
        self.inner.names.get(entity)
    }

    /// One spelling. Reads those before it.
    pub(super) fn spelling(&self, entity: u32, name: u32) -> Result<Cow<'_, str>> {
        let (list, at) = self.names_of(entity)?;
        let found = match &list {
            Cow::Borrowed(list) => decode_name(list, name).map(Cow::Borrowed),
            Cow::Owned(list) => decode_name(list, name).map(|n| Cow::Owned(n.to_string())),
        };
        found.map_err(|e| self.names_section().corrupt(at + e.offset, e.what))
    }

    fn dictionary(&self) -> Result<&Dictionary> {
        if let Some(dictionary) = self.inner.dictionary.get() {
            return Ok(dictionary);
        }
        let dictionary = Dictionary::open(&self.inner.entities, self.entities())?;
        Ok(self.inner.dictionary.get_or_init(|| dictionary))
    }

    /// The relations in one direction.
    fn relations(&self, lists: &Lists, entity: u32, sink: &mut dyn FnMut(RelationRecord)) -> Result<()> {
        let (list, at) = lists.get(entity)?;
        decode_relations(&list, self.rows(), self.entities(), sink).map_err(|e| lists.section.corrupt(at + e.offset, e.what))
    }
}

impl GraphPart for GraphReader {
    fn entity(&self, key: &str) -> Result<Option<u32>> {
        let Some(entity) = self.dictionary()?.get(key)? else { return Ok(None) };
        if self.key(entity)? != key {
            return Err(self.inner.names.section.corrupt(0, format!("the spellings of entity {entity} are not those of its key")));
        }
        Ok(Some(entity))
    }

    fn key(&self, entity: u32) -> Result<Cow<'_, str>> {
        Ok(Cow::Owned(lower(&self.name(entity, 0)?)))
    }

    fn name(&self, entity: u32, name: u32) -> Result<Cow<'_, str>> {
        self.spelling(entity, name)
    }

    fn for_each_document(&self, entity: u32, sink: &mut dyn FnMut(DocumentEdge)) -> Result<()> {
        let documents = &self.inner.documents;
        let (list, at) = documents.get(entity)?;
        decode_mentions(&list, self.rows(), &mut |e| {
            sink(DocumentEdge { row: e.to, variants: e.variants, occurrences: e.occurrences, name: e.name });
        })
        .map_err(|e| documents.section.corrupt(at + e.offset, e.what))
    }

    fn for_each_entity(&self, row: u32, sink: &mut dyn FnMut(u32)) -> Result<()> {
        let mentions = &self.inner.mentions;
        let (list, at) = mentions.get(row)?;
        decode_mentions(&list, self.entities(), &mut |e| sink(e.to)).map_err(|e| mentions.section.corrupt(at + e.offset, e.what))
    }

    fn for_each_relation(&self, entity: u32, sink: &mut dyn FnMut(RelationEdge)) -> Result<()> {
        let mut edges = Vec::new();
        self.relations(&self.inner.by_source, entity, &mut |r| edges.push(edge(r, true)))?;
        let outgoing = edges.len();
        // A self-loop stands in both lists and is one edge.
        self.relations(&self.inner.by_target, entity, &mut |r| {
            if r.other != entity {
                edges.push(edge(r, false));
            }
        })?;
        if outgoing > 0 && outgoing < edges.len() {
            edges.sort_unstable_by_key(|e| (e.row, e.index));
        }
        edges.into_iter().for_each(sink);
        Ok(())
    }

    fn for_each_outgoing(&self, entity: u32, sink: &mut dyn FnMut(RelationEdge)) -> Result<()> {
        self.relations(&self.inner.by_source, entity, &mut |r| sink(edge(r, true)))
    }

    fn for_each_key(&self, sink: &mut dyn FnMut(u32, &str)) -> Result<()> {
        self.dictionary()?.for_each(sink)
    }
}

/// A relation as one of its ends sees it.
fn edge(record: RelationRecord, outgoing: bool) -> RelationEdge {
    let RelationRecord { row, index, other, weight, name } = record;
    RelationEdge { row, index, other, weight, outgoing, name }
}

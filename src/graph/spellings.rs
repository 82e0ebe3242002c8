//! The spellings of entities: gathered for a segment, and found again by their numbers.
//!
//! Most entities have one or two. A document may bring tens of thousands of one of them, all lower and upper cases of its letters, and then a
//! search through them for each would take quadratic time.

use super::extract::Mention;
use super::reader::GraphReader;
use crate::error::Result;
use crate::format::graph::{MentionEdge, decode_name, name_bounds};
use crate::unicode::lower;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::hash_map::Entry;

/// So many spellings are looked through faster than they are hashed.
const FEW: usize = 8;

/// The spellings of one entity in the order of first appearance.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    names: Vec<Box<str>>,
    /// The number of each, once there are more than a few.
    numbers: Option<Box<FxHashMap<Box<str>, u32>>>,
}

impl Gathered {
    /// The number of a spelling, which is the next one when it is new.
    pub(super) fn number(&mut self, name: &str) -> u32 {
        let known = match &self.numbers {
            Some(numbers) => numbers.get(name).copied(),
            None => (0u32..).zip(&self.names).find(|(_, n)| ***n == *name).map(|(number, _)| number),
        };
        known.unwrap_or_else(|| self.push(name))
    }

    fn push(&mut self, name: &str) -> u32 {
        let number = self.names.len() as u32;
        self.names.push(name.into());
        if let Some(numbers) = &mut self.numbers {
            numbers.insert(name.into(), number);
        } else if self.names.len() > FEW {
            self.numbers = Some(Box::new(self.names.iter().cloned().zip(0u32..).collect()));
        }
        number
    }

    /// All of them in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}

/// Finds spellings by their numbers, for whoever asks for many of them: [`GraphReader`] alone reads all spellings before the one it is asked
/// for. Memory: 8 bytes for each spelling of an entity of which more than the first few are asked for.
#[derive(Debug)]
pub struct Spellings<'a> {
    reader: &'a GraphReader,
    /// By entity: where each spelling starts in the section, and where the last one ends.
    bounds: FxHashMap<u32, Box<[u64]>>,
}

impl<'a> Spellings<'a> {
    /// Those of a segment.
    pub fn new(reader: &'a GraphReader) -> Spellings<'a> {
        Spellings { reader, bounds: FxHashMap::default() }
    }

    /// As [`super::GraphPart::name`].
    pub fn name(&mut self, entity: u32, name: u32) -> Result<Cow<'a, str>> {
        let at = name as usize;
        if at < FEW {
            return self.reader.spelling(entity, name);
        }
        let section = self.reader.names_section();
        let bounds = match self.bounds.entry(entity) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let (list, start) = self.reader.names_of(entity)?;
                let bounds = name_bounds(&list).map_err(|e| section.corrupt(start + e.offset, e.what))?;
                new.insert(bounds.into_iter().map(|b| start + b).collect())
            }
        };
        let Some(&[from, to]) = bounds.get(at..at + 2) else {
            return Err(section.corrupt(bounds[0], format!("spelling {name} of entity {entity}, which has {}", bounds.len() - 1)));
        };
        let found = match section.read(from..to)? {
            Cow::Borrowed(bytes) => decode_name(bytes, 0).map(Cow::Borrowed),
            Cow::Owned(bytes) => decode_name(&bytes, 0).map(|n| Cow::Owned(n.to_string())),
        };
        found.map_err(|e| section.corrupt(from + e.offset, e.what))
    }

    /// What a row mentions, as it was given to the builder but for the order: by key.
    pub fn mentions(&mut self, row: u32) -> Result<Vec<Mention>> {
        let edges = self.reader.mention_edges(row)?;
        let mention = |e: MentionEdge| {
            let name = self.name(e.to, e.name)?;
            Ok(Mention { key: lower(&name).into(), name: name.into(), occurrences: e.occurrences, variants: e.variants })
        };
        edges.into_iter().map(mention).collect()
    }
}

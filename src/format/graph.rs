//! The sections of the entity graph: many short lists, found by their number, and what stands in them. Spec §19.
//!
//! The dictionary itself is an fst, whose bytes are the business of `transducer.rs` and of `graph/dictionary.rs`.

use super::error::FormatError;
use super::varint::{Reader, VARINT_BYTES_MAX, write_prefixed, write_varint};
use crate::options::limits;
use std::ops::Range;

/// Lists that share an offset.
pub const LISTS_PER_BLOCK: u32 = 16;

/// Bytes that are surely enough for the lengths at the start of a block.
const BLOCK_HEADER_BYTES_MAX: u64 = LISTS_PER_BLOCK as u64 * VARINT_BYTES_MAX as u64;

/// Where everything in a section of lists stands. Spec §19.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListsLayout {
    lists: u32,
    /// Bytes of an offset: 4 or 8.
    width: u64,
    /// Bytes of all blocks.
    payload: u64,
}

impl ListsLayout {
    /// Checks the sizes that the table entry gives: `items` lists, offsets of `aux` bytes.
    pub fn decode(items: u64, aux: u64, length: u64) -> Result<ListsLayout, FormatError> {
        let wrong = || FormatError::new(0, format!("{length} bytes do not hold {items} lists under offsets of {aux} bytes"));
        let lists = u32::try_from(items).map_err(|_| wrong())?;
        if aux != 4 && aux != 8 {
            return Err(wrong());
        }
        let offsets = (u64::from(lists.div_ceil(LISTS_PER_BLOCK)) + 1) * aux;
        Ok(ListsLayout { lists, width: aux, payload: length.checked_sub(offsets).ok_or_else(wrong)? })
    }

    /// How many lists there are.
    pub fn lists(&self) -> u32 {
        self.lists
    }

    /// The two offsets that bound the block of `list`, as bytes of the section.
    pub fn bounds(&self, list: u32) -> Range<u64> {
        let at = u64::from(list / LISTS_PER_BLOCK) * self.width;
        at..at + 2 * self.width
    }

    /// Reads what stands at [`ListsLayout::bounds`]: the block, as bytes of the section.
    pub fn decode_bounds(&self, bytes: &[u8]) -> Result<Range<u64>, FormatError> {
        let offset = |part: &[u8]| {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            u64::from_le_bytes(word)
        };
        if bytes.len() as u64 != 2 * self.width {
            return Err(FormatError::new(0, format!("two offsets have {} bytes, not {}", 2 * self.width, bytes.len())));
        }
        let (start, end) = bytes.split_at(self.width as usize);
        let (start, end) = (offset(start), offset(end));
        if start > end || end > self.payload {
            return Err(FormatError::new(0, format!("a block of lists is bytes {start}..{end} of {}", self.payload)));
        }
        let payload_start = (u64::from(self.lists.div_ceil(LISTS_PER_BLOCK)) + 1) * self.width;
        Ok(payload_start + start..payload_start + end)
    }

    /// The first bytes of a block that surely hold the lengths of its lists.
    pub fn header(block: &Range<u64>) -> Range<u64> {
        block.start..block.end.min(block.start + BLOCK_HEADER_BYTES_MAX)
    }

    /// Finds `list` in its block, whose first bytes are `header`: as bytes of the section.
    pub fn locate(&self, list: u32, block: &Range<u64>, header: &[u8]) -> Result<Range<u64>, FormatError> {
        let first = list - list % LISTS_PER_BLOCK;
        let lists = LISTS_PER_BLOCK.min(self.lists.saturating_sub(first));
        let mut reader = Reader::new(header);
        let (mut before, mut own) = (0u64, 0u64);
        for i in first..first + lists {
            let length = reader.varint("the length of a list")?;
            if i < list {
                before = before.saturating_add(length);
            } else if i == list {
                own = length;
            }
        }
        let start = (block.start + reader.position() as u64).saturating_add(before);
        let end = start.saturating_add(own);
        if end > block.end {
            return Err(reader.error(format!("list {list} is bytes {start}..{end}, and its block ends at {}", block.end)));
        }
        Ok(start..end)
    }
}

/// Gathers lists in the order of their numbers.
#[derive(Debug, Default)]
pub struct ListsEncoder {
    offsets: Vec<u64>,
    payload: Vec<u8>,
    /// Lengths of the lists of the block under way, and their bytes.
    lengths: Vec<u64>,
    block: Vec<u8>,
    lists: u32,
}

impl ListsEncoder {
    /// Appends a list.
    pub fn push(&mut self, list: &[u8]) {
        self.lengths.push(list.len() as u64);
        self.block.extend_from_slice(list);
        self.lists += 1;
        if self.lengths.len() == LISTS_PER_BLOCK as usize {
            self.close();
        }
    }

    fn close(&mut self) {
        self.offsets.push(self.payload.len() as u64);
        self.lengths.iter().for_each(|&l| write_varint(&mut self.payload, l));
        self.payload.append(&mut self.block);
        self.lengths.clear();
    }

    /// The number of lists, the bytes of an offset, and the section.
    pub fn finish(mut self) -> (u64, u64, Vec<u8>) {
        if !self.lengths.is_empty() {
            self.close();
        }
        self.offsets.push(self.payload.len() as u64);
        let mut out = Vec::with_capacity(self.payload.len() + 8 * self.offsets.len());
        let width = if u32::try_from(self.payload.len()).is_ok() { 4 } else { 8 };
        self.offsets.iter().for_each(|o| out.extend_from_slice(&o.to_le_bytes()[..width]));
        out.append(&mut self.payload);
        (u64::from(self.lists), width as u64, out)
    }
}

/// One document-entity edge, seen from one of its ends. Spec §19.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MentionEdge {
    /// The other end: an entity, or a row.
    pub to: u32,
    /// Distinct spellings in the document; at least 1.
    pub variants: u32,
    /// Mentions in the document; at least `variants`.
    pub occurrences: u32,
    /// Which of the entity's spellings comes first in the document.
    pub name: u32,
}

/// Appends edges, whose other ends ascend strictly.
pub fn encode_mentions(edges: &[MentionEdge], out: &mut Vec<u8>) {
    let mut least = 0u64;
    for edge in edges {
        let to = u64::from(edge.to);
        debug_assert!(to >= least, "the other ends ascend");
        let plain = edge.variants == 1 && edge.occurrences == 1 && edge.name == 0;
        write_varint(out, (to - least) << 1 | u64::from(plain));
        if !plain {
            [edge.variants, edge.occurrences, edge.name].iter().for_each(|&n| write_varint(out, u64::from(n)));
        }
        least = to + 1;
    }
}

/// Calls `sink` with every edge of a list; the other ends ascend strictly and are below `ends`.
pub fn decode_mentions(list: &[u8], ends: u32, sink: &mut dyn FnMut(MentionEdge)) -> Result<(), FormatError> {
    let mut reader = Reader::new(list);
    let mut least = 0u64;
    while reader.remaining() > 0 {
        let head = reader.varint("a mention")?;
        let to = below(&reader, least, head >> 1, ends, "a mention")?;
        let mut edge = MentionEdge { to, variants: 1, occurrences: 1, name: 0 };
        if head & 1 == 0 {
            edge.variants = number(&mut reader, "the spellings of a mention")?;
            edge.occurrences = number(&mut reader, "the occurrences of a mention")?;
            edge.name = number(&mut reader, "the name of a mention")?;
            if edge.variants == 0 || edge.occurrences < edge.variants {
                let what = format!("{} spellings occur {} times", edge.variants, edge.occurrences);
                return Err(reader.error(what));
            }
        }
        sink(edge);
        least = u64::from(to) + 1;
    }
    Ok(())
}

/// One relation, seen from one of its ends. Spec §19.4.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelationRecord {
    /// The document that tells of it.
    pub row: u32,
    /// Which of the document's relations it is.
    pub index: u32,
    /// The entity at the other end.
    pub other: u32,
    /// Finite and above 0.
    pub weight: f64,
    /// Which of the spellings of the entity at this end the relation has.
    pub name: u32,
}

const RELATION_HAS_INDEX: u64 = 1;
const RELATION_HAS_NAME: u64 = 2;
const WEIGHT_SHIFT: u32 = 2;
const WEIGHT_ONE: u64 = 0;
const WEIGHT_F32: u64 = 1;
const WEIGHT_F64: u64 = 2;
/// Bits below a record's step from row to row.
const RELATION_FLAG_BITS: u32 = 4;

/// Appends records, which ascend strictly by row and index.
pub fn encode_relations(records: &[RelationRecord], out: &mut Vec<u8>) {
    let mut row = 0;
    for r in records {
        let narrow = r.weight as f32;
        let weight = match r.weight {
            1.0 => WEIGHT_ONE,
            w if f64::from(narrow) == w => WEIGHT_F32,
            _ => WEIGHT_F64,
        };
        let index = if r.index == 0 { 0 } else { RELATION_HAS_INDEX };
        let name = if r.name == 0 { 0 } else { RELATION_HAS_NAME };
        write_varint(out, u64::from(r.row - row) << RELATION_FLAG_BITS | weight << WEIGHT_SHIFT | name | index);
        if index != 0 {
            write_varint(out, u64::from(r.index));
        }
        write_varint(out, u64::from(r.other));
        if name != 0 {
            write_varint(out, u64::from(r.name));
        }
        match weight {
            WEIGHT_ONE => {}
            WEIGHT_F32 => out.extend_from_slice(&narrow.to_le_bytes()),
            _ => out.extend_from_slice(&r.weight.to_le_bytes()),
        }
        row = r.row;
    }
}

/// Calls `sink` with every record of a list: ascending strictly by row and index, of rows below `rows` and entities below `entities`.
pub fn decode_relations(list: &[u8], rows: u32, entities: u32, sink: &mut dyn FnMut(RelationRecord)) -> Result<(), FormatError> {
    let mut reader = Reader::new(list);
    let mut last: Option<(u32, u32)> = None;
    while reader.remaining() > 0 {
        let head = reader.varint("a relation")?;
        let row = below(&reader, u64::from(last.map_or(0, |l| l.0)), head >> RELATION_FLAG_BITS, rows, "a relation")?;
        let index = if head & RELATION_HAS_INDEX == 0 { 0 } else { number(&mut reader, "the index of a relation")? };
        if last.is_some_and(|last| last >= (row, index)) {
            return Err(reader.error(format!("relation {index} of row {row} does not ascend")));
        }
        let other = reader.varint("the other end of a relation")?;
        let other = below(&reader, 0, other, entities, "the other end of a relation")?;
        let name = if head & RELATION_HAS_NAME == 0 { 0 } else { number(&mut reader, "the name in a relation")? };
        let weight = decode_weight(&mut reader, head >> WEIGHT_SHIFT & 3)?;
        sink(RelationRecord { row, index, other, weight, name });
        last = Some((row, index));
    }
    Ok(())
}

fn decode_weight(reader: &mut Reader<'_>, form: u64) -> Result<f64, FormatError> {
    let what = "the weight of a relation";
    let weight = match form {
        WEIGHT_ONE => 1.0,
        WEIGHT_F32 => f64::from(f32::from_bits(reader.u32_le(what)?)),
        WEIGHT_F64 => {
            let (low, high) = (reader.u32_le(what)?, reader.u32_le(what)?);
            f64::from_bits(u64::from(high) << 32 | u64::from(low))
        }
        _ => return Err(reader.error(format!("a weight of form {form}; 0 to 2 are known"))),
    };
    if weight.is_finite() && weight > 0.0 {
        return Ok(weight);
    }
    Err(reader.error(format!("{what} is {weight}; it is a finite number above 0")))
}

/// The number `step` above `least`, which lies below `end`.
fn below(reader: &Reader<'_>, least: u64, step: u64, end: u32, what: &str) -> Result<u32, FormatError> {
    match least.checked_add(step).and_then(|n| u32::try_from(n).ok()) {
        Some(n) if n < end => Ok(n),
        _ => Err(reader.error(format!("{what} is {step} above {least}; all are below {end}"))),
    }
}

fn number(reader: &mut Reader<'_>, what: &str) -> Result<u32, FormatError> {
    let n = reader.varint(what)?;
    u32::try_from(n).map_err(|_| reader.error(format!("{what}: {n} does not fit into 32 bits")))
}

/// Appends a spelling of an entity. Spec §19.2.
pub fn encode_name(name: &str, out: &mut Vec<u8>) {
    write_prefixed(out, name.as_bytes());
}

/// The spelling of this number in an entity's list of them.
pub fn decode_name(list: &[u8], name: u32) -> Result<&str, FormatError> {
    let mut reader = Reader::new(list);
    for _ in 0..name {
        reader.prefixed("an entity's name", limits::NAME_BYTES_MAX)?;
    }
    reader.name("an entity's name")
}

/// Where each spelling of an entity's list of them starts, and where the last one ends.
pub fn name_bounds(list: &[u8]) -> Result<Vec<u64>, FormatError> {
    let mut reader = Reader::new(list);
    let mut bounds = vec![0];
    while reader.remaining() > 0 {
        reader.prefixed("an entity's name", limits::NAME_BYTES_MAX)?;
        bounds.push(reader.position() as u64);
    }
    Ok(bounds)
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;

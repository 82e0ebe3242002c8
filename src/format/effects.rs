//! The payload of a commit record: what a commit did, never what was asked for. Spec §8.
//!
//! Effects are whole new versions with their seqs, and the seqs that die. Replaying them needs no lookup and no clock, and replaying them
//! twice changes nothing more.

use super::document::{decode_version, encode_version, version_bytes_max};
use super::bitmap::decode_treemap;
use super::error::FormatError;
use super::manifest::{SegmentEntry, UnknownKeys};
use super::varint::{Reader, VARINT_BYTES_MAX, write_prefixed, write_varint};
use crate::document::StoredDocument;
use crate::ids::{Incarnation, Seq};
use crate::options::{Schema, limits};
use roaring::RoaringTreemap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A set of dying seqs above this many encoded bytes stands in a `d-` file that the record names.
pub const DEAD_INLINE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a schema's JSON.
const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// The fewest bytes that a document version takes: flags, time, a length and one byte of id, the text's length.
const VERSION_BYTES_MIN: usize = 5;

/// Everything that one commit did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CommitEffects {
    /// When it was committed, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// The seq that the next stored version gets, after this commit.
    pub next_seq: Seq,
    /// The incarnation that the next collection gets, after this commit.
    pub next_incarnation: Incarnation,
    /// Changes of collections, in the order they happened, before `collections`.
    pub catalog: Vec<CatalogChange>,
    /// What changed inside collections.
    pub collections: Vec<CollectionEffects>,
}

/// A change of the set of collections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogChange {
    /// A collection begins.
    Create {
        /// Its name.
        name: String,
        /// Its first life.
        incarnation: Incarnation,
        /// What it holds.
        schema: Schema,
    },
    /// A collection ends.
    Drop {
        /// Its name.
        name: String,
        /// The life that ends.
        incarnation: Incarnation,
    },
    /// A collection loses every document and keeps its schema.
    Clear {
        /// Its name.
        name: String,
        /// The life that ends.
        old: Incarnation,
        /// The life that begins.
        new: Incarnation,
    },
    /// A collection gets another name.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
        /// Its life, which goes on.
        incarnation: Incarnation,
    },
    /// Two collections exchange their names.
    Swap {
        /// One name.
        a: String,
        /// The other.
        b: String,
    },
    /// The first vector of a collection fixes its dimension.
    FixDimension {
        /// The collection's life.
        incarnation: Incarnation,
        /// Components of every vector from now on.
        dimension: u32,
    },
}

impl CommitEffects {
    /// What no commit does with numbers after one that left these, if it does: spec 8.1. They never go back, what it stores and begins has
    /// its own, and the seqs of an incarnation ascend.
    pub fn misnumbered(&self, next_seq: Seq, next_incarnation: Incarnation) -> Option<String> {
        if self.next_seq < next_seq || self.next_incarnation < next_incarnation {
            return Some(format!(
                "the next seq goes from {next_seq} to {}, the next incarnation from {next_incarnation} to {}",
                self.next_seq, self.next_incarnation
            ));
        }
        let (seqs, lives) = (next_seq..self.next_seq, next_incarnation..self.next_incarnation);
        if let Some(begun) = self.catalog.iter().filter_map(CatalogChange::begun).find(|begun| !lives.contains(begun)) {
            return Some(format!("it begins incarnation {begun}; those from {} to below {} are its own", lives.start, lives.end));
        }
        let mut last: BTreeMap<Incarnation, Seq> = BTreeMap::new();
        for collection in &self.collections {
            let rows = collection.rows.iter().map(|row| (row.seq, row.seq));
            for (from, to) in rows.chain(collection.landed.iter().map(|segment| (segment.base_seq, segment.last_seq))) {
                if from > to || !seqs.contains(&from) || !seqs.contains(&to) {
                    return Some(format!("it stores seqs {from} to {to}; those from {} to below {} are its own", seqs.start, seqs.end));
                }
                if let Some(last) = last.insert(collection.incarnation, to).filter(|last| *last >= from) {
                    return Some(format!("it stores seq {from} of incarnation {} after seq {last}", collection.incarnation));
                }
            }
        }
        None
    }
}

impl CatalogChange {
    /// The life that begins with it, if one does.
    fn begun(&self) -> Option<Incarnation> {
        match self {
            CatalogChange::Create { incarnation, .. } | CatalogChange::Clear { new: incarnation, .. } => Some(*incarnation),
            CatalogChange::Drop { .. } | CatalogChange::Rename { .. } | CatalogChange::Swap { .. } | CatalogChange::FixDimension { .. } => None,
        }
    }
}

/// What a commit did inside one collection.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionEffects {
    /// The collection's life.
    pub incarnation: Incarnation,
    /// New versions, in ascending order of their seqs.
    pub rows: Vec<RowEffect>,
    /// Segments that were written and synced ahead of the record.
    pub landed: Vec<SegmentEntry>,
    /// The seqs that die.
    pub dead: DeadSet,
}

/// A new version of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct RowEffect {
    /// Its seq.
    pub seq: Seq,
    /// The version.
    pub document: Arc<StoredDocument>,
}

/// The seqs that a commit ends.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum DeadSet {
    /// No seq dies.
    #[default]
    None,
    /// These die: at most [`DEAD_INLINE_BYTES_MAX`] encoded.
    Inline(RoaringTreemap),
    /// Those in a synced `d-` file die.
    File {
        /// Its number.
        number: u64,
        /// Its bytes.
        length: u64,
        /// Its CRC.
        crc: u32,
    },
}

const CREATE: u8 = 1;
const DROP: u8 = 2;
const CLEAR: u8 = 3;
const RENAME: u8 = 4;
const SWAP: u8 = 5;
const FIX_DIMENSION: u8 = 6;

const DEAD_NONE: u8 = 0;
const DEAD_INLINE: u8 = 1;
const DEAD_FILE: u8 = 2;

impl CommitEffects {
    /// Appends the payload. Panics when rows do not ascend or an inline dead set is over its limit: the engine makes neither.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_varint(out, self.time_ms);
        write_varint(out, self.next_seq.0);
        write_varint(out, self.next_incarnation.0);
        write_varint(out, self.catalog.len() as u64);
        self.catalog.iter().for_each(|change| encode_change(change, out));
        write_varint(out, self.collections.len() as u64);
        self.collections.iter().for_each(|effects| encode_collection(effects, out));
    }

    /// Reads a payload that passed its checksum: all of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<CommitEffects, FormatError> {
        let mut reader = Reader::new(bytes);
        let r = &mut reader;
        let time_ms = r.varint("the time of a commit")?;
        let next_seq = Seq(r.counter("the next seq")?);
        let next_incarnation = Incarnation(r.counter("the next incarnation")?);
        let changes = r.count("changes of collections", 3)?;
        let catalog = (0..changes).map(|_| decode_change(r)).collect::<Result<_, _>>()?;
        let collections = r.count("collections", 4)?;
        let collections = (0..collections).map(|_| decode_collection(r)).collect::<Result<_, _>>()?;
        reader.finish("a commit")?;
        Ok(CommitEffects { time_ms, next_seq, next_incarnation, catalog, collections })
    }

    /// At most this many bytes does [`CommitEffects::encode`] append. O(rows).
    pub fn encoded_len_estimate(&self) -> usize {
        let catalog: usize = self.catalog.iter().map(change_bytes_max).sum();
        let collections: usize = self.collections.iter().map(collection_bytes_max).sum();
        5 * VARINT_BYTES_MAX + catalog + collections
    }
}

fn encode_change(change: &CatalogChange, out: &mut Vec<u8>) {
    match change {
        CatalogChange::Create { name, incarnation, schema } => {
            out.push(CREATE);
            write_prefixed(out, name.as_bytes());
            write_varint(out, incarnation.0);
            write_prefixed(out, &schema_json(schema));
        }
        CatalogChange::Drop { name, incarnation } => {
            out.push(DROP);
            write_prefixed(out, name.as_bytes());
            write_varint(out, incarnation.0);
        }
        CatalogChange::Clear { name, old, new } => {
            out.push(CLEAR);
            write_prefixed(out, name.as_bytes());
            write_varint(out, old.0);
            write_varint(out, new.0);
        }
        CatalogChange::Rename { from, to, incarnation } => {
            out.push(RENAME);
            write_prefixed(out, from.as_bytes());
            write_prefixed(out, to.as_bytes());
            write_varint(out, incarnation.0);
        }
        CatalogChange::Swap { a, b } => {
            out.push(SWAP);
            write_prefixed(out, a.as_bytes());
            write_prefixed(out, b.as_bytes());
        }
        CatalogChange::FixDimension { incarnation, dimension } => {
            out.push(FIX_DIMENSION);
            write_varint(out, incarnation.0);
            write_varint(out, u64::from(*dimension));
        }
    }
}

fn decode_change(r: &mut Reader<'_>) -> Result<CatalogChange, FormatError> {
    let at = r.position();
    let name = |r: &mut Reader<'_>| r.name("a collection's name").map(str::to_owned);
    Ok(match r.u8("a change of collections")? {
        CREATE => CatalogChange::Create { name: name(r)?, incarnation: decode_incarnation(r)?, schema: decode_schema(r)? },
        DROP => CatalogChange::Drop { name: name(r)?, incarnation: decode_incarnation(r)? },
        CLEAR => CatalogChange::Clear { name: name(r)?, old: decode_incarnation(r)?, new: decode_incarnation(r)? },
        RENAME => CatalogChange::Rename { from: name(r)?, to: name(r)?, incarnation: decode_incarnation(r)? },
        SWAP => CatalogChange::Swap { a: name(r)?, b: name(r)? },
        FIX_DIMENSION => {
            let incarnation = decode_incarnation(r)?;
            let at = r.position();
            let dimension = r.varint("a dimension")?;
            match u32::try_from(dimension) {
                Ok(d) if d >= 1 && d as usize <= limits::DIMENSION_MAX => CatalogChange::FixDimension { incarnation, dimension: d },
                _ => return Err(FormatError::new(at, format!("a dimension is 1 to {}, not {dimension}", limits::DIMENSION_MAX))),
            }
        }
        other => return Err(FormatError::newer(at, format!("change {other} of collections is unknown to this version"))),
    })
}

/// The life of a collection, which is counted from 1.
fn decode_incarnation(r: &mut Reader<'_>) -> Result<Incarnation, FormatError> {
    let at = r.position();
    match r.counter("an incarnation")? {
        0 => Err(FormatError::new(at, "an incarnation is at least 1, not 0")),
        number => Ok(Incarnation(number)),
    }
}

fn schema_json(schema: &Schema) -> Vec<u8> {
    serde_json::to_vec(schema).expect("strings and numbers always have a JSON form")
}

fn decode_schema(r: &mut Reader<'_>) -> Result<Schema, FormatError> {
    let bytes = r.prefixed("a schema", SCHEMA_BYTES_MAX)?;
    let at = r.position() - bytes.len();
    let schema: Schema = serde_json::from_slice(bytes).map_err(|e| FormatError::new(at, format!("the bytes are no schema: {e}")))?;
    schema.validate().map_err(|e| FormatError::new(at, format!("no collection has this schema: {e}")))?;
    Ok(schema)
}

fn encode_collection(effects: &CollectionEffects, out: &mut Vec<u8>) {
    write_varint(out, effects.incarnation.0);
    write_varint(out, effects.rows.len() as u64);
    let mut before = None;
    for row in &effects.rows {
        // The first seq stands whole, the others as the step from the one before.
        assert!(before < Some(row.seq.0), "rows of a commit ascend in seq");
        write_varint(out, row.seq.0 - before.unwrap_or(0));
        before = Some(row.seq.0);
        encode_version(&row.document, out);
    }
    write_varint(out, effects.landed.len() as u64);
    effects.landed.iter().for_each(|segment| encode_segment(segment, out));
    encode_dead(&effects.dead, out);
}

fn decode_collection(r: &mut Reader<'_>) -> Result<CollectionEffects, FormatError> {
    let incarnation = decode_incarnation(r)?;
    let count = r.count("rows", 1 + VERSION_BYTES_MIN)?;
    let mut rows = Vec::with_capacity(count);
    let mut before: Option<u64> = None;
    for _ in 0..count {
        let at = r.position();
        let step = r.counter("a seq")?;
        let seq = match before {
            None => step,
            Some(seq) if step > 0 && step <= limits::COUNTER_MAX - seq => seq + step,
            Some(seq) if step > 0 => return Err(FormatError::new(at, format!("seq {seq} is followed by one {step} above it"))),
            Some(seq) => return Err(FormatError::new(at, format!("seq {seq} stands twice in a commit"))),
        };
        before = Some(seq);
        rows.push(RowEffect { seq: Seq(seq), document: Arc::new(decode_version(r)?) });
    }
    let count = r.count("segments", SEGMENT_BYTES_MIN)?;
    let landed = (0..count).map(|_| decode_segment(r)).collect::<Result<_, _>>()?;
    Ok(CollectionEffects { incarnation, rows, landed, dead: decode_dead(r)? })
}

/// Nine varints and a checksum.
const SEGMENT_BYTES_MIN: usize = 9 + 4;

fn encode_segment(segment: &SegmentEntry, out: &mut Vec<u8>) {
    assert!(segment.tombstones.is_none(), "a segment that lands has no dead rows yet");
    write_varint(out, segment.file);
    write_varint(out, segment.offset);
    write_varint(out, segment.length);
    out.extend_from_slice(&segment.crc.to_le_bytes());
    write_varint(out, segment.base_seq.0);
    write_varint(out, segment.last_seq.0);
    write_varint(out, segment.rows);
    write_varint(out, segment.vectors);
    write_varint(out, segment.tokens);
    write_varint(out, segment.content_hash);
}

fn decode_segment(r: &mut Reader<'_>) -> Result<SegmentEntry, FormatError> {
    let at = r.position();
    let segment = SegmentEntry {
        file: r.counter("a segment's file")?,
        offset: r.varint("a segment's offset")?,
        length: r.varint("a segment's length")?,
        crc: r.u32_le("a segment's checksum")?,
        base_seq: Seq(r.counter("a segment's base seq")?),
        last_seq: Seq(r.counter("a segment's last seq")?),
        rows: r.varint("a segment's rows")?,
        vectors: r.varint("a segment's vectors")?,
        tokens: r.varint("a segment's tokens")?,
        content_hash: r.varint("a segment's content hash")?,
        tombstones: None,
        unknown: UnknownKeys::new(),
    };
    if segment.base_seq > segment.last_seq || segment.offset.checked_add(segment.length).is_none_or(|end| end > limits::COUNTER_MAX) {
        return Err(FormatError::new(at, format!("no segment has these numbers: {segment:?}")));
    }
    Ok(segment)
}

fn encode_dead(dead: &DeadSet, out: &mut Vec<u8>) {
    match dead {
        DeadSet::None => out.push(DEAD_NONE),
        DeadSet::Inline(seqs) => {
            let length = seqs.serialized_size();
            assert!(length <= DEAD_INLINE_BYTES_MAX, "{length} bytes of dying seqs belong into a file");
            out.push(DEAD_INLINE);
            write_varint(out, length as u64);
            seqs.serialize_into(out).expect("writing to memory does not fail");
        }
        DeadSet::File { number, length, crc } => {
            out.push(DEAD_FILE);
            write_varint(out, *number);
            write_varint(out, *length);
            out.extend_from_slice(&crc.to_le_bytes());
        }
    }
}

fn decode_dead(r: &mut Reader<'_>) -> Result<DeadSet, FormatError> {
    let at = r.position();
    Ok(match r.u8("the dying seqs")? {
        DEAD_NONE => DeadSet::None,
        DEAD_INLINE => {
            let bytes = r.prefixed("the set of dying seqs", DEAD_INLINE_BYTES_MAX)?;
            let seqs = decode_treemap(bytes).map_err(|e| e.shifted((r.position() - bytes.len()) as u64))?;
            DeadSet::Inline(seqs)
        }
        DEAD_FILE => DeadSet::File {
            number: r.counter("a file's number")?,
            length: r.varint("a file's length")?,
            crc: r.u32_le("a file's checksum")?,
        },
        other => return Err(FormatError::newer(at, format!("dying seqs of kind {other} are unknown to this version"))),
    })
}

fn change_bytes_max(change: &CatalogChange) -> usize {
    let names = match change {
        CatalogChange::Create { name, schema, .. } => name.len() + schema_json(schema).len(),
        CatalogChange::Drop { name, .. } | CatalogChange::Clear { name, .. } => name.len(),
        CatalogChange::Rename { from, to, .. } => from.len() + to.len(),
        CatalogChange::Swap { a, b } => a.len() + b.len(),
        CatalogChange::FixDimension { .. } => 0,
    };
    1 + 4 * VARINT_BYTES_MAX + names
}

fn collection_bytes_max(effects: &CollectionEffects) -> usize {
    let rows: usize = effects.rows.iter().map(|row| VARINT_BYTES_MAX + version_bytes_max(&row.document)).sum();
    let dead = match &effects.dead {
        DeadSet::None | DeadSet::File { .. } => 0,
        DeadSet::Inline(seqs) => seqs.serialized_size(),
    };
    let landed = effects.landed.len() * (9 * VARINT_BYTES_MAX + 4);
    6 * VARINT_BYTES_MAX + rows + landed + dead
}

#[cfg(test)]
mod tests;

//! A manifest file: a checked binary header, then the state as JSON. Spec §6.
//!
//! The body is small, meant to be read by people too, and easy to extend: keys that this version does not know are kept when a manifest is
//! written again, at every level. 64-bit numbers stand as strings, because a double would round them; 32-bit ones as numbers. Keys have one
//! order, so that the same state gives the same bytes.

use super::checksum::crc32;
use super::error::FormatError;
use super::segment::check_crc;
use crate::ids::{Incarnation, Lsn, Seq, Uuid};
use crate::options::Schema;
use serde::{Deserialize, Serialize};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of a manifest file.
pub const MANIFEST_MAGIC: [u8; 8] = *b"TRIUNEMF";
/// The major version of the manifest format.
pub const MANIFEST_MAJOR: u16 = 1;
/// Bytes of the header; the body follows it.
pub const MANIFEST_HEADER_BYTES: usize = 64;

/// JSON keys that this version does not know, kept for those that do.
pub type UnknownKeys = serde_json::Map<String, serde_json::Value>;

/// Spec §6.1: the header of a manifest file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ManifestHeader {
    /// [`MANIFEST_MAGIC`].
    pub magic: [u8; 8],
    /// Incompatible changes raise it.
    pub major: U16,
    /// Compatible additions raise it.
    pub minor: U16,
    /// CRC of the header with this field zero.
    pub crc: U32,
    /// The database it was written for.
    pub database: [u8; 16],
    /// The number in its file name.
    pub number: U64,
    /// Bytes of the body, which ends the file.
    pub body_length: U64,
    /// CRC of the body.
    pub body_crc: U32,
    /// Zero.
    pub reserved: [u8; 12],
}
const _: () = assert!(size_of::<ManifestHeader>() == MANIFEST_HEADER_BYTES);

/// Exactly the committed state at one lsn. Spec §6.2.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// The lsn; replay starts after it.
    pub applied_lsn: Lsn,
    /// The seq that the next stored version gets.
    pub next_seq: Seq,
    /// The incarnation that the next collection gets.
    pub next_incarnation: Incarnation,
    /// Every collection, in no order that means anything.
    pub collections: Vec<CollectionEntry>,
    /// Keys of newer versions.
    #[serde(flatten)]
    pub unknown: UnknownKeys,
}

/// One collection of a [`Manifest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "CollectionJson", into = "CollectionJson")]
pub struct CollectionEntry {
    /// Its name, unique in the database.
    pub name: String,
    /// Its life.
    pub incarnation: Incarnation,
    /// What it holds.
    pub schema: Schema,
    /// Keys of newer versions inside the schema.
    pub schema_unknown: UnknownKeys,
    /// Live documents.
    pub documents: u64,
    /// Live documents that have a vector.
    pub vectors: u64,
    /// Tokens of the live documents.
    pub tokens: u64,
    /// Its segments, in ascending order of their seqs.
    pub segments: Vec<SegmentEntry>,
    /// Keys of newer versions.
    pub unknown: UnknownKeys,
}

/// One segment of a collection, as the manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEntry {
    /// Number of the file it lies in.
    #[serde(with = "as_text")]
    pub file: u64,
    /// Where it starts there, in bytes.
    #[serde(with = "as_text")]
    pub offset: u64,
    /// Its bytes.
    #[serde(with = "as_text")]
    pub length: u64,
    /// CRC of its footer.
    pub crc: u32,
    /// What its relative seqs are added to; its first row has this seq or a greater one.
    pub base_seq: Seq,
    /// The greatest seq it holds.
    pub last_seq: Seq,
    /// Rows, dead ones too.
    #[serde(with = "as_text")]
    pub rows: u64,
    /// Rows that have a vector, dead ones too.
    #[serde(with = "as_text")]
    pub vectors: u64,
    /// Tokens of all rows, dead ones too.
    #[serde(with = "as_text")]
    pub tokens: u64,
    /// Wrapping sum of the content hashes of all rows.
    #[serde(with = "as_text")]
    pub content_hash: u64,
    /// Which of its rows are dead, if any is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tombstones: Option<TombstoneEntry>,
    /// Keys of newer versions.
    #[serde(flatten)]
    pub unknown: UnknownKeys,
}

/// The dead rows of a segment, as the manifest names them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TombstoneEntry {
    /// Number of the file they lie in.
    #[serde(with = "as_text")]
    pub file: u64,
    /// Where they start there, in bytes.
    #[serde(with = "as_text")]
    pub offset: u64,
    /// Their bytes.
    #[serde(with = "as_text")]
    pub length: u64,
    /// Their CRC.
    pub crc: u32,
    /// How many rows are dead.
    #[serde(with = "as_text")]
    pub dead: u64,
    /// Keys of newer versions.
    #[serde(flatten)]
    pub unknown: UnknownKeys,
}

/// The JSON of a collection: `schema` is one object there, known and unknown keys together.
#[derive(Serialize, Deserialize)]
struct CollectionJson {
    name: String,
    incarnation: Incarnation,
    schema: SchemaJson,
    #[serde(with = "as_text")]
    documents: u64,
    #[serde(with = "as_text")]
    vectors: u64,
    #[serde(with = "as_text")]
    tokens: u64,
    segments: Vec<SegmentEntry>,
    #[serde(flatten)]
    unknown: UnknownKeys,
}

#[derive(Serialize, Deserialize)]
struct SchemaJson {
    #[serde(flatten)]
    known: Schema,
    #[serde(flatten)]
    unknown: UnknownKeys,
}

impl From<CollectionJson> for CollectionEntry {
    fn from(json: CollectionJson) -> CollectionEntry {
        let CollectionJson { name, incarnation, schema, documents, vectors, tokens, segments, unknown } = json;
        let SchemaJson { known: schema, unknown: schema_unknown } = schema;
        CollectionEntry { name, incarnation, schema, schema_unknown, documents, vectors, tokens, segments, unknown }
    }
}

impl From<CollectionEntry> for CollectionJson {
    fn from(entry: CollectionEntry) -> CollectionJson {
        let CollectionEntry { name, incarnation, schema, schema_unknown, documents, vectors, tokens, segments, unknown } = entry;
        let schema = SchemaJson { known: schema, unknown: schema_unknown };
        CollectionJson { name, incarnation, schema, documents, vectors, tokens, segments, unknown }
    }
}

/// A 64-bit number as a string of decimal digits.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use std::borrow::Cow;

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    pub(super) fn serialize<S: Serializer>(value: &u64, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
        let text = Cow::<'de, str>::deserialize(d)?;
        // `parse` alone would take a plus sign.
        let number = text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
        number.ok_or_else(|| de::Error::custom(format!("{text:?} is not a 64-bit number")))
    }
}

impl CollectionEntry {
    /// A collection without documents.
    pub fn empty(name: impl Into<String>, incarnation: Incarnation, schema: Schema) -> CollectionEntry {
        CollectionEntry {
            name: name.into(),
            incarnation,
            schema,
            schema_unknown: UnknownKeys::new(),
            documents: 0,
            vectors: 0,
            tokens: 0,
            segments: Vec::new(),
            unknown: UnknownKeys::new(),
        }
    }
}

/// The whole file `number` of `database` that says `manifest`.
pub fn encode_manifest(number: u64, database: Uuid, manifest: &Manifest) -> Vec<u8> {
    let mut bytes = vec![0; MANIFEST_HEADER_BYTES];
    serde_json::to_writer(&mut bytes, manifest).expect("strings, numbers and maps with string keys always have a JSON form");
    let body = &bytes[MANIFEST_HEADER_BYTES..];
    let mut header = ManifestHeader {
        magic: MANIFEST_MAGIC,
        major: U16::new(MANIFEST_MAJOR),
        minor: U16::new(0),
        crc: U32::new(0),
        database: database.0,
        number: U64::new(number),
        body_length: U64::new(body.len() as u64),
        body_crc: U32::new(crc32(body)),
        reserved: [0; 12],
    };
    header.crc = U32::new(crc32(header.as_bytes()));
    bytes[..MANIFEST_HEADER_BYTES].copy_from_slice(header.as_bytes());
    bytes
}

impl ManifestHeader {
    /// Checks and reads the header at the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<ManifestHeader, FormatError> {
        let (header, _) = ManifestHeader::read_from_prefix(bytes).map_err(|_| {
            FormatError::new(0, format!("a manifest starts with a header of {MANIFEST_HEADER_BYTES} bytes; the file has {}", bytes.len()))
        })?;
        if header.magic != MANIFEST_MAGIC {
            return Err(FormatError::new(0, "no manifest starts here: its magic is missing"));
        }
        // The frame keeps place and meaning for ever, so a flipped version byte is seen as damage, not as a newer version.
        let zeroed = ManifestHeader { crc: U32::new(0), ..header };
        check_crc("manifest header", 12, header.crc.get(), crc32(zeroed.as_bytes()))?;
        if header.major.get() > MANIFEST_MAJOR {
            return Err(FormatError::newer(8, format!("manifest format {} is newer than {MANIFEST_MAJOR}", header.major)));
        }
        if header.major.get() == 0 {
            return Err(FormatError::new(8, "there is no format of major version 0"));
        }
        if header.minor.get() == 0 && header.reserved != [0; 12] {
            return Err(FormatError::new(52, "reserved bytes of the manifest header are not zero"));
        }
        Ok(header)
    }
}

/// Checks and reads a whole manifest file. What it says is checked elsewhere.
pub fn decode_manifest(bytes: &[u8]) -> Result<(ManifestHeader, Manifest), FormatError> {
    let header = ManifestHeader::decode(bytes)?;
    let body = &bytes[MANIFEST_HEADER_BYTES..];
    if header.body_length.get() != body.len() as u64 {
        return Err(FormatError::new(40, format!("the body has {} bytes, the header says {}", body.len(), header.body_length)));
    }
    check_crc("manifest body", 48, header.body_crc.get(), crc32(body))?;
    let manifest = serde_json::from_slice(body).map_err(|e| {
        let at = MANIFEST_HEADER_BYTES + json_offset(body, e.line(), e.column());
        FormatError::new(at, format!("the body is not a manifest: {e}"))
    })?;
    Ok((header, manifest))
}

/// Where a JSON error is: its line and column (both from 1) as an offset.
fn json_offset(body: &[u8], line: usize, column: usize) -> usize {
    let start: usize = body.split_inclusive(|&b| b == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    (start + column.saturating_sub(1)).min(body.len())
}

#[cfg(test)]
pub(crate) mod tests;

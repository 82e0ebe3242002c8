//! Files of tombstones: which rows of a segment are dead, and which seqs a commit kills. Spec §13.
//!
//! A file is a header and then envelopes, each at a multiple of 64 bytes. Whoever names an envelope repeats its offset, length and
//! checksum, so a stale or swapped one is noticed.

use super::checksum::crc32;
use super::bitmap::{decode_bitmap, decode_treemap};
use super::error::FormatError;
use super::sabotage::skips_checksum;
use super::segment::check_crc;
use super::varint::{Reader, write_varint};
use crate::ids::Uuid;
use roaring::{RoaringBitmap, RoaringTreemap};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of a file of tombstones.
pub const TOMBSTONES_MAGIC: [u8; 8] = *b"\x89TRItmb\n";
/// The major version of the format of these files.
pub const TOMBSTONES_MAJOR: u16 = 1;
/// First bytes of an envelope: "TENV".
pub const ENVELOPE_MAGIC: u32 = u32::from_le_bytes(*b"TENV");
/// Envelopes start at multiples of this; the first one right after the header.
pub const ENVELOPE_ALIGN: u64 = 64;
/// Bytes of an envelope before its body.
pub const ENVELOPE_BYTES: u64 = size_of::<TombstonesEnvelope>() as u64;

/// Spec §13.1: the header of a file of tombstones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TombstonesHeader {
    /// [`TOMBSTONES_MAGIC`].
    pub magic: [u8; 8],
    /// Incompatible changes raise it.
    pub major: U16,
    /// Compatible additions raise it.
    pub minor: U16,
    /// CRC of the header with this field zero.
    pub crc: U32,
    /// The database it was written for.
    pub database: [u8; 16],
    /// The number in its name.
    pub number: U64,
    /// Zero.
    pub reserved: [u8; 24],
}
const _: () = assert!(size_of::<TombstonesHeader>() == 64);

/// Spec §13.2: what stands before a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TombstonesEnvelope {
    /// [`ENVELOPE_MAGIC`].
    pub magic: U32,
    /// An [`EnvelopeKind`].
    pub kind: U32,
    /// Bytes of the body, which follows.
    pub body_length: U64,
    /// How many rows or seqs the body names.
    pub items: U64,
    /// CRC of the body.
    pub body_crc: U32,
    /// CRC of the envelope without this field. Whoever names the envelope repeats it.
    pub crc: U32,
}
const _: () = assert!(size_of::<TombstonesEnvelope>() == 32);

/// Spec §13.3: how the body of tombstones begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TombstonesBody {
    /// Bytes of the bitmap, which follows.
    pub bitmap_length: U32,
    /// How many terms have a dead document frequency; they follow the bitmap.
    pub terms: U32,
}
const _: () = assert!(size_of::<TombstonesBody>() == 8);

/// What an envelope holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum EnvelopeKind {
    /// The dead rows of one segment and the dead document frequencies of its terms.
    Tombstones = 1,
    /// The seqs that one commit kills.
    DyingSeqs = 2,
}

impl TombstonesHeader {
    /// A header for the file `number`.
    pub fn new(database: Uuid, number: u64) -> TombstonesHeader {
        let mut header = TombstonesHeader {
            magic: TOMBSTONES_MAGIC,
            major: U16::new(TOMBSTONES_MAJOR),
            minor: U16::new(0),
            crc: U32::new(0),
            database: database.0,
            number: U64::new(number),
            reserved: [0; 24],
        };
        header.crc = U32::new(crc32(header.as_bytes()));
        header
    }

    /// Checks and reads a header, the 64 bytes given, of the file `number` of `database`.
    pub fn decode(bytes: &[u8], database: Uuid, number: u64) -> Result<TombstonesHeader, FormatError> {
        let header = TombstonesHeader::read_from_bytes(bytes).map_err(|_| FormatError::new(0, "a header of tombstones has 64 bytes"))?;
        if header.magic != TOMBSTONES_MAGIC {
            return Err(FormatError::new(0, "not a file of tombstones: its magic is missing"));
        }
        // The checksum keeps its place in every version, so that a flipped bit of the version is damage and not a newer file.
        let zeroed = TombstonesHeader { crc: U32::new(0), ..header };
        check_crc("header of the tombstones", 12, header.crc.get(), crc32(zeroed.as_bytes()))?;
        if header.major.get() > TOMBSTONES_MAJOR {
            return Err(FormatError::newer(8, format!("tombstone format {} is newer than {TOMBSTONES_MAJOR}", header.major)));
        }
        if header.major.get() == 0 {
            return Err(FormatError::new(8, "there is no format of major version 0"));
        }
        if header.database != database.0 {
            return Err(FormatError::new(16, format!("the database is {}, expected {database}", Uuid(header.database))));
        }
        if header.number.get() != number {
            return Err(FormatError::new(
                32,
                format!("the number is {}, expected {number}: another file stands in its place", header.number),
            ));
        }
        Ok(header)
    }
}

impl TombstonesEnvelope {
    /// The envelope of a body.
    pub fn new(kind: EnvelopeKind, items: u64, body: &[u8]) -> TombstonesEnvelope {
        let mut envelope = TombstonesEnvelope {
            magic: U32::new(ENVELOPE_MAGIC),
            kind: U32::new(kind as u32),
            body_length: U64::new(body.len() as u64),
            items: U64::new(items),
            body_crc: U32::new(crc32(body)),
            crc: U32::new(0),
        };
        envelope.crc = U32::new(crc32(&envelope.as_bytes()[..28]));
        envelope
    }

    /// Checks an envelope with its body against what names it, and answers how many things the body names and the body.
    pub fn decode(bytes: &[u8], kind: EnvelopeKind, crc: u32) -> Result<(u64, &[u8]), FormatError> {
        let (envelope, body) =
            TombstonesEnvelope::read_from_prefix(bytes).map_err(|_| FormatError::new(0, "an envelope has at least 32 bytes"))?;
        if envelope.magic.get() != ENVELOPE_MAGIC {
            return Err(FormatError::new(0, "no envelope starts here: its magic is missing"));
        }
        check_crc("envelope", 28, envelope.crc.get(), crc32(&bytes[..28]))?;
        if envelope.crc.get() != crc && !skips_checksum("envelope in the manifest") {
            let what = format!("the checksum is {:#010x}, expected {crc:#010x}: another envelope stands in its place", envelope.crc);
            return Err(FormatError::new(28, what));
        }
        if envelope.kind.get() != kind as u32 {
            return Err(FormatError::new(4, format!("the envelope is of kind {}, expected {kind:?}", envelope.kind)));
        }
        if envelope.body_length.get() != body.len() as u64 {
            return Err(FormatError::new(8, format!("the body has {} bytes, expected {}", envelope.body_length, body.len())));
        }
        check_crc("body", 24, envelope.body_crc.get(), crc32(body))?;
        Ok((envelope.items.get(), body))
    }
}

/// Encodes the body of tombstones: the dead rows, and of each term (by ascending ordinal) how many dead rows hold it, at least 1.
pub fn encode_tombstones(dead: &RoaringBitmap, dead_df: &[(u32, u32)]) -> Vec<u8> {
    debug_assert!(dead_df.is_sorted_by(|a, b| a.0 < b.0), "ordinals ascend");
    let head = TombstonesBody {
        bitmap_length: U32::new(u32::try_from(dead.serialized_size()).expect("the bitmap of 2^32 rows has half a GiB")),
        terms: U32::new(u32::try_from(dead_df.len()).expect("a term's ordinal has 32 bits")),
    };
    let mut out = head.as_bytes().to_vec();
    dead.serialize_into(&mut out).expect("memory takes every byte");
    let mut next = 0;
    for (ordinal, count) in dead_df {
        write_varint(&mut out, u64::from(ordinal - next));
        write_varint(&mut out, u64::from(*count));
        next = ordinal.saturating_add(1);
    }
    out
}

/// Reads the body of the tombstones of a segment of `rows` rows; `items` is what the envelope says of it.
pub fn decode_tombstones(bytes: &[u8], items: u64, rows: u32) -> Result<(RoaringBitmap, Vec<(u32, u32)>), FormatError> {
    let (head, rest) =
        TombstonesBody::read_from_prefix(bytes).map_err(|_| FormatError::new(0, "a body of tombstones has 8 bytes or more"))?;
    let (bitmap, rest) = rest.split_at_checked(head.bitmap_length.get() as usize).ok_or_else(|| {
        FormatError::new(0, format!("a bitmap of {} bytes does not fit into a body of {}", head.bitmap_length, bytes.len()))
    })?;
    let (dead, after) = decode_bitmap(bitmap).map_err(|e| e.shifted(8))?;
    if !after.is_empty() {
        return Err(FormatError::new(8, format!("{} bytes are left after the bitmap", after.len())));
    }
    if dead.len() != items || dead.max().is_some_and(|row| row >= rows) {
        let what = format!("{} dead rows up to {:?}, expected {items} of a segment of {rows}", dead.len(), dead.max());
        return Err(FormatError::new(8, what));
    }
    let mut reader = Reader::new(rest);
    let dead_df = decode_dead_df(&mut reader, head.terms.get(), dead.len()).map_err(|e| e.shifted((bytes.len() - rest.len()) as u64))?;
    Ok((dead, dead_df))
}

/// Reads the dead document frequencies of `terms` terms in `dead` dead rows: all that is left.
fn decode_dead_df(reader: &mut Reader<'_>, terms: u32, dead: u64) -> Result<Vec<(u32, u32)>, FormatError> {
    // A term takes at least two bytes, so a number of terms too great ends with the bytes and allocates no more than they do.
    let mut dead_df = Vec::with_capacity((terms as usize).min(reader.remaining() / 2));
    let mut next = 0u64;
    for _ in 0..terms {
        let at = reader.position();
        let gap = reader.varint("the ordinal of a term")?;
        let ordinal = next.checked_add(gap).and_then(|o| u32::try_from(o).ok());
        let ordinal = ordinal.ok_or_else(|| FormatError::new(at, format!("the term {gap} after term {next} is out of range")))?;
        let count = reader.varint("a dead document frequency")?;
        let fits = u32::try_from(count).ok().filter(|c| *c > 0 && count <= dead);
        let count = fits.ok_or_else(|| FormatError::new(at, format!("term {ordinal} is in {count} dead rows of {dead}")))?;
        dead_df.push((ordinal, count));
        next = u64::from(ordinal) + 1;
    }
    reader.finish("the body of tombstones")?;
    Ok(dead_df)
}

/// Encodes a set of seqs. Empty parts, which the library may keep, are left out.
pub fn encode_seqs(seqs: &RoaringTreemap) -> Vec<u8> {
    let parts = || seqs.bitmaps().filter(|(_, bitmap)| !bitmap.is_empty());
    let mut out = (parts().count() as u64).to_le_bytes().to_vec();
    for (high, bitmap) in parts() {
        out.extend_from_slice(&high.to_le_bytes());
        bitmap.serialize_into(&mut out).expect("memory takes every byte");
    }
    out
}

/// Reads a set of `items` seqs.
pub fn decode_seqs(bytes: &[u8], items: u64) -> Result<RoaringTreemap, FormatError> {
    let seqs = decode_treemap(bytes)?;
    if seqs.len() != items || seqs.bitmaps().any(|(_, part)| part.is_empty()) {
        return Err(FormatError::new(0, format!("{} seqs in {} parts, expected {items}, and some in each", seqs.len(), seqs.bitmaps().count())));
    }
    Ok(seqs)
}

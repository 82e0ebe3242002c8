//! The segment container: header, section table, footer. Spec §9.
//!
//! A segment is a relocatable run of bytes inside a `s-` file: every offset counts from its own start. What its sections hold is the
//! business of the other files of this module.

use super::checksum::crc32;
use super::error::FormatError;
use super::sabotage::skips_checksum;
use crate::ids::Uuid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of a segment.
pub const SEGMENT_MAGIC: [u8; 8] = *b"\x89TRIseg\n";
/// First bytes of a segment's footer.
pub const FOOTER_MAGIC: [u8; 8] = *b"\nTRIend\x89";
/// The major version of the segment format.
pub const SEGMENT_MAJOR: u16 = 1;
/// Bytes that one checksum covers.
pub const BLOCK_BYTES: usize = 4096;
/// Sections of at least this many bytes start at a multiple of 4,096; smaller ones at a multiple of 64.
pub const SECTION_PAGE_THRESHOLD: u64 = 64 << 10;
/// The most sections a segment may have.
pub const SECTIONS_MAX: usize = 256;

/// Spec §9.1: the segment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SegmentHeader {
    /// [`SEGMENT_MAGIC`].
    pub magic: [u8; 8],
    /// Incompatible changes raise it.
    pub major: U16,
    /// Compatible additions raise it.
    pub minor: U16,
    /// CRC of the header with this field zero.
    pub crc: U32,
    /// The database it was written for.
    pub database: [u8; 16],
    /// Number of the file it was first written to.
    pub origin_file: U64,
    /// Its index in that file.
    pub origin_index: U32,
    /// Zero.
    pub reserved: [u8; 20],
}
const _: () = assert!(size_of::<SegmentHeader>() == 64);

/// Spec §9.2: one entry of the section table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SectionEntry {
    /// A [`SectionKind`].
    pub kind: U16,
    /// [`SECTION_CRITICAL`], [`SECTION_DERIVED`].
    pub flags: U16,
    /// CRC of the section's array of block checksums.
    pub crcs_crc: U32,
    /// Where it starts.
    pub offset: U64,
    /// Its bytes, without padding.
    pub length: U64,
    /// How many things it holds; the section says of what.
    pub items: U64,
    /// A second number whose meaning the section gives.
    pub aux: U64,
    /// Where its array of block checksums starts: one `u32` per 4,096 bytes.
    pub crcs_offset: U64,
    /// Zero.
    pub reserved: [u8; 16],
}
const _: () = assert!(size_of::<SectionEntry>() == 64);

/// A reader that does not know this kind of section refuses the segment.
pub const SECTION_CRITICAL: u16 = 1;
/// The section can be rebuilt from the primary ones without loss.
pub const SECTION_DERIVED: u16 = 2;

/// Spec §9.3: the footer, the last 64 bytes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SegmentFooter {
    /// [`FOOTER_MAGIC`].
    pub magic: [u8; 8],
    /// Bytes of the whole segment, footer included.
    pub length: U64,
    /// Where the section table starts.
    pub table_offset: U64,
    /// Where its copy starts.
    pub table_copy_offset: U64,
    /// How many entries the table has.
    pub sections: U32,
    /// CRC of the table.
    pub table_crc: U32,
    /// CRC of the header.
    pub header_crc: U32,
    /// Zero.
    pub reserved: [u8; 16],
    /// CRC of the footer without this field. The manifest repeats it.
    pub crc: U32,
}
const _: () = assert!(size_of::<SegmentFooter>() == 64);

macro_rules! section_kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $flags:expr;)+) => {
        /// What a section holds. Spec §9.4 lists all, the reserved ones too.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum SectionKind { $($(#[$doc])* $name = $number),+ }

        impl SectionKind {
            /// Every kind, in the order of the specification.
            pub const ALL: &[SectionKind] = &[$(SectionKind::$name),+];

            /// The flags that a section of this kind is written with.
            pub fn flags(self) -> u16 {
                match self { $(SectionKind::$name => $flags),+ }
            }

            /// The kind of this number, if this version knows it.
            pub fn from_number(number: u16) -> Option<SectionKind> {
                match number { $($number => Some(SectionKind::$name),)+ _ => None }
            }

            /// Whether this version neither writes it nor reads it.
            pub fn is_reserved(self) -> bool {
                matches!(self, SectionKind::EntityVectors | SectionKind::Positions)
            }

            /// Its name in the specification.
            pub fn name(self) -> &'static str {
                match self { $(SectionKind::$name => stringify!($name)),+ }
            }
        }
    };
}

section_kinds! {
    /// Document bodies in LZ4 blocks.
    Docs = 1, SECTION_CRITICAL;
    /// Where each block of `Docs` starts, and with which row.
    DocIndex = 2, SECTION_CRITICAL;
    /// The id of every row.
    Ids = 3, SECTION_CRITICAL;
    /// The seq of every row, relative to the segment's base.
    Seqs = 4, SECTION_CRITICAL;
    /// The vectors, as given.
    Vectors = 5, SECTION_CRITICAL;
    /// Which rows have a vector, when not all have.
    VectorRows = 6, SECTION_CRITICAL;
    /// The sources, and the source of every row.
    Sources = 7, SECTION_CRITICAL;
    /// A vector per entity.
    EntityVectors = 10, SECTION_CRITICAL;
    /// From an id to its row.
    IdMap = 32, SECTION_DERIVED;
    /// The inverse norm of every vector.
    VectorNorms = 33, SECTION_DERIVED;
    /// Term dictionary: from a term to its ordinal.
    Terms = 34, SECTION_DERIVED;
    /// Where each term's postings are, and how many.
    TermInfos = 35, SECTION_DERIVED;
    /// Posting lists in blocks.
    Postings = 36, SECTION_DERIVED;
    /// The token count of every row.
    Lengths = 37, SECTION_DERIVED;
    /// Links of the vector graph.
    VectorGraph = 38, SECTION_DERIVED;
    /// Quantised vectors.
    VectorCodes = 39, SECTION_DERIVED;
    /// Entity dictionary: from a key to its ordinal.
    Entities = 40, SECTION_DERIVED;
    /// From an entity to the documents that mention it.
    EntityDocs = 41, SECTION_DERIVED;
    /// From an entity to the relations that lead to it.
    RelationsByTarget = 42, SECTION_DERIVED;
    /// Metadata index: dictionary of keys and values.
    MetadataTerms = 43, SECTION_DERIVED;
    /// Metadata index: the rows of each.
    MetadataRows = 44, SECTION_DERIVED;
    /// Counts over the whole segment.
    Statistics = 45, SECTION_DERIVED;
    /// Token positions.
    Positions = 46, SECTION_DERIVED;
    /// The spellings of every entity.
    EntityNames = 47, SECTION_DERIVED;
    /// From a document to the entities that it mentions.
    Mentions = 48, SECTION_DERIVED;
    /// From an entity to the relations that start at it.
    RelationsBySource = 49, SECTION_DERIVED;
}

impl SegmentHeader {
    /// A header for the segment `index` of file `file`.
    pub fn new(database: Uuid, file: u64, index: u32) -> SegmentHeader {
        let mut header = SegmentHeader {
            magic: SEGMENT_MAGIC,
            major: U16::new(SEGMENT_MAJOR),
            minor: U16::new(0),
            crc: U32::new(0),
            database: database.0,
            origin_file: U64::new(file),
            origin_index: U32::new(index),
            reserved: [0; 20],
        };
        header.crc = U32::new(crc32(header.as_bytes()));
        header
    }

    /// Checks and reads a header from the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, FormatError> {
        let (header, _) = SegmentHeader::read_from_prefix(bytes).map_err(|_| FormatError::new(0, "a segment header has 64 bytes"))?;
        if header.magic != SEGMENT_MAGIC {
            return Err(FormatError::new(0, "no segment starts here: its magic is missing"));
        }
        // The checksum keeps its place in every version, so that a flipped bit of the version is damage and not a newer file.
        let zeroed = SegmentHeader { crc: U32::new(0), ..header };
        check_crc("segment header", 12, header.crc.get(), crc32(zeroed.as_bytes()))?;
        if header.major.get() > SEGMENT_MAJOR {
            return Err(FormatError::newer(8, format!("segment format {} is newer than {SEGMENT_MAJOR}", header.major)));
        }
        if header.major.get() == 0 {
            return Err(FormatError::new(8, "there is no format of major version 0"));
        }
        Ok(header)
    }
}

impl SegmentFooter {
    /// Fills in the checksum.
    pub fn sealed(mut self) -> SegmentFooter {
        self.crc = U32::new(crc32(&self.as_bytes()[..60]));
        self
    }

    /// Checks and reads a footer, the 64 bytes given.
    pub fn decode(bytes: &[u8]) -> Result<SegmentFooter, FormatError> {
        let footer = SegmentFooter::read_from_bytes(bytes).map_err(|_| FormatError::new(0, "a segment footer has 64 bytes"))?;
        if footer.magic != FOOTER_MAGIC {
            return Err(FormatError::new(0, "no segment ends here: its footer's magic is missing"));
        }
        check_crc("segment footer", 60, footer.crc.get(), crc32(&bytes[..60]))?;
        Ok(footer)
    }
}

/// Encodes a section table.
pub fn encode_table(entries: &[SectionEntry]) -> Vec<u8> {
    entries.as_bytes().to_vec()
}

/// Checks a section table against its checksum and the bounds of a segment of `segment_length` bytes.
pub fn decode_table(bytes: &[u8], crc: u32, segment_length: u64) -> Result<Vec<SectionEntry>, FormatError> {
    check_crc("section table", 0, crc, crc32(bytes))?;
    let entries = <[SectionEntry]>::ref_from_bytes(bytes)
        .map_err(|_| FormatError::new(0, format!("a section table has a multiple of 64 bytes, not {}", bytes.len())))?;
    let inside = |offset: u64, length: u64| offset.checked_add(length).is_some_and(|end| end <= segment_length);
    for (i, e) in entries.iter().enumerate() {
        let blocks = e.length.get().div_ceil(BLOCK_BYTES as u64);
        if !inside(e.offset.get(), e.length.get()) || !inside(e.crcs_offset.get(), blocks.saturating_mul(4)) {
            return Err(FormatError::new(i * 64, format!("section {} lies outside its segment of {segment_length} bytes", e.kind)));
        }
        check_kind(e).map_err(|error| error.shifted(i as u64 * 64))?;
        if entries[..i].iter().any(|before| before.kind == e.kind) {
            return Err(FormatError::new(i * 64, format!("section kind {} stands in the table twice", e.kind)));
        }
    }
    Ok(entries.to_vec())
}

/// Checks the flags of a section against its kind. A kind that is reserved is none that this version knows.
fn check_kind(e: &SectionEntry) -> Result<(), FormatError> {
    let flags = e.flags.get();
    match SectionKind::from_number(e.kind.get()).filter(|kind| !kind.is_reserved()) {
        Some(kind) if flags != kind.flags() => {
            Err(FormatError::new(2, format!("a section {} has the flags {:#x}, not {flags:#x}", kind.name(), kind.flags())))
        }
        None if flags & SECTION_CRITICAL != 0 => {
            Err(FormatError::newer(0, format!("section kind {} is critical and unknown to this version", e.kind)))
        }
        _ => Ok(()),
    }
}

/// Compares a stored checksum with the one computed.
pub(super) fn check_crc(what: &str, offset: usize, stored: u32, computed: u32) -> Result<(), FormatError> {
    if stored == computed || skips_checksum(what) {
        return Ok(());
    }
    Err(FormatError::new(offset, format!("checksum of the {what} is {stored:#010x}, its bytes give {computed:#010x}")))
}

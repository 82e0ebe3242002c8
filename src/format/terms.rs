//! What stands beside a term dictionary: where each term's postings are, terms too long for it, token counts, totals. Spec §11.
//!
//! The dictionary itself is an fst, whose bytes are the business of `transducer.rs` and of `text/dictionary.rs`.

use super::error::FormatError;
use super::postings::{Posting, list_bytes_min};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Terms of more bytes stand behind the fst in a sorted table, because an fst's builder takes about 100 bytes of memory for each byte of
/// a key, and a token can be as long as a text.
pub const FST_TERM_BYTES_MAX: usize = 1024;

/// The longest name of an analyzer, in bytes.
pub const ANALYZER_NAME_BYTES_MAX: usize = 32;

/// Spec §11.2: where the postings of one term are. One entry a term, in the order of the terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TermInfoEntry {
    /// Where the posting list starts in `Postings`. For a term of one document: its row in the low half, the frequency in the high half.
    pub location: U64,
    /// How many rows hold the term, dead ones included; at least 1.
    pub document_frequency: U32,
    /// Bytes of the posting list; 0 for a term of one document.
    pub length: U32,
}
const _: () = assert!(size_of::<TermInfoEntry>() == 16);

/// Where a term's postings are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostingsPlace {
    /// The only posting, kept in the entry itself.
    Inline(Posting),
    /// A list in the `Postings` section.
    List {
        /// Where it starts.
        offset: u64,
        /// Its bytes.
        length: u32,
    },
}

/// One term of a segment, as its entry says, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermInfo {
    /// The term's rank among the segment's terms.
    pub ordinal: u32,
    /// How many rows hold the term, dead ones included; at least 1.
    pub document_frequency: u32,
    /// Where its postings are.
    pub place: PostingsPlace,
}

impl TermInfoEntry {
    /// The entry of a term of one document.
    pub fn inline(posting: Posting) -> TermInfoEntry {
        TermInfoEntry {
            location: U64::new(u64::from(posting.row) | u64::from(posting.frequency) << 32),
            document_frequency: U32::new(1),
            length: U32::new(0),
        }
    }

    /// The entry of a term whose list was written.
    pub fn list(offset: u64, length: u32, document_frequency: u32) -> TermInfoEntry {
        TermInfoEntry { location: U64::new(offset), document_frequency: U32::new(document_frequency), length: U32::new(length) }
    }

    /// Reads the entry of the term `ordinal` from its 16 bytes, and checks it against the rows and the bytes of postings there are.
    pub fn decode(bytes: &[u8], ordinal: u32, rows: u32, postings_bytes: u64) -> Result<TermInfo, FormatError> {
        let entry = TermInfoEntry::read_from_bytes(bytes).map_err(|_| FormatError::new(0, "a term's entry has 16 bytes"))?;
        let (location, frequency, length) = (entry.location.get(), entry.document_frequency.get(), entry.length.get());
        let place = if frequency == 1 {
            let posting = Posting { row: location as u32, frequency: (location >> 32) as u32 };
            if posting.row >= rows || posting.frequency == 0 || length != 0 {
                return Err(FormatError::new(0, format!("term {ordinal} is {posting:?} with {length} bytes, in a segment of {rows} rows")));
            }
            PostingsPlace::Inline(posting)
        } else {
            let inside = location.checked_add(u64::from(length)).is_some_and(|end| end <= postings_bytes);
            if frequency == 0 || frequency > rows || !inside || u64::from(length) < list_bytes_min(frequency) {
                let what = format!(
                    "term {ordinal} has {frequency} postings in {length} bytes at {location}, in a segment of {rows} rows and {postings_bytes} bytes of postings"
                );
                return Err(FormatError::new(0, what));
            }
            PostingsPlace::List { offset: location, length }
        };
        Ok(TermInfo { ordinal, document_frequency: frequency, place })
    }
}

/// Spec §11.1: a term of more than [`FST_TERM_BYTES_MAX`] bytes. Entries are in the order of the terms, behind the fst; the bytes of all
/// follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LongTermEntry {
    /// Where its bytes start, counted from the end of the last entry.
    pub offset: U64,
    /// How many bytes it has.
    pub length: U32,
    /// Its rank among all terms of the segment.
    pub ordinal: U32,
}
const _: () = assert!(size_of::<LongTermEntry>() == 16);

/// Spec §11.5: totals of a segment's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TextStatistics {
    /// Rows, dead ones and those without a token included.
    pub documents: U64,
    /// Tokens of all rows.
    pub tokens: U64,
    /// Distinct terms.
    pub terms: U64,
    /// Postings of all terms.
    pub postings: U64,
    /// The analyzer's fingerprint in ASCII, then zeros.
    pub analyzer: [u8; ANALYZER_NAME_BYTES_MAX],
}
const _: () = assert!(size_of::<TextStatistics>() == 64);

impl TextStatistics {
    /// Checks and reads the totals.
    pub fn decode(bytes: &[u8]) -> Result<TextStatistics, FormatError> {
        let totals = TextStatistics::read_from_bytes(bytes)
            .map_err(|_| FormatError::new(0, format!("the totals of a segment's text have 64 bytes, not {}", bytes.len())))?;
        let over = |n: U64, most: u64| n.get() > most;
        if over(totals.documents, 1 << 31) || over(totals.terms, u64::from(u32::MAX)) {
            return Err(FormatError::new(0, format!("{} rows and {} terms exceed the limits", totals.documents, totals.terms)));
        }
        if over(totals.postings, totals.tokens.get()) || over(totals.terms, totals.postings.get()) {
            let what = format!("{} terms, {} postings and {} tokens contradict", totals.terms, totals.postings, totals.tokens);
            return Err(FormatError::new(8, what));
        }
        if totals.analyzer_name().is_none() {
            return Err(FormatError::new(32, "the name of the analyzer is not ASCII behind which only zeros stand"));
        }
        Ok(totals)
    }

    /// The field for this fingerprint; `None` when it is not ASCII, or too long.
    pub fn analyzer_field(fingerprint: &str) -> Option<[u8; ANALYZER_NAME_BYTES_MAX]> {
        let mut field = [0; ANALYZER_NAME_BYTES_MAX];
        field.get_mut(..fingerprint.len())?.copy_from_slice(fingerprint.as_bytes());
        fingerprint.bytes().all(|b| b.is_ascii_graphic()).then_some(field)
    }

    /// The analyzer's fingerprint.
    pub fn analyzer_name(&self) -> Option<&str> {
        let end = self.analyzer.iter().position(|&b| b == 0).unwrap_or(ANALYZER_NAME_BYTES_MAX);
        let (name, rest) = self.analyzer.split_at(end);
        let good = !name.is_empty() && name.iter().all(u8::is_ascii_graphic) && rest.iter().all(|&b| b == 0);
        std::str::from_utf8(name).ok().filter(|_| good)
    }
}

/// How wide the numbers of a `Lengths` section are, in bytes. The section's `aux` holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthWidth {
    /// Every length is below 65,536.
    Two,
    /// Some length is not.
    Four,
}

impl LengthWidth {
    /// The width of this many bytes.
    pub fn from_bytes(bytes: u64) -> Option<LengthWidth> {
        match bytes {
            2 => Some(LengthWidth::Two),
            4 => Some(LengthWidth::Four),
            _ => None,
        }
    }

    /// In bytes.
    pub fn bytes(self) -> u64 {
        match self {
            LengthWidth::Two => 2,
            LengthWidth::Four => 4,
        }
    }

    /// The number at the start of `bytes`, which must be at least that wide.
    #[inline]
    pub fn get(self, bytes: &[u8]) -> u32 {
        match self {
            LengthWidth::Two => u32::from(u16::from_le_bytes([bytes[0], bytes[1]])),
            LengthWidth::Four => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        }
    }
}

/// Encodes the token counts of all rows, as narrow as they allow.
pub fn encode_lengths(lengths: &[u32]) -> (LengthWidth, Vec<u8>) {
    if lengths.iter().all(|&l| l <= u32::from(u16::MAX)) {
        (LengthWidth::Two, lengths.iter().flat_map(|&l| (l as u16).to_le_bytes()).collect())
    } else {
        (LengthWidth::Four, lengths.iter().flat_map(|l| l.to_le_bytes()).collect())
    }
}

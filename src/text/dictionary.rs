//! From a term to its ordinal: an fst, and behind it a sorted table of the terms too long for one. Spec §11.1.

use crate::error::{Error, Result};
use crate::format::terms::{FST_TERM_BYTES_MAX, LongTermEntry};
use crate::format::transducer::{Transducer, TransducerStream};
use crate::segment::{Section, TouchedBytes};
use fst::MapBuilder;
use std::borrow::Cow;
use std::fmt;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of the entry of a long term.
const LONG_TERM_BYTES: u64 = size_of::<LongTermEntry>() as u64;

/// Gathers ascending terms and numbers them.
pub(super) struct DictionaryBuilder {
    fst: MapBuilder<Vec<u8>>,
    long: Vec<LongTermEntry>,
    long_bytes: Vec<u8>,
    terms: u32,
}

impl fmt::Debug for DictionaryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DictionaryBuilder({} terms)", self.terms)
    }
}

/// An error of the fst's builder, which writes to memory and is given ascending keys.
fn unexpected(e: fst::Error) -> Error {
    Error::InvalidArgument(format!("the term dictionary refused a term: {e}"))
}

impl DictionaryBuilder {
    pub(super) fn new() -> Result<DictionaryBuilder> {
        let fst = MapBuilder::new(Vec::new()).map_err(unexpected)?;
        Ok(DictionaryBuilder { fst, long: Vec::new(), long_bytes: Vec::new(), terms: 0 })
    }

    /// Adds the next term in ascending order.
    pub(super) fn insert(&mut self, term: &[u8]) -> Result<()> {
        let ordinal = self.terms;
        self.terms = ordinal.checked_add(1).ok_or_else(|| Error::LimitExceeded("a segment has at most 2^32 - 1 terms".into()))?;
        if term.len() <= FST_TERM_BYTES_MAX {
            return self.fst.insert(term, u64::from(ordinal)).map_err(unexpected);
        }
        let length = u32::try_from(term.len()).map_err(|_| Error::LimitExceeded("a term has at most 4 GiB".into()))?;
        let offset = U64::new(self.long_bytes.len() as u64);
        self.long.push(LongTermEntry { offset, length: U32::new(length), ordinal: U32::new(ordinal) });
        self.long_bytes.extend_from_slice(term);
        Ok(())
    }

    /// The bytes of the fst, and those of the whole section.
    pub(super) fn finish(self) -> Result<(u64, Vec<u8>)> {
        let mut bytes = self.fst.into_inner().map_err(unexpected)?;
        let fst_bytes = bytes.len() as u64;
        bytes.extend_from_slice(self.long.as_bytes());
        bytes.extend_from_slice(&self.long_bytes);
        Ok((fst_bytes, bytes))
    }
}

/// An open dictionary.
pub(super) struct Dictionary {
    section: Section,
    fst: Transducer<TouchedBytes>,
    /// The terms behind the fst, whose entries fit into the section.
    long_terms: u32,
    terms: u32,
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({} terms, {} of them long)", self.terms, self.long_terms)
    }
}

impl Dictionary {
    /// Opens a `Terms` section of `terms` terms. O(1); in `Pread` mode O(its bytes).
    pub(super) fn open(section: &Section, terms: u32) -> Result<Dictionary> {
        let (fst_bytes, all) = (section.aux(), section.len());
        let fst = Transducer::open(section.touched(fst_bytes)?)?;
        let long_terms = u64::from(terms)
            .checked_sub(fst.len())
            .ok_or_else(|| section.corrupt(0, format!("{} terms in the fst, {terms} in the segment", fst.len())))?;
        if long_terms.saturating_mul(LONG_TERM_BYTES) > all - fst_bytes {
            return Err(section.corrupt(fst_bytes, format!("{long_terms} long terms do not fit {} bytes", all - fst_bytes)));
        }
        Ok(Dictionary { section: section.clone(), fst, long_terms: long_terms as u32, terms })
    }

    /// The ordinal of `term`, which is below the number of terms.
    pub(super) fn get(&self, term: &[u8]) -> Result<Option<u32>> {
        if term.len() > FST_TERM_BYTES_MAX {
            return self.get_long(term);
        }
        self.fst.get(term)?.map(|ordinal| self.check_ordinal(ordinal)).transpose()
    }

    fn check_ordinal(&self, ordinal: u64) -> Result<u32> {
        u32::try_from(ordinal)
            .ok()
            .filter(|&o| o < self.terms)
            .ok_or_else(|| self.section.corrupt(0, format!("a term has the ordinal {ordinal}, the segment {} terms", self.terms)))
    }

    fn get_long(&self, term: &[u8]) -> Result<Option<u32>> {
        let (mut low, mut high) = (0, self.long_terms);
        while low < high {
            let middle = low + (high - low) / 2;
            let (found, ordinal) = self.long_term(middle)?;
            match (*found).cmp(term) {
                std::cmp::Ordering::Equal => return Ok(Some(ordinal)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    /// The long term `index`, which is below the number of long terms, and its ordinal.
    fn long_term(&self, index: u32) -> Result<(Cow<'_, [u8]>, u32)> {
        let section = &self.section;
        let at = section.aux() + u64::from(index) * LONG_TERM_BYTES;
        let entry = section.read(at..at + LONG_TERM_BYTES)?;
        let entry = LongTermEntry::read_from_bytes(&entry).expect("it has as many bytes");
        let start = section.aux() + u64::from(self.long_terms) * LONG_TERM_BYTES;
        let range = start.checked_add(entry.offset.get()).and_then(|from| Some(from..from.checked_add(u64::from(entry.length.get()))?));
        let range = range.filter(|range| range.end <= section.len());
        let range = range.ok_or_else(|| section.corrupt(at, format!("long term {index} lies outside the section")))?;
        Ok((section.read(range)?, self.check_ordinal(u64::from(entry.ordinal.get()))?))
    }

    /// All terms, ascending. Who walks all of it pays for the checksum of the fst, too.
    pub(super) fn stream(&self) -> Result<DictionaryStream<'_>> {
        self.fst.verify()?;
        let fst = self.fst.stream();
        Ok(DictionaryStream { dictionary: self, fst, long: 0, ordinal: 0, term: Vec::new(), previous: Vec::new() })
    }
}

/// The terms of a dictionary in ascending order, which is that of their ordinals.
pub(super) struct DictionaryStream<'a> {
    dictionary: &'a Dictionary,
    fst: TransducerStream<'a, TouchedBytes>,
    /// The next long term.
    long: u32,
    /// The next ordinal.
    ordinal: u32,
    term: Vec<u8>,
    previous: Vec<u8>,
}

impl DictionaryStream<'_> {
    /// The next term and its ordinal: each ordinal once, or `Corrupt`.
    pub(super) fn next(&mut self) -> Result<Option<(&[u8], u32)>> {
        let ordinal = self.ordinal;
        if ordinal == self.dictionary.terms {
            return Ok(None);
        }
        std::mem::swap(&mut self.term, &mut self.previous);
        self.term.clear();
        let long = if self.long < self.dictionary.long_terms { Some(self.dictionary.long_term(self.long)?) } else { None };
        let found = match long {
            Some((term, found)) if found == ordinal => {
                self.term.extend_from_slice(&term);
                self.long += 1;
                true
            }
            _ => match self.fst.next()? {
                Some((term, found)) if found == u64::from(ordinal) => {
                    self.term.extend_from_slice(term);
                    true
                }
                _ => false,
            },
        };
        if !found || (ordinal > 0 && self.term <= self.previous) {
            return Err(self.dictionary.section.corrupt(0, format!("the term of ordinal {ordinal} is not where the order puts it")));
        }
        self.ordinal = ordinal + 1;
        Ok(Some((&self.term, ordinal)))
    }
}

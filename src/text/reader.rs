//! Reads the text sections of one segment. Spec §11.

use super::analyzer::Analyzer;
use super::dictionary::{Dictionary, DictionaryStream};
use crate::error::{Error, Result};
use crate::format::error::FormatError;
use crate::format::postings::{POSTINGS_LAYOUT, Posting, decode_list};
use crate::format::segment::SectionKind;
use crate::format::terms::{LengthWidth, PostingsPlace, TermInfo, TermInfoEntry, TextStatistics};
use crate::segment::{Section, SegmentReader};
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The kinds of section that text is kept in: a segment has all of them, or none.
const KINDS: [SectionKind; 5] =
    [SectionKind::Terms, SectionKind::TermInfos, SectionKind::Postings, SectionKind::Lengths, SectionKind::Statistics];

/// Bytes of one entry of `TermInfos`.
const ENTRY_BYTES: u64 = size_of::<TermInfoEntry>() as u64;

/// Entries that a stream of terms reads at once: a checksummed block of them.
const ENTRIES_AT_ONCE: u64 = 256;

/// The text of one segment, open for reading. Cheap to clone; `Send + Sync`. Dead rows are in it: it knows nothing of deletions.
#[derive(Debug, Clone)]
pub struct TextReader {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    terms: Section,
    term_infos: Section,
    postings: Section,
    lengths: Section,
    width: LengthWidth,
    documents: u32,
    term_count: u32,
    statistics: TextStatistics,
    dictionary: OnceLock<Dictionary>,
}

impl TextReader {
    /// Opens the text of a segment; `None` when it was written without. O(1): the dictionary is opened at its first use.
    pub fn open(segment: &SegmentReader) -> Result<Option<TextReader>> {
        if KINDS.iter().all(|&kind| segment.section(kind).is_none()) {
            return Ok(None);
        }
        let section = segment.require(SectionKind::Statistics)?;
        if section.len() != size_of::<TextStatistics>() as u64 {
            return Err(section.corrupt(0, format!("the totals have 64 bytes, not {}", section.len())));
        }
        let statistics = TextStatistics::decode(&section.read(0..section.len())?).map_err(|e| section.corrupt(e.offset, e.what))?;
        let lengths = segment.require(SectionKind::Lengths)?;
        let width = LengthWidth::from_bytes(lengths.aux())
            .ok_or_else(|| lengths.corrupt(0, format!("lengths are 2 or 4 bytes wide, not {}", lengths.aux())))?;
        let inner = Inner {
            terms: segment.require(SectionKind::Terms)?,
            term_infos: segment.require(SectionKind::TermInfos)?,
            postings: segment.require(SectionKind::Postings)?,
            lengths,
            width,
            documents: statistics.documents.get() as u32,
            term_count: statistics.terms.get() as u32,
            statistics,
            dictionary: OnceLock::new(),
        };
        if inner.postings.aux() > POSTINGS_LAYOUT {
            let what = format!("layout {} of posting lists is newer than {POSTINGS_LAYOUT}", inner.postings.aux());
            return Err(FormatError::newer(0, what).in_file(segment.file(), segment.start()));
        }
        inner.check_counts()?;
        Ok(Some(TextReader { inner: Arc::new(inner) }))
    }

    /// The analyzer's fingerprint.
    pub fn fingerprint(&self) -> &str {
        self.inner.statistics.analyzer_name().expect("checked when it was decoded")
    }

    /// Refuses an analyzer whose tokens are not those of this segment.
    pub fn check_analyzer(&self, analyzer: &Analyzer) -> Result<()> {
        if self.fingerprint() == analyzer.fingerprint() {
            return Ok(());
        }
        Err(Error::UnsupportedVersion(format!(
            "this text was indexed by the analyzer {:?}, this version has {:?}. Nothing was changed. Open it with the version of Triune that wrote it",
            self.fingerprint(),
            analyzer.fingerprint()
        )))
    }

    /// Rows of the segment, dead ones included.
    pub fn documents(&self) -> u32 {
        self.inner.documents
    }

    /// Tokens of all rows.
    pub fn tokens(&self) -> u64 {
        self.inner.statistics.tokens.get()
    }

    /// Distinct terms. Ordinals are below it.
    pub fn term_count(&self) -> u32 {
        self.inner.term_count
    }

    /// Postings of all terms.
    pub fn posting_count(&self) -> u64 {
        self.inner.statistics.postings.get()
    }

    /// Looks a term up. About a microsecond; in `Pread` mode the dictionary is read into memory the first time.
    pub fn term(&self, term: &[u8]) -> Result<Option<TermInfo>> {
        self.ordinal(term)?.map(|ordinal| self.term_by_ordinal(ordinal)).transpose()
    }

    /// The rank of a term. Reads the dictionary only: damage to the entries behind it does not matter.
    pub fn ordinal(&self, term: &[u8]) -> Result<Option<u32>> {
        if self.inner.term_count == 0 {
            return Ok(None);
        }
        self.inner.dictionary()?.get(term)
    }

    /// The term of this rank, which is below [`TextReader::term_count`]. O(1).
    pub fn term_by_ordinal(&self, ordinal: u32) -> Result<TermInfo> {
        let at = u64::from(ordinal) * ENTRY_BYTES;
        let entry = self.inner.term_infos.read(at..at + ENTRY_BYTES)?;
        self.inner.decode_entry(&entry, ordinal)
    }

    /// Appends all postings of a term to `out`, in ascending order of their rows. O(postings).
    pub fn postings(&self, term: &TermInfo, out: &mut Vec<Posting>) -> Result<()> {
        match term.place {
            PostingsPlace::Inline(posting) => {
                out.push(posting);
                Ok(())
            }
            PostingsPlace::List { offset, length } => {
                let section = &self.inner.postings;
                let list = section.read(offset..offset.saturating_add(u64::from(length)))?;
                decode_list(&list, term.document_frequency, self.inner.documents, out)
                    .map_err(|e| section.corrupt(offset + e.offset, e.what))
            }
        }
    }

    /// Calls `sink` with the ordinal and the postings of every term, in order. Never reads the dictionary: damage to it does not matter.
    /// O(postings); memory O(the longest list).
    pub fn for_each_list(&self, mut sink: impl FnMut(u32, &[Posting])) -> Result<()> {
        let (mut list, terms) = (Vec::new(), u64::from(self.inner.term_count));
        for from in (0..terms).step_by(ENTRIES_AT_ONCE as usize) {
            let end = (from + ENTRIES_AT_ONCE).min(terms);
            let entries = self.inner.term_infos.read(from * ENTRY_BYTES..end * ENTRY_BYTES)?;
            for (ordinal, entry) in (from as u32..).zip(entries.chunks_exact(ENTRY_BYTES as usize)) {
                list.clear();
                self.postings(&self.inner.decode_entry(entry, ordinal)?, &mut list)?;
                sink(ordinal, &list);
            }
        }
        Ok(())
    }

    /// The token count of a row. O(1).
    pub fn length(&self, row: u32) -> Result<u32> {
        let width = self.inner.width;
        let at = u64::from(row) * width.bytes();
        Ok(width.get(&self.inner.lengths.read(at..at + width.bytes())?))
    }

    /// The token counts of all rows; verified when it is made, O(rows) the first time.
    pub fn lengths(&self) -> Result<LengthsView<'_>> {
        Ok(LengthsView { bytes: self.inner.lengths.whole()?, width: self.inner.width })
    }

    /// All terms with their entries, in ascending order.
    pub fn terms(&self) -> Result<TermStream<'_>> {
        let stream = self.inner.dictionary()?.stream()?;
        Ok(TermStream { inner: &self.inner, stream, entries: Cow::Borrowed(&[]), entries_from: 0 })
    }
}

impl Inner {
    /// Compares the section table with the totals.
    fn check_counts(&self) -> Result<()> {
        let expect = |section: &Section, what: &str, found: u64, expected: u64| {
            if found == expected { Ok(()) } else { Err(section.corrupt(0, format!("{what} is {found}, expected {expected}"))) }
        };
        let (documents, terms) = (u64::from(self.documents), u64::from(self.term_count));
        expect(&self.lengths, "the number of lengths", self.lengths.items(), documents)?;
        expect(&self.lengths, "the size", self.lengths.len(), documents * self.width.bytes())?;
        expect(&self.terms, "the number of terms", self.terms.items(), terms)?;
        expect(&self.term_infos, "the number of entries", self.term_infos.items(), terms)?;
        expect(&self.term_infos, "the size", self.term_infos.len(), terms * ENTRY_BYTES)?;
        expect(&self.postings, "the number of postings", self.postings.items(), self.statistics.postings.get())?;
        expect(&self.postings, "the layout", self.postings.aux(), POSTINGS_LAYOUT)
    }

    fn dictionary(&self) -> Result<&Dictionary> {
        if let Some(dictionary) = self.dictionary.get() {
            return Ok(dictionary);
        }
        let dictionary = Dictionary::open(&self.terms, self.term_count)?;
        Ok(self.dictionary.get_or_init(|| dictionary))
    }

    fn decode_entry(&self, bytes: &[u8], ordinal: u32) -> Result<TermInfo> {
        TermInfoEntry::decode(bytes, ordinal, self.documents, self.postings.len())
            .map_err(|e| self.term_infos.corrupt(u64::from(ordinal) * ENTRY_BYTES + e.offset, e.what))
    }
}

/// The token counts of a segment's rows, without a check a row.
#[derive(Debug, Clone, Copy)]
pub struct LengthsView<'a> {
    bytes: &'a [u8],
    width: LengthWidth,
}

impl LengthsView<'_> {
    /// The token count of `row`. Panics when the segment has no such row.
    #[inline]
    pub fn get(&self, row: u32) -> u32 {
        self.width.get(&self.bytes[row as usize * self.width.bytes() as usize..])
    }
}

/// The terms of a segment in ascending order.
pub struct TermStream<'a> {
    inner: &'a Inner,
    stream: DictionaryStream<'a>,
    /// Entries of the terms from `entries_from` on.
    entries: Cow<'a, [u8]>,
    entries_from: u64,
}

impl fmt::Debug for TermStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TermStream(of {} terms)", self.inner.term_count)
    }
}

impl TermStream<'_> {
    /// The next term, its bytes and its entry. Every ordinal comes once, or the answer is `Corrupt`.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend its buffer")]
    pub fn next(&mut self) -> Result<Option<(&[u8], TermInfo)>> {
        let Some((term, ordinal)) = self.stream.next()? else { return Ok(None) };
        let mut at = (u64::from(ordinal) - self.entries_from) * ENTRY_BYTES;
        if at >= self.entries.len() as u64 {
            let end = (u64::from(ordinal) + ENTRIES_AT_ONCE).min(u64::from(self.inner.term_count));
            self.entries = self.inner.term_infos.read(u64::from(ordinal) * ENTRY_BYTES..end * ENTRY_BYTES)?;
            self.entries_from = u64::from(ordinal);
            at = 0;
        }
        let entry = &self.entries[at as usize..(at + ENTRY_BYTES) as usize];
        Ok(Some((term, self.inner.decode_entry(entry, ordinal)?)))
    }
}

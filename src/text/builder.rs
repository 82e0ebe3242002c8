//! Writes the text sections of one segment. Spec §11.

use super::analyzer::Analyzer;
use super::dictionary::DictionaryBuilder;
use crate::error::{Error, Result};
use crate::format::postings::{POSTINGS_LAYOUT, Posting, PostingEncoder};
use crate::format::segment::SectionKind;
use crate::format::terms::{TermInfoEntry, TextStatistics, encode_lengths};
use crate::segment::SegmentWriter;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

/// Writes the text sections of one segment, term by term. Between [`TextBuilder::begin`] and [`TextBuilder::finish`] the `Postings`
/// section is open, so that nothing else is written. Memory: the dictionary, 16 bytes a term, 4 bytes a row.
#[derive(Debug)]
pub struct TextBuilder {
    analyzer: Analyzer,
    lengths: Vec<u32>,
    dictionary: DictionaryBuilder,
    infos: Vec<u8>,
    encoder: PostingEncoder,
    list: Vec<u8>,
    last_term: Vec<u8>,
    postings: u64,
    frequencies: u64,
}

impl TextBuilder {
    /// Opens `Postings`. `lengths` holds the token count of every row of the segment, as `analyzer` counts.
    pub fn begin(out: &mut SegmentWriter, analyzer: &Analyzer, lengths: Vec<u32>) -> Result<TextBuilder> {
        let dictionary = DictionaryBuilder::new()?;
        out.begin(SectionKind::Postings)?;
        Ok(TextBuilder {
            analyzer: *analyzer,
            lengths,
            dictionary,
            infos: Vec::new(),
            encoder: PostingEncoder::default(),
            list: Vec::new(),
            last_term: Vec::new(),
            postings: 0,
            frequencies: 0,
        })
    }

    /// Adds a term with its postings, at least one. Terms ascend strictly by their bytes, rows strictly; frequencies are at least 1: an
    /// `InvalidArgument` otherwise. A list over 4 GiB is `LimitExceeded`; it needs hundreds of millions of rows.
    pub fn term(&mut self, out: &mut SegmentWriter, term: &[u8], postings: &[Posting]) -> Result<()> {
        if self.postings > 0 && term <= self.last_term.as_slice() {
            return Err(Error::InvalidArgument(format!("the term {:?} does not ascend", String::from_utf8_lossy(term))));
        }
        self.check(term, postings)?;
        let entry = match postings {
            [only] => TermInfoEntry::inline(*only),
            _ => {
                self.list.clear();
                self.encoder.encode(postings, &mut self.list);
                let length = u32::try_from(self.list.len()).map_err(|_| {
                    Error::LimitExceeded(format!("a posting list has {} bytes; at most 4 GiB are allowed", self.list.len()))
                })?;
                let offset = out.position();
                out.write(&self.list)?;
                TermInfoEntry::list(offset, length, postings.len() as u32)
            }
        };
        self.dictionary.insert(term)?;
        self.infos.extend_from_slice(entry.as_bytes());
        self.last_term.clear();
        self.last_term.extend_from_slice(term);
        self.postings += postings.len() as u64;
        self.frequencies += postings.iter().map(|p| u64::from(p.frequency)).sum::<u64>();
        Ok(())
    }

    /// Refuses postings that no segment of these rows can have.
    fn check(&self, term: &[u8], postings: &[Posting]) -> Result<()> {
        let ascending = postings.windows(2).all(|w| w[0].row < w[1].row);
        let inside = postings.last().is_some_and(|p| (p.row as usize) < self.lengths.len() && p.row < 1 << 31);
        if ascending && inside && postings.iter().all(|p| p.frequency > 0) {
            return Ok(());
        }
        let term = String::from_utf8_lossy(term);
        let rows = self.lengths.len();
        Err(Error::InvalidArgument(format!("the postings of {term:?} are not ascending rows below {rows} with frequencies of at least 1")))
    }

    /// Ends `Postings` and writes `TermInfos`, `Terms`, `Lengths` and `Statistics`. `InvalidArgument` when the frequencies do not add up
    /// to the lengths.
    pub fn finish(self, out: &mut SegmentWriter) -> Result<()> {
        let tokens: u64 = self.lengths.iter().map(|&l| u64::from(l)).sum();
        if tokens != self.frequencies {
            return Err(Error::InvalidArgument(format!("the lengths add up to {tokens} tokens, the postings to {}", self.frequencies)));
        }
        out.end(self.postings, POSTINGS_LAYOUT)?;
        let terms = self.infos.len() as u64 / size_of::<TermInfoEntry>() as u64;
        out.section(SectionKind::TermInfos, terms, 0, &self.infos)?;
        let (fst_bytes, dictionary) = self.dictionary.finish()?;
        out.section(SectionKind::Terms, terms, fst_bytes, &dictionary)?;
        let (width, lengths) = encode_lengths(&self.lengths);
        out.section(SectionKind::Lengths, self.lengths.len() as u64, width.bytes(), &lengths)?;
        let statistics = TextStatistics {
            documents: U64::new(self.lengths.len() as u64),
            tokens: U64::new(tokens),
            terms: U64::new(terms),
            postings: U64::new(self.postings),
            analyzer: TextStatistics::analyzer_field(self.analyzer.fingerprint()).expect("fingerprints are short ASCII"),
        };
        out.section(SectionKind::Statistics, 1, 0, statistics.as_bytes())
    }
}

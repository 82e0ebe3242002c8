//! Levels 2 and 3 of the text of a segment.

use super::check::{At, Progress};
use super::codes::FindingCode as Code;
use crate::docstore::RowsReader;
use crate::error::Result;
use crate::format::segment::SectionKind;
use crate::memtable::Analysis;
use crate::options::AnalyzerKind;
use crate::segment::SegmentReader;
use crate::text::{Analyzer, Posting, PostingsPlace, TextReader};
use roaring::RoaringBitmap;
use rustc_hash::FxHashMap;

/// Postings that are gathered from stored texts before they are compared: 12 bytes each.
const POSTINGS_AT_ONCE: usize = 4 << 20;

/// The sections against each other and against the manifest. Answers the tokens of the living rows and, of each term in a dead row, in how
/// many dead rows it stands.
pub(super) fn structure(
    reader: &SegmentReader,
    text: &TextReader,
    rows: u32,
    analyzer: AnalyzerKind,
    dead: &RoaringBitmap,
    at: &mut At<'_>,
) -> Result<(u64, Vec<(u32, u32)>)> {
    let lengths_section = reader.require(SectionKind::Lengths)?;
    let fingerprint = Analyzer::new(analyzer).fingerprint();
    if text.fingerprint() != fingerprint {
        let what = format!("the text was cut by the analyzer {:?}, the schema's is {fingerprint:?}", text.fingerprint());
        at.note(Code::TextIndex, Some(SectionKind::Statistics), 32, what);
    }
    if text.documents() != rows || text.tokens() != at.segment.entry.tokens {
        let what = format!(
            "{} rows with {} tokens; the segment has {rows} rows, the manifest says {} tokens",
            text.documents(),
            text.tokens(),
            at.segment.entry.tokens
        );
        at.note(Code::TextIndex, Some(SectionKind::Statistics), 0, what);
    }
    let lengths = text.lengths()?;
    let mut left: Vec<i64> = (0..text.documents()).map(|row| i64::from(lengths.get(row))).collect();
    let all: i64 = left.iter().sum();
    let dead_tokens: i64 = left.iter().zip(0u32..).filter(|(_, row)| dead.contains(*row)).map(|(n, _)| n).sum();
    let mut terms = text.terms()?;
    let (mut list, mut postings, mut dead_df, mut end) = (Vec::new(), 0u64, Vec::new(), 0);
    while let Some((term, info)) = terms.next()? {
        if let PostingsPlace::List { offset, length } = info.place {
            if offset != end {
                let what = format!("the list of term {} starts at {offset}, the one before ends at {end}", info.ordinal);
                return Err(reader.require(SectionKind::TermInfos)?.corrupt(u64::from(info.ordinal) * 16, what));
            }
            end = offset + u64::from(length);
        }
        if std::str::from_utf8(term).is_err() {
            at.note(Code::TextIndex, Some(SectionKind::Terms), 0, format!("term {} is not UTF-8", info.ordinal));
        }
        list.clear();
        text.postings(&info, &mut list)?;
        postings += list.len() as u64;
        list.iter().for_each(|p: &Posting| left[p.row as usize] -= i64::from(p.frequency));
        let gone = if dead.is_empty() { 0 } else { list.iter().filter(|p| dead.contains(p.row)).count() };
        if gone > 0 {
            dead_df.push((info.ordinal, gone as u32));
        }
    }
    let lists = reader.require(SectionKind::Postings)?;
    if end != lists.len() {
        return Err(lists.corrupt(end, format!("the lists end at byte {end} of {}", lists.len())));
    }
    if postings != text.posting_count() || u64::try_from(all) != Ok(text.tokens()) {
        let what = format!("{postings} postings and {all} tokens are here, expected {} and {}", text.posting_count(), text.tokens());
        at.note(Code::TextIndex, Some(SectionKind::Statistics), 0, what);
    }
    if let Some(row) = left.iter().position(|&n| n != 0) {
        let length = lengths.get(row as u32);
        let what = format!("row {row} has {length} tokens, its postings add up to {}", i64::from(length) - left[row]);
        return Err(lengths_section.corrupt(row as u64 * lengths_section.aux(), what));
    }
    Ok((u64::try_from(all - dead_tokens).unwrap_or_default(), dead_df))
}

/// Cuts every stored text again and compares postings and lengths.
pub(super) fn semantics(
    reader: &SegmentReader,
    text: &TextReader,
    rows: &RowsReader,
    analyzer: AnalyzerKind,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let lengths_section = reader.require(SectionKind::Lengths)?;
    let ordinals = ordinals(text)?;
    let lengths = text.lengths()?;
    let mut scanner = rows.scanner();
    let mut expected: Vec<(u32, Posting)> = Vec::new();
    let mut from = 0;
    for row in 0..rows.rows() {
        let analysis = Analysis::of_text(analyzer, &scanner.document(row)?.text);
        if lengths.get(row) != analysis.tokens {
            let what = format!("row {row} has {} tokens, its text has {}", lengths.get(row), analysis.tokens);
            return Err(lengths_section.corrupt(u64::from(row) * lengths_section.aux(), what));
        }
        for (term, frequency) in analysis.terms {
            let Some(&ordinal) = ordinals.get(term.as_bytes()) else {
                let what = format!("the text of row {row} has the term {term:?}, which is not in the dictionary");
                return Err(reader.require(SectionKind::Terms)?.corrupt(0, what));
            };
            expected.push((ordinal, Posting { row, frequency }));
        }
        if expected.len() >= POSTINGS_AT_ONCE || row + 1 == rows.rows() {
            progress.add(0)?;
            expected.sort_unstable_by_key(|(ordinal, p)| (*ordinal, p.row));
            compare(reader, text, from, row, &expected)?;
            expected.clear();
            from = row + 1;
        }
    }
    Ok(())
}

/// Every term's ordinal.
fn ordinals(text: &TextReader) -> Result<FxHashMap<Box<[u8]>, u32>> {
    let mut ordinals = FxHashMap::default();
    let mut terms = text.terms()?;
    while let Some((term, info)) = terms.next()? {
        ordinals.insert(term.into(), info.ordinal);
    }
    Ok(ordinals)
}

/// Compares the postings of all terms in the rows `from` to `to` with those that the texts give.
fn compare(reader: &SegmentReader, text: &TextReader, from: u32, to: u32, expected: &[(u32, Posting)]) -> Result<()> {
    let mut expected = expected.iter().copied().peekable();
    let mut list = Vec::new();
    let mut terms = text.terms()?;
    while let Some((term, info)) = terms.next()? {
        list.clear();
        text.postings(&info, &mut list)?;
        for found in list.iter().filter(|p| (from..=to).contains(&p.row)) {
            let wanted = expected.next_if(|(ordinal, _)| *ordinal == info.ordinal).map(|(_, p)| p);
            if wanted != Some(*found) {
                return Err(differs(reader, term, Some(found), wanted)?);
            }
        }
        if let Some((_, wanted)) = expected.next_if(|(ordinal, _)| *ordinal == info.ordinal) {
            return Err(differs(reader, term, None, Some(wanted))?);
        }
    }
    Ok(())
}

fn differs(reader: &SegmentReader, term: &[u8], found: Option<&Posting>, wanted: Option<Posting>) -> Result<crate::error::Error> {
    let say = |p: Option<Posting>| p.map_or("nothing".to_string(), |p| format!("row {} with frequency {}", p.row, p.frequency));
    let term = String::from_utf8_lossy(term);
    let what = format!("the postings of {term:?} have {}, the stored texts give {}", say(found.copied()), say(wanted));
    Ok(reader.require(SectionKind::Postings)?.corrupt(0, what))
}

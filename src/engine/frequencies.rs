//! Document frequencies over all parts of a collection: what a corpus-wide statistic needs.
//!
//! A segment's dictionary counts the rows it was written with. What died since is taken off by cutting the dead texts again, so the numbers
//! are those of the live documents at any layout and after any delete. Where those texts or the dictionary are damaged, the posting lists say
//! the same.

use super::segments::{Rooms, SegmentHandle};
use super::version::{Part, Parts};
use crate::error::{Error, Result};
use crate::ids::Lsn;
use crate::memtable::{Analysis, MemCollection};
use crate::options::AnalyzerKind;
use crate::text::{TextReader, average_idf as mean_idf};
use roaring::RoaringBitmap;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The mean raw idf over the vocabulary of the live documents, which floors `okapi`'s negative ones. Reads every dictionary once.
pub(crate) fn average_idf(parts: &Parts, analyzer: AnalyzerKind, documents: u64) -> Result<f64> {
    let mut histogram: BTreeMap<u64, u64> = BTreeMap::new();
    for_each_term(parts, analyzer, |df| *histogram.entry(df).or_default() += 1)?;
    Ok(mean_idf(histogram.into_iter(), documents))
}

/// The number of distinct terms of the live documents.
pub(crate) fn distinct_terms(parts: &Parts, analyzer: AnalyzerKind) -> Result<u64> {
    let mut terms = 0;
    for_each_term(parts, analyzer, |_| terms += 1)?;
    Ok(terms)
}

/// Calls `sink` with the live document frequency of every term that has one.
fn for_each_term(parts: &Parts, analyzer: AnalyzerKind, mut sink: impl FnMut(u64)) -> Result<()> {
    // One part needs no merging of dictionaries.
    if let [Part::Segment(s)] = parts.parts.as_slice() {
        return segment_terms(s, parts.lsn, analyzer, |_, df| sink(df));
    }
    let mut frequencies: FxHashMap<Vec<u8>, u64> = FxHashMap::default();
    let mut add = |term: &[u8], df: u64| match frequencies.get_mut(term) {
        Some(sum) => *sum += df,
        None => {
            frequencies.insert(term.to_vec(), df);
        }
    };
    for part in &parts.parts {
        match part {
            Part::Segment(s) => segment_terms(s, parts.lsn, analyzer, &mut add)?,
            Part::Memory(m) => memory_terms(m, parts.lsn, &mut add),
        }
    }
    frequencies.into_values().for_each(sink);
    Ok(())
}

fn segment_terms(s: &SegmentHandle, lsn: Lsn, analyzer: AnalyzerKind, mut sink: impl FnMut(&[u8], u64)) -> Result<()> {
    let rooms = s.rooms()?;
    let Some(text) = &rooms.text else { return Ok(()) };
    let dead = dead_frequencies(s, rooms, text, lsn, analyzer)?;
    let mut terms = text.terms()?;
    while let Some((term, info)) = terms.next()? {
        let gone = dead.get(&info.ordinal).copied().unwrap_or(0);
        let live = u64::from(info.document_frequency.saturating_sub(gone));
        if live > 0 {
            sink(term, live);
        }
    }
    Ok(())
}

/// How many dead rows hold each term, by ordinal: those of the stored tombstones, and those that died since.
///
/// # Errors
/// `Corrupt` when neither the dead texts with the dictionary nor the posting lists can be read.
pub(crate) fn dead_frequencies(
    s: &SegmentHandle,
    rooms: &Rooms,
    text: &TextReader,
    lsn: Lsn,
    analyzer: AnalyzerKind,
) -> Result<FxHashMap<u32, u32>> {
    match from_texts(s, rooms, text, lsn, analyzer) {
        Err(Error::Corrupt(_)) => from_postings(text, &rooms.dead(lsn)),
        counted => counted,
    }
}

/// Cuts the texts of the rows that died since the tombstones were stored, which are few.
fn from_texts(s: &SegmentHandle, rooms: &Rooms, text: &TextReader, lsn: Lsn, analyzer: AnalyzerKind) -> Result<FxHashMap<u32, u32>> {
    let mut dead: FxHashMap<u32, u32> = rooms.dead_frequencies.iter().copied().collect();
    // Ascending rows share decoded blocks.
    let rows = if were_counted(s, rooms, text) { s.log.rows_between(Lsn(0), lsn).into_iter().collect() } else { rooms.dead(lsn) };
    let mut scanner = rooms.rows.scanner();
    for row in rows {
        let document = scanner.document(row)?;
        for (term, _) in Analysis::of_text(analyzer, &document.text).terms {
            if let Some(ordinal) = text.ordinal(term.as_bytes())? {
                *dead.entry(ordinal).or_default() += 1;
            }
        }
    }
    Ok(dead)
}

/// Counts in the posting lists how often each names a dead row. Reads all of them, but neither a document nor the dictionary.
fn from_postings(text: &TextReader, dead: &RoaringBitmap) -> Result<FxHashMap<u32, u32>> {
    let mut counts = FxHashMap::default();
    text.for_each_list(|ordinal, list| {
        let gone = list.iter().filter(|p| dead.contains(p.row)).count() as u32;
        if gone > 0 {
            counts.insert(ordinal, gone);
        }
    })?;
    Ok(counts)
}

/// Whether the stored tombstones came with their frequencies. They come with none when damage kept them from being counted (`buried.rs`),
/// and rightly so when no dead row has a token.
fn were_counted(s: &SegmentHandle, rooms: &Rooms, text: &TextReader) -> bool {
    let stored = s.entry.tombstones.as_ref().map_or(0, |t| t.dead);
    // A length that cannot be read may be any.
    let has_tokens = |row| text.length(row).map_or(true, |tokens| tokens > 0);
    stored == 0 || !rooms.dead_frequencies.is_empty() || text.term_count() == 0 || !s.stored_dead(rooms).iter().any(has_tokens)
}

fn memory_terms(m: &MemCollection, lsn: Lsn, mut sink: impl FnMut(&[u8], u64)) {
    for (term, postings) in m.terms() {
        let mut live = 0;
        postings.for_each(|row, _| live += u64::from(m.row(row).is_some_and(|r| r.visible(lsn))));
        if live > 0 {
            sink(term.as_bytes(), live);
        }
    }
}

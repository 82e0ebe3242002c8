//! Exhaustive evaluation of a text query over all parts of a snapshot: every row that holds a token is scored.
//!
//! It reads every live posting of every query term, so that it needs nothing but the postings, and serves as the oracle of any evaluation
//! that skips.

use super::bm25::{Weights, lucene_idf, okapi_floor, okapi_raw_idf};
use crate::error::{Error, Result};
use crate::format::postings::Posting;
use crate::ids::Seq;
use crate::options::Scorer;
use crate::ranking::{RowAddress, Scored, TopK};
use rustc_hash::FxHashMap;

pub use super::bm25::average_idf;

/// Rows that are scored together: their scores fit a core's first cache.
const WINDOW_ROWS: u32 = 4096;

/// One part of a snapshot's collection, a segment or a memtable, as a search sees it.
pub trait TextPart {
    /// Appends the postings of `term` in rows that are alive in the snapshot, in ascending order of rows. Nothing for an unknown term.
    fn collect(&self, term: &str, out: &mut Vec<Posting>) -> Result<()>;

    /// The token count of a row.
    fn length(&self, row: u32) -> Result<u32>;

    /// The seq of a row.
    fn seq(&self, row: u32) -> Result<Seq>;

    /// Whether a row may be an answer. A row that may not counts in every statistic all the same.
    fn admits(&self, row: u32) -> bool {
        let _ = row;
        true
    }
}

/// Totals over the live documents of a snapshot's collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CorpusStatistics {
    /// Live documents, those without a token included.
    pub documents: u64,
    /// Tokens of all live documents.
    pub tokens: u64,
}

/// A query's distinct terms and how its tokens follow one another.
struct Query<'a> {
    terms: Vec<&'a str>,
    /// By token, in order, repeats kept: the index of its term.
    tokens: Vec<usize>,
}

impl<'a> Query<'a> {
    fn new(tokens: &'a [String]) -> Query<'a> {
        let mut known: FxHashMap<&str, usize> = FxHashMap::default();
        let mut query = Query { terms: Vec::new(), tokens: Vec::with_capacity(tokens.len()) };
        for token in tokens {
            let term = *known.entry(token).or_insert_with(|| {
                query.terms.push(token);
                query.terms.len() - 1
            });
            query.tokens.push(term);
        }
        query
    }
}

/// The best `k` rows for the tokens of a query, best first; equal scores in the order of their seqs.
///
/// A token counts as often as the query repeats it. With `okapi` only scores above 0 are answers; `average_idf` is asked for at most once,
/// and only when a query term is in more than half of the documents. A corpus without documents or tokens, a query without a known term, and
/// a `k` of 0 give nothing. `address.part` is the index in `parts`. O(postings x repeats + parts x terms), memory O(postings).
pub fn search<P: TextPart>(
    parts: &[P],
    tokens: &[String],
    scorer: Scorer,
    statistics: &CorpusStatistics,
    average_idf: &mut dyn FnMut() -> Result<f64>,
    k: usize,
) -> Result<Vec<Scored>> {
    if k == 0 || tokens.is_empty() || statistics.documents == 0 || statistics.tokens == 0 {
        return Ok(Vec::new());
    }
    let query = Query::new(tokens);
    let mut lists = Vec::with_capacity(parts.len());
    let mut frequencies = vec![0u64; query.terms.len()];
    for part in parts {
        let mut of_part = Vec::with_capacity(query.terms.len());
        for (term, df) in query.terms.iter().zip(&mut frequencies) {
            let mut list = Vec::new();
            part.collect(term, &mut list)?;
            *df += list.len() as u64;
            of_part.push(list);
        }
        lists.push(of_part);
    }
    let idfs = term_idfs(&frequencies, scorer, statistics.documents, average_idf)?;
    let weights = Weights::new(scorer, statistics.documents, statistics.tokens);
    let mut top = TopK::new(k);
    let mut window = Window::new();
    for (index, (part, lists)) in parts.iter().zip(&lists).enumerate() {
        let index = u32::try_from(index).map_err(|_| Error::LimitExceeded("a collection has at most 2^32 parts".into()))?;
        let mut scan = PartScan { part, index, lists, cursors: vec![0; lists.len()], query: &query, idfs: &idfs, weights: &weights };
        while let Some(base) = scan.next_row() {
            scan.score(base - base % WINDOW_ROWS, &mut window)?;
            scan.offer(&mut window, scorer, &mut top)?;
        }
    }
    Ok(top.into_sorted())
}

/// The idf of each term, floored where the scorer says so. That of an unknown term is never used.
fn term_idfs(frequencies: &[u64], scorer: Scorer, documents: u64, average_idf: &mut dyn FnMut() -> Result<f64>) -> Result<Vec<f64>> {
    let raw = |&df: &u64| {
        debug_assert!(df <= documents, "a term is in {df} of {documents} documents");
        match scorer {
            Scorer::Lucene => lucene_idf(documents.max(df), df),
            Scorer::Okapi => okapi_raw_idf(documents.max(df), df),
        }
    };
    let mut idfs: Vec<f64> = frequencies.iter().map(raw).collect();
    if scorer == Scorer::Okapi && idfs.iter().any(|&idf| idf < 0.0) {
        let floor = okapi_floor(average_idf()?);
        idfs.iter_mut().filter(|idf| **idf < 0.0).for_each(|idf| *idf = floor);
    }
    Ok(idfs)
}

/// Scores of the rows from `base` on.
struct Window {
    base: u32,
    scores: Box<[f64; WINDOW_ROWS as usize]>,
    norms: Box<[f64; WINDOW_ROWS as usize]>,
    /// One bit a row that holds a token.
    hits: [u64; WINDOW_ROWS as usize / 64],
}

impl Window {
    fn new() -> Window {
        let zeros = || Box::new([0.0; WINDOW_ROWS as usize]);
        Window { base: 0, scores: zeros(), norms: zeros(), hits: [0; WINDOW_ROWS as usize / 64] }
    }
}

/// One part under evaluation.
struct PartScan<'a, P> {
    part: &'a P,
    index: u32,
    /// By term.
    lists: &'a [Vec<Posting>],
    /// By term: the first posting not scored yet.
    cursors: Vec<usize>,
    query: &'a Query<'a>,
    idfs: &'a [f64],
    weights: &'a Weights,
}

impl<P: TextPart> PartScan<'_, P> {
    /// The lowest row not scored yet.
    fn next_row(&self) -> Option<u32> {
        self.lists.iter().zip(&self.cursors).filter_map(|(list, &at)| list.get(at)).map(|p| p.row).min()
    }

    /// Scores the rows of one window, token after token in the order of the query, so that each row's additions are in that order.
    fn score(&mut self, base: u32, window: &mut Window) -> Result<()> {
        window.base = base;
        let inside = |p: &Posting| p.row - base < WINDOW_ROWS;
        for (list, &from) in self.lists.iter().zip(&self.cursors) {
            for p in list[from..].iter().take_while(|p| inside(p)) {
                let at = (p.row - base) as usize;
                let bit = 1u64 << (at % 64);
                if window.hits[at / 64] & bit == 0 {
                    window.hits[at / 64] |= bit;
                    window.scores[at] = 0.0;
                    window.norms[at] = self.weights.norm(self.part.length(p.row)?);
                }
            }
        }
        for &term in &self.query.tokens {
            let idf = self.idfs[term];
            for p in self.lists[term][self.cursors[term]..].iter().take_while(|p| inside(p)) {
                let at = (p.row - base) as usize;
                window.scores[at] += self.weights.contribution(idf, p.frequency, window.norms[at]);
            }
        }
        for (list, cursor) in self.lists.iter().zip(&mut self.cursors) {
            *cursor += list[*cursor..].iter().take_while(|p| inside(p)).count();
        }
        Ok(())
    }

    /// Offers the rows of a window in ascending order, and clears it.
    fn offer(&self, window: &mut Window, scorer: Scorer, top: &mut TopK) -> Result<()> {
        for (word, bits) in window.hits.iter_mut().enumerate() {
            while *bits != 0 {
                let at = word * 64 + bits.trailing_zeros() as usize;
                *bits &= *bits - 1;
                let score = window.scores[at];
                let answers = match scorer {
                    Scorer::Lucene => true,
                    Scorer::Okapi => score > 0.0,
                };
                let row = window.base + at as u32;
                if answers && top.admits(score) && self.part.admits(row) {
                    top.offer(Scored { score, seq: self.part.seq(row)?, address: RowAddress { part: self.index, row } });
                }
            }
        }
        Ok(())
    }
}

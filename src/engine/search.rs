//! One retriever over all parts of a collection at one lsn: the composing half of a search.
//!
//! A filter becomes the rows that match it, part by part, before anything is scored. It restricts which documents are answers, never the
//! statistics that scores are made of nor the paths that a walk takes.

use super::frequencies;
use super::version::{Part, Parts};
use crate::document::check_vector;
use crate::error::{Error, Result};
use crate::graph::{self, query_entities};
use crate::ids::{Lsn, Seq};
use crate::options::{Effort, Schema, Scorer, limits};
use crate::ranking::{RowAddress, Scored, TopK};
use crate::text::{Analyzer, CorpusStatistics};
use crate::vector::{Found, QueryVector};
use roaring::RoaringBitmap;

/// The rows that may be answers, by part; `None` when all may.
pub(crate) type Admitted<'a> = Option<&'a [RoaringBitmap]>;

/// A scan reads rows in order and several at once; reading one alone costs about as much as this many of a scan.
const LONE_ROW_COST: u64 = 4;

/// The nearest vectors, and how they were come by.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Nearest {
    /// The nearest first.
    pub hits: Vec<Scored>,
    /// Vector graphs that were walked.
    pub walks: u64,
    /// Segments of which the codes of all that the filter admits were compared, since a walk would have cost more.
    pub code_scans: u64,
    /// Vectors that were compared one by one, in segments without a graph, in memory, or where a walk would have cost more.
    pub compared: u64,
}

/// The `k` nearest vectors. A segment with a graph is walked, as far as `effort` says; everything else is scanned: O(live vectors x dimension), or
/// with few rows admitted O(those x dimension). Every score is exact, whichever way it was come by.
pub(crate) fn vectors(parts: &Parts, schema: &Schema, vector: &[f32], admitted: Admitted<'_>, k: usize, effort: Effort) -> Result<Nearest> {
    check_vector("the query vector", vector)?;
    match schema.dimension {
        // Nothing has a vector yet.
        None => return Ok(Nearest::default()),
        Some(d) if d as usize != vector.len() => {
            return Err(Error::SchemaMismatch(format!(
                "the query vector has {} components, the collection has dimension {d}; embed the query with the model of the documents",
                vector.len()
            )));
        }
        Some(_) => {}
    }
    let query = QueryVector::new(schema.metric, vector);
    let (mut top, mut nearest) = (TopK::new(k), Nearest::default());
    for (i, part) in parts.parts.iter().enumerate() {
        let mut failure = None;
        let mut offer = |row: u32, score: f64| {
            if top.admits(score) {
                match part.seq(row) {
                    Ok(seq) => top.offer(Scored { score, seq, address: RowAddress { part: i as u32, row } }),
                    Err(e) => failure = Some(e),
                }
            }
        };
        let admitted = admitted.map(|a| &a[i]);
        match part.nearest(&query, parts.lsn, admitted, effort, k, &mut offer)? {
            Found::Nearest => nearest.walks += 1,
            Found::NearestByCodes => nearest.code_scans += 1,
            Found::Scan => scan(part, &query, parts.lsn, admitted, &mut |row, score| {
                nearest.compared += 1;
                offer(row, score);
            })?,
        }
        if let Some(e) = failure {
            return Err(e);
        }
    }
    nearest.hits = top.into_sorted();
    Ok(nearest)
}

/// Scores every vector of a part that may be an answer.
fn scan(part: &Part, query: &QueryVector, lsn: Lsn, admitted: Option<&RoaringBitmap>, offer: &mut impl FnMut(u32, f64)) -> Result<()> {
    match admitted {
        None => part.scan_vectors(query, lsn, offer),
        Some(rows) if rows.len() * LONE_ROW_COST < u64::from(part.row_count()) => part.score_rows(query, rows, offer),
        Some(rows) => part.scan_vectors(query, lsn, |row, score| {
            if rows.contains(row) {
                offer(row, score);
            }
        }),
    }
}

/// The `k` best texts by BM25. O(postings of the query's terms); the first `okapi` query of a snapshot that holds a very common term also
/// reads every dictionary.
pub(crate) fn text(parts: &Parts, schema: &Schema, query: &str, scorer: Scorer, admitted: Admitted<'_>, k: usize) -> Result<Vec<Scored>> {
    let mut tokens = Vec::new();
    Analyzer::new(schema.analyzer).tokens(query, &mut |t: &str| tokens.push(t.to_string()));
    let totals = parts.totals();
    let statistics = CorpusStatistics { documents: totals.documents, tokens: totals.tokens };
    let mut average_idf = || frequencies::average_idf(parts, schema.analyzer, totals.documents);
    crate::text::search(&parts.text(admitted), &tokens, scorer, &statistics, &mut average_idf, k)
}

/// How a question's entities lead to documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walk {
    /// Documents that mention them, and with 2 also those that mention what stands beside them.
    Hops(u32),
    /// Personalised PageRank around them.
    PageRank,
}

/// The `k` best documents by the entities of the query.
pub(crate) fn graph(parts: &Parts, schema: &Schema, query: &str, walk: Walk, admitted: Admitted<'_>, k: usize) -> Result<Vec<Scored>> {
    let forms = query_entities(query, schema.extractor);
    let views = parts.graph()?;
    let mut seq_of = |part: u32, row: u32| -> Result<Seq> { parts.parts[part as usize].seq(row) };
    // Every document that is reached has a score; those that are not admitted go afterwards, so that none is missing at the end.
    let reach = if admitted.is_some() { limits::K_MAX } else { k };
    let mut hits = match walk {
        Walk::Hops(hops) => graph::hops::search(&views, &forms, hops, &mut seq_of, reach)?,
        Walk::PageRank => graph::walk::docsgpt(&views, &forms, &mut seq_of, reach)?,
    };
    if let Some(admitted) = admitted {
        hits.retain(|h| admitted[h.address.part as usize].contains(h.address.row));
        hits.truncate(k);
    }
    Ok(hits)
}

/// Scores some rows by the text retriever, without ranking all: for reranking.
pub(crate) fn rows_only(parts: &Parts, rows: &[RowAddress]) -> Vec<RoaringBitmap> {
    let mut admitted = vec![RoaringBitmap::new(); parts.parts.len()];
    for address in rows {
        admitted[address.part as usize].insert(address.row);
    }
    admitted
}

impl Part {
    /// Whether this part is on disk.
    pub(crate) fn is_segment(&self) -> bool {
        matches!(self, Part::Segment(_))
    }
}

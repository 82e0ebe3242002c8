//! One retriever over all parts of a collection at one lsn: the composing half of a search.

use super::frequencies;
use super::version::Parts;
use crate::document::check_vector;
use crate::error::{Error, Result};
use crate::options::{Schema, Scorer};
use crate::ranking::{RowAddress, Scored, TopK};
use crate::text::{Analyzer, CorpusStatistics};
use crate::vector::QueryVector;

/// The `k` nearest vectors, by an exact scan. O(live vectors x dimension).
pub(crate) fn vectors(parts: &Parts, schema: &Schema, vector: &[f32], k: usize) -> Result<Vec<Scored>> {
    check_vector("the query vector", vector)?;
    match schema.dimension {
        // Nothing has a vector yet.
        None => return Ok(Vec::new()),
        Some(d) if d as usize != vector.len() => {
            return Err(Error::SchemaMismatch(format!(
                "the query vector has {} components, the collection has dimension {d}; embed the query with the model of the documents",
                vector.len()
            )));
        }
        Some(_) => {}
    }
    let query = QueryVector::new(schema.metric, vector);
    let mut top = TopK::new(k);
    let mut failure = None;
    for (i, part) in parts.parts.iter().enumerate() {
        part.scan_vectors(&query, parts.lsn, |row, score| {
            if top.admits(score) {
                match part.seq(row) {
                    Ok(seq) => top.offer(Scored { score, seq, address: RowAddress { part: i as u32, row } }),
                    Err(e) => failure = Some(e),
                }
            }
        })?;
        if let Some(e) = failure.take() {
            return Err(e);
        }
    }
    Ok(top.into_sorted())
}

/// The `k` best texts by BM25, and a note when the scorer explains an empty answer. O(postings of the query's terms); the first `okapi`
/// query of a snapshot that holds a very common term also reads every dictionary.
pub(crate) fn text(parts: &Parts, schema: &Schema, query: &str, scorer: Scorer, k: usize) -> Result<Vec<Scored>> {
    let mut tokens = Vec::new();
    Analyzer::new(schema.analyzer).tokens(query, &mut |t: &str| tokens.push(t.to_string()));
    let totals = parts.totals();
    let statistics = CorpusStatistics { documents: totals.documents, tokens: totals.tokens };
    let mut average_idf = || frequencies::average_idf(parts, schema.analyzer, totals.documents);
    crate::text::search(&parts.text(), &tokens, scorer, &statistics, &mut average_idf, k)
}

//! The classic retriever: the nearest vectors of each source.

use super::gather::{Finding, Ranked, SourceAnswer, ask_all, candidates};
use super::passage::ScoreKind;
use super::request::{Request, Retrieved, Retriever, SourceRequest};
use super::store::{Candidate, Store};
use crate::error::Result;

/// The name of the vector leg in provenances.
pub(super) const VECTOR: &str = "vector";

/// Asks each source for the nearest vectors.
///
/// Of each source it fetches `clamp(2k, 20, 500)` candidates, where k is [`Request::top_k`], with the source's score threshold, and gives the
/// first k that fit the budget. Sources stand in the order of the request; their scores are not compared, and what two sources both hold is given
/// twice. A source that fails is reported, and the others go on.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClassicRetriever;

impl Retriever for ClassicRetriever {
    fn name(&self) -> &str {
        "classic"
    }

    fn search(&self, request: &Request<'_>) -> Retrieved {
        let mut ledger = request.ledger();
        ask_all(request, self.name(), &mut ledger, |source, store| nearest(request, source, store))
    }

    fn keeps_budget(&self) -> bool {
        true
    }
}

/// What the vectors of a source say.
pub(super) fn nearest(request: &Request<'_>, source: &SourceRequest, store: &dyn Store) -> Result<SourceAnswer> {
    let question = request.question_for(source);
    let vector = request.vector_for(&source.id, &question)?;
    request.call.check()?;
    let k = candidates(request.top_k(source));
    let found = store.dense(&request.call, &source.id, &vector, k, source.config.score_threshold)?;
    let kind = store.dense_kind();
    let ranked = found.into_iter().enumerate().map(|(rank, candidate)| ranked(rank, candidate, VECTOR, kind)).collect();
    Ok(SourceAnswer { ranked, ..SourceAnswer::default() })
}

/// A candidate as one leg found it.
fn ranked(rank: usize, candidate: Candidate, leg: &'static str, kind: ScoreKind) -> Ranked {
    let Candidate { id, score, body, place } = candidate;
    let findings = vec![Finding { leg, rank, score: score.unwrap_or_default() }];
    Ranked { id, score, kind: Some(kind), findings, body, place }
}

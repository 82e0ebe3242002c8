//! The hybrid retriever: nearest vectors and best texts of each source, fused by reciprocal rank.

use super::classic::VECTOR;
use super::fusion::{CONSTANT, Fused, WeightedList, reciprocal_rank_fusion};
use super::gather::{Finding, Ranked, SourceAnswer, ask_all, candidates};
use super::passage::ScoreKind;
use super::request::{Request, RetrievalError, Retrieved, Retriever, SourceRequest};
use super::store::{Candidate, Store};
use crate::error::{Error, Result};

/// The name of the text leg in provenances.
const TEXT: &str = "text";

/// Asks each source for the nearest vectors and the best texts, and fuses both by reciprocal rank.
///
/// Each leg gives `clamp(2k, 20, 500)` candidates, where k is [`Request::top_k`]. A document gains 1 / (60 + rank), rank from 0, from each list,
/// times the list's weight, which is 1 unless the store says otherwise ([`Store::leg_weights`]; a collection says what its
/// [`crate::options::Schema::leg_weights`] says); vectors come first. It is known by its id: the same text under two ids stays two. Equal scores keep the order of first appearance, so that of two
/// documents at one rank the nearest vector goes first. A score threshold is not applied: these scores have another scale.
///
/// A leg that fails is reported, and the other one answers alone; when both fail, so does the source.
#[derive(Debug, Clone, Copy, Default)]
pub struct HybridRetriever;

impl Retriever for HybridRetriever {
    fn name(&self) -> &str {
        "hybrid"
    }

    fn search(&self, request: &Request<'_>) -> Retrieved {
        let mut ledger = request.ledger();
        ask_all(request, self.name(), &mut ledger, |source, store| both(request, source, store))
    }

    fn keeps_budget(&self) -> bool {
        true
    }
}

fn both(request: &Request<'_>, source: &SourceRequest, store: &dyn Store) -> Result<SourceAnswer> {
    let question = request.question_for(source);
    let k = candidates(request.top_k(source));
    let by_vector = request.vector_for(&source.id, &question).and_then(|vector| {
        request.call.check()?;
        store.dense(&request.call, &source.id, &vector, k, None)
    });
    // A request that is of no use any more is not asked for its other half; what the first one found is given.
    let by_text = request.call.check().map_err(Error::from).and_then(|()| store.keyword(&request.call, &source.id, &question, k));
    let mut answer = SourceAnswer::default();
    let (by_vector, by_text) = match (by_vector, by_text) {
        (Ok(by_vector), Ok(by_text)) => (by_vector, by_text),
        (Ok(by_vector), Err(e)) => {
            answer.errors.push(failed(source, "text", e.noting("its nearest vectors answered alone")));
            (by_vector, Vec::new())
        }
        (Err(e), Ok(by_text)) => {
            answer.errors.push(failed(source, "vector", e.noting("its best texts answered alone")));
            (Vec::new(), by_text)
        }
        (Err(by_vector), Err(by_text)) => {
            answer.errors.push(failed(source, "text", by_text));
            answer.errors.push(failed(source, "vector", by_vector));
            return Ok(answer);
        }
    };
    answer.ranked = fuse(by_vector, by_text, store.leg_weights(&source.id));
    Ok(answer)
}

fn failed(source: &SourceRequest, leg: &str, error: Error) -> RetrievalError {
    RetrievalError::of_source(&source.id, format!("hybrid, {leg} leg"), error)
}

/// One list out of two. A document keeps the copy that was seen first, and every finding.
fn fuse(by_vector: Vec<Candidate>, by_text: Vec<Candidate>, weights: (f64, f64)) -> Vec<Ranked> {
    let ids = |list: &'_ [Candidate]| list.iter().map(|c| c.id.clone()).collect::<Vec<String>>();
    let lists = [(ids(&by_vector), weights.0), (ids(&by_text), weights.1)];
    let weighted = lists.each_ref().map(|(keys, weight)| WeightedList { keys, weight: *weight });
    let mut legs = [(VECTOR, by_vector), (TEXT, by_text)].map(|(leg, list)| (leg, list.into_iter().map(Some).collect::<Vec<_>>()));
    let of = |fused: Fused<String>| {
        let mut ranked =
            Ranked { id: fused.key, score: Some(fused.score), kind: Some(ScoreKind::Rrf), findings: Vec::new(), body: None, place: None };
        for ((leg, list), rank) in legs.iter_mut().zip(fused.ranks) {
            let Some((rank, candidate)) = rank.and_then(|rank| Some((rank, list.get_mut(rank)?.take()?))) else { continue };
            ranked.findings.push(Finding { leg, rank, score: candidate.score.unwrap_or_default() });
            ranked.body = ranked.body.take().or(candidate.body);
            ranked.place = ranked.place.or(candidate.place);
        }
        ranked
    };
    reciprocal_rank_fusion(&weighted, CONSTANT, usize::MAX).into_iter().map(of).collect()
}

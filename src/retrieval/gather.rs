//! What retrievers share: asking sources side by side, and making passages of what they gave, in the order of the sources and within the budget.

use super::ledger::TokenLedger;
use super::passage::{Passage, Provenance, ScoreKind};
use super::request::{Request, RetrievalError, Retrieved, SourceRequest};
use super::store::{Body, Store};
use crate::error::{Error, Result};
use crate::models::Call;
use crate::workers::side_by_side;

/// Sources that are asked at once.
pub(crate) const WORKERS_MAX: usize = 4;
/// Candidates that a source is asked for at least and at most.
const CANDIDATES: (usize, usize) = (20, 500);

/// How many candidates a source is asked for when so many passages are wanted of it: twice as many, since some may not fit.
pub(crate) fn candidates(top_k: usize) -> usize {
    top_k.saturating_mul(2).max(CANDIDATES.0).min(CANDIDATES.1)
}

/// A document of a source's answer.
#[derive(Debug)]
pub(crate) struct Ranked {
    pub(crate) id: String,
    pub(crate) score: Option<f64>,
    pub(crate) kind: Option<ScoreKind>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) body: Option<Body>,
    /// Where its store has it.
    pub(crate) place: Option<u64>,
}

/// What one leg said of a document: a provenance without the names that all of a source share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finding {
    pub(crate) leg: &'static str,
    pub(crate) rank: usize,
    pub(crate) score: f64,
}

/// What one source gave: as much as a retriever could find of it, and what failed beside.
#[derive(Debug, Default)]
pub(crate) struct SourceAnswer {
    pub(crate) ranked: Vec<Ranked>,
    pub(crate) notes: Vec<String>,
    pub(crate) errors: Vec<RetrievalError>,
}

/// Asks every source of a request side by side, and takes passages from the answers in the order of the sources.
pub(crate) fn ask_all(
    request: &Request<'_>,
    step: &str,
    ledger: &mut TokenLedger<'_>,
    ask: impl Fn(&SourceRequest, &dyn Store) -> Result<SourceAnswer> + Sync,
) -> Retrieved {
    let mut retrieved = Retrieved::default();
    if request.is_idle() {
        return retrieved;
    }
    let sources = request.asked();
    let answers = side_by_side(sources.len(), WORKERS_MAX, |i| {
        request.call.check()?;
        let store = request.store(&sources[i].id)?.as_ref();
        let mut answer = ask(sources[i], store)?;
        load(&request.call, store, &sources[i].id, &mut answer.ranked, request.top_k(sources[i]))?;
        Ok(answer)
    });
    for (source, answer) in sources.into_iter().zip(answers) {
        take(request, source, step, answer, ledger, &mut retrieved);
    }
    request.drain(&mut retrieved);
    retrieved
}

/// Makes passages of what a source gave, as many as are wanted of it and as the budget allows.
pub(crate) fn take(
    request: &Request<'_>,
    source: &SourceRequest,
    step: &str,
    answer: Result<SourceAnswer>,
    ledger: &mut TokenLedger<'_>,
    out: &mut Retrieved,
) {
    let taken = answer.and_then(|mut answer| {
        out.notes.append(&mut answer.notes);
        out.errors.append(&mut answer.errors);
        if answer.ranked.is_empty() && answer.errors.is_empty() {
            let store = request.store(&source.id)?;
            if store.count(&request.call, &source.id)? == Some(0) {
                out.notes.push(format!("source {:?} holds no document", source.id));
            }
        }
        // What is screened afterwards is counted afterwards.
        let counted = !(request.counts_screened_later && source.config.prescreen.is_some());
        let (wanted, mut taken) = (request.top_k(source), 0);
        let mut rest = answer.ranked.into_iter();
        while taken < wanted {
            let mut next: Vec<Ranked> = rest.by_ref().take(wanted - taken).collect();
            if next.is_empty() {
                break;
            }
            let fetched = next.len();
            load(&request.call, request.store(&source.id)?.as_ref(), &source.id, &mut next, fetched)?;
            for passage in next.into_iter().filter_map(|ranked| passage(&source.id, ranked)) {
                if !counted || ledger.accept(&passage) {
                    taken += 1;
                    out.passages.push(passage);
                }
            }
        }
        Ok(())
    });
    if let Err(error) = taken {
        out.errors.push(RetrievalError::of_source(&source.id, step, error));
    }
}

/// Reads the bodies of the first `count` that came without.
fn load(call: &Call<'_>, store: &dyn Store, source: &str, ranked: &mut [Ranked], count: usize) -> Result<()> {
    let first = ranked.len().min(count);
    let missing: Vec<usize> = (0..first).filter(|i| ranked[*i].body.is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let wanted: Vec<(&str, Option<u64>)> = missing.iter().map(|i| (ranked[*i].id.as_str(), ranked[*i].place)).collect();
    let bodies = bodies(call, store, source, &wanted)?;
    missing.into_iter().zip(bodies).for_each(|(i, body)| ranked[i].body = body);
    Ok(())
}

/// The documents of these ids, one for each: of a store that gives another number nobody can tell which it means.
pub(crate) fn bodies(call: &Call<'_>, store: &dyn Store, source: &str, wanted: &[(&str, Option<u64>)]) -> Result<Vec<Option<Body>>> {
    let bodies = store.bodies(call, source, wanted)?;
    if bodies.len() != wanted.len() {
        let (given, asked) = (bodies.len(), wanted.len());
        return Err(Error::InvalidArgument(format!(
            "the store of source {source:?} gave {given} documents for {asked} ids; one for each, if only `None`, is the contract"
        )));
    }
    Ok(bodies)
}

/// A passage with its labels; nothing of a document that is gone.
fn passage(source_id: &str, ranked: Ranked) -> Option<Passage> {
    let body = ranked.body?;
    let provenance = |found: Finding| Provenance {
        retriever: found.leg.into(),
        source: source_id.into(),
        id: ranked.id.clone(),
        rank: found.rank,
        score: found.score,
    };
    Some(Passage {
        provenance: ranked.findings.into_iter().map(provenance).collect(),
        score_kind: ranked.kind.filter(|_| ranked.score.is_some()),
        score: ranked.score,
        ..Passage::labelled(source_id, ranked.id, body.text, body.metadata)
    })
}

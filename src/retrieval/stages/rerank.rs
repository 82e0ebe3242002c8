//! A reranker orders what was found; without its scores, rank fusion does.

use super::aggregate::by_rank_fusion;
use crate::error::Result;
use crate::models::{ModelError, Purpose, Reranker};
use crate::retrieval::passage::Passage;
use crate::retrieval::stage::{Stage, StageContext};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Passages that are left after a rerank when nobody says how many.
pub const RERANK_TOP: usize = 5;

/// Scores all candidates against the question in one call of a reranker, and keeps the best: by [`Passage::rerank_score`] descending, equal ones in
/// the order in which they came. Their own scores stay.
///
/// When the reranker fails, or gives another number of scores than there are candidates, or one that is no finite number, the order is
/// [`by_rank_fusion`] instead, no rerank score is set, and the failure is reported. Without candidates nobody is asked.
#[derive(Clone)]
pub struct RerankStage {
    reranker: Arc<dyn Reranker>,
    top: usize,
}

impl fmt::Debug for RerankStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RerankStage").field("reranker", &self.reranker.name()).field("top", &self.top).finish()
    }
}

impl RerankStage {
    /// Keeps the best five.
    pub fn new(reranker: Arc<dyn Reranker>) -> RerankStage {
        RerankStage { reranker, top: RERANK_TOP }
    }

    /// Keeps so many.
    pub fn top(mut self, top: usize) -> RerankStage {
        self.top = top;
        self
    }

    /// The best, best first. There is always an answer.
    pub(crate) fn ordered(&self, context: &StageContext<'_>, mut passages: Vec<Passage>) -> Vec<Passage> {
        if passages.is_empty() {
            return passages;
        }
        match self.scores(context, &passages) {
            Ok(scores) => {
                passages.iter_mut().zip(scores).for_each(|(passage, score)| passage.rerank_score = Some(score));
                // All are finite.
                passages.sort_by(|a, b| b.rerank_score.partial_cmp(&a.rerank_score).unwrap_or(Ordering::Equal));
            }
            Err(error) => {
                by_rank_fusion(&mut passages);
                let message = format!("{}; the order is that of rank fusion", error.message);
                context.report.failure(ModelError { message, ..error });
            }
        }
        passages.truncate(self.top);
        passages
    }

    fn scores(&self, context: &StageContext<'_>, passages: &[Passage]) -> std::result::Result<Vec<f64>, ModelError> {
        let call = context.call.with_purpose(Purpose::RERANK);
        call.check()?;
        let texts: Vec<&str> = passages.iter().map(|passage| passage.text.as_str()).collect();
        let scores = self.reranker.score(&call, context.query, &texts)?;
        if scores.len() != texts.len() {
            let (given, asked) = (scores.len(), texts.len());
            return Err(ModelError::malformed(format!("{} gave {given} scores for {asked} texts", self.reranker.name())));
        }
        match scores.iter().find(|score| !score.is_finite()) {
            Some(score) => Err(ModelError::malformed(format!("{} gave {score} as a score", self.reranker.name()))),
            None => Ok(scores),
        }
    }
}

impl Stage for RerankStage {
    fn name(&self) -> &str {
        "rerank"
    }

    fn apply(&self, context: &StageContext<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>> {
        Ok(self.ordered(context, passages))
    }
}

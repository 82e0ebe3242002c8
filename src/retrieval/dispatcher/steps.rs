//! Stages and screenings over what was found. One that fails changes nothing but what is reported.

use super::ScreenMaker;
use crate::error::Result;
use crate::models::{ModelError, ModelErrorKind};
use crate::retrieval::config::PreScreenConfig;
use crate::retrieval::passage::Passage;
use crate::retrieval::request::{Request, RetrievalError, Retrieved, SourceRequest};
use crate::retrieval::stage::{Stage, StageContext, StageReport};
use std::sync::Arc;

/// The step's name in errors.
const SCREEN: &str = "pre-screen";

/// Runs stages in their order.
pub(super) fn apply_all(stages: &[Arc<dyn Stage>], request: &Request<'_>, passages: Vec<Passage>, out: &mut Retrieved) -> Vec<Passage> {
    stages.iter().fold(passages, |passages, stage| apply(stage.as_ref(), request, None, passages, out))
}

/// Runs a stage; what goes on when it fails is what it was given.
fn apply(stage: &dyn Stage, request: &Request<'_>, source: Option<&str>, passages: Vec<Passage>, out: &mut Retrieved) -> Vec<Passage> {
    let report = StageReport::default();
    let rewritten = request.questions.rewritten();
    let query = rewritten.as_deref().unwrap_or(request.question);
    let context = StageContext { query, asked: request.question, call: request.call.clone(), report: &report };
    let given = passages.clone();
    let applied: Result<Vec<Passage>> = request.call.check().map_err(Into::into).and_then(|()| stage.apply(&context, passages));
    let (notes, failures) = report.into_parts();
    let error = |error| RetrievalError { source_id: source.map(Into::into), step: stage.name().into(), error };
    out.notes.extend(notes);
    out.errors.extend(failures.into_iter().map(error));
    applied.unwrap_or_else(|e| {
        out.errors.push(error(e));
        given
    })
}

/// Screens the candidates of one source, and of no other; they stand together afterwards, where the first of them stood. However the screening
/// goes, no more than `max_keep` are left of them.
pub(super) fn screen(
    maker: Option<&ScreenMaker>,
    request: &Request<'_>,
    source: &SourceRequest,
    passages: Vec<Passage>,
    out: &mut Retrieved,
) -> Vec<Passage> {
    let Some(config) = &source.config.prescreen else { return passages };
    let Some(first) = passages.iter().position(|p| p.source_id == source.id) else { return passages };
    let (its, mut others): (Vec<Passage>, Vec<Passage>) = passages.into_iter().partition(|p| p.source_id == source.id);
    let mut kept = match stage(maker, config) {
        Ok(stage) => apply(stage.as_ref(), request, Some(&source.id), its, out),
        Err(e) => {
            out.errors.push(RetrievalError::of_source(&source.id, SCREEN, e.noting("its first candidates were kept unjudged")));
            its
        }
    };
    kept.truncate(config.max_keep);
    others.splice(first..first, kept);
    others
}

fn stage(maker: Option<&ScreenMaker>, config: &PreScreenConfig) -> Result<Arc<dyn Stage>> {
    let missing =
        || ModelError::new(ModelErrorKind::Configuration, "the source wants its candidates screened, and the dispatcher has no screen");
    maker.ok_or_else(missing)?(config)
}

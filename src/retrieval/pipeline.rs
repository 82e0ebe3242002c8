//! Vectors, texts and graph of one collection, merged and reranked in one call: the pipeline of adrag.

use super::passage::{Passage, Provenance, ScoreKind, is_near_to_nothing};
use super::request::{RetrievalError, refuse_other_embedder};
use super::search::{Hit, Mode, Search};
use super::stage::{Stage, StageContext, StageReport};
use super::stages::{Order, RERANK_TOP, RerankStage, aggregate};
use crate::engine::Collection;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::models::{Call, Embedder, Purpose, Reranker, TextRole};
use crate::options::{Effort, Scorer};
use serde::Serialize;
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;

/// Hits of the vector and of the text retriever.
const LEG_K: usize = 10;
/// The least number of hits of the graph retriever.
const GRAPH_K_MIN: usize = 3;

/// The three retrievers: the name in provenances, and the mode that asks it.
const LEGS: [(&str, Mode); 3] = [("vector", Mode::Vector), ("text", Mode::Text), ("graph", Mode::Graph)];

/// Asks the vectors, the texts and the graph of a collection, merges what they find with what the caller brings, lets a reranker order it, and keeps the
/// best five.
///
/// ```
/// # use triune::{Database, Document, Schema};
/// use std::sync::Arc;
/// use triune::models::{Call, ModelError, Reranker};
/// use triune::retrieval::{Pipeline, PipelineQuestion, Sufficiency};
///
/// /// Counts the words of the question that a text has, and wants one at least.
/// struct Words;
///
/// impl Reranker for Words {
///     fn name(&self) -> &str {
///         "words"
///     }
///     fn score(&self, _: &Call<'_>, query: &str, texts: &[&str]) -> Result<Vec<f64>, ModelError> {
///         let shared = |text: &&str| query.split(' ').filter(|word| text.contains(word)).count() as f64 - 0.5;
///         Ok(texts.iter().map(shared).collect())
///     }
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = Database::create(dir.path().join("db"))?;
/// # db.create_collection("notes", Schema::default())?;
/// db.put("notes", vec![Document::new("a").text("Curie discovered radium."), Document::new("b").text("Bees see red as black.")])?;
/// let pipeline = Pipeline { reranker: Some(Arc::new(Words)), ..Pipeline::default() };
/// let notes = db.snapshot().collection("notes")?;
/// let answer = pipeline.ask(&notes, &PipelineQuestion::new("who discovered radium"));
/// assert_eq!(answer.passages[0].id, "a");
/// assert_eq!(answer.sufficiency, Sufficiency::Sufficient);
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Clone)]
pub struct Pipeline {
    /// Hits of the vector retriever. Default: 10.
    pub vector_k: usize,
    /// Hits of the text retriever. Default: 10.
    pub text_k: usize,
    /// Hits of the graph retriever. Default: 5.
    pub graph_k: usize,
    /// Steps of the graph retriever, 1 or 2; adrag's own takes 1. Default: 2.
    pub hops: u32,
    /// The text scorer; the collection's own when absent.
    pub scorer: Option<Scorer>,
    /// How hard the vector retriever tries.
    pub effort: Effort,
    /// How candidates are ordered before the reranker sees them, and when there is none. Default: by rank fusion.
    pub order: Order,
    /// Embeds the question, where it comes without a vector.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// Orders the candidates; without one they stay in the order above.
    pub reranker: Option<Arc<dyn Reranker>>,
    /// Passages of an answer. Default: 5.
    pub top: usize,
}

impl Default for Pipeline {
    fn default() -> Self {
        Pipeline {
            vector_k: LEG_K,
            text_k: LEG_K,
            graph_k: graph_share(LEG_K),
            hops: 2,
            scorer: None,
            effort: Effort::DEFAULT,
            order: Order::default(),
            embedder: None,
            reranker: None,
            top: RERANK_TOP,
        }
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("k", &(self.vector_k, self.text_k, self.graph_k))
            .field("hops", &self.hops)
            .field("scorer", &self.scorer)
            .field("effort", &self.effort)
            .field("order", &self.order)
            .field("embedder", &self.embedder.as_ref().map(|m| m.fingerprint().to_string()))
            .field("reranker", &self.reranker.as_ref().map(|m| m.name().to_string()))
            .field("top", &self.top)
            .finish()
    }
}

/// A question to a [`Pipeline`].
#[derive(Debug, Clone)]
pub struct PipelineQuestion<'a> {
    /// The question.
    pub text: &'a str,
    /// Its vector; without one the pipeline's embedder makes it.
    pub vector: Option<Vec<f32>>,
    /// Restricts the documents that are answers.
    pub filter: Option<Filter>,
    /// Passages from elsewhere, such as the web, best first: see [`Passage::external`].
    pub external: Vec<Passage>,
    /// On whose behalf, and until when.
    pub call: Call<'a>,
}

impl<'a> PipelineQuestion<'a> {
    /// A question as text alone.
    pub fn new(text: &'a str) -> PipelineQuestion<'a> {
        PipelineQuestion { text, vector: None, filter: None, external: Vec::new(), call: Call::default() }
    }
}

/// Whether what was found looks like enough to answer from. It is said, and nothing follows from it here: whether to ask elsewhere is the caller's
/// decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sufficiency {
    /// The best passage scores 0 or more, or was not reranked.
    Sufficient,
    /// Nothing was found.
    NoContext,
    /// The best rerank score is below 0.
    BelowZero(f64),
}

impl Sufficiency {
    /// Of passages: a rerank score that is absent counts 0.
    pub fn of(passages: &[Passage]) -> Sufficiency {
        let best = passages.iter().map(|passage| passage.rerank_score.unwrap_or(0.0)).reduce(f64::max);
        match best {
            None => Sufficiency::NoContext,
            Some(best) if best < 0.0 => Sufficiency::BelowZero(best),
            Some(_) => Sufficiency::Sufficient,
        }
    }

    /// Whether it looks like enough.
    pub fn is_sufficient(self) -> bool {
        self == Sufficiency::Sufficient
    }
}

/// What a [`Pipeline`] found, and what kept it from finding more: partial results stand beside errors.
#[derive(Debug)]
pub struct PipelineAnswer {
    /// The best passages, best first.
    pub passages: Vec<Passage>,
    /// Whether they look like enough to answer from.
    pub sufficiency: Sufficiency,
    /// How many each retriever found, in the order `vector`, `text`, `graph`, `external`.
    pub found: Vec<(&'static str, usize)>,
    /// Passages after equal texts were merged, before the best were taken.
    pub candidates: usize,
    /// What a person should know.
    pub notes: Vec<String>,
    /// Retrievers and steps that failed.
    pub errors: Vec<RetrievalError>,
    /// The vector of the question, if there was one: asking again need not embed again.
    pub vector: Option<Vec<f32>>,
}

impl Pipeline {
    /// With `k` hits of the vector and of the text retriever, and half as many of the graph's, but three at least.
    pub fn with_k(k: usize) -> Pipeline {
        Pipeline { vector_k: k, text_k: k, graph_k: graph_share(k), ..Pipeline::default() }
    }

    /// Asks. Whatever fails is reported beside what was found all the same.
    pub fn ask(&self, collection: &Collection, question: &PipelineQuestion<'_>) -> PipelineAnswer {
        let (mut found, mut notes, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        let vector = match self.vector(collection, question) {
            Ok(Some(vector)) if is_near_to_nothing(collection.schema().metric, &vector) => {
                notes.push("the vector of the question is zero and near to nothing: taking part: text, graph".to_string());
                None
            }
            Ok(Some(vector)) => Some(vector),
            Ok(None) => {
                notes
                    .push("neither a query vector nor an embedder: the vector retriever is left out; taking part: text, graph".to_string());
                None
            }
            Err(e) => {
                errors.push(RetrievalError::of_step("vector", e));
                None
            }
        };
        let mut candidates = Vec::new();
        for (name, mode) in LEGS {
            let leg = match (mode, &vector) {
                (Mode::Vector, None) => Ok(Vec::new()),
                (_, vector) => self.leg(collection, question, name, mode, vector.clone()),
            };
            let leg = leg.unwrap_or_else(|e| {
                errors.push(RetrievalError::of_step(name, e));
                Vec::new()
            });
            found.push((name, leg.len()));
            candidates.extend(leg);
        }
        found.push(("external", question.external.len()));
        candidates.extend(question.external.iter().cloned());
        let merged = aggregate(candidates, self.order);
        let candidates = merged.len();
        let mut passages = self.rerank(question, merged, &mut errors);
        passages.truncate(self.top);
        PipelineAnswer { sufficiency: Sufficiency::of(&passages), passages, found, candidates, notes, errors, vector }
    }

    /// The question's vector, if there is one to be had.
    fn vector(&self, collection: &Collection, question: &PipelineQuestion<'_>) -> Result<Option<Vec<f32>>> {
        if let Some(vector) = &question.vector {
            return Ok(Some(vector.clone()));
        }
        let Some(embedder) = &self.embedder else { return Ok(None) };
        let (of, made_by) = (format!("collection {:?}", collection.name()), collection.schema().embedder.as_deref());
        refuse_other_embedder(&of, made_by, embedder.as_ref(), "the vector retriever was not asked")?;
        let call = question.call.with_purpose(Purpose::EMBED_QUERY);
        call.check()?;
        Ok(Some(embedder.embed_one(&call, question.text, TextRole::Query)?))
    }

    /// What one retriever finds.
    fn leg(
        &self,
        collection: &Collection,
        question: &PipelineQuestion<'_>,
        name: &str,
        mode: Mode,
        vector: Option<Vec<f32>>,
    ) -> Result<Vec<Passage>> {
        question.call.check()?;
        let (k, kind) = match mode {
            Mode::Vector => (self.vector_k, ScoreKind::of_metric(collection.schema().metric)),
            Mode::Text => (self.text_k, ScoreKind::Bm25),
            Mode::Graph | Mode::Ppr | Mode::Hybrid => (self.graph_k, ScoreKind::Graph),
        };
        let search = Search {
            query: Some(question.text.into()),
            vector: vector.filter(|_| mode == Mode::Vector),
            mode,
            k,
            effort: self.effort,
            scorer: self.scorer,
            filter: question.filter.clone(),
            hops: self.hops,
            ..Search::default()
        };
        let hits = collection.search(&search)?.hits;
        Ok(hits.into_iter().map(|hit| passage(collection.name(), name, kind, hit)).collect())
    }

    /// Lets the reranker order the candidates, if there is one.
    fn rerank(&self, question: &PipelineQuestion<'_>, passages: Vec<Passage>, errors: &mut Vec<RetrievalError>) -> Vec<Passage> {
        let Some(reranker) = &self.reranker else { return passages };
        let stage = RerankStage::new(reranker.clone()).top(self.top);
        let report = StageReport::default();
        let context = StageContext { query: question.text, asked: question.text, call: question.call.clone(), report: &report };
        let passages = stage.ordered(&context, passages);
        let (_, failed) = report.into_parts();
        errors.extend(failed.into_iter().map(|e| RetrievalError::of_step(stage.name(), e)));
        passages
    }
}

fn graph_share(k: usize) -> usize {
    (k / 2).max(GRAPH_K_MIN)
}

/// A hit, of its document's source; the collection, which was asked, stands for one that has none.
fn passage(collection: &str, retriever: &str, kind: ScoreKind, hit: Hit) -> Passage {
    let finding =
        Provenance { retriever: retriever.into(), source: collection.into(), id: hit.id.clone(), rank: hit.rank, score: hit.score };
    let source = hit.source.as_deref().unwrap_or(collection);
    Passage {
        score: Some(hit.score),
        score_kind: Some(kind),
        provenance: vec![finding],
        ..Passage::labelled(source, hit.id, hit.text, hit.metadata)
    }
}

impl Passage {
    /// A passage from elsewhere: `retriever` says from where (`web`), `source` is its address or whatever else it is cited by, `rank` its place there,
    /// from 0, and `score` what that place says of it (adrag gives every page of the web 0.7).
    ///
    /// # Errors
    /// `InvalidArgument` for a score that is not finite.
    pub fn external(retriever: &str, source: &str, title: &str, text: &str, rank: usize, score: f64) -> Result<Passage> {
        if !score.is_finite() {
            return Err(Error::InvalidArgument(format!("the score of a passage is a finite number; {score} was given")));
        }
        let finding = Provenance { retriever: retriever.into(), source: retriever.into(), id: String::new(), rank, score };
        Ok(Passage {
            id: String::new(),
            text: text.into(),
            title: title.into(),
            source: source.into(),
            filename: title.into(),
            source_id: retriever.into(),
            score: Some(score),
            score_kind: Some(ScoreKind::External),
            rerank_score: None,
            metadata: None,
            provenance: vec![finding],
        })
    }

    /// The earlier shape of five keys.
    ///
    /// # Errors
    /// `InvalidArgument` when the metadata is no JSON, which stored metadata always is.
    pub fn to_exported(&self) -> Result<Exported> {
        let metadata = self.metadata.as_ref().map_or("{}", |metadata| metadata.as_str());
        let metadata = RawValue::from_string(metadata.to_string())
            .map_err(|e| Error::InvalidArgument(format!("metadata of a passage is no JSON: {e}")))?;
        let score = self.score.unwrap_or(0.0);
        // Of passages that collapsed it is the one with the greatest score that is seen, the first of those.
        let seen = self.provenance.iter().find(|finding| finding.score == score).or(self.provenance.first());
        let source = match seen.map(|finding| finding.retriever.as_str()) {
            None => "unknown",
            Some("text") => "bm25",
            Some(other) => other,
        };
        Ok(Exported { content: self.text.clone(), metadata, score, source: source.into(), rerank_score: self.rerank_score.unwrap_or(0.0) })
    }
}

/// A passage in the earlier shape of five keys. An absent rerank score is 0.0 here, as it was there.
#[derive(Debug, Clone, Serialize)]
pub struct Exported {
    /// The text.
    pub content: String,
    /// The metadata, byte for byte; `{}` for none.
    pub metadata: Box<RawValue>,
    /// The retriever's score; 0.0 for none.
    pub score: f64,
    /// `vector`, `bm25`, `graph`, `web`, or the name of another retriever.
    pub source: String,
    /// The reranker's score; 0.0 when none ran.
    pub rerank_score: f64,
}

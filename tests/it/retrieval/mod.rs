//! The retrieval layer, through its public names: one test a promise. The stores and models here are small, and do what the traits say; what they
//! are asked is written down.

mod classic;
mod collection;
mod configured;
mod dispatching;
mod graph;
mod hybrid;
mod rewriting;
mod screening;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use triune::models::{Call, Cancellation, Embedder, LanguageModel, ModelError, ModelErrorKind, Prompt, TextRole, TokenCounter, Usage};
use triune::retrieval::{Body, Candidate, EntityGraph, Models, Passage, Retrieved, ScoreKind, Seed, SourceConfig, Store, Stores};
use triune::{Error, Metadata, Result};

/// What a source of a [`Shelf`] holds.
#[derive(Default, Clone)]
pub struct Source {
    /// Ids and scores by vector, best first.
    pub dense: Vec<(String, f64)>,
    /// Ids by words, best first.
    pub keyword: Vec<String>,
    /// Texts that are not made of the id.
    pub texts: BTreeMap<String, String>,
    /// Metadata of every document.
    pub metadata: Option<String>,
    pub seeds: Vec<Seed>,
    pub entity_seeds: Option<Vec<Seed>>,
    pub graph: EntityGraph,
    pub entities: u64,
    pub config: Option<SourceConfig>,
    /// Operations that fail.
    pub fails: Vec<&'static str>,
    /// How long each search takes.
    pub takes: Duration,
}

impl Source {
    /// Documents `<id>0`, `<id>1`, ... by vector, scores 0.9, 0.8, ...
    pub fn of(id: &str, documents: usize) -> Source {
        let dense = (0..documents).map(|i| (format!("{id}{i}"), (9 - i as i32) as f64 / 10.0)).collect();
        Source { dense, ..Source::default() }
    }

    pub fn failing(mut self, operation: &'static str) -> Source {
        self.fails.push(operation);
        self
    }

    fn tried(&self, operation: &'static str) -> Result<()> {
        std::thread::sleep(self.takes);
        if self.fails.contains(&operation) {
            return Err(Error::io(format!("{operation} on the shelf"), std::io::Error::other("made to fail")));
        }
        Ok(())
    }
}

/// A store in memory that writes down what it is asked.
#[derive(Default)]
pub struct Shelf {
    pub sources: BTreeMap<String, Source>,
    /// Whether bodies come with candidates.
    pub with_bodies: bool,
    pub embedder: Option<String>,
    pub log: Mutex<Vec<String>>,
    /// Cancelled by the first search.
    pub cancels: Option<Cancellation>,
    busy: AtomicUsize,
    pub busiest: AtomicUsize,
}

impl Shelf {
    pub fn new(sources: Vec<(&str, Source)>) -> Shelf {
        Shelf { sources: sources.into_iter().map(|(id, source)| (id.to_string(), source)).collect(), ..Shelf::default() }
    }

    /// One source for each id, of ten documents.
    pub fn tens(ids: &[&str]) -> Arc<Shelf> {
        Arc::new(Shelf::new(ids.iter().map(|id| (*id, Source::of(id, 10))).collect()))
    }

    fn source(&self, id: &str) -> Result<&Source> {
        self.sources.get(id).ok_or_else(|| Error::NotFound(format!("source {id:?}")))
    }

    fn body(&self, source: &Source, id: &str) -> Option<Body> {
        let text = source.texts.get(id).cloned().unwrap_or_else(|| format!("text of {id}"));
        let metadata = source.metadata.clone().map(|m| Metadata::from_json(m).unwrap());
        (text != "gone").then_some(Body { text, metadata })
    }

    fn candidate(&self, source: &Source, id: &str, score: Option<f64>) -> Candidate {
        Candidate { id: id.into(), score, body: if self.with_bodies { self.body(source, id) } else { None }, place: None }
    }

    pub fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    /// What was asked of one operation.
    pub fn told_of(&self, operation: &str) -> Vec<String> {
        self.told().into_iter().filter(|line| line.starts_with(operation)).collect()
    }

    fn note(&self, line: String) {
        self.log.lock().unwrap().push(line);
    }
}

impl Store for Shelf {
    fn dense_kind(&self) -> ScoreKind {
        ScoreKind::CosineSimilarity
    }

    fn dense(&self, _: &Call<'_>, source: &str, _: &[f32], k: usize, threshold: Option<f64>) -> Result<Vec<Candidate>> {
        self.note(format!("dense {source} k={k} threshold={threshold:?}"));
        self.busiest.fetch_max(self.busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let of = self.source(source)?;
        let tried = of.tried("dense");
        self.busy.fetch_sub(1, Ordering::SeqCst);
        tried?;
        if let Some(cancels) = &self.cancels {
            cancels.cancel();
        }
        let above = |found: &&(String, f64)| threshold.is_none_or(|t| found.1 >= t);
        Ok(of.dense.iter().filter(above).take(k).map(|(id, score)| self.candidate(of, id, Some(*score))).collect())
    }

    fn keyword(&self, _: &Call<'_>, source: &str, query: &str, k: usize) -> Result<Vec<Candidate>> {
        self.note(format!("keyword {source} k={k} {query}"));
        let of = self.source(source)?;
        of.tried("keyword")?;
        Ok(of.keyword.iter().take(k).map(|id| self.candidate(of, id, Some(7.0))).collect())
    }

    fn documents(&self, _: &Call<'_>, source: &str, ids: &[&str]) -> Result<Vec<Option<Body>>> {
        self.note(format!("documents {source} {}", ids.join(" ")));
        let of = self.source(source)?;
        of.tried("documents")?;
        Ok(ids.iter().map(|id| self.body(of, id)).collect())
    }

    fn entity_counts(&self, _: &Call<'_>, sources: &[&str]) -> Result<Vec<u64>> {
        self.note(format!("count {}", sources.join(" ")));
        sources.iter().map(|id| self.source(id).and_then(|s| s.tried("count").map(|()| s.entities))).collect()
    }

    fn entities_in(&self, _: &Call<'_>, source: &str, question: &str) -> Result<Vec<Seed>> {
        self.note(format!("entities {source} {question}"));
        let of = self.source(source)?;
        of.tried("entities")?;
        Ok(of.seeds.clone())
    }

    fn has_entity_vectors(&self, _: &Call<'_>, source: &str) -> Result<bool> {
        Ok(self.source(source)?.entity_seeds.is_some())
    }

    fn nearest_entities(&self, _: &Call<'_>, source: &str, _: &[f32], k: usize) -> Result<Vec<Seed>> {
        self.note(format!("nearest entities {source} k={k}"));
        let of = self.source(source)?;
        of.tried("nearest entities")?;
        Ok(of.entity_seeds.clone().unwrap_or_default())
    }

    fn entity_graph(&self, _: &Call<'_>, source: &str, seeds: &[Seed]) -> Result<EntityGraph> {
        self.note(format!("graph {source} {}", seeds.len()));
        let of = self.source(source)?;
        of.tried("graph")?;
        Ok(of.graph.clone())
    }

    fn embedder(&self, _: &str) -> Option<&str> {
        self.embedder.as_deref()
    }

    fn config(&self, _: &Call<'_>, source: &str) -> Result<Option<SourceConfig>> {
        let of = self.source(source)?;
        of.tried("config")?;
        Ok(of.config.clone())
    }
}

/// Embeds a text as its length, and writes down what it embeds and for what.
#[derive(Default)]
pub struct Lengths {
    pub asked: Mutex<Vec<String>>,
    pub fails: bool,
}

impl Embedder for Lengths {
    fn fingerprint(&self) -> &str {
        "lengths-v1"
    }
    fn dimension(&self) -> u32 {
        2
    }
    fn embed(&self, call: &Call<'_>, texts: &[&str], role: TextRole) -> std::result::Result<Vec<Vec<f32>>, ModelError> {
        assert_eq!(role, TextRole::Query);
        call.check()?;
        let line = |text: &&str| format!("{} {} {text}", call.purpose, call.request_id.unwrap_or("-"));
        self.asked.lock().unwrap().extend(texts.iter().map(line));
        if self.fails {
            return Err(ModelError::new(ModelErrorKind::Unavailable, "made to fail"));
        }
        if let Some(usage) = call.usage {
            usage.add(&call.purpose, Usage::of_call(3, 0));
        }
        Ok(texts.iter().map(|text| vec![text.len() as f32, 1.0]).collect())
    }
}

/// A language model that gives one reply to everything.
pub struct Replies {
    pub reply: std::result::Result<String, ModelError>,
    pub prompts: Mutex<Vec<(String, Prompt)>>,
}

impl Replies {
    pub fn with(reply: &str) -> Arc<Replies> {
        Arc::new(Replies { reply: Ok(reply.into()), prompts: Mutex::default() })
    }

    pub fn failing() -> Arc<Replies> {
        Arc::new(Replies { reply: Err(ModelError::new(ModelErrorKind::RateLimited, "made to fail")), prompts: Mutex::default() })
    }

    pub fn asked(&self) -> usize {
        self.prompts.lock().unwrap().len()
    }
}

impl LanguageModel for Replies {
    fn name(&self) -> &str {
        "replies"
    }
    fn complete(&self, call: &Call<'_>, prompt: &Prompt) -> std::result::Result<String, ModelError> {
        call.check()?;
        self.prompts.lock().unwrap().push((format!("{} {}", call.purpose, call.request_id.unwrap_or("-")), prompt.clone()));
        if let Some(usage) = call.usage {
            usage.add(&call.purpose, Usage::of_call(20, 4));
        }
        self.reply.clone()
    }
}

/// Counts bytes as tokens.
pub struct Bytes;

impl TokenCounter for Bytes {
    fn name(&self) -> &str {
        "bytes"
    }
    fn count(&self, text: &str) -> usize {
        text.len()
    }
}

/// Models of which only the embedder is there.
pub fn embedding() -> (Arc<Lengths>, Models) {
    let embedder = Arc::new(Lengths::default());
    (embedder.clone(), Models { embedder: Some(embedder), ..Models::default() })
}

/// As [`embedding`], with a counter.
pub fn counting() -> Models {
    Models { counter: Some(Arc::new(Bytes)), ..embedding().1 }
}

pub fn stores(shelf: &Arc<Shelf>) -> Stores {
    Stores::all_in(shelf.clone())
}

pub fn ids(passages: &[Passage]) -> Vec<&str> {
    passages.iter().map(|p| p.id.as_str()).collect()
}

/// Errors as lines: source, step and code.
pub fn errors(retrieved: &Retrieved) -> Vec<String> {
    errors_of(&retrieved.errors)
}

pub fn errors_of(errors: &[triune::retrieval::RetrievalError]) -> Vec<String> {
    errors.iter().map(|e| format!("{} {}: {}", e.source_id.as_deref().unwrap_or("-"), e.step, e.error.code())).collect()
}

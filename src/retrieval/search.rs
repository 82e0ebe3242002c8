//! One search: a question, the retrievers that take part, and the hits.

use super::fusion::{self, WeightedList, reciprocal_rank_fusion};
use crate::document::Metadata;
use crate::engine::{Collection, Nearest};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::ids::Seq;
use crate::options::{Effort, LegWeights, Scorer};
use crate::ranking::Scored;
use rustc_hash::FxHashMap;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Which retrievers answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// Nearest vectors.
    Vector,
    /// Best texts.
    Text,
    /// Documents that mention the query's entities, and those one step on.
    Graph,
    /// Documents by personalised PageRank around the query's entities.
    Ppr,
    /// Several of these, fused by reciprocal rank: see [`Legs`]. A leg that lacks its query vector or text is left out; the result says so.
    #[default]
    Hybrid,
}

impl Mode {
    /// The stable spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Vector => "vector",
            Mode::Text => "text",
            Mode::Graph => "graph",
            Mode::Ppr => "ppr",
            Mode::Hybrid => "hybrid",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = Error;
    fn from_str(s: &str) -> Result<Mode> {
        match s {
            "vector" => Ok(Mode::Vector),
            "text" => Ok(Mode::Text),
            "graph" => Ok(Mode::Graph),
            "ppr" => Ok(Mode::Ppr),
            "hybrid" => Ok(Mode::Hybrid),
            _ => Err(Error::InvalidArgument(format!("{s:?} is not a mode; known: vector, text, graph, ppr, hybrid"))),
        }
    }
}

/// How ranked lists become one: a document gains `weight / (constant + rank)` from each, rank from 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fusion {
    /// Flattens the difference between ranks. Positive. Default 60.
    pub constant: f64,
    /// How many hits each retriever contributes. Default: `max(k, clamp(2k, 20, 500))`.
    pub candidates: Option<usize>,
    /// Weight of the vector list: finite, not negative. Default: what the collection's [`crate::options::Schema::leg_weights`] says.
    pub vector_weight: Option<f64>,
    /// Weight of the text list, likewise.
    pub text_weight: Option<f64>,
    /// Weight of the graph list, likewise.
    pub graph_weight: Option<f64>,
}

/// The retrievers that mode `hybrid` fuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Legs {
    /// Nearest vectors.
    pub vector: bool,
    /// Best texts.
    pub text: bool,
    /// The entity graph, as mode `graph`.
    pub graph: bool,
}

impl Default for Legs {
    fn default() -> Self {
        Legs { vector: true, text: true, graph: false }
    }
}

/// The retriever whose scores rerank the first 50 hits of modes `graph` and `ppr`: each score is multiplied by 0.5 plus that retriever's score
/// of the document over the greatest one among the 50 (0 without one).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rerank {
    /// The vector retriever; needs a query vector.
    Dense,
    /// The text retriever.
    Text,
}

impl FromStr for Rerank {
    type Err = Error;
    fn from_str(s: &str) -> Result<Rerank> {
        match s {
            "dense" => Ok(Rerank::Dense),
            "text" => Ok(Rerank::Text),
            _ => Err(Error::InvalidArgument(format!("{s:?} is no reranking; known: dense, text"))),
        }
    }
}

impl Default for Fusion {
    fn default() -> Self {
        Fusion { constant: fusion::CONSTANT, candidates: None, vector_weight: None, text_weight: None, graph_weight: None }
    }
}

/// A question to one collection.
///
/// ```
/// use triune::{Mode, Search};
/// let search = Search { query: Some("torn tail".into()), mode: Mode::Text, k: 3, ..Search::default() };
/// ```
#[derive(Debug, Clone)]
pub struct Search {
    /// The question as text.
    pub query: Option<String>,
    /// The question as a vector of the collection's dimension.
    pub vector: Option<Vec<f32>>,
    /// Which retrievers answer. Default: hybrid.
    pub mode: Mode,
    /// The most hits to return, at most 1,000,000. 0 returns none. Default: 10.
    pub k: usize,
    /// How hard the vector retriever tries. Default: to find 98 of 100 of the true nearest.
    pub effort: Effort,
    /// The text scorer; the collection's own when absent.
    pub scorer: Option<Scorer>,
    /// Restricts the documents that are answers, never the statistics behind scores. There are min(k, matching documents that a retriever
    /// reaches) hits.
    pub filter: Option<Filter>,
    /// Steps of the graph retriever, 1 or 2. Default: 2.
    pub hops: u32,
    /// What mode `hybrid` fuses. Default: vector and text.
    pub legs: Legs,
    /// Reranks modes `graph` and `ppr`. Default: not at all.
    pub rerank: Option<Rerank>,
    /// How lists are fused.
    pub fusion: Fusion,
    /// Whether hits carry text and metadata. Default: true.
    pub bodies: bool,
    /// Whether the result explains an empty or surprising answer in its notes.
    pub explain: bool,
}

impl Default for Search {
    fn default() -> Self {
        Search {
            query: None,
            vector: None,
            mode: Mode::Hybrid,
            k: 10,
            effort: Effort::DEFAULT,
            scorer: None,
            filter: None,
            hops: 2,
            legs: Legs::default(),
            rerank: None,
            fusion: Fusion::default(),
            bodies: true,
            explain: false,
        }
    }
}

/// What one retriever said of a hit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetrieverRank {
    /// `"vector"`, `"text"`, `"graph"` or `"ppr"`.
    pub name: &'static str,
    /// Its place in that retriever's list, from 0.
    pub rank: usize,
    /// That retriever's score.
    pub score: f64,
}

/// A document that answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Its id.
    pub id: String,
    /// Cosine, inner product or negated squared distance in mode `vector`; BM25 in mode `text`; what its mentions add up to in `graph`, and its
    /// share of rank in `ppr`, both positive; the fused score, which is positive, in `hybrid`.
    pub score: f64,
    /// Its place, from 0.
    pub rank: usize,
    /// Its insertion number, which breaks ties.
    pub seq: Seq,
    /// Its text; empty when bodies were not asked for.
    pub text: String,
    /// Its metadata; `None` when bodies were not asked for.
    pub metadata: Option<Metadata>,
    /// Its source; `None` when bodies were not asked for.
    pub source: Option<String>,
    /// What each retriever that found it said.
    pub retrievers: Vec<RetrieverRank>,
}

/// The answer to a [`Search`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchResult {
    /// Best first.
    pub hits: Vec<Hit>,
    /// The retrievers that took part, also when they found nothing.
    pub retrievers: Vec<&'static str>,
    /// What a person should know: a retriever that could not take part, and with `explain` why an answer is empty.
    pub notes: Vec<String>,
    /// How the vector retriever went about it, when it took part: see [`crate::engine::Nearest`].
    pub vector_search: Option<VectorSearch>,
    /// Wall time of the search.
    pub took: Duration,
}

/// How nearest vectors were come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VectorSearch {
    /// Vector graphs that were walked.
    pub walks: u64,
    /// Segments of which the codes of all that the filter admits were compared.
    pub code_scans: u64,
    /// Vectors that were compared one by one.
    pub compared: u64,
}

/// The ranked list of one retriever.
struct List {
    name: &'static str,
    weight: f64,
    hits: Vec<Scored>,
    vector_search: Option<VectorSearch>,
}

impl Collection {
    /// Answers a search on this collection as it is in its snapshot.
    ///
    /// # Errors
    /// `InvalidArgument` when the mode needs a query or a vector that is not there, or for a vector that is not finite; `SchemaMismatch` for a
    /// vector of another dimension; `LimitExceeded` for a `k` above the limit; `Corrupt` when a file that the answer needs is damaged: never a
    /// shorter answer instead.
    pub fn search(&self, search: &Search) -> Result<SearchResult> {
        let start = Instant::now();
        check(search)?;
        let mut notes = Vec::new();
        let lists = self.lists(search, &mut notes)?;
        let vector_search = lists.iter().find_map(|l| l.vector_search);
        let mut hits = match lists.as_slice() {
            [only] => single(only),
            several => fused(several, &search.fusion, search.k),
        };
        hits.truncate(search.k);
        if search.explain && hits.is_empty() {
            notes.extend(self.why_empty(search));
        }
        let retrievers = lists.iter().map(|l| l.name).collect();
        let hits = hits.into_iter().enumerate().map(|(rank, r)| self.hit(search, rank, r)).collect::<Result<_>>()?;
        Ok(SearchResult { hits, retrievers, notes, vector_search, took: start.elapsed() })
    }

    fn lists(&self, search: &Search, notes: &mut Vec<String>) -> Result<Vec<List>> {
        match search.mode {
            Mode::Vector => Ok(vec![self.vector_leg(search, search.k)?]),
            Mode::Text => Ok(vec![self.text_leg(search, search.k)?]),
            Mode::Graph => Ok(vec![self.graph_leg(search, search.k)?]),
            Mode::Ppr => Ok(vec![self.pagerank_leg(search)?]),
            Mode::Hybrid => self.legs(search, notes),
        }
    }

    /// The lists that a hybrid search fuses.
    fn legs(&self, search: &Search, notes: &mut Vec<String>) -> Result<Vec<List>> {
        let (legs, query, vector) = (search.legs, search.query.is_some(), search.vector.is_some());
        let wanted = [("vector", legs.vector, vector), ("text", legs.text, query), ("graph", legs.graph, query)];
        let taking: Vec<&str> = wanted.iter().filter(|(_, wanted, can)| *wanted && *can).map(|(name, ..)| *name).collect();
        for (name, _, _) in wanted.iter().filter(|(_, wanted, can)| *wanted && !*can) {
            let lacks = if *name == "vector" { "query vector" } else { "query text" };
            let others = if taking.is_empty() { "no retriever takes part".into() } else { format!("taking part: {}", taking.join(", ")) };
            notes.push(format!("hybrid search without a {lacks}: the {name} retriever is left out; {others}"));
        }
        let k = if taking.len() > 1 { candidates(search) } else { search.k };
        let leg = |name: &str| match name {
            "vector" => self.vector_leg(search, k),
            "text" => self.text_leg(search, k),
            _ => self.graph_leg(search, k),
        };
        taking.into_iter().map(leg).collect()
    }

    fn vector_leg(&self, search: &Search, k: usize) -> Result<List> {
        let vector = search.vector.as_deref().ok_or_else(|| Error::InvalidArgument("mode vector needs a query vector".into()))?;
        let Nearest { hits, walks, code_scans, compared } = self.nearest_explained(vector, search.filter.as_ref(), k, search.effort)?;
        Ok(List {
            name: "vector",
            weight: weight(search.fusion.vector_weight, self.schema().leg_weights.vector),
            hits,
            vector_search: Some(VectorSearch { walks, code_scans, compared }),
        })
    }

    fn text_leg(&self, search: &Search, k: usize) -> Result<List> {
        let hits = self.best_texts(needed(search)?, search.scorer, search.filter.as_ref(), k)?;
        let weight = weight(search.fusion.text_weight, self.schema().leg_weights.text);
        Ok(List { name: "text", weight, hits, vector_search: None })
    }

    fn graph_leg(&self, search: &Search, k: usize) -> Result<List> {
        let reach = if search.mode == Mode::Graph { reach(search) } else { k };
        let hits = self.nearest_by_graph(needed(search)?, search.hops, search.filter.as_ref(), reach)?;
        let weight = weight(search.fusion.graph_weight, self.schema().leg_weights.graph);
        Ok(List { name: "graph", weight, hits: self.reranked(search, hits)?, vector_search: None })
    }

    fn pagerank_leg(&self, search: &Search) -> Result<List> {
        let hits = self.best_by_pagerank(needed(search)?, search.filter.as_ref(), reach(search))?;
        // It stands alone, so its weight is of no consequence.
        Ok(List { name: "ppr", weight: 1.0, hits: self.reranked(search, hits)?, vector_search: None })
    }

    /// Multiplies the first hits of a graph retriever by what another retriever says of them.
    fn reranked(&self, search: &Search, mut hits: Vec<Scored>) -> Result<Vec<Scored>> {
        let Some(rerank) = search.rerank.filter(|_| matches!(search.mode, Mode::Graph | Mode::Ppr)) else { return Ok(hits) };
        let first = hits.len().min(RERANKED);
        let scores = match rerank {
            Rerank::Text => self.text_scores_of(needed(search)?, search.scorer, &hits[..first])?,
            Rerank::Dense => {
                let vector = search.vector.as_deref();
                let vector = vector.ok_or_else(|| Error::InvalidArgument("reranking by dense needs a query vector".into()))?;
                self.vector_scores_of(vector, &hits[..first])?
            }
        };
        let greatest = scores.iter().map(|s| s.score).fold(0.0, f64::max);
        let by_seq: FxHashMap<Seq, f64> = scores.iter().map(|s| (s.seq, s.score)).collect();
        for hit in &mut hits[..first] {
            let score = by_seq.get(&hit.seq).copied().unwrap_or(0.0);
            hit.score *= 0.5 + if greatest > 0.0 { (score / greatest).max(0.0) } else { 0.0 };
        }
        hits[..first].sort_by(Scored::ranking);
        hits.truncate(search.k);
        Ok(hits)
    }

    fn hit(&self, search: &Search, rank: usize, ranked: Ranked) -> Result<Hit> {
        let mut hit = Hit {
            id: String::new(),
            score: ranked.score,
            rank,
            seq: ranked.scored.seq,
            text: String::new(),
            metadata: None,
            source: None,
            retrievers: ranked.retrievers,
        };
        if search.bodies {
            let document = self.document_of(&ranked.scored)?;
            (hit.id, hit.text, hit.metadata) = (document.id.into(), document.text.into(), document.metadata);
            hit.source = document.source.map(Into::into);
        } else {
            hit.id = self.id_of(&ranked.scored)?;
        }
        Ok(hit)
    }

    /// Why an answer may be empty, for `explain`.
    fn why_empty(&self, search: &Search) -> Option<String> {
        let documents = self.count();
        if documents == 0 {
            return Some("the collection has no documents".into());
        }
        let okapi = search.scorer.unwrap_or(self.schema().scorer) == Scorer::Okapi && search.mode != Mode::Vector;
        okapi.then(|| {
            format!(
                "okapi returns scores above 0 only: among {documents} documents, a term in half of them or more weighs nothing or less; the \
                 lucene scorer is always positive"
            )
        })
    }
}

/// The weight that a search gives, or else the collection's, which is in thousandths.
fn weight(given: Option<f64>, stored: u32) -> f64 {
    given.unwrap_or_else(|| LegWeights::factor(stored))
}

/// A hit before its document is read.
struct Ranked {
    scored: Scored,
    score: f64,
    retrievers: Vec<RetrieverRank>,
}

fn single(list: &List) -> Vec<Ranked> {
    let ranked = list.hits.iter().enumerate().map(|(rank, &scored)| Ranked {
        scored,
        score: scored.score,
        retrievers: vec![RetrieverRank { name: list.name, rank, score: scored.score }],
    });
    ranked.collect()
}

fn fused(lists: &[List], fusion: &Fusion, k: usize) -> Vec<Ranked> {
    let keys: Vec<Vec<Seq>> = lists.iter().map(|l| l.hits.iter().map(|h| h.seq).collect()).collect();
    let weighted: Vec<WeightedList<'_, Seq>> = lists.iter().zip(&keys).map(|(l, keys)| WeightedList { keys, weight: l.weight }).collect();
    let by_seq: FxHashMap<Seq, Scored> = lists.iter().flat_map(|l| l.hits.iter().map(|h| (h.seq, *h))).collect();
    let fused = reciprocal_rank_fusion(&weighted, fusion.constant, k);
    let ranked = fused.into_iter().map(|f| {
        let ranks = f
            .ranks
            .iter()
            .zip(lists)
            .filter_map(|(rank, list)| rank.map(|rank| RetrieverRank { name: list.name, rank, score: list.hits[rank].score }));
        Ranked { scored: by_seq[&f.key], score: f.score, retrievers: ranks.collect() }
    });
    ranked.collect()
}

/// Hits that are reranked.
const RERANKED: usize = 50;

/// How many hits of a graph retriever are needed: reranking looks at more than it returns.
fn reach(search: &Search) -> usize {
    if search.rerank.is_some() { search.k.max(RERANKED) } else { search.k }
}

fn needed(search: &Search) -> Result<&str> {
    search.query.as_deref().ok_or_else(|| Error::InvalidArgument(format!("mode {} needs a query", search.mode)))
}

fn candidates(search: &Search) -> usize {
    search.fusion.candidates.unwrap_or((search.k.saturating_mul(2)).clamp(20, 500)).max(search.k)
}

fn check(search: &Search) -> Result<()> {
    if search.mode == Mode::Hybrid && search.query.is_none() && search.vector.is_none() {
        return Err(Error::InvalidArgument("a search needs a query, a vector, or both; neither was given".into()));
    }
    let f = &search.fusion;
    if !(f.constant.is_finite() && f.constant > 0.0) {
        return Err(Error::InvalidArgument(format!("the fusion constant is a positive number; {} was given", f.constant)));
    }
    for (name, weight) in [("vector", f.vector_weight), ("text", f.text_weight), ("graph", f.graph_weight)] {
        if let Some(weight) = weight.filter(|w| !(w.is_finite() && *w >= 0.0)) {
            return Err(Error::InvalidArgument(format!("the {name} weight is a finite number of at least 0; {weight} was given")));
        }
    }
    Ok(())
}

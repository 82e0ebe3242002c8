//! One search: a question, the retrievers that take part, and the hits.

use super::fusion::{WeightedList, reciprocal_rank_fusion};
use crate::document::Metadata;
use crate::engine::Collection;
use crate::error::{Error, Result};
use crate::ids::Seq;
use crate::options::Scorer;
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
    /// Both, fused by reciprocal rank. Without a query vector, or without a query text, the other one alone; the result says so.
    #[default]
    Hybrid,
}

impl Mode {
    /// The stable spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Vector => "vector",
            Mode::Text => "text",
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
            "hybrid" => Ok(Mode::Hybrid),
            _ => Err(Error::InvalidArgument(format!("{s:?} is not a mode; known: vector, text, hybrid"))),
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
    /// Weight of the vector list: finite, not negative. Default 1.
    pub vector_weight: f64,
    /// Weight of the text list. Default 1.
    pub text_weight: f64,
}

impl Default for Fusion {
    fn default() -> Self {
        Fusion { constant: 60.0, candidates: None, vector_weight: 1.0, text_weight: 1.0 }
    }
}

/// A question to one collection.
///
/// ```
/// use triune::{Mode, Search};
/// let search = Search { query: Some("torn tail".into()), mode: Mode::Text, k: 3, ..Search::default() };
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// The question as text.
    pub query: Option<String>,
    /// The question as a vector of the collection's dimension.
    pub vector: Option<Vec<f32>>,
    /// Which retrievers answer. Default: hybrid.
    pub mode: Mode,
    /// The most hits to return, at most 1,000,000. 0 returns none. Default: 10.
    pub k: usize,
    /// Whether vectors are compared one by one. They always are until a collection has a vector graph.
    pub exact: bool,
    /// The text scorer; the collection's own when absent.
    pub scorer: Option<Scorer>,
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
            exact: false,
            scorer: None,
            fusion: Fusion::default(),
            bodies: true,
            explain: false,
        }
    }
}

/// What one retriever said of a hit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetrieverRank {
    /// `"vector"` or `"text"`.
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
    /// Cosine, inner product or negated squared distance in mode `vector`; BM25 in mode `text`; the fused score, which is positive, in `hybrid`.
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
    /// Wall time of the search.
    pub took: Duration,
}

/// The ranked list of one retriever.
struct List {
    name: &'static str,
    weight: f64,
    hits: Vec<Scored>,
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
        Ok(SearchResult { hits, retrievers, notes, took: start.elapsed() })
    }

    fn lists(&self, search: &Search, notes: &mut Vec<String>) -> Result<Vec<List>> {
        let (query, vector) = (search.query.as_deref(), search.vector.as_deref());
        let (wants_vector, wants_text) = match search.mode {
            Mode::Vector => (true, false),
            Mode::Text => (false, true),
            Mode::Hybrid => (vector.is_some(), query.is_some()),
        };
        if search.mode == Mode::Hybrid && wants_vector != wants_text {
            let (took, lacks) = if wants_text { ("text", "query vector") } else { ("vector", "query text") };
            notes.push(format!("hybrid search without a {lacks}: only the {took} retriever takes part"));
        }
        let k = match search.mode {
            Mode::Hybrid if wants_vector && wants_text => candidates(search),
            Mode::Vector | Mode::Text | Mode::Hybrid => search.k,
        };
        let mut lists = Vec::with_capacity(2);
        if wants_vector {
            let vector = vector.ok_or_else(|| Error::InvalidArgument("mode vector needs a query vector".into()))?;
            lists.push(List { name: "vector", weight: search.fusion.vector_weight, hits: self.nearest(vector, k)? });
        }
        if wants_text {
            let query = query.ok_or_else(|| Error::InvalidArgument("mode text needs a query".into()))?;
            lists.push(List { name: "text", weight: search.fusion.text_weight, hits: self.best_texts(query, search.scorer, k)? });
        }
        Ok(lists)
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
    for (name, weight) in [("vector", f.vector_weight), ("text", f.text_weight)] {
        if !(weight.is_finite() && weight >= 0.0) {
            return Err(Error::InvalidArgument(format!("the {name} weight is a finite number of at least 0; {weight} was given")));
        }
    }
    Ok(())
}

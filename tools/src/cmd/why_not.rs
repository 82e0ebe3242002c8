//! `triune search --why-not ID`: at which step a document fell out of an answer.
//!
//! Each retriever is asked for everything it finds, by comparing every vector, so that a rank is the true one; then the search is made as it
//! was asked for. The steps are those of a search: the collection, the filter, each retriever's list, the candidates of it that are fused,
//! the fused list, the first k.

use super::search::ranks;
use crate::output::{Counted, Name, Out, Outcome};
use serde_json::{Value, json};
use std::fmt::Write;
use triune::retrieval::fusion::{WeightedList, reciprocal_rank_fusion};
use triune::{Collection, Effort, Hit, Mode, Search, StoredDocument, limits};

pub(crate) fn run(collection: &Collection, search: &Search, id: &str, out: &mut Out) -> Outcome<()> {
    let verdict = judge(collection, search, id)?;
    if out.json() {
        let Verdict { step, why, legs, rank, score } = &verdict;
        return out.object(&json!({ "id": id, "step": step, "why": why, "rank": rank, "score": score, "legs": legs }));
    }
    out.line(format_args!("{}: {}", Name(id), verdict.why))?;
    verdict.legs.iter().try_for_each(|leg| out.line(format_args!("  {}: {}", leg["name"].as_str().unwrap_or_default(), words(&leg["why"]))))
}

fn words(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Where a document fell out.
#[derive(Debug, Default)]
struct Verdict {
    /// `collection`, `filter`, `retrievers`, `candidates`, `walk`, `k`, or `answer` for one that did not fall out.
    step: &'static str,
    /// The same, for people.
    why: String,
    /// What each retriever that took part says.
    legs: Vec<Value>,
    /// Its place in the list that the answer is the beginning of, from 0.
    rank: Option<usize>,
    /// Its score there.
    score: Option<f64>,
}

fn judge(collection: &Collection, search: &Search, id: &str) -> Outcome<Verdict> {
    let Some(document) = collection.get(id)? else {
        let mut why = format!("it is not in {}, which has {}", collection.name(), Counted(collection.count(), "document"));
        if let Some(source) = collection.source(id)? {
            let _ = write!(why, "; the source of that name has {}, each with an id of its own", Counted(source.documents, "document"));
        }
        return Ok(Verdict { step: "collection", why, ..Verdict::default() });
    };
    if let Some(filter) = &search.filter {
        let metadata = document.metadata.as_ref().map(triune::Metadata::to_object).unwrap_or_default();
        if !filter.matches(&metadata, &document.text, document.source.as_deref()) {
            let (admitted, all) = (collection.count_where(filter)?, collection.count());
            let why = format!("the filter excludes it; it admits {admitted} of {}", Counted(all, "document"));
            return Ok(Verdict { step: "filter", why, ..Verdict::default() });
        }
    }
    let answer = collection.search(&Search { bodies: false, ..search.clone() })?;
    let legs = answer.retrievers.iter().map(|name| Leg::ask(collection, search, name, &document)).collect::<Outcome<Vec<Leg>>>()?;
    let several = legs.len() > 1;
    let said = |legs: &[Leg]| legs.iter().map(|l| l.object(several.then(|| candidates(search)))).collect::<Vec<_>>();
    let verdict = Verdict { legs: said(&legs), ..Verdict::default() };
    if let Some(hit) = answer.hits.iter().find(|h| h.id == id) {
        let why = format!("it is in the answer, at rank {} with score {:.4} ({})", hit.rank + 1, hit.score, ranks(&hit.retrievers));
        return Ok(Verdict { step: "answer", why, rank: Some(hit.rank), score: Some(hit.score), ..verdict });
    }
    if legs.iter().all(|l| l.found.is_none()) {
        let why = format!("no retriever found it, of those that took part: {}", answer.retrievers.join(", "));
        return Ok(Verdict { step: "retrievers", why, ..verdict });
    }
    let reach = candidates(search);
    if several && legs.iter().all(|l| l.found.is_none_or(|rank| rank >= reach)) {
        let why = format!("it is below the first {reach} of every retriever, and only those are fused");
        return Ok(Verdict { step: "candidates", why, ..verdict });
    }
    Ok(match place(collection, search, &legs, id) {
        Some((rank, score)) if rank >= search.k => {
            let list = if several { "fused list" } else { "list" };
            let why = format!("it is at rank {} of the {list} with score {score:.4}, below the first {}", rank + 1, search.k);
            Verdict { step: "k", why, rank: Some(rank), score: Some(score), ..verdict }
        }
        _ => Verdict { step: "walk", why: "the walk of the vector graph missed it; --exact compares every vector".into(), ..verdict },
    })
}

/// How many hits of each retriever are fused.
fn candidates(search: &Search) -> usize {
    search.fusion.candidates.unwrap_or_else(|| (search.k.saturating_mul(2)).clamp(20, 500)).max(search.k)
}

/// Rank and score of a document in the whole list that the answer is the beginning of.
fn place(collection: &Collection, search: &Search, legs: &[Leg], id: &str) -> Option<(usize, f64)> {
    if let [only] = legs {
        return only.found.map(|rank| (rank, only.hits[rank].score));
    }
    let keys: Vec<Vec<&str>> = legs.iter().map(|l| l.hits.iter().take(candidates(search)).map(|h| h.id.as_str()).collect()).collect();
    let weighted = |(leg, keys)| WeightedList { keys, weight: Leg::weight(leg, collection, search) };
    let lists: Vec<WeightedList<'_, &str>> = legs.iter().zip(keys.iter().map(Vec::as_slice)).map(weighted).collect();
    let fused = reciprocal_rank_fusion(&lists, search.fusion.constant, usize::MAX);
    fused.iter().position(|f| f.key == id).map(|rank| (rank, fused[rank].score))
}

fn everything(collection: &Collection) -> usize {
    usize::try_from(collection.count()).unwrap_or(usize::MAX).clamp(1, limits::K_MAX)
}

/// What one retriever says of the document.
struct Leg {
    name: &'static str,
    /// All that it finds, best first.
    hits: Vec<Hit>,
    /// The rank of the document among them.
    found: Option<usize>,
    /// Why it is not among them.
    absent: &'static str,
}

impl Leg {
    fn ask(collection: &Collection, search: &Search, name: &'static str, document: &StoredDocument) -> Outcome<Leg> {
        let (mode, absent) = match name {
            "vector" if document.vector.is_none() => (Mode::Vector, "it has no vector"),
            "vector" => (Mode::Vector, "it is not among the nearest"),
            "text" => (Mode::Text, "it shares no term with the question"),
            "graph" => (Mode::Graph, "no entity of the question leads to it"),
            _ => (Mode::Ppr, "no entity of the question leads to it"),
        };
        let alone = Search { mode, k: everything(collection), effort: Effort::Exact, bodies: false, explain: false, ..search.clone() };
        let hits = collection.search(&alone)?.hits;
        let found = hits.iter().position(|h| h.id == *document.id);
        Ok(Leg { name, hits, found, absent })
    }

    fn weight(&self, collection: &Collection, search: &Search) -> f64 {
        let (stored, fusion) = (collection.schema().leg_weights, &search.fusion);
        let (given, stored) = match self.name {
            "vector" => (fusion.vector_weight, stored.vector),
            "text" => (fusion.text_weight, stored.text),
            _ => (fusion.graph_weight, stored.graph),
        };
        given.unwrap_or(f64::from(stored) / 1000.0)
    }

    fn object(&self, candidates: Option<usize>) -> Value {
        let Some(rank) = self.found else { return json!({ "name": self.name, "why": self.absent, "rank": null, "score": null }) };
        let score = self.hits[rank].score;
        let below = candidates.filter(|c| rank >= *c).map(|c| format!(", below the first {c}, which are fused")).unwrap_or_default();
        let why = format!("rank {} of {} with score {score:.4}{below}", rank + 1, self.hits.len());
        json!({ "name": self.name, "why": why, "rank": rank, "score": score })
    }
}

//! The graph retriever: documents by personalised PageRank around the entities of a question; classic where a source has no graph, or its graph
//! gives nothing.

use super::classic::nearest;
use super::gather::{Finding, Ranked, SourceAnswer, WORKERS_MAX, bodies, take};
use super::passage::ScoreKind;
use super::request::{Request, RetrievalError, Retrieved, Retriever, SourceRequest};
use super::store::{EntityGraph, Seed, Store};
use crate::error::{Error, Result};
use crate::graph::key;
use crate::graph::ppr::{Adjacency, personalized_pagerank};
use crate::graph::walk::ALPHA;
use crate::workers::side_by_side;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The name of the graph leg in provenances.
const GRAPH: &str = "graph";
/// Entities at which a walk starts, where entities have vectors.
const SEEDS_MAX: usize = 10;

/// Asks the graph of each source, and the vectors of those that have none.
///
/// *Seeds* are the 10 entities whose names' vectors are nearest to the question's, weighted by cosine similarity (below 0 counts nothing), where
/// the store has such vectors; else the entities that the question names, weighted by 1 / documents that mention them. Around them stands what
/// [`Store::entity_graph`] gives. An entity scores its personalised PageRank (alpha 0.85) / ln(2 + documents that mention it), a document the sum
/// over its entities; equal scores keep the store's order. Of a source the best `max(2k, k + 5)` that say anything are looked at, and the first
/// k that fit the budget given, where k is [`Request::top_k`].
///
/// A source without a graph is asked as by [`super::ClassicRetriever`], in its own place for the first of them and right behind it for the others.
/// One whose graph fails or gives nothing is asked so too, after all others; a failure is reported beside.
#[derive(Debug, Clone, Copy, Default)]
pub struct GraphRetriever;

impl Retriever for GraphRetriever {
    fn name(&self) -> &str {
        "graphrag"
    }

    fn search(&self, request: &Request<'_>) -> Retrieved {
        let mut retrieved = Retrieved::default();
        if request.is_idle() {
            return retrieved;
        }
        let mut seen = FxHashSet::default();
        let sources: Vec<&SourceRequest> = request.asked().into_iter().filter(|source| seen.insert(source.id.as_str())).collect();
        let has_graph = have_graphs(request, &sources, &mut retrieved);
        let answers = side_by_side(sources.len(), WORKERS_MAX, |i| {
            request.call.check()?;
            let store = request.store(&sources[i].id)?.as_ref();
            if has_graph[i] { walk(request, sources[i], store) } else { nearest(request, sources[i], store) }
        });
        let mut answers: Vec<Option<Result<SourceAnswer>>> = answers.into_iter().map(Some).collect();
        let retried = self.give_way(request, &sources, &has_graph, &mut answers, &mut retrieved);
        let mut ledger = request.ledger();
        for i in order(&has_graph) {
            if let Some(answer) = answers[i].take() {
                let step = if has_graph[i] { self.name() } else { "classic" };
                take(request, sources[i], step, answer, &mut ledger, &mut retrieved);
            }
        }
        for (i, answer) in retried {
            take(request, sources[i], "classic", answer, &mut ledger, &mut retrieved);
        }
        request.drain(&mut retrieved);
        retrieved
    }

    fn keeps_budget(&self) -> bool {
        true
    }
}

impl GraphRetriever {
    /// Takes the answers of graphs that failed or gave nothing out of `answers`, and asks the vectors of those sources.
    fn give_way(
        self,
        request: &Request<'_>,
        sources: &[&SourceRequest],
        has_graph: &[bool],
        answers: &mut [Option<Result<SourceAnswer>>],
        retrieved: &mut Retrieved,
    ) -> Vec<(usize, Result<SourceAnswer>)> {
        let mut retried = Vec::new();
        for (i, slot) in answers.iter_mut().enumerate().filter(|(i, _)| has_graph[*i]) {
            let id = &sources[i].id;
            match slot {
                Some(Ok(answer)) if answer.ranked.is_empty() => {
                    retrieved.notes.push(format!("source {id:?}: its graph gave nothing for the question; its vectors were asked"));
                    retrieved.notes.append(&mut answer.notes);
                    retrieved.errors.append(&mut answer.errors);
                }
                // Nobody waits for an answer any more.
                Some(Err(_)) if request.call.check().is_err() => continue,
                Some(Err(_)) => {
                    if let Some(Err(e)) = slot.take() {
                        retrieved.errors.push(RetrievalError::of_source(id, self.name(), e.noting("its vectors were asked instead")));
                    }
                }
                Some(Ok(_)) | None => continue,
            }
            *slot = None;
            retried.push(i);
        }
        let again = side_by_side(retried.len(), WORKERS_MAX, |j| {
            let source = sources[retried[j]];
            request.call.check()?;
            nearest(request, source, request.store(&source.id)?.as_ref())
        });
        retried.into_iter().zip(again).collect()
    }
}

/// The order in which sources are given: graphs in their own places, all others in the place of the first of them.
fn order(has_graph: &[bool]) -> Vec<usize> {
    let others: Vec<usize> = (0..has_graph.len()).filter(|i| !has_graph[*i]).collect();
    let mut order = Vec::with_capacity(has_graph.len());
    for (i, graph) in has_graph.iter().enumerate() {
        if *graph {
            order.push(i);
        } else if others.first() == Some(&i) {
            order.extend_from_slice(&others);
        }
    }
    order
}

/// Which sources have a graph; each store is asked once. Where that fails, there is none to rely on.
fn have_graphs(request: &Request<'_>, sources: &[&SourceRequest], retrieved: &mut Retrieved) -> Vec<bool> {
    let mut by_store: Vec<(&Arc<dyn Store>, Vec<usize>)> = Vec::new();
    for (i, source) in sources.iter().enumerate() {
        // One without a store is reported where it is asked.
        let Ok(store) = request.store(&source.id) else { continue };
        match by_store.iter_mut().find(|(known, _)| Arc::ptr_eq(known, store)) {
            Some((_, of_store)) => of_store.push(i),
            None => by_store.push((store, vec![i])),
        }
    }
    let mut have = vec![false; sources.len()];
    for (store, of_store) in by_store {
        let ids: Vec<&str> = of_store.iter().map(|i| sources[*i].id.as_str()).collect();
        match store.have_graphs(&request.call, &ids) {
            Ok(found) if found.len() != ids.len() => {
                let what =
                    format!("the store says of {} sources whether they have graphs, and {} were asked about", found.len(), ids.len());
                let error = Error::InvalidArgument(format!("{what}; the vectors of these were asked instead"));
                retrieved.errors.push(RetrievalError::of_source(ids[0], "counting entities", error));
            }
            Ok(found) => of_store.iter().zip(found).for_each(|(i, found)| have[*i] = found),
            Err(e) => {
                let error = e.noting(&format!("the vectors of {} sources were asked instead", ids.len()));
                retrieved.errors.push(RetrievalError::of_source(ids[0], "counting entities", error));
            }
        }
    }
    have
}

/// What the graph of a source says.
fn walk(request: &Request<'_>, source: &SourceRequest, store: &dyn Store) -> Result<SourceAnswer> {
    let mut answer = SourceAnswer::default();
    let seeds = seeds(request, source, store, &mut answer)?;
    if seeds.is_empty() {
        return Ok(answer);
    }
    request.call.check()?;
    let graph = store.entity_graph(&request.call, &source.id, &seeds)?;
    let k = request.top_k(source);
    let best = best(&graph, &seeds, k.saturating_mul(2).max(k.saturating_add(5)));
    request.call.check()?;
    let wanted: Vec<(&str, Option<u64>)> = best.iter().map(|(id, _)| (*id, None)).collect();
    let bodies = bodies(&request.call, store, &source.id, &wanted)?;
    for ((id, score), body) in best.iter().zip(bodies) {
        let Some(body) = body.filter(|body| !body.text.is_empty()) else { continue };
        let finding = Finding { leg: GRAPH, rank: answer.ranked.len(), score: *score };
        let (id, score, kind) = ((*id).to_string(), Some(*score), Some(ScoreKind::Graph));
        answer.ranked.push(Ranked { id, score, kind, findings: vec![finding], body: Some(body), place: None });
    }
    Ok(answer)
}

/// Where the walk of a source starts.
fn seeds(request: &Request<'_>, source: &SourceRequest, store: &dyn Store, answer: &mut SourceAnswer) -> Result<Vec<Seed>> {
    let question = request.question_for(source);
    if store.has_entity_vectors(&request.call, &source.id)? {
        let nearest = request
            .entity_vector_for(&source.id, &question)
            .and_then(|vector| store.nearest_entities(&request.call, &source.id, &vector, SEEDS_MAX));
        match nearest {
            Ok(seeds) if !seeds.is_empty() => return Ok(seeds),
            Ok(_) => {}
            Err(e) => {
                let error = e.noting("the walk started at the entities that the question names");
                answer.errors.push(RetrievalError::of_source(&source.id, "nearest entities", error));
            }
        }
    }
    store.entities_in(&request.call, &source.id, &question)
}

/// The best documents of a graph, best first, at most `most` and at least one of those there are.
fn best<'a>(graph: &'a EntityGraph, seeds: &[Seed], most: usize) -> Vec<(&'a str, f64)> {
    let Ok(nodes) = u32::try_from(graph.nodes.len()) else { return Vec::new() };
    let mut by_key: FxHashMap<Box<str>, usize> = FxHashMap::default();
    for (i, node) in graph.nodes.iter().enumerate() {
        by_key.entry(key(&node.name)).or_insert(i);
    }
    let mut weights = vec![0.0; graph.nodes.len()];
    for seed in seeds {
        if let Some(node) = by_key.get(&key(&seed.name)) {
            // `max` takes the other one of a number and what is none.
            weights[*node] += if seed.weight.is_finite() { seed.weight.max(0.0) } else { 0.0 };
        }
    }
    let ranks = personalized_pagerank(&Adjacency::from_edges(nodes, &graph.edges), &weights, ALPHA);
    let gain = |(rank, node): (f64, &super::store::EntityNode)| rank / (2.0 + node.documents as f64).ln();
    let gains: Vec<f64> = ranks.into_iter().zip(&graph.nodes).map(gain).collect();
    let score = |(id, of): &'a (String, Vec<u32>)| (id.as_str(), of.iter().filter_map(|n| gains.get(*n as usize)).sum::<f64>());
    let mut scored: Vec<(&str, f64)> = graph.documents.iter().map(score).collect();
    // Stable, so that equal scores keep the store's order.
    scored.sort_by(|a, b| b.1.total_cmp(&a.1));
    scored.truncate(most.max(1));
    scored
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieval::store::EntityNode;

    fn graph(edges: &[(u32, u32, f64)], documents: &[(&str, &[u32])], counts: &[u64]) -> EntityGraph {
        let node = |(i, documents): (usize, &u64)| EntityNode { name: format!("N{i}"), documents: *documents };
        EntityGraph {
            nodes: counts.iter().enumerate().map(node).collect(),
            edges: edges.to_vec(),
            documents: documents.iter().map(|(id, nodes)| (id.to_string(), nodes.to_vec())).collect(),
        }
    }

    fn seed(name: &str, weight: f64) -> Seed {
        Seed { name: name.into(), weight }
    }

    #[test]
    fn the_middle_of_a_chain_outranks_the_seed_at_its_end() {
        let chain = graph(&[(0, 1, 1.0), (1, 2, 1.0)], &[("a", &[0]), ("b", &[1]), ("c", &[2])], &[1, 1, 1]);
        let found = best(&chain, &[seed("n0", 1.0)], 10);
        assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), ["b", "a", "c"]);
        for ((_, score), rank) in found.iter().zip([0.459_459, 0.345_27, 0.195_27]) {
            assert!((score - rank / 3f64.ln()).abs() < 1e-5, "{score}");
        }
    }

    #[test]
    fn an_entity_that_many_documents_mention_counts_less() {
        let pair = graph(&[(0, 1, 1.0)], &[("rare", &[0]), ("common", &[1])], &[1, 50]);
        let found = best(&pair, &[seed("N0", 1.0), seed("N1", 1.0)], 10);
        assert_eq!(found[0].0, "rare");
        assert!((found[0].1 - 0.5 / 3f64.ln()).abs() < 1e-9 && (found[1].1 - 0.5 / 52f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn parallel_edges_add_up_and_weights_that_are_no_weights_count_nothing() {
        let documents: &[(&str, &[u32])] = &[("a", &[1]), ("b", &[2])];
        let strengthened = graph(&[(0, 2, 2.0), (0, 1, 1.5), (1, 0, 1.5)], documents, &[1, 1, 1]);
        assert_eq!(best(&strengthened, &[seed("n0", 1.0)], 1)[0].0, "a");
        let odd = [(0, 1, f64::NAN), (0, 1, -3.0), (0, 1, f64::INFINITY), (0, 9, 1.0), (0, 2, 1.0)];
        let odd = graph(&odd, &[("a", &[1]), ("b", &[2, 77])], &[1, 1, 1]);
        assert_eq!(best(&odd, &[seed("n0", 1.0)], 10)[0].0, "b");
    }

    #[test]
    fn seeds_that_count_nothing_are_all_alike() {
        let pair = graph(&[], &[("a", &[0]), ("b", &[1])], &[1, 1]);
        for weight in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            let found = best(&pair, &[seed("n0", weight)], 10);
            assert_eq!((found[0].1, found[0].0), (found[1].1, "a"), "{weight}");
        }
        assert!(best(&graph(&[], &[], &[]), &[seed("n0", 1.0)], 10).is_empty());
    }

    #[test]
    fn sources_without_a_graph_stand_where_the_first_of_them_stood() {
        assert_eq!(order(&[true, false, true, false]), [0, 1, 3, 2]);
        assert_eq!(order(&[false, false]), [0, 1]);
        assert_eq!(order(&[true, true]), [0, 1]);
        assert_eq!(order(&[]), [0usize; 0]);
    }
}

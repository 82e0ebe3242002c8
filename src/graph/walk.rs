//! Documents by PageRank around a question's entities.

use super::hops::{Scores, SeqOf, asked_for};
use super::part::GraphPart;
use super::ppr::{Adjacency, personalized_pagerank};
use super::union::Union;
use crate::error::Result;
use crate::ranking::Scored;
use rustc_hash::FxHashMap;

/// The part of a node's rank that its edges pass on.
pub const ALPHA: f64 = 0.85;
/// Steps from a seed to the farthest entity of the walk.
const HOPS: usize = 2;
/// Entities of the walk.
pub(super) const ENTITIES_MAX: usize = 500;

/// The best `k` documents by the walk named `docsgpt`, best first; equal scores in the order of their seqs.
///
/// 1. *Seeds* are the entities of the query's spellings that exist, with weight 1 / documents that mention the entity (1 when none does).
/// 2. Two entities are joined by their relations, in either direction, and by the documents that mention both: the weight of the edge is the
///    sum of the relations' weights, in the order of age, plus the number of the documents.
/// 3. The walk holds at most 500 entities: the seeds (by weight descending, then key, should they be more); then, twice, those joined to
///    the ones that the step before took in, by the sum of the weights of these edges descending, then by key in the order of its bytes, as
///    long as there is room. All edges between two of its entities count.
/// 4. The score of an entity is its personalised PageRank at alpha 0.85 / ln(2 + documents that mention it); that of a document is the sum
///    over the entities that it mentions, in the order of their keys.
///
/// `address.part` is the index in `parts`, which hold live rows only. O(edges of the entities in the walk).
pub fn docsgpt<P: GraphPart>(parts: &[P], forms: &[String], seq_of: SeqOf<'_>, k: usize) -> Result<Vec<Scored>> {
    let mut walk = Walk::new(parts)?;
    let seeds = walk.seeds(forms)?;
    if k == 0 || seeds.is_empty() {
        return Ok(Vec::new());
    }
    let mut nodes = walk.grow(&seeds, HOPS)?;
    nodes.sort_unstable_by(|a, b| walk.union.key(*a).cmp(walk.union.key(*b)));
    let graph = Adjacency::from_edges(nodes.len() as u32, &walk.edges(&nodes)?);
    let seed_weight = |node: &u32| seeds.iter().find(|s| s.0 == *node).map_or(0.0, |s| s.1);
    let ranks = personalized_pagerank(&graph, &nodes.iter().map(seed_weight).collect::<Vec<_>>(), ALPHA);
    let mut scores = Scores::new(parts.len());
    for (&node, rank) in nodes.iter().zip(ranks) {
        let documents = walk.union.documents(node)?;
        let gain = rank / (2.0 + documents.len() as f64).ln();
        documents.into_iter().for_each(|(part, row)| scores.add(part, row, gain));
    }
    scores.best(seq_of, k)
}

/// The entities met, and the neighbours of those that were looked at.
pub(super) struct Walk<'a, P> {
    pub(super) union: Union<'a, P>,
    near: FxHashMap<u32, Vec<(u32, f64)>>,
}

impl<'a, P: GraphPart> Walk<'a, P> {
    pub(super) fn new(parts: &'a [P]) -> Result<Walk<'a, P>> {
        Ok(Walk { union: Union::new(parts)?, near: FxHashMap::default() })
    }

    /// The seeds with their weights.
    pub(super) fn seeds(&mut self, forms: &[String]) -> Result<Vec<(u32, f64)>> {
        let mut seeds = Vec::new();
        for (entity, _) in asked_for(&mut self.union, forms)? {
            if let Some(documents) = self.existing(entity)? {
                seeds.push((entity, 1.0 / documents.max(1) as f64));
            }
        }
        self.keep(&mut seeds, ENTITIES_MAX);
        Ok(seeds)
    }

    /// The documents that mention an entity; `None` when it has no live mention and no live relation, so does not exist.
    pub(super) fn existing(&self, entity: u32) -> Result<Option<usize>> {
        let documents = self.union.documents(entity)?.len();
        let mut related = false;
        if documents == 0 {
            self.union.for_each_relation(entity, &mut |_, _| related = true)?;
        }
        Ok((documents > 0 || related).then_some(documents))
    }

    /// Keeps the first `room` by weight descending, then by key.
    pub(super) fn keep(&self, entities: &mut Vec<(u32, f64)>, room: usize) {
        entities.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then_with(|| self.union.key(a.0).cmp(self.union.key(b.0))));
        entities.truncate(room);
    }

    /// The entities within so many steps of the seeds, at most 500.
    pub(super) fn grow(&mut self, seeds: &[(u32, f64)], hops: usize) -> Result<Vec<u32>> {
        let mut nodes: Vec<u32> = seeds.iter().map(|s| s.0).collect();
        let mut frontier = nodes.clone();
        for _ in 0..hops {
            let room = ENTITIES_MAX - nodes.len();
            if room == 0 {
                break;
            }
            frontier.sort_unstable_by(|a, b| self.union.key(*a).cmp(self.union.key(*b)));
            let mut gained: FxHashMap<u32, f64> = FxHashMap::default();
            for &entity in &frontier {
                let near = near(&mut self.union, entity)?;
                for &(other, weight) in &near {
                    *gained.entry(other).or_insert(0.0) += weight;
                }
                self.near.insert(entity, near);
            }
            nodes.iter().for_each(|node| {
                gained.remove(node);
            });
            let mut found: Vec<(u32, f64)> = gained.into_iter().collect();
            self.keep(&mut found, room);
            frontier = found.into_iter().map(|f| f.0).collect();
            nodes.extend_from_slice(&frontier);
        }
        Ok(nodes)
    }

    /// All edges between `nodes`, numbered in the order given.
    pub(super) fn edges(&mut self, nodes: &[u32]) -> Result<Vec<(u32, u32, f64)>> {
        let number: FxHashMap<u32, u32> = nodes.iter().zip(0u32..).map(|(node, number)| (*node, number)).collect();
        let mut edges = Vec::new();
        for (from, &node) in (0u32..).zip(nodes) {
            let near = match self.near.remove(&node) {
                Some(near) => near,
                None => among(&self.union, node)?,
            };
            // Each edge is seen from both ends; it is taken from the one that comes first.
            for (other, weight) in near {
                if let Some(&to) = number.get(&other)
                    && from <= to
                {
                    edges.push((from, to, weight));
                }
            }
        }
        Ok(edges)
    }
}

/// Weights of the edges of one entity, gathered.
#[derive(Default)]
struct Edges {
    related: FxHashMap<u32, f64>,
    shared: FxHashMap<u32, u32>,
}

impl Edges {
    fn finish(self) -> Vec<(u32, f64)> {
        let mut weights = self.related;
        for (entity, documents) in self.shared {
            *weights.entry(entity).or_insert(0.0) += f64::from(documents);
        }
        let mut edges: Vec<(u32, f64)> = weights.into_iter().collect();
        edges.sort_unstable_by_key(|e| e.0);
        edges
    }
}

/// The entities joined to `entity`, with the weights of the edges; itself by a self-loop.
pub(super) fn near<P: GraphPart>(union: &mut Union<'_, P>, entity: u32) -> Result<Vec<(u32, f64)>> {
    let mut edges = Edges::default();
    for (part, ordinal) in union.places(entity).to_vec() {
        let (related, shared) = ends(union, part, ordinal)?;
        for (other, weight) in related {
            *edges.related.entry(union.by_ordinal(part, other)?).or_insert(0.0) += weight;
        }
        for (other, documents) in shared {
            *edges.shared.entry(union.by_ordinal(part, other)?).or_insert(0) += documents;
        }
    }
    Ok(edges.finish())
}

/// As [`near`], but only the entities that were met already.
fn among<P: GraphPart>(union: &Union<'_, P>, entity: u32) -> Result<Vec<(u32, f64)>> {
    let mut edges = Edges::default();
    for &(part, ordinal) in union.places(entity) {
        let (related, shared) = ends(union, part, ordinal)?;
        for (other, weight) in related {
            if let Some(other) = union.known(part, other) {
                *edges.related.entry(other).or_insert(0.0) += weight;
            }
        }
        for (other, documents) in shared {
            if let Some(other) = union.known(part, other) {
                *edges.shared.entry(other).or_insert(0) += documents;
            }
        }
    }
    Ok(edges.finish())
}

/// The other ends of an entity's relations in one part, by age, and how many documents each other entity shares with it, by ordinal.
type Ends = (Vec<(u32, f64)>, Vec<(u32, u32)>);

fn ends<P: GraphPart>(union: &Union<'_, P>, part: u32, ordinal: u32) -> Result<Ends> {
    let p = union.part(part);
    let mut related = Vec::new();
    p.for_each_relation(ordinal, &mut |edge| related.push((edge.other, edge.weight)))?;
    let mut rows = Vec::new();
    p.for_each_document(ordinal, &mut |edge| rows.push(edge.row))?;
    let mut counts: FxHashMap<u32, u32> = FxHashMap::default();
    for row in rows {
        p.for_each_entity(row, &mut |other| {
            if other != ordinal {
                *counts.entry(other).or_insert(0) += 1;
            }
        })?;
    }
    let mut shared: Vec<(u32, u32)> = counts.into_iter().collect();
    shared.sort_unstable();
    Ok((related, shared))
}

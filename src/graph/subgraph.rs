//! The surroundings of some entities: nodes, edges, and the documents that they stand in.

use super::extract::key;
use super::part::GraphPart;
use super::walk::{ENTITIES_MAX, Walk};
use crate::error::Result;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// Edges of a subgraph.
pub const EDGES_MAX: usize = 2_000;
/// Steps from a seed to the farthest entity.
pub const HOPS: usize = 1;

/// The entities of some spellings that exist, and what each counts: 1 / documents that mention it, 1 when none does. By weight descending, then
/// by key; at most 500. O(documents that mention them).
pub fn seeds<P: GraphPart>(parts: &[P], forms: &[String]) -> Result<Vec<(Box<str>, f64)>> {
    let mut walk = Walk::new(parts)?;
    let seeds = walk.seeds(forms)?;
    Ok(seeds.into_iter().map(|(entity, weight)| (walk.union.key(entity).into(), weight)).collect())
}

/// Entities with the edges between them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Subgraph {
    /// The key of each node, ascending by its bytes.
    pub keys: Vec<Box<str>>,
    /// The documents that mention each node.
    pub documents: Vec<u64>,
    /// Two nodes, the first not above the second, and the weight of what joins them: finite and above 0.
    pub edges: Vec<(u32, u32, f64)>,
    /// Part and row of each document that mentions a node, ascending, with the nodes that it mentions, ascending.
    pub links: Vec<((u32, u32), Vec<u32>)>,
}

/// The entities one step around `seeds`, which are names and weights; a name that no live document mentions or relates is passed over.
///
/// Two entities are joined by their relations, in either direction, and by the documents that mention both: the weight of an edge is the sum of
/// the relations' weights, in the order of age, plus the number of the documents. There are at most 500 nodes: the seeds (by weight descending,
/// then key, should they be more), then those joined to them by the sum of the weights of these edges descending, then by key. Of the edges
/// between them 2,000 are kept: those of the seeds before all others, so that none is cut off, then the heaviest, equal ones by the keys of their ends. O(edges of the nodes).
pub fn around<P: GraphPart>(parts: &[P], seeds: &[(&str, f64)]) -> Result<Subgraph> {
    let mut walk = Walk::new(parts)?;
    let mut found: Vec<(u32, f64)> = Vec::with_capacity(seeds.len());
    for (name, weight) in seeds {
        let Some(entity) = walk.union.by_key(&key(name))? else { continue };
        if walk.existing(entity)?.is_some() && found.iter().all(|f| f.0 != entity) {
            found.push((entity, *weight));
        }
    }
    walk.keep(&mut found, ENTITIES_MAX);
    let mut nodes = walk.grow(&found, HOPS)?;
    nodes.sort_unstable_by(|a, b| walk.union.key(*a).cmp(walk.union.key(*b)));
    let mut edges = walk.edges(&nodes)?;
    if edges.len() > EDGES_MAX {
        let is_seed: Vec<bool> = nodes.iter().map(|node| found.iter().any(|seed| seed.0 == *node)).collect();
        let apart = |e: &(u32, u32, f64)| !(is_seed[e.0 as usize] || is_seed[e.1 as usize]);
        // Nodes are numbered by their keys, so their numbers order equal weights.
        edges.sort_unstable_by(|a, b| apart(a).cmp(&apart(b)).then(b.2.total_cmp(&a.2)).then((a.0, a.1).cmp(&(b.0, b.1))));
        edges.truncate(EDGES_MAX);
        edges.sort_unstable_by_key(|e| (e.0, e.1));
    }
    let mut links: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    let mut documents = Vec::with_capacity(nodes.len());
    for (number, &node) in (0u32..).zip(&nodes) {
        let mentioning = walk.union.documents(node)?;
        documents.push(mentioning.len() as u64);
        mentioning.into_iter().for_each(|place| links.entry(place).or_default().push(number));
    }
    let keys = nodes.iter().map(|&node| walk.union.key(node).into()).collect();
    Ok(Subgraph { keys, documents, edges, links: links.into_iter().collect() })
}

/// How many entities documents mention: distinct keys over all parts. O(mentions of the rows).
pub fn mentioned<P: GraphPart>(parts: &[P], rows: impl Iterator<Item = (usize, u32)>) -> Result<u64> {
    let mut keys: FxHashSet<Box<str>> = FxHashSet::default();
    let mut seen: Vec<FxHashSet<u32>> = vec![FxHashSet::default(); parts.len()];
    for (part, row) in rows {
        let mut fresh = Vec::new();
        parts[part].for_each_entity(row, &mut |entity| {
            if seen[part].insert(entity) {
                fresh.push(entity);
            }
        })?;
        for entity in fresh {
            keys.insert(parts[part].key(entity)?.into());
        }
    }
    Ok(keys.len() as u64)
}

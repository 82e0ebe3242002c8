//! Entities, their neighbours, the whole graph, and statistics.

use super::extract::key;
use super::part::GraphPart;
use super::ppr::Adjacency;
use super::union::Union;
use super::walk::near;
use crate::error::Result;

/// One entity and what holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityView {
    /// Its key: the name in lower case.
    pub key: Box<str>,
    /// Its first spelling: that of the oldest live document that mentions or relates it.
    pub name: Box<str>,
    /// Documents that mention it.
    pub documents: u64,
    /// How often they do, together.
    pub occurrences: u64,
    /// Relations that it has an end of.
    pub relations: u64,
}

/// An entity joined to another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbour {
    /// Its key.
    pub key: Box<str>,
    /// Its first spelling.
    pub name: Box<str>,
    /// Relations between the two, in either direction.
    pub relations: u64,
    /// The sum of their weights, in the order of age.
    pub weight: f64,
    /// Documents that mention both; 0 for the entity itself, which a self-loop joins to itself.
    pub documents: u64,
}

/// Counts over the live documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GraphStatistics {
    /// Entities that a live document mentions.
    pub entities: u64,
    /// Entities that a live document mentions or relates: those that exist.
    pub nodes: u64,
    /// Document-entity edges.
    pub mentions: u64,
    /// Relations.
    pub relations: u64,
    /// Pairs of entities that some document mentions both of.
    pub cooccurrences: u64,
}

/// All entities that exist, with their edges.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeGraph {
    /// The key of every node, ascending by its bytes.
    pub keys: Vec<Box<str>>,
    /// Nodes are the positions in `keys`.
    pub adjacency: Adjacency,
}

impl WholeGraph {
    /// The node of an entity, in whatever spelling.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.keys.binary_search_by(|k| k.as_bytes().cmp(key(name).as_bytes())).ok()
    }
}

/// The entity called `name`, in whatever spelling; `None` when it does not exist. O(its edges).
pub fn entity<P: GraphPart>(parts: &[P], name: &str) -> Result<Option<EntityView>> {
    let mut union = Union::new(parts)?;
    let Some(entity) = union.by_key(&key(name))? else { return Ok(None) };
    let Some(name) = union.display_name(entity)? else { return Ok(None) };
    let (mut documents, mut occurrences, mut relations) = (0, 0, 0);
    for &(part, ordinal) in union.places(entity) {
        union.part(part).for_each_document(ordinal, &mut |edge| {
            documents += 1;
            occurrences += u64::from(edge.occurrences);
        })?;
    }
    union.for_each_relation(entity, &mut |_, _| relations += 1)?;
    Ok(Some(EntityView { key: union.key(entity).into(), name, documents, occurrences, relations }))
}

/// Whether a live document mentions or relates the entity of this key. O(its edges).
pub fn exists<P: GraphPart>(parts: &[P], key: &str) -> Result<bool> {
    for part in parts {
        let Some(entity) = part.entity(key)? else { continue };
        let mut found = false;
        part.for_each_document(entity, &mut |_| found = true)?;
        if !found {
            part.for_each_relation(entity, &mut |_| found = true)?;
        }
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Key and first spelling of every entity that exists, by key. O(edges).
pub fn names<P: GraphPart>(parts: &[P]) -> Result<Vec<(Box<str>, Box<str>)>> {
    let union = Union::all(parts)?;
    let mut names = Vec::new();
    for entity in 0..union.len() {
        if let Some(name) = union.display_name(entity)? {
            names.push((union.key(entity).into(), name));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The entities joined to the one called `name` by relations or documents, by weight and documents together descending, then by key; the
/// entity itself when a self-loop joins it. Nothing when it does not exist. O(its edges, those of its documents and of its neighbours).
pub fn neighbours<P: GraphPart>(parts: &[P], name: &str) -> Result<Vec<Neighbour>> {
    let mut union = Union::new(parts)?;
    let Some(entity) = union.by_key(&key(name))? else { return Ok(Vec::new()) };
    let joined = near(&mut union, entity)?;
    // By entity, so that both sums have the order of `near`.
    let mut relations = vec![(0u64, 0f64); union.len() as usize];
    union.for_each_relation(entity, &mut |part, edge| {
        if let Some(other) = union.known(part, edge.other) {
            let (count, weight) = &mut relations[other as usize];
            *count += 1;
            // Two of the greatest numbers have no sum.
            *weight = (*weight + edge.weight).min(f64::MAX);
        }
    })?;
    let own = union.documents(entity)?;
    let mut found = Vec::with_capacity(joined.len());
    for (other, joint) in joined {
        let (count, weight) = relations[other as usize];
        let documents = if other == entity { 0 } else { shared(&own, &union.documents(other)?) };
        let Some(name) = union.display_name(other)? else { continue };
        found.push((joint, Neighbour { key: union.key(other).into(), name, relations: count, weight, documents }));
    }
    found.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.key.cmp(&y.key)));
    Ok(found.into_iter().map(|(_, neighbour)| neighbour).collect())
}

/// How many documents stand in both lists, which ascend.
fn shared(a: &[(u32, u32)], b: &[(u32, u32)]) -> u64 {
    let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
    few.iter().filter(|d| many.binary_search(d).is_ok()).count() as u64
}

/// As [`statistics`], without the pairs. O(edges).
pub fn counts<P: GraphPart>(parts: &[P]) -> Result<GraphStatistics> {
    let union = Union::all(parts)?;
    let mut counts = GraphStatistics::default();
    for entity in 0..union.len() {
        let documents = union.documents(entity)?.len() as u64;
        let mut related = false;
        union.for_each_relation(entity, &mut |_, edge| {
            related = true;
            counts.relations += u64::from(edge.outgoing);
        })?;
        counts.mentions += documents;
        counts.entities += u64::from(documents > 0);
        counts.nodes += u64::from(documents > 0 || related);
    }
    Ok(counts)
}

/// Counts over all parts. O(the sum over all documents of the square of the entities that they mention).
pub fn statistics<P: GraphPart>(parts: &[P]) -> Result<GraphStatistics> {
    let union = Union::all(parts)?;
    let mut counts = GraphStatistics::default();
    // By entity: 1 + the entity that was last found beside it.
    let mut beside = vec![0u32; union.len() as usize];
    for entity in 0..union.len() {
        let documents = union.documents(entity)?;
        for &(part, row) in &documents {
            union.part(part).for_each_entity(row, &mut |other| {
                if let Some(other) = union.known(part, other)
                    && other > entity
                    && beside[other as usize] != entity + 1
                {
                    beside[other as usize] = entity + 1;
                    counts.cooccurrences += 1;
                }
            })?;
        }
        let mut related = false;
        union.for_each_relation(entity, &mut |_, edge| {
            related = true;
            counts.relations += u64::from(edge.outgoing);
        })?;
        counts.mentions += documents.len() as u64;
        counts.entities += u64::from(!documents.is_empty());
        counts.nodes += u64::from(!documents.is_empty() || related);
    }
    Ok(counts)
}

/// The graph of all entities that exist: joined by their relations, and, when `shared_documents` is set, by the documents that mention both
/// (weight 1 a document). O(all edges), those between entities of one document included when they are asked for.
pub fn whole<P: GraphPart>(parts: &[P], shared_documents: bool) -> Result<WholeGraph> {
    let mut union = Union::all(parts)?;
    let relations = by_age(&union)?;
    let mut exists = vec![false; union.len() as usize];
    for relation in &relations {
        exists[relation.source as usize] = true;
        exists[relation.target as usize] = true;
    }
    let mut nodes = Vec::with_capacity(exists.len());
    for entity in 0..union.len() {
        if exists[entity as usize] || union.is_mentioned(entity)? {
            nodes.push(entity);
        }
    }
    nodes.sort_unstable_by(|a, b| union.key(*a).cmp(union.key(*b)));
    let mut number = vec![u32::MAX; union.len() as usize];
    (0u32..).zip(&nodes).for_each(|(n, &entity)| number[entity as usize] = n);
    let mut edges = Vec::new();
    if shared_documents {
        for (from, &entity) in (0u32..).zip(&nodes) {
            // Each edge is seen from both ends.
            let near = near(&mut union, entity)?.into_iter().map(|(other, weight)| (from, number[other as usize], weight));
            edges.extend(near.filter(|(from, to, _)| from <= to));
        }
    } else {
        edges.extend(relations.iter().map(|r| (number[r.source as usize], number[r.target as usize], r.weight)));
    }
    let keys = nodes.iter().map(|&entity| union.key(entity).into()).collect();
    Ok(WholeGraph { keys, adjacency: Adjacency::from_edges(nodes.len() as u32, &edges) })
}

/// A relation between two entities of a union.
struct Joined {
    /// Part, row and index: sums have the order of age, however documents are spread over parts.
    age: (u32, u32, u32),
    source: u32,
    target: u32,
    weight: f64,
}

/// Every relation, the oldest first.
fn by_age<P: GraphPart>(union: &Union<'_, P>) -> Result<Vec<Joined>> {
    let mut relations = Vec::new();
    for source in 0..union.len() {
        for &(part, ordinal) in union.places(source) {
            union.part(part).for_each_outgoing(ordinal, &mut |edge| {
                if let Some(target) = union.known(part, edge.other) {
                    relations.push(Joined { age: (part, edge.row, edge.index), source, target, weight: edge.weight });
                }
            })?;
        }
    }
    relations.sort_unstable_by_key(|r| r.age);
    Ok(relations)
}

//! Holds what a snapshot says of entities, relations and PageRank against the model.

use super::graph::{Graph, forms};
use super::model::{Collection, Model};
use super::operations::ENTITIES;
use super::oracle::{Questions, ranked};
use std::collections::{BTreeMap, BTreeSet};
use triune::{EntityView, ErrorCode, Mode, Neighbour, Search, Snapshot};

/// How far a rank may be from the one computed here.
const TOLERANCE: f64 = 1e-9;

pub fn check(found: &triune::Collection, name: &str, expected: &Collection, graph: &Graph<'_>, q: &mut Questions) {
    let known: BTreeSet<String> = graph.nodes.iter().cloned().chain(ENTITIES.map(str::to_lowercase)).collect();
    for key in &known {
        check_entity(found, name, graph, key);
    }
    let known: Vec<&String> = known.iter().collect();
    check_neighbours(found, name, graph, known[q.pick(known.len())]);
    check_pagerank(found, name, graph, q);
    let query = query(expected, graph, q);
    let forms = forms(&query, expected.extractor);
    let (k, hops) = ([0, 1, 3, 1000][q.pick(4)], 1 + q.pick(2) as u32);
    let about = format!("{name}: {query:?} k {k}");
    let search = |mode| hits(found, mode, &query, hops, k);
    ranked(&search(Mode::Graph), expected, &graph.hops(&forms, hops), k, |_, _| true, &format!("{about}: graph, {hops} hops"));
    ranked(&search(Mode::Ppr), expected, &graph.walk(&forms), k, |_, _| false, &format!("{about}: ppr"));
}

fn hits(found: &triune::Collection, mode: Mode, query: &str, hops: u32, k: usize) -> Vec<(String, f64)> {
    let result = found.search(&Search { query: Some(query.into()), mode, k, hops, ..Search::default() }).unwrap();
    result.hits.into_iter().map(|h| (h.id, h.score)).collect()
}

/// A query with some entities in it, mostly such that exist, and in some spelling of theirs.
fn query(expected: &Collection, graph: &Graph<'_>, q: &mut Questions) -> String {
    let mut names: Vec<&str> = expected.documents.iter().flat_map(|d| d.mentions.iter().map(|m| m.name.as_str())).collect();
    names.extend(graph.edges.iter().map(|e| e.relation.source.as_str()));
    names.extend(ENTITIES);
    (0..1 + q.pick(3)).map(|_| names[q.pick(names.len())]).collect::<Vec<_>>().join(", ")
}

fn check_entity(found: &triune::Collection, name: &str, graph: &Graph<'_>, key: &str) {
    let wanted = graph.name(key).map(|spelling| EntityView {
        key: key.into(),
        name: spelling.into(),
        documents: graph.documents_of(key).len() as u64,
        occurrences: graph.occurrences(key),
        relations: graph.edges.iter().filter(|e| e.ends.iter().any(|end| end == key)).count() as u64,
    });
    assert_eq!(found.entity(&key.to_uppercase()).unwrap(), wanted, "{name}: entity {key:?}");
}

fn check_neighbours(found: &triune::Collection, name: &str, graph: &Graph<'_>, key: &str) {
    let mut joined: Vec<_> = graph.joined(key).into_iter().collect();
    // Stable, and the keys ascend.
    joined.sort_by(|a, b| b.1.strength().total_cmp(&a.1.strength()));
    let wanted: Vec<Neighbour> = joined
        .into_iter()
        .map(|(key, joint)| Neighbour {
            name: graph.name(&key).unwrap().into(),
            key: key.into(),
            relations: joint.relations,
            weight: joint.weight,
            documents: joint.documents,
        })
        .collect();
    assert_eq!(found.neighbours(key).unwrap(), wanted, "{name}: neighbours of {key:?}");
}

fn check_pagerank(found: &triune::Collection, name: &str, graph: &Graph<'_>, q: &mut Questions) {
    let nodes: Vec<&String> = graph.nodes.iter().collect();
    let count = if nodes.is_empty() { 0 } else { q.pick(3) };
    let seeds: Vec<(String, f64)> = (0..count).map(|_| (nodes[q.pick(nodes.len())].to_uppercase(), q.pick(3) as f64)).collect();
    let mut weights: BTreeMap<String, f64> = BTreeMap::new();
    seeds.iter().for_each(|(seed, weight)| *weights.entry(seed.to_lowercase()).or_default() += weight);
    let wanted = graph.pagerank(&weights);
    let ranks = found.pagerank(&seeds).unwrap();
    let about = format!("{name}: pagerank from {seeds:?}: {ranks:?}, expected {wanted:?}");
    assert_eq!(ranks.iter().map(|(key, _)| key).collect::<BTreeSet<_>>(), wanted.keys().collect(), "{about}");
    assert!(ranks.iter().all(|(key, rank)| (rank - wanted[key]).abs() < TOLERANCE), "{about}");
    assert!(ranks.windows(2).all(|w| w[0].1 > w[1].1 || (w[0].1 == w[1].1 && w[0].0 < w[1].0)), "{about}: out of order");
    let unknown = found.pagerank(&[("Nobody".into(), 1.0)]).unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::NotFound, "{name}");
}

/// Answers that depend on the live documents alone, bit by bit: what checkpoints, merges and reopening must leave as it is.
pub fn answers(snapshot: &Snapshot, model: &Model) -> Vec<String> {
    let mut answers = Vec::new();
    for (name, expected) in &model.collections {
        let (found, graph) = (snapshot.collection(name).unwrap(), Graph::of(expected));
        let bits = |all: Vec<(String, f64)>| all.into_iter().map(|(id, score)| (id, score.to_bits())).collect::<Vec<_>>();
        let mut q = Questions::new(graph.nodes.len() as u64);
        for _ in 0..2 {
            let query = query(expected, &graph, &mut q);
            let walked = [Mode::Ppr, Mode::Graph].map(|mode| bits(hits(&found, mode, &query, 2, 1000)));
            answers.push(format!("{name}: {query}: {walked:?}"));
        }
        let seeds: Vec<(String, f64)> = graph.nodes.iter().take(2).map(|node| (node.clone(), 1.0)).collect();
        answers.push(format!("{name}: from {seeds:?}: {:?}", bits(found.pagerank(&seeds).unwrap())));
        if let Some((node, _)) = seeds.first() {
            answers.push(format!("{name}: beside {node}: {:?}", found.neighbours(node).unwrap()));
        }
    }
    answers
}

//! Random documents, relations and deletions, spread over segments and memtables: every answer is that of a naive model of the living.

use super::*;
use crate::document::Entity;
use crate::options::ExtractorKind;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The live documents, and everything computed from them the slow way.
struct Model<'a> {
    docs: Vec<(u64, &'a Doc)>,
}

type Key = String;

fn key_of(name: &str) -> Key {
    key(name).to_string()
}

impl Model<'_> {
    fn of(docs: &[Doc]) -> Model<'_> {
        Model { docs: (0u64..).zip(docs).filter(|(_, d)| !d.dead).collect() }
    }

    /// Documents that mention an entity, with the mention.
    fn documents(&self, key: &str) -> Vec<(u64, &Mention)> {
        self.docs.iter().flat_map(|(i, d)| d.mentions.iter().filter(|m| *m.key == *key).map(move |m| (*i, m))).collect()
    }

    /// All relations, by age.
    fn relations(&self) -> Vec<&Relation> {
        self.docs.iter().flat_map(|(_, d)| &d.relations).collect()
    }

    fn mentioned(&self) -> BTreeSet<Key> {
        self.docs.iter().flat_map(|(_, d)| d.mentions.iter().map(|m| m.key.to_string())).collect()
    }

    fn nodes(&self) -> BTreeSet<Key> {
        let ends = self.relations().into_iter().flat_map(|r| [key_of(&r.source), key_of(&r.target)]);
        self.mentioned().into_iter().chain(ends).collect()
    }

    fn name(&self, key: &str) -> Option<String> {
        self.docs.iter().find_map(|(_, d)| {
            let mention = d.mentions.iter().find(|m| *m.key == *key).map(|m| m.name.to_string());
            let ends = d.relations.iter().flat_map(|r| [&r.source, &r.target]);
            mention.or_else(|| ends.into_iter().find(|n| key_of(n) == *key).cloned())
        })
    }

    /// Pairs of different entities, lesser key first, with the documents that mention both.
    fn shared(&self) -> BTreeMap<(Key, Key), u64> {
        let mut pairs = BTreeMap::new();
        for (_, d) in &self.docs {
            for a in &d.mentions {
                for b in d.mentions.iter().filter(|b| a.key < b.key) {
                    *pairs.entry((a.key.to_string(), b.key.to_string())).or_insert(0) += 1;
                }
            }
        }
        pairs
    }

    /// Pairs of entities, lesser key first, with number and weight of their relations.
    fn related(&self) -> BTreeMap<(Key, Key), (u64, f64)> {
        let mut pairs = BTreeMap::new();
        for r in self.relations() {
            let (a, b) = (key_of(&r.source), key_of(&r.target));
            let entry = pairs.entry(if a <= b { (a, b) } else { (b, a) }).or_insert((0, 0.0));
            *entry = (entry.0 + 1, entry.1 + r.weight);
        }
        pairs
    }

    fn edges(&self) -> BTreeMap<(Key, Key), f64> {
        let mut edges: BTreeMap<_, f64> = self.related().into_iter().map(|(pair, (_, weight))| (pair, weight)).collect();
        self.shared().into_iter().for_each(|(pair, documents)| *edges.entry(pair).or_insert(0.0) += documents as f64);
        edges
    }

    fn statistics(&self) -> GraphStatistics {
        GraphStatistics {
            entities: self.mentioned().len() as u64,
            nodes: self.nodes().len() as u64,
            mentions: self.docs.iter().map(|(_, d)| d.mentions.len() as u64).sum(),
            relations: self.relations().len() as u64,
            cooccurrences: self.shared().len() as u64,
        }
    }

    fn entity(&self, key: &str) -> Option<EntityView> {
        let documents = self.documents(key);
        Some(EntityView {
            key: key.into(),
            name: self.name(key)?.into(),
            documents: documents.len() as u64,
            occurrences: documents.iter().map(|(_, m)| u64::from(m.occurrences)).sum(),
            relations: self.relations().iter().filter(|r| key_of(&r.source) == *key || key_of(&r.target) == *key).count() as u64,
        })
    }

    fn neighbours(&self, key: &str) -> Vec<Neighbour> {
        let mut found = Vec::new();
        for ((a, b), joint) in self.edges() {
            if a != *key && b != *key {
                continue;
            }
            let other = if a == *key { b.clone() } else { a.clone() };
            let pair = (a, b);
            let (relations, weight) = self.related().get(&pair).copied().unwrap_or((0, 0.0));
            let documents = self.shared().get(&pair).copied().unwrap_or(0);
            let name = self.name(&other).expect("it has an edge").into();
            found.push((joint, Neighbour { key: other.into(), name, relations, weight, documents }));
        }
        found.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.key.cmp(&y.key)));
        found.into_iter().map(|f| f.1).collect()
    }

    fn ranked(scores: BTreeMap<u64, f64>) -> Vec<(u64, f64)> {
        let mut hits: Vec<(u64, f64)> = scores.into_iter().collect();
        hits.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        hits
    }

    fn hops(&self, forms: &[String], hops: u32) -> Vec<(u64, f64)> {
        let mut scores = BTreeMap::new();
        for form in forms.iter().collect::<BTreeSet<_>>() {
            let key = key_of(form);
            let first = self.documents(&key);
            first.iter().for_each(|(i, m)| *scores.entry(*i).or_insert(0.0) += 2.0 * f64::from(m.variants));
            let beside: BTreeSet<Key> = self
                .shared()
                .into_keys()
                .filter_map(|(a, b)| if a == key { Some(b) } else { Some(a).filter(|_| b == key) })
                .collect();
            for other in beside.iter().filter(|_| hops == 2) {
                self.documents(other).iter().for_each(|(i, _)| *scores.entry(*i).or_insert(0.0) += 0.5);
            }
        }
        Model::ranked(scores)
    }

    /// The walk, with dense matrices and a thousand rounds.
    fn docsgpt(&self, forms: &[String]) -> Vec<(u64, f64)> {
        let edges = self.edges();
        let weight = |a: &Key, b: &Key| edges.get(&if a <= b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) }).copied();
        let all = self.nodes();
        let seeds: BTreeSet<Key> = forms.iter().map(|f| key_of(f)).filter(|k| all.contains(k)).collect();
        let mut nodes = seeds.clone();
        for _ in 0..2 {
            let near = all.iter().filter(|k| nodes.iter().any(|n| weight(n, k).is_some())).cloned().collect::<Vec<_>>();
            nodes.extend(near);
        }
        let nodes: Vec<Key> = nodes.into_iter().collect();
        let df = |k: &Key| self.documents(k).len() as f64;
        let raw: Vec<f64> = nodes.iter().map(|k| if seeds.contains(k) { 1.0 / df(k).max(1.0) } else { 0.0 }).collect();
        let sum: f64 = raw.iter().sum();
        let restart: Vec<f64> = raw.iter().map(|w| w / sum).collect();
        let degree: Vec<f64> = nodes.iter().map(|a| nodes.iter().filter_map(|b| weight(a, b)).sum()).collect();
        let mut ranks = restart.clone();
        for _ in 0..300 {
            let dangling: f64 = (0..nodes.len()).filter(|&i| degree[i] == 0.0).map(|i| ranks[i]).sum();
            ranks = (0..nodes.len())
                .map(|j| {
                    let arrives: f64 = (0..nodes.len()).filter_map(|i| Some(ranks[i] * weight(&nodes[i], &nodes[j])? / degree[i])).sum();
                    0.85 * (arrives + dangling * restart[j]) + 0.15 * restart[j]
                })
                .collect();
        }
        let mut scores = BTreeMap::new();
        for (node, rank) in nodes.iter().zip(&ranks) {
            let gain = rank / (2.0 + df(node)).ln();
            self.documents(node).iter().for_each(|(i, _)| *scores.entry(*i).or_insert(0.0) += gain);
        }
        Model::ranked(scores)
    }
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        5 => "[a-f]",
        2 => "[A-F]",
        1 => prop::sample::select(vec!["Zoë", "ZOË", "İ", "i\u{307}", "ΑΣ", "ας", "Google Cloud", "GOOGLE cloud"]).prop_map(String::from),
    ]
}

fn documents() -> impl Strategy<Value = Doc> {
    let entity = (names(), 1u32..4).prop_map(|(name, mentions)| Entity::new(name).mentions(mentions));
    let weight = prop_oneof![3 => Just(1.0), 1 => Just(0.1), 1 => Just(0.7), 1 => Just(2.5)];
    let relation = (names(), names(), weight).prop_map(|(source, target, weight)| Relation::new(source, target).weight(weight));
    let dead = prop::bool::weighted(0.3);
    (prop::collection::vec(entity, 0..5), prop::collection::vec(relation, 0..4), dead).prop_map(|(entities, relations, dead)| Doc {
        mentions: mentions(Some(&entities), "", ExtractorKind::None),
        relations,
        dead,
    })
}

/// One to four parts.
fn layouts() -> impl Strategy<Value = Vec<(prop::sample::Index, Home)>> {
    let home = prop_oneof![Just(Home::Mapped), Just(Home::Pread), Just(Home::Memory)];
    prop::collection::vec((any::<prop::sample::Index>(), home), 1..5)
}

fn close(a: &[(u64, f64)], b: &[(u64, f64)]) -> bool {
    // Equal sums may differ in their last bits, and then their order may: compared by document.
    let sorted = |hits: &[(u64, f64)]| hits.iter().map(|h| (h.0, h.1)).collect::<BTreeMap<_, _>>();
    let (a, b) = (sorted(a), sorted(b));
    a.len() == b.len() && a.iter().zip(&b).all(|(x, y)| x.0 == y.0 && (x.1 - y.1).abs() <= 1e-11 * y.1.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn every_answer_is_that_of_a_naive_model_of_the_living(
        docs in prop::collection::vec(documents(), 0..14),
        layout in layouts(),
        forms in prop::collection::vec(names(), 0..4),
    ) {
        let mut layout: Vec<(usize, Home)> = layout.into_iter().map(|(at, home)| (at.index(docs.len() + 1), home)).collect();
        layout.sort_by_key(|l| l.0);
        layout[0].0 = 0;
        let parts = spread(&docs, &layout);
        let model = Model::of(&docs);
        prop_assert_eq!(statistics(&live(&parts)).expect("counts"), model.statistics());
        let known: BTreeSet<Key> = docs.iter().flat_map(|d| d.mentions.iter().map(|m| m.key.to_string())).chain(model.nodes()).collect();
        for key in known.iter().map(String::as_str).chain(["never"]) {
            prop_assert_eq!(entity(&live(&parts), key).expect("looks"), model.entity(key));
            let found = neighbours(&live(&parts), &key.to_uppercase()).expect("looks");
            prop_assert_eq!(found, model.neighbours(&key_of(&key.to_uppercase())));
        }
        for hops in [1, 2] {
            prop_assert_eq!(hops_of(&parts, &forms, hops, 100), model.hops(&forms, hops));
        }
        let walked = walk_of(&parts, &forms, 100);
        prop_assert!(close(&walked, &model.docsgpt(&forms)), "{:?}, expected {:?}", walked, model.docsgpt(&forms));
        // To the bit whatever the layout, and as if the dead had never been.
        let alone = spread(&docs, &[(0, Home::Memory)]);
        prop_assert_eq!(&walked, &walk_of(&alone, &forms, 100));
        for shared in [false, true] {
            let graph = whole(&live(&parts), shared).expect("gathers");
            prop_assert_eq!(&graph, &whole(&live(&alone), shared).expect("gathers"));
            prop_assert_eq!(graph.keys.iter().map(|k| k.to_string()).collect::<BTreeSet<_>>(), model.nodes());
            let pairs = if shared { model.edges().len() } else { model.related().len() };
            let loops = model.related().keys().filter(|(a, b)| a == b).count();
            prop_assert_eq!(graph.adjacency.entries(), 2 * pairs - loops);
            prop_assert!(graph.keys.iter().enumerate().all(|(i, k)| graph.node(k) == Some(i)));
        }
    }
}

#[test]
fn a_walk_keeps_500_entities_by_weight_then_key() {
    // A hub beside 700 others; those with a number that 7 divides share two documents with it.
    let mention = |name: &str| Mention { key: key(name), name: name.into(), occurrences: 1, variants: 1 };
    let docs: Vec<Doc> = (0..700)
        .flat_map(|i| {
            let doc = Doc { mentions: vec![mention("hub"), mention(&format!("e{i:03}"))], ..Doc::default() };
            vec![doc; if i % 7 == 0 { 2 } else { 1 }]
        })
        .collect();
    let mut kept: Vec<usize> = (0..700).filter(|i| i % 7 == 0).chain((0..700).filter(|i| i % 7 != 0)).take(499).collect();
    kept.sort_unstable();
    for layout in [vec![(0, Home::Mapped)], vec![(0, Home::Memory), (300, Home::Mapped), (600, Home::Memory)]] {
        let parts = spread(&docs, &layout);
        let found = walk_of(&parts, &["Hub".into()], 10_000);
        assert_eq!(found.len(), docs.len(), "all mention the hub");
        // A document whose other entity was left out scores what the hub gives alone.
        let least = found.last().expect("some").1;
        let more: BTreeSet<usize> = found
            .iter()
            .filter(|h| h.1 > least)
            .map(|h| {
                let name = &docs[h.0 as usize].mentions[1].key;
                name[1..].parse().expect("a number")
            })
            .collect();
        assert_eq!(more.into_iter().collect::<Vec<_>>(), kept);
    }
}

//! What documents mention and relate, and what follows from it: the plain way, over all documents, with a dense matrix for PageRank.

use super::model::{Collection, Stored};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::LazyLock;
use triune::{Entity, ExtractorKind, Relation};

/// What one document says of one entity.
#[derive(Debug, Clone, PartialEq)]
pub struct Mention {
    pub key: String,
    /// The first spelling.
    pub name: String,
    pub occurrences: u64,
    /// Distinct spellings.
    pub variants: u32,
}

/// Capitalised words, acronyms, and camelCase.
static PATTERNS: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    [r"\b[A-Z][a-z]{2,}(?:\s+[A-Z][a-z]{2,})*\b", r"\b[A-Z]{2,6}\b", r"\b[a-z]+(?:[A-Z][a-z]+)+\b"].map(|p| Regex::new(p).unwrap())
});
const STOP_WORDS: &str =
    " The This That With From For And But Are Was Has Have Its Our Their Will Can May Also Such When Where How What Which ";

/// The spellings of entities in a text in the order of their places, repeats included.
fn spellings(text: &str) -> Vec<String> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for pattern in PATTERNS.iter() {
        let of_pattern = pattern.find_iter(text).map(|m| (m.start(), m.as_str().to_string()));
        found.extend(of_pattern.filter(|(_, s)| !STOP_WORDS.contains(&format!(" {s} "))));
    }
    found.sort();
    found.into_iter().map(|(_, s)| s).collect()
}

/// The distinct spellings of a query.
pub fn forms(query: &str, extractor: ExtractorKind) -> BTreeSet<String> {
    match extractor {
        ExtractorKind::None => BTreeSet::new(),
        ExtractorKind::Compat => spellings(query).into_iter().collect(),
    }
}

/// What a document mentions: what was given, else what the extractor finds.
pub fn mentions(given: Option<&[Entity]>, text: &str, extractor: ExtractorKind) -> Vec<Mention> {
    let names: Vec<(String, u32)> = match (given, extractor) {
        (Some(given), _) => given.iter().map(|e| (e.name.clone(), e.mentions)).collect(),
        (None, ExtractorKind::None) => Vec::new(),
        (None, ExtractorKind::Compat) => spellings(text).into_iter().map(|s| (s, 1)).collect(),
    };
    let mut mentions: Vec<Mention> = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, times) in names {
        let key = name.to_lowercase();
        let at = mentions.iter().position(|m| m.key == key).unwrap_or_else(|| {
            mentions.push(Mention { key, name: name.clone(), occurrences: 0, variants: 0 });
            mentions.len() - 1
        });
        mentions[at].occurrences += u64::from(times);
        mentions[at].variants += u32::from(seen.insert(name));
    }
    mentions
}

/// One relation, by the keys of its ends.
pub struct Edge<'a> {
    pub ends: [String; 2],
    pub relation: &'a Relation,
}

impl Edge<'_> {
    /// The end across from `key`; itself for a self-loop; `None` when neither end is `key`.
    fn across(&self, key: &str) -> Option<&str> {
        let [a, b] = &self.ends;
        if a == key { Some(b) } else { (b == key).then_some(a) }
    }
}

/// The graph of a collection.
pub struct Graph<'a> {
    documents: &'a [Rc<Stored>],
    /// By key, the documents that mention it.
    pub mentioned: BTreeMap<&'a str, Vec<usize>>,
    pub edges: Vec<Edge<'a>>,
    /// Entities that are mentioned or related.
    pub nodes: BTreeSet<String>,
}

/// What joins two entities.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Joint {
    pub relations: u64,
    pub weight: f64,
    pub documents: u64,
}

impl Joint {
    pub fn strength(&self) -> f64 {
        self.weight + self.documents as f64
    }
}

impl<'a> Graph<'a> {
    pub fn of(collection: &'a Collection) -> Graph<'a> {
        let documents = &collection.documents;
        let mut mentioned: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, d) in documents.iter().enumerate() {
            d.mentions.iter().for_each(|m| mentioned.entry(&m.key).or_default().push(at));
        }
        let relations = documents.iter().flat_map(|d| d.relations.iter().flatten());
        let edges: Vec<Edge<'a>> =
            relations.map(|relation| Edge { ends: [&relation.source, &relation.target].map(|e| e.to_lowercase()), relation }).collect();
        let nodes = mentioned.keys().map(|k| k.to_string()).chain(edges.iter().flat_map(|e| e.ends.clone())).collect();
        Graph { documents, mentioned, edges, nodes }
    }

    /// The documents that mention an entity.
    pub fn documents_of(&self, key: &str) -> &[usize] {
        self.mentioned.get(key).map_or(&[], Vec::as_slice)
    }

    pub fn occurrences(&self, key: &str) -> u64 {
        self.documents.iter().flat_map(|d| &d.mentions).filter(|m| m.key == key).map(|m| m.occurrences).sum()
    }

    /// The spelling of the oldest document that mentions or relates the entity; a mention comes before a relation.
    pub fn name(&self, key: &str) -> Option<&'a str> {
        self.documents.iter().find_map(|d| {
            let related = || d.relations.iter().flatten().flat_map(|r| [&r.source, &r.target]).find(|name| name.to_lowercase() == key);
            d.mentions.iter().find(|m| m.key == key).map(|m| &m.name).or_else(related).map(String::as_str)
        })
    }

    /// How many pairs of entities share a document.
    pub fn cooccurrences(&self) -> u64 {
        let mut pairs = BTreeSet::new();
        for d in self.documents {
            pairs.extend(d.mentions.iter().flat_map(|a| d.mentions.iter().map(move |b| (&a.key, &b.key))).filter(|(a, b)| a < b));
        }
        pairs.len() as u64
    }

    /// What an entity is joined to, by key; itself by a self-loop.
    pub fn joined(&self, key: &str) -> BTreeMap<String, Joint> {
        let mut joined: BTreeMap<String, Joint> = BTreeMap::new();
        for edge in &self.edges {
            if let Some(other) = edge.across(key) {
                let joint = joined.entry(other.to_string()).or_default();
                joint.relations += 1;
                joint.weight += edge.relation.weight;
            }
        }
        for &at in self.documents_of(key) {
            for m in self.documents[at].mentions.iter().filter(|m| m.key != key) {
                joined.entry(m.key.clone()).or_default().documents += 1;
            }
        }
        joined
    }

    /// Scores by document after one or two hops from the spellings of a query; `None` for one that is not reached.
    pub fn hops(&self, forms: &BTreeSet<String>, hops: u32) -> Vec<Option<f64>> {
        let mut scores = vec![None; self.documents.len()];
        let mut gain = |at: usize, gain: f64| *scores[at].get_or_insert(0.0) += gain;
        for key in forms.iter().map(|f| f.to_lowercase()) {
            for &at in self.documents_of(&key) {
                let variants = self.documents[at].mentions.iter().find(|m| m.key == key).unwrap().variants;
                gain(at, 2.0 * f64::from(variants));
            }
            let beside = self.joined(&key).into_iter().filter(|(_, joint)| joint.documents > 0 && hops == 2);
            for (other, _) in beside {
                self.documents_of(&other).iter().for_each(|&at| gain(at, 0.5));
            }
        }
        scores
    }

    /// Scores by document of the walk within two hops of the spellings of a query.
    pub fn walk(&self, forms: &BTreeSet<String>) -> Vec<Option<f64>> {
        let mut scores = vec![None; self.documents.len()];
        let keys: BTreeSet<String> = forms.iter().map(|f| f.to_lowercase()).filter(|k| self.nodes.contains(k)).collect();
        let mut nodes = keys.clone();
        for _ in 0..2 {
            nodes.extend(nodes.clone().iter().flat_map(|node| self.joined(node).into_keys()));
        }
        if nodes.is_empty() {
            return scores;
        }
        let nodes: Vec<String> = nodes.into_iter().collect();
        let seed = |node: &String| if keys.contains(node) { 1.0 / self.documents_of(node).len().max(1) as f64 } else { 0.0 };
        let ranks = self.ranks(&nodes, &nodes.iter().map(seed).collect::<Vec<_>>(), Joint::strength);
        for (node, rank) in nodes.iter().zip(ranks) {
            let documents = self.documents_of(node);
            let gain = rank / (2.0 + documents.len() as f64).ln();
            documents.iter().for_each(|&at| *scores[at].get_or_insert(0.0) += gain);
        }
        scores
    }

    /// The PageRank of every node over relations alone.
    pub fn pagerank(&self, seeds: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
        let nodes: Vec<String> = self.nodes.iter().cloned().collect();
        let weights: Vec<f64> = nodes.iter().map(|n| seeds.get(n).copied().unwrap_or(0.0)).collect();
        let ranks = self.ranks(&nodes, &weights, |joint| joint.weight);
        nodes.into_iter().zip(ranks).collect()
    }

    /// The fixed point of `rank = 0.85 (edges x rank + dangling x restart) + 0.15 restart`, as a system of linear equations.
    fn ranks(&self, nodes: &[String], seeds: &[f64], weight: impl Fn(&Joint) -> f64) -> Vec<f64> {
        let n = nodes.len();
        let total: f64 = seeds.iter().sum();
        let restart: Vec<f64> = seeds.iter().map(|s| if total > 0.0 { s / total } else { 1.0 / n as f64 }).collect();
        let mut rows: Vec<Vec<f64>> =
            (0..n).map(|i| (0..=n).map(|j| if j == n { 0.15 * restart[i] } else { f64::from(i == j) }).collect()).collect();
        for (from, node) in nodes.iter().enumerate() {
            let joined = self.joined(node);
            let weights: Vec<f64> = nodes.iter().map(|to| joined.get(to).map_or(0.0, &weight)).collect();
            let sum: f64 = weights.iter().sum();
            for to in 0..n {
                rows[to][from] -= 0.85 * if sum > 0.0 { weights[to] / sum } else { restart[to] };
            }
        }
        solve(rows)
    }
}

/// Gauss elimination; each row holds the coefficients and the right side.
fn solve(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let n = rows.len();
    for column in 0..n {
        let pivot = (column..n).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs())).unwrap();
        rows.swap(column, pivot);
        let pivot = rows[column].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            let factor = row[column] / pivot[column];
            if factor != 0.0 {
                row.iter_mut().zip(&pivot).for_each(|(x, p)| *x -= factor * p);
            }
        }
    }
    rows.iter().enumerate().map(|(i, row)| row[n] / row[i]).collect()
}

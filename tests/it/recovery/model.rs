//! What a database holds after each commit, computed without it.

use std::collections::{BTreeMap, BTreeSet};

use triune::{Collection, Database, Document, Effort, Entity, ExtractorKind, Filter, Metadata, Patch, Relation, Schema, WriteBatch};

/// One call on a write batch.
#[derive(Debug, Clone)]
pub enum Op {
    Create(&'static str),
    Drop(&'static str),
    Rename(&'static str, &'static str),
    Swap(&'static str, &'static str),
    Put(&'static str, Vec<Document>),
    Insert(&'static str, Vec<Document>),
    PatchText(&'static str, &'static str, &'static str),
    Delete(&'static str, Vec<String>),
    DeleteSource(&'static str, &'static str),
    ReplaceSource(&'static str, &'static str, Vec<Document>),
    Clear(&'static str),
}

/// A document whose text, metadata, vector, source and place in the graph follow from its id. The entities of every second one are given,
/// those of the others are found in its text.
pub fn document(id: &str, text: &str) -> Document {
    let length = id.len() as f32;
    let document = Document::new(id)
        .text(format!("{text} common {id} at Hub Town"))
        .metadata(Metadata::from_json(format!(r#"{{"of": "{id}",  "n":{}}}"#, text.len())).unwrap())
        .vector(vec![length, text.len() as f32, 0.5]);
    if id.bytes().last().is_some_and(|b| b % 2 == 0) {
        return document;
    }
    let relations = [Relation::new(id, "HUB TOWN").kind("lies in").weight(0.5), Relation::new("hub town", "Elsewhere")];
    document.entities([Entity::new("Hub Town").kind("place").mentions(2), Entity::new(id)]).relations(relations)
}

/// Documents `prefix0`, `prefix1`, ... of one source.
pub fn documents(prefix: &str, count: usize, source: &str) -> Vec<Document> {
    (0..count).map(|i| document(&format!("{prefix}{i}"), "some words of a passage").source(source)).collect()
}

/// Documents `prefix0`, `prefix1`, ... whose vectors are unlike each other.
pub fn points(prefix: &str, count: usize, source: &str) -> Vec<Document> {
    let point = |i: usize| vec![(i * 7 % 13) as f32 - 6.0, (i * 5 % 11) as f32 - 4.5, prefix.len() as f32 + (i % 3) as f32];
    documents(prefix, count, source).into_iter().enumerate().map(|(i, d)| d.vector(point(i))).collect()
}

/// A collection: its documents in insertion order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Held {
    pub dimension: Option<u32>,
    pub documents: Vec<Document>,
}

/// All collections.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State(pub BTreeMap<String, Held>);

impl State {
    /// Applies a batch whole, or refuses it whole. `Some(false)` when it changes nothing, so that no lsn is used.
    pub fn apply(&mut self, batch: &[Op]) -> Option<bool> {
        let mut next = self.clone();
        let mut changed = false;
        for op in batch {
            changed |= next.apply_one(op)?;
        }
        *self = next;
        Some(changed)
    }

    fn apply_one(&mut self, op: &Op) -> Option<bool> {
        let all = &mut self.0;
        match op {
            Op::Create(name) => {
                if all.contains_key(*name) {
                    return None;
                }
                all.insert(name.to_string(), Held::default());
                Some(true)
            }
            Op::Drop(name) => all.remove(*name).map(|_| true),
            Op::Rename(from, to) => {
                if all.contains_key(*to) {
                    return None;
                }
                let held = all.remove(*from)?;
                all.insert(to.to_string(), held);
                Some(true)
            }
            Op::Swap(a, b) => {
                let (of_a, of_b) = (all.get(*a)?.clone(), all.get(*b)?.clone());
                all.insert(a.to_string(), of_b);
                all.insert(b.to_string(), of_a);
                Some(true)
            }
            Op::Put(name, documents) => all.get_mut(*name)?.put(documents),
            Op::Insert(name, documents) => {
                let held = all.get_mut(*name)?;
                if documents.iter().any(|d| held.documents.iter().any(|h| h.id == d.id)) {
                    return None;
                }
                held.put(documents)
            }
            Op::PatchText(name, id, text) => {
                let held = all.get_mut(*name)?;
                let at = held.documents.iter().position(|d| d.id == *id)?;
                let patched = held.documents.remove(at).text(*text);
                held.documents.push(patched);
                Some(true)
            }
            Op::Delete(name, ids) => Some(all.get_mut(*name)?.remove(|d| ids.contains(&d.id))),
            Op::DeleteSource(name, source) => Some(all.get_mut(*name)?.remove(|d| d.source.as_deref() == Some(source))),
            Op::ReplaceSource(name, source, documents) => {
                let held = all.get_mut(*name)?;
                let removed = held.remove(|d| d.source.as_deref() == Some(source));
                let claimed: Vec<Document> = documents.iter().map(|d| d.clone().source(*source)).collect();
                Some(held.put(&claimed)? || removed)
            }
            Op::Clear(name) => {
                all.get_mut(*name)?.documents.clear();
                Some(true)
            }
        }
    }

    /// What the database shows, with its counts and its text index held against its documents.
    pub fn read(db: &Database) -> Result<State, String> {
        let said = |e: triune::Error| format!("reading: {e}");
        let snapshot = db.snapshot();
        let mut state = State::default();
        for name in snapshot.collections() {
            let collection = snapshot.collection(&name).map_err(said)?;
            let mut held = Held { dimension: collection.schema().dimension, documents: Vec::new() };
            let mut before = None;
            for item in collection.scan().with_vectors(true) {
                let (seq, stored) = item.map_err(said)?;
                if before.is_some_and(|b| seq <= b) {
                    return Err(format!("collection {name}: seq {seq} follows seq {before:?}"));
                }
                before = Some(seq);
                held.documents.push(stored.to_document());
            }
            let (n, counted) = (held.documents.len() as u64, collection.stats().map_err(said)?);
            let vectors = held.documents.iter().filter(|d| d.vector.is_some()).count() as u64;
            if (counted.documents, counted.vectors, collection.count()) != (n, vectors, n) {
                return Err(format!("collection {name}: {n} documents and {vectors} vectors are there, counted are {counted:?}"));
            }
            check_derived(&collection, &held).map_err(|e| format!("collection {name}: {e}"))?;
            let hits = collection.best_texts("common", None, None, 1000).map_err(said)?;
            let found: BTreeSet<String> = hits.iter().map(|hit| collection.id_of(hit)).collect::<Result<_, _>>().map_err(said)?;
            let holding = held.documents.iter().filter(|d| d.text.split(' ').any(|w| w == "common"));
            let expected: BTreeSet<String> = holding.map(|d| d.id.clone()).collect();
            if found != expected {
                return Err(format!("collection {name}: the text index finds {found:?}, the documents are {expected:?}"));
            }
            state.0.insert(name, held);
        }
        Ok(state)
    }

    /// One line, for messages.
    pub fn outline(&self) -> String {
        let of = |(name, held): (&String, &Held)| {
            let ids: Vec<String> = held.documents.iter().map(|d| format!("{}({})", d.id, d.text.len())).collect();
            format!("{name}[{:?}]: {}", held.dimension, ids.join(" "))
        };
        self.0.iter().map(of).collect::<Vec<_>>().join("; ")
    }
}

/// What is derived from documents, by their own words: filters, vectors, sources and the graph.
fn check_derived(collection: &Collection, held: &Held) -> Result<(), String> {
    let said = |e: triune::Error| e.to_string();
    let same = |what: &str, found: String, expected: String| match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found} is found, the documents have {expected}")),
    };
    let filter = Filter::parse(r#"{"n": {"$gte": 8}}"#).map_err(said)?;
    let long = |d: &&Document| d.metadata.as_ref().is_some_and(|m| m.to_object()["n"].as_u64() >= Some(8));
    let matching: Vec<&str> = held.documents.iter().filter(long).map(|d| d.id.as_str()).collect();
    let scanned: Vec<String> = collection
        .scan()
        .filtered(&filter)
        .map_err(said)?
        .map(|d| d.map(|d| d.1.id.to_string()))
        .collect::<Result<_, _>>()
        .map_err(said)?;
    same("a filter", format!("{scanned:?}"), format!("{matching:?}"))?;
    let counted = collection.count_where(&filter).map_err(said)?;
    same("a filter's count", counted.to_string(), matching.len().to_string())?;
    let near = match held.dimension {
        Some(_) => collection.nearest(&[1.0, 0.0, 0.0], None, 1000).map_err(said)?.len(),
        None => 0,
    };
    same("vectors", near.to_string(), held.documents.iter().filter(|d| d.vector.is_some()).count().to_string())?;
    check_walks(collection, held)?;

    let mut sources: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for d in &held.documents {
        if let Some(source) = &d.source {
            let of = sources.entry(source).or_default();
            *of = (of.0 + 1, of.1 + d.text.len() as u64);
        }
    }
    let registry: BTreeMap<String, (u64, u64)> =
        collection.sources().map_err(said)?.into_iter().map(|s| (s.source, (s.documents, s.bytes))).collect();
    same("sources", format!("{registry:?}"), format!("{sources:?}"))?;

    let stats = collection.stats().map_err(said)?;
    let mentions: Vec<BTreeSet<String>> = held.documents.iter().map(mentioned).collect();
    let entities: BTreeSet<&String> = mentions.iter().flatten().collect();
    let relations: usize = held.documents.iter().map(|d| d.relations.as_ref().map_or(0, Vec::len)).sum();
    let of_graph = (stats.entities, stats.mentions, stats.relations);
    let expected = (entities.len(), mentions.iter().map(BTreeSet::len).sum::<usize>(), relations);
    same("the graph", format!("{of_graph:?}"), format!("{expected:?}"))?;
    let hub = collection.entity("hub Town").map_err(said)?.map_or((0, 0), |e| (e.documents, e.relations));
    same("an entity", format!("{hub:?}"), format!("{:?}", (mentions.iter().filter(|m| m.contains("hub town")).count(), relations)))
}

/// So few are asked for that a graph is walked where there is one: as many hits as there can be, all of them alive, with the cosine that their
/// vectors have, and with this effort no nearer one is missing.
fn check_walks(collection: &Collection, held: &Held) -> Result<(), String> {
    if held.dimension.is_none() {
        return Ok(());
    }
    let query = [1.0, -0.5, 2.0];
    let cosine = |v: &Vec<f32>| {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
        dot(&query, v) / (dot(&query, &query) * dot(v, v)).sqrt()
    };
    let cosines: BTreeMap<&str, f64> = held.documents.iter().filter_map(|d| Some((d.id.as_str(), cosine(d.vector.as_ref()?)))).collect();
    let ask = |effort| collection.nearest_with(&query, None, 3, effort).map_err(|e| e.to_string());
    let (walked, exact) = (ask(Effort::Ef(16))?, ask(Effort::Exact)?);
    let as_near = walked.len() == exact.len() && walked.iter().zip(&exact).all(|(a, b)| a.score == b.score);
    for hit in walked.iter().chain(&exact) {
        let id = collection.id_of(hit).map_err(|e| e.to_string())?;
        if !cosines.get(&*id).is_some_and(|wanted| (wanted - hit.score).abs() < 1e-9) {
            return Err(format!("{id} is a hit with {}, of {cosines:?}", hit.score));
        }
    }
    match as_near && exact.len() == cosines.len().min(3) {
        true => Ok(()),
        false => Err(format!("the nearest: {walked:?} are found, exactly {exact:?}, of {cosines:?}")),
    }
}

/// The keys of the entities that a document mentions.
fn mentioned(document: &Document) -> BTreeSet<String> {
    match &document.entities {
        Some(given) => given.iter().map(|e| e.name.to_lowercase()).collect(),
        None => triune::extract_entities(ExtractorKind::Compat, &document.text).into_iter().map(|(name, _)| name.to_lowercase()).collect(),
    }
}

impl Held {
    fn put(&mut self, documents: &[Document]) -> Option<bool> {
        for d in documents {
            self.documents.retain(|h| h.id != d.id);
            self.documents.push(d.clone());
            self.dimension = self.dimension.or(d.vector.as_ref().map(|v| v.len() as u32));
        }
        Some(!documents.is_empty())
    }

    fn remove(&mut self, which: impl Fn(&Document) -> bool) -> bool {
        let before = self.documents.len();
        self.documents.retain(|d| !which(d));
        self.documents.len() < before
    }
}

/// The batch that makes these calls.
pub fn batch_of(ops: &[Op]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for op in ops {
        match op.clone() {
            Op::Create(name) => batch.create_collection(name, Schema::default()),
            Op::Drop(name) => batch.drop_collection(name),
            Op::Rename(from, to) => batch.rename_collection(from, to),
            Op::Swap(a, b) => batch.swap_collections(a, b),
            Op::Put(name, documents) => batch.put(name, documents),
            Op::Insert(name, documents) => batch.insert(name, documents),
            Op::PatchText(name, id, text) => batch.patch(name, vec![Patch::new(id).text(text)]),
            Op::Delete(name, ids) => batch.delete(name, ids),
            Op::DeleteSource(name, source) => batch.delete_source(name, source),
            Op::ReplaceSource(name, source, documents) => batch.replace_source(name, source, documents),
            Op::Clear(name) => batch.clear(name),
        };
    }
    batch
}

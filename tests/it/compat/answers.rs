//! What a database answers, as JSON to be kept beside it.

use serde_json::{Value, json};
use triune::{Collection, Effort, Filter, Hnsw, Legs, Mode, Result, Scorer, Search, SearchResult, Snapshot};

/// The answers to the same questions about any database: of each collection its schema, counts, sources, entities and searches.
pub fn answers(snapshot: &Snapshot) -> Value {
    let of = |name: String| {
        let collection = snapshot.collection(&name).unwrap();
        (name, of_collection(&collection).unwrap())
    };
    json!({ "lsn": snapshot.lsn().0, "collections": snapshot.collections().into_iter().map(of).collect::<serde_json::Map<_, _>>() })
}

fn of_collection(collection: &Collection) -> Result<Value> {
    let s = collection.stats()?;
    let stats = json!({
        "documents": s.documents, "sources": s.sources, "vectors": s.vectors, "terms": s.terms, "tokens": s.tokens,
        "entities": s.entities, "mentions": s.mentions, "relations": s.relations, "cooccurrences": collection.cooccurrences()?,
    });
    let sources = collection.sources()?.into_iter().map(|s| json!([s.source, s.documents, s.entities, s.bytes, s.time_ms]));
    let sources: Vec<Value> = sources.collect();
    let mut counts = serde_json::Map::new();
    for filter in FILTERS {
        counts.insert(filter.into(), collection.count_where(&Filter::parse(filter)?)?.into());
    }
    let mut searched = serde_json::Map::new();
    for (name, search) in searches(collection) {
        searched.insert(name.into(), hits(&collection.search(&search)?));
    }
    let pagerank: Vec<_> = collection.pagerank(&[])?.into_iter().take(5).collect();
    let neighbours = collection.neighbours("cobol")?;
    let neighbours: Vec<Value> = neighbours.into_iter().take(5).map(|n| json!([n.name, n.documents, n.weight])).collect();
    Ok(json!({
        "schema": collection.schema(), "count": collection.count(), "stats": stats, "sources": sources, "counts": counts,
        "searches": searched, "pagerank": pagerank, "neighbours": neighbours,
    }))
}

const FILTERS: [&str; 5] = [
    r#"{"page":{"$gte":20}}"#,
    r#"{"tags":"a"}"#,
    r#"{"nested.x":null}"#,
    r#"{"$or":[{"even":true},{"file_hash":{"$in":["h0","h1"]}}]}"#,
    r#"{"page":{"$exists":false}}"#,
];

fn searches(collection: &Collection) -> Vec<(&'static str, Search)> {
    let dimension = collection.schema().dimension;
    let vector: Option<Vec<f32>> = dimension.map(|d| (0..d).map(|i| 0.5 - i as f32 / 3.0).collect());
    let query = |text: &str| Some(text.to_string());
    let text = Search { query: query("the torn tail of the LOG"), mode: Mode::Text, k: 7, ..Search::default() };
    let entities = Search { query: query("Grace Hopper and COBOL, with Triune"), k: 7, ..Search::default() };
    let mut all = vec![
        ("text, lucene", Search { scorer: Some(Scorer::Lucene), ..text.clone() }),
        ("text, okapi", Search { scorer: Some(Scorer::Okapi), ..text.clone() }),
        ("text, filtered", Search { filter: Some(Filter::parse(FILTERS[0]).unwrap()), ..text.clone() }),
        ("text, other scripts", Search { query: query("straße 日本 οδος"), ..text.clone() }),
        ("graph", Search { mode: Mode::Graph, ..entities.clone() }),
        ("ppr", Search { mode: Mode::Ppr, ..entities.clone() }),
    ];
    if let Some(vector) = vector {
        all.push(("vector", Search { vector: Some(vector.clone()), mode: Mode::Vector, k: 7, ..Search::default() }));
        if collection.schema().hnsw != Hnsw::default() {
            // Walks so wide that they meet every node: what they find is what a scan finds.
            let walk = Search { vector: Some(vector.clone()), mode: Mode::Vector, k: 5, effort: Effort::Ef(60), ..Search::default() };
            all.push(("vector, filtered walk", Search { filter: Some(Filter::parse(r#"{"page":{"$gte":9}}"#).unwrap()), ..walk.clone() }));
            all.push(("vector, walk", walk));
        }
        let legs = Legs { graph: true, ..Legs::default() };
        all.push(("hybrid of all three", Search { vector: Some(vector), legs, ..entities }));
    }
    all
}

fn hits(result: &SearchResult) -> Value {
    result.hits.iter().map(|hit| json!([hit.id, hit.seq.0, hit.score])).collect()
}

/// Where two answers differ, and how. Scores may differ by 1e-9, as far as the logarithms of two hosts may.
pub fn difference(expected: &Value, found: &Value) -> Option<String> {
    let differs = || Some(format!("expected {expected}, found {found}"));
    match (expected, found) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => {
            let near = a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| (a - b).abs() <= 1e-9 * a.abs().max(1.0));
            if near { None } else { differs() }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(i, (a, b))| difference(a, b).map(|what| format!("[{i}]: {what}")))
        }
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().find_map(|(key, a)| difference(a, &b[key]).map(|what| format!("{key}: {what}")))
        }
        _ if expected == found => None,
        _ => differs(),
    }
}

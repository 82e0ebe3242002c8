//! The golden graph, at several layouts, with dead documents between the living ones.

use super::*;
use crate::options::ExtractorKind;
use serde_json::Value;

fn documents(case: &Value) -> Vec<(String, Doc)> {
    let list = case["docs"].as_array().expect("a list");
    let doc = |d: &Value| {
        let text = d["text"].as_str().expect("a text");
        let mentions = extract::mentions(None, text, ExtractorKind::Compat);
        (d["id"].as_str().expect("an id").to_string(), Doc { mentions, ..Doc::default() })
    };
    list.iter().map(doc).collect()
}

/// Layouts of `n` documents.
fn layouts(n: usize) -> Vec<Vec<(usize, Home)>> {
    vec![
        vec![(0, Home::Memory)],
        vec![(0, Home::Mapped)],
        vec![(0, Home::Pread), (n / 3, Home::Mapped), (n / 2, Home::Memory)],
        vec![(0, Home::Memory), (n / 4, Home::Memory), (n / 4, Home::Mapped), (n - 1, Home::Memory)],
    ]
}

#[test]
fn the_golden_graph_answers_at_any_layout_whatever_died() {
    let mut queries = 0;
    for line in include_str!("../../../tests/golden/graph.jsonl").lines() {
        let case: Value = serde_json::from_str(line).expect("a golden line is JSON");
        let alive = documents(&case);
        // Every third document stood in another place before, and some never were replaced but deleted.
        let mut ids = Vec::new();
        let mut docs = Vec::new();
        for (i, (id, doc)) in alive.iter().enumerate() {
            if i % 3 == 0 {
                let (_, other) = &alive[(i * 7 + 3) % alive.len()];
                ids.push("dead");
                docs.push(Doc { dead: true, ..other.clone() });
            }
            ids.push(id);
            docs.push(doc.clone());
        }
        for layout in layouts(docs.len()) {
            let parts = spread(&docs, &layout);
            let counts = statistics(&live(&parts)).expect("counts");
            let expected = |key: &str| case["stats"][key].as_u64().expect("a count");
            assert_eq!(counts.entities, expected("entities"), "{layout:?}");
            assert_eq!(counts.mentions, expected("mentions"), "{layout:?}");
            assert_eq!(counts.cooccurrences, expected("cooccurrences"), "{layout:?}");
            for query in case["queries"].as_array().expect("a list") {
                let text = query["query"].as_str().expect("a query");
                let forms = query_entities(text, ExtractorKind::Compat);
                for (hops, key) in [(1, "one_hop"), (2, "two_hop")] {
                    let found: Vec<(&str, f64)> =
                        hops_of(&parts, &forms, hops, 10_000).into_iter().map(|(i, s)| (ids[i as usize], s)).collect();
                    let hit = |h: &'_ Value| (h[0].as_str().map(str::to_string), h[1].as_f64());
                    let expected: Vec<_> = query[key].as_array().expect("a list").iter().map(hit).collect();
                    let found: Vec<_> = found.into_iter().map(|(id, s)| (Some(id.to_string()), Some(s))).collect();
                    assert_eq!(found, expected, "{text:?}, {key}, {layout:?}");
                    assert_eq!(hops_of(&parts, &forms, hops, 3).len(), expected.len().min(3));
                }
                queries += 1;
            }
        }
    }
    assert!(queries > 40, "{queries} queries");
}

#[test]
fn the_golden_ranks_come_out_of_entities_and_relations_of_documents() {
    let mut cases = 0;
    for line in include_str!("../../../tests/golden/ppr.jsonl").lines() {
        let case: Value = serde_json::from_str(line).expect("a golden line is JSON");
        let number = |v: &Value| v.as_f64().expect("a number");
        let name = |v: &Value| format!("Node {}", number(v));
        let list = |key: &str| case[key].as_array().expect("a list").clone();
        let nodes = number(&case["nodes"]) as u32;
        let mention = |i: u32| {
            let name = format!("Node {i}");
            let mentions = vec![Mention { key: key(&name), name: name.into(), occurrences: 1, variants: 1 }];
            Doc { mentions, ..Doc::default() }
        };
        let relation = |e: &Value| {
            let relations = vec![Relation::new(name(&e[0]), name(&e[1])).weight(number(&e[2]))];
            Doc { relations, ..Doc::default() }
        };
        let docs: Vec<Doc> = (0..nodes).map(mention).chain(list("edges").iter().map(relation)).collect();
        for layout in layouts(docs.len()) {
            let parts = spread(&docs, &layout);
            let graph = whole(&live(&parts), false).expect("gathers");
            let mut seeds = vec![0.0; graph.keys.len()];
            list("seeds").iter().for_each(|s| seeds[graph.node(&name(&s[0])).expect("a node")] = number(&s[1]));
            let ranks = ppr::personalized_pagerank(&graph.adjacency, &seeds, number(&case["alpha"]));
            for (node, expected) in list("scores").iter().map(number).enumerate() {
                let rank = ranks[graph.node(&format!("node {node}")).expect("a node")];
                assert!((rank - expected).abs() <= 1e-11 + 1e-9 * expected, "case {cases}, node {node}: {rank}, expected {expected}");
            }
        }
        cases += 1;
    }
    assert_eq!(cases, 20);
}

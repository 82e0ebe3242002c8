//! Filters, the entity graph, sources and collections, on the real binary.

use crate::support::Db;
use serde_json::json;

/// Documents with metadata, sources and entities.
fn corpus() -> Db {
    let db = Db::new(&[]);
    let lines = [
        json!({"id": "a", "text": "RAG near Lyon", "metadata": {"year": 2020, "tags": ["x"]}, "source": "one"}),
        json!({"id": "b", "text": "Rag and Paris", "metadata": {"year": 2021}, "source": "one"}),
        json!({"id": "c", "text": "Paris by rail", "metadata": {"year": 2022.5}, "source": "two"}),
        json!({"id": "d", "text": "", "entities": [{"name": "Lyon", "mentions": 3}],
               "relations": [{"source": "Lyon", "target": "Paris", "type": "road", "weight": 2.0}]}),
    ];
    let lines: String = lines.iter().map(|l| format!("{l}\n")).collect();
    db.feed("load", &["-"], lines).ok();
    db
}

#[test]
fn a_filter_restricts_scan_count_search_and_delete() {
    let db = corpus();
    assert_eq!(db.run("scan", &["--filter", r#"{"year":{"$gte":2021}}"#, "--json"]).ok().ids(), ["b", "c"]);
    assert_eq!(db.run("count", &["--filter", r#"{"tags":{"$contains":"x"}}"#, "--json"]).ok().stdout, "{\"count\":1}\n");
    assert_eq!(db.run("search", &["paris", "--mode", "text", "--filter", r#"{"year":2021}"#, "--json"]).ok().ids(), ["b"]);
    assert_eq!(db.run("search", &["Paris", "--mode", "graph", "--filter", r#"{"year":2022.5}"#, "--json"]).ok().ids(), ["c"]);
    assert_eq!(db.run("delete", &["--filter", r#"{"year":{"$lt":2021}}"#, "--json"]).ok().stdout, "{\"deleted\":1}\n");
    assert_eq!(db.run("scan", &["--json"]).ok().ids(), ["b", "c", "d"]);
    assert_eq!(db.run("scan", &["--json", "--limit", "2"]).ok().ids(), ["b", "c"]);
}

#[test]
fn the_graph_answers_for_entities_neighbours_and_ranks() {
    let db = corpus();
    let lyon = &db.run("graph", &["entity", "LYON", "--json"]).ok().objects()[0];
    assert_eq!(
        (&lyon["entity"], &lyon["documents"], &lyon["mentions"], &lyon["relations"]),
        (&json!("lyon"), &json!(2), &json!(4), &json!(1))
    );
    let near = db.run("graph", &["neighbors", "lyon", "--json"]).ok();
    assert_eq!(near.objects()[0]["entity"], "paris");
    let ranks = db.run("graph", &["ppr", "--seeds", r#"{"Lyon":1}"#, "--json"]).ok();
    assert_eq!((&ranks.objects()[0]["entity"], &ranks.objects()[0]["name"]), (&json!("lyon"), &json!("Lyon")));
    let people = db.run("graph", &["ppr", "--seeds", r#"{"Lyon":1}"#, "-k", "1"]).ok().stdout;
    assert!(people.ends_with("  Lyon\n"), "a name as it is written, as `neighbors` prints it: {people}");
    db.run("graph", &["entity", "Nowhere"]).refused(10, "NotFound", &["Nowhere"]);
    db.run("graph", &["ppr", "--seeds", r#"{"Nowhere":1}"#]).refused(10, "NotFound", &["Nowhere"]);
    assert_eq!(db.run("search", &["RAG", "--mode", "graph", "--hops", "1", "--json"]).ok().ids(), ["a", "b"]);
    assert_eq!(db.run("search", &["Lyon", "--mode", "ppr", "--json"]).ok().objects().len(), 4);
}

#[test]
fn people_see_the_first_lines_of_the_graph_and_how_many_are_left() {
    let db = Db::new(&["--collection", "other"]);
    let names: Vec<_> = (0..26).map(|i| json!({"name": format!("n{i}")})).collect();
    db.run("put", &["--collection", "other", &json!({"id": "a", "text": "", "entities": names}).to_string()]).ok();
    let near = |flags: &[&str]| db.run("graph", &[&["neighbors", "n0", "--collection", "other"], flags].concat()).ok().stdout;
    assert_eq!(near(&[]).lines().count(), 21);
    assert!(near(&[]).ends_with("... and 5 more (-k)\n") && near(&[]).starts_with("n1: 1 document in common\n"), "{}", near(&[]));
    assert_eq!((near(&["-k", "3"]).lines().count(), near(&["--json"]).lines().count()), (3, 25));
    let ranks = db.run("graph", &["--collection", "other", "ppr", "-k", "2"]).ok();
    assert_eq!(ranks.stdout.lines().count(), 2);
    assert!(ranks.stderr.contains("no relations"), "{}", ranks.stderr);
    assert_eq!(corpus().run("graph", &["ppr"]).ok().stderr, "");
    let full = db.run("stats", &["--full"]).ok().stdout;
    assert!(full.contains("other: 26 entities, 26 mentions, 0 relations, 325 pairs"), "{full}");
}

#[test]
fn what_was_given_of_the_graph_comes_back() {
    let db = corpus();
    let d = &db.run("get", &["d"]).ok().objects()[0];
    assert_eq!(d["entities"][0]["name"], "Lyon");
    assert_eq!((&d["relations"][0]["type"], &d["relations"][0]["weight"]), (&json!("road"), &json!(2.0)));
    assert_eq!(db.run("get", &["a"]).ok().objects()[0].get("entities"), None, "what was extracted is not what was given");
}

#[test]
fn sources_are_listed_with_what_is_stored_of_them() {
    let db = corpus();
    let sources = db.run("sources", &["--json"]).ok().objects();
    assert_eq!(sources.len(), 2);
    let (one, bytes) = (&sources[0], "RAG near Lyon".len() + "Rag and Paris".len());
    assert_eq!((&one["source"], &one["chunks"], &one["entities"], &one["bytes"]), (&json!("one"), &json!(2), &json!(3), &json!(bytes)));
}

#[test]
fn the_registry_is_one_object_by_source() {
    let db = corpus();
    let printed = db.run("sources", &["--registry"]).ok().stdout;
    assert!(printed.contains("\n    \"chunks\": 2,"), "indented by two: {printed}");
    let registry: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let entry = registry["one"].as_object().unwrap();
    let keys: Vec<&str> = entry.keys().map(String::as_str).collect();
    assert_eq!(keys, ["chunks", "edges", "entities", "id", "name", "uploaded_at", "vectors"]);
    assert_eq!((&entry["id"], &entry["chunks"], &entry["entities"], &entry["edges"]), (&json!("one"), &json!(2), &json!(3), &json!(4)));
    let at = entry["uploaded_at"].as_str().unwrap();
    assert!(at.len() == 32 && at.ends_with("+00:00") && at.starts_with("20"), "{at}");
}

#[test]
fn collections_are_listed_renamed_swapped_and_dropped() {
    let db = corpus();
    db.run("create", &["--collection", "other"]).ok();
    let names = |db: &Db| -> Vec<String> {
        db.run("collections", &["--json"]).ok().objects().iter().map(|o| o["name"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(names(&db), ["main", "other"]);
    db.run("collections", &["rename", "other", "spare"]).ok();
    db.run("collections", &["rename", "spare", "main"]).refused(11, "AlreadyExists", &["main"]);
    db.run("collections", &["swap", "main", "spare"]).ok();
    assert_eq!(db.count(), 0, "main is the empty one now");
    db.run("collections", &["drop", "main"]).ok();
    assert_eq!(names(&db), ["spare"]);
    db.run("collections", &["drop", "main"]).refused(10, "NotFound", &["main"]);
}

#[test]
fn weights_of_legs_are_listed_as_they_were_given() {
    let db = Db::new(&["--leg-weights", "0.7,1,12.345"]);
    let weights = || db.run("collections", &["--json"]).ok().objects()[0]["schema"]["leg_weights"].clone();
    assert_eq!(weights(), json!({"vector": 0.7, "text": 1, "graph": 12.345}));
}

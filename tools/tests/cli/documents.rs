//! Commands about documents and about the database as a whole.

use crate::support::{Db, exists, npy, triune_with};
use serde_json::json;

#[test]
fn create_makes_the_database_then_adds_collections() {
    let db = Db::new(&["--dim", "3", "--metric", "l2", "--scorer", "okapi"]);
    db.run("create", &["--collection", "other", "--extractor", "none", "--analyzer", "word"]).ok();
    db.run("create", &[]).refused(11, "AlreadyExists", &["main"]);
    db.run("put", &[r#"{"id":"a"}"#, "--collection", "other"]).ok();
    assert_eq!(db.run("count", &["--collection", "other"]).ok().stdout, "1\n");
    assert_eq!(db.run("count", &[]).ok().stdout, "0\n");
}

#[test]
fn create_takes_how_components_are_stored() {
    let db = Db::absent();
    let told = db.run("create", &["--components", "f16", "--json"]).ok().objects().remove(0);
    assert_eq!(told["schema"]["components"], "f16");
    db.run("put", &[r#"{"id":"a","vector":[0.1,2049]}"#]).ok();
    assert_eq!(db.run("get", &["a", "--vectors"]).ok().objects()[0]["vector"], json!([0.099975586, 2048.0]));
    db.run("put", &[r#"{"id":"b","vector":[1,65520]}"#]).refused(17, "InvalidArgument", &["component 1", "65520", "65504"]);
    assert_eq!(db.run("count", &[]).ok().stdout, "1\n");
}

#[test]
fn a_refused_create_leaves_nothing_behind() {
    for (flags, code, status) in [
        (&["--dim", "0"][..], "InvalidArgument", 17),
        (&["--dim", "70000"], "LimitExceeded", 19),
        (&["--analyzer", "nonsense"], "InvalidArgument", 17),
        (&["--extractor", "rules"], "InvalidArgument", 17),
        (&["--source-key", ""], "InvalidArgument", 17),
    ] {
        let db = Db::absent();
        db.run("create", flags).refused(status, code, &[]);
        assert!(!exists(&db.path()), "create {flags:?} left something behind");
    }
}

#[test]
fn put_get_and_scan_give_back_what_load_reads() {
    let db = Db::new(&[]);
    let line = r#"{"id":"a","text":"Ünïcode \"text\"","metadata":{"x" : 1.50,"y":[ ]},"source":"s.md","vector":[0.1,-2.0,3e-7]}"#;
    db.run("put", &[line]).ok();
    let printed = db.run("get", &["a", "--vectors"]).ok().stdout;
    assert!(printed.contains(r#""metadata":{"x" : 1.50,"y":[ ]}"#), "metadata is kept byte for byte: {printed}");
    let (got, want): (serde_json::Value, serde_json::Value) =
        (serde_json::from_str(&printed).expect("it is JSON"), serde_json::from_str(line).expect("it is JSON"));
    assert_eq!(got, want);
    assert!(!db.run("get", &["a"]).ok().stdout.contains("vector"));
    assert_eq!(db.run("scan", &["--json", "--vectors"]).ok().stdout, printed);

    let copy = Db::new(&[]);
    copy.feed("load", &["-"], &printed).ok();
    assert_eq!(copy.run("scan", &["--json", "--vectors"]).ok().stdout, printed, "what is printed loads to the same");
}

#[test]
fn a_source_that_the_metadata_names_is_not_printed_as_given() {
    let db = Db::new(&["--source-key", "file"]);
    db.run("put", &[r#"{"id":"a","metadata":{"file":"s.md"}}"#]).ok();
    assert_eq!(db.run("get", &["a"]).ok().objects(), [json!({"id": "a", "text": "", "metadata": {"file": "s.md"}})]);
    assert_eq!(db.run("delete", &["--source", "s.md", "--json"]).ok().stdout, "{\"deleted\":1}\n");
}

#[test]
fn a_name_keeps_to_its_line() {
    let db = Db::new(&[]);
    let document = r#"{"id":"a\nb\u001b[2J","source":"s\nt\u001b[2J","text":"words","entities":[{"name":"E\nF","type":"x","mentions":1}]}"#;
    db.run("put", &[document]).ok();
    let (id, source) = (r"a\x0ab\x1b[2J", r"s\x0at\x1b[2J");
    for (name, rest, shown) in [
        ("scan", &[][..], vec![id, source]),
        ("sources", &[], vec![source]),
        ("search", &["words"], vec![id, source]),
        ("graph", &["entity", "E\nF"], vec![r"E\x0aF"]),
        ("patch", &["a\nb\u{1b}[2J", r#"{"metadata":{"k":1}}"#], vec![id]),
    ] {
        let run = db.run(name, rest).ok();
        assert!(shown.iter().all(|shown| run.stdout.contains(shown)), "{name}: {}", run.stdout);
        assert!(
            run.stdout.lines().count() == if name == "search" { 2 } else { 1 } && !run.stdout.contains('\u{1b}'),
            "{name}: {}",
            run.stdout
        );
    }
    assert_eq!(db.run("scan", &["--json"]).ok().ids(), ["a\nb\u{1b}[2J"], "JSON has its own way to spell them");
}

#[test]
fn put_reads_many_documents_from_stdin_in_one_commit() {
    let db = Db::new(&[]);
    db.feed("put", &["-", "--json"], "{\"id\":\"a\",\n \"text\":\"1\"}\n\n{\"id\":\"b\"}{\"id\":\"a\",\"text\":\"2\"}\n").ok();
    let all = db.run("scan", &["--json"]).ok();
    assert_eq!(all.ids(), ["b", "a"], "the later put of an id replaces the earlier one and goes to the end");
    assert_eq!(all.objects()[1]["text"], "2");
    db.feed("put", &["-"], "{\"id\":\"c\"}\n{\"id\":\"d\",\"title\":1}\n").refused(17, "InvalidArgument", &["stdin, line 2", "\"title\""]);
    assert_eq!(db.count(), 2, "a refused put changes nothing");
}

#[test]
fn get_prints_what_it_finds_and_fails_for_the_rest() {
    let db = Db::new(&[]);
    db.feed("load", &["-"], "{\"id\":\"a\"}\n{\"id\":\"b\"}\n").ok();
    assert_eq!(db.run("get", &["b", "a"]).ok().ids(), ["b", "a"]);
    let run = db.run("get", &["a", "nowhere", "b"]).refused(10, "NotFound", &["\"nowhere\""]);
    assert_eq!(run.ids(), ["a", "b"]);
}

#[test]
fn patch_merges_metadata_and_replaces_text_and_vector() {
    let db = Db::new(&[]);
    db.run("put", &[r#"{"id":"a","text":"old","metadata":{"x":1,"y":2},"vector":[1,2]}"#]).ok();
    db.run("patch", &["a", r#"{"metadata":{"x":null,"z":3},"text":"new"}"#]).ok();
    let doc = &db.run("get", &["a", "--vectors"]).ok().objects()[0];
    assert_eq!(*doc, json!({"id": "a", "text": "new", "metadata": {"y": 2, "z": 3}, "vector": [1.0, 2.0]}));
    db.feed("patch", &["a", "-"], r#"{"vector":null}"#).ok();
    assert_eq!(db.run("get", &["a", "--vectors"]).ok().objects()[0].get("vector"), None);
    db.run("patch", &["b", r#"{"text":"x"}"#]).refused(10, "NotFound", &["b"]);
    db.run("patch", &["a", r#"{"title":"x"}"#]).refused(17, "InvalidArgument", &["\"title\""]);
    db.run("patch", &["a", r#"{"entities":["E"]}"#]).refused(17, "InvalidArgument", &["\"entities\"", "an array of"]);
    db.run("patch", &["a", r#"{"vector":[1,2,3]}"#]).refused(15, "SchemaMismatch", &["2", "3"]);
}

#[test]
fn patch_replaces_entities_and_relations() {
    let db = Db::new(&[]);
    db.run("put", &[r#"{"id":"a","text":"Marie Curie found it."}"#]).ok();
    let radium = json!({"id": "a", "text": "Marie Curie found it.", "entities": [{"name": "Radium", "type": "element", "mentions": 2}],
        "relations": [{"source": "Marie Curie", "target": "Radium", "type": "found", "weight": 1.0}]});
    let patch = r#"{"entities":[{"name":"Radium","type":"element","mentions":2}],"relations":[{"source":"Marie Curie","target":"Radium","type":"found"}]}"#;
    db.run("patch", &["a", patch]).ok();
    let get = || db.run("get", &["a"]).ok().objects().remove(0);
    assert_eq!(get(), radium);
    assert!(db.run("graph", &["neighbors", "radium"]).ok().stdout.contains("Marie Curie"));
    db.run("patch", &["a", r#"{"entities":null,"relations":[]}"#]).ok();
    assert_eq!((get().get("entities"), get().get("relations")), (None, Some(&json!([]))));
    db.run("graph", &["entity", "marie curie"]).ok();
    db.run("graph", &["entity", "radium"]).refused(10, "NotFound", &[]);
}

#[test]
fn a_patch_that_names_nothing_leaves_the_document_in_its_place() {
    let db = Db::new(&[]);
    db.feed("put", &["-"], r#"{"id":"a","text":"1"}{"id":"b"}"#).ok();
    let before = db.run("dump", &[]).ok().stdout;
    for patch in ["{}", r#"{"metadata":{},"text":null}"#] {
        assert!(db.run("patch", &["a", patch]).ok().stdout.contains("a stays as it is"));
        assert_eq!(db.run("patch", &["a", patch, "--json"]).ok().objects()[0], json!({"patched": 0}));
    }
    assert_eq!(db.run("dump", &[]).ok().stdout, before);
    db.run("patch", &["c", "{}"]).refused(10, "NotFound", &["\"c\"", "nothing was changed"]);
}

#[test]
fn delete_by_ids_by_source_and_all_count_what_was_there() {
    let db = Db::new(&[]);
    let lines: String = (0..6).map(|i| format!("{{\"id\":\"{i}\",\"source\":\"s{}\"}}\n", i % 2)).collect();
    db.feed("load", &["-"], lines).ok();
    assert_eq!(db.run("delete", &["--id", "0", "--id", "nowhere", "--json"]).ok().stdout, "{\"deleted\":1}\n");
    assert_eq!(db.run("delete", &["--source", "s1", "--json"]).ok().stdout, "{\"deleted\":3}\n");
    assert_eq!(db.run("delete", &["--source", "nowhere", "--json"]).ok().stdout, "{\"deleted\":0}\n");
    assert_eq!(db.run("scan", &["--json"]).ok().ids(), ["2", "4"]);
    assert_eq!(db.run("delete", &["--all"]).ok().stdout, "deleted 2 documents\n");
    assert_eq!(db.count(), 0);
    assert_eq!(db.run("delete", &[]).status, 2);
    assert_eq!(db.run("delete", &["--all", "--id", "a"]).status, 2);
    db.run("delete", &["--filter", "{}"]).refused(17, "InvalidArgument", &["--all"]);
}

#[test]
fn stats_have_their_keys_and_numbers() {
    let db = Db::new(&[]);
    db.feed("load", &["-"], "{\"id\":\"a\",\"text\":\"one two two\",\"source\":\"s\",\"vector\":[1]}\n{\"id\":\"b\",\"text\":\"two\"}\n")
        .ok();
    let run = db.run("stats", &["--json"]).ok();
    let stats = &run.objects()[0];
    let keys = |v: &serde_json::Value| v.as_object().expect("it is an object").keys().cloned().collect::<Vec<_>>();
    let mut main = keys(&stats["collections"]["main"]);
    main.sort_unstable();
    assert_eq!(
        main,
        ["documents", "entities", "mentions", "relations", "segments", "sources", "terms", "tokens", "vector_bytes", "vectors"]
    );
    assert_eq!(keys(stats).len(), 3);
    let number = |key: &str| stats["collections"]["main"][key].as_u64().expect("it is a number");
    let got = ["documents", "sources", "vectors", "terms", "tokens", "entities", "mentions", "relations"].map(number);
    assert_eq!(got, [2, 1, 1, 2, 4, 0, 0, 0]);
    assert!(stats["bytes"].as_u64().is_some_and(|b| b > 0) && stats["generation"].is_u64());
    let full = &db.run("stats", &["--full", "--json"]).ok().objects()[0];
    assert_eq!(full["collections"]["main"]["cooccurrences"], 0);
    let health = keys(&full["health"]);
    assert_eq!(health, ["garbage_bytes", "garbage_files", "memtable_bytes", "merge_bytes", "merge_segments"]);
    assert_eq!((&full["health"]["memtable_bytes"], &full["health"]["garbage_files"]), (&0.into(), &0.into()), "loading closes cleanly");
    assert!(db.run("stats", &["--full"]).ok().stdout.contains("waiting: 0 segments for merges"));
    assert!(db.run("stats", &[]).ok().stdout.contains("main: 2 documents, 1 source"));
    db.run("stats", &["--collection", "nowhere"]).refused(10, "NotFound", &["nowhere", "triune create"]);
}

#[test]
fn compact_changes_no_answer() {
    let db = Db::new(&[]);
    for i in 0..4 {
        db.run("put", &[&format!("{{\"id\":\"{i}\",\"text\":\"word{i} common\"}}")]).ok();
    }
    db.run("delete", &["--id", "1"]).ok();
    let before = (db.run("scan", &["--json"]).ok().stdout, db.run("search", &["common word2", "--json"]).ok().stdout);
    db.run("compact", &[]).ok();
    assert_eq!(before, (db.run("scan", &["--json"]).ok().stdout, db.run("search", &["common word2", "--json"]).ok().stdout));
    assert!(db.run("stats", &["--json"]).ok().objects()[0]["collections"]["main"]["segments"].as_u64().is_some_and(|n| n <= 1));
}

#[test]
fn compact_says_why_there_are_more_bytes_afterwards() {
    let db = Db::new(&["--ef-construction", "20", "--m", "4"]);
    // Enough vectors for a graph, as random as a sine makes them.
    let component = |i: usize, j: usize| ((i * (7 * j + 1) * (j + 3)) as f64 * 12.9898).sin() as f32;
    let rows: Vec<[f32; 8]> = (0..10_000).map(|i| std::array::from_fn(|j| component(i, j))).collect();
    let vectors = db.file("v.npy", npy("<f4", &rows.iter().map(|r| &r[..]).collect::<Vec<_>>()));
    let lines: String = (0..10_000).map(|i| format!("{{\"id\":\"{i}\"}}\n")).collect();
    db.feed("load", &["-", "--vectors", &vectors, "--batch", "10000"], lines).ok();
    let graphs = || db.run("stats", &["--json"]).ok().objects()[0]["collections"]["main"]["vector_bytes"]["graphs"].clone();
    assert_eq!(graphs(), 0, "a load leaves the graph to a merge");
    let told = db.run("compact", &[]).ok().stdout;
    assert_eq!(graphs(), 1);
    assert!(told.contains("bytes more: vector graphs") && told.contains("and took 0 before"), "{told}");
    // Nothing is left to do, so nothing grows and nothing is explained.
    let again = db.run("compact", &["--json"]).ok().objects().remove(0);
    assert!(again["bytes"].as_u64() <= again["bytes_before"].as_u64(), "{again}");
    assert!(again["graph_bytes"].as_u64() > Some(0) && again["graph_bytes"] == again["graph_bytes_before"], "{again}");
    assert_eq!(db.run("compact", &[]).ok().stdout.lines().count(), 1);
}

#[test]
fn inspect_describes_files_also_when_open_refuses() {
    let db = Db::new(&[]);
    db.run("put", &[r#"{"id":"a"}"#]).ok();
    let files: Vec<String> =
        db.run("inspect", &["--json"]).ok().objects().iter().map(|o| o["file"].as_str().expect("a name").to_string()).collect();
    assert!(files.iter().any(|f| f == "HEAD"), "{files:?}");
    assert!(db.run("inspect", &[]).ok().stdout.contains("HEAD"));
    assert_eq!(db.run("inspect", &["HEAD", "--json"]).ok().objects().len(), 1);
    db.run("inspect", &["nothing"]).refused(10, "NotFound", &["nothing", "HEAD"]);

    let head = db.path().join("HEAD");
    let length = std::fs::metadata(&head).expect("HEAD is there").len() as usize;
    std::fs::write(&head, vec![0x55; length]).expect("HEAD can be damaged");
    db.run("count", &[]).refused(13, "Corrupt", &["HEAD"]);
    let run = db.run("inspect", &["--json"]).ok();
    assert!(run.objects().iter().any(|o| o["file"] == "HEAD"));
}

#[test]
fn analyze_answers_line_by_line() {
    let input = "{\"text\":\"Don't stop\"}\n{\"text\":\"\"}\n";
    let run = triune_with(&["analyze", "--analyzer", "word"], input.as_bytes()).ok();
    assert_eq!(run.stdout, "{\"tokens\":[\"don\",\"t\",\"stop\"]}\n{\"tokens\":[]}\n");
    triune_with(&["analyze", "--analyzer", "word", "-"], b"{\"text\":1}\n").refused(17, "InvalidArgument", &["stdin, line 1"]);
    triune_with(&["analyze", "--analyzer", "nonsense"], b"").refused(17, "InvalidArgument", &["nonsense", "word"]);
    let found = triune_with(&["analyze", "--extractor", "compat"], b"{\"text\":\"RAG and Rag at Google Cloud\"}\n").ok();
    let names: Vec<_> = found.objects()[0]["entities"].as_array().unwrap().iter().map(|e| e["name"].clone()).collect();
    assert_eq!(names, ["RAG", "Rag", "Google Cloud"]);
    triune_with(&["analyze", "--extractor", "rules"], b"").refused(17, "InvalidArgument", &["not yet"]);
    assert_eq!(triune_with(&["analyze"], b"").status, 2);
}

//! `search`: one question, and many.

use crate::support::{Db, Run, npy};
use serde_json::{Value, json};

/// Three documents; text prefers `a`, vectors prefer `b`; `c` has no vector.
fn corpus() -> Db {
    let db = Db::new(&["--dim", "2"]);
    let lines = [
        r#"{"id":"a","text":"alpha alpha beta","vector":[0,1],"metadata":{"n" : 1},"source":"s"}"#,
        r#"{"id":"b","text":"alpha gamma delta epsilon","vector":[1,0]}"#,
        r#"{"id":"c","text":"gamma"}"#,
    ];
    db.feed("load", &["-"], lines.join("\n")).ok();
    db
}

fn ids(answer: &Value) -> Vec<&str> {
    answer["hits"].as_array().expect("hits are a list").iter().map(|h| h["id"].as_str().expect("an id")).collect()
}

#[test]
fn each_mode_answers_with_its_own_order() {
    let db = corpus();
    assert_eq!(db.run("search", &["alpha", "--mode", "text", "--json"]).ok().ids(), ["a", "b"]);
    assert_eq!(db.run("search", &["--mode", "vector", "--vector", "[1, 0]", "--json"]).ok().ids(), ["b", "a"]);
    assert_eq!(db.run("search", &["alpha", "--vector", "[1,0]", "-k", "1", "--json"]).ok().objects().len(), 1);
    assert_eq!(db.run("search", &["alpha", "--mode", "text", "--scorer", "okapi", "--json"]).ok().ids().len(), 2);
    assert_eq!(db.run("search", &["alpha", "-k", "0", "--json"]).ok().stdout, "");
    assert_eq!(db.run("search", &["nowhere", "--mode", "text", "--json"]).ok().stdout, "");
}

#[test]
fn a_number_below_zero_is_a_wrong_number_and_no_unknown_flag() {
    let db = corpus();
    for (command, given) in [("search", &["alpha", "-k", "-1"][..]), ("search", &["alpha", "--ef", "-4"]), ("stats", &["--recall", "-5"])] {
        let run = db.run(command, given);
        let wrong = given[given.len() - 1];
        assert_eq!(run.status, 2, "{}", run.stderr);
        assert!(run.stderr.contains(&format!("invalid value '{wrong}'")), "{command} {given:?}: {}", run.stderr);
    }
}

#[test]
fn a_hit_is_one_object_with_the_ranks_that_led_to_it() {
    let db = corpus();
    let run = db.run("search", &["alpha", "--vector", "[1,0]", "--json"]).ok();
    assert!(run.stdout.contains(r#""metadata":{"n" : 1}"#), "metadata is kept byte for byte: {}", run.stdout);
    let hits = run.objects();
    let a = hits.iter().find(|h| h["id"] == "a").expect("a is found by both");
    let mut keys: Vec<&String> = a.as_object().expect("a hit is an object").keys().collect();
    keys.sort_unstable();
    assert_eq!(keys, ["id", "metadata", "rank", "retrievers", "score", "source", "text"]);
    assert_eq!(a["retrievers"]["text"]["rank"], 0);
    assert_eq!(a["retrievers"]["vector"]["rank"], 1);
    assert_eq!(a["score"].as_f64(), Some(1.0 / 61.0 + 1.0 / 60.0));
    assert_eq!((&a["source"], &a["text"]), (&json!("s"), &json!("alpha alpha beta")));
    assert_eq!(hits.iter().map(|h| h["rank"].as_u64()).collect::<Vec<_>>(), (0..hits.len() as u64).map(Some).collect::<Vec<_>>());
    let b = hits.iter().find(|h| h["id"] == "b").expect("b is found by both");
    assert_eq!((&b["source"], &b["metadata"]), (&Value::Null, &Value::Null));
}

#[test]
fn people_see_rank_score_id_source_and_the_beginning_of_the_text() {
    let db = corpus();
    let long = format!("{{\"id\":\"long\",\"text\":\"alpha {}\"}}", "ü".repeat(400));
    db.run("put", &[&long]).ok();
    let text = db.run("search", &["alpha", "--mode", "text"]).ok().stdout;
    assert!(text.contains("1. a") && text.contains("source s") && text.contains("text #1"), "{text}");
    assert!(text.contains("üü…") && !text.contains(&"ü".repeat(200)), "{text}");
}

#[test]
fn hybrid_without_a_query_vector_is_text_and_says_so() {
    let db = corpus();
    let run = db.run("search", &["alpha", "--json"]).ok();
    assert!(run.stderr.contains("text alone"), "{}", run.stderr);
    let text = db.run("search", &["alpha", "--mode", "text", "--json"]).ok();
    assert_eq!((run.stdout, text.stderr.as_str()), (text.stdout, ""));
}

#[test]
fn an_answer_is_explained_and_what_was_ignored_is_said() {
    let db = corpus();
    db.run("put", &[r#"{"id":"g","text":"HIV in Paris","metadata":{"n":2}}"#]).ok();
    let said = |args: &[&str]| db.run("search", args).ok().stderr;
    let lost = said(&["hiv", "--mode", "graph"]);
    assert!(lost.contains("no entity was found in the question") && lost.contains("no hits"), "{lost}");
    assert_eq!(said(&["HIV", "--mode", "graph"]), "");
    let told = said(&["HIV in Rome", "--mode", "graph", "--filter", "{\"n\":2}", "--explain"]);
    for words in ["mode graph, answered by graph: 1 hit", "HIV (in 1 document), Rome (not in the collection)", "matches 1 of 4 documents"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let told = said(&["alpha", "--vector", "[1,0]", "--explain"]);
    for words in ["mode hybrid, answered by vector, text", "scored by lucene", "one by one (exact), by cosine"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    for (flags, words) in [
        (&["--mode", "text", "--vector", "[1,0]"][..], "--vector"),
        (&["--mode", "text", "--legs", "text"], "--legs"),
        (&["--mode", "text", "--rerank", "text"], "--rerank"),
        (&["--mode", "text", "--hops", "1"], "--hops"),
        (&["--mode", "text", "--exact"], "--exact"),
        (&["--mode", "text", "--ef", "9"], "--ef"),
        (&["--mode", "text", "--recall", "0.9"], "--recall"),
        (&["--legs", "text", "--exact"], "--exact"),
    ] {
        let told = said(&[&["alpha"], flags].concat());
        assert!(told.starts_with("note: ") && told.contains(words), "{words}: {told}");
    }
}

#[test]
fn no_hits_under_a_filter_say_how_many_documents_it_matches() {
    let db = corpus();
    let said = |args: &[&str]| db.run("search", &[&["--mode", "text"], args].concat()).ok().stderr;
    assert_eq!(said(&["gamma", "--filter", r#"{"n":1}"#]), "note: no hits; the filter matches 1 of 3 documents\n");
    assert_eq!(said(&["alpha", "--filter", r#"{"n":2}"#]), "note: no hits; the filter matches 0 of 3 documents\n");
    assert_eq!(said(&["nowhere"]), "note: no hits\n");
}

#[test]
fn what_a_batch_ignores_is_said_once_with_the_lines_that_gave_it() {
    let db = corpus();
    let lines = [
        r#"{"query":"alpha","exact":true}"#,
        r#"{"query":"alpha","ef":9,"hops":1}"#,
        r#"{"query":"alpha","exact":false}"#,
        r#"{"query":"alpha"}"#,
    ];
    let said = batch(&db, &["--mode", "text"], &lines).ok().stderr;
    assert!(said.contains("note: 2 lines: --exact, --ef and --recall count") && said.contains("note: 1 line: --hops counts"), "{said}");
    let said = batch(&db, &["--mode", "text", "--recall", "0.9"], &lines[3..]).ok().stderr;
    assert!(said.contains("note: --exact, --ef and --recall count"), "{said}");
    // The flag may be for the lines of the other mode.
    let mixed = [r#"{"query":"alpha"}"#, r#"{"vector":[1,0],"mode":"vector"}"#];
    let said = batch(&db, &["--mode", "text", "--exact"], &mixed).ok().stderr;
    assert!(!said.contains("count in mode"), "{said}");
}

#[test]
fn an_answer_of_a_batch_has_the_id_of_its_question() {
    let db = corpus();
    let lines = [
        r#"{"id":"q\n1","text":"alpha"}"#,
        r#"{"query":"alpha"}"#,
        r#"{"id":"q3","k":-1}"#,
        r#"{"query":"a","text":"b"}"#,
        r#"{"query":"a","ef":9,"recall":0.9}"#,
        r#"{"id":4}"#,
    ];
    let answers = batch(&db, &["--mode", "text"], &lines).refused(17, "InvalidArgument", &["line 3"]).objects();
    assert_eq!((&answers[0]["id"], ids(&answers[0])), (&json!("q\n1"), vec!["a", "b"]));
    assert_eq!(answers[1].get("id"), None);
    assert_eq!((&answers[2]["id"], &answers[2]["error"]["code"]), (&json!("q3"), &json!("InvalidArgument")));
    assert!(answers[3..].iter().all(|a| a["error"]["code"] == "InvalidArgument"), "{answers:?}");
}

#[test]
fn a_query_vector_comes_from_json_or_from_a_file() {
    let db = corpus();
    let (json, array) = (db.file("q.json", "[1, 0]\n"), db.file("q.npy", npy("<f4", &[&[1.0, 0.0]])));
    let want = db.run("search", &["--mode", "vector", "--vector", "[1,0]", "--json", "--exact"]).ok().stdout;
    for file in [json, array] {
        let flag = format!("@{file}");
        assert_eq!(db.run("search", &["--mode", "vector", "--vector", &flag, "--json"]).ok().stdout, want);
    }
    let two = db.file("two.npy", npy("<f4", &[&[1.0, 0.0], &[1.0, 0.0]]));
    db.run("search", &["--mode", "vector", "--vector", &format!("@{two}")]).refused(17, "InvalidArgument", &["2 rows"]);
    db.run("search", &["--vector", "[1,"]).refused(17, "InvalidArgument", &["--vector"]);
    db.run("search", &["--vector", "@/nowhere.json"]).refused(10, "NotFound", &["/nowhere.json"]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let db = corpus();
    for (args, status, code, words) in [
        (&["alpha", "--mode", "vector"][..], 17, "InvalidArgument", "vector"),
        (&["--mode", "text"], 17, "InvalidArgument", "query"),
        (&[], 17, "InvalidArgument", "nothing to search for"),
        (&["--mode", "graph"], 17, "InvalidArgument", "query"),
        (&["--mode", "ppr"], 17, "InvalidArgument", "query"),
        (&["alpha", "--filter", "{\"n\":{\"$near\":1}}"], 17, "InvalidArgument", "$near"),
        (&["alpha", "--filter", "[]"], 17, "InvalidArgument", "filter"),
        (&["--mode", "vector", "--vector", "[1,2,3]"], 15, "SchemaMismatch", "3"),
        (&["--mode", "vector", "--vector", "[1e39,0]"], 17, "InvalidArgument", "--vector"),
        (&["alpha", "-k", "1000001"], 19, "LimitExceeded", "1000001"),
        (&["alpha", "--collection", "nowhere"], 10, "NotFound", "nowhere"),
    ] {
        db.run("search", args).refused(status, code, &[words]);
    }
    for args in [
        &["alpha", "--mode", "nonsense"][..],
        &["alpha", "-k", "-1"],
        &["alpha", "--queries", "q.jsonl"],
        &["--query-vectors", "v.npy"],
        &["alpha", "--hops", "3"],
    ] {
        assert_eq!(db.run("search", args).status, 2, "{args:?}");
    }
}

fn batch(db: &Db, flags: &[&str], lines: &[&str]) -> Run {
    let file = db.file("q.jsonl", lines.join("\n"));
    db.run("search", &[&["--queries", &file, "--json"], flags].concat())
}

#[test]
fn a_batch_answers_line_for_line_and_flags_fill_the_gaps() {
    let db = corpus();
    let run = batch(
        &db,
        &["--mode", "text", "-k", "1"],
        &[
            r#"{"query":"alpha"}"#,
            r#"{"query":"alpha","k":2,"scorer":"lucene","vector":null,"exact":true,"ef":64}"#,
            r#"{"vector":[1,0],"mode":"vector","query":"alpha"}"#,
            r#"{"query":"alpha","vector":[1,0],"mode":"hybrid","k":10}"#,
            r#"{"query":"nowhere"}"#,
        ],
    )
    .ok();
    let answers = run.objects();
    assert_eq!(answers.iter().map(ids).collect::<Vec<_>>()[..3], [vec!["a"], vec!["a", "b"], vec!["b"]]);
    assert_eq!((answers[0]["retrievers"].clone(), answers[2]["retrievers"].clone()), (json!(["text"]), json!(["vector"])));
    assert_eq!(answers[3]["retrievers"], json!(["vector", "text"]));
    assert_eq!(ids(&answers[4]), Vec::<&str>::new());
    let keys: Vec<&String> = answers[0].as_object().expect("an answer is an object").keys().collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert!(answers.iter().all(|a| a["took_us"].is_u64() && a["hits"][0].as_object().is_none_or(|h| h.len() == 2)));
    assert!(run.stderr.contains("5 queries") && run.stderr.contains("p50") && run.stderr.contains("p99"), "{}", run.stderr);
}

#[test]
fn the_questions_of_the_demo_can_be_asked_as_they_stand() {
    let db = corpus();
    let questions = concat!(env!("CARGO_MANIFEST_DIR"), "/../demo/questions.jsonl");
    let answers = db.run("search", &["--queries", questions, "--mode", "text"]).ok().objects();
    assert!(answers.len() == 12 && answers.iter().all(|answer| answer["hits"].is_array()), "{answers:?}");
}

#[test]
fn bad_lines_are_answered_in_their_place_and_the_first_decides_the_status() {
    let db = corpus();
    let run = batch(
        &db,
        &["--mode", "text"],
        &[
            r#"{"query":"alpha"}"#,
            r#"{"query":"alpha","k":1000001}"#,
            "not JSON",
            r#"{"query":"alpha","title":1}"#,
            r#"{"query":"alpha","mode":"nonsense"}"#,
            r#"{"mode":"graph","query":null}"#,
            r#"{"query":"alpha","filter":{"n":{"$near":1}}}"#,
            r#"{"query":"alpha","hops":3,"mode":"graph"}"#,
            r#"{"query":"alpha","rerank":"nonsense"}"#,
            r#"{"query":"alpha","k":-1}"#,
            r#"{"query":1}"#,
            r#"{"query":"gamma","filter":null}"#,
        ],
    )
    .refused(19, "LimitExceeded", &["line 2", "10 of 12 lines"]);
    let answers = run.objects();
    assert_eq!(answers.len(), 12);
    assert_eq!(ids(&answers[0]), ["a", "b"]);
    assert_eq!(answers[1]["error"]["code"], "LimitExceeded");
    for answer in &answers[2..11] {
        assert_eq!(answer["error"]["code"], "InvalidArgument", "{answer}");
        assert!(answer["error"]["message"].is_string());
    }
    assert_eq!(ids(&answers[11]).len(), 2);
}

#[test]
fn query_vectors_belong_to_their_lines() {
    let db = corpus();
    let vectors = db.file("v.npy", npy("<f2", &[&[1.0, 0.0], &[0.0, 1.0], &[1.0, 0.0]]));
    let flags = ["--query-vectors", &vectors, "--mode", "vector", "-k", "1"];
    let run = batch(&db, &flags, &["{}", r#"{"vector":[1,0]}"#, r#"{"query":"ignored"}"#]);
    let answers = run.refused(17, "InvalidArgument", &["line 2", "\"vector\""]).objects();
    assert_eq!((ids(&answers[0]), ids(&answers[2])), (vec!["b"], vec!["b"]));
    let run = batch(&db, &flags, &["{}", "{}", "{}", "{}"]).refused(17, "InvalidArgument", &["line 4"]);
    assert_eq!(ids(&run.objects()[1]), ["a"]);
    batch(&db, &flags, &["{}"]).refused(17, "InvalidArgument", &["3 rows", "1 line"]);
}

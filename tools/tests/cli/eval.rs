//! `eval` and `search --why-not`: what answers are worth, and where a document fell out of one.

use crate::support::{Db, npy};
use serde_json::{Value, json};

/// Four documents; the question `alpha` finds a, b and c by text, d by vector alone.
fn corpus() -> Db {
    let db = Db::new(&["--dim", "2"]);
    let lines = [
        r#"{"id":"a","text":"alpha alpha","metadata":{"n":1}}"#,
        r#"{"id":"b","text":"alpha beta","metadata":{"n":2}}"#,
        r#"{"id":"c","text":"alpha beta gamma","vector":[0,1]}"#,
        r#"{"id":"d","text":"delta","vector":[1,0]}"#,
    ];
    db.feed("load", &["-"], lines.join("\n")).ok();
    db
}

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().expect("a number");
    assert!((value - expected).abs() < 1e-9, "{value}, expected {expected}");
}

#[test]
fn answers_are_measured_as_a_hand_computes_it() {
    let db = corpus();
    let queries = db.file(
        "q.jsonl",
        "{\"id\":\"1\",\"text\":\"alpha\",\"more\":1}\n{\"id\":\"2\",\"text\":\"delta\"}\n{\"id\":\"3\",\"text\":\"x\"}\n",
    );
    // The first row may name the columns; grades of 0 are no judgements; the third question has none.
    let qrels = db.file("q.tsv", "query\tdocument\tgrade\n1\tb\t2\n1\td\t1\n1\ta\t0\n2\td\t1\n3\ta\t0\n");
    let run = db.run("eval", &["--queries", &queries, "--qrels", &qrels, "--modes", "text", "--json"]).ok();
    assert!(run.stderr.contains("2 questions with a relevant document, 1 without"), "{}", run.stderr);
    let measured = &run.objects()[0];
    assert_eq!((&measured["mode"], &measured["questions"], &measured["k"]), (&json!("text"), &json!(2), &json!(10)));
    // Question 1: a, b, c, of which b has grade 2 at rank 2; the best order is b, d. Question 2: d at rank 1.
    let first = (2.0 / 3f64.log2()) / (2.0 + 1.0 / 3f64.log2());
    near(&measured["ndcg"], (first + 1.0) / 2.0);
    near(&measured["recall"], (0.5 + 1.0) / 2.0);
    near(&measured["mrr"], (0.5 + 1.0) / 2.0);
    assert!(measured["p50_ms"].as_f64().is_some_and(|p50| p50 <= measured["p99_ms"].as_f64().unwrap_or(0.0)));
}

#[test]
fn questions_and_judgements_that_cannot_be_meant_are_refused_by_their_line() {
    let db = corpus();
    let refused = |queries: &str, qrels: &[u8]| {
        let (queries, qrels) = (db.file("q.jsonl", queries), db.file("q.tsv", qrels));
        let run = db.run("eval", &["--queries", &queries, "--qrels", &qrels, "--modes", "text"]);
        assert_ne!(run.status, 0, "{}", run.stdout);
        run.stderr
    };
    let one = "{\"id\":\"1\",\"text\":\"alpha\"}\n";
    assert!(refused(one, b"1\ta\t1,5\n").contains("line 1"), "a first row of names holds no number");
    assert!(refused(one, b"1\ta\tNaN\n").contains("line 1"));
    assert!(refused(one, b"1\ta\t1\n1\t\xff\t1\n").contains("q.tsv, line 2"));
    assert!(refused(&one.repeat(2), b"1\ta\t1\n").contains("on an earlier line"));
    assert!(refused("{\"id\":\"1\",\"text\":\" \"}\n", b"1\ta\t1\n").contains("the text is empty"));
    assert!(refused(one, b"1\ta\t1\n1\ta\t0\n").contains("no question"), "the last judgement of a pair holds");
}

#[test]
fn judgements_of_another_corpus_are_told() {
    let db = corpus();
    let queries = db.file("q.jsonl", "{\"id\":\"1\",\"text\":\"alpha\"}\n");
    let asked = |document: &str| {
        let qrels = db.file("q.tsv", format!("1\t{document}\t1\n"));
        db.run("eval", &["--queries", &queries, "--qrels", &qrels, "--modes", "text"]).ok().stderr
    };
    assert!(asked("z").contains("none of the relevant documents is in main"));
    assert!(!asked("a").contains("none of the relevant"));
}

#[test]
fn what_no_search_can_find_and_what_is_not_measured_is_told() {
    let db = corpus();
    let queries = db.file("q.jsonl", "{\"id\":\"1\",\"text\":\"alpha\"}\n");
    let qrels = db.file("q.tsv", "1\ta\t1\n1\tx\t1\n1\ty\t1\n");
    let said = db.run("eval", &["--queries", &queries, "--qrels", &qrels]).ok().stderr;
    assert!(said.contains("2 of the 3 relevant documents are not in main"), "{said}");
    assert!(said.contains("mode text alone is measured: --query-vectors gives them"), "{said}");
}

#[test]
fn each_mode_is_measured_with_the_vectors_given() {
    let db = corpus();
    let queries = db.file("q.jsonl", "{\"id\":\"1\",\"text\":\"alpha\"}\n");
    let (qrels, vectors) = (db.file("q.tsv", "1 0 d 1\n"), db.file("q.npy", npy("<f4", &[&[1.0, 0.0]])));
    let run = db.run("eval", &["--queries", &queries, "--qrels", &qrels, "--query-vectors", &vectors, "--json"]).ok();
    let modes = run.objects();
    assert_eq!(modes.iter().map(|m| m["mode"].as_str().unwrap_or_default()).collect::<Vec<_>>(), ["text", "vector", "hybrid"]);
    near(&modes[0]["mrr"], 0.0);
    near(&modes[1]["mrr"], 1.0);
    // By weights of 1, c (in both lists) comes before d; where text weighs nothing, d is the first.
    near(&modes[2]["mrr"], 1.0 / 2.0);
    let weights = ["--query-vectors", &vectors, "--modes", "hybrid", "--leg-weights", "1,0,0", "--json"];
    let run = db.run("eval", &[&["--queries", queries.as_str(), "--qrels", &qrels], &weights[..]].concat()).ok();
    near(&run.objects()[0]["mrr"], 1.0);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let db = corpus();
    let queries = db.file("q.jsonl", "{\"id\":\"1\",\"text\":\"alpha\"}\n");
    let (good, none) = (db.file("q.tsv", "1\ta\t1\n"), db.file("n.tsv", "1\ta\t0\n"));
    let bad = db.file("b.tsv", "1\ta\t1\n1\ta\tmuch\n");
    db.run("eval", &["--queries", &queries, "--qrels", &none]).refused(17, "InvalidArgument", &["no question"]);
    db.run("eval", &["--queries", &queries, "--qrels", &bad]).refused(17, "InvalidArgument", &["line 2"]);
    db.run("eval", &["--queries", &queries, "--qrels", &good, "--modes", "vector"]).refused(17, "InvalidArgument", &["query vector"]);
    let two = db.file("two.npy", npy("<f4", &[&[1.0, 0.0], &[1.0, 0.0]]));
    db.run("eval", &["--queries", &queries, "--qrels", &good, "--query-vectors", &two]).refused(
        17,
        "InvalidArgument",
        &["2 rows", "1 line"],
    );
    let keyless = db.file("k.jsonl", "{\"text\":\"alpha\"}\n");
    db.run("eval", &["--queries", &keyless, "--qrels", &good]).refused(17, "InvalidArgument", &["line 1", "no id"]);
    assert_eq!(db.run("eval", &["--qrels", &good]).status, 2);
}

#[cfg(feature = "static-embedder")]
#[test]
fn a_corpus_is_measured_without_a_database() {
    let db = Db::absent();
    let corpus = db.file(
        "c.jsonl",
        "{\"id\":\"h\",\"title\":\"Heart\",\"text\":\"a blocked artery\",\"year\":1}\n{\"id\":\"w\",\"title\":\"Wheat\",\"text\":\"the price of bread\"}\n",
    );
    let queries = db.file("q.jsonl", "{\"id\":\"1\",\"text\":\"cardiac infarction\"}\n");
    let qrels = db.file("q.tsv", "1\th\t1\n");
    let args = ["eval", "--corpus", &corpus, "--queries", &queries, "--qrels", &qrels, "--json"];
    let modes = crate::support::triune(&args).ok().objects();
    assert_eq!(modes.len(), 3);
    near(&modes[0]["recall"], 0.0);
    near(&modes[1]["ndcg"], 1.0);
    near(&modes[2]["ndcg"], 1.0);
}

/// `search alpha --why-not ID FLAGS... --json`: the step.
fn why(db: &Db, id: &str, flags: &[&str]) -> Value {
    db.run("search", &[&["alpha", "--why-not", id, "--json"], flags].concat()).ok().objects().remove(0)
}

#[test]
fn a_document_that_is_missing_is_told_where_it_fell_out() {
    let db = corpus();
    let both = ["--vector", "[1,0]"];
    assert_eq!(why(&db, "nobody", &both)["step"], "collection");
    let filtered = why(&db, "b", &["--filter", "{\"n\":1}"]);
    assert_eq!(filtered["step"], "filter");
    assert!(filtered["why"].as_str().is_some_and(|w| w.contains("1 of 4 documents")), "{filtered}");
    let unfound = why(&db, "d", &["--mode", "text"]);
    assert_eq!((&unfound["step"], &unfound["legs"][0]["why"]), (&json!("retrievers"), &json!("it shares no term with the question")));
    let vectorless = why(&db, "a", &["--mode", "vector", "--vector", "[1,0]"]);
    assert_eq!((&vectorless["step"], &vectorless["legs"][0]["why"]), (&json!("retrievers"), &json!("it has no vector")));
    let below = why(&db, "c", &["--mode", "text", "-k", "2"]);
    assert_eq!((&below["step"], &below["rank"], &below["legs"][0]["rank"]), (&json!("k"), &json!(2), &json!(2)));
    let there = why(&db, "a", &both);
    assert_eq!((&there["step"], &there["legs"][1]["rank"]), (&json!("answer"), &json!(0)));
    let people = db.run("search", &["alpha", "--why-not", "b", "-k", "1", "--mode", "text"]).ok().stdout;
    assert!(people.contains("b: it is at rank 2 of the list") && people.contains("text: rank 2 of 3"), "{people}");
}

#[test]
fn a_rank_below_the_candidates_or_below_k_of_the_fused_list_is_named() {
    let db = Db::new(&["--dim", "2"]);
    // Texts get longer, so they rank in the order of their numbers; so do the vectors, which turn away.
    let line =
        |i: u32| format!("{{\"id\":\"d{i}\",\"text\":\"alpha{}\",\"vector\":[1,{}]}}", " x".repeat(i as usize), f64::from(i) / 100.0);
    db.feed("load", &["-"], (0..30).map(line).collect::<Vec<_>>().join("\n")).ok();
    let both = ["--vector", "[1,0]", "-k", "5"];
    let candidates = why(&db, "d25", &both);
    assert_eq!((&candidates["step"], &candidates["legs"][0]["rank"]), (&json!("candidates"), &json!(25)));
    assert!(candidates["legs"][1]["why"].as_str().is_some_and(|w| w.contains("below the first 20")), "{candidates}");
    let fused = why(&db, "d7", &both);
    assert_eq!((&fused["step"], &fused["rank"]), (&json!("k"), &json!(7)));
    assert!((fused["score"].as_f64().unwrap_or_default() - 2.0 / 67.0).abs() < 1e-12, "{fused}");
}

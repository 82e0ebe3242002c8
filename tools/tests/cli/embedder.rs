//! The embedder that is part of the program: vectors from the first run on, and never two kinds of them in one collection.

use crate::support::{Db, npy};
use serde_json::{Value, json};
use std::fs;

/// Three files, ingested.
fn ingested(flags: &[&str]) -> Db {
    let db = Db::absent();
    let root = folder(&db);
    db.run("ingest", &[&[root.as_str()], flags].concat()).ok();
    db
}

fn folder(db: &Db) -> String {
    let root = db.directory.path().join("in");
    fs::create_dir_all(&root).expect("a folder can be made");
    for (name, text) in [
        ("heart.txt", "A blocked artery starves the heart muscle of oxygen, and the muscle dies."),
        ("wheat.txt", "The harvest of wheat was poor, and bread became expensive in the towns."),
        ("song.txt", "She sang an old song while the band played softly behind her."),
    ] {
        fs::write(root.join(name), text).expect("a file can be written");
    }
    root.to_str().expect("the path is UTF-8").to_string()
}

fn embedder_of(db: &Db) -> Value {
    db.run("dump", &[]).ok().objects()[1]["schema"]["embedder"].clone()
}

#[test]
fn the_first_ingest_and_the_first_search_are_hybrid_without_any_setting() {
    let db = ingested(&[]);
    let run = db.run("search", &["myocardial infarction", "--json"]).ok();
    let hits = run.objects();
    assert_eq!(hits[0]["id"], "heart.txt#0", "no word is shared, so the vector found it: {}", run.stdout);
    assert_eq!((hits[0]["retrievers"]["vector"]["rank"].clone(), hits[0]["retrievers"].get("text")), (json!(0), None));
    let both = db.run("search", &["price of bread", "--json", "--explain"]).ok();
    assert!(both.stderr.contains("answered by vector, text"), "{}", both.stderr);
    assert_eq!(both.objects()[0]["id"], "wheat.txt#0");
    assert_eq!(db.run("search", &["--mode", "vector", "someone singing music", "--json"]).ok().ids()[0], "song.txt#0");
}

#[test]
fn every_question_of_a_batch_that_has_no_vector_gets_one() {
    let db = ingested(&[]);
    let questions = db.file("q.jsonl", "{\"query\":\"myocardial infarction\"}\n{\"query\":\"bread\",\"mode\":\"text\"}\n");
    let answers = db.run("search", &["--queries", &questions]).ok().objects();
    assert_eq!((&answers[0]["retrievers"], &answers[0]["hits"][0]["id"]), (&json!(["vector", "text"]), &json!("heart.txt#0")));
    assert_eq!(answers[1]["retrievers"], json!(["text"]));
}

#[test]
fn the_fingerprint_and_the_weights_are_stored() {
    let db = ingested(&[]);
    let embedder = embedder_of(&db);
    assert!(embedder.as_str().is_some_and(|e| e.starts_with("triune-static-256-v1-")), "{embedder}");
    let dump = db.run("dump", &[]).ok().stdout;
    assert!(dump.contains("\"leg_weights\":"), "{dump}");
    let stats = &db.run("stats", &["--json"]).ok().objects()[0];
    assert_eq!(stats["collections"]["main"]["embedder"], embedder, "{stats}");
    let told = db.run("stats", &[]).ok().stdout;
    assert!(told.contains("vectors by the embedder triune-static-256-v1-"), "{told}");
    // The vectors are there, of unit length.
    let document = &db.run("get", &["heart.txt#0", "--vectors"]).ok().objects()[0];
    let vector: Vec<f64> = serde_json::from_value(document["vector"].clone()).expect("a vector");
    assert_eq!(vector.len(), 256);
    assert!((vector.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-4);
}

#[test]
fn without_an_embedder_chunks_have_no_vectors_and_that_is_said() {
    let db = Db::absent();
    let root = folder(&db);
    let run = db.run("ingest", &[&root, "--embedder", "none"]).ok();
    assert!(run.stderr.contains("no embedder"), "{}", run.stderr);
    assert_eq!(embedder_of(&db), Value::Null);
    let search = db.run("search", &["wheat", "--json"]).ok();
    assert!(search.stderr.contains("text alone"), "{}", search.stderr);
    // What was made without one stays so, unless asked; and then it is refused.
    fs::write(db.directory.path().join("in/new.txt"), "more").expect("a file can be written");
    assert!(db.run("ingest", &[&root]).ok().stderr.contains("no embedder"));
    db.run("ingest", &[&root, "--embedder", "static"]).refused(16, "EmbedderMismatch", &["without an embedder", "triune-static-256"]);
    db.run("search", &["wheat", "--embedder", "static"]).refused(16, "EmbedderMismatch", &["without an embedder"]);
}

#[test]
fn vectors_of_another_embedder_are_never_mixed_in() {
    let db = ingested(&[]);
    let root = folder(&db);
    // Vectors of unknown origin: no embedder comes in beside them.
    db.run("create", &["--collection", "given"]).ok();
    let line = db.file("v.jsonl", "{\"id\":\"a\",\"text\":\"wheat\"}\n");
    let vectors = db.file("v.npy", npy("<f4", &[&[1.0, 0.0]]));
    db.run("load", &["--collection", "given", &line, "--vectors", &vectors]).ok();
    for command in [&["ingest", &root][..], &["load", &line], &["search", "wheat"]] {
        let flags = [&command[1..], &["--collection", "given", "--embedder", "static"]].concat();
        db.run(command[0], &flags).refused(16, "EmbedderMismatch", &["does not name", "triune-static-256"]);
    }
    // Unasked, the chunks come in without vectors, and the search goes without one.
    assert!(db.run("ingest", &[&root, "--collection", "given"]).ok().stderr.contains("no embedder"));
    assert!(db.run("search", &["wheat", "--collection", "given"]).ok().stderr.contains("text alone"));
}

#[test]
fn a_collection_of_another_embedder_refuses_ours_and_both_are_named() {
    let db = Db::new(&["--embedder-name", "model 7", "--dim", "2"]);
    let root = folder(&db);
    let line = db.file("v.jsonl", "{\"id\":\"a\",\"text\":\"wheat\"}\n");
    let vectors = db.file("v.npy", npy("<f4", &[&[1.0, 0.0]]));
    db.run("load", &[&line, "--vectors", &vectors]).ok();
    let both = ["\"model 7\"", "triune-static-256-v1-", "Nothing was changed"];
    db.run("ingest", &[&root]).refused(16, "EmbedderMismatch", &both);
    db.run("ingest", &[&root, "--embedder", "static"]).refused(16, "EmbedderMismatch", &both);
    db.run("load", &[&line, "--embedder", "static"]).refused(16, "EmbedderMismatch", &both);
    db.run("search", &["wheat", "--embedder", "static"]).refused(16, "EmbedderMismatch", &both);
    // Unasked, a search goes without a vector and says whose are wanted.
    let run = db.run("search", &["wheat", "--json"]).ok();
    assert!(run.stderr.contains("\"model 7\"") && run.stderr.contains("text alone"), "{}", run.stderr);
    assert_eq!(run.ids(), ["a"]);
    let told = db.run("search", &["wheat", "--mode", "vector"]).refused(17, "InvalidArgument", &["needs a query vector"]);
    assert!(told.stderr.contains("model 7"), "{}", told.stderr);
    assert_eq!(db.count(), 1);
}

#[cfg(all(unix, feature = "command"))]
#[test]
fn a_program_makes_the_vectors_of_documents_and_questions() {
    let db = Db::absent();
    let root = folder(&db);
    // Counts the letters a, b and c of each text.
    let program = r#"import json,sys
print(json.dumps({"fingerprint":"letters-v1","dimension":3}),flush=True)
for line in sys.stdin:
    print(json.dumps({"vectors":[[t.count(c) for c in "abc"] for t in json.loads(line)["texts"]]}),flush=True)
"#;
    let embedder = format!("cmd:python3 {}", db.file("letters.py", program));
    db.run("ingest", &[&root, "--embedder", "cmd:/nowhere/at/all"]).refused(24, "Model", &["all"]);
    let dies = db.file("dies.py", "print('{\"fingerprint\":\"dies-v1\",\"dimension\":3}',flush=True)\ninput()\n");
    db.run("ingest", &[&root, "--embedder", &format!("cmd:python3 {dies}")]).refused(24, "Model", &["python3"]);
    assert!(!db.path().exists(), "a first ingest whose embedder does not answer leaves nothing");
    db.run("ingest", &[&root, "--embedder", &embedder]).ok();
    db.run("ingest", &[&root, "--collection", "more", "--embedder", &format!("cmd:python3 {dies}")]).refused(24, "Model", &["python3"]);
    assert_eq!(db.run("collections", &["--json"]).ok().objects().len(), 1, "nor does a first ingest into a collection");
    assert_eq!(embedder_of(&db), json!("letters-v1"));
    let hits = db.run("search", &["a", "--mode", "vector", "--embedder", &embedder, "--json"]).ok().objects();
    assert_eq!(hits.len(), 3);
    assert!(hits[0]["score"].as_f64().is_some_and(|s| s > 0.5), "{hits:?}");
    // The embedder of the program is another, and both are named.
    let both = ["letters-v1", "triune-static-256-v1-"];
    db.run("ingest", &[&root]).refused(16, "EmbedderMismatch", &both);
    db.run("search", &["a", "--embedder", "static"]).refused(16, "EmbedderMismatch", &both);
    let told = db.run("search", &["a", "--embedder", "cmd:/nowhere/at/all --key secret"]).refused(24, "Model", &["all"]);
    assert!(!told.stderr.contains("secret"), "{}", told.stderr);
}

#[test]
fn load_makes_vectors_when_it_is_told_to() {
    let db = Db::new(&["--embedder", "static"]);
    let lines = "{\"id\":\"a\",\"text\":\"a blocked artery starves the heart\"}\n{\"id\":\"b\",\"text\":\"\"}\n{\"id\":\"c\",\"text\":\"the price of wheat\"}\n";
    db.feed("load", &["-", "--embedder", "static", "--batch", "2"], lines).ok();
    assert_eq!(
        db.run("search", &["--mode", "vector", "cardiac arrest", "--json"]).ok().ids(),
        ["a", "c"],
        "a text of no word has no vector"
    );
    let own = "{\"id\":\"d\",\"text\":\"x\",\"vector\":[1]}\n";
    db.feed("load", &["-", "--embedder", "static"], own).refused(17, "InvalidArgument", &["give one of them"]);
    db.run("search", &["wheat", "--embedder", "none", "--json"]).ok();
    db.run("search", &["wheat", "--embedder", "https://user:secret@host"]).refused(17, "InvalidArgument", &["static, none or cmd:PROGRAM"]);
    let told = db.run("search", &["wheat", "--embedder", "https://user:secret@host"]);
    assert!(!told.stderr.contains("secret"), "what may hold a key is not repeated: {}", told.stderr);
}

#[test]
fn weights_of_legs_are_chosen_when_a_collection_is_made() {
    let db = Db::new(&["--leg-weights", "0.25,1,0"]);
    let dump = db.run("dump", &[]).ok().stdout;
    assert!(dump.contains(r#""leg_weights":{"vector":250,"text":1000,"graph":0}"#), "{dump}");
    let other = Db::absent();
    other.run("create", &["--leg-weights", "1,-1,1"]).refused(17, "InvalidArgument", &["0 to 1000", "-1"]);
    other.run("create", &["--leg-weights", "1,2"]).refused(17, "InvalidArgument", &["three", "2 were given"]);
}

#[test]
fn what_gets_no_vector_or_asks_nothing_is_told() {
    let db = Db::new(&["--embedder", "static"]);
    let line = r#"{"id":"a","text":"some words","source":"notes"}"#;
    let loaded = db.feed("load", &["-"], line).ok().stderr;
    assert!(loaded.contains("names the embedder") && loaded.contains("--embedder makes them"), "{loaded}");
    let embedded = db.feed("load", &["-", "--embedder", "static"], line).ok().stderr;
    assert!(!embedded.contains("names the embedder"), "{embedded}");
    let empty = db.run("search", &[""]).ok();
    assert!(empty.stderr.contains("the query is empty") && !empty.stderr.contains("no query vector"), "{}", empty.stderr);
    let vector = db.run("search", &["", "--mode", "vector"]);
    assert!(vector.stderr.contains("an empty query has none"), "{}", vector.stderr);
    let source = db.run("search", &["words", "--why-not", "notes"]).ok().stdout;
    assert!(source.contains("the source of that name has 1 document"), "{source}");
}

#[test]
fn a_text_that_comes_without_a_vector_is_noted_where_an_embedder_is_named() {
    let db = Db::new(&["--embedder", "static"]);
    let run = db.run("put", &[r#"{"id":"a","text":"A puncture."}"#]).ok();
    assert!(run.stderr.contains("1 document came without a vector"), "{}", run.stderr);
    let run = db.run("patch", &["a", r#"{"text":"A flat tyre."}"#]).ok();
    assert!(run.stderr.contains("of the old text"), "{}", run.stderr);
    assert_eq!(db.run("patch", &["a", r#"{"text":"None.","vector":null}"#]).ok().stderr, "");
}

/// The recipe of docs/vectors.md: another schema takes the documents, and answers as the first did.
#[test]
fn what_was_ingested_is_built_anew_with_another_schema() {
    let db = Db::absent();
    let note = |name: &str, text: &str| db.file(name, text);
    let files = [note("heart.md", "A blocked artery starves the heart muscle."), note("wheat.md", "The harvest of wheat was poor.")];
    db.run("ingest", &[&files[0], &files[1]]).ok();
    let schema = |db: &Db| db.run("collections", &["--json"]).ok().objects()[0]["schema"].clone();
    let stored = db.run("scan", &["--json"]).ok().stdout;
    let anew = Db::absent();
    anew.feed("build", &["--input", "-"], &stored).refused(17, "InvalidArgument", &["--source-key file_path"]);
    let flags = ["--components", "f16", "--source-key", "file_path", "--embedder", "static", "--input", "-"];
    anew.feed("build", &flags, &stored).ok();
    assert_eq!((&schema(&anew)["components"], &schema(&anew)["leg_weights"]), (&"f16".into(), &schema(&db)["leg_weights"]));
    let first = |db: &Db| db.run("search", &["myocardial infarction", "--json"]).ok().ids()[0].clone();
    assert_eq!(first(&anew), first(&db));
    // With the vectors: the name of the embedder brings its weights.
    let (named, with_vectors) = (Db::absent(), db.run("scan", &["--vectors", "--json"]).ok().stdout);
    let name = schema(&db)["embedder"].as_str().expect("a name").to_string();
    let flags = ["--source-key", "file_path", "--embedder-name", &name, "--input", "-"];
    named.feed("build", &flags, &with_vectors).ok();
    assert_eq!(schema(&named)["leg_weights"], schema(&db)["leg_weights"]);
    assert_eq!(first(&named), first(&db));
}

/// A program that says which process it is, gives the first answer, and then works for an hour.
#[cfg(all(unix, feature = "command"))]
fn slow(db: &Db) -> (String, std::path::PathBuf) {
    let pid = db.directory.path().join("pid");
    let program = format!(
        r#"import json,os,sys,time
print(json.dumps({{"fingerprint":"slow-v1","dimension":3}}),flush=True)
for n,line in enumerate(sys.stdin):
    if n:
        open({pid:?},"w").write(str(os.getpid())+"\n")
        time.sleep(3600)
    print(json.dumps({{"vectors":[[1,2,3] for t in json.loads(line)["texts"]]}}),flush=True)
"#
    );
    (format!("cmd:python3 {}", db.file("slow.py", program)), pid)
}

#[cfg(all(unix, feature = "command"))]
#[test]
fn ctrl_c_ends_the_program_that_makes_vectors_too() {
    use std::process::Command;
    let kill = |signal: &str, pid: &str| Command::new("kill").args([signal, pid]).output().expect("kill runs").status.success();
    let lines: String = (0..600).map(|i| format!("{{\"id\":\"{i}\",\"text\":\"a\"}}\n")).collect();
    for command in ["ingest", "load", "build", "search"] {
        let db = Db::absent();
        let (embedder, pid) = slow(&db);
        let (root, input) = (folder(&db), db.file("lines.jsonl", &lines));
        let questions = db.file("questions.jsonl", "{\"query\":\"a\"}\n{\"query\":\"b\"}\n");
        if ["load", "search"].contains(&command) {
            db.run("create", &["--embedder", &embedder]).ok();
        }
        let from: &[&str] = match command {
            "ingest" => &[&root],
            "load" => &[&input],
            "search" => &["--queries", &questions],
            _ => &["--input", &input],
        };
        let mut child = db.command(command, &[from, &["--embedder", &embedder]].concat()).spawn().expect("the binary starts");
        let started = || std::fs::read_to_string(&pid).ok().filter(|s| s.ends_with('\n'));
        let program = loop {
            match started() {
                Some(pid) => break pid.trim().to_string(),
                None => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
            assert_eq!(child.try_wait().expect("it can be asked"), None, "{command}: it ended before its program was asked");
        };
        assert!(kill("-0", &program) && kill("-INT", &child.id().to_string()));
        let output = child.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{command}: {stderr}");
        assert!(stderr.contains("stopped by Ctrl-C"), "{command}: {stderr}");
        assert!(!kill("-0", &program), "{command}: the program still runs");
    }
}

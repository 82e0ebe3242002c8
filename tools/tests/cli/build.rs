//! `build`: a database out of lines, of an array, or of both; what an error says and leaves; what Ctrl-C and a kill leave.

use crate::support::{Db, npy};
use std::io::Write;
use std::process::Stdio;

fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|i| format!("{{\"id\":\"{i}\",\"text\":\"text {i}\",\"source\":\"s{}\"}}\n", i % 3)).collect()
}

/// Two components that go round.
fn rows(count: usize) -> Vec<[f32; 2]> {
    (0..count).map(|i| [(i as f32 * 0.7).cos(), (i as f32 * 0.7).sin()]).collect()
}

fn array(count: usize) -> Vec<u8> {
    let rows = rows(count);
    npy("<f4", &rows.iter().map(|r| &r[..]).collect::<Vec<_>>())
}

/// Nothing is left of a build that was refused.
#[track_caller]
fn nothing_left(db: &Db) {
    assert!(!crate::support::exists(&db.path()), "{:?}", std::fs::read_dir(db.path()).map(|d| d.count()));
}

#[test]
fn a_build_holds_what_a_load_would() {
    let flags = ["--metric", "l2", "--extractor", "none", "--m", "8", "--ef-construction", "50", "--quantisation", "none"];
    let built = Db::absent();
    let (file, vectors) = (built.file("d.jsonl", lines(0..50)), built.file("v.npy", array(50)));
    let sources = ["--input", &file, "--vectors", &vectors, "--threads", "1", "--json"];
    let told = built.run("build", &[&sources[..], &flags].concat()).ok().objects().remove(0);
    assert_eq!((&told["documents"], &told["vectors"], &told["segments"], &told["graphs"]), (&50.into(), &50.into(), &1.into(), &0.into()));
    assert!(told["recall_at_ef_64"].is_null() && told["bytes"].is_u64() && told["seconds"].is_f64(), "{told}");
    let loaded = Db::new(&flags);
    loaded.run("load", &[&file, "--vectors", &vectors]).ok();
    let timeless = |db: &Db| -> Vec<String> {
        let dump = db.run("dump", &[]).ok().stdout;
        // All but the trailer, which has a checksum over the times.
        let lines: Vec<&str> = dump.lines().collect();
        lines[..lines.len() - 1]
            .iter()
            .map(|l| l.split("\"time_ms\":\"").map(|p| p.trim_start_matches(char::is_numeric)).collect())
            .collect()
    };
    assert_eq!(timeless(&built), timeless(&loaded));
    let search = ["text", "--vector", "[1,0]", "--json"];
    assert_eq!(built.run("search", &search).ok().stdout, loaded.run("search", &search).ok().stdout);
    built.run("fsck", &["--level", "3"]).ok();
    built.run("put", &[r#"{"id":"after"}"#]).ok();
    assert_eq!(built.count(), 51);
    let text = Db::absent().feed("build", &["--input", "-"], lines(0..3)).ok().stdout;
    assert!(text.contains("3 documents, 0 vectors in 1 segment with 0 vector graphs"), "{text}");
}

#[test]
fn enough_vectors_get_a_graph_whose_recall_is_told_and_can_be_audited() {
    let db = Db::absent();
    // As random as a sine makes them.
    let component = |i: usize, j: usize| ((i * (7 * j + 1) * (j + 3)) as f64 * 12.9898).sin() as f32;
    let rows: Vec<[f32; 16]> = (0..10_000).map(|i| std::array::from_fn(|j| component(i, j))).collect();
    let vectors = db.file("v.npy", npy("<f4", &rows.iter().map(|r| &r[..]).collect::<Vec<_>>()));
    let run = db.run("build", &["--vectors", &vectors, "--collection", "points", "--ef-construction", "20", "--m", "4"]).ok();
    assert!(run.stdout.contains("10000 documents, 10000 vectors in 1 segment with 1 vector graph"), "{}", run.stdout);
    assert!(run.stdout.contains("recall@10 at ef 64"), "{}", run.stdout);
    let ids = db.run("scan", &["--collection", "points", "--limit", "3", "--json"]).ok().ids();
    assert_eq!(ids, ["0", "1", "2"], "the number of a row is its id");
    let stats = db.run("stats", &["--json", "--recall", "20"]).ok().objects().remove(0);
    let points = &stats["collections"]["points"];
    assert_eq!((&points["vector_bytes"]["graphs"], &points["recall"]["sampled"]), (&1.into(), &20.into()));
    assert!(points["vector_bytes"]["links"].as_u64() > Some(10_000) && points["vector_bytes"]["codes"].as_u64() > Some(10_000), "{points}");
    assert_eq!(points["vector_bytes"]["vectors"], 10_000 * (16 * 4 + 8), "{points}");
    let recall = points["recall"]["recall_at_10"].as_f64().expect("a share");
    assert!((0.5..=1.0).contains(&recall) && points["recall"]["walks"] == 1.0, "{points}");
    assert!(points["recall"]["mean_us"].is_f64() && points["recall"]["exact_mean_us"].is_f64(), "{points}");
    let text = db.run("stats", &["--recall"]).ok().stdout;
    assert!(text.contains("of 100 stored vectors") && text.contains("in 1 vector graph"), "{text}");
    // What led to an answer is said as it was.
    let question = format!("{:?}", rows[77]);
    let said = |flags: &[&str]| {
        let base = ["--collection", "points", "--mode", "vector", "--vector", &question, "--explain"];
        db.run("search", &[&base[..], flags].concat()).ok().stderr
    };
    assert!(said(&["--ef", "20"]).contains("1 vector graph was walked with 20 candidates (ef); every score is exact, by cosine"));
    assert!(said(&["--recall", "0.5"]).contains("1 vector graph was walked to find 0.5 of the nearest"));
    assert!(said(&["--exact"]).contains("10000 vectors were compared one by one (exact), by cosine"));
    db.run("put", &[&format!("{{\"id\":\"new\",\"vector\":{question}}}"), "--collection", "points"]).ok();
    let both = said(&["--ef", "20"]);
    assert!(both.contains("walked with 20 candidates (ef), and 1 vector was compared one by one"), "{both}");
    let pinned = db
        .feed(
            "search",
            &["--collection", "points", "--queries", "-", "--pinned"],
            format!("{{\"vector\":{question},\"mode\":\"vector\",\"ef\":20}}"),
        )
        .ok();
    assert!(pinned.stderr.contains("bytes of links and codes are pinned") && !pinned.stderr.contains(": 0 bytes"), "{}", pinned.stderr);
    assert_eq!(db.run("search", &["x", "--pinned"]).status, 2, "it is for many questions");
}

#[test]
fn an_audit_without_vectors_says_so() {
    let db = Db::new(&[]);
    db.run("put", &[r#"{"id":"a"}"#]).ok();
    assert!(db.run("stats", &["--recall"]).ok().stdout.contains("main: no document has a vector, so there is no recall to measure"));
    let stats = db.run("stats", &["--recall", "5", "--json"]).ok().objects().remove(0);
    assert_eq!(stats["collections"]["main"]["recall"], serde_json::json!({ "sampled": 0 }));
    assert_eq!(db.run("stats", &["--recall", "0"]).status, 2);
}

#[test]
fn rows_have_ids_of_their_own_when_they_are_given() {
    let db = Db::absent();
    let (vectors, ids) = (db.file("v.npy", array(3)), db.file("ids.txt", "a b\n\nc\r\nd\n"));
    db.run("build", &["--vectors", &vectors, "--ids", &ids]).ok();
    assert_eq!(db.run("scan", &["--json"]).ok().ids(), ["a b", "c", "d"]);
    let db = Db::absent();
    let build = |ids: &str| db.feed("build", &["--vectors", &vectors, "--ids", "-"], ids);
    build("a\nb\n").refused(17, "InvalidArgument", &["stdin, line 2", "3 rows", "2 lines", "No database was made"]);
    build("a\nb\nc\nd\n").refused(17, "InvalidArgument", &["stdin, line 4", "3 rows"]);
    build("a\n\nb\na\n").refused(18, "DuplicateId", &["stdin, line 4", "\"a\" stands in line 1 already"]);
    nothing_left(&db);
}

#[test]
fn an_error_names_its_line_and_leaves_nothing() {
    for (bad, status, code, words) in [
        (r#"{"id":"x","title":"t"}"#, 17, "InvalidArgument", "\"title\""),
        (r#"{"id":"x""#, 17, "InvalidArgument", "JSON"),
        (r#"{"id":""}"#, 17, "InvalidArgument", "id"),
        (r#"{"id":"x","vector":[1,2,3]}"#, 15, "SchemaMismatch", "3 components"),
        (r#"{"id":"x","source":"s","metadata":{"file_hash":"t"}}"#, 17, "InvalidArgument", "source"),
        // A blank line stands before it.
        (r#"{"id":"3"}"#, 18, "DuplicateId", "\"3\" stands in line 5 already"),
    ] {
        let db = Db::absent();
        let first = "{\"id\":\"v\",\"vector\":[1,2]}\n";
        let input = [first, "\n", &lines(1..6), bad, "\n", &lines(9..12)].concat();
        db.feed("build", &["--input", "-"], input).refused(status, code, &["stdin, line 8: ", words, "No database was made"]);
        nothing_left(&db);
    }
    let db = Db::absent();
    let vectors = db.file("v.npy", array(3));
    db.feed("build", &["--input", "-", "--vectors", &vectors], lines(0..2)).refused(17, "InvalidArgument", &["3 rows", "2 lines"]);
    db.feed("build", &["--input", "-", "--vectors", &vectors], lines(0..4)).refused(17, "InvalidArgument", &["line 4", "3 rows"]);
    db.run("build", &["--vectors", &vectors, "--dim", "3"]).refused(15, "SchemaMismatch", &["v.npy, row 0", "2 components", "3"]);
    db.run("build", &["--input", "/nowhere"]).refused(10, "NotFound", &["/nowhere"]);
    for usage in [&[][..], &["--ids", "x"], &["--input", "-", "--threads", "0"], &["--input", "-", "--vectors", &vectors, "--ids", "x"]] {
        assert_eq!(db.run("build", usage).status, 2, "{usage:?}");
    }
    nothing_left(&db);
}

#[test]
fn a_build_takes_no_place_that_is_taken_and_may_be_empty() {
    let db = Db::new(&[]);
    db.run("put", &[r#"{"id":"kept"}"#]).ok();
    db.feed("build", &["--input", "-"], lines(0..3)).refused(11, "AlreadyExists", &["Name a new directory"]);
    assert_eq!(db.count(), 1);
    let empty = Db::absent();
    let text = empty.feed("build", &["--input", "-", "--dim", "4"], "\n\n").ok().stdout;
    assert!(text.contains("0 documents"), "{text}");
    assert_eq!(empty.count(), 0);
    empty.run("put", &[r#"{"id":"a","vector":[1,2,3,4]}"#]).ok();
}

/// A build that has read some lines, and waits for more of its stdin.
#[cfg(unix)]
fn waiting(db: &Db) -> (std::process::Child, std::process::ChildStdin) {
    let mut child = db.command("build", &["--input", "-", "--json"]).stdin(Stdio::piped()).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    stdin.write_all(lines(0..10).as_bytes()).expect("the build reads");
    while !crate::support::exists(&db.path().join("HEAD")) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    (child, stdin)
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_nothing() {
    let db = Db::absent();
    let (child, stdin) = waiting(&db);
    let interrupted = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(interrupted.success());
    let output = child.wait_with_output().expect("the build ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains(r#""code":"Interrupted""#) && stderr.contains("no database was made"), "{stderr}");
    drop(stdin);
    nothing_left(&db);
    db.feed("build", &["--input", "-"], lines(0..3)).ok();
    assert_eq!(db.count(), 3);
}

#[cfg(unix)]
#[test]
fn a_killed_build_is_refused_by_name_and_can_begin_again() {
    let db = Db::absent();
    let (mut child, stdin) = waiting(&db);
    child.kill().expect("it can be killed");
    child.wait().expect("the build ends");
    drop(stdin);
    db.run("count", &[]).refused(10, "NotFound", &["build", "cut short"]);
    db.feed("build", &["--input", "-"], lines(0..3)).ok();
    assert_eq!(db.count(), 3);
}

/// How many of the letters a, b and c stand in each text. The name is that of a model.
#[cfg(all(unix, feature = "command"))]
fn letters(db: &Db) -> String {
    let program = r#"import json,sys
print(json.dumps({"fingerprint":"letters-v1","dimension":3}),flush=True)
for line in sys.stdin:
    print(json.dumps({"vectors":[[t.count(c) for c in "abc"] for t in json.loads(line)["texts"]]}),flush=True)
"#;
    format!("cmd:python3 {}", db.file("letters.py", program))
}

#[cfg(all(unix, feature = "command"))]
#[test]
fn what_is_built_under_the_name_of_an_embedder_is_asked_through_it() {
    let db = Db::absent();
    let embedder = letters(&db);
    let input = "{\"id\":\"x\",\"text\":\"aa\",\"vector\":[2,0,0]}\n{\"id\":\"y\",\"text\":\"cc\",\"vector\":[0,0,2]}\n";
    db.feed("build", &["--input", "-", "--embedder-name", "letters-v1"], input).ok();
    let ask = |db: &Db| db.run("search", &["c", "--mode", "vector", "--embedder", &embedder, "--json"]);
    assert_eq!(ask(&db).ok().ids()[0], "y");
    let stats = &db.run("stats", &["--json"]).ok().objects()[0];
    assert_eq!(stats["collections"]["main"]["embedder"], "letters-v1");
    let other = Db::absent();
    other.feed("build", &["--input", "-", "--embedder-name", "model 7"], input).ok();
    ask(&other).refused(16, "EmbedderMismatch", &["\"model 7\"", "letters-v1", "Nothing was changed"]);
    // A name without vectors is no fault, and is said.
    let none = Db::absent();
    let run = none.feed("build", &["--input", "-", "--embedder-name", "model 7"], lines(0..2)).ok();
    assert!(run.stderr.contains("\"model 7\"") && run.stderr.contains("no document came with a vector"), "{}", run.stderr);
}

#[cfg(all(unix, feature = "command"))]
#[test]
fn a_build_makes_the_vectors_of_its_lines_when_it_is_told_to() {
    let db = Db::absent();
    let embedder = letters(&db);
    // More than are embedded at once, a blank line among them.
    let input: String =
        (0..600).map(|i| format!("{{\"id\":\"{i}\",\"text\":\"{}\"}}\n{}", "a".repeat(i % 3), if i == 5 { "\n" } else { "" })).collect();
    let flags = ["--input", "-", "--embedder", &embedder, "--json"];
    let built = db.feed("build", &flags, &input).ok().objects().remove(0);
    assert_eq!((&built["documents"], &built["vectors"]), (&600.into(), &400.into()), "a text of no known letter has no vector");
    let vector = |id: &str| db.run("get", &[id, "--vectors"]).ok().objects()[0]["vector"].clone();
    assert_eq!((vector("1"), vector("599")), (serde_json::json!([1.0, 0.0, 0.0]), serde_json::json!([2.0, 0.0, 0.0])));
    assert_eq!(db.run("search", &["aa", "--mode", "vector", "--embedder", &embedder, "--json", "-k", "1"]).ok().ids().len(), 1);

    // What is refused names its own line, however many lines were read with it, and nothing is left.
    let bad = Db::absent();
    let twice = input.replacen("{\"id\":\"9\"", "{\"id\":\"8\"", 1);
    bad.feed("build", &flags, twice).refused(18, "DuplicateId", &["stdin, line 11: ", "stands in line 10 already", "No database was made"]);
    let own = "{\"id\":\"a\",\"text\":\"a\"}\n{\"id\":\"b\",\"text\":\"b\",\"vector\":[1,2,3]}\n";
    bad.feed("build", &flags, own).refused(17, "InvalidArgument", &["stdin, line 2: ", "give one of them"]);
    let dies = bad.file("dies.py", "print('{\"fingerprint\":\"dies-v1\",\"dimension\":3}',flush=True)\ninput()\n");
    let dies = format!("cmd:python3 {dies}");
    bad.feed("build", &["--input", "-", "--embedder", &dies], &input).refused(
        24,
        "Model",
        &["stdin, lines 1 to 257: ", "No database was made"],
    );
    nothing_left(&bad);
    for usage in [&["--embedder-name", "m"][..], &["--dim", "3"], &["--vectors", "v.npy"]] {
        assert_eq!(bad.run("build", &[&flags[..], usage].concat()).status, 2, "{usage:?}");
    }
}

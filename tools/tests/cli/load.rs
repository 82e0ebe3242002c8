//! `load`: what becomes of lines, what an error says, and what Ctrl-C leaves.

use crate::support::{Db, npy};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|i| format!("{{\"id\":\"{i}\",\"text\":\"text {i}\"}}\n")).collect()
}

#[test]
fn each_batch_is_one_commit_and_says_so() {
    let db = Db::new(&[]);
    let file = db.file("d.jsonl", lines(0..7));
    let run = db.run("load", &[&file, "--batch", "3", "--json", "--durability", "buffered"]).ok();
    assert_eq!(run.stdout, "{\"committed\":3}\n{\"committed\":6}\n{\"committed\":7}\n");
    assert_eq!(db.run("scan", &["--json"]).ok().ids(), ["0", "1", "2", "3", "4", "5", "6"]);
    assert_eq!(db.feed("load", &["-", "--json"], "").ok().stdout, "", "nothing to commit is no commit");
}

#[test]
fn a_later_line_replaces_an_earlier_one_at_any_batch() {
    for batch in ["1", "2", "1000"] {
        let db = Db::new(&[]);
        let input = "{\"id\":\"a\",\"text\":\"1\"}\n{\"id\":\"b\"}\n{\"id\":\"a\",\"text\":\"2\"}\n";
        db.feed("load", &["-", "--batch", batch], input).ok();
        let run = db.run("scan", &["--json"]).ok();
        assert_eq!(run.ids(), ["b", "a"], "--batch {batch}");
        assert_eq!(run.objects()[1]["text"], "2", "--batch {batch}");
    }
}

#[test]
fn an_error_names_file_line_and_what_was_committed() {
    for (bad, words) in [
        (&b"{\"id\":\"x\",\"title\":\"t\"}\n"[..], "\"title\""),
        (b"{\"id\":7}\n", "the number 7"),
        (b"{\"text\":\"no id\"}\n", "\"id\""),
        (b"{\"id\":\"x\"\n", "JSON"),
        (b"{\"id\":\"\xff\"}\n", "not UTF-8"),
        (b"{\"id\":\"\"}\n", "id"),
        (b"{\"id\":\"x\",\"vector\":[1e39]}\n", "\"vector\""),
        (b"{\"id\":\"x\",\"metadata\":[]}\n", "object"),
        (b"{\"id\":\"x\",\"entities\":[{\"mentions\":1}]}\n", "\"entities\""),
        (b"{\"id\":\"x\",\"relations\":[{\"source\":\"a\",\"target\":\"b\",\"weight\":0}]}\n", "weight"),
        (b"{\"id\":\"x\",\"source\":\"s\",\"metadata\":{\"file_hash\":\"t\"}}\n", "--source-key"),
        (b"[{\"id\":\"x\"}]\n", "one object a line"),
    ] {
        let db = Db::new(&[]);
        // Line 4 is blank: it counts as a line of the file, not as a document.
        let input = [lines(0..3).as_bytes(), b"\n", lines(3..5).as_bytes(), bad, lines(9..12).as_bytes()].concat();
        let file = db.file("d.jsonl", input);
        let run = db.run("load", &[&file, "--batch", "2", "--json"]);
        let run = run.refused(17, "InvalidArgument", &["d.jsonl, line 7: ", words, "4 lines are committed"]);
        assert_eq!(run.stdout, "{\"committed\":2}\n{\"committed\":4}\n");
        assert_eq!(db.count(), 4, "the batch of the bad line is dropped whole");
    }
}

#[test]
fn a_vector_of_another_dimension_names_its_line() {
    let db = Db::new(&[]);
    let input = "{\"id\":\"a\",\"vector\":[1,2]}\n{\"id\":\"b\"}\n{\"id\":\"c\",\"vector\":[1,2,3]}\n";
    db.feed("load", &["-"], input).refused(15, "SchemaMismatch", &["stdin, line 3", "2", "3", "Nothing was committed"]);
    assert_eq!(db.count(), 0);
    let db = Db::new(&["--dim", "3"]);
    db.feed("load", &["-"], input).refused(15, "SchemaMismatch", &["stdin, line 1"]);
}

#[test]
fn the_rest_goes_into_the_metadata_verbatim() {
    let db = Db::new(&[]);
    let input = r#"{"id":"a","metadata":{ "k" : 1.50 },"title":"T","n":12345678901234567890123,"text":"body"}"#;
    db.feed("load", &["-", "--text-field", "title,text", "--rest-to-metadata"], input).ok();
    let printed = db.run("get", &["a"]).ok().stdout;
    let want = r#"{"id":"a","text":"T\n\nbody","metadata":{ "k" : 1.50,"title":"T","n":12345678901234567890123}}"#;
    assert_eq!(printed.trim_end(), want);
    let clash = r#"{"id":"a","metadata":{"k":1},"k":2}"#;
    db.feed("load", &["-", "--rest-to-metadata"], clash).refused(17, "InvalidArgument", &["\"k\"", "line 1"]);
}

#[test]
fn joined_fields_are_consumed_without_rest_to_metadata() {
    let db = Db::new(&[]);
    let input = "{\"id\":\"a\",\"title\":\"T\",\"text\":\"body\"}\n{\"id\":\"b\",\"text\":\"body\"}\n{\"id\":\"c\",\"title\":\"T\",\"text\":null}\n";
    db.feed("load", &["-", "--text-field", "title,text"], input).ok();
    let objects = db.run("scan", &["--json"]).ok().objects();
    assert_eq!(objects.iter().map(|o| o["text"].as_str().expect("text")).collect::<Vec<_>>(), ["T\n\nbody", "body", "T"]);
    assert!(objects.iter().all(|o| o.get("metadata").is_none()));
}

/// The key that holds the text has another name: the first mistake there is.
#[test]
fn lines_of_which_none_has_a_text_are_told() {
    let passages = "{\"id\":\"a\",\"title\":\"t\",\"body\":\"words\"}\n";
    for (command, rest) in [("load", &["-"][..]), ("build", &["--input", "-"])] {
        for (fields, told) in [("titel,txet", true), ("text", true), ("title,nothing", false), ("body", false)] {
            let db = if command == "load" { Db::new(&[]) } else { Db::absent() };
            let args = [rest, &["--rest-to-metadata", "--text-field", fields]].concat();
            let said = db.feed(command, &args, passages).ok().stderr;
            assert_eq!(said.contains("no document has a text: --text-field names the keys"), told, "{command} {fields}: {said}");
        }
        // Vectors alone are no mistake.
        let db = if command == "load" { Db::new(&[]) } else { Db::absent() };
        let said = db.feed(command, rest, "{\"id\":\"a\",\"vector\":[1,2]}\n").ok().stderr;
        assert!(!said.contains("text"), "{command}: {said}");
    }
}

#[test]
fn vectors_of_every_width_belong_to_their_lines() {
    let rows: [&[f32]; 3] = [&[1.0, -0.5], &[0.0, 2.0], &[0.25, 1024.0]];
    for descr in ["<f2", "<f4", "<f8"] {
        let db = Db::new(&[]);
        let vectors = db.file("v.npy", npy(descr, &rows));
        // A blank line has no row.
        let input = format!("{}\n{}", lines(0..1), lines(1..3));
        db.feed("load", &["-", "--vectors", &vectors, "--batch", "2"], input).ok();
        let got: Vec<Vec<f32>> = db
            .run("scan", &["--json", "--vectors"])
            .ok()
            .objects()
            .iter()
            .map(|o| serde_json::from_value(o["vector"].clone()).expect("a vector is numbers"))
            .collect();
        assert_eq!(got, rows, "{descr}");
    }
}

#[test]
fn rows_and_lines_must_agree() {
    let db = Db::new(&[]);
    let vectors = db.file("v.npy", npy("<f4", &[&[1.0], &[2.0]]));
    let args = ["-", "--vectors", &vectors, "--batch", "1"];
    db.feed("load", &args, lines(0..3)).refused(17, "InvalidArgument", &["line 3", "2 rows", "2 lines are committed"]);
    db.feed("load", &args, lines(0..1)).refused(17, "InvalidArgument", &["2 rows", "1 line"]);
    db.feed("load", &args, "{\"id\":\"a\",\"vector\":[1]}\n").refused(17, "InvalidArgument", &["\"vector\"", "line 1"]);
    let mut short = npy("<f4", &[&[1.0], &[2.0]]);
    short.pop();
    let short = db.file("short.npy", short);
    db.feed("load", &["-", "--vectors", &short], lines(0..2)).refused(17, "InvalidArgument", &["short.npy"]);
    let foreign = db.file("foreign.npy", "PK\u{3}\u{4}");
    db.feed("load", &["-", "--vectors", &foreign], lines(0..2)).refused(17, "InvalidArgument", &["foreign.npy"]);
}

#[test]
fn load_creates_neither_database_nor_collection() {
    let db = Db::absent();
    db.feed("load", &["-"], lines(0..1)).refused(10, "NotFound", &["triune create"]);
    assert!(!crate::support::exists(&db.path()));
    let db = Db::new(&[]);
    db.feed("load", &["-", "--collection", "other"], lines(0..1)).refused(10, "NotFound", &["other", "triune create", "main"]);
    db.run("load", &["/nowhere/d.jsonl"]).refused(10, "NotFound", &["/nowhere/d.jsonl"]);
}

#[test]
fn a_huge_line_and_a_byte_order_mark_are_read() {
    let db = Db::new(&[]);
    let text = "word ".repeat(1 << 20);
    db.feed("load", &["-"], format!("\u{feff}{{\"id\":\"a\",\"text\":\"{text}\"}}")).ok();
    assert_eq!(db.run("get", &["a"]).ok().objects()[0]["text"].as_str().map(str::len), Some(text.len()));
}

#[test]
fn a_writer_excludes_writers_but_no_readers() {
    let db = Db::new(&[]);
    let mut child = db.command("load", &["-", "--json", "--batch", "1"]).stdin(Stdio::piped()).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    stdin.write_all(lines(0..1).as_bytes()).expect("the load reads");
    let mut told = String::new();
    stdout.read_line(&mut told).expect("the load answers");
    assert_eq!(told, "{\"committed\":1}\n");
    db.run("put", &[r#"{"id":"x"}"#]).refused(12, "Locked", &[]);
    assert_eq!(db.count(), 1, "what is acknowledged is seen by a reader at once");
    assert_eq!(db.run("search", &["text", "--json"]).ok().ids(), ["0"]);
    drop(stdin);
    assert!(child.wait().expect("the load ends").success());
    db.run("put", &[r#"{"id":"x"}"#]).ok();
}

#[cfg(unix)]
#[test]
fn ctrl_c_says_what_is_committed_and_keeps_it() {
    let db = Db::new(&[]);
    let mut child = db.command("load", &["-", "--json", "--batch", "2"]).stdin(Stdio::piped()).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    // The third line is read and belongs to a batch that never fills; then the pipe stays silent.
    stdin.write_all(lines(0..3).as_bytes()).expect("the load reads");
    let mut told = String::new();
    stdout.read_line(&mut told).expect("the load answers");
    let interrupted = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(interrupted.success());
    let output = child.wait_with_output().expect("the load ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains(r#""code":"Interrupted""#) && stderr.contains("2 lines of stdin are committed"), "{stderr}");
    drop(stdin);
    assert_eq!(db.count(), 2);
    db.feed("load", &["-"], lines(2..4)).ok();
    assert_eq!(db.count(), 4, "the load can go on");
}

#[test]
fn a_load_outlives_the_reader_of_its_progress() {
    let db = Db::new(&[]);
    let file = db.file("d.jsonl", lines(0..50));
    let mut child = db.command("load", &[&file, "--json", "--batch", "1"]).spawn().expect("the binary starts");
    drop(child.stdout.take());
    assert!(child.wait().expect("the load ends").success());
    assert_eq!(db.count(), 50);
}

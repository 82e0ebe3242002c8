//! Files and folders: what is taken, what a second run does, what is refused.
//!
//! | file | holds |
//! | --- | --- |
//! | `mod.rs` | whole runs over sound files, and the folder that every test has |
//! | `made.rs` | documents of binary formats, made here |
//! | `passed_over.rs` | damaged, hostile, unreadable and unusual files |
//! | `cut_short.rs` | runs that are stopped or killed |

mod cut_short;
mod made;
mod passed_over;

use crate::support::{Db, Run};
use made::{docx, paragraphs, pdf};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A database that is not there yet, and a folder beside it.
struct Case {
    db: Db,
}

impl Case {
    fn new() -> Case {
        let case = Case { db: Db::absent() };
        fs::create_dir(case.root()).expect("a folder can be made");
        case
    }

    fn root(&self) -> PathBuf {
        self.db.directory.path().join("in")
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder can be made");
        fs::write(&path, content).expect("a file can be written");
        path
    }

    /// `triune ingest DB FLAGS... in --json`
    fn ingest(&self, flags: &[&str]) -> Run {
        let root = self.root();
        self.db.run("ingest", &[flags, &[text(&root), "--json"]].concat())
    }

    /// Every document of the collection, by id.
    fn documents(&self) -> BTreeMap<String, Value> {
        let all = self.db.run("scan", &["--json"]).ok().objects();
        all.into_iter().map(|d| (d["id"].as_str().expect("an id is a string").to_string(), d)).collect()
    }

    fn texts(&self) -> BTreeMap<String, String> {
        self.documents().into_iter().map(|(id, d)| (id, d["text"].as_str().expect("a text is a string").to_string())).collect()
    }

    /// The number of sources, each of which is there with all its chunks.
    #[track_caller]
    fn whole_sources(&self) -> usize {
        let documents = self.documents();
        let mut sources: BTreeMap<&str, u64> = BTreeMap::new();
        for document in documents.values() {
            *sources.entry(document["source"].as_str().expect("a source is a string")).or_default() += 1;
        }
        for (source, chunks) in &sources {
            assert_eq!(&documents[&format!("{source}#0")]["metadata"]["total_chunks"], chunks, "{source} is whole");
        }
        sources.len()
    }

    /// What a commit or a checkpoint would change.
    fn state(&self) -> Vec<(PathBuf, Vec<u8>)> {
        // The lock names the process that held it last.
        let mut files: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(self.db.path())
            .expect("the database is there")
            .map(|e| e.expect("it can be listed").path())
            .filter(|p| !p.ends_with("LOCK"))
            .map(|p| (p.clone(), fs::read(&p).expect("it can be read")))
            .collect();
        files.sort();
        files
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

/// What became of each file, by the lines of `--json`.
fn fates(run: &Run) -> BTreeMap<String, String> {
    let lines = run.objects();
    let (last, files) = lines.split_last().expect("there is a summary");
    assert!(last["summary"].is_object(), "{last}");
    files
        .iter()
        .map(|f| (f["file"].as_str().unwrap_or_default().to_string(), f["status"].as_str().unwrap_or_default().to_string()))
        .collect()
}

fn pairs(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect()
}

/// A number of the summary.
#[track_caller]
fn total(run: &Run, key: &str) -> u64 {
    run.objects().last().and_then(|o| o["summary"][key].as_u64()).expect("the summary has that number")
}

#[track_caller]
fn reason(run: &Run, file: &str) -> String {
    let line = run.objects().into_iter().find(|o| o["file"] == file).unwrap_or_else(|| panic!("no line of {file}: {}", run.stdout));
    line["reason"].as_str().unwrap_or_default().to_string()
}

#[test]
fn a_mixed_folder_is_searchable_in_one_command() {
    let case = Case::new();
    case.write("notes.txt", "Plain words.\n\nA second paragraph.");
    case.write("guide/readme.md", "# Title\n\nSome *marked* prose.");
    case.write("guide/page.html", "<title>Page</title><p>Seen <b>words</b></p><script>unseen()</script>");
    case.write("data/rows.csv", "name,year\nAda,1815\nGrace,1906\n");
    case.write("data/tree.json", r#"{"a":{"b":"leaf"}}"#);
    case.write("data/lines.jsonl", "{\"x\":\"first\"}\n{\"x\":\"second\"}\n");
    case.write("paper.pdf", pdf(&[&["Printed words", "on two lines"], &["The last page"]]));
    case.write("letter.docx", docx(paragraphs(&["Dear reader,", "R&amp;D thanks you."]).as_bytes()));
    case.write("src/main.rs", "fn main() {\n    let answer = 42;\n}\n");
    case.write("LICENSE", "Do as you like.");
    case.write("odd.thing", "Some text of its own kind.");
    let run = case.ingest(&[]).ok();
    assert!(!run.stderr.contains("no embedder") || !cfg!(feature = "static-embedder"), "{}", run.stderr);
    assert!(fates(&run).values().all(|status| status == "added"), "{}", run.stdout);
    assert_eq!((total(&run, "added"), total(&run, "passed_over")), (11, 0));

    let documents = case.documents();
    let kind =
        |id: &str| documents.get(id).unwrap_or_else(|| panic!("no {id} in {:?}", documents.keys()))["metadata"]["source_type"].clone();
    for (id, expected) in [
        ("notes.txt#0", "text"),
        ("guide/readme.md#0", "markdown"),
        ("guide/page.html#0", "html"),
        ("data/rows.csv#0", "csv"),
        ("data/tree.json#0", "json"),
        ("data/lines.jsonl#0", "json"),
        ("paper.pdf#0", "pdf"),
        ("letter.docx#0", "docx"),
        ("src/main.rs#0", "code"),
        ("LICENSE#0", "text"),
        ("odd.thing#0", "unknown"),
    ] {
        assert_eq!(kind(id), expected, "{id}");
    }
    let texts = case.texts();
    assert_eq!(texts["guide/page.html#0"], "Page\n\nSeen words");
    assert_eq!(texts["data/rows.csv#0"], "name: Ada\nyear: 1815\n\nname: Grace\nyear: 1906");
    assert_eq!(texts["data/tree.json#0"], "a.b: leaf");
    assert_eq!(texts["letter.docx#0"], "Dear reader,\n\nR&D thanks you.");
    assert_eq!(texts["src/main.rs#0"], "fn main() {\n    let answer = 42;\n}");
    assert!(texts["paper.pdf#0"].contains("Printed words") && texts["paper.pdf#0"].contains("on two lines"), "{texts:?}");
    assert!(!texts["paper.pdf#0"].contains("wordson"), "lines do not run together: {texts:?}");
    assert_eq!((&documents["paper.pdf#0"]["metadata"]["page"], &documents["paper.pdf#1"]["metadata"]["page"]), (&json!(1), &json!(2)));
    assert_eq!(case.db.run("search", &["last page", "--json", "-k", "1"]).ok().ids(), ["paper.pdf#1"]);
}

#[test]
fn the_metadata_says_where_a_chunk_comes_from() {
    let case = Case::new();
    case.write("a/b.txt", "abc");
    case.write("long.txt", "word ".repeat(300));
    case.ingest(&[]).ok();
    let documents = case.documents();
    let origin = case.root().join("a/b.txt").canonicalize().expect("the file is there");
    let of_b = json!({
        "title": "b.txt", "file_name": "b.txt", "file_path": "a/b.txt", "file_origin": text(&origin), "file_hash": "900150983cd24fb0d6963f7d28e17f72",
        "chunk_index": 0, "total_chunks": 1, "source_type": "text",
    });
    assert_eq!((&documents["a/b.txt#0"]["metadata"], &documents["a/b.txt#0"]["source"]), (&of_b, &json!("a/b.txt")));
    let total = documents["long.txt#0"]["metadata"]["total_chunks"].as_u64().expect("a number");
    assert!((3..=5).contains(&total), "{total}");
    for index in 0..total {
        let document = &documents[&format!("long.txt#{index}")];
        assert_eq!((&document["metadata"]["chunk_index"], &document["metadata"]["total_chunks"]), (&json!(index), &json!(total)));
        assert!(document["text"].as_str().is_some_and(|t| t.chars().count() <= 500));
    }
}

#[test]
fn a_second_run_commits_nothing() {
    let case = Case::new();
    case.write("a.txt", "one");
    case.write("b/c.md", "two");
    case.write("empty.txt", "");
    case.write("p.pdf", pdf(&[&["three"]]));
    case.ingest(&[]).ok();
    let before = case.state();
    let run = case.ingest(&["--prune"]).ok();
    assert_eq!(fates(&run), pairs(&[("a.txt", "unchanged"), ("b/c.md", "unchanged"), ("empty.txt", "empty"), ("p.pdf", "unchanged")]));
    assert!(before == case.state(), "no byte of the database changed");
    let run = case.ingest(&["--force"]).ok();
    assert_eq!(total(&run, "replaced"), 3);
}

#[test]
fn changed_files_are_replaced_and_vanished_ones_removed_on_request() {
    let case = Case::new();
    case.write("long.txt", "many words here ".repeat(200));
    case.write("stays.txt", "stays");
    case.write("goes/a.txt", "goes");
    case.ingest(&[]).ok();
    // Not from here: it has the source and even the keys, but no such first chunk.
    case.db.run("put", &[r#"{"id":"x","text":"by hand","source":"by/hand.txt"}"#]).ok();
    case.write("long.txt", "short now");
    fs::remove_dir_all(case.root().join("goes")).expect("it can be removed");
    let run = case.ingest(&[]).ok();
    assert_eq!(fates(&run), pairs(&[("long.txt", "replaced"), ("stays.txt", "unchanged")]));
    assert_eq!(case.texts().into_keys().collect::<Vec<_>>(), ["goes/a.txt#0", "long.txt#0", "stays.txt#0", "x"]);
    let run = case.ingest(&["--prune"]).ok();
    assert_eq!(fates(&run), pairs(&[("goes/a.txt", "removed"), ("long.txt", "unchanged"), ("stays.txt", "unchanged")]));
    assert_eq!(case.texts().into_keys().collect::<Vec<_>>(), ["long.txt#0", "stays.txt#0", "x"]);
    // What is ignored or passed over is still there, so it is not pruned.
    case.write(".gitignore", "stays.txt\n");
    case.write("long.txt", b"\0\0\0");
    let run = case.ingest(&["--prune"]);
    assert_eq!((run.status, reason(&run, "long.txt").contains("what is stored of it stays")), (1, true));
    assert_eq!(case.db.count(), 3);
    // A file that lost its text has no chunk any more.
    case.write("long.txt", "\n");
    assert_eq!(fates(&case.ingest(&[]).ok())["long.txt"], "removed");
    assert_eq!(case.texts().into_keys().collect::<Vec<_>>(), ["stays.txt#0", "x"]);
}

#[test]
fn ignore_rules_hidden_names_globs_and_the_database_itself() {
    let case = Case::new();
    case.write(".gitignore", "*.log\n/build/\n");
    for name in ["a.txt", "a.log", "build/out.txt", "sub/build/in.txt", ".hidden/h.txt", ".git/config.txt", "sub/b.rs"] {
        case.write(name, name);
    }
    let inside = case.root().join("db");
    let run = |flags: &[&str]| {
        fs::remove_dir_all(&inside).ok();
        let root = case.root();
        let run = crate::support::triune(&[&["ingest", text(&inside), text(&root), "--json"], flags].concat()).ok();
        fates(&run).into_keys().collect::<Vec<_>>()
    };
    assert_eq!(run(&[]), ["a.txt", "sub/b.rs", "sub/build/in.txt"]);
    assert_eq!(run(&["--no-ignore"]), ["a.log", "a.txt", "build/out.txt", "sub/b.rs", "sub/build/in.txt"]);
    assert_eq!(run(&["--hidden"]), [".gitignore", ".hidden/h.txt", "a.txt", "sub/b.rs", "sub/build/in.txt"]);
    assert_eq!(run(&["--glob", "!*.rs"]), ["a.txt", "sub/build/in.txt"]);
    assert_eq!(run(&["--glob", "*.rs"]), ["sub/b.rs"]);
}

#[test]
fn an_empty_file_is_said_and_no_fault() {
    let case = Case::new();
    case.write("empty.txt", "");
    case.write("blank.md", " \n\n");
    let run = case.ingest(&[]).ok();
    assert_eq!(fates(&run), pairs(&[("blank.md", "empty"), ("empty.txt", "empty")]));
    assert_eq!((total(&run, "empty"), total(&run, "unchanged"), reason(&run, "empty.txt").as_str()), (2, 0, "it has no text"));
    let people = case.db.run("ingest", &[text(&case.root())]).ok();
    assert!(people.stderr.contains("note: empty.txt: it has no text"), "{}", people.stderr);
    assert!(people.stdout.contains(" 0 unchanged, 0 removed, 2 empty, 0 passed over"), "{}", people.stdout);
    assert_eq!(case.db.count(), 0);
}

#[test]
fn names_of_any_script_and_the_same_content_twice() {
    let case = Case::new();
    case.write("größe/日本 語#1.txt", "same");
    case.write("copy.txt", "same");
    case.write("-dash.txt", "same");
    case.ingest(&[]).ok();
    assert_eq!(case.texts().into_keys().collect::<Vec<_>>(), ["-dash.txt#0", "copy.txt#0", "größe/日本 語#1.txt#0"]);
    fs::remove_file(case.root().join("copy.txt")).expect("it can be removed");
    let run = case.ingest(&["--prune"]).ok();
    assert_eq!(total(&run, "removed"), 1);
    assert_eq!(case.db.count(), 2, "the other copies stay");
    let long = "n".repeat(200);
    case.write(&format!("{long}/{long}/{long}/{long}/{long}/{long}.txt"), "too deep a name");
    let run = case.ingest(&[]);
    assert!(run.status == 1 && run.stdout.contains("1024"), "{}", run.stdout);
}

#[test]
fn files_given_directly_and_several_roots() {
    let case = Case::new();
    let one = case.write("x/one.txt", "from x");
    case.write("y/one.txt", "from y");
    case.write("y/two.txt", "only y");
    let (x, y) = (case.root().join("x"), case.root().join("y"));
    case.db.run("ingest", &[text(&one)]).ok();
    assert_eq!(case.texts(), pairs(&[("one.txt#0", "from x")]));
    // Of two files with one name the first is taken, and the other is said.
    let run = case.db.run("ingest", &["--json", text(&x), text(&y), text(&x)]);
    assert_eq!(run.status, 1);
    let refused = run.objects().into_iter().find(|o| o["status"] == "passed-over").expect("the second is passed over");
    assert!(refused["file"] == "one.txt" && refused["reason"].as_str().is_some_and(|r| r.contains("--prefix")), "{refused}");
    assert_eq!(case.texts(), pairs(&[("one.txt#0", "from x"), ("two.txt#0", "only y")]));
    let run = case.db.run("ingest", &["--json", "--prefix", "y/", text(&y)]).ok();
    assert_eq!(fates(&run), pairs(&[("y/one.txt", "added"), ("y/two.txt", "added")]));
    // Pruning stays below its prefix.
    fs::remove_file(y.join("two.txt")).expect("it can be removed");
    let run = case.db.run("ingest", &["--json", "--prune", "--prefix", "y", text(&y)]).ok();
    assert_eq!(fates(&run), pairs(&[("y/one.txt", "unchanged"), ("y/two.txt", "removed")]));
    assert_eq!(case.texts().into_keys().collect::<Vec<_>>(), ["one.txt#0", "two.txt#0", "y/one.txt#0"]);
}

#[test]
fn a_file_of_another_folder_does_not_take_a_name_silently() {
    let case = Case::new();
    let (one, two) = (case.write("x/todo.txt", "from x"), case.write("y/todo.txt", "from y"));
    let (x, y, z) = (case.root().join("x"), case.root().join("y"), case.root().join("z"));
    case.db.run("ingest", &[text(&x)]).ok();
    let before = case.state();
    let run = case.db.run("ingest", &["--json", text(&y)]);
    assert_eq!((run.status, fates(&run)), (1, pairs(&[("todo.txt", "passed-over")])));
    for words in [text(&one), text(&two), "--prefix", "--force", "what is stored of it stays"] {
        assert!(reason(&run, "todo.txt").contains(words), "{words}: {}", run.stdout);
    }
    assert!(before == case.state(), "nothing was changed");

    // The same file with other content is replaced, and so is another one on request.
    case.write("x/todo.txt", "from x again");
    assert_eq!(fates(&case.db.run("ingest", &["--json", text(&x)]).ok()), pairs(&[("todo.txt", "replaced")]));
    assert_eq!(fates(&case.db.run("ingest", &["--json", "--force", text(&y)]).ok()), pairs(&[("todo.txt", "replaced")]));
    assert_eq!(case.texts(), pairs(&[("todo.txt#0", "from y")]));

    // A folder that was moved with all it holds is the same as before.
    case.write("z/todo.txt", "from y");
    fs::remove_dir_all(&y).expect("it can be removed");
    let run = case.db.run("ingest", &["--json", text(&z)]).ok();
    assert_eq!(fates(&run), pairs(&[("todo.txt", "unchanged")]));
    assert!(!run.stderr.contains("todo.txt"), "{}", run.stderr);
}

#[test]
fn an_existing_collection_keeps_its_source_key() {
    for key in ["file_hash", "file_name", "source_type"] {
        let case = Case { db: Db::new(&["--source-key", key]) };
        fs::create_dir(case.root()).expect("a folder can be made");
        case.write("a/b.txt", "abc");
        case.ingest(&[]).ok();
        let document = &case.documents()["a/b.txt#0"];
        assert_eq!((&document["source"], &document["metadata"]["file_path"]), (&json!("a/b.txt"), &json!("a/b.txt")));
        assert!(document["metadata"].get(key).is_none(), "{document}");
        let before = case.state();
        case.ingest(&["--prune"]).ok();
        assert!(before == case.state(), "{key}: a second run commits nothing");
    }
}

#[test]
fn sizes_can_be_chosen() {
    let case = Case::new();
    case.write("a.txt", "one two three four five six seven eight nine ten");
    case.ingest(&["--chunk-size", "4", "--chunk-overlap", "0", "--chunk-unit", "tokens"]).ok();
    assert_eq!(case.texts(), pairs(&[("a.txt#0", "one two three four"), ("a.txt#1", "five six seven eight"), ("a.txt#2", "nine ten")]));
    case.ingest(&["--force", "--chunk-size", "24", "--chunk-overlap", "6"]).ok();
    assert_eq!(case.texts()["a.txt#1"], "five six seven eight");
    case.ingest(&["--chunk-size", "5"]).refused(17, "InvalidArgument", &["--chunk-overlap", "50", "5"]);
}

#[cfg(unix)]
#[test]
fn a_current_directory_that_was_removed_is_refused_and_prunes_nothing() {
    let case = Case::new();
    case.write("a.txt", "a");
    case.ingest(&[]).ok();
    let mut here = std::process::Command::new("sh");
    here.args(["-c", r#"mkdir gone && cd gone && rmdir ../gone && exec "$0" ingest "$1" . --prune"#, env!("CARGO_BIN_EXE_triune")]);
    let run = Run::of(here.arg(case.db.path()).current_dir(case.db.directory.path()).output().expect("sh runs"));
    run.refused(10, "NotFound", &["\".\" is a directory that was removed", "Nothing was changed"]);
    assert_eq!(case.db.count(), 1);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    let case = Case::new();
    case.ingest(&["--embedder", "minilm"]).refused(17, "InvalidArgument", &["static, none or cmd:PROGRAM", "Nothing was changed"]);
    case.ingest(&["--glob", "a[b"]).refused(17, "InvalidArgument", &["--glob"]);
    case.db.run("ingest", &["/nowhere/at/all"]).refused(10, "NotFound", &["/nowhere/at/all", "Nothing was changed"]);
    assert!(!crate::support::exists(&case.db.path()));
    case.write("a.txt", "a");
    let run = case.db.run("ingest", &[text(&case.root()), "--collection", "other"]).ok();
    assert!(run.stdout.contains("other: 1 file added, 0 replaced"), "{}", run.stdout);
    assert_eq!(case.db.run("count", &["--json", "--collection", "other"]).ok().objects()[0]["count"], 1);
}

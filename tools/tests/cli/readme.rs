//! The commands of the README, as they are printed, and the Rust of other pages; that of the README itself is a test of the library.

mod filters;
#[cfg(feature = "static-embedder")]
mod vectors;

use std::fs;
use std::path::Path;
use std::process::Command;

/// The lines of the README's `sh` blocks that begin with the command line's own name.
fn lines() -> Vec<String> {
    let readme = fs::read_to_string(repository().join("README.md")).expect("the README is there");
    let blocks = readme.split("```sh\n").skip(1).filter(|block| block.starts_with("triune "));
    let lines = blocks.flat_map(|block| block.split("```").next().expect("a block has an end").lines());
    lines.map(str::to_string).collect()
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the command line lies in the repository")
}

/// Asserts that the Rust of a page, of which there is one block, stands word for word in `source`.
#[track_caller]
fn printed_in(page: &str, source: &str) {
    let text = fs::read_to_string(repository().join(page)).expect("the page is there");
    let blocks: Vec<&str> = text.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [printed] = blocks[..] else { panic!("{page} has {} blocks of Rust, not one", blocks.len()) };
    assert!(source.contains(printed), "{page} prints another program than the one that is tested:\n{printed}");
}

/// Copies what a folder holds.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("the folder is there") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("it has a type").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("a file can be copied")),
        }
    }
}

#[cfg(all(unix, feature = "ingest"))]
#[test]
fn every_line_of_the_readme_works_as_printed() {
    let checkout = tempfile::tempdir().expect("a temporary directory can be made");
    for folder in ["demo", "docs"] {
        copy(&repository().join(folder), &checkout.path().join(folder));
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_triune")).parent().expect("the binary lies in a folder");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let lines = lines();
    assert!(lines.len() > 18, "{lines:?}");
    for line in &lines {
        let output = Command::new("sh").args(["-c", line]).current_dir(&checkout).env("PATH", &path).output().expect("there is a shell");
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{line}\n{stdout}{stderr}");
        assert!(line.starts_with("rm ") || !(stdout.is_empty() && stderr.is_empty()), "{line} says nothing");
        assert!(!stderr.contains("no hits"), "{line} finds nothing");
    }
    let left: Vec<_> = fs::read_dir(&checkout).expect("it is there").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(left.len(), 2, "the last lines remove what the others made: {left:?}");
}

#[test]
fn the_judgements_of_the_demo_are_the_gold_of_its_questions() {
    let read = |name: &str| fs::read_to_string(repository().join("demo").join(name)).expect("the file is there");
    let mut expected = String::new();
    for line in read("questions.jsonl").lines() {
        let question: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        for gold in question["gold"].as_array().expect("gold is a list") {
            let word = |value: &serde_json::Value| value.as_str().expect("ids are strings").to_string();
            expected += &format!("{}\t{}\t1\n", word(&question["id"]), word(gold));
        }
    }
    assert_eq!(read("qrels.tsv"), expected);
}

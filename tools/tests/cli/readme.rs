//! The commands of the README, as they are printed.

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

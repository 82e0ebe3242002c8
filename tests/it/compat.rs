//! Databases that earlier versions wrote, kept for ever: each is opened, read and written by the version at hand.
//!
//! `tests/fixtures/vMAJOR.MINOR/NAME/` holds the files of a database as that version of the format left them (BALLAST left out, which the
//! format allows), `expected.json` with what it answered, and its `expected.dump`. Once committed they are never changed; a new version adds
//! a folder: `TRIUNE_MAKE_FIXTURES=tests/fixtures/vMAJOR.MINOR cargo test --test it compat::`.
//!
//! | file | role |
//! | --- | --- |
//! | `make.rs` | the operations that made them |
//! | `answers.rs` | the questions, and what is kept of the answers |

mod answers;
mod make;

use answers::{answers, difference};
use make::{FIXTURES, Files};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use triune::format::head::{FORMAT_MAJOR, FORMAT_MINOR};
use triune::inspect::FileDescription;
use triune::io::{FsDirectory, SimDirectory};
use triune::{Database, Document, IoMode, Options, maintenance};

/// What stands beside the files of a database.
const EXPECTED: [&str; 2] = ["expected.json", "expected.dump"];

fn root() -> PathBuf {
    crate::source::root().join("tests/fixtures")
}

/// A database that some version wrote.
struct Fixture {
    name: String,
    files: Files,
    folder: PathBuf,
}

impl Fixture {
    fn read(folder: PathBuf) -> Fixture {
        let mut files = files_of(&folder);
        EXPECTED.iter().for_each(|name| drop(files.remove(*name)));
        Fixture { name: folder.strip_prefix(root()).unwrap().display().to_string(), files, folder }
    }

    fn expected(&self) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.folder.join("expected.json")).unwrap()).unwrap()
    }

    /// A copy in a directory of its own, which the test may change.
    fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        self.files.iter().for_each(|(name, bytes)| std::fs::write(copy.path().join(name), bytes).unwrap());
        copy
    }

    fn assert_answers(&self, db: &Database, how: &str) {
        assert!(dump(db) == std::fs::read(self.folder.join("expected.dump")).unwrap(), "{}, {how}: another dump", self.name);
        let difference = difference(&self.expected(), &answers(&db.snapshot()));
        assert!(difference.is_none(), "{}, {how}: {}", self.name, difference.unwrap_or_default());
    }
}

fn dump(db: &Database) -> Vec<u8> {
    let mut dump = Vec::new();
    maintenance::dump(&db.snapshot(), None, &mut dump).unwrap();
    dump
}

fn files_of(folder: &Path) -> Files {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|e| (e.file_name().into_string().unwrap(), std::fs::read(e.path()).unwrap())).collect()
}

fn folders(path: &Path) -> BTreeSet<PathBuf> {
    std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect()
}

fn fixtures() -> Vec<Fixture> {
    folders(&root()).iter().flat_map(|version| folders(version)).map(Fixture::read).collect()
}

fn options(io_mode: IoMode) -> Options {
    Options { background: false, io_mode, ..Options::default() }
}

#[test]
fn every_version_has_its_fixtures() {
    let names: BTreeSet<String> = fixtures().into_iter().map(|f| f.name).collect();
    for (name, _) in FIXTURES {
        let path = format!("v{FORMAT_MAJOR}.{FORMAT_MINOR}/{name}");
        assert!(names.contains(&path), "there is no fixture {path}: see the head of this file");
    }
}

#[test]
fn what_every_version_wrote_is_read_without_changing_a_byte() {
    for fixture in fixtures() {
        let copy = fixture.copy();
        for io_mode in [IoMode::Mmap, IoMode::Pread] {
            let dir = Arc::new(FsDirectory::open(copy.path()).unwrap());
            let db = Database::open_read_only_with(dir, options(io_mode)).unwrap_or_else(|e| panic!("{}: {e}", fixture.name));
            fixture.assert_answers(&db, &format!("read only, {io_mode:?}"));
        }
        let described = triune::inspect::describe(copy.path()).unwrap();
        let problems: Vec<_> = described.files.iter().filter_map(|f| f.problem.as_ref()).collect();
        assert!(problems.is_empty(), "{}: {problems:?}", fixture.name);
        assert!(files_of(copy.path()) == fixture.files, "{}: reading changed a file", fixture.name);
    }
}

#[test]
fn what_every_version_wrote_is_written_further() {
    for fixture in fixtures() {
        let copy = fixture.copy();
        let open = || {
            let dir = Arc::new(FsDirectory::open(copy.path()).unwrap());
            Database::open_with(dir, options(IoMode::Mmap)).unwrap_or_else(|e| panic!("{}: {e}", fixture.name))
        };
        let db = open();
        fixture.assert_answers(&db, "opened for writing");
        db.close().unwrap();
        let db = open();
        fixture.assert_answers(&db, "opened again");
        for collection in db.snapshot().collections() {
            let before = db.snapshot().collection(&collection).unwrap().count();
            db.put(&collection, vec![Document::new("added").text("by a later version")]).unwrap();
            assert_eq!(db.snapshot().collection(&collection).unwrap().count(), before + 1, "{}", fixture.name);
            db.delete(&collection, vec!["added".into()]).unwrap();
        }
        db.compact().unwrap();
        db.close().unwrap();
        let db = open();
        let difference = difference(&fixture.expected()["collections"], &answers(&db.snapshot())["collections"]);
        assert!(difference.is_none(), "{}, compacted: {}", fixture.name, difference.unwrap_or_default());
    }
}

#[test]
fn what_every_version_dumped_is_restored() {
    for fixture in fixtures() {
        let disk = SimDirectory::new();
        let expected = std::fs::read(fixture.folder.join("expected.dump")).unwrap();
        maintenance::restore_into(Arc::new(disk.clone()), options(IoMode::Mmap), expected.as_slice()).unwrap();
        let db = Database::open_read_only_with(Arc::new(disk), options(IoMode::Mmap)).unwrap();
        assert!(dump(&db) == expected, "{}: restored, it has another dump", fixture.name);
    }
}

#[test]
fn the_fixtures_hold_what_there_is_to_read() {
    let of = |name: &str| Fixture::read(root().join("v1.0").join(name));
    let kinds = |name: &str, kind: &str| of(name).files.keys().filter(|file| file.ends_with(kind)).count();
    assert!(kinds("everything", ".segments") >= 3 && kinds("everything", ".tombstones") >= 1);
    // The whole log is what a reader of `killed` needs beside the manifest: with a file of segments and one of dying seqs that it alone names.
    let killed = triune::inspect::describe(of("killed").folder).unwrap();
    let by_the_log = |file: &&FileDescription| file.fields.iter().any(|(key, who)| key == "named by" && !who.contains("manifest"));
    let kinds: Vec<&str> = killed.files.iter().filter(by_the_log).map(|f| f.kind.as_str()).collect();
    assert!(kinds.contains(&"segments") && kinds.contains(&"tombstones"), "{kinds:?}");
    let graphs = of("vector-graph");
    let parts = graphs.files.keys().flat_map(|name| triune::inspect::structures(&graphs.folder, name).unwrap());
    let names: Vec<String> = parts.map(|part| part.name).collect();
    let sections = |kind: &str| names.iter().filter(|name| name.ends_with(kind)).count();
    assert_eq!((sections("section VectorGraph"), sections("section VectorCodes")), (3, 2), "{names:#?}");
    let torn = of("torn-tail");
    let copy = torn.copy();
    let db = Database::open_read_only(copy.path()).unwrap();
    assert!(db.recovery().torn_tail.is_some() && db.recovery().replayed_commits > 0, "{:?}", db.recovery());
}

/// The same operations give the same answers in the version at hand; with `TRIUNE_MAKE_FIXTURES` the result is kept in that folder.
#[test]
fn the_same_operations_give_the_same_answers() {
    let keep = std::env::var_os("TRIUNE_MAKE_FIXTURES").map(|folder| crate::source::root().join(folder));
    for (name, make) in FIXTURES {
        let files = make();
        let disk = SimDirectory::new();
        files.iter().for_each(|(name, bytes)| disk.write_file(name, bytes.clone()));
        let db = Database::open_read_only_with(Arc::new(disk), options(IoMode::Mmap)).unwrap();
        let mut found = answers(&db.snapshot());
        if let Some(folder) = &keep {
            write(&folder.join(name), &files, &found, &dump(&db));
        }
        let mut expected = Fixture::read(root().join(format!("v{FORMAT_MAJOR}.{FORMAT_MINOR}")).join(name)).expected();
        [&mut expected, &mut found].into_iter().for_each(without_times);
        let difference = difference(&expected, &found);
        assert!(difference.is_none(), "{name}: {}", difference.unwrap_or_default());
    }
}

/// The times of sources are those of the run that made them.
fn without_times(answers: &mut serde_json::Value) {
    for collection in answers["collections"].as_object_mut().unwrap().values_mut() {
        collection["sources"].as_array_mut().unwrap().iter_mut().for_each(|source| source[4] = 0.into());
    }
}

fn write(folder: &Path, files: &Files, answers: &serde_json::Value, dump: &[u8]) {
    assert!(!folder.exists(), "{} is there: fixtures are never changed", folder.display());
    std::fs::create_dir_all(folder).unwrap();
    files.iter().for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes).unwrap());
    std::fs::write(folder.join("expected.dump"), dump).unwrap();
    std::fs::write(folder.join("expected.json"), serde_json::to_string_pretty(answers).unwrap() + "\n").unwrap();
}

//! `fsck`: every exit status, the report of both forms, and that it writes nothing.

use crate::support::{Db, triune};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Every file with its bytes.
fn image(db: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(db).expect("the database is there");
    let read = |path: PathBuf| (path.clone(), std::fs::read(path).expect("it can be read"));
    entries.map(|entry| read(entry.expect("it can be listed").path())).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).expect("it can be read");
    bytes[at] ^= 1;
    std::fs::write(path, bytes).expect("it can be written");
}

fn filled() -> Db {
    let db = Db::new(&["--dim", "2"]);
    for id in ["a", "b", "c"] {
        let document = format!(r#"{{"id":"{id}","text":"Alpha of {id}","vector":[1,2],"source":"s","metadata":{{"n":1}}}}"#);
        db.run("put", &[&document]).ok();
    }
    db.run("compact", &[]).ok();
    db
}

#[test]
fn fsck_answers_clean_at_every_level_and_writes_nothing() {
    let db = filled();
    let before = image(&db.path());
    for level in ["0", "1", "2", "3"] {
        let run = db.run("fsck", &["--level", level]).ok();
        assert!(run.stdout.starts_with("clean: "), "{}", run.stdout);
        let report = &db.run("fsck", &["--level", level, "--json"]).ok().objects()[0];
        assert_eq!((&report["verdict"], &report["exit_status"]), (&"clean".into(), &0.into()));
        assert_eq!(report["level"].to_string(), level);
        assert_eq!(report["findings"], serde_json::json!([]));
        assert!(report["segments"].as_u64() == Some(1) && report["files"].as_u64().is_some_and(|n| n >= 6), "{report}");
    }
    assert_eq!(image(&db.path()), before);
    assert_eq!(db.run("fsck", &["--level", "4"]).status, 2);
    assert_eq!(db.run("fsck", &["--collection", "main"]).ok().status, 0);
    db.run("fsck", &["--collection", "none"]).refused(10, "NotFound", &["none"]);
    Db::absent().run("fsck", &[]).refused(10, "NotFound", &[]);
}

/// More files than a process may have open by default are no matter; more than it may ever have are an error, and no damage.
#[cfg(unix)]
#[test]
fn a_database_of_more_files_than_may_be_open_is_not_damaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, copy) = (dir.path().join("db"), dir.path().join("new"));
    let db = triune::Database::create(&path).expect("it can be made");
    for i in 0..60 {
        let name = format!("c{i}");
        db.create_collection(&name, triune::Schema::default()).expect("it can be made");
        db.put(&name, vec![triune::Document::new("a").text("alpha")]).expect("it can be written");
        db.checkpoint().expect("each collection's segment lies in a file of its own");
    }
    db.close().expect("it can be closed");
    let limited = |hard: bool, args: &[&str]| {
        let script = format!("ulimit -{}n 40; exec \"$@\"", if hard { "" } else { "S" });
        let binary = env!("CARGO_BIN_EXE_triune");
        let output = std::process::Command::new("sh").args(["-c", &script, "sh", binary]).args(args).output().expect("there is a shell");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (db, new) = (path.to_str().expect("UTF-8"), copy.to_str().expect("UTF-8"));
    let (status, said, errors) = limited(false, &["fsck", "--level", "3", db]);
    assert!(status == Some(0) && said.starts_with("clean: "), "{said}{errors}");
    for args in [&["fsck", db][..], &["salvage", db, "--out", new]] {
        let (status, said, errors) = limited(true, args);
        assert_eq!(status, Some(23), "{args:?}: {said}{errors}");
        assert!(errors.contains("That is no damage") && errors.contains("ulimit -n"), "{errors}");
        assert!(!copy.exists(), "{args:?} left something");
    }
    assert_eq!(limited(true, &["count", db, "--collection", "c0"]).0, Some(0), "reading works");
    // A rebuild writes each segment again, one after another.
    let (status, said, errors) = limited(true, &["rebuild", db]);
    assert!(status == Some(0), "{said}{errors}");
    let (status, said, errors) = limited(false, &["salvage", db, "--out", new]);
    assert!(status == Some(0), "{said}{errors}");
    assert_eq!(limited(false, &["count", new, "--collection", "c59"]).1.trim(), "1");
}

#[test]
fn fsck_tells_each_kind_of_damage_by_its_status() {
    // A leftover file: 1.
    let db = filled();
    std::fs::write(db.path().join("s-00000000000000ff.segments"), "half").expect("it can be written");
    let run = db.run("fsck", &[]);
    assert_eq!((run.status, run.stdout.contains("ORPHAN (benign)")), (1, true), "{}", run.stdout);
    // An index: 4. The last sections of a segment are derived ones; the first is not.
    let segments = segment_file(&db);
    let listed = db.run("inspect", &[segments.file_name().and_then(|n| n.to_str()).expect("UTF-8"), "--json"]).ok().objects();
    let parts = listed[0]["structures"].as_array().expect("structures").clone();
    let offset = |name: &str| {
        let part = parts.iter().find(|p| p["name"].as_str().is_some_and(|n| n.ends_with(name))).unwrap_or_else(|| panic!("{name}"));
        usize::try_from(part["offset"].as_u64().expect("a number")).expect("it fits")
    };
    flip(&segments, offset("section Terms") + 3);
    #[cfg(target_os = "linux")]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has /dev/full");
        let unread = db.command("fsck", &["--json"]).stdout(full).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&unread.stderr);
        assert!(unread.status.code() == Some(4) && said.contains("standard output") && said.contains("is the verdict"), "{said}");
    }
    let run = db.run("fsck", &["--json"]);
    let report = &run.objects()[0];
    assert_eq!((run.status, &report["verdict"]), (4, &"derived".into()));
    let finding =
        report["findings"].as_array().and_then(|all| all.iter().find(|f| f["code"] == "DERIVED-CRC")).expect("it is found").clone();
    assert_eq!((&finding["section"], &finding["collection"], &finding["severity"]), (&"Terms".into(), &"main".into(), &"derived".into()));
    assert_eq!(finding["offset"].as_u64(), Some(offset("section Terms") as u64));
    // A document: 8.
    flip(&segments, offset("section Docs") + 3);
    let run = db.run("fsck", &[]);
    assert_eq!(run.status, 8);
    assert!(run.stdout.contains("PRIMARY-CRC (primary)") && run.stdout.contains("triune salvage"), "{}", run.stdout);
    // Nothing is left that says where the state is: 8, and the other commands refuse and say what to run.
    std::fs::write(db.path().join("HEAD"), vec![0x55; 8192]).expect("it can be written");
    assert_eq!(db.run("fsck", &["--level", "0"]).status, 8);
    db.run("count", &[]).refused(13, "Corrupt", &["HEAD", "triune fsck", "triune salvage"]);
}

/// The file of the only segment.
fn segment_file(db: &Db) -> PathBuf {
    let listed = db.run("inspect", &["--json"]).ok().objects();
    let whole = |o: &&serde_json::Value| o["kind"] == "segments" && o["fields"].get("orphan").is_none();
    let name = listed.iter().find(whole).and_then(|o| o["file"].as_str()).expect("a file of segments").to_string();
    db.path().join(name)
}

#[test]
fn the_demo_database_is_clean_at_level_3() {
    let db = Db::absent();
    let directory = db.directory.path().join("demo");
    triune(&["demo", directory.to_str().expect("the path is UTF-8")]).ok();
    let made = directory.join("db");
    let run = triune(&["fsck", made.to_str().expect("the path is UTF-8"), "--level", "3", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stdout);
}

#[test]
fn inspect_goes_through_a_file_field_by_field() {
    let db = filled();
    let rows = db.run("inspect", &["HEAD"]).ok().stdout;
    assert!(rows.contains("4096     4096  slot 1 (HeadSlot)  sound"), "{rows}");
    assert!(
        rows.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == ["4104", "8", "generation", &generation(&db)]),
        "{rows}"
    );
    // A log lists its records with what they did.
    db.run("put", &[r#"{"id":"d"}"#]).ok();
    let logs = db.run("inspect", &["--json"]).ok().objects();
    let log = logs.iter().find(|o| o["kind"] == "log").and_then(|o| o["file"].as_str()).expect("a log").to_string();
    let listed = db.run("inspect", &[&log, "--json"]).ok().objects();
    assert_eq!(listed[0]["structures"][0]["name"], "header (WalHeader)");
    assert!(
        listed[0]["structures"][0]["fields"].as_array().is_some_and(|f| f.iter().any(|f| f["field"] == "first_lsn" && f["offset"] == 56))
    );
}

fn generation(db: &Db) -> String {
    let head = &db.run("inspect", &["HEAD", "--json"]).ok().objects()[0];
    head["fields"]["slot 1 generation"].as_str().expect("a number").to_string()
}

#[test]
fn what_fsck_advises_for_a_missing_lock_is_enough() {
    let db = filled();
    std::fs::remove_file(db.path().join("LOCK")).expect("it was there");
    let run = db.run("fsck", &[]);
    let advice = run.stdout.lines().last().expect("a verdict");
    assert!(run.status == 4 && advice.contains("An empty file named LOCK") && !advice.contains("rebuild"), "{}", run.stdout);
    std::fs::write(db.path().join("LOCK"), "").expect("it can be written");
    assert_eq!(db.run("fsck", &[]).status, 0);
    db.run("put", &[r#"{"id":"z","text":"more"}"#]).ok();
}

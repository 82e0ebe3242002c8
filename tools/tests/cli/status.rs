//! Exit statuses, the form of errors, and stdout that goes away.

use crate::support::{Db, command, triune};
use std::io::Read;

#[test]
fn usage_errors_exit_with_2_and_help_with_0() {
    for args in [
        &[][..],
        &["nonsense"],
        &["count"],
        &["create", "db", "--metric", "nonsense"],
        &["load", "db", "-", "--batch", "0"],
        &["get", "db"],
    ] {
        assert_eq!(triune(args).status, 2, "{args:?}");
    }
    assert_eq!(triune(&["--help"]).ok().stderr, "");
    assert!(triune(&["--version"]).ok().stdout.starts_with("triune "));
}

#[test]
fn a_missing_database_names_the_command_that_makes_one() {
    let db = Db::absent();
    for (name, rest) in [
        ("load", &["-"][..]),
        ("search", &["x"]),
        ("get", &["x"]),
        ("scan", &[]),
        ("count", &[]),
        ("put", &["{\"id\":\"a\"}"]),
        ("patch", &["a", "{}"]),
        ("delete", &["--all"]),
        ("stats", &[]),
        ("compact", &[]),
    ] {
        db.run(name, rest).refused(10, "NotFound", &["triune create"]);
        assert!(!crate::support::exists(&db.path()), "`{name}` made something");
    }
    db.run("inspect", &[]).refused(10, "NotFound", &[]);
}

#[test]
fn what_no_collection_can_be_leaves_no_database() {
    let db = Db::absent();
    let folder = db.directory.path().join("notes").to_str().unwrap().to_string();
    std::fs::create_dir(&folder).unwrap();
    db.file("notes/a.md", "# A");
    let (long, documents) = ("x".repeat(1025), db.file("d.jsonl", "{\"id\":\"a\",\"text\":\"t\"}\n"));
    for (name, status, code) in [("notes:sources", 17, "InvalidArgument"), (long.as_str(), 19, "LimitExceeded")] {
        for (command, rest) in [("create", vec![]), ("ingest", vec![folder.as_str()]), ("build", vec!["--input", documents.as_str()])] {
            let rest: Vec<&str> = rest.into_iter().chain(["--collection", name]).collect();
            db.run(command, &rest).refused(status, code, &[]);
            assert!(!crate::support::exists(&db.path()), "`{command}` made something");
        }
    }
    db.run("create", &["--embedder-name", &"e".repeat(1025)]).refused(19, "LimitExceeded", &["1025", "1024"]);
    assert!(!crate::support::exists(&db.path()));
}

#[test]
fn an_error_is_one_line_whatever_a_library_says() {
    let db = Db::new(&[]);
    let run = db.run("search", &["x", "--filter", r#"{"t":{"$regex":"("}}"#]).refused(17, "InvalidArgument", &["unclosed group"]);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}

#[test]
fn a_directory_in_place_of_a_file_is_told_and_the_other_way_round() {
    let db = Db::new(&[]);
    let folder = db.directory.path().to_str().unwrap();
    let run = db.run("load", &[folder]).refused(23, "Io", &["is a directory", "Name a file"]);
    assert!(!run.stderr.contains("line 0"), "{}", run.stderr);
    triune(&["demo", &db.file("f", "")]).refused(17, "InvalidArgument", &["is a file", "directory"]);
    let path = db.path();
    db.run("ingest", &[path.to_str().unwrap()]).refused(23, "Io", &["it is a database"]);
    assert_eq!(db.count(), 0);
}

#[test]
fn with_json_an_error_is_told_as_json_too() {
    let db = Db::absent();
    let run = db.run("count", &["--json"]).refused(10, "NotFound", &[]);
    assert_eq!(run.stdout, "");
    let told: Vec<serde_json::Value> = run.stderr.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    assert_eq!(told.len(), 1, "{}", run.stderr);
    assert_eq!(told[0]["error"]["code"], "NotFound");
    assert!(told[0]["error"]["message"].as_str().is_some_and(|m| m.contains("triune create")));
}

#[test]
fn limits_name_both_values() {
    let db = Db::new(&[]);
    let id = "x".repeat(1025);
    db.run("put", &[&format!("{{\"id\":\"{id}\"}}")]).refused(19, "LimitExceeded", &["1025", "1024"]);
    let deep = format!("{{\"id\":\"a\",\"metadata\":{{\"k\":{}{}}}}}", "[".repeat(64), "]".repeat(64));
    db.run("put", &[&deep]).refused(19, "LimitExceeded", &["65", "64"]);
    assert_eq!(db.count(), 0);
}

#[test]
fn a_directory_in_place_of_a_file_is_an_io_error() {
    let db = Db::new(&[]);
    let directory = db.directory.path().to_str().expect("the path is UTF-8");
    db.run("load", &[directory]).refused(23, "Io", &[directory]);
}

#[test]
fn damage_is_corrupt_and_names_the_file() {
    let db = Db::new(&[]);
    db.run("put", &[r#"{"id":"a"}"#]).ok();
    let head = db.path().join("HEAD");
    let length = std::fs::metadata(&head).expect("HEAD is there").len() as usize;
    std::fs::write(&head, vec![0x55; length]).expect("HEAD can be damaged");
    db.run("count", &[]).refused(13, "Corrupt", &["HEAD"]);
    db.run("put", &[r#"{"id":"b"}"#]).refused(13, "Corrupt", &["HEAD"]);
    assert_ne!(db.run("create", &[]).status, 0);
    assert_eq!(std::fs::read(&head).expect("HEAD is there"), vec![0x55; length], "nothing was changed");
}

/// A slot's magic, generation, version, checksum and feature flags keep their places for ever: generation at 8, major version at 16, CRC-32
/// of the 4096 bytes (with itself zero) at 20.
#[test]
fn a_newer_version_is_not_read_and_not_touched() {
    let db = Db::new(&[]);
    db.run("put", &[r#"{"id":"a"}"#]).ok();
    let path = db.path().join("HEAD");
    let mut head = std::fs::read(&path).expect("HEAD is there");
    assert_eq!(head.len(), 8192);
    for slot in head.chunks_exact_mut(4096) {
        slot[16..18].copy_from_slice(&99u16.to_le_bytes());
        slot[20..24].fill(0);
        let crc = crc32(slot);
        slot[20..24].copy_from_slice(&crc.to_le_bytes());
    }
    std::fs::write(&path, &head).expect("HEAD can be rewritten");
    db.run("count", &[]).refused(14, "UnsupportedVersion", &["99"]);
    db.run("put", &[r#"{"id":"b"}"#]).refused(14, "UnsupportedVersion", &["99"]);
    assert_eq!(std::fs::read(&path).expect("HEAD is there"), head);
}

/// CRC-32 as zlib computes it, bit by bit: the binary is held against a second opinion.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |c, _| if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 }))
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let db = Db::new(&[]);
    let lines: String = (0..5000).map(|i| format!("{{\"id\":\"{i}\",\"text\":\"some words to fill the pipe with\"}}\n")).collect();
    db.feed("load", &["-"], lines).ok();
    let path = db.path();
    let mut child = command(&["scan", path.to_str().expect("the path is UTF-8"), "--json"]).spawn().expect("the binary starts");
    let mut stdout = child.stdout.take().expect("stdout is a pipe");
    stdout.read_exact(&mut [0; 64]).expect("the scan prints");
    drop(stdout);
    let output = child.wait_with_output().expect("the scan ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_under_stdout_is_an_error() {
    let db = Db::new(&[]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has /dev/full");
    let status = db.command("count", &[]).stdout(full).status().expect("the binary runs");
    assert_eq!(status.code(), Some(23), "it is not the disk of the database");
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_done_stands_though_stdout_cannot_say_it() {
    let db = Db::new(&[]);
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has /dev/full");
    for (name, rest) in [
        ("put", &["{\"id\":\"a\",\"text\":\"alpha\"}"][..]),
        ("put", &["{\"id\":\"b\"}"]),
        ("delete", &["--id", "b"]),
        ("create", &["--collection", "other"]),
        ("collections", &["drop", "other"]),
        ("compact", &[]),
        ("dump", &[]),
        ("search", &["alpha", "--mode", "text"]),
    ] {
        let output = db.command(name, rest).stdout(full()).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(23), "{name}: {said}");
        assert!(said.contains("error[Io]: writing to standard output: No space left on device"), "{name}: {said}");
        assert_eq!(said.contains("what the command did stands"), !["dump", "search"].contains(&name), "{name}: {said}");
        assert!(!said.contains("othing was changed"), "{name}: {said}");
    }
    assert_eq!(db.run("scan", &["--json"]).ok().ids(), ["a"]);
    assert_eq!(db.run("collections", &["--json"]).ok().objects().len(), 1);
}

#[test]
fn a_file_in_place_of_a_database_is_called_one() {
    let db = Db::absent();
    db.file("db", "mine");
    for (name, rest) in [
        ("count", &[][..]),
        ("put", &["{\"id\":\"a\"}"]),
        ("fsck", &[]),
        ("inspect", &[]),
        ("dump", &[]),
        ("rebuild", &[]),
        ("upgrade", &[]),
    ] {
        let run = db.run(name, rest).refused(10, "NotFound", &["is a file"]);
        assert!(!run.stderr.contains("no such directory") && !run.stderr.contains("triune create"), "{name}: {}", run.stderr);
    }
    db.run("create", &[]).refused(17, "InvalidArgument", &["is a file", "Name a new directory"]);
    assert_eq!(std::fs::read(db.path()).expect("it is there"), b"mine");
}

#[test]
fn a_directory_without_a_database_is_not_found_also_by_inspect() {
    let db = Db::absent();
    std::fs::create_dir(db.path()).expect("a directory can be made");
    for rest in [&[][..], &["HEAD"]] {
        db.run("inspect", rest).refused(10, "NotFound", &["there is no database in "]);
    }
    std::fs::write(db.path().join("notes.txt"), "mine").expect("a file can be written");
    db.run("inspect", &[]).refused(10, "NotFound", &["there is no database in "]);
}

#[test]
fn a_directory_of_other_files_is_no_place_for_a_database() {
    let db = Db::absent();
    std::fs::create_dir(db.path()).expect("a directory can be made");
    std::fs::write(db.path().join("notes.txt"), "mine").expect("a file can be written");
    let run =
        db.run("stats", &[]).refused(10, "NotFound", &["Other files are there", &format!("triune create {}/db`", db.path().display())]);
    assert!(!run.stderr.contains(&format!("create {}`", db.path().display())), "create would refuse it: {}", run.stderr);
}

#[test]
fn a_file_where_a_copy_is_to_be_made_is_called_one() {
    let db = Db::new(&[]);
    let file = db.file("file", "mine");
    for (name, rest) in [("backup", &[file.as_str()][..]), ("salvage", &["--out", &file])] {
        db.run(name, rest).refused(17, "InvalidArgument", &[&file, "is a file", "nothing was made", "Name a new directory"]);
    }
    assert_eq!(std::fs::read(&file).expect("it is there"), b"mine");
}

#[test]
fn files_of_a_database_without_their_head_stand_in_the_way_of_a_new_one() {
    let db = Db::absent();
    std::fs::create_dir(db.path()).expect("a directory can be made");
    let stray = db.path().join("s-0000000000000001.segments");
    std::fs::write(&stray, "kept").expect("a file can be written");
    let advice = format!("`triune fsck {}`", db.path().display());
    db.run("create", &[]).refused(11, "AlreadyExists", &["without their HEAD", "nothing was changed", "Name another directory", &advice]);
    assert_eq!(std::fs::read(&stray).expect("it is there"), b"kept");
    assert_eq!(std::fs::read_dir(db.path()).expect("it is there").count(), 1, "nothing was made beside it");
}

#[test]
fn a_call_that_is_nearly_right_is_told_what_was_meant() {
    let db = Db::new(&[]);
    db.run("put", &["{\"id\":\"a\",\"text\":\"two words\",\"metadata\":{\"year\":2020}}"]).ok();
    for (name, args, words) in [("delete", &["a"][..], "--id a"), ("search", &["two", "words"], "'two words'")] {
        let run = db.run(name, args);
        assert!(run.status == 2 && run.stderr.contains(words), "{name}: {}", run.stderr);
    }
    let run = db.run("search", &["two", "--limits", "1"]);
    assert!(run.status == 2 && !run.stderr.contains("-- --limits"), "{}", run.stderr);
    assert_eq!(db.run("search", &["two", "--limit", "1", "--json"]).ok().ids(), ["a"]);
    assert_eq!(db.count(), 1);

    for name in ["count", "scan", "delete"] {
        let run = db.run(name, &["--filter", "year=2020"]).refused(17, "InvalidArgument", &["a filter is a JSON object"]);
        let example = run.stderr.split("--filter '").nth(1).and_then(|rest| rest.split('\'').next()).expect("an example");
        assert_eq!(db.run("count", &["--filter", example]).ok().stdout, "1\n", "{example} is a filter that works");
    }
    let absent = Db::absent();
    let here = command(&["search", ".", "x"]).current_dir(absent.directory.path()).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&here.stderr);
    assert!(here.status.code() == Some(10) && said.contains("there is no database in \".\". Make a database"), "{said}");
    let nowhere = db.directory.path().join("nowhere");
    let file = nowhere.join("x");
    let file = file.to_str().expect("the path is UTF-8");
    db.run("dump", &["--out", file]).refused(10, "NotFound", &[&format!("there is no directory {}", nowhere.display())]);
    assert!(!crate::support::exists(&nowhere));
}

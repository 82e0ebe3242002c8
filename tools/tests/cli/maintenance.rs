//! dump, restore, backup, rebuild, salvage, upgrade.

use crate::support::{Db, command, exists, triune, triune_with};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

fn filled() -> Db {
    let db = Db::new(&[]);
    let lines: String = (0..20).map(|i| format!("{{\"id\":\"d{i}\",\"text\":\"torn tail {i}\",\"vector\":[{i},1]}}\n")).collect();
    db.feed("load", &["-"], lines).ok();
    db.run("create", &["--collection", "other"]).ok();
    db
}

fn beside(db: &Db, name: &str) -> PathBuf {
    db.directory.path().join(name)
}

/// The file of segments with the most bytes.
fn largest_segments(directory: &Path) -> PathBuf {
    let files = fs::read_dir(directory).expect("the directory is there").map(|e| e.expect("an entry").path());
    let segments = files.filter(|p| p.extension().is_some_and(|e| e == "segments"));
    segments.max_by_key(|p| p.metadata().expect("a file").len()).expect("there are segments")
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("the file reads");
    bytes[at] ^= 0x20;
    fs::write(path, bytes).expect("the file can be written");
}

#[test]
fn a_dump_restores_to_the_same_dump_through_pipes_and_files() {
    let db = filled();
    let dump = db.run("dump", &[]).ok().stdout;
    assert!(dump.starts_with("{\"triune_dump\":1,\"collections\":2}\n") && dump.ends_with("\"}\n"));
    let (piped, filed) = (beside(&db, "piped"), beside(&db, "filed"));
    triune_with(&["restore", text(&piped), "-"], dump.as_bytes()).ok();
    assert_eq!(triune(&["dump", text(&piped)]).ok().stdout, dump);
    let file = beside(&db, "db.dump");
    let report = db.run("dump", &["--out", text(&file), "--json"]).ok();
    assert_eq!(report.objects()[0]["documents"], 20);
    assert_eq!(fs::read_to_string(&file).expect("the dump reads"), dump);
    assert_eq!(triune(&["restore", text(&filed), text(&file), "--json"]).ok().objects()[0]["documents"], 20);
    assert_eq!(triune(&["dump", text(&filed)]).ok().stdout, dump);
    db.run("dump", &["--out", text(&file)]).refused(11, "AlreadyExists", &["Name a new file"]);
    let one = db.run("dump", &["--collection", "other"]).ok().stdout;
    assert!(one.starts_with("{\"triune_dump\":1,\"collections\":1}\n{\"collection\":\"other\""));
    db.run("dump", &["--collection", "absent"]).refused(10, "NotFound", &["absent"]);
    triune(&["restore", text(&filed), text(&file)]).refused(11, "AlreadyExists", &["nothing was changed"]);
    let new = beside(&db, "new");
    let cut = &dump[..dump.len() / 2];
    triune_with(&["restore", text(&new), "-"], cut.as_bytes()).refused(17, "InvalidArgument", &["line ", "cut short"]);
    assert!(!exists(&new));
    triune(&["restore", text(&new), "no such file"]).refused(10, "NotFound", &["no such file"]);
}

#[test]
fn a_dump_whose_document_has_two_sources_is_refused() {
    let db = Db::new(&["--source-key", "file"]);
    db.run("put", &[r#"{"id":"a","source":"s.md","metadata":{"file":"s.md"}}"#]).ok();
    let dump = db.run("dump", &[]).ok().stdout;
    let forged = dump.replacen(r#""source":"s.md""#, r#""source":"t.md""#, 1);
    assert_ne!(forged, dump);
    let new = beside(&db, "new");
    triune_with(&["restore", text(&new), "-"], forged.as_bytes()).refused(
        17,
        "InvalidArgument",
        &["line 3", "t.md", "s.md", "nothing was restored"],
    );
    assert!(!exists(&new));
    db.run("put", &[r#"{"id":"b","source":"t.md","metadata":{"file":"s.md"}}"#]).refused(17, "InvalidArgument", &["t.md", "s.md"]);
    triune_with(&["restore", text(&new), "-"], dump.as_bytes()).ok();
}

#[test]
fn a_killed_restore_is_refused_by_name_and_runs_again() {
    let db = filled();
    let dump = db.run("dump", &[]).ok().stdout;
    let new = beside(&db, "new");
    let mut child = command(&["restore", text(&new), "-"]).stdin(Stdio::piped()).spawn().expect("the binary starts");
    let stdin = child.stdin.as_mut().expect("stdin is a pipe");
    stdin.write_all(&dump.as_bytes()[..dump.len() / 2]).and_then(|()| stdin.flush()).expect("the child reads");
    // It waits for the rest, and has begun by then.
    while !exists(&new.join("HEAD")) || fs::metadata(new.join("HEAD")).expect("it is there").len() == 0 {
        std::thread::yield_now();
    }
    child.kill().and_then(|()| child.wait()).expect("the child ends");
    for refused in [triune(&["count", text(&new)]), triune(&["delete", text(&new), "--all"])] {
        let run = refused.refused(10, "NotFound", &["cut short", "run it again"]);
        assert!(!run.stderr.contains("triune create"), "{}", run.stderr);
    }
    triune_with(&["restore", text(&new), "-"], dump.as_bytes()).ok();
    assert_eq!(triune(&["dump", text(&new)]).ok().stdout, dump);
}

#[test]
fn a_backup_opens_by_itself_and_a_second_one_links_what_is_the_same() {
    let db = filled();
    let (first, second, linked) = (beside(&db, "first"), beside(&db, "second"), beside(&db, "linked"));
    let dump = db.run("dump", &[]).ok().stdout;
    let path = db.path();
    let report = triune(&["backup", text(&path), text(&first), "--json"]).ok().objects().remove(0);
    assert!(report["copied"]["files"].as_u64() >= Some(2) && report["linked"]["files"] == 0, "{report}");
    assert_eq!(triune(&["dump", text(&first)]).ok().stdout, dump);
    let report =
        triune(&["backup", text(&path), text(&second), "--link-from", text(&first), "--verify", "--json"]).ok().objects().remove(0);
    assert!(report["linked"]["files"].as_u64() >= Some(1), "{report}");
    triune(&["backup", text(&path), text(&linked), "--link"]).ok();
    triune(&["delete", text(&first), "--all"]).ok();
    for copy in [&second, &linked, &path] {
        assert_eq!(triune(&["dump", text(copy)]).ok().stdout, dump);
    }
    triune(&["backup", text(&path), text(&second)]).refused(11, "AlreadyExists", &["second"]);
    triune(&["backup", text(&beside(&db, "absent")), text(&beside(&db, "x"))]).refused(10, "NotFound", &["absent"]);
    flip(&largest_segments(&path), 70);
    triune(&["backup", text(&path), text(&beside(&db, "y"))]).refused(13, "Corrupt", &["checksum"]);
    assert!(!exists(&beside(&db, "y")));
}

#[test]
fn what_is_derived_is_rebuilt_and_the_rest_is_salvaged() {
    let db = filled();
    let dump = db.run("dump", &[]).ok().stdout;
    let found = db.run("search", &["torn 7", "--json"]).ok().stdout;
    assert_eq!(db.run("rebuild", &["--json"]).ok().objects()[0]["rows"], 20);
    db.run("rebuild", &["--collection", "main"]).ok();
    db.run("rebuild", &["--collection", "absent"]).refused(10, "NotFound", &["absent"]);
    assert_eq!(db.run("dump", &[]).ok().stdout, dump);
    assert_eq!(db.run("search", &["torn 7", "--json"]).ok().stdout, found);

    // The first section of a segment is that of the documents.
    flip(&largest_segments(&db.path()), 70);
    db.run("rebuild", &[]).refused(13, "Corrupt", &["triune salvage"]);
    let (new, ledger) = (beside(&db, "new"), beside(&db, "ledger.jsonl"));
    let refused = db.run("salvage", &["--out", text(&new)]).refused(13, "Corrupt", &["--accept-loss", "Nothing was made"]);
    assert!(!exists(&new) && refused.objects().iter().all(|l| l["kind"] == "document"), "{}", refused.stdout);
    #[cfg(target_os = "linux")]
    {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has /dev/full");
        let unread = db.command("salvage", &["--out", text(&new), "--accept-loss"]).stdout(full).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&unread.stderr);
        assert!(unread.status.code() == Some(23) && said.contains("nothing was made") && !exists(&new), "{said}");
    }
    // A ledger that nobody can read is none.
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    let unread = db.command("salvage", &["--out", text(&new), "--accept-loss"]).stdout(writer).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&unread.stderr);
    assert!(unread.status.code() == Some(23) && said.contains("nothing was made") && !exists(&new), "{said}");
    // What has the name of the ledger stays what it is, also when it leads nowhere.
    std::os::unix::fs::symlink("/nonexistent/target", &ledger).expect("a link can be made");
    db.run("salvage", &["--out", text(&new), "--accept-loss", "--ledger", text(&ledger)]).refused(23, "Io", &["nothing was made"]);
    fs::remove_file(&ledger).expect("the link is there");
    // A ledger goes with what was not made.
    let taken = db.path();
    db.run("salvage", &["--out", text(&taken), "--accept-loss", "--ledger", text(&ledger)]).refused(11, "AlreadyExists", &[]);
    assert!(!exists(&ledger));
    let report = db.run("salvage", &["--out", text(&new), "--accept-loss", "--ledger", text(&ledger), "--json"]).ok().objects().remove(0);
    let lost = fs::read_to_string(&ledger).expect("the ledger reads").lines().count() as u64;
    assert!(lost > 0 && report["losses"] == lost && report["documents"] == 20 - lost, "{report}");
    triune(&["dump", text(&new)]).ok();
}

/// Changes a byte of a section of the only segment.
fn damage(db: &Db, section: &str) {
    let segments = largest_segments(&db.path());
    let name = segments.file_name().and_then(|n| n.to_str()).expect("UTF-8");
    let listed = db.run("inspect", &[name, "--json"]).ok().objects();
    let named = format!("segment 0 section {section}");
    let found = listed[0]["structures"].as_array().expect("structures").iter().find(|s| s["name"].as_str() == Some(&named));
    let at = found.and_then(|s| s["offset"].as_u64()).unwrap_or_else(|| panic!("{named}: {}", listed[0]));
    flip(&segments, usize::try_from(at).expect("it fits") + 3);
}

#[test]
fn damage_that_a_later_batch_meets_is_told_beside_the_batches_that_stand() {
    let db = Db::new(&[]);
    db.feed("load", &["-"], (0..5).map(|i| format!("{{\"id\":\"d{i}\",\"text\":\"torn tail {i}\"}}\n")).collect::<String>()).ok();
    damage(&db, "Lengths");
    let run = db.feed("load", &["-", "--batch", "1", "--json"], "{\"id\":\"m\"}\n{\"id\":\"d2\"}\n");
    assert!(run.status == 13 && run.stdout.contains("{\"committed\":1}"), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("This commit changed nothing.") && run.stderr.contains("1 line is committed"), "{}", run.stderr);
}

#[test]
fn a_death_beside_a_damaged_dictionary_is_stored_and_told() {
    let documents: String = (0..5).map(|i| format!("{{\"id\":\"d{i}\",\"text\":\"torn tail {i}\"}}\n")).collect();
    for (command, args, said, count) in
        [("delete", &["--id", "d0"][..], "deleted 1 document", 4), ("put", &["{\"id\":\"d1\",\"text\":\"torn\"}"], "wrote 1 document", 5)]
    {
        let db = Db::new(&[]);
        db.feed("load", &["-"], documents.clone()).ok();
        damage(&db, "Terms");
        let run = db.run(command, args);
        assert!(run.stdout.contains(said), "{command}: {}{}", run.stdout, run.stderr);
        assert_eq!(run.status, 0, "{command}: closing counts the terms of the dead row by their postings: {}", run.stderr);
        assert_eq!(db.run("fsck", &[]).status, 4, "{command}: the damage is still told");
        assert_eq!(db.run("count", &["--json"]).ok().objects()[0]["count"], count, "{command}");
        db.run("rebuild", &[]).ok();
        db.run("fsck", &["--level", "3"]).ok();
    }
}

#[test]
fn an_upgrade_says_that_there_is_nothing_to_do() {
    let db = filled();
    let said = db.run("upgrade", &[]).ok().stdout;
    assert!(said.contains("file format 1.0") && said.contains("nothing to do"), "{said}");
    assert_eq!(db.run("upgrade", &["--json"]).ok().objects()[0]["changed"], false);
}

#[test]
fn a_loss_keeps_its_status_when_nobody_reads_the_ledger() {
    let db = filled();
    flip(&largest_segments(&db.path()), 70);
    let new = beside(&db, "new");
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    let output = db.command("salvage", &["--out", text(&new)]).stdout(writer).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(13), "{said}");
    assert!(said.contains("--accept-loss") && !exists(&new), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_ledger_is_not_lost_on_a_stdout_that_was_closed_from_the_start() {
    let db = filled();
    flip(&largest_segments(&db.path()), 70);
    let (path, new, ledger) = (db.path(), beside(&db, "new"), beside(&db, "ledger.jsonl"));
    // Only a shell starts a program so.
    let closed = |args: &[&str]| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "exec \"$0\" \"$@\" >&-", env!("CARGO_BIN_EXE_triune"), "salvage", text(&path), "--out", text(&new)]).args(args);
        shell.output().expect("a shell runs")
    };
    let unread = closed(&["--accept-loss"]);
    let said = String::from_utf8_lossy(&unread.stderr);
    assert!(unread.status.code() == Some(23) && said.contains("nothing was made") && said.contains("--ledger") && !exists(&new), "{said}");
    assert_eq!(closed(&[]).status.code(), Some(13));
    // In a file it is not lost.
    assert_eq!(closed(&["--accept-loss", "--ledger", text(&ledger)]).status.code(), Some(0));
    assert!(exists(&new) && fs::metadata(&ledger).expect("the ledger is there").len() > 0);
    // Whoever throws it away has said so.
    let thrown = db.command("salvage", &["--out", text(&beside(&db, "other")), "--accept-loss"]).stdout(Stdio::null()).status();
    assert_eq!(thrown.expect("the binary runs").code(), Some(0));
}

#[test]
fn errors_are_sentences_that_name_what_to_do_here() {
    let db = filled();
    let (path, dump) = (db.path(), beside(&db, "db.dump"));
    db.run("dump", &["--out", text(&dump)]).ok();
    let other = beside(&db, "other");
    triune(&["create", text(&other)]).ok();
    for args in [&["backup", text(&path), text(&other)], &["restore", text(&other), text(&dump)]] {
        let run = triune(args).refused(11, "AlreadyExists", &["there is a database in ", "Name a new directory"]);
        assert!(!run.stderr.contains("Open it"), "{}", run.stderr);
    }
    db.run("salvage", &["--out", text(&other)]).refused(11, "AlreadyExists", &["Name a new directory"]);
    let run = db.run("create", &[]).refused(11, "AlreadyExists", &["collection \"main\" exists already. Nothing was changed; "]);
    assert_eq!(run.stderr.matches("othing ").count(), 1, "{}", run.stderr);
    for (command, args) in [("collections", &["drop", "absent"][..]), ("dump", &["--collection", "absent"])] {
        let run = db.run(command, args).refused(10, "NotFound", &["there is no collection \"absent\""]);
        assert!(!run.stderr.contains("create"), "{}", run.stderr);
    }
    flip(&largest_segments(&path), 70);
    let named = format!("`triune salvage {} --out {}.saved`", text(&path), text(&path));
    db.run("rebuild", &[]).refused(13, "Corrupt", &[&named]);
}

#[test]
fn salvage_beside_a_writer_names_its_pid() {
    let db = filled();
    let mut writer = db.command("load", &["-", "--json", "--batch", "1"]).stdin(Stdio::piped()).spawn().expect("the binary starts");
    let stdin = writer.stdin.as_mut().expect("stdin is a pipe");
    stdin.write_all(b"{\"id\":\"x\"}\n").expect("the load reads");
    // It answers once it has committed, and waits for more.
    writer.stdout.as_mut().expect("stdout is a pipe").read_exact(&mut [0; 8]).expect("the load answers");
    let pid = format!("pid {}", writer.id());
    db.run("salvage", &["--out", text(&beside(&db, "new"))]).refused(12, "Locked", &[&pid]);
    writer.kill().and_then(|()| writer.wait()).expect("the child ends");
}

#[test]
fn what_stands_in_the_place_of_witness_and_ballast_stops_no_writer() {
    let db = filled();
    let (witness, ballast) = (db.path().join("WITNESS"), db.path().join("BALLAST"));
    fs::remove_file(&witness).and_then(|()| fs::remove_file(&ballast)).expect("they were there");
    // A pipe that nobody writes to, and a device without an end.
    assert!(std::process::Command::new("mkfifo").arg(&witness).status().expect("mkfifo runs").success());
    std::os::unix::fs::symlink("/dev/zero", &ballast).expect("a link can be made");
    db.run("put", &[r#"{"id":"a"}"#]).ok();
    db.run("compact", &[]).ok();
    fs::remove_file(&witness).and_then(|()| fs::remove_file(&ballast)).expect("nobody removed them");
    fs::create_dir(&witness).and_then(|()| fs::create_dir(&ballast)).expect("a directory can be made");
    db.run("delete", &["--id", "a"]).ok();
    db.run("compact", &[]).ok();
    assert_eq!(db.run("count", &["--json"]).ok().objects()[0]["count"], 20);
}

#[test]
fn a_salvage_goes_on_with_the_ledger_that_it_left_and_with_no_other() {
    let db = filled();
    flip(&largest_segments(&db.path()), 70);
    let (new, ledger) = (beside(&db, "new"), beside(&db, "ledger.jsonl"));
    let args = ["--out", text(&new), "--ledger", text(&ledger), "--accept-loss"];
    db.run("salvage", &args[..4]).refused(13, "Corrupt", &["run the same with --accept-loss"]);
    let left = fs::read(&ledger).expect("the ledger reads");
    // One that says something else is not this one, and stays.
    fs::write(&ledger, &left[1..]).expect("the file can be written");
    db.run("salvage", &args).refused(11, "AlreadyExists", &["is not the ledger", "Name a new file"]);
    assert_eq!((fs::read(&ledger).expect("it is there"), exists(&new)), (left[1..].to_vec(), false));
    // Nor does it go when the salvage fails.
    fs::write(&ledger, &left).expect("the file can be written");
    let taken = db.path();
    db.run("salvage", &["--out", text(&taken), "--ledger", text(&ledger), "--accept-loss"]).refused(11, "AlreadyExists", &[]);
    db.run("salvage", &args).ok();
    assert_eq!((fs::read(&ledger).expect("it is there"), exists(&new)), (left, true));
}

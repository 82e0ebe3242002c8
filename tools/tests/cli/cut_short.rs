//! Ctrl-C: the exit status is 130, one line says what is left, and that is so.
//!
//! Of commands that count what they have committed, `load.rs`, `build.rs` and `ingest/cut_short.rs` tell.

use crate::support::{Db, Run, command, exists, triune_with};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

fn press_ctrl_c(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).expect("it can be told");
}

/// How it ended.
fn ended(child: Child) -> Run {
    Run::of(child.wait_with_output().expect("it ends"))
}

/// As many documents as no pipe holds.
fn filled(documents: usize) -> Db {
    let db = Db::new(&[]);
    let line = |id| format!("{{\"id\":\"{id}\",\"text\":\"{}\"}}\n", "some words ".repeat(100));
    db.feed("load", &["-"], (0..documents).map(line).collect::<String>()).ok();
    db
}

#[test]
fn a_dump_that_is_stopped_leaves_no_file_and_runs_again() {
    let db = filled(4000);
    let file = db.directory.path().join("dump");
    let out = file.to_str().expect("the path is UTF-8");
    // One that was written before it heard of it is whole, and tried again.
    let stopped = std::iter::repeat_with(|| {
        let child = db.command("dump", &["--out", out]).spawn().expect("the binary starts");
        while !exists(&file) {
            std::thread::yield_now();
        }
        press_ctrl_c(&child);
        let run = ended(child);
        assert_eq!(run.status == 0, std::fs::remove_file(&file).is_ok(), "{}: {}", run.status, run.stderr);
        run
    });
    let run = stopped.take(100).find(|run| run.status != 0).expect("some dump hears of it in time");
    run.refused(130, "Interrupted", &["stopped by Ctrl-C", "dump was not written"]);
    db.run("dump", &["--out", out]).ok();
}

#[test]
fn a_dump_that_finds_no_room_leaves_no_file_and_runs_again() {
    let db = filled(100);
    let (path, file) = (db.path(), db.directory.path().join("dump"));
    let mut small = Command::new("sh");
    small.args(["-c", r#"trap "" XFSZ; ulimit -f 8; exec "$0" dump "$1" --out "$2""#, env!("CARGO_BIN_EXE_triune")]).args([&path, &file]);
    let run = Run::of(small.output().expect("sh runs"));
    run.refused(23, "Io", &["arge"]);
    assert!(!exists(&file));
    db.run("dump", &["--out", file.to_str().expect("the path is UTF-8")]).ok();
}

#[test]
fn a_restore_that_is_stopped_says_that_it_can_begin_anew() {
    let db = filled(3);
    let dump = db.run("dump", &[]).ok().stdout;
    let new = db.directory.path().join("new");
    let path = new.to_str().expect("the path is UTF-8");
    let mut child = command(&["restore", path, "-"]).stdin(Stdio::piped()).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    stdin.write_all(&dump.as_bytes()[..dump.len() / 2]).expect("the restore reads");
    while !new.join("HEAD").metadata().is_ok_and(|m| m.len() > 0) {
        std::thread::yield_now();
    }
    press_ctrl_c(&child);
    let run = ended(child);
    run.refused(130, "Interrupted", &[path, "nothing in it counts", "run the same command again"]);
    triune_with(&["restore", path, "-"], dump.as_bytes()).ok();
}

#[test]
fn a_reader_that_is_stopped_has_changed_nothing() {
    let db = filled(1000);
    // It waits for somebody to read more.
    let mut child = db.command("scan", &["--json"]).spawn().expect("the binary starts");
    child.stdout.as_mut().expect("stdout is a pipe").read_exact(&mut [0]).expect("it prints");
    press_ctrl_c(&child);
    ended(child).refused(130, "Interrupted", &["stopped by Ctrl-C; nothing was changed"]);
}

/// A command that waits for more of its stdin.
fn waiting(mut command: Command) -> (Child, ChildStdin) {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    // More than a pipe holds: it has been read when this returns.
    stdin.write_all(&b"\n".repeat(1 << 20)).expect("it reads");
    (child, stdin)
}

#[test]
fn a_writer_that_is_stopped_names_the_database_and_leaves_it_whole() {
    let db = filled(3);
    let (child, _stdin) = waiting(db.command("put", &["-"]));
    press_ctrl_c(&child);
    ended(child).refused(130, "Interrupted", &["stopped by Ctrl-C", "db is as it was, or as the command was to leave it"]);
    assert_eq!(db.count(), 3);
}

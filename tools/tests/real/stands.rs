//! A call of a command that makes or compacts a database fails, one after another: the message says what stands all the same, and where
//! it says nothing of that, nothing stands.

use crate::support::{copy, document, is_whole, line, read, run, with_pipes};
use crate::syscalls::is_skipped;
use std::fs;
use std::path::Path;
use std::process::Command;
use triune::{Database, ErrorCode};

/// What a run left whose n-th call of a kind failed.
struct Failed {
    status: i32,
    said: String,
    /// Whether it came to that call.
    met: bool,
}

/// Runs a command whose n-th call of a kind answers EIO.
fn fail(directory: &Path, call: &str, nth: u64, path: &Path, command: &str, rest: &[&str]) -> Failed {
    let trace = directory.join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e"]).arg(format!("trace={call}")).arg("-e").arg(format!("inject={call}:error=EIO:when={nth}"));
    strace.arg("-o").arg(&trace).arg(env!("CARGO_BIN_EXE_triune"));
    let output = with_pipes(strace, path, command, rest).output().unwrap();
    let said = format!("{command}, {call} {nth}: {}", String::from_utf8_lossy(&output.stderr));
    let met = fs::read_to_string(&trace).unwrap().contains("(INJECTED)");
    Failed { status: output.status.code().unwrap_or(-1), said, met }
}

#[test]
fn a_command_that_makes_a_database_says_whether_there_is_one() {
    if is_skipped("stands") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [source, new, lines, dump] = ["source", "new", "lines.jsonl", "dump"].map(|name| directory.path().join(name));
    fs::write(&lines, (1..8).map(line).collect::<String>()).unwrap();
    run(&source, "create", &[]);
    run(&source, "load", &[lines.to_str().unwrap()]);
    run(&source, "dump", &["--out", dump.to_str().unwrap()]);
    let (input, dump) = (lines.to_str().unwrap(), dump.to_str().unwrap());
    let commands: [(&Path, &str, &[&str]); 4] = [
        (&new, "create", &[]),
        (&new, "restore", &[dump]),
        (&new, "build", &["--input", input]),
        (&source, "backup", &[new.to_str().unwrap()]),
    ];
    for (path, command, rest) in commands {
        let (mut nothing, mut unknown, mut stands) = (0, 0, 0);
        for call in ["fdatasync", "fsync"] {
            for nth in 1.. {
                let Failed { status, said, met } = fail(directory.path(), call, nth, path, command, rest);
                let opened = Database::open_read_only(&new).map(drop).map_err(|e| e.code());
                match status {
                    0 => assert_eq!(opened, Ok(()), "{said}"),
                    22 if said.contains("Opening it decides") => unknown += 1,
                    // A commit whose outcome is unknown.
                    22 | 23 if said.contains("An empty database stands in") => {
                        assert_eq!(opened, Ok(()), "{said}");
                        stands += 1;
                    }
                    // All is done but what closing does.
                    22 | 23 if said.contains("every commit") => assert_eq!(opened, Ok(()), "{said}"),
                    23 => {
                        assert!(opened == Err(ErrorCode::NotFound) && !new.exists() && said.contains("othing was made in"), "{said}");
                        nothing += 1;
                    }
                    other => panic!("{other}: {said}"),
                }
                let _ = fs::remove_dir_all(&new);
                if !met {
                    break;
                }
            }
        }
        println!("stands: {command}: {nothing} made nothing, {unknown} unknown, {stands} made an empty database");
        assert!(nothing > 1 && unknown > 0 && (stands > 0) == (command == "create"), "{command}: {nothing}, {unknown}, {stands}");
    }
}

#[test]
fn a_compaction_that_stands_says_so() {
    if is_skipped("stands") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [fixture, path] = ["fixture", "db"].map(|name| directory.path().join(name));
    run(&fixture, "create", &[]);
    let db = Database::open(&fixture).unwrap();
    for part in 0..4 {
        db.put("main", (part * 5 + 1..part * 5 + 6).map(document).collect()).unwrap();
        db.checkpoint().unwrap();
    }
    drop(db);
    let segments = |path: &Path| Database::open_read_only(path).unwrap().snapshot().collection("main").unwrap().stats().unwrap().segments;
    assert!(segments(&fixture) > 1);
    let (state, mut stands) = (read(&fixture), 0);
    for nth in (1..).step_by(if is_whole() { 1 } else { 2 }) {
        copy(&fixture, &path);
        let Failed { status, said, met } = fail(directory.path(), "openat", nth, &path, "compact", &[]);
        assert_eq!(read(&path), state, "{said}");
        if status == 23 && segments(&path) == 1 {
            assert!(said.contains("stands"), "{said}");
            stands += 1;
        }
        fs::remove_dir_all(&path).unwrap();
        if !met {
            break;
        }
    }
    println!("stands: compact: {stands}");
    assert!(stands > 0);
}

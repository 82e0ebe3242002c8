//! A file system without room: a load stops with DiskFull, nothing acknowledged is lost, reading and deleting go on, and so does everything
//! once there is room again.
//!
//! The file system is a small tmpfs inside a mount namespace of its own, in which this binary runs the test again.

use crate::support::{State, committed, document, line, nothing_left_over, opens_twice, read, run, settle, state_of, states_after, triune};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use triune::{Database, ErrorCode};

/// Bytes of the file system: the spare room of a database, and as much again a few times.
const BYTES: u64 = 6 << 20;

/// Tells a process that it runs inside, and where the small file system is.
const INSIDE: &str = "TRIUNE_REAL_FULL_DISK";

/// The directory of the small file system, inside. Outside it runs this test again, inside, and gives nothing.
fn small_disk(test: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(INSIDE) {
        return Some(path.into());
    }
    let directory = tempfile::tempdir().unwrap();
    let inside = |script: &str| {
        let mut unshare = Command::new("unshare");
        let script = format!("mount -t tmpfs -o size={BYTES} none \"$0\" && {script}");
        unshare.args(["-Urm", "sh", "-c", &script]).arg(directory.path()).arg(std::env::current_exe().unwrap());
        unshare.env(INSIDE, directory.path()).output()
    };
    match inside("true") {
        Err(e) => println!("full disk: skipped, unshare: {e}"),
        Ok(output) if !output.status.success() => {
            println!("full disk: skipped, {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(_) => {
            let output = inside(&format!("exec \"$1\" --exact full_disk::{test} --nocapture")).unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
            said.lines().filter(|line| line.starts_with("full disk: ")).for_each(|line| println!("{line}"));
            assert!(said.contains("1 passed"), "{said}");
        }
    }
    None
}

/// Numbers whose documents have some 100 kB.
fn large(count: u64) -> impl Iterator<Item = u64> + Clone {
    (1..).map(|n| n * 23).filter(|n| n % 211 != 0).take(count as usize)
}

#[test]
fn a_load_that_fills_the_disk_stops_with_disk_full_and_loses_nothing() {
    let Some(disk) = small_disk("a_load_that_fills_the_disk_stops_with_disk_full_and_loses_nothing") else { return };
    let path = disk.join("db");
    // Someone else's bytes, which will make room when they go.
    let other = disk.join("other");
    fs::write(&other, vec![1; 2 << 20]).unwrap();
    run(&path, "create", &[]);

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lines.jsonl");
    fs::write(&file, large(60).map(line).collect::<String>()).unwrap();
    let load = ["--batch", "1", "--json"];
    let output = triune(&path, "load", &[&[file.to_str().unwrap()][..], &load].concat()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(21), "{stderr}");
    let acknowledged = committed(&output.stdout);
    assert!(acknowledged > 0, "some of it fits");
    let possible = states_after(&State::new(), large(60));
    let at = settle(&read(&path), &possible, acknowledged, &stderr);
    assert_eq!(at, acknowledged, "what was refused is not there");

    // Readers need no room.
    for command in [&["count"][..], &["search", "common", "--mode", "text"], &["stats"], &["inspect"]] {
        run(&path, command[0], &command[1..]);
    }
    // What a writer does here depends on what recovery needs; it succeeds, or says that there is no room, and loses nothing either way.
    let status = triune(&path, "compact", &[]).output().unwrap().status;
    assert!(matches!(status.code(), Some(0 | 21)), "{status}");
    assert_eq!(read(&path), possible[at]);

    fs::remove_file(&other).unwrap();
    opens_twice(&path, &possible[at], "with room again");
    let output = run(&path, "put", &[&line(8).replace('\n', "")]);
    assert!(output.status.success());
    let wanted = states_after(&possible[at], std::iter::once(8)).pop().unwrap();
    assert_eq!(read(&path), wanted);
    run(&path, "compact", &[]);
    assert_eq!(read(&path), wanted);
    nothing_left_over(&path);
    println!("full disk: {acknowledged} commits until DiskFull");
}

#[test]
fn on_a_full_disk_deletes_and_close_still_work() {
    let Some(disk) = small_disk("on_a_full_disk_deletes_and_close_still_work") else { return };
    let path = disk.join("db");
    run(&path, "create", &[]);
    let db = Database::open(&path).unwrap();
    let mut state = State::new();
    let mut numbers = large(200);
    let refused = loop {
        let number = numbers.next().unwrap();
        match db.put("main", vec![document(number)]) {
            Ok(_) => state = states_after(&state, std::iter::once(number)).pop().unwrap(),
            Err(e) => break e,
        }
    };
    assert_eq!(refused.code(), ErrorCode::DiskFull, "{refused}");
    assert_eq!(state_of(&db), state, "reads go on");

    // Down to three documents, by several deletes: there is spare room for them.
    let goes: Vec<String> = state.keys().skip(3).cloned().collect();
    for ids in goes.chunks(4) {
        assert_eq!(db.delete("main", ids.to_vec()).unwrap(), ids.len() as u64);
        state.retain(|id, _| !ids.contains(id));
        assert_eq!(state_of(&db), state);
    }
    db.close().unwrap();
    assert_eq!(read(&path), state);
    // What the deletes freed lets it go on.
    run(&path, "compact", &[]);
    run(&path, "put", &[&line(8).replace('\n', "")]);
    let state = states_after(&state, std::iter::once(8)).pop().unwrap();
    opens_twice(&path, &state, "after the deletes");
    run(&path, "compact", &[]);
    assert_eq!(read(&path), state);
    nothing_left_over(&path);
    println!("full disk: {} documents deleted on it", goes.len());
}

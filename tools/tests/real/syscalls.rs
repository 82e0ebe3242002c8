//! Every system call that changes a file fails once, or is the last thing the process does: whatever the kernel answers, the command ends with
//! a typed error, nothing acknowledged is lost, and the next process opens and goes on.
//!
//! `strace` puts the failures in: of each kind of call and each failure the first one, the second one, and so on, until a run meets none.
//! Calls of the loader and of the runtime fail as well as those of the database.

use crate::support::{
    State, checked, committed, copy, document, id, is_whole, line, nothing_left_over, opens_twice, read, run, settle, state_of,
    states_after, triune, with_pipes,
};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use triune::Database;

/// Calls that fail in every manner, and what they may answer. Patterns, because not every machine has each call of a family.
const CALLS: [(&str, &[&str]); 8] = [
    ("fdatasync", &["error=EIO", "error=ENOSPC", "signal=KILL"]),
    ("fsync", &["error=EIO", "error=ENOSPC", "signal=KILL"]),
    ("pwrite64", &["error=EIO", "error=ENOSPC", "signal=KILL"]),
    ("write", &["error=EIO", "error=ENOSPC", "signal=KILL"]),
    ("openat", &["error=EIO", "error=ENOSPC", "signal=KILL"]),
    ("/^unlink", &["error=EIO", "signal=KILL"]),
    ("ftruncate", &["error=EIO", "error=ENOSPC", "signal=KILL"]),
    ("flock", &["error=EIO", "signal=KILL"]),
];

/// Failures of what follows another failure: the log is cut back after a failed write, and that fails too.
const AFTERWARDS: [(&str, &str, &str); 2] =
    [("pwrite64", "error=ENOSPC", "ftruncate:error=EIO:when=1"), ("pwrite64", "error=EIO", "ftruncate:signal=KILL:when=1")];

/// Lines that the failing load is given, two a commit.
const LINES: std::ops::Range<u64> = 100..106;

#[derive(Debug, Default)]
struct Counts {
    runs: u64,
    /// Failures put in that the process survived, and kills.
    failures: u64,
    kills: u64,
    /// By exit status of the runs that a failure met.
    succeeded: u64,
    disk_full: u64,
    outcome_unknown: u64,
    io: u64,
    /// The process did not even start.
    not_started: u64,
    /// Runs after which more was there than was acknowledged.
    unacknowledged: u64,
}

/// A database that a load finds with a log to recover, several segments and dead rows.
struct Fixture {
    path: PathBuf,
    file: PathBuf,
    state: State,
}

impl Fixture {
    fn new(directory: &Path) -> Fixture {
        let (path, file) = (directory.join("fixture"), directory.join("lines.jsonl"));
        run(&path, "create", &[]);
        for numbers in [1..8, 8..14] {
            fs::write(&file, numbers.map(line).collect::<String>()).unwrap();
            run(&path, "load", &[file.to_str().unwrap(), "--batch", "3"]);
        }
        run(&path, "delete", &["--id", &id(1), "--id", &id(9)]);
        let mut child = triune(&path, "load", &["-", "--batch", "1", "--json"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        for number in 20..24 {
            child.stdin.as_mut().unwrap().write_all(line(number).as_bytes()).unwrap();
            stdout.read_line(&mut String::new()).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        fs::write(&file, LINES.map(line).collect::<String>()).unwrap();
        let state = read(&path);
        Fixture { path, file, state }
    }
}

#[test]
fn any_failing_system_call_is_a_typed_error_and_loses_nothing() {
    if is_skipped("syscalls") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(directory.path());
    let mut total = Counts::default();
    for command in ["load", "compact"] {
        let mut of_command = 0;
        let alone = CALLS.iter().flat_map(|(call, answers)| answers.iter().map(move |answer| (*call, *answer, "")));
        for (call, answer, then) in alone.chain(AFTERWARDS) {
            let met = fail_each(directory.path(), &fixture, command, Failing { call, answer, then }, &mut total);
            of_command += met;
            if is_whole() {
                println!("syscalls: {command} {call} {answer} {then}: {met} places");
            }
        }
        assert!(of_command > 0, "no failure was met by {command}");
    }
    println!("syscalls: {total:?}");
    assert!(total.kills > 0 && total.disk_full > 0 && total.outcome_unknown > 0 && total.io > 0, "{total:?}");
}

/// Lets the n-th call of a kind fail, for n = 1, 2, ... (a few of them without a whole sweep) until none does; how many did.
fn fail_each(directory: &Path, fixture: &Fixture, command: &str, failing: Failing<'_>, counts: &mut Counts) -> u64 {
    let Failing { call, answer, then } = failing;
    let (mut met, mut nth) = (0, 1);
    loop {
        let path = directory.join("db");
        copy(&fixture.path, &path);
        let trace = directory.join("trace");
        let injected = format!("inject={call}:{answer}:when={nth}");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-e"]).arg(format!("trace={call}")).arg("-e").arg(&injected).arg("-o").arg(&trace);
        if let Some((also, _)) = then.split_once(':') {
            strace.arg("-e").arg(format!("trace={call},{also}")).arg("-e").arg(format!("inject={then}"));
        }
        strace.arg(env!("CARGO_BIN_EXE_triune"));
        let rest = [fixture.file.to_str().unwrap(), "--batch", "2", "--json"];
        let output = with_pipes(strace, &path, command, if command == "load" { &rest } else { &[] }).output().unwrap();
        let killed = output.status.signal() == Some(9);
        let failed = |l: &str, call: &str| l.contains(call.trim_start_matches("/^")) && l.contains("(INJECTED)");
        let trace = fs::read_to_string(&trace).unwrap();
        // What fails afterwards is also met by a run that has fewer of the first calls.
        let of_call = trace.lines().any(|l| failed(l, call)) || (killed && then.is_empty());
        let hit = killed || trace.lines().any(|l| failed(l, ""));
        let about = format!("{command}, {injected} {then}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        judge(fixture, &path, command, &output, Hit { hit, on_stdout: call == "write" }, &about, counts);
        fs::remove_dir_all(&path).unwrap();
        if !of_call {
            return met;
        }
        met += 1;
        nth += if is_whole() { 1 } else { 11 };
    }
}

/// A call that fails, and what fails after it, if anything does.
struct Failing<'a> {
    call: &'a str,
    answer: &'a str,
    then: &'a str,
}

/// Whether a failure was met, and whether it may have been the acknowledgement's.
struct Hit {
    hit: bool,
    on_stdout: bool,
}

fn judge(fixture: &Fixture, path: &Path, command: &str, output: &Output, met: Hit, about: &str, counts: &mut Counts) {
    let possible = match command {
        // Two lines a commit.
        "load" => states_after(&fixture.state, LINES).into_iter().step_by(2).collect(),
        _ => vec![fixture.state.clone()],
    };
    let acknowledged = if command == "load" { committed(&output.stdout) / 2 } else { 0 };
    let at = settle(&read(path), &possible, acknowledged, about);
    counts.runs += 1;
    match output.status.code() {
        Some(0) => {
            assert_eq!(at, possible.len() - 1, "{about}: success means all of it");
            counts.succeeded += u64::from(met.hit);
        }
        Some(code @ (21 | 23)) => {
            assert!(met.hit, "{about}");
            assert!(met.on_stdout || at == acknowledged, "{about}: what was refused is not there");
            *(if code == 21 { &mut counts.disk_full } else { &mut counts.io }) += 1;
        }
        Some(22) => counts.outcome_unknown += 1,
        // The loader could not load a library.
        Some(127) if about.contains("shared libraries") => counts.not_started += 1,
        Some(_) => panic!("{about}: not the status of such a failure"),
        None => assert_eq!(output.status.signal(), Some(9), "{about}"),
    }
    let killed = output.status.signal().is_some();
    counts.kills += u64::from(killed);
    counts.failures += u64::from(met.hit && !killed);
    counts.unacknowledged += u64::from(at > acknowledged);
    goes_on(path, &possible[at], about);
}

/// The next process opens, writes, closes, and leaves nothing behind that is not its own.
fn goes_on(path: &Path, state: &State, about: &str) {
    checked(path, 1, about);
    opens_twice(path, state, about);
    let db = Database::open(path).unwrap();
    db.put("main", vec![document(500)]).unwrap_or_else(|e| panic!("{about}: {e}"));
    db.compact().unwrap_or_else(|e| panic!("{about}: {e}"));
    db.close().unwrap_or_else(|e| panic!("{about}: {e}"));
    let db = Database::open_read_only(path).unwrap();
    let mut wanted = state.clone();
    wanted.insert(id(500), 500);
    assert_eq!(state_of(&db), wanted, "{about}: after going on");
    nothing_left_over(path);
}

/// Whether system calls cannot be made to fail here, which it prints for the test.
pub(crate) fn is_skipped(test: &str) -> bool {
    no_strace().inspect(|why| println!("{test}: skipped, {why}")).is_some()
}

/// Why they cannot, if they cannot.
fn no_strace() -> Option<String> {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=1", "true"]);
    match strace.output() {
        Err(e) => Some(format!("strace: {e}")),
        Ok(output) if !output.status.success() => Some(format!("strace: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Ok(_) => None,
    }
}

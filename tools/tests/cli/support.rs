//! Runs the binary and reads what it says.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// What a run of the binary left.
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn of(output: Output) -> Run {
        Run {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }

    /// Asserts success.
    #[track_caller]
    pub(crate) fn ok(self) -> Run {
        assert_eq!(self.status, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Asserts that it was refused with `status`, as an error of `code` whose message holds each of `words`.
    #[track_caller]
    pub(crate) fn refused(self, status: i32, code: &str, words: &[&str]) -> Run {
        assert_eq!(self.status, status, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        let (told, message) = self.error();
        assert_eq!(told, code, "{}", self.stderr);
        for word in words {
            assert!(message.contains(word), "{message:?} should say {word:?}");
        }
        self
    }

    /// The code and the message of the error, which stands on stderr once: as text, or with `--json` as JSON.
    #[track_caller]
    fn error(&self) -> (String, String) {
        let line = |line: &str| -> Option<(String, String)> {
            if let Some((code, message)) = line.strip_prefix("error[").and_then(|l| l.split_once("]: ")) {
                return Some((code.to_string(), message.to_string()));
            }
            let object: Value = serde_json::from_str(line).ok()?;
            Some((object["error"]["code"].as_str()?.to_string(), object["error"]["message"].as_str()?.to_string()))
        };
        let mut errors: Vec<_> = self.stderr.lines().filter_map(line).collect();
        assert_eq!(errors.len(), 1, "{}", self.stderr);
        errors.remove(0)
    }

    /// The JSON lines of stdout.
    #[track_caller]
    pub(crate) fn objects(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
    }

    /// The ids of the JSON lines of stdout.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.objects().iter().map(|o| o["id"].as_str().expect("an id is a string").to_string()).collect()
    }
}

/// A command that is about to run the binary.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_triune"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the binary.
pub(crate) fn triune(args: &[&str]) -> Run {
    Run::of(command(args).output().expect("the binary starts"))
}

/// Runs the binary with `input` on its stdin.
pub(crate) fn triune_with(args: &[&str], input: &[u8]) -> Run {
    let mut child = command(args).stdin(Stdio::piped()).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let input = input.to_vec();
    // A refusal may end the binary before it has read everything.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the binary ends");
    writer.join().expect("the writer ends");
    Run::of(output)
}

/// A database in a temporary directory.
pub(crate) struct Db {
    pub(crate) directory: TempDir,
}

impl Db {
    /// Nothing is there yet.
    pub(crate) fn absent() -> Db {
        Db { directory: tempfile::tempdir().expect("a temporary directory can be made") }
    }

    /// Created with these flags.
    #[track_caller]
    pub(crate) fn new(flags: &[&str]) -> Db {
        let db = Db::absent();
        db.run("create", flags).ok();
        db
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("db")
    }

    fn args<'a>(path: &'a str, command: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
        [&[command, path], rest].concat()
    }

    /// `triune COMMAND DB REST...`
    pub(crate) fn run(&self, command: &str, rest: &[&str]) -> Run {
        let path = self.path();
        triune(&Db::args(path.to_str().expect("the path is UTF-8"), command, rest))
    }

    /// The same, with `input` on stdin.
    pub(crate) fn feed(&self, command: &str, rest: &[&str], input: impl AsRef<[u8]>) -> Run {
        let path = self.path();
        triune_with(&Db::args(path.to_str().expect("the path is UTF-8"), command, rest), input.as_ref())
    }

    /// The same, not yet started.
    pub(crate) fn command(&self, command_name: &str, rest: &[&str]) -> Command {
        let path = self.path();
        command(&Db::args(path.to_str().expect("the path is UTF-8"), command_name, rest))
    }

    /// Writes a file beside the database and gives its path.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, content).expect("a temporary file can be written");
        path.to_str().expect("the path is UTF-8").to_string()
    }

    #[track_caller]
    pub(crate) fn count(&self) -> u64 {
        self.run("count", &["--json"]).ok().objects()[0]["count"].as_u64().expect("a count is a number")
    }
}

/// Whether anything stands at `path`.
pub(crate) fn exists(path: &Path) -> bool {
    path.exists()
}

/// The bytes of a `.npy` file of these rows.
pub(crate) fn npy(descr: &str, rows: &[&[f32]]) -> Vec<u8> {
    let dimension = rows.first().map_or(1, |r| r.len());
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}, {dimension}), }}\n", rows.len());
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    for value in rows.iter().flat_map(|r| r.iter()) {
        match descr {
            "<f8" => bytes.extend(f64::from(*value).to_le_bytes()),
            "<f4" => bytes.extend(value.to_le_bytes()),
            "<f2" => bytes.extend(half(*value).to_le_bytes()),
            _ => panic!("{descr} is not written here"),
        }
    }
    bytes
}

/// For values that a half holds exactly: zero, and powers of two times few bits.
fn half(value: f32) -> u16 {
    if value == 0.0 {
        return 0;
    }
    let bits = value.to_bits();
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
    assert!((1..31).contains(&exponent) && bits & 0x1fff == 0, "{value} is no half");
    (bits >> 31 << 15 | (exponent as u32) << 10 | bits >> 13 & 0x3ff) as u16
}

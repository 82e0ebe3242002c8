//! Is this database whole? Every check that can be made without an opinion, from the two slots of HEAD to the terms of every stored text.
//!
//! A check reads, by system calls alone, and never writes. It is safe beside a writer: it holds the lock of HEAD that keeps files from being
//! removed until it has opened every file that the state names, and says that something is damaged only when HEAD is what it was before.
//! What is damaged is a [`Finding`] with a stable code, a file and an offset; whatever does not rest on damage is checked all the same.
//!
//! | level | what it checks | reads |
//! | --- | --- | --- |
//! | 0 | HEAD, the manifest, the logs and their verdict, presence, lengths and frames of all files that are named | the logs |
//! | 1 | every checksum, padding, WITNESS, BALLAST | every byte |
//! | 2 | every structure against itself, its neighbours and the manifest's counts; content hashes; that no id lives twice | every byte |
//! | 3 | every index against the stored documents; a sample of searches | every byte, and cuts every text again |
//!
//! Time is linear in the bytes of the files (level 3: and in postings times segments of 4 million postings). Memory: at level 2 the ids of one
//! collection's hashes and the sections of one segment other than documents, vectors and their codes.
//!
//! | file | role |
//! | --- | --- |
//! | `codes.rs` `report.rs` | what can be found, and what was |
//! | `state.rs` `names.rs` | level 0: the state and the files it names |
//! | `check.rs` | the levels above it, segment by segment, and where findings belong |
//! | `bytes.rs` `small.rs` | level 1: checksums and padding |
//! | `segment.rs` `rows.rs` `vectors.rs` `vector_graph.rs` `vector_codes.rs` `text.rs` `metadata.rs` `graph.rs` | levels 2 and 3 of a segment, one file a room |
//! | `totals.rs` `live.rs` `queries.rs` | levels 2 and 3 of a collection: counts, the log, ids; searches |

mod bytes;
mod check;
mod codes;
mod graph;
mod live;
mod metadata;
mod names;
mod queries;
mod report;
mod rows;
mod segment;
mod small;
mod state;
mod text;
mod totals;
mod vector_codes;
mod vector_graph;
mod vectors;

pub use codes::{FindingCode, Severity};
pub use report::{Finding, FsckReport};

use super::refused::refuse;
use crate::error::{Error, Result};
use crate::format::head::HEAD_BYTES;
use crate::io::names::{FileName, HEAD};
use crate::io::refusals::Attentive;
use crate::io::{Directory, LockGuard, LockMode};
use state::State;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// How often a check starts again because a writer published meanwhile.
const ATTEMPTS: usize = 100;
/// How often it does so because of something benign that a writer may be about to finish.
const BENIGN_ATTEMPTS: usize = 5;

/// How far a check has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsckProgress {
    /// Bytes of segments looked at, each counted once for every level.
    pub done: u64,
    /// How many that will be in all.
    pub total: u64,
}

/// Is told how far a check has come, and answers whether it shall go on.
pub type FsckWatch = Arc<dyn Fn(FsckProgress) -> bool + Send + Sync>;

/// What to check. Default: level 1, every collection.
#[derive(Clone)]
#[non_exhaustive]
pub struct FsckOptions {
    /// 0 to 3; each level does what the ones below it do. Greater ones mean 3.
    pub level: u8,
    /// Check the segments of this collection alone.
    pub collection: Option<String>,
    /// Called now and then from level 1 on; when it answers false, the check ends with `Interrupted`.
    pub watch: Option<FsckWatch>,
}

impl Default for FsckOptions {
    fn default() -> FsckOptions {
        FsckOptions { level: 1, collection: None, watch: None }
    }
}

impl FsckOptions {
    /// A check of this level.
    pub fn level(level: u8) -> FsckOptions {
        FsckOptions { level: level.min(3), ..FsckOptions::default() }
    }
}

impl fmt::Debug for FsckOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FsckOptions").field("level", &self.level).field("collection", &self.collection).finish_non_exhaustive()
    }
}

/// Checks the database in `path`. Damage is a finding, not an error.
///
/// # Errors
/// `NotFound` when there is no database or no such collection, `UnsupportedVersion` when a newer version wrote HEAD, `Locked` when a writer
/// holds HEAD for 5 s, `Interrupted` when the watch said so, `Io` when the directory cannot be listed or the system refused to open or read
/// a file for want of descriptors, memory or rights, which says nothing about the file.
///
/// ```
/// # use triune::{Database, Schema};
/// use triune::inspect::{FsckOptions, fsck};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// # Database::create(&path)?.close()?;
/// let report = fsck(&path, &FsckOptions::level(3))?;
/// assert!(report.is_clean());
/// # Ok::<(), triune::Error>(())
/// ```
pub fn fsck(path: impl AsRef<Path>, options: &FsckOptions) -> Result<FsckReport> {
    fsck_directory(&super::opened(path.as_ref())?, options)
}

/// As [`fsck`], for any directory.
///
/// # Errors
/// As [`fsck`].
pub fn fsck_directory(dir: &dyn Directory, options: &FsckOptions) -> Result<FsckReport> {
    let dir = Attentive::new(dir);
    let report = checked(&dir, options);
    // Also when it ended with another error, which may come of the refusal.
    refuse(dir.refusals())?;
    report
}

fn checked(dir: &Attentive<'_>, options: &FsckOptions) -> Result<FsckReport> {
    let (state, mut report) = settled_state(dir, options)?;
    if let Some(state) = state.filter(|_| options.level >= 1) {
        check::run(&state, options, &mut report)?;
    }
    Ok(report)
}

/// Level 0, until HEAD was the same before and after: only then is damage damage, and not a file that a writer replaced meanwhile.
fn settled_state(dir: &Attentive<'_>, options: &FsckOptions) -> Result<(Option<State>, FsckReport)> {
    for attempt in 1.. {
        let _lock = shared_lock(dir)?;
        let (head, files) = (head_bytes(dir), files(dir));
        let mut report = FsckReport::new(options.level.min(3));
        let state = State::read(dir, options, &mut report);
        refuse(dir.refusals())?;
        let again = match () {
            () if state.is_ok() && report.is_clean() => false,
            () if attempt < ATTEMPTS && head_bytes(dir) != head => true,
            // A file that is being made looks like a leftover, and a record like a torn tail.
            () => attempt < BENIGN_ATTEMPTS && state.is_ok() && report.is_sound() && self::files(dir) != files,
        };
        if !again {
            return Ok((state?, report));
        }
    }
    unreachable!("the last attempt answers")
}

/// HEAD as it stands, to see whether it changes.
fn head_bytes(dir: &dyn Directory) -> Option<Vec<u8>> {
    dir.open(HEAD).and_then(|file| file.read_at_most(HEAD_BYTES as u64)).ok()
}

/// Every numbered file with its length, to see whether a writer is at work.
fn files(dir: &dyn Directory) -> Vec<(String, Option<u64>)> {
    let mut names = dir.list().unwrap_or_default();
    names.retain(|name| FileName::parse(name).is_some());
    names.sort_unstable();
    let length = |name: &String| dir.open(name).and_then(|file| file.len()).ok();
    names.iter().map(|name| (name.clone(), length(name))).collect()
}

/// While this is held, no writer unlinks a file. `None` when there is no HEAD to hold.
fn shared_lock(dir: &dyn Directory) -> Result<Option<LockGuard>> {
    for _ in 0..1000 {
        match dir.try_lock(HEAD, LockMode::Shared) {
            Ok(Some(guard)) => return Ok(Some(guard)),
            Ok(None) => std::thread::sleep(std::time::Duration::from_millis(5)),
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("locking HEAD", e)),
        }
    }
    Err(Error::Locked("a writer has held HEAD for 5 s while it removes files; try again".into()))
}

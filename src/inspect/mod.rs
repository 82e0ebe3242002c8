//! Looks at the files of a database without opening it: it works when `open` refuses, and it never writes.
//!
//! A first pass reads HEAD, the manifests and the logs, as far as each can be read, and notes which files they name. A second one describes
//! every file: what it says, whether its checksums hold, who names it. Damage is an answer here, never an error, and never a panic; whatever
//! can be read beside it is still described.
//!
//! [`structures`] goes through one file field by field, with the offset of each and the verdict of each checksum. [`fsck()`] judges: it says
//! what is damaged, how badly, and by a stable code.
//!
//! What this room never does: write, map a file (every read is a system call, so a failing medium is an error and not a bus error), or
//! discard anything.
//!
//! Keys are unique within a file, so that they may become the keys of an object. Offsets count bytes from the start of the file.
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | [`describe`]: what each file is and holds |
//! | `findings.rs` | what is said of one file: fields, and the first thing wrong |
//! | `survey.rs` | the first pass, and which files are named by what |
//! | `head.rs` `witness.rs` `lock.rs` `ballast.rs` | the files with a fixed name |
//! | `salvage/` | what can be saved of a damaged database |
//! | `manifest.rs` `log.rs` `segments.rs` `tombstones.rs` | the numbered files |
//! | `structures.rs` `raw.rs` `raw_log.rs` `raw_segments.rs` `raw_vectors.rs` | one file, field by field |
//! | `refused.rs` | what the system refuses is no damage |
//! | `fsck/` | whether all of it is sound |

mod ballast;
mod findings;
mod fsck;
mod head;
mod lock;
mod log;
mod manifest;
mod raw;
mod raw_log;
mod raw_segments;
mod raw_vectors;
mod refused;
pub mod salvage;
mod segments;
mod structures;
mod survey;
mod tombstones;
mod witness;

pub use fsck::{Finding, FindingCode, FsckOptions, FsckProgress, FsckReport, FsckWatch, Severity, fsck, fsck_directory};
pub use raw::{Field, Structure};
pub use structures::{structures, structures_directory};

use crate::error::{Error, Result};
use crate::io::names::{self, FileName};
use crate::io::{Directory, File, FsDirectory};
use findings::Findings;
use std::path::Path;
use survey::{Naming, Survey};

/// What a database directory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its files, by name. A file that is missing although others need it stands here too, with no bytes and a problem.
    pub files: Vec<FileDescription>,
}

/// What one file is and holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDescription {
    /// Its name.
    pub name: String,
    /// What kind of file it is.
    pub kind: String,
    /// Its bytes.
    pub bytes: u64,
    /// What it says, field by field. Keys are unique. `orphan` stands on a file that nothing reaches, `superseded` on
    /// a log that a later one replaced.
    pub fields: Vec<(String, String)>,
    /// The first thing wrong with it, with its offset, if anything is.
    pub problem: Option<String>,
}

/// Describes every file of the database in `path`. Damage is described, not an error. O(bytes): every checksum is computed.
///
/// # Errors
/// `NotFound` when there is no such directory or no file of a database in it, `Io` when it cannot be listed.
///
/// ```
/// # use triune::{Database, Schema};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// # Database::create(&path)?.close()?;
/// let description = triune::inspect::describe(&path)?;
/// assert!(description.files.iter().all(|file| file.problem.is_none()));
/// # Ok::<(), triune::Error>(())
/// ```
pub fn describe(path: impl AsRef<Path>) -> Result<Description> {
    describe_directory(&opened(path.as_ref())?)
}

/// Manifests and files of tombstones are never longer; what claims to be one and is, is not read.
const BYTES_MAX: u64 = 1 << 30;

/// All of a file that is to be read whole.
fn whole(file: &dyn File) -> std::io::Result<Vec<u8>> {
    let length = file.len()?;
    if length > BYTES_MAX {
        return Err(std::io::Error::other(format!("such a file has at most {BYTES_MAX} bytes, not {length}")));
    }
    file.read_all()
}

/// The directory of a database. Nothing is made.
fn opened(path: &Path) -> Result<FsDirectory> {
    FsDirectory::open(path).map_err(|e| Error::no_directory("a database", path, e))
}

/// As [`describe`], for any directory.
pub fn describe_directory(dir: &dyn Directory) -> Result<Description> {
    let present = dir.list().map_err(|e| Error::io(format!("listing {}", dir.describe()), e))?;
    if !present.iter().any(|name| kind(name) != FOREIGN) {
        return Err(Error::NotFound(format!("a database in {}: no file of one is there", dir.describe())));
    }
    let survey = Survey::of(dir, &present);
    let mut files: Vec<FileDescription> = present.into_iter().map(|name| describe_file(dir, &survey, name)).collect();
    files.extend(survey.missing().into_iter().map(|(name, problem)| FileDescription {
        kind: kind(&name).into(),
        name,
        bytes: 0,
        fields: Vec::new(),
        problem: Some(problem),
    }));
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Description { files })
}

fn describe_file(dir: &dyn Directory, survey: &Survey, name: String) -> FileDescription {
    let mut findings = Findings::default();
    let bytes = findings.take("reading the length", dir.open(&name).and_then(|f| f.len())).unwrap_or(0);
    let numbered = FileName::parse(&name);
    match (name.as_str(), numbered) {
        (names::HEAD, _) => survey.head.describe(&mut findings),
        (names::LOCK, _) => lock::describe(dir, &mut findings),
        (names::WITNESS, _) => witness::describe(dir, &mut findings),
        (names::BALLAST, _) => ballast::describe(bytes, &mut findings),
        (_, Some(FileName::Manifest(n))) => manifest::describe(survey, n, &mut findings),
        (_, Some(FileName::Wal(n))) => log::describe(survey, n, &mut findings),
        (_, Some(FileName::Segments(n))) => segments::describe(dir, survey, n, &mut findings),
        (_, Some(FileName::Tombstones(n))) => tombstones::describe(dir, survey, n, &mut findings),
        (_, None) => {}
    }
    if numbered.is_some() {
        match survey.naming(&name) {
            Naming::By(who) => findings.field("named by", who.join(", ")),
            Naming::Nobody if numbered.is_some_and(|file| survey.is_superseded(file)) => {
                findings.field("superseded", "yes: a later log took its place; a writer removes it when it next removes files");
            }
            Naming::Nobody => findings.field("orphan", "yes: nothing names it"),
            Naming::Unknown => {
                findings.field("orphan", "not known: HEAD, or a manifest or log that it names, is damaged and may name this file")
            }
        }
    }
    FileDescription { kind: kind(&name).into(), name, bytes, fields: findings.fields, problem: findings.problem }
}

/// What a file is that no database makes.
const FOREIGN: &str = "not Triune's";

fn kind(name: &str) -> &'static str {
    match (name, FileName::parse(name)) {
        (names::HEAD, _) => "head",
        (names::LOCK, _) => "lock",
        (names::WITNESS, _) => "witness",
        (names::BALLAST, _) => "ballast",
        (_, Some(FileName::Manifest(_))) => "manifest",
        (_, Some(FileName::Wal(_))) => "log",
        (_, Some(FileName::Segments(_))) => "segments",
        (_, Some(FileName::Tombstones(_))) => "tombstones",
        (_, None) => FOREIGN,
    }
}

#[cfg(test)]
mod tests;

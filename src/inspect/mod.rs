//! Looks at the files of a database without opening it: it works when `open` refuses, and it never writes.
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | [`describe`]: what each file is and holds |

use crate::error::{Error, Result};
use crate::io::names::{self, FileName};
use crate::io::{Directory, FsDirectory};
use std::path::Path;

/// What a database directory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its files, by name.
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
    /// What it says, field by field.
    pub fields: Vec<(String, String)>,
    /// What is wrong with it, if anything is.
    pub problem: Option<String>,
}

/// Describes every file of the database in `path`. Damage is described, not an error.
pub fn describe(path: impl AsRef<Path>) -> Result<Description> {
    let path = path.as_ref();
    let dir = FsDirectory::open(path).map_err(|e| {
        if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) {
            return Error::NotFound(format!("a database in {}", path.display()));
        }
        Error::io(format!("opening {}", path.display()), e)
    })?;
    describe_directory(&dir)
}

/// As [`describe`], for any directory.
pub fn describe_directory(dir: &dyn Directory) -> Result<Description> {
    let mut names = dir.list().map_err(|e| Error::io(format!("listing {}", dir.describe()), e))?;
    names.sort();
    let describe = |name: String| {
        let length = dir.open(&name).and_then(|f| f.len());
        let (bytes, problem) = match length {
            Ok(bytes) => (bytes, None),
            Err(e) => (0, Some(e.to_string())),
        };
        FileDescription { kind: kind(&name).into(), name, bytes, fields: Vec::new(), problem }
    };
    Ok(Description { files: names.into_iter().map(describe).collect() })
}

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
        (_, None) => "not Triune's",
    }
}

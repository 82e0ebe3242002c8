//! Copies a database while it is in use. The copy is a database that opens by itself.

pub use crate::engine::BackupReport;
use crate::engine::backup::{self, BackupPlan};
use crate::engine::in_new_directory;
use crate::error::{Error, Result};
use crate::io::{Directory, FsDirectory};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a backup is made. The default copies everything and checks every byte of the copy.
///
/// ```
/// # use triune::maintenance::{BackupOptions, backup};
/// # use triune::{Database, Document, Schema};
/// # let dir = tempfile::tempdir().unwrap();
/// # let (path, monday, tuesday) = (dir.path().join("db"), dir.path().join("monday"), dir.path().join("tuesday"));
/// # let db = Database::create(&path)?;
/// # db.create_collection("notes", Schema::default())?;
/// # db.put("notes", vec![Document::new("a").text("hello")])?;
/// # db.checkpoint()?;
/// backup(&path, &monday, &BackupOptions::default())?;
/// let report = backup(&path, &tuesday, &BackupOptions { link_from: Some(monday.clone()), ..BackupOptions::default() })?;
/// assert_eq!(report.linked_files, 1);
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackupOptions {
    /// Link the database's own immutable files instead of copying them. Takes next to no time or room, but the two share bytes on the medium:
    /// it protects against mistakes, not against a failing disk. Files that cannot be linked (another file system) are copied.
    pub link: bool,
    /// An earlier backup of the same database: immutable files that it holds already are linked from there, as rsync's `--link-dest` does.
    /// Either of the two backups may be deleted without harm to the other.
    pub link_from: Option<PathBuf>,
    /// Read and check every byte of linked files too. Copied ones always are.
    pub verify: bool,
}

/// Copies the last commit of the database in `path` into `destination`, a directory that does not exist or is empty. O(bytes).
///
/// Works beside a writer of another process and from inside a writing one; nothing is written to the original. What was copied is read back
/// and held against every checksum it has, and synced, before the copy counts. The backup keeps the database's uuid, since the files that
/// it copies hold it; its log has an identity of its own, so that neither log is ever taken for the other's.
///
/// All of it or nothing: after an error there is no backup. Killed in the middle, it leaves a directory that `open` refuses as unfinished,
/// and in which the next backup begins anew.
///
/// # Errors
/// `NotFound` without a database in `path` or a directory `link_from`; `AlreadyExists` when `destination` holds a database, `InvalidArgument`
/// when it holds anything else; `Corrupt` when the original is damaged: a backup of it would be too.
pub fn backup(path: impl AsRef<Path>, destination: impl AsRef<Path>, options: &BackupOptions) -> Result<BackupReport> {
    let source = existing(path.as_ref(), "a database")?;
    let previous = options.link_from.as_ref().map(|path| existing(path, "an earlier backup")).transpose()?;
    in_new_directory(destination.as_ref(), |dir| backup_into(&source, &dir, previous.as_ref().map(|p| p as &dyn Directory), options))
}

/// As [`backup()`], for any directories; `previous` stands for [`BackupOptions::link_from`].
pub fn backup_into(
    source: &dyn Directory,
    destination: &Arc<dyn Directory>,
    previous: Option<&dyn Directory>,
    options: &BackupOptions,
) -> Result<BackupReport> {
    backup::backup(source, destination, BackupPlan { link: options.link, previous, verify: options.verify })
}

/// A directory that must be there.
pub(super) fn existing(path: &Path, what: &str) -> Result<FsDirectory> {
    FsDirectory::open(path).map_err(|e| Error::no_directory(what, path, e))
}

//! A directory on its way to be a database: for a restore or a backup, which make many files before any of them counts.
//!
//! From its first file on HEAD says that it is unfinished, so that `open` refuses it by name and the same act may begin again. The slots are
//! written last, when everything that they name is durable: until then there is no database here, and after it there is the whole of it.

use super::create::{BALLAST_BYTES, Found, look, make, ours, present, take_over};
use super::new_directory;
use crate::error::{Error, Result};
use crate::format::head::HeadState;
use crate::io::{Directory, File, FsDirectory, LockGuard, names};
use crate::manifest::{Publisher, create_unfinished_head};
use crate::wal::create_witness;
use std::path::Path;
use std::sync::Arc;

/// A directory that is being filled. Dropped without [`Unfinished::publish`] it stays unfinished.
#[derive(Debug)]
pub(crate) struct Unfinished {
    dir: Arc<dyn Directory>,
    head: Arc<dyn File>,
    /// Held for their drop.
    _locks: Vec<LockGuard>,
}

impl Unfinished {
    /// Takes a directory that is new, empty, or holds what was cut short. `AlreadyExists` when it holds a database.
    pub(crate) fn begin(dir: &Arc<dyn Directory>) -> Result<Unfinished> {
        let locks = take_over(dir.as_ref())?;
        let head = mark(dir.as_ref()).inspect_err(|_| abandon(dir.as_ref()))?;
        Ok(Unfinished { dir: dir.clone(), head, _locks: locks })
    }

    /// Makes the files that every database has, and every name durable. What the state names is synced already.
    pub(crate) fn complete(&self) -> Result<()> {
        create_witness(self.dir.as_ref())?;
        make(self.dir.as_ref(), names::BALLAST, &vec![0xb5; BALLAST_BYTES])?;
        self.dir.sync().map_err(|e| Error::io("syncing the new directory", e))
    }

    /// Makes it a database in the state `first`, after [`Unfinished::complete`].
    ///
    /// # Errors
    /// `OutcomeUnknown`, whatever it was: nothing may be removed then, for the slot may be on the disk.
    pub(crate) fn publish(self, first: &HeadState) -> Result<()> {
        publish_first(self.dir.as_ref(), self.head, first)
    }
}

/// Makes HEAD with the mark, durable with its name.
fn mark(dir: &dyn Directory) -> Result<Arc<dyn File>> {
    let head = create_unfinished_head(dir)?;
    // Before any other file: whatever a power cut leaves, it leaves the mark with it.
    dir.sync().map_err(|e| Error::io("syncing the new directory", e))?;
    dir.sync_parent().map_err(|e| Error::io("syncing the parent of the new directory", e))?;
    Ok(head)
}

/// Writes the slots of a new HEAD: the moment from which a directory is a database.
///
/// # Errors
/// `OutcomeUnknown`, whatever it was: a slot may be on the disk, or none.
pub(super) fn publish_first(dir: &dyn Directory, head: Arc<dyn File>, first: &HeadState) -> Result<()> {
    Publisher::first_publish(head, first).map(drop).map_err(|e| {
        Error::OutcomeUnknown(format!(
            "everything was written to {}, but writing its HEAD failed: {e}. Opening it decides whether it is a database",
            dir.describe()
        ))
    })
}

/// Lets `make` fill the directory `path`. One that had to be made for it goes again when that fails. What finds no room names its file alone,
/// and there may be one of that name in two directories: which of them is full is said here, and what could not be removed.
pub(crate) fn in_new_directory<T>(path: &Path, make: impl FnOnce(Arc<dyn Directory>) -> Result<T>) -> Result<T> {
    let absent = FsDirectory::open(path).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
    let dir: Arc<dyn Directory> = Arc::new(new_directory(path)?);
    make(dir.clone()).map_err(|e| {
        // Somebody else is at work there, or there is a database.
        if matches!(e, Error::OutcomeUnknown(_) | Error::Locked(_)) {
            return e;
        }
        let shown = path.display();
        let note = if matches!(look(dir.as_ref()), Ok(Found::Unfinished)) {
            format!("what was begun in {shown} stays, and nothing in it counts: run the same command again, which begins anew there")
        } else if absent && FsDirectory::open(path).is_ok_and(|dir| dir.remove().is_err()) {
            // Somebody else may have put something there.
            format!("the new directory {shown} could not be removed; there is no database in it")
        } else if matches!(e, Error::DiskFull(_)) {
            format!("in {shown}; nothing was made")
        } else if matches!(e, Error::Io { .. }) {
            format!("nothing was made in {shown}")
        } else {
            return e;
        };
        e.noting(&note)
    })
}

/// Removes every file of a database from a directory whose filling failed, what carries the mark last. What cannot be removed stays, marked.
/// The caller holds the locks.
pub(crate) fn abandon(dir: &dyn Directory) {
    let Ok(mut names) = present(dir) else { return };
    names.retain(|name| ours(name));
    let (marks, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| [names::HEAD, names::LOCK].contains(&name.as_str()));
    for names in [others, marks] {
        // On a disk whose syncs fail the mark goes too, when there is nothing beside it.
        if names.iter().any(|name| dir.unlink(name).is_err()) || (!names.is_empty() && dir.sync().is_err()) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    #[test]
    fn a_full_disk_is_named_by_the_directory_that_was_to_be_made() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("new");
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let e = in_new_directory(&path, |_| Err::<(), _>(Error::io("writing s-0000000000000001.segments", full))).unwrap_err();
        let said = e.to_string();
        assert!(e.code() == ErrorCode::DiskFull && said.contains("s-0000000000000001.segments"), "{said}");
        assert!(said.contains(&path.display().to_string()) && said.contains("nothing was made"), "{said}");
        assert!(!path.exists());
    }

    #[test]
    fn what_could_not_be_removed_is_told_and_not_called_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let (marked, foreign) = (scratch.path().join("marked"), scratch.path().join("foreign"));
        let failed = || Error::io("syncing", std::io::Error::from_raw_os_error(5));
        let left = in_new_directory(&marked, |dir| Unfinished::begin(&dir).and(Err::<(), _>(failed()))).unwrap_err();
        assert!(left.code() == ErrorCode::Io && left.to_string().contains("run the same command again"), "{left}");
        let filled = in_new_directory(&foreign, |dir| make(dir.as_ref(), "letter.txt", b"mine").and(Err::<(), _>(failed()))).unwrap_err();
        assert!(filled.to_string().contains("could not be removed"), "{filled}");
        for said in [left, filled] {
            assert!(!said.to_string().contains("nothing was made"), "{said}");
        }
    }

    #[test]
    fn whichever_operation_of_the_beginning_fails_nothing_of_it_is_left() {
        use crate::io::SimDirectory;
        use crate::io::sim::FailureKind;
        let whole = SimDirectory::newly_made();
        drop(Unfinished::begin(&(Arc::new(whole.clone()) as Arc<dyn Directory>)).unwrap());
        let mut refused = 0;
        for n in 0..whole.operations() {
            let disk = SimDirectory::newly_made();
            disk.fail(n, FailureKind::Eio);
            // The pid in LOCK is for people, and may be missing.
            let Err(e) = Unfinished::begin(&(Arc::new(disk.clone()) as Arc<dyn Directory>)) else { continue };
            assert_eq!((e.code(), disk.file_names()), (ErrorCode::Io, vec![]), "operation {n}: {e}");
            refused += 1;
        }
        assert!(refused > 6, "{refused}");
    }
}

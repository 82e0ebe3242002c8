//! A directory on its way to be a database: for a restore or a backup, which make many files before any of them counts.
//!
//! From its first file on HEAD says that it is unfinished, so that `open` refuses it by name and the same act may begin again. The slots are
//! written last, when everything that they name is durable: until then there is no database here, and after it there is the whole of it.

use super::create::{BALLAST_BYTES, make, ours, present, take_over};
use crate::error::{Error, Result};
use crate::format::head::HeadState;
use crate::io::{Directory, File, LockGuard, names};
use crate::manifest::{Publisher, create_unfinished_head};
use crate::wal::create_witness;
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
        let head = create_unfinished_head(dir.as_ref())?;
        // Before any other file: whatever a power cut leaves, it leaves the mark with it.
        dir.sync().map_err(|e| Error::io("syncing the new directory", e))?;
        dir.sync_parent().map_err(|e| Error::io("syncing the parent of the new directory", e))?;
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
        Publisher::first_publish(self.head, first).map(drop).map_err(|e| {
            Error::OutcomeUnknown(format!(
                "everything was written to {}, but writing its HEAD failed: {e}. Opening it decides whether it is a database",
                self.dir.describe()
            ))
        })
    }
}

/// Removes every file of a database from a directory whose filling failed, what carries the mark last. What cannot be removed stays, marked.
pub(crate) fn abandon(dir: &dyn Directory) {
    let Ok(mut names) = present(dir) else { return };
    names.retain(|name| ours(name));
    let (marks, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| [names::HEAD, names::LOCK].contains(&name.as_str()));
    for names in [others, marks] {
        if names.iter().any(|name| dir.unlink(name).is_err()) || dir.sync().is_err() {
            return;
        }
    }
}

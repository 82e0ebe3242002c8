//! Names for new files, and which files may go.

use crate::error::{Error, Result};
use crate::format::sabotage::{Rule, breaks};
use crate::io::names::{self, FileName};
use crate::io::{Directory, File, LockMode};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Hands out file numbers, each once, and knows which files an operation in progress has made.
#[derive(Debug)]
pub(crate) struct Files {
    dir: Arc<dyn Directory>,
    next: AtomicU64,
    in_progress: Arc<Mutex<BTreeSet<FileName>>>,
}

/// A file that an operation made and nothing names yet. While this value lives, nobody unlinks the file.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: FileName,
    name: String,
    handle: Arc<dyn File>,
    in_progress: Arc<Mutex<BTreeSet<FileName>>>,
}

/// Keeps a name from being unlinked while it lives.
#[derive(Debug)]
pub(crate) struct Claim {
    file: FileName,
    in_progress: Arc<Mutex<BTreeSet<FileName>>>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.in_progress.lock().remove(&self.file);
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        self.in_progress.lock().remove(&self.file);
    }
}

impl NewFile {
    pub(crate) fn number(&self) -> u64 {
        self.file.number()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn handle(&self) -> &Arc<dyn File> {
        &self.handle
    }

    /// Makes its bytes durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.handle.sync().map_err(|e| Error::io(format!("syncing {}", self.name), e))
    }
}

impl Files {
    /// Numbers start above every number among the names present: what is named is present, so no name is used twice.
    pub(crate) fn new(dir: Arc<dyn Directory>, present: &[String]) -> Files {
        let greatest = present.iter().filter_map(|n| FileName::parse(n)).map(FileName::number).max().unwrap_or(0);
        Files { dir, next: AtomicU64::new(greatest + 1), in_progress: Arc::default() }
    }

    /// The next number.
    pub(crate) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps `file` from being unlinked while the claim lives.
    pub(crate) fn claim(&self, file: FileName) -> Claim {
        self.in_progress.lock().insert(file);
        Claim { file, in_progress: self.in_progress.clone() }
    }

    /// Creates the next file of a kind.
    pub(crate) fn create(&self, kind: fn(u64) -> FileName) -> Result<NewFile> {
        let file = kind(self.next_number());
        let name = file.to_string();
        self.in_progress.lock().insert(file);
        match self.dir.create_new(&name) {
            Ok(handle) => Ok(NewFile { file, name, handle, in_progress: self.in_progress.clone() }),
            Err(e) => {
                self.in_progress.lock().remove(&file);
                Err(Error::io(format!("creating {name}"), e))
            }
        }
    }

    /// Removes a file that was never named by anything. A failure leaves an orphan, which a later collection removes.
    pub(crate) fn discard(&self, file: NewFile) {
        let name = file.name.clone();
        drop(file);
        let _ = self.dir.unlink(&name);
    }

    /// Unlinks every numbered file that neither `reachable` names nor an operation in progress has made. Returns false when `reachable` says
    /// that nothing may go, or when a process that is opening the database holds the files: a later call tries again.
    pub(crate) fn collect(&self, reachable: impl FnOnce() -> Option<BTreeSet<FileName>>) -> Result<bool> {
        let lock = self.dir.try_lock(names::HEAD, LockMode::Exclusive).map_err(|e| Error::io("locking HEAD to remove files", e))?;
        let Some(_exclusive) = lock else { return Ok(false) };
        // In this order: a file that was listed and is claimed no longer has been named by what `reachable` reads.
        let present = self.dir.list().map_err(|e| Error::io("listing the database directory", e))?;
        let claimed = self.in_progress.lock().clone();
        let Some(reachable) = reachable() else { return Ok(false) };
        for file in present.iter().filter_map(|n| FileName::parse(n)) {
            if !reachable.contains(&file) && (!claimed.contains(&file) || breaks(Rule::Claims)) {
                let name = file.to_string();
                match self.dir.unlink(&name) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io(format!("removing {name}"), e)),
                    _ => {}
                }
            }
        }
        Ok(true)
    }
}

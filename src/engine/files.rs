//! Names for new files, and which files may go.

use super::events;
use crate::error::{Error, Result};
use crate::format::sabotage::{Rule, breaks};
use crate::io::names::{self, FileName};
use crate::io::{Directory, File, LockMode};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Hands out file numbers, each once, and knows which files an operation in progress has made.
#[derive(Debug)]
pub(crate) struct Files {
    dir: Arc<dyn Directory>,
    next: AtomicU64,
    /// The file of the greatest number at opening, which may be nobody's.
    greatest: Option<FileName>,
    in_progress: Arc<Mutex<BTreeSet<FileName>>>,
    /// Whether the last collection gave way to a process that was opening the database.
    delayed: AtomicBool,
    /// Whether the last collection failed.
    failed: AtomicBool,
}

/// Files that nothing reaches.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Garbage {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
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
        let greatest = present.iter().filter_map(|n| FileName::parse(n)).max_by_key(|file| file.number());
        Files {
            dir,
            next: AtomicU64::new(greatest.map_or(0, FileName::number) + 1),
            greatest,
            in_progress: Arc::default(),
            delayed: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    /// The next number. No database counts to their end, but a file that somebody put there may begin there.
    pub(crate) fn next_number(&self) -> Result<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Error::refuse_counter("file", number).map(|()| number).map_err(|e| match self.greatest {
            Some(file) => {
                e.noting(&format!("numbers go on from {file}: if `triune fsck` calls it ORPHAN, remove it and open again instead"))
            }
            None => e,
        })
    }

    /// Keeps `file` from being unlinked while the claim lives.
    pub(crate) fn claim(&self, file: FileName) -> Claim {
        self.in_progress.lock().insert(file);
        Claim { file, in_progress: self.in_progress.clone() }
    }

    /// Creates the next file of a kind.
    pub(crate) fn create(&self, kind: fn(u64) -> FileName) -> Result<NewFile> {
        let file = kind(self.next_number()?);
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
        let collected = self.collect_once(reachable);
        self.failed.store(collected.is_err(), Ordering::Relaxed);
        collected
    }

    fn collect_once(&self, reachable: impl FnOnce() -> Option<BTreeSet<FileName>>) -> Result<bool> {
        let lock = self.dir.try_lock(names::HEAD, LockMode::Exclusive).map_err(|e| Error::io("locking HEAD to remove files", e))?;
        self.delayed.store(lock.is_none(), Ordering::Relaxed);
        let Some(_exclusive) = lock else {
            events::collected(0, true);
            return Ok(false);
        };
        // In this order: a file that was listed and is claimed no longer has been named by what `reachable` reads.
        let present = self.dir.list().map_err(|e| Error::io("listing the database directory", e))?;
        let claimed = self.in_progress.lock().clone();
        let Some(reachable) = reachable() else { return Ok(false) };
        let mut removed = 0;
        for file in present.iter().filter_map(|n| FileName::parse(n)) {
            if !reachable.contains(&file) && (!claimed.contains(&file) || breaks(Rule::Claims)) {
                let name = file.to_string();
                match self.dir.unlink(&name) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io(format!("removing {name}"), e)),
                    _ => removed += 1,
                }
            }
        }
        if removed > 0 {
            events::collected(removed, false);
        }
        Ok(true)
    }

    /// The files that [`Files::collect`] would remove now.
    pub(crate) fn garbage(&self, reachable: impl FnOnce() -> Option<BTreeSet<FileName>>) -> Result<Garbage> {
        // In the order of `collect`, for the same reason.
        let present = self.dir.list().map_err(|e| Error::io("listing the database directory", e))?;
        let claimed = self.in_progress.lock().clone();
        let Some(reachable) = reachable() else { return Ok(Garbage::default()) };
        let mut garbage = Garbage::default();
        let unreached = |f: &FileName| !reachable.contains(f) && !claimed.contains(f);
        for file in present.iter().filter_map(|n| FileName::parse(n)).filter(unreached) {
            // One that went meanwhile takes no room.
            if let Ok(length) = self.dir.open(&file.to_string()).and_then(|f| f.len()) {
                garbage = Garbage { files: garbage.files + 1, bytes: garbage.bytes + length };
            }
        }
        Ok(garbage)
    }

    /// Whether a collection is to be tried again.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_delayed() || self.failed.load(Ordering::Relaxed)
    }

    /// Whether garbage waits because a process was opening the database.
    pub(crate) fn is_delayed(&self) -> bool {
        self.delayed.load(Ordering::Relaxed)
    }
}

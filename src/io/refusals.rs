//! Tells what the operating system refuses from what a medium has lost.
//!
//! Whoever looks for damage passes over a file that cannot be read, and says that it is lost. But a process that has too many files open, no
//! memory left or no right to read says nothing about the file. So a search for damage goes through an [`Attentive`] directory, which hands
//! every answer on as it is and remembers the first that was a refusal: whatever became of that error on its way, the search can ask at its
//! end whether it saw everything.
//!
//! It also gives out one open file a name for as long as somebody holds it, so that many readers of one file take one descriptor.

use std::collections::HashMap;
use std::io::{Error, Result};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{Bytes, Directory, File, LinkSource, LockGuard, LockMode};

/// A directory that remembers refusals.
#[derive(Debug)]
pub(crate) struct Attentive<'a> {
    dir: &'a dyn Directory,
    refusals: Refusals,
    /// Files that were opened for reading and are still held.
    open: Mutex<HashMap<String, Weak<dyn File>>>,
}

/// The first refusal of a directory and its files, if there was one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<Option<Refusal>>>);

/// What was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// What was being done, and to which file.
    pub(crate) what: String,
    /// The number of the operating system's error.
    pub(crate) errno: i32,
}

impl Refusal {
    /// The operating system's error.
    pub(crate) fn source(&self) -> Error {
        Error::from_raw_os_error(self.errno)
    }

    /// What its user can do about it.
    pub(crate) fn advice(&self) -> &'static str {
        match self.errno {
            libc::EMFILE | libc::ENFILE => "raise the number of files that a process may have open (`ulimit -n`)",
            libc::ENOMEM => "give the process more memory",
            _ => "run it as a user who may read every file of the database",
        }
    }
}

impl Refusals {
    /// The first refusal.
    pub(crate) fn first(&self) -> Option<Refusal> {
        self.0.lock().clone()
    }

    /// Hands an answer on.
    fn hear<T>(&self, what: impl FnOnce() -> String, answer: Result<T>) -> Result<T> {
        let refused = answer.as_ref().err().and_then(Error::raw_os_error);
        if let Some(errno @ (libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EACCES)) = refused {
            self.0.lock().get_or_insert_with(|| Refusal { what: what(), errno });
        }
        answer
    }
}

impl<'a> Attentive<'a> {
    /// Nothing was refused yet.
    pub(crate) fn new(dir: &'a dyn Directory) -> Attentive<'a> {
        Attentive { dir, refusals: Refusals::default(), open: Mutex::default() }
    }

    /// What it remembers; it goes on when the directory is gone and files of it are held.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    fn heard(&self, name: &str, opened: Result<Arc<dyn File>>) -> Result<Arc<dyn File>> {
        let file = self.refusals.hear(|| format!("opening {name}"), opened)?;
        Ok(Arc::new(HeardFile { file, name: name.into(), refusals: self.refusals.clone() }))
    }
}

impl Directory for Attentive<'_> {
    fn describe(&self) -> String {
        self.dir.describe()
    }

    fn list(&self) -> Result<Vec<String>> {
        self.refusals.hear(|| format!("listing {}", self.dir.describe()), self.dir.list())
    }

    fn create_new(&self, name: &str) -> Result<Arc<dyn File>> {
        self.heard(name, self.dir.create_new(name))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        let mut open = self.open.lock();
        if let Some(file) = open.get(name).and_then(Weak::upgrade) {
            return Ok(file);
        }
        let file = self.heard(name, self.dir.open(name))?;
        open.insert(name.into(), Arc::downgrade(&file));
        Ok(file)
    }

    fn open_writable(&self, name: &str) -> Result<Arc<dyn File>> {
        self.heard(name, self.dir.open_writable(name))
    }

    fn unlink(&self, name: &str) -> Result<()> {
        self.dir.unlink(name)
    }

    fn sync(&self) -> Result<()> {
        self.dir.sync()
    }

    fn sync_parent(&self) -> Result<()> {
        self.dir.sync_parent()
    }

    fn try_lock(&self, name: &str, mode: LockMode) -> Result<Option<LockGuard>> {
        self.refusals.hear(|| format!("locking {name}"), self.dir.try_lock(name, mode))
    }

    fn link_source(&self, name: &str) -> Result<LinkSource> {
        self.dir.link_source(name)
    }

    fn link(&self, name: &str, source: &LinkSource) -> Result<()> {
        self.dir.link(name, source)
    }
}

/// An open file of such a directory.
#[derive(Debug)]
struct HeardFile {
    file: Arc<dyn File>,
    name: String,
    refusals: Refusals,
}

impl HeardFile {
    fn hear<T>(&self, answer: Result<T>) -> Result<T> {
        self.refusals.hear(|| format!("reading {}", self.name), answer)
    }
}

impl File for HeardFile {
    fn len(&self) -> Result<u64> {
        self.hear(self.file.len())
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.hear(self.file.read_exact_at(offset, buf))
    }

    fn write_all_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.file.write_all_at(offset, buf)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }

    fn map(&self, len: u64) -> Result<Bytes> {
        self.hear(self.file.map(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sim::{FailureKind, SimDirectory};

    #[test]
    fn the_first_refusal_is_remembered_and_a_failing_medium_is_none() {
        let disk = SimDirectory::new();
        disk.write_file("a", b"bytes".to_vec());
        disk.fail_access(0, FailureKind::Eio);
        disk.fail_access(1, FailureKind::Emfile);
        let dir = Attentive::new(&disk);
        assert!(dir.open("a").is_err() && dir.refusals().first().is_none());
        assert!(dir.open("missing").is_err());
        let refusal = dir.refusals().first().unwrap();
        assert_eq!((refusal.what.as_str(), refusal.errno), ("opening missing", libc::EMFILE));
        assert_eq!(dir.open("a").unwrap().read_all().unwrap(), b"bytes");
        assert!(dir.refusals().first().is_some(), "a later success takes nothing back");
    }

    #[test]
    fn a_file_that_is_held_is_opened_once() {
        let disk = SimDirectory::new();
        disk.write_file("a", b"bytes".to_vec());
        let dir = Attentive::new(&disk);
        let held = dir.open("a").unwrap();
        assert!(Arc::ptr_eq(&held, &dir.open("a").unwrap()));
        let before = disk.accesses();
        drop(held);
        dir.open("a").unwrap();
        assert_eq!(disk.accesses(), before + 1);
    }
}

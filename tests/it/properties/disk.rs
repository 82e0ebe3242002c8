//! A directory that lets something happen in the middle of work on files: just before the n-th new segment, tombstone or manifest file.

use std::fmt;
use std::io::Result;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use triune::io::sim::SimDirectory;
use triune::io::{Directory, File, LockGuard, LockMode};

/// More files than any run needs: work that never ends is stopped there.
const FILES_MAX: usize = 5000;

type Interruption = Box<dyn FnOnce() + Send>;

/// A simulated disk with interruptions. None of the files they wait for is made under a lock that a commit takes.
pub struct Interrupted {
    disk: SimDirectory,
    next: Mutex<Option<(u8, Interruption)>>,
    made: AtomicUsize,
}

impl Interrupted {
    pub fn new(disk: SimDirectory) -> Arc<Interrupted> {
        Arc::new(Interrupted { disk, next: Mutex::new(None), made: AtomicUsize::new(0) })
    }

    pub fn disk(&self) -> &SimDirectory {
        &self.disk
    }

    /// Lets `act` happen once, after `files` new files.
    pub fn after(&self, files: u8, act: impl FnOnce() + Send + 'static) {
        *self.next.lock().unwrap() = Some((files, Box::new(act)));
    }

    /// Takes back what has not happened.
    pub fn never_mind(&self) {
        *self.next.lock().unwrap() = None;
    }
}

impl fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl Directory for Interrupted {
    fn describe(&self) -> String {
        self.disk.describe()
    }

    fn list(&self) -> Result<Vec<String>> {
        self.disk.list()
    }

    fn create_new(&self, name: &str) -> Result<Arc<dyn File>> {
        assert!(self.made.fetch_add(1, Ordering::Relaxed) < FILES_MAX, "work on files does not end");
        let act = {
            let mut next = self.next.lock().unwrap();
            match &mut *next {
                Some((0, _)) if !name.starts_with("w-") => next.take(),
                Some((files, _)) if !name.starts_with("w-") => {
                    *files -= 1;
                    None
                }
                _ => None,
            }
        };
        if let Some((_, act)) = act {
            act();
        }
        self.disk.create_new(name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        self.disk.open(name)
    }

    fn open_writable(&self, name: &str) -> Result<Arc<dyn File>> {
        self.disk.open_writable(name)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        self.disk.unlink(name)
    }

    fn sync(&self) -> Result<()> {
        self.disk.sync()
    }

    fn sync_parent(&self) -> Result<()> {
        self.disk.sync_parent()
    }

    fn try_lock(&self, name: &str, mode: LockMode) -> Result<Option<LockGuard>> {
        self.disk.try_lock(name, mode)
    }
}

//! A directory that counts what is open and read, and that breaks on request.

use parking_lot::Mutex;
use std::io::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use triune::io::{Bytes, Directory, File, LockGuard, LockMode, SimDirectory};

/// What was counted, and what is armed.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Files that are open now; a mapping without its file does not count, as it needs no descriptor.
    pub(super) open: AtomicUsize,
    /// Names that were opened, in order.
    pub(super) opened: Mutex<Vec<String>>,
    /// Creating a file of segments panics.
    pub(super) panic: AtomicBool,
}

/// A simulated disk with a [`Watch`].
#[derive(Debug, Clone)]
pub(super) struct Watched {
    disk: SimDirectory,
    pub(super) watch: Arc<Watch>,
}

impl Watched {
    pub(super) fn new(disk: &SimDirectory) -> Watched {
        Watched { disk: disk.clone(), watch: Arc::default() }
    }

    fn watched(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        self.watch.open.fetch_add(1, Ordering::Relaxed);
        Arc::new(WatchedFile { file, watch: self.watch.clone() })
    }
}

impl Directory for Watched {
    fn describe(&self) -> String {
        self.disk.describe()
    }

    fn list(&self) -> Result<Vec<String>> {
        self.disk.list()
    }

    fn create_new(&self, name: &str) -> Result<Arc<dyn File>> {
        assert!(!(name.starts_with("s-") && self.watch.panic.load(Ordering::Relaxed)), "armed");
        Ok(self.watched(self.disk.create_new(name)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        self.watch.opened.lock().push(name.into());
        Ok(self.watched(self.disk.open(name)?))
    }

    fn open_writable(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(self.watched(self.disk.open_writable(name)?))
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

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn File>,
    watch: Arc<Watch>,
}

impl Drop for WatchedFile {
    fn drop(&mut self) {
        self.watch.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl File for WatchedFile {
    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(offset, buf)
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
        self.file.map(len)
    }
}

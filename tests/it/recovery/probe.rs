//! A directory that notes the state of the simulated disk before each operation that changes or syncs something.
//!
//! One run of a workload then shows every moment at which it can be stopped. What a crash *during* operation n leaves is what one before
//! operation n + 1 leaves if n changes something, and what one before n leaves if n is a sync; so the moments before each operation, and the
//! end, are all there are. (`the_machine_itself_stops_where_the_probe_looks` compares this with `SimDirectory::crash_at`.)

use std::fmt;
use std::io::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use triune::io::sim::SimDirectory;
use triune::io::{Bytes, Directory, File, LinkSource, LockGuard, LockMode};

use super::model::State;

/// What the program knows at a moment.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The state after each commit that was issued, by lsn; the last ones may not have been answered yet.
    pub states: Vec<Arc<State>>,
    /// Every commit up to this lsn was acknowledged as synced.
    pub synced: usize,
    /// Every commit up to this lsn was acknowledged at some durability.
    pub acknowledged: usize,
    /// Whether `create` returned.
    pub created: bool,
}

/// The disk and the program's knowledge before one operation.
#[derive(Debug, Clone)]
pub struct Moment {
    pub disk: SimDirectory,
    pub progress: Progress,
    /// What was beside it at the same moment, on a disk of its own.
    pub beside: Option<Box<Moment>>,
}

type Hook = Box<dyn FnOnce() + Send>;

/// See the module.
pub struct Probe {
    disk: SimDirectory,
    moments: Mutex<Vec<Moment>>,
    /// Nobody will ask for the moments.
    blind: AtomicBool,
    progress: Mutex<Progress>,
    /// Runs before the next write to a file of segments: work that is done meanwhile.
    meanwhile: Mutex<Option<Hook>>,
    /// Another one, whose disk and knowledge each moment has too.
    beside: Option<Arc<Probe>>,
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Probe({:?})", self.disk)
    }
}

impl Probe {
    pub fn new(disk: SimDirectory, progress: Progress) -> Arc<Probe> {
        Arc::new(Probe {
            disk,
            moments: Mutex::default(),
            blind: AtomicBool::default(),
            progress: Mutex::new(progress),
            meanwhile: Mutex::default(),
            beside: None,
        })
    }

    /// A probe whose moments are also those of another one.
    pub fn beside(disk: SimDirectory, progress: Progress, other: &Arc<Probe>) -> Arc<Probe> {
        let (moments, blind, meanwhile) = (Mutex::default(), AtomicBool::default(), Mutex::default());
        Arc::new(Probe { disk, moments, blind, progress: Mutex::new(progress), meanwhile, beside: Some(other.clone()) })
    }

    pub fn directory(self: &Arc<Probe>) -> Arc<dyn Directory> {
        Arc::new(Probed(self.clone()))
    }

    pub fn progress(&self) -> Progress {
        self.progress.lock().unwrap().clone()
    }

    pub fn learn(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock().unwrap());
    }

    pub fn do_meanwhile(&self, hook: Hook) {
        *self.meanwhile.lock().unwrap() = Some(hook);
    }

    /// Does now what no write to a file of segments has set off.
    pub fn finish_meanwhile(&self) {
        let hook = self.meanwhile.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
    }

    /// The moments so far, and now.
    pub fn take_moments(&self) -> Vec<Moment> {
        self.look();
        std::mem::take(&mut self.moments.lock().unwrap())
    }

    /// Keeps no more moments: each is a copy of the disk.
    pub fn stop_looking(&self) {
        self.blind.store(true, Ordering::Relaxed);
    }

    /// How many operations changed or synced something.
    pub fn operations(&self) -> usize {
        self.disk.operations()
    }

    fn look(&self) {
        if self.blind.load(Ordering::Relaxed) {
            return;
        }
        let moment = self.now();
        self.moments.lock().unwrap().push(moment);
    }

    fn now(&self) -> Moment {
        let beside = self.beside.as_ref().map(|other| Box::new(other.now()));
        Moment { disk: self.disk.snapshot(), progress: self.progress(), beside }
    }
}

struct Probed(Arc<Probe>);

impl fmt::Debug for Probed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Probed {
    fn file(&self, name: &str, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(ProbedFile { probe: self.0.clone(), of_segments: name.starts_with("s-"), inner })
    }
}

impl Directory for Probed {
    fn describe(&self) -> String {
        self.0.disk.describe()
    }

    fn list(&self) -> Result<Vec<String>> {
        self.0.disk.list()
    }

    fn create_new(&self, name: &str) -> Result<Arc<dyn File>> {
        self.0.look();
        Ok(self.file(name, self.0.disk.create_new(name)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(self.file(name, self.0.disk.open(name)?))
    }

    fn open_writable(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(self.file(name, self.0.disk.open_writable(name)?))
    }

    fn unlink(&self, name: &str) -> Result<()> {
        self.0.look();
        self.0.disk.unlink(name)
    }

    fn sync(&self) -> Result<()> {
        self.0.look();
        self.0.disk.sync()
    }

    fn sync_parent(&self) -> Result<()> {
        self.0.look();
        self.0.disk.sync_parent()
    }

    fn link_source(&self, name: &str) -> Result<LinkSource> {
        self.0.disk.link_source(name)
    }

    fn link(&self, name: &str, source: &LinkSource) -> Result<()> {
        self.0.look();
        self.0.disk.link(name, source)
    }

    fn try_lock(&self, name: &str, mode: LockMode) -> Result<Option<LockGuard>> {
        self.0.disk.try_lock(name, mode)
    }
}

#[derive(Debug)]
struct ProbedFile {
    probe: Arc<Probe>,
    of_segments: bool,
    inner: Arc<dyn File>,
}

impl File for ProbedFile {
    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read_exact_at(offset, buf)
    }

    fn write_all_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let hook = if self.of_segments { self.probe.meanwhile.lock().unwrap().take() } else { None };
        if let Some(hook) = hook {
            hook();
        }
        self.probe.look();
        self.inner.write_all_at(offset, buf)
    }

    fn sync(&self) -> Result<()> {
        self.probe.look();
        self.inner.sync()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.probe.look();
        self.inner.set_len(len)
    }

    fn map(&self, len: u64) -> Result<Bytes> {
        self.inner.map(len)
    }
}

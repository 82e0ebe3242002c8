//! What an operator wants to know of a handle: what waits, what is held, what failed.

use super::core::Core;
use super::files::Garbage as Unreached;
use super::policy::{self, Field};
use super::version::Version;
use crate::error::{Error, ErrorCode, Result};
use crate::ids::Lsn;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How a handle is doing. See [`crate::Database::health`].
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// Snapshots that are held, and what only they keep.
    pub snapshots: PinnedSnapshots,
    /// Files that nothing needs any more.
    pub garbage: WaitingGarbage,
    /// Merges that are due.
    pub merges: MergeBacklog,
    /// About how many bytes committed documents take in memory, those that wait for their flush included.
    pub memtable_bytes: u64,
    /// Bytes of links and codes of vector graphs that were copied into memory of their own when they were first searched, as
    /// [`crate::options::IoMode::Pinned`] does, and [`crate::options::IoMode::Pread`] has to.
    pub pinned_graph_bytes: u64,
    /// Full memtables that wait for their flush.
    pub waiting_flushes: u64,
    /// Bytes of the log that were written and not synced: what a power cut may take, with a durability other than `Sync`.
    pub unsynced_bytes: u64,
    /// The last failure of work in the background since the last time that all of it was done.
    pub background_error: Option<BackgroundError>,
    /// Why this writer stopped for good. Reads go on; reopening decides what is durable.
    pub poisoned: Option<String>,
}

/// The snapshots of a handle that somebody holds, a [`crate::Collection`] or [`crate::Scan`] of one included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PinnedSnapshots {
    /// How many; clones of one count once.
    pub count: u64,
    /// How long the oldest has been held.
    pub oldest_age: Option<Duration>,
    /// The lsn of the oldest.
    pub oldest_lsn: Option<Lsn>,
    /// Files of segments that only they need: their room on the disk comes back when the snapshots go.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
}

/// Files that nothing reaches and that are still there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingGarbage {
    /// How many. A handle for reading counts what a writer beside it is making at this moment, too.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether the last attempt to remove them met a process that was opening the database, and gave way.
    pub delayed_by_reader: bool,
}

/// Merges that are due now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MergeBacklog {
    /// Segments that wait to be merged.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A failure that no caller was told of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackgroundError {
    /// Its stable code.
    pub code: ErrorCode,
    /// What happened, for people.
    pub message: String,
    /// When, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
}

impl BackgroundError {
    pub(crate) fn now(error: &Error) -> BackgroundError {
        let time_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
        BackgroundError { code: error.code(), message: error.to_string(), time_ms }
    }
}

/// A snapshot that is held: since when, and what of.
type Held = (Instant, Lsn, Arc<Version>);

/// The snapshots that are held.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    next: AtomicU64,
    held: Mutex<BTreeMap<u64, Held>>,
}

/// Held by everything that reads through one snapshot.
#[derive(Debug)]
pub(crate) struct Pin {
    id: u64,
    pins: Arc<Pins>,
}

impl Pins {
    pub(crate) fn pin(self: &Arc<Pins>, version: &Arc<Version>, lsn: Lsn) -> Arc<Pin> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.held.lock().insert(id, (Instant::now(), lsn, version.clone()));
        Arc::new(Pin { id, pins: self.clone() })
    }

    /// What is held beside the version `current`.
    fn report(&self, current: &Version) -> PinnedSnapshots {
        let held: Vec<Held> = self.held.lock().values().cloned().collect();
        let needed: BTreeSet<u64> = current.segments().map(|s| s.file().number).collect();
        let mut only: BTreeMap<u64, u64> = BTreeMap::new();
        let mut seen: BTreeSet<*const Version> = BTreeSet::new();
        for (_, _, version) in held.iter().filter(|(_, _, v)| seen.insert(Arc::as_ptr(v))) {
            let files = version.segments().map(|s| s.file()).filter(|f| !needed.contains(&f.number));
            only.extend(files.map(|f| (f.number, f.length)));
        }
        let oldest = held.iter().min_by_key(|(taken, ..)| *taken);
        PinnedSnapshots {
            count: held.len() as u64,
            oldest_age: oldest.map(|(taken, ..)| taken.elapsed()),
            oldest_lsn: oldest.map(|(_, lsn, _)| *lsn),
            files: only.len() as u64,
            bytes: only.values().sum(),
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // Outside the lock: the last holder of a version frees it, which may take a while.
        let held = self.pins.held.lock().remove(&self.id);
        drop(held);
    }
}

impl Core {
    /// How this handle is doing now.
    pub(crate) fn health(&self) -> Result<Health> {
        let (version, catalog, unsynced_bytes, poisoned) = {
            let w = self.writer.lock();
            let unsynced = w.wal.as_ref().map_or(0, |wal| wal.unsynced_bytes());
            (w.version.clone(), w.catalog.clone(), unsynced, w.poisoned.clone())
        };
        let version = if self.is_reader() { self.published.read().version.clone() } else { version };
        let unreached = self.files.garbage(|| self.reachable(&self.writer.lock()))?;
        let skip = BTreeSet::new();
        let field = Field { version: &version, catalog: &catalog, skip: &skip, graph_vectors: super::graphs::from(&self.options) };
        let (segments, bytes) = policy::backlog(field, self.options.merge_fan_in);
        let Unreached { files, bytes: garbage_bytes } = unreached;
        Ok(Health {
            snapshots: self.pins.report(&version),
            garbage: WaitingGarbage { files, bytes: garbage_bytes, delayed_by_reader: self.files.is_delayed() },
            merges: MergeBacklog { segments, bytes },
            memtable_bytes: version.memtables().map(|m| m.bytes() as u64).sum(),
            pinned_graph_bytes: version.segments().map(|s| s.pinned_bytes()).sum(),
            waiting_flushes: version.frozen.len() as u64,
            unsynced_bytes,
            background_error: self.background.last_failure(),
            poisoned: poisoned.or_else(|| self.refuse_unknown_names().err().map(|e| e.to_string())),
        })
    }
}

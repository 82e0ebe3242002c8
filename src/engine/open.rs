//! Opens a database: reads HEAD, the manifest and the logs, and brings memory to the last commit.
//!
//! A reader writes nothing. A writer takes the lock first, and when the logs hold commits that the manifest does not, it ends with a
//! checkpoint, so that what survived stands in fresh, synced files before anything new is accepted.

use super::core::{Core, Published, Seen, Writer};
use super::create::{Found, look};
use super::events::{self, Timer};
use super::files::Files;
use super::replay;
use super::segments::OpenFiles;
use super::version::{Catalog, CollectionSegments, Version};
use crate::error::{Error, Result};
use crate::format::manifest::Manifest;
use crate::format::sabotage::{Rule, breaks};
use crate::ids::{Generation, Lsn};
use crate::io::names::{self, FileName};
use crate::io::{Directory, LockGuard, LockMode};
use crate::manifest::{HeadVerdict, HeadView, Publisher, read_head, read_manifest};
use crate::memtable::{Memtable, Totals};
use crate::options::Options;
use crate::wal::{self, Recovered, Tail, Witness, recover};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// What opening found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Commits that were replayed from the logs. 0 after a clean close.
    pub replayed_commits: u64,
    /// What was dropped at the end of the last log, never acknowledged as durable: file, offset and bytes. `None` when nothing was.
    pub torn_tail: Option<String>,
}

/// What a recovery writes besides documents: a manifest, a log's header, the fixed parts of segments.
const RECOVERY_BYTES: usize = 64 << 10;

/// How often a reader starts again because a writer published meanwhile.
const READ_ATTEMPTS: usize = 100;

/// Everything that was read.
struct Loaded {
    view: HeadView,
    version: Version,
    catalog: Catalog,
    replayed: replay::Replayed,
    recovered: Recovered,
}

/// Opens for writing: one process, one handle.
pub(crate) fn open_writer(dir: Arc<dyn Directory>, options: Options) -> Result<(Arc<Core>, RecoveryReport)> {
    refuse_missing(dir.as_ref())?;
    let lock = take_lock(dir.as_ref())?;
    let _span = events::open_span(true);
    let timer = Timer::start();
    let _opening = opening(dir.as_ref())?;
    let loaded = load(dir.as_ref(), &options, true)?;
    tell(&loaded, timer);
    let witness = Witness::open(dir.as_ref());
    let report = report(&loaded);
    let behind = loaded.replayed.lsn > loaded.version.applied_lsn();
    let core = core(dir, options, loaded, witness, Some(lock), None)?;
    drop(_opening);
    if behind && !breaks(Rule::CheckpointRecovered) {
        recover_into_files(&core, &report)?;
    }
    Ok((core, report))
}

/// Ends a recovery. Without room for it, says how much is needed.
fn recover_into_files(core: &Core, report: &RecoveryReport) -> Result<()> {
    let bytes: usize = core.writer.lock().version.memtables().map(|m| m.bytes()).sum();
    let result = core.checkpoint_recovered();
    let Err(Error::DiskFull(what)) = result else { return result };
    Err(Error::DiskFull(format!(
        "{what}. Recovering {} commits needs about {} bytes of room; none of them is lost. Make room and open again, or open for reading",
        report.replayed_commits,
        bytes + RECOVERY_BYTES
    )))
}

/// Opens for reading: any number of processes, beside a writer.
pub(crate) fn open_reader(dir: Arc<dyn Directory>, options: Options) -> Result<(Arc<Core>, RecoveryReport)> {
    refuse_missing(dir.as_ref())?;
    let _span = events::open_span(false);
    let timer = Timer::start();
    let loaded = load_beside_a_writer(dir.as_ref(), &options)?;
    tell(&loaded, timer);
    let report = report(&loaded);
    let why = "the database was opened for reading; open it for writing to change it".to_string();
    Ok((core(dir, options, loaded, None, None, Some(why))?, report))
}

/// The newest state, for a reader that has an older one.
pub(crate) fn reload(core: &Core) -> Result<(Published, Seen)> {
    let loaded = load_beside_a_writer(core.dir.as_ref(), &core.options)?;
    if loaded.view.chosen.database != core.database {
        return Err(Error::corrupt(
            names::HEAD,
            48,
            format!("the database is now {}, it was {}", loaded.view.chosen.database, core.database),
        ));
    }
    let (lsn, seen) = (loaded.replayed.lsn, seen(&loaded));
    let published = Published { version: Arc::new(loaded.version), catalog: Arc::new(loaded.catalog), lsn };
    Ok((published, seen))
}

/// Whether nothing on the disk is newer than what `seen` says. Reads HEAD, a header of the log and its last block; replays nothing.
///
/// HEAD is read after the log: a writer that went on in another log has named it in HEAD before its first record.
pub(crate) fn is_unchanged(core: &Core, seen: &Seen) -> Result<bool> {
    let Some(end) = &seen.end else { return Ok(false) };
    if !wal::is_unchanged(core.dir.as_ref(), end)? {
        return Ok(false);
    }
    Ok(matches!(read_head(core.dir.as_ref(), false)?, HeadVerdict::Valid(view) if view.chosen == seen.head))
}

fn seen(loaded: &Loaded) -> Seen {
    let mut reached: BTreeSet<FileName> = loaded.recovered.logs.iter().map(|&n| FileName::Wal(n)).collect();
    reached.insert(FileName::Manifest(loaded.view.chosen.manifest_number));
    reached.extend(&loaded.replayed.files);
    Seen { head: loaded.view.chosen.clone(), reached, end: loaded.recovered.end.clone() }
}

/// Tells `tracing` what opening found.
fn tell(loaded: &Loaded, timer: Timer) {
    let dropped = match &loaded.recovered.tail {
        Tail::Clean => None,
        Tail::Torn { bytes, dropped_records, .. } => Some((*bytes, *dropped_records)),
    };
    let replayed = loaded.recovered.records.len() as u64;
    events::opened(loaded.replayed.lsn, replayed, dropped, loaded.catalog.collections.size(), timer);
}

/// Loads a state for reading.
fn load_beside_a_writer(dir: &dyn Directory, options: &Options) -> Result<Loaded> {
    beside_a_writer(dir, || load(dir, options, false)).map(|(_opening, loaded)| loaded)
}

/// Reads until HEAD was the same before and after: only then is damage damage, and not a file that a writer replaced meanwhile. While the
/// guard is held, no writer unlinks a file.
pub(super) fn beside_a_writer<T>(dir: &dyn Directory, read: impl Fn() -> Result<T>) -> Result<(LockGuard, T)> {
    let mut last = None;
    for _ in 0..READ_ATTEMPTS {
        let opening = opening(dir)?;
        let before = head_generation(dir);
        match read() {
            Ok(found) => return Ok((opening, found)),
            Err(e @ (Error::Corrupt(_) | Error::NotFound(_))) if head_generation(dir) != before => last = Some(e),
            Err(e) => return Err(e),
        }
    }
    Err(last.unwrap_or_else(|| Error::NotFound(format!("a database in {}", dir.describe()))))
}

fn head_generation(dir: &dyn Directory) -> Option<Generation> {
    match read_head(dir, false) {
        Ok(HeadVerdict::Valid(view)) => Some(view.chosen.generation),
        _ => None,
    }
}

/// Says clearly why there is nothing to open.
pub(super) fn refuse_missing(dir: &dyn Directory) -> Result<()> {
    match look(dir)? {
        Found::Database => Ok(()),
        Found::Unfinished => Err(Error::NotFound(format!(
            "a database in {}: a create, build, restore or backup was cut short there and nothing in it counts; run it again, or remove the directory",
            dir.describe()
        ))),
        Found::Nothing | Found::Foreign(_) => Err(Error::NotFound(format!("a database in {}; create one first", dir.describe()))),
    }
}

/// The writer's lock.
pub(crate) fn take_lock(dir: &dyn Directory) -> Result<LockGuard> {
    let lock = dir.try_lock(names::LOCK, LockMode::Exclusive).map_err(|e| {
        if e.kind() == std::io::ErrorKind::NotFound {
            return Error::corrupt(names::LOCK, 0, "the file is missing; an empty file of this name restores it");
        }
        Error::io("locking LOCK", e)
    })?;
    let Some(lock) = lock else {
        let holder = dir.open(names::LOCK).and_then(|f| f.read_at_most(64)).ok();
        let holder = holder.map(|b| String::from_utf8_lossy(&b).trim().to_string()).filter(|s| !s.is_empty());
        return Err(Error::Locked(format!(
            "another writer has {} open ({}); nothing was changed. Close it there, or open for reading",
            dir.describe(),
            holder.unwrap_or_else(|| "its pid is not known".into())
        )));
    };
    // For people only: the lock itself is the operating system's.
    let pid = format!("pid {:<15}\n", std::process::id());
    if let Ok(file) = dir.open_writable(names::LOCK) {
        let _ = file.write_all_at(0, pid.as_bytes());
    }
    Ok(lock)
}

/// While this is held, no writer unlinks a file. A writer that is unlinking is done in a moment.
fn opening(dir: &dyn Directory) -> Result<LockGuard> {
    for _ in 0..1000 {
        match dir.try_lock(names::HEAD, LockMode::Shared) {
            Ok(Some(guard)) => return Ok(guard),
            Ok(None) => std::thread::sleep(std::time::Duration::from_millis(5)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::corrupt(names::HEAD, 0, "the file is missing, and other files of a database are here"));
            }
            Err(e) => return Err(Error::io("locking HEAD", e)),
        }
    }
    Err(Error::Locked("a writer has held HEAD for 5 s while it removes files; try again".into()))
}

/// What HEAD, the manifest and the logs say.
pub(super) struct State {
    pub(super) view: HeadView,
    pub(super) manifest: Manifest,
    pub(super) recovered: Recovered,
}

/// Reads HEAD, the manifest that it names and the records after it. Writes nothing.
pub(super) fn read_state(dir: &dyn Directory, writing: bool) -> Result<State> {
    // Read in this order: evidence, the state, the logs. Whatever a live writer does meanwhile, evidence is never newer than the logs.
    let witness = Witness::read(dir)?;
    let view = match read_head(dir, writing)? {
        HeadVerdict::Valid(view) => view,
        HeadVerdict::Missing => return Err(Error::corrupt(names::HEAD, 0, "the file is missing, and other files of a database are here")),
        HeadVerdict::NoValidSlot { .. } => return Err(Error::corrupt(names::HEAD, 0, "neither slot passes its checksum")),
    };
    let head = &view.chosen;
    let manifest = read_manifest(dir, head)?;
    let recovered = recover(dir, head.database, head.wal_sequence, head.wal_id, head.applied_lsn, head.durable_lsn, witness)?;
    Ok(State { view, manifest, recovered })
}

/// Reads everything. Writes nothing.
fn load(dir: &dyn Directory, options: &Options, writing: bool) -> Result<Loaded> {
    let State { view, manifest, recovered } = read_state(dir, writing)?;
    let head = &view.chosen;
    let catalog = Catalog::of(&manifest);
    let mut files = OpenFiles::new(dir, head.database, options.io_mode);
    let mut version = version(&mut files, head.generation, manifest)?;
    let (catalog, mut replayed) = replay::replay(dir, head.database, &mut files, &mut version, catalog, &recovered.records)?;
    // Records of a kind that may be skipped have an lsn too, which no other record may get.
    replayed.lsn = replayed.lsn.max(recovered.last_lsn);
    Ok(Loaded { view, version, catalog, replayed, recovered })
}

/// The version that a manifest names. Opens every file, reads no segment.
pub(crate) fn version(files: &mut OpenFiles<'_>, generation: Generation, manifest: Manifest) -> Result<Version> {
    let mut collections = BTreeMap::new();
    for c in &manifest.collections {
        let mut segments = Vec::with_capacity(c.segments.len());
        for entry in &c.segments {
            segments.push(files.handle(entry, c.schema.components, Lsn(0), manifest.applied_lsn)?);
        }
        let totals = Totals { documents: c.documents, tokens: c.tokens, vectors: c.vectors };
        collections.insert(c.incarnation, Arc::new(CollectionSegments { totals, segments }));
    }
    Ok(Version { generation, manifest: Arc::new(manifest), collections, frozen: Vec::new(), active: Arc::new(Memtable::new()) })
}

fn report(loaded: &Loaded) -> RecoveryReport {
    let torn_tail = match &loaded.recovered.tail {
        Tail::Clean => None,
        Tail::Torn { file, offset, bytes, dropped_records } => {
            Some(format!("{file}: {bytes} bytes after byte {offset}, with {dropped_records} records, were never synced and are dropped"))
        }
    };
    RecoveryReport { replayed_commits: loaded.recovered.records.len() as u64, torn_tail }
}

fn core(
    dir: Arc<dyn Directory>,
    options: Options,
    loaded: Loaded,
    witness: Option<Witness>,
    lock: Option<LockGuard>,
    read_only: Option<String>,
) -> Result<Arc<Core>> {
    let seen = read_only.as_ref().map(|_| seen(&loaded));
    let Loaded { view, version, catalog, replayed, recovered } = loaded;
    let present = dir.list().map_err(|e| Error::io("listing the database directory", e))?;
    let publisher = if read_only.is_none() { Some(Publisher::open(dir.as_ref(), &view)?) } else { None };
    let (version, catalog) = (Arc::new(version), Arc::new(catalog));
    let writer = Writer {
        wal: None,
        witness,
        version: version.clone(),
        catalog: catalog.clone(),
        lsn: replayed.lsn,
        next_seq: replayed.next_seq,
        next_incarnation: replayed.next_incarnation,
        logs: recovered.logs.iter().map(|&n| (n, Some(replayed.lsn))).collect(),
        logged: replayed.files.iter().map(|&file| (file, replayed.lsn)).collect(),
        poisoned: None,
        undone: None,
        settled: false,
        read_only,
        closed: false,
    };
    Ok(Arc::new(Core {
        files: Files::new(dir.clone(), &present),
        publisher: Mutex::new(publisher),
        database: view.chosen.database,
        names_unknown: AtomicBool::new(false),
        durable: AtomicU64::new(view.chosen.durable_lsn.0),
        published: RwLock::new(Published { version, catalog, lsn: replayed.lsn }),
        writer: Mutex::new(writer),
        queue: Mutex::default(),
        maintenance: Mutex::new(()),
        merging: Mutex::new(()),
        bytes_flushed: AtomicU64::new(0),
        background: super::background::Background::default(),
        pins: Arc::default(),
        log_bytes: AtomicU64::new(0),
        seen: Mutex::new(seen),
        lock: Mutex::new(lock),
        options,
        dir,
    }))
}

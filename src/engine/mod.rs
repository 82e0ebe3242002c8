//! The database: the only composer of log, manifest, memtable, segments and their rooms.
//!
//! A **commit** goes `batch.rs` (check and prepare) -> `commit.rs` (one leader for all that wait) -> `resolve.rs` (what it does) ->
//! `wal/writer.rs` (append and sync: durable) -> `core.rs` `publish` (visible). A **checkpoint** goes `core.rs` `freeze` -> `checkpoint.rs` ->
//! `flush.rs` (rows into a segment) -> `manifest/store.rs`. **Opening** goes `open.rs` -> `manifest/store.rs` -> `wal/reader.rs` -> `replay.rs`. A
//! **read** goes `snapshot.rs` -> `version.rs` (which parts, at which lsn) -> `part.rs` (one row, wherever it lies) and `search.rs`.
//!
//! Never here: a byte's layout (`format`), a file's operation (`io`), how a retriever's answers are fused (`retrieval`).
//!
//! | file | role |
//! | --- | --- |
//! | `batch.rs` `resolve.rs` `catalog.rs` `patch.rs` | from what is asked to what is done |
//! | `companions.rs` | what is kept beside a collection, in collections of their own |
//! | `entity_vectors.rs` | the vectors of entities' names, kept so |
//! | `commit.rs` `core.rs` | the commit path, and what the threads of a handle share |
//! | `version.rs` `segments.rs` `part.rs` `snapshot.rs` | a moment of the database, and reading it |
//! | `search.rs` `scope.rs` `frequencies.rs` `audit.rs` | one retriever over all parts or one source, and how much it finds |
//! | `checkpoint.rs` `flush.rs` `buried.rs` `merge.rs` `rewrite.rs` `policy.rs` `files.rs` `background.rs` `upkeep.rs` | memory into segments, segments into fewer |
//! | `create.rs` `open.rs` `replay.rs` | from a directory to a database |
//! | `unfinished.rs` `restore.rs` `builder.rs` `backup.rs` | a new database out of documents or of another's files, whole or not at all |
//! | `rebuild.rs` `beforehand.rs` | derived sections anew, and what is looked at first |
//! | `verify.rs` | whether what a state names stands in its files |
//! | `health.rs` `events.rs` | what an operator asks, and what `tracing` is told |

mod audit;
mod background;
pub(crate) mod backup;
pub(crate) mod batch;
mod beforehand;
mod builder;
mod buried;
mod catalog;
mod checkpoint;
mod commit;
#[cfg(test)]
mod commit_tests;
pub(crate) mod companions;
mod core;
mod create;
pub(crate) mod entity_vectors;
mod events;
mod files;
mod flush;
mod frequencies;
mod graphs;
mod health;
mod merge;
mod open;
mod part;
mod patch;
mod policy;
pub(crate) mod rebuild;
mod replay;
mod resolve;
pub(crate) mod restore;
mod rewrite;
pub(crate) mod scope;
mod search;
mod segments;
mod snapshot;
mod sources;
mod unfinished;
mod upkeep;
mod verify;
mod version;

#[cfg(test)]
mod tests;

pub use audit::RecallAudit;
pub use backup::BackupReport;
pub use batch::WriteBatch;
pub use builder::{BuildReport, Builder};
pub use commit::Commit;
pub use companions::check_new_collection;
pub use entity_vectors::{EntityVectors, NearestEntity};
pub use health::{BackgroundError, Health, MergeBacklog, PinnedSnapshots, WaitingGarbage};
pub use open::RecoveryReport;
pub use rebuild::RebuildReport;
pub use resolve::Outcome;
pub use search::Nearest;
pub use snapshot::{Collection, CollectionStats, Scan, Snapshot, SourceInfo};
pub(crate) use unfinished::in_new_directory;

use crate::document::{Document, Patch};
use crate::error::{Error, Result};
use crate::io::names::{self, FileName};
use crate::io::{Directory, FsDirectory, database_above};
use crate::options::{Durability, Options, Schema};
use batch::Staged;
use commit::Request;
use core::{Core, Published};
use events::Timer;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// An open database: one directory, one writing handle, any number of threads.
///
/// Dropping it without [`Database::close`] loses nothing that was acknowledged: the log holds it, and the next open replays it.
///
/// ```
/// use triune::{Database, Document, Schema};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// let db = Database::create(&path)?;
/// db.create_collection("main", Schema::default())?;
/// db.put("main", vec![Document::new("a").text("the quick brown fox")])?;
/// db.close()?;
///
/// let db = Database::open(&path)?;
/// let found = db.snapshot().collection("main")?.get("a")?.expect("it was committed");
/// assert_eq!(&*found.text, "the quick brown fox");
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Debug)]
pub struct Database {
    core: Arc<Core>,
    recovery: RecoveryReport,
}

impl Database {
    /// Creates a database in a new or empty directory and opens it. A directory that holds one is `AlreadyExists`; nothing is changed then.
    ///
    /// [`Error::OutcomeUnknown`] means that the last writes failed: opening decides whether there is a database. After any other error there
    /// is none, unless its message says that an empty one stands there: then only opening it failed.
    pub fn create(path: impl AsRef<Path>) -> Result<Database> {
        let dir = in_new_directory(path.as_ref(), |dir| create::create(&dir).map(|()| dir))?;
        Database::open_created(dir, Options::default())
    }

    /// As [`Database::create`], in any directory and with options.
    pub fn create_with(dir: Arc<dyn Directory>, options: Options) -> Result<Database> {
        create::create(&dir)?;
        Database::open_created(dir, options)
    }

    fn open_created(dir: Arc<dyn Directory>, options: Options) -> Result<Database> {
        let stands = format!("an empty database stands in {}", dir.describe());
        Database::open_with(dir, options).map_err(|e| e.noting(&stands))
    }

    /// Opens a database for reading and writing. `NotFound` when there is none, `Locked` when another handle writes to it.
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::open_with(directory(path.as_ref())?, Options::default())
    }

    /// As [`Database::open`], in any directory and with options.
    pub fn open_with(dir: Arc<dyn Directory>, options: Options) -> Result<Database> {
        let background = options.background;
        let (core, recovery) = open::open_writer(dir, options)?;
        if background {
            core.start_background()?;
        }
        Ok(Database { core, recovery })
    }

    /// Opens a database for reading: writes nothing at all, beside any writer. See [`Database::refresh`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Database> {
        Database::open_read_only_with(directory(path.as_ref())?, Options::default())
    }

    /// As [`Database::open_read_only`], in any directory and with options.
    pub fn open_read_only_with(dir: Arc<dyn Directory>, options: Options) -> Result<Database> {
        let (core, recovery) = open::open_reader(dir, Options { background: false, ..options })?;
        Ok(Database { core, recovery })
    }

    /// What opening found and did.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// Commits a batch: all of it or, with an error, nothing. Returns when it is durable as the database's options say.
    ///
    /// [`Error::OutcomeUnknown`] means that the operating system failed to sync: reopening decides whether the commit is there. Every other
    /// error means that it is not.
    pub fn commit(&self, batch: WriteBatch) -> Result<Commit> {
        self.commit_with(batch, self.core.options.durability)
    }

    /// As [`Database::commit`], with a durability of its own.
    pub fn commit_with(&self, batch: WriteBatch, durability: Durability) -> Result<Commit> {
        let request = self.stage(batch, durability)?;
        self.core.commit(&[request]).pop().expect("one answer a request")
    }

    /// Commits batches that do not depend on each other's success, each on its own lsn and each whole or not at all, and lets them share one
    /// write and one sync: what threads that commit at the same time get by themselves. Answers in the order of the batches; a batch that is
    /// refused does not keep the others back.
    ///
    /// ```
    /// # use triune::{Database, Document, ErrorCode, Schema, WriteBatch};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::create(dir.path().join("db"))?;
    /// db.create_collection("notes", Schema::default())?;
    /// let put = |id: &str| {
    ///     let mut batch = WriteBatch::new();
    ///     batch.insert("notes", vec![Document::new(id)]);
    ///     batch
    /// };
    /// let answers = db.commit_many(vec![put("a"), put("a"), put("b")]);
    /// assert!(answers[0].is_ok() && answers[2].is_ok());
    /// assert_eq!(answers[1].as_ref().unwrap_err().code(), ErrorCode::AlreadyExists);
    /// # Ok::<(), triune::Error>(())
    /// ```
    pub fn commit_many(&self, batches: Vec<WriteBatch>) -> Vec<Result<Commit>> {
        let staged: Vec<_> = batches.into_iter().map(|batch| self.stage(batch, self.core.options.durability)).collect();
        let requests: Vec<_> = staged.iter().filter_map(|s| s.as_ref().ok().cloned()).collect();
        let mut answers = self.core.commit(&requests).into_iter();
        staged.into_iter().map(|s| s.and_then(|_| answers.next().expect("one answer a request"))).collect()
    }

    fn stage(&self, batch: WriteBatch, durability: Durability) -> Result<Arc<Request>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
        let catalog = self.core.published.read().catalog.clone();
        let staged = Staged::prepare(batch, now, |name| catalog.collections.get(name).map(|c| c.schema.clone()))?;
        Ok(Request::new(staged, durability, now))
    }

    fn one(&self, fill: impl for<'a> FnOnce(&'a mut WriteBatch) -> &'a mut WriteBatch) -> Result<Commit> {
        let mut batch = WriteBatch::new();
        fill(&mut batch);
        self.commit(batch)
    }

    /// Creates a collection.
    pub fn create_collection(&self, name: &str, schema: Schema) -> Result<Commit> {
        self.one(|b| b.create_collection(name, schema))
    }

    /// Removes a collection with its documents.
    pub fn drop_collection(&self, name: &str) -> Result<Commit> {
        self.one(|b| b.drop_collection(name))
    }

    /// Inserts each document, or replaces the one of its id whole.
    pub fn put(&self, collection: &str, documents: Vec<Document>) -> Result<Commit> {
        self.one(|b| b.put(collection, documents))
    }

    /// Inserts documents whose ids are new.
    pub fn insert(&self, collection: &str, documents: Vec<Document>) -> Result<Commit> {
        self.one(|b| b.insert(collection, documents))
    }

    /// Changes parts of existing documents.
    pub fn patch(&self, collection: &str, patches: Vec<Patch>) -> Result<Commit> {
        self.one(|b| b.patch(collection, patches))
    }

    /// Deletes documents by id and returns how many there were.
    pub fn delete(&self, collection: &str, ids: Vec<String>) -> Result<u64> {
        self.one(|b| b.delete(collection, ids)).map(|c| c.outcomes[0].deleted)
    }

    /// Deletes every document of a source and returns how many there were.
    pub fn delete_source(&self, collection: &str, source: &str) -> Result<u64> {
        self.one(|b| b.delete_source(collection, source)).map(|c| c.outcomes[0].deleted)
    }

    /// Replaces all documents of a source by these.
    pub fn replace_source(&self, collection: &str, source: &str, documents: Vec<Document>) -> Result<Commit> {
        self.one(|b| b.replace_source(collection, source, documents))
    }

    /// Deletes every document of a collection and returns how many there were.
    pub fn clear(&self, collection: &str) -> Result<u64> {
        self.one(|b| b.clear(collection)).map(|c| c.outcomes[0].deleted)
    }

    /// The newest committed state. O(1).
    pub fn snapshot(&self) -> Snapshot {
        let Published { version, catalog, lsn } = self.core.published.read().clone();
        let pin = self.core.pins.pin(&version, lsn);
        Snapshot { version, catalog, lsn, pin }
    }

    /// Brings a read-only handle to the newest state on disk; snapshots taken before stay as they are. A writing handle is always there.
    ///
    /// When nothing was committed or merged since, this reads HEAD and the end of the log and is done. Otherwise it reads the state anew, as
    /// opening does: a writer may have taken back a group that failed, so what the log held before is not carried over.
    pub fn refresh(&self) -> Result<()> {
        let Some(seen) = self.core.seen.lock().clone() else { return Ok(()) };
        let timer = Timer::start();
        let changed = !open::is_unchanged(&self.core, &seen)?;
        if changed {
            let (newer, seen) = open::reload(&self.core)?;
            // In this order everywhere: what was seen, then what is shown.
            let mut current = self.core.seen.lock();
            let mut published = self.core.published.write();
            if newer.lsn >= published.lsn {
                (*published, *current) = (newer, Some(seen));
            }
        }
        events::refreshed(changed, self.core.published.read().lsn, timer);
        Ok(())
    }

    /// How this handle is doing: snapshots that are held, files and merges that wait, bytes that are not synced, what failed in the
    /// background, why the writer stopped. Reads the directory's list; O(files + segments + held snapshots x segments).
    ///
    /// A handle for reading knows its own snapshots and what is on the disk, not what a writer beside it holds or waits for.
    ///
    /// ```
    /// # use triune::{Database, Document, Schema};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::create(dir.path().join("db"))?;
    /// # db.create_collection("notes", Schema::default())?;
    /// let held = db.snapshot();
    /// assert_eq!(db.health()?.snapshots.count, 1);
    /// drop(held);
    /// assert_eq!(db.health()?.snapshots.count, 0);
    /// # Ok::<(), triune::Error>(())
    /// ```
    pub fn health(&self) -> Result<Health> {
        self.core.health()
    }

    /// Makes every commit so far durable, whatever its durability was.
    pub fn sync(&self) -> Result<()> {
        let mut w = self.core.writer.lock();
        self.core.writable(&w)?;
        self.core.settle_found(&mut w)?;
        self.core.sync_log(&mut w)?;
        self.core.witness(&mut w);
        Ok(())
    }

    /// Brings everything committed so far into segments, so that the next open replays nothing.
    ///
    /// Once the new state is published the answer is `Ok`: if removing what the old one needed fails, [`Database::health`] tells, and a later
    /// checkpoint tries again.
    pub fn checkpoint(&self) -> Result<()> {
        self.core.guarded("a checkpoint panicked", || self.core.checkpoint())
    }

    /// Carries out merges that are due until none is. With [`Options::background`] a thread does so by itself.
    pub fn merge(&self) -> Result<()> {
        self.core.writable(&self.core.writer.lock())?;
        self.core.guarded("a merge panicked", || self.core.merge_all_due())
    }

    /// Leaves one segment a collection, no tombstones and no unreachable file. O(documents). Commits go on meanwhile.
    ///
    /// A collection with damaged files is passed over and stays as it was; the others are compacted, and then the first damage is the error.
    pub fn compact(&self) -> Result<()> {
        self.core.guarded("a merge panicked", || self.core.compact())
    }

    /// Bytes of all files of the database.
    pub fn bytes_on_disk(&self) -> Result<u64> {
        self.core.bytes_on_disk()
    }

    /// The error of the last background work, if one failed since this was asked last.
    pub fn take_background_error(&self) -> Option<Error> {
        self.core.background.take_error()
    }

    /// Finishes: stops merges, brings every commit into segments, folds small ones, removes what nothing reaches, and releases the lock.
    ///
    /// An error leaves every acknowledged commit in the log or, when it says so, in the files: the next open finds it. The handle is gone
    /// either way.
    pub fn close(self) -> Result<()> {
        self.core.guarded("a checkpoint or merge panicked", || self.core.close())
    }
}

impl Drop for Database {
    /// Also what follows [`Database::close`], whether it succeeded or not.
    fn drop(&mut self) {
        self.core.background.stop();
        // While the lock is held: the next writer may go on in another log, and this one is never synced again.
        self.core.keep_promises();
        let mut w = self.core.writer.lock();
        w.closed = true;
        drop(w);
        *self.core.lock.lock() = None;
    }
}

/// The directory in which a database is to be made; it may be there, and empty.
pub(crate) fn new_directory(path: &Path) -> Result<FsDirectory> {
    if let Some(database) = database_above(path) {
        let (path, database) = (path.display(), database.display());
        return Err(Error::InvalidArgument(format!(
            "{path} lies inside the database {database}; nothing was made. Name a directory beside it"
        )));
    }
    FsDirectory::create(path).map_err(|e| Error::io(format!("creating {}", path.display()), e))
}

/// An existing directory.
fn directory(path: &Path) -> Result<Arc<dyn Directory>> {
    match FsDirectory::open(path) {
        Ok(dir) => Ok(Arc::new(dir)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::NotFound(format!("a database in {}: there is no such directory; create one first", path.display())))
        }
        Err(e) => Err(Error::no_directory("a database", path, e)),
    }
}

impl Core {
    fn close(&self) -> Result<()> {
        self.background.stop();
        let wrote = {
            let mut w = self.writer.lock();
            if w.read_only.is_some() {
                return Ok(());
            }
            self.writable(&w)?;
            self.settle_found(&mut w)?;
            w.wal.is_some()
        };
        if wrote {
            self.checkpoint().map_err(|e| {
                e.noting("every commit acknowledged as synced is in the log and the next open finds it; only bringing commits into segments failed")
            })?;
            let tidied = self.fold().and_then(|()| {
                let _maintenance = self.maintenance.lock();
                self.collect_garbage().map(drop)
            });
            return tidied.map_err(|e| {
                e.noting(
                    "every commit is in the files and the next open replays nothing; only folding small segments or removing files failed",
                )
            });
        }
        Ok(())
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        bytes_of(self.dir.as_ref())
    }
}

/// Bytes of all files of a directory.
fn bytes_of(dir: &dyn Directory) -> Result<u64> {
    let names = dir.list().map_err(|e| Error::io("listing the database directory", e))?;
    let needed = |name: &str| name == names::HEAD || FileName::parse(name).is_some();
    let length = |name: &String| match dir.open(name).and_then(|f| f.len()) {
        Ok(len) => Ok(len),
        // A file that went meanwhile takes no room. What no commit needs may be unreadable, or a pipe.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound || !needed(name) => Ok(0),
        Err(e) => Err(Error::io(format!("reading the length of {name}"), e)),
    };
    names.iter().map(length).sum()
}

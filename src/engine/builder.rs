//! Builds a database out of many documents at once, to be searched where it was built or copied elsewhere.
//!
//! Documents become flat segments as they come, then one segment a collection with its vector graph, then one state that is published. Until
//! that there is no database, and what a build that was killed left is refused by name. The machinery is that of `restore.rs`.

use super::batch::{round_vector, stored};
use super::bytes_of;
use super::companions::check_new_collection;
use super::events::{self, Timer};
use super::restore::Restorer;
use super::segments::OpenFiles;
use super::unfinished::in_new_directory;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::ids::Lsn;
use crate::io::{Directory, FsDirectory};
use crate::options::{Options, Schema};
use crate::vector::JUDGED;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Makes a database of documents that come one after another, in one commit.
///
/// Quicker than commits: nothing is logged, and every document is merged once. All cores derive tokens and entities from documents and build
/// the vector graphs. Memory while documents come: [`Options::memtable_bytes`] and about 20 MiB; when it is finished, that of compacting the
/// collection: codes (or vectors) and links of its graph, its metadata index and its entity graph. On the disk it takes up to twice the room
/// of the database that it becomes.
///
/// Nothing counts before [`Builder::finish`]. Dropped without it, or after an error, it leaves no file; killed, it leaves a directory that
/// `open` refuses as unfinished, and in which the next builder begins anew. All documents have the time at which the build began.
///
/// ```
/// use triune::{Builder, Database, Document, Options, Schema};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// let mut builder = Builder::create(&path, Options::default())?;
/// builder.collection("main", Schema::default())?;
/// for i in 0..100 {
///     builder.push(Document::new(i.to_string()).text("some words").vector([i as f32, 1.0]))?;
/// }
/// let report = builder.finish()?;
/// assert_eq!((report.documents, report.segments), (100, 1));
/// assert_eq!(Database::open(&path)?.snapshot().collection("main")?.count(), 100);
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    /// Taken when it is finished or dropped.
    restorer: Option<Restorer>,
    dir: Arc<dyn Directory>,
    options: Options,
    /// A directory that was made for it, and goes again when it is not finished.
    made: Option<FsDirectory>,
    time_ms: u64,
    interrupted: Arc<AtomicBool>,
    timer: Timer,
}

/// What was built.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct BuildReport {
    /// Documents of all collections.
    pub documents: u64,
    /// Those that have a vector.
    pub vectors: u64,
    /// Segments: one a collection, unless that would have more rows than a segment may.
    pub segments: u64,
    /// Segments that have a vector graph.
    pub graphs: u64,
    /// The least share of the true ten nearest, 0 to 1, that a walk with `ef` 64 found in one of the graphs, as measured when it was
    /// built; `None` without a graph.
    pub recall: Option<f64>,
    /// Bytes of all files; 0 when they could not be counted afterwards.
    pub bytes: u64,
}

impl Builder {
    /// Begins a database in a directory that is new, empty, or holds what a build, a restore or a backup that was cut short left.
    ///
    /// # Errors
    /// `AlreadyExists` when there is a database, `InvalidArgument` when there are files of somebody else, `Locked` when somebody else is
    /// making one there; nothing was changed.
    pub fn create(path: impl AsRef<Path>, options: Options) -> Result<Builder> {
        let path = path.as_ref();
        let absent = FsDirectory::open(path).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
        let builder = in_new_directory(path, |dir| Builder::create_in(dir, options))?;
        Ok(builder.for_new(absent.then(|| FsDirectory::open(path).ok()).flatten()))
    }

    fn for_new(mut self, made: Option<FsDirectory>) -> Builder {
        self.made = made;
        self
    }

    /// As [`Builder::create`], in any directory.
    pub fn create_in(dir: Arc<dyn Directory>, options: Options) -> Result<Builder> {
        let restorer = Some(Restorer::begin(&dir, options.clone())?);
        let time_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
        Ok(Builder { restorer, dir, options, made: None, time_ms, interrupted: Arc::default(), timer: Timer::start() })
    }

    /// The flag that ends the build when somebody sets it: [`Builder::push`] and [`Builder::finish`] answer `Interrupted` then.
    pub fn interrupt(&self) -> Arc<AtomicBool> {
        self.interrupted.clone()
    }

    /// Begins the next collection, to which the documents that follow belong.
    ///
    /// # Errors
    /// `AlreadyExists` for a name that was given before; `InvalidArgument` or `LimitExceeded` for a name or a schema that no collection can
    /// have. Nothing was changed.
    pub fn collection(&mut self, name: &str, schema: Schema) -> Result<()> {
        let restorer = self.restorer()?;
        if restorer.collections().iter().any(|c| c.name == name) {
            return Err(Error::AlreadyExists(format!("collection {name:?} in this build; nothing was changed. Give it another name")));
        }
        check_new_collection(name, &schema)?;
        restorer.collection(name, schema)
    }

    /// Adds a document after those before it. Amortised O(bytes); every few MiB it waits for all cores, and every
    /// [`Options::memtable_bytes`] for the disk.
    ///
    /// # Errors
    /// `DuplicateId` when the collection has a document of this id: the message numbers both. `SchemaMismatch` for a vector whose dimension is
    /// not the collection's, which the first vector fixes when the schema does not. `InvalidArgument` or `LimitExceeded` for a document that
    /// no collection takes, or before the first collection. After these the document is left out and the build may go on; after any other
    /// error, which is `Interrupted` or the disk's, it cannot.
    pub fn push(&mut self, document: Document) -> Result<()> {
        let time_ms = self.time_ms;
        let restorer = self.restorer()?;
        let Some(collection) = restorer.last_collection() else {
            return Err(Error::InvalidArgument("a document comes before the first collection; begin one first".into()));
        };
        let (mut document, refusal) = stored(document, &collection.schema, time_ms)?;
        refusal.map_or(Ok(()), Err)?;
        round_vector(&mut document, collection.schema.components)?;
        let open = collection.schema.dimension.is_none();
        let fixes = document.vector.as_ref().filter(|_| open).map(|v| v.len() as u32);
        if let Some(dimension) = fixes {
            restorer.set_dimension(Some(dimension));
        }
        // A document that is left out fixes nothing.
        restorer.document(document).inspect_err(|_| {
            if fixes.is_some() {
                restorer.set_dimension(None);
            }
        })
    }

    /// Which document of the last collection has this id, from 0.
    pub fn position(&self, id: &str) -> Result<Option<u64>> {
        self.restorer.as_ref().map_or(Ok(None), |r| r.position(id))
    }

    /// Merges everything, builds the vector graphs, and publishes the database: it is there, whole and durable, when this answers `Ok`.
    ///
    /// # Errors
    /// `OutcomeUnknown` when the last write failed: opening decides whether there is a database. After any other error there is none, and a
    /// directory that was made for it is gone again.
    pub fn finish(mut self) -> Result<BuildReport> {
        let interrupted = self.interrupted.clone();
        let restorer = self.restorer()?;
        restorer.merge(&interrupted).map_err(|e| if matches!(e, Error::Interrupted(_)) { was_interrupted() } else { e })?;
        let mut report = self.report()?;
        // Afterwards it is too late.
        self.restorer()?;
        self.restorer.take().expect("it was there just now").finish()?;
        // The database is there, whatever the system says of its files now.
        report.bytes = bytes_of(self.dir.as_ref()).unwrap_or_default();
        events::built(report.documents, report.segments, report.bytes, self.timer);
        // The directory stays.
        self.made = None;
        Ok(report)
    }

    fn restorer(&mut self) -> Result<&mut Restorer> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(was_interrupted());
        }
        self.restorer.as_mut().ok_or_else(|| Error::Poisoned("this build is finished".into()))
    }

    /// What the merged segments are.
    fn report(&self) -> Result<BuildReport> {
        let mut report = BuildReport::default();
        let Some(restorer) = &self.restorer else { return Ok(report) };
        let mut open = OpenFiles::new(self.dir.as_ref(), restorer.database(), self.options.io_mode);
        for c in restorer.collections() {
            report.documents += c.documents;
            report.vectors += c.vectors;
            report.segments += c.segments.len() as u64;
            for segment in &c.segments {
                let handle = open.handle(segment, c.schema.components, Lsn(0), Lsn(0))?;
                let Some(vectors) = &handle.rooms()?.vectors else { continue };
                let Some(graph) = vectors.graph(c.schema.metric)? else { continue };
                report.graphs += 1;
                if graph.shape().sample > 0 {
                    let found = graph.shape().measured[JUDGED].recall;
                    report.recall = Some(report.recall.map_or(found, |least| least.min(found)));
                }
            }
        }
        Ok(report)
    }
}

fn was_interrupted() -> Error {
    Error::Interrupted("the build was interrupted; no database was made".into())
}

impl Drop for Builder {
    fn drop(&mut self) {
        // First what is in it, then the directory itself.
        self.restorer = None;
        if let Some(made) = self.made.take() {
            let _ = made.remove();
        }
    }
}

//! Makes everything that is derived from documents anew.

use super::backup::existing;
pub use crate::engine::RebuildReport;
use crate::engine::rebuild;
use crate::error::Result;
use crate::io::Directory;
use crate::options::Options;
use std::path::Path;
use std::sync::Arc;

/// Makes the text index, the metadata index, the entity graph, the norms of vectors and the maps of ids of the database in `path` anew from
/// the documents, of one collection or of all; also when they are damaged, which is what it is for. What is stored and the answers to every
/// question stay the same. A log that was not checkpointed is brought into segments as at any open.
///
/// O(bytes) time. Memory: 8 bytes for each distinct term of each row of the largest segment, and its metadata index and graph. Needs as
/// much room on the disk as the database takes; the old files go when the new state is published.
///
/// # Errors
/// `Corrupt`, and nothing is changed, when what cannot be rebuilt is damaged: documents, ids, seqs, sources, vectors, which rows are dead,
/// the manifest or the log; or, of other collections, what bringing in the log needs. Then a backup or [`super::salvage()`] is next. `Locked`
/// beside a writer; `NotFound` without such a collection. An error of what comes after the new state was published says that it stands.
///
/// ```
/// # use triune::{Database, Document, Schema};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// # let db = Database::create(&path)?;
/// # db.create_collection("notes", Schema::default())?;
/// # db.put("notes", vec![Document::new("a").text("hello")])?;
/// # db.close()?;
/// let report = triune::maintenance::rebuild(&path, None)?;
/// assert_eq!((report.segments, report.rows), (1, 1));
/// # Ok::<(), triune::Error>(())
/// ```
pub fn rebuild(path: impl AsRef<Path>, collection: Option<&str>) -> Result<RebuildReport> {
    rebuild_directory(Arc::new(existing(path.as_ref(), "a database")?), Options::default(), collection)
}

/// As [`rebuild()`], in any directory and with options.
pub fn rebuild_directory(dir: Arc<dyn Directory>, options: Options, collection: Option<&str>) -> Result<RebuildReport> {
    rebuild::rebuild(&dir, options, collection)
}

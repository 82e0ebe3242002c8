//! What can be saved of a database that is damaged, also when `open` refuses it; and a ledger of what cannot.
//!
//! The manifest that HEAD names, else the newest that can be believed, gives the collections and segments; of each segment every row counts
//! whose blocks pass their checksums; then every log record that can be proved is applied, in the order of lsns. Derived sections are never
//! read. Of an undamaged database the result is its content, and the ledger is empty.
//!
//! What this room never does: write, map a file, believe a byte that no checksum vouches for, or leave a loss unsaid.
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | [`Salvage`]: the survey, and the documents that it found |
//! | `head.rs` | what HEAD says |
//! | `state.rs` | which manifest |
//! | `segment.rs` | what is left of a segment |
//! | `orphans.rs` | segments, when no manifest is left |
//! | `log.rs` | which records, and which commits are missing |
//! | `search.rs` | the records of one log |
//! | `collect.rs` | which rows live |
//! | `ledger.rs` | [`Loss`] |

mod collect;
mod head;
mod ledger;
mod log;
mod orphans;
mod search;
mod segment;
mod state;

pub use ledger::{Loss, LossKind};

use super::refused::refuse;
use crate::document::StoredDocument;
use crate::error::{Error, Result};
use crate::io::names::LOCK;
use crate::io::refusals::{Attentive, Refusals};
use crate::io::{Directory, LockGuard, LockMode};
use crate::options::Schema;
use collect::{Collector, Gathered, Place};
use roaring::RoaringBitmap;
use segment::OpenSegment;
use state::Standing;
use std::io::ErrorKind;

/// What was found in a directory.
#[derive(Debug)]
pub struct Salvage {
    collections: Vec<Gathered>,
    segments: Vec<OpenSegment>,
    ledger: Vec<Loss>,
    refusals: Refusals,
}

/// A collection that can be saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvagedCollection {
    /// Its name, or one that was made up; then the ledger says so.
    pub name: String,
    /// Its schema.
    pub schema: Schema,
    /// Documents that can be saved.
    pub documents: u64,
}

impl Salvage {
    /// Reads everything, and nothing twice in vain. O(bytes) time; memory for the ids of all documents and for the logs.
    ///
    /// # Errors
    /// `NotFound` when the directory holds no file of a database; `Locked` when a writer has it open; `UnsupportedVersion` when a newer version
    /// wrote it; `Io` when the system refused to open or read a file for want of descriptors, memory or rights, or to say whether a writer has
    /// it open. Damage is no error: it is in the ledger.
    pub fn survey(dir: &dyn Directory) -> Result<Salvage> {
        let attentive = Attentive::new(dir);
        let survey = Salvage::read(&attentive);
        // Also when it ended with another error, which may come of the refusal.
        refuse(attentive.refusals())?;
        survey
    }

    fn read(dir: &Attentive<'_>) -> Result<Salvage> {
        let present = dir.list().map_err(|e| Error::io(format!("listing {}", dir.describe()), e))?;
        if !present.iter().any(|name| crate::io::names::FileName::parse(name).is_some()) {
            return Err(Error::NotFound(format!("a file of a database in {}; there is nothing to salvage", dir.describe())));
        }
        let _lock = lock(dir)?;
        let mut ledger = Vec::new();
        let start = state::choose(dir, &present, &mut ledger)?;
        let records = log::records(dir, &present, &start, &mut ledger)?;
        let database = start.database.unwrap_or_default();
        let orphans = match start.standing {
            Standing::Believed => Vec::new(),
            Standing::Contradicted | Standing::Missing => orphans::find(dir, &present, &start.manifest, &records, &mut ledger)?,
        };
        let mut collector = Collector::new(dir, database, start.manifest.applied_lsn, &mut ledger);
        for collection in &start.manifest.collections {
            collector.collection(collection)?;
        }
        for orphan in orphans {
            collector.orphan(&orphan)?;
        }
        for (lsn, record) in records {
            collector.record(lsn, record)?;
        }
        let (collections, segments) = collector.finish();
        Ok(Salvage { collections, segments, ledger, refusals: dir.refusals().clone() })
    }

    /// What is lost; empty when nothing is.
    pub fn ledger(&self) -> &[Loss] {
        &self.ledger
    }

    /// The collections that can be saved, in the order of their names.
    pub fn collections(&self) -> Vec<SalvagedCollection> {
        let one = |c: &Gathered| SalvagedCollection { name: c.name.clone(), schema: c.schema.clone(), documents: c.rows.len() as u64 };
        self.collections.iter().map(one).collect()
    }

    /// Hands every document of the collection `index` to `each`, in the order in which they were stored.
    pub fn documents(&self, index: usize, mut each: impl FnMut(StoredDocument) -> Result<()>) -> Result<()> {
        let Some(collection) = self.collections.get(index) else { return Ok(()) };
        let mut rows = collection.rows.values().peekable();
        while let Some(row) = rows.next() {
            let (mut of, mut vectors) = (RoaringBitmap::new(), RoaringBitmap::new());
            let here = match &row.place {
                Place::Log(document) => {
                    each(StoredDocument::clone(document))?;
                    continue;
                }
                Place::Segment { segment, row, vector } => {
                    of.insert(*row);
                    if *vector {
                        vectors.insert(*row);
                    }
                    *segment
                }
            };
            // A segment is read once for all its rows that follow each other.
            while let Some(Place::Segment { segment, row, vector }) = rows.peek().map(|r| &r.place)
                && *segment == here
            {
                of.insert(*row);
                if *vector {
                    vectors.insert(*row);
                }
                rows.next();
            }
            let mut given = 0;
            self.segments[here].rows(|found| {
                let (row, with_vector) = (found.row, vectors.contains(found.row));
                let whole = found.document.ok().filter(|_| of.contains(row) && (!with_vector || found.vector.is_ok()));
                let Some(mut document) = whole else { return Ok(()) };
                if !with_vector {
                    document.vector = None;
                }
                given += 1;
                each(document)
            })?;
            if given != of.len() {
                refuse(&self.refusals)?;
                let what = format!("{} rows of a segment could be read a moment ago, {given} can be now", of.len());
                return Err(Error::corrupt("the directory to be salvaged", 0, what));
            }
        }
        refuse(&self.refusals)
    }
}

/// Keeps writers out. Shared, so that it needs no right to write: a writer's lock excludes it, another salvage does not. Where there is nothing
/// to lock no writer can open either.
fn lock(dir: &dyn Directory) -> Result<Option<LockGuard>> {
    match dir.try_lock(LOCK, LockMode::Shared) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => Err(Error::Locked(format!("a writer has {} open; close it there first", dir.describe()))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => {
            let what = "locking LOCK, without which nobody knows whether a writer has the database open; nothing was changed. If none has, copy the \
                        directory to another medium and salvage the copy";
            Err(Error::io(what, e))
        }
    }
}

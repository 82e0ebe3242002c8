//! Saves what can be saved of a damaged database into a new one.

use super::backup::existing;
use crate::engine::in_new_directory;
use crate::engine::restore::Restorer;
use crate::error::Result;
pub use crate::inspect::salvage::{Loss, LossKind, Salvage};
use crate::io::Directory;
use crate::options::Options;
use std::path::Path;
use std::sync::Arc;

/// What came of a salvage.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Whether a database was made: always, unless something is lost and that was not accepted.
    pub made: bool,
    /// Collections that can be saved.
    pub collections: u64,
    /// Documents that can be saved.
    pub documents: u64,
    /// What is lost.
    pub ledger: Vec<Loss>,
}

/// Makes a new database in `new` out of what can be read of the one in `path`, which is only read, by system calls, and may be damaged in any
/// way. When something is lost, that happens only with `accept_loss`; else nothing is made, and the report says what would be lost.
///
/// Without damage, and when only derived sections are damaged, the new database has the same content as the old one: their dumps are equal.
/// Else it has every document of which nothing was lost exactly as it was stored, and each other one is in the ledger.
///
/// # Errors
/// As [`Salvage::survey`]; and `AlreadyExists` when `new` holds a database. After an error nothing is left there.
///
/// ```
/// # use triune::{Database, Document, Schema};
/// # use triune::maintenance::{dump, salvage};
/// # let dir = tempfile::tempdir().unwrap();
/// # let (path, new) = (dir.path().join("db"), dir.path().join("new"));
/// # let db = Database::create(&path)?;
/// # db.create_collection("notes", Schema::default())?;
/// # db.put("notes", vec![Document::new("a").text("hello")])?;
/// # db.close()?;
/// std::fs::write(path.join("HEAD"), b"rotten").unwrap();
/// assert!(Database::open(&path).is_err());
/// let report = salvage(&path, &new, false)?;
/// assert!(report.made && report.ledger.is_empty());
/// assert_eq!(Database::open(&new)?.snapshot().collection("notes")?.count(), 1);
/// # Ok::<(), triune::Error>(())
/// ```
pub fn salvage(path: impl AsRef<Path>, new: impl AsRef<Path>, accept_loss: bool) -> Result<SalvageReport> {
    let survey = survey(path)?;
    if !survey.ledger().is_empty() && !accept_loss {
        return Ok(report(&survey, false));
    }
    save(&survey, new)
}

/// What can be saved of the database in `path`, and what cannot: the first half of [`salvage()`], for whoever keeps the ledger before
/// anything is made.
///
/// # Errors
/// As [`Salvage::survey`].
pub fn survey(path: impl AsRef<Path>) -> Result<Salvage> {
    Salvage::survey(&existing(path.as_ref(), "a database")?)
}

/// Makes a new database in `new` of what a survey found, whatever is lost: the second half of [`salvage()`].
///
/// # Errors
/// `AlreadyExists` when `new` holds a database, and those of reading and writing. After an error nothing is left there.
pub fn save(survey: &Salvage, new: impl AsRef<Path>) -> Result<SalvageReport> {
    in_new_directory(new.as_ref(), |dir| write_salvaged(survey, dir, Options::default()))
}

/// Writes what a survey found into a directory, whatever is lost, with options.
pub fn write_salvaged(survey: &Salvage, dir: Arc<dyn Directory>, options: Options) -> Result<SalvageReport> {
    let mut restorer = Restorer::begin(&dir, options)?;
    for (index, collection) in survey.collections().into_iter().enumerate() {
        restorer.collection(&collection.name, collection.schema)?;
        survey.documents(index, |document| restorer.document(document))?;
    }
    restorer.finish()?;
    Ok(report(survey, true))
}

fn report(survey: &Salvage, made: bool) -> SalvageReport {
    let collections = survey.collections();
    SalvageReport {
        made,
        collections: collections.len() as u64,
        documents: collections.iter().map(|c| c.documents).sum(),
        ledger: survey.ledger().to_vec(),
    }
}

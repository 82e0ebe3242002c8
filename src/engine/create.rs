//! Makes a new database, or completes one whose making was cut short.
//!
//! Every file is made and synced, then the directory and its parent, and only then are the slots of HEAD written: until that moment the
//! directory holds an unfinished create and nothing else, and no acknowledged commit rests on a name that is not on the disk.

use crate::error::{Error, Result};
use crate::format::head::HeadState;
use crate::format::manifest::{Manifest, encode_manifest};
use crate::ids::{Generation, Incarnation, Lsn, Seq, Uuid};
use crate::io::Directory;
use crate::io::names::{self, FileName};
use crate::manifest::{HeadVerdict, Publisher, create_head, read_head};
use crate::wal::{WalWriter, create_witness, has_no_records};
use std::sync::Arc;

/// Spare room for a full disk.
pub(crate) const BALLAST_BYTES: usize = 1 << 20;
/// The number of the manifest and the log that `create` makes.
const FIRST: u64 = 1;

/// What a directory holds, as far as creating is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// A database, or something damaged that may be one.
    Database,
    /// What a create that did not finish left: nothing was ever committed in it.
    Unfinished,
    /// No file at all.
    Nothing,
    /// Files of somebody else.
    Foreign(String),
}

/// Looks at a directory without changing it.
pub(crate) fn look(dir: &dyn Directory) -> Result<Found> {
    let present = dir.list().map_err(|e| Error::io(format!("listing {}", dir.describe()), e))?;
    if present.is_empty() {
        return Ok(Found::Nothing);
    }
    if !present.iter().any(|n| ours(n)) {
        return Ok(Found::Foreign(present[0].clone()));
    }
    match read_head(dir, false) {
        Ok(HeadVerdict::Missing | HeadVerdict::NoValidSlot { .. }) => {}
        // Valid, newer or forked: a database in any case.
        _ => return Ok(Found::Database),
    }
    for name in present.iter().filter(|n| ours(n)) {
        let left_by_create = match FileName::parse(name) {
            None | Some(FileName::Manifest(FIRST)) => true,
            Some(FileName::Wal(sequence)) => {
                // A log with anything after its header may hold a commit.
                has_no_records(dir, sequence)?
            }
            Some(FileName::Manifest(_) | FileName::Segments(_) | FileName::Tombstones(_)) => false,
        };
        if !left_by_create {
            return Ok(Found::Database);
        }
    }
    Ok(Found::Unfinished)
}

/// Whether a name is one that a database gives.
fn ours(name: &str) -> bool {
    [names::HEAD, names::LOCK, names::WITNESS, names::BALLAST].contains(&name) || FileName::parse(name).is_some()
}

/// Creates a database in `dir`.
pub(crate) fn create(dir: &Arc<dyn Directory>) -> Result<()> {
    match look(dir.as_ref())? {
        Found::Database => {
            return Err(Error::AlreadyExists(format!("a database in {}; nothing was changed. Open it instead", dir.describe())));
        }
        Found::Foreign(name) => {
            return Err(Error::InvalidArgument(format!(
                "{} holds files that are not Triune's ({name:?} for one); nothing was changed. Name a new or empty directory",
                dir.describe()
            )));
        }
        Found::Nothing => {}
        Found::Unfinished => {
            // Another process may be in the middle of the same create, or hold what it left open.
            let _lock = super::open::lock_if_there(dir.as_ref())?;
            remove_unfinished(dir.as_ref())?;
        }
    }
    let database = Uuid::random();
    let head = create_head(dir.as_ref())?;
    make(dir.as_ref(), names::LOCK, b"")?;
    create_witness(dir.as_ref())?;
    make(dir.as_ref(), names::BALLAST, &vec![0xb5; BALLAST_BYTES])?;
    let manifest = Manifest { applied_lsn: Lsn(0), next_seq: Seq(1), next_incarnation: Incarnation(1), ..Manifest::default() };
    let bytes = encode_manifest(FIRST, database, &manifest);
    make(dir.as_ref(), &FileName::Manifest(FIRST).to_string(), &bytes)?;
    let wal = WalWriter::create(dir, database, FIRST, Lsn(1), Lsn(0), None)?;
    dir.sync().map_err(|e| Error::io("syncing the new directory", e))?;
    dir.sync_parent().map_err(|e| Error::io("syncing the parent of the new directory", e))?;
    Publisher::first_publish(
        head,
        &HeadState {
            generation: Generation(1),
            database,
            manifest_number: FIRST,
            manifest_length: bytes.len() as u64,
            manifest_crc: crate::format::checksum::crc32(&bytes),
            applied_lsn: Lsn(0),
            wal_sequence: FIRST,
            wal_id: wal.id(),
            durable_lsn: Lsn(0),
        },
    )
    .map(drop)
}

/// Makes one file whole and durable.
fn make(dir: &dyn Directory, name: &str, bytes: &[u8]) -> Result<()> {
    let file = dir.create_new(name).map_err(|e| Error::io(format!("creating {name}"), e))?;
    file.write_all_at(0, bytes).map_err(|e| Error::io(format!("writing {name}"), e))?;
    file.sync().map_err(|e| Error::io(format!("syncing {name}"), e))
}

/// Removes what an earlier create left: it is made anew, since nobody knows which of its pages are on the disk.
fn remove_unfinished(dir: &dyn Directory) -> Result<()> {
    let present = dir.list().map_err(|e| Error::io(format!("listing {}", dir.describe()), e))?;
    for name in present.into_iter().filter(|n| ours(n)) {
        dir.unlink(&name).map_err(|e| Error::io(format!("removing {name}, left by an unfinished create"), e))?;
    }
    dir.sync().map_err(|e| Error::io("syncing the directory", e))
}

//! Makes a new database, or completes one whose making was cut short.
//!
//! Every file is made and synced, then the directory and its parent, and only then are the slots of HEAD written: until that moment the
//! directory holds an unfinished create and nothing else, and no acknowledged commit rests on a name that is not on the disk.

use super::open::take_lock;
use super::unfinished::{abandon, publish_first};
use crate::error::{Error, Result};
use crate::format::head::HeadState;
use crate::format::manifest::{Manifest, encode_manifest};
use crate::format::sabotage::{Rule, breaks};
use crate::ids::{Generation, Incarnation, Lsn, Seq, Uuid};
use crate::io::names::{self, FileName};
use crate::io::{Directory, File, LockGuard};
use crate::manifest::{HeadVerdict, create_head, is_unfinished, read_head};
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
    /// What a create, a restore or a backup that did not finish left: nothing in it counts.
    Unfinished,
    /// No file at all.
    Nothing,
    /// Files of somebody else.
    Foreign(String),
}

/// Looks at a directory without changing it.
pub(crate) fn look(dir: &dyn Directory) -> Result<Found> {
    let present = present(dir)?;
    if present.is_empty() {
        return Ok(Found::Nothing);
    }
    if !present.iter().any(|n| ours(n)) {
        return Ok(Found::Foreign(present[0].clone()));
    }
    match read_head(dir, false) {
        // A restore or a backup says so in HEAD for as long as nothing in its directory counts, whatever files it has made.
        Ok(HeadVerdict::NoValidSlot { .. }) if is_unfinished(dir)? => return Ok(Found::Unfinished),
        Ok(HeadVerdict::Missing | HeadVerdict::NoValidSlot { .. }) => {}
        // The system would not let it be read, so nobody knows.
        Err(e @ Error::Io { .. }) => return Err(e),
        // Valid, newer or forked: a database in any case.
        _ => return Ok(Found::Database),
    }
    // `create` made none of these. Without a numbered file the rest, a HEAD or a LOCK, may be theirs too, as in the directory of a git
    // repository; with one it is a damaged database.
    if let Some(foreign) = present.iter().find(|n| !ours(n)) {
        let numbered = present.iter().any(|n| FileName::parse(n).is_some());
        return Ok(if numbered { Found::Database } else { Found::Foreign(foreign.clone()) });
    }
    for name in present.iter().filter(|n| ours(n)) {
        let left_by_create = match FileName::parse(name) {
            None | Some(FileName::Manifest(FIRST)) => true,
            Some(FileName::Wal(sequence)) => {
                // A log with anything after its header may hold a commit.
                breaks(Rule::CreateHeldNothing) || has_no_records(dir, sequence)?
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
pub(super) fn ours(name: &str) -> bool {
    [names::HEAD, names::LOCK, names::WITNESS, names::BALLAST].contains(&name) || FileName::parse(name).is_some()
}

/// Creates a database in `dir`. After an error other than `OutcomeUnknown` nothing of it is left, as far as the system removes it.
///
/// From the first change to the last it holds the writer's lock: another process may be creating here too, and what looks like an unfinished
/// create may be its half-made database, or by now a database with commits in it.
pub(crate) fn create(dir: &Arc<dyn Directory>) -> Result<()> {
    let _locks = take_over(dir.as_ref())?;
    let (head, first) = fill(dir).inspect_err(|_| abandon(dir.as_ref()))?;
    publish_first(dir.as_ref(), head, &first)
}

/// Makes every file of a new database, and every name durable; HEAD, and what its slots are to say.
fn fill(dir: &Arc<dyn Directory>) -> Result<(Arc<dyn File>, HeadState)> {
    let database = Uuid::random();
    let head = create_head(dir.as_ref())?;
    create_witness(dir.as_ref())?;
    make(dir.as_ref(), names::BALLAST, &vec![0xb5; BALLAST_BYTES])?;
    let manifest = Manifest { applied_lsn: Lsn(0), next_seq: Seq(1), next_incarnation: Incarnation(1), ..Manifest::default() };
    let bytes = encode_manifest(FIRST, database, &manifest);
    make(dir.as_ref(), &FileName::Manifest(FIRST).to_string(), &bytes)?;
    let wal = WalWriter::create(dir, database, FIRST, Lsn(1), Lsn(0), None)?;
    dir.sync().map_err(|e| Error::io("syncing the new directory", e))?;
    dir.sync_parent().map_err(|e| Error::io("syncing the parent of the new directory", e))?;
    let first = HeadState {
        generation: Generation(1),
        database,
        manifest_number: FIRST,
        manifest_length: bytes.len() as u64,
        manifest_crc: crate::format::checksum::crc32(&bytes),
        applied_lsn: Lsn(0),
        wal_sequence: FIRST,
        wal_id: wal.id(),
        durable_lsn: Lsn(0),
    };
    Ok((head, first))
}

/// Takes the lock of a directory in which a database may be made, and removes what an unfinished making left. The locks are held for as long
/// as the making takes; LOCK is the only file of a database there then.
pub(super) fn take_over(dir: &dyn Directory) -> Result<Vec<LockGuard>> {
    refuse_occupied(dir)?;
    let made = match make(dir, names::LOCK, b"") {
        Ok(()) => true,
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(e) => {
            unmake_lock(dir);
            return Err(e);
        }
    };
    let taken = take(dir, made);
    if made && taken.is_err() {
        unmake_lock(dir);
    }
    taken
}

/// Takes LOCK, which is there, and leaves nothing else; `made`: it was not there before.
fn take(dir: &dyn Directory, made: bool) -> Result<Vec<LockGuard>> {
    let mut locks = vec![take_lock(dir)?];
    // Only what is seen under the lock counts.
    refuse_occupied(dir)?;
    let fresh = made && present(dir)?.iter().filter(|n| ours(n)).count() == 1;
    if !fresh {
        locks.push(start_over(dir)?);
    }
    Ok(locks)
}

/// Removes LOCK again, if it can. By now somebody else may have begun here: only under the lock, and alone, it is nobody's.
fn unmake_lock(dir: &dyn Directory) {
    let Ok(_lock) = take_lock(dir) else { return };
    if present(dir).is_ok_and(|names| names.iter().filter(|n| ours(n)).eq([names::LOCK])) {
        let _ = dir.unlink(names::LOCK);
    }
}

/// Makes one file whole and durable.
pub(super) fn make(dir: &dyn Directory, name: &str, bytes: &[u8]) -> Result<()> {
    let file = dir.create_new(name).map_err(|e| Error::io(format!("creating {name}"), e))?;
    file.write_all_at(0, bytes).map_err(|e| Error::io(format!("writing {name}"), e))?;
    file.sync().map_err(|e| Error::io(format!("syncing {name}"), e))
}

/// Refuses a directory in which nothing may be created.
fn refuse_occupied(dir: &dyn Directory) -> Result<()> {
    match look(dir)? {
        Found::Database => Err(Error::AlreadyExists(occupied_by(dir))),
        Found::Foreign(name) => Err(Error::InvalidArgument(format!(
            "{} holds files that are not Triune's ({name:?} for one); nothing was changed. Name a new or empty directory",
            dir.describe()
        ))),
        Found::Nothing | Found::Unfinished => Ok(()),
    }
}

/// What stands where a database was to be made, and what to do about it.
fn occupied_by(dir: &dyn Directory) -> String {
    let path = dir.describe();
    match read_head(dir, false) {
        // Nothing can be opened there, and nobody can say that nothing was stored.
        Ok(HeadVerdict::Missing) => format!(
            "files of a database in {path}, without their HEAD; nothing was changed. Name another directory, or see with `triune fsck {path}` \
             what is damaged, and save what is whole with `triune salvage {path} --out NEW`"
        ),
        _ => format!("a database in {path}; nothing was changed. Open it instead"),
    }
}

pub(super) fn present(dir: &dyn Directory) -> Result<Vec<String>> {
    dir.list().map_err(|e| Error::io(format!("listing {}", dir.describe()), e))
}

/// Removes what an earlier making left, and makes LOCK, of which the new lock is returned: everything is made anew, since nobody knows which
/// pages and names of it are on the disk. The caller holds the old lock, and goes on holding it.
fn start_over(dir: &dyn Directory) -> Result<LockGuard> {
    let (marks, others): (Vec<_>, Vec<_>) =
        present(dir)?.into_iter().filter(|n| ours(n)).partition(|n| [names::HEAD, names::LOCK].contains(&n.as_str()));
    // HEAD carries the mark of what was cut short, so it goes when the names of all others are gone for good: whenever this is cut short in
    // its turn, what is left says what it is.
    for names in [others, marks] {
        for name in &names {
            dir.unlink(name).map_err(|e| Error::io(format!("removing {name}, left by what was cut short here"), e))?;
        }
        dir.sync().map_err(|e| Error::io("syncing the directory", e))?;
    }
    make(dir, names::LOCK, b"")?;
    take_lock(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;
    use crate::io::SimDirectory;

    #[test]
    fn a_directory_with_a_file_of_somebody_else_is_never_emptied() {
        let disk = SimDirectory::new();
        // What a version control system keeps has a file of this name too.
        disk.write_file("HEAD", b"ref: refs/heads/main\n".to_vec());
        disk.write_file("config", b"kept".to_vec());
        let dir: Arc<dyn Directory> = Arc::new(disk.clone());
        assert_eq!(create(&dir).map_err(|e| e.code()), Err(ErrorCode::InvalidArgument));
        assert_eq!((disk.operations(), disk.file_names()), (0, vec!["HEAD".to_string(), "config".to_string()]));
        disk.remove_file("config");
        assert_eq!(look(&disk).map_err(|e| e.code()), Ok(Found::Unfinished));
    }

    #[test]
    fn files_without_their_head_are_in_the_way_and_the_message_says_what_they_are() {
        let disk = SimDirectory::new();
        disk.write_file(&FileName::Segments(1).to_string(), b"kept".to_vec());
        let dir: Arc<dyn Directory> = Arc::new(disk.clone());
        let refused = create(&dir).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::AlreadyExists);
        let said = refused.to_string();
        assert!(said.contains("without their HEAD") && said.contains("triune salvage") && !said.contains("Open it"), "{said}");
        assert_eq!((disk.operations(), disk.file_names()), (0, vec![FileName::Segments(1).to_string()]));
    }
}

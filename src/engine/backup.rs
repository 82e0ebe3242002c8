//! Copies the state of a database, at one commit, into a new directory, beside whoever writes to it.
//!
//! Immutable files are copied, or linked where that is asked for and possible; the records after the manifest are encoded again into a log of
//! their own. What was copied is read back and held against every checksum it has before HEAD names it. The original is read and nothing else.

use super::open::{State, beside_a_writer, read_state, refuse_missing};
use super::segments::open_named;
use super::unfinished::{Unfinished, abandon};
use super::verify::{Depth, NamedPart, check_part, parts_of};
use crate::error::{Error, Result};
use crate::format::head::HeadState;
use crate::ids::Lsn;
use crate::io::names::FileName;
use crate::io::{Directory, File};
use crate::manifest::read_manifest;
use crate::options::limits;
use crate::wal::{NewRecord, WalWriter};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;

/// Bytes that are copied at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// How a backup is made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BackupPlan<'a> {
    /// Link the original's immutable files where that is possible, instead of copying them.
    pub(crate) link: bool,
    /// An earlier backup: what it holds already is linked from there where that is possible.
    pub(crate) previous: Option<&'a dyn Directory>,
    /// Read what was linked too, every byte, and not only what was copied.
    pub(crate) verify: bool,
}

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BackupReport {
    /// The last commit in it.
    pub lsn: Lsn,
    /// Immutable files that were copied, read back and checked.
    pub copied_files: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Immutable files that were linked.
    pub linked_files: u64,
    /// Their bytes.
    pub linked_bytes: u64,
    /// Commits that stand in the log of the backup.
    pub logged_commits: u64,
}

/// Makes a backup in `dest`, which is new, empty, or holds what a backup that was cut short left. After an error nothing is left there.
pub(crate) fn backup(source: &dyn Directory, dest: &Arc<dyn Directory>, plan: BackupPlan<'_>) -> Result<BackupReport> {
    refuse_missing(source)?;
    let place = Unfinished::begin(dest)?;
    let filled = fill(source, dest, plan).and_then(|filled| place.complete().map(|()| filled));
    // While `place` holds the locks.
    let (report, head) = filled.inspect_err(|_| abandon(dest.as_ref()))?;
    place.publish(&head).map(|()| report)
}

/// A file of the original that the backup needs.
enum Needed {
    Copy(Arc<dyn File>),
    Linked(u64),
}

fn fill(source: &dyn Directory, dest: &Arc<dyn Directory>, plan: BackupPlan<'_>) -> Result<(BackupReport, HeadState)> {
    let (opening, state) = beside_a_writer(source, || read_state(source, false))?;
    let head = &state.view.chosen;
    let parts = parts_of(&state.manifest, &state.recovered.records)?;
    let mut needed = BTreeMap::new();
    let names: BTreeSet<FileName> = parts.iter().map(|part| part.file).collect();
    for file in names.into_iter().chain([FileName::Manifest(head.manifest_number)]) {
        needed.insert(file, need(source, dest.as_ref(), file, &parts, &state, plan)?);
    }
    // Every file is open or linked: whatever the writer removes now stays readable.
    drop(opening);
    let mut report = BackupReport { lsn: state.recovered.last_lsn, ..BackupReport::default() };
    let mut copied = BTreeSet::new();
    for (file, how) in &needed {
        match how {
            Needed::Linked(bytes) => {
                report.linked_files += 1;
                report.linked_bytes += bytes;
            }
            Needed::Copy(from) => {
                report.copied_files += 1;
                report.copied_bytes += copy(from.as_ref(), dest.as_ref(), &file.to_string())?;
                copied.insert(*file);
            }
        }
    }
    let greatest = needed.keys().map(|file| file.number()).max().unwrap_or(0);
    let wal = write_log(dest, &state, greatest + 1)?;
    report.logged_commits = state.recovered.records.len() as u64;
    let first = HeadState {
        generation: head.generation.next(),
        wal_sequence: wal.sequence(),
        wal_id: wal.id(),
        durable_lsn: state.recovered.last_lsn,
        ..head.clone()
    };
    read_manifest(dest.as_ref(), &first)?;
    for part in &parts {
        let depth = if plan.verify || copied.contains(&part.file) { Depth::EveryByte } else { Depth::Frame };
        check_part(dest.as_ref(), head.database, part, depth)?;
    }
    Ok((report, first))
}

/// Links a file where that is asked for and possible, and opens it for copying else.
fn need(
    source: &dyn Directory,
    dest: &dyn Directory,
    file: FileName,
    parts: &[NamedPart],
    state: &State,
    plan: BackupPlan<'_>,
) -> Result<Needed> {
    let name = file.to_string();
    let from = open_named(source, &name)?;
    let bytes = from.len().map_err(|e| Error::io(format!("reading the length of {name}"), e))?;
    let immutable_twin = |other: &dyn Directory| -> bool {
        let same_length = other.open(&name).and_then(|f| f.len()).is_ok_and(|len| len == bytes);
        // A backup that was written to since may have given the number to a file of its own: what the state names decides.
        let mut named = parts.iter().filter(|part| part.file == file).peekable();
        let depth = if plan.verify { Depth::EveryByte } else { Depth::Frame };
        same_length && named.peek().is_some() && named.all(|part| check_part(other, state.view.chosen.database, part, depth).is_ok())
    };
    let previous = plan.previous.filter(|previous| immutable_twin(*previous));
    for from in previous.into_iter().chain(plan.link.then_some(source)) {
        let linked = from.link_source(&name).and_then(|source| dest.link(&name, &source));
        match linked {
            Ok(()) => return Ok(Needed::Linked(bytes)),
            Err(e) if cannot_link(e.kind()) => {}
            Err(e) => return Err(Error::io(format!("linking {name}"), e)),
        }
    }
    Ok(Needed::Copy(from))
}

/// Another file system, one without links, too many of them, or somebody else's file: then it is copied.
fn cannot_link(kind: ErrorKind) -> bool {
    use ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(kind, CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}

/// Copies a file whole and syncs it; its bytes.
fn copy(from: &dyn File, dest: &dyn Directory, name: &str) -> Result<u64> {
    let reading = |e| Error::io(format!("reading {name}"), e);
    let writing = |e| Error::io(format!("writing {name} of the backup"), e);
    let length = from.len().map_err(reading)?;
    let to = dest.create_new(name).map_err(writing)?;
    let mut buffer = vec![0; CHUNK_BYTES.min(length) as usize];
    let mut at = 0;
    while at < length {
        let chunk = &mut buffer[..CHUNK_BYTES.min(length - at) as usize];
        from.read_exact_at(at, chunk).map_err(reading)?;
        to.write_all_at(at, chunk).map_err(writing)?;
        at += chunk.len() as u64;
    }
    to.sync().map_err(|e| Error::io(format!("syncing {name} of the backup"), e))?;
    Ok(length)
}

/// Encodes the records after the manifest again, into a log without a link.
fn write_log(dest: &Arc<dyn Directory>, state: &State, sequence: u64) -> Result<WalWriter> {
    let (database, applied) = (state.view.chosen.database, state.view.chosen.applied_lsn);
    let mut wal = WalWriter::create(dest, database, sequence, applied.next(), applied, None)?;
    let mut expected = applied.next();
    for record in &state.recovered.records {
        if record.lsn != expected {
            break;
        }
        wal.append(&[NewRecord { lsn: record.lsn, kind: record.kind, payload: &record.payload }])?;
        if wal.unsynced_bytes() > limits::UNSYNCED_BYTES_MAX / 2 {
            wal.sync()?;
        }
        expected = expected.next();
    }
    if wal.last_lsn() != state.recovered.last_lsn {
        return Err(Error::UnsupportedVersion(format!(
            "lsn {expected} is a record of a kind that this version does not know and would leave out; back up with the version that wrote it"
        )));
    }
    wal.sync()?;
    Ok(wal)
}

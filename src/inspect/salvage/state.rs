//! Chooses the state to start from: the manifest that HEAD names, else the best that can be believed.

use super::head;
use super::ledger::{Loss, LossKind};
use crate::error::{Error, Result};
use crate::format::checksum::crc32;
use crate::format::head::HeadState;
use crate::format::manifest::{Manifest, decode_manifest};
use crate::ids::{Lsn, Uuid};
use crate::inspect::whole;
use crate::io::Directory;
use crate::io::names::{FileName, WITNESS};
use crate::manifest;
use crate::wal::{Witness, WitnessRecord};

/// Where a salvage starts.
#[derive(Debug)]
pub(super) struct Start {
    /// The database; `None` when neither HEAD nor a manifest says it.
    pub(super) database: Option<Uuid>,
    /// The manifest; an empty one when none can be read.
    pub(super) manifest: Manifest,
    /// What it is held to be.
    pub(super) standing: Standing,
    /// What the valid slots of HEAD say, the newest first.
    pub(super) slots: Vec<HeadState>,
    /// The evidence of WITNESS, if there is any.
    pub(super) witness: Option<WitnessRecord>,
}

/// What vouches for the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// HEAD names these very bytes; or no slot of HEAD is left to name any.
    Believed,
    /// HEAD names other bytes under its number: which segments there were is not known.
    Contradicted,
    /// There is none.
    Missing,
}

impl Start {
    /// The greatest lsn that HEAD or WITNESS calls durable.
    pub(super) fn durable(&self) -> Lsn {
        let said = self.slots.iter().map(|slot| slot.durable_lsn.max(slot.applied_lsn));
        said.chain(self.witness.map(|w| w.durable_lsn)).max().unwrap_or_default()
    }
}

/// A manifest that was read.
#[derive(Debug)]
struct Candidate {
    number: u64,
    database: Uuid,
    manifest: Manifest,
    length: u64,
    crc: u32,
}

/// Reads WITNESS, HEAD and manifests as far as they can be read.
pub(super) fn choose(dir: &dyn Directory, present: &[String], ledger: &mut Vec<Loss>) -> Result<Start> {
    let witness = Witness::read(dir).unwrap_or_else(|e| {
        let reason = format!("{e}: commits at the end of the log that it alone says were synced may be lost");
        ledger.push(Loss::new(LossKind::Commits, reason).place(WITNESS, 0, None));
        None
    });
    let mut slots = head::slots(dir, ledger)?;
    let mut reasons = Vec::new();
    let mut found = exact(dir, &slots, &mut reasons)?.map(|(database, manifest)| (database, manifest, Standing::Believed));
    if found.is_none() {
        found = contradicted(dir, &slots, ledger)?.map(|c| (c.database, c.manifest, Standing::Contradicted));
    }
    if found.is_none() {
        found = scanned(dir, present, &slots, &mut reasons, ledger)?.map(|c| (c.database, c.manifest, Standing::Believed));
    }
    let Some((database, manifest, standing)) = found else {
        let reason = if reasons.is_empty() { "there is no manifest".into() } else { together(reasons) };
        ledger.push(Loss::new(LossKind::Manifest, reason));
        let database = slots.first().map(|slot| slot.database);
        return Ok(Start { database, manifest: Manifest::default(), standing: Standing::Missing, slots, witness });
    };
    slots.retain(|slot| slot.database == database);
    Ok(Start { database: Some(database), manifest, standing, slots, witness })
}

/// The manifest that a slot names, byte for byte. That of the older slot will do: whatever the newer one adds is in logs that are kept until
/// both slots name it.
fn exact(dir: &dyn Directory, slots: &[HeadState], reasons: &mut Vec<String>) -> Result<Option<(Uuid, Manifest)>> {
    for slot in slots {
        if let Some(manifest) = noted(manifest::read_manifest(dir, slot), reasons)? {
            return Ok(Some((slot.database, manifest)));
        }
    }
    Ok(None)
}

/// The manifest of the number that a slot names, which is not the one that it names; and the loss that it is.
fn contradicted(dir: &dyn Directory, slots: &[HeadState], ledger: &mut Vec<Loss>) -> Result<Option<Candidate>> {
    for slot in slots {
        let read = read(dir, slot.manifest_number, &[slot.database]);
        // What is wrong with it is known already.
        let Some(found) = noted(read, &mut Vec::new())? else { continue };
        let reason = format!(
            "HEAD names other bytes than this manifest: {} with CRC {:#010x} at lsn {}, and here are {} with CRC {:#010x} at lsn {}. It is \
             used, because no other can be: documents may be missing, be those of another time or be back after they were deleted; segments \
             that it does not name are kept as collections of their own",
            slot.manifest_length, slot.manifest_crc, slot.applied_lsn, found.length, found.crc, found.manifest.applied_lsn
        );
        let name = FileName::Manifest(found.number).to_string();
        ledger.push(Loss::new(LossKind::Manifest, reason).place(&name, 0, Some(found.length)));
        if found.manifest.applied_lsn > slot.applied_lsn {
            let reason = "that manifest says that it holds these commits; whether it holds those of this database is not known";
            ledger.push(Loss::new(LossKind::Commits, reason).lsns(slot.applied_lsn.next(), Some(found.manifest.applied_lsn)));
        }
        return Ok(Some(found));
    }
    Ok(None)
}

/// The newest manifest that can be read, whatever names it. A loss, unless nothing speaks for a newer one.
fn scanned(
    dir: &dyn Directory,
    present: &[String],
    slots: &[HeadState],
    reasons: &mut Vec<String>,
    ledger: &mut Vec<Loss>,
) -> Result<Option<Candidate>> {
    let databases: Vec<Uuid> = slots.iter().map(|slot| slot.database).collect();
    let mut numbers: Vec<u64> = present.iter().filter_map(|name| manifest_number(name)).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let (mut readable, mut newest_unread) = (Vec::new(), None);
    for number in numbers {
        match noted(read(dir, number, &databases), reasons)? {
            Some(found) => readable.push(found),
            None => newest_unread = newest_unread.or(Some(number)),
        }
    }
    if readable.is_empty() {
        return Ok(None);
    }
    // Without HEAD, one that was written and never named may be the newest: one whose files are all here is preferred.
    let whole = readable.iter().position(|c| files_of(&c.manifest).all(|name| present.contains(&name)));
    let found = readable.swap_remove(whole.unwrap_or(0));
    if !slots.is_empty() || newest_unread.is_some_and(|number| number > found.number) {
        let name = FileName::Manifest(found.number).to_string();
        let reason = format!(
            "{}; {name} is used, which may be of another time: what only the other named, and no log holds, is missing or back after it was deleted",
            together(std::mem::take(reasons))
        );
        ledger.push(Loss::new(LossKind::Manifest, reason));
    }
    Ok(Some(found))
}

/// What was read; or nothing, and the reason is noted. An error when only a newer version can tell.
fn noted<T>(read: Result<T>, reasons: &mut Vec<String>) -> Result<Option<T>> {
    match read {
        Ok(found) => return Ok(Some(found)),
        Err(e @ Error::UnsupportedVersion(_)) => return Err(e),
        // Without what an error tells to do next: it stands in a ledger.
        Err(Error::Corrupt(damage)) => reasons.push(damage.to_string()),
        Err(e) => reasons.push(e.to_string()),
    }
    Ok(None)
}

/// Each reason once: a manifest that both slots name was read twice.
fn together(mut reasons: Vec<String>) -> String {
    reasons.sort_unstable();
    reasons.dedup();
    reasons.join("; ")
}

fn manifest_number(name: &str) -> Option<u64> {
    match FileName::parse(name) {
        Some(FileName::Manifest(number)) => Some(number),
        _ => None,
    }
}

/// A manifest that passes its checksums and every invariant, of one of these databases, or of any when there are none.
fn read(dir: &dyn Directory, number: u64, databases: &[Uuid]) -> Result<Candidate> {
    let name = FileName::Manifest(number).to_string();
    let bytes = dir.open(&name).and_then(|file| whole(file.as_ref())).map_err(|e| Error::io(format!("reading {name}"), e))?;
    let (header, manifest) = decode_manifest(&bytes).map_err(|e| e.in_file(&name, 0))?;
    let database = Uuid(header.database);
    if header.number.get() != number || !(databases.is_empty() || databases.contains(&database)) {
        return Err(Error::corrupt(&name, 16, "another file stands in its place"));
    }
    manifest::check(&manifest)?;
    Ok(Candidate { number, database, manifest, length: bytes.len() as u64, crc: crc32(&bytes) })
}

/// The files that a manifest names.
pub(super) fn files_of(manifest: &Manifest) -> impl Iterator<Item = String> + '_ {
    manifest.collections.iter().flat_map(|c| &c.segments).flat_map(|entry| {
        let tombstones = entry.tombstones.as_ref().map(|t| FileName::Tombstones(t.file).to_string());
        std::iter::once(FileName::Segments(entry.file).to_string()).chain(tombstones)
    })
}

//! Chooses the state to start from: the newest manifest that can be believed.

use super::ledger::{Loss, LossKind};
use crate::error::{Error, Result};
use crate::format::head::{HEAD_BYTES, HEAD_SLOT_BYTES, HeadSlot, HeadState};
use crate::format::manifest::{Manifest, decode_manifest};
use crate::ids::{Lsn, Uuid};
use crate::inspect::whole;
use crate::io::Directory;
use crate::io::names::{FileName, HEAD, WITNESS};
use crate::manifest;
use crate::wal::Witness;

/// Where a salvage starts.
#[derive(Debug)]
pub(super) struct Start {
    /// The database; `None` when neither HEAD nor a manifest says it.
    pub(super) database: Option<Uuid>,
    /// The manifest; an empty one when none can be read.
    pub(super) manifest: Manifest,
    /// Whether one was read.
    pub(super) found: bool,
    /// What the valid slots of HEAD say, the newest first.
    pub(super) slots: Vec<HeadState>,
    /// The greatest lsn that HEAD or WITNESS calls durable.
    pub(super) durable: Lsn,
}

/// Reads HEAD, WITNESS and manifests as far as they can be read.
pub(super) fn choose(dir: &dyn Directory, present: &[String], ledger: &mut Vec<Loss>) -> Result<Start> {
    let slots = slots(dir)?;
    let mut named: Vec<u64> = slots.iter().map(|slot| slot.manifest_number).collect();
    named.dedup();
    let mut scanned: Vec<u64> = present.iter().filter_map(|name| manifest_number(name)).collect();
    scanned.sort_unstable_by(|a, b| b.cmp(a));
    let database = slots.first().map(|slot| slot.database);
    let evidence = slots.iter().map(|slot| slot.durable_lsn.max(slot.applied_lsn)).max().unwrap_or_default();
    let witness = Witness::read(dir).unwrap_or_else(|e| {
        let reason = format!("{e}: commits at the end of the log that it alone says were synced may be lost");
        ledger.push(Loss::new(LossKind::Commits, reason).place(WITNESS, 0, None));
        None
    });
    let durable = evidence.max(witness.map(|w| w.durable_lsn).unwrap_or_default());
    let mut reasons = Vec::new();
    let mut readable = Vec::new();
    for number in named.iter().chain(&scanned) {
        match read(dir, *number, database) {
            Ok(found) => readable.push(found),
            Err(Error::UnsupportedVersion(what)) => return Err(Error::UnsupportedVersion(what)),
            // Without what an error tells to do next: it stands in a ledger.
            Err(Error::Corrupt(damage)) => reasons.push(damage.to_string()),
            Err(e) => reasons.push(e.to_string()),
        }
        if named.contains(number) && !readable.is_empty() {
            break;
        }
    }
    // Without HEAD, one that was written and never named may be the newest: one whose files are all here is preferred.
    let whole = readable.iter().position(|(_, manifest)| files_of(manifest).all(|name| present.contains(&name)));
    if !readable.is_empty() {
        let (uuid, manifest) = readable.swap_remove(whole.unwrap_or(0));
        return Ok(Start { database: Some(uuid), manifest, found: true, slots, durable });
    }
    // A manifest that both slots name was read twice.
    reasons.sort_unstable();
    reasons.dedup();
    let reason = if reasons.is_empty() { "there is no manifest".into() } else { reasons.join("; ") };
    ledger.push(Loss::new(LossKind::Manifest, reason));
    let manifest = Manifest::default();
    Ok(Start { database, manifest, found: false, slots, durable })
}

fn manifest_number(name: &str) -> Option<u64> {
    match FileName::parse(name) {
        Some(FileName::Manifest(number)) => Some(number),
        _ => None,
    }
}

/// What the slots of HEAD say that are valid, the newest first.
fn slots(dir: &dyn Directory) -> Result<Vec<HeadState>> {
    let Ok(file) = dir.open(HEAD) else { return Ok(Vec::new()) };
    let mut slots = Vec::new();
    for index in 0..HEAD_BYTES / HEAD_SLOT_BYTES {
        let mut bytes = vec![0; HEAD_SLOT_BYTES];
        if file.read_exact_at((index * HEAD_SLOT_BYTES) as u64, &mut bytes).is_err() {
            continue;
        }
        let Ok(slot) = HeadSlot::decode(&bytes) else { continue };
        match slot.understand() {
            Ok(state) => slots.push(state),
            Err(e) if e.newer => return Err(e.in_file(HEAD, (index * HEAD_SLOT_BYTES) as u64)),
            Err(_) => {}
        }
    }
    slots.sort_by_key(|slot| std::cmp::Reverse(slot.generation));
    Ok(slots)
}

/// A manifest that passes its checksums and every invariant, with the database that it is of.
fn read(dir: &dyn Directory, number: u64, database: Option<Uuid>) -> Result<(Uuid, Manifest)> {
    let name = FileName::Manifest(number).to_string();
    let bytes = dir.open(&name).and_then(|file| whole(file.as_ref())).map_err(|e| Error::io(format!("reading {name}"), e))?;
    let (header, manifest) = decode_manifest(&bytes).map_err(|e| e.in_file(&name, 0))?;
    if header.number.get() != number || database.is_some_and(|uuid| uuid.0 != header.database) {
        return Err(Error::corrupt(&name, 16, "another file stands in its place"));
    }
    manifest::check(&manifest)?;
    Ok((Uuid(header.database), manifest))
}

/// The files that a manifest names.
fn files_of(manifest: &Manifest) -> impl Iterator<Item = String> + '_ {
    manifest.collections.iter().flat_map(|c| &c.segments).flat_map(|entry| {
        let tombstones = entry.tombstones.as_ref().map(|t| FileName::Tombstones(t.file).to_string());
        std::iter::once(FileName::Segments(entry.file).to_string()).chain(tombstones)
    })
}

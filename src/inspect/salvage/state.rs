//! Chooses the state to start from: the newest manifest that can be believed.

use super::ledger::{Loss, LossKind};
use crate::error::{Error, Result};
use crate::format::checksum::crc32;
use crate::format::head::{HEAD_BYTES, HEAD_SLOT_BYTES, HeadSlot, HeadState};
use crate::format::manifest::{Manifest, decode_manifest};
use crate::format::witness::WitnessRecord;
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
    /// Whether one was read, and HEAD does not say another one.
    pub(super) proved: bool,
    /// What the valid slots of HEAD say, the newest first.
    pub(super) slots: Vec<HeadState>,
    /// What WITNESS says.
    pub(super) witness: Option<WitnessRecord>,
    /// The greatest lsn that HEAD or WITNESS calls durable.
    pub(super) durable: Lsn,
}

/// A manifest that passes its checksums and every invariant.
struct Candidate {
    database: Uuid,
    manifest: Manifest,
    /// Whether HEAD names its number.
    named: bool,
    /// In which bytes it differs from what HEAD says of it, if it does.
    contradicted: Option<String>,
}

/// Reads HEAD, WITNESS and manifests as far as they can be read.
pub(super) fn choose(dir: &dyn Directory, present: &[String], ledger: &mut Vec<Loss>) -> Result<Start> {
    let slots = slots(dir)?;
    let database = slots.first().map(|slot| slot.database);
    let witness = Witness::read(dir).unwrap_or_else(|e| {
        let reason = format!("{e}: commits at the end of the log that it alone says were synced may be lost");
        ledger.push(Loss::new(LossKind::Commits, reason).place(WITNESS, 0, None));
        None
    });
    let evidence = slots.iter().map(|slot| slot.durable_lsn.max(slot.applied_lsn)).max().unwrap_or_default();
    let durable = evidence.max(witness.map(|w| w.durable_lsn).unwrap_or_default());
    let mut reasons = Vec::new();
    let mut readable = candidates(dir, present, &slots, &mut reasons)?;
    // What HEAD names counts most. Without that, one that was written and never named may be the newest: one whose files are all here is
    // preferred, and an older one, from which logs lead on, to one that HEAD contradicts.
    let whole = |c: &Candidate| files_of(&c.manifest).all(|name| present.contains(&name));
    let choices: [&dyn Fn(&Candidate) -> bool; 3] =
        [&|c| c.named && c.contradicted.is_none(), &|c| c.contradicted.is_none() && whole(c), &whole];
    let best = choices.into_iter().find_map(|choice| readable.iter().position(choice)).unwrap_or(0);
    if best < readable.len() {
        let Candidate { database, manifest, contradicted, .. } = readable.swap_remove(best);
        if let Some(what) = &contradicted {
            let reason = format!("{what}: it is of another state, so which collections and documents there were is not known");
            ledger.push(Loss::new(LossKind::Manifest, reason));
        }
        return Ok(Start { database: Some(database), manifest, proved: contradicted.is_none(), slots, witness, durable });
    }
    // A manifest that both slots name was read twice.
    reasons.sort_unstable();
    reasons.dedup();
    let reason = if reasons.is_empty() { "there is no manifest".into() } else { reasons.join("; ") };
    ledger.push(Loss::new(LossKind::Manifest, reason));
    Ok(Start { database, manifest: Manifest::default(), proved: false, slots, witness, durable })
}

/// The manifests that can be read: those that HEAD names, the newest first, and unless one of these is the one that it names, all others.
/// `reasons` has what is wrong with the rest.
fn candidates(dir: &dyn Directory, present: &[String], slots: &[HeadState], reasons: &mut Vec<String>) -> Result<Vec<Candidate>> {
    let mut scanned: Vec<u64> = present.iter().filter_map(|name| manifest_number(name)).collect();
    scanned.sort_unstable_by(|a, b| b.cmp(a));
    scanned.retain(|number| slots.iter().all(|slot| slot.manifest_number != *number));
    let named = slots.iter().map(|slot| (slot.manifest_number, Some(slot)));
    let mut readable: Vec<Candidate> = Vec::new();
    for (number, slot) in named.chain(scanned.into_iter().map(|number| (number, None))) {
        match read(dir, number, slot, slots.first().map(|slot| slot.database)) {
            Ok(found) => readable.push(found),
            Err(Error::UnsupportedVersion(what)) => return Err(Error::UnsupportedVersion(what)),
            // Without what an error tells to do next: it stands in a ledger.
            Err(Error::Corrupt(damage)) => reasons.push(damage.to_string()),
            Err(e) => reasons.push(e.to_string()),
        }
        if readable.last().is_some_and(|c| c.named && c.contradicted.is_none()) {
            break;
        }
    }
    Ok(readable)
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

/// A manifest, and whether it is the one that this slot of HEAD names.
fn read(dir: &dyn Directory, number: u64, slot: Option<&HeadState>, database: Option<Uuid>) -> Result<Candidate> {
    let name = FileName::Manifest(number).to_string();
    let bytes = dir.open(&name).and_then(|file| whole(file.as_ref())).map_err(|e| Error::io(format!("reading {name}"), e))?;
    let (header, manifest) = decode_manifest(&bytes).map_err(|e| e.in_file(&name, 0))?;
    if header.number.get() != number || database.is_some_and(|uuid| uuid.0 != header.database) {
        return Err(Error::corrupt(&name, 16, "another file stands in its place"));
    }
    manifest::check(&manifest)?;
    let contradicted = slot.and_then(|slot| {
        let found = (bytes.len() as u64, crc32(&bytes), manifest.applied_lsn);
        let said = (slot.manifest_length, slot.manifest_crc, slot.applied_lsn);
        let show = |(length, crc, lsn): (u64, u32, Lsn)| format!("{length} bytes, crc {crc:#010x}, lsn {lsn}");
        (found != said).then(|| format!("HEAD says of {name} {}, and here are {}", show(said), show(found)))
    });
    Ok(Candidate { database: Uuid(header.database), manifest, named: slot.is_some(), contradicted })
}

/// The files that a manifest names.
fn files_of(manifest: &Manifest) -> impl Iterator<Item = String> + '_ {
    manifest.collections.iter().flat_map(|c| &c.segments).flat_map(|entry| {
        let tombstones = entry.tombstones.as_ref().map(|t| FileName::Tombstones(t.file).to_string());
        std::iter::once(FileName::Segments(entry.file).to_string()).chain(tombstones)
    })
}

//! What HEAD says, as far as it can be read.

use super::ledger::{Loss, LossKind};
use crate::error::Result;
use crate::format::head::{HEAD_BYTES, HEAD_SLOT_BYTES, HeadSlot, HeadState};
use crate::io::Directory;
use crate::io::names::HEAD;
use std::io::{Error, ErrorKind};

/// What the slots say that are valid, the newest first. One that is not valid is no loss: the other has the same content, or names the state
/// before a publishing that was never finished, and that state has every commit. Of one that the system does not let be read nobody has seen
/// whether it is valid: that goes to the ledger, and so do two that contradict each other.
pub(super) fn slots(dir: &dyn Directory, ledger: &mut Vec<Loss>) -> Result<Vec<HeadState>> {
    let file = match dir.open(HEAD) {
        Ok(file) => file,
        Err(e) => {
            // What stands in its place, if it is no file, says nothing either.
            if ![ErrorKind::NotFound, ErrorKind::InvalidInput, ErrorKind::IsADirectory].contains(&e.kind()) {
                ledger.push(unreadable("HEAD", 0, HEAD_BYTES, &e));
            }
            return Ok(Vec::new());
        }
    };
    let mut slots = Vec::new();
    for index in 0..HEAD_BYTES / HEAD_SLOT_BYTES {
        let at = (index * HEAD_SLOT_BYTES) as u64;
        let mut bytes = vec![0; HEAD_SLOT_BYTES];
        if let Err(e) = file.read_exact_at(at, &mut bytes) {
            if e.kind() != ErrorKind::UnexpectedEof {
                ledger.push(unreadable(&format!("slot {index} of HEAD"), at, HEAD_SLOT_BYTES, &e));
            }
            continue;
        }
        let Ok(slot) = HeadSlot::decode(&bytes) else { continue };
        match slot.understand() {
            Ok(state) => slots.push(state),
            Err(e) if e.newer => return Err(e.in_file(HEAD, at)),
            Err(_) => {}
        }
    }
    slots.sort_by_key(|slot| std::cmp::Reverse(slot.generation));
    ledger.extend(conflict(&slots));
    Ok(slots)
}

fn unreadable(what: &str, at: u64, length: usize, e: &Error) -> Loss {
    let reason = format!("{what} cannot be read ({e}): if it names a newer state than was found, the commits that lead to it are lost");
    Loss::new(LossKind::Commits, reason).place(HEAD, at, Some(length as u64))
}

/// Two slots of which nobody can say which counts.
fn conflict(slots: &[HeadState]) -> Option<Loss> {
    let [newer, older] = slots else { return None };
    let what = if newer.database != older.database {
        "of two databases"
    } else if newer.generation == older.generation && newer != older {
        "of one generation, and say different things"
    } else {
        return None;
    };
    let reason = format!(
        "both slots of HEAD are valid and {what}: one names manifest {}, the other {}, and which state is the last one is not known",
        newer.manifest_number, older.manifest_number
    );
    Some(Loss::new(LossKind::Manifest, reason).place(HEAD, 0, Some(HEAD_BYTES as u64)))
}

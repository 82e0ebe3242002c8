//! Reads the two slots and chooses.

use crate::error::{Error, Result};
use crate::format::error::FormatError;
use crate::format::head::{HEAD_BYTES, HEAD_SLOT_BYTES, HeadSlot, HeadState, is_marked_unfinished};
use crate::ids::Generation;
use crate::io::Directory;
use crate::io::names::HEAD;
use std::io::ErrorKind;

/// What HEAD says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is one, for a moment, at each open")]
pub enum HeadVerdict {
    /// There is no such file.
    Missing,
    /// Neither slot is valid: an unfinished create, or damage. The directory's other files tell which.
    NoValidSlot {
        /// Whether every byte of the file is zero, as `create` makes it.
        all_zero: bool,
    },
    /// This is the state.
    Valid(HeadView),
}

/// The chosen slot, and what the other one is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadView {
    /// What the chosen slot says.
    pub chosen: HeadState,
    /// Its index, 0 or 1.
    pub chosen_slot: usize,
    /// What the other slot says, when it is valid too. What it reaches may not be unlinked either.
    pub other: Option<HeadState>,
    /// The chosen slot as it stands on the disk, to be written again byte for byte.
    pub(super) bytes: Box<HeadSlot>,
    /// The generation in the other slot, when it is valid.
    pub(super) other_generation: Option<Generation>,
}

/// Reads HEAD and chooses the valid slot of the greatest generation.
///
/// A slot that passes its checksum but needs a newer version is [`Error::UnsupportedVersion`] when its generation is the greatest; with
/// `writing`, also when it is the other one, because a writer would overwrite it, and when the chosen slot has a feature that only readers
/// may ignore. Two slots of one generation and different content, and slots of two databases, are [`Error::Corrupt`].
pub fn read_head(dir: &dyn Directory, writing: bool) -> Result<HeadVerdict> {
    let Some(bytes) = read_bytes(dir)? else {
        return Ok(HeadVerdict::Missing);
    };
    let slots = [slot_at(&bytes, 0), slot_at(&bytes, 1)];
    let chosen_slot = match &slots {
        [None, None] => return Ok(HeadVerdict::NoValidSlot { all_zero: bytes.iter().all(|&b| b == 0) }),
        [Some(_), None] => 0,
        [None, Some(_)] => 1,
        [Some(a), Some(b)] if a.generation == b.generation && a != b => {
            let what = format!("both slots are valid and have generation {}, but their contents differ", a.generation);
            return Err(Error::corrupt(HEAD, 0, what));
        }
        [Some(a), Some(b)] => usize::from(b.generation.get() > a.generation.get()),
    };
    let in_slot = |index: usize| move |e: FormatError| e.in_file(HEAD, (index * HEAD_SLOT_BYTES) as u64);
    let bytes = slots[chosen_slot].expect("a slot that was chosen is there");
    let chosen = bytes.understand().map_err(in_slot(chosen_slot))?;
    let other_slot = 1 - chosen_slot;
    let other = match slots[other_slot].map(|slot| slot.understand()) {
        None => None,
        Some(Ok(state)) => Some(state),
        Some(Err(e)) if e.newer && !writing => None,
        Some(Err(e)) => return Err(in_slot(other_slot)(e)),
    };
    if let Some(other) = other.as_ref().filter(|other| other.database != chosen.database) {
        let what = format!("the slots name two databases, {} and {}", chosen.database, other.database);
        return Err(Error::corrupt(HEAD, (other_slot * HEAD_SLOT_BYTES) as u64, what));
    }
    if writing {
        for (index, slot) in slots.iter().enumerate() {
            slot.map_or(Ok(()), |slot| slot.writable()).map_err(in_slot(index))?;
        }
    }
    let other_generation = slots[other_slot].map(|slot| Generation(slot.generation.get()));
    Ok(HeadVerdict::Valid(HeadView { chosen, chosen_slot, other, bytes: Box::new(bytes), other_generation }))
}

/// Whether HEAD carries the mark of a restore or a backup that is not finished. Means something only when no slot is valid.
pub fn is_unfinished(dir: &dyn Directory) -> Result<bool> {
    Ok(read_bytes(dir)?.is_some_and(|bytes| is_marked_unfinished(&bytes)))
}

/// The bytes of HEAD, at most two slots; `None` when there is no such file.
fn read_bytes(dir: &dyn Directory) -> Result<Option<Vec<u8>>> {
    let failed = |e| Error::io("reading HEAD", e);
    let file = match dir.open(HEAD) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io("opening HEAD", e)),
    };
    let length = file.len().map_err(failed)?.min(HEAD_BYTES as u64);
    let mut bytes = vec![0; usize::try_from(length).expect("at most two slots")];
    file.read_exact_at(0, &mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

/// The slot `index`, when its frame is sound.
fn slot_at(bytes: &[u8], index: usize) -> Option<HeadSlot> {
    HeadSlot::decode(bytes.get(index * HEAD_SLOT_BYTES..(index + 1) * HEAD_SLOT_BYTES)?).ok()
}

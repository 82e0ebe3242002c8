//! Writes the slots of HEAD: the commit point of everything but a commit.

use super::head::HeadView;
use crate::error::{Error, Result};
use crate::format::head::{HEAD_BYTES, HEAD_SLOT_BYTES, HeadSlot, HeadState, unfinished_head};
use crate::format::sabotage::{Rule, breaks};
use crate::ids::Generation;
use crate::io::names::HEAD;
use crate::io::{Directory, File};
use std::sync::Arc;
use zerocopy::IntoBytes;

/// The only writer of HEAD.
///
/// After an error of [`Publisher::settle`] or [`Publisher::publish`] it is not known which of two states a later open finds. An error of a
/// write leaves the publisher usable, so that room can be made and the publishing tried again; nothing else may be written to the database
/// before one succeeds. After an error of a sync it answers [`Error::Poisoned`] for good.
#[derive(Debug)]
pub struct Publisher {
    file: Arc<dyn File>,
    /// What the slot of the greatest generation says.
    current: HeadState,
    /// That slot's index.
    slot: usize,
    /// That slot, byte for byte.
    bytes: Box<HeadSlot>,
    /// Whether the other slot was valid when it was read, or has been written and synced since.
    other_valid: bool,
    /// Whether the other slot is valid and says the same, but for its generation.
    alike: bool,
    settled: bool,
    poisoned: bool,
}

/// Creates HEAD as zeros and syncs it. The caller syncs the directory before the first slot is written.
pub fn create_head(dir: &dyn Directory) -> Result<Arc<dyn File>> {
    create_filled(dir, &[0; HEAD_BYTES])
}

/// As [`create_head`], with the mark of a restore or a backup that is not finished in both slots.
pub fn create_unfinished_head(dir: &dyn Directory) -> Result<Arc<dyn File>> {
    create_filled(dir, &unfinished_head())
}

fn create_filled(dir: &dyn Directory, bytes: &[u8]) -> Result<Arc<dyn File>> {
    let file = dir.create_new(HEAD).map_err(|e| Error::io("creating HEAD", e))?;
    file.write_all_at(0, bytes).map_err(|e| Error::io("writing HEAD", e))?;
    file.sync().map_err(|e| Error::io("syncing HEAD", e))?;
    Ok(file)
}

impl Publisher {
    /// Opens HEAD for writing as `view` found it. Writes nothing.
    pub fn open(dir: &dyn Directory, view: &HeadView) -> Result<Publisher> {
        let file = dir.open_writable(HEAD).map_err(|e| Error::io("opening HEAD for writing", e))?;
        Ok(Publisher {
            file,
            current: view.chosen.clone(),
            slot: view.chosen_slot,
            bytes: view.bytes.clone(),
            other_valid: view.other_generation.is_some(),
            alike: view.other.as_ref().is_some_and(|other| {
                other.generation.next() == view.chosen.generation && same_but_for_generation(other, &view.chosen)
            }),
            settled: false,
            poisoned: false,
        })
    }

    /// Publishes the first state of a new database into what [`create_head`] or [`create_unfinished_head`] made, both slots: with the
    /// generation of `first`, or 1 when that is 0, and the next. Every file that `first` names, HEAD's own name and the directory's are
    /// durable before.
    pub fn first_publish(file: Arc<dyn File>, first: &HeadState) -> Result<Publisher> {
        let current = HeadState { generation: Generation(first.generation.0.saturating_sub(1)), ..first.clone() };
        let bytes = Box::new(HeadSlot::encode(&current, 0));
        let mut publisher = Publisher { file, current, slot: 1, bytes, other_valid: false, alike: false, settled: true, poisoned: false };
        publisher.publish(first)?;
        Ok(publisher)
    }

    /// A writer's first write: nothing may rest on pages that were never synced. Writes the chosen slot again, byte for byte in its own
    /// place, and syncs; when the other slot is invalid, writes it there instead, with the next generation but one. Once done, does nothing.
    ///
    /// A gap between the generations tells that the older slot was not known to be synced when the younger one was written: a kill here may
    /// leave both unsynced.
    pub fn settle(&mut self) -> Result<()> {
        if self.settled {
            return Ok(());
        }
        self.refuse_if_poisoned()?;
        self.refuse_last_generation()?;
        if self.other_valid && !breaks(Rule::SettleInPlace) {
            self.write_slot(self.slot, &self.bytes.clone())?;
        } else {
            self.write_other(&self.current.clone(), 2)?;
        }
        self.settled = true;
        Ok(())
    }

    /// Makes `next` the state (its generation is ignored): writes the slot of the lower generation and syncs, which is the commit point, then
    /// the other one with the next generation and the same content, and syncs. Returns the generation then reached. Every file that `next`
    /// names is durable before, name and all; only after this returns may files be unlinked.
    pub fn publish(&mut self, next: &HeadState) -> Result<Generation> {
        self.refuse_if_poisoned()?;
        assert!(self.settled, "a writer settles HEAD before it publishes");
        self.refuse_last_generation()?;
        self.write_other(next, 1)?;
        if breaks(Rule::BothSlots) {
            self.alike = true;
            return Ok(self.current.generation);
        }
        self.write_other(next, 1)?;
        Ok(self.current.generation)
    }

    /// Either call writes two generations at most.
    fn refuse_last_generation(&self) -> Result<()> {
        Error::refuse_counter("generation", self.current.generation.0.saturating_add(2))
    }

    /// Whether both slots say the same and one of them was synced: the second of a publish is written after the first was synced.
    pub fn is_even(&self) -> bool {
        self.alike
    }

    /// Makes both slots say what the current one says, if they do not yet. Files that only the other slot reached may be unlinked after it.
    pub fn even(&mut self) -> Result<()> {
        if self.alike {
            return Ok(());
        }
        self.publish(&self.current.clone()).map(drop)
    }

    /// Whether a sync of HEAD failed, so that nothing can be published any more and the outcome of that call is unknown for good.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// What the slot of the greatest generation says.
    pub fn current(&self) -> &HeadState {
        &self.current
    }

    /// Writes `state` with the generation `step` on into the slot that does not hold the current one, syncs, and makes it the current one.
    fn write_other(&mut self, state: &HeadState, step: u64) -> Result<()> {
        let state = HeadState { generation: Generation(self.current.generation.0 + step), ..state.clone() };
        let bytes = Box::new(HeadSlot::encode(&state, self.bytes.compatible.get()));
        let slot = 1 - self.slot;
        self.alike = false;
        self.write_slot(slot, &bytes)?;
        self.alike = self.other_valid && same_but_for_generation(&state, &self.current);
        (self.current, self.slot, self.bytes, self.other_valid) = (state, slot, bytes, true);
        Ok(())
    }

    fn write_slot(&mut self, slot: usize, bytes: &HeadSlot) -> Result<()> {
        let at = (slot * HEAD_SLOT_BYTES) as u64;
        self.file.write_all_at(at, bytes.as_bytes()).map_err(|e| Error::io(format!("writing slot {slot} of HEAD"), e))?;
        self.file.sync().map_err(|e| {
            self.poisoned = true;
            Error::io("syncing HEAD", e)
        })
    }

    fn refuse_if_poisoned(&self) -> Result<()> {
        if self.poisoned {
            return Err(Error::Poisoned("an earlier sync of HEAD failed; reopen the database, which finds out what is durable".into()));
        }
        Ok(())
    }
}

fn same_but_for_generation(a: &HeadState, b: &HeadState) -> bool {
    HeadState { generation: b.generation, ..a.clone() } == *b
}

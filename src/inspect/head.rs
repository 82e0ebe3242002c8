//! HEAD: the two slots, and which of them is the state.

use super::findings::{Findings, located, what};
use crate::error::Result;
use crate::format::head::{HEAD_BYTES, HEAD_SLOT_BYTES, HeadSlot, HeadState, is_marked_unfinished};
use crate::io::Directory;
use crate::io::names::{FileName, HEAD};
use crate::manifest::{HeadVerdict, read_head};

/// HEAD as it was read.
#[derive(Debug)]
pub(super) struct HeadFile {
    slots: [Slot; 2],
    verdict: Result<HeadVerdict>,
    /// Why no byte of it could be read.
    unread: Option<String>,
    length: u64,
    /// Whether it carries the mark of a restore or a backup that is not finished.
    marked: bool,
}

/// One slot.
#[derive(Debug)]
struct Slot {
    /// The slot as it stands, when its checksum holds.
    frame: std::result::Result<HeadSlot, String>,
    /// What it says, when this version understands it.
    state: std::result::Result<HeadState, String>,
}

impl Slot {
    fn decode(bytes: &[u8], index: usize) -> Slot {
        let at = (index * HEAD_SLOT_BYTES) as u64;
        let bytes = bytes.get(index * HEAD_SLOT_BYTES..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(HEAD_SLOT_BYTES)];
        if bytes.len() == HEAD_SLOT_BYTES && bytes.iter().all(|&b| b == 0) {
            let unwritten = format!("byte {at}: it is all zeros, as it is before its first writing");
            return Slot { frame: Err(unwritten.clone()), state: Err(unwritten) };
        }
        let frame = HeadSlot::decode(bytes).map_err(|e| located(e, at));
        let state = frame.clone().and_then(|slot| slot.understand().map_err(|e| located(e, at)));
        Slot { frame, state }
    }
}

impl HeadFile {
    /// Reads it as far as it can be read.
    pub(super) fn read(dir: &dyn Directory) -> HeadFile {
        let read = dir.open(HEAD).and_then(|file| {
            let length = file.len()?;
            let mut bytes = vec![0; length.min(HEAD_BYTES as u64) as usize];
            file.read_exact_at(0, &mut bytes)?;
            Ok((bytes, length))
        });
        let (bytes, length, unread) = match read {
            Ok((bytes, length)) => (bytes, length, None),
            Err(e) => (Vec::new(), 0, Some(format!("reading: {e}"))),
        };
        let marked = is_marked_unfinished(&bytes);
        HeadFile { slots: [Slot::decode(&bytes, 0), Slot::decode(&bytes, 1)], verdict: read_head(dir, true), unread, length, marked }
    }

    /// What each slot says that can be understood, with its index.
    pub(super) fn states(&self) -> impl Iterator<Item = (usize, &HeadState)> {
        self.slots.iter().enumerate().filter_map(|(i, slot)| slot.state.as_ref().ok().map(|state| (i, state)))
    }

    /// What the chosen slot says.
    pub(super) fn chosen(&self) -> Option<&HeadState> {
        match &self.verdict {
            Ok(HeadVerdict::Valid(view)) => Some(&view.chosen),
            Ok(HeadVerdict::Missing | HeadVerdict::NoValidSlot { .. }) | Err(_) => None,
        }
    }

    /// Whether both slots can be understood, so that everything they reach is known.
    pub(super) fn is_whole(&self) -> bool {
        self.slots.iter().all(|slot| slot.state.is_ok())
    }

    /// Its fields and the first thing wrong.
    pub(super) fn describe(&self, findings: &mut Findings) {
        if let Some(unread) = &self.unread {
            return findings.problem(unread);
        }
        let chosen = match &self.verdict {
            Ok(HeadVerdict::Valid(view)) => Some(view.chosen_slot),
            Ok(HeadVerdict::Missing | HeadVerdict::NoValidSlot { .. }) | Err(_) => None,
        };
        findings.field("chosen", chosen.map_or("neither slot".into(), |slot| format!("slot {slot}")));
        for (index, slot) in self.slots.iter().enumerate() {
            slot.describe(index, chosen == Some(index), findings);
        }
        match &self.verdict {
            Err(e) => findings.problem(what(e)),
            Ok(HeadVerdict::Missing) => findings.problem("the file is missing"),
            Ok(HeadVerdict::NoValidSlot { all_zero: true }) => {
                findings.problem("byte 0: neither slot was written; an unfinished create leaves it so");
            }
            Ok(HeadVerdict::NoValidSlot { .. }) if self.marked => {
                findings.problem("byte 0: a restore or a backup was cut short here; nothing in it counts");
            }
            Ok(HeadVerdict::NoValidSlot { all_zero: false }) => {
                findings.problem(format!("neither slot is valid; slot 0: {}", self.fault(0)))
            }
            Ok(HeadVerdict::Valid(view)) => {
                let other = 1 - view.chosen_slot;
                if self.slots[other].state.is_err() {
                    findings.problem(format!("slot {other}: {}. Slot {} is valid and counts", self.fault(other), view.chosen_slot));
                }
            }
        }
        if self.length > HEAD_BYTES as u64 {
            findings.problem(format!("byte {HEAD_BYTES}: {} bytes follow the two slots", self.length - HEAD_BYTES as u64));
        }
    }

    fn fault(&self, index: usize) -> &str {
        self.slots[index].state.as_ref().err().map_or("it is valid", String::as_str)
    }
}

impl Slot {
    fn describe(&self, index: usize, chosen: bool, findings: &mut Findings) {
        let key = |what: &str| format!("slot {index} {what}");
        let verdict = match &self.state {
            Ok(_) if chosen => "valid, chosen".to_string(),
            Ok(_) => "valid".to_string(),
            Err(e) => e.clone(),
        };
        findings.field(format!("slot {index}"), verdict);
        if let Ok(frame) = &self.frame {
            findings.field(key("generation"), frame.generation);
            findings.field(key("version"), format_args!("{}.{}", frame.major, frame.minor));
            let flags = [frame.compatible.get(), frame.read_only_compatible.get(), frame.incompatible.get()];
            if flags != [0; 3] {
                let [compatible, reading, incompatible] = flags;
                let said = format!("compatible {compatible:#x}, read-only-compatible {reading:#x}, incompatible {incompatible:#x}");
                findings.field(key("features"), said);
            }
        }
        let Ok(state) = &self.state else { return };
        findings.field(key("database"), state.database);
        let manifest = FileName::Manifest(state.manifest_number);
        let said = format!("{manifest}, {} bytes, checksum {:#010x}", state.manifest_length, state.manifest_crc);
        findings.field(key("manifest"), said);
        findings.field(key("applied lsn"), state.applied_lsn);
        findings.field(key("log"), format_args!("{}, identity {}", FileName::Wal(state.wal_sequence), state.wal_id));
        findings.field(key("durable lsn"), state.durable_lsn);
    }
}

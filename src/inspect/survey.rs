//! The first pass: everything that names files, read as far as it can be read.

use super::head::HeadFile;
use super::log::{LogSurvey, NamedPart};
use super::manifest::{self, ManifestFile};
use crate::error::Result;
use crate::format::head::HeadState;
use crate::format::manifest::{Manifest, SegmentEntry, TombstoneEntry};
use crate::format::wal::Link;
use crate::format::witness::WitnessRecord;
use crate::ids::{Lsn, Uuid};
use crate::io::Directory;
use crate::io::names::{self, FileName};
use crate::tombstones::TombstonesPart;
use crate::wal::Witness;
use std::collections::{BTreeMap, BTreeSet};

/// What was read, and what it names.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) head: HeadFile,
    pub(super) manifests: BTreeMap<u64, ManifestFile>,
    /// Of each manifest that a slot names, whether it is the one that the slot means.
    pub(super) named_manifests: BTreeMap<u64, Result<()>>,
    pub(super) logs: BTreeMap<u64, LogSurvey>,
    /// By sequence of the predecessor, the link of the log that continues it, and that log's name.
    pub(super) continued: BTreeMap<u64, (Link, String)>,
    witness: Option<WitnessRecord>,
    present: BTreeSet<String>,
    /// Files that the state reaches, and what names each.
    reached: BTreeMap<String, BTreeSet<String>>,
    /// Whether everything that may name a file could be read.
    whole: bool,
}

/// What names a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// These do: the state reaches it.
    By(Vec<String>),
    /// Nothing does.
    Nobody,
    /// Nothing that could be read does.
    Unknown,
}

/// A segment that a manifest or a log names.
#[derive(Debug)]
pub(super) struct NamedSegment<'a> {
    pub(super) entry: &'a SegmentEntry,
    /// The database of whoever names it.
    pub(super) database: Uuid,
    /// For people: by what, and of which collection.
    pub(super) by: String,
}

/// An envelope that a manifest or a log names.
#[derive(Debug)]
pub(super) struct NamedEnvelope {
    pub(super) part: TombstonesPart,
    /// Rows of the segment whose tombstones it holds; `None` for dying seqs.
    pub(super) rows: Option<u32>,
    pub(super) by: String,
}

impl Survey {
    /// Reads HEAD, WITNESS, every manifest and every log among the names in `present`.
    pub(super) fn of(dir: &dyn Directory, present: &[String]) -> Survey {
        // As opening does: evidence first, so that it is never newer than the logs.
        let witness = Witness::read(dir).ok().flatten();
        let head = HeadFile::read(dir);
        let named_manifests = head.states().map(|(_, state)| (state.manifest_number, manifest::check_named(dir, state))).collect();
        let numbered = || present.iter().filter_map(|name| FileName::parse(name));
        let manifests = numbered().filter(|name| matches!(name, FileName::Manifest(_)));
        let manifests = manifests.map(|name| (name.number(), ManifestFile::read(dir, name.number()))).collect();
        let logs = numbered().filter(|name| matches!(name, FileName::Wal(_)));
        let logs: BTreeMap<u64, LogSurvey> = logs.map(|name| (name.number(), LogSurvey::read(dir, name.number()))).collect();
        let continued = logs.iter().filter_map(|(&sequence, log)| {
            let link = log.link()?;
            Some((link.sequence, (link, FileName::Wal(sequence).to_string())))
        });
        let continued = continued.collect();
        let present = present.iter().cloned().collect();
        let (reached, whole) = (BTreeMap::new(), true);
        let mut survey = Survey { head, manifests, named_manifests, logs, continued, witness, present, reached, whole };
        survey.reach();
        survey
    }

    /// Follows what the slots name, as far as that can be read.
    fn reach(&mut self) {
        let states: Vec<(usize, HeadState)> = self.head.states().map(|(i, state)| (i, state.clone())).collect();
        let (mut reached, mut whole) = (BTreeMap::new(), self.head.is_whole());
        let mut note = |name: FileName, by: &str| {
            reached.entry(name.to_string()).or_insert_with(BTreeSet::new).insert(by.to_string());
        };
        for (slot, state) in &states {
            let by = format!("{} slot {slot}", names::HEAD);
            note(FileName::Manifest(state.manifest_number), &by);
            match self.manifests.get(&state.manifest_number).map(|file| &file.body) {
                Some(Ok(manifest)) => {
                    let by = FileName::Manifest(state.manifest_number).to_string();
                    for (entry, tombstones) in segments_of(manifest) {
                        note(FileName::Segments(entry.file), &by);
                        tombstones.into_iter().for_each(|t| note(FileName::Tombstones(t.file), &by));
                    }
                }
                Some(Err(_)) | None => whole = false,
            }
            whole &= self.follow(state, by, &mut note);
        }
        (self.reached, self.whole) = (reached, whole);
    }

    /// Follows the logs of a slot back to its manifest; whether all of them could be read.
    fn follow(&self, state: &HeadState, by: String, note: &mut impl FnMut(FileName, &str)) -> bool {
        let (mut sequence, mut by) = (state.wal_sequence, by);
        let mut whole = true;
        loop {
            let name = FileName::Wal(sequence);
            note(name, &by);
            by = name.to_string();
            let Some((log, header)) = self.logs.get(&sequence).and_then(|log| Some((log, log.header?))) else {
                return false;
            };
            whole &= log.is_whole();
            for named in log.names.iter().filter(|named| named.lsn > state.applied_lsn) {
                let file = match &named.what {
                    NamedPart::Segment(entry) => FileName::Segments(entry.file),
                    NamedPart::Dying { number, .. } => FileName::Tombstones(*number),
                };
                note(file, &by);
            }
            // A link leads to a lower sequence (the decoder checks it), so this ends.
            match log.link() {
                Some(link) if header.first_lsn.get() - 1 > state.applied_lsn.0 => sequence = link.sequence,
                _ => return whole,
            }
        }
    }

    /// What names a file.
    pub(super) fn naming(&self, name: &str) -> Naming {
        match self.reached.get(name) {
            Some(by) => Naming::By(by.iter().cloned().collect()),
            None if self.whole => Naming::Nobody,
            None => Naming::Unknown,
        }
    }

    /// Whether a file that nothing names is a log before the active one: a writer leaves the last one of the process before there.
    pub(super) fn is_superseded(&self, file: FileName) -> bool {
        let active = self.head.chosen().map(|state| state.wal_sequence);
        matches!((file, active), (FileName::Wal(sequence), Some(active)) if sequence < active)
    }

    /// Files that are needed and are not there, with what to say of each.
    pub(super) fn missing(&self) -> Vec<(String, String)> {
        let absent = |name: &str| !self.present.contains(name);
        let named = self.reached.iter().filter(|(name, _)| absent(name));
        let mut missing: Vec<(String, String)> = named
            .map(|(name, by)| {
                let by: Vec<&str> = by.iter().map(String::as_str).collect();
                (name.clone(), format!("the file is missing, but {} names it", by.join(", ")))
            })
            .collect();
        let ours = |name: &String| [names::HEAD, names::LOCK].contains(&name.as_str()) || FileName::parse(name).is_some();
        if self.present.iter().any(ours) {
            let needed = [names::HEAD, names::LOCK].into_iter().filter(|name| absent(name));
            missing
                .extend(needed.map(|name| (name.to_string(), "the file is missing, and other files of a database are here".to_string())));
        }
        missing
    }

    /// The greatest lsn of the log `sequence` that HEAD or WITNESS calls durable.
    pub(super) fn evidence(&self, sequence: u64, id: Option<Uuid>) -> Lsn {
        let witness = self.witness.filter(|w| Some(w.wal_id) == id).map(|w| w.durable_lsn);
        let chosen = self.head.chosen().filter(|state| state.wal_sequence == sequence && Some(state.wal_id) == id);
        // What the manifest holds needs no record.
        let head = chosen.filter(|state| state.durable_lsn > state.applied_lsn).map(|state| state.durable_lsn);
        witness.max(head).unwrap_or_default()
    }

    /// The segments in the file `number` that any readable manifest or log names, by offset, each once.
    pub(super) fn segments_in(&self, number: u64) -> Vec<NamedSegment<'_>> {
        let mut found: Vec<NamedSegment<'_>> = Vec::new();
        for (manifest, file) in &self.manifests {
            let (Some(database), Ok(body)) = (file.database(), &file.body) else { continue };
            for c in &body.collections {
                let by = || format!("{} for collection {:?}", FileName::Manifest(*manifest), c.name);
                let here = c.segments.iter().filter(|s| s.file == number);
                found.extend(here.map(|entry| NamedSegment { entry, database, by: by() }));
            }
        }
        for (sequence, log) in &self.logs {
            let Some(header) = log.header else { continue };
            for named in &log.names {
                if let NamedPart::Segment(entry) = &named.what
                    && entry.file == number
                {
                    let by = format!("{} at lsn {}", FileName::Wal(*sequence), named.lsn);
                    found.push(NamedSegment { entry, database: Uuid(header.database), by });
                }
            }
        }
        let place = |s: &NamedSegment<'_>| (s.entry.offset, s.entry.length, s.entry.crc);
        found.sort_by_key(place);
        found.dedup_by_key(|s| place(s));
        found
    }

    /// The envelopes in the file `number` that any readable manifest or log names, by offset, each once.
    pub(super) fn envelopes_in(&self, number: u64) -> Vec<NamedEnvelope> {
        let mut found = Vec::new();
        for (manifest, file) in &self.manifests {
            let Ok(body) = &file.body else { continue };
            for (entry, t) in segments_of(body).filter_map(|(entry, t)| Some((entry, t?))).filter(|(_, t)| t.file == number) {
                found.push(NamedEnvelope {
                    part: TombstonesPart { offset: t.offset, length: t.length, crc: t.crc },
                    rows: Some(u32::try_from(entry.rows).unwrap_or(u32::MAX)),
                    by: FileName::Manifest(*manifest).to_string(),
                });
            }
        }
        for (sequence, log) in &self.logs {
            for named in &log.names {
                if let NamedPart::Dying { number: file, length, crc } = named.what
                    && file == number
                {
                    let part = TombstonesPart { offset: TombstonesPart::FIRST_OFFSET, length, crc };
                    found.push(NamedEnvelope { part, rows: None, by: FileName::Wal(*sequence).to_string() });
                }
            }
        }
        let place = |e: &NamedEnvelope| (e.part.offset, e.part.length, e.part.crc);
        found.sort_by_key(place);
        found.dedup_by_key(|e| place(e));
        found
    }

    /// The database, as far as HEAD says.
    pub(super) fn database(&self) -> Option<Uuid> {
        self.head.chosen().or_else(|| self.head.states().map(|(_, state)| state).next()).map(|state| state.database)
    }
}

/// Every segment of a manifest, with its tombstones.
fn segments_of(manifest: &Manifest) -> impl Iterator<Item = (&SegmentEntry, Option<&TombstoneEntry>)> {
    manifest.collections.iter().flat_map(|c| &c.segments).map(|s| (s, s.tombstones.as_ref()))
}

//! Level 0: which state the database is in, and whether everything that it names is there.

use super::codes::FindingCode as Code;
use super::names::{self as naming, Names, is_ours};
use super::report::FsckReport;
use super::{FsckOptions, small};
use crate::error::{Error, Result};
use crate::format::effects::{CommitEffects, DeadSet};
use crate::format::head::{HEAD_BYTES, HeadState};
use crate::format::manifest::{Manifest, SegmentEntry};
use crate::ids::{Incarnation, Lsn, Uuid};
use crate::io::names::{self, FileName};
use crate::io::{Directory, File};
use crate::manifest::{HeadVerdict, HeadView, read_head, read_manifest};
use crate::segment::SegmentReader;
use crate::tombstones::TombstonesReader;
use crate::wal::{LoggedRecord, Recovered, Tail, Witness, recover};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A segment of the state.
#[derive(Debug, Clone)]
pub(super) struct NamedSegment {
    pub(super) entry: SegmentEntry,
    pub(super) incarnation: Incarnation,
    /// The collection's name when the segment came to it.
    pub(super) collection: String,
    /// The commit that landed it; 0 when the manifest names it.
    pub(super) landed: Lsn,
    /// Whether its frame was read.
    pub(super) sound: bool,
}

/// A record of the log with what it did.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) lsn: Lsn,
    pub(super) file: Arc<str>,
    pub(super) offset: u64,
    pub(super) effects: CommitEffects,
}

/// What HEAD, the manifest and the logs say, and the files open.
#[derive(Debug)]
pub(super) struct State {
    pub(super) database: Uuid,
    pub(super) manifest: Manifest,
    pub(super) manifest_file: String,
    pub(super) commits: Vec<Commit>,
    /// Whether every record after the manifest was understood, so that what they did is known.
    pub(super) log_whole: bool,
    pub(super) segments: Vec<NamedSegment>,
    /// The only collection that is checked, if one was named.
    pub(super) only: Option<Incarnation>,
    /// Open files by number; one that is missing is not here.
    pub(super) segment_files: BTreeMap<u64, Arc<dyn File>>,
    pub(super) tombstones: BTreeMap<u64, (TombstonesReader, Arc<dyn File>)>,
}

impl State {
    /// Reads the state and notes what is wrong with it. `None` when nothing can be said beyond that.
    pub(super) fn read(dir: &dyn Directory, options: &FsckOptions, report: &mut FsckReport) -> Result<Option<State>> {
        let present = dir.list().map_err(|e| Error::io(format!("listing {}", dir.describe()), e))?;
        report.files = present.iter().filter(|name| is_ours(name)).count() as u64;
        if options.level >= 1 {
            small::files(dir, report);
        }
        // As opening does: evidence first, so that it is never newer than the logs.
        let witness = Witness::read(dir).unwrap_or_else(|e| {
            report.note(Code::ReadFailed, names::WITNESS, 0, e.to_string());
            None
        });
        let Some(view) = read_view(dir, &present, report)? else { return Ok(None) };
        if !present.iter().any(|name| name == names::LOCK) {
            report.note(Code::LockMissing, names::LOCK, 0, "the file is missing; an empty file of this name restores it");
        } else if let Err(e) = dir.open(names::LOCK) {
            report.note(Code::LockMissing, names::LOCK, 0, format!("it cannot be opened: {e}; an empty file in its place restores it"));
        }
        let head = &view.chosen;
        let manifest = read_manifest(dir, head)
            .map_err(|e| report.error(Code::Manifest, &FileName::Manifest(head.manifest_number).to_string(), &e))
            .ok();
        let log = FileName::Wal(head.wal_sequence).to_string();
        let recovered = recover(dir, head.database, head.wal_sequence, head.wal_id, head.applied_lsn, head.durable_lsn, witness);
        let recovered = recovered.map_err(|e| report.error(Code::LogDamaged, &log, &e)).ok();
        if let Some(Tail::Torn { file, offset, bytes, dropped_records }) = recovered.as_ref().map(|r| &r.tail) {
            let what =
                format!("{bytes} bytes follow the last record, {dropped_records} records among them; no evidence calls them durable");
            report.note(Code::LogTornTail, file.clone(), *offset, what);
        }
        let Some(manifest) = manifest else { return Ok(None) };
        let mut state = State::of(head, manifest);
        if let Some(recovered) = &recovered {
            state.take_records(&recovered.records, report);
        }
        state.log_whole &= recovered.is_some();
        state.name_segments(options)?;
        state.open_files(dir, report);
        Names::of(dir, &view, &state, recovered.as_ref()).check(&present, report);
        if let Some(recovered) = recovered.as_ref().filter(|_| options.level >= 1) {
            small::logs(dir, recovered, report);
        }
        Ok(Some(state))
    }

    fn of(head: &HeadState, manifest: Manifest) -> State {
        State {
            database: head.database,
            manifest,
            manifest_file: FileName::Manifest(head.manifest_number).to_string(),
            commits: Vec::new(),
            log_whole: true,
            segments: Vec::new(),
            only: None,
            segment_files: BTreeMap::new(),
            tombstones: BTreeMap::new(),
        }
    }

    /// Reads what every record did.
    fn take_records(&mut self, records: &[LoggedRecord], report: &mut FsckReport) {
        for record in records {
            match CommitEffects::decode(&record.payload) {
                Ok(effects) => self.commits.push(Commit { lsn: record.lsn, file: record.file.clone(), offset: record.offset, effects }),
                Err(e) => {
                    self.log_whole = false;
                    report.error(Code::LogRecord, &record.file, &e.in_file(&record.file, record.offset));
                    // What comes after rests on it.
                    return;
                }
            }
        }
    }

    /// Every segment that the manifest or a record names, with the name of its collection.
    fn name_segments(&mut self, options: &FsckOptions) -> Result<()> {
        let mut collections: BTreeMap<Incarnation, String> = BTreeMap::new();
        for c in &self.manifest.collections {
            collections.insert(c.incarnation, c.name.clone());
            self.segments.extend(c.segments.iter().map(|entry| NamedSegment {
                entry: entry.clone(),
                incarnation: c.incarnation,
                collection: c.name.clone(),
                landed: Lsn(0),
                sound: false,
            }));
        }
        for commit in &self.commits {
            for change in &commit.effects.catalog {
                naming::follow(&mut collections, change);
            }
            for c in &commit.effects.collections {
                let collection = collections.get(&c.incarnation).cloned().unwrap_or_default();
                self.segments.extend(c.landed.iter().map(|entry| NamedSegment {
                    entry: entry.clone(),
                    incarnation: c.incarnation,
                    collection: collection.clone(),
                    landed: commit.lsn,
                    sound: false,
                }));
            }
        }
        if let Some(wanted) = &options.collection {
            let incarnation = collections.iter().find(|(_, name)| *name == wanted).map(|(incarnation, _)| *incarnation);
            let Some(incarnation) = incarnation else {
                return Err(Error::NotFound(format!("a collection {wanted:?}; nothing was checked but the state")));
            };
            self.segments.retain(|s| s.incarnation == incarnation);
            self.only = Some(incarnation);
        }
        Ok(())
    }

    /// Opens every file that is named and checks the frame of every segment.
    fn open_files(&mut self, dir: &dyn Directory, report: &mut FsckReport) {
        let tombstones = self.segments.iter().filter_map(|s| s.entry.tombstones.as_ref()).map(|t| t.file);
        let dying = self.commits.iter().flat_map(|c| &c.effects.collections).filter_map(|c| match c.dead {
            DeadSet::File { number, .. } => Some(number),
            DeadSet::None | DeadSet::Inline(_) => None,
        });
        let mut numbers: Vec<u64> = tombstones.chain(dying).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let Some(file) = open(dir, FileName::Tombstones(number), report) else { continue };
            match TombstonesReader::open(dir, self.database, number) {
                Ok(reader) => drop(self.tombstones.insert(number, (reader, file))),
                Err(e) => report.error(Code::TombstonesFrame, &FileName::Tombstones(number).to_string(), &e),
            }
        }
        for i in 0..self.segments.len() {
            let number = self.segments[i].entry.file;
            let before = self.segments[..i].iter().any(|s| s.entry.file == number);
            if !before && let Some(file) = open(dir, FileName::Segments(number), report) {
                self.segment_files.insert(number, file);
            }
            let Some(reader) = self.reader(&self.segments[i]) else { continue };
            match reader {
                Ok(_) => self.segments[i].sound = true,
                Err(e) => {
                    let mut finding = super::report::finding_of(Code::SegmentFrame, &FileName::Segments(number).to_string(), &e);
                    finding.collection = Some(self.segments[i].collection.clone());
                    report.push(finding);
                }
            }
            report.segments += 1;
        }
    }

    /// The segment, opened anew; `None` when its file is missing.
    pub(super) fn reader(&self, segment: &NamedSegment) -> Option<Result<SegmentReader>> {
        let e = &segment.entry;
        let file = self.segment_files.get(&e.file)?;
        let name = FileName::Segments(e.file).to_string();
        Some(SegmentReader::open_pread(file.clone(), &name, self.database, e.offset, e.length, e.crc))
    }
}

/// Opens a file that is named; notes that it is missing.
fn open(dir: &dyn Directory, name: FileName, report: &mut FsckReport) -> Option<Arc<dyn File>> {
    let name = name.to_string();
    match dir.open(&name) {
        Ok(file) => Some(file),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            report.note(Code::FileMissing, name, 0, "the file is missing, and the state names it");
            None
        }
        Err(e) => {
            report.error(Code::FileMissing, &name, &Error::io(format!("opening {name}"), e));
            None
        }
    }
}

/// Reads HEAD; `None` when there is no state.
fn read_view(dir: &dyn Directory, present: &[String], report: &mut FsckReport) -> Result<Option<HeadView>> {
    let head = read_head(dir, false);
    let numbered = present.iter().any(|name| FileName::parse(name).is_some());
    let foreign = present.iter().any(|name| !is_ours(name));
    // A HEAD or a LOCK among files of somebody else is theirs, as in the directory of a git repository.
    if matches!(head, Ok(HeadVerdict::Missing | HeadVerdict::NoValidSlot { .. })) && !numbered && (foreign || present.is_empty()) {
        return Err(Error::NotFound(format!("a database in {}", dir.describe())));
    }
    match head {
        Ok(HeadVerdict::Valid(view)) => {
            let length = dir.open(names::HEAD).and_then(|f| f.len()).unwrap_or(HEAD_BYTES as u64);
            if view.other.is_none() {
                let (bad, good) = (1 - view.chosen_slot, view.chosen_slot);
                let what = format!("slot {bad} is not valid; slot {good}, of generation {}, counts", view.chosen.generation);
                report.note(Code::HeadSlot, names::HEAD, bad as u64 * HEAD_BYTES as u64 / 2, what);
            }
            if length > HEAD_BYTES as u64 {
                let what = format!("{} bytes follow the two slots", length - HEAD_BYTES as u64);
                report.note(Code::HeadLength, names::HEAD, HEAD_BYTES as u64, what);
            }
            return Ok(Some(view));
        }
        Ok(HeadVerdict::Missing | HeadVerdict::NoValidSlot { .. }) if naming::unfinished(dir, present) => {
            report.note(Code::CreateUnfinished, names::HEAD, 0, "run it again to finish it; nothing is lost");
        }
        Ok(HeadVerdict::Missing) => report.note(Code::HeadMissing, names::HEAD, 0, "the file is missing"),
        Ok(HeadVerdict::NoValidSlot { .. }) => {
            report.note(Code::HeadLost, names::HEAD, 0, "neither slot passes its checksum");
        }
        Err(e @ Error::UnsupportedVersion(_)) => return Err(e),
        Err(e) => report.error(Code::HeadConflict, names::HEAD, &e),
    }
    Ok(None)
}

/// As [`recover`], of a state that is not the chosen one: its logs and records alone.
pub(super) fn recover_other(dir: &dyn Directory, head: &HeadState) -> Result<Recovered> {
    recover(dir, head.database, head.wal_sequence, head.wal_id, head.applied_lsn, Lsn(0), None)
}

//! The tombstones that a checkpoint or a merge writes: which rows of a segment died, in one file for all segments.

use super::core::Core;
use super::files::Claim;
use super::frequencies;
use super::segments::{Rooms, SegmentHandle};
use super::version::{CollectionInfo, Version};
use crate::error::{Error, Result};
use crate::format::manifest::{SegmentEntry, TombstoneEntry};
use crate::ids::Lsn;
use crate::io::names::FileName;
use crate::tombstones::{TombstonesPart, TombstonesWriter};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};

/// The tombstones that one checkpoint or merge writes, all in one file, made when the first is needed.
pub(crate) struct Tombstones<'a> {
    core: &'a Core,
    pub(crate) lsn: Lsn,
    writer: Option<(u64, TombstonesWriter, Claim)>,
    /// Files whose stored tombstones are written again although nothing changed in them.
    stale: BTreeSet<u64>,
}

impl<'a> Tombstones<'a> {
    /// Those of the rows that died at or before `lsn`.
    pub(crate) fn new(core: &'a Core, lsn: Lsn) -> Tombstones<'a> {
        Tombstones { core, lsn, writer: None, stale: BTreeSet::new() }
    }

    /// Writes whole again what still counts in a file of which more than half is stale, so that the file can go.
    pub(crate) fn rewrite_stale_files(&mut self, version: &Version) {
        let dead: BTreeMap<(u64, u64), u64> = version.segments().map(|s| ((s.entry.file, s.entry.offset), s.dead_rows(self.lsn))).collect();
        let mut kept: BTreeMap<u64, u64> = BTreeMap::new();
        let mut changes = false;
        for segment in version.manifest.collections.iter().flat_map(|c| &c.segments) {
            let now = dead.get(&(segment.file, segment.offset)).copied().unwrap_or(0);
            changes |= now > segment.tombstones.as_ref().map_or(0, |t| t.dead);
            if let Some(t) = &segment.tombstones {
                *kept.entry(t.file).or_default() += if t.dead == now { t.length } else { 0 };
            }
        }
        if !changes {
            // Nothing is written anyway.
            return;
        }
        // A length that cannot be read is no reason to fail a checkpoint: the file stays as it is.
        let length = |file: u64| self.core.dir.open(&FileName::Tombstones(file).to_string()).and_then(|f| f.len()).unwrap_or(0);
        self.stale = kept.into_iter().filter(|&(file, kept)| kept > 0 && kept * 2 < length(file)).map(|(file, _)| file).collect();
    }

    /// Makes the entry name exactly the rows that died at or before the lsn. Damage to the segment keeps nobody from that: other collections
    /// wait for this file.
    pub(crate) fn bring_up(&mut self, entry: &mut SegmentEntry, handle: &SegmentHandle, info: &CollectionInfo) -> Result<()> {
        let stale = entry.tombstones.as_ref().is_some_and(|t| self.stale.contains(&t.file));
        let died = handle.log.between(Lsn(0), self.lsn).documents > 0;
        if !died && !stale {
            // No row died since the handle was opened, so what is stored holds.
            return Ok(());
        }
        let rooms = match handle.rooms() {
            // Nothing changes in it, so its file of tombstones stays.
            Err(Error::Corrupt(_)) if !died => return Ok(()),
            rooms => rooms?,
        };
        let dead = rooms.dead(self.lsn);
        let changed = dead.len() != entry.tombstones.as_ref().map_or(0, |t| t.dead);
        if !changed && !stale {
            return Ok(());
        }
        if dead.len() == entry.rows {
            // The segment vanishes with this manifest; nobody reads which of its rows died.
            entry.tombstones =
                Some(TombstoneEntry { file: 0, offset: 0, length: 0, crc: 0, dead: dead.len(), unknown: Default::default() });
            return Ok(());
        }
        let frequencies = match self.frequencies(handle, rooms, info) {
            Err(Error::Corrupt(_)) if !changed => return Ok(()),
            // The deaths were acknowledged. What cannot be counted is derived: with none of it here, whoever needs it counts anew, and meets
            // the damage if it is still there.
            Err(Error::Corrupt(_)) => Vec::new(),
            counted => counted?,
        };
        let (file, part) = self.write(&dead, &frequencies)?;
        let TombstonesPart { offset, length, crc } = part;
        entry.tombstones = Some(TombstoneEntry { file, offset, length, crc, dead: dead.len(), unknown: Default::default() });
        Ok(())
    }

    /// In how many dead rows each term stands, by ascending ordinal.
    fn frequencies(&self, handle: &SegmentHandle, rooms: &Rooms, info: &CollectionInfo) -> Result<Vec<(u32, u32)>> {
        let Some(text) = &rooms.text else { return Ok(Vec::new()) };
        let counted = frequencies::dead_frequencies(handle, rooms, text, self.lsn, info.schema.analyzer)?;
        let mut frequencies: Vec<(u32, u32)> = counted.into_iter().collect();
        frequencies.sort_unstable();
        Ok(frequencies)
    }

    fn write(&mut self, dead: &RoaringBitmap, frequencies: &[(u32, u32)]) -> Result<(u64, TombstonesPart)> {
        if self.writer.is_none() {
            let number = self.core.files.next_number()?;
            let claim = self.core.files.claim(FileName::Tombstones(number));
            self.writer = Some((number, TombstonesWriter::create(self.core.dir.as_ref(), self.core.database, number)?, claim));
        }
        let (number, writer, _) = self.writer.as_mut().expect("was set above");
        let part = writer.add_tombstones(dead, frequencies)?;
        Ok((*number, part))
    }

    /// Syncs the file, if one was made.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match self.writer.take() {
            Some((_, writer, _claim)) => writer.finish(),
            None => Ok(()),
        }
    }
}

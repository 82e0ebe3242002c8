//! Brings a version to the last commit of the logs. Blind and idempotent: a record says what became of the state, not what was asked.

use super::commit::kill;
use super::resolve::NEWEST;
use super::segments::OpenFiles;
use super::version::{Catalog, Frozen, Version};
use crate::error::{Error, Result};
use crate::format::effects::{CatalogChange, CollectionEffects, CommitEffects, DeadSet, RowEffect};
use crate::format::sabotage::{Rule, breaks};
use crate::format::vectors::first_unrounded;
use crate::ids::{Incarnation, Lsn, Seq, Uuid};
use crate::io::Directory;
use crate::io::names::FileName;
use crate::memtable::{Analysis, Memtable};
use crate::options::Derivation;
use crate::tombstones::{TombstonesPart, TombstonesReader};
use crate::wal::LoggedRecord;
use roaring::RoaringTreemap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the logs ended.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    pub(crate) lsn: Lsn,
    pub(crate) next_seq: Seq,
    pub(crate) next_incarnation: Incarnation,
    /// Files that the records name.
    pub(crate) files: Vec<FileName>,
}

/// Applies every record in order.
pub(crate) fn replay(
    dir: &dyn Directory,
    database: Uuid,
    files: &mut OpenFiles<'_>,
    version: &mut Version,
    catalog: Catalog,
    records: &[LoggedRecord],
) -> Result<(Catalog, Replayed)> {
    let m = &version.manifest;
    let at = Replayed { lsn: m.applied_lsn, next_seq: m.next_seq, next_incarnation: m.next_incarnation, files: Vec::new() };
    let derivations = catalog.collections.values().map(|c| (c.incarnation, c.schema.derivation())).collect();
    let mut replay = Replay { dir, database, files, version, catalog, at, derivations };
    for record in records {
        let effects = CommitEffects::decode(&record.payload).map_err(|e| e.in_file(&record.file, record.offset))?;
        // What is wrong inside a record is wrong in its file.
        replay.record(record, &effects).map_err(|e| {
            let Error::InvalidArgument(what) = e else { return e };
            Error::corrupt(&*record.file, record.offset, format!("record {}: {what}", record.lsn))
        })?;
    }
    Ok((replay.catalog, replay.at))
}

struct Replay<'a, 'b> {
    dir: &'a dyn Directory,
    database: Uuid,
    files: &'a mut OpenFiles<'b>,
    version: &'a mut Version,
    catalog: Catalog,
    at: Replayed,
    derivations: BTreeMap<Incarnation, Derivation>,
}

impl Replay<'_, '_> {
    fn record(&mut self, record: &LoggedRecord, effects: &CommitEffects) -> Result<()> {
        // A landed batch was preceded by a freeze; freezing here too keeps seqs ascending from part to part.
        let landed = effects.collections.iter().any(|c| !c.landed.is_empty());
        if landed && !self.version.active.is_empty() && !breaks(Rule::FreezeAtLanded) {
            self.freeze();
        }
        if let Some(what) = effects.misnumbered(self.at.next_seq, self.at.next_incarnation) {
            return Err(Error::InvalidArgument(what));
        }
        for change in &effects.catalog {
            self.catalog.apply(change).map_err(Error::InvalidArgument)?;
            self.follow_derivation(change);
        }
        for c in &effects.collections {
            let Some(derivation) = self.derivations.get(&c.incarnation).copied() else {
                return Err(Error::InvalidArgument(format!("there is no collection of incarnation {}", c.incarnation)));
            };
            self.deaths(record, c, derivation)?;
            self.births(record.lsn, c, derivation)?;
            self.landed(record.lsn, c, derivation)?;
        }
        self.at.lsn = record.lsn;
        (self.at.next_seq, self.at.next_incarnation) = (effects.next_seq, effects.next_incarnation);
        Ok(())
    }

    /// Keeps the derivations in step with the catalog. Not made anew from it: ten thousand collections are created by as many records.
    fn follow_derivation(&mut self, change: &CatalogChange) {
        match change {
            CatalogChange::Create { incarnation, schema, .. } => {
                self.derivations.insert(*incarnation, schema.derivation());
            }
            CatalogChange::Drop { incarnation, .. } => {
                self.derivations.remove(incarnation);
            }
            CatalogChange::Clear { old, new, .. } => {
                if let Some(derivation) = self.derivations.remove(old) {
                    self.derivations.insert(*new, derivation);
                }
            }
            CatalogChange::Rename { .. } | CatalogChange::Swap { .. } | CatalogChange::FixDimension { .. } => {}
        }
    }

    fn freeze(&mut self) {
        let memtable = std::mem::replace(&mut self.version.active, Arc::new(Memtable::new()));
        self.version.frozen.push(Arc::new(Frozen {
            memtable,
            last_lsn: self.at.lsn,
            catalog: Arc::new(self.catalog.clone()),
            next_seq: self.at.next_seq,
            next_incarnation: self.at.next_incarnation,
        }));
    }

    fn deaths(&mut self, record: &LoggedRecord, effects: &CollectionEffects, derivation: Derivation) -> Result<()> {
        let dead = match &effects.dead {
            DeadSet::None => return Ok(()),
            DeadSet::Inline(dead) => dead.clone(),
            DeadSet::File { number, length, crc } => {
                self.at.files.push(FileName::Tombstones(*number));
                self.dying_file(*number, *length, *crc)?
            }
        };
        let parts = self.version.parts(effects.incarnation, NEWEST);
        for seq in dead.iter().map(Seq) {
            let mut found = None;
            for part in &parts.parts {
                if let Some(row) = part.row_of_seq(seq)? {
                    found = Some((part, row));
                    break;
                }
            }
            let Some((part, row)) = found else {
                return Err(Error::InvalidArgument(format!("seq {seq} dies here, and no row has it")));
            };
            if part.visible(row, NEWEST)? {
                kill(part.clone(), row, record.lsn, part.row_totals_anew(row, derivation.analyzer)?)?;
            }
        }
        Ok(())
    }

    fn dying_file(&self, number: u64, length: u64, crc: u32) -> Result<RoaringTreemap> {
        let part = TombstonesPart { offset: TombstonesPart::FIRST_OFFSET, length, crc };
        TombstonesReader::open(self.dir, self.database, number)?.dying_seqs(part)
    }

    fn births(&mut self, lsn: Lsn, effects: &CollectionEffects, derivation: Derivation) -> Result<()> {
        if effects.rows.is_empty() {
            return Ok(());
        }
        let unrounded = |row: &RowEffect| row.document.vector.as_deref().and_then(|v| first_unrounded(v, derivation.components));
        if let Some((row, i)) = effects.rows.iter().find_map(|row| Some((row, unrounded(row)?))) {
            let form = derivation.components;
            return Err(Error::InvalidArgument(format!("component {i} of the vector of seq {} is no number of the form {form}", row.seq)));
        }
        let dimension = self.catalog.dimension(effects.incarnation).map(|d| d as usize);
        let misfit = |row: &&RowEffect| row.document.vector.as_ref().is_some_and(|v| Some(v.len()) != dimension);
        if let Some(row) = effects.rows.iter().find(misfit) {
            let (found, expected) = (row.document.vector.as_ref().map_or(0, |v| v.len()), dimension.unwrap_or(0));
            return Err(Error::InvalidArgument(format!(
                "the vector of seq {} has {found} components, the collection's have {expected}",
                row.seq
            )));
        }
        let memory = self.version.active.collection_or_new(effects.incarnation, derivation);
        for row in &effects.rows {
            let analysis = Analysis::of(derivation, &row.document);
            let (_, bytes) = memory.append(lsn, row.seq, row.document.clone(), &analysis);
            self.version.active.grow(bytes);
        }
        Ok(())
    }

    fn landed(&mut self, lsn: Lsn, effects: &CollectionEffects, derivation: Derivation) -> Result<()> {
        for entry in &effects.landed {
            self.at.files.push(FileName::Segments(entry.file));
            let handle = self.files.handle(entry, derivation.components, lsn, lsn)?;
            self.version.with_segment(effects.incarnation, handle);
        }
        Ok(())
    }
}

//! Level 2 of the log: what the commits after the manifest make of it, and that no id lives twice then.

use super::codes::FindingCode as Code;
use super::report::{Finding, FsckReport};
use super::segment::Facts;
use super::state::{Commit, State};
use crate::docstore::RowsReader;
use crate::document::StoredDocument;
use crate::error::{Error, Result};
use crate::format::effects::{CatalogChange, CollectionEffects, DeadSet};
use crate::format::manifest::Manifest;
use crate::format::row_hash::id_hash;
use crate::format::vectors::first_unrounded;
use crate::ids::{Incarnation, Lsn, Seq};
use crate::options::Schema;
use crate::tombstones::TombstonesPart;
use roaring::{RoaringBitmap, RoaringTreemap};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A row that only the log holds.
#[derive(Debug)]
pub(super) struct LoggedRow {
    pub(super) seq: Seq,
    pub(super) document: Arc<StoredDocument>,
    pub(super) dead: bool,
}

/// A segment at the end of the log.
#[derive(Debug)]
pub(super) struct LiveSegment {
    /// Its index in the state.
    pub(super) index: usize,
    pub(super) rows: RowsReader,
    pub(super) dead: RoaringBitmap,
}

/// A collection at the end of the log.
#[derive(Debug, Default)]
pub(super) struct LiveCollection {
    pub(super) name: String,
    pub(super) schema: Schema,
    /// By age; one whose rows cannot be read is not here.
    pub(super) segments: Vec<LiveSegment>,
    pub(super) logged: BTreeMap<Seq, LoggedRow>,
    /// Whether every segment is here.
    pub(super) whole: bool,
}

/// The collections, by their lives. Before [`Live::replay`] they are those of the manifest.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) collections: BTreeMap<Incarnation, LiveCollection>,
    /// Every schema that an incarnation ever had here, also of those that ended.
    schemas: BTreeMap<Incarnation, Schema>,
    next_seq: Seq,
    next_incarnation: Incarnation,
}

impl Live {
    /// The collections of the manifest, and the schemas that the log makes of theirs.
    pub(super) fn new(state: &State) -> Live {
        let Manifest { next_seq, next_incarnation, collections, .. } = &state.manifest;
        let mut schemas: BTreeMap<Incarnation, Schema> = collections.iter().map(|c| (c.incarnation, c.schema.clone())).collect();
        for change in state.commits.iter().flat_map(|c| &c.effects.catalog) {
            match change {
                CatalogChange::Create { incarnation, schema, .. } => drop(schemas.insert(*incarnation, schema.clone())),
                CatalogChange::Clear { old, new, .. } => {
                    if let Some(schema) = schemas.get(old).cloned() {
                        schemas.insert(*new, schema);
                    }
                }
                CatalogChange::FixDimension { incarnation, dimension } => {
                    if let Some(schema) = schemas.get_mut(incarnation) {
                        schema.dimension = Some(*dimension);
                    }
                }
                CatalogChange::Drop { .. } | CatalogChange::Rename { .. } | CatalogChange::Swap { .. } => {}
            }
        }
        let collection = |c: &crate::format::manifest::CollectionEntry| LiveCollection {
            name: c.name.clone(),
            schema: c.schema.clone(),
            whole: true,
            ..LiveCollection::default()
        };
        let collections = collections.iter().map(|c| (c.incarnation, collection(c))).collect();
        Live { collections, schemas, next_seq: *next_seq, next_incarnation: *next_incarnation }
    }

    /// The schema of a collection's life.
    pub(super) fn schema(&self, incarnation: Incarnation) -> Option<Schema> {
        self.schemas.get(&incarnation).cloned()
    }

    /// Applies every commit, and notes what no commit can do. Stops at the first such: what comes after rests on it.
    pub(super) fn replay(&mut self, state: &State, facts: &[Option<Facts>], report: &mut FsckReport) -> Result<()> {
        self.take_segments(state, facts, Lsn(0))?;
        for commit in &state.commits {
            match self.apply(state, facts, commit) {
                Ok(()) => {}
                Err(Error::InvalidArgument(what)) => {
                    report.note(Code::LogRecord, &*commit.file, commit.offset, format!("lsn {}: {what}", commit.lsn));
                    break;
                }
                // The tombstones or the segment that it reads: noted where they were checked.
                Err(Error::Corrupt(_)) => {
                    self.collections.values_mut().for_each(|c| c.whole = false);
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Adds the segments that the manifest names, or that a commit lands.
    fn take_segments(&mut self, state: &State, facts: &[Option<Facts>], landed: Lsn) -> Result<()> {
        for (index, segment) in state.segments.iter().enumerate().filter(|(_, s)| s.landed == landed) {
            let Some(collection) = self.collections.get_mut(&segment.incarnation) else { continue };
            let rows = facts[index].as_ref().and(state.reader(segment)).map(|r| RowsReader::open(&r?, segment.entry.base_seq));
            match (rows, &facts[index]) {
                (Some(Ok(rows)), Some(facts)) => {
                    collection.segments.push(LiveSegment { index, rows, dead: facts.dead.clone() });
                }
                _ => collection.whole = false,
            }
        }
        // With `--collection` the segments of the others were never asked for.
        for (incarnation, collection) in &mut self.collections {
            let named = state.manifest.collections.iter().filter(|c| c.incarnation == *incarnation).flat_map(|c| &c.segments).count();
            collection.whole &= collection.segments.len() >= named;
        }
        Ok(())
    }

    fn apply(&mut self, state: &State, facts: &[Option<Facts>], commit: &Commit) -> Result<()> {
        if let Some(what) = commit.effects.misnumbered(self.next_seq, self.next_incarnation) {
            return Err(Error::InvalidArgument(what));
        }
        for change in &commit.effects.catalog {
            self.change(change).map_err(Error::InvalidArgument)?;
        }
        for effects in &commit.effects.collections {
            self.deaths(state, effects)?;
            self.births(effects)?;
        }
        self.take_segments(state, facts, commit.lsn)?;
        (self.next_seq, self.next_incarnation) = (commit.effects.next_seq, commit.effects.next_incarnation);
        Ok(())
    }

    fn change(&mut self, change: &CatalogChange) -> std::result::Result<(), String> {
        let named = |live: &Live, name: &str| live.collections.iter().find(|(_, c)| c.name == name).map(|(i, _)| *i);
        let expect = |live: &Live, name: &str, incarnation: Incarnation| match named(live, name) {
            Some(found) if found == incarnation => Ok(()),
            found => Err(format!("collection {name:?} is incarnation {found:?}, the change names {incarnation}")),
        };
        match change {
            CatalogChange::Create { name, incarnation, schema } => {
                if named(self, name).is_some() || self.collections.contains_key(incarnation) {
                    return Err(format!("collection {name:?}, incarnation {incarnation}, is created and exists"));
                }
                let created = LiveCollection { name: name.clone(), schema: schema.clone(), whole: true, ..LiveCollection::default() };
                self.collections.insert(*incarnation, created);
            }
            CatalogChange::Drop { name, incarnation } => {
                expect(self, name, *incarnation)?;
                self.collections.remove(incarnation);
            }
            CatalogChange::Clear { name, old, new } => {
                expect(self, name, *old)?;
                if let Some(c) = self.collections.remove(old) {
                    let cleared = LiveCollection { name: c.name, schema: c.schema, whole: true, ..LiveCollection::default() };
                    self.collections.insert(*new, cleared);
                }
            }
            CatalogChange::Rename { from, to, incarnation } => {
                expect(self, from, *incarnation)?;
                if named(self, to).is_some() {
                    return Err(format!("collection {from:?} is renamed to {to:?}, which exists"));
                }
                self.collections.entry(*incarnation).and_modify(|c| c.name.clone_from(to));
            }
            CatalogChange::Swap { a, b } => match (named(self, a), named(self, b)) {
                (Some(of_a), Some(of_b)) => {
                    self.collections.entry(of_a).and_modify(|c| c.name.clone_from(b));
                    self.collections.entry(of_b).and_modify(|c| c.name.clone_from(a));
                }
                _ => return Err(format!("one of the collections {a:?} and {b:?} does not exist")),
            },
            CatalogChange::FixDimension { incarnation, dimension } => {
                let Some(c) = self.collections.get_mut(incarnation) else {
                    return Err(format!("there is no collection of incarnation {incarnation}"));
                };
                if let Some(fixed) = c.schema.dimension.filter(|fixed| fixed != dimension) {
                    return Err(format!("the vectors of collection {:?} have {fixed} components, the change names {dimension}", c.name));
                }
                c.schema.dimension = Some(*dimension);
            }
        }
        Ok(())
    }

    fn deaths(&mut self, state: &State, effects: &CollectionEffects) -> Result<()> {
        let dying = match &effects.dead {
            DeadSet::None => RoaringTreemap::new(),
            DeadSet::Inline(seqs) => seqs.clone(),
            DeadSet::File { number, length, crc } => {
                let part = TombstonesPart { offset: TombstonesPart::FIRST_OFFSET, length: *length, crc: *crc };
                let missing = || Error::corrupt("", 0, "a file of dying seqs that was noted as missing");
                state.tombstones.get(number).ok_or_else(missing)?.0.dying_seqs(part)?
            }
        };
        let Some(collection) = self.collections.get_mut(&effects.incarnation) else {
            return Err(Error::InvalidArgument(format!("there is no collection of incarnation {}", effects.incarnation)));
        };
        for seq in dying.iter().map(Seq) {
            let expected = collection.whole && state.only.is_none_or(|only| only == effects.incarnation);
            if !collection.kill(state, seq)? && expected {
                return Err(Error::InvalidArgument(format!("seq {seq} dies here, and no row has it")));
            }
        }
        Ok(())
    }

    fn births(&mut self, effects: &CollectionEffects) -> Result<()> {
        let Some(collection) = self.collections.get_mut(&effects.incarnation) else { return Ok(()) };
        for row in &effects.rows {
            let found = row.document.vector.as_ref().map(|v| v.len() as u64);
            let expected = collection.schema.dimension.map(u64::from);
            if found.is_some() && found != expected {
                let what = format!("the vector of seq {} has {found:?} components, the collection's have {expected:?}", row.seq);
                return Err(Error::InvalidArgument(what));
            }
            let components = collection.schema.components;
            if let Some(i) = row.document.vector.as_deref().and_then(|v| first_unrounded(v, components)) {
                let what = format!("component {i} of the vector of seq {} is no number of the form {components}", row.seq);
                return Err(Error::InvalidArgument(what));
            }
            collection.logged.insert(row.seq, LoggedRow { seq: row.seq, document: row.document.clone(), dead: false });
        }
        Ok(())
    }

    /// No id lives twice in a collection.
    pub(super) fn check_ids(&self, state: &State, report: &mut FsckReport) -> Result<()> {
        for (_, collection) in self.collections.iter().filter(|(i, _)| state.only.is_none_or(|only| only == **i)) {
            // Rows that cannot be read were noted where their segment was checked.
            match collection.id_twice(state) {
                Ok(Some((file, detail))) => report.push(Finding {
                    code: Code::IdTwice,
                    file,
                    offset: 0,
                    collection: Some(collection.name.clone()),
                    section: None,
                    detail,
                }),
                Ok(None) | Err(Error::Corrupt(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl LiveCollection {
    /// Lets a row die; whether there is one of this seq.
    fn kill(&mut self, state: &State, seq: Seq) -> Result<bool> {
        if let Some(row) = self.logged.get_mut(&seq) {
            row.dead = true;
            return Ok(true);
        }
        for segment in &mut self.segments {
            let entry = &state.segments[segment.index].entry;
            if (entry.base_seq..=entry.last_seq).contains(&seq)
                && let Some(row) = segment.rows.row_of_seq(seq)?
            {
                segment.dead.insert(row);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// An id that two living rows have, if there is one, and the file of the second.
    fn id_twice(&self, state: &State) -> Result<Option<(String, String)>> {
        const LOGGED: u32 = u32::MAX;
        let mut all: Vec<(u64, u32, u32)> = Vec::new();
        for (part, segment) in (0u32..).zip(&self.segments) {
            for from in (0..segment.rows.rows()).step_by(4096) {
                let to = from.saturating_add(4096).min(segment.rows.rows());
                let ids = segment.rows.ids(from..to)?;
                let living = (from..to).zip(ids).filter(|(row, _)| !segment.dead.contains(*row));
                all.extend(living.map(|(row, id)| (id_hash(&id), part, row)));
            }
        }
        let logged: Vec<&LoggedRow> = self.logged.values().filter(|row| !row.dead).collect();
        all.extend((0u32..).zip(&logged).map(|(i, row)| (id_hash(&row.document.id), LOGGED, i)));
        all.sort_unstable();
        let id = |part: u32, row: u32| -> Result<String> {
            if part == LOGGED {
                Ok(logged[row as usize].document.id.to_string())
            } else {
                Ok(self.segments[part as usize].rows.id(row)?.into())
            }
        };
        for pair in all.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            let ((_, part, row), (_, other_part, other_row)) = (pair[0], pair[1]);
            let (a, b) = (id(part, row)?, id(other_part, other_row)?);
            if a == b {
                let place = |part: u32, row: u32| match self.segments.get(part as usize) {
                    Some(s) => format!("row {row} of {}", file_of(state, s)),
                    None => format!("seq {} in the log", logged[row as usize].seq),
                };
                let detail = format!("the id {a:?} lives in {} and in {}", place(part, row), place(other_part, other_row));
                let file = self.segments.get(part as usize).map_or(state.manifest_file.clone(), |s| file_of(state, s));
                return Ok(Some((file, detail)));
            }
        }
        Ok(None)
    }
}

fn file_of(state: &State, segment: &LiveSegment) -> String {
    crate::io::names::FileName::Segments(state.segments[segment.index].entry.file).to_string()
}

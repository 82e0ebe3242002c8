//! From a manifest and records to the rows that live, as far as both can be read.
//!
//! What is lost of a collection, of a segment or of a row is told in the end, and only if it is still there then: what a commit that can be
//! read ended is not missed.
//!
//! | file | role |
//! | --- | --- |
//! | `collect.rs` | [`Collector`]: collections and segments |
//! | `gathering.rs` | one collection while it is gathered |
//! | `replay.rs` | what records do to them |
//! | `settle.rs` | what is kept in the end, and told |
//! | `names.rs` | names that are made up |
//! | `source_key.rs` | the source key of a schema that is made up |

mod gathering;
mod names;
mod replay;
mod settle;
mod source_key;

pub(super) use gathering::{Place, Row};

use super::ledger::{Loss, LossKind};
use super::orphans::Orphan;
use super::segment::{Found, OpenSegment};
use crate::error::{Error, Result};
use crate::format::manifest::{CollectionEntry, SegmentEntry};
use crate::ids::{Incarnation, Lsn, Seq, Uuid};
use crate::io::Directory;
use crate::io::names::FileName;
use crate::options::Schema;
use crate::tombstones::{TombstonesPart, TombstonesReader};
use gathering::{Gathering, Life, MadeUp};
use names::Name;
use roaring::{RoaringBitmap, RoaringTreemap};
use std::collections::BTreeMap;

/// A collection that is kept.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) name: String,
    pub(super) schema: Schema,
    pub(super) rows: BTreeMap<Seq, Row>,
}

/// Everything that is gathered.
pub(super) struct Collector<'a> {
    dir: &'a dyn Directory,
    database: Uuid,
    /// The last commit of the manifest.
    base: Lsn,
    collections: BTreeMap<Incarnation, Gathering>,
    segments: Vec<OpenSegment>,
    /// Commits whose records were applied.
    applied: RoaringTreemap,
    orphans: u64,
    ledger: &'a mut Vec<Loss>,
}

/// The rows of a segment, as they are taken.
struct Taking<'a> {
    /// Of the segment, among those opened.
    index: usize,
    dead: RoaringBitmap,
    /// What to say of each row, if it may be dead.
    unsure: Option<Loss>,
    since: Lsn,
    of: &'a mut Gathering,
}

impl<'a> Collector<'a> {
    pub(super) fn new(dir: &'a dyn Directory, database: Uuid, base: Lsn, ledger: &'a mut Vec<Loss>) -> Collector<'a> {
        let (collections, segments, applied) = (BTreeMap::new(), Vec::new(), RoaringTreemap::new());
        Collector { dir, database, base, collections, segments, applied, orphans: 0, ledger }
    }

    /// Takes a collection of the manifest.
    pub(super) fn collection(&mut self, entry: &CollectionEntry) -> Result<()> {
        let gathering = Gathering::new(Name::Said(entry.name.clone()), entry.schema.clone(), None);
        self.collections.insert(entry.incarnation, gathering);
        entry.segments.iter().try_for_each(|segment| self.segment(entry.incarnation, segment, self.base))
    }

    /// Takes the rows of a segment that live as far as its tombstones say, after the commit `since`.
    fn segment(&mut self, incarnation: Incarnation, entry: &SegmentEntry, since: Lsn) -> Result<()> {
        let (dead, unsure) = self.tombstones(entry)?;
        let Some(of) = self.collections.get_mut(&incarnation) else { return Ok(()) };
        let file = FileName::Segments(entry.file).to_string();
        let place = |loss: Loss| loss.place(&file, entry.offset, Some(entry.length));
        let opened = match OpenSegment::open(self.dir, entry)? {
            Ok(opened) => opened,
            Err(e) => {
                of.lose_segment(entry, place(Loss::of(LossKind::Documents, &e)));
                return Ok(());
            }
        };
        let index = self.segments.len();
        let hash = Taking { index, dead, unsure, since, of: &mut *of }.rows(entry, opened, &mut self.segments)?;
        let said = entry.content_hash;
        if let Some(found) = hash.filter(|found| *found != said) {
            let reason =
                format!("the content hashes of all rows add up to {found:#x}, the manifest says {said:#x}: some are not what was stored");
            of.altered.push((index, place(Loss::new(LossKind::Altered, reason))));
        }
        Ok(())
    }

    /// Takes a segment that no manifest is left to name: a collection of its own, since nobody knows whose it was or which rows are dead.
    pub(super) fn orphan(&mut self, orphan: &Orphan) -> Result<()> {
        let entry = &orphan.entry;
        let file = FileName::Segments(entry.file).to_string();
        let place = |loss: Loss| loss.place(&file, entry.offset, Some(entry.length));
        let opened = match OpenSegment::open(self.dir, entry)? {
            Ok(opened) => opened,
            Err(e) => {
                self.ledger.push(place(Loss::of(LossKind::Documents, &e).rows(entry.rows)));
                return Ok(());
            }
        };
        let why = Loss::new(LossKind::Collection, "no manifest says which collection this segment belonged to").rows(entry.rows);
        let schema = Schema { components: opened.components().unwrap_or_default(), ..Schema::default() };
        let name = Name::MadeUp(format!("salvaged {} {}", entry.file, orphan.index));
        let mut gathering = Gathering::new(name, schema, Some(MadeUp::new(place(why))));
        let unsure = Some(place(Loss::new(LossKind::Death, "no manifest says which rows of this segment are dead")));
        let (index, dead, since) = (self.segments.len(), RoaringBitmap::new(), self.base);
        Taking { index, dead, unsure, since, of: &mut gathering }.rows(entry, opened, &mut self.segments)?;
        // From the far end, where no incarnation of a collection ever is.
        self.collections.insert(Incarnation(u64::MAX - self.orphans), gathering);
        self.orphans += 1;
        Ok(())
    }

    /// The dead rows of a segment; or none, and what to say of each row that is kept.
    fn tombstones(&self, entry: &SegmentEntry) -> Result<(RoaringBitmap, Option<Loss>)> {
        let Some(t) = &entry.tombstones else { return Ok((RoaringBitmap::new(), None)) };
        let part = TombstonesPart { offset: t.offset, length: t.length, crc: t.crc };
        let rows = u32::try_from(entry.rows).unwrap_or(u32::MAX);
        let read = TombstonesReader::open(self.dir, self.database, t.file).and_then(|file| file.tombstones(part, rows));
        Ok(match crate::docstore::salvage::tolerated(read)? {
            Ok((dead, _)) => (dead, None),
            Err(e) => {
                let mut loss = Loss::of(LossKind::Death, &e);
                loss.reason = format!("{}; {} of the {} rows beside this one were dead", loss.reason, t.dead, entry.rows);
                (RoaringBitmap::new(), Some(loss.place(&FileName::Tombstones(t.file).to_string(), t.offset, Some(t.length))))
            }
        })
    }
}

impl Taking<'_> {
    /// Takes the rows that are not among the dead. Gives the content hash of all of them, if each can be read.
    fn rows(mut self, entry: &SegmentEntry, opened: OpenSegment, segments: &mut Vec<OpenSegment>) -> Result<Option<u64>> {
        let misfit = opened.dimension().filter(|found| !self.of.admits(*found)).map(|found| {
            let seen = self.of.dimension.unwrap_or_default();
            let what = format!("vectors of {found} components stand here, others of the collection have {seen}");
            Error::corrupt(FileName::Segments(entry.file).to_string(), entry.offset, what)
        });
        self.of.stored_as(opened.components());
        let hash = opened.rows(|found| {
            if !self.dead.contains(found.row) {
                self.row(found, misfit.as_ref());
            }
            Ok(())
        })?;
        segments.push(opened);
        Ok(hash)
    }

    /// Takes a row. `misfit`: why a vector of it cannot be kept.
    fn row(&mut self, found: Found, misfit: Option<&Error>) {
        let Found { row, id, seq, document, mut vector } = found;
        if let Some(misfit) = misfit.filter(|_| document.as_ref().is_ok_and(|d| d.vector.is_some())) {
            vector = Err(misfit.duplicate());
        }
        let life = Life { since: self.since, doubt: self.unsure.as_ref().map(|_| self.since) };
        match (document, seq) {
            (Ok(document), Ok(seq)) => {
                self.of.see(&document);
                let losses = self.unsure.iter().cloned().chain(vector.as_ref().err().map(|e| Loss::of(LossKind::Vector, e)));
                let losses = losses.map(|loss| loss.id(Some(&document.id))).collect();
                let place = Place::Segment { segment: self.index, row, vector: vector.is_ok() };
                self.of.add(seq, Row { id: document.id, place, life, losses });
            }
            (Err(e), Ok(seq)) => self.of.lose(seq, life, Loss::of(LossKind::Document, &e).id(id.as_deref())),
            (_, Err(e)) => self.of.lost_without_seq.push(Loss::of(LossKind::Document, &e).id(id.as_deref())),
        }
    }
}

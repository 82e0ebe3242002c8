//! From a manifest and records to the rows that live, as far as both can be read.

use super::ledger::{Loss, LossKind};
use super::log::Record;
use super::orphans::Orphan;
use super::segment::{Found, OpenSegment};
use crate::document::StoredDocument;
use crate::error::{Error, Result};
use crate::format::effects::{CatalogChange, CollectionEffects, DeadSet};
use crate::format::manifest::{CollectionEntry, SegmentEntry};
use crate::format::vectors::first_unrounded;
use crate::ids::{Incarnation, Lsn, Seq, Uuid};
use crate::io::Directory;
use crate::io::names::FileName;
use crate::options::{Components, Schema};
use crate::tombstones::{TombstonesPart, TombstonesReader};
use roaring::{RoaringBitmap, RoaringTreemap};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Where a document is.
#[derive(Debug)]
pub(super) enum Place {
    /// In a segment, by its index among those opened. `vector`: whether it is to be read with its vector.
    Segment { segment: usize, row: u32, vector: bool },
    /// In a record of the log.
    Log(Arc<StoredDocument>),
}

/// A row that lives, or may.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: Box<str>,
    pub(super) place: Place,
    /// What was lost of it, to be told if it is kept.
    losses: Vec<Loss>,
}

/// One collection.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) name: String,
    pub(super) schema: Schema,
    pub(super) rows: BTreeMap<Seq, Row>,
    /// Rows that cannot be read, until it turns out that they died anyway.
    lost: BTreeMap<Seq, Loss>,
    /// Lost rows whose seq is lost too.
    lost_without_seq: Vec<Loss>,
    /// Components of the vectors that were seen; the first decide.
    dimension: Option<u32>,
}

impl Gathered {
    fn new(name: String, schema: Schema) -> Gathered {
        Gathered { name, schema, rows: BTreeMap::new(), lost: BTreeMap::new(), lost_without_seq: Vec::new(), dimension: None }
    }

    /// Notes that a vector is there which the schema would round. With the wider form no number of any vector is another one.
    fn widen(&mut self, ledger: &mut Vec<Loss>) {
        if self.schema.components != Components::F32 {
            let reason =
                format!("vectors are here that are not of the form {}; all are kept as {}", self.schema.components, Components::F32);
            ledger.push(Loss::new(LossKind::Collection, reason).collection(&self.name));
            self.schema.components = Components::F32;
        }
    }

    /// Whether vectors of `found` components fit those that were seen before. Of the first, and a schema that says otherwise, the schema is
    /// what is wrong: it is one number, and they are there.
    fn admits(&mut self, found: u32, ledger: &mut Vec<Loss>) -> bool {
        let first = self.dimension.is_none();
        let seen = *self.dimension.get_or_insert(found);
        if let Some(said) = self.schema.dimension.filter(|said| first && *said != found) {
            let reason = format!("the schema says {said} components, the vectors that are here have {found}: it is made to say that");
            ledger.push(Loss::new(LossKind::Collection, reason).collection(&self.name));
            self.schema.dimension = Some(found);
        }
        seen == found
    }

    /// Adds a row that lives, as far as is known, with what was lost of it.
    fn add(&mut self, seq: Seq, id: Box<str>, place: Place, losses: Vec<Loss>) {
        if let Some(other) = self.rows.insert(seq, Row { id, place, losses }) {
            let reason = format!("another document, which is kept, has its seq {seq} too");
            self.lost_without_seq.push(Loss::new(LossKind::Document, reason).collection(&self.name).id(Some(&other.id)));
        }
    }

    /// Notes a row that cannot be read.
    fn lose(&mut self, seq: Seq, loss: Loss) {
        self.lost_without_seq.extend(self.lost.insert(seq, loss));
    }
}

/// Everything that is gathered.
pub(super) struct Collector<'a> {
    pub(super) dir: &'a dyn Directory,
    pub(super) database: Uuid,
    pub(super) collections: BTreeMap<Incarnation, Gathered>,
    pub(super) segments: Vec<OpenSegment>,
    pub(super) ledger: &'a mut Vec<Loss>,
}

impl Collector<'_> {
    /// Takes a collection of the manifest.
    pub(super) fn collection(&mut self, entry: &CollectionEntry) -> Result<()> {
        self.collections.insert(entry.incarnation, Gathered::new(entry.name.clone(), entry.schema.clone()));
        entry.segments.iter().try_for_each(|segment| self.segment(entry.incarnation, segment))
    }

    /// Takes the rows of a segment that live as far as its tombstones say.
    pub(super) fn segment(&mut self, incarnation: Incarnation, entry: &SegmentEntry) -> Result<()> {
        let (dead, unsure) = self.tombstones(entry)?;
        let hash = self.rows_of(incarnation, entry, &dead, unsure.as_ref())?;
        let (collection, said) = (self.collections.get(&incarnation), entry.content_hash);
        if let (Some(collection), Some(found)) = (collection, hash.filter(|found| *found != said)) {
            let reason =
                format!("the content hashes of all rows add up to {found:#x}, the manifest says {said:#x}: some are not what was stored");
            let loss = Loss::new(LossKind::Altered, reason).collection(&collection.name).rows(entry.rows.saturating_sub(dead.len()));
            self.ledger.push(loss.place(&FileName::Segments(entry.file).to_string(), entry.offset, Some(entry.length)));
        }
        Ok(())
    }

    /// Takes the rows of a segment that are not among the dead. `unsure` is what to say of each. Gives the content hash of all of its rows, if
    /// each can be read.
    fn rows_of(
        &mut self,
        incarnation: Incarnation,
        entry: &SegmentEntry,
        dead: &RoaringBitmap,
        unsure: Option<&Loss>,
    ) -> Result<Option<u64>> {
        let name = FileName::Segments(entry.file).to_string();
        let Some(collection) = self.collections.get_mut(&incarnation) else { return Ok(None) };
        let opened = match OpenSegment::open(self.dir, entry)? {
            Ok(opened) => opened,
            Err(e) => {
                let rows = entry.rows - entry.tombstones.as_ref().map_or(0, |t| t.dead).min(entry.rows);
                let loss = Loss::of(LossKind::Documents, &e).collection(&collection.name).rows(rows);
                self.ledger.push(loss.place(&name, entry.offset, Some(entry.length)));
                return Ok(None);
            }
        };
        let index = self.segments.len();
        let misfit = opened.dimension().filter(|found| !collection.admits(*found, self.ledger));
        let misfit = misfit.map(|found| {
            let seen = collection.dimension.unwrap_or_default();
            Error::corrupt(&name, entry.offset, format!("vectors of {found} components stand here, others of the collection have {seen}"))
        });
        if opened.components() == Some(Components::F32) {
            collection.widen(self.ledger);
        }
        let hash = opened.rows(|found| {
            let Found { row, id, seq, document, mut vector } = found;
            if dead.contains(row) {
                return Ok(());
            }
            if let Some(misfit) = misfit.as_ref().filter(|_| document.as_ref().is_ok_and(|d| d.vector.is_some())) {
                vector = Err(misfit.duplicate());
            }
            let name = &collection.name;
            match (document, seq) {
                (Ok(document), Ok(seq)) => {
                    let mut losses: Vec<Loss> = unsure.into_iter().cloned().collect();
                    losses.extend(vector.as_ref().err().map(|e| Loss::of(LossKind::Vector, e)));
                    for loss in &mut losses {
                        *loss = loss.clone().collection(name).id(Some(&document.id));
                    }
                    let place = Place::Segment { segment: index, row, vector: vector.is_ok() };
                    collection.add(seq, document.id, place, losses);
                }
                (Err(e), Ok(seq)) => {
                    let loss = Loss::of(LossKind::Document, &e).collection(name).id(id.as_deref());
                    collection.lose(seq, loss);
                }
                (_, Err(e)) => {
                    collection.lost_without_seq.push(Loss::of(LossKind::Document, &e).collection(name).id(id.as_deref()));
                }
            }
            Ok(())
        })?;
        self.segments.push(opened);
        Ok(hash)
    }

    /// Takes a segment that no manifest is left to name: a collection of its own, since nobody knows whose it was or which rows are dead.
    pub(super) fn orphan(&mut self, orphan: &Orphan) -> Result<()> {
        let name = format!("salvaged {} {}", orphan.entry.file, orphan.index);
        let file = FileName::Segments(orphan.entry.file).to_string();
        let reason = "no manifest says which collection this segment belonged to; its schema is made up";
        let place = |loss: Loss| loss.place(&file, orphan.entry.offset, Some(orphan.entry.length));
        self.ledger.push(place(Loss::new(LossKind::Collection, reason).collection(&name).rows(orphan.entry.rows)));
        // From the far end, where no incarnation of a collection ever is.
        let incarnation = Incarnation(u64::MAX - self.segments.len() as u64);
        self.collections.insert(incarnation, Gathered::new(name, Schema::default()));
        let unsure = place(Loss::new(LossKind::Death, "no manifest says which rows of this segment are dead"));
        self.rows_of(incarnation, &orphan.entry, &RoaringBitmap::new(), Some(&unsure))?;
        if let (Some(collection), Some(opened)) = (self.collections.get_mut(&incarnation), self.segments.last()) {
            collection.schema.components = opened.components().unwrap_or_default();
        }
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

    /// Applies a record to what is there: rows that are not there do not die, and that is all.
    pub(super) fn record(&mut self, lsn: Lsn, record: Record) -> Result<()> {
        for change in record.effects.catalog {
            self.change(change);
        }
        for effects in record.effects.collections {
            if !self.collections.contains_key(&effects.incarnation) {
                let name = format!("collection {} of a lost commit", effects.incarnation);
                let reason = format!("lsn {lsn} writes to a collection whose creation is lost; its name and schema are made up");
                self.ledger.push(Loss::new(LossKind::Collection, reason).collection(&name).place(&record.file, record.offset, None));
                self.collections.insert(effects.incarnation, Gathered::new(name, Schema::default()));
            }
            self.effects(lsn, effects)?;
        }
        Ok(())
    }

    fn change(&mut self, change: CatalogChange) {
        match change {
            CatalogChange::Create { name, incarnation, schema } => {
                self.collections.insert(incarnation, Gathered::new(name, schema));
            }
            CatalogChange::Drop { incarnation, .. } => {
                self.collections.remove(&incarnation);
            }
            CatalogChange::Clear { name, old, new } => {
                let known = self.collections.remove(&old).map(|c| c.schema);
                if known.is_none() {
                    let reason = "this collection was cleared, and its creation is lost; its schema is made up";
                    self.ledger.push(Loss::new(LossKind::Collection, reason).collection(&name));
                }
                self.collections.insert(new, Gathered::new(name, known.unwrap_or_default()));
            }
            CatalogChange::Rename { to, incarnation, .. } => {
                if let Some(collection) = self.collections.get_mut(&incarnation) {
                    collection.name = to;
                }
            }
            CatalogChange::Swap { a, b } => {
                for collection in self.collections.values_mut() {
                    if collection.name == a {
                        collection.name.clone_from(&b);
                    } else if collection.name == b {
                        collection.name.clone_from(&a);
                    }
                }
            }
            CatalogChange::FixDimension { incarnation, dimension } => {
                if let Some(collection) = self.collections.get_mut(&incarnation) {
                    collection.schema.dimension = Some(dimension);
                }
            }
        }
    }

    fn effects(&mut self, lsn: Lsn, effects: CollectionEffects) -> Result<()> {
        let dead = self.dying(lsn, &effects)?;
        let Some(collection) = self.collections.get_mut(&effects.incarnation) else { return Ok(()) };
        match dead {
            Ok(dead) => {
                for seq in dead.iter().map(Seq) {
                    collection.rows.remove(&seq);
                    collection.lost.remove(&seq);
                }
            }
            Err(loss) => {
                let name = collection.name.clone();
                for row in collection.rows.values_mut() {
                    row.losses.push(loss.clone().collection(&name).id(Some(&row.id)));
                }
            }
        }
        for row in effects.rows {
            if let Some(found) = row.document.vector.as_ref().map(|v| v.len() as u32)
                && !collection.admits(found, self.ledger)
            {
                let seen = collection.dimension.unwrap_or_default();
                let reason = format!("its vector in lsn {lsn} has {found} components, others of the collection have {seen}");
                let loss = Loss::new(LossKind::Vector, reason).collection(&collection.name).id(Some(&row.document.id));
                let document = StoredDocument { vector: None, ..StoredDocument::clone(&row.document) };
                collection.add(row.seq, row.document.id.clone(), Place::Log(Arc::new(document)), vec![loss]);
                continue;
            }
            if row.document.vector.as_deref().is_some_and(|v| first_unrounded(v, collection.schema.components).is_some()) {
                collection.widen(self.ledger);
            }
            collection.add(row.seq, row.document.id.clone(), Place::Log(row.document), Vec::new());
        }
        effects.landed.iter().try_for_each(|entry| self.segment(effects.incarnation, entry))
    }

    /// The seqs that a record kills; or what to say of each row that was there.
    fn dying(&self, lsn: Lsn, effects: &CollectionEffects) -> Result<std::result::Result<RoaringTreemap, Loss>> {
        let DeadSet::File { number, length, crc } = &effects.dead else {
            return Ok(Ok(match &effects.dead {
                DeadSet::Inline(dead) => dead.clone(),
                DeadSet::None | DeadSet::File { .. } => RoaringTreemap::new(),
            }));
        };
        let part = TombstonesPart { offset: TombstonesPart::FIRST_OFFSET, length: *length, crc: *crc };
        let read = TombstonesReader::open(self.dir, self.database, *number).and_then(|file| file.dying_seqs(part));
        Ok(crate::docstore::salvage::tolerated(read)?.map_err(|e| {
            let mut loss = Loss::of(LossKind::Death, &e);
            loss.reason = format!("{}; which documents lsn {lsn} deleted or replaced is lost", loss.reason);
            loss.place(&FileName::Tombstones(*number).to_string(), part.offset, Some(part.length))
        }))
    }

    /// What is kept, by name; the newest version of an id wins. Tells what is lost of it.
    pub(super) fn finish(self) -> (Vec<Gathered>, Vec<OpenSegment>) {
        let mut kept: Vec<Gathered> = Vec::new();
        let mut names: HashMap<String, usize> = HashMap::new();
        // What a lost commit or a lost manifest would have said of a document's death is told by their lines.
        let commits_lost = self.ledger.iter().any(|loss| matches!(loss.kind, LossKind::Commits | LossKind::Manifest));
        for (incarnation, mut collection) in self.collections {
            collection.settle(commits_lost, self.ledger);
            // Two of one name: a drop or a rename was lost. The younger one keeps it.
            if let Some(older) = names.insert(collection.name.clone(), kept.len()) {
                let name = format!("{} (before collection {incarnation})", collection.name);
                let reason = "a younger collection has its name: what became of this one was in a lost commit";
                self.ledger.push(Loss::new(LossKind::Collection, reason).collection(&name));
                kept[older].name = name;
            }
            kept.push(collection);
        }
        kept.sort_by(|a, b| a.name.cmp(&b.name));
        (kept, self.segments)
    }
}

impl Gathered {
    /// Drops older versions of ids, and tells what is lost. `commits_lost`: whether commits are that may have replaced one.
    fn settle(&mut self, commits_lost: bool, ledger: &mut Vec<Loss>) {
        self.schema.dimension = self.dimension.or(self.schema.dimension);
        let mut newest: HashMap<Box<str>, Seq> = HashMap::new();
        for (seq, row) in &self.rows {
            newest.insert(row.id.clone(), *seq);
        }
        self.rows.retain(|seq, row| {
            let kept = newest.get(&row.id) == Some(seq);
            if !kept && !commits_lost && !row.losses.iter().any(|loss| loss.kind == LossKind::Death) {
                let reason = format!("it lives beside a newer document of this id, which is kept; nothing replaced it (seq {seq})");
                ledger.push(Loss::new(LossKind::Document, reason).collection(&self.name).id(Some(&row.id)));
            }
            kept
        });
        for row in self.rows.values_mut() {
            ledger.append(&mut row.losses);
        }
        // A lost row that a newer one replaces is not missed.
        let replaced = |seq: &Seq, loss: &Loss| loss.id.as_deref().and_then(|id| newest.get(id)).is_some_and(|newer| newer > seq);
        let lost = std::mem::take(&mut self.lost);
        ledger.extend(lost.into_iter().filter(|(seq, loss)| !replaced(seq, loss)).map(|(_, loss)| loss));
        ledger.append(&mut self.lost_without_seq);
    }
}

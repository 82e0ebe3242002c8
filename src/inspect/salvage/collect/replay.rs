//! Applies the records of the log to what a manifest gave.

use super::Collector;
use super::gathering::{Gathering, Life, MadeUp, Place, Row};
use super::names::Name;
use crate::document::StoredDocument;
use crate::error::Result;
use crate::format::effects::{CatalogChange, CollectionEffects, DeadSet, RowEffect};
use crate::format::vectors::first_unrounded;
use crate::ids::{Incarnation, Lsn};
use crate::inspect::salvage::ledger::{Loss, LossKind};
use crate::inspect::salvage::log::Record;
use crate::io::names::FileName;
use crate::options::{Components, Schema};
use crate::tombstones::{TombstonesPart, TombstonesReader};
use roaring::RoaringTreemap;
use std::sync::Arc;

impl Collector<'_> {
    /// Applies a record to what is there: rows that are not there do not die, and that is all.
    pub(in crate::inspect::salvage) fn record(&mut self, lsn: Lsn, record: Record) -> Result<()> {
        self.applied.insert(lsn.0);
        for change in record.effects.catalog {
            self.change(change);
        }
        for effects in record.effects.collections {
            self.collections.entry(effects.incarnation).or_insert_with(|| {
                let name = Name::MadeUp(format!("collection {} of a lost commit", effects.incarnation));
                let why = format!("lsn {lsn} writes to a collection whose creation is lost");
                let why = Loss::new(LossKind::Collection, why).place(&record.file, record.offset, None);
                Gathering::new(name, Schema::default(), Some(MadeUp::new(why)))
            });
            self.effects(lsn, effects)?;
        }
        Ok(())
    }

    fn change(&mut self, change: CatalogChange) {
        match change {
            CatalogChange::Create { name, incarnation, schema } => self.begin(name, incarnation, schema, None),
            // What was lost of it is not missed.
            CatalogChange::Drop { incarnation, .. } => drop(self.collections.remove(&incarnation)),
            CatalogChange::Clear { name, old, new } => {
                let (schema, made_up) = self.collections.remove(&old).map_or_else(
                    || {
                        let why = "this collection was cleared, and its creation is lost";
                        (Schema::default(), Some(MadeUp::new(Loss::new(LossKind::Collection, why))))
                    },
                    |c| (c.schema, c.made_up),
                );
                self.begin(name, new, schema, made_up);
            }
            CatalogChange::Rename { to, incarnation, .. } => self.rename(incarnation, to),
            CatalogChange::Swap { a, b } => {
                let of = |name: &str| self.collections.iter().find(|(_, c)| c.name.is(name)).map(|(incarnation, _)| *incarnation);
                for (incarnation, name) in [(of(&a), &b), (of(&b), &a)] {
                    if let Some(collection) = incarnation.and_then(|incarnation| self.collections.get_mut(&incarnation)) {
                        collection.name = Name::Said(name.clone());
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

    fn begin(&mut self, name: String, incarnation: Incarnation, schema: Schema, made_up: Option<MadeUp>) {
        let begun = || Gathering::new(Name::MadeUp(String::new()), schema, made_up);
        self.collections.entry(incarnation).or_insert_with(begun);
        self.rename(incarnation, name);
    }

    /// Gives a collection a name. One that had it must have lost it, in a commit that is lost.
    fn rename(&mut self, incarnation: Incarnation, to: String) {
        for (other, collection) in &mut self.collections {
            if *other == incarnation {
                collection.name = Name::Said(to.clone());
            } else if collection.name.is(&to) {
                collection.name = Name::Taken { name: to.clone(), by: incarnation };
            }
        }
    }

    fn effects(&mut self, lsn: Lsn, effects: CollectionEffects) -> Result<()> {
        let dead = self.dying(lsn, &effects)?;
        let Some(collection) = self.collections.get_mut(&effects.incarnation) else { return Ok(()) };
        match dead {
            Ok(dead) => collection.die(&dead),
            Err(loss) => collection.may_die(lsn, &loss),
        }
        effects.rows.into_iter().for_each(|row| collection.logged(lsn, row));
        effects.landed.iter().try_for_each(|entry| self.segment(effects.incarnation, entry, lsn))
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
}

impl Gathering {
    /// Adds a row that stands in the log.
    fn logged(&mut self, lsn: Lsn, row: RowEffect) {
        let (seq, mut document, mut losses) = (row.seq, row.document, Vec::new());
        self.see(&document);
        let misfit = document.vector.as_ref().map(|v| v.len() as u32).filter(|found| !self.admits(*found));
        if let Some(found) = misfit {
            let seen = self.dimension.unwrap_or_default();
            let reason = format!("its vector in lsn {lsn} has {found} components, others of the collection have {seen}");
            losses.push(Loss::new(LossKind::Vector, reason).id(Some(&document.id)));
            document = Arc::new(StoredDocument { vector: None, ..StoredDocument::clone(&document) });
        }
        if document.vector.as_deref().is_some_and(|v| first_unrounded(v, self.schema.components).is_some()) {
            self.stored_as(Some(Components::F32));
        }
        let (id, life) = (document.id.clone(), Life { since: lsn, doubt: None });
        self.add(seq, Row { id, place: Place::Log(document), life, losses });
    }
}

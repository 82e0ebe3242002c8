//! One collection while it is gathered: its rows, and what is lost of it, which is told only if it is there in the end.

use super::names::Name;
use super::source_key::SourceKeys;
use crate::document::StoredDocument;
use crate::format::manifest::SegmentEntry;
use crate::ids::{Lsn, Seq};
use crate::inspect::salvage::ledger::{Loss, LossKind};
use crate::options::{Components, Schema};
use roaring::RoaringTreemap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a document is.
#[derive(Debug)]
pub(in crate::inspect::salvage) enum Place {
    /// In a segment, by its index among those opened. `vector`: whether it is to be read with its vector.
    Segment { segment: usize, row: u32, vector: bool },
    /// In a record of the log.
    Log(Arc<StoredDocument>),
}

/// A row that lives, or may.
#[derive(Debug)]
pub(in crate::inspect::salvage) struct Row {
    pub(in crate::inspect::salvage) id: Box<str>,
    pub(in crate::inspect::salvage) place: Place,
    pub(super) life: Life,
    /// What was lost of it, to be told if it is kept.
    pub(super) losses: Vec<Loss>,
}

impl Row {
    /// Whether it is read from this segment.
    pub(super) fn is_in(&self, index: usize) -> bool {
        matches!(self.place, Place::Segment { segment, .. } if segment == index)
    }
}

/// What is known of a row's life.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    /// It lived after this commit: the one that wrote it, or the last one of the manifest.
    pub(super) since: Lsn,
    /// The first commit, if any, that may have killed it: what says so cannot be read.
    pub(super) doubt: Option<Lsn>,
}

impl Life {
    pub(super) fn doubted(&mut self, lsn: Lsn) {
        self.doubt.get_or_insert(lsn);
    }
}

/// A segment that cannot be opened.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) loss: Loss,
    pub(super) seqs: std::ops::RangeInclusive<Seq>,
    pub(super) rows: u64,
    /// Its rows that died since: those are not lost.
    pub(super) dead: RoaringTreemap,
}

/// Why a schema is made up, and what is known of the lost one.
#[derive(Debug)]
pub(super) struct MadeUp {
    pub(super) why: Loss,
    pub(super) keys: SourceKeys,
}

impl MadeUp {
    pub(super) fn new(why: Loss) -> MadeUp {
        MadeUp { why, keys: SourceKeys::default() }
    }
}

/// One life of a collection.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) name: Name,
    /// As it was said, whatever the documents are.
    pub(super) schema: Schema,
    pub(super) made_up: Option<MadeUp>,
    pub(super) rows: BTreeMap<Seq, Row>,
    /// Rows that cannot be read, until it turns out that they died anyway.
    pub(super) lost: BTreeMap<Seq, (Life, Loss)>,
    /// Lost rows whose seq is lost too.
    pub(super) lost_without_seq: Vec<Loss>,
    /// Segments none of whose rows can be read.
    pub(super) unread: Vec<Unread>,
    /// Segments by their index whose documents are not all what was stored.
    pub(super) altered: Vec<(usize, Loss)>,
    /// Components of the vectors that were seen; the first decide.
    pub(super) dimension: Option<u32>,
    /// Whether a vector was seen which the schema would round. With the wider form no number of any vector is another one.
    pub(super) wide: bool,
}

impl Gathering {
    pub(super) fn new(name: Name, schema: Schema, made_up: Option<MadeUp>) -> Gathering {
        Gathering {
            name,
            schema,
            made_up,
            rows: BTreeMap::new(),
            lost: BTreeMap::new(),
            lost_without_seq: Vec::new(),
            unread: Vec::new(),
            altered: Vec::new(),
            dimension: None,
            wide: false,
        }
    }

    /// Whether vectors of `found` components fit those that were seen before.
    pub(super) fn admits(&mut self, found: u32) -> bool {
        *self.dimension.get_or_insert(found) == found
    }

    /// Notes how vectors are stored that are here.
    pub(super) fn stored_as(&mut self, components: Option<Components>) {
        self.wide |= components == Some(Components::F32) && self.schema.components != Components::F32;
    }

    /// Notes a document that was stored here, whether it lives or not.
    pub(super) fn see(&mut self, document: &StoredDocument) {
        if let Some(made_up) = &mut self.made_up {
            made_up.keys.see(document);
        }
    }

    /// Adds a row that lives, as far as is known.
    pub(super) fn add(&mut self, seq: Seq, row: Row) {
        if let Some(other) = self.rows.insert(seq, row) {
            let reason = format!("another document, which is kept, has its seq {seq} too");
            self.lost_without_seq.push(Loss::new(LossKind::Document, reason).id(Some(&other.id)));
        }
    }

    /// Notes a row that cannot be read.
    pub(super) fn lose(&mut self, seq: Seq, life: Life, loss: Loss) {
        self.lost_without_seq.extend(self.lost.insert(seq, (life, loss)).map(|(_, loss)| loss));
    }

    /// Notes a segment that cannot be opened.
    pub(super) fn lose_segment(&mut self, entry: &SegmentEntry, loss: Loss) {
        let rows = entry.rows.saturating_sub(entry.tombstones.as_ref().map_or(0, |t| t.dead));
        self.unread.push(Unread { loss, seqs: entry.base_seq..=entry.last_seq, rows, dead: RoaringTreemap::new() });
    }

    /// Rows die. Segments have their own seqs, so that of one that cannot be opened it is known how many.
    pub(super) fn die(&mut self, dead: &RoaringTreemap) {
        for seq in dead.iter().map(Seq) {
            if self.rows.remove(&seq).is_none()
                && self.lost.remove(&seq).is_none()
                && let Some(unread) = self.unread.iter_mut().find(|unread| unread.seqs.contains(&seq))
            {
                unread.dead.insert(seq.0);
            }
        }
    }

    /// A commit killed rows, and which ones is lost.
    pub(super) fn may_die(&mut self, lsn: Lsn, loss: &Loss) {
        for row in self.rows.values_mut() {
            row.life.doubted(lsn);
            row.losses.push(loss.clone().id(Some(&row.id)));
        }
        self.lost.values_mut().for_each(|(life, _)| life.doubted(lsn));
    }
}

//! Turns what a batch asks for into what it does: rows that are born, rows that die, changes of the catalog.
//!
//! Under the writer's lock, in commit order. Every operation sees the ones before it in its batch through an overlay, and every commit
//! before it, published or staged, through the parts. Nothing is changed here: a refusal drops the batch and that is all.

use super::batch::{Prepared, Staged, StagedOperation, round_vector, source_of};
use super::part::matches;
use super::patch::patched;
use super::version::{Catalog, CollectionInfo, Part, Parts, Version};
use crate::document::{Patch, StoredDocument};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::format::effects::CatalogChange;
use crate::ids::{Incarnation, Lsn, Seq};
use crate::memtable::{Analysis, Totals};
use crate::options::Derivation;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sees every commit, staged ones too.
pub(crate) const NEWEST: Lsn = Lsn(u64::MAX - 1);

/// What one call of a batch did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Document versions written.
    pub written: u64,
    /// Documents that are gone: deleted, or of a replaced source and not written again under it. Replacing by `put` counts none.
    pub deleted: u64,
}

/// A row to be born.
#[derive(Debug)]
pub(crate) struct NewRow {
    pub(crate) seq: Seq,
    pub(crate) document: Arc<StoredDocument>,
    pub(crate) analysis: Analysis,
}

/// A row to die.
#[derive(Debug, Clone)]
pub(crate) struct DyingRow {
    pub(crate) seq: Seq,
    pub(crate) part: Part,
    pub(crate) row: u32,
    pub(crate) totals: Totals,
}

/// What a batch does to one collection.
#[derive(Debug)]
pub(crate) struct ResolvedCollection {
    pub(crate) incarnation: Incarnation,
    pub(crate) derivation: Derivation,
    pub(crate) rows: Vec<NewRow>,
    pub(crate) dying: Vec<DyingRow>,
}

/// What a batch does.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) changes: Vec<CatalogChange>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) collections: Vec<ResolvedCollection>,
    pub(crate) next_seq: Seq,
    pub(crate) next_incarnation: Incarnation,
}

impl Resolved {
    /// Whether it changes nothing: such a batch needs no log record.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.collections.iter().all(|c| c.rows.is_empty() && c.dying.is_empty())
    }
}

/// The state of a resolution.
pub(crate) struct Resolver<'a> {
    version: &'a Version,
    /// Copied when it is first changed.
    catalog: Arc<Catalog>,
    changes: Vec<CatalogChange>,
    /// Incarnations that this batch ended.
    gone: FxHashSet<Incarnation>,
    overlays: BTreeMap<Incarnation, Overlay>,
    next_seq: Seq,
    next_incarnation: Incarnation,
    time_ms: u64,
}

/// What the batch did to one collection so far, over the parts that are there.
struct Overlay {
    derivation: Derivation,
    parts: Parts,
    pending: Vec<Option<NewRow>>,
    /// Where an id is now, for ids this batch touched.
    by_id: FxHashMap<Box<str>, Option<usize>>,
    dying: Vec<DyingRow>,
    dying_seqs: FxHashSet<Seq>,
}

/// Where a document is.
enum Place {
    Pending(usize),
    Stored { part: usize, row: u32 },
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(
        version: &'a Version,
        catalog: &Arc<Catalog>,
        next_seq: Seq,
        next_incarnation: Incarnation,
        time_ms: u64,
    ) -> Resolver<'a> {
        Resolver {
            version,
            catalog: catalog.clone(),
            changes: Vec::new(),
            gone: FxHashSet::default(),
            overlays: BTreeMap::new(),
            next_seq,
            next_incarnation,
            time_ms,
        }
    }

    /// Resolves every operation in order.
    pub(crate) fn resolve(mut self, staged: Staged) -> Result<Resolved> {
        let outcomes = staged.operations.into_iter().map(|op| self.operation(op)).collect::<Result<_>>()?;
        Error::refuse_counter("seq", self.next_seq.0)?;
        Error::refuse_counter("incarnation", self.next_incarnation.0)?;
        // What happened to a collection that the batch then dropped or cleared needs no record.
        let collections = self.overlays.into_iter().filter(|(i, _)| !self.gone.contains(i)).map(|(incarnation, o)| ResolvedCollection {
            incarnation,
            derivation: o.derivation,
            rows: o.pending.into_iter().flatten().collect(),
            dying: o.dying,
        });
        Ok(Resolved {
            outcomes,
            changes: self.changes,
            collections: collections.collect(),
            catalog: self.catalog,
            next_seq: self.next_seq,
            next_incarnation: self.next_incarnation,
        })
    }

    fn operation(&mut self, operation: StagedOperation) -> Result<Outcome> {
        match operation {
            StagedOperation::Put { collection, documents, insert } => self.put(&collection, documents, insert),
            StagedOperation::Patch { collection, patches } => self.patch(&collection, patches),
            StagedOperation::Delete { collection, ids } => self.delete(&collection, &ids),
            StagedOperation::DeleteWhere { collection, filter } => {
                let deleted = self.overlay(&collection)?.1.kill_where(&filter)?;
                Ok(Outcome { written: 0, deleted })
            }
            StagedOperation::DeleteSource { collection, source } => {
                let deleted = self.overlay(&collection)?.1.kill_source(&source)?.len() as u64;
                Ok(Outcome { written: 0, deleted })
            }
            StagedOperation::ReplaceSource { collection, source, documents } => {
                let before = self.overlay(&collection)?.1.kill_source(&source)?;
                let kept = documents.iter().filter(|d| before.contains(&d.document.id)).count();
                let written = self.put(&collection, documents, false)?.written;
                Ok(Outcome { written, deleted: (before.len() - kept) as u64 })
            }
            StagedOperation::Clear { collection } => self.clear(&collection),
            StagedOperation::Create { name, schema } => self.create(&name, schema),
            StagedOperation::Drop { name } => self.drop_collection(&name),
            StagedOperation::Rename { from, to } => self.rename(&from, &to),
            StagedOperation::Swap { a, b } => self.swap(&a, &b),
            StagedOperation::PutCompanion { collection, companion, embedder, documents } => {
                self.put_companion(&collection, companion, embedder.as_deref(), documents)
            }
            StagedOperation::DropCompanion { collection, companion } => self.drop_companion(&collection, companion),
            StagedOperation::DeleteCompanion { collection, companion, ids } => self.delete_companion(&collection, companion, &ids),
        }
    }

    pub(super) fn info(&self, name: &str) -> Result<&Arc<CollectionInfo>> {
        self.catalog.collections.get(name).ok_or_else(|| no_collection(name))
    }

    /// The overlay of a collection, with its incarnation.
    fn overlay(&mut self, name: &str) -> Result<(Incarnation, &mut Overlay)> {
        let info = self.info(name)?;
        let (incarnation, derivation) = (info.incarnation, info.schema.derivation());
        let version = self.version;
        let overlay = self.overlays.entry(incarnation).or_insert_with(|| Overlay {
            derivation,
            parts: version.parts(incarnation, NEWEST),
            pending: Vec::new(),
            by_id: FxHashMap::default(),
            dying: Vec::new(),
            dying_seqs: FxHashSet::default(),
        });
        Ok((incarnation, overlay))
    }

    pub(super) fn put(&mut self, name: &str, documents: Vec<Prepared>, insert: bool) -> Result<Outcome> {
        let schema = self.info(name)?.schema.clone();
        let written = documents.len() as u64;
        for prepared in documents {
            let prepared = prepared.under(&schema)?;
            let overlay = self.overlay(name)?.1;
            let existed = overlay.kill(&prepared.document.id)?;
            if insert && existed {
                return Err(Error::AlreadyExists(format!(
                    "document {:?} in collection {name:?}; insert writes new ids only, nothing of the batch was written; put replaces",
                    prepared.document.id
                )));
            }
            self.add(name, prepared.document, prepared.analysis)?;
        }
        Ok(Outcome { written, deleted: 0 })
    }

    pub(super) fn delete(&mut self, name: &str, ids: &[String]) -> Result<Outcome> {
        let overlay = self.overlay(name)?.1;
        let mut deleted = 0;
        for id in ids {
            deleted += u64::from(overlay.kill(id)?);
        }
        Ok(Outcome { written: 0, deleted })
    }

    fn patch(&mut self, name: &str, patches: Vec<Patch>) -> Result<Outcome> {
        let schema = self.info(name)?.schema.clone();
        let (written, time_ms) = (patches.len() as u64, self.time_ms);
        for patch in patches {
            let overlay = self.overlay(name)?.1;
            let Some(place) = overlay.place(&patch.id)? else {
                return Err(Error::NotFound(format!(
                    "document {:?} in collection {name:?}; a patch changes existing documents, nothing of the batch was written",
                    patch.id
                )));
            };
            if let Some(version) = patch.version
                && overlay.seq(&place)? != version
            {
                return Err(Error::NotFound(format!(
                    "version {} of document {:?} in collection {name:?}: it was written since; nothing of the batch was written. Read it again",
                    version.0, patch.id
                )));
            }
            let current = overlay.read(&place)?;
            let mut document = patched(&current, &patch)?;
            let given = current.source.as_deref().filter(|_| current.source_given);
            if patch.metadata.is_some() {
                let (source, source_given) = source_of(&patch.id, given, document.metadata.as_ref(), &schema.source_key)?;
                (document.source, document.source_given) = (source.map(Into::into), source_given);
            }
            round_vector(&mut document, schema.components)?;
            document.time_ms = time_ms;
            overlay.kill(&patch.id)?;
            let analysis = Analysis::of(schema.derivation(), &document);
            self.add(name, Arc::new(document), analysis)?;
        }
        Ok(Outcome { written, deleted: 0 })
    }

    /// Adds a row to a collection, fixing or checking the dimension.
    fn add(&mut self, name: &str, document: Arc<StoredDocument>, analysis: Analysis) -> Result<()> {
        if let Some(vector) = &document.vector {
            self.check_dimension(name, &document.id, vector.len())?;
        }
        let seq = self.next_seq;
        self.next_seq = seq.next();
        let overlay = self.overlay(name)?.1;
        overlay.by_id.insert(document.id.clone(), Some(overlay.pending.len()));
        overlay.pending.push(Some(NewRow { seq, document, analysis }));
        Ok(())
    }

    fn check_dimension(&mut self, name: &str, id: &str, found: usize) -> Result<()> {
        let info = self.info(name)?;
        match info.schema.dimension {
            Some(expected) if expected as usize == found => Ok(()),
            Some(expected) => Err(Error::SchemaMismatch(format!(
                "the vector of document {id:?} has {found} components, collection {name:?} has dimension {expected}; nothing of the batch was \
                 written"
            ))),
            None => {
                let dimension = u32::try_from(found).expect("at most 65,535, checked when the batch was prepared");
                let incarnation = info.incarnation;
                self.change(CatalogChange::FixDimension { incarnation, dimension })
            }
        }
    }

    /// Changes the catalog, now and in the record.
    pub(super) fn change(&mut self, change: CatalogChange) -> Result<()> {
        Arc::make_mut(&mut self.catalog).apply(&change).map_err(Error::InvalidArgument)?;
        if let CatalogChange::Drop { incarnation, .. } | CatalogChange::Clear { old: incarnation, .. } = &change {
            self.gone.insert(*incarnation);
        }
        self.changes.push(change);
        Ok(())
    }

    /// How many documents a collection has now.
    pub(super) fn live(&mut self, name: &str) -> Result<u64> {
        Ok(self.overlay(name)?.1.live())
    }

    pub(super) fn new_incarnation(&mut self) -> Incarnation {
        let incarnation = self.next_incarnation;
        self.next_incarnation = incarnation.next();
        incarnation
    }
}

/// The error for a collection that is not there.
pub(crate) fn no_collection(name: &str) -> Error {
    Error::NotFound(format!("collection {name:?}; create it first"))
}

impl Overlay {
    /// Where the document `id` is now.
    fn place(&self, id: &str) -> Result<Option<Place>> {
        if let Some(slot) = self.by_id.get(id) {
            return Ok(slot.map(Place::Pending));
        }
        Ok(self.parts.find(id)?.map(|(part, row)| Place::Stored { part, row }))
    }

    /// The number of the version at a place.
    fn seq(&self, place: &Place) -> Result<Seq> {
        match *place {
            Place::Pending(i) => Ok(self.pending[i].as_ref().expect("an id names a row that lives").seq),
            Place::Stored { part, row } => self.parts.parts[part].seq(row),
        }
    }

    fn read(&self, place: &Place) -> Result<Arc<StoredDocument>> {
        match *place {
            Place::Pending(i) => Ok(self.pending[i].as_ref().expect("an id names a row that lives").document.clone()),
            Place::Stored { part, row } => self.parts.parts[part].document(row, true).map(Arc::new),
        }
    }

    /// Lets the document of this id die; whether there was one.
    fn kill(&mut self, id: &str) -> Result<bool> {
        let Some(place) = self.place(id)? else { return Ok(false) };
        match place {
            Place::Pending(i) => self.pending[i] = None,
            Place::Stored { part, row } => self.kill_stored(part, row)?,
        }
        self.by_id.insert(id.into(), None);
        Ok(true)
    }

    fn kill_stored(&mut self, part: usize, row: u32) -> Result<()> {
        let part = &self.parts.parts[part];
        let seq = part.seq(row)?;
        if self.dying_seqs.insert(seq) {
            self.dying.push(DyingRow { seq, part: part.clone(), row, totals: part.row_totals(row)? });
        }
        Ok(())
    }

    /// Lets every document of a source die, and returns their ids.
    fn kill_source(&mut self, source: &str) -> Result<FxHashSet<Box<str>>> {
        let mut killed: FxHashSet<Box<str>> = FxHashSet::default();
        for part in 0..self.parts.parts.len() {
            for row in self.parts.parts[part].source_rows(source, self.parts.lsn)? {
                let id: Box<str> = self.parts.parts[part].id(row)?.into();
                // An id that this batch touched is dead here already, or was replaced.
                if !self.by_id.contains_key(&id) {
                    self.kill_stored(part, row)?;
                    self.by_id.insert(id.clone(), None);
                    killed.insert(id);
                }
            }
        }
        for slot in &mut self.pending {
            if slot.as_ref().is_some_and(|r| r.document.source.as_deref() == Some(source)) {
                let id = slot.take().expect("just seen").document.id.clone();
                self.by_id.insert(id.clone(), None);
                killed.insert(id);
            }
        }
        Ok(killed)
    }

    /// Lets every document that matches a filter die, and returns how many did.
    fn kill_where(&mut self, filter: &Filter) -> Result<u64> {
        let mut killed = 0;
        for part in 0..self.parts.parts.len() {
            for row in self.parts.parts[part].matching(filter, self.parts.lsn)? {
                let id: Box<str> = self.parts.parts[part].id(row)?.into();
                // An id that this batch touched is dead here already, or was replaced.
                if !self.by_id.contains_key(&id) {
                    self.kill_stored(part, row)?;
                    self.by_id.insert(id, None);
                    killed += 1;
                }
            }
        }
        for slot in &mut self.pending {
            if slot.as_ref().is_some_and(|r| matches(filter, &r.document)) {
                let id = slot.take().expect("just seen").document.id.clone();
                self.by_id.insert(id, None);
                killed += 1;
            }
        }
        Ok(killed)
    }

    /// How many documents live now.
    fn live(&self) -> u64 {
        self.parts.totals().documents + self.pending.iter().flatten().count() as u64 - self.dying.len() as u64
    }
}

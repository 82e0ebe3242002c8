//! What a moment of the database consists of: a catalog, segments, memtables.
//!
//! A [`Version`] is immutable; checkpoints, merges and landed segments replace it. Together with an lsn it is a snapshot.

use super::segments::SegmentHandle;
use crate::format::effects::CatalogChange;
use crate::format::manifest::Manifest;
use crate::ids::{Generation, Incarnation, Lsn, Seq};
use crate::memtable::{MemCollection, Memtable, Totals};
use crate::options::Schema;
use rpds::RedBlackTreeMapSync;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The collections by name. A copy shares what it does not change: each commit that changes the catalog keeps one of its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) collections: RedBlackTreeMapSync<Arc<str>, Arc<CollectionInfo>>,
    /// The name of each life.
    names: RedBlackTreeMapSync<Incarnation, Arc<str>>,
}

impl Catalog {
    /// The catalog that a manifest names.
    pub(crate) fn of(manifest: &Manifest) -> Catalog {
        let info = |c: &crate::format::manifest::CollectionEntry| CollectionInfo { incarnation: c.incarnation, schema: c.schema.clone() };
        let mut catalog = Catalog::default();
        manifest.collections.iter().for_each(|c| catalog.insert(c.name.as_str().into(), info(c)));
        catalog
    }

    fn insert(&mut self, name: Arc<str>, info: CollectionInfo) {
        self.names.insert_mut(info.incarnation, name.clone());
        self.collections.insert_mut(name, Arc::new(info));
    }

    fn remove(&mut self, name: &str) {
        if let Some(info) = self.collections.get(name).cloned() {
            self.names.remove_mut(&info.incarnation);
            self.collections.remove_mut(name);
        }
    }

    /// Applies one change; the reason when it does not fit. Commit and replay both come through here.
    pub(crate) fn apply(&mut self, change: &CatalogChange) -> Result<(), String> {
        let expect = |catalog: &Catalog, name: &str, incarnation: Incarnation| match catalog.collections.get(name) {
            Some(info) if info.incarnation == incarnation => Ok(info.clone()),
            Some(info) => Err(format!("collection {name:?} is incarnation {}, the change names {incarnation}", info.incarnation)),
            None => Err(format!("there is no collection {name:?}")),
        };
        match change {
            CatalogChange::Create { name, incarnation, schema } => {
                self.expect_free(name, *incarnation)?;
                self.insert(name.as_str().into(), CollectionInfo { incarnation: *incarnation, schema: schema.clone() });
            }
            CatalogChange::Drop { name, incarnation } => {
                expect(self, name, *incarnation)?;
                self.remove(name);
            }
            CatalogChange::Clear { name, old, new } => {
                let info = expect(self, name, *old)?;
                self.remove(name);
                self.expect_free(name, *new)?;
                self.insert(name.as_str().into(), CollectionInfo { incarnation: *new, schema: info.schema.clone() });
            }
            CatalogChange::Rename { from, to, incarnation } => {
                let info = expect(self, from, *incarnation)?;
                if from == to {
                    return Err(format!("collection {from:?} is renamed to its own name"));
                }
                self.remove(from);
                self.expect_free(to, *incarnation)?;
                self.insert(to.as_str().into(), CollectionInfo::clone(&info));
            }
            CatalogChange::Swap { a, b } => {
                let (Some(of_a), Some(of_b)) = (self.collections.get(a.as_str()).cloned(), self.collections.get(b.as_str()).cloned())
                else {
                    return Err(format!("one of the collections {a:?} and {b:?} does not exist"));
                };
                self.insert(a.as_str().into(), CollectionInfo::clone(&of_b));
                self.insert(b.as_str().into(), CollectionInfo::clone(&of_a));
            }
            CatalogChange::FixDimension { incarnation, dimension } => {
                let name = self.names.get(incarnation).cloned();
                let info = name.as_ref().and_then(|name| self.collections.get(name)).filter(|info| info.incarnation == *incarnation);
                let (Some(name), Some(info)) = (name.clone(), info.cloned()) else {
                    return Err(format!("there is no collection of incarnation {incarnation}"));
                };
                if let Some(fixed) = info.schema.dimension.filter(|fixed| fixed != dimension) {
                    return Err(format!("the vectors of collection {name:?} have {fixed} components, the change names {dimension}"));
                }
                let schema = Schema { dimension: Some(*dimension), ..info.schema.clone() };
                self.insert(name, CollectionInfo { incarnation: *incarnation, schema });
            }
        }
        Ok(())
    }

    /// Components of the vectors of a life, once that is fixed.
    pub(crate) fn dimension(&self, incarnation: Incarnation) -> Option<u32> {
        self.collections.get(self.names.get(&incarnation)?)?.schema.dimension
    }

    /// Whether a collection of this name and incarnation may be added.
    fn expect_free(&self, name: &str, incarnation: Incarnation) -> Result<(), String> {
        if let Some(info) = self.collections.get(name) {
            return Err(format!("collection {name:?} is there already, as incarnation {}", info.incarnation));
        }
        match self.names.get(&incarnation) {
            Some(other) => Err(format!("incarnation {incarnation} is that of collection {other:?} already")),
            None => Ok(()),
        }
    }
}

/// What a collection is.
#[derive(Debug, Clone)]
pub(crate) struct CollectionInfo {
    pub(crate) incarnation: Incarnation,
    pub(crate) schema: Schema,
}

/// The segments of one collection, ascending by seq, and its live totals at the version's `applied_lsn`.
#[derive(Debug, Clone, Default)]
pub(crate) struct CollectionSegments {
    pub(crate) totals: Totals,
    pub(crate) segments: Vec<Arc<SegmentHandle>>,
}

/// One immutable arrangement of segments and memtables.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) generation: Generation,
    /// The manifest on disk, which is exactly the state at its `applied_lsn`.
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) collections: BTreeMap<Incarnation, Arc<CollectionSegments>>,
    /// Frozen memtables, oldest first.
    pub(crate) frozen: Vec<Arc<Frozen>>,
    pub(crate) active: Arc<Memtable>,
}

/// A memtable that takes no more rows.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) memtable: Arc<Memtable>,
    /// The last commit in it, and of every landed segment before it.
    pub(crate) last_lsn: Lsn,
    /// The collections as they were then: what a manifest of that lsn names.
    pub(crate) catalog: Arc<Catalog>,
    /// The counters as they were then.
    pub(crate) next_seq: Seq,
    pub(crate) next_incarnation: Incarnation,
}

/// One part of a collection: rows in ascending seq order.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Segment(Arc<SegmentHandle>),
    Memory(Arc<MemCollection>),
}

impl Part {
    /// The first seq, which orders the parts.
    fn first_seq(&self) -> Seq {
        match self {
            Part::Segment(s) => s.entry.base_seq,
            Part::Memory(m) => m.seq_range().map_or(Seq(u64::MAX), |(first, _)| first),
        }
    }
}

/// The parts of one collection at one lsn.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) parts: Vec<Part>,
    pub(crate) lsn: Lsn,
    /// Live totals at `applied`; what came and went since is in the parts.
    base: Totals,
    applied: Lsn,
}

impl Version {
    /// The lsn of the manifest.
    pub(crate) fn applied_lsn(&self) -> Lsn {
        self.manifest.applied_lsn
    }

    /// The memtables, oldest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.frozen.iter().map(|f| &f.memtable).chain([&self.active])
    }

    /// The parts of a collection, oldest first, as a reader at `lsn` sees them.
    pub(crate) fn parts(&self, incarnation: Incarnation, lsn: Lsn) -> Parts {
        let stored = self.collections.get(&incarnation);
        let mut parts: Vec<Part> = stored.iter().flat_map(|c| c.segments.iter().cloned().map(Part::Segment)).collect();
        let in_memory = self.memtables().filter_map(|m| m.collection(incarnation)).filter(|m| m.row_count() > 0);
        parts.extend(in_memory.map(Part::Memory));
        // A landed segment is younger than the memtable that was frozen for it.
        parts.sort_by_key(Part::first_seq);
        Parts { parts, lsn, base: stored.map_or(Totals::default(), |c| c.totals), applied: self.applied_lsn() }
    }

    /// All segments of all collections.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Arc<SegmentHandle>> {
        self.collections.values().flat_map(|c| c.segments.iter())
    }

    /// This version with a segment added at the young end of a collection.
    pub(crate) fn with_segment(&mut self, incarnation: Incarnation, segment: Arc<SegmentHandle>) {
        let entry = self.collections.entry(incarnation).or_default();
        Arc::make_mut(entry).segments.push(segment);
    }
}

impl Parts {
    /// Documents, tokens and vectors at this lsn. O(parts x log deaths).
    pub(crate) fn totals(&self) -> Totals {
        let mut total = self.base;
        for part in &self.parts {
            match part {
                Part::Segment(s) => {
                    if s.landed > self.applied && s.landed <= self.lsn {
                        total += Totals { documents: s.entry.rows, tokens: s.entry.tokens, vectors: s.entry.vectors };
                    }
                    total -= s.log.between(self.applied, self.lsn);
                }
                Part::Memory(m) => total += m.totals(self.lsn),
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_that_is_renamed_to_its_own_name_is_refused() {
        let mut catalog = Catalog::default();
        let incarnation = Incarnation(1);
        catalog.apply(&CatalogChange::Create { name: "a".into(), incarnation, schema: Schema::default() }).unwrap();
        let rename = |to: &str| CatalogChange::Rename { from: "a".into(), to: to.into(), incarnation };
        assert!(catalog.apply(&rename("a")).unwrap_err().contains("its own name"));
        assert!(catalog.collections.contains_key("a"));
        catalog.apply(&rename("b")).unwrap();
    }
}

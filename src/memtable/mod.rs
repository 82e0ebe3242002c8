//! Committed documents that no segment holds yet, and the deaths of rows that no tombstone file holds yet.
//!
//! Everything here is append-only and read without waiting: one writer at a time (the commit path holds the writer's lock) appends rows,
//! postings and deaths stamped with their lsn; a reader at lsn `L` sees a row iff `birth <= L < death`, so rows of commits that are staged but
//! not yet published are there and invisible. The rows of a commit that fails stay, with a birth and a death that leave no lsn between them.
//!
//! Never here: files, the log, what an operation means. Replay and commit feed it the same effects.
//!
//! | file | role |
//! | --- | --- |
//! | `append.rs` | [`append::AppendVec`]: a vector that grows while others read it |
//! | `postings.rs` | [`postings::PostingList`] and the sharded map from a term, id or source to one |
//! | `deaths.rs` | [`deaths::DeathMap`] of a segment, [`deaths::DeathLog`] with running totals |
//! | `metadata.rs` | [`metadata::MemMetadata`]: rows by the values of their metadata |
//! | `graph.rs` | [`MemGraph`]: mentions and relations of the rows |
//! | `collection.rs` | [`MemCollection`]: the rows of one collection |

pub mod append;
pub mod collection;
pub mod deaths;
pub mod metadata;
pub mod graph;
pub mod postings;

pub use collection::{Analysis, MemCollection, MemRow, graph_weight};
pub use graph::MemGraph;

use crate::ids::{Incarnation, Lsn};
use crate::options::Derivation;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use std::ops::{AddAssign, SubAssign};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts of documents and what belongs to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Documents.
    pub documents: u64,
    /// Tokens of their texts.
    pub tokens: u64,
    /// Documents that have a vector.
    pub vectors: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.documents = self.documents.wrapping_add(other.documents);
        self.tokens = self.tokens.wrapping_add(other.tokens);
        self.vectors = self.vectors.wrapping_add(other.vectors);
    }
}

impl SubAssign for Totals {
    // Wrapping, so that sums and differences may be taken in any order.
    fn sub_assign(&mut self, other: Totals) {
        self.documents = self.documents.wrapping_sub(other.documents);
        self.tokens = self.tokens.wrapping_sub(other.tokens);
        self.vectors = self.vectors.wrapping_sub(other.vectors);
    }
}

/// The committed, unflushed rows of every collection, between two freezes.
#[derive(Debug, Default)]
pub struct Memtable {
    collections: RwLock<FxHashMap<Incarnation, Arc<MemCollection>>>,
    bytes: AtomicUsize,
}

impl Memtable {
    /// An empty one.
    pub fn new() -> Memtable {
        Memtable::default()
    }

    /// The rows of one collection, if it has any here.
    pub fn collection(&self, incarnation: Incarnation) -> Option<Arc<MemCollection>> {
        self.collections.read().get(&incarnation).cloned()
    }

    /// The rows of one collection, made when it has none yet.
    pub fn collection_or_new(&self, incarnation: Incarnation, derivation: Derivation) -> Arc<MemCollection> {
        if let Some(found) = self.collection(incarnation) {
            return found;
        }
        // Ten thousand collections take room before their rows do.
        self.grow(size_of::<MemCollection>());
        self.collections.write().entry(incarnation).or_insert_with(|| Arc::new(MemCollection::new(derivation))).clone()
    }

    /// Every collection with rows here, in the order of their incarnations.
    pub fn collections(&self) -> Vec<(Incarnation, Arc<MemCollection>)> {
        let mut all: Vec<_> = self.collections.read().iter().map(|(i, c)| (*i, c.clone())).collect();
        all.sort_by_key(|(i, _)| *i);
        all
    }

    /// About how many bytes the rows take.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Adds to the bytes taken.
    pub fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether no row was ever appended.
    pub fn is_empty(&self) -> bool {
        self.collections.read().values().all(|c| c.row_count() == 0)
    }
}

/// A row is seen at `lsn` iff it was born by then and had not died.
#[inline]
pub fn visible(birth: Lsn, death: u64, lsn: Lsn) -> bool {
    birth <= lsn && lsn.0 < death
}

#[cfg(test)]
mod tests;

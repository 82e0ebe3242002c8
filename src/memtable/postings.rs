//! Posting lists that grow while they are read, and the map that finds them.

use parking_lot::RwLock;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Rows in ascending order, each with a number of its own (a frequency, a place). Two postings cost no allocation: most terms have no more.
#[derive(Debug, Default)]
pub struct PostingList {
    len: AtomicU32,
    first: [AtomicU64; 2],
    rest: OnceLock<Box<Chunk>>,
}

#[derive(Debug)]
struct Chunk {
    slots: Box<[AtomicU64]>,
    next: OnceLock<Box<Chunk>>,
}

impl Chunk {
    fn boxed(slots: usize) -> Box<Chunk> {
        Box::new(Chunk { slots: (0..slots).map(|_| AtomicU64::new(0)).collect(), next: OnceLock::new() })
    }
}

impl PostingList {
    /// Appends a row, which is not below any row before. For one thread at a time.
    pub fn push(&self, row: u32, value: u32) {
        let packed = u64::from(row) << 32 | u64::from(value);
        let index = self.len.load(Ordering::Relaxed) as usize;
        self.slot(index).store(packed, Ordering::Relaxed);
        self.len.store(index as u32 + 1, Ordering::Release);
    }

    /// The slot for the next item; chunks double from four slots on.
    fn slot(&self, index: usize) -> &AtomicU64 {
        if index < 2 {
            return &self.first[index];
        }
        let mut left = index - 2;
        let mut chunk: &Chunk = self.rest.get_or_init(|| Chunk::boxed(4));
        while left >= chunk.slots.len() {
            left -= chunk.slots.len();
            let doubled = chunk.slots.len() * 2;
            chunk = chunk.next.get_or_init(|| Chunk::boxed(doubled));
        }
        &chunk.slots[left]
    }

    /// How many postings there are.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire) as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `sink(row, value)` for every posting, rows ascending.
    pub fn for_each(&self, mut sink: impl FnMut(u32, u32)) {
        let mut left = self.len();
        let mut emit = |slots: &[AtomicU64]| {
            let take = left.min(slots.len());
            for slot in &slots[..take] {
                let packed = slot.load(Ordering::Relaxed);
                sink((packed >> 32) as u32, packed as u32);
            }
            left -= take;
            left > 0
        };
        if !emit(&self.first) {
            return;
        }
        let mut chunk = self.rest.get();
        while let Some(c) = chunk {
            if !emit(&c.slots) {
                return;
            }
            chunk = c.next.get();
        }
    }
}

/// Shards of a [`Names`] map: a resize moves one of them, and a reader waits for no more than that.
const SHARDS: usize = 16;

/// A map from a string to a value, read by many while one writes.
#[derive(Debug)]
pub struct Names<V> {
    shards: [RwLock<FxHashMap<Box<str>, V>>; SHARDS],
}

impl<V: Clone> Names<V> {
    /// An empty map.
    pub fn new() -> Names<V> {
        Names { shards: std::array::from_fn(|_| RwLock::default()) }
    }

    fn shard(&self, name: &str) -> &RwLock<FxHashMap<Box<str>, V>> {
        // The high bits: the shard's own table uses the low ones.
        &self.shards[(FxBuildHasher.hash_one(name) >> 60) as usize % SHARDS]
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<V> {
        self.shard(name).read().get(name).cloned()
    }

    /// Sets the value of `name` and returns the one before.
    pub fn insert(&self, name: &str, value: V) -> Option<V> {
        let mut shard = self.shard(name).write();
        match shard.get_mut(name) {
            Some(slot) => Some(std::mem::replace(slot, value)),
            None => shard.insert(name.into(), value),
        }
    }

    /// All names with their values, in the order of their bytes.
    pub fn sorted(&self) -> Vec<(Box<str>, V)> {
        let mut all: Vec<(Box<str>, V)> =
            self.shards.iter().flat_map(|s| s.read().iter().map(|(k, v)| (k.clone(), v.clone())).collect::<Vec<_>>()).collect();
        all.sort_unstable_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
        all
    }
}

impl<V: Clone> Default for Names<V> {
    fn default() -> Self {
        Names::new()
    }
}

impl Names<Arc<PostingList>> {
    /// Appends a posting to the list of `name`.
    pub fn push(&self, name: &str, row: u32, value: u32) {
        // Looked up first: most terms of a text are known, and a reader never waits for a look-up.
        let list = match self.get(name) {
            Some(list) => list,
            None => {
                let list = Arc::new(PostingList::default());
                self.insert(name, list.clone());
                list
            }
        };
        list.push(row, value);
    }
}

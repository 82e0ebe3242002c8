//! A vector that one thread appends to while others read what is there, without locks.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Slots of the first chunk, few because many collections have few rows; each further chunk doubles.
const FIRST: usize = 4;
/// Enough chunks for 2^31 items and more.
const CHUNKS: usize = 30;

type Chunk<T> = OnceLock<Box<[OnceLock<T>]>>;

/// Append-only, with stable references. Reading is wait-free; appending is for one thread at a time.
pub struct AppendVec<T> {
    chunks: [Chunk<T>; CHUNKS],
    len: AtomicUsize,
}

impl<T> AppendVec<T> {
    /// An empty one; allocates nothing.
    pub fn new() -> AppendVec<T> {
        AppendVec { chunks: std::array::from_fn(|_| OnceLock::new()), len: AtomicUsize::new(0) }
    }

    /// How many items were appended. An item below this length can be read.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends, and returns the item's index. Panics when two threads append at once: the callers hold the writer's lock.
    pub fn push(&self, item: T) -> usize {
        let index = self.len.load(Ordering::Relaxed);
        let (chunk, slot) = locate(index);
        let slots = self.chunks[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| OnceLock::new()).collect());
        assert!(slots[slot].set(item).is_ok(), "one thread appends at a time");
        // Released after the item is in its slot: whoever sees the new length sees the item.
        self.len.store(index + 1, Ordering::Release);
        index
    }

    /// The item at `index`, if it was appended.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        let (chunk, slot) = locate(index);
        self.chunks.get(chunk)?.get()?[slot].get()
    }

    /// The items appended so far, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().map_while(|c| c.get()).flat_map(|c| c.iter()).map_while(OnceLock::get).take(self.len())
    }
}

/// Chunk and slot of an index: chunk `c` holds the indices from `FIRST * (2^c - 1)` on.
#[inline]
fn locate(index: usize) -> (usize, usize) {
    let shifted = index + FIRST;
    let chunk = (shifted.ilog2() - FIRST.ilog2()) as usize;
    (chunk, shifted - (FIRST << chunk))
}

impl<T> Default for AppendVec<T> {
    fn default() -> Self {
        AppendVec::new()
    }
}

impl<T> fmt::Debug for AppendVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AppendVec({} items)", self.len())
    }
}

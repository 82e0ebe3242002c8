//! One file of the simulated disk: what is durable, what the cache shows, and every state in between that a power cut may leave.
//!
//! A disk writes sectors, and it may write the cached page at any moment after a change. So what a sector can hold after a power cut is one of
//! the contents that it *had* since the last sync, and sectors choose independently of each other and of the file's length. That is what
//! [`Inode::dirty`] and [`Inode::lengths`] record.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// Bytes that a disk writes at once: a torn write is torn between two of these.
pub(super) const SECTOR: usize = 512;

/// Bytes by which a file grows at once on the disk.
const PAGE: u64 = 4096;

/// The contents of one sector; what lies past the end of the file is zero.
pub(super) type Sector = [u8; SECTOR];

/// The moment of a change. Unlike operation numbers it survives a process kill, so that older pending changes stay older.
pub(super) type Stamp = u64;

/// The states of something since it was last durable, oldest first, the durable one itself left out.
#[derive(Debug, Clone)]
pub(super) struct Versions<T> {
    stamps: Vec<Stamp>,
    values: Vec<T>,
}

impl<T> Default for Versions<T> {
    fn default() -> Versions<T> {
        Versions { stamps: Vec::new(), values: Vec::new() }
    }
}

impl<T: Hash> Versions<T> {
    fn hash_state(&self, order: &[Stamp], hasher: &mut impl Hasher) {
        // The number of the values too, which is that of the stamps.
        self.values.hash(hasher);
        self.stamps.iter().for_each(|stamp| place(order, *stamp).hash(hasher));
    }
}

/// The place of a stamp among ascending ones.
pub(super) fn place(order: &[Stamp], stamp: Stamp) -> usize {
    order.partition_point(|&other| other < stamp)
}

impl<T> Versions<T> {
    pub(super) fn push(&mut self, stamp: Stamp, value: T) {
        self.stamps.push(stamp);
        self.values.push(value);
    }

    pub(super) fn newest(&self) -> Option<&T> {
        self.values.last()
    }

    /// When each of them came to be.
    pub(super) fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }

    /// State `n`, where 0 is the durable one, which is not among these, and 1 the oldest pending one.
    pub(super) fn pending(&self, n: usize) -> Option<&T> {
        self.values.get(n.checked_sub(1)?)
    }

    /// Every state, the durable one first.
    pub(super) fn states<'a>(&'a self, durable: &'a T) -> impl Iterator<Item = &'a T> {
        std::iter::once(durable).chain(&self.values)
    }

    pub(super) fn clear(&mut self) {
        self.stamps.clear();
        self.values.clear();
    }
}

/// The bytes of a file, shared between disks until one changes them, with their hash once somebody asked for it.
#[derive(Clone, Default)]
pub(super) struct Content(Arc<Hashed>);

#[derive(Clone, Default)]
struct Hashed {
    bytes: Vec<u8>,
    hash: OnceLock<u64>,
}

impl Content {
    pub(super) fn new(bytes: Vec<u8>) -> Content {
        Content(Arc::new(Hashed { bytes, hash: OnceLock::new() }))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    pub(super) fn len(&self) -> u64 {
        self.0.bytes.len() as u64
    }

    pub(super) fn edit(&mut self) -> &mut Vec<u8> {
        let own = Arc::make_mut(&mut self.0);
        own.hash = OnceLock::new();
        &mut own.bytes
    }

    pub(super) fn hash(&self) -> u64 {
        *self.0.hash.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            hasher.write(self.bytes());
            hasher.write_usize(self.bytes().len());
            hasher.finish()
        })
    }

    /// Copies into sector `number` as much of `sector` as lies before the end.
    pub(super) fn put_sector(&mut self, number: u64, sector: &Sector) {
        let range = sector_range(self.bytes(), number);
        let len = range.len();
        self.edit()[range].copy_from_slice(&sector[..len]);
    }
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// The part of `bytes` that sector `number` covers; empty past the end.
fn sector_range(bytes: &[u8], number: u64) -> std::ops::Range<usize> {
    let start = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(SECTOR).min(bytes.len());
    start..start.saturating_add(SECTOR).min(bytes.len())
}

fn sector_of(bytes: &[u8], number: u64) -> Sector {
    let mut sector = [0; SECTOR];
    let part = &bytes[sector_range(bytes, number)];
    sector[..part.len()].copy_from_slice(part);
    sector
}

/// The sectors that the bytes from `start` to `end` touch.
pub(super) fn sectors(start: u64, end: u64) -> std::ops::Range<u64> {
    start / SECTOR as u64..end.div_ceil(SECTOR as u64)
}

/// A file, with or without a name.
#[derive(Clone, Default)]
pub(super) struct Inode {
    /// The name that it was created under, for messages. There are no renames, and a hard link is another of these
    /// with the same bytes, which nobody may change; so it never has another.
    pub(super) name: String,
    /// What a power cut can't take.
    pub(super) durable: Content,
    /// What reads see.
    pub(super) cache: Content,
    /// The sectors written since the last sync, with each content that they had. Writing what was there already leaves an empty list.
    pub(super) dirty: BTreeMap<u64, Versions<Arc<Sector>>>,
    /// The lengths that the file had since the last sync, a write across pages passing through the end of each.
    pub(super) lengths: Versions<u64>,
    /// Mapped, so nobody may change it any more.
    pub(super) sealed: bool,
    /// An earlier sync lied; the next one says so.
    pub(super) late_error: bool,
    /// Sectors that can't be read.
    pub(super) unreadable: BTreeSet<u64>,
}

impl Inode {
    pub(super) fn new(name: &str, bytes: Vec<u8>) -> Inode {
        let content = Content::new(bytes);
        Inode { name: name.to_owned(), durable: content.clone(), cache: content, ..Inode::default() }
    }

    /// When each of its pending states came to be, in no order.
    pub(super) fn stamps(&self) -> Vec<Stamp> {
        self.dirty.values().flat_map(Versions::stamps).chain(self.lengths.stamps()).copied().collect()
    }

    /// Adds all of it to a hash, where `order` are all stamps of the disk, ascending: only their order counts.
    pub(super) fn hash_state(&self, order: &[Stamp], hasher: &mut impl Hasher) {
        (self.durable.hash(), self.cache.hash(), self.sealed, self.late_error).hash(hasher);
        self.unreadable.hash(hasher);
        self.lengths.hash_state(order, hasher);
        self.dirty.len().hash(hasher);
        for (number, versions) in &self.dirty {
            number.hash(hasher);
            versions.hash_state(order, hasher);
        }
    }

    pub(super) fn write(&mut self, stamp: Stamp, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        let cache = self.cache.edit();
        if cache.len() < end {
            cache.resize(end, 0);
        }
        cache[offset..end].copy_from_slice(bytes);
        self.note_pages(stamp);
        self.note(stamp, sectors(offset as u64, end as u64));
    }

    pub(super) fn set_len(&mut self, stamp: Stamp, len: usize) {
        let before = self.cache.len();
        self.cache.edit().resize(len, 0);
        // What is cut off is gone: extending the file again shows zeros.
        let cut = if (len as u64) < before { sectors(len as u64, before) } else { 0..0 };
        self.note(stamp, cut);
    }

    /// Records the lengths that a growing file goes through: file systems write page by page and move the end along.
    fn note_pages(&mut self, stamp: Stamp) {
        let before = self.lengths.newest().copied().unwrap_or(self.durable.len());
        let mut page = (before / PAGE + 1) * PAGE;
        while page < self.cache.len() {
            self.lengths.push(stamp, page);
            page += PAGE;
        }
    }

    /// Records the state that `touched` sectors and the length have now.
    fn note(&mut self, stamp: Stamp, touched: std::ops::Range<u64>) {
        for number in touched {
            let versions = self.dirty.entry(number).or_default();
            let now = sector_of(self.cache.bytes(), number);
            let changed = match versions.newest() {
                Some(before) => **before != now,
                None => sector_of(self.durable.bytes(), number) != now,
            };
            if changed {
                versions.push(stamp, Arc::new(now));
            }
        }
        let len = self.cache.len();
        if self.lengths.newest().copied().unwrap_or(self.durable.len()) != len {
            self.lengths.push(stamp, len);
        }
    }

    /// A sync that does its work: everything pending becomes durable.
    pub(super) fn make_durable(&mut self) {
        if let Some(&len) = self.lengths.newest() {
            self.durable.edit().resize(usize::try_from(len).expect("a length of a buffer in memory"), 0);
        }
        for (&number, versions) in &self.dirty {
            if let Some(sector) = versions.newest() {
                self.durable.put_sector(number, sector);
            }
        }
        self.forget_dirty();
    }

    /// Marks everything as written, which it is not: the disk keeps the old bytes under a cache that shows the new ones.
    pub(super) fn forget_dirty(&mut self) {
        self.dirty.clear();
        self.lengths.clear();
    }

    /// Throws away what is pending; reads see the disk again.
    pub(super) fn revert(&mut self) {
        self.cache = self.durable.clone();
        self.forget_dirty();
    }
}

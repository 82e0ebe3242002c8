//! When rows died, for readers at any lsn.

use super::Totals;
use crate::ids::Lsn;
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows of one page of a [`DeathMap`].
const PAGE_ROWS: usize = 4096;

/// The death lsn of a row that lives.
pub const ALIVE: u64 = u64::MAX;

/// The deaths of a segment's rows: a page of lsns is allocated when the first of its rows dies.
#[derive(Debug)]
pub struct DeathMap {
    pages: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl DeathMap {
    /// All of `rows` rows live.
    pub fn new(rows: u32) -> DeathMap {
        DeathMap { pages: (0..(rows as usize).div_ceil(PAGE_ROWS)).map(|_| OnceLock::new()).collect() }
    }

    /// The lsn at which the row died, [`ALIVE`] when it lives.
    #[inline]
    pub fn death(&self, row: u32) -> u64 {
        match self.pages.get(row as usize / PAGE_ROWS).and_then(OnceLock::get) {
            Some(page) => page[row as usize % PAGE_ROWS].load(Ordering::Acquire),
            None => ALIVE,
        }
    }

    /// Whether the row lives at `lsn`.
    #[inline]
    pub fn lives(&self, row: u32, lsn: Lsn) -> bool {
        lsn.0 < self.death(row)
    }

    /// Sets the lsn at which the row died ([`ALIVE`] takes a death back). A row outside the segment is ignored: callers check rows.
    pub fn set(&self, row: u32, lsn: u64) {
        if let Some(page) = self.pages.get(row as usize / PAGE_ROWS) {
            let page = page.get_or_init(|| (0..PAGE_ROWS).map(|_| AtomicU64::new(ALIVE)).collect());
            page[row as usize % PAGE_ROWS].store(lsn, Ordering::Release);
        }
    }

    /// Calls `sink(row, lsn)` for every row that died at or before `until`, rows ascending. Costs the pages in which any row died.
    pub fn for_each(&self, until: Lsn, mut sink: impl FnMut(u32, u64)) {
        for (p, page) in self.pages.iter().enumerate() {
            for (i, slot) in page.get().into_iter().flat_map(|page| page.iter().enumerate()) {
                let lsn = slot.load(Ordering::Acquire);
                if lsn <= until.0 {
                    sink((p * PAGE_ROWS + i) as u32, lsn);
                }
            }
        }
    }
}

/// One death, with what died up to and including it.
#[derive(Debug, Clone, Copy)]
struct Death {
    lsn: Lsn,
    row: u32,
    so_far: Totals,
}

/// The deaths of one part of a collection in the order of their commits, with running totals: what died between two lsns costs two binary
/// searches.
#[derive(Debug, Default)]
pub struct DeathLog {
    deaths: Mutex<Vec<Death>>,
}

impl DeathLog {
    /// Appends a death; `lsn` is at least the last one's.
    pub fn push(&self, lsn: Lsn, row: u32, of: Totals) {
        let mut deaths = self.deaths.lock();
        let mut so_far = deaths.last().map_or(Totals::default(), |d| d.so_far);
        so_far += of;
        deaths.push(Death { lsn, row, so_far });
    }

    /// What died after `from` and at or before `until`.
    pub fn between(&self, from: Lsn, until: Lsn) -> Totals {
        let deaths = self.deaths.lock();
        let at = |lsn: Lsn| match deaths.partition_point(|d| d.lsn <= lsn) {
            0 => Totals::default(),
            n => deaths[n - 1].so_far,
        };
        let mut total = at(until);
        total -= at(from);
        total
    }

    /// The rows that died after `from` and at or before `until`, in that order.
    pub fn rows_between(&self, from: Lsn, until: Lsn) -> Vec<u32> {
        let deaths = self.deaths.lock();
        let (a, b) = (deaths.partition_point(|d| d.lsn <= from), deaths.partition_point(|d| d.lsn <= until));
        deaths[a.min(b)..b].iter().map(|d| d.row).collect()
    }

    /// Takes back every death at or after `lsn`, which was never published.
    pub fn undo_from(&self, lsn: Lsn) {
        let mut deaths = self.deaths.lock();
        let keep = deaths.partition_point(|d| d.lsn < lsn);
        deaths.truncate(keep);
    }
}

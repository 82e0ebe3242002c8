//! What a search needs beside the graph, kept from one search to the next so that none allocates.

use super::graph::NONE;

/// The nearest points so far, in order, and which of them were expanded.
///
/// An entry is the distance in its high half, as an integer of the same order, then the point, then whether it was expanded: one comparison of
/// integers orders by distance, then by point.
#[derive(Debug, Default)]
pub(super) struct Pool {
    entries: Vec<u64>,
    capacity: usize,
    /// No entry before it is unexpanded.
    cursor: usize,
}

const EXPANDED: u64 = 1;

/// Where a point stands, or would.
pub(super) struct Place {
    at: usize,
    entry: u64,
}

impl Pool {
    /// Empties the pool and says how many points it holds from now on, at least 1.
    pub(super) fn reset(&mut self, capacity: usize) {
        self.entries.clear();
        self.capacity = capacity.max(1);
        self.entries.reserve(self.capacity + 1);
        self.cursor = 0;
    }

    /// Whether a point at this distance would be taken.
    #[inline]
    pub(super) fn admits(&self, distance: f32) -> bool {
        self.entries.len() < self.capacity || self.entries.last().is_none_or(|&last| ordered(distance) <= (last >> 32) as u32)
    }

    /// Where a point would stand that is not here yet; `None` when it is not near enough. O(log capacity).
    #[inline]
    pub(super) fn place(&self, distance: f32, point: u32) -> Option<Place> {
        let entry = u64::from(ordered(distance)) << 32 | u64::from(point) << 1;
        if self.entries.len() == self.capacity && self.entries.last().is_some_and(|&last| entry >= last) {
            return None;
        }
        Some(Place { at: self.entries.partition_point(|&e| e < entry), entry })
    }

    /// Another point at the same distance, when at least `many` of them stand directly before or after a place.
    #[inline]
    pub(super) fn crowd(&self, place: &Place, many: usize) -> Option<u32> {
        let before = place.at.checked_sub(many).and_then(|first| self.entries.get(first));
        let after = self.entries.get(place.at + many - 1);
        let other = [before, after].into_iter().flatten().find(|&&e| e >> 32 == place.entry >> 32);
        other.map(|&e| point(e))
    }

    /// Takes a point into its place. O(what moves).
    #[inline]
    pub(super) fn put(&mut self, Place { at, entry }: Place) {
        if self.entries.len() < self.capacity {
            self.entries.insert(at, entry);
        } else {
            self.entries.copy_within(at..self.capacity - 1, at + 1);
            self.entries[at] = entry;
        }
        self.cursor = self.cursor.min(at);
    }

    /// Takes a point that is not here yet, if it is near enough. O(log capacity + what moves).
    #[inline]
    pub(super) fn insert(&mut self, distance: f32, point: u32) {
        if let Some(place) = self.place(distance, point) {
            self.put(place);
        }
    }

    /// The nearest point that was not expanded, which it is from now on.
    #[inline]
    pub(super) fn expand(&mut self) -> Option<u32> {
        while let Some(entry) = self.entries.get_mut(self.cursor) {
            self.cursor += 1;
            if *entry & EXPANDED == 0 {
                *entry |= EXPANDED;
                return Some(point(*entry));
            }
        }
        None
    }

    /// The distance of the point that was expanded last.
    #[inline]
    pub(super) fn last_expanded(&self) -> f32 {
        self.entries.get(self.cursor.wrapping_sub(1)).map_or(f32::INFINITY, |&entry| distance(entry))
    }

    /// The points with their distances, nearest first.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (f32, u32)> {
        self.entries.iter().map(|&entry| (distance(entry), point(entry)))
    }
}

fn point(entry: u64) -> u32 {
    (entry as u32) >> 1
}

fn distance(entry: u64) -> f32 {
    let ordered = (entry >> 32) as u32;
    f32::from_bits(if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered })
}

/// An integer in the order of the distances: sign and magnitude become one scale. No distance is NaN.
#[inline]
fn ordered(distance: f32) -> u32 {
    let bits = distance.to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// Which points were met: one bit each, and those whose bits are to be cleared.
#[derive(Debug, Default)]
pub(super) struct Visited {
    words: Vec<u64>,
    met: Vec<u32>,
}

impl Visited {
    /// Forgets everything and makes room for `points`. O(what was met since the last time), once O(points).
    pub(super) fn reset(&mut self, points: usize) {
        self.met.drain(..).for_each(|point| self.words[point as usize / 64] = 0);
        if self.words.len() < points.div_ceil(64) {
            self.words.resize(points.div_ceil(64), 0);
        }
    }

    /// Whether a point was met.
    #[inline]
    pub(super) fn contains(&self, point: u32) -> bool {
        self.words[point as usize / 64] & (1 << (point % 64)) != 0
    }

    /// Notes the points of a row of links below `points`, and leaves those that are met for the first time in `new`. Whether one was met is as
    /// good as random, so nothing branches on it. False when the row has links to points that do not exist: they are passed over.
    #[inline]
    pub(super) fn insert_row(&mut self, row: &[u32], points: usize, new: &mut Vec<u32>) -> bool {
        new.resize(row.len(), 0);
        let (mut count, mut all_exist) = (0, true);
        for &link in row.iter().take_while(|link| **link != NONE) {
            let exists = (link as usize) < points;
            all_exist &= exists;
            let word = &mut self.words[if exists { link as usize / 64 } else { 0 }];
            let bit = u64::from(exists) << (link % 64);
            new[count] = link;
            count += usize::from(exists && *word & bit == 0);
            *word |= bit;
        }
        new.truncate(count);
        self.met.extend_from_slice(new);
        all_exist
    }

    /// Notes a point below what [`Visited::reset`] was told; whether it is met for the first time.
    #[inline]
    pub(super) fn insert(&mut self, point: u32) -> bool {
        let (index, bit) = (point / 64, 1u64 << (point % 64));
        let word = &mut self.words[index as usize];
        if *word & bit != 0 {
            return false;
        }
        self.met.push(point);
        *word |= bit;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_keeps_the_nearest_in_order_and_expands_each_once() {
        let mut pool = Pool::default();
        pool.reset(3);
        for (distance, point) in [(0.5, 1), (-2.0, 2), (0.0, 3), (-0.5, 4), (9.0, 5)] {
            pool.insert(distance, point);
        }
        assert_eq!(pool.iter().collect::<Vec<_>>(), [(-2.0, 2), (-0.5, 4), (0.0, 3)]);
        assert_eq!(pool.expand(), Some(2));
        pool.insert(-3.0, 6);
        assert_eq!(pool.expand(), Some(6), "a nearer one comes first");
        assert_eq!((pool.expand(), pool.expand()), (Some(4), None), "the pool was full of three");
    }

    #[test]
    fn visited_points_are_met_once_until_it_forgets() {
        let mut visited = Visited::default();
        visited.reset(200);
        assert!(visited.insert(3) && visited.insert(199) && !visited.insert(3));
        visited.reset(200);
        assert!(visited.insert(3));
    }
}

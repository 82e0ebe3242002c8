//! Walks a graph towards a query.

use super::graph::Links;
use super::scratch::{Pool, Visited};
use super::space::Space;
use std::num::NonZeroUsize;

/// What walks need, kept between them.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) visited: Visited,
    pub(super) pool: Pool,
    /// Of a restricted walk: what may be returned.
    pub(super) answers: Pool,
    pub(super) survivors: Vec<u32>,
    pub(super) passed_over: Vec<u32>,
    pub(super) distances: Vec<f32>,
    pub(super) sorted: Vec<f32>,
    /// How many copies of a point a walk takes in, about; `None` when all. Where there are more than candidates, they would crowd out
    /// everything else, and the walk would end among them.
    pub copies: Option<NonZeroUsize>,
    /// Whether the last walk left some out.
    pub left_copies_out: bool,
    /// From how many of those that it left out a walk goes on, when nothing else leads on: each has links of its own, and what lies behind a
    /// crowd of copies may hang on any of them.
    pub through_copies: usize,
    /// Those that were left out, with their distances.
    left_out: Vec<(f32, u32)>,
    /// Whether the last walk met more of them than it went on from: then there may be nearer points than it found.
    pub gave_up: bool,
    /// Distances computed since the scratch was made.
    pub compared: u64,
}

impl Scratch {
    /// A scratch whose walks take in only so many copies of a point, about.
    pub fn for_few_copies(most: usize) -> Scratch {
        Scratch { copies: NonZeroUsize::new(most), ..Scratch::default() }
    }

    /// Walks from `starts` on one level; afterwards the pool holds the `ef` nearest points met. Links to points that do not exist are passed over.
    pub(super) fn walk<S: Space>(&mut self, space: &S, query: &S::Query, links: &impl Links, level: usize, starts: &[u32], ef: usize) {
        self.visited.reset(links.points());
        self.pool.reset(ef);
        (self.left_copies_out, self.gave_up) = (false, false);
        self.left_out.clear();
        self.survivors.clear();
        for &start in starts {
            if self.visited.insert(start) {
                self.survivors.push(start);
            }
        }
        self.take(space, query, links);
        let mut copies = self.through_copies;
        while let Some(point) = self.pool.expand().or_else(|| self.copy(&mut copies)) {
            if !self.visited.insert_row(links.unchecked(level, point), links.points(), &mut self.survivors) {
                // Nothing is made of what it leads to; whoever holds the links knows now.
                links.row(level, point);
            }
            self.take(space, query, links);
        }
    }

    /// A copy that was left out and is near enough to go on from, when the walk may go on from one more.
    #[cold]
    fn copy(&mut self, may: &mut usize) -> Option<u32> {
        while let Some((distance, point)) = self.left_out.pop() {
            if self.pool.admits(distance) {
                self.gave_up = *may == 0;
                *may = may.checked_sub(1)?;
                return Some(point);
            }
        }
        None
    }

    /// Compares the survivors with the query and offers them to the pool.
    #[inline]
    fn take<S: Space>(&mut self, space: &S, query: &S::Query, links: &impl Links) {
        self.distances.resize(self.survivors.len(), 0.0);
        space.distances(query, &self.survivors, &mut self.distances);
        self.compared += self.survivors.len() as u64;
        for (&point, &distance) in self.survivors.iter().zip(&self.distances) {
            let Some(place) = self.pool.place(distance, point) else { continue };
            let crowd = self.copies.and_then(|most| self.pool.crowd(&place, most.get()));
            if crowd.is_some_and(|other| space.are_copies(other, point)) {
                self.left_copies_out = true;
                if self.through_copies > 0 {
                    self.left_out.push((distance, point));
                }
                continue;
            }
            self.pool.put(place);
            links.fetch(point);
        }
    }

    /// Goes down from the entry to the level above `level`, always to the nearest neighbour, and returns where it ends.
    pub(super) fn descend<S: Space>(&mut self, space: &S, query: &S::Query, links: &impl Links, level: usize) -> Option<u32> {
        let (mut point, top) = links.entry()?;
        let mut best = [0.0];
        space.distances(query, &[point], &mut best);
        // What was compared before was not nearer than the best is now.
        self.visited.reset(links.points());
        self.visited.insert(point);
        for level in (level + 1..=top).rev() {
            loop {
                self.visited.insert_row(links.row(level, point), links.points(), &mut self.survivors);
                self.distances.resize(self.survivors.len(), 0.0);
                space.distances(query, &self.survivors, &mut self.distances);
                self.compared += self.survivors.len() as u64;
                let Some((&distance, &next)) = self.distances.iter().zip(&self.survivors).min_by(|a, b| a.0.total_cmp(b.0)) else { break };
                // In the order that is total, so that every step is nearer and there is a last one also where forged codes give no numbers.
                if distance.total_cmp(&best[0]).is_ge() {
                    break;
                }
                (best[0], point) = (distance, next);
            }
        }
        Some(point)
    }

    /// The `ef` nearest points that a walk through the whole graph finds, nearest first.
    pub fn search<S: Space>(&mut self, space: &S, query: &S::Query, links: &impl Links, ef: usize) -> impl ExactSizeIterator<Item = (f32, u32)> {
        match self.descend(space, query, links, 0).zip(links.entry()) {
            // Every point can be reached from the entry, but not from everywhere else.
            Some((start, (entry, _))) => self.walk(space, query, links, 0, &[start, entry], ef),
            None => self.pool.reset(ef),
        }
        self.pool.iter()
    }
}

//! Walks of which only some nodes may be answers: the dead and those that a filter leaves out lead on, and are never returned.

use super::graph::{Links, NONE};
use super::scratch::Pool;
use super::search::Scratch;
use super::space::Space;

/// How a walk treats nodes that may not be answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    /// They are compared and walked through as the others are: right when most nodes may be answers.
    All,
    /// They are not compared: a walk looks through them at their neighbours. Where hardly one of those may be an answer, the nearest of them
    /// are bridges. Right when some nodes may be answers, and far too many to compare all.
    TwoHops,
}

/// Where a restricted walk begins and how far it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restricted {
    /// Answers to keep.
    pub ef: usize,
    /// The nearest nodes met that are kept to go on from, answers or not; at least `ef`.
    pub beam: usize,
    /// Distances after which the walk is given up.
    pub budget: u64,
    /// How nodes that may not be answers are treated.
    pub through: Through,
}

/// Nodes that a scan compares at once.
const SCAN_NODES: usize = 64;
/// Rows of links that are asked for before the first of them is looked at.
const ROWS_AHEAD: usize = 8;
/// With fewer answers than this among what a node leads to, two hops away, some nodes that are none become bridges.
const FEW: usize = 4;

impl Scratch {
    /// Walks from the entry; afterwards [`Scratch::answers`] has the nearest nodes met that `admits` takes. False when the budget ran out.
    ///
    /// The walk ends when no node of the beam that it has not gone on from is nearer than the farthest of `ef` answers.
    pub fn walk_restricted<S: Space>(
        &mut self,
        space: &S,
        query: &S::Query,
        links: &impl Links,
        how: Restricted,
        admits: &mut impl FnMut(u32) -> bool,
    ) -> bool {
        self.answers.reset(how.ef);
        let Some((start, (entry, _))) = self.descend(space, query, links, 0).zip(links.entry()) else { return true };
        self.visited.reset(links.points());
        self.pool.reset(how.beam.max(how.ef));
        let begun = self.compared;
        self.survivors.clear();
        // Every node can be reached from the entry, but not from everywhere else.
        for start in [start, entry] {
            if self.visited.insert(start) {
                self.survivors.push(start);
            }
        }
        self.offer(space, query, links, admits, usize::MAX);
        while let Some((distance, node)) = self.pool.expand_at() {
            if !self.answers.admits(distance) {
                break;
            }
            if self.compared - begun > how.budget {
                return false;
            }
            match how.through {
                Through::All => {
                    if !self.visited.insert_row(links.unchecked(0, node), links.points(), &mut self.survivors) {
                        // As in a walk of which all nodes may be answers.
                        links.row(0, node);
                    }
                    self.offer(space, query, links, admits, usize::MAX);
                }
                Through::TwoHops => self.step_over(space, query, links, node, admits),
            }
        }
        true
    }

    /// Compares these nodes, all of them; afterwards [`Scratch::answers`] has the `most` nearest.
    pub fn scan<S: Space>(&mut self, space: &S, query: &S::Query, mut nodes: impl Iterator<Item = u32>, most: usize) {
        self.answers.reset(most);
        loop {
            self.survivors.clear();
            self.survivors.extend(nodes.by_ref().take(SCAN_NODES));
            if self.survivors.is_empty() {
                return;
            }
            self.distances.resize(self.survivors.len(), 0.0);
            space.distances(query, &self.survivors, &mut self.distances);
            self.compared += self.survivors.len() as u64;
            for (&node, &distance) in self.survivors.iter().zip(&self.distances) {
                if self.answers.admits(distance) {
                    self.answers.insert(distance, node);
                }
            }
        }
    }

    /// What the last restricted walk or scan found, nearest first.
    pub fn answers(&self) -> impl ExactSizeIterator<Item = (f32, u32)> {
        self.answers.iter()
    }

    /// Puts the neighbours of a node that were not met and that `wanted` takes among the survivors, the others among those passed over.
    fn gather(&mut self, links: &impl Links, node: u32, wanted: &mut impl FnMut(u32) -> bool) {
        self.survivors.clear();
        self.passed_over.clear();
        for &link in links.row(0, node).iter().take_while(|&&link| link != NONE) {
            if (link as usize) < links.points() && self.visited.insert(link) {
                let to = if wanted(link) { &mut self.survivors } else { &mut self.passed_over };
                to.push(link);
            }
        }
    }

    /// Goes on from a node, looking through neighbours that may not be answers.
    fn step_over<S: Space>(&mut self, space: &S, query: &S::Query, links: &impl Links, node: u32, admits: &mut impl FnMut(u32) -> bool) {
        self.gather(links, node, admits);
        let most = links.row(0, node).len();
        self.passed_over.iter().take(ROWS_AHEAD).for_each(|&passed| links.fetch(passed));
        for i in 0..self.passed_over.len() {
            if self.survivors.len() >= most {
                break;
            }
            self.passed_over.get(i + ROWS_AHEAD).into_iter().for_each(|&passed| links.fetch(passed));
            for &link in links.row(0, self.passed_over[i]).iter().take_while(|&&link| link != NONE) {
                if (link as usize) < links.points() && !self.visited.contains(link) && admits(link) {
                    self.visited.insert(link);
                    self.survivors.push(link);
                }
            }
        }
        let found = self.survivors.len();
        self.offer(space, query, links, &mut |_| true, usize::MAX);
        if found < FEW {
            std::mem::swap(&mut self.survivors, &mut self.passed_over);
            self.offer(space, query, links, &mut |_| false, FEW);
        }
    }

    /// Compares the survivors with the query. The `most` nearest of them join the beam, and those that `admits` takes the answers.
    fn offer<S: Space>(&mut self, space: &S, query: &S::Query, links: &impl Links, admits: &mut impl FnMut(u32) -> bool, most: usize) {
        self.distances.resize(self.survivors.len(), 0.0);
        space.distances(query, &self.survivors, &mut self.distances);
        self.compared += self.survivors.len() as u64;
        let mut bound = f32::INFINITY;
        if self.survivors.len() > most {
            self.sorted.clear();
            self.sorted.extend_from_slice(&self.distances);
            bound = *self.sorted.select_nth_unstable_by(most - 1, f32::total_cmp).1;
        }
        for (&node, &distance) in self.survivors.iter().zip(&self.distances) {
            if distance > bound || !self.answers.admits(distance) {
                continue;
            }
            if self.pool.admits(distance) {
                self.pool.insert(distance, node);
                links.fetch(node);
            }
            if admits(node) {
                self.answers.insert(distance, node);
            }
        }
    }
}

impl Pool {
    /// The nearest node that was not expanded, which it is from now on, with its distance.
    fn expand_at(&mut self) -> Option<(f32, u32)> {
        let node = self.expand()?;
        Some((self.last_expanded(), node))
    }
}

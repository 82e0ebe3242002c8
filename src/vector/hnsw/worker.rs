//! What one thread of a build keeps between points, and how it chooses the links of one point.

use super::graph::{Graph, NONE, set_row};
use super::link::Backlink;
use super::search::Scratch;
use super::select::Selector;
use super::space::Space;
use crate::workers::spawn;

/// Copies of a point among the candidates, about.
const COPIES: usize = 4;

/// What one thread needs.
pub(super) struct Worker<S: Space> {
    pub(super) scratch: Scratch,
    pub(super) selector: Selector<S>,
    pub(super) query: S::Query,
    pub(super) candidates: Vec<(f32, u32)>,
    pub(super) kept: Vec<(f32, u32)>,
    /// Points to be measured, and their distances.
    pub(super) batch: Vec<u32>,
    pub(super) distances: Vec<f32>,
}

impl<S: Space> Default for Worker<S> {
    fn default() -> Self {
        let (candidates, kept, batch, distances) = Default::default();
        Worker { scratch: Scratch::for_few_copies(COPIES), selector: Selector::default(), query: S::Query::default(), candidates, kept, batch, distances }
    }
}

/// The links that a point will have, by level.
pub(super) type Plan = Vec<Vec<(f32, u32)>>;

/// By distance, then by point: the one order of candidates.
pub(super) fn nearest_first(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// The workers of a build, one a thread.
pub(super) fn workers<S: Space>(threads: usize) -> Vec<Worker<S>> {
    (0..threads.max(1)).map(|_| Worker::default()).collect()
}

/// Runs `work` once a worker, on threads of their own but for the first, and gathers what they return. The system may have fewer threads: `work`
/// takes its share from what is left to do, so those that there are do it all.
pub(super) fn on_all<S: Space, T: Send>(workers: &mut [Worker<S>], alone: bool, work: impl Fn(&mut Worker<S>) -> Vec<T> + Sync) -> Vec<T> {
    let Some((first, others)) = workers.split_first_mut() else { return Vec::new() };
    if alone || others.is_empty() {
        return work(first);
    }
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = others.iter_mut().map_while(|worker| spawn(scope, move || work(worker))).collect();
        let mut all = work(first);
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    })
}

impl<S: Space> Worker<S> {
    /// The links of a point that is not in the graph yet, among the points that are and those of `earlier`. `ef`: candidates a level.
    pub(super) fn plan(&mut self, space: &S, graph: &Graph, ef: usize, earlier: &[u32], point: u32) -> Plan {
        space.query_of(point, &mut self.query);
        let level = usize::from(graph.levels[point as usize]);
        let mut plan = vec![Vec::new(); level + 1];
        let mut starts: Vec<u32> = self.scratch.descend(space, &self.query, graph, level).into_iter().collect();
        let top = graph.entry.map_or(0, |(_, top)| top);
        for level in (0..=level).rev() {
            self.candidates.clear();
            if level <= top && !starts.is_empty() {
                self.scratch.walk(space, &self.query, graph, level, &starts, ef);
                self.candidates.extend(self.scratch.pool.iter());
                starts.clear();
                starts.extend(self.candidates.iter().map(|c| c.1));
            }
            self.add_of_batch(space, graph, level, earlier, ef);
            self.choose(space, graph.m);
            plan[level].extend_from_slice(&self.kept);
        }
        plan
    }

    /// The links on level 0 of a point, found by a walk from `seeds` alone.
    pub(super) fn plan_from(&mut self, space: &S, graph: &Graph, ef: usize, seeds: &[u32], point: u32) -> Plan {
        space.query_of(point, &mut self.query);
        self.scratch.walk(space, &self.query, graph, 0, seeds, ef);
        self.candidates.clear();
        self.candidates.extend(self.scratch.pool.iter());
        self.choose(space, graph.m);
        vec![self.kept.clone()]
    }

    /// Of the candidates, those that a new point links to.
    fn choose(&mut self, space: &S, m: usize) {
        self.selector.select(space, &self.candidates, m, m / 2, &mut self.kept);
    }

    /// Adds the earlier points of the batch to the candidates, and brings them into order.
    fn add_of_batch(&mut self, space: &S, graph: &Graph, level: usize, earlier: &[u32], most: usize) {
        self.batch.clear();
        self.batch.extend(earlier.iter().filter(|p| usize::from(graph.levels[**p as usize]) >= level));
        self.measure(space);
        self.candidates.extend(self.distances.iter().copied().zip(self.batch.iter().copied()));
        self.candidates.sort_unstable_by(nearest_first);
        // Copies stand side by side; a batch may be full of them.
        let mut kept = 0usize;
        for at in 0..self.candidates.len() {
            let candidate = self.candidates[at];
            let before = kept.checked_sub(COPIES).map(|before| self.candidates[before]);
            if before.is_none_or(|before| before.0 != candidate.0 || !space.are_copies(before.1, candidate.1)) {
                self.candidates[kept] = candidate;
                kept += 1;
            }
        }
        self.candidates.truncate(kept.min(most));
    }

    /// Measures the points of `batch` from the query.
    pub(super) fn measure(&mut self, space: &S) {
        self.distances.resize(self.batch.len(), 0.0);
        space.distances(&self.query, &self.batch, &mut self.distances);
    }

    /// Adds links to a row, but for those that it has. When there are too many it chooses anew, and keeps at least `least`.
    pub(super) fn add_links(&mut self, space: &S, links: &mut [u32], distances: &mut [f32], added: &[Backlink], least: usize) {
        self.candidates.clear();
        let there = distances.iter().copied().zip(links.iter().copied()).take_while(|(_, link)| *link != NONE);
        let new = added.iter().filter(|b| !links.contains(&b.source)).map(|b| (b.distance, b.source));
        self.candidates.extend(there.chain(new));
        self.candidates.sort_unstable_by(nearest_first);
        if self.candidates.len() <= links.len() {
            return set_row(links, distances, &self.candidates);
        }
        self.selector.select(space, &self.candidates, links.len(), least, &mut self.kept);
        set_row(links, distances, &self.kept);
    }
}

//! Builds a graph: the same one for any number of threads.
//!
//! Points are inserted in batches. Every point of a batch searches the graph as it stood before the batch, at the same time as the others,
//! and is compared with the earlier points of its batch one by one. Then all links are set, target by target. No lock is held, nobody sees a
//! half-linked point, and nothing depends on which thread did what.

use super::graph::{Graph, set_row};
use super::reach;
use super::search::Scratch;
use super::select::Selector;
use super::space::Space;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The most points of a batch: enough to keep threads busy, few enough that comparing them with each other stays cheap.
const BATCH_MAX: usize = 512;
/// Points that a thread takes at a time.
const HANDFUL: usize = 8;
/// Levels above 0, at most.
const LEVEL_MAX: u8 = 15;

/// How a graph is built.
#[derive(Debug, Clone, Copy)]
pub struct BuildOptions {
    /// Links of a point on the levels above 0; on level 0 twice as many. 2 to 64.
    pub m: usize,
    /// Candidates among which neighbours are chosen.
    pub ef_construction: usize,
    /// Threads, at least 1.
    pub threads: usize,
}

impl Default for BuildOptions {
    fn default() -> Self {
        BuildOptions { m: 16, ef_construction: 200, threads: 1 }
    }
}

/// Builds the graph of all points of a space; `None` when `stop` was set meanwhile. `progress` is told how many points are in.
pub fn build<S: Space>(space: &S, options: &BuildOptions, stop: &AtomicBool, mut progress: impl FnMut(usize)) -> Option<Graph> {
    let levels: Vec<u8> = (0..space.points() as u32).map(|point| level(point, options.m)).collect();
    let mut graph = Graph::new(options.m, levels);
    let mut workers: Vec<Worker<S>> = (0..options.threads.max(1)).map(|_| Worker::default()).collect();
    let mut begin = 0;
    while begin < space.points() {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let end = space.points().min(begin + begin.clamp(1, BATCH_MAX));
        let plans = plan_batch(space, &graph, options, begin..end, &mut workers);
        link_batch(space, &mut graph, &plans, &mut workers);
        let highest = (begin..end).max_by_key(|&p| (graph.levels[p], std::cmp::Reverse(p)));
        if let Some(p) = highest
            && graph.entry.is_none_or(|(_, top)| usize::from(graph.levels[p]) > top)
        {
            graph.entry = Some((p as u32, usize::from(graph.levels[p])));
        }
        begin = end;
        progress(begin);
    }
    reach::connect(space, &mut graph);
    Some(graph)
}

/// The highest level of a point: each further one with chance 1/M, drawn from its number alone.
fn level(point: u32, m: usize) -> u8 {
    // SplitMix64: every bit of the number moves every bit of the draw.
    let mut z = (u64::from(point) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let uniform = ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
    let level = -(1.0 - uniform).ln() / (m as f64).ln();
    (level as u8).min(LEVEL_MAX)
}

/// What one thread needs.
struct Worker<S: Space> {
    scratch: Scratch,
    selector: Selector<S>,
    query: S::Query,
    candidates: Vec<(f32, u32)>,
    kept: Vec<(f32, u32)>,
    batch: Vec<u32>,
    distances: Vec<f32>,
}

impl<S: Space> Default for Worker<S> {
    fn default() -> Self {
        let (candidates, kept, batch, distances) = Default::default();
        Worker { scratch: Scratch::default(), selector: Selector::default(), query: S::Query::default(), candidates, kept, batch, distances }
    }
}

/// The links that a new point will have, by level.
type Plan = Vec<Vec<(f32, u32)>>;

/// Chooses the links of the points of a batch, all against the graph as it stands.
fn plan_batch<S: Space>(
    space: &S,
    graph: &Graph,
    options: &BuildOptions,
    batch: std::ops::Range<usize>,
    workers: &mut [Worker<S>],
) -> Vec<(u32, Plan)> {
    let next = AtomicUsize::new(batch.start);
    let work = |worker: &mut Worker<S>| {
        let mut plans = Vec::new();
        loop {
            let from = next.fetch_add(HANDFUL, Ordering::Relaxed);
            if from >= batch.end {
                return plans;
            }
            for point in from..batch.end.min(from + HANDFUL) {
                plans.push((point as u32, worker.plan(space, graph, options, batch.start as u32, point as u32)));
            }
        }
    };
    let mut plans = on_all(workers, batch.len() <= HANDFUL, work);
    plans.sort_unstable_by_key(|(point, _)| *point);
    plans
}

/// Runs `work` once a worker, on threads of their own but for the first, and gathers what they return.
fn on_all<S: Space, T: Send>(workers: &mut [Worker<S>], alone: bool, work: impl Fn(&mut Worker<S>) -> Vec<T> + Sync) -> Vec<T> {
    let Some((first, others)) = workers.split_first_mut() else { return Vec::new() };
    if alone || others.is_empty() {
        return work(first);
    }
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = others.iter_mut().map(|worker| scope.spawn(move || work(worker))).collect();
        let mut all = work(first);
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    })
}

impl<S: Space> Worker<S> {
    /// The links of a new point.
    fn plan(&mut self, space: &S, graph: &Graph, options: &BuildOptions, batch_start: u32, point: u32) -> Plan {
        space.query_of(point, &mut self.query);
        let level = usize::from(graph.levels[point as usize]);
        let mut plan = vec![Vec::new(); level + 1];
        let mut starts: Vec<u32> = self.scratch.descend(space, &self.query, graph, level).into_iter().collect();
        let top = graph.entry.map_or(0, |(_, top)| top);
        for level in (0..=level).rev() {
            self.candidates.clear();
            if level <= top && !starts.is_empty() {
                self.scratch.walk(space, &self.query, graph, level, &starts, options.ef_construction);
                self.candidates.extend(self.scratch.pool.iter());
                starts.clear();
                starts.extend(self.candidates.iter().map(|c| c.1));
            }
            self.add_of_batch(space, graph, level, batch_start..point, options.ef_construction);
            self.selector.select(space, &self.candidates, options.m, options.m / 2, &mut self.kept);
            plan[level].extend_from_slice(&self.kept);
        }
        plan
    }

    /// Adds the earlier points of the batch to the candidates, and brings them into order.
    fn add_of_batch(&mut self, space: &S, graph: &Graph, level: usize, earlier: std::ops::Range<u32>, most: usize) {
        self.batch.clear();
        self.batch.extend(earlier.filter(|&p| usize::from(graph.levels[p as usize]) >= level));
        self.distances.resize(self.batch.len(), 0.0);
        space.distances(&self.query, &self.batch, &mut self.distances);
        self.candidates.extend(self.distances.iter().copied().zip(self.batch.iter().copied()));
        self.candidates.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.candidates.truncate(most);
    }

    /// Adds links to a row, and chooses anew when there are too many.
    fn add_links(&mut self, space: &S, links: &mut [u32], distances: &mut [f32], added: &[Backlink]) {
        self.candidates.clear();
        let there = distances.iter().copied().zip(links.iter().copied()).take_while(|(_, link)| *link != super::graph::NONE);
        self.candidates.extend(there.chain(added.iter().map(|b| (b.distance, b.source))));
        self.candidates.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        if self.candidates.len() <= links.len() {
            return set_row(links, distances, &self.candidates);
        }
        self.selector.select(space, &self.candidates, links.len(), 0, &mut self.kept);
        set_row(links, distances, &self.kept);
    }
}

/// A link that a new point asks of one that it links to.
#[derive(Debug, Clone, Copy)]
struct Backlink {
    level: u8,
    target: u32,
    source: u32,
    distance: f32,
}

/// Sets the links of a batch and those back to it.
fn link_batch<S: Space>(space: &S, graph: &mut Graph, plans: &[(u32, Plan)], workers: &mut [Worker<S>]) {
    let mut backlinks = Vec::new();
    for (source, plan) in plans {
        for (level, edges) in plan.iter().enumerate() {
            graph.set(level, *source, edges);
            let back = |&(distance, target): &(f32, u32)| Backlink { level: level as u8, target, source: *source, distance };
            backlinks.extend(edges.iter().map(back));
        }
    }
    backlinks.sort_unstable_by_key(|b| (b.level, b.target, b.source));
    let base = backlinks.partition_point(|b| b.level == 0);
    let (base, upper) = backlinks.split_at(base);
    link_base(space, graph, base, workers);
    for group in upper.chunk_by(|a, b| (a.level, a.target) == (b.level, b.target)) {
        let row = graph.place(usize::from(group[0].level), group[0].target).1;
        let range = row * graph.upper.width..(row + 1) * graph.upper.width;
        let rows = &mut graph.upper;
        workers[0].add_links(space, &mut rows.links[range.clone()], &mut rows.distances[range], group);
    }
}

/// Sets the links back on level 0: targets ascend, so each thread has a stretch of rows of its own.
fn link_base<S: Space>(space: &S, graph: &mut Graph, backlinks: &[Backlink], workers: &mut [Worker<S>]) {
    let width = graph.base.width;
    let (mut links, mut distances) = (&mut graph.base.links[..], &mut graph.base.distances[..]);
    let (mut rest, mut first_row) = (backlinks, 0);
    let threads = workers.len();
    std::thread::scope(|scope| {
        for (i, worker) in workers.iter_mut().enumerate() {
            let share = rest.len() / (threads - i);
            // A target is never split between two threads.
            let share = rest[share..].iter().position(|b| share > 0 && b.target != rest[share - 1].target).map_or(rest.len(), |more| share + more);
            let (mine, others) = rest.split_at(share);
            let rows = mine.last().map_or(0, |last| last.target as usize + 1 - first_row);
            let (my_links, other_links) = std::mem::take(&mut links).split_at_mut(rows * width);
            let (my_distances, other_distances) = std::mem::take(&mut distances).split_at_mut(rows * width);
            let begin = first_row;
            let mut work = move || {
                for group in mine.chunk_by(|a, b| a.target == b.target) {
                    let at = (group[0].target as usize - begin) * width;
                    worker.add_links(space, &mut my_links[at..at + width], &mut my_distances[at..at + width], group);
                }
            };
            (links, distances, rest, first_row) = (other_links, other_distances, others, first_row + rows);
            if i + 1 < threads && mine.len() > HANDFUL {
                scope.spawn(work);
            } else {
                work();
            }
        }
    });
}

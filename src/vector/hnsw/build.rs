//! Builds a graph: the same one for any number of threads.
//!
//! Points are inserted in batches. Every point of a batch searches the graph as it stood before the batch, at the same time as the others,
//! and is compared with the earlier points of its batch one by one. Then all links are set, target by target. No lock is held, nobody sees a
//! half-linked point, and nothing depends on which thread did what.

use super::graph::Graph;
use super::link::link_batch;
use super::reach;
use super::space::Space;
use super::worker::{Plan, Worker, on_all, workers};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The most points of a batch: enough to keep threads busy, few enough that comparing them with each other stays cheap.
const BATCH_MAX: usize = 512;
/// Points that a thread takes at a time.
pub(super) const HANDFUL: usize = 8;
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
    let points: Vec<u32> = (0..space.points() as u32).collect();
    let mut graph = Graph::new(options.m, points.iter().map(|&point| level(point, options.m)).collect());
    insert(space, &mut graph, &points, 0, options, stop, &mut progress, &mut workers(options.threads))?;
    reach::connect(space, &mut graph);
    Some(graph)
}

/// The highest level of a point: each further one with chance 1/M, drawn from its number alone.
pub(super) fn level(point: u32, m: usize) -> u8 {
    let uniform = (draw(u64::from(point)) >> 11) as f64 / (1u64 << 53) as f64;
    let level = -(1.0 - uniform).ln() / (m as f64).ln();
    (level as u8).min(LEVEL_MAX)
}

/// What is drawn for a number, always the same. SplitMix64: every bit of the number moves every bit of the draw.
pub(super) fn draw(number: u64) -> u64 {
    let mut z = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Inserts points into a graph that has `already` others; `None` when `stop` was set meanwhile.
#[allow(clippy::too_many_arguments, reason = "what a build consists of, each used once")]
pub(super) fn insert<S: Space>(
    space: &S,
    graph: &mut Graph,
    points: &[u32],
    already: usize,
    options: &BuildOptions,
    stop: &AtomicBool,
    progress: &mut impl FnMut(usize),
    workers: &mut [Worker<S>],
) -> Option<()> {
    let mut begin = 0;
    while begin < points.len() {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let end = points.len().min(begin + (already + begin).clamp(1, BATCH_MAX));
        let batch = &points[begin..end];
        let plans = plan_each(batch, workers, |worker, at| worker.plan(space, graph, options.ef_construction, &batch[..at], batch[at]));
        link_batch(space, graph, &plans, workers);
        raise_entry(graph, batch);
        begin = end;
        progress(already + begin);
    }
    Some(())
}

/// Makes the first of the highest among `points` the entry, if it is higher than the entry is.
pub(super) fn raise_entry(graph: &mut Graph, points: &[u32]) {
    let highest = points.iter().copied().max_by_key(|&p| (graph.levels[p as usize], std::cmp::Reverse(p)));
    if let Some(point) = highest {
        let level = usize::from(graph.levels[point as usize]);
        if graph.entry.is_none_or(|(_, top)| level > top) {
            graph.entry = Some((point, level));
        }
    }
}

/// Plans the links of each point of a batch, all against the graph as it stands; the plans are in the order of the batch. `plan` is told which
/// of the batch.
pub(super) fn plan_each<S: Space>(
    batch: &[u32],
    workers: &mut [Worker<S>],
    plan: impl Fn(&mut Worker<S>, usize) -> Plan + Sync,
) -> Vec<(u32, Plan)> {
    let next = AtomicUsize::new(0);
    let work = |worker: &mut Worker<S>| {
        let mut plans = Vec::new();
        loop {
            let from = next.fetch_add(HANDFUL, Ordering::Relaxed);
            if from >= batch.len() {
                return plans;
            }
            plans.extend((from..batch.len().min(from + HANDFUL)).map(|at| (at, plan(worker, at))));
        }
    };
    let mut plans = on_all(workers, batch.len() <= HANDFUL, work);
    plans.sort_unstable_by_key(|(at, _)| *at);
    plans.into_iter().map(|(at, plan)| (batch[at], plan)).collect()
}

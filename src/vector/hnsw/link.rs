//! Sets links, target by target: each row is written by one thread, once, whatever order the links were asked for in.

use super::graph::Graph;
use super::space::Space;
use super::worker::{Plan, Worker};
use crate::workers::side_by_side;
use parking_lot::Mutex;

/// Fewer links a thread than this are not worth one.
const FEW: usize = 8;

/// How many links a row keeps at least that is chosen anew.
#[derive(Debug, Clone, Copy)]
pub(super) enum Least {
    /// As many as the heuristic leaves: links come one by one, and the row fills again.
    None,
    /// Half of its places: many links come at once, and no more may follow.
    Half,
}

impl Least {
    fn of(self, width: usize) -> usize {
        match self {
            Least::None => 0,
            Least::Half => width / 2,
        }
    }
}

/// A link from `target` to `source` that is asked for, usually because `source` links to `target`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backlink {
    pub(super) level: u8,
    pub(super) target: u32,
    pub(super) source: u32,
    pub(super) distance: f32,
}

/// Sets the links of a batch and those back to it.
pub(super) fn link_batch<S: Space>(space: &S, graph: &mut Graph, plans: &[(u32, Plan)], workers: &mut [Worker<S>]) {
    let mut backlinks = Vec::new();
    for (source, plan) in plans {
        for (level, edges) in plan.iter().enumerate() {
            graph.set(level, *source, edges);
            let back = |&(distance, target): &(f32, u32)| Backlink { level: level as u8, target, source: *source, distance };
            backlinks.extend(edges.iter().map(back));
        }
    }
    add_links(space, graph, backlinks, Least::None, workers);
}

/// Adds links to the rows of their targets; a row that would overflow is chosen anew.
pub(super) fn add_links<S: Space>(space: &S, graph: &mut Graph, mut asked: Vec<Backlink>, least: Least, workers: &mut [Worker<S>]) {
    asked.sort_unstable_by_key(|b| (b.level, b.target, b.source));
    let base = asked.partition_point(|b| b.level == 0);
    let (base, upper) = asked.split_at(base);
    link_base(space, graph, base, least, workers);
    let least = least.of(graph.upper.width);
    for group in upper.chunk_by(|a, b| (a.level, a.target) == (b.level, b.target)) {
        let row = graph.place(usize::from(group[0].level), group[0].target).1;
        let range = row * graph.upper.width..(row + 1) * graph.upper.width;
        let rows = &mut graph.upper;
        workers[0].add_links(space, &mut rows.links[range.clone()], &mut rows.distances[range], group, least);
    }
}

/// Adds links on level 0: targets ascend, so each thread has a stretch of rows of its own.
fn link_base<S: Space>(space: &S, graph: &mut Graph, backlinks: &[Backlink], least: Least, workers: &mut [Worker<S>]) {
    let (width, least) = (graph.base.width, least.of(graph.base.width));
    let (mut links, mut distances) = (&mut graph.base.links[..], &mut graph.base.distances[..]);
    let (mut rest, mut first_row) = (backlinks, 0);
    let threads = workers.len();
    let mut shares = Vec::with_capacity(threads);
    for (i, worker) in workers.iter_mut().enumerate() {
        let share = rest.len() / (threads - i);
        // A target is never split between two threads.
        let share = rest[share..].iter().position(|b| share > 0 && b.target != rest[share - 1].target).map_or(rest.len(), |more| share + more);
        let (mine, others) = rest.split_at(share);
        let rows = mine.last().map_or(0, |last| last.target as usize + 1 - first_row);
        let (my_links, other_links) = std::mem::take(&mut links).split_at_mut(rows * width);
        let (my_distances, other_distances) = std::mem::take(&mut distances).split_at_mut(rows * width);
        let begin = first_row;
        shares.push(Mutex::new(Some(move || {
            for group in mine.chunk_by(|a, b| a.target == b.target) {
                let at = (group[0].target as usize - begin) * width;
                worker.add_links(space, &mut my_links[at..at + width], &mut my_distances[at..at + width], group, least);
            }
        })));
        (links, distances, rest, first_row) = (other_links, other_distances, others, first_row + rows);
    }
    let threads = if backlinks.len() > FEW * threads { threads } else { 1 };
    side_by_side(shares.len(), threads, |share| {
        let work = shares[share].lock().take();
        work.into_iter().for_each(|mut work| work());
    });
}

//! Takes the links of an old graph over into a new one, without those of its points that died, and heals what their death tore.
//!
//! A point that linked to dead ones is offered the living that those led to, through as many dead as lie between; the heuristic chooses among
//! them, beside the links that are left.

use super::build::HANDFUL;
use super::graph::{Graph, Links, NONE};
use super::link::{Backlink, Least, add_links};
use super::sealed::Sealed;
use super::space::Space;
use super::worker::{Worker, nearest_first, on_all};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Points whose rows are worked out before they are set. Links back to what they gained wait until all are: 16 bytes each, where a third of the
/// points died some hundred bytes a point that lives on.
const CHUNK: usize = 8_192;
/// Dead points that are looked through for one row, at most.
const DEAD_MAX: usize = 64;
/// Living points that are offered to one row, at most.
const BORDER_MAX: usize = 128;

/// An old graph whose links are reused, and where its nodes went.
pub(super) struct Reused<'a> {
    pub(super) sealed: &'a Sealed,
    /// By node: its point in the new space, [`NONE`] when it died.
    pub(super) to_new: std::borrow::Cow<'a, [u32]>,
    /// How many live on.
    pub(super) live: usize,
}

impl Reused<'_> {
    /// The point that a node became.
    pub(super) fn point(&self, node: u32) -> Option<u32> {
        self.to_new.get(node as usize).copied().filter(|&point| point != NONE)
    }

    /// The points of the nodes that live on, in the order of the nodes.
    pub(super) fn points(&self) -> impl Iterator<Item = u32> {
        self.to_new.iter().copied().filter(|&point| point != NONE)
    }
}

/// What one row becomes.
struct Healed {
    point: u32,
    level: u8,
    edges: Vec<(f32, u32)>,
    /// Those of `edges` that are new.
    new: Vec<(f32, u32)>,
}

/// Sets the rows of all points that an old graph gives; `None` when `stop` was set meanwhile. Rows of points of other graphs are not touched.
pub(super) fn take_over<S: Space>(
    space: &S,
    graph: &mut Graph,
    old: &Reused<'_>,
    stop: &AtomicBool,
    workers: &mut [Worker<S>],
) -> Option<()> {
    let mut asked = Vec::new();
    let nodes = old.to_new.len();
    for begin in (0..nodes).step_by(CHUNK) {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let end = nodes.min(begin + CHUNK);
        let next = AtomicUsize::new(begin);
        let work = |worker: &mut Worker<S>| {
            let mut healed = Vec::new();
            loop {
                let from = next.fetch_add(HANDFUL, Ordering::Relaxed);
                if from >= end {
                    return healed;
                }
                (from..end.min(from + HANDFUL)).for_each(|node| worker.heal(space, graph, old, node as u32, &mut healed));
            }
        };
        // Each row is set once, so their order does not matter; what is asked for is put into order before it is granted.
        for Healed { point, level, edges, new } in on_all(workers, end - begin <= HANDFUL, work) {
            graph.set(usize::from(level), point, &edges);
            asked.extend(new.iter().map(|&(distance, target)| Backlink { level, target, source: point, distance }));
        }
    }
    add_links(space, graph, asked, Least::Half, workers);
    Some(())
}

impl<S: Space> Worker<S> {
    /// The rows of a node, if it lives on.
    fn heal(&mut self, space: &S, graph: &Graph, old: &Reused<'_>, node: u32, healed: &mut Vec<Healed>) {
        let Some(point) = old.point(node) else { return };
        space.query_of(point, &mut self.query);
        for level in 0..=graph.levels[point as usize] {
            self.batch.clear();
            self.batch.extend(old.sealed.links(usize::from(level), node).filter_map(|link| old.point(link)));
            self.measure(space);
            self.kept.clear();
            self.kept.extend(self.distances.iter().copied().zip(self.batch.iter().copied()));
            self.kept.sort_unstable_by(nearest_first);
            let lost = old.sealed.links(usize::from(level), node).count() - self.kept.len();
            let mut new = Vec::new();
            if lost > 0 {
                self.offer_border(space, old, usize::from(level), node);
                let width = if level == 0 { 2 * graph.m } else { graph.m };
                let before = self.kept.clone();
                self.selector.add(space, &self.candidates, width, width.min(before.len() + lost).min(width / 2), &mut self.kept);
                new.extend(self.kept.iter().filter(|edge| !before.contains(edge)));
            }
            healed.push(Healed { point, level, edges: self.kept.clone(), new });
        }
    }

    /// Makes candidates of the living that a node reaches through the dead alone.
    fn offer_border(&mut self, space: &S, old: &Reused<'_>, level: usize, node: u32) {
        self.scratch.visited.reset(old.sealed.points());
        self.scratch.visited.insert(node);
        self.batch.clear();
        let mut dead = Vec::new();
        for link in old.sealed.links(level, node) {
            if self.scratch.visited.insert(link) && old.point(link).is_none() {
                dead.push(link);
            }
        }
        let mut at = 0;
        while let Some(&through) = dead.get(at).filter(|_| at < DEAD_MAX && self.batch.len() < BORDER_MAX) {
            at += 1;
            for link in old.sealed.links(level, through) {
                if self.scratch.visited.insert(link) {
                    match old.point(link) {
                        Some(point) => self.batch.push(point),
                        None => dead.push(link),
                    }
                }
            }
        }
        self.batch.truncate(BORDER_MAX);
        self.measure(space);
        self.candidates.clear();
        self.candidates.extend(self.distances.iter().copied().zip(self.batch.iter().copied()));
        self.candidates.sort_unstable_by(nearest_first);
    }
}

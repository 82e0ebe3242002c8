//! Makes one graph of the graphs of several segments, and of points that had none: the same one for any number of threads.
//!
//! The links of the old graphs are taken over and healed (`heal.rs`); side by side, they don't know each other yet. The largest is what the
//! others are joined to, one after another: each point of a smaller graph looks for neighbours in the larger one, from where its own
//! neighbours found theirs, so that a short walk finds what an insertion from the top would take a long one for. Its neighbours in its own
//! graph it knows already. Then points of no graph are inserted as in a build, and everything is made reachable.

use super::build::{BuildOptions, build, insert, level, plan_each, raise_entry};
use super::graph::{Graph, Links, NONE};
use super::heal::{Reused, take_over};
use super::link::{Backlink, Least, add_links};
use super::reach;
use super::sealed::Sealed;
use super::space::Space;
use super::worker::{Plan, Worker, workers};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, Ordering};

/// A graph with a greater share of dead nodes than this, in percent, is not reused: healing would cost as much as building, and give less.
const DEAD_PERCENT_MAX: usize = 30;
/// Points that look for neighbours before those that follow can start from what they found.
const WAVE: usize = 4_096;
/// Points whose links are set at a time: bounds the memory of what waits.
const CHUNK: usize = 16_384;
/// Of what each neighbour found, how many a walk starts from; and how many in all.
const SEEDS_EACH: usize = 3;
const SEEDS_MAX: usize = 12;

/// A graph of one of the segments that are merged.
#[derive(Debug, Clone, Copy)]
pub struct OldGraph<'a> {
    /// The graph.
    pub sealed: &'a Sealed,
    /// By node: its point in the new space, [`NONE`] when it died.
    pub to_new: &'a [u32],
}

/// Builds the graph of all points of a space, of the old graphs of some of them; `None` when `stop` was set meanwhile. `progress` is told how
/// many points are in. Graphs of another M, and such as are dead for the most part, are not reused.
///
/// # Panics
/// When an old graph is told of as many points as it does not have, or a point is none of the space or of two graphs.
pub fn merge<S: Space>(
    space: &S,
    old: &[OldGraph<'_>],
    options: &BuildOptions,
    stop: &AtomicBool,
    mut progress: impl FnMut(usize),
) -> Option<Graph> {
    let mut reused: Vec<Reused<'_>> = old.iter().filter_map(|old| worth_reusing(old, options)).collect();
    if reused.is_empty() {
        return build(space, options, stop, progress);
    }
    reused.sort_by_key(|graph| Reverse(graph.live));
    let (mut graph, rest) = side_by_side(space.points(), &reused, options);
    let mut workers = workers(options.threads);
    for (i, part) in reused.iter().enumerate() {
        take_over(space, &mut graph, part, stop, &mut workers)?;
        let points = in_waves(&graph, part);
        if i > 0 {
            join(space, &mut graph, &points, options, stop, &mut workers)?;
        }
        raise_entry(&mut graph, &points);
        progress(reused[..=i].iter().map(|part| part.live).sum());
    }
    let already = space.points() - rest.len();
    insert(space, &mut graph, &rest, already, options, stop, &mut progress, &mut workers)?;
    reach::connect(space, &mut graph);
    Some(graph)
}

/// An old graph, if its links are worth taking over.
fn worth_reusing<'a>(old: &OldGraph<'a>, options: &BuildOptions) -> Option<Reused<'a>> {
    let OldGraph { sealed, to_new } = *old;
    assert_eq!(sealed.points(), to_new.len(), "every node goes somewhere");
    let mut to_new = Cow::Borrowed(to_new);
    let live = |to_new: &[u32]| to_new.iter().filter(|point| **point != NONE).count();
    let lives = live(&to_new);
    let above = sealed.level_counts.get(1).map_or(0, |&count| live(&to_new[..count as usize]));
    if above < lives / (2 * options.m) {
        // Too few are left on the levels above. Some go there anew: they are inserted as if they had been in no graph.
        to_new.to_mut().iter_mut().filter(|point| **point != NONE && level(**point, options.m) > 0).for_each(|point| *point = NONE);
    }
    let live = live(&to_new);
    let dead = sealed.points() - live;
    let worth = sealed.m == options.m && live > 0 && dead * 100 <= sealed.points() * DEAD_PERCENT_MAX;
    worth.then_some(Reused { sealed, to_new, live })
}

/// A graph without links of all points, those of old graphs on the levels that they had; and the points that are in none.
fn side_by_side(points: usize, reused: &[Reused<'_>], options: &BuildOptions) -> (Graph, Vec<u32>) {
    let mut levels: Vec<u8> = (0..points as u32).map(|point| level(point, options.m)).collect();
    let mut taken = vec![false; points];
    for part in reused {
        for (node, &point) in (0u32..).zip(part.to_new.iter()).filter(|(_, point)| **point != NONE) {
            assert!(!std::mem::replace(&mut taken[point as usize], true), "point {point} is of one graph");
            levels[point as usize] = part.sealed.level_counts[1..].iter().take_while(|count| node < **count).count() as u8;
        }
    }
    let rest = (0..points as u32).filter(|&point| !taken[point as usize]).collect();
    (Graph::new(options.m, levels), rest)
}

/// The points of an old graph in the order in which they look for neighbours: those above level 0, then outwards from those, and what can't
/// be reached from them in the order of its nodes.
fn in_waves(graph: &Graph, part: &Reused<'_>) -> Vec<u32> {
    let mut met = vec![false; graph.points()];
    let mut order: Vec<u32> = part.points().filter(|&point| graph.levels[point as usize] > 0).collect();
    order.iter().for_each(|&point| met[point as usize] = true);
    let (mut done, mut unmet) = (0, part.points());
    loop {
        while let Some(&point) = order.get(done) {
            done += 1;
            for &link in graph.row(0, point).iter().take_while(|l| **l != NONE) {
                if !std::mem::replace(&mut met[link as usize], true) {
                    order.push(link);
                }
            }
        }
        let Some(point) = unmet.find(|&point| !met[point as usize]) else { return order };
        met[point as usize] = true;
        order.push(point);
    }
}

/// Links points that know each other with the graph that the entry is of.
fn join<S: Space>(
    space: &S,
    graph: &mut Graph,
    points: &[u32],
    options: &BuildOptions,
    stop: &AtomicBool,
    workers: &mut [Worker<S>],
) -> Option<()> {
    let mut plans: Vec<(u32, Plan)> = Vec::with_capacity(points.len());
    let mut planned = vec![NONE; graph.points()];
    let ef = seeded_ef(options);
    while plans.len() < points.len() {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        // The first waves are small: the sooner some have found their place, the more can start from there.
        let wave = plans.len().clamp(64, WAVE);
        let batch = &points[plans.len()..points.len().min(plans.len() + wave)];
        let found = plan_each(batch, workers, |worker, at| {
            let point = batch[at];
            let seeds = seeds(graph, &plans, &planned, point);
            if graph.levels[point as usize] > 0 || seeds.is_empty() {
                return worker.plan(space, graph, options.ef_construction, &[], point);
            }
            worker.plan_from(space, graph, ef, &seeds, point)
        });
        batch.iter().zip(plans.len() as u32..).for_each(|(&point, at)| planned[point as usize] = at);
        plans.extend(found);
    }
    for chunk in plans.chunks(CHUNK) {
        let mut asked = Vec::new();
        for (point, plan) in chunk {
            for (level, edges) in (0u8..).zip(plan) {
                let both = |&(distance, target): &(f32, u32)| {
                    [(target, *point), (*point, target)].map(|(target, source)| Backlink { level, target, source, distance })
                };
                asked.extend(edges.iter().flat_map(both));
            }
        }
        add_links(space, graph, asked, Least::Half, workers);
    }
    Some(())
}

/// Candidates of a walk that starts near its end.
fn seeded_ef(options: &BuildOptions) -> usize {
    (options.ef_construction / 3).max(2 * options.m)
}

/// Where the neighbours of a point found theirs.
fn seeds(graph: &Graph, plans: &[(u32, Plan)], planned: &[u32], point: u32) -> Vec<u32> {
    let neighbours = graph.row(0, point).iter().take_while(|l| **l != NONE);
    let found = neighbours.filter_map(|&link| plans.get(planned[link as usize] as usize));
    let nearest = found.flat_map(|(_, plan)| plan[0].iter().take(SEEDS_EACH).map(|(_, seed)| *seed));
    nearest.take(SEEDS_MAX).collect()
}

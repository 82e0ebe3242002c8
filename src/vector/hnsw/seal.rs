//! Finishes a graph: numbers its points as nodes.

use super::graph::{Graph, Links, NONE};
use super::sealed::Sealed;

/// Numbers the points of a graph by level, highest first, and among those of a level in the order in which a breadth-first walk over the links
/// of level 0 meets them from the entry, so that neighbours lie near each other. O(points x M).
pub fn seal(graph: &Graph) -> Sealed {
    let points = in_order(graph);
    let mut nodes = vec![NONE; points.len()];
    points.iter().zip(0u32..).for_each(|(&point, node)| nodes[point as usize] = node);
    let top = points.first().map(|&point| graph.levels[point as usize]);
    let has = |level: u8| points.partition_point(|&point| graph.levels[point as usize] >= level);
    let level_counts: Vec<u32> = top.into_iter().flat_map(|top| 0..=top).map(|level| has(level) as u32).collect();
    let renamed = |level: usize, &point: &u32| graph.row(level, point).iter().map(|&link| nodes.get(link as usize).copied().unwrap_or(NONE));
    let base = points.iter().flat_map(|point| renamed(0, point)).collect();
    let upper = (1..level_counts.len()).flat_map(|level| points[..level_counts[level] as usize].iter().flat_map(move |p| renamed(level, p)));
    Sealed { m: graph.m, base, upper: upper.collect(), level_counts, points }
}

/// The points in the order of their nodes.
fn in_order(graph: &Graph) -> Vec<u32> {
    let mut met = vec![false; graph.points()];
    let mut queue: Vec<u32> = Vec::with_capacity(graph.points());
    let (mut done, mut unmet) = (0, 0..graph.points() as u32);
    let mut start = graph.entry().map(|(entry, _)| entry);
    // Every point can be reached from the entry; were one not, it would still have its number.
    while let Some(first) = start {
        met[first as usize] = true;
        queue.push(first);
        while let Some(&point) = queue.get(done) {
            done += 1;
            for &link in graph.row(0, point).iter().take_while(|l| **l != NONE) {
                if !std::mem::replace(&mut met[link as usize], true) {
                    queue.push(link);
                }
            }
        }
        start = unmet.find(|&p| !met[p as usize]);
    }
    queue.sort_by_key(|&point| std::cmp::Reverse(graph.levels[point as usize]));
    queue
}

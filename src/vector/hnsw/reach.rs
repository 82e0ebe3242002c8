//! Every point can be reached from the entry by the links of level 0.

use super::graph::{Graph, Links, NONE};
use super::search::Scratch;
use super::space::Space;
use std::collections::VecDeque;

/// How widely to look for a place to link an unreachable point to.
const EF: usize = 64;

/// Adds links until every point can be reached; returns how many were added. O(points x M), and a search for each point that could not be
/// reached. Where a row is full, its farthest neighbour gives way, if that one can still be reached by another; a neighbour that is cut off by
/// it is linked again in its turn.
pub(super) fn connect<S: Space>(space: &S, graph: &mut Graph) -> usize {
    let Some((entry, _)) = graph.entry else { return 0 };
    let (mut scratch, mut query) = (Scratch::default(), S::Query::default());
    let mut added = 0;
    // Each pass links every island that is left; a pass that displaces links may cut others off, so there is a limit, far above what happens.
    for _ in 0..64 {
        let mut reached = vec![false; graph.points()];
        let mut incoming = vec![0u32; graph.points()];
        flood(graph, entry, &mut reached, &mut incoming);
        if reached.iter().all(|&r| r) {
            break;
        }
        for point in 0..graph.points() as u32 {
            if reached[point as usize] {
                continue;
            }
            space.query_of(point, &mut query);
            let near: Vec<(f32, u32)> = scratch.search(space, &query, &*graph, EF).filter(|(_, p)| reached[*p as usize]).collect();
            let Some(&(distance, host)) = near.iter().find(|(_, host)| has_room(graph, *host, &incoming)).or(near.first()) else { continue };
            link(graph, host, (distance, point), &mut incoming);
            added += 1;
            flood(graph, point, &mut reached, &mut incoming);
        }
    }
    added
}

/// Marks what can be reached from `start`, and counts the links that lead to each point from what was marked now.
fn flood(graph: &Graph, start: u32, reached: &mut [bool], incoming: &mut [u32]) {
    let mut queue = VecDeque::from([start]);
    reached[start as usize] = true;
    while let Some(point) = queue.pop_front() {
        for &link in graph.row(0, point).iter().take_while(|l| **l != NONE) {
            incoming[link as usize] += 1;
            if !reached[link as usize] {
                reached[link as usize] = true;
                queue.push_back(link);
            }
        }
    }
}

/// Whether a point can take a link without cutting another one off.
fn has_room(graph: &Graph, host: u32, incoming: &[u32]) -> bool {
    let row = graph.row(0, host);
    row.last() == Some(&NONE) || row.iter().any(|&link| incoming[link as usize] > 1)
}

/// Links `host` to a point, in place of its farthest neighbour that others lead to when its row is full.
fn link(graph: &mut Graph, host: u32, edge: (f32, u32), incoming: &mut [u32]) {
    let mut edges: Vec<(f32, u32)> = graph.base.edges(host as usize).collect();
    if edges.len() == graph.base.width {
        let spare = edges.iter().rposition(|(_, link)| incoming[*link as usize] > 1).unwrap_or(edges.len() - 1);
        let (_, gone) = edges.remove(spare);
        incoming[gone as usize] = incoming[gone as usize].saturating_sub(1);
    }
    incoming[edge.1 as usize] += 1;
    edges.push(edge);
    edges.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    graph.set(0, host, &edges);
}

//! Every point can be reached from the entry by the links of level 0.
//!
//! A tree of links, rooted in the entry, holds all that can be reached. A link of the tree is never taken away, so what was reached stays so: one
//! pass links everything.

use super::graph::{Graph, Links, NONE};
use super::search::Scratch;
use super::space::Space;
use super::worker::nearest_first;

/// How widely to look for a place to link an unreachable point to.
const EF: usize = 64;

/// Adds links until every point can be reached; returns how many were added. O(points x M), and a search for each point that could not be
/// reached. Where a row is full, the farthest of its links that is not of the tree gives way.
pub(super) fn connect<S: Space>(space: &S, graph: &mut Graph) -> usize {
    let Some((entry, _)) = graph.entry else { return 0 };
    let mut tree = Tree { parents: vec![NONE; graph.points()], queue: Vec::new() };
    tree.grow(graph, entry, entry);
    let (mut scratch, mut query, mut added) = (Scratch::default(), S::Query::default(), 0);
    for point in 0..graph.points() as u32 {
        if tree.holds(point) {
            continue;
        }
        space.query_of(point, &mut query);
        let Some((distance, host)) = tree.host(space, &query, graph, entry, &mut scratch) else { continue };
        tree.make_room(graph, host);
        let mut edges: Vec<(f32, u32)> = graph.base.edges(host as usize).chain([(distance, point)]).collect();
        edges.sort_unstable_by(nearest_first);
        graph.set(0, host, &edges);
        tree.grow(graph, point, host);
        added += 1;
    }
    added
}

/// What can be reached: of each point, the one whose link leads to it; the entry's is the entry itself.
struct Tree {
    parents: Vec<u32>,
    queue: Vec<u32>,
}

impl Tree {
    fn holds(&self, point: u32) -> bool {
        self.parents[point as usize] != NONE
    }

    /// Takes in a point under `parent`, and all that can be reached from it, nearest first.
    fn grow(&mut self, graph: &Graph, point: u32, parent: u32) {
        self.parents[point as usize] = parent;
        self.queue.clear();
        self.queue.push(point);
        let mut done = 0;
        while let Some(&from) = self.queue.get(done) {
            done += 1;
            for &link in graph.row(0, from).iter().take_while(|l| **l != NONE) {
                if !self.holds(link) {
                    self.parents[link as usize] = from;
                    self.queue.push(link);
                }
            }
        }
    }

    /// The nearest point found that can be reached and can take a link, with its distance.
    fn host<S: Space>(&self, space: &S, query: &S::Query, graph: &Graph, entry: u32, scratch: &mut Scratch) -> Option<(f32, u32)> {
        let fits = |&(_, host): &(f32, u32)| self.holds(host) && self.has_room(graph, host);
        if let Some(found) = scratch.search(space, query, graph, EF).find(fits) {
            return Some(found);
        }
        // The levels above may lead to where level 0 does not; from the entry it leads only to what is reached.
        scratch.walk(space, query, graph, 0, &[entry], EF);
        if let Some(found) = scratch.pool.iter().find(fits) {
            return Some(found);
        }
        // There is always one with room: were every row full of links of the tree, it would hold more points than there are.
        let any = (0..graph.points() as u32).find(|&host| self.holds(host) && self.has_room(graph, host))?;
        let mut distance = [0.0];
        space.distances(query, &[any], &mut distance);
        Some((distance[0], any))
    }

    fn has_room(&self, graph: &Graph, host: u32) -> bool {
        let row = graph.row(0, host);
        row.last() == Some(&NONE) || row.iter().any(|&link| self.parents[link as usize] != host)
    }

    /// Takes the farthest link that is not of the tree out of a full row.
    fn make_room(&self, graph: &mut Graph, host: u32) {
        let mut edges: Vec<(f32, u32)> = graph.base.edges(host as usize).collect();
        if edges.len() < graph.base.width {
            return;
        }
        if let Some(spare) = edges.iter().rposition(|(_, link)| self.parents[*link as usize] != host) {
            edges.remove(spare);
            graph.set(0, host, &edges);
        }
    }
}

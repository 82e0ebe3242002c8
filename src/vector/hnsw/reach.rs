//! Every point can be reached from the entry by the links of level 0, and such as hardly anything leads to are found by walks.
//!
//! A tree of links, rooted in the entry, holds all that can be reached. A link of the tree is never taken away, so what was reached stays so: one
//! pass links everything.

use super::graph::{Graph, Links, NONE};
use super::search::Scratch;
use super::space::Space;
use super::worker::nearest_first;

/// How widely to look for a place to link an unreachable point to.
const EF: usize = 64;
/// How widely a walk looks that has to find a point to which few links lead: less than any search does.
const EF_WEAK: usize = 32;

/// Adds links until every point can be reached; returns how many were added. O(points x M), and a search for each point that could not be
/// reached or to which few links lead. Where a row is full, the farthest of its links that is not of the tree gives way.
pub(super) fn connect<S: Space>(space: &S, graph: &mut Graph) -> usize {
    let Some((entry, _)) = graph.entry else { return 0 };
    let none = || vec![NONE; graph.points()];
    let mut tree = Tree { entry, parents: none(), last_taken: none(), queue: Vec::new() };
    tree.grow(graph, entry, entry);
    let (mut scratch, mut query, mut added) = (Scratch::default(), S::Query::default(), 0);
    for point in 0..graph.points() as u32 {
        if tree.holds(point) {
            continue;
        }
        space.query_of(point, &mut query);
        let mut host = scratch.search(space, &query, &*graph, EF).find_map(|(_, near)| tree.host(graph, near));
        if host.is_none() {
            // The levels above may lead to where level 0 does not; from the entry it leads only to what is reached.
            scratch.walk(space, &query, &*graph, 0, &[entry], EF);
            host = scratch.pool.iter().find_map(|(_, near)| tree.host(graph, near));
        }
        // There is always one with room: were every row full, and half of it of the tree, that would hold more points than there are.
        let Some(host) = host.or_else(|| (0..graph.points() as u32).find_map(|near| tree.host(graph, near))) else { continue };
        tree.take(space, graph, &query, host, point);
        added += 1;
    }
    added + strengthen(space, graph, &mut tree, &mut scratch, &mut query)
}

/// Links points again that have few links, or to which few lead, if a short walk misses them. Early points of a build that lie far from all
/// others are such: those near them that came later know nothing of them.
fn strengthen<S: Space>(space: &S, graph: &mut Graph, tree: &mut Tree, scratch: &mut Scratch, query: &mut S::Query) -> usize {
    let mut incoming = vec![0u32; graph.points()];
    graph.base.links.iter().filter(|link| **link != NONE).for_each(|&link| incoming[link as usize] += 1);
    let mut added = 0;
    for point in 0..graph.points() as u32 {
        if incoming[point as usize] as usize >= graph.m * 3 / 4 && graph.base.edges(point as usize).count() >= graph.m / 2 {
            continue;
        }
        space.query_of(point, query);
        let mut own = [0.0];
        space.distances(query, &[point], &mut own);
        let nearest = scratch.search(space, query, &*graph, EF_WEAK).next();
        if nearest.is_some_and(|(distance, _)| distance <= own[0]) {
            continue;
        }
        let Some(host) = scratch.pool.iter().find_map(|(_, near)| Some(near).filter(|&near| near != point && tree.has_room(graph, near))) else {
            continue;
        };
        if !graph.row(0, host).contains(&point) {
            tree.set(space, graph, query, host, point);
            added += 1;
        }
    }
    added
}

/// What can be reached.
struct Tree {
    entry: u32,
    /// By point: the one whose link leads to it; the entry's is the entry itself.
    parents: Vec<u32>,
    /// By point: the last that it took in. Those that it has no more room for are sent there, so that many copies of a point hang on each other.
    last_taken: Vec<u32>,
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

    /// A point that can be reached and can take a link, if `near` is one or sends there.
    fn host(&mut self, graph: &Graph, near: u32) -> Option<u32> {
        if !self.holds(near) {
            return None;
        }
        let mut host = near;
        while !self.has_room(graph, host) {
            host = Some(self.last_taken[host as usize]).filter(|&next| next != NONE)?;
        }
        if host != near {
            self.last_taken[near as usize] = host;
        }
        Some(host)
    }

    /// Whether a row has a free place, or more than half of its links are not of the tree: a point that leads others to everything else keeps
    /// ways there, however many hang on it.
    fn has_room(&self, graph: &Graph, host: u32) -> bool {
        let row = graph.row(0, host);
        row.last() == Some(&NONE) || 2 * row.iter().filter(|&&link| !self.is_of_tree(host, link)).count() > row.len()
    }

    fn is_of_tree(&self, host: u32, link: u32) -> bool {
        self.parents[link as usize] == host && link != self.entry
    }

    /// Takes in a point that could not be reached.
    fn take<S: Space>(&mut self, space: &S, graph: &mut Graph, query: &S::Query, host: u32, point: u32) {
        self.set(space, graph, query, host, point);
        self.last_taken[host as usize] = point;
        self.grow(graph, point, host);
    }

    /// Links a host that has room to a point, in place of its farthest link that is not of the tree when its row is full.
    fn set<S: Space>(&self, space: &S, graph: &mut Graph, query: &S::Query, host: u32, point: u32) {
        let mut distance = [0.0];
        space.distances(query, &[host], &mut distance);
        let mut edges: Vec<(f32, u32)> = graph.base.edges(host as usize).collect();
        if edges.len() == graph.base.width
            && let Some(spare) = edges.iter().rposition(|(_, link)| !self.is_of_tree(host, *link))
        {
            edges.remove(spare);
        }
        edges.push((distance[0], point));
        edges.sort_unstable_by(nearest_first);
        graph.set(0, host, &edges);
    }
}

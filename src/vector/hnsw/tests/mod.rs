//! The graph against brute force, and against what every graph must be.

mod merging;
mod reports;

use super::build::{BuildOptions, build};
use super::codes::CodeSpace;
use super::floats::FloatSpace;
use super::graph::{Graph, Links, NONE};
use super::search::Scratch;
use super::space::Space;
use std::sync::atomic::AtomicBool;

/// Unit vectors around a few centres, the same at every run.
fn vectors(count: usize, dimension: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    let centres: Vec<f32> = (0..8 * dimension).map(|_| draw()).collect();
    let mut rows = Vec::with_capacity(count * dimension);
    for i in 0..count {
        let centre = &centres[i % 8 * dimension..][..dimension];
        let row: Vec<f32> = centre.iter().map(|c| c + draw()).collect();
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        rows.extend(row.iter().map(|x| x / norm));
    }
    rows
}

fn exact(rows: &[f32], dimension: usize, query: &[f32], k: usize) -> Vec<u32> {
    let score = |row: &[f32]| row.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let mut all: Vec<(f64, u32)> = rows.chunks_exact(dimension).zip(0u32..).map(|(row, i)| (score(row), i)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    all.into_iter().take(k).map(|(_, i)| i).collect()
}

/// The graph of the vectors in `rows`, by their components, with every link held against the rules.
fn built(rows: &[f32], dimension: usize, options: &BuildOptions) -> Graph {
    let graph = build(&FloatSpace::new(rows, dimension), options, &AtomicBool::new(false), |_| {}).unwrap();
    assert_whole(&graph);
    graph
}

/// Every point can be reached on level 0; rows ascend by distance and name no point twice, nor itself, nor one that lacks the level; the entry
/// is as high as any.
fn assert_whole(graph: &Graph) {
    let top = graph.levels.iter().copied().max().map(usize::from);
    assert_eq!(graph.entry().map(|(_, level)| level), top);
    let Some((entry, _)) = graph.entry() else { return };
    assert_eq!(Some(usize::from(graph.levels[entry as usize])), top);
    for point in 0..graph.points() as u32 {
        for level in 0..=usize::from(graph.levels[point as usize]) {
            let (rows, row) = graph.place(level, point);
            let edges: Vec<(f32, u32)> = rows.edges(row).collect();
            assert!(edges.is_sorted_by(|a, b| a.0 <= b.0), "{point} on level {level}: {edges:?}");
            assert!(rows.row(row)[edges.len()..].iter().all(|l| *l == NONE), "{point} on level {level} goes on after its end");
            let mut links: Vec<u32> = edges.iter().map(|e| e.1).collect();
            links.sort_unstable();
            assert!(links.is_sorted_by(|a, b| a < b) && !links.contains(&point), "{point} on level {level}: {links:?}");
            assert!(links.iter().all(|&l| usize::from(graph.levels[l as usize]) >= level), "{point} on level {level}: {links:?}");
        }
    }
    let reached = reachable(graph, entry);
    assert!(reached.iter().all(|r| *r), "{} points are cut off", reached.iter().filter(|r| !**r).count());
}

/// What can be reached from a point by the links of level 0.
fn reachable(graph: &Graph, from: u32) -> Vec<bool> {
    let mut reached = vec![false; graph.points()];
    let mut stack = vec![from];
    while let Some(point) = stack.pop() {
        if !std::mem::replace(&mut reached[point as usize], true) {
            stack.extend(graph.row(0, point).iter().take_while(|l| **l != NONE));
        }
    }
    reached
}

/// Of the ten nearest of every `step`th point, which share a walk with this `ef` finds.
fn recall(rows: &[f32], dimension: usize, graph: &Graph, step: usize, ef: usize) -> f64 {
    let space = FloatSpace::new(rows, dimension);
    let (mut scratch, mut found, mut asked) = (Scratch::default(), 0, 0);
    for query in rows.chunks_exact(dimension).step_by(step) {
        let hits: Vec<u32> = scratch.search(&space, &query.to_vec(), graph, ef).take(10).map(|(_, p)| p).collect();
        let expected = exact(rows, dimension, query, 10);
        asked += expected.len();
        found += hits.iter().filter(|h| expected.contains(h)).count();
    }
    found as f64 / asked as f64
}

#[test]
fn walks_find_what_brute_force_finds() {
    let dimension = 24;
    let rows = vectors(3_000, dimension, 1);
    let graph = built(&rows, dimension, &BuildOptions::default());
    let recall = recall(&rows, dimension, &graph, 29, 64);
    assert!(recall >= 0.97, "{recall}");
}

#[test]
fn the_graph_is_the_same_for_any_number_of_threads() {
    let dimension = 16;
    let rows = vectors(2_500, dimension, 2);
    let codes = CodeSpace::of(&rows, dimension);
    let one = build(&codes, &BuildOptions { threads: 1, ..Default::default() }, &AtomicBool::new(false), |_| {}).unwrap();
    for threads in [2, 3] {
        let many = build(&codes, &BuildOptions { threads, ..Default::default() }, &AtomicBool::new(false), |_| {}).unwrap();
        assert!(one == many, "{threads} threads");
    }
}

#[test]
fn codes_come_near_the_distances() {
    for dimension in [1, 3, 32, 33, 100, 384] {
        let rows = vectors(64, dimension, 4);
        let codes = CodeSpace::of(&rows, dimension);
        let (floats, mut query) = (FloatSpace::new(&rows, dimension), Default::default());
        codes.query(&rows[..dimension], &mut query);
        let points: Vec<u32> = (0..64).collect();
        let (mut near, mut true_distances) = (vec![0.0; 64], vec![0.0; 64]);
        codes.distances(&query, &points, &mut near);
        floats.distances(&rows[..dimension].to_vec(), &points, &mut true_distances);
        // Both leave out what is the same for all points.
        let shift = near[0] - true_distances[0];
        for (a, b) in near.iter().zip(&true_distances) {
            assert!((a - shift - b).abs() < 0.05, "{dimension}: {a} - {shift}, {b}");
        }
    }
}

/// What codes give whose forged scales overflow: infinities, and what is no number.
struct Numberless(usize);

impl Space for Numberless {
    type Query = u32;

    fn points(&self) -> usize {
        self.0
    }

    fn query_of(&self, point: u32, query: &mut u32) {
        *query = point;
    }

    fn distances(&self, query: &u32, points: &[u32], out: &mut [f32]) {
        let of = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0];
        points.iter().zip(out).for_each(|(point, out)| *out = of[(query ^ point) as usize % of.len()]);
    }
}

#[test]
fn every_walk_ends_where_distances_are_no_numbers() {
    for points in [2, 40, 700] {
        let space = Numberless(points);
        let options = BuildOptions { m: 4, threads: 1, ..Default::default() };
        let graph = build(&space, &options, &AtomicBool::new(false), |_| {}).unwrap();
        let mut scratch = Scratch::default();
        for query in 0..points as u32 {
            assert!(scratch.search(&space, &query, &graph, 16).len() <= 16);
        }
    }
}

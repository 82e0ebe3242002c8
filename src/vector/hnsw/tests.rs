//! The graph against brute force.

use super::build::{BuildOptions, build};
use super::codes::CodeSpace;
use super::floats::FloatSpace;
use super::graph::{Links, NONE};
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

#[test]
fn walks_find_what_brute_force_finds() {
    let dimension = 24;
    let rows = vectors(3_000, dimension, 1);
    let space = FloatSpace::new(&rows, dimension);
    let graph = build(&space, &BuildOptions::default(), &AtomicBool::new(false), |_| {}).unwrap();
    let (mut scratch, mut found) = (Scratch::default(), 0);
    for i in 0..100 {
        let query = rows[i * 29 * dimension..][..dimension].to_vec();
        let hits: Vec<u32> = scratch.search(&space, &query, &graph, 64).take(10).map(|(_, p)| p).collect();
        let expected = exact(&rows, dimension, &query, 10);
        found += hits.iter().filter(|h| expected.contains(h)).count();
    }
    assert!(found >= 970, "{found} of 1,000");
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
fn every_point_can_be_reached_also_among_duplicates() {
    let dimension = 8;
    let mut rows = vectors(1_200, dimension, 3);
    let first = rows[..dimension].to_vec();
    for _ in 0..600 {
        rows.extend_from_slice(&first);
    }
    let space = CodeSpace::of(&rows, dimension);
    let graph = build(&space, &BuildOptions { m: 8, ..Default::default() }, &AtomicBool::new(false), |_| {}).unwrap();
    let mut reached = vec![false; graph.points()];
    let mut stack = vec![graph.entry().unwrap().0];
    while let Some(point) = stack.pop() {
        if !std::mem::replace(&mut reached[point as usize], true) {
            stack.extend(graph.row(0, point).iter().take_while(|l| **l != NONE));
        }
    }
    assert!(reached.iter().all(|r| *r), "{} points are cut off", reached.iter().filter(|r| !**r).count());
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

//! Graphs that are made of older ones, and graphs that are sealed.

use super::*;
use crate::vector::hnsw::merge::{OldGraph, merge};
use crate::vector::hnsw::seal::seal;
use crate::vector::hnsw::sealed::Sealed;
use std::sync::atomic::Ordering;

const DIMENSION: usize = 12;

/// A sealed graph of some rows, with the row of each point.
pub(super) struct Part {
    pub(super) sealed: Sealed,
    pub(super) rows: Vec<usize>,
}

pub(super) fn part(all: &[f32], rows: impl Iterator<Item = usize>, options: &BuildOptions) -> Part {
    let rows: Vec<usize> = rows.collect();
    let graph = built(&gather(all, &rows), DIMENSION, options);
    Part { sealed: seal(&graph), rows }
}

pub(super) fn gather(all: &[f32], rows: &[usize]) -> Vec<f32> {
    rows.iter().flat_map(|&row| &all[row * DIMENSION..][..DIMENSION]).copied().collect()
}

/// Merges parts into a graph of the rows in `next`.
pub(super) fn merged(all: &[f32], parts: &[Part], next: &[usize], options: &BuildOptions) -> Graph {
    let to_new: Vec<Vec<u32>> = parts.iter().map(|part| renamed(part, next)).collect();
    let old: Vec<OldGraph<'_>> = parts.iter().zip(&to_new).map(|(part, to_new)| OldGraph { sealed: &part.sealed, to_new }).collect();
    let rows = gather(all, next);
    let (mut told, space) = (Vec::new(), FloatSpace::new(&rows, DIMENSION));
    let graph = merge(&space, &old, options, &AtomicBool::new(false), |points| told.push(points)).unwrap();
    assert!(told.is_sorted() && told.last().is_none_or(|&points| points == next.len()), "{told:?}");
    assert_eq!(graph.points(), next.len());
    assert_whole(&graph);
    graph
}

/// By node of a part: its point among the rows in `next`.
fn renamed(part: &Part, next: &[usize]) -> Vec<u32> {
    let point = |row: usize| next.iter().position(|&other| other == row).map_or(NONE, |point| point as u32);
    part.sealed.points.iter().map(|&node| point(part.rows[node as usize])).collect()
}

/// Numbers below `limit`, the same at every run.
pub(super) fn draws(seed: u64, limit: usize) -> impl Iterator<Item = usize> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    })
}

#[test]
fn a_sealed_graph_has_the_same_links_and_its_entry_first() {
    let rows = vectors(1_500, DIMENSION, 5);
    let graph = built(&rows, DIMENSION, &BuildOptions { m: 6, ..Default::default() });
    let sealed = seal(&graph);
    assert_eq!((sealed.points[0], sealed.entry()), (graph.entry().unwrap().0, Some((0, graph.entry().unwrap().1))));
    let mut points = sealed.points.clone();
    points.sort_unstable();
    assert!(points.iter().copied().eq(0..1_500));
    for node in 0..1_500u32 {
        let point = sealed.points[node as usize];
        for level in 0..sealed.level_counts.len() {
            let has_level = node < sealed.level_counts[level];
            assert_eq!(has_level, usize::from(graph.levels[point as usize]) >= level, "{point} on level {level}");
            if has_level {
                let links = sealed.links(level, node).map(|link| sealed.points[link as usize]);
                assert!(links.eq(graph.row(level, point).iter().copied().take_while(|l| *l != NONE)), "{point} on level {level}");
            }
        }
    }
    let far = |order: &[u32]| {
        let mut places = vec![0i64; order.len()];
        order.iter().zip(0..).for_each(|(&point, place)| places[point as usize] = place);
        let links = (0..1_500u32).flat_map(|p| graph.row(0, p).iter().take_while(|l| **l != NONE).map(move |&l| (p, l)));
        links.map(|(a, b)| (places[a as usize] - places[b as usize]).abs()).sum::<i64>()
    };
    assert!(far(&sealed.points) < far(&(0..1_500).collect::<Vec<_>>()), "neighbours lie nearer than they did");
}

#[test]
fn graphs_of_no_one_and_two_points_are_sealed() {
    assert_eq!(seal(&built(&[], DIMENSION, &BuildOptions::default())), Sealed { m: 16, ..Sealed::default() });
    let two = vectors(2, DIMENSION, 9);
    for count in [1, 2] {
        let sealed = seal(&built(&two[..count * DIMENSION], DIMENSION, &BuildOptions::default()));
        assert_eq!((sealed.points.len(), sealed.level_counts[0] as usize, sealed.entry()), (count, count, Some((0, sealed.level_counts.len() - 1))));
        assert_eq!((0..count as u32).map(|node| sealed.links(0, node).count()).sum::<usize>(), count * (count - 1));
    }
}

#[test]
fn merged_halves_find_what_a_new_graph_finds() {
    let all = vectors(3_000, DIMENSION, 11);
    let options = BuildOptions { m: 8, ef_construction: 100, threads: 2 };
    let parts = [part(&all, 0..1_500, &options), part(&all, 1_500..3_000, &options)];
    let graph = merged(&all, &parts, &(0..3_000).collect::<Vec<_>>(), &options);
    let fresh = built(&all, DIMENSION, &options);
    let (merged, fresh) = (recall(&all, DIMENSION, &graph, 7, 40), recall(&all, DIMENSION, &fresh, 7, 40));
    assert!(merged >= fresh - 0.005, "{merged}, {fresh}");
}

#[test]
fn a_merge_is_the_same_for_any_number_of_threads() {
    let all = vectors(2_600, DIMENSION, 12);
    let options = |threads| BuildOptions { m: 6, ef_construction: 60, threads };
    // Some of each graph died, three graphs differ in size, some rows were in none, and rows are interleaved.
    let rows: Vec<usize> = (0..2_600).collect();
    let in_part = |n: usize| rows.iter().copied().filter(move |row| row % 13 != 0 && [0, 0, 0, 1, 1, 2][row % 6] == n);
    let parts = [0, 1, 2].map(|n| part(&all, in_part(n), &options(1)));
    let next: Vec<usize> = draws(3, 1_000).zip(0..2_600).filter(|(draw, _)| *draw > 90).map(|(_, row)| row).collect();
    let one = merged(&all, &parts, &next, &options(1));
    for threads in [2, 3, 8] {
        assert!(one == merged(&all, &parts, &next, &options(threads)), "{threads} threads");
    }
}

#[test]
fn recall_lasts_through_many_merges_with_deletes() {
    let all = vectors(4_000, DIMENSION, 13);
    let options = BuildOptions { m: 6, ef_construction: 60, threads: 2 };
    let mut current = part(&all, 0..1_500, &options);
    let (mut fresh_rows, mut graph) = (1_500..4_000, None);
    for round in 0..40 {
        let mut next = current.rows.clone();
        for draw in draws(round, 1_000_000).take(45) {
            next.remove(draw % next.len());
        }
        next.extend(fresh_rows.by_ref().take(45));
        let made = merged(&all, &[current], &next, &options);
        current = Part { sealed: seal(&made), rows: next };
        graph = Some(made);
    }
    let rows = gather(&all, &current.rows);
    let fresh = built(&rows, DIMENSION, &options);
    let (old, fresh) = (recall(&rows, DIMENSION, &graph.unwrap(), 3, 30), recall(&rows, DIMENSION, &fresh, 3, 30));
    assert!(old >= fresh - 0.005, "{old}, {fresh}");
}

#[test]
fn a_merge_of_what_cannot_be_reused_is_a_build() {
    let all = vectors(900, DIMENSION, 14);
    let options = BuildOptions { m: 6, ef_construction: 60, threads: 1 };
    let next: Vec<usize> = (300..900).collect();
    let fresh = built(&gather(&all, &next), DIMENSION, &options);
    let mostly_dead = part(&all, 0..420, &options);
    let of_another_m = part(&all, 300..900, &BuildOptions { m: 7, ..options });
    let none = part(&all, 0..0, &options);
    assert!(fresh == merged(&all, &[mostly_dead, of_another_m, none], &next, &options));
    assert!(fresh == merged(&all, &[], &next, &options));
}

#[test]
fn a_merge_that_is_stopped_gives_nothing() {
    let all = vectors(900, DIMENSION, 15);
    let options = BuildOptions { m: 6, ef_construction: 40, threads: 2 };
    let parts = [part(&all, 0..400, &options), part(&all, 400..800, &options)];
    let next: Vec<usize> = (0..900).collect();
    let to_new: Vec<Vec<u32>> = parts.iter().map(|part| renamed(part, &next)).collect();
    let old: Vec<OldGraph<'_>> = parts.iter().zip(&to_new).map(|(part, to_new)| OldGraph { sealed: &part.sealed, to_new }).collect();
    let space = FloatSpace::new(&all, DIMENSION);
    for after in [0, 400, 800] {
        let stop = AtomicBool::new(after == 0);
        assert!(merge(&space, &old, &options, &stop, |points| stop.store(points >= after, Ordering::Relaxed)).is_none(), "{after}");
    }
}

//! What merging keeps: of two halves, and over many rounds of losing and gaining points.

use crate::data::Data;
use crate::measure::{Watch, measure};
use std::sync::atomic::AtomicBool;
use triune::vector::hnsw::build::{BuildOptions, build};
use triune::vector::hnsw::codes::CodeSpace;
use triune::vector::hnsw::graph::{Graph, NONE};
use triune::vector::hnsw::merge::{OldGraph, merge};
use triune::vector::hnsw::seal::seal;
use triune::vector::hnsw::sealed::Sealed;
use triune_benches::Failure;

/// Points that are lost and gained in a round, in percent.
const CHURN_PERCENT: usize = 2;
/// Of the data, how much is in the graph at a time, in percent.
const POPULATION_PERCENT: usize = 80;

/// Builds the graphs of two halves, merges them, and builds the whole anew.
pub(crate) fn halves(data: &Data, options: &BuildOptions, efs: &[usize]) -> Result<(), Failure> {
    let half = (data.points() / 2) as u32;
    let ranges = [0..half, half..data.points() as u32];
    let mut parts: Vec<(Sealed, Vec<u32>)> = Vec::new();
    for range in ranges {
        let points: Vec<u32> = range.collect();
        let sealed = seal(&built(&CodeSpace::of(&data.rows(&points), data.dimension), options)?);
        let to_new = sealed.points.iter().map(|&point| points[point as usize]).collect();
        parts.push((sealed, to_new));
    }
    let codes = CodeSpace::of(&data.base, data.dimension);
    let old: Vec<OldGraph<'_>> = parts.iter().map(|(sealed, to_new)| OldGraph { sealed, to_new }).collect();
    let watch = Watch::start();
    let merged = merge(&codes, &old, options, &AtomicBool::new(false), |_| {}).ok_or("stopped")?;
    let (wall, processors) = (watch.wall(), watch.processors());
    println!("two halves of {half} points: merged in {watch}");
    let watch = Watch::start();
    let fresh = built(&codes, options)?;
    println!("built anew in {watch}: {:.2} times as long, {:.2} times the CPU", watch.wall() / wall, watch.processors() / processors);
    compare(data, &codes, [("merged", &merged), ("anew", &fresh)], efs);
    Ok(())
}

/// Replaces 2 % of the points in each round and merges; at the end, builds the graph of the same points anew.
pub(crate) fn churn(data: &Data, options: &BuildOptions, efs: &[usize], rounds: usize) -> Result<(), Failure> {
    let mut draw = Draw(1);
    let mut out: Vec<u32> = (0..data.points() as u32).collect();
    let count = data.points() * POPULATION_PERCENT / 100;
    let mut inside: Vec<u32> = (0..count).map(|_| out.swap_remove(draw.below(out.len()))).collect();
    let watch = Watch::start();
    let mut graph = built(&CodeSpace::of(&data.rows(&inside), data.dimension), options)?;
    println!("{count} points: built in {watch}");
    let (mut walls, mut processors) = (0.0, 0.0);
    for round in 1..=rounds {
        let sealed = seal(&graph);
        let (next, to_new) = exchange(&mut draw, &inside, &mut out);
        let to_new: Vec<u32> = sealed.points.iter().map(|&point| to_new[point as usize]).collect();
        inside = next;
        let codes = CodeSpace::of(&data.rows(&inside), data.dimension);
        let watch = Watch::start();
        let old = [OldGraph { sealed: &sealed, to_new: &to_new }];
        graph = merge(&codes, &old, options, &AtomicBool::new(false), |_| {}).ok_or("stopped")?;
        (walls, processors) = (walls + watch.wall(), processors + watch.processors());
        if round % 10 == 0 || round == rounds {
            println!("after {round} rounds: {:.2} s ({:.2} CPU s) a merge", walls / round as f64, processors / round as f64);
            let now = data.subset(&inside);
            let watch = Watch::start();
            let fresh = built(&codes, options)?;
            println!("built anew in {watch}");
            compare(&now, &codes, [("churned", &graph), ("anew", &fresh)], efs);
        }
    }
    Ok(())
}

/// Some points leave and others come: the points after it, and by point where it went.
fn exchange(draw: &mut Draw, inside: &[u32], out: &mut Vec<u32>) -> (Vec<u32>, Vec<u32>) {
    let count = inside.len() * CHURN_PERCENT / 100;
    let mut leaves = vec![false; inside.len()];
    let mut left = Vec::new();
    while left.len() < count {
        let point = draw.below(inside.len());
        if !std::mem::replace(&mut leaves[point], true) {
            left.push(inside[point]);
        }
    }
    let (mut next, mut to_new) = (Vec::new(), vec![NONE; inside.len()]);
    for (point, row) in inside.iter().enumerate().filter(|(point, _)| !leaves[*point]) {
        to_new[point] = next.len() as u32;
        next.push(*row);
    }
    next.extend((0..count).map(|_| out.swap_remove(draw.below(out.len()))));
    out.extend(left);
    (next, to_new)
}

fn built(codes: &CodeSpace, options: &BuildOptions) -> Result<Graph, Failure> {
    Ok(build(codes, options, &AtomicBool::new(false), |_| {}).ok_or("stopped")?)
}

fn compare(data: &Data, codes: &CodeSpace, graphs: [(&str, &Graph); 2], efs: &[usize]) {
    for &ef in efs {
        for (name, graph) in graphs {
            let found = measure(data, 3, |query, found| query.by_codes(codes, graph, ef, found));
            println!("  ef {ef:4}  {name:8}  {found}");
        }
    }
    for (name, graph) in graphs {
        let sealed = seal(graph);
        let degrees: Vec<usize> = (0..sealed.points.len() as u32).map(|node| sealed.links(0, node).count()).collect();
        let few = degrees.iter().filter(|&&degree| degree < graph.m).count();
        let mean = degrees.iter().sum::<usize>() as f64 / degrees.len() as f64;
        println!(
            "  {name}: {mean:.2} links a point on level 0, {:.1} % of the points have fewer than {}",
            few as f64 * 100.0 / degrees.len() as f64,
            graph.m
        );
    }
}

/// Numbers that look random, the same at every run (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}

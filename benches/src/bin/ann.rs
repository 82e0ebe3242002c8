//! Recall against queries a second of the vector graph, bare: built in memory, one query at a time, one thread.
//!
//! `cargo run --release -p triune-benches --bin ann -- --data FOLDER [--m 16] [--efc 200] [--threads 2]`: FOLDER holds `base.npy`,
//! `queries.npy` and `truth.npy`, vectors of length 1.

#![allow(clippy::print_stdout, reason = "a measuring program prints what it measured")]

use clap::Parser;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use triune::vector::hnsw::build::{BuildOptions, build};
use triune::vector::hnsw::codes::CodeSpace;
use triune::vector::hnsw::floats::FloatSpace;
use triune::vector::hnsw::graph::Graph;
use triune::vector::hnsw::search::Scratch;
use triune_benches::Failure;

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    data: PathBuf,
    #[arg(long, default_value_t = 16)]
    m: usize,
    #[arg(long, default_value_t = 200)]
    efc: usize,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    #[arg(long)]
    floats: bool,
    #[arg(long, value_delimiter = ',', default_value = "16,24,32,48,64,96,128,192,256,384,512")]
    efs: Vec<usize>,
}

/// The rows of a .npy file of four-byte numbers, and how long they are.
fn npy<T>(path: &Path, number: impl Fn([u8; 4]) -> T) -> Result<(Vec<T>, usize), Failure> {
    let bytes = std::fs::read(path)?;
    let header_bytes = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8_lossy(&bytes[10..header_bytes]).into_owned();
    let shape = header.split("'shape': (").nth(1).and_then(|s| s.split(')').next()).ok_or("no shape")?;
    let width = shape.split(',').nth(1).and_then(|s| s.trim().parse().ok()).ok_or("no second dimension")?;
    Ok((bytes[header_bytes..].as_chunks::<4>().0.iter().map(|b| number(*b)).collect(), width))
}

fn main() -> Result<(), Failure> {
    let a = Arguments::parse();
    let (base, dimension) = npy(&a.data.join("base.npy"), f32::from_le_bytes)?;
    let (queries, _) = npy(&a.data.join("queries.npy"), f32::from_le_bytes)?;
    let (truth, truth_width) = npy(&a.data.join("truth.npy"), i32::from_le_bytes)?;
    let queries: Vec<&[f32]> = queries.chunks_exact(dimension).collect();
    let truth: Vec<&[i32]> = truth.chunks_exact(truth_width).map(|t| &t[..10]).collect();
    let floats = FloatSpace::new(&base, dimension);
    let begun = Instant::now();
    let options = BuildOptions { m: a.m, ef_construction: a.efc, threads: a.threads };
    let stop = AtomicBool::new(false);
    let codes = (!a.floats).then(|| CodeSpace::of(&base, dimension));
    let graph = match &codes {
        Some(codes) => build(codes, &options, &stop, |_| {}),
        None => build(&floats, &options, &stop, |_| {}),
    };
    let graph = graph.ok_or("stopped")?;
    println!("{} points of {dimension}: built in {:.2} s by {} threads", base.len() / dimension, begun.elapsed().as_secs_f64(), a.threads);
    for ef in &a.efs {
        measure(&base, dimension, codes.as_ref(), &floats, &graph, *ef, &queries, &truth);
    }
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "a measuring program's one loop")]
fn measure(
    base: &[f32],
    dimension: usize,
    codes: Option<&CodeSpace>,
    floats: &FloatSpace<'_>,
    graph: &Graph,
    ef: usize,
    queries: &[&[f32]],
    truth: &[&[i32]],
) {
    let mut scratch = Scratch::default();
    let (mut best, mut hits) = (f64::INFINITY, 0);
    let mut query = Default::default();
    let mut rescored: Vec<(f64, u32)> = Vec::new();
    let mut times = Vec::new();
    for _ in 0..5 {
        hits = 0;
        scratch.compared = 0;
        let begun = Instant::now();
        for (q, truth) in queries.iter().zip(truth) {
            rescored.clear();
            match codes {
                Some(codes) => {
                    codes.query(q, &mut query);
                    let found = scratch.search(codes, &query, graph, ef).take(20);
                    rescored.extend(found.map(|(_, p)| (-triune::vector::kernel::dot(q, &base[p as usize * dimension..][..dimension]), p)));
                    rescored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
                }
                None => rescored.extend(scratch.search(floats, &q.to_vec(), graph, ef).take(10).map(|(d, p)| (f64::from(d), p))),
            }
            hits += rescored.iter().take(10).filter(|(_, p)| truth.contains(&(*p as i32))).count();
        }
        times.push(begun.elapsed().as_secs_f64());
        best = best.min(begun.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let n = queries.len() as f64;
    println!(
        "ef {ef:4}  recall {:.4}  QPS {:.0} (best {:.0})  compared {:.0}",
        hits as f64 / (10.0 * n),
        n / times[2],
        n / best,
        scratch.compared as f64 / n
    );
}

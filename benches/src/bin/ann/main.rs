//! The vector graph, bare and in memory: how fast it is built, recall against queries a second (one query at a time, one thread), and what
//! merging keeps of both.
//!
//! `cargo run --release -p triune-benches --bin ann -- --data FOLDER [--m 16] [--efc 200] [--threads 2]`: FOLDER holds `base.npy`,
//! `queries.npy` and `truth.npy`, vectors of length 1. With `--halves` the graphs of two halves are merged, and with `--churn ROUNDS` a graph
//! loses and gains 2 % of its points in each round; both are compared with a graph built anew.

#![allow(clippy::print_stdout, reason = "a measuring program prints what it measured")]

mod data;
mod measure;
mod merges;

use clap::Parser;
use data::Data;
use measure::{Watch, measure, renumbered};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use triune::vector::hnsw::build::{BuildOptions, build};
use triune::vector::hnsw::codes::CodeSpace;
use triune::vector::hnsw::floats::FloatSpace;
use triune::vector::hnsw::seal::seal;
use triune_benches::Failure;

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    data: PathBuf,
    /// Take only so many of the vectors; the true neighbours are computed then.
    #[arg(long)]
    points: Option<usize>,
    #[arg(long, default_value_t = 16)]
    m: usize,
    #[arg(long, default_value_t = 200)]
    efc: usize,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Build over the components, not over codes, and walk over them alone.
    #[arg(long)]
    floats: bool,
    /// Measure when asked to: each line of standard input is an ef, and is answered by the figures. For runs in turn with another program.
    #[arg(long)]
    asked: bool,
    /// Compare the orders of nodes: as built, by level, and as sealed.
    #[arg(long)]
    orders: bool,
    /// Merge the graphs of two halves.
    #[arg(long)]
    halves: bool,
    /// Rounds of losing and gaining 2 % of the points.
    #[arg(long)]
    churn: Option<usize>,
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    #[arg(long, value_delimiter = ',', default_value = "16,24,32,48,64,96,128,192,256,384,512")]
    efs: Vec<usize>,
}

fn main() -> Result<(), Failure> {
    let a = Arguments::parse();
    let data = Data::read(&a.data, a.points)?;
    let options = BuildOptions { m: a.m, ef_construction: a.efc, threads: a.threads };
    if a.halves {
        return merges::halves(&data, &options, &a.efs);
    }
    if let Some(rounds) = a.churn {
        return merges::churn(&data, &options, &a.efs, rounds);
    }
    let floats = FloatSpace::new(&data.base, data.dimension);
    let stop = AtomicBool::new(false);
    let watch = Watch::start();
    let codes = (!a.floats).then(|| CodeSpace::of(&data.base, data.dimension));
    let graph = match &codes {
        Some(codes) => build(codes, &options, &stop, |_| {}),
        None => build(&floats, &options, &stop, |_| {}),
    };
    let graph = graph.ok_or("stopped")?;
    println!("{} points of {}: built in {watch} by {} threads", data.points(), data.dimension, a.threads);
    if a.orders {
        return orders(&data, &graph, &a);
    }
    let report = |ef: usize| {
        if let Some(codes) = &codes {
            println!("ef {ef:4}  codes   {}", measure(&data, a.repeats, |query, found| query.by_codes(codes, &graph, ef, found)));
        }
        println!("ef {ef:4}  floats  {}", measure(&data, a.repeats, |query, found| query.by_floats(&floats, &graph, ef, found)));
    };
    if a.asked {
        for line in std::io::stdin().lines() {
            report(line?.trim().parse()?);
        }
        return Ok(());
    }
    a.efs.iter().for_each(|&ef| report(ef));
    Ok(())
}

/// The same graph with its points in different orders, measured in turn.
fn orders(data: &Data, graph: &triune::vector::hnsw::graph::Graph, a: &Arguments) -> Result<(), Failure> {
    let sealed = seal(graph);
    let mut plain: Vec<u32> = (0..data.points() as u32).collect();
    plain.sort_by_key(|&point| std::cmp::Reverse(graph.levels[point as usize]));
    let graphs = [("by level", renumbered(&sealed, &plain)), ("sealed", sealed)];
    let rows = [0, 1].map(|i| data.rows(&graphs[i].1.points));
    let codes = [0, 1].map(|i| (!a.floats).then(|| CodeSpace::of(&rows[i], data.dimension)));
    let sets = [0, 1].map(|i| data.renumbered(&graphs[i].1.points));
    for &ef in &a.efs {
        for (i, (name, links)) in graphs.iter().enumerate() {
            let found = match &codes[i] {
                Some(codes) => measure(&sets[i], a.repeats, |query, found| query.by_codes(codes, links, ef, found)),
                None => {
                    let floats = FloatSpace::new(&rows[i], data.dimension);
                    measure(&sets[i], a.repeats, |query, found| query.by_floats(&floats, links, ef, found))
                }
            };
            println!("ef {ef:4}  {name:8}  {found}");
        }
    }
    Ok(())
}

//! Vector search through the public API of a database, beside its peers, taking turns in one run: one query at a time, on one thread.
//!
//! `cargo run --release -p triune-benches --bin vectors -- --data FOLDER [--python PYTHON --peers benches/peers/ann.py]`: FOLDER holds
//! `base.npy`, `queries.npy` and `truth.npy`, vectors of length 1. What is printed: how long building took; queries a second at a recall@10 of .95
//! and .99, interpolated between the widths on both sides of it, medians of the rounds, and their ratio to each peer's best; the same with
//! the segments that loading leaves, with a tenth deleted, with the graph bare in memory, over codes and over vectors; filters of every share, beside the scan of what
//! they admit; bytes. `--keep` keeps databases and the peers' indexes for the next run.

#![allow(clippy::print_stdout, reason = "a measuring program prints what it measured")]

mod bare;
mod building;
mod curve;
mod filters;
mod million;
mod ours;
mod peers;
mod pressure;

use clap::Parser;
use curve::{Curve, Side};
use ours::Ours;
use peers::Peer;
use std::path::{Path, PathBuf};
use triune_benches::Failure;
use triune_benches::neighbours::Neighbours;

#[derive(Parser)]
struct Arguments {
    /// Folder with base.npy, queries.npy and truth.npy.
    #[arg(long)]
    data: PathBuf,
    /// Python with the peers installed.
    #[arg(long)]
    python: Option<PathBuf>,
    /// The peers' program, benches/peers/ann.py.
    #[arg(long, default_value = "benches/peers/ann.py")]
    peers: PathBuf,
    #[arg(long, value_delimiter = ',', default_value = "hnswlib,faiss,usearch")]
    engines: Vec<String>,
    /// Links of a vector, on both sides.
    #[arg(long, value_delimiter = ',', default_value = "16,32")]
    ms: Vec<u16>,
    #[arg(long, default_value_t = 200)]
    efc: u32,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where databases and indexes stay.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Used by the program itself: open this database, ask once, say when.
    #[arg(long, hide = true)]
    once: Option<PathBuf>,
    /// Used by the program itself: what to do with the database of `--once` in the group of `--cgroup`.
    #[arg(long, hide = true)]
    pressed: Option<String>,
    /// A folder of the memory controller in which groups may be made, for `pressure`.
    #[arg(long, default_value = "/sys/fs/cgroup/memory")]
    cgroup: PathBuf,
    /// What is measured: `peers`, `load`, `dead`, `bare`, `floats`, `pinned`, `filters`, `building`, `million`, `pressure`.
    #[arg(long, value_delimiter = ',', default_value = "peers,load,dead,bare,pinned,filters")]
    parts: Vec<String>,
}

impl Arguments {
    fn wants(&self, part: &str) -> bool {
        self.parts.iter().any(|p| p == part)
    }
}

fn main() -> Result<(), Failure> {
    let a = Arguments::parse();
    match (&a.once, &a.pressed) {
        (Some(path), Some(how)) => return pressure::pressed(how, &a.cgroup, &a.data, path),
        (Some(path), None) => return million::once(path),
        (None, _) => {}
    }
    let data = Neighbours::read(&a.data)?;
    let scratch = tempfile::tempdir()?;
    let folder = a.keep.clone().unwrap_or_else(|| scratch.path().to_path_buf());
    std::fs::create_dir_all(&folder)?;
    println!("{} vectors of {} components, {} queries", data.points(), data.dimension, data.queries.len());
    let wants = |part: &str| a.wants(part);
    if ["peers", "load", "dead", "bare", "floats", "pinned"].into_iter().any(wants) {
        curves(&a, &data, &folder)?;
    }
    if wants("filters") {
        filters::measure(&data, &folder.join("filters.triune"))?;
    }
    if let Some(python) = a.python.as_ref().filter(|_| wants("building")) {
        for &m in &a.ms {
            let peer = || Peer::start(python, &a.peers, &a.data, "hnswlib", m, a.efc, None);
            building::measure(&data, scratch.path(), (m, a.efc), a.rounds, &peer)?;
        }
    }
    if wants("million") {
        million::measure(&data, &folder.join("million.triune"))?;
    }
    if wants("pressure") {
        let path = folder.join("m16.triune");
        drop(ours::Ours::compacted(&data, &path, 16, a.efc)?);
        pressure::measure(&a.cgroup, &a.data, &path, a.rounds)?;
    }
    Ok(())
}

/// Recall against queries a second, of all that was asked for.
fn curves(a: &Arguments, data: &Neighbours, folder: &Path) -> Result<(), Failure> {
    let mut sides: Vec<Box<dyn Side + '_>> = Vec::new();
    for &m in &a.ms {
        let path = folder.join(format!("m{m}.triune"));
        if a.wants("load") {
            sides.push(Box::new(Ours::loaded(data, &folder.join(format!("m{m}-loaded.triune")), m, a.efc)?));
            sides.push(Box::new(Ours::settled(data, &folder.join(format!("m{m}-settled.triune")), m, a.efc)?));
        }
        sides.push(Box::new(Ours::compacted(data, &path, m, a.efc)?));
        if a.wants("pinned") {
            sides.push(Box::new(Ours::pinned(data, &path, m)?));
        }
        if a.wants("dead") {
            sides.push(Box::new(Ours::with_dead(data, &path, m)?));
        }
    }
    if a.wants("bare") {
        for &m in &a.ms {
            sides.push(Box::new(bare::Bare::of_codes(data, usize::from(m), a.efc as usize)));
        }
    }
    if a.wants("floats") {
        for &m in &a.ms {
            sides.push(Box::new(bare::Bare::of_floats(data, usize::from(m), a.efc as usize)));
        }
    }
    if let Some(python) = a.python.as_ref().filter(|_| a.wants("peers")) {
        for engine in &a.engines {
            for &m in &a.ms {
                let keep = a.keep.as_ref().map(|keep| keep.join(format!("{engine}-m{m}.index")));
                sides.push(Box::new(Peer::start(python, &a.peers, &a.data, engine, m, a.efc, keep.as_deref())?));
            }
        }
    }
    let curves = curve::measure(&mut sides, a.rounds)?;
    Curve::print(&curves);
    Ok(())
}

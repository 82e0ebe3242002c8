//! How long building takes: a database that is whole, synced and measured, beside a peer's index in memory.

use crate::curve::Side;
use crate::ours::{self, Ours};
use crate::peers::Peer;
use std::path::Path;
use std::time::Instant;
use triune::{Builder, Document, Hnsw, Schema};
use triune_benches::neighbours::Neighbours;
use triune_benches::{Failure, Timings};

/// The width at which both are asked how much they find.
const WIDTH: usize = 64;

/// Builds both in turns, `rounds` times, and prints the medians. `peer` starts a peer that builds anew.
pub(crate) fn measure(
    data: &Neighbours,
    folder: &Path,
    (m, efc): (u16, u32),
    rounds: usize,
    peer: &dyn Fn() -> Result<Peer, Failure>,
) -> Result<(), Failure> {
    let (mut ours, mut theirs) = (Timings::default(), Timings::default());
    let (mut found, mut peer_found, mut name) = (0.0, 0.0, String::new());
    for _ in 0..rounds {
        let path = folder.join(format!("m{m}-built.triune"));
        let _ = std::fs::remove_dir_all(&path);
        let begun = Instant::now();
        build(data, &path, m, efc)?;
        ours.push(begun.elapsed());
        found = Ours::built(data, &path, m)?.pass(WIDTH)?.0;
        let mut peer = peer()?;
        theirs.push(peer.built());
        name = peer.name();
        peer_found = peer.pass(WIDTH)?.0;
    }
    println!(
        "building M{m}: {:.2}x the time of {name}, recall at {WIDTH} {found:.4} to {peer_found:.4}",
        ours.median_ms() / theirs.median_ms()
    );
    println!("    Builder, to a synced database that measured its recall: {}", ours.summary());
    println!("    {name}, its index in memory: {}", theirs.summary());
    Ok(())
}

fn build(data: &Neighbours, path: &Path, m: u16, efc: u32) -> Result<(), Failure> {
    let mut builder = Builder::create(path, ours::quiet())?;
    let hnsw = Hnsw { m, ef_construction: efc, ..Hnsw::default() };
    builder.collection("main", Schema { dimension: Some(data.dimension as u32), hnsw, ..Schema::default() })?;
    for i in 0..data.points() {
        builder.push(Document::new(i.to_string()).vector(data.row(i)))?;
    }
    builder.finish()?;
    Ok(())
}

//! A database in half the memory that its files take: how long answers take, the slowest of them too, and how long a merge does.
//!
//! Each measurement is a process of its own in a group of the system's memory controller; `--cgroup` names a folder of that controller in which
//! groups may be made. The system's cache is dropped before each, since a group pays for what it is first to read.

use crate::ours::{quiet, triune_directory};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use triune::{Database, Document, Effort, IoMode, Options};
use triune_benches::neighbours::{K, Neighbours};
use triune_benches::{Failure, Timings, folder_bytes};

/// Candidates of a search, where the recall is about .98.
const EF: usize = 48;
/// How often all queries are asked before times are taken.
const FIRST: usize = 1;
const PASSES: usize = 3;

/// Asks the database, mapped and pinned, and merges a copy of it, with all memory and with half of what its files take.
pub(crate) fn measure(cgroup: &Path, data: &Path, path: &Path, rounds: usize) -> Result<(), Failure> {
    let bytes = folder_bytes(path)?;
    let copies = tempfile::tempdir()?;
    for round in 0..rounds {
        for limit in [None, Some(bytes / 2)] {
            for how in ["mapped", "pinned", "merge"] {
                let copy = copies.path().join(format!("{how}{round}{}", limit.is_some()));
                copied(path, &copy)?;
                let said = in_group(cgroup, limit, data, &copy, how);
                let memory = limit
                    .map_or("all memory".to_string(), |limit| format!("{:.0} MB for {:.0} MB", limit as f64 / 1e6, bytes as f64 / 1e6));
                println!("{how}, {memory}: {}", said.unwrap_or_else(|failure| failure.to_string()));
                std::fs::remove_dir_all(&copy)?;
            }
        }
    }
    Ok(())
}

fn copied(path: &Path, copy: &Path) -> Result<(), Failure> {
    std::fs::create_dir(copy)?;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        std::fs::copy(entry.path(), copy.join(entry.file_name()))?;
    }
    Ok(())
}

/// Runs this program in a group that may use `limit` bytes, and returns what it printed.
fn in_group(cgroup: &Path, limit: Option<u64>, data: &Path, path: &Path, how: &str) -> Result<String, Failure> {
    Command::new("sync").status()?;
    std::fs::write("/proc/sys/vm/drop_caches", "3")?;
    let group = cgroup.join(format!("triune-{}", std::process::id()));
    std::fs::create_dir(&group)?;
    let limits = ["memory.max", "memory.limit_in_bytes"].map(|name| group.join(name));
    let file = limits.iter().find(|file| file.exists()).ok_or("no memory controller")?;
    if let Some(limit) = limit {
        std::fs::write(file, limit.to_string())?;
    }
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.arg("--pressed").arg(how).arg("--cgroup").arg(&group).arg("--once").arg(path).arg("--data").arg(data).output()?;
    std::fs::remove_dir(&group)?;
    if !output.status.success() {
        return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// What such a process does: joins the group, and asks or merges.
pub(crate) fn pressed(how: &str, group: &Path, data: &Path, path: &Path) -> Result<(), Failure> {
    std::fs::write(group.join("cgroup.procs"), std::process::id().to_string())?;
    let data = Neighbours::questions(data)?;
    match how {
        "mapped" => asked(&data, path, IoMode::Mmap),
        "pinned" => asked(&data, path, IoMode::Pinned),
        _ => merged(&data, path),
    }
}

fn asked(data: &Neighbours, path: &Path, io_mode: IoMode) -> Result<(), Failure> {
    let begun = Instant::now();
    let db = Database::open_read_only_with(triune_directory(path)?, Options { io_mode, ..Options::default() })?;
    let collection = db.snapshot().collection("main")?;
    let (mut found, mut timings) = (0, Timings::default());
    for pass in 0..FIRST + PASSES {
        for (query, truth) in data.queries.iter().zip(&data.truth) {
            let begun = Instant::now();
            let hits = collection.nearest_with(query, None, K, Effort::Ef(EF))?;
            if pass >= FIRST {
                timings.push(begun.elapsed());
            }
            for hit in &hits {
                found += usize::from(truth.contains(&collection.id_of(hit)?.parse()?));
            }
        }
    }
    let recall = found as f64 / ((FIRST + PASSES) * data.queries.len() * K) as f64;
    let [half, most, slowest] = [0.5, 0.99, 1.0].map(|share| timings.quantile_ms(share));
    let seconds = begun.elapsed().as_secs_f64();
    println!("median {half:.3} ms, 99th percentile {most:.3} ms, slowest {slowest:.3} ms, recall {recall:.4}, {seconds:.1} s in all");
    Ok(())
}

/// One in fifty leaves, about one in a hundred comes: a merge that keeps the graph.
fn merged(data: &Neighbours, path: &Path) -> Result<(), Failure> {
    let db = Database::open_with(triune_directory(path)?, quiet())?;
    let documents = db.snapshot().collection("main")?.stats()?.documents as usize;
    db.delete("main", (0..documents).step_by(50).map(|i| i.to_string()).collect::<Vec<_>>())?;
    let new = data.queries.iter().enumerate().map(|(i, query)| Document::new(format!("new {i}")).vector(query.clone()));
    db.put("main", new.collect::<Vec<_>>())?;
    db.checkpoint()?;
    let begun = Instant::now();
    db.compact()?;
    println!("merged in {:.2} s", begun.elapsed().as_secs_f64());
    Ok(())
}

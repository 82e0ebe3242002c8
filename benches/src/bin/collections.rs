//! What many small collections cost: creating them, opening, the first answer, file descriptors.
//!
//! `cargo run --release -p triune-benches --bin collections [-- --collections 10000 --documents 10]`. Each state is opened by a fresh handle,
//! several times; the files are in the page cache. File descriptors are those of the process, counted where the system lists them.

#![allow(clippy::print_stdout, reason = "a measuring program prints what it measured")]

use clap::Parser;
use std::path::Path;
use std::time::{Duration, Instant};
use triune::{Database, Document, Metadata, Schema, Search, WriteBatch};
use triune_benches::{Failure, Timings};

#[derive(Parser)]
struct Arguments {
    /// Collections.
    #[arg(long, default_value_t = 10_000)]
    collections: usize,
    /// Documents of each.
    #[arg(long, default_value_t = 10)]
    documents: usize,
    /// Collections that one commit creates.
    #[arg(long, default_value_t = 100)]
    batch: usize,
    /// How often each state is opened.
    #[arg(long, default_value_t = 5)]
    opens: usize,
    /// Leaves out compacting.
    #[arg(long)]
    skip_compact: bool,
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("db");
    println!("{} collections of {} documents, {} a commit", arguments.collections, arguments.documents, arguments.batch);
    let db = Database::create(&path)?;
    create(&db, &arguments)?;
    drop(db);
    measure("after a kill (the log is replayed, then checkpointed)", &path, &arguments, 1)?;
    measure("after a clean close", &path, &arguments, arguments.opens)?;
    let db = Database::open(&path)?;
    bury(&db, &arguments)?;
    timed("closing", || Ok(db.close()?))?;
    measure("with a dead document in every collection", &path, &arguments, arguments.opens)?;
    if arguments.skip_compact {
        return Ok(());
    }
    let db = Database::open(&path)?;
    touch(&db)?;
    timed("compacting", || Ok(db.compact()?))?;
    timed("closing", || Ok(db.close()?))?;
    measure("after compacting", &path, &arguments, arguments.opens)
}

fn name(collection: usize) -> String {
    format!("collection-{collection:06}")
}

fn documents(collection: usize, count: usize) -> Result<Vec<Document>, Failure> {
    (0..count)
        .map(|i| {
            let text = format!("note {i} of collection {collection}: a small domestic animal, number {}", collection * 31 + i);
            let metadata = Metadata::from_json(format!(r#"{{"file_hash":"f{}","chunk_index":{i}}}"#, i / 5))?;
            Ok(Document::new(format!("d{i}")).text(text).vector(vec![i as f32, 1.0, collection as f32, 0.5]).metadata(metadata))
        })
        .collect()
}

/// Creates and fills the collections, and prints each tenth's time: none may take longer for what is there already.
fn create(db: &Database, arguments: &Arguments) -> Result<(), Failure> {
    let all: Vec<usize> = (0..arguments.collections).collect();
    let start = Instant::now();
    let mut tenths = Vec::new();
    for tenth in all.chunks(arguments.collections.div_ceil(10)) {
        let from = Instant::now();
        for group in tenth.chunks(arguments.batch) {
            let mut batch = WriteBatch::new();
            for &c in group {
                batch.create_collection(name(c), Schema::default()).put(name(c), documents(c, arguments.documents)?);
            }
            db.commit(batch)?;
        }
        tenths.push(format!("{:.0}", from.elapsed().as_secs_f64() * 1e3));
    }
    println!("creating: {:.0} ms; by tenths {}", start.elapsed().as_secs_f64() * 1e3, tenths.join(" "));
    Ok(())
}

/// Deletes a document of every collection, in one commit for many, and brings the deaths into tombstones.
fn bury(db: &Database, arguments: &Arguments) -> Result<(), Failure> {
    timed("deleting one document of each", || {
        for group in (0..arguments.collections).collect::<Vec<_>>().chunks(arguments.batch) {
            let mut batch = WriteBatch::new();
            for &c in group {
                batch.delete(name(c), vec!["d3".into()]);
            }
            db.commit(batch)?;
        }
        Ok(())
    })?;
    timed("checkpoint", || Ok(db.checkpoint()?))
}

/// A commit, so that closing has something to do.
fn touch(db: &Database) -> Result<(), Failure> {
    db.put(&name(0), documents(0, 1)?)?;
    Ok(())
}

/// Opens, searches the middle collection, counts descriptors.
fn measure(state: &str, path: &Path, arguments: &Arguments, opens: usize) -> Result<(), Failure> {
    let [mut open, mut on_core, mut answer, mut both, mut reading] = std::array::from_fn(|_| Timings::default());
    let mut descriptors = 0;
    for _ in 0..opens {
        let before = open_descriptors();
        let (start, core) = (Instant::now(), on_core_so_far());
        let db = open.time(|| Database::open(path))?;
        on_core.push(on_core_so_far().saturating_sub(core));
        answer.time(|| first_answer(&db, arguments))?;
        both.push(start.elapsed());
        descriptors = open_descriptors() - before;
        drop(db);
        let db = reading.time(|| Database::open_read_only(path))?;
        drop(db);
    }
    println!("{state}:");
    println!("  open                {}", open.summary());
    println!("  of it on a core     {}", on_core.summary());
    println!("  the first answer    {}", answer.summary());
    println!("  both                {}", both.summary());
    println!("  open for reading    {}", reading.summary());
    println!("  descriptors open    {descriptors}; bytes on disk {}", triune_benches::folder_bytes(path)?);
    Ok(())
}

fn timed(what: &str, act: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let start = Instant::now();
    act()?;
    println!("{what}: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

fn first_answer(db: &Database, arguments: &Arguments) -> Result<(), Failure> {
    let collection = db.snapshot().collection(&name(arguments.collections / 2))?;
    let search = Search { query: Some("domestic animal".into()), vector: Some(vec![1.0, 0.0, 0.0, 0.0]), k: 3, ..Search::default() };
    match collection.search(&search)?.hits.len() {
        3 => Ok(()),
        n => Err(format!("{n} hits, not 3").into()),
    }
}

/// How long this thread has run, which a busy machine does not change; nothing where the system does not say.
fn on_core_so_far() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(times.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count())
}

//! What the store costs, in one run: durable commits as the corpus grows, deletes, reopening; and beside it the peers, file by file.
//!
//! `cargo run --release -p triune-benches --bin store -- --data FOLDER [--python PYTHON --peers store_peers.py]`: FOLDER holds `docs.jsonl`
//! and `vectors.npy` (the WordNet glosses with 384 components each). The two sides of a ratio take turns, call by call.

#![allow(clippy::print_stdout, reason = "a measuring program prints what it measured")]

use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::Command;
use triune::{Database, Document, Durability, Metadata, Options, Schema, Search, WriteBatch};
use triune_benches::{Corpus, Failure, Timings, folder_bytes};

/// Documents of one file, as an application ingests it.
const CHUNKS: usize = 40;

#[derive(Parser)]
struct Arguments {
    /// Folder with docs.jsonl and vectors.npy.
    #[arg(long)]
    data: PathBuf,
    /// Files of the ingest beside the peers.
    #[arg(long, default_value_t = 200)]
    files: usize,
    /// Python with the peers installed.
    #[arg(long)]
    python: Option<PathBuf>,
    /// The peers' program, store_peers.py.
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Which peers.
    #[arg(long, default_value = "pickles,chroma,lancedb")]
    engines: String,
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let corpus = Corpus::read(&arguments.data)?;
    let folder = tempfile::tempdir()?;
    println!("{} documents, {} components", corpus.texts.len(), corpus.dimension);
    commits(&corpus, folder.path())?;
    deletes_and_reopening(&corpus, folder.path())?;
    after_a_kill(&corpus, folder.path())?;
    ingest(&corpus, folder.path(), arguments.files)?;
    if let (Some(python), Some(peers)) = (&arguments.python, &arguments.peers) {
        let status = Command::new(python)
            .arg(peers)
            .args(["--engines", &arguments.engines, "--gentle", "--files", &arguments.files.to_string(), "--chunks", &CHUNKS.to_string()])
            .status()?;
        println!("peers ended with {status}");
        ingest(&corpus, folder.path(), arguments.files)?;
    }
    Ok(())
}

/// The chunks of file `file`.
fn file(corpus: &Corpus, name: &str, file: usize) -> Result<Vec<Document>, Failure> {
    (0..CHUNKS)
        .map(|i| {
            let row = (file * CHUNKS + i) % corpus.texts.len();
            let metadata = format!(r#"{{"file_hash":"{name}{file}","chunk_index":{i},"file_name":"f{file}.txt"}}"#);
            Ok(Document::new(format!("{name}{file}_{i}"))
                .text(corpus.texts[row].clone())
                .vector(corpus.vector(row))
                .metadata(Metadata::from_json(metadata)?))
        })
        .collect()
}

/// A database with this many documents, filled in large commits and compacted: in one segment, with a graph if there are vectors enough.
fn filled(corpus: &Corpus, path: &Path, documents: usize) -> Result<Database, Failure> {
    let _ = std::fs::remove_dir_all(path);
    let db = Database::create(path)?;
    db.create_collection("main", Schema::default())?;
    for group in (0..documents / CHUNKS).collect::<Vec<_>>().chunks(25) {
        let mut batch = WriteBatch::new();
        for &f in group {
            batch.put("main", file(corpus, "base", f)?);
        }
        db.commit(batch)?;
    }
    db.compact()?;
    db.close()?;
    Ok(Database::open(path)?)
}

/// A 40-document durable commit at 1,000 and at 100,000 documents, in turns.
fn commits(corpus: &Corpus, folder: &Path) -> Result<(), Failure> {
    let small = filled(corpus, &folder.join("small"), 1_000)?;
    let large = filled(corpus, &folder.join("large"), 100_000)?;
    let (mut at_small, mut at_large) = (Timings::default(), Timings::default());
    for round in 0..205 {
        let sides: [(&Database, &mut Timings); 2] = [(&small, &mut at_small), (&large, &mut at_large)];
        for (db, timings) in sides {
            let documents = file(corpus, "new", round)?;
            let mut warm_up = Timings::default();
            if round < 5 { &mut warm_up } else { timings }.time(|| db.put("main", documents))?;
            // Taken out again, unmeasured, so that the sizes stay what they are called.
            db.delete_source("main", &format!("new{round}"))?;
        }
    }
    println!("40-document durable commit at 1,000 documents:   {}", at_small.summary());
    println!("40-document durable commit at 100,000 documents: {}", at_large.summary());
    println!("ratio of the medians: {:.3}", at_large.median_ms() / at_small.median_ms());
    small.close()?;
    large.close()?;
    Ok(())
}

/// Deleting a source, and opening after a clean close, at 100,000 documents.
fn deletes_and_reopening(corpus: &Corpus, folder: &Path) -> Result<(), Failure> {
    let path = folder.join("large");
    let db = Database::open(&path)?;
    let mut deletes = Timings::default();
    for f in 0..50 {
        let deleted = deletes.time(|| db.delete_source("main", &format!("base{}", f * 37)))?;
        assert_eq!(deleted as usize, CHUNKS, "every file has its chunks");
    }
    println!("delete_source of 40 documents at 100,000:       {}", deletes.summary());
    db.close()?;
    let (mut opens, mut answers) = (Timings::default(), Timings::default());
    for _ in 0..20 {
        let db = opens.time(|| Database::open(&path))?;
        answers.time(|| first_answer(&db, corpus))?;
        db.close()?;
    }
    println!("open at 100,000 after a clean close:             {}", opens.summary());
    println!("the first hybrid answer after it:                {}", answers.summary());
    Ok(())
}

fn first_answer(db: &Database, corpus: &Corpus) -> Result<(), Failure> {
    let collection = db.snapshot().collection("main")?;
    let search = Search { query: Some("a small domestic animal".into()), vector: Some(corpus.vector(7).to_vec()), ..Search::default() };
    match collection.search(&search)?.hits.len() {
        10 => Ok(()),
        n => Err(format!("{n} hits, not 10").into()),
    }
}

/// Opening when the log was never brought into segments.
fn after_a_kill(corpus: &Corpus, folder: &Path) -> Result<(), Failure> {
    let path = folder.join("killed");
    let mut opens = Timings::default();
    let mut log = 0;
    for _ in 0..5 {
        let _ = std::fs::remove_dir_all(&path);
        let options = Options { memtable_bytes: usize::MAX, wal_bytes: u64::MAX, background: false, ..Options::default() };
        let db = Database::create(&path)?;
        db.close()?;
        let db = Database::open_with(std::sync::Arc::new(triune::io::FsDirectory::open(&path)?), options)?;
        db.create_collection("main", Schema::default())?;
        for f in 0..470 {
            let mut batch = WriteBatch::new();
            batch.put("main", file(corpus, "k", f)?);
            db.commit_with(batch, Durability::Buffered)?;
        }
        // Dropped, not closed: the log is all there is.
        drop(db);
        log = folder_bytes(&path)? - (1 << 20);
        drop(opens.time(|| Database::open(&path))?);
    }
    let per_32 = opens.median_ms() / (log as f64 / (32 << 20) as f64);
    println!("open after a kill, {:.1} MiB of log:              {}", log as f64 / (1 << 20) as f64, opens.summary());
    println!("per 32 MiB of log: {per_32:.0} ms");
    Ok(())
}

/// File by file, each one durable commit: what the peers' program does with them.
fn ingest(corpus: &Corpus, folder: &Path, files: usize) -> Result<(), Failure> {
    let path = folder.join("ingest");
    let _ = std::fs::remove_dir_all(&path);
    let db = Database::create(&path)?;
    db.create_collection("main", Schema::default())?;
    let mut per_file = Timings::default();
    for f in 0..files {
        let documents = file(corpus, "h", f)?;
        per_file.time(|| db.put("main", documents))?;
    }
    let mut delete = Timings::default();
    delete.time(|| db.delete_source("main", "h1"))?;
    db.close()?;
    let mut reopen = Timings::default();
    reopen.time(|| Database::open(&path).map_err(Failure::from).and_then(|db| first_answer(&db, corpus)))?;
    let tenth = (files / 10).max(1);
    let line = serde_json::json!({
        "engine": "triune", "files": files, "chunks": CHUNKS,
        "total_s": (per_file.mean_ms(0..files) * files as f64).round() / 1e3,
        "first_tenth_ms": round(per_file.mean_ms(0..tenth)), "last_tenth_ms": round(per_file.mean_ms(files - tenth..files)),
        "delete_ms": round(delete.median_ms()), "reopen_ms": round(reopen.median_ms()), "bytes": folder_bytes(&path)?,
    });
    println!("{line}");
    Ok(())
}

fn round(ms: f64) -> f64 {
    (ms * 100.0).round() / 100.0
}

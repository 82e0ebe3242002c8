//! What a dictionary costs to look up, beside the crate that wrote it, in one interleaved run: keys that are there, keys that are not, the
//! first key from a bound, and all keys in order.
//!
//! `cargo run --release -p triune-benches --bin dictionaries -- --data FOLDER`: FOLDER holds `docs.jsonl` (the WordNet glosses), whose words
//! are the keys. Every answer that is timed is also compared.

#![allow(clippy::print_stdout, reason = "a measuring program prints what it measured")]

use clap::Parser;
use fst::{IntoStreamer, Map, MapBuilder, Streamer};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use triune::format::segment::SectionKind;
use triune::format::transducer::Transducer;
use triune::io::{Directory, FsDirectory};
use triune::segment::{SegmentReader, SegmentWriter};
use triune_benches::Failure;

/// Rounds, of which each asks everything of both once.
const ROUNDS: usize = 21;
const FILE: &str = "s-0000000000000001.segments";

#[derive(Parser)]
struct Arguments {
    /// Folder with docs.jsonl.
    #[arg(long)]
    data: PathBuf,
}

fn main() -> Result<(), Failure> {
    let text = std::fs::read_to_string(Arguments::parse().data.join("docs.jsonl"))?.to_lowercase();
    let words: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut builder = MapBuilder::memory();
    for (word, ordinal) in words.iter().zip(0..) {
        builder.insert(word, ordinal)?;
    }
    let bytes = builder.into_inner()?;
    println!("{} keys, {} bytes", words.len(), bytes.len());
    let folder = tempfile::tempdir()?;
    let directory = FsDirectory::open(folder.path())?;
    let file = directory.create_new(FILE)?;
    let database = triune::Uuid([7; 16]);
    let mut out = SegmentWriter::new(file.clone(), FILE, database, 1, 0, 0);
    out.section(SectionKind::Entities, words.len() as u64, bytes.len() as u64, &bytes)?;
    let made = out.finish()?;
    let mapped = file.map(made.length)?;
    let open = || SegmentReader::open_mapped(&mapped, FILE, database, 0, made.length, made.crc)?.require(SectionKind::Entities);

    // Keys in an order that is not the dictionary's, so that one look-up does not warm the next.
    let mut there: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    there.sort_by_key(|word| word.iter().rev().copied().collect::<Vec<u8>>());
    let absent: Vec<Vec<u8>> = there.iter().map(|word| [&word[..word.len() - 1], b"~"].concat()).collect();
    let (section, map) = (open()?, Map::new(&bytes[..])?);
    let fst = Transducer::open(section.touched(section.len())?)?;
    compare("keys that are there", &there, |key| map.get(key), |key| ours(fst.get(key)));
    compare("keys that are not", &absent, |key| map.get(key), |key| ours(fst.get(key)));
    let first = |key: &[u8]| map.range().ge(key).into_stream().next().map(|(_, number)| number);
    compare("the first key from a bound", &absent, first, |key| ours(fst.first_from(key)));
    let walked = |_: &[u8]| {
        let (mut stream, mut sum) = (map.stream(), 0);
        while let Some((key, number)) = stream.next() {
            sum += number + key.len() as u64;
        }
        Some(sum)
    };
    compare("all keys in order", &there[..1], walked, |_| {
        let (mut stream, mut sum) = (fst.stream(), 0);
        while let Some((key, number)) = ours(stream.next()) {
            sum += number + key.len() as u64;
        }
        Some(sum)
    });
    let theirs = |key: &[u8]| {
        let section = open().ok()?;
        let map = Map::new(section.whole_bytes().ok()?).ok()?;
        map.as_fst().verify().ok()?;
        map.get(key)
    };
    compare("opened, checked and asked once", &there[..1], theirs, |key| {
        let section = open().ok()?;
        ours(Transducer::open(section.touched(section.len()).ok()?).ok()?.get(key))
    });
    Ok(())
}

/// An answer of bytes that are sound.
fn ours<T, E: std::fmt::Display>(answer: Result<T, E>) -> T {
    answer.unwrap_or_else(|e| panic!("the bytes are sound: {e}"))
}

/// Asks both for every key, in turns, and prints the medians of what a key costs.
fn compare(what: &str, keys: &[Vec<u8>], theirs: impl Fn(&[u8]) -> Option<u64>, ours: impl Fn(&[u8]) -> Option<u64>) {
    for key in keys {
        assert_eq!(theirs(key), ours(key), "{what}: {:?}", String::from_utf8_lossy(key));
    }
    let time = |ask: &dyn Fn(&[u8]) -> Option<u64>| {
        let begin = Instant::now();
        for key in keys {
            black_box(ask(black_box(key)));
        }
        begin.elapsed()
    };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        before.push(time(&theirs));
        after.push(time(&ours));
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[ROUNDS / 2].as_secs_f64() * 1e9 / keys.len() as f64
    };
    let (before, after) = (median(&mut before), median(&mut after));
    println!("{what}: the crate {before:.0} ns, this reader {after:.0} ns, ratio {:.2}", after / before);
}

//! How many texts the static embedder takes a second, on one thread: `cargo run --release -p triune-benches --bin embed -- FILE.jsonl [FIELD]`.
//!
//! Each line is an object; FIELD (`text`) is what is embedded. Reading the file is not counted.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::time::Instant;
use triune::connections::static_embedder::StaticEmbedder;
use triune::models::{Call, Embedder, TextRole};

/// Rounds, of which the median is reported.
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("name a file of JSON lines")?;
    let field = args.next().unwrap_or_else(|| "text".into());
    let mut texts = Vec::new();
    for line in std::fs::read_to_string(file)?.lines() {
        let value: serde_json::Value = serde_json::from_str(line)?;
        texts.push(value[&field].as_str().ok_or("a line has no such text")?.to_string());
    }
    let begin = Instant::now();
    let embedder = StaticEmbedder::built_in()?;
    println!("{} read in {:.1} ms", embedder.fingerprint(), begin.elapsed().as_secs_f64() * 1e3);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let tokens: usize = texts.iter().map(|t| embedder.tokens(t).len()).sum();
    let mut seconds = Vec::new();
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let vectors = embedder.embed(&Call::default(), &texts, TextRole::Document)?;
        seconds.push(begin.elapsed().as_secs_f64());
        assert_eq!(vectors.len(), texts.len());
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[ROUNDS / 2];
    println!(
        "{} texts of {:.1} tokens: {:.0} texts/s, {:.0} tokens/s (one thread, median of {ROUNDS}; best {:.0} texts/s)",
        texts.len(),
        tokens as f64 / texts.len().max(1) as f64,
        texts.len() as f64 / median,
        tokens as f64 / median,
        texts.len() as f64 / seconds[0]
    );
    Ok(())
}

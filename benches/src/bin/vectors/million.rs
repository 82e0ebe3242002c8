//! A million documents, built at once; then a fresh process that opens the database and asks for the nearest once.

use crate::ours::{quiet, triune_directory};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use triune::vector::kernel::inverse_norm;
use triune::{Builder, Database, Document, Options, Schema};
use triune_benches::neighbours::{K, Neighbours};
use triune_benches::{Failure, Timings};

const DOCUMENTS: usize = 1_000_000;
/// Of a component of a vector of length 1, at most; about a third of how far neighbours are from each other.
const NOISE: f32 = 0.02;
/// Processes that open and ask.
const PROCESSES: usize = 11;

/// Builds the database out of the vectors, repeated with noise, unless it is there, and measures fresh processes on it: with its files in the
/// system's cache, and without where the system lets them be dropped.
pub(crate) fn measure(data: &Neighbours, path: &Path) -> Result<(), Failure> {
    if !path.join("HEAD").exists() {
        let begun = Instant::now();
        let mut builder = Builder::create(path, Options::default())?;
        builder.collection("main", Schema { dimension: Some(data.dimension as u32), ..Schema::default() })?;
        let mut vector = vec![0f32; data.dimension];
        for i in 0..DOCUMENTS {
            noisy(data.row(i % data.points()), i, &mut vector);
            let text = format!("document {i}");
            builder.push(Document::new(i.to_string()).text(text).vector(vector.clone()))?;
        }
        let taken = begun.elapsed().as_secs_f64();
        let report = builder.finish()?;
        println!("a million documents: taken in {taken:.1} s, built in {:.1} s in all: {report:?}", begun.elapsed().as_secs_f64());
    }
    let bytes: u64 = std::fs::read_dir(path)?.filter_map(|e| Some(e.ok()?.metadata().ok()?.len())).sum();
    println!("{bytes} bytes on disk, {:.3}x the raw vectors", bytes as f64 / (DOCUMENTS * data.dimension * 4) as f64);
    let program = std::env::current_exe()?;
    let ask = || -> Result<(f64, f64), Failure> {
        let output = Command::new(&program).arg("--once").arg(path).arg("--data").arg(path).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut numbers = said.split_whitespace().map(str::parse::<f64>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(opened)), Some(Ok(answered))) => Ok((opened, answered)),
            _ => Err(format!("the process said {said:?} and {}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    };
    let dropped = std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok();
    let cold = ask()?;
    let (mut opening, mut answering) = (Timings::default(), Timings::default());
    for _ in 0..PROCESSES {
        let (opened, answered) = ask()?;
        opening.push(std::time::Duration::from_secs_f64(opened / 1e3));
        answering.push(std::time::Duration::from_secs_f64(answered / 1e3));
    }
    println!(
        "fresh process, warm: opened after {:.2} ms, first answer after {:.2} ms (medians of {PROCESSES})",
        opening.median_ms(),
        answering.median_ms()
    );
    let how = if dropped { "the system's cache dropped before" } else { "the system's cache could not be dropped" };
    println!("fresh process, cold ({how}): opened after {:.2} ms, first answer after {:.2} ms", cold.0, cold.1);
    Ok(())
}

/// A vector with noise of its own, of length 1 again.
fn noisy(row: &[f32], i: usize, out: &mut [f32]) {
    let mut state = i as u64;
    for (out, x) in out.iter_mut().zip(row) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *out = x + NOISE * ((state >> 40) as f32 / (1 << 23) as f32 - 1.0);
    }
    let factor = inverse_norm(out) as f32;
    out.iter_mut().for_each(|x| *x *= factor);
}

/// What a fresh process does: opens, asks once, and says after how many milliseconds each was done.
pub(crate) fn once(path: &Path) -> Result<(), Failure> {
    let begun = Instant::now();
    let db = Database::open_read_only_with(triune_directory(path)?, quiet())?;
    let collection = db.snapshot().collection("main")?;
    let opened = begun.elapsed().as_secs_f64() * 1e3;
    let dimension = collection.schema().dimension.ok_or("no dimension")? as usize;
    let query: Vec<f32> = (0..dimension).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let hits = collection.nearest(&query, None, K)?;
    let answered = begun.elapsed().as_secs_f64() * 1e3;
    if hits.len() != K {
        return Err(format!("{} hits", hits.len()).into());
    }
    println!("{opened} {answered}");
    Ok(())
}

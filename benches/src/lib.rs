//! What the measuring programs share: real documents with real vectors, and honest summaries.

pub mod neighbours;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// An error of a measuring program: they stop at the first.
pub type Failure = Box<dyn std::error::Error>;

/// Texts and their vectors, row by row.
pub struct Corpus {
    /// One text per document.
    pub texts: Vec<String>,
    /// All vectors, row-major.
    vectors: Vec<f32>,
    /// Components of a vector.
    pub dimension: usize,
}

impl Corpus {
    /// Reads `docs.jsonl` and `vectors.npy` (f32, C order) of a folder.
    pub fn read(folder: &Path) -> Result<Corpus, Failure> {
        let lines = std::fs::read_to_string(folder.join("docs.jsonl"))?;
        let text = |line: &str| -> Result<String, Failure> {
            let value: serde_json::Value = serde_json::from_str(line)?;
            Ok(value["text"].as_str().ok_or("a document without text")?.to_string())
        };
        let texts = lines.lines().map(text).collect::<Result<Vec<_>, _>>()?;
        let bytes = std::fs::read(folder.join("vectors.npy"))?;
        let header = bytes.get(8..10).ok_or("vectors.npy is no .npy file")?;
        let start = 10 + usize::from(u16::from_le_bytes([header[0], header[1]]));
        let vectors: Vec<f32> = bytes[start..].chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
        let dimension = vectors.len() / texts.len();
        if dimension * texts.len() != vectors.len() {
            return Err("vectors.npy does not have one row a document".into());
        }
        Ok(Corpus { texts, vectors, dimension })
    }

    /// The vector of a document.
    pub fn vector(&self, row: usize) -> &[f32] {
        &self.vectors[row * self.dimension..(row + 1) * self.dimension]
    }
}

/// Several measurements of one thing.
#[derive(Default)]
pub struct Timings(Vec<Duration>);

impl Timings {
    /// Measures one call.
    pub fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = call();
        self.0.push(start.elapsed());
        result
    }

    /// Adds what was measured elsewhere.
    pub fn push(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    /// The middle one, in milliseconds.
    pub fn median_ms(&self) -> f64 {
        self.quantile_ms(0.5)
    }

    /// The value below which this share of the measurements lies, in milliseconds.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort();
        let at = ((sorted.len() as f64 - 1.0) * share).round() as usize;
        sorted.get(at).map_or(f64::NAN, |d| d.as_secs_f64() * 1e3)
    }

    /// Mean of a range of the measurements in the order they were taken, in milliseconds.
    pub fn mean_ms(&self, range: std::ops::Range<usize>) -> f64 {
        let part = &self.0[range];
        part.iter().sum::<Duration>().as_secs_f64() * 1e3 / part.len() as f64
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// `median 1.23 ms, p10 1.10, p90 1.50, of 200`.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let _ = write!(
            text,
            "median {:.3} ms, p10 {:.3}, p90 {:.3}, of {}",
            self.median_ms(),
            self.quantile_ms(0.1),
            self.quantile_ms(0.9),
            self.count()
        );
        text
    }
}

/// Bytes of all files of a folder.
pub fn folder_bytes(folder: &Path) -> Result<u64, Failure> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        sum += entry?.metadata()?.len();
    }
    Ok(sum)
}

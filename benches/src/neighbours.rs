//! Vectors, queries, and the true neighbours of the queries.

use crate::Failure;
use std::path::Path;

/// Neighbours that are asked for.
pub const K: usize = 10;

/// What `base.npy`, `queries.npy` and `truth.npy` of a folder hold: vectors of length 1, compared by their cosine.
pub struct Neighbours {
    /// All vectors, one after another.
    pub base: Vec<f32>,
    /// Components of a vector.
    pub dimension: usize,
    /// The queries.
    pub queries: Vec<Vec<f32>>,
    /// By query, its nearest [`K`].
    pub truth: Vec<Vec<u32>>,
}

impl Neighbours {
    /// Reads a folder.
    pub fn read(folder: &Path) -> Result<Neighbours, Failure> {
        let (base, dimension) = npy(&folder.join("base.npy"), f32::from_le_bytes)?;
        let questions = Neighbours::questions(folder)?;
        if questions.dimension != dimension {
            return Err(format!("vectors of {dimension} components, and queries of {}", questions.dimension).into());
        }
        Ok(Neighbours { base, ..questions })
    }

    /// Reads a folder without the vectors, which lie in a database already.
    pub fn questions(folder: &Path) -> Result<Neighbours, Failure> {
        let (queries, dimension) = npy(&folder.join("queries.npy"), f32::from_le_bytes)?;
        let queries = queries.chunks_exact(dimension).map(<[f32]>::to_vec).collect();
        let (truth, width) = npy(&folder.join("truth.npy"), u32::from_le_bytes)?;
        let truth = truth.chunks_exact(width).map(|t| t[..K].to_vec()).collect();
        Ok(Neighbours { base: Vec::new(), dimension, queries, truth })
    }

    /// How many vectors there are.
    pub fn points(&self) -> usize {
        self.base.len() / self.dimension
    }

    /// The vector of a point.
    pub fn row(&self, point: usize) -> &[f32] {
        &self.base[point * self.dimension..(point + 1) * self.dimension]
    }
}

/// The rows of a .npy file of four-byte numbers, and how long they are.
fn npy<T>(path: &Path, number: impl Fn([u8; 4]) -> T) -> Result<(Vec<T>, usize), Failure> {
    let bytes = std::fs::read(path)?;
    let short = || format!("{} is no .npy file", path.display());
    let header_bytes = 10 + usize::from(u16::from_le_bytes([*bytes.get(8).ok_or_else(short)?, *bytes.get(9).ok_or_else(short)?]));
    let header = String::from_utf8_lossy(bytes.get(10..header_bytes).ok_or_else(short)?).into_owned();
    let shape = header.split("'shape': (").nth(1).and_then(|s| s.split(')').next()).ok_or("no shape")?;
    let width = shape.split(',').nth(1).and_then(|s| s.trim().parse().ok()).ok_or("no second dimension")?;
    Ok((bytes[header_bytes..].as_chunks::<4>().0.iter().map(|b| number(*b)).collect(), width))
}

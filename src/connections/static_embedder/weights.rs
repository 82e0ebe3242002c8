//! The file of weights: vocabulary, and of each token a scale and a row of small integers. docs/embedder.md has its form.
//!
//! Everything that a reader relies on is checked when the file is read, in one pass; what is looked up later cannot fail.

use super::wordpiece::Vocabulary;
use std::borrow::Cow;

/// The version of the form, and of what is made of it: tokens, sum, unit length.
pub(super) const VERSION: u32 = 1;

pub(super) const MAGIC: [u8; 8] = *b"TRIUNESE";
const HEADER: usize = 40;
const CHECKSUM: usize = 4;
const DIMENSION_MAX: u32 = 65_535;
const TOKENS_MAX: u32 = 1 << 24;

/// Why bytes are no file of weights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// They do not begin as such a file does.
    #[error("these are no weights of a static embedder: the file begins otherwise")]
    Magic,
    /// A later version of Triune wrote them.
    #[error("the weights of the static embedder have version {found}; this build reads version {VERSION}")]
    Version {
        /// The version of the file.
        found: u32,
    },
    /// The file is shorter or longer than its header says.
    #[error("the weights of the static embedder have {found} bytes; their header asks for {expected}")]
    Length {
        /// Bytes that the header asks for.
        expected: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// Bytes were changed since the file was written.
    #[error("the weights of the static embedder are damaged: their checksum is {computed:08x}, the file says {stored:08x}")]
    Checksum {
        /// What the file says.
        stored: u32,
        /// What its bytes come to.
        computed: u32,
    },
    /// A number in the header is none that such a file has.
    #[error("the weights of the static embedder name {field} {value}; {allowed}")]
    Field {
        /// What the number is of.
        field: &'static str,
        /// The number.
        value: u64,
        /// What it may be.
        allowed: &'static str,
    },
    /// The vocabulary is not what it has to be.
    #[error("token {token} of the static embedder's vocabulary {what}")]
    Token {
        /// The number of the token.
        token: u32,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// The vectors of the tokens.
pub(super) struct Weights {
    bytes: Cow<'static, [u8]>,
    dimension: usize,
    scales: Vec<f32>,
    /// Where the first row begins.
    rows: usize,
    checksum: u32,
}

impl Weights {
    /// Reads and checks a whole file.
    pub(super) fn read(bytes: Cow<'static, [u8]>) -> Result<(Weights, Vocabulary), WeightsError> {
        let found = bytes.len() as u64;
        if !bytes.starts_with(&MAGIC) {
            return Err(WeightsError::Magic);
        }
        let too_short = WeightsError::Length { expected: (HEADER + CHECKSUM) as u64, found };
        let header: &[u8; HEADER] = bytes.first_chunk().ok_or(too_short)?;
        let field = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if field(8) != VERSION {
            return Err(WeightsError::Version { found: field(8) });
        }
        let (tokens, dimension, vocabulary_bytes, unknown, word_max) = (field(12), field(16), field(20), field(24), field(28));
        check("dimension", dimension, (1..=DIMENSION_MAX).contains(&dimension), "1 to 65,535 are possible")?;
        check("number of tokens", tokens, (1..=TOKENS_MAX).contains(&tokens), "1 to 16,777,216 are possible")?;
        check("unknown token", unknown, unknown < tokens, "it is one of the vocabulary")?;
        check("length of a word", word_max, (1..=1000).contains(&word_max), "1 to 1,000 characters are possible")?;
        check("reserved field", field(32).max(field(36)), field(32) == 0 && field(36) == 0, "it is 0")?;
        let scales_at = HEADER as u64 + u64::from(vocabulary_bytes);
        let rows_at = scales_at + 4 * u64::from(tokens);
        // Each factor is bounded above, so nothing overflows.
        let expected = rows_at + u64::from(tokens) * u64::from(dimension) + CHECKSUM as u64;
        if found != expected {
            return Err(WeightsError::Length { expected, found });
        }
        let Some((content, stored)) = bytes.split_last_chunk::<CHECKSUM>() else {
            return Err(WeightsError::Length { expected, found });
        };
        let (stored, computed) = (u32::from_le_bytes(*stored), crc32fast::hash(content));
        if stored != computed {
            return Err(WeightsError::Checksum { stored, computed });
        }
        // All of these are below `found`, which is a length in memory.
        let (scales_at, rows) = (scales_at as usize, rows_at as usize);
        let vocabulary = Vocabulary::read(&bytes[HEADER..scales_at], tokens, unknown, word_max as usize)?;
        let scales = scales(&bytes[scales_at..rows])?;
        Ok((Weights { dimension: dimension as usize, scales, rows, checksum: stored, bytes }, vocabulary))
    }

    /// Components of a vector.
    pub(super) fn dimension(&self) -> usize {
        self.dimension
    }

    /// The checksum of the file.
    pub(super) fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Adds the vector of a token to `sum`, which has as many components. `id` is one that the vocabulary gave.
    pub(super) fn add(&self, id: u32, sum: &mut [f32]) {
        let (scale, begin) = (self.scales[id as usize], self.rows + id as usize * self.dimension);
        let row = &self.bytes[begin..begin + self.dimension];
        for (x, component) in sum.iter_mut().zip(row) {
            *x += scale * f32::from(component.cast_signed());
        }
    }
}

fn check(field: &'static str, value: u32, allowed: bool, what: &'static str) -> Result<(), WeightsError> {
    if allowed { Ok(()) } else { Err(WeightsError::Field { field, value: u64::from(value), allowed: what }) }
}

/// The scales: finite, and so small that no text overflows a sum.
fn scales(bytes: &[u8]) -> Result<Vec<f32>, WeightsError> {
    let (chunks, _) = bytes.as_chunks::<4>();
    let mut scales = Vec::with_capacity(chunks.len());
    for (token, chunk) in chunks.iter().enumerate() {
        let scale = f32::from_le_bytes(*chunk);
        if !(0.0..=1e6).contains(&scale) {
            let token = u32::try_from(token).unwrap_or(u32::MAX);
            return Err(WeightsError::Token { token, what: "has a scale that is not a number from 0 to 1,000,000" });
        }
        scales.push(scale);
    }
    Ok(scales)
}

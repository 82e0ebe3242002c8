//! An embedder that needs nothing: a vector for each token of a vocabulary, and of a text the sum of its tokens' vectors, scaled to unit length.
//!
//! The vectors were fitted so that these sums come near to what the sentence encoder all-MiniLM-L6-v2 says of the same texts; docs/embedder.md
//! tells how, how well that goes, and what is in the file. It finds less than that encoder does, and takes microseconds where that takes
//! tens of milliseconds. It knows no word order, and no language but English well.
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | [`StaticEmbedder`]: lookup and sum |
//! | `weights.rs` | the file of weights, read and checked |
//! | `wordpiece.rs` | from text to tokens |
//! | `characters.rs` | the generated tables of characters |

#[rustfmt::skip]
mod characters;
#[cfg(test)]
mod tests;
mod weights;
mod wordpiece;

pub use weights::WeightsError;

use crate::models::{Call, Embedder, ModelError, ModelErrorKind, TextRole, Usage};
use crate::options::LegWeights;
use std::borrow::Cow;
use weights::Weights;
use wordpiece::{Vocabulary, Word};

/// The weights that are part of this build.
static BUILT_IN: &[u8] = include_bytes!("../../../assets/static-256.bin");

/// Texts between two looks at the clock.
const TEXTS_A_LOOK: usize = 64;

/// Sums token vectors. Two of one fingerprint give the same vector, bit for bit, to the same text, on every machine.
///
/// ```
/// use triune::connections::static_embedder::StaticEmbedder;
/// use triune::models::{Call, Embedder, TextRole};
///
/// let embedder = StaticEmbedder::built_in()?;
/// let texts = ["Heart attacks are caused by blocked arteries.", "myocardial infarction", "the price of wheat"];
/// let vectors = embedder.embed(&Call::default(), &texts, TextRole::Document)?;
/// let cosine = |a: usize, b: usize| vectors[a].iter().zip(&vectors[b]).map(|(x, y)| x * y).sum::<f32>();
/// assert!(cosine(0, 1) > cosine(0, 2) + 0.2);
/// # Ok::<(), triune::models::ModelError>(())
/// ```
pub struct StaticEmbedder {
    weights: Weights,
    vocabulary: Vocabulary,
    fingerprint: String,
}

impl StaticEmbedder {
    /// What suits its vectors when a hybrid search fuses them with texts: tuned on the training claims of SciFact, see docs/embedder.md.
    pub const LEG_WEIGHTS: LegWeights = LegWeights { vector: 200, text: 1000, graph: 1000 };

    /// The embedder whose weights are part of this build. Takes a few milliseconds, and about 2 MiB for the vocabulary.
    ///
    /// # Errors
    /// `Configuration` if the program's image of the weights is damaged.
    pub fn built_in() -> Result<StaticEmbedder, ModelError> {
        StaticEmbedder::read(Cow::Borrowed(BUILT_IN)).map_err(|error| ModelError::new(ModelErrorKind::Configuration, error.to_string()))
    }

    /// An embedder with weights of the caller's, a file as docs/embedder.md describes it.
    ///
    /// # Errors
    /// What is wrong with the bytes. Any bytes are safe to try.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<StaticEmbedder, WeightsError> {
        StaticEmbedder::read(Cow::Owned(bytes))
    }

    fn read(bytes: Cow<'static, [u8]>) -> Result<StaticEmbedder, WeightsError> {
        let (weights, vocabulary) = Weights::read(bytes)?;
        let fingerprint = format!("triune-static-{}-v{}-{:08x}", weights.dimension(), weights::VERSION, weights.checksum());
        Ok(StaticEmbedder { weights, vocabulary, fingerprint })
    }

    /// The ids of a text's tokens, in their order: those of the uncased BERT tokenizer, without the marks that it puts around a text, and
    /// with the names of such marks taken for plain text.
    pub fn tokens(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.vocabulary.tokens(text, &mut Word::default(), |id| ids.push(id));
        ids
    }

    /// The vector of one text, and the number of its tokens. Of unit length, or zero when no token of the text has a vector.
    fn vector(&self, text: &str, word: &mut Word) -> (Vec<f32>, u64) {
        let (mut sum, mut tokens) = (vec![0.0f32; self.weights.dimension()], 0);
        self.vocabulary.tokens(text, word, |id| {
            tokens += 1;
            self.weights.add(id, &mut sum);
        });
        let square: f64 = sum.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        if square > 0.0 {
            let inverse = 1.0 / square.sqrt();
            sum.iter_mut().for_each(|x| *x = (f64::from(*x) * inverse) as f32);
        }
        (sum, tokens)
    }
}

impl std::fmt::Debug for StaticEmbedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticEmbedder").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

impl Embedder for StaticEmbedder {
    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn dimension(&self) -> u32 {
        // Checked when the file was read: at most 65,535.
        u32::try_from(self.weights.dimension()).unwrap_or(u32::MAX)
    }

    /// One thread, no network. A text may be of any length; all of it counts.
    fn embed(&self, call: &Call<'_>, texts: &[&str], _: TextRole) -> Result<Vec<Vec<f32>>, ModelError> {
        let (mut vectors, mut word, mut spent) = (Vec::with_capacity(texts.len()), Word::default(), 0);
        for few in texts.chunks(TEXTS_A_LOOK) {
            call.check()?;
            for text in few {
                let (vector, tokens) = self.vector(text, &mut word);
                vectors.push(vector);
                spent += tokens;
            }
        }
        call.check()?;
        if let Some(usage) = call.usage {
            usage.add(&call.purpose, Usage::of_call(spent, 0));
        }
        Ok(vectors)
    }
}

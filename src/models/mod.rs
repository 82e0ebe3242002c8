//! What the retrieval layer asks of models: embed, complete, rerank, count tokens. Four traits; who implements them opens the sockets and reads the
//! weights, the engine never does.
//!
//! Everything is synchronous and object-safe. Each call says what it is for ([`Purpose`]), on whose behalf, and until when ([`Call`]); an
//! implementation honours the deadline and the cancellation, and adds the tokens that it spent to the call's ledger.
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | the traits |
//! | `call.rs` | [`Call`]: purpose, request, deadline, cancellation |
//! | `error.rs` | [`ModelError`]: why a model gave no answer |
//! | `usage.rs` | [`UsageLedger`]: tokens by purpose |

mod call;
mod error;
mod usage;

#[cfg(test)]
mod tests;

pub use call::{Call, Cancellation, Purpose};
pub use error::{ModelError, ModelErrorKind};
pub use usage::{Usage, UsageLedger};

/// What a text that is embedded will be used as. Models that were trained to tell the two apart prefix them differently; others ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextRole {
    /// A text that is stored.
    Document,
    /// A question that stored texts are compared with.
    Query,
}

/// Makes vectors of texts.
///
/// ```
/// use triune::models::{Call, Embedder, ModelError, TextRole};
///
/// /// Counts vowels: a poor embedder, but a whole one.
/// struct Vowels;
///
/// impl Embedder for Vowels {
///     fn fingerprint(&self) -> &str {
///         "vowels-v1"
///     }
///     fn dimension(&self) -> u32 {
///         5
///     }
///     fn embed(&self, call: &Call<'_>, texts: &[&str], _: TextRole) -> Result<Vec<Vec<f32>>, ModelError> {
///         call.check()?;
///         let count = |text: &str, vowel| text.chars().filter(|c| *c == vowel).count() as f32;
///         Ok(texts.iter().map(|text| "aeiou".chars().map(|vowel| count(text, vowel)).collect()).collect())
///     }
/// }
///
/// assert_eq!(Vowels.embed_one(&Call::default(), "a tree", TextRole::Query)?, [1.0, 2.0, 0.0, 0.0, 0.0]);
/// # Ok::<(), ModelError>(())
/// ```
pub trait Embedder: Send + Sync {
    /// Names the model and all that changes its vectors: what [`crate::options::Schema::embedder`] holds. Two embedders of one fingerprint give
    /// the same vector to the same text.
    fn fingerprint(&self) -> &str;

    /// Components of every vector it makes.
    fn dimension(&self) -> u32;

    /// One finite vector of [`Embedder::dimension`] components for each text, in their order. Any number of texts, none and empty ones included;
    /// how they are cut into requests is the implementation's affair.
    ///
    /// # Errors
    /// Whatever kept the model from answering; then no vector is returned.
    fn embed(&self, call: &Call<'_>, texts: &[&str], role: TextRole) -> Result<Vec<Vec<f32>>, ModelError>;

    /// The vector of one text.
    ///
    /// # Errors
    /// As [`Embedder::embed`], and `Malformed` if that returns another number of vectors than one.
    fn embed_one(&self, call: &Call<'_>, text: &str, role: TextRole) -> Result<Vec<f32>, ModelError> {
        let mut vectors = self.embed(call, &[text], role)?;
        let given = vectors.len();
        match vectors.pop() {
            Some(vector) if given == 1 => Ok(vector),
            _ => Err(ModelError::malformed(format!("{} gave {given} vectors for one text", self.fingerprint()))),
        }
    }
}

/// What a language model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The standing instruction; may be empty.
    pub system: String,
    /// The request. Text that is not the caller's own stands fenced in it.
    pub user: String,
    /// The most tokens of the reply; the model's own limit when absent.
    pub max_tokens: Option<u32>,
    /// Whether the reply shall be one JSON object. A model that cannot be told so may reply with text around it.
    pub json: bool,
    /// The model to ask, where the connection serves several; its own when absent.
    pub model: Option<String>,
}

impl Prompt {
    /// A request without a standing instruction.
    pub fn new(user: impl Into<String>) -> Prompt {
        Prompt { system: String::new(), user: user.into(), max_tokens: None, json: false, model: None }
    }
}

/// A language model.
pub trait LanguageModel: Send + Sync {
    /// The model's name, for logs.
    fn name(&self) -> &str;

    /// The model's reply. The tokens it took are added to [`Call::usage`] by the implementation.
    ///
    /// # Errors
    /// Whatever kept the model from answering. An empty reply is not an error.
    fn complete(&self, call: &Call<'_>, prompt: &Prompt) -> Result<String, ModelError>;
}

/// Judges how well texts answer a question, reading both together.
pub trait Reranker: Send + Sync {
    /// The model's name, for logs.
    fn name(&self) -> &str;

    /// One finite score for each text, in their order; greater is better. The scale is the model's own: a cross-encoder's logit is below 0 for
    /// texts that do not answer.
    ///
    /// # Errors
    /// Whatever kept the model from answering; then no score is returned.
    fn score(&self, call: &Call<'_>, query: &str, texts: &[&str]) -> Result<Vec<f64>, ModelError>;
}

/// Counts the tokens of a text as a language model would, so that an answer fits its window.
pub trait TokenCounter: Send + Sync {
    /// The vocabulary's name.
    fn name(&self) -> &str;

    /// Tokens of `text`; what looks like a special token counts as plain text.
    fn count(&self, text: &str) -> usize;
}

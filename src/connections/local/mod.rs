//! A model directory run in this process: BERT class (MiniLM, BGE, E5, GTE of the first generation), weights as safetensors, on the processor.
//!
//! The directory is as sentence-transformers writes it:
//!
//! | file | what is taken from it |
//! | --- | --- |
//! | `config.json` | the shape; `model_type` has to be `bert` |
//! | `tokenizer.json` | the tokenizer; its own truncation and padding are not used |
//! | `model.safetensors` | the weights |
//! | `1_Pooling/config.json` | mean or first token; mean where there is none |
//! | `sentence_bert_config.json` | `max_seq_length`, where it is smaller than what the shape allows |
//! | `modules.json` | refused if it names a step that is not computed here |
//!
//! Vectors have length 1. Texts are sorted by length and run in batches, so that little is spent on padding; what a text has beyond the longest
//! that the model takes is left out.
//!
//! ```no_run
//! use triune::connections::local::{LocalEmbedder, LocalOptions};
//! use triune::models::{Call, Embedder, TextRole};
//!
//! let embedder = LocalEmbedder::open("models/all-MiniLM-L6-v2", LocalOptions::default())?;
//! let vectors = embedder.embed(&Call::default(), &["A torn tail is dropped."], TextRole::Document)?;
//! # Ok::<(), triune::models::ModelError>(())
//! ```

mod files;

#[cfg(test)]
mod tests;

use crate::connections::replies::checked;
use crate::models::{Call, Embedder, ModelError, ModelErrorKind, TextRole, Usage};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::BertModel;
use files::{ModelFiles, Pooling, wrong};
use sha2::{Digest, Sha256};
use std::fmt;
use std::ops::Range;
use std::path::Path;
use tokenizers::{PostProcessor, Tokenizer, TruncationParams};

/// How a model directory is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalOptions {
    /// What its vectors must have, where the caller knows.
    pub dimension: Option<u32>,
    /// Tokens of a text that are used, its two marks included; no more than the model takes, and that where `None`.
    pub tokens_max: Option<usize>,
    /// Tokens that are run at once, padding included; at least one text is. A call ends within one such batch of its cancellation. 4096.
    pub batch_tokens: usize,
    /// Put before every question: `"query: "` for E5.
    pub query_prefix: String,
    /// Put before every text that is stored.
    pub document_prefix: String,
}

impl Default for LocalOptions {
    fn default() -> Self {
        LocalOptions { dimension: None, tokens_max: None, batch_tokens: 4096, query_prefix: String::new(), document_prefix: String::new() }
    }
}

/// A model directory that makes vectors.
pub struct LocalEmbedder {
    model: BertModel,
    tokenizer: Tokenizer,
    pooling: Pooling,
    options: LocalOptions,
    dimension: u32,
    fingerprint: String,
}

impl LocalEmbedder {
    /// Reads a model directory and its weights, all of them.
    ///
    /// # Errors
    /// `Configuration`, with the file and what is wrong with it.
    pub fn open(directory: impl AsRef<Path>, options: LocalOptions) -> Result<LocalEmbedder, ModelError> {
        let mut files = files::read(directory.as_ref())?;
        let dimension = u32::try_from(files.config.hidden_size).map_err(|_| wrong("config.json: hidden_size is too large"))?;
        if let Some(expected) = options.dimension.filter(|d| *d != dimension) {
            return Err(wrong(format_args!("its vectors have {dimension} components; {expected} were asked for")));
        }
        files.tokens_max = files.tokens_max.min(options.tokens_max.unwrap_or(usize::MAX)).max(3);
        let tokenizer = tokenizer(&files)?;
        let fingerprint = fingerprint(&files, &options, dimension);
        let weights = VarBuilder::from_slice_safetensors(&files.weights, DType::F32, &Device::Cpu)
            .map_err(|e| wrong(format_args!("model.safetensors: {}", first_line(&e))))?;
        let model = BertModel::load(weights, &files.config).map_err(|e| wrong(format_args!("model.safetensors: {}", first_line(&e))))?;
        Ok(LocalEmbedder { model, tokenizer, pooling: files.pooling, options, dimension, fingerprint })
    }

    /// The numbers of a text's tokens.
    fn tokens(&self, prefix: &str, text: &str, at: usize) -> Result<Vec<u32>, ModelError> {
        let encoding =
            if prefix.is_empty() { self.tokenizer.encode(text, true) } else { self.tokenizer.encode(format!("{prefix}{text}"), true) };
        // Its own words could repeat the text.
        let encoding = encoding.map_err(|_| ModelError::new(ModelErrorKind::Refused, format!("the tokenizer does not take text {at}")))?;
        match encoding.get_ids() {
            [] => Err(ModelError::new(ModelErrorKind::Refused, format!("the tokenizer makes no token of text {at}, not even its marks"))),
            ids => Ok(ids.to_vec()),
        }
    }

    /// The vectors of some texts, in the order of `batch`.
    fn run(&self, batch: &[&[u32]]) -> Result<Vec<Vec<f32>>, candle_core::Error> {
        let (rows, longest) = (batch.len(), batch.iter().map(|ids| ids.len()).max().unwrap_or(0));
        let (mut ids, mut mask) = (vec![0_u32; rows * longest], vec![0_u32; rows * longest]);
        for (row, tokens) in batch.iter().enumerate() {
            let at = row * longest;
            ids[at..at + tokens.len()].copy_from_slice(tokens);
            mask[at..at + tokens.len()].fill(1);
        }
        let ids = Tensor::from_vec(ids, (rows, longest), &Device::Cpu)?;
        let mask = Tensor::from_vec(mask, (rows, longest), &Device::Cpu)?;
        let hidden = self.model.forward(&ids, &ids.zeros_like()?, Some(&mask))?.flatten_all()?.to_vec1::<f32>()?;
        let width = self.dimension as usize;
        let text = |row: usize| &hidden[row * longest * width..][..batch[row].len() * width];
        Ok((0..rows).map(|row| pooled(self.pooling, text(row), width)).collect())
    }
}

impl Embedder for LocalEmbedder {
    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn dimension(&self) -> u32 {
        self.dimension
    }

    fn embed(&self, call: &Call<'_>, texts: &[&str], role: TextRole) -> Result<Vec<Vec<f32>>, ModelError> {
        call.check()?;
        let prefix = match role {
            TextRole::Query => &self.options.query_prefix,
            TextRole::Document => &self.options.document_prefix,
        };
        let mut tokens = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            tokens.push(self.tokens(prefix, text, at)?);
            call.check()?;
        }
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(tokens[*at].len()));
        let lengths: Vec<usize> = order.iter().map(|at| tokens[*at].len()).collect();
        let mut vectors = vec![Vec::new(); texts.len()];
        for range in padded_batches(&lengths, self.options.batch_tokens) {
            call.check()?;
            let batch: Vec<&[u32]> = order[range.clone()].iter().map(|at| tokens[*at].as_slice()).collect();
            // The words of its errors are about shapes, but nothing promises it.
            let made = self
                .run(&batch)
                .map_err(|_| ModelError::malformed("the local model cannot be computed: its weights and shape disagree"))?;
            for (at, vector) in order[range].iter().zip(made) {
                vectors[*at] = vector;
            }
        }
        let spent = lengths.iter().sum::<usize>() as u64;
        if let Some(ledger) = call.usage.filter(|_| !texts.is_empty()) {
            ledger.add(&call.purpose, Usage::of_call(spent, 0));
        }
        checked("the local model", vectors, texts.len(), self.dimension)
    }
}

impl fmt::Debug for LocalEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEmbedder").field("fingerprint", &self.fingerprint).field("pooling", &self.pooling).finish_non_exhaustive()
    }
}

/// The tokenizer, with the truncation of the model and no padding: rows of different length are padded where they are run.
fn tokenizer(files: &ModelFiles) -> Result<Tokenizer, ModelError> {
    let mut tokenizer = Tokenizer::from_bytes(&files.tokenizer).map_err(|e| wrong(format_args!("tokenizer.json: {e}")))?;
    let words = tokenizer.get_vocab_size(true);
    if words > files.config.vocab_size {
        let rows = files.config.vocab_size;
        return Err(wrong(format_args!("tokenizer.json has {words} tokens, config.json speaks of {rows}")));
    }
    // Held against here, because the library subtracts one from the other.
    let (marks, tokens_max) = (tokenizer.get_post_processor().map_or(0, |p| p.added_tokens(false)), files.tokens_max);
    if marks >= tokens_max {
        return Err(wrong(format_args!(
            "tokenizer.json puts {marks} marks around a text, and {tokens_max} tokens are all that is used of one"
        )));
    }
    let truncation = TruncationParams { max_length: tokens_max, ..TruncationParams::default() };
    tokenizer.with_padding(None);
    tokenizer.with_truncation(Some(truncation)).map_err(|e| wrong(format_args!("tokenizer.json: {e}")))?;
    Ok(tokenizer)
}

/// One vector of length 1 out of the vectors of a text's tokens, one after the other. A zero vector stays one.
fn pooled(pooling: Pooling, tokens: &[f32], width: usize) -> Vec<f32> {
    let rows = match pooling {
        Pooling::Mean => tokens,
        Pooling::First => &tokens[..width],
    };
    let mut sums = vec![0.0_f64; width];
    for row in rows.chunks_exact(width) {
        for (sum, component) in sums.iter_mut().zip(row) {
            *sum += f64::from(*component);
        }
    }
    // The mean's divisor falls away with the length.
    let length = sums.iter().map(|s| s * s).sum::<f64>().sqrt();
    let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
    sums.iter().map(|sum| (sum * scale) as f32).collect()
}

/// Cuts lengths, the longest first, so that each batch padded to its longest has at most `tokens` tokens, or one text.
fn padded_batches(lengths: &[usize], tokens: usize) -> Vec<Range<usize>> {
    let mut cut = Vec::new();
    let mut start = 0;
    while let Some(longest) = lengths.get(start) {
        let rows = (tokens / (*longest).max(1)).max(1);
        let end = (start + rows).min(lengths.len());
        cut.push(start..end);
        start = end;
    }
    cut
}

/// Of all that changes a vector: weights, shape, tokenizer, pooling, truncation, prefixes.
fn fingerprint(files: &ModelFiles, options: &LocalOptions, dimension: u32) -> String {
    let mut hash = Sha256::new();
    let pooling = match files.pooling {
        Pooling::Mean => "mean",
        Pooling::First => "first",
    };
    let length = (files.tokens_max as u64).to_le_bytes();
    let (query, document) = (options.query_prefix.as_bytes(), options.document_prefix.as_bytes());
    for part in [&files.config_bytes, &files.tokenizer, &files.weights, pooling.as_bytes(), &length, query, document] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut name = format!("local:bert/{dimension}/");
    name.extend(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")));
    name
}

/// Without the trace that the library appends.
fn first_line(error: &candle_core::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_string()
}

//! Reads and checks what a model directory holds, before any weight is used.

use crate::io::{Directory, FsDirectory};
use crate::models::{ModelError, ModelErrorKind};
use crate::options::limits;
use candle_transformers::models::bert::{Config, HiddenAct, PositionEmbeddingType};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::ErrorKind;
use std::path::Path;

/// The longest file of settings; a tokenizer of 250,000 words has some 17 MB.
const SETTINGS_BYTES_MAX: u64 = 256 << 20;

/// How the vectors of tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Their mean.
    Mean,
    /// The one of the first token.
    First,
}

/// A directory, read and found consistent.
pub(super) struct ModelFiles {
    pub(super) config: Config,
    pub(super) pooling: Pooling,
    /// Tokens of a text that are used, the special ones included.
    pub(super) tokens_max: usize,
    /// `config.json`, `tokenizer.json` and `model.safetensors` as they are, for the fingerprint.
    pub(super) config_bytes: Vec<u8>,
    pub(super) tokenizer: Vec<u8>,
    pub(super) weights: Vec<u8>,
}

/// What of `config.json` decides the shape of a model.
#[derive(Deserialize)]
struct Shape {
    model_type: Option<String>,
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    hidden_act: String,
    max_position_embeddings: usize,
    #[serde(default = "two")]
    type_vocab_size: usize,
    #[serde(default = "small")]
    layer_norm_eps: f64,
    #[serde(default)]
    pad_token_id: usize,
    position_embedding_type: Option<String>,
}

fn two() -> usize {
    2
}

fn small() -> f64 {
    1e-12
}

/// `1_Pooling/config.json` of sentence-transformers.
#[derive(Deserialize)]
struct PoolingShape {
    word_embedding_dimension: Option<usize>,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(flatten)]
    others: serde_json::Map<String, serde_json::Value>,
}

/// `sentence_bert_config.json` of sentence-transformers.
#[derive(Deserialize)]
struct Lengths {
    max_seq_length: Option<usize>,
}

/// A step of `modules.json` of sentence-transformers.
#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
}

pub(super) fn wrong(what: impl std::fmt::Display) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, format!("the model directory cannot be used: {what}"))
}

/// Reads the directory at `path`.
///
/// # Errors
/// `Configuration`: a file is missing, or asks for something that is not done here.
pub(super) fn read(path: &Path) -> Result<ModelFiles, ModelError> {
    let directory = FsDirectory::open(path).map_err(|e| wrong(format_args!("it cannot be opened ({})", e.kind())))?;
    let config_bytes = required(&directory, "config.json")?;
    let config = shape(parse("config.json", &config_bytes)?)?;
    let tokenizer = required(&directory, "tokenizer.json")?;
    if let Some(bytes) = optional(&directory, "modules.json")? {
        only_known_steps(&parse::<Vec<Module>>("modules.json", &bytes)?)?;
    }
    let mut tokens_max = config.max_position_embeddings;
    if let Some(bytes) = optional(&directory, "sentence_bert_config.json")? {
        let lengths: Lengths = parse("sentence_bert_config.json", &bytes)?;
        tokens_max = tokens_max.min(lengths.max_seq_length.unwrap_or(tokens_max));
    }
    if tokens_max < 3 {
        return Err(wrong(format_args!("it takes {tokens_max} tokens of a text, which is less than one and its two marks")));
    }
    let pooling = match FsDirectory::open(path.join("1_Pooling")) {
        Ok(directory) => pooling(parse("1_Pooling/config.json", &required(&directory, "config.json")?)?, config.hidden_size)?,
        Err(e) if e.kind() == ErrorKind::NotFound => Pooling::Mean,
        Err(e) => return Err(wrong(format_args!("1_Pooling cannot be opened ({})", e.kind()))),
    };
    let weights = bytes_of(&directory, "model.safetensors", u64::MAX)?
        .ok_or_else(|| wrong("model.safetensors is missing; weights in another format are not read"))?;
    Ok(ModelFiles { config, pooling, tokens_max, config_bytes, tokenizer, weights })
}

fn required(directory: &FsDirectory, name: &str) -> Result<Vec<u8>, ModelError> {
    optional(directory, name)?.ok_or_else(|| wrong(format_args!("{name} is missing")))
}

fn optional(directory: &FsDirectory, name: &str) -> Result<Option<Vec<u8>>, ModelError> {
    bytes_of(directory, name, SETTINGS_BYTES_MAX)
}

fn bytes_of(directory: &FsDirectory, name: &str, max: u64) -> Result<Option<Vec<u8>>, ModelError> {
    let failed = |e: std::io::Error| wrong(format_args!("{name} cannot be read ({})", e.kind()));
    let file = match directory.open(name) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let len = file.len().map_err(failed)?;
    if len > max {
        return Err(wrong(format_args!("{name} has {len} bytes; at most {max} are read")));
    }
    file.read_all().map(Some).map_err(failed)
}

/// Settings of a model are no secret: the parser may say which field is missing.
fn parse<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, ModelError> {
    serde_json::from_slice(bytes).map_err(|e| wrong(format_args!("{name}: {e}")))
}

/// Holds a shape against what can be computed, before it is used to multiply and to allocate.
fn shape(shape: Shape) -> Result<Config, ModelError> {
    if let Some(other) = shape.model_type.as_deref().filter(|kind| *kind != "bert") {
        return Err(wrong(format_args!("config.json: it is of the class {other:?}; only \"bert\" is computed here")));
    }
    if let Some(other) = shape.position_embedding_type.as_deref().filter(|kind| *kind != "absolute") {
        return Err(wrong(format_args!("config.json: its positions are {other:?}; only \"absolute\" ones are computed here")));
    }
    let hidden_act = match shape.hidden_act.as_str() {
        "gelu" => HiddenAct::Gelu,
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_approximate" => HiddenAct::GeluApproximate,
        "relu" => HiddenAct::Relu,
        other => return Err(wrong(format_args!("config.json: hidden_act is {other:?}; gelu, gelu_new and relu are computed here"))),
    };
    let ranges = [
        ("vocab_size", shape.vocab_size, 1 << 24),
        ("hidden_size", shape.hidden_size, limits::DIMENSION_MAX),
        ("num_hidden_layers", shape.num_hidden_layers, 1 << 10),
        ("num_attention_heads", shape.num_attention_heads, 1 << 10),
        ("intermediate_size", shape.intermediate_size, 1 << 20),
        ("max_position_embeddings", shape.max_position_embeddings, 1 << 20),
        ("type_vocab_size", shape.type_vocab_size, 1 << 10),
    ];
    if let Some((name, value, max)) = ranges.into_iter().find(|(_, value, max)| *value == 0 || value > max) {
        return Err(wrong(format_args!("config.json: {name} is {value}; it is to lie between 1 and {max}")));
    }
    let (hidden, heads) = (shape.hidden_size, shape.num_attention_heads);
    if !hidden.is_multiple_of(heads) {
        return Err(wrong(format_args!("config.json: hidden_size {hidden} cannot be shared by {heads} attention heads")));
    }
    Ok(Config {
        vocab_size: shape.vocab_size,
        hidden_size: hidden,
        num_hidden_layers: shape.num_hidden_layers,
        num_attention_heads: heads,
        intermediate_size: shape.intermediate_size,
        hidden_act,
        // Used in training alone.
        hidden_dropout_prob: 0.0,
        max_position_embeddings: shape.max_position_embeddings,
        type_vocab_size: shape.type_vocab_size,
        initializer_range: 0.02,
        layer_norm_eps: shape.layer_norm_eps,
        pad_token_id: shape.pad_token_id,
        position_embedding_type: PositionEmbeddingType::Absolute,
        use_cache: false,
        classifier_dropout: None,
        model_type: Some("bert".into()),
    })
}

fn pooling(shape: PoolingShape, hidden: usize) -> Result<Pooling, ModelError> {
    let of = "1_Pooling/config.json";
    if let Some(other) = shape.word_embedding_dimension.filter(|d| *d != hidden) {
        return Err(wrong(format_args!("{of} speaks of {other} components, config.json of {hidden}")));
    }
    let other = shape.others.iter().find(|(name, value)| name.starts_with("pooling_mode_") && **value == serde_json::Value::Bool(true));
    match (shape.pooling_mode_mean_tokens, shape.pooling_mode_cls_token, other) {
        (_, _, Some((name, _))) => Err(wrong(format_args!("{of}: {name} is not computed here; means and first tokens are"))),
        (true, false, None) => Ok(Pooling::Mean),
        (false, true, None) => Ok(Pooling::First),
        (true, true, None) | (false, false, None) => {
            Err(wrong(format_args!("{of}: one way of pooling is to be chosen, mean or first token")))
        }
    }
}

/// A model may end with a layer of its own, without which its vectors would be others.
fn only_known_steps(modules: &[Module]) -> Result<(), ModelError> {
    let known = ["Transformer", "Pooling", "Normalize"];
    match modules.iter().find(|m| !known.contains(&m.kind.rsplit('.').next().unwrap_or_default())) {
        Some(module) => Err(wrong(format_args!("modules.json: the step {:?} is not computed here; {known:?} are", module.kind))),
        None => Ok(()),
    }
}

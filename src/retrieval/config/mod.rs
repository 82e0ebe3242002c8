//! How one source is asked: which retriever, how many passages, screened or not. Stored with the database, beside the documents.
//!
//! Strict on write: unknown keys and values out of range are refused, all of them named at once. Lenient on read, field by field: a field that
//! cannot be read has its default, and the others keep what they say.
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | the configurations, their ranges and defaults |
//! | `fields.rs` | JSON to fields: what is read, what is wrong |
//! | `stored.rs` | where they are stored: the companion collection `:sources` |

mod fields;
mod stored;

#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use fields::Fields;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The most passages that can be asked for, of a source or a request.
pub const CHUNKS_MAX: usize = 500;
/// Passages that are asked for when nobody says how many.
pub const CHUNKS_DEFAULT: usize = 2;

/// Who asks a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Exposure {
    /// The dispatcher, before the language model is asked.
    #[default]
    #[serde(rename = "prefetch")]
    Prefetch,
    /// The language model itself, as a tool.
    #[serde(rename = "agentic_tool")]
    AgenticTool,
}

impl Exposure {
    fn parse(text: &str) -> Option<Exposure> {
        match text {
            "prefetch" => Some(Exposure::Prefetch),
            "agentic_tool" => Some(Exposure::AgenticTool),
            _ => None,
        }
    }
}

/// How a language model screens a source's candidates before they are handed on.
///
/// Numbers are 1 to 500, and `max_keep` is at most `candidate_k`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct PreScreenConfig {
    /// Candidates that are fetched and judged. Default: 40.
    pub candidate_k: usize,
    /// The model that judges; the request's own when absent.
    pub model: Option<String>,
    /// Candidates that one call judges. Default: 10.
    pub batch_size: usize,
    /// Candidates that are kept at most. Default: 8.
    pub max_keep: usize,
}

impl Default for PreScreenConfig {
    fn default() -> Self {
        PreScreenConfig { candidate_k: 40, model: None, batch_size: 10, max_keep: 8 }
    }
}

/// How a source is asked.
///
/// ```
/// use triune::retrieval::RetrievalConfig;
/// let config = RetrievalConfig::from_json(&serde_json::json!({"retriever": "hybrid", "chunks": 8}))?;
/// assert_eq!((config.chunks, config.rephrase_query), (8, true));
///
/// let wrong = RetrievalConfig::from_json(&serde_json::json!({"chunk": 8, "chunks": 0})).unwrap_err();
/// assert!(wrong.to_string().contains("\"chunk\" is not known") && wrong.to_string().contains("chunks is 0"));
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct RetrievalConfig {
    /// The registered name of the retriever, in any case. Default: `classic`.
    pub retriever: String,
    /// Who asks. Default: prefetch.
    pub exposure: Exposure,
    /// Passages that the source gives at most, 1 to 500. Default: 2, which stands for the request's share.
    pub chunks: usize,
    /// The least score of an answer of the classic retriever, inclusive; finite. Default: none.
    pub score_threshold: Option<f64>,
    /// Whether the question is rewritten to stand without its history before this source is asked. Default: true.
    pub rephrase_query: bool,
    /// Reserved for a reranker's settings; kept as it is.
    pub reranker: Option<Map<String, Value>>,
    /// Whether and how candidates are screened. Default: not.
    pub prescreen: Option<PreScreenConfig>,
}

impl Default for RetrievalConfig {
    fn default() -> Self {
        RetrievalConfig {
            retriever: "classic".into(),
            exposure: Exposure::default(),
            chunks: CHUNKS_DEFAULT,
            score_threshold: None,
            rephrase_query: true,
            reranker: None,
            prescreen: None,
        }
    }
}

/// How the graph of a source is made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct GraphConfig {
    /// The model that extracts; the caller's own when absent.
    pub extraction_model: Option<String>,
    /// Chunks that one run extracts from at most, at least 1. Default: 2,000.
    pub max_chunks: Option<usize>,
    /// Further questions about a chunk. Accepted, and not used.
    pub gleanings: usize,
}

/// Everything that is configured of a source.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct SourceConfig {
    /// How it is asked.
    pub retrieval: RetrievalConfig,
    /// How its graph is made.
    pub graph: GraphConfig,
}

impl From<RetrievalConfig> for SourceConfig {
    fn from(retrieval: RetrievalConfig) -> SourceConfig {
        SourceConfig { retrieval, graph: GraphConfig::default() }
    }
}

impl From<&RetrievalConfig> for SourceConfig {
    fn from(retrieval: &RetrievalConfig) -> SourceConfig {
        retrieval.clone().into()
    }
}

impl From<&SourceConfig> for SourceConfig {
    fn from(config: &SourceConfig) -> SourceConfig {
        config.clone()
    }
}

/// Gives a configuration its strict and its lenient reader.
macro_rules! readers {
    ($config:ident, $what:literal) => {
        impl $config {
            #[doc = concat!("Reads ", $what, " as it is written: strict.")]
            ///
            /// # Errors
            /// `InvalidArgument` that names every unknown key and every value that is out of range or of another kind.
            pub fn from_json(json: &Value) -> Result<$config> {
                let mut fields = Fields::of(json, "");
                let config = $config::read(&mut fields);
                match fields.finish() {
                    problems if problems.is_empty() => Ok(config),
                    problems => Err(refusal($what, &problems)),
                }
            }

            #[doc = concat!("Reads ", $what, " as it is stored: lenient, field by field. What cannot be read has its default, and is named in the list.")]
            pub fn from_stored(json: &Value) -> ($config, Vec<String>) {
                let mut fields = Fields::of(json, "");
                let config = $config::read(&mut fields);
                (config, fields.finish())
            }

            /// Refuses values out of range.
            ///
            /// # Errors
            /// As [`Self::from_json`].
            pub fn validate(&self) -> Result<()> {
                // JSON has no such number: it would be stored as none.
                let odd = self.threshold().filter(|t| !t.is_finite());
                let mut problems: Vec<String> =
                    odd.map(|t| format!("score_threshold is {t}; it is a finite number, or null")).into_iter().collect();
                let json = serde_json::to_value(self).map_err(|e| Error::InvalidArgument(format!("{} is not JSON: {e}", $what)))?;
                let mut fields = Fields::of(&json, "");
                let _ = $config::read(&mut fields);
                problems.extend(fields.finish());
                if problems.is_empty() { Ok(()) } else { Err(refusal($what, &problems)) }
            }
        }

        impl TryFrom<Value> for $config {
            type Error = Error;
            fn try_from(json: Value) -> Result<$config> {
                $config::from_json(&json)
            }
        }
    };
}

readers!(PreScreenConfig, "a pre-screen configuration");
readers!(RetrievalConfig, "a retrieval configuration");
readers!(GraphConfig, "a graph configuration");
readers!(SourceConfig, "a source's configuration");

fn refusal(what: &str, problems: &[String]) -> Error {
    Error::InvalidArgument(format!("{what} was refused, nothing was changed: {}", problems.join("; ")))
}

impl PreScreenConfig {
    fn threshold(&self) -> Option<f64> {
        None
    }

    fn read(fields: &mut Fields<'_>) -> PreScreenConfig {
        let default = PreScreenConfig::default();
        let config = PreScreenConfig {
            candidate_k: fields.count("candidate_k", default.candidate_k, 1, Some(CHUNKS_MAX)),
            model: fields.optional_text("model"),
            batch_size: fields.count("batch_size", default.batch_size, 1, Some(CHUNKS_MAX)),
            max_keep: fields.count("max_keep", default.max_keep, 1, Some(CHUNKS_MAX)),
        };
        if config.max_keep > config.candidate_k {
            fields.problem(format!("max_keep is {}, more than candidate_k, which is {}", config.max_keep, config.candidate_k));
        }
        config
    }
}

impl RetrievalConfig {
    fn threshold(&self) -> Option<f64> {
        self.score_threshold
    }

    fn read(fields: &mut Fields<'_>) -> RetrievalConfig {
        let default = RetrievalConfig::default();
        let chunks = fields.count("chunks", default.chunks, 1, Some(CHUNKS_MAX));
        RetrievalConfig {
            retriever: fields.text("retriever", &default.retriever),
            exposure: fields
                .value("exposure", default.exposure, "\"prefetch\" or \"agentic_tool\"", |v| v.as_str().and_then(Exposure::parse)),
            chunks,
            score_threshold: fields.optional("score_threshold", "a finite number", |v| v.as_f64().filter(|t| t.is_finite())),
            rephrase_query: fields.value("rephrase_query", default.rephrase_query, "true or false", Value::as_bool),
            reranker: fields.optional("reranker", "an object", |v| v.as_object().cloned()),
            // A screening that is partly wrong is no screening: it costs calls of a model that nobody asked for in that form.
            prescreen: fields.part("prescreen", None, |part| {
                let config = PreScreenConfig::read(part);
                if config.candidate_k < chunks {
                    part.problem(format!("candidate_k is {}, fewer than chunks, which is {chunks}", config.candidate_k));
                }
                Some(config)
            }),
        }
    }

    /// Whether the source is asked in a way of its own. One that says only what is said by default takes its share of what the request asks for.
    pub fn is_override(&self) -> bool {
        self.chunks != CHUNKS_DEFAULT || self.score_threshold.is_some() || !self.rephrase_query || self.prescreen.is_some()
    }

    /// The same source, asked by its graph; everything else stays.
    pub fn graph_enabled(self) -> RetrievalConfig {
        RetrievalConfig { retriever: "graphrag".into(), ..self }
    }

    /// The same source as a wiki: what was fetched ahead is a tool of the model from now on; everything else stays.
    pub fn wiki_enabled(self) -> RetrievalConfig {
        RetrievalConfig { exposure: Exposure::AgenticTool, ..self }
    }
}

impl GraphConfig {
    fn threshold(&self) -> Option<f64> {
        None
    }

    fn read(fields: &mut Fields<'_>) -> GraphConfig {
        GraphConfig {
            extraction_model: fields.optional_text("extraction_model"),
            max_chunks: fields.optional_count("max_chunks", 1),
            gleanings: fields.count("gleanings", 0, 0, None),
        }
    }
}

impl SourceConfig {
    fn threshold(&self) -> Option<f64> {
        self.retrieval.threshold()
    }

    fn read(fields: &mut Fields<'_>) -> SourceConfig {
        SourceConfig { retrieval: fields.nested("retrieval", RetrievalConfig::read), graph: fields.nested("graph", GraphConfig::read) }
    }
}

//! `rerank`: scores of texts against a question, in the shape that Jina and Cohere gave it and vLLM and llama.cpp took over.

use super::embedder::in_order;
use super::{Ask, OpenAiCompatible, Reply};
use crate::connections::batches::{Bounds, batches};
use crate::models::{Call, ModelError, Reranker};
use serde::Deserialize;
use serde_json::{Value, json};

/// Which model of a server scores, and how it is asked. Made by [`RerankerOptions::new`]; every field may be changed.
#[derive(Debug, Clone, PartialEq)]
pub struct RerankerOptions {
    /// The model's name, as the server knows it.
    pub model: String,
    /// Whether the server's scores are probabilities, which are then turned into logits, ln(p / (1 - p)): below 0 is what it holds for rather
    /// not an answer, as [`Reranker::score`] promises. Cohere, Jina and vLLM give probabilities, llama.cpp gives logits.
    pub probabilities: bool,
    /// Texts of one request, at least 1. 256.
    pub batch_texts: usize,
    /// Bytes of text of one request; a longer text goes alone. 512 KiB.
    pub batch_bytes: usize,
}

impl RerankerOptions {
    /// The defaults for a model.
    pub fn new(model: impl Into<String>) -> RerankerOptions {
        RerankerOptions { model: model.into(), probabilities: false, batch_texts: 256, batch_bytes: 512 << 10 }
    }
}

/// A model of a server that scores texts. Each text is scored for itself, so scores of different requests compare.
#[derive(Debug, Clone)]
pub struct HttpReranker {
    server: OpenAiCompatible,
    options: RerankerOptions,
}

impl HttpReranker {
    /// A model of `server`. Nothing is sent yet.
    pub fn new(server: &OpenAiCompatible, options: RerankerOptions) -> HttpReranker {
        HttpReranker { server: server.clone(), options }
    }

    fn request(&self, call: &Call<'_>, query: &str, texts: &[&str]) -> Result<Vec<f64>, ModelError> {
        // Most servers refuse an empty text.
        let documents: Vec<&str> = texts.iter().map(|text| if text.is_empty() { " " } else { text }).collect();
        let body = json!({"model": self.options.model, "query": query, "documents": documents});
        let text_bytes = texts.iter().map(|text| text.len() + query.len()).sum();
        let reply: RerankReply = self.server.post(call, &Ask { path: "rerank", body: &body, text_bytes })?;
        let items = reply.results.into_iter().map(|result| (Some(result.index), result.relevance_score)).collect();
        let malformed = |what: String| ModelError::malformed(format!("rerank of {}: {what}", self.server.host()));
        let scores = in_order(items, texts.len(), "scores").map_err(malformed)?;
        scores.into_iter().enumerate().map(|(at, score)| self.scaled(score).ok_or_else(|| malformed(self.out_of_range(at)))).collect()
    }

    /// The score as a logit where the server gives probabilities; `None` when it is not what the server should give.
    fn scaled(&self, score: f64) -> Option<f64> {
        if !self.options.probabilities {
            return score.is_finite().then_some(score);
        }
        // Certainty has no finite logit; a float of 32 bits, which is what models compute in, has none beyond about 16 either.
        (0.0..=1.0).contains(&score).then(|| {
            let p = score.clamp(1e-7, 1.0 - 1e-7);
            (p / (1.0 - p)).ln()
        })
    }

    fn out_of_range(&self, at: usize) -> String {
        let hint = if self.options.probabilities { "no probability between 0 and 1" } else { "not finite" };
        format!("score {at} is {hint}")
    }
}

impl Reranker for HttpReranker {
    fn name(&self) -> &str {
        &self.options.model
    }

    fn score(&self, call: &Call<'_>, query: &str, texts: &[&str]) -> Result<Vec<f64>, ModelError> {
        call.check()?;
        let bounds = Bounds { texts: self.options.batch_texts.max(1), bytes: self.options.batch_bytes };
        let mut scores = Vec::with_capacity(texts.len());
        for range in batches(texts, bounds) {
            scores.extend(self.request(call, query, &texts[range])?);
        }
        Ok(scores)
    }
}

#[derive(Deserialize)]
struct RerankReply {
    results: Vec<RerankResult>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct RerankResult {
    index: u64,
    #[serde(alias = "score")]
    relevance_score: f64,
}

impl Reply for RerankReply {
    fn usage(&self) -> &Value {
        &self.usage
    }
}

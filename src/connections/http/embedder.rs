//! `embeddings`: vectors of texts.

use super::{Ask, OpenAiCompatible, Reply};
use crate::connections::batches::{Bounds, batches};
use crate::connections::replies::{Components, checked};
use crate::models::{Call, Embedder, ModelError, ModelErrorKind, TextRole};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Which model of a server embeds, and how it is asked. Made by [`EmbedderOptions::new`]; every field may be changed.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbedderOptions {
    /// The model's name, as the server knows it.
    pub model: String,
    /// Components of its vectors. `None`: one word is embedded to see.
    pub dimension: Option<u32>,
    /// Whether `dimension` is sent, for models that can shorten their vectors. Needs a dimension.
    pub send_dimension: bool,
    /// Whether vectors are asked for in base64, a third of the size; both kinds of reply are read in any case.
    pub base64: bool,
    /// Put before every question: `"query: "` for E5, `"search_query: "` for Nomic.
    pub query_prefix: String,
    /// Put before every text that is stored.
    pub document_prefix: String,
    /// Texts of one request, at least 1. 128.
    pub batch_texts: usize,
    /// Bytes of text of one request; a longer text goes alone. 256 KiB.
    pub batch_bytes: usize,
    /// What [`Embedder::fingerprint`] returns, where the name of the model does not say enough. `None`: made of the model's name, the dimension
    /// and the prefixes; not of the server, so that it may move.
    pub fingerprint: Option<String>,
}

impl EmbedderOptions {
    /// The defaults for a model.
    pub fn new(model: impl Into<String>) -> EmbedderOptions {
        EmbedderOptions {
            model: model.into(),
            dimension: None,
            send_dimension: false,
            base64: false,
            query_prefix: String::new(),
            document_prefix: String::new(),
            batch_texts: 128,
            batch_bytes: 256 << 10,
            fingerprint: None,
        }
    }
}

/// A model of a server that embeds.
///
/// An empty text is sent as a blank, because most servers refuse an empty one. Batches go out one after the other.
#[derive(Debug, Clone)]
pub struct HttpEmbedder {
    server: OpenAiCompatible,
    options: EmbedderOptions,
    dimension: u32,
    fingerprint: String,
}

impl HttpEmbedder {
    /// A model of `server`. Asks it for one vector when its dimension is not given.
    ///
    /// # Errors
    /// `Configuration` when the dimension is to be sent and is not given; whatever kept the server from answering.
    pub fn new(server: &OpenAiCompatible, options: EmbedderOptions, call: &Call<'_>) -> Result<HttpEmbedder, ModelError> {
        if options.dimension == Some(0) || (options.send_dimension && options.dimension.is_none()) {
            return Err(ModelError::new(
                ModelErrorKind::Configuration,
                "a dimension that is sent to the server has to be given, and above 0",
            ));
        }
        let given = options.dimension;
        let mut embedder = HttpEmbedder { server: server.clone(), options, dimension: given.unwrap_or(0), fingerprint: String::new() };
        if given.is_none() {
            let probe = embedder.request(call, &["dimension"], TextRole::Document)?;
            embedder.dimension = probe.first().and_then(|v| u32::try_from(v.len()).ok()).unwrap_or(0);
            if embedder.dimension == 0 {
                return Err(ModelError::malformed(format!("embeddings of {}: the model gives empty vectors", server.host())));
            }
        }
        embedder.fingerprint = fingerprint(&embedder.options, embedder.dimension);
        Ok(embedder)
    }

    /// The vectors of one request, whatever their dimension.
    fn request(&self, call: &Call<'_>, texts: &[&str], role: TextRole) -> Result<Vec<Vec<f32>>, ModelError> {
        let prefix = match role {
            TextRole::Query => &self.options.query_prefix,
            TextRole::Document => &self.options.document_prefix,
        };
        let input: Vec<Cow<'_, str>> = texts.iter().map(|text| prefixed(prefix, text)).collect();
        let text_bytes = input.iter().map(|text| text.len()).sum();
        let mut body = Map::new();
        body.insert("model".into(), json!(self.options.model));
        body.insert("input".into(), json!(input));
        body.insert("encoding_format".into(), json!(if self.options.base64 { "base64" } else { "float" }));
        if self.options.send_dimension {
            body.insert("dimensions".into(), json!(self.dimension));
        }
        let reply: EmbeddingsReply = self.server.post(call, &Ask { path: "embeddings", body: &Value::Object(body), text_bytes })?;
        let items = reply.data.into_iter().map(|item| (item.index, item.embedding.0)).collect();
        in_order(items, texts.len(), "vectors").map_err(|e| ModelError::malformed(format!("embeddings of {}: {e}", self.server.host())))
    }
}

impl Embedder for HttpEmbedder {
    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn dimension(&self) -> u32 {
        self.dimension
    }

    fn embed(&self, call: &Call<'_>, texts: &[&str], role: TextRole) -> Result<Vec<Vec<f32>>, ModelError> {
        call.check()?;
        let bounds = Bounds { texts: self.options.batch_texts.max(1), bytes: self.options.batch_bytes };
        let mut vectors = Vec::with_capacity(texts.len());
        let who = format!("embeddings of {}", self.server.host());
        for range in batches(texts, bounds) {
            let count = range.len();
            let batch = self.request(call, &texts[range], role)?;
            vectors.extend(checked(&who, batch, count, self.dimension)?);
        }
        Ok(vectors)
    }
}

fn prefixed<'a>(prefix: &str, text: &'a str) -> Cow<'a, str> {
    match (prefix.is_empty(), text.is_empty()) {
        (true, true) => Cow::Borrowed(" "),
        (true, false) => Cow::Borrowed(text),
        (false, _) => Cow::Owned(format!("{prefix}{text}")),
    }
}

/// `http:MODEL/DIMENSION`, and a hash of the prefixes where there are any.
fn fingerprint(options: &EmbedderOptions, dimension: u32) -> String {
    if let Some(given) = &options.fingerprint {
        return given.clone();
    }
    let mut name = format!("http:{}/{dimension}", options.model);
    if !options.query_prefix.is_empty() || !options.document_prefix.is_empty() {
        let mut hash = Sha256::new();
        hash.update((options.query_prefix.len() as u64).to_le_bytes());
        hash.update(&options.query_prefix);
        hash.update(&options.document_prefix);
        name.push('+');
        name.extend(hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")));
    }
    name
}

/// Puts what a server numbers in the order of what it was asked; what it does not number, none of it, is in order already.
///
/// # Errors
/// What is wrong with the number of items or with their numbers.
pub(super) fn in_order<T>(items: Vec<(Option<u64>, T)>, count: usize, what: &str) -> Result<Vec<T>, String> {
    if items.len() != count {
        return Err(format!("{} {what} for {count} texts", items.len()));
    }
    let numbered = items.iter().filter(|(index, _)| index.is_some()).count();
    if numbered == 0 {
        return Ok(items.into_iter().map(|(_, item)| item).collect());
    }
    let mut ordered: Vec<Option<T>> = (0..count).map(|_| None).collect();
    for (index, item) in items {
        let Some(index) = index else { return Err(format!("{numbered} of {count} {what} are numbered")) };
        let slot = usize::try_from(index).ok().and_then(|at| ordered.get_mut(at));
        let Some(slot) = slot else { return Err(format!("one of {count} {what} has the number {index}")) };
        if slot.replace(item).is_some() {
            return Err(format!("two of {count} {what} have the number {index}"));
        }
    }
    Ok(ordered.into_iter().flatten().collect())
}

#[derive(Deserialize)]
struct EmbeddingsReply {
    data: Vec<EmbeddingItem>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct EmbeddingItem {
    index: Option<u64>,
    embedding: Components,
}

impl Reply for EmbeddingsReply {
    fn usage(&self) -> &Value {
        &self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_numbered_is_put_in_order_and_every_number_is_there_once() {
        let order = |items: &[(Option<u64>, char)], count| in_order(items.to_vec(), count, "vectors");
        assert_eq!(order(&[(Some(2), 'c'), (Some(0), 'a'), (Some(1), 'b')], 3), Ok(vec!['a', 'b', 'c']));
        assert_eq!(order(&[(None, 'a'), (None, 'b')], 2), Ok(vec!['a', 'b']));
        assert_eq!(order(&[], 0), Ok(vec![]));
        assert_eq!(order(&[(Some(0), 'a')], 2), Err("1 vectors for 2 texts".into()));
        assert_eq!(order(&[(Some(0), 'a'), (Some(0), 'b')], 2), Err("two of 2 vectors have the number 0".into()));
        assert_eq!(order(&[(Some(0), 'a'), (Some(u64::MAX), 'b')], 2), Err(format!("one of 2 vectors has the number {}", u64::MAX)));
        assert_eq!(order(&[(Some(0), 'a'), (None, 'b')], 2), Err("1 of 2 vectors are numbered".into()));
    }

    #[test]
    fn a_fingerprint_changes_with_all_that_changes_vectors_and_with_nothing_else() {
        let base = EmbedderOptions::new("m");
        assert_eq!(fingerprint(&base, 8), "http:m/8");
        let query = EmbedderOptions { query_prefix: "q: ".into(), ..base.clone() };
        let document = EmbedderOptions { document_prefix: "q: ".into(), ..base.clone() };
        let all = [&base, &query, &document].map(|o| fingerprint(o, 8));
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2] && fingerprint(&base, 9) != all[0], "{all:?}");
        assert_eq!(fingerprint(&EmbedderOptions { batch_texts: 3, base64: true, ..query }, 8), all[1]);
        assert_eq!(fingerprint(&EmbedderOptions { fingerprint: Some("mine".into()), ..base }, 8), "mine");
    }
}

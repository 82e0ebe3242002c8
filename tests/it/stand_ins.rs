//! Models for tests: small ones that do their work, by rules instead of weights, and ones that misbehave.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use triune::models::{Call, Embedder, LanguageModel, ModelError, ModelErrorKind, Prompt, Reranker, TextRole, Usage};
use triune::{ExtractorKind, extract_entities};

/// The distinct lower-cased words of a text that have four letters or more.
pub fn words(text: &str) -> BTreeSet<String> {
    text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() >= 4).map(String::from).collect()
}

fn shared(query: &str, text: &str) -> usize {
    words(query).intersection(&words(text)).count()
}

/// What stands in each fence of a prompt under a tag.
pub fn fenced(prompt: &str, tag: &str) -> Vec<String> {
    let (open, close) = (format!("<{tag}"), format!("\n```\n</{tag}>"));
    let inner = |part: &str| part.split_once("```\n").and_then(|(_, rest)| rest.split_once(&close)).map(|(text, _)| text.to_string());
    prompt.split(&open).skip(1).filter_map(inner).collect()
}

/// Scores a text by the words that it shares with the question, rarer ones more and long texts less; half a point below zero for none.
pub struct Overlap;

impl Reranker for Overlap {
    fn name(&self) -> &str {
        "overlap"
    }

    fn score(&self, call: &Call<'_>, query: &str, texts: &[&str]) -> Result<Vec<f64>, ModelError> {
        call.check()?;
        let of: Vec<BTreeSet<String>> = texts.iter().map(|text| words(text)).collect();
        let idf = |word: &String| (1.0 + texts.len() as f64 / (1.0 + of.iter().filter(|w| w.contains(word)).count() as f64)).ln();
        let score = |own: &BTreeSet<String>| words(query).intersection(own).map(idf).sum::<f64>() / (1.0 + own.len() as f64 / 50.0) - 0.5;
        Ok(of.iter().map(score).collect())
    }
}

/// Keeps the chunks that share a word with the question, those that share most first, and says so in a sentence.
pub struct Judge;

impl LanguageModel for Judge {
    fn name(&self) -> &str {
        "judge"
    }

    fn complete(&self, call: &Call<'_>, prompt: &Prompt) -> Result<String, ModelError> {
        call.check()?;
        let query = fenced(&prompt.user, "question").concat();
        let mut helpful: Vec<(usize, usize)> =
            fenced(&prompt.user, "chunk").iter().map(|text| shared(&query, text)).enumerate().filter(|(_, shared)| *shared > 0).collect();
        helpful.sort_by_key(|(_, shared)| std::cmp::Reverse(*shared));
        if let Some(usage) = call.usage {
            usage.add(&call.purpose, Usage::of_call(prompt.user.len() as u64 / 4, helpful.len() as u64));
        }
        let keep: Vec<usize> = helpful.into_iter().map(|(index, _)| index).collect();
        Ok(format!("I looked at all of them.\n```json\n{{\"keep\": {keep:?}}}\n```"))
    }
}

/// Finds capitalised names in the fenced text, and relates those that follow one another in a sentence by the word between them.
pub struct Patterns;

impl LanguageModel for Patterns {
    fn name(&self) -> &str {
        "patterns"
    }

    fn complete(&self, call: &Call<'_>, prompt: &Prompt) -> Result<String, ModelError> {
        call.check()?;
        let text = fenced(&prompt.user, "text").concat();
        let names: Vec<String> = extract_entities(ExtractorKind::Compat, &text).into_iter().map(|(name, _)| name).collect();
        let entities: Vec<_> = names.iter().map(|name| serde_json::json!({"name": name, "type": "name"})).collect();
        let mut relationships = Vec::new();
        for sentence in text.split('.') {
            let mut places: Vec<(usize, &String)> = names.iter().filter_map(|name| Some((sentence.find(name.as_str())?, name))).collect();
            places.sort_unstable();
            for pair in places.windows(2) {
                let between = sentence[pair[0].0 + pair[0].1.len()..pair[1].0].trim();
                relationships.push(serde_json::json!({"source": pair[0].1, "target": pair[1].1, "type": between, "weight": 2}));
            }
        }
        if let Some(usage) = call.usage {
            usage.add(&call.purpose, Usage::of_call(text.len() as u64 / 4, 1));
        }
        Ok(serde_json::json!({"entities": entities, "relationships": relationships}).to_string())
    }
}

type Reply = dyn Fn(&Call<'_>, &Prompt, usize) -> Result<String, ModelError> + Send + Sync;

/// Replies as a test says, and writes down what it is asked.
pub struct Scripted {
    reply: Box<Reply>,
    calls: AtomicUsize,
    pub asked: Mutex<Vec<Asked>>,
}

/// One call of a [`Scripted`] model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub purpose: String,
    pub request_id: Option<String>,
    pub model: Option<String>,
    pub user: String,
}

impl Scripted {
    pub fn new(reply: impl Fn(&Call<'_>, &Prompt, usize) -> Result<String, ModelError> + Send + Sync + 'static) -> Scripted {
        Scripted { reply: Box::new(reply), calls: AtomicUsize::new(0), asked: Mutex::default() }
    }

    /// Says the same, whatever it is asked.
    pub fn says(reply: &str) -> Scripted {
        let reply = reply.to_string();
        Scripted::new(move |_, _, _| Ok(reply.clone()))
    }

    /// Fails.
    pub fn fails(kind: ModelErrorKind) -> Scripted {
        Scripted::new(move |_, _, _| Err(ModelError::new(kind, "the server said no")))
    }

    /// Takes longer than anybody waits, and honours that.
    pub fn slow() -> Scripted {
        Scripted::new(|call, _, _| {
            loop {
                call.check()?;
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl LanguageModel for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn complete(&self, call: &Call<'_>, prompt: &Prompt) -> Result<String, ModelError> {
        let asked = Asked {
            purpose: call.purpose.to_string(),
            request_id: call.request_id.map(String::from),
            model: prompt.model.clone(),
            user: prompt.user.clone(),
        };
        self.asked.lock().unwrap().push(asked);
        (self.reply)(call, prompt, self.calls.fetch_add(1, Ordering::SeqCst))
    }
}

/// Gives these scores, however many texts there are, and counts its calls.
pub struct Scores(pub Vec<f64>, pub AtomicUsize);

impl Scores {
    pub fn of(scores: &[f64]) -> Scores {
        Scores(scores.to_vec(), AtomicUsize::new(0))
    }
}

impl Reranker for Scores {
    fn name(&self) -> &str {
        "scores"
    }

    fn score(&self, call: &Call<'_>, _: &str, _: &[&str]) -> Result<Vec<f64>, ModelError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        assert_eq!(call.purpose.as_str(), "rag_rerank");
        if self.0.is_empty() {
            return Err(ModelError::new(ModelErrorKind::Unavailable, "no weights"));
        }
        Ok(self.0.clone())
    }
}

/// Counts letters: near are texts of like spelling.
pub struct Letters(pub &'static str);

impl Embedder for Letters {
    fn fingerprint(&self) -> &str {
        self.0
    }

    fn dimension(&self) -> u32 {
        26
    }

    fn embed(&self, call: &Call<'_>, texts: &[&str], _: TextRole) -> Result<Vec<Vec<f32>>, ModelError> {
        call.check()?;
        Ok(texts.iter().map(|text| letters(text)).collect())
    }
}

/// How often each letter stands in a text.
pub fn letters(text: &str) -> Vec<f32> {
    let text = text.to_lowercase();
    ('a'..='z').map(|letter| text.chars().filter(|c| *c == letter).count() as f32).collect()
}

/// An embedder that cannot be reached.
pub struct Unreachable;

impl Embedder for Unreachable {
    fn fingerprint(&self) -> &str {
        "letters-v1"
    }

    fn dimension(&self) -> u32 {
        26
    }

    fn embed(&self, _: &Call<'_>, _: &[&str], _: TextRole) -> Result<Vec<Vec<f32>>, ModelError> {
        Err(ModelError::new(ModelErrorKind::Unavailable, "nobody there"))
    }
}

//! What stands in for models in the example: real implementations of the four traits, by rules instead of weights. What they know of a language is
//! a list of words that say nothing.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use triune::models::{Call, Embedder, LanguageModel, ModelError, Prompt, Purpose, Reranker, TextRole, TokenCounter, Usage};

/// Components of a vector.
const COMPONENTS: usize = 1024;

const STOP_WORDS: [&str; 40] = [
    "the", "and", "are", "but", "can", "did", "does", "for", "from", "had", "has", "have", "her", "his", "how", "into", "its", "not",
    "one", "only", "other", "she", "that", "their", "them", "then", "there", "they", "this", "was", "were", "what", "when", "where",
    "which", "who", "whose", "will", "with", "you",
];

/// The words of a text that say something, in lower case and without the ending of a plural.
fn words(text: &str) -> impl Iterator<Item = String> {
    let lowered = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    let telling = lowered.filter(|word| word.len() > 2 && !STOP_WORDS.contains(&word.as_str()));
    telling.map(|word| word.strip_suffix('s').filter(|stem| stem.len() > 3).map_or(word.clone(), String::from))
}

/// An embedder without weights: words and their trigrams, each hashed to a place and a sign, damped and brought to unit length.
pub(crate) struct Features;

impl Embedder for Features {
    fn fingerprint(&self) -> &str {
        "words-and-trigrams-v1-1024"
    }

    fn dimension(&self) -> u32 {
        COMPONENTS as u32
    }

    fn embed(&self, call: &Call<'_>, texts: &[&str], _: TextRole) -> Result<Vec<Vec<f32>>, ModelError> {
        call.check()?;
        took(call, texts.iter().copied(), "");
        Ok(texts.iter().map(|text| Features::vector(text)).collect())
    }
}

impl Features {
    fn vector(text: &str) -> Vec<f32> {
        let mut vector = vec![0.0_f32; COMPONENTS];
        let mut add = |feature: &str, weight: f32| {
            // FNV-1a: the same on every machine, so that stored vectors and those of questions agree. The low bit is the sign.
            let hash = feature.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
            vector[(hash >> 33) as usize % COMPONENTS] += if hash & 1 == 0 { weight } else { -weight };
        };
        for word in words(text) {
            add(&word, 1.0);
            let letters: Vec<char> = format!("<{word}>").chars().collect();
            letters.windows(3).for_each(|three| add(&three.iter().collect::<String>(), 0.2));
        }
        vector.iter_mut().for_each(|x| *x = x.signum() * x.abs().sqrt());
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.iter_mut().for_each(|x| *x /= length.max(f32::MIN_POSITIVE));
        vector
    }
}

/// A language model by rules: puts names in the place of pronouns, and judges chunks by the words that they share with a question.
#[derive(Default)]
pub(crate) struct Rules {
    rewritten: Mutex<Vec<String>>,
}

impl Rules {
    /// The questions that it was asked to rewrite, as it rewrote them.
    pub(crate) fn rewritten(&self) -> Vec<String> {
        self.rewritten.lock().map(|log| log.clone()).unwrap_or_default()
    }

    /// The last question of a conversation, with the nouns of the question before it for the words that point back.
    fn condense(&self, conversation: &str) -> String {
        let blocks = |mark: &str| conversation.split(mark).skip(1).filter_map(|rest| rest.split_once("\n>>>")).map(|(text, _)| text).last();
        let (before, question) = (blocks("<<<question\n").unwrap_or_default(), blocks("<<<last question\n").unwrap_or_default());
        let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_string();
        let names = before.split(' ').skip(1).map(bare).filter(|word| word.starts_with(char::is_uppercase));
        let mut nouns: Vec<String> = names.collect();
        if nouns.is_empty() {
            nouns = words(before).collect();
        }
        let named = |word: &str| match bare(word).to_lowercase().as_str() {
            "it" | "he" | "him" | "she" | "they" | "them" => word.replace(&bare(word), &nouns.join(" ")),
            "its" | "his" | "her" | "their" => word.replace(&bare(word), &format!("{}'s", nouns.join(" "))),
            _ => word.to_string(),
        };
        let rewritten = question.split(' ').map(named).collect::<Vec<_>>().join(" ");
        if let Ok(mut log) = self.rewritten.lock() {
            log.push(rewritten.clone());
        }
        rewritten
    }

    /// The numbers of the chunks that hold half of the question's words or more, the most first.
    fn prescreen(prompt: &str) -> String {
        let fenced = |tag: &str| -> Vec<BTreeSet<String>> {
            let texts = prompt.split(tag).skip(1).filter_map(|rest| rest.split_once("```\n")?.1.split_once("\n```\n"));
            texts.map(|(text, _)| words(text).collect()).collect()
        };
        let question = fenced("<question").pop().unwrap_or_default();
        let shared = fenced("<chunk").into_iter().map(|chunk| chunk.intersection(&question).count()).enumerate();
        let mut keep: Vec<(usize, usize)> = shared.filter(|(_, shared)| *shared > 0 && shared * 2 >= question.len()).collect();
        keep.sort_by_key(|(_, shared)| std::cmp::Reverse(*shared));
        serde_json::json!({"keep": keep.into_iter().map(|(number, _)| number).collect::<Vec<_>>()}).to_string()
    }
}

impl LanguageModel for Rules {
    fn name(&self) -> &str {
        "rules"
    }

    fn complete(&self, call: &Call<'_>, prompt: &Prompt) -> Result<String, ModelError> {
        call.check()?;
        let reply = if call.purpose == Purpose::CONDENSE { self.condense(&prompt.user) } else { Rules::prescreen(&prompt.user) };
        took(call, [prompt.system.as_str(), prompt.user.as_str()], &reply);
        Ok(reply)
    }
}

/// A reranker that knows how rare each word is: BM25 as a share of what the question could get, on a scale on which a third of it is 0.
pub(crate) struct Rarity {
    texts: f64,
    mean_length: f64,
    holding: HashMap<String, f64>,
}

impl Rarity {
    /// Counts the words of all texts.
    pub(crate) fn of<'a>(texts: impl Iterator<Item = &'a str>) -> Rarity {
        let mut rarity = Rarity { texts: 0.0, mean_length: 0.0, holding: HashMap::new() };
        for text in texts {
            let all: Vec<String> = words(text).collect();
            rarity.texts += 1.0;
            rarity.mean_length += (all.len() as f64 - rarity.mean_length) / rarity.texts;
            all.into_iter().collect::<BTreeSet<_>>().into_iter().for_each(|word| *rarity.holding.entry(word).or_default() += 1.0);
        }
        rarity
    }

    fn idf(&self, word: &str) -> f64 {
        let holding = self.holding.get(word).copied().unwrap_or_default();
        (1.0 + (self.texts - holding + 0.5) / (holding + 0.5)).ln()
    }
}

impl Reranker for Rarity {
    fn name(&self) -> &str {
        "rarity"
    }

    fn score(&self, call: &Call<'_>, query: &str, texts: &[&str]) -> Result<Vec<f64>, ModelError> {
        call.check()?;
        took(call, texts.iter().copied().chain([query]), "");
        let asked: BTreeSet<String> = words(query).collect();
        let most: f64 = asked.iter().map(|word| self.idf(word)).sum();
        let score = |text: &&str| {
            let own: Vec<String> = words(text).collect();
            let flattened = 1.2 * (0.25 + 0.75 * own.len() as f64 / self.mean_length.max(1.0));
            let gain = |word: &String| {
                let times = own.iter().filter(|own| *own == word).count() as f64;
                self.idf(word) * times * 2.2 / (times + flattened)
            };
            6.0 * asked.iter().map(gain).sum::<f64>() / most.max(f64::MIN_POSITIVE) - 2.0
        };
        Ok(texts.iter().map(score).collect())
    }
}

/// Counts like a vocabulary of word pieces: a word takes a token for every six letters begun, every other mark one of its own.
pub(crate) struct Pieces;

impl TokenCounter for Pieces {
    fn name(&self) -> &str {
        "pieces"
    }

    fn count(&self, text: &str) -> usize {
        let marks = text.chars().filter(|c| !c.is_alphanumeric() && !c.is_whitespace()).count();
        marks + text.split(|c: char| !c.is_alphanumeric()).map(|word| word.chars().count().div_ceil(6)).sum::<usize>()
    }
}

/// Adds what a call took to its ledger, as an implementation of any of the traits does.
fn took<'a>(call: &Call<'_>, read: impl IntoIterator<Item = &'a str>, written: &str) {
    let tokens = |text: &str| Pieces.count(text) as u64;
    if let Some(usage) = call.usage {
        usage.add(&call.purpose, Usage::of_call(read.into_iter().map(tokens).sum(), tokens(written)));
    }
}

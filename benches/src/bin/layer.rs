//! What the retrieval layer costs over the calls of a snapshot that it makes: `cargo run --release -p triune-benches --bin layer -- --data FOLDER`.
//!
//! FOLDER holds `docs.jsonl` and `vectors.npy`. Texts are stored with their vectors and asked for by others of the corpus, whose vectors are known,
//! to an embedder that looks them up for either side. Both sides find the same candidates, read the same documents and take turns, round by
//! round; that they give the same ids and texts in the same order is checked for each question. What is printed: the medians over the questions, each
//! at its best of the rounds, and their ratio.

#![allow(clippy::print_stdout, reason = "a measuring program prints what it measured")]

use clap::Parser;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use triune::models::{Call, Embedder, ModelError, TextRole};
use triune::ranking::Scored;
use triune::retrieval::fusion::{CONSTANT, WeightedList, reciprocal_rank_fusion};
use triune::retrieval::{CollectionStore, Dispatcher, Models, Question, RetrievalConfig, SourceEntry, Stores};
use triune::{Collection, Database, Document, Effort, Schema};
use triune_benches::{Corpus, Failure, Timings};

/// Rounds, each of all questions by both sides.
const ROUNDS: usize = 10;
/// Passages of an answer.
const TOP: usize = 10;
/// Candidates of a leg, as the layer takes them for as many passages.
const CANDIDATES: usize = 20;

#[derive(Parser)]
struct Arguments {
    /// Folder with docs.jsonl and vectors.npy.
    #[arg(long)]
    data: PathBuf,
    /// Documents.
    #[arg(long, value_delimiter = ',', default_value = "5000,100000")]
    documents: Vec<usize>,
    /// Questions.
    #[arg(long, default_value_t = 1_000)]
    questions: usize,
}

/// An embedder that has seen every question before.
struct Seen(HashMap<String, Vec<f32>>);

impl Embedder for Seen {
    fn fingerprint(&self) -> &str {
        "seen-v1"
    }

    fn dimension(&self) -> u32 {
        self.0.values().next().map_or(0, |vector| vector.len() as u32)
    }

    fn embed(&self, _: &Call<'_>, texts: &[&str], _: TextRole) -> Result<Vec<Vec<f32>>, ModelError> {
        Ok(texts.iter().map(|text| self.0[*text].clone()).collect())
    }
}

fn main() -> Result<(), Failure> {
    let a = Arguments::parse();
    let corpus = Corpus::read(&a.data)?;
    for &documents in &a.documents {
        let questions: Vec<usize> = (documents..corpus.texts.len()).take(a.questions).collect();
        if questions.is_empty() {
            return Err(format!("{documents} documents of {} leave no question", corpus.texts.len()).into());
        }
        measure(&corpus, documents, &questions)?;
    }
    Ok(())
}

fn measure(corpus: &Corpus, documents: usize, questions: &[usize]) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let db = Database::create(folder.path().join("db"))?;
    db.create_collection("main", Schema { dimension: Some(corpus.dimension as u32), ..Schema::default() })?;
    let document = |i: usize| Document::new(i.to_string()).text(corpus.texts[i].as_str()).vector(corpus.vector(i)).source("main");
    for begin in (0..documents).step_by(2_000) {
        db.put("main", (begin..documents.min(begin + 2_000)).map(document).collect::<Vec<_>>())?;
    }
    db.compact()?;
    let snapshot = db.snapshot();
    let seen = questions.iter().map(|&i| (corpus.texts[i].clone(), corpus.vector(i).to_vec())).collect();
    let embedder: Arc<dyn Embedder> = Arc::new(Seen(seen));
    let models = Models { embedder: Some(embedder.clone()), ..Models::default() };
    let dispatcher = Dispatcher::new(Stores::all_in(Arc::new(CollectionStore::new(&snapshot, "main")?)), models);
    let collection = snapshot.collection("main")?;
    for retriever in ["classic", "hybrid"] {
        let (mut bare, mut layer) = (Best::of(questions.len()), Best::of(questions.len()));
        let by_calls = |i: usize| calls(&collection, retriever, &corpus.texts[i], embedder.as_ref());
        let by_layer = |i: usize| ask(&dispatcher, retriever, &corpus.texts[i]);
        for round in 0..ROUNDS {
            // All questions by one side, then all by the other: who asked the same question just before would find everything in the caches.
            let (expected, found) = if round % 2 == 0 {
                let expected = bare.round(questions, by_calls)?;
                (expected, layer.round(questions, by_layer)?)
            } else {
                let found = layer.round(questions, by_layer)?;
                (bare.round(questions, by_calls)?, found)
            };
            if let Some(at) = (0..questions.len()).find(|&at| expected[at] != found[at]) {
                return Err(format!("question {}: the layer and the calls differ", questions[at]).into());
            }
        }
        let (bare, layer) = (bare.timings(), layer.timings());
        let more = (layer.median_ms() / bare.median_ms() - 1.0) * 100.0;
        println!("{documents} documents, {retriever}: the layer {more:+.1} % at the median");
        println!("    calls {}", bare.summary());
        println!("    layer {}", layer.summary());
    }
    db.close()?;
    Ok(())
}

/// The best time of each question: what others do on the machine makes single ones longer, never shorter.
struct Best(Vec<Duration>);

impl Best {
    fn of(questions: usize) -> Best {
        Best(vec![Duration::MAX; questions])
    }

    /// Asks every question once.
    fn round(&mut self, questions: &[usize], ask: impl Fn(usize) -> Result<Found, Failure>) -> Result<Vec<Found>, Failure> {
        let timed = |(best, &i): (&mut Duration, &usize)| {
            let begun = Instant::now();
            let found = ask(i);
            *best = begun.elapsed().min(*best);
            found
        };
        self.0.iter_mut().zip(questions).map(timed).collect()
    }

    fn timings(self) -> Timings {
        let mut timings = Timings::default();
        self.0.into_iter().for_each(|best| timings.push(best));
        timings
    }
}

/// The ids and texts of an answer.
type Found = Vec<(String, String)>;

fn ask(dispatcher: &Dispatcher, retriever: &str, text: &str) -> Result<Found, Failure> {
    let config = RetrievalConfig { retriever: retriever.into(), chunks: TOP, ..RetrievalConfig::default() };
    let question = Question { sources: vec![SourceEntry::with("main", config)], chunks: TOP, ..Question::new(text) };
    let answer = dispatcher.ask(&question);
    match answer.errors.into_iter().next() {
        Some(error) => Err(error.to_string().into()),
        None => Ok(answer.passages.into_iter().map(|p| (p.id, p.text)).collect()),
    }
}

/// The same by hand.
fn calls(collection: &Collection, retriever: &str, text: &str, embedder: &dyn Embedder) -> Result<Found, Failure> {
    let vector = embedder.embed_one(&Call::default(), text, TextRole::Query)?;
    let named =
        |hits: Vec<Scored>| hits.into_iter().map(|hit| Ok((collection.id_of(&hit)?, hit))).collect::<Result<Vec<_>, triune::Error>>();
    let mut hits = named(collection.nearest_with(&vector, None, CANDIDATES, Effort::DEFAULT)?)?;
    let mut best: Vec<String> = hits.iter().map(|(id, _)| id.clone()).collect();
    if retriever == "hybrid" {
        let by_text = named(collection.best_texts(text, None, None, CANDIDATES)?)?;
        let keys: Vec<String> = by_text.iter().map(|(id, _)| id.clone()).collect();
        let lists = [WeightedList { keys: &best, weight: 1.0 }, WeightedList { keys: &keys, weight: 1.0 }];
        best = reciprocal_rank_fusion(&lists, CONSTANT, TOP).into_iter().map(|fused| fused.key).collect();
        hits.extend(by_text);
    }
    best.truncate(TOP);
    let read = |id: String| -> Result<(String, String), Failure> {
        let (_, hit) = hits.iter().find(|(found, _)| *found == id).ok_or("what was fused was found")?;
        let document = collection.document_of(hit)?;
        Ok((id, document.text.into()))
    };
    best.into_iter().map(read).collect()
}

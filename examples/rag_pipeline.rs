//! From files to cited answers, without a network: `cargo run --example rag_pipeline`.
//!
//! A conversation over three sources, each asked in its own way: the guide by vectors, the reference by vectors and texts and then screened, people
//! by the graph of their names. What stands in for models is beside this file, in `rag_pipeline/models.rs`: small, but it does the work.

#![allow(clippy::print_stdout, reason = "an example prints what it found")]

#[path = "rag_pipeline/models.rs"]
mod models;

use models::{Features, Pieces, Rarity, Rules};
use std::collections::BTreeSet;
use std::error::Error;
use std::fs::read_to_string;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use triune::models::{Call, Embedder, Purpose, TextRole, TokenCounter, Usage, UsageLedger};
use triune::retrieval::stages::{PreScreenStage, RerankStage};
use triune::retrieval::{Answer, CollectionStore, Dispatcher, Models, Passage, Pipeline, PipelineQuestion, PreScreenConfig, Question};
use triune::retrieval::{RetrievalConfig, ScoreKind, SourceEntry, Stage, StageContext, Stores, Sufficiency, Turn, spendable};
use triune::{Database, Document, Metadata, Schema, WriteBatch};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The sources, in the order in which they are asked.
const SOURCES: [&str; 3] = ["guide", "reference", "people"];
/// The conversation. Two of its questions say nothing without the one before.
const QUESTIONS: [&str; 4] = [
    "What does a reader check in a slot of HEAD?",
    "Which checksum guards it?",
    "How did Osthryth die?",
    "Of which kingdoms was her father king?",
];
/// Tokens that the passages of one answer may take in the prompt of whoever writes it.
const LIMIT: usize = 4_000;

/// Public, so that a test can run it.
pub fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let db = Database::create(folder.path().join("library"))?;
    let rarity = ingest(&db)?;

    let rules = Arc::new(Rules::default());
    let reranker = Arc::new(rarity);
    let store = Arc::new(CollectionStore::new(&db.snapshot(), "library")?);
    let models = Models { embedder: Some(Arc::new(Features)), language_model: Some(rules.clone()), counter: Some(Arc::new(Pieces)) };
    // How a source is asked was stored with it. What runs over everything that was found is said here.
    let dispatcher = Dispatcher::new(Stores::all_in(store), models)
        .with_screens(PreScreenStage::maker(rules.clone()))
        .with_stage(Arc::new(RerankStage::new(reranker.clone())))
        .with_stage(Arc::new(Answering));

    converse(&dispatcher, &rules)?;
    too_late(&dispatcher);
    enough(&db, reranker)?;
    db.close()?;
    Ok(())
}

/// A stage of our own: what the reranker holds for no answer is not worth its tokens.
struct Answering;

impl Stage for Answering {
    fn name(&self) -> &str {
        "answering"
    }

    fn apply(&self, _: &StageContext<'_>, mut passages: Vec<Passage>) -> triune::Result<Vec<Passage>> {
        // A score that is absent says nothing against a passage: the reranker failed, and that is reported.
        passages.retain(|passage| passage.rerank_score.is_none_or(|score| score >= 0.0));
        Ok(passages)
    }
}

// ---- Files become documents.

/// Fills the three sources, and gives what the reranker has to know of all texts.
fn ingest(db: &Database) -> Outcome<Rarity> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec!["README.md".to_string()];
    for entry in root.join("docs").read_dir()? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        pages.extend(name.ends_with(".md").then(|| format!("docs/{name}")));
    }
    // Folders are listed in any order; the same files shall give the same database.
    pages.sort();
    let mut documents: [Vec<Document>; 3] = Default::default();
    for page in &pages {
        documents[0].extend(chunks(page, &read_to_string(root.join(page))?)?);
    }
    documents[1] = chunks("format-spec.md", &read_to_string(root.join("format-spec.md"))?)?;
    for line in read_to_string(root.join("demo/passages.jsonl"))?.lines() {
        let passage: serde_json::Value = serde_json::from_str(line)?;
        let field = |name: &str| passage[name].as_str().unwrap_or_default();
        for (i, piece) in sentences(field("text")).iter().enumerate() {
            let (id, title) = (format!("people#{}.{i}", field("id")), field("title"));
            documents[2].push(document(&id, title, "demo/passages.jsonl", &format!("{title}: {piece}"))?);
        }
    }
    let rarity = Rarity::of(documents.iter().flatten().map(|document| document.text.as_str()));

    let screened = PreScreenConfig { candidate_k: 20, batch_size: 5, max_keep: 3, ..PreScreenConfig::default() };
    let config = |retriever: &str, chunks| RetrievalConfig { retriever: retriever.into(), chunks, ..RetrievalConfig::default() };
    let configs = [config("classic", 4), RetrievalConfig { prescreen: Some(screened), ..config("hybrid", 4) }, config("graphrag", 8)];
    // Documents and how they are asked are one commit: nobody ever sees the one without the other. The collection's extractor, `compat` unless said
    // otherwise, finds the names in each text; they are the graph.
    let mut batch = WriteBatch::new();
    batch.create_collection("library", Schema { embedder: Some(Features.fingerprint().into()), ..Schema::default() });
    for ((source, documents), config) in SOURCES.into_iter().zip(documents).zip(configs) {
        println!("{source}: {} documents, {}", documents.len(), config.retriever);
        batch.replace_source("library", source, documents);
        batch.configure_source("library", source, config)?;
    }
    db.commit(batch)?;
    Ok(rarity)
}

/// A page in pieces of a few paragraphs that stand under one heading. A table that is long is cut between its rows.
fn chunks(page: &str, text: &str) -> Outcome<Vec<Document>> {
    let (mut pieces, mut piece, mut heading, mut in_code) = (Vec::new(), String::new(), String::new(), false);
    for line in text.lines().chain(["# "]) {
        in_code ^= line.starts_with("```");
        let is_heading = line.starts_with('#') && !in_code;
        let is_full = piece.len() > 700 || (piece.len() > 350 && line.is_empty() && !in_code);
        if (is_heading || is_full) && !piece.trim().is_empty() {
            let text = format!("{heading}\n{}", std::mem::take(&mut piece).trim());
            pieces.push(document(&format!("{page}#{}", pieces.len()), &heading, page, &text)?);
        }
        if is_heading {
            heading = line.trim_start_matches('#').trim().into();
        } else {
            piece.push_str(line);
            piece.push('\n');
        }
    }
    Ok(pieces)
}

/// A passage in pieces of whole sentences. Each is cited alone, so that a long one does not take the budget of all others.
fn sentences(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = vec![String::new()];
    for sentence in text.split_inclusive(". ") {
        match pieces.last_mut() {
            Some(piece) if piece.len() + sentence.len() <= 600 => piece.push_str(sentence),
            _ => pieces.push(sentence.to_string()),
        }
    }
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces
}

/// Title and source in the metadata are what the passage is cited by.
fn document(id: &str, title: &str, source: &str, text: &str) -> Outcome<Document> {
    let vector = Features.embed_one(&Call::default().with_purpose(Purpose::EMBED_DOCUMENTS), text, TextRole::Document)?;
    let metadata = Metadata::from_json(serde_json::json!({"title": title, "source": source}).to_string())?;
    Ok(Document::new(id).text(text).vector(vector).metadata(metadata))
}

// ---- Questions become passages.

/// Asks one question after the other, each with those before it as its history.
fn converse(dispatcher: &Dispatcher, rules: &Rules) -> Outcome<()> {
    let (usage, mut history, mut cited) = (UsageLedger::default(), Vec::new(), BTreeSet::new());
    let mut people = Vec::new();
    for (turn, text) in QUESTIONS.into_iter().enumerate() {
        let request_id = format!("turn-{turn}");
        let deadline = Some(Instant::now() + Duration::from_secs(30));
        let call = Call { request_id: Some(&request_id), deadline, usage: Some(&usage), ..Call::default() };
        let answer = ask(dispatcher, text, &history, LIMIT, call);
        println!("\n> {text}");
        print(&answer);
        check(&answer);
        cited.extend(answer.passages.iter().map(|passage| passage.source_id.clone()));
        // An application would now let its language model write an answer from the passages. Here the citations are the answer.
        let titles: Vec<&str> = answer.passages.iter().map(|passage| passage.title.as_str()).collect();
        history.push(Turn::new(text, titles.join("; ")));
        people = answer.passages.into_iter().filter(|passage| passage.source_id == "people").collect::<Vec<_>>();
    }

    println!("\nwhat models took:");
    for (purpose, Usage { calls, prompt_tokens, completion_tokens }) in usage.by_purpose() {
        println!("  {purpose}: {calls} calls, {prompt_tokens} tokens read, {completion_tokens} written");
    }
    println!("the questions after the first one, as the sources were asked: {:#?}", rules.rewritten());
    // The first question has no history. All others were rewritten when the first source wanted that, for all three at once.
    assert_eq!(rules.rewritten(), ["Which checksum guards HEAD?", QUESTIONS[2], "Of which kingdoms was Osthryth's father king?"]);
    assert_eq!(usage.by_purpose()[&Purpose::CONDENSE].calls, 3);
    assert!(usage.by_purpose()[&Purpose::PRESCREEN].calls >= 4, "the reference is screened at every turn");
    assert_eq!(cited.iter().map(String::as_str).collect::<Vec<_>>(), ["guide", "people", "reference"], "every source was of use");

    // The last question names nobody. The walk began at the name that the rewritten one has, and led on to the page of another one.
    let is_led_to = |p: &Passage| p.title != "Osthryth" && p.score_kind == Some(ScoreKind::Graph);
    assert!(people.iter().any(is_led_to));
    // Without the history there is no name to begin with, and the vectors of that source have to do.
    let alone = ask(dispatcher, QUESTIONS[3], &[], LIMIT, Call::default());
    assert!(alone.notes.iter().any(|note| note.contains("its graph gave nothing")), "{:?}", alone.notes);
    // A sixth of the tokens holds fewer passages, and whole ones.
    let short = ask(dispatcher, QUESTIONS[3], &history[..3], LIMIT / 6, Call::default());
    assert!((1..people.len()).contains(&short.passages.len()) && short.passages.iter().map(cost).sum::<usize>() < spendable(LIMIT / 6));
    Ok(())
}

fn ask(dispatcher: &Dispatcher, text: &str, history: &[Turn], limit: usize, call: Call<'_>) -> Answer {
    let sources = SOURCES.map(SourceEntry::stored).into();
    dispatcher.ask(&Question { history, sources, token_limit: Some(limit), call, ..Question::new(text) })
}

/// The citations, and what there is to say beside them.
fn print(answer: &Answer) {
    for (i, passage) in answer.passages.iter().enumerate() {
        let Passage { title, source, filename, source_id, .. } = passage;
        let legs: Vec<&str> = passage.provenance.iter().map(|finding| finding.retriever.as_str()).collect();
        let score = passage.rerank_score.unwrap_or_default();
        println!(
            "  [{}] {title}, {source} ({filename}): {source_id} by {}, {score:+.2}, {} tokens",
            i + 1,
            legs.join(" and "),
            cost(passage)
        );
    }
    let spent: usize = answer.passages.iter().map(cost).sum();
    println!("  {spent} tokens of {} spent", spendable(LIMIT));
    answer.notes.iter().for_each(|note| println!("  note: {note}"));
    answer.errors.iter().for_each(|error| println!("  error: {error}"));
}

/// What a passage takes of the budget: its file's name is shown to the language model too.
fn cost(passage: &Passage) -> usize {
    Pieces.count(&format!("{}\n{}", passage.filename, passage.text))
}

/// What holds for every answer of the conversation.
fn check(answer: &Answer) {
    assert!(answer.errors.is_empty() && !answer.passages.is_empty());
    assert!(answer.passages.iter().map(cost).sum::<usize>() < spendable(LIMIT));
    assert!(answer.passages.is_sorted_by(|a, b| a.rerank_score >= b.rerank_score), "the best stands first, from whatever source");
    let gave_way = answer.notes.iter().any(|note| note.contains("its graph gave nothing"));
    for passage in &answer.passages {
        let expected = match passage.source_id.as_str() {
            "reference" => ScoreKind::Rrf,
            "people" if !gave_way => ScoreKind::Graph,
            _ => ScoreKind::CosineSimilarity,
        };
        assert_eq!(passage.score_kind, Some(expected), "{}: answered by another retriever than its own", passage.source_id);
        assert!(!passage.title.is_empty() && !passage.source.is_empty() && !passage.filename.is_empty());
    }
}

/// A deadline that is past is no panic and no silence: nothing is found, and every source says why.
fn too_late(dispatcher: &Dispatcher) {
    let answer = ask(dispatcher, QUESTIONS[0], &[], LIMIT, Call { deadline: Some(Instant::now()), ..Call::default() });
    println!("\n> the same when it is too late");
    print(&answer);
    assert!(answer.passages.is_empty());
    assert!(SOURCES.iter().all(|source| answer.errors.iter().any(|e| e.source_id.as_deref() == Some(source))));
}

/// One collection in one call, and whether what it holds is enough. What follows from that is the application's affair: here it looks elsewhere.
fn enough(db: &Database, reranker: Arc<Rarity>) -> Outcome<()> {
    let pipeline = Pipeline { embedder: Some(Arc::new(Features)), reranker: Some(reranker), ..Pipeline::default() };
    let library = db.snapshot().collection("library")?;
    let known = pipeline.ask(&library, &PipelineQuestion::new(QUESTIONS[2]));
    println!("\n> {}\n  {:?}, found {:?}", QUESTIONS[2], known.sufficiency, known.found);
    assert!(known.sufficiency.is_sufficient() && known.errors.is_empty());

    let question = PipelineQuestion::new("How long does sourdough rye bread ferment before baking?");
    let unknown = pipeline.ask(&library, &question);
    println!("> {}\n  {:?}", question.text, unknown.sufficiency);
    assert!(matches!(unknown.sufficiency, Sufficiency::BelowZero(_)));

    let text = "Rye bread with sourdough has to ferment for fifteen hours or so; baking takes one more.";
    let external = vec![Passage::external("web", "https://example.org/rye", "Rye", text, 0, 0.7)?];
    // The question is not embedded again.
    let again = pipeline.ask(&library, &PipelineQuestion { vector: unknown.vector, external, ..question });
    println!("  with the web: {:?}, best from {}", again.sufficiency, again.passages[0].source);
    assert!(again.sufficiency.is_sufficient() && again.passages[0].score_kind == Some(ScoreKind::External));
    Ok(())
}

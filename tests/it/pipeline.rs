//! The pipeline of one call: three retrievers, merged, reranked, with a word on whether that is enough. One test a promise.

use crate::stand_ins::{Letters, Overlap, Scores, Unreachable, letters};
use std::sync::Arc;
use triune::io::SimDirectory;
use triune::models::{Call, Cancellation};
use triune::retrieval::stages::Order;
use triune::retrieval::{Passage, Pipeline, PipelineAnswer, PipelineQuestion, ScoreKind, Sufficiency};
use triune::{Collection, Database, Document, ErrorCode, Filter, Metadata, Options, Schema};

const QUESTION: &str = "Where did Marie Curie find Radium";

/// Thirty notes that name the entities of the question, all different.
fn notes() -> Collection {
    collection((0..30).map(|i| {
        let text = format!("Note {i}: Marie Curie found Radium, she said {}.", "again ".repeat(i));
        Document::new(format!("n{i}")).vector(letters(&text)).text(text)
    }))
}

fn collection(documents: impl IntoIterator<Item = Document>) -> Collection {
    let options = Options { background: false, ..Options::default() };
    let db = Database::create_with(Arc::new(SimDirectory::new()), options).unwrap();
    db.create_collection("notes", Schema { embedder: Some("letters-v1".into()), ..Schema::default() }).unwrap();
    db.put("notes", documents.into_iter().collect()).unwrap();
    db.snapshot().collection("notes").unwrap()
}

fn with_letters() -> Pipeline {
    Pipeline { embedder: Some(Arc::new(Letters("letters-v1"))), ..Pipeline::default() }
}

fn ask(pipeline: &Pipeline, collection: &Collection) -> PipelineAnswer {
    pipeline.ask(collection, &PipelineQuestion::new(QUESTION))
}

fn ids(passages: &[Passage]) -> Vec<&str> {
    passages.iter().map(|p| p.id.as_str()).collect()
}

fn steps(answer: &PipelineAnswer) -> Vec<(&str, ErrorCode)> {
    answer.errors.iter().map(|e| (e.step.as_str(), e.error.code())).collect()
}

#[test]
fn ten_by_vector_ten_by_text_and_five_by_graph_are_merged_and_the_best_five_kept() {
    let answer = ask(&Pipeline { reranker: Some(Arc::new(Overlap)), ..with_letters() }, &notes());
    assert_eq!(answer.found, [("vector", 10), ("text", 10), ("graph", 5), ("external", 0)]);
    assert!(answer.candidates <= 25 && answer.candidates >= 10);
    assert_eq!((answer.passages.len(), answer.errors.len(), answer.notes.len()), (5, 0, 0));
    let scores: Vec<f64> = answer.passages.iter().map(|p| p.rerank_score.unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    let findings: usize = answer.passages.iter().map(|p| p.provenance.len()).sum();
    assert!(findings > 5, "what several retrievers found keeps all their findings");
    assert_eq!(answer.vector, Some(letters(QUESTION)));
}

#[test]
fn the_graph_gives_half_of_what_the_others_give_and_three_at_least() {
    let pipeline = |k| (Pipeline::with_k(k).vector_k, Pipeline::with_k(k).text_k, Pipeline::with_k(k).graph_k);
    assert_eq!((pipeline(10), pipeline(4), pipeline(0), pipeline(21)), ((10, 10, 5), (4, 4, 3), (0, 0, 3), (21, 21, 10)));
}

#[test]
fn a_passage_is_of_the_source_of_its_document() {
    let documents = [Document::new("a").text("Radium of the one").source("one.txt"), Document::new("b").text("Radium of none")];
    let answer = Pipeline::default().ask(&collection(documents), &PipelineQuestion::new("Radium"));
    let mut told: Vec<_> = answer.passages.iter().map(|p| (p.id.as_str(), p.source.as_str(), p.source_id.as_str())).collect();
    told.sort_unstable();
    assert_eq!(told, [("a", "one.txt", "one.txt"), ("b", "notes", "notes")]);
    assert!(answer.passages.iter().all(|p| p.provenance.iter().all(|found| found.source == "notes")));
}

#[test]
fn a_question_without_a_direction_is_near_to_nothing() {
    let question = PipelineQuestion { vector: Some(vec![0.0; 26]), ..PipelineQuestion::new("") };
    let answer = with_letters().ask(&notes(), &question);
    assert_eq!((answer.found[0], answer.passages.len(), answer.sufficiency), (("vector", 0), 0, Sufficiency::NoContext));
    assert!(answer.notes[0].contains("zero") && answer.errors.is_empty(), "{:?}", answer.notes);
}

#[test]
fn without_a_reranker_the_order_is_rank_fusion_or_raw_scores_where_those_are_wanted() {
    let documents = [
        Document::new("words").text("Radium, Radium find").vector([0.1, 1.0]),
        Document::new("near").text("bees").vector([1.0, 0.0]),
        Document::new("nearer to both").text("find it").vector([0.9, 0.3]),
    ];
    let notes = collection(documents);
    let question = PipelineQuestion { vector: Some(vec![1.0, 0.0]), ..PipelineQuestion::new("find Radium") };
    let fused = Pipeline::default().ask(&notes, &question);
    // Third by vector, first by text and by graph.
    assert_eq!(ids(&fused.passages), ["words", "nearer to both", "near"]);
    assert!(fused.passages.iter().all(|p| p.rerank_score.is_none()));
    let raw = Pipeline { order: Order::RawScore, ..Pipeline::default() }.ask(&notes, &question);
    let scores: Vec<f64> = raw.passages.iter().map(|p| p.score.unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    // The graph's 2.0 is the greatest that the passage has.
    assert_eq!((raw.passages[0].score, raw.passages[0].score_kind), (Some(2.0), Some(ScoreKind::Graph)));
}

#[test]
fn passages_from_elsewhere_take_part_as_any_other() {
    let web = Passage::external("web", "https://example.org/curie", "Curie", "Marie Curie did find Radium in Paris.", 0, 0.7).unwrap();
    let same = Passage::external("web", "https://example.org/copy", "Copy", "bees", 1, 0.7).unwrap();
    assert!(Passage::external("web", "", "", "", 0, f64::NAN).is_err());
    let notes = collection([Document::new("bees").text("bees").vector(letters("bees"))]);
    let question = PipelineQuestion { external: vec![web, same], ..PipelineQuestion::new(QUESTION) };
    let answer = Pipeline { reranker: Some(Arc::new(Overlap)), ..with_letters() }.ask(&notes, &question);
    assert_eq!((answer.found[3], answer.candidates), (("external", 2), 2));
    assert_eq!(
        (answer.passages[0].source.as_str(), answer.passages[0].score_kind),
        ("https://example.org/curie", Some(ScoreKind::External))
    );
    let findings: Vec<&str> = answer.passages[1].provenance.iter().map(|f| f.retriever.as_str()).collect();
    assert_eq!(findings, ["vector", "web"]);
}

#[test]
fn sufficiency_is_said_of_an_answer_and_nothing_follows_from_it() {
    let notes = collection([Document::new("a").text("find").vector(letters("a")), Document::new("b").text("find it").vector(letters("b"))]);
    let of = |scores: &[f64]| ask(&Pipeline { reranker: Some(Arc::new(Scores::of(scores))), ..with_letters() }, &notes);
    let below = of(&[-0.5, -3.0]);
    assert_eq!((below.sufficiency, below.sufficiency.is_sufficient(), below.passages.len()), (Sufficiency::BelowZero(-0.5), false, 2));
    // Strictly below.
    assert_eq!(of(&[0.0, -3.0]).sufficiency, Sufficiency::Sufficient);
    assert_eq!(of(&[-0.0, -3.0]).sufficiency, Sufficiency::Sufficient);
    // What was not reranked counts 0.
    assert_eq!(ask(&with_letters(), &notes).sufficiency, Sufficiency::Sufficient);
    assert_eq!(of(&[]).sufficiency, Sufficiency::Sufficient);
    let nothing = ask(&with_letters(), &collection([]));
    assert_eq!((nothing.sufficiency, nothing.passages.len(), nothing.errors.len()), (Sufficiency::NoContext, 0, 0));
}

#[test]
fn a_retriever_that_fails_leaves_what_the_others_found_beside_its_error() {
    let pipeline = Pipeline { embedder: Some(Arc::new(Unreachable)), ..Pipeline::default() };
    let answer = ask(&pipeline, &notes());
    assert_eq!(steps(&answer), [("vector", ErrorCode::Model)]);
    assert_eq!(answer.found, [("vector", 0), ("text", 10), ("graph", 5), ("external", 0)]);
    assert_eq!((answer.passages.len(), answer.vector), (5, None));

    let question = PipelineQuestion { vector: Some(vec![1.0, 2.0]), ..PipelineQuestion::new(QUESTION) };
    let answer = Pipeline::default().ask(&notes(), &question);
    assert_eq!((steps(&answer), answer.passages.len()), (vec![("vector", ErrorCode::SchemaMismatch)], 5));

    let answer = ask(&Pipeline { hops: 7, ..with_letters() }, &notes());
    assert_eq!((steps(&answer), answer.found[0].1, answer.found[2].1), (vec![("graph", ErrorCode::InvalidArgument)], 10, 0));
}

#[test]
fn a_question_is_not_embedded_by_another_model_than_the_documents() {
    let pipeline = Pipeline { embedder: Some(Arc::new(Letters("letters-v2"))), ..Pipeline::default() };
    let answer = ask(&pipeline, &notes());
    assert_eq!((steps(&answer), answer.passages.len()), (vec![("vector", ErrorCode::EmbedderMismatch)], 5));
}

#[test]
fn without_a_vector_and_an_embedder_the_others_answer_and_a_note_says_so() {
    let answer = ask(&Pipeline::default(), &notes());
    assert_eq!((answer.found[0], answer.passages.len(), answer.errors.len(), answer.notes.len()), (("vector", 0), 5, 0, 1));
}

#[test]
fn a_reranker_that_fails_leaves_the_order_of_rank_fusion_beside_its_error() {
    let plain = ask(&with_letters(), &notes());
    let broken = ask(&Pipeline { reranker: Some(Arc::new(Scores::of(&[]))), ..with_letters() }, &notes());
    assert_eq!((broken.passages, steps_of(&broken.errors)), (plain.passages, vec!["rerank"]));
}

fn steps_of(errors: &[triune::retrieval::RetrievalError]) -> Vec<&str> {
    errors.iter().map(|e| e.step.as_str()).collect()
}

#[test]
fn a_cancelled_question_says_of_every_retriever_that_it_was_not_asked() {
    let stop = Cancellation::new();
    stop.cancel();
    let question = PipelineQuestion { call: Call { cancellation: stop, ..Call::default() }, ..PipelineQuestion::new(QUESTION) };
    let answer = with_letters().ask(&notes(), &question);
    assert_eq!(steps_of(&answer.errors), ["vector", "text", "graph"]);
    assert_eq!((answer.sufficiency, answer.passages.len()), (Sufficiency::NoContext, 0));
}

#[test]
fn a_filter_restricts_what_is_answered() {
    let doc = |id: &str, lang: &str| {
        Document::new(id).text("Marie Curie").vector(letters(id)).metadata(Metadata::from_json(format!(r#"{{"lang":"{lang}"}}"#)).unwrap())
    };
    let filter = Some(Filter::parse(r#"{"lang":"fr"}"#).unwrap());
    let answer =
        with_letters().ask(&collection([doc("a", "en"), doc("b", "fr")]), &PipelineQuestion { filter, ..PipelineQuestion::new(QUESTION) });
    assert_eq!(ids(&answer.passages), ["b"]);
}

#[test]
fn the_earlier_shape_has_five_keys_its_names_for_retrievers_and_zero_for_no_rerank() {
    let metadata = Metadata::from_json(r#"{ "page": 3,  "big": 123456789012345678901234567890 }"#).unwrap();
    let notes = collection([Document::new("a").text("Radium").metadata(metadata)]);
    let answer = Pipeline { vector_k: 0, graph_k: 0, ..Pipeline::default() }.ask(&notes, &PipelineQuestion::new("radium"));
    let mut passage = answer.passages[0].clone();
    passage.score = Some(0.25);
    passage.provenance[0].score = 0.25;
    let json = |passage: &Passage| serde_json::to_string(&passage.to_exported().unwrap()).unwrap();
    assert_eq!(
        json(&passage),
        r#"{"content":"Radium","metadata":{ "page": 3,  "big": 123456789012345678901234567890 },"score":0.25,"source":"bm25","rerank_score":0.0}"#
    );
    passage.rerank_score = Some(-1.5);
    passage.metadata = None;
    assert_eq!(json(&passage), r#"{"content":"Radium","metadata":{},"score":0.25,"source":"bm25","rerank_score":-1.5}"#);
    let source = |passage: &Passage| passage.to_exported().unwrap().source;
    let web = Passage::external("web", "https://example.org", "t", "x", 0, 0.7).unwrap();
    assert_eq!((source(&web), source(&Passage::default())), ("web".into(), "unknown".into()));
    // Of passages that collapsed, the one with the greatest score is the one that is seen.
    let mut merged = web.clone();
    merged.provenance.insert(0, passage.provenance[0].clone());
    assert_eq!(source(&merged), "web");
}

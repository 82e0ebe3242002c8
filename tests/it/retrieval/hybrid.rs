//! The hybrid retriever: reciprocal ranks of vectors and texts, by document.

use super::{Lengths, Shelf, Source, embedding, errors, ids, stores};
use std::sync::Arc;
use std::time::{Duration, Instant};
use triune::models::Call;
use triune::retrieval::{HybridRetriever, Models, Request, RetrievalConfig, Retrieved, Retriever, ScoreKind, SourceRequest};

fn both(dense: &[&str], keyword: &[&str]) -> Source {
    let dense = dense.iter().enumerate().map(|(i, id)| (id.to_string(), (9 - i as i32) as f64 / 10.0)).collect();
    Source { dense, keyword: keyword.iter().map(|id| id.to_string()).collect(), ..Source::default() }
}

fn ask(shelf: &Arc<Shelf>, models: &Models, config: RetrievalConfig) -> Retrieved {
    let stores = stores(shelf);
    let mut request = Request::new("what is it", &stores, models);
    request.sources = shelf.sources.keys().map(|id| SourceRequest { id: id.clone(), config: config.clone() }).collect();
    HybridRetriever.search(&request)
}

fn chunks(chunks: usize) -> RetrievalConfig {
    RetrievalConfig { chunks, ..Default::default() }
}

fn found(source: Source) -> Retrieved {
    ask(&Arc::new(Shelf::new(vec![("s", source)])), &embedding().1, chunks(10))
}

#[test]
fn a_document_gains_one_over_sixty_and_its_rank_from_each_list() {
    let found = found(both(&["a", "b", "c"], &["d", "b"]));
    assert_eq!(ids(&found.passages), ["b", "a", "d", "c"]);
    let scores: Vec<f64> = found.passages.iter().map(|p| p.score.unwrap()).collect();
    assert_eq!(scores, [1.0 / 61.0 + 1.0 / 61.0, 1.0 / 60.0, 1.0 / 60.0, 1.0 / 62.0]);
    assert!(found.passages.iter().all(|p| p.score_kind == Some(ScoreKind::Rrf)));
}

#[test]
fn of_two_documents_at_one_rank_the_nearest_vector_goes_first() {
    assert_eq!(ids(&found(both(&["z", "y"], &["a", "b"])).passages), ["z", "a", "y", "b"]);
}

#[test]
fn without_a_text_that_fits_the_order_is_that_of_the_vectors() {
    assert_eq!(ids(&found(both(&["c", "a", "b"], &[])).passages), ["c", "a", "b"]);
    assert_eq!(ids(&found(both(&[], &["c", "a"])).passages), ["c", "a"]);
    assert!(found(both(&[], &[])).passages.is_empty());
}

#[test]
fn a_document_is_known_by_its_id_and_not_by_its_text() {
    let mut source = both(&["a", "b"], &["b", "c"]);
    for id in ["a", "b", "c"] {
        source.texts.insert(id.into(), "the same words".into());
    }
    assert_eq!(ids(&found(source).passages), ["b", "a", "c"]);
}

#[test]
fn an_id_that_one_list_holds_twice_gains_twice() {
    let found = found(both(&["a", "b", "b"], &[]));
    assert_eq!((ids(&found.passages), found.passages[0].score), (vec!["b", "a"], Some(1.0 / 61.0 + 1.0 / 62.0)));
}

#[test]
fn a_passage_tells_what_each_leg_said() {
    let found = found(both(&["a", "b"], &["b"]));
    let told: Vec<_> = found.passages[0].provenance.iter().map(|p| (p.retriever.as_str(), p.rank, p.score)).collect();
    assert_eq!((found.passages[0].id.as_str(), told), ("b", vec![("vector", 1, 0.8), ("text", 0, 7.0)]));
}

#[test]
fn a_threshold_is_not_applied() {
    let shelf = Arc::new(Shelf::new(vec![("s", both(&["a", "b"], &["b"]))]));
    let config = RetrievalConfig { score_threshold: Some(0.89), ..chunks(5) };
    assert_eq!(ask(&shelf, &embedding().1, config).passages.len(), 2);
    assert_eq!(shelf.told_of("dense"), ["dense s k=20 threshold=None"]);
}

#[test]
fn both_legs_are_asked_for_as_many_candidates() {
    let shelf = Arc::new(Shelf::new(vec![("s", both(&["a"], &["b"]))]));
    for (wanted, k) in [(3, 20), (30, 60), (400, 500)] {
        ask(&shelf, &embedding().1, chunks(wanted));
        let told = shelf.told();
        assert!(
            told.contains(&format!("dense s k={k} threshold=None")) && told.contains(&format!("keyword s k={k} what is it")),
            "{told:?}"
        );
    }
}

#[test]
fn a_leg_that_fails_is_reported_and_the_other_one_answers() {
    let result = found(both(&["a", "b"], &["c"]).failing("keyword"));
    assert_eq!((ids(&result.passages), errors(&result)), (vec!["a", "b"], vec!["s hybrid, text leg: Io".to_string()]));
    let result = found(both(&["a", "b"], &["c"]).failing("dense"));
    assert_eq!((ids(&result.passages), errors(&result)), (vec!["c"], vec!["s hybrid, vector leg: Io".to_string()]));
    let result = found(both(&["a"], &["c"]).failing("dense").failing("keyword"));
    assert_eq!((result.passages.len(), result.errors.len()), (0, 2));
}

#[test]
fn without_a_vector_of_the_question_the_texts_answer_and_the_failure_is_told() {
    let shelf = Arc::new(Shelf::new(vec![("s", both(&["a"], &["c"]))]));
    let failing = Models { embedder: Some(Arc::new(Lengths { fails: true, ..Lengths::default() })), ..Models::default() };
    let result = ask(&shelf, &failing, chunks(3));
    assert_eq!((ids(&result.passages), errors(&result)), (vec!["c"], vec!["s hybrid, vector leg: Model".to_string()]));
}

#[test]
fn a_source_that_fails_keeps_none_of_the_others_from_answering() {
    let broken = both(&["x"], &["y"]).failing("documents");
    let shelf = Arc::new(Shelf::new(vec![("a", both(&["a"], &[])), ("b", broken), ("c", both(&[], &["c"]))]));
    let result = ask(&shelf, &embedding().1, chunks(3));
    assert_eq!((ids(&result.passages), errors(&result)), (vec!["a", "c"], vec!["b hybrid: Io".to_string()]));
}

#[test]
fn what_the_first_leg_found_is_given_when_the_deadline_passes_meanwhile() {
    let slow = Source { takes: Duration::from_millis(60), ..both(&["a"], &["b"]) };
    let shelf = Arc::new(Shelf::new(vec![("s", slow)]));
    let (models, stores) = (embedding().1, stores(&shelf));
    let mut request = Request::new("what is it", &stores, &models);
    request.sources = vec![SourceRequest { id: "s".into(), config: chunks(2) }];
    request.call = Call { deadline: Some(Instant::now() + Duration::from_millis(30)), ..Call::default() };
    let result = HybridRetriever.search(&request);
    assert_eq!((ids(&result.passages), errors(&result)), (vec!["a"], vec!["s hybrid, text leg: Model".to_string()]));
}

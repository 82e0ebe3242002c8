//! The classic retriever: how many candidates, how many passages, in which order, within which budget, and what goes on when something fails.

use super::{Lengths, Shelf, Source, counting, embedding, errors, ids, stores};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use triune::models::{Call, Cancellation};
use triune::retrieval::{ClassicRetriever, Models, Request, RetrievalConfig, Retrieved, Retriever, ScoreKind, SourceRequest, Stores};

fn own(id: &str, chunks: usize) -> SourceRequest {
    SourceRequest { id: id.into(), config: RetrievalConfig { chunks, ..Default::default() } }
}

fn ask(shelf: &Arc<Shelf>, models: &Models, sources: Vec<SourceRequest>, chunks: usize) -> Retrieved {
    let stores = stores(shelf);
    let mut request = Request::new("what is it", &stores, models);
    (request.sources, request.chunks) = (sources, chunks);
    ClassicRetriever.search(&request)
}

fn plain(ids: &[&str]) -> Vec<SourceRequest> {
    ids.iter().map(|id| SourceRequest::new(*id)).collect()
}

#[test]
fn a_source_is_asked_for_twice_its_passages_and_20_at_least_and_500_at_most() {
    let shelf = Shelf::tens(&["a"]);
    for (chunks, k) in [(1, 20), (10, 20), (11, 22), (100, 200), (250, 500), (499, 500), (9_999, 500)] {
        ask(&shelf, &embedding().1, plain(&["a"]), chunks);
        assert_eq!(shelf.told_of("dense"), [format!("dense a k={k} threshold=None")], "{chunks}");
    }
}

#[test]
fn sources_share_what_is_asked_evenly_and_each_gives_one_at_least() {
    let shelf = Shelf::tens(&["a", "b", "c"]);
    let found = ask(&shelf, &embedding().1, plain(&["a", "b"]), 5);
    assert_eq!(ids(&found.passages), ["a0", "a1", "b0", "b1"]);
    let found = ask(&shelf, &embedding().1, plain(&["c", "a", "b"]), 1);
    assert_eq!(ids(&found.passages), ["c0", "a0", "b0"]);
    assert_eq!(ask(&shelf, &embedding().1, plain(&["a"]), 600).passages.len(), 10, "no more than there are, however many are asked");
}

#[test]
fn a_source_with_a_number_of_its_own_gives_that_many_whatever_the_request_asks_for() {
    let shelf = Shelf::tens(&["a", "b"]);
    let found = ask(&shelf, &embedding().1, vec![own("a", 7), SourceRequest::new("b")], 2);
    assert_eq!(ids(&found.passages), ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "b0"]);
    let found = ask(&shelf, &embedding().1, vec![own("a", 10)], 2);
    assert_eq!(found.passages.len(), 10);
}

#[test]
fn a_threshold_is_inclusive_and_only_the_sources_own() {
    let shelf = Shelf::tens(&["a", "b"]);
    let config = RetrievalConfig { chunks: 9, score_threshold: Some(0.7), ..Default::default() };
    let found = ask(&shelf, &embedding().1, vec![SourceRequest { id: "a".into(), config }, own("b", 9)], 2);
    assert_eq!(found.passages.iter().filter(|p| p.source_id == "a").map(|p| p.score.unwrap()).collect::<Vec<_>>(), [0.9, 0.8, 0.7]);
    assert_eq!(found.passages.iter().filter(|p| p.source_id == "b").count(), 9);
    let mut told = shelf.told_of("dense");
    told.sort();
    assert_eq!(told, ["dense a k=20 threshold=Some(0.7)", "dense b k=20 threshold=None"]);
}

#[test]
fn nobody_is_asked_when_no_passage_is_wanted_or_no_source_is_named() {
    let shelf = Shelf::tens(&["a"]);
    let (embedder, models) = embedding();
    for (sources, chunks) in [(plain(&["a"]), 0), (plain(&[]), 2), (plain(&["", "  ", "\t"]), 2)] {
        let found = ask(&shelf, &models, sources, chunks);
        assert!(found.passages.is_empty() && found.errors.is_empty() && found.notes.is_empty());
    }
    assert!(shelf.told().is_empty() && embedder.asked.lock().unwrap().is_empty());
}

#[test]
fn blank_ids_are_passed_over_and_take_no_share() {
    let shelf = Shelf::tens(&["a", "b"]);
    let found = ask(&shelf, &embedding().1, plain(&["", "a", " ", "b"]), 4);
    assert_eq!(ids(&found.passages), ["a0", "a1", "b0", "b1"]);
}

#[test]
fn one_budget_holds_over_all_sources_and_what_does_not_fit_is_passed_over() {
    let mut shelf = Shelf::new(vec![("a", Source::of("a", 3)), ("b", Source::of("b", 3))]);
    // A text is its own title and so its file's name: each costs twice its length, and one.
    for (source, id, length) in [("a", "a0", 20), ("a", "a1", 30), ("a", "a2", 1), ("b", "b0", 20), ("b", "b1", 3), ("b", "b2", 2)] {
        shelf.sources.get_mut(source).unwrap().texts.insert(id.into(), "x".repeat(length));
    }
    let (shelf, models) = (Arc::new(shelf), counting());
    let stores = stores(&shelf);
    let mut request = Request::new("q", &stores, &models);
    (request.sources, request.chunks, request.token_limit) = (plain(&["a", "b"]), 6, Some(100));
    let found = ClassicRetriever.search(&request);
    // 41, then 61 more is too much; 3 makes 44; 41 makes 85; 7 makes 92; 5 makes 97, below 100.
    assert_eq!(ids(&found.passages), ["a0", "a2", "b0", "b1", "b2"]);
    request.sources = plain(&["b", "a"]);
    assert_eq!(ids(&ClassicRetriever.search(&request).passages), ["b0", "b1", "b2", "a0", "a2"], "what is first is served first");
}

#[test]
fn a_passage_too_large_makes_room_for_the_next_candidate_of_its_source() {
    let mut source = Source::of("a", 5);
    source.texts.insert("a0".into(), "x".repeat(500));
    let (shelf, models) = (Arc::new(Shelf::new(vec![("a", source)])), counting());
    let stores = stores(&shelf);
    let mut request = Request::new("q", &stores, &models);
    (request.sources, request.token_limit) = (plain(&["a"]), Some(10_000));
    assert_eq!(ids(&ClassicRetriever.search(&request).passages), ["a0", "a1"]);
    request.token_limit = Some(200);
    assert_eq!(ids(&ClassicRetriever.search(&request).passages), ["a1", "a2"]);
}

#[test]
fn a_limit_that_nobody_counts_leaves_nothing_out_and_is_noted() {
    let (shelf, models) = (Shelf::tens(&["a", "b"]), embedding().1);
    let stores = stores(&shelf);
    let mut request = Request::new("q", &stores, &models);
    (request.sources, request.token_limit, request.chunks) = (plain(&["a", "b"]), Some(1), 20);
    let found = ClassicRetriever.search(&request);
    assert_eq!((found.passages.len(), found.notes.len()), (20, 1));
}

#[test]
fn a_source_that_fails_is_reported_and_the_others_go_on() {
    for operation in ["dense", "documents"] {
        let shelf =
            Arc::new(Shelf::new(vec![("a", Source::of("a", 3)), ("b", Source::of("b", 3).failing(operation)), ("c", Source::of("c", 3))]));
        let found = ask(&shelf, &embedding().1, plain(&["a", "b", "nowhere", "c"]), 4);
        assert_eq!(ids(&found.passages), ["a0", "c0"], "{operation}");
        assert_eq!(errors(&found), ["b classic: Io", "nowhere classic: NotFound"], "{operation}");
    }
    let empty = Stores::new();
    let models = embedding().1;
    let mut request = Request::new("q", &empty, &models);
    request.sources = plain(&["a"]);
    assert_eq!(errors(&ClassicRetriever.search(&request)), ["a classic: NotFound"]);
}

#[test]
fn without_a_vector_of_the_question_each_source_says_why() {
    let shelf = Shelf::tens(&["a", "b"]);
    let failing = Models { embedder: Some(Arc::new(Lengths { fails: true, ..Lengths::default() })), ..Models::default() };
    for models in [failing, Models::default()] {
        let found = ask(&shelf, &models, plain(&["a", "b"]), 2);
        assert_eq!((found.passages.len(), errors(&found)), (0, vec!["a classic: Model".into(), "b classic: Model".into()]));
    }
    assert!(shelf.told().is_empty());
}

#[test]
fn a_source_of_another_embedder_is_not_asked() {
    let shelf = Arc::new(Shelf { embedder: Some("other-v2".into()), ..Shelf::new(vec![("a", Source::of("a", 3))]) });
    let found = ask(&shelf, &embedding().1, plain(&["a"]), 2);
    assert_eq!(errors(&found), ["a classic: EmbedderMismatch"]);
    assert!(found.errors[0].to_string().contains("\"other-v2\"") && found.errors[0].to_string().contains("\"lengths-v1\""));
    assert!(shelf.told().is_empty());
    let same = Arc::new(Shelf { embedder: Some("lengths-v1".into()), ..Shelf::new(vec![("a", Source::of("a", 3))]) });
    assert_eq!(ask(&same, &embedding().1, plain(&["a"]), 2).passages.len(), 2);
}

#[test]
fn passages_are_neither_compared_nor_made_one_across_sources() {
    let mut second = Source::of("a", 2);
    second.dense[0].1 = 0.99;
    let shelf = Arc::new(Shelf::new(vec![("x", Source::of("a", 2)), ("y", second)]));
    let found = ask(&shelf, &embedding().1, plain(&["x", "y", "x"]), 6);
    assert_eq!(ids(&found.passages), ["a0", "a1", "a0", "a1", "a0", "a1"]);
    assert_eq!(found.passages.iter().map(|p| p.source_id.as_str()).collect::<String>(), "xxyyxx");
}

#[test]
fn a_passage_carries_its_labels_its_score_and_where_it_was_found() {
    let mut source = Source::of("a", 2);
    source.metadata = Some(r#"{"title": "docs/Guide", "source": "https://h/guide.md"}"#.into());
    let shelf = Arc::new(Shelf::new(vec![("s", source)]));
    let found = ask(&shelf, &embedding().1, plain(&["s"]), 2);
    let second = &found.passages[1];
    assert_eq!((second.text.as_str(), second.title.as_str()), ("text of a1", "Guide"));
    assert_eq!((second.source.as_str(), second.filename.as_str(), second.source_id.as_str()), ("https://h/guide.md", "guide.md", "s"));
    assert_eq!((second.score, second.score_kind, second.rerank_score), (Some(0.8), Some(ScoreKind::CosineSimilarity), None));
    let finding = &second.provenance[0];
    assert_eq!((finding.retriever.as_str(), finding.source.as_str(), finding.id.as_str(), finding.rank), ("vector", "s", "a1", 1));
}

#[test]
fn documents_are_read_only_as_far_as_they_are_given_and_not_when_they_came_along() {
    let shelf = Shelf::tens(&["a"]);
    ask(&shelf, &embedding().1, plain(&["a"]), 2);
    assert_eq!(shelf.told_of("documents"), ["documents a a0 a1"]);
    let along = Arc::new(Shelf { with_bodies: true, ..Shelf::new(vec![("a", Source::of("a", 9))]) });
    assert_eq!(ask(&along, &embedding().1, plain(&["a"]), 2).passages.len(), 2);
    assert!(along.told_of("documents").is_empty());
}

#[test]
fn a_document_that_is_gone_makes_room_for_the_next() {
    let mut source = Source::of("a", 4);
    source.texts.insert("a1".into(), "gone".into());
    let found = ask(&Arc::new(Shelf::new(vec![("a", source)])), &embedding().1, plain(&["a"]), 3);
    assert_eq!(ids(&found.passages), ["a0", "a2", "a3"]);
}

#[test]
fn four_sources_at_most_are_asked_at_once_and_answers_keep_their_order() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let source = |(i, id): (usize, &&'static str)| {
        (*id, Source { takes: Duration::from_millis(if i % 2 == 0 { 40 } else { 5 }), ..Source::of(id, 2) })
    };
    let shelf = Arc::new(Shelf::new(names.iter().enumerate().map(source).collect()));
    let found = ask(&shelf, &embedding().1, plain(&names), 9);
    assert_eq!(ids(&found.passages), names.map(|id| format!("{id}0")));
    let busiest = shelf.busiest.load(Ordering::SeqCst);
    assert!((2..=4).contains(&busiest), "{busiest} at once");
}

#[test]
fn a_cancelled_request_gets_what_was_found_and_an_error_that_says_so() {
    let stop = Cancellation::new();
    let shelf = Arc::new(Shelf { cancels: Some(stop.clone()), ..Shelf::new(vec![("a", Source::of("a", 3)), ("b", Source::of("b", 3))]) });
    let (stores, models) = (stores(&shelf), embedding().1);
    let mut request = Request::new("q", &stores, &models);
    request.call = Call { cancellation: stop, ..Call::default() };
    request.sources = plain(&["a"]);
    assert_eq!(ids(&ClassicRetriever.search(&request).passages), ["a0", "a1"], "what was on its way arrives");
    let found = ClassicRetriever.search(&request);
    assert_eq!((found.passages.len(), errors(&found)), (0, vec!["a classic: Model".to_string()]));
    assert!(found.errors[0].to_string().contains("cancelled"), "{}", found.errors[0]);
}

#[test]
fn a_deadline_that_is_past_asks_nobody() {
    let shelf = Shelf::tens(&["a"]);
    let (stores, models) = (stores(&shelf), embedding().1);
    let mut request = Request::new("q", &stores, &models);
    (request.sources, request.call) = (plain(&["a"]), Call { deadline: Some(Instant::now()), ..Call::default() });
    let found = ClassicRetriever.search(&request);
    assert!(found.errors[0].to_string().contains("timed out"), "{}", found.errors[0]);
    assert!(shelf.told().is_empty());
}

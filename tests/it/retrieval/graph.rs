//! The graph retriever: walks around the entities of a question, and vectors where a graph is missing, broken, or silent.

use super::{Lengths, Shelf, Source, counting, embedding, errors, ids, stores};
use std::sync::Arc;
use triune::models::{Call, Cancellation};
use triune::retrieval::{
    EntityGraph, EntityNode, GraphRetriever, Models, PreScreenConfig, Request, RetrievalConfig, Retrieved, Retriever, ScoreKind, Seed,
    SourceRequest,
};

fn seed(name: &str, weight: f64) -> Seed {
    Seed { name: name.into(), weight }
}

/// A source whose graph is a star: the seed `Hub`, and documents `<id>g0`, `<id>g1`, ... of which later ones stand at lighter edges.
fn star(id: &str, documents: usize) -> Source {
    let mut nodes = vec![EntityNode { name: "hub".into(), documents: 0 }];
    nodes.extend((0..documents).map(|i| EntityNode { name: format!("leaf{i}"), documents: 1 }));
    let edges = (0..documents as u32).map(|i| (0, i + 1, 100.0 - f64::from(i))).collect();
    let documents = (0..documents).map(|i| (format!("{id}g{i}"), vec![i as u32 + 1])).collect();
    let graph = EntityGraph { nodes, edges, documents };
    Source { seeds: vec![seed("Hub", 1.0)], graph, entities: 9, ..Source::of(id, 10) }
}

fn request<'a>(stores: &'a triune::retrieval::Stores, models: &'a Models, ids: &[&str], chunks: usize) -> Request<'a> {
    let mut request = Request::new("What is Hub?", stores, models);
    (request.sources, request.chunks) = (ids.iter().map(|id| SourceRequest::new(*id)).collect(), chunks);
    request
}

fn ask(shelf: &Arc<Shelf>, models: &Models, ids: &[&str], chunks: usize) -> Retrieved {
    let stores = stores(shelf);
    GraphRetriever.search(&request(&stores, models, ids, chunks))
}

#[test]
fn documents_around_the_questions_entities_are_given_best_first() {
    let shelf = Arc::new(Shelf::new(vec![("s", star("s", 8))]));
    let found = ask(&shelf, &embedding().1, &["s"], 3);
    assert_eq!(ids(&found.passages), ["sg0", "sg1", "sg2"]);
    assert!(found.passages.iter().all(|p| p.score_kind == Some(ScoreKind::Graph) && p.provenance[0].retriever == "graph"));
    assert!(found.errors.is_empty() && found.notes.is_empty());
    let told = shelf.told();
    assert_eq!(&told[..3], ["count s", "entities s What is Hub?", "graph s 1"]);
    assert!(!told.iter().any(|line| line.starts_with("dense")));
}

#[test]
fn twice_as_many_are_looked_at_as_wanted_and_five_more_at_least() {
    let shelf = Arc::new(Shelf::new(vec![("s", star("s", 60))]));
    for (chunks, looked_at) in [(1, 6), (4, 9), (5, 10), (20, 40), (30, 60)] {
        let found = ask(&shelf, &embedding().1, &["s"], chunks);
        let read = shelf.told_of("documents s")[0].split(' ').count() - 2;
        assert_eq!((found.passages.len(), read), (chunks, looked_at));
    }
}

#[test]
fn a_source_with_a_number_of_its_own_gives_that_many() {
    let shelf = Arc::new(Shelf::new(vec![("s", star("s", 60)), ("t", star("t", 60))]));
    let (stores, models) = (stores(&shelf), embedding().1);
    let mut request = request(&stores, &models, &["s", "t"], 2);
    request.sources[0].config = RetrievalConfig { chunks: 20, ..Default::default() };
    assert_eq!(GraphRetriever.search(&request).passages.len(), 20 + 1);
    request.sources[0].config.prescreen = Some(PreScreenConfig::default());
    assert_eq!(GraphRetriever.search(&request).passages.len(), 40 + 1, "with a screening, as many as it judges");
}

#[test]
fn documents_without_a_text_are_passed_over() {
    let mut source = star("s", 5);
    source.texts.extend([("sg0".into(), String::new()), ("sg2".into(), "gone".into())]);
    let found = ask(&Arc::new(Shelf::new(vec![("s", source)])), &embedding().1, &["s"], 2);
    assert_eq!(ids(&found.passages), ["sg1", "sg3"]);
}

#[test]
fn sources_without_a_graph_are_asked_by_vectors_in_the_place_of_the_first_of_them() {
    let sources = vec![("a", star("a", 9)), ("b", Source::of("b", 9)), ("c", star("c", 9)), ("d", Source::of("d", 9))];
    let shelf = Arc::new(Shelf::new(sources));
    let found = ask(&shelf, &embedding().1, &["a", "b", "c", "d"], 4);
    assert_eq!(ids(&found.passages), ["ag0", "b0", "d0", "cg0"]);
    assert!(found.errors.is_empty() && found.notes.is_empty());
    assert_eq!(shelf.told_of("count"), ["count a b c d"], "entities are counted by one call");
}

#[test]
fn a_graph_that_fails_is_reported_and_its_vectors_answer_last() {
    for operation in ["graph", "entities"] {
        let sources = vec![("a", star("a", 9).failing(operation)), ("b", star("b", 9)), ("c", Source::of("c", 9))];
        let found = ask(&Arc::new(Shelf::new(sources)), &embedding().1, &["a", "b", "c"], 3);
        assert_eq!(ids(&found.passages), ["bg0", "c0", "a0"], "{operation}");
        assert_eq!(errors(&found), ["a graphrag: Io"]);
        assert!(found.errors[0].to_string().contains("its vectors were asked instead"), "{}", found.errors[0]);
    }
}

#[test]
fn a_graph_that_says_nothing_is_noted_and_its_vectors_answer_last() {
    let without_seeds = Source { seeds: Vec::new(), ..star("a", 9) };
    let without_nodes = Source { graph: EntityGraph::default(), ..star("a", 9) };
    let without_documents = star("a", 0);
    let mut without_texts = star("a", 2);
    without_texts.texts.extend([("ag0".into(), String::new()), ("ag1".into(), String::new())]);
    for (i, silent) in [without_seeds, without_nodes, without_documents, without_texts].into_iter().enumerate() {
        let shelf = Arc::new(Shelf::new(vec![("a", silent), ("b", star("b", 9))]));
        let found = ask(&shelf, &embedding().1, &["a", "b"], 2);
        assert_eq!((ids(&found.passages), found.errors.len(), found.notes.len()), (vec!["bg0", "a0"], 0, 1), "case {i}");
        assert!(found.notes[0].contains("\"a\"") && found.notes[0].contains("vectors"), "{}", found.notes[0]);
    }
}

#[test]
fn when_entities_cannot_be_counted_vectors_answer_and_the_failure_is_told() {
    let shelf = Arc::new(Shelf::new(vec![("a", star("a", 9).failing("count")), ("b", star("b", 9))]));
    let found = ask(&shelf, &embedding().1, &["a", "b"], 2);
    assert_eq!((ids(&found.passages), errors(&found)), (vec!["a0", "b0"], vec!["a counting entities: Io".to_string()]));
}

#[test]
fn a_source_named_twice_is_walked_once() {
    let shelf = Arc::new(Shelf::new(vec![("a", star("a", 9))]));
    assert_eq!(ask(&shelf, &embedding().1, &["a", "a"], 4).passages.len(), 2);
    assert_eq!(shelf.told_of("graph"), ["graph a 1"]);
}

#[test]
fn one_budget_holds_over_all_graphs() {
    let shelf = Arc::new(Shelf::new(vec![("a", star("a", 9)), ("b", star("b", 9)), ("c", star("c", 9))]));
    let (stores, models) = (stores(&shelf), counting());
    let mut request = request(&stores, &models, &["a", "b", "c"], 12);
    // "text of ag0" costs 11 + 1 + 11.
    request.token_limit = Some(200);
    assert_eq!(ids(&GraphRetriever.search(&request).passages), ["ag0", "ag1", "ag2", "ag3", "bg0", "bg1", "bg2"]);
}

#[test]
fn with_vectors_of_entities_the_ten_nearest_names_are_the_seeds() {
    let near = Source { entity_seeds: Some(vec![seed("leaf7", 0.9), seed("hub", -0.2)]), ..star("a", 9) };
    let shelf = Arc::new(Shelf::new(vec![("a", near)]));
    let (embedder, models) = embedding();
    let found = ask(&shelf, &models, &["a"], 1);
    assert_eq!(ids(&found.passages), ["ag7"], "a seed of negative weight counts nothing");
    assert_eq!(shelf.told_of("nearest entities"), ["nearest entities a k=10"]);
    assert_eq!(embedder.asked.lock().unwrap().len(), 1);
}

#[test]
fn without_near_entities_or_a_vector_of_the_question_the_named_entities_are_the_seeds() {
    let none = Arc::new(Shelf::new(vec![("a", Source { entity_seeds: Some(Vec::new()), ..star("a", 9) })]));
    let found = ask(&none, &embedding().1, &["a"], 1);
    assert_eq!((ids(&found.passages), found.errors.len()), (vec!["ag0"], 0));

    let failing = Models { embedder: Some(Arc::new(Lengths { fails: true, ..Lengths::default() })), ..Models::default() };
    let near = Arc::new(Shelf::new(vec![("a", Source { entity_seeds: Some(vec![seed("leaf7", 1.0)]), ..star("a", 9) })]));
    let found = ask(&near, &failing, &["a"], 1);
    assert_eq!((ids(&found.passages), errors(&found)), (vec!["ag0"], vec!["a nearest entities: Model".to_string()]));
}

#[test]
fn a_graph_needs_no_embedder_as_long_as_it_answers() {
    let shelf = Arc::new(Shelf::new(vec![("a", star("a", 9)), ("b", Source { seeds: Vec::new(), ..star("b", 9) })]));
    let found = ask(&shelf, &Models::default(), &["a", "b"], 2);
    assert_eq!((ids(&found.passages), errors(&found)), (vec!["ag0"], vec!["b classic: Model".to_string()]));
}

#[test]
fn nobody_is_asked_when_no_passage_is_wanted() {
    let shelf = Arc::new(Shelf::new(vec![("a", star("a", 9))]));
    assert!(ask(&shelf, &embedding().1, &["a"], 0).passages.is_empty());
    assert!(ask(&shelf, &embedding().1, &["", " "], 3).passages.is_empty());
    assert!(shelf.told().is_empty());
}

#[test]
fn a_cancelled_walk_is_not_tried_again_by_vectors() {
    let shelf = Arc::new(Shelf::new(vec![("a", star("a", 9))]));
    let (stores, models) = (stores(&shelf), embedding().1);
    let mut request = request(&stores, &models, &["a"], 2);
    let stop = Cancellation::new();
    stop.cancel();
    request.call = Call { cancellation: stop, ..Call::default() };
    assert_eq!(errors(&GraphRetriever.search(&request)), ["a graphrag: Model"]);
    assert!(shelf.told_of("dense").is_empty());
}

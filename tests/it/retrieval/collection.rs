//! A collection as a store: one source of it is searched exactly as a filter would have it, whatever parts its documents lie in.

use std::sync::Arc;
use std::time::{Duration, Instant};
use triune::io::SimDirectory;
use triune::models::{Call, Cancellation, Embedder, TextRole};
use triune::retrieval::{CollectionStore, Dispatcher, Models, Question, RetrievalConfig, ScoreKind, Seed, SourceEntry, Store, Stores};
use triune::{Database, Document, Effort, Entity, ErrorCode, Filter, LegWeights, Metadata, Metric, Options, Relation, Schema, Scorer};

const SOURCES: [&str; 3] = ["x", "y", "z"];

/// Two hundred documents of three sources, some deleted, in two segments and memory.
fn database(metric: Metric) -> Database {
    let options = Options { background: false, ..Options::default() };
    let db = Database::create_with(Arc::new(SimDirectory::new()), options).unwrap();
    db.create_collection("main", Schema { metric, ..Schema::default() }).unwrap();
    let document = |i: usize| {
        let words = ["alpha", "beta", "gamma", "delta", "Google Cloud", "RAG"];
        let text = format!("{} {} {}", words[i % 6], words[(i / 3) % 6], words[(i / 7) % 5]);
        let metadata = Metadata::from_json(format!(r#"{{"of": "{}"}}"#, SOURCES[i % 3])).unwrap();
        let vector = [(i as f32 * 0.37).sin(), (i as f32 * 0.11).cos(), 0.1 + (i % 5) as f32];
        Document::new(format!("d{i}")).text(text).metadata(metadata).vector(vector).source(SOURCES[i % 3])
    };
    for part in [0..80, 80..150, 150..200] {
        if part.start > 0 {
            db.checkpoint().unwrap();
        }
        db.put("main", part.map(document).collect()).unwrap();
    }
    db.delete("main", (0..200).step_by(11).map(|i| format!("d{i}")).collect()).unwrap();
    db
}

fn of(source: &str) -> Filter {
    Filter::parse(&format!(r#"{{"of": "{source}"}}"#)).unwrap()
}

#[test]
fn a_source_is_searched_as_a_filter_would_have_it_by_vectors_and_by_texts() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        let snapshot = database(metric).snapshot();
        let main = snapshot.collection("main").unwrap();
        let store = CollectionStore::new(&snapshot, "main").unwrap().effort(Effort::Exact);
        for source in SOURCES {
            let filter = of(source);
            for (k, vector) in [(1, [1.0, 0.0, 0.0]), (10, [0.2, -0.9, 3.0]), (500, [0.0, 0.0, 1.0])] {
                let expected: Vec<_> = main.nearest_with(&vector, Some(&filter), k, Effort::Exact).unwrap();
                let expected: Vec<_> = expected.iter().map(|hit| (main.id_of(hit).unwrap(), Some(hit.score))).collect();
                let found = store.dense(&Call::default(), source, &vector, k, None).unwrap();
                assert_eq!(found.into_iter().map(|c| (c.id, c.score)).collect::<Vec<_>>(), expected);
            }
            for query in ["alpha", "beta gamma gamma", "nowhere", ""] {
                let expected = main.best_texts(query, None, Some(&filter), 50).unwrap();
                let expected: Vec<_> = expected.iter().map(|hit| (main.id_of(hit).unwrap(), Some(hit.score))).collect();
                let found = store.keyword(&Call::default(), source, query, 50).unwrap();
                assert_eq!(found.into_iter().map(|c| (c.id, c.score)).collect::<Vec<_>>(), expected, "{query}");
            }
        }
        assert_eq!(
            store.dense(&Call::default(), "x", &[0.0; 3], 10, None).unwrap().is_empty(),
            metric == Metric::Cosine,
            "zero has no direction"
        );
        assert!(store.dense(&Call::default(), "nowhere", &[1.0, 0.0, 0.0], 10, None).unwrap().is_empty());
        assert!(store.keyword(&Call::default(), "nowhere", "alpha", 10).unwrap().is_empty());
    }
}

#[test]
fn the_whole_collection_is_one_source_whatever_it_is_called() {
    let snapshot = database(Metric::Cosine).snapshot();
    let main = snapshot.collection("main").unwrap();
    let whole = CollectionStore::whole(&snapshot, "main").unwrap();
    let hits = main.nearest(&[1.0, 0.2, 0.5], None, 20).unwrap();
    let found = whole.dense(&Call::default(), "anything", &[1.0, 0.2, 0.5], 20, None).unwrap();
    assert_eq!(found.iter().map(|c| c.score.unwrap()).collect::<Vec<_>>(), hits.iter().map(|h| h.score).collect::<Vec<_>>());
    assert_eq!(
        whole.documents(&Call::default(), "anything", &["d1", "d2", "d11"]).unwrap().iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, true, false]
    );
    assert_eq!(CollectionStore::new(&snapshot, "other").map(drop).unwrap_err().code(), ErrorCode::NotFound);
}

#[test]
fn a_source_that_holds_no_document_is_told_from_one_that_does_not_answer() {
    let db = Database::create_with(Arc::new(SimDirectory::new()), Options::default()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    // Farther from every question than the source asks for.
    db.put("main", vec![Document::new("a").text("some words").vector([-1.0, -1.0]).source("x")]).unwrap();
    let store = Arc::new(CollectionStore::new(&db.snapshot(), "main").unwrap());
    assert_eq!((store.count(&Call::default(), "x").unwrap(), store.count(&Call::default(), "nowhere").unwrap()), (Some(1), Some(0)));
    let models = Models { embedder: Some(Arc::new(super::Lengths::default())), ..Models::default() };
    let config = RetrievalConfig { score_threshold: Some(0.9), ..RetrievalConfig::default() };
    let entries = ["x", "nowhere"].map(|id| SourceEntry::with(id, config.clone()));
    let answer = Dispatcher::new(Stores::all_in(store), models).ask(&Question { sources: entries.into(), ..Question::new("what?") });
    assert!(answer.passages.is_empty() && answer.errors.is_empty());
    assert_eq!(answer.notes, ["source \"nowhere\" holds no document"]);
}

#[test]
fn a_document_is_read_where_it_was_found_and_a_place_that_does_not_hold_it_is_as_good_as_none() {
    let store = CollectionStore::new(&database(Metric::Cosine).snapshot(), "main").unwrap();
    let found = store.keyword(&Call::default(), "x", "alpha", 50).unwrap();
    let ids: Vec<&str> = found.iter().map(|c| c.id.as_str()).collect();
    let expected = store.documents(&Call::default(), "x", &ids).unwrap();
    assert!(expected.len() > 10 && expected.iter().all(Option::is_some));
    let placed: Vec<(&str, Option<u64>)> = found.iter().map(|c| (c.id.as_str(), c.place)).collect();
    assert!(placed.iter().all(|(_, place)| place.is_some()));
    assert_eq!(store.bodies(&Call::default(), "x", &placed).unwrap(), expected);
    for wrong in [Some(0), Some(u64::MAX), Some(7 << 32), Some(1), placed[1].1, None] {
        let wrong: Vec<(&str, Option<u64>)> = ids.iter().map(|id| (*id, wrong)).collect();
        assert_eq!(store.bodies(&Call::default(), "x", &wrong).unwrap(), expected, "{wrong:?}");
    }
    assert_eq!(store.bodies(&Call::default(), "y", &placed).unwrap(), vec![None; placed.len()], "they are of another source");
}

#[test]
fn a_source_gives_its_own_documents_only() {
    let snapshot = database(Metric::Cosine).snapshot();
    let store = CollectionStore::new(&snapshot, "main").unwrap();
    let found = store.documents(&Call::default(), "y", &["d4", "d3", "d1", "d22", "none"]).unwrap();
    let texts: Vec<_> = found.into_iter().map(|body| body.map(|b| b.text)).collect();
    assert_eq!(texts, [Some("Google Cloud beta alpha".to_string()), None, Some("beta alpha alpha".into()), None, None]);
}

#[test]
fn a_threshold_keeps_scores_of_at_least_that() {
    let snapshot = database(Metric::Cosine).snapshot();
    let store = CollectionStore::new(&snapshot, "main").unwrap();
    let all = store.dense(&Call::default(), "x", &[1.0, 0.0, 1.0], 500, None).unwrap();
    let threshold = all[all.len() / 2].score.unwrap();
    let above = store.dense(&Call::default(), "x", &[1.0, 0.0, 1.0], 500, Some(threshold)).unwrap();
    assert!(above.len() < all.len() && above.last().unwrap().score == Some(threshold));
    assert_eq!(above[..], all[..above.len()]);
}

#[test]
fn the_kind_of_a_score_is_that_of_the_metric() {
    let kind = |metric| CollectionStore::new(&database(metric).snapshot(), "main").unwrap().dense_kind();
    assert_eq!(kind(Metric::Cosine), ScoreKind::CosineSimilarity);
    assert_eq!(kind(Metric::Dot), ScoreKind::InnerProduct);
    assert_eq!(kind(Metric::L2), ScoreKind::NegatedL2Distance);
}

#[test]
fn another_scorer_can_be_asked_for() {
    let snapshot = database(Metric::Cosine).snapshot();
    let (lucene, okapi) = (CollectionStore::new(&snapshot, "main").unwrap(), CollectionStore::new(&snapshot, "main").unwrap());
    let okapi = okapi.scorer(Scorer::Okapi);
    assert_ne!(
        lucene.keyword(&Call::default(), "x", "gamma", 1).unwrap()[0].score,
        okapi.keyword(&Call::default(), "x", "gamma", 1).unwrap()[0].score
    );
}

/// Sources `g` and `h` mention and relate entities, `i` none.
fn graphs() -> Database {
    let db = Database::create_with(Arc::new(SimDirectory::new()), Options { background: false, ..Options::default() }).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    let documents = |source: &str, texts: &[(&str, &str)]| {
        texts.iter().map(|(id, text)| Document::new(*id).text(*text).source(source).vector([1.0, 0.5])).collect::<Vec<_>>()
    };
    db.put("main", documents("g", &[("g1", "Marie Curie found radium in Paris"), ("g2", "Paris lies on the Seine")])).unwrap();
    db.checkpoint().unwrap();
    db.put("main", documents("h", &[("h1", "Marie Curie met Albert Einstein"), ("h2", "the Seine floods")])).unwrap();
    db.put("main", documents("i", &[("i1", "nothing of note"), ("i2", "nor here")])).unwrap();
    let related = Document::new("g3").text("a note").source("g").entities(Vec::<Entity>::new());
    db.put(
        "main",
        vec![related.relations(vec![Relation::new("Marie Curie", "Pierre"), Relation::new("Pierre", "Marie Curie").weight(2.0)])],
    )
    .unwrap();
    db
}

#[test]
fn entities_are_counted_source_by_source() {
    let store = CollectionStore::new(&graphs().snapshot(), "main").unwrap();
    assert_eq!(store.entity_counts(&Call::default(), &["g", "h", "i", "none"]).unwrap(), [3, 3, 0, 0]);
    assert_eq!(store.have_graphs(&Call::default(), &["i", "h", "none", "g"]).unwrap(), [false, true, false, true]);
}

#[test]
fn the_graph_of_a_source_is_made_of_its_own_documents_alone() {
    let store = CollectionStore::new(&graphs().snapshot(), "main").unwrap();
    let seeds = store.entities_in(&Call::default(), "g", "where did Marie Curie meet Albert Einstein?").unwrap();
    assert_eq!(seeds, [Seed { name: "marie curie".into(), weight: 1.0 }], "the other one is not mentioned there");
    let graph = store.entity_graph(&Call::default(), "g", &seeds).unwrap();
    let names: Vec<_> = graph.nodes.iter().map(|n| (n.name.as_str(), n.documents)).collect();
    assert_eq!(names, [("marie curie", 1), ("paris", 2), ("pierre", 0)], "one step away");
    assert_eq!(graph.edges, [(0, 1, 1.0), (0, 2, 3.0)], "shared documents count one each, parallel relations add up");
    assert_eq!(graph.documents, [("g1".to_string(), vec![0, 1]), ("g2".to_string(), vec![1])]);
    let other = store.entity_graph(&Call::default(), "h", &seeds).unwrap();
    assert_eq!(other.nodes.iter().map(|n| n.name.as_str()).collect::<Vec<_>>(), ["albert einstein", "marie curie"]);
    assert!(store.entity_graph(&Call::default(), "i", &seeds).unwrap().nodes.is_empty());
}

#[test]
fn a_large_graph_is_cut_to_its_heaviest_entities_and_edges_in_one_order() {
    let db = Database::create_with(Arc::new(SimDirectory::new()), Options { background: false, ..Options::default() }).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    let relations: Vec<Relation> = (0..700).map(|i| Relation::new("Hub", format!("n{i:03}")).weight(1.0 + f64::from(i % 7))).collect();
    let mut cross: Vec<Relation> = Vec::new();
    for i in 0..90 {
        cross.extend(
            (0..40).map(|j| Relation::new(format!("n{:03}", i * 7 + 6), format!("n{:03}", ((i + j + 1) % 90) * 7 + 6)).weight(9.0)),
        );
    }
    let document = |id: &str, relations| Document::new(id).source("s").entities(vec![Entity::new("Hub")]).relations(relations);
    db.put("main", vec![document("a", relations), document("b", cross)]).unwrap();
    let store = CollectionStore::new(&db.snapshot(), "main").unwrap();
    let hub = [Seed { name: "HUB".into(), weight: 0.5 }];
    let graph = store.entity_graph(&Call::default(), "s", &hub).unwrap();
    assert_eq!((graph.nodes.len(), graph.edges.len()), (500, 2000));
    assert!(graph.nodes.windows(2).all(|w| w[0].name < w[1].name) && graph.nodes.iter().any(|n| n.name == "n006"));
    assert!(!graph.nodes.iter().any(|n| n.name == "n000"), "the lightest are left out");
    let hub_at = graph.nodes.iter().position(|n| n.name == "hub").unwrap() as u32;
    let of_hub = |e: &&(u32, u32, f64)| e.0 == hub_at || e.1 == hub_at;
    assert_eq!(graph.edges.iter().filter(of_hub).count(), 499, "what joins a seed stays");
    assert_eq!(graph.edges.iter().filter(|e| !of_hub(e) && e.2 == 9.0).count(), 1501, "and the heaviest of the others");
    assert_eq!(store.entity_graph(&Call::default(), "s", &hub).unwrap(), graph);
}

#[test]
fn a_question_travels_from_documents_to_citations() {
    let db = graphs();
    let store: Arc<dyn Store> = Arc::new(CollectionStore::new(&db.snapshot(), "main").unwrap());
    let dispatcher =
        Dispatcher::new(Stores::all_in(store), Models { embedder: Some(Arc::new(super::Lengths::default())), ..Models::default() });
    let graph = RetrievalConfig { retriever: "graphrag".into(), chunks: 2, ..Default::default() };
    let sources = ["g", "h", "i"].map(|id| SourceEntry::with(id, graph.clone())).to_vec();
    let answer = dispatcher.ask(&Question { sources, chunks: 6, ..Question::new("What did Marie Curie find?") });
    let cited: Vec<_> = answer.passages.iter().map(|p| (p.id.as_str(), p.score_kind.unwrap().as_str(), p.source.as_str())).collect();
    assert_eq!(
        cited,
        [
            ("g1", "graph", "g"),
            ("g2", "graph", "g"),
            ("h1", "graph", "h"),
            ("i1", "cosine_similarity", "i"),
            ("i2", "cosine_similarity", "i")
        ]
    );
    assert!(answer.errors.is_empty());
}

#[test]
fn the_hybrid_retriever_weighs_its_legs_as_the_schema_says() {
    let weighed = |leg_weights: LegWeights| {
        let db = Database::create_with(Arc::new(SimDirectory::new()), Options::default()).unwrap();
        db.create_collection("main", Schema { leg_weights, ..Schema::default() }).unwrap();
        // By its vector "a" is nearest to a question of eight characters, by its words "b" fits.
        let near = super::Lengths::default().embed_one(&Call::default(), "eight ch", TextRole::Query).unwrap();
        let far: Vec<f32> = near.iter().rev().map(|x| -x).collect();
        let documents = vec![Document::new("a").text("none").vector(near), Document::new("b").text("eight chairs").vector(far)];
        db.put("main", documents).unwrap();
        let store = Arc::new(CollectionStore::whole(&db.snapshot(), "main").unwrap());
        let models = Models { embedder: Some(Arc::new(super::Lengths::default())), ..Models::default() };
        let config = RetrievalConfig { retriever: "hybrid".into(), ..RetrievalConfig::default() };
        let question = Question { sources: vec![SourceEntry::with("s", config)], ..Question::new("eight ch") };
        let answer = Dispatcher::new(Stores::all_in(store), models).ask(&question);
        answer.passages.iter().map(|p| (p.id.clone(), p.score.unwrap())).collect::<Vec<_>>()
    };
    let of = |vector, text| weighed(LegWeights { vector, text, ..LegWeights::default() });
    assert_eq!(of(1000, 1000), [("b".into(), 1.0 / 61.0 + 1.0 / 60.0), ("a".into(), 1.0 / 60.0)]);
    assert_eq!(of(1000, 0), [("a".into(), 1.0 / 60.0), ("b".into(), 1.0 / 61.0)]);
    assert_eq!(of(200, 1000), [("b".into(), 1.0 / 61.0 * 0.2 + 1.0 / 60.0), ("a".into(), 1.0 / 60.0 * 0.2)]);
}

#[test]
fn a_store_begins_nothing_for_a_call_that_is_over() {
    let snapshot = database(Metric::Cosine).snapshot();
    let store = CollectionStore::new(&snapshot, "main").unwrap();
    let stop = Cancellation::new();
    stop.cancel();
    let stopped = Call { cancellation: stop, ..Call::default() };
    let late = Call { deadline: Instant::now().checked_sub(Duration::from_millis(1)), ..Call::default() };
    for call in [&stopped, &late] {
        let refused = [
            store.dense(call, "x", &[1.0, 0.0, 0.0], 10, None).map(drop),
            store.keyword(call, "x", "alpha", 10).map(drop),
            store.entities_in(call, "x", "What is RAG?").map(drop),
            store.entity_graph(call, "x", &[]).map(drop),
            store.nearest_entities(call, "x", &[1.0, 0.0, 0.0], 10).map(drop),
            store.entity_counts(call, &["x"]).map(drop),
            store.have_graphs(call, &["x"]).map(drop),
        ];
        assert!(refused.iter().all(|r| r.as_ref().is_err_and(|e| e.code() == ErrorCode::Model)), "{refused:?}");
        // What was found until then can still be read.
        assert!(store.documents(call, "x", &["d3"]).unwrap()[0].is_some());
    }
}

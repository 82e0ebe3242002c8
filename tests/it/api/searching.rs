//! Questions and answers.

use super::{at_every_stage, doc, found, fresh, fresh_with, json, main_of, put, refused, search};
use triune::{Document, ErrorCode, Fusion, LegWeights, Mode, Schema, Scorer, Search};

fn text(query: &str) -> Search {
    Search { query: Some(query.into()), mode: Mode::Text, ..Search::default() }
}

#[test]
fn documents_without_text_count_in_the_statistics() {
    let scores = |empty: usize, scorer| {
        let (disk, db) = fresh();
        put(&db, vec![doc("a", "rare word"), doc("b", "word"), doc("c", "word word")]);
        put(&db, (0..empty).map(|i| Document::new(format!("e{i}"))).collect());
        let score = std::cell::Cell::new(None);
        at_every_stage(&disk, db, |db| {
            let hits = search(db, Search { scorer: Some(scorer), ..text("rare") }).unwrap().hits;
            let found = hits.first().map(|h| h.score.to_bits());
            assert_eq!(hits.len(), 1);
            assert!(score.get().is_none_or(|before| before == found));
            score.set(Some(found));
        });
        score.get().flatten().map(f64::from_bits).unwrap()
    };
    for scorer in [Scorer::Okapi, Scorer::Lucene] {
        let (without, with) = (scores(0, scorer), scores(5, scorer));
        assert!((without - with).abs() > 0.01, "{scorer}: {without} and {with}");
    }
    // N counts them: ln(1 + (3 - 1 + 0.5) / 1.5) for lucene without them, 8 documents with them.
    let idf = |n: f64| (1.0 + (n - 1.0 + 0.5) / 1.5).ln();
    let weight = |length: f64, average: f64| 1.0 / (1.0 + 1.2 * (0.25 + 0.75 * length / average));
    let expected = idf(8.0) * weight(2.0, 5.0 / 8.0);
    let got = scores(5, Scorer::Lucene);
    assert!((got - expected).abs() < 1e-12 || (got - 2.2 * expected).abs() < 1e-12, "{got}, expected {expected}");
}

#[test]
fn a_collection_without_any_text_finds_nothing_by_text() {
    let (disk, db) = fresh();
    put(&db, vec![Document::new("a").vector([1.0]), Document::new("b").text("...")]);
    at_every_stage(&disk, db, |db| {
        for scorer in [Scorer::Okapi, Scorer::Lucene] {
            for query in ["word", "", "...", "a b c"] {
                assert!(found(db, Search { scorer: Some(scorer), ..text(query) }).is_empty(), "{query:?}");
            }
        }
        let hybrid = Search { query: Some("word".into()), vector: Some(vec![1.0]), ..Search::default() };
        let result = search(db, hybrid).unwrap();
        assert_eq!((result.hits.len(), result.retrievers), (1, vec!["vector", "text"]));
    });
}

#[test]
fn retrievers_that_took_part_are_listed_also_when_they_found_nothing() {
    let (_disk, db) = fresh();
    put(&db, vec![doc("a", "word").vector([1.0, 0.0]), doc("b", "word")]);
    let whole = Search { query: Some("absent".into()), vector: Some(vec![1.0, 0.0]), ..Search::default() };
    let retrievers = |s: &Search| search(&db, s.clone()).unwrap().retrievers;
    assert_eq!(retrievers(&whole), ["vector", "text"]);
    assert_eq!(retrievers(&Search { mode: Mode::Vector, ..whole.clone() }), ["vector"]);
    assert_eq!(retrievers(&Search { mode: Mode::Text, ..whole.clone() }), ["text"]);
    let result = search(&db, Search { query: Some("word".into()), ..whole }).unwrap();
    let places: Vec<Vec<_>> = result.hits.iter().map(|h| h.retrievers.iter().map(|r| (r.name, r.rank)).collect()).collect();
    assert_eq!(places, [vec![("vector", 0), ("text", 0)], vec![("text", 1)]]);
    assert_eq!(result.hits.iter().map(|h| h.rank).collect::<Vec<_>>(), [0, 1]);
    assert!(result.notes.is_empty(), "{:?}", result.notes);
}

#[test]
fn hybrid_without_one_of_its_inputs_says_so() {
    let (_disk, db) = fresh();
    put(&db, vec![doc("a", "word").vector([1.0])]);
    let note = |s: Search| {
        let result = search(&db, s).unwrap();
        assert_eq!((result.hits.len(), result.notes.len()), (1, 1));
        (result.retrievers, result.notes[0].clone())
    };
    let (retrievers, said) = note(Search { query: Some("word".into()), ..Search::default() });
    assert!(retrievers == ["text"] && said.contains("without a query vector"), "{said}");
    let (retrievers, said) = note(Search { vector: Some(vec![1.0]), ..Search::default() });
    assert!(retrievers == ["vector"] && said.contains("without a query text"), "{said}");
    refused(search(&db, Search::default()), ErrorCode::InvalidArgument, &["query", "vector"]);
    refused(search(&db, Search { mode: Mode::Vector, ..text("x") }), ErrorCode::InvalidArgument, &["vector"]);
    refused(search(&db, Search { mode: Mode::Text, vector: Some(vec![1.0]), ..Search::default() }), ErrorCode::InvalidArgument, &["query"]);
}

#[test]
fn a_search_explains_why_okapi_found_nothing() {
    let (_disk, db) = fresh_with(Schema { scorer: Scorer::Okapi, ..Schema::default() });
    let asked = Search { explain: true, ..text("word") };
    assert!(search(&db, asked.clone()).unwrap().notes[0].contains("no documents"));
    put(&db, vec![doc("a", "word"), doc("b", "word other")]);
    let notes = search(&db, asked.clone()).unwrap().notes;
    assert!(notes[0].contains("okapi") && notes[0].contains("lucene") && notes[0].contains('2'), "{notes:?}");
    assert!(search(&db, text("word")).unwrap().notes.is_empty());
    assert!(search(&db, Search { scorer: Some(Scorer::Lucene), ..asked }).unwrap().notes.is_empty());
}

#[test]
fn the_scorer_of_the_collection_answers_unless_another_is_asked_for() {
    let (_disk, db) = fresh_with(Schema { scorer: Scorer::Okapi, ..Schema::default() });
    put(&db, ["rare word", "word", "word more", "other"].iter().enumerate().map(|(i, t)| doc(&i.to_string(), t)).collect());
    let score = |scorer| search(&db, Search { scorer, ..text("rare") }).unwrap().hits[0].score;
    assert_eq!(score(None), score(Some(Scorer::Okapi)));
    assert_ne!(score(None), score(Some(Scorer::Lucene)));
}

#[test]
fn hits_carry_their_documents_only_when_asked_for() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "word").metadata(json(r#"{"k":  1}"#)).source("s")]);
    at_every_stage(&disk, db, |db| {
        let hit = |bodies| search(db, Search { bodies, ..text("word") }).unwrap().hits.remove(0);
        let (with, without) = (hit(true), hit(false));
        assert_eq!((with.text.as_str(), with.source.as_deref()), ("word", Some("s")));
        assert_eq!(with.metadata.unwrap().as_str(), r#"{"k":  1}"#);
        assert_eq!((without.id.as_str(), without.text.as_str(), without.metadata, without.source), ("a", "", None, None));
        assert_eq!((with.score, with.seq), (without.score, without.seq));
    });
}

#[test]
fn fusion_weighs_its_lists_and_refuses_what_is_no_weight() {
    let (_disk, db) = fresh();
    put(&db, vec![doc("text", "word"), Document::new("vector").vector([1.0])]);
    let asked = |fusion| Search { query: Some("word".into()), vector: Some(vec![1.0]), fusion, ..Search::default() };
    let fusion = |vector, text| Fusion { vector_weight: Some(vector), text_weight: Some(text), ..Fusion::default() };
    assert_eq!(found(&db, asked(fusion(1.0, 2.0))), ["text", "vector"]);
    assert_eq!(found(&db, asked(fusion(2.0, 1.0))), ["vector", "text"]);
    assert_eq!(found(&db, asked(fusion(1.0, 1.0))), ["vector", "text"]);
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        refused(search(&db, asked(fusion(bad, 1.0))), ErrorCode::InvalidArgument, &["vector weight"]);
        refused(search(&db, asked(fusion(1.0, bad))), ErrorCode::InvalidArgument, &["text weight"]);
        refused(search(&db, asked(Fusion { constant: bad, ..Fusion::default() })), ErrorCode::InvalidArgument, &["constant"]);
    }
    refused(search(&db, asked(Fusion { constant: 0.0, ..Fusion::default() })), ErrorCode::InvalidArgument, &["constant", "0"]);
}

#[test]
fn a_search_without_weights_takes_the_collections() {
    let weights = |vector, text| Schema { leg_weights: LegWeights { vector, text, ..LegWeights::default() }, ..Schema::default() };
    let asked = |fusion| Search { query: Some("word".into()), vector: Some(vec![1.0]), fusion, ..Search::default() };
    for (vector, text, first) in [(1000, 2000, "text"), (1000, 999, "vector")] {
        let (_disk, db) = fresh_with(weights(vector, text));
        put(&db, vec![doc("text", "word"), Document::new("vector").vector([1.0])]);
        let result = search(&db, asked(Fusion::default())).unwrap();
        assert_eq!(result.hits[0].id, first);
        let expected = f64::from(vector.max(text)) / 1000.0 / 60.0;
        assert!((result.hits[0].score - expected).abs() < 1e-12, "{}", result.hits[0].score);
        // A search that gives weights does not look at the collection's.
        let own = Fusion { vector_weight: Some(3.0), text_weight: Some(1.0), ..Fusion::default() };
        assert_eq!(found(&db, asked(own)), ["vector", "text"]);
    }
    let (_disk, db) = fresh();
    let error = db.create_collection("other", weights(1_000_001, 1)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.to_string().contains("1000001"), "{error}");
}

#[test]
fn a_query_repeats_a_term_as_often_as_it_names_it() {
    let (_disk, db) = fresh();
    put(&db, vec![doc("a", "cat"), doc("b", "dog"), doc("c", "bird")]);
    let score = |query: &str| search(&db, text(query)).unwrap().hits[0].score;
    assert!((score("cat cat CAT") - 3.0 * score("cat")).abs() < 1e-12);
    assert_eq!(main_of(&db).count(), 3);
}

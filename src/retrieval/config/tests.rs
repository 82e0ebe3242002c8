//! What configurations are read from, strictly and leniently, and what they refuse.

use super::*;
use serde_json::json;

fn strict(json: Value) -> String {
    RetrievalConfig::from_json(&json).unwrap_err().to_string()
}

#[test]
fn what_is_not_said_has_the_defaults_of_the_original() {
    let config = RetrievalConfig::from_json(&json!({})).unwrap();
    assert_eq!(config, RetrievalConfig::default());
    assert_eq!((config.retriever.as_str(), config.exposure, config.chunks), ("classic", Exposure::Prefetch, 2));
    assert_eq!((config.score_threshold, config.rephrase_query), (None, true));
    assert_eq!((config.reranker, config.prescreen), (None, None));
    let screen = PreScreenConfig::from_json(&json!({})).unwrap();
    assert_eq!((screen.candidate_k, screen.model, screen.batch_size, screen.max_keep), (40, None, 10, 8));
    let graph = GraphConfig::from_json(&json!({})).unwrap();
    assert_eq!((graph.extraction_model, graph.max_chunks, graph.gleanings), (None, None, 0));
}

#[test]
fn strict_reading_names_every_unknown_key_and_every_value_out_of_range_at_once() {
    let told = strict(json!({
        "retriever": " ", "chunks": 501, "score_threshold": "high", "rephrase_query": 1, "exposure": "always", "reranker": [], "top_k": 3,
        "prescreen": {"candidate_k": 0, "max_keep": 9.5, "keep": 1}
    }));
    for part in [
        "retriever is a text",
        "chunks is 501; it is a whole number from 1 to 500",
        "score_threshold is a text",
        "rephrase_query is 1;",
        "exposure is a text",
        "reranker is a list",
        "\"top_k\" is not known",
        "prescreen.candidate_k is 0",
        "prescreen.max_keep is 9.5",
        "\"prescreen.keep\" is not known",
    ] {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
    assert!(strict(json!([])).contains("it is a list, not an object"));
    assert!(!told.contains("high") && !told.contains("always"), "values of texts are not repeated: {told}");
}

#[test]
fn chunks_and_the_numbers_of_a_screening_are_1_to_500() {
    for n in [1, 500] {
        assert_eq!(RetrievalConfig::from_json(&json!({"chunks": n})).unwrap().chunks, n);
        let screen = json!({"candidate_k": 500, "batch_size": n, "max_keep": n});
        assert_eq!(PreScreenConfig::from_json(&screen).unwrap().batch_size, n);
    }
    for n in [json!(0), json!(501), json!(-1), json!(2.5), json!("2"), json!(true), Value::Null] {
        assert!(RetrievalConfig::from_json(&json!({"chunks": n})).is_err(), "{n}");
        for key in ["candidate_k", "batch_size", "max_keep"] {
            assert!(PreScreenConfig::from_json(&json!({key: n})).is_err(), "{key} {n}");
        }
    }
}

#[test]
fn no_more_is_kept_than_is_judged_and_no_fewer_is_judged_than_is_asked_for() {
    let refused = PreScreenConfig::from_json(&json!({"candidate_k": 7})).unwrap_err().to_string();
    assert!(refused.contains("max_keep is 8, more than candidate_k, which is 7"), "{refused}");
    let refused = strict(json!({"chunks": 41, "prescreen": {}}));
    assert!(refused.contains("prescreen.candidate_k is 40, fewer than chunks, which is 41"), "{refused}");
    assert!(RetrievalConfig::from_json(&json!({"chunks": 40, "prescreen": {}})).is_ok());
}

#[test]
fn one_bad_field_never_resets_the_others() {
    let stored = json!({"retriever": "hybrid", "chunks": 9000, "score_threshold": 0.4, "rephrase_query": false, "from_later": {}});
    let (config, problems) = RetrievalConfig::from_stored(&stored);
    let expected = RetrievalConfig { retriever: "hybrid".into(), score_threshold: Some(0.4), rephrase_query: false, ..Default::default() };
    assert_eq!((config, problems.len()), (expected, 2));
    let (config, problems) = SourceConfig::from_stored(&json!({"retrieval": 7, "graph": {"gleanings": -1, "max_chunks": 5}}));
    assert_eq!(config, SourceConfig { graph: GraphConfig { max_chunks: Some(5), ..Default::default() }, ..Default::default() });
    assert_eq!(problems.len(), 2);
    for nothing in [Value::Null, json!([]), json!("x"), json!({})] {
        assert_eq!(RetrievalConfig::from_stored(&nothing).0, RetrievalConfig::default());
    }
}

#[test]
fn a_stored_screening_that_is_wrong_in_part_is_none_and_an_empty_one_is_on() {
    let screen = |json: Value| RetrievalConfig::from_stored(&json!({"chunks": 5, "prescreen": json})).0;
    assert_eq!(screen(json!({})).prescreen, Some(PreScreenConfig::default()));
    assert_eq!(screen(json!({"max_keep": 3})).prescreen, Some(PreScreenConfig { max_keep: 3, ..Default::default() }));
    for wrong in
        [json!({"max_keep": 0}), json!({"max_keep": 41}), json!({"keep": 3}), json!(true), json!({"candidate_k": 4, "max_keep": 2})]
    {
        assert_eq!(screen(wrong).prescreen, None);
    }
    assert_eq!(screen(json!({"max_keep": 0})).chunks, 5);
}

#[test]
fn a_graph_extracts_from_one_chunk_at_least() {
    for wrong in [json!({"max_chunks": 0}), json!({"gleanings": -1}), json!({"extraction_model": ""}), json!({"model": "m"})] {
        assert!(GraphConfig::from_json(&wrong).is_err(), "{wrong}");
    }
    assert_eq!(GraphConfig::from_json(&json!({"max_chunks": 1})).unwrap().max_chunks, Some(1));
}

#[test]
fn a_configuration_is_written_whole_and_read_back_the_same() {
    let config = SourceConfig {
        retrieval: RetrievalConfig { score_threshold: Some(-0.5), prescreen: Some(PreScreenConfig::default()), ..Default::default() },
        graph: GraphConfig { max_chunks: Some(3), gleanings: 1, ..Default::default() },
    };
    let json = serde_json::to_value(&config).unwrap();
    assert_eq!(json["retrieval"]["prescreen"]["candidate_k"], 40);
    assert_eq!(serde_json::from_value::<SourceConfig>(json).unwrap(), config);
    assert!(RetrievalConfig { score_threshold: Some(f64::NAN), ..Default::default() }.validate().is_err(), "JSON has no NaN");
    assert!(RetrievalConfig { chunks: 0, ..Default::default() }.validate().is_err());
    let both = RetrievalConfig { score_threshold: Some(f64::NAN), chunks: 0, ..Default::default() }.validate().unwrap_err().to_string();
    assert!(both.contains("score_threshold is NaN") && both.contains("chunks"), "{both}");
}

#[test]
fn only_what_changes_how_a_source_is_asked_is_an_override() {
    let plain = RetrievalConfig::default();
    assert!(!plain.is_override());
    assert!(!RetrievalConfig { retriever: "hybrid".into(), exposure: Exposure::AgenticTool, ..plain.clone() }.is_override());
    assert!(RetrievalConfig { chunks: 3, ..plain.clone() }.is_override());
    assert!(RetrievalConfig { score_threshold: Some(0.0), ..plain.clone() }.is_override());
    assert!(RetrievalConfig { rephrase_query: false, ..plain.clone() }.is_override());
    assert!(RetrievalConfig { prescreen: Some(PreScreenConfig::default()), ..plain.clone() }.is_override());
    let graph = RetrievalConfig { chunks: 7, ..plain.clone() }.graph_enabled();
    assert_eq!((graph.retriever.as_str(), graph.chunks), ("graphrag", 7));
    assert_eq!(plain.wiki_enabled().exposure, Exposure::AgenticTool);
}

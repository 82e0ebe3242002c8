//! The golden answers, and what is refused.

use super::*;
use crate::error::ErrorCode;
use serde_json::json;

#[derive(serde::Deserialize)]
struct Golden {
    docs: Vec<GoldenDocument>,
    filters: Vec<GoldenFilter>,
    refused: Vec<Value>,
}

#[derive(serde::Deserialize)]
struct GoldenDocument {
    id: String,
    text: String,
    metadata: Map<String, Value>,
}

#[derive(serde::Deserialize)]
struct GoldenFilter {
    filter: Value,
    ids: Vec<String>,
}

fn matches(filter: Value, metadata: Value) -> bool {
    Filter::from_value(&filter).unwrap().matches(metadata.as_object().unwrap(), "", None)
}

#[test]
fn every_golden_filter_matches_exactly_its_documents() {
    let mut cases = 0;
    for line in include_str!("../../tests/golden/filters.jsonl").lines() {
        let case: Golden = serde_json::from_str(line).unwrap();
        for expected in &case.filters {
            for filter in [Filter::from_value(&expected.filter).unwrap(), Filter::parse(&expected.filter.to_string()).unwrap()] {
                let found: Vec<&str> =
                    case.docs.iter().filter(|d| filter.matches(&d.metadata, &d.text, None)).map(|d| d.id.as_str()).collect();
                assert_eq!(found, expected.ids, "{}", expected.filter);
                cases += 1;
            }
        }
        for refused in &case.refused {
            assert_eq!(Filter::from_value(refused).unwrap_err().code(), ErrorCode::InvalidArgument, "{refused}");
            assert_eq!(Filter::parse(&refused.to_string()).unwrap_err().code(), ErrorCode::InvalidArgument, "{refused}");
        }
    }
    assert!(cases > 100);
}

#[test]
fn what_has_no_meaning_is_refused_and_named() {
    let cases = [
        (r#"{"n": {"$near": 1}}"#, "$near"),
        (r#"{"a": {"b": 1}}"#, "b"),
        (r#"{"a": {}}"#, "\"a\""),
        (r#"{"a": [1]}"#, "\"a\""),
        (r#"{"$nor": []}"#, "$nor"),
        (r#"{"$or": [{"n": {"$gt": true}}]}"#, "\"$or\" 0 \"n\" $gt"),
        (r#"{"$not": [{"n": 1}]}"#, "$not"),
        (r#"{"n": {"$in": [1, [2]]}}"#, "$in 1"),
        (r#"{"n": {"$eq": {"x": 1}}}"#, "$eq"),
        (r#"{"n": {"$gte": null}}"#, "$gte"),
        (r#"{"n": {"$contains": ["a"]}}"#, "$contains"),
        (r#"{"n": {"$exists": "yes"}}"#, "$exists"),
        (r#"{"n": {"$regex": 1}}"#, "$regex"),
        (r#"{"n": {"$regex": "a{2"}}"#, "$regex"),
        (r#"{"$text": {"$eq": "a"}}"#, "$eq"),
        (r#"{"$text": {}}"#, "$text"),
        (r#"{"$text": {"$contains": 1}}"#, "$contains"),
        (r#"{"n": {"$gt": 1}, "n": {"$lt": 3}}"#, "\"n\" stands twice"),
        (r#"{"n": {"$gt": 1, "$gt": 3}}"#, "\"$gt\" stands twice"),
        (r#"{"n": 1"#, "JSON"),
        (r#""n""#, "object"),
        ("", "JSON"),
    ];
    for (json, named) in cases {
        let error = Filter::parse(json).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{json}");
        assert!(error.to_string().contains(named), "{json}: {error} does not name {named}");
    }
}

#[test]
fn depth_and_regular_expressions_are_bounded() {
    let nested = |n: usize, open: &str, close: &str| format!("{}{{}}{}", open.repeat(n), close.repeat(n));
    for (open, close) in [(r#"{"$not":"#, "}"), (r#"{"$and":["#, "]}")] {
        assert!(Filter::parse(&nested(FILTER_DEPTH_MAX, open, close)).is_ok());
        for n in [FILTER_DEPTH_MAX + 1, 1000] {
            assert_eq!(Filter::parse(&nested(n, open, close)).unwrap_err().code(), ErrorCode::LimitExceeded, "{n} of {open}");
        }
    }
    let regexes = |n: usize| json!({"$or": vec![json!({"s": {"$regex": "a"}}); n]});
    assert!(Filter::from_value(&regexes(FILTER_REGEXES_MAX)).is_ok());
    assert_eq!(Filter::from_value(&regexes(FILTER_REGEXES_MAX + 1)).unwrap_err().code(), ErrorCode::LimitExceeded);
    assert_eq!(Filter::parse(r#"{"s": {"$regex": "\\w{200}{200}"}}"#).unwrap_err().code(), ErrorCode::LimitExceeded);
}

#[test]
fn a_filter_that_matches_everything_by_its_form_is_empty() {
    for json in
        [r#"{}"#, r#"{"$and": []}"#, r#"{"$and": [{}, {"$or": [{}, {"n": 1}]}]}"#, r#"{"$not": {"$or": []}}"#, r#"{"n": {"$nin": []}}"#]
    {
        assert!(Filter::parse(json).unwrap().is_empty(), "{json}");
    }
    for json in [r#"{"n": 1}"#, r#"{"$not": {}}"#, r#"{"$or": []}"#, r#"{"n": {"$exists": false}}"#, r#"{"n": {"$nin": [1]}}"#] {
        assert!(!Filter::parse(json).unwrap().is_empty(), "{json}");
    }
}

#[test]
fn a_top_level_key_with_dots_wins_over_a_path() {
    assert!(matches(json!({"a.b": 1}), json!({"a": {"b": 1}})));
    assert!(!matches(json!({"a.b": 1}), json!({"a": {"b": 1}, "a.b": 2})));
    assert!(matches(json!({"a.b": 2}), json!({"a": {"b": 1}, "a.b": 2})));
    assert!(matches(json!({"a.b.c": 3}), json!({"a": {"b": {"c": 3}}, "a.b": 2})));
    assert!(!matches(json!({"a.b.c": 3}), json!({"a": {"b.c": 3}})), "inside objects a step is a whole key");
    assert!(!matches(json!({"a.0": 3}), json!({"a": [3]})), "a path does not enter arrays");
    assert!(matches(json!({"a..b": 3}), json!({"a": {"": {"b": 3}}})));
    assert!(matches(json!({"": 3}), json!({"": 3})));
}

#[test]
fn negatives_are_exact_complements() {
    let documents = [json!({}), json!({"n": null}), json!({"n": 2}), json!({"n": "2"}), json!({"n": [2]}), json!({"n": {"x": 2}})];
    let pairs = [
        (json!({"$eq": 2}), json!({"$ne": 2})),
        (json!({"$in": [2, null]}), json!({"$nin": [2, null]})),
        (json!({"$contains": 2}), json!({"$not_contains": 2})),
        (json!({"$exists": true}), json!({"$exists": false})),
    ];
    for document in &documents {
        for (positive, negative) in &pairs {
            let positive = matches(json!({ "n": positive }), document.clone());
            assert_ne!(positive, matches(json!({ "n": negative }), document.clone()), "{document} {negative}");
        }
    }
}

#[test]
fn a_source_is_one_of_several_or_is_not_there() {
    let of = |filter: Value, source: Option<&str>| Filter::from_value(&filter).unwrap().matches(&Map::new(), "", source);
    for (filter, matching) in [
        (json!({"$source": "a"}), [true, false, false]),
        (json!({"$source": {"$eq": "a"}}), [true, false, false]),
        (json!({"$source": {"$ne": "a"}}), [false, true, true]),
        (json!({"$source": {"$in": ["a", "c"]}}), [true, false, false]),
        (json!({"$source": {"$nin": ["a", "c"]}}), [false, true, true]),
        (json!({"$source": {"$exists": true}}), [true, true, false]),
        (json!({"$source": {"$exists": false}}), [false, false, true]),
        (json!({"$source": null}), [false, false, true]),
        (json!({"$source": {"$in": []}}), [false, false, false]),
    ] {
        assert_eq!([Some("a"), Some("b"), None].map(|source| of(filter.clone(), source)), matching, "{filter}");
    }
    assert!(of(json!({"source": "a"}), None) != of(json!({"$source": "a"}), Some("a")), "a key of metadata is none");
    for wrong in [
        json!({"$source": 1}),
        json!({"$source": ["a"]}),
        json!({"$source": {}}),
        json!({"$source": {"$gt": "a"}}),
        json!({"$source": {"$in": [1]}}),
    ] {
        let error = Filter::from_value(&wrong).unwrap_err();
        assert!(error.code() == ErrorCode::InvalidArgument && error.to_string().contains("\"$source\""), "{wrong}: {error}");
    }
}

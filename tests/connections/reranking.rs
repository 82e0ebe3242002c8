//! `rerank`: scores in order, logits, and what is refused.

use crate::server::{Server, Step, score};
use serde_json::{Value, json};
use triune::connections::http::{HttpReranker, RerankerOptions};
use triune::models::{Call, ModelErrorKind, Reranker};

const TEXTS: [&str; 3] = ["nothing of it", "the torn tail of a log", "a log"];

fn scores(values: &[(Value, Value)]) -> Step {
    let results: Vec<Value> =
        values.iter().map(|(index, score)| json!({"index": index, "relevance_score": score, "document": {"text": "x"}})).collect();
    Step::Body(json!({"results": results}).to_string())
}

#[test]
fn scores_come_back_in_the_order_of_the_texts() {
    let server = Server::start();
    let reranker = HttpReranker::new(&server.client(), RerankerOptions::new("judge"));
    let found = reranker.score(&Call::default(), "torn log", &TEXTS).unwrap();
    assert_eq!(found, TEXTS.map(|text| score("torn log", text)));
    assert_eq!(found, [-0.5, 1.5, 0.5]);
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/rerank");
    assert_eq!(seen.body, json!({"model": "judge", "query": "torn log", "documents": TEXTS}));
    assert_eq!(reranker.score(&Call::default(), "torn log", &[]), Ok(Vec::new()));
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn many_texts_are_scored_in_several_requests() {
    let server = Server::start();
    let options = RerankerOptions { batch_texts: 2, ..RerankerOptions::new("judge") };
    let found = HttpReranker::new(&server.client(), options).score(&Call::default(), "torn log", &TEXTS).unwrap();
    assert_eq!(found, [-0.5, 1.5, 0.5]);
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn probabilities_become_logits_where_the_server_gives_them() {
    let values = [(json!(0), json!(0.5)), (json!(2), json!(0.9)), (json!(1), json!(0))];
    let server = Server::with([scores(&values), scores(&values)]);
    let options = RerankerOptions { probabilities: true, ..RerankerOptions::new("judge") };
    let found = HttpReranker::new(&server.client(), options.clone()).score(&Call::default(), "q", &TEXTS).unwrap();
    assert!(
        (found[0] - 0.0).abs() < 1e-12 && (found[2] - 9_f64.ln()).abs() < 1e-12 && found[1] < -16.0 && found[1].is_finite(),
        "{found:?}"
    );
    let as_given = HttpReranker::new(&server.client(), RerankerOptions::new("judge")).score(&Call::default(), "q", &TEXTS).unwrap();
    assert_eq!(as_given, [0.5, 0.0, 0.9]);
    let server = Server::with([scores(&[(json!(0), json!(0.5)), (json!(2), json!(1.5)), (json!(1), json!(0))])]);
    let error = HttpReranker::new(&server.client(), options).score(&Call::default(), "q", &TEXTS).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert!(error.message.contains("score 2 is no probability"), "{error}");
}

#[test]
fn a_reply_with_wrong_scores_is_malformed() {
    let zero = || json!(0.0);
    for (expected, step) in [
        ("2 scores for 3 texts", scores(&[(json!(0), zero()), (json!(1), zero())])),
        ("have the number 0", scores(&[(json!(0), zero()), (json!(0), zero()), (json!(1), zero())])),
        ("has the number 3", scores(&[(json!(1), zero()), (json!(2), zero()), (json!(3), zero())])),
        ("has not the fields", scores(&[(json!(0), zero()), (json!(1), zero()), (json!(2), json!(null))])),
        ("has not the fields", scores(&[(json!(0), zero()), (json!(1), zero()), (json!(-1), zero())])),
    ] {
        let server = Server::with([step]);
        let reranker = HttpReranker::new(&server.client(), RerankerOptions::new("judge"));
        let error = reranker.score(&Call::default(), "q", &TEXTS).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed);
        assert!(error.message.contains(expected), "{error} instead of {expected}");
    }
}

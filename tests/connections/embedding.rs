//! `embeddings`: order, batches, dimensions, and what is refused.

use crate::server::{DIMENSION, Server, Step, vector};
use serde_json::{Value, json};
use triune::connections::http::{EmbedderOptions, HttpEmbedder};
use triune::models::{Call, Embedder, ModelErrorKind, Purpose, TextRole, Usage, UsageLedger};

const TEXTS: [&str; 5] = ["one", "a longer text", "", "the fourth of them", "five"];

fn options() -> EmbedderOptions {
    EmbedderOptions { dimension: Some(DIMENSION as u32), ..EmbedderOptions::new("tiny") }
}

fn embedder(server: &Server, options: EmbedderOptions) -> HttpEmbedder {
    HttpEmbedder::new(&server.client(), options, &Call::default()).unwrap()
}

/// What a reply must be for `TEXTS`: the empty one is sent as a blank.
fn expected() -> Vec<Vec<f32>> {
    TEXTS.iter().map(|text| vector(if text.is_empty() { " " } else { text })).collect()
}

#[test]
fn vectors_come_back_in_the_order_of_the_texts_whatever_the_order_of_the_reply() {
    let server = Server::start();
    let vectors = embedder(&server, options()).embed(&Call::default(), &TEXTS, TextRole::Document).unwrap();
    assert_eq!(vectors, expected());
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].path, "/v1/embeddings");
    assert_eq!(seen[0].body["input"], json!(["one", "a longer text", " ", "the fourth of them", "five"]));
    assert_eq!((&seen[0].body["model"], &seen[0].body["encoding_format"]), (&json!("tiny"), &json!("float")));
    assert_eq!(seen[0].header("authorization"), None, "no key was configured");
}

#[test]
fn base64_and_numbers_give_the_same_vectors() {
    let server = Server::start();
    let embedder = embedder(&server, EmbedderOptions { base64: true, ..options() });
    assert_eq!(embedder.embed(&Call::default(), &TEXTS, TextRole::Document).unwrap(), expected());
    assert_eq!(server.seen()[0].body["encoding_format"], "base64");
}

#[test]
fn texts_are_cut_into_requests_by_number_and_by_bytes() {
    let server = Server::start();
    let by_count = embedder(&server, EmbedderOptions { batch_texts: 2, ..options() });
    assert_eq!(by_count.embed(&Call::default(), &TEXTS, TextRole::Document).unwrap(), expected());
    let sizes = |server: &Server| server.seen().iter().map(|s| s.body["input"].as_array().unwrap().len()).collect::<Vec<_>>();
    assert_eq!(sizes(&server), [2, 2, 1]);
    let by_bytes = embedder(&server, EmbedderOptions { batch_bytes: 16, ..options() });
    assert_eq!(by_bytes.embed(&Call::default(), &TEXTS, TextRole::Document).unwrap(), expected());
    assert_eq!(sizes(&server)[3..], [3, 1, 1]);
    assert_eq!(server.connections(), 2, "a client keeps its connection, and there were two clients");
}

#[test]
fn no_texts_are_no_request() {
    let server = Server::start();
    assert_eq!(embedder(&server, options()).embed(&Call::default(), &[], TextRole::Query), Ok(Vec::new()));
    assert!(server.seen().is_empty());
}

#[test]
fn a_dimension_that_is_not_given_is_asked_for() {
    let server = Server::start();
    let embedder = embedder(&server, EmbedderOptions::new("tiny"));
    assert_eq!((embedder.dimension(), embedder.fingerprint()), (DIMENSION as u32, "http:tiny/4"));
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_dimension_is_sent_where_it_is_to_be() {
    let server = Server::start();
    let embedder = embedder(&server, EmbedderOptions { dimension: Some(2), send_dimension: true, ..options() });
    assert_eq!(embedder.embed_one(&Call::default(), "four", TextRole::Query).unwrap(), vector("four")[..2]);
    assert_eq!(server.seen()[0].body["dimensions"], 2);
    let without = EmbedderOptions { send_dimension: true, ..EmbedderOptions::new("tiny") };
    let error = HttpEmbedder::new(&server.client(), without, &Call::default()).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Configuration);
}

#[test]
fn questions_and_documents_get_their_prefixes() {
    let server = Server::start();
    let prefixes = EmbedderOptions { query_prefix: "query: ".into(), document_prefix: "passage: ".into(), ..options() };
    let embedder = embedder(&server, prefixes);
    assert_eq!(embedder.embed_one(&Call::default(), "x", TextRole::Query).unwrap(), vector("query: x"));
    assert_eq!(embedder.embed_one(&Call::default(), "x", TextRole::Document).unwrap(), vector("passage: x"));
    assert_ne!(embedder.fingerprint(), "http:tiny/4", "a prefix changes vectors");
}

#[test]
fn tokens_are_counted_by_purpose_for_every_request() {
    let server = Server::start();
    let ledger = UsageLedger::default();
    let call = Call { usage: Some(&ledger), ..Call::default() };
    let embedder = embedder(&server, EmbedderOptions { batch_texts: 2, ..options() });
    embedder.embed(&call.with_purpose(Purpose::EMBED_DOCUMENTS), &TEXTS, TextRole::Document).unwrap();
    embedder.embed_one(&call.with_purpose(Purpose::EMBED_QUERY), "x", TextRole::Query).unwrap();
    let by_purpose = ledger.by_purpose();
    assert_eq!(by_purpose[&Purpose::EMBED_DOCUMENTS], Usage { calls: 3, prompt_tokens: 15, completion_tokens: 0 });
    assert_eq!(by_purpose[&Purpose::EMBED_QUERY], Usage { calls: 1, prompt_tokens: 3, completion_tokens: 0 });
}

/// A reply with these items.
fn reply(items: &[(Value, Value)]) -> Step {
    let data: Vec<Value> = items.iter().map(|(index, embedding)| json!({"index": index, "embedding": embedding})).collect();
    Step::Body(json!({"data": data}).to_string())
}

#[test]
fn a_reply_with_wrong_vectors_is_malformed_and_not_asked_for_again() {
    let whole = || json!([1, 2, 3, 4]);
    let short = json!([1, 2, 3]);
    let wrong = [
        ("1 vectors for 2 texts", reply(&[(json!(0), whole())])),
        ("3 vectors for 2 texts", reply(&[(json!(0), whole()), (json!(1), whole()), (json!(2), whole())])),
        ("have the number 1", reply(&[(json!(1), whole()), (json!(1), whole())])),
        ("has the number 2", reply(&[(json!(0), whole()), (json!(2), whole())])),
        ("has 3 components, not 4", reply(&[(json!(0), whole()), (json!(1), short)])),
        ("not finite", reply(&[(json!(0), whole()), (json!(1), json!([1, 2, 3, 1e39]))])),
        ("not finite", reply(&[(json!(0), whole()), (json!(1), json!("AACAfwAAgD8AAIA/AACAPw=="))])),
        ("has not the fields", reply(&[(json!(0), whole()), (json!(1), json!([1, 2, 3, null]))])),
        ("has not the fields", reply(&[(json!(0), whole()), (json!(1), json!("no base64"))])),
        ("has not the fields", Step::Body("{\"error\": \"none\"}".into())),
        ("is not JSON", Step::Body("{\"data\": [{\"index\": 0, \"embedding\": [NaN, 1, 2, 3]}]}".into())),
        ("is not JSON", Step::Body("<html>It works!</html>".into())),
    ];
    for (expected, step) in wrong {
        let server = Server::with([step]);
        let embedder = embedder(&server, options());
        let error = embedder.embed(&Call::default(), &["a", "b"], TextRole::Document).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed, "{error}");
        assert!(error.message.contains(expected), "{error} instead of {expected}");
        assert!(error.message.contains(&format!("127.0.0.1:{}", server.port())), "{error}");
        assert_eq!(server.seen().len(), 1, "{expected}");
        assert!(embedder.embed(&Call::default(), &["a", "b"], TextRole::Document).is_ok(), "the next call is whole again");
    }
}

#[test]
fn vectors_without_numbers_are_in_the_order_of_the_texts() {
    let server = Server::with([Step::Body(json!({"data": [{"embedding": [1, 0, 0, 0]}, {"embedding": [0, 1, 0, 0]}]}).to_string())]);
    let vectors = embedder(&server, options()).embed(&Call::default(), &["a", "b"], TextRole::Document).unwrap();
    assert_eq!(vectors, [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]);
}

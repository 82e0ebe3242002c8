//! `chat/completions`: what is sent, and what a reply may be.

use crate::server::{Server, Step};
use serde_json::{Map, json};
use triune::connections::http::{ChatOptions, HttpLanguageModel, HttpOptions, OpenAiCompatible};
use triune::models::{Call, LanguageModel, ModelErrorKind, Prompt, Purpose, Usage, UsageLedger};

fn model(server: &Server) -> HttpLanguageModel {
    HttpLanguageModel::new(&server.client(), ChatOptions::new("talker"))
}

#[test]
fn a_prompt_is_sent_whole_and_its_tokens_are_counted_by_purpose() {
    let server = Server::start();
    let ledger = UsageLedger::default();
    let call = Call { purpose: Purpose::CONDENSE, usage: Some(&ledger), ..Call::default() };
    let prompt = Prompt { system: "Be brief.".into(), max_tokens: Some(64), json: true, ..Prompt::new("What is \"this\"?\n") };
    assert_eq!(model(&server).complete(&call, &prompt).unwrap(), "You said: What is \"this\"?\n");
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/chat/completions");
    let expected = json!({
        "model": "talker", "stream": false, "max_tokens": 64, "response_format": {"type": "json_object"},
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is \"this\"?\n"}],
    });
    assert_eq!(seen.body, expected);
    assert_eq!(ledger.by_purpose()[&Purpose::CONDENSE], Usage { calls: 1, prompt_tokens: 11, completion_tokens: 7 });
}

#[test]
fn a_prompt_may_name_its_model_and_options_may_add_fields() {
    let server = Server::start();
    let extra = Map::from_iter([("temperature".to_string(), json!(0.5)), ("stream_options".to_string(), json!(null))]);
    let options = ChatOptions { max_tokens_field: "max_completion_tokens".into(), json_mode: false, extra, ..ChatOptions::new("talker") };
    let model = HttpLanguageModel::new(&server.client(), options);
    assert_eq!(model.name(), "talker");
    let prompt = Prompt { model: Some("other".into()), json: true, max_tokens: Some(5), ..Prompt::new("x") };
    model.complete(&Call::default(), &prompt).unwrap();
    let expected = json!({
        "model": "other", "stream": false, "max_completion_tokens": 5, "temperature": 0.5, "stream_options": null,
        "messages": [{"role": "user", "content": "x"}],
    });
    assert_eq!(server.seen()[0].body, expected);
}

#[test]
fn request_and_purpose_go_along_in_headers_that_nothing_can_break() {
    let server = Server::start();
    let options = HttpOptions { purpose_header: Some("x-triune-purpose".into()), ..server.options() };
    let model = HttpLanguageModel::new(&OpenAiCompatible::new(options).unwrap(), ChatOptions::new("talker"));
    let call = Call { request_id: Some("r-17\r\nx-evil: 1"), purpose: Purpose::PRESCREEN, ..Call::default() };
    model.complete(&call, &Prompt::new("x")).unwrap();
    model.complete(&Call::default(), &Prompt::new("x")).unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].header("x-request-id"), Some("r-17??x-evil: 1"));
    assert_eq!(seen[0].header("x-evil"), None);
    assert_eq!(seen[0].header("x-triune-purpose"), Some("rag_prescreen"));
    assert_eq!(seen[1].header("x-request-id"), None);
    for wrong in ["", "x y", "x\r\ny", "x:"] {
        let options = HttpOptions { purpose_header: Some(wrong.into()), ..server.options() };
        assert_eq!(OpenAiCompatible::new(options).unwrap_err().kind, ModelErrorKind::Configuration);
    }
}

#[test]
fn an_empty_reply_is_a_reply_and_a_refusal_is_none() {
    let answer = |message: serde_json::Value| Step::Body(json!({"choices": [{"message": message}], "usage": null}).to_string());
    let server = Server::with([
        answer(json!({"role": "assistant", "content": ""})),
        answer(json!({"role": "assistant", "content": null})),
        answer(json!({"role": "assistant", "content": null, "refusal": "I will not say hidden."})),
        Step::Body(json!({"choices": []}).to_string()),
        answer(json!({"role": "assistant", "content": 7})),
    ]);
    let ask = || model(&server).complete(&Call::default(), &Prompt::new("x"));
    assert_eq!(ask().unwrap(), "");
    assert_eq!(ask().unwrap(), "");
    let refused = ask().unwrap_err();
    assert_eq!(refused.kind, ModelErrorKind::Refused);
    assert!(!refused.message.contains("hidden"), "{refused}");
    assert_eq!(ask().unwrap_err().kind, ModelErrorKind::Malformed);
    assert_eq!(ask().unwrap_err().kind, ModelErrorKind::Malformed);
    assert_eq!(server.seen().len(), 5);
}

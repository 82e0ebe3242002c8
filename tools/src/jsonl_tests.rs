//! The JSON lines that `load` reads.

use super::*;

fn form(fields: &str, rest: bool) -> Form {
    let fields: Vec<String> = fields.split(',').map(str::to_string).collect();
    Form::new(&fields, rest).expect("the fields are fields of text")
}

fn refusal(form: &Form, line: &str) -> String {
    match form.document(line) {
        Err(Failure::Refused { message, .. }) => message,
        other => panic!("{line} should be refused: {other:?}"),
    }
}

#[test]
fn a_full_line_becomes_its_document_and_null_equals_absent() {
    let d = Form::default()
        .document(r#"{"id":"a","text":"t","metadata":{"x" : 1.50},"vector":[1,-0.5],"source":"s"}"#)
        .expect("a full line is read");
    let want = Document::new("a").text("t").vector(vec![1.0, -0.5]).source("s");
    assert_eq!(d.metadata.as_ref().map(Metadata::as_str), Some(r#"{"x" : 1.50}"#));
    assert_eq!(Document { metadata: None, ..d }, want);
    let line = r#"{"id":"a","text":null,"metadata":null,"vector":null,"source":null,"entities":null,"relations":null}"#;
    assert_eq!(Form::default().document(line).expect("nulls are absent"), Document::new("a"));
}

#[test]
fn refusals_name_the_key() {
    let plain = Form::default();
    for (line, words) in [
        (r#"{"text":"x"}"#, "\"id\""),
        (r#"{"id":7}"#, "the number 7"),
        (r#"{"id":true}"#, "\"id\""),
        (r#"{"id":"a","text":1}"#, "\"text\""),
        (r#"{"id":"a","vector":"x"}"#, "\"vector\""),
        (r#"{"id":"a","vector":[1,null]}"#, "\"vector\""),
        (r#"{"id":"a","metadata":[1]}"#, "metadata"),
        (r#"{"id":"a","title":"x"}"#, "\"title\""),
        (r#"{"id":"a","id":"b"}"#, "twice"),
        (r#"{"id":"a","entities":[{}]}"#, "\"entities\""),
        (r#"{"id":"a","relations":1}"#, "\"relations\""),
        ("[1]", "an object"),
        (r#"{"id":"a""#, "column"),
        (r#"{"id":"a","vector":[NaN]}"#, "column"),
    ] {
        let message = refusal(&plain, line);
        assert!(message.contains(words), "{line}: {message:?} should say {words:?}");
    }
}

#[test]
fn joined_fields_make_the_text_and_are_consumed() {
    let joined = form("title,text", false);
    let d = joined.document(r#"{"id":"a","title":"T","text":"body"}"#).expect("title is consumed");
    assert_eq!((d.text.as_str(), d.metadata), ("T\n\nbody", None));
    let d = joined.document(r#"{"id":"a","title":null,"text":"body"}"#).expect("an absent field is skipped");
    assert_eq!(d.text, "body");
    assert!(refusal(&joined, r#"{"id":"a","page":1}"#).contains("\"page\""));
    assert!(refusal(&form("title", false), r#"{"id":"a","title":"T","text":"unused"}"#).contains("\"text\""));
    assert!(Form::new(&["vector".to_string()], false).is_err());
}

#[test]
fn the_rest_goes_into_the_metadata_as_it_stands() {
    let rest = form("title,text", true);
    let metadata = |line: &str| rest.document(line).expect("no key is unknown").metadata.map(|m| m.as_str().to_string());
    assert_eq!(metadata(r#"{"id":"a","n": 1.50e3 ,"title":"T","text":"b"}"#).as_deref(), Some(r#"{"n":1.50e3,"title":"T"}"#));
    assert_eq!(
        metadata(r#"{"id":"a","metadata":{ "k" : [1, 2] },"big":12345678901234567890123}"#).as_deref(),
        Some(r#"{ "k" : [1, 2],"big":12345678901234567890123}"#)
    );
    assert_eq!(metadata(r#"{"id":"a","metadata":{ },"a\"b":"\u00e9"}"#).as_deref(), Some(r#"{"a\"b":"\u00e9"}"#));
    assert_eq!(metadata(r#"{"id":"a","text":"t"}"#), None);
    assert!(refusal(&rest, r#"{"id":"a","metadata":{"k":1},"k":2}"#).contains("\"k\""));
    assert!(refusal(&rest, r#"{"id":"a","metadata":3,"k":2}"#).contains("metadata"));
}

#[test]
fn a_stored_document_prints_as_the_line_it_came_from() {
    let stored = StoredDocument {
        id: "a".into(),
        text: "t".into(),
        metadata: Some(Metadata::from_json("{\"x\" :\n 1.50}").expect("it is an object")),
        vector: Some(vec![0.1, 2.0].into()),
        source: Some("s".into()),
        source_given: true,
        time_ms: 0,
        entities: None,
        relations: None,
    };
    let print = |vectors| serde_json::to_string(&Line { document: &stored, vectors }).expect("a document is JSON");
    assert_eq!(print(false), r#"{"id":"a","text":"t","metadata":{"x" :  1.50},"source":"s"}"#);
    assert_eq!(print(true), r#"{"id":"a","text":"t","metadata":{"x" :  1.50},"source":"s","vector":[0.1,2.0]}"#);
    let derived = StoredDocument { source_given: false, ..stored.clone() };
    assert!(!serde_json::to_string(&Line { document: &derived, vectors: false }).expect("a document is JSON").contains("source"));
}

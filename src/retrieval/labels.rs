//! The labels by which a passage is cited: title, source and file name, out of whatever its metadata holds.

use crate::document::Metadata;
use crate::document::json::Plain;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// What a passage is cited by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) title: String,
    pub(crate) source: String,
    pub(crate) filename: String,
}

/// The labels of a document.
///
/// - *title*: the metadata's `title`, else its `post_title`, else the text; of that what stands behind the last `/`. A key that is there counts,
///   whatever its value: what is no string is written as Python writes it.
/// - *filename*: the first of `filename`, `file_name` and `source` that is neither empty nor zero nor false; of a string the part behind the last
///   `/`, or all of it when that is empty; of anything else, or without one, the title.
/// - *source*: the metadata's `source`, if that is neither empty nor zero nor false; else the id of the source that was asked.
pub(crate) fn labels(metadata: Option<&Metadata>, text: &str, source_id: &str) -> Labels {
    let values = metadata.map(|metadata| values(metadata.as_str())).unwrap_or_default();
    let get = |key: &str| KEYS.iter().position(|known| *known == key).and_then(|at| values[at].as_ref());
    let title = get("title").or_else(|| get("post_title")).map_or(Cow::Borrowed(text), spelled);
    let title = behind_last_slash(&title).to_string();
    let named = ["filename", "file_name", "source"].into_iter().filter_map(get).find(|value| is_truthy(value));
    let filename = match named {
        Some(Value::String(name)) => match behind_last_slash(name) {
            "" => name.clone(),
            base => base.to_string(),
        },
        Some(_) | None => title.clone(),
    };
    let source = get("source").filter(|value| is_truthy(value)).map_or(Cow::Borrowed(source_id), spelled).into_owned();
    Labels { title, source, filename }
}

/// The keys that labels are made of.
const KEYS: [&str; 5] = ["title", "post_title", "filename", "file_name", "source"];

/// The values of [`KEYS`], of which others are passed over unread: a passage has labels, most metadata is for something else.
type Values = [Option<Value>; KEYS.len()];

fn values(json: &str) -> Values {
    /// Goes through an object once.
    struct Reading;

    impl<'de> Visitor<'de> for Reading {
        type Value = Values;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values, A::Error> {
            let mut values = Values::default();
            while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
                match KEYS.iter().position(|known| *known == key) {
                    // Of a key that stands twice the last value counts, as everywhere.
                    Some(at) => values[at] = Some(map.next_value::<Plain>()?.0),
                    None => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(values)
        }
    }

    // What was stored is an object.
    serde_json::Deserializer::from_str(json).deserialize_map(Reading).unwrap_or_default()
}

/// A key, borrowed where it holds no escape.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

fn behind_last_slash(text: &str) -> &str {
    text.rsplit('/').next().unwrap_or(text)
}

/// Whether Python takes a value for true.
fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::String(s) => !s.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// A value as Python's `str` writes it.
fn spelled(value: &Value) -> Cow<'_, str> {
    value.as_str().map_or_else(|| Cow::Owned(inner(value)), Cow::Borrowed)
}

/// A value as Python writes it inside another one.
fn inner(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => {
            let quote = if s.contains('\'') && !s.contains('"') { '"' } else { '\'' };
            let escaped = s.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
            let escaped = if quote == '\'' { escaped.replace('\'', "\\'") } else { escaped };
            format!("{quote}{escaped}{quote}")
        }
        Value::Array(list) => format!("[{}]", list.iter().map(inner).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let pair = |(key, value): (&String, &Value)| format!("{}: {}", inner(&Value::String(key.clone())), inner(value));
            format!("{{{}}}", map.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(metadata: Value, text: &str) -> (String, String, String) {
        let metadata = Metadata::from_json(metadata.to_string()).unwrap();
        let Labels { title, source, filename } = labels(Some(&metadata), text, "the-id");
        (title, source, filename)
    }

    fn owned(title: &str, source: &str, filename: &str) -> (String, String, String) {
        (title.into(), source.into(), filename.into())
    }

    #[test]
    fn a_title_is_the_metadatas_or_the_text_behind_its_last_slash() {
        assert_eq!(of(json!({"title": "docs/a/Guide"}), "t").0, "Guide");
        assert_eq!(of(json!({"post_title": "Post"}), "t").0, "Post");
        assert_eq!(of(json!({"title": "T", "post_title": "P"}), "t").0, "T");
        assert_eq!(of(json!({}), "and/or what").0, "or what");
        assert_eq!(of(json!({"title": "ends with/"}), "t").0, "");
        assert_eq!(labels(None, "text", "id"), Labels { title: "text".into(), source: "id".into(), filename: "text".into() });
    }

    #[test]
    fn metadata_is_read_whatever_else_it_holds_and_however_its_keys_are_spelled() {
        let title = |json: &str| labels(Some(&Metadata::from_json(json).unwrap()), "t", "id").title;
        assert_eq!(title(r#"{"a": {"title": "inner"}, "title": "T", "b": [{"title": 1}]}"#), "T");
        assert_eq!(title(r#"{"\u0074itle": "T"}"#), "T");
        assert_eq!(title(r#"{"title": "first", "title": "last"}"#), "last");
    }

    #[test]
    fn a_title_that_is_there_counts_whatever_it_is() {
        assert_eq!(of(json!({"title": "", "post_title": "P"}), "t").0, "");
        assert_eq!(of(json!({"title": null, "post_title": "P"}), "t").0, "None");
        assert_eq!(of(json!({"title": true}), "t").0, "True");
        assert_eq!(of(json!({"title": 7}), "t").0, "7");
        assert_eq!(of(json!({"title": ["a", 1, null, "it's"]}), "t").0, "['a', 1, None, \"it's\"]");
        assert_eq!(of(json!({"title": {"k": "v"}}), "t").0, "{'k': 'v'}");
    }

    #[test]
    fn a_file_name_is_the_first_that_says_something_without_its_folders() {
        assert_eq!(of(json!({"filename": "a/b.md", "file_name": "c.md"}), "t").2, "b.md");
        assert_eq!(of(json!({"filename": "", "file_name": "x/c.md"}), "t").2, "c.md");
        assert_eq!(of(json!({"source": "https://h/p/d.html"}), "t").2, "d.html");
        assert_eq!(of(json!({"source": "https://h/p/"}), "t").2, "https://h/p/");
        assert_eq!(of(json!({"filename": 7, "source": "d.md"}), "title").2, "title");
        assert_eq!(of(json!({"filename": 0, "source": "d.md"}), "title").2, "d.md");
        assert_eq!(of(json!({"title": "T"}), "text"), owned("T", "the-id", "T"));
    }

    #[test]
    fn a_source_is_the_metadatas_if_it_says_something_else_the_id_that_was_asked() {
        assert_eq!(of(json!({"source": "s"}), "t").1, "s");
        for silent in [json!(""), json!(null), json!(0), json!(false), json!([]), json!({})] {
            assert_eq!(of(json!({"source": silent}), "t").1, "the-id");
        }
        assert_eq!(of(json!({"source": 5}), "t").1, "5");
    }
}

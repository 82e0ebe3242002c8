//! A model's reply about a chunk: entities and relations that can be stored, and how much of the reply was not so.

use crate::document::{Entity, Relation, check_graph};
use crate::graph::key;
use crate::options::limits;
use crate::retrieval::stages::fence::{outermost_object, outermost_span};
use crate::unicode::lower;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

/// The weight of a relation that has none.
const WEIGHT_DEFAULT: f64 = 1.0;
/// Weights below and above are brought here: a relation counts something, and none drowns the others.
const WEIGHTS: (f64, f64) = (0.01, 10.0);

/// What a chunk tells of, as the model sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Extracted {
    pub(super) entities: Vec<Entity>,
    pub(super) relations: Vec<Relation>,
    /// Weights that were brought into their range, or were no numbers.
    pub(super) mended: u64,
    /// Entities and relations without a name that can be stored.
    pub(super) dropped: u64,
}

/// Reads a reply about `text`. `None` when it is no JSON object, or holds something else than lists under the two names, or more than a document
/// can have.
///
/// Names are trimmed; those that differ in letter case alone are one entity, of the first spelling and the first type. An entity counts as often as
/// the text has its name. A relation joins names, whether they are among the entities or not; it is dropped when one of them is missing. A weight
/// that is absent, null, zero or no number is 1; one that is below 0.01 is 0.01, one above 10, or infinite, is 10. O(reply + text x entities).
pub(super) fn read(reply: &str, text: &str) -> Option<Extracted> {
    let object = outermost_object(reply).or_else(|| outermost_object(&with_odd_numbers_quoted(outermost_span(reply)?)))?;
    let mut extracted = Extracted::default();
    let mut places: FxHashMap<Box<str>, usize> = FxHashMap::default();
    let lowered = lower(text);
    for value in list(&object, &["entities"])? {
        let Some((object, name)) = value.as_object().and_then(|object| Some((object, name(object, "name")?))) else {
            extracted.dropped += 1;
            continue;
        };
        let place = *places.entry(key(name)).or_insert_with_key(|key| {
            extracted.entities.push(Entity::new(name).mentions(times(&lowered, key)));
            extracted.entities.len() - 1
        });
        let entity = &mut extracted.entities[place];
        entity.kind = entity.kind.take().or_else(|| kind(object));
    }
    for value in list(&object, &["relationships", "relations"])? {
        let ends = value.as_object().and_then(|object| Some((object, name(object, "source")?, name(object, "target")?)));
        let Some((object, source, target)) = ends else {
            extracted.dropped += 1;
            continue;
        };
        let spelling =
            |name: &str| places.get(&key(name)).map_or_else(|| name.to_string(), |place| extracted.entities[*place].name.clone());
        let (weight, mended) = weight(object.get("weight"));
        extracted.mended += u64::from(mended);
        let relation = Relation {
            kind: kind(object),
            description: words(object, "description"),
            weight,
            ..Relation::new(spelling(source), spelling(target))
        };
        extracted.relations.push(relation);
    }
    check_graph("", Some(&extracted.entities), Some(&extracted.relations)).is_ok().then_some(extracted)
}

/// The list under the first of these names that is there; empty when none is, `None` when something else stands there.
fn list<'a>(object: &'a Map<String, Value>, names: &[&str]) -> Option<&'a [Value]> {
    match names.iter().find_map(|name| object.get(*name).filter(|value| !value.is_null())) {
        None => Some(&[]),
        Some(value) => value.as_array().map(Vec::as_slice),
    }
}

/// A trimmed string that says something.
fn words(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.get(key).and_then(Value::as_str).map(str::trim).filter(|words| !words.is_empty()).map(String::from)
}

/// The name of an entity, if it can be stored.
fn name<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    let name = object.get(key).and_then(Value::as_str)?.trim();
    (1..=limits::NAME_BYTES_MAX).contains(&name.len()).then_some(name)
}

fn kind(object: &Map<String, Value>) -> Option<String> {
    words(object, "type").filter(|kind| kind.len() <= limits::NAME_BYTES_MAX)
}

/// The weight to store, and whether another one was given.
fn weight(value: Option<&Value>) -> (f64, bool) {
    let given = match value {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse::<f64>().ok(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => None,
    };
    match given {
        None => (WEIGHT_DEFAULT, false),
        Some(0.0) => (WEIGHT_DEFAULT, false),
        Some(given) if given.is_nan() => (WEIGHT_DEFAULT, true),
        Some(given) => {
            let weight = given.clamp(WEIGHTS.0, WEIGHTS.1);
            (weight, weight != given)
        }
    }
}

/// How often a lower-case text has a key, as words of its own; at least once, since the model saw it there.
fn times(text: &str, key: &str) -> u32 {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let stands_alone =
        |(at, _): &(usize, &str)| !is_word(text[..*at].chars().next_back()) && !is_word(text[at + key.len()..].chars().next());
    u32::try_from(text.match_indices(key).filter(stands_alone).count()).unwrap_or(u32::MAX).max(1)
}

/// JSON in which numbers that JSON does not have (`NaN`, `Infinity`, `1e999`), and that some models write all the same, are strings.
fn with_odd_numbers_quoted(json: &str) -> String {
    let mut quoted = String::with_capacity(json.len() + 16);
    let (mut rest, mut in_string) = (json, false);
    while let Some(first) = rest.chars().next() {
        if in_string {
            // Up to the quote that ends it; what is escaped ends nothing.
            let width = if first == '\\' { 1 + rest[1..].chars().next().map_or(0, char::len_utf8) } else { first.len_utf8() };
            in_string = first != '"';
            quoted.push_str(&rest[..width]);
            rest = &rest[width..];
            continue;
        }
        let width = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'))).unwrap_or(rest.len());
        if width == 0 {
            in_string = first == '"';
            quoted.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let token = &rest[..width];
        let is_odd = token.parse::<f64>().is_ok_and(|number| !number.is_finite());
        let quote = if is_odd { "\"" } else { "" };
        quoted.extend([quote, token, quote]);
        rest = &rest[width..];
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(reply: &str) -> (Vec<f64>, u64) {
        let extracted = read(reply, "").expect("a reply");
        (extracted.relations.iter().map(|r| r.weight).collect(), extracted.mended)
    }

    fn relations_of_weights(weights: &[&str]) -> String {
        let relation = |weight: &&str| format!(r#"{{"source": "a", "target": "b", "weight": {weight}}}"#);
        format!(r#"{{"entities": [], "relationships": [{}]}}"#, weights.iter().map(relation).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn entities_are_known_by_their_lower_cased_trimmed_names() {
        let reply = r#"```json
            {"entities": [{"name": " Marie Curie "}, {"name": "MARIE CURIE", "type": "person"}, {"name": "Radium", "type": "element"}, {"name": "radium", "type": "x"}],
             "relationships": [{"source": "marie curie", "target": "RADIUM", "type": "discovered", "description": " She did. ", "weight": 2.5}]}
            ```"#;
        let extracted = read(reply, "Marie Curie found radium; radium glows. Radiums? marie curie.").expect("a reply");
        assert_eq!(
            extracted.entities,
            [Entity::new("Marie Curie").kind("person").mentions(2), Entity::new("Radium").kind("element").mentions(2)]
        );
        let discovered = Relation::new("Marie Curie", "Radium").kind("discovered").description("She did.").weight(2.5);
        assert_eq!(extracted.relations, [discovered]);
        assert_eq!((extracted.mended, extracted.dropped), (0, 0));
    }

    #[test]
    fn a_weight_is_finite_and_above_zero_whatever_was_given() {
        let (given, mended) = weights(&relations_of_weights(&["3", "\"7\"", "null", "0", "-0.0", "\"strong\"", "true", "[]", "0.5"]));
        assert_eq!((given, mended), (vec![3.0, 7.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5], 0));
        let (given, mended) = weights(&relations_of_weights(&["-4", "11", "NaN", "Infinity", "-Infinity", "1e999", "0.001"]));
        assert_eq!((given, mended), (vec![0.01, 10.0, 1.0, 10.0, 0.01, 10.0, 0.01], 7));
        assert_eq!(weights(r#"{"relations": [{"source": "a", "target": "b"}]}"#), (vec![1.0], 0));
    }

    #[test]
    fn odd_numbers_are_quoted_outside_of_strings_alone() {
        let json = r#"{"a": NaN, "NaN": "a \" NaN \\", "b": [-Infinity, 1e400, 12, -1.5e3, true, null], "ü": "Infinity"}"#;
        let quoted = r#"{"a": "NaN", "NaN": "a \" NaN \\", "b": ["-Infinity", "1e400", 12, -1.5e3, true, null], "ü": "Infinity"}"#;
        assert_eq!(with_odd_numbers_quoted(json), quoted);
        assert_eq!(with_odd_numbers_quoted("\"\\"), "\"\\");
    }

    #[test]
    fn what_has_no_name_is_dropped_and_counted() {
        let long = "x".repeat(limits::NAME_BYTES_MAX + 1);
        let reply = format!(
            r#"{{"entities": [{{"name": ""}}, {{"name": "  "}}, {{"name": 7}}, {{"type": "x"}}, "bare", null, {{"name": "{long}"}}, {{"name": "Kept"}}],
            "relationships": [{{"source": null, "target": "Kept"}}, {{"source": "Kept", "target": " "}}, {{"source": "Kept"}}, 3, {{"source": "Kept", "target": "Unseen"}}]}}"#
        );
        let extracted = read(&reply, "Kept").expect("a reply");
        assert_eq!(extracted.entities, [Entity::new("Kept")]);
        assert_eq!(extracted.relations, [Relation::new("Kept", "Unseen")]);
        assert_eq!(extracted.dropped, 11);
    }

    #[test]
    fn a_reply_that_is_no_graph_is_none_and_one_without_lists_is_empty() {
        for reply in
            ["", "I cannot help with that.", "[1]", r#"{"entities": {}}"#, r#"{"relationships": "none"}"#, r#"{"entities": [{"name": "a"}"#]
        {
            assert_eq!(read(reply, ""), None, "{reply}");
        }
        for reply in ["{}", r#"{"entities": null}"#, r#"{"entities": [], "relationships": []}"#] {
            assert_eq!(read(reply, ""), Some(Extracted::default()), "{reply}");
        }
        let huge =
            format!(r#"{{"relationships": [{{"source": "a", "target": "b", "description": "{}"}}]}}"#, "z".repeat(limits::GRAPH_BYTES_MAX));
        assert_eq!(read(&huge, ""), None);
    }
}

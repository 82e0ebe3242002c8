//! Filters: how they are drawn, and what they mean.
//!
//! The meaning is written from `docs/filters.md` alone, over the JSON of the filter as it stands, so that it shares nothing with `src/filter`.

use super::operations::SOURCES;
use regex::Regex;
use serde_json::{Map, Number, Value};
use std::cmp::Ordering;

/// Chooses a number below another one; 0 is the plainest choice.
pub type Pick<'a> = &'a mut dyn FnMut(usize) -> usize;

/// Scalars of every kind, numbers that only exact comparison keeps apart among them.
const SCALARS: [&str; 22] = [
    "1",
    "2",
    "2.0",
    "2.5",
    "3",
    "0",
    "-1",
    "-0.0",
    "1500",
    "1152921504606846976",
    "1152921504606846977",
    "1.152921504606846976e18",
    "12345678901234567890123",
    "null",
    "true",
    "false",
    r#""x""#,
    r#""2""#,
    r#""one.md""#,
    r#""""#,
    r#""ü""#,
    r#""y""#,
];
const PATHS: [&str; 17] = [
    "page",
    "tag",
    "n",
    "tags",
    "flag",
    "file_hash",
    "s",
    "a.b",
    "a.c.d",
    "a",
    "a.c",
    "big",
    "deep.é",
    "long",
    "missing",
    "missing.too",
    "",
];
const REGEXES: [&str; 6] = ["^x", "md$", "(?i)RED", r"\d", "", "^[a-z]{2,}$"];
const PARTS: [&str; 7] = ["fox", "Fox", "é", "日本", "RAG", "", "nothing of the sort"];

/// Longer than what the index of metadata holds whole; two of them differ in their ends alone.
pub fn long_string(last: usize) -> String {
    format!("{}{}", "long ".repeat(30), last % 2)
}

/// A key longer than what the index of metadata holds whole.
pub fn long_key() -> String {
    "key".repeat(100)
}

pub fn scalar(pick: Pick<'_>) -> Value {
    match pick(SCALARS.len() + 2) {
        at if at < SCALARS.len() => serde_json::from_str(SCALARS[at]).unwrap(),
        at => long_string(at).into(),
    }
}

/// A filter with at most `depth` levels of `$and`, `$or` and `$not`.
pub fn draw(pick: Pick<'_>, depth: usize) -> Value {
    let conditions = [1, 1, 1, 2, 0][pick(5)];
    Value::Object((0..conditions).map(|_| condition(pick, depth)).collect())
}

fn condition(pick: Pick<'_>, depth: usize) -> (String, Value) {
    match pick(if depth > 0 { 14 } else { 11 }) {
        0..=7 => (PATHS[pick(PATHS.len())].into(), field(pick)),
        8 => (long_key(), field(pick)),
        9 => ("$text".into(), operators(pick, text_operator)),
        10 => ("$source".into(), source(pick)),
        11 => ("$not".into(), draw(pick, depth - 1)),
        12 => ("$and".into(), (0..pick(3)).map(|_| draw(pick, depth - 1)).collect()),
        _ => ("$or".into(), (0..pick(4)).map(|_| draw(pick, depth - 1)).collect()),
    }
}

fn field(pick: Pick<'_>) -> Value {
    match pick(4) {
        0 => scalar(pick),
        _ => operators(pick, operator),
    }
}

fn operators(pick: Pick<'_>, one: fn(Pick<'_>) -> (String, Value)) -> Value {
    let count = [1, 1, 1, 2][pick(4)];
    Value::Object((0..count).map(|_| one(pick)).collect::<Map<String, Value>>())
}

fn operator(pick: Pick<'_>) -> (String, Value) {
    const NAMES: [&str; 12] =
        ["$eq", "$gte", "$lt", "$gt", "$lte", "$in", "$contains", "$exists", "$regex", "$ne", "$nin", "$not_contains"];
    let name = NAMES[pick(NAMES.len())];
    let operand = match name {
        "$gte" | "$lt" | "$gt" | "$lte" => match scalar(pick) {
            operand @ (Value::Number(_) | Value::String(_)) => operand,
            _ => 2.into(),
        },
        "$in" | "$nin" => (0..pick(4)).map(|_| scalar(pick)).collect(),
        "$exists" => (pick(2) == 0).into(),
        "$regex" => REGEXES[pick(REGEXES.len())].into(),
        _ => scalar(pick),
    };
    (name.into(), operand)
}

fn text_operator(pick: Pick<'_>) -> (String, Value) {
    match pick(3) {
        0 => ("$contains".into(), PARTS[pick(PARTS.len())].into()),
        1 => ("$not_contains".into(), PARTS[pick(PARTS.len())].into()),
        _ => ("$regex".into(), REGEXES[pick(REGEXES.len())].into()),
    }
}

fn source(pick: Pick<'_>) -> Value {
    match pick(3) {
        0 => named_source(pick).into(),
        1 => Value::Null,
        _ => operators(pick, source_operator),
    }
}

/// One that documents have, or not.
fn named_source(pick: Pick<'_>) -> &'static str {
    SOURCES.get(pick(SOURCES.len() + 1)).unwrap_or(&"none.md")
}

fn source_operator(pick: Pick<'_>) -> (String, Value) {
    match pick(5) {
        0 => ("$eq".into(), named_source(pick).into()),
        1 => ("$ne".into(), named_source(pick).into()),
        2 => ("$in".into(), (0..pick(4)).map(|_| named_source(pick)).collect()),
        3 => ("$nin".into(), (0..pick(4)).map(|_| named_source(pick)).collect()),
        _ => ("$exists".into(), (pick(2) == 0).into()),
    }
}

/// Whether a document of this metadata, an object, this text and this source is meant.
pub fn matches(filter: &Value, metadata: &Value, text: &str, source: Option<&str>) -> bool {
    let list = |operand: &'_ Value| operand.as_array().unwrap().clone();
    filter.as_object().unwrap().iter().all(|(key, operand)| match key.as_str() {
        "$and" => list(operand).iter().all(|f| matches(f, metadata, text, source)),
        "$or" => list(operand).iter().any(|f| matches(f, metadata, text, source)),
        "$not" => !matches(operand, metadata, text, source),
        "$source" => match operand {
            Value::Object(operators) => operators.iter().all(|(operator, operand)| match operator.as_str() {
                "$eq" => source == operand.as_str(),
                "$ne" => source != operand.as_str(),
                "$in" => list(operand).iter().any(|one| source == one.as_str()),
                "$nin" => !list(operand).iter().any(|one| source == one.as_str()),
                "$exists" => source.is_some() == operand.as_bool().unwrap(),
                other => panic!("{other} is not drawn"),
            }),
            // Null is no source.
            one => source == one.as_str(),
        },
        "$text" => operand.as_object().unwrap().iter().all(|(operator, operand)| {
            let operand = operand.as_str().unwrap();
            match operator.as_str() {
                "$contains" => text.contains(operand),
                "$not_contains" => !text.contains(operand),
                "$regex" => Regex::new(operand).unwrap().is_match(text),
                other => panic!("{other} is not drawn"),
            }
        }),
        path => {
            let value = at(metadata, path);
            match operand {
                Value::Object(operators) => operators.iter().all(|(operator, operand)| holds(operator, operand, value)),
                scalar => value.is_some_and(|v| equal(v, scalar)),
            }
        }
    })
}

/// What a document has at a path: the top-level key of this name, else what the steps between the dots lead to.
fn at<'a>(metadata: &'a Value, path: &str) -> Option<&'a Value> {
    let steps = || path.split('.').try_fold(metadata, |value, step| value.as_object()?.get(step));
    metadata.as_object().unwrap().get(path).or_else(steps)
}

fn holds(operator: &str, operand: &Value, value: Option<&Value>) -> bool {
    let equals = |operand: &Value| value.is_some_and(|v| equal(v, operand));
    let contains = || value.and_then(Value::as_array).is_some_and(|all| all.iter().any(|v| equal(v, operand)));
    let ordered = |wanted: &[Ordering]| value.and_then(|v| order(v, operand)).is_some_and(|found| wanted.contains(&found));
    match operator {
        "$eq" => equals(operand),
        "$ne" => !equals(operand),
        "$in" => operand.as_array().unwrap().iter().any(equals),
        "$nin" => !operand.as_array().unwrap().iter().any(equals),
        "$gt" => ordered(&[Ordering::Greater]),
        "$gte" => ordered(&[Ordering::Greater, Ordering::Equal]),
        "$lt" => ordered(&[Ordering::Less]),
        "$lte" => ordered(&[Ordering::Less, Ordering::Equal]),
        "$contains" => contains(),
        "$not_contains" => !contains(),
        "$exists" => value.is_some() == operand.as_bool().unwrap(),
        "$regex" => value.and_then(Value::as_str).is_some_and(|s| Regex::new(operand.as_str().unwrap()).unwrap().is_match(s)),
        other => panic!("{other} is not drawn"),
    }
}

fn equal(value: &Value, scalar: &Value) -> bool {
    match (value, scalar) {
        (Value::Number(_), Value::Number(_)) => order(value, scalar) == Some(Ordering::Equal),
        (Value::Array(_) | Value::Object(_), _) => false,
        _ => value == scalar,
    }
}

/// In which order two numbers stand, or two strings; nothing else has one.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Some(number_order(a, b)),
        (Value::String(a), Value::String(b)) => Some(a.chars().cmp(b.chars())),
        _ => None,
    }
}

/// Compares numbers digit by digit, as they would be written out.
fn number_order(a: &Number, b: &Number) -> Ordering {
    let ((a_negative, a), (b_negative, b)) = (digits(a), digits(b));
    match (a_negative, b_negative) {
        (false, false) => a.cmp(&b),
        (true, true) => b.cmp(&a),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

/// Whether it is below 0; then how many digits stand before the point, these, and those behind it. No number drawn has over 80 of them.
fn digits(n: &Number) -> (bool, (usize, String, String)) {
    let written = if n.is_f64() { format!("{:.80}", n.as_f64().unwrap()) } else { n.to_string() };
    let (whole, fraction) = written.split_once('.').unwrap_or((&written, ""));
    let whole = whole.trim_start_matches('-').trim_start_matches('0').to_string();
    let fraction = fraction.trim_end_matches('0').to_string();
    (written.starts_with('-') && !(whole.is_empty() && fraction.is_empty()), (whole.len(), whole, fraction))
}

/// What the form of a filter says of every document, if anything: the empty filter means all of them, and `$in` of an empty list none.
pub fn constant(filter: &Value) -> Option<bool> {
    let list = |operand: &Value| operand.as_array().unwrap().iter().map(constant).collect::<Vec<_>>();
    let conditions = filter.as_object().unwrap().iter().map(|(key, operand)| match key.as_str() {
        "$and" => all(list(operand)),
        "$or" => all(list(operand).into_iter().map(negated).collect()).map(|answer| !answer),
        "$not" => negated(constant(operand)),
        _ => match operand {
            Value::Object(operators) => {
                all(operators.iter().map(|(name, operand)| operator_constant(key == "$text", name, operand)).collect())
            }
            _ => None,
        },
    });
    all(conditions.collect())
}

fn operator_constant(text: bool, operator: &str, operand: &Value) -> Option<bool> {
    match operator {
        "$in" if operand.as_array().unwrap().is_empty() => Some(false),
        "$nin" if operand.as_array().unwrap().is_empty() => Some(true),
        "$contains" if text && operand == "" => Some(true),
        "$not_contains" if text && operand == "" => Some(false),
        _ => None,
    }
}

fn negated(answer: Option<bool>) -> Option<bool> {
    answer.map(|answer| !answer)
}

fn all(answers: Vec<Option<bool>>) -> Option<bool> {
    if answers.contains(&Some(false)) {
        return Some(false);
    }
    answers.iter().all(|a| *a == Some(true)).then_some(true)
}

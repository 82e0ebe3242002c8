//! Filters: which documents a caller means, by their metadata, text and source.
//!
//! Answers whether one document matches ([`Filter::matches`]), from its JSON alone. That answer decides: the metadata index is held
//! against it. Never here: indexes, files, which documents exist. `docs/filters.md` describes the language for callers.
//!
//! Invariants: kinds never mix, so that a string never equals a number nor a boolean one; numbers compare by exact value; equality never
//! matches an array; a negative operator is the exact complement of its positive one, documents without the key included.
//!
//! | file | role |
//! | --- | --- |
//! | `parse.rs` | from JSON to a [`Filter`], refusing what has no meaning |
//! | `number.rs` | exact comparison of JSON numbers |

mod number;
mod parse;

use crate::error::Result;
use regex::Regex;
use serde_json::{Map, Number, Value};
use std::cmp::Ordering;

#[cfg(test)]
pub(crate) use number::compare as compare_numbers;

/// How deep `$and`, `$or` and `$not` may nest.
pub const FILTER_DEPTH_MAX: usize = 32;
/// Regular expressions in one filter.
pub const FILTER_REGEXES_MAX: usize = 16;
/// Bytes that one compiled regular expression may take.
pub const FILTER_REGEX_BYTES_MAX: usize = 4 << 20;

/// A condition on a document's metadata, text and source, parsed and checked.
///
/// ```
/// use triune::{Filter, Metadata};
/// let filter = Filter::parse(r#"{"page": {"$gte": 3}, "lang": {"$in": ["en", "fr"]}, "$text": {"$contains": "torn tail"}}"#)?;
/// let metadata = Metadata::from_json(r#"{"page": 3.0, "lang": "en"}"#)?;
/// assert!(filter.matches(&metadata.to_object(), "A torn tail is dropped.", None));
/// assert!(Filter::parse(r#"{"$source": "notes/a.md"}"#)?.matches(&metadata.to_object(), "", Some("notes/a.md")));
/// assert!(Filter::parse(r#"{"page": {"$near": 3}}"#).is_err());
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Filter(Node);

/// What a filter asks. Negatives are [`Node::Not`] of their positive, so that they are complements by construction.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// Every one of these. None at all: matches every document.
    All(Vec<Filter>),
    /// At least one of these. None at all: matches no document.
    Any(Vec<Filter>),
    /// Not this one.
    Not(Box<Filter>),
    /// What the document has at this path.
    Field(Box<str>, Test),
    /// The document's text.
    Text(TextTest),
    /// The document's source.
    Source(SourceTest),
}

/// What is asked of the value at a path. A document without a value there fails every one.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    /// There is a value, null included.
    Exists,
    /// It equals one of these.
    In(Vec<Scalar>),
    /// It is an array and this is one of its elements.
    Contains(Scalar),
    /// It is of the operand's kind, a number or a string, and stands in this order to it.
    Compare(Comparison, Scalar),
    /// It is a string in which this is found.
    Regex(Regex),
}

/// What is asked of a text.
#[derive(Debug, Clone)]
pub(crate) enum TextTest {
    /// It holds this, byte for byte.
    Contains(Box<str>),
    /// This is found in it.
    Regex(Regex),
}

/// What is asked of a source. A document without one fails both.
#[derive(Debug, Clone)]
pub(crate) enum SourceTest {
    /// There is one.
    Exists,
    /// It is one of these.
    In(Vec<Box<str>>),
}

/// An order relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// A JSON value without parts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Boolean(bool),
    Number(Number),
    String(Box<str>),
}

impl Filter {
    /// Reads a filter from JSON.
    ///
    /// # Errors
    /// `InvalidArgument` names the operator and the path of what is unknown or malformed; a key that stands twice in one object is
    /// refused too. `LimitExceeded`: over [`FILTER_DEPTH_MAX`], [`FILTER_REGEXES_MAX`] or [`FILTER_REGEX_BYTES_MAX`].
    pub fn parse(json: &str) -> Result<Filter> {
        parse::from_json(json)
    }

    /// Reads a filter from parsed JSON, as [`Filter::parse`] does.
    pub fn from_value(value: &Value) -> Result<Filter> {
        parse::from_value(value)
    }

    /// Whether its form alone says that it matches every document, as that of `{}` does.
    pub fn is_empty(&self) -> bool {
        self.constant() == Some(true)
    }

    /// Whether a document with this metadata (an empty object when it has none), this text and this source matches. Linear in the filter, the
    /// values that it names and, for `$text` and `$regex`, the text.
    pub fn matches(&self, metadata: &Map<String, Value>, text: &str, source: Option<&str>) -> bool {
        match &self.0 {
            Node::All(all) => all.iter().all(|f| f.matches(metadata, text, source)),
            Node::Any(any) => any.iter().any(|f| f.matches(metadata, text, source)),
            Node::Not(f) => !f.matches(metadata, text, source),
            Node::Source(SourceTest::Exists) => source.is_some(),
            Node::Source(SourceTest::In(sources)) => source.is_some_and(|source| sources.iter().any(|s| **s == *source)),
            Node::Field(path, test) => lookup(metadata, path).is_some_and(|value| test.holds(value)),
            Node::Text(TextTest::Contains(part)) => text.contains(&**part),
            Node::Text(TextTest::Regex(regex)) => regex.is_match(text),
        }
    }

    /// Both this filter and the other.
    ///
    /// ```
    /// use triune::Filter;
    /// let both = Filter::parse(r#"{"page": 3}"#)?.and(Filter::of_sources(["notes/a.md"]));
    /// let page = serde_json::json!({"page": 3});
    /// assert!(both.matches(page.as_object().unwrap(), "", Some("notes/a.md")));
    /// assert!(!both.matches(page.as_object().unwrap(), "", Some("notes/b.md")));
    /// # Ok::<(), triune::Error>(())
    /// ```
    pub fn and(self, other: Filter) -> Filter {
        Filter(Node::All(vec![self, other]))
    }

    /// The documents of one of these sources: `{"$source": {"$in": [...]}}`.
    pub fn of_sources<S: Into<Box<str>>>(sources: impl IntoIterator<Item = S>) -> Filter {
        Filter(Node::Source(SourceTest::In(sources.into_iter().map(Into::into).collect())))
    }

    pub(crate) fn node(&self) -> &Node {
        &self.0
    }

    /// The answer that the form alone gives for every document, if it does.
    fn constant(&self) -> Option<bool> {
        match &self.0 {
            Node::All(all) if all.iter().any(|f| f.constant() == Some(false)) => Some(false),
            Node::All(all) => all.iter().all(|f| f.constant() == Some(true)).then_some(true),
            Node::Any(any) if any.iter().any(|f| f.constant() == Some(true)) => Some(true),
            Node::Any(any) => any.iter().all(|f| f.constant() == Some(false)).then_some(false),
            Node::Not(f) => f.constant().map(|answer| !answer),
            Node::Field(_, Test::In(values)) => values.is_empty().then_some(false),
            Node::Source(SourceTest::In(sources)) => sources.is_empty().then_some(false),
            Node::Text(TextTest::Contains(part)) => part.is_empty().then_some(true),
            Node::Field(..) | Node::Text(TextTest::Regex(_)) | Node::Source(SourceTest::Exists) => None,
        }
    }
}

/// The value at `path`: that of the top-level key of this name; else, when it has dots, what its steps lead to through nested objects.
fn lookup<'a>(metadata: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(value) = metadata.get(path) {
        return Some(value);
    }
    let (first, rest) = path.split_once('.')?;
    rest.split('.').try_fold(metadata.get(first)?, |value, step| value.as_object()?.get(step))
}

impl Test {
    fn holds(&self, value: &Value) -> bool {
        match self {
            Test::Exists => true,
            Test::In(operands) => operands.iter().any(|o| o.equals(value)),
            Test::Contains(operand) => value.as_array().is_some_and(|elements| elements.iter().any(|e| operand.equals(e))),
            Test::Compare(comparison, operand) => operand.compare_with(value).is_some_and(|order| comparison.holds(order)),
            Test::Regex(regex) => value.as_str().is_some_and(|s| regex.is_match(s)),
        }
    }
}

impl Comparison {
    /// Whether it holds of a value that stands in this order to the operand.
    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
        }
    }
}

impl Scalar {
    /// The scalar that `value` is, if it is one.
    pub(crate) fn of(value: &Value) -> Option<Scalar> {
        match value {
            Value::Null => Some(Scalar::Null),
            Value::Bool(b) => Some(Scalar::Boolean(*b)),
            Value::Number(n) => Some(Scalar::Number(n.clone())),
            Value::String(s) => Some(Scalar::String(s.as_str().into())),
            Value::Array(_) | Value::Object(_) => None,
        }
    }

    fn equals(&self, value: &Value) -> bool {
        match (self, value) {
            (Scalar::Null, Value::Null) => true,
            (Scalar::Boolean(a), Value::Bool(b)) => a == b,
            (Scalar::Number(a), Value::Number(b)) => number::compare(a, b) == Some(Ordering::Equal),
            (Scalar::String(a), Value::String(b)) => **a == **b,
            _ => false,
        }
    }

    /// In which order `value` stands to this operand, when both are numbers or both strings. UTF-8 bytes are in code-point order.
    fn compare_with(&self, value: &Value) -> Option<Ordering> {
        match (self, value) {
            (Scalar::Number(operand), Value::Number(n)) => number::compare(n, operand),
            (Scalar::String(operand), Value::String(s)) => Some((**s).cmp(&**operand)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;

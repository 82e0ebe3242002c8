//! The keys of one document.

use crate::document::Metadata;
use crate::format::metadata::{KeyHash, KeyKind, KeyValue, encode_kind, encode_path, encode_value};
use serde_json::{Map, Value};
use std::ops::Range;

/// The keys of one document, in ascending order, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    bytes: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

impl Keys {
    /// In ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.ranges.iter().map(|range| &self.bytes[range.clone()])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// The keys of a document with this metadata: for every path that a filter can reach, that something is there, and what, and the elements
/// of an array. Linear in the metadata but for the sort; a key has at most some 400 bytes.
pub fn keys(metadata: &Metadata) -> Keys {
    let top = metadata.to_object();
    // Paths that a top-level key shadows: such a key has dots, and few documents have any.
    let shadow = top.keys().filter(|k| k.contains('.')).map(String::len).max().unwrap_or(0);
    let mut walk = Walk { top: &top, shadow, path: String::new(), head: Vec::new(), out: Keys::default() };
    for (key, value) in &top {
        let hash = walk.enter(KeyHash::EMPTY, key);
        walk.emit(hash, value);
        // A dot in a path steps into an object, so that a key with dots is reached by no longer path.
        if let Value::Object(inner) = value
            && !key.contains('.')
        {
            walk.object(hash, inner);
        }
        walk.path.clear();
    }
    let Walk { mut out, .. } = walk;
    let bytes = &out.bytes;
    out.ranges.sort_unstable_by(|a, b| bytes[a.clone()].cmp(&bytes[b.clone()]));
    out.ranges.dedup_by(|a, b| bytes[a.clone()] == bytes[b.clone()]);
    out
}

/// Where the walk through one document stands.
struct Walk<'a> {
    top: &'a Map<String, Value>,
    /// Bytes of the longest top-level key with dots.
    shadow: usize,
    path: String,
    /// The encoded path.
    head: Vec<u8>,
    out: Keys,
}

impl Walk<'_> {
    fn enter(&mut self, hash: KeyHash, step: &str) -> KeyHash {
        self.path.push_str(step);
        hash.extend(step.as_bytes())
    }

    fn object(&mut self, hash: KeyHash, object: &Map<String, Value>) {
        let length = self.path.len();
        for (key, value) in object.iter().filter(|(key, _)| !key.contains('.')) {
            let dotted = self.enter(hash, ".");
            let hash = self.enter(dotted, key);
            let shadowed = self.path.len() <= self.shadow && self.top.contains_key(&self.path);
            if !shadowed {
                self.emit(hash, value);
            }
            if let Value::Object(inner) = value {
                self.object(hash, inner);
            }
            self.path.truncate(length);
        }
    }

    /// Adds the keys of the value at the path.
    fn emit(&mut self, hash: KeyHash, value: &Value) {
        self.head.clear();
        encode_path(&self.path, hash, &mut self.head);
        self.push(|out| {
            encode_kind(KeyKind::Exists, false, out);
            true
        });
        match value.as_array() {
            Some(elements) => elements.iter().for_each(|e| self.value(e, true)),
            None => self.value(value, false),
        }
    }

    fn value(&mut self, value: &Value, element: bool) {
        let value = match value {
            Value::Null => KeyValue::Null,
            Value::Bool(b) => KeyValue::Boolean(*b),
            Value::Number(n) => KeyValue::Number(n),
            Value::String(s) => KeyValue::String(s),
            // No operator asks for what is inside a list or an object in a list.
            Value::Array(_) | Value::Object(_) => return,
        };
        self.push(|out| encode_value(value, element, out));
    }

    /// Adds a key of the path; `rest` appends what follows the path, or answers false.
    fn push(&mut self, rest: impl FnOnce(&mut Vec<u8>) -> bool) {
        let start = self.out.bytes.len();
        self.out.bytes.extend_from_slice(&self.head);
        if rest(&mut self.out.bytes) {
            self.out.ranges.push(start..self.out.bytes.len());
        } else {
            self.out.bytes.truncate(start);
        }
    }
}

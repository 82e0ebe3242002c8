//! Which keys answer a test.

use crate::filter::{Comparison, Scalar, Test};
use crate::format::metadata::{
    KeyHash, KeyKind, KeyValue, encode_after_hash, encode_after_kind, encode_cut, encode_kind, encode_path, encode_value,
};
use std::ops::Bound;

/// The keys from one on up to another, which is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl KeyRange {
    /// Where it starts.
    pub fn from(&self) -> &[u8] {
        &self.from
    }

    /// Where it ends: at least where it starts, and not in it.
    pub fn to(&self) -> &[u8] {
        &self.to
    }

    /// As the bounds of a sorted map.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(&self.from), Bound::Excluded(&self.to))
    }

    /// Leaves the keys that are in the other range too.
    pub(super) fn intersect(&mut self, other: &KeyRange) {
        if self.from < other.from {
            self.from.clone_from(&other.from);
        }
        if self.to > other.to {
            self.to.clone_from(&other.to);
        }
        // Without a common key it ends where it starts, never before.
        if self.to < self.from {
            self.to.clone_from(&self.from);
        }
    }

    /// One key.
    fn one(key: Vec<u8>) -> KeyRange {
        KeyRange { to: after(key.clone()), from: key }
    }
}

/// The least key above this one.
fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// The keys that answer a test.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    /// Documents with one of these keys pass.
    pub(super) sure: Vec<KeyRange>,
    /// Documents with one of these may pass; all others without a sure key fail.
    pub(super) maybe: Vec<KeyRange>,
}

impl Lookup {
    /// The keys for a test of the value at `path`.
    pub(super) fn of(path: &str, test: &Test) -> Lookup {
        let mut head = Vec::new();
        let whole = encode_path(path, KeyHash::EMPTY.extend(path.as_bytes()), &mut head);
        let mut lookup = Lookup::default();
        match test {
            Test::Exists => lookup.sure.push(exists(&head)),
            Test::Regex(_) => lookup.maybe.push(exists(&head)),
            Test::In(values) => values.iter().for_each(|v| lookup.equal(&head, key_value(v), false)),
            Test::Contains(value) => lookup.equal(&head, key_value(value), true),
            Test::Compare(comparison, value) => lookup.compare(&head, *comparison, key_value(value)),
        }
        if !whole {
            lookup.maybe.append(&mut lookup.sure);
        }
        lookup
    }

    /// The range whose documents pass and no others, if it is one.
    pub(super) fn only_range(&self) -> Option<KeyRange> {
        match (self.sure.as_slice(), self.maybe.as_slice()) {
            ([range], []) => Some(range.clone()),
            _ => None,
        }
    }

    /// All ranges.
    pub(super) fn ranges(&self) -> impl Iterator<Item = &KeyRange> {
        self.sure.iter().chain(&self.maybe)
    }

    fn equal(&mut self, head: &[u8], value: KeyValue<'_>, element: bool) {
        let mut key = head.to_vec();
        if encode_value(value, element, &mut key) {
            let ranges = if value.is_cut() { &mut self.maybe } else { &mut self.sure };
            ranges.push(KeyRange::one(key));
        }
    }

    fn compare(&mut self, head: &[u8], comparison: Comparison, value: KeyValue<'_>) {
        let mut first = head.to_vec();
        encode_kind(value.kind(), false, &mut first);
        let mut end = head.to_vec();
        encode_after_kind(value.kind(), false, &mut end);
        // Below `low` all are less than the operand, from `high` on all are greater; between are those that equal it, or may.
        let cut = match value {
            KeyValue::String(s) if value.is_cut() => Some(s),
            KeyValue::Null | KeyValue::Boolean(_) | KeyValue::Number(_) | KeyValue::String(_) => None,
        };
        let (mut low, mut high);
        if let Some(s) = cut {
            low = first.clone();
            encode_cut(s, &mut low);
            high = low.clone();
            encode_after_hash(&mut high);
            self.maybe.push(KeyRange { from: low.clone(), to: high.clone() });
        } else {
            low = head.to_vec();
            if !encode_value(value, false, &mut low) {
                return;
            }
            high = after(low.clone());
        }
        let equal_too = cut.is_none();
        self.sure.push(match comparison {
            Comparison::Greater => KeyRange { from: high, to: end },
            Comparison::GreaterOrEqual => KeyRange { from: if equal_too { low } else { high }, to: end },
            Comparison::Less => KeyRange { from: first, to: low },
            Comparison::LessOrEqual => KeyRange { from: first, to: if equal_too { high } else { low } },
        });
    }
}

fn exists(head: &[u8]) -> KeyRange {
    let mut key = head.to_vec();
    encode_kind(KeyKind::Exists, false, &mut key);
    KeyRange::one(key)
}

fn key_value(scalar: &Scalar) -> KeyValue<'_> {
    match scalar {
        Scalar::Null => KeyValue::Null,
        Scalar::Boolean(b) => KeyValue::Boolean(*b),
        Scalar::Number(n) => KeyValue::Number(n),
        Scalar::String(s) => KeyValue::String(s),
    }
}

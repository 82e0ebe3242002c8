//! The effect of a patch on one document.

use crate::document::{Metadata, Patch, StoredDocument, check_graph};
use crate::error::{Error, Result};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// `current` with `patch` applied. The source is left as it was; the caller looks at the new metadata.
pub(crate) fn patched(current: &StoredDocument, patch: &Patch) -> Result<StoredDocument> {
    let mut document = current.clone();
    if let Some(text) = &patch.text {
        document.text = text.as_str().into();
    }
    if let Some(vector) = &patch.vector {
        document.vector = vector.as_ref().map(|v| v.as_slice().into());
    }
    if let Some(entities) = &patch.entities {
        document.entities = entities.clone();
    }
    if let Some(relations) = &patch.relations {
        document.relations = Some(relations.clone());
    }
    if patch.entities.is_some() || patch.relations.is_some() {
        // Each may fit alone, and not beside what stays.
        check_graph(&patch.id, document.entities.as_deref(), document.relations.as_deref())?;
    }
    if let Some(changes) = &patch.metadata {
        document.metadata = merged(current.metadata.as_ref(), changes)?;
    }
    Ok(document)
}

/// An object's keys and values in order, the values as they were spelled.
struct Entries(Vec<(String, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Entries;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        d.deserialize_map(Collect)
    }
}

/// Merges top-level keys: a null deletes, anything else sets. What a patch does not name keeps its spelling, number digits included.
fn merged(current: Option<&Metadata>, changes: &Metadata) -> Result<Option<Metadata>> {
    let parse = |m: &Metadata| {
        serde_json::from_str::<Entries>(m.as_str()).map_err(|e| Error::InvalidArgument(format!("metadata is not a JSON object: {e}")))
    };
    let mut entries = match current {
        Some(m) => parse(m)?.0,
        None => Vec::new(),
    };
    for (key, value) in parse(changes)?.0 {
        let deletes = value.get() == "null";
        match entries.iter().position(|(k, _)| *k == key) {
            Some(_) if deletes => entries.retain(|(k, _)| *k != key),
            Some(at) => {
                entries[at].1 = value;
                let mut seen = 0;
                // A key that stood twice is one key from now on.
                entries.retain(|(k, _)| *k != key || std::mem::replace(&mut seen, 1) == 0);
            }
            None if deletes => {}
            None => entries.push((key, value)),
        }
    }
    if entries.is_empty() && current.is_none() {
        return Ok(None);
    }
    let mut json = String::from("{");
    for (i, (key, value)) in entries.iter().enumerate() {
        let key = serde_json::to_string(key).map_err(|e| Error::InvalidArgument(format!("metadata key: {e}")))?;
        json.push_str(if i == 0 { "" } else { "," });
        json.push_str(&key);
        json.push(':');
        json.push_str(value.get());
    }
    json.push('}');
    Metadata::from_json(json).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(current: Option<&str>, changes: &str) -> Option<String> {
        let current = current.map(|c| Metadata::from_json(c).unwrap());
        merged(current.as_ref(), &Metadata::from_json(changes).unwrap()).unwrap().map(|m| m.as_str().to_string())
    }

    #[test]
    fn keys_are_set_added_and_deleted_and_the_rest_keeps_its_spelling() {
        let merged = merge(Some(r#"{"a": 1.50, "b":"x",  "big":123456789012345678901234567890}"#), r#"{"b":null,"c":[1, 2],"a":"y"}"#);
        assert_eq!(merged.as_deref(), Some(r#"{"a":"y","big":123456789012345678901234567890,"c":[1, 2]}"#));
        assert_eq!(merge(None, r#"{"a":null}"#), None);
        assert_eq!(merge(Some(r#"{"a":1}"#), r#"{"a":null}"#).as_deref(), Some("{}"));
    }
}

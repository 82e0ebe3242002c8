//! Which metadata key may have named the sources of documents whose schema is lost.
//!
//! A document whose source was not given has it from its metadata, and no document's metadata name another source than its own: restoring a
//! dump refuses both. So the documents leave few keys, and the one that they were stored with among them.

use crate::document::{Metadata, StoredDocument};
use crate::options::{Schema, check_name};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

/// The keys that are left.
#[derive(Debug, Default)]
pub(super) struct SourceKeys {
    /// Those under which each document has its source that was not given; `None` before the first such document.
    fit: Option<BTreeSet<String>>,
    /// Those under which a document has something else. Not kept once `fit` is there, which goes without them.
    unfit: HashSet<String>,
}

impl SourceKeys {
    /// Takes a document into account.
    pub(super) fn see(&mut self, document: &StoredDocument) {
        let metadata = document.metadata.as_ref().map(Metadata::to_object).unwrap_or_default();
        let source = document.source.as_deref();
        if source.is_some() && !document.source_given {
            let names = |key: &String, value: &Value| value.as_str() == source && check_name("source key", key).is_ok();
            let here = metadata.into_iter().filter(|(key, value)| names(key, value)).map(|(key, _)| key);
            let unfit = std::mem::take(&mut self.unfit);
            self.fit = Some(match self.fit.take() {
                Some(fit) => here.filter(|key| fit.contains(key)).collect(),
                None => here.filter(|key| !unfit.contains(key)).collect(),
            });
            return;
        }
        for (key, _) in metadata.into_iter().filter(|(_, value)| !value.is_null() && (source.is_none() || value.as_str() != source)) {
            match &mut self.fit {
                Some(fit) => drop(fit.remove(&key)),
                None => drop(self.unfit.insert(key)),
            }
        }
    }

    /// A key that fits every document, the usual one if it does. None when the documents contradict each other.
    pub(super) fn key(&self) -> Option<String> {
        let usual = Schema::default().source_key;
        match &self.fit {
            Some(fit) if fit.contains(&usual) => Some(usual),
            Some(fit) => fit.first().cloned(),
            // No document has its source from its metadata, so a key that none has will do.
            None => std::iter::once(usual.clone()).chain((2..).map(|n: u64| format!("{usual} {n}"))).find(|key| !self.unfit.contains(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(metadata: &str, source: Option<&str>, given: bool) -> StoredDocument {
        StoredDocument {
            id: "a".into(),
            text: "".into(),
            metadata: Some(Metadata::from_json(metadata).expect("metadata")),
            vector: None,
            source: source.map(Into::into),
            source_given: given,
            time_ms: 0,
            entities: None,
            relations: None,
        }
    }

    fn key(documents: &[StoredDocument]) -> Option<String> {
        let mut keys = SourceKeys::default();
        documents.iter().for_each(|document| keys.see(document));
        keys.key()
    }

    #[test]
    fn the_key_is_one_that_every_document_allows() {
        let named = document(r#"{"path":"x","name":"x","file_hash":"y"}"#, Some("x"), false);
        let no_name = document(r#"{"name":"other"}"#, None, false);
        let given = document(r#"{"path":"g","name":null,"file_hash":7}"#, Some("g"), true);
        assert_eq!(key(&[]).as_deref(), Some("file_hash"));
        assert_eq!(key(std::slice::from_ref(&given)).as_deref(), Some("file_hash 2"));
        assert_eq!(key(std::slice::from_ref(&named)).as_deref(), Some("name"));
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let all = [&named, &no_name, &given];
            assert_eq!(key(&order.map(|i: usize| all[i].clone())).as_deref(), Some("path"));
        }
        assert_eq!(key(&[named.clone(), document(r#"{"path":"z"}"#, None, false), no_name]), None);
    }
}

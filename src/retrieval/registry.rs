//! Retrievers by name.

use super::classic::ClassicRetriever;
use super::graph_retriever::GraphRetriever;
use super::hybrid::HybridRetriever;
use super::request::Retriever;
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The retriever of a source that names none.
pub(crate) const CLASSIC: &str = "classic";

/// Retrievers by name, in any case: `classic`, `default` (the same), `hybrid`, `graphrag`, and those of the caller's own.
///
/// ```
/// use triune::retrieval::Registry;
/// let registry = Registry::default();
/// assert_eq!(registry.get("Hybrid")?.name(), "hybrid");
/// assert_eq!(registry.get("")?.name(), "classic");
/// assert!(registry.get("magic").is_err_and(|e| e.to_string().contains("known: classic, default, graphrag, hybrid")));
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Clone)]
pub struct Registry {
    by_name: BTreeMap<String, Arc<dyn Retriever>>,
}

impl Default for Registry {
    fn default() -> Self {
        let mut registry = Registry { by_name: BTreeMap::new() };
        registry.register(CLASSIC, Arc::new(ClassicRetriever));
        registry.register("hybrid", Arc::new(HybridRetriever));
        registry.register("graphrag", Arc::new(GraphRetriever));
        registry
    }
}

impl Registry {
    /// Knows a retriever by this name, in any case; one that was known by it is replaced. `classic` and `default` are one.
    pub fn register(&mut self, name: &str, retriever: Arc<dyn Retriever>) -> &mut Registry {
        let name = Registry::group(name);
        if name == CLASSIC {
            self.by_name.insert("default".into(), retriever.clone());
        }
        self.by_name.insert(name, retriever);
        self
    }

    /// The retriever of this name, in any case; `classic` for an empty one.
    ///
    /// # Errors
    /// `InvalidArgument` that names the known ones.
    pub fn get(&self, name: &str) -> Result<&Arc<dyn Retriever>> {
        self.by_name.get(&Registry::group(name)).ok_or_else(|| {
            let known = self.names().collect::<Vec<_>>().join(", ");
            Error::InvalidArgument(format!("{name:?} is no retriever; known: {known}. Register it, or configure one of these"))
        })
    }

    /// Refuses a name that no retriever has.
    ///
    /// # Errors
    /// As [`Registry::get`].
    pub fn check(&self, name: &str) -> Result<()> {
        self.get(name).map(drop)
    }

    /// Every name, in byte order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// The name under which sources of this retriever are asked together.
    pub(crate) fn group(name: &str) -> String {
        match name.trim().to_lowercase() {
            name if name.is_empty() || name == "default" => CLASSIC.into(),
            name => name,
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.by_name.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    #[test]
    fn names_are_known_in_any_case_and_nothing_is_classic() {
        let registry = Registry::default();
        assert_eq!(registry.names().collect::<Vec<_>>(), ["classic", "default", "graphrag", "hybrid"]);
        for (name, expected) in [
            ("", "classic"),
            (" ", "classic"),
            ("DEFAULT", "classic"),
            ("Classic", "classic"),
            ("HyBrid", "hybrid"),
            ("GraphRAG", "graphrag"),
        ] {
            assert_eq!(registry.get(name).unwrap().name(), expected, "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = Registry::default().get("bm25").map(|r| r.name().to_string()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.to_string().contains("\"bm25\" is no retriever; known: classic, default, graphrag, hybrid"), "{error}");
    }

    #[test]
    fn a_retriever_of_ones_own_is_registered_in_any_case_and_replaces_its_forerunner() {
        let mut registry = Registry::default();
        registry.register("Mine", Arc::new(GraphRetriever)).register("HYBRID", Arc::new(GraphRetriever));
        assert_eq!((registry.get("mINE").unwrap().name(), registry.get("hybrid").unwrap().name()), ("graphrag", "graphrag"));
        assert!(registry.check("mine").is_ok());
    }
}

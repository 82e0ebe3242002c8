//! Where a source's configuration is stored: the companion collection `<collection>:sources`, one document a source, in the same commits as the
//! documents themselves.

use super::SourceConfig;
use crate::document::{Document, Metadata, StoredDocument};
use crate::engine::companions::Companion;
use crate::engine::{Snapshot, WriteBatch};
use crate::error::{Error, Result};
use crate::options::check_name;
use crate::retrieval::registry::Registry;
use serde_json::Value;
use std::collections::BTreeMap;

impl WriteBatch {
    /// Stores how a source of a collection is asked, in the same commit as the rest of the batch. What was stored of the source is replaced.
    /// Deleting the documents of a source leaves its configuration; [`WriteBatch::unconfigure_source`] removes that.
    ///
    /// # Errors
    /// `InvalidArgument` for values out of range, and for a retriever that is not one of Triune's own (see
    /// [`WriteBatch::configure_source_with`]). Nothing is added to the batch then.
    ///
    /// ```
    /// # use triune::{Database, Document, Schema, WriteBatch};
    /// use triune::retrieval::RetrievalConfig;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::create(dir.path().join("db"))?;
    /// let mut batch = WriteBatch::new();
    /// batch.create_collection("notes", Schema::default());
    /// batch.replace_source("notes", "guide.md", vec![Document::new("guide#0").text("Compaction rewrites segments.")]);
    /// batch.configure_source("notes", "guide.md", RetrievalConfig { retriever: "hybrid".into(), chunks: 8, ..Default::default() })?;
    /// db.commit(batch)?;
    ///
    /// let stored = db.snapshot().source_config("notes", "guide.md")?.expect("it was committed");
    /// assert_eq!((stored.retrieval.retriever.as_str(), stored.retrieval.chunks), ("hybrid", 8));
    /// # Ok::<(), triune::Error>(())
    /// ```
    pub fn configure_source(
        &mut self,
        collection: impl Into<String>,
        source: impl Into<String>,
        config: impl Into<SourceConfig>,
    ) -> Result<&mut WriteBatch> {
        self.configure_source_with(&Registry::default(), collection, source, config)
    }

    /// As [`WriteBatch::configure_source`], where `registry` knows retrievers of the caller's own.
    ///
    /// # Errors
    /// As [`WriteBatch::configure_source`].
    pub fn configure_source_with(
        &mut self,
        registry: &Registry,
        collection: impl Into<String>,
        source: impl Into<String>,
        config: impl Into<SourceConfig>,
    ) -> Result<&mut WriteBatch> {
        let (source, config) = (source.into(), config.into());
        check_name("a source", &source)?;
        config.validate()?;
        registry.check(&config.retrieval.retriever)?;
        let json = serde_json::to_string(&config).map_err(|e| Error::InvalidArgument(format!("a configuration is not JSON: {e}")))?;
        let document = Document::new(source).metadata(Metadata::from_json(json)?);
        Ok(self.put_companion(collection, Companion::Sources, vec![document]))
    }

    /// Removes what is configured of a source; from then on it is asked as one of which nothing is.
    pub fn unconfigure_source(&mut self, collection: impl Into<String>, source: impl Into<String>) -> &mut WriteBatch {
        self.delete_companion(collection, Companion::Sources, vec![source.into()])
    }
}

impl Snapshot {
    /// What is configured of a source; `None` when nothing is. Read leniently: see [`SourceConfig::from_stored`].
    ///
    /// # Errors
    /// `Corrupt` when the file that holds it is damaged.
    pub fn source_config(&self, collection: &str, source: &str) -> Result<Option<SourceConfig>> {
        let Some(companion) = self.companion(collection, Companion::Sources)? else { return Ok(None) };
        Ok(companion.get(source)?.map(|document| read(&document)))
    }

    /// What is configured of every source that anything is configured of, by source. O(sources configured).
    ///
    /// # Errors
    /// As [`Snapshot::source_config`].
    pub fn source_configs(&self, collection: &str) -> Result<BTreeMap<String, SourceConfig>> {
        let Some(companion) = self.companion(collection, Companion::Sources)? else { return Ok(BTreeMap::new()) };
        companion.scan().map(|found| found.map(|(_, document)| (document.id.to_string(), read(&document)))).collect()
    }
}

fn read(document: &StoredDocument) -> SourceConfig {
    let json = document.metadata.as_ref().map(|m| Value::Object(m.to_object())).unwrap_or_default();
    SourceConfig::from_stored(&json).0
}

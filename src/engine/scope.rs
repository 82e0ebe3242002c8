//! One source of a collection, searched as if it stood alone, but with the statistics of the whole collection.
//!
//! The rows of a source restrict what may be an answer exactly as the rows of a filter do: none is missing, and no score depends on them. The
//! graph alone is the source's own: what its documents mention and relate, and nothing else.

use super::entity_vectors::{EntityVectors, NearestEntity};
use super::part::GraphView;
use super::search::{self, Admitted};
use super::snapshot::{Collection, check_k};
use crate::document::StoredDocument;
use crate::error::Result;
use crate::graph::subgraph::{self, Subgraph};
use crate::graph::{GraphPart, Live, exists, query_entities};
use crate::options::{Effort, Scorer};
use crate::ranking::Scored;
use roaring::RoaringBitmap;
use std::sync::OnceLock;

/// The documents of one source of a collection, or of all. Cheap to clone once made; it holds the collection's snapshot.
#[derive(Debug, Clone)]
pub(crate) struct SourceView {
    collection: Collection,
    source: Option<Box<str>>,
    /// Of each part, the rows of the source; `None` when those are all.
    rows: Option<Vec<RoaringBitmap>>,
    entities: OnceLock<u64>,
    mentions: OnceLock<bool>,
}

/// A subgraph whose documents are named by their ids, in insertion order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct NamedSubgraph {
    pub(crate) graph: Subgraph,
    pub(crate) ids: Vec<String>,
}

impl Collection {
    /// The documents of a source, or all of them. O(documents of the source).
    pub(crate) fn view(&self, source: Option<&str>) -> Result<SourceView> {
        let mut view = SourceView {
            collection: self.clone(),
            source: source.map(Into::into),
            rows: None,
            entities: OnceLock::new(),
            mentions: OnceLock::new(),
        };
        let Some(source) = source else { return Ok(view) };
        let parts = &self.parts;
        let of_part = |part: &super::version::Part| Ok(part.source_rows(source, parts.lsn)?.into_iter().collect());
        let rows: Vec<RoaringBitmap> = parts.parts.iter().map(of_part).collect::<Result<_>>()?;
        // Without a restriction a walk of a vector graph need not ask for every row.
        if rows.iter().map(RoaringBitmap::len).sum::<u64>() < self.count() {
            view.rows = Some(rows);
        }
        Ok(view)
    }
}

impl SourceView {
    /// Its documents.
    pub(crate) fn count(&self) -> u64 {
        self.rows.as_ref().map_or_else(|| self.collection.count(), |rows| rows.iter().map(RoaringBitmap::len).sum())
    }

    fn admitted(&self) -> Admitted<'_> {
        self.rows.as_deref()
    }

    /// As [`Collection::nearest_with`].
    pub(crate) fn nearest(&self, vector: &[f32], k: usize, effort: Effort) -> Result<Vec<Scored>> {
        check_k(k)?;
        effort.check()?;
        let found = search::vectors(&self.collection.parts, self.collection.schema(), vector, self.admitted(), k, effort)?;
        Ok(found.hits)
    }

    /// As [`Collection::best_texts`].
    pub(crate) fn best_texts(&self, query: &str, scorer: Option<Scorer>, k: usize) -> Result<Vec<Scored>> {
        check_k(k)?;
        let schema = self.collection.schema();
        search::text(&self.collection.parts, schema, query, scorer.unwrap_or(schema.scorer), self.admitted(), k)
    }

    /// The document of this id, without its vector; `None` when the source has none.
    pub(crate) fn get(&self, id: &str) -> Result<Option<StoredDocument>> {
        let parts = &self.collection.parts;
        let Some((part, row)) = parts.find(id)? else { return Ok(None) };
        let document = parts.parts[part].document(row, false)?;
        Ok((self.source.is_none() || document.source == self.source).then_some(document))
    }

    /// The same of a document that was found in this row of this part; a place that does not hold it is as good as none.
    pub(crate) fn get_at(&self, id: &str, part: usize, row: u32) -> Result<Option<StoredDocument>> {
        let parts = &self.collection.parts;
        let there = parts.parts.get(part).filter(|part| row < part.row_count());
        if let Some(part) = there
            && part.visible(row, parts.lsn)?
        {
            let document = part.document(row, false)?;
            if *document.id == *id && (self.source.is_none() || document.source == self.source) {
                return Ok(Some(document));
            }
        }
        self.get(id)
    }

    /// Whether its documents mention an entity. As a rule O(1), at worst O(its documents), once.
    pub(crate) fn mentions_entities(&self) -> Result<bool> {
        if let Some(found) = self.mentions.get() {
            return Ok(*found);
        }
        let views = self.collection.parts.graph()?;
        let mut found = false;
        self.rows_until(&mut |part, row| {
            views[part].for_each_entity(row, &mut |_| found = true)?;
            Ok(found)
        })?;
        Ok(*self.mentions.get_or_init(|| found))
    }

    /// The entities that its documents mention. O(its mentions), once.
    pub(crate) fn entities(&self) -> Result<u64> {
        if let Some(count) = self.entities.get() {
            return Ok(*count);
        }
        let mut rows = Vec::new();
        self.rows_until(&mut |part, row| {
            rows.push((part, row));
            Ok(false)
        })?;
        let count = subgraph::mentioned(&self.collection.parts.graph()?, rows.into_iter())?;
        Ok(*self.entities.get_or_init(|| count))
    }

    /// The entities of a text, as the collection's extractor finds them, that its documents mention or relate, with their weights.
    pub(crate) fn seeds(&self, text: &str) -> Result<Vec<(Box<str>, f64)>> {
        let forms = query_entities(text, self.collection.schema().extractor);
        if forms.is_empty() {
            return Ok(Vec::new());
        }
        let views = self.collection.parts.graph()?;
        subgraph::seeds(&self.own(&views), &forms)
    }

    /// The entities of its documents whose names' vectors are nearest. See [`EntityVectors::nearest`].
    pub(crate) fn nearest_entities(&self, vectors: &EntityVectors, vector: &[f32], k: usize) -> Result<Vec<NearestEntity>> {
        let views = self.collection.parts.graph()?;
        let own = self.own(&views);
        vectors.nearest_that(vector, k, |key| exists(&own, key))
    }

    /// What stands around entities in its documents.
    pub(crate) fn subgraph(&self, seeds: &[(&str, f64)]) -> Result<NamedSubgraph> {
        let parts = &self.collection.parts;
        let views = parts.graph()?;
        let graph = subgraph::around(&self.own(&views), seeds)?;
        let id = |((part, row), _): &((u32, u32), Vec<u32>)| parts.parts[*part as usize].id(*row).map(|id| id.into_owned());
        let ids = graph.links.iter().map(id).collect::<Result<_>>()?;
        Ok(NamedSubgraph { graph, ids })
    }

    /// The graph of its own documents.
    fn own<'a>(&'a self, views: &'a [GraphView<'a>]) -> Vec<impl GraphPart + 'a> {
        let own = move |(i, view)| {
            let rows = self.rows.as_ref().map(|rows| &rows[i]);
            Live { part: Some(view), live: move |row: u32| rows.is_none_or(|rows: &RoaringBitmap| rows.contains(row)) }
        };
        views.iter().enumerate().map(own).collect()
    }

    /// Gives part and row of its documents until `sink` has enough.
    fn rows_until(&self, sink: &mut dyn FnMut(usize, u32) -> Result<bool>) -> Result<()> {
        let parts = &self.collection.parts;
        for (i, part) in parts.parts.iter().enumerate() {
            let of_source = self.rows.as_ref().map(|rows| &rows[i]);
            for row in 0..part.row_count() {
                let its = match of_source {
                    Some(rows) => rows.contains(row),
                    None => part.visible(row, parts.lsn)?,
                };
                if its && sink(i, row)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

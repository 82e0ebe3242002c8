//! A moment of the database, for reading.

use super::health::Pin;
use super::resolve::no_collection;
use super::search::{Nearest, Walk};
use super::version::{Catalog, CollectionInfo, Part, Parts, Version};
use super::{frequencies, search, sources};
use crate::document::StoredDocument;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::graph::{self, EntityView, Neighbour};
use crate::ids::{Generation, Lsn, Seq};
use crate::options::{Effort, Schema, Scorer, limits};
use crate::ranking::Scored;
use crate::vector::VectorBytes;
use roaring::RoaringBitmap;
use std::sync::Arc;

/// The database as it was at one commit. It stays readable and unchanged whatever is written, merged or removed meanwhile; it is cheap to
/// clone, `Send` and `Sync`. It holds the files and memory it reads until it is dropped.
///
/// ```
/// # use triune::{Database, Document, Schema};
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = Database::create(dir.path().join("db"))?;
/// db.create_collection("notes", Schema::default())?;
/// let before = db.snapshot();
/// db.put("notes", vec![Document::new("a").text("hello")])?;
/// assert_eq!(before.collection("notes")?.count(), 0);
/// assert_eq!(db.snapshot().collection("notes")?.count(), 1);
/// # Ok::<(), triune::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) version: Arc<Version>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) lsn: Lsn,
    pub(crate) pin: Arc<Pin>,
}

impl Snapshot {
    /// The last commit it sees.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The generation of the files it reads.
    pub fn generation(&self) -> Generation {
        self.version.generation
    }

    /// The names of the collections, in byte order.
    pub fn collections(&self) -> Vec<String> {
        self.catalog.collections.keys().map(|name| name.to_string()).collect()
    }

    /// One collection.
    pub fn collection(&self, name: &str) -> Result<Collection> {
        let info = self.catalog.collections.get(name).ok_or_else(|| no_collection(name))?;
        Ok(Collection {
            name: name.into(),
            info: info.clone(),
            parts: self.version.parts(info.incarnation, self.lsn),
            _pin: self.pin.clone(),
        })
    }
}

/// One collection of a [`Snapshot`].
#[derive(Debug, Clone)]
pub struct Collection {
    name: Arc<str>,
    info: Arc<CollectionInfo>,
    pub(crate) parts: Parts,
    /// Its snapshot is held as long as it is.
    _pin: Arc<Pin>,
}

/// What a collection holds, as counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CollectionStats {
    /// Documents.
    pub documents: u64,
    /// Distinct sources with a document.
    pub sources: u64,
    /// Documents that have a vector.
    pub vectors: u64,
    /// Distinct terms.
    pub terms: u64,
    /// Tokens, repeats counted.
    pub tokens: u64,
    /// Entities with a mention.
    pub entities: u64,
    /// Document-entity edges.
    pub mentions: u64,
    /// Entity-entity edges.
    pub relations: u64,
    /// Segments on disk; what is in memory is not counted.
    pub segments: u64,
}

/// A source and what is stored of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceInfo {
    /// Its name.
    pub source: String,
    /// A name for people: the string `file_name` in the metadata of its first document that has one; else its name.
    pub display_name: String,
    /// Documents.
    pub documents: u64,
    /// Documents that have a vector.
    pub vectors: u64,
    /// Distinct entities that they mention.
    pub entities: u64,
    /// Document-entity edges: pairs of a document and an entity that it mentions.
    pub mentions: u64,
    /// Bytes of their texts.
    pub bytes: u64,
    /// When the youngest of them was committed, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
}

impl Collection {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds.
    pub fn schema(&self) -> &Schema {
        &self.info.schema
    }

    /// The number of documents. O(segments).
    pub fn count(&self) -> u64 {
        self.parts.totals().documents
    }

    /// The document of this id, with its vector.
    pub fn get(&self, id: &str) -> Result<Option<StoredDocument>> {
        match self.parts.find(id)? {
            Some((part, row)) => self.parts.parts[part].document(row, true).map(Some),
            None => Ok(None),
        }
    }

    /// Every document in insertion order, without vectors (see [`Scan::with_vectors`]).
    pub fn scan(&self) -> Scan {
        Scan { collection: self.clone(), part: 0, row: 0, vectors: false, admitted: None, scanner: None }
    }

    /// As [`Collection::scan`], the documents of a source; all without one. O(its documents).
    pub fn scan_of(&self, source: Option<&str>) -> Result<Scan> {
        let mut scan = self.scan();
        if let Some(source) = source {
            let rows = |part: &Part| Ok(part.source_rows(source, self.parts.lsn)?.into_iter().collect());
            scan.admitted = Some(self.parts.parts.iter().map(rows).collect::<Result<_>>()?);
        }
        Ok(scan)
    }

    /// As [`Collection::scan`], from the first document after `seq` on: the cursor of an earlier scan. O(parts x log rows).
    pub fn scan_after(&self, seq: Seq) -> Result<Scan> {
        let mut scan = self.scan();
        for (i, part) in self.parts.parts.iter().enumerate() {
            let (mut low, mut high) = (0, part.row_count());
            while low < high {
                let middle = low + (high - low) / 2;
                if part.seq(middle)? <= seq { low = middle + 1 } else { high = middle }
            }
            (scan.part, scan.row) = (i, low);
            if low < part.row_count() {
                break;
            }
        }
        Ok(scan)
    }

    /// The number of documents that match a filter.
    pub fn count_where(&self, filter: &Filter) -> Result<u64> {
        if filter.is_empty() {
            return Ok(self.count());
        }
        Ok(self.parts.matching(filter)?.iter().map(RoaringBitmap::len).sum())
    }

    /// The sources that have a document, in byte order. O(documents with a source): their entities and bytes are counted.
    pub fn sources(&self) -> Result<Vec<SourceInfo>> {
        sources::registry(&self.parts)
    }

    /// One source; `None` when no document has it. O(its documents).
    pub fn source(&self, name: &str) -> Result<Option<SourceInfo>> {
        sources::one(&self.parts, name)
    }

    /// The documents of a source, in insertion order, without vectors. O(its documents).
    pub fn documents_of_source(&self, name: &str) -> Result<Vec<StoredDocument>> {
        let mut documents = Vec::new();
        for part in &self.parts.parts {
            for row in part.source_rows(name, self.parts.lsn)? {
                documents.push(part.document(row, false)?);
            }
        }
        Ok(documents)
    }

    /// Counts everything but co-occurring pairs of entities. O(terms + mentions + rows with a source).
    pub fn stats(&self) -> Result<CollectionStats> {
        let totals = self.parts.totals();
        let graph = graph::counts(&self.parts.graph()?)?;
        Ok(CollectionStats {
            documents: totals.documents,
            sources: sources::count(&self.parts)?,
            vectors: totals.vectors,
            terms: frequencies::distinct_terms(&self.parts, self.info.schema.analyzer)?,
            tokens: totals.tokens,
            entities: graph.entities,
            mentions: graph.mentions,
            relations: graph.relations,
            segments: self.parts.parts.iter().filter(|p| p.is_segment()).count() as u64,
        })
    }

    /// What the vectors and vector graphs of its segments take, dead rows included. O(segments).
    pub fn vector_bytes(&self) -> Result<VectorBytes> {
        let mut sum = VectorBytes::default();
        for part in &self.parts.parts {
            if let Part::Segment(s) = part
                && let Some(vectors) = &s.rooms()?.vectors
            {
                sum += vectors.bytes();
            }
        }
        Ok(sum)
    }

    /// Pairs of entities that some document mentions both of. O(the sum over all documents of the square of their entities).
    pub fn cooccurrences(&self) -> Result<u64> {
        Ok(graph::statistics(&self.parts.graph()?)?.cooccurrences)
    }

    /// The entity of this name, in whatever spelling; `None` when no document mentions or relates it.
    pub fn entity(&self, name: &str) -> Result<Option<EntityView>> {
        graph::entity(&self.parts.graph()?, name)
    }

    /// The entities that relations or shared documents join to this one, the strongest first.
    pub fn neighbours(&self, name: &str) -> Result<Vec<Neighbour>> {
        graph::neighbours(&self.parts.graph()?, name)
    }

    /// Personalised PageRank over every entity and the undirected relations between them, at alpha 0.85 to a change below 1e-12. Seeds are
    /// names with weights of at least 0; all zero, or none, means all entities alike. Highest first, then by name.
    ///
    /// # Errors
    /// `NotFound` for a seed that does not exist; `InvalidArgument` for a weight that is negative or not finite.
    pub fn pagerank(&self, seeds: &[(String, f64)]) -> Result<Vec<(String, f64)>> {
        let views = self.parts.graph()?;
        let whole = graph::whole(&views, false)?;
        let mut weights = vec![0.0; whole.keys.len()];
        for (name, weight) in seeds {
            if !(weight.is_finite() && *weight >= 0.0) {
                return Err(Error::InvalidArgument(format!("the weight of seed {name:?} is a finite number of at least 0, not {weight}")));
            }
            let node = whole.node(name).ok_or_else(|| Error::NotFound(format!("entity {name:?} in collection {:?}", self.name())))?;
            weights[node] += weight;
        }
        let ranks = graph::ppr::personalized_pagerank(&whole.adjacency, &weights, graph::walk::ALPHA);
        let mut ranked: Vec<(String, f64)> = whole.keys.iter().map(|k| k.to_string()).zip(ranks).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(ranked)
    }

    /// Of each part, the rows that match; `None` without a filter.
    fn admitted(&self, filter: Option<&Filter>) -> Result<Option<Vec<RoaringBitmap>>> {
        filter.filter(|f| !f.is_empty()).map(|f| self.parts.matching(f)).transpose()
    }

    /// The `k` documents whose vectors are nearest to `vector`, of those that match `filter`: with [`Effort::DEFAULT`], by which one of fifty may be
    /// missing where segments have graphs. There are always min(k, matching documents with a vector). See [`crate::options::Metric`] for the
    /// scores, which are exact.
    pub fn nearest(&self, vector: &[f32], filter: Option<&Filter>, k: usize) -> Result<Vec<Scored>> {
        self.nearest_with(vector, filter, k, Effort::DEFAULT)
    }

    /// As [`Collection::nearest`], trying as hard as `effort` says.
    pub fn nearest_with(&self, vector: &[f32], filter: Option<&Filter>, k: usize, effort: Effort) -> Result<Vec<Scored>> {
        self.nearest_explained(vector, filter, k, effort).map(|nearest| nearest.hits)
    }

    /// As [`Collection::nearest_with`], with what was walked and what was compared.
    pub fn nearest_explained(&self, vector: &[f32], filter: Option<&Filter>, k: usize, effort: Effort) -> Result<Nearest> {
        check_k(k)?;
        effort.check()?;
        search::vectors(&self.parts, &self.info.schema, vector, self.admitted(filter)?.as_deref(), k, effort)
    }

    /// The `k` documents whose texts score best for `query`, by `scorer` or the collection's own, of those that match `filter`.
    pub fn best_texts(&self, query: &str, scorer: Option<Scorer>, filter: Option<&Filter>, k: usize) -> Result<Vec<Scored>> {
        check_k(k)?;
        let scorer = scorer.unwrap_or(self.info.schema.scorer);
        search::text(&self.parts, &self.info.schema, query, scorer, self.admitted(filter)?.as_deref(), k)
    }

    /// The `k` documents that lie nearest to the query's entities: those that mention them, and with 2 `hops` those that mention what stands
    /// beside them too.
    pub fn nearest_by_graph(&self, query: &str, hops: u32, filter: Option<&Filter>, k: usize) -> Result<Vec<Scored>> {
        check_k(k)?;
        search::graph(&self.parts, &self.info.schema, query, Walk::Hops(hops), self.admitted(filter)?.as_deref(), k)
    }

    /// The `k` documents that rank highest by personalised PageRank around the query's entities.
    pub fn best_by_pagerank(&self, query: &str, filter: Option<&Filter>, k: usize) -> Result<Vec<Scored>> {
        check_k(k)?;
        search::graph(&self.parts, &self.info.schema, query, Walk::PageRank, self.admitted(filter)?.as_deref(), k)
    }

    /// What the text retriever says of these hits alone; those without a term of the query are left out.
    pub(crate) fn text_scores_of(&self, query: &str, scorer: Option<Scorer>, hits: &[Scored]) -> Result<Vec<Scored>> {
        let rows = search::rows_only(&self.parts, &hits.iter().map(|h| h.address).collect::<Vec<_>>());
        search::text(&self.parts, &self.info.schema, query, scorer.unwrap_or(self.info.schema.scorer), Some(&rows), hits.len())
    }

    /// What the vector retriever says of these hits alone; those without a vector are left out.
    pub(crate) fn vector_scores_of(&self, vector: &[f32], hits: &[Scored]) -> Result<Vec<Scored>> {
        let rows = search::rows_only(&self.parts, &hits.iter().map(|h| h.address).collect::<Vec<_>>());
        search::vectors(&self.parts, &self.info.schema, vector, Some(&rows), hits.len(), Effort::Exact).map(|nearest| nearest.hits)
    }

    /// The document of a hit, without its vector.
    pub fn document_of(&self, hit: &Scored) -> Result<StoredDocument> {
        self.parts.parts[hit.address.part as usize].document(hit.address.row, false)
    }

    /// The id of a hit.
    pub fn id_of(&self, hit: &Scored) -> Result<String> {
        Ok(self.parts.parts[hit.address.part as usize].id(hit.address.row)?.into_owned())
    }
}

/// Refuses a number of hits over the limit.
pub(crate) fn check_k(k: usize) -> Result<()> {
    if k > limits::K_MAX {
        return Err(Error::LimitExceeded(format!("k is {k}; at most {} hits can be asked for", limits::K_MAX)));
    }
    Ok(())
}

/// The documents of a collection in insertion order. An item is the document with its seq, which [`Collection::scan_after`] takes.
#[derive(Debug)]
pub struct Scan {
    collection: Collection,
    part: usize,
    row: u32,
    vectors: bool,
    /// Of each part, the rows to give; all when absent.
    admitted: Option<Vec<RoaringBitmap>>,
    /// The decoder of the current part, which keeps the block it decoded last.
    scanner: Option<(usize, crate::docstore::RowsScanner)>,
}

impl Scan {
    /// Whether documents come with their vectors.
    pub fn with_vectors(mut self, vectors: bool) -> Scan {
        self.vectors = vectors;
        self
    }

    /// Gives only documents that match a filter. A filter that few match costs what those few cost.
    pub fn filtered(mut self, filter: &Filter) -> Result<Scan> {
        self.admitted = self.collection.admitted(Some(filter))?;
        Ok(self)
    }

    /// The next row to look at, if the part has one.
    fn next_row(&self, rows: u32) -> Option<u32> {
        match &self.admitted {
            None => Some(self.row).filter(|row| *row < rows),
            Some(admitted) => {
                let mut after = admitted[self.part].iter();
                after.advance_to(self.row);
                after.next()
            }
        }
    }

    fn read(&mut self, part: usize, row: u32) -> Result<(Seq, StoredDocument)> {
        let p = &self.collection.parts.parts[part];
        let seq = p.seq(row)?;
        let Part::Segment(s) = p else { return Ok((seq, p.document(row, self.vectors)?)) };
        let rooms = s.rooms()?;
        if self.scanner.as_ref().is_none_or(|(of, _)| *of != part) {
            self.scanner = Some((part, rooms.rows.scanner()));
        }
        let (_, scanner) = self.scanner.as_mut().expect("was set above");
        let mut document = scanner.document(row)?;
        if self.vectors
            && let Some(vectors) = &rooms.vectors
        {
            document.vector = vectors.get(row)?.map(|v| v.into_owned().into());
        }
        Ok((seq, document))
    }
}

impl Iterator for Scan {
    type Item = Result<(Seq, StoredDocument)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let part = self.collection.parts.parts.get(self.part)?;
            let Some(row) = self.next_row(part.row_count()) else {
                (self.part, self.row) = (self.part + 1, 0);
                continue;
            };
            self.row = row + 1;
            match part.visible(row, self.collection.parts.lsn) {
                Ok(true) => return Some(self.read(self.part, row)),
                Ok(false) => {}
                Err(e) => return Some(Err(e)),
            }
        }
    }
}

//! A moment of the database, for reading.

use super::resolve::no_collection;
use super::version::{Catalog, CollectionInfo, Parts, Version};
use super::{frequencies, search};
use crate::document::StoredDocument;
use crate::error::{Error, Result};
use crate::ids::{Generation, Lsn, Seq};
use crate::options::{Schema, Scorer, limits};
use crate::ranking::Scored;
use std::collections::BTreeMap;
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
        Ok(Collection { name: name.into(), info: info.clone(), parts: self.version.parts(info.incarnation, self.lsn) })
    }
}

/// One collection of a [`Snapshot`].
#[derive(Debug, Clone)]
pub struct Collection {
    name: Arc<str>,
    info: Arc<CollectionInfo>,
    pub(crate) parts: Parts,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceInfo {
    /// Its name.
    pub source: String,
    /// Documents.
    pub documents: u64,
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
        Scan { collection: self.clone(), part: 0, row: 0, vectors: false, scanner: None }
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

    /// The sources that have a document, in byte order. O(rows with a source).
    pub fn sources(&self) -> Result<Vec<SourceInfo>> {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for part in &self.parts.parts {
            part.for_each_source(self.parts.lsn, |source, rows| *all.entry(source.to_string()).or_default() += rows)?;
        }
        Ok(all.into_iter().map(|(source, documents)| SourceInfo { source, documents }).collect())
    }

    /// Counts everything. O(terms + rows with a source).
    pub fn stats(&self) -> Result<CollectionStats> {
        let totals = self.parts.totals();
        Ok(CollectionStats {
            documents: totals.documents,
            sources: self.sources()?.len() as u64,
            vectors: totals.vectors,
            terms: frequencies::distinct_terms(&self.parts, self.info.schema.analyzer)?,
            tokens: totals.tokens,
            segments: self.parts.parts.iter().filter(|p| matches!(p, super::version::Part::Segment(_))).count() as u64,
            ..CollectionStats::default()
        })
    }

    /// The `k` documents whose vectors are nearest to `vector`, exactly. See [`crate::options::Metric`] for the scores.
    pub fn nearest(&self, vector: &[f32], k: usize) -> Result<Vec<Scored>> {
        check_k(k)?;
        search::vectors(&self.parts, &self.info.schema, vector, k)
    }

    /// The `k` documents whose texts score best for `query`, by `scorer` or the collection's own.
    pub fn best_texts(&self, query: &str, scorer: Option<Scorer>, k: usize) -> Result<Vec<Scored>> {
        check_k(k)?;
        search::text(&self.parts, &self.info.schema, query, scorer.unwrap_or(self.info.schema.scorer), k)
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
    /// The decoder of the current part, which keeps the block it decoded last.
    scanner: Option<(usize, crate::docstore::RowsScanner)>,
}

impl Scan {
    /// Whether documents come with their vectors.
    pub fn with_vectors(mut self, vectors: bool) -> Scan {
        self.vectors = vectors;
        self
    }

    fn read(&mut self, part: usize, row: u32) -> Result<(Seq, StoredDocument)> {
        use super::version::Part;
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
            if self.row >= part.row_count() {
                (self.part, self.row) = (self.part + 1, 0);
                continue;
            }
            let row = self.row;
            self.row += 1;
            match part.visible(row, self.collection.parts.lsn) {
                Ok(true) => return Some(self.read(self.part, row)),
                Ok(false) => {}
                Err(e) => return Some(Err(e)),
            }
        }
    }
}

//! The committed, unflushed rows of one collection, searchable at once.

use super::append::AppendVec;
use super::graph::MemGraph;
use super::metadata::MemMetadata;
use super::deaths::{ALIVE, DeathLog};
use super::postings::{Names, PostingList};
use super::{Totals, visible};
use crate::document::{StoredDocument, graph_bytes};
use crate::ids::{Lsn, Seq};
use crate::graph::{Mention, mentions};
use crate::metadata::{Keys, keys};
use crate::options::{AnalyzerKind, Derivation};
use crate::text::Analyzer;
use crate::vector::kernel::inverse_norm;
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};
use std::sync::atomic::{AtomicU64, Ordering};

/// About how many bytes the entities and relations take that a document was given: as structures, and on the heap.
pub fn graph_weight(document: &StoredDocument) -> usize {
    let (entities, relations) = (document.entities.as_deref(), document.relations.as_deref());
    graph_bytes(entities, relations) + entities.map_or(0, size_of_val) + relations.map_or(0, size_of_val)
}

/// What is derived from one document. Made before the writer's lock is taken: it is the costly part of a put.
#[derive(Debug, Clone, Default)]
pub struct Analysis {
    /// Tokens, repeats counted.
    pub tokens: u32,
    /// Each distinct term with its count, in order of first appearance.
    pub terms: Vec<(Box<str>, u32)>,
    /// The entities that it mentions.
    pub mentions: Vec<Mention>,
    /// The keys of its metadata.
    pub keys: Keys,
}

impl Analysis {
    /// Everything that is derived from a document.
    pub fn of(derivation: Derivation, document: &StoredDocument) -> Analysis {
        Analysis {
            mentions: mentions(document.entities.as_deref(), &document.text, derivation.extractor),
            keys: document.metadata.as_ref().map(keys).unwrap_or_default(),
            ..Analysis::of_text(derivation.analyzer, &document.text)
        }
    }

    /// Counts the tokens of `text`, and derives nothing else.
    pub fn of_text(analyzer: AnalyzerKind, text: &str) -> Analysis {
        let mut analysis = Analysis::default();
        let mut index: FxHashMap<Box<str>, usize> = FxHashMap::default();
        Analyzer::new(analyzer).tokens(text, &mut |token: &str| {
            analysis.tokens += 1;
            match index.get(token) {
                Some(&i) => analysis.terms[i].1 += 1,
                None => {
                    index.insert(token.into(), analysis.terms.len());
                    analysis.terms.push((token.into(), 1));
                }
            }
        });
        analysis
    }
}

/// One version of one document.
#[derive(Debug)]
pub struct MemRow {
    /// Its number.
    pub seq: Seq,
    /// What was stored.
    pub document: Arc<StoredDocument>,
    /// Tokens of its text.
    pub tokens: u32,
    /// Inverse norm of its vector; 0 without one.
    pub inverse_norm: f64,
    birth: AtomicU64,
    death: AtomicU64,
    /// The row that held this id before it, in this memtable.
    older: Option<u32>,
    /// Sums over this row and all before it.
    so_far: Totals,
}

impl MemRow {
    /// Whether the row is seen at `lsn`.
    #[inline]
    pub fn visible(&self, lsn: Lsn) -> bool {
        visible(self.birth(), self.death(), lsn)
    }

    /// The commit that wrote it; of a row that was taken back, the first commit that was taken back with it.
    #[inline]
    pub fn birth(&self) -> Lsn {
        Lsn(self.birth.load(Ordering::Acquire))
    }

    /// The lsn at which it died; `u64::MAX` while it lives.
    pub fn death(&self) -> u64 {
        self.death.load(Ordering::Acquire)
    }

    /// What it adds to the totals.
    pub fn totals(&self) -> Totals {
        Totals { documents: 1, tokens: u64::from(self.tokens), vectors: u64::from(self.document.vector.is_some()) }
    }
}

/// The rows of one collection between two freezes.
#[derive(Debug)]
pub struct MemCollection {
    derivation: Derivation,
    rows: AppendVec<MemRow>,
    ids: Names<u32>,
    sources: Names<Arc<PostingList>>,
    terms: Names<Arc<PostingList>>,
    /// Made with the first entity or relation: most small collections have none, and an empty one is not small.
    graph: OnceLock<Box<MemGraph>>,
    metadata: MemMetadata,
    deaths: DeathLog,
}

impl MemCollection {
    /// No rows yet.
    pub fn new(derivation: Derivation) -> MemCollection {
        MemCollection {
            derivation,
            rows: AppendVec::new(),
            ids: Names::new(),
            sources: Names::new(),
            terms: Names::new(),
            graph: OnceLock::new(),
            metadata: MemMetadata::new(),
            deaths: DeathLog::default(),
        }
    }

    /// What is derived from its documents.
    pub fn derivation(&self) -> Derivation {
        self.derivation
    }

    /// The entities and relations of its rows, dead ones included.
    pub fn graph(&self) -> Option<&MemGraph> {
        self.graph.get().map(|g| &**g)
    }

    /// The metadata of its rows, dead ones included.
    pub fn metadata(&self) -> &MemMetadata {
        &self.metadata
    }

    /// Appends a row born at `birth`, with a seq above all before. Returns its row number and about how many bytes it takes. For one
    /// thread at a time.
    pub fn append(&self, birth: Lsn, seq: Seq, document: Arc<StoredDocument>, analysis: &Analysis) -> (u32, usize) {
        let row = u32::try_from(self.rows.len()).expect("a memtable is flushed long before 2^32 rows");
        let mut so_far = row.checked_sub(1).and_then(|r| self.row(r)).map_or(Totals::default(), |r| r.so_far);
        let vector = document.vector.as_deref();
        so_far += Totals { documents: 1, tokens: u64::from(analysis.tokens), vectors: u64::from(vector.is_some()) };
        let mut bytes = size_of::<MemRow>() + 96 + document.text.len() + vector.map_or(0, |v| v.len() * 4);
        bytes += graph_weight(&document) + document.id.len() * 2 + document.metadata.as_ref().map_or(0, |m| m.as_str().len()) + analysis.terms.len() * 16;
        // Postings before the row: a reader takes the rows it can see from the row's birth, and looks none up that is not there.
        for (term, count) in &analysis.terms {
            self.terms.push(term, row, *count);
        }
        if let Some(source) = &document.source {
            self.sources.push(source, row, 1);
        }
        let relations = document.relations.as_deref().unwrap_or_default();
        if !analysis.mentions.is_empty() || !relations.is_empty() {
            bytes += self.graph.get_or_init(Box::default).add(row, &analysis.mentions, relations);
        }
        bytes += self.metadata.add_keys(row, &analysis.keys);
        let older = self.ids.get(&document.id);
        let id = document.id.clone();
        self.rows.push(MemRow {
            seq,
            birth: AtomicU64::new(birth.0),
            inverse_norm: vector.map_or(0.0, inverse_norm),
            document,
            tokens: analysis.tokens,
            death: AtomicU64::new(ALIVE),
            older,
            so_far,
        });
        self.ids.insert(&id, row);
        (row, bytes)
    }

    /// Lets a row die at `lsn`. For one thread at a time.
    pub fn kill(&self, row: u32, lsn: Lsn) {
        if let Some(r) = self.row(row) {
            r.death.store(lsn.0, Ordering::Release);
            self.deaths.push(lsn, row, r.totals());
        }
    }

    /// Takes back everything at or after `lsn`, none of which was published: rows born then get it as birth and as death, and deaths are
    /// forgotten.
    ///
    /// Their own births would not do: the commits after this one get these lsns again, from `lsn` on, and births and deaths ascend, which every
    /// search in them relies on.
    pub fn undo_from(&self, lsn: Lsn) {
        let first = self.rows_born_by(Lsn(lsn.0.saturating_sub(1)));
        self.deaths.undo_from(lsn);
        for i in 0..self.rows.len() as u32 {
            let Some(r) = self.row(i) else { continue };
            if i >= first {
                // The death first: at no moment is there an lsn that sees the row.
                r.death.store(lsn.0, Ordering::Release);
                r.birth.store(lsn.0, Ordering::Release);
                self.deaths.push(lsn, i, r.totals());
            } else if r.death.load(Ordering::Acquire) >= lsn.0 {
                r.death.store(ALIVE, Ordering::Release);
            }
        }
    }

    /// Rows appended so far, dead ones included.
    pub fn row_count(&self) -> u32 {
        self.rows.len() as u32
    }

    /// The row of this number.
    #[inline]
    pub fn row(&self, row: u32) -> Option<&MemRow> {
        self.rows.get(row as usize)
    }

    /// How many rows were born at or before `lsn`: they are the first ones.
    pub fn rows_born_by(&self, lsn: Lsn) -> u32 {
        let (mut low, mut high) = (0u32, self.row_count());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.row(middle).is_some_and(|r| r.birth() <= lsn) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The rows born at or before `lsn`.
    pub fn rows_at(&self, lsn: Lsn) -> impl Iterator<Item = (u32, &MemRow)> {
        (0u32..).zip(self.rows.iter()).take_while(move |(_, r)| r.birth() <= lsn)
    }

    /// The row that holds `id` at `lsn`.
    pub fn find(&self, id: &str, lsn: Lsn) -> Option<u32> {
        let mut row = self.ids.get(id);
        while let Some(r) = row {
            let found = self.row(r)?;
            if found.visible(lsn) {
                return Some(r);
            }
            // Whoever held the id before had died when this row was born, unless the row was taken back.
            let (birth, death) = (found.birth(), found.death());
            if birth <= lsn && birth.0 < death {
                return None;
            }
            row = found.older;
        }
        None
    }

    /// The row of a seq.
    pub fn row_of_seq(&self, seq: Seq) -> Option<u32> {
        let (mut low, mut high) = (0u32, self.row_count());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.row(middle).is_some_and(|r| r.seq < seq) { low = middle + 1 } else { high = middle }
        }
        // Rows of an undone commit keep their place, and seqs are never reused, so at most one row has this seq.
        self.row(low).filter(|r| r.seq == seq).map(|_| low)
    }

    /// The rows of a source that are seen at `lsn`, ascending.
    pub fn source_rows(&self, source: &str, lsn: Lsn) -> Vec<u32> {
        let mut rows = Vec::new();
        if let Some(list) = self.sources.get(source) {
            list.for_each(|row, _| {
                if self.row(row).is_some_and(|r| r.visible(lsn)) {
                    rows.push(row);
                }
            });
        }
        rows
    }

    /// Every source that ever had a row here, in byte order.
    pub fn sources(&self) -> Vec<(Box<str>, Arc<PostingList>)> {
        self.sources.sorted()
    }

    /// The postings of a term, dead rows included.
    pub fn postings(&self, term: &str) -> Option<Arc<PostingList>> {
        self.terms.get(term)
    }

    /// Every term in byte order, with its postings.
    pub fn terms(&self) -> Vec<(Box<str>, Arc<PostingList>)> {
        self.terms.sorted()
    }

    /// Documents, tokens and vectors seen at `lsn`. O(log rows).
    pub fn totals(&self, lsn: Lsn) -> Totals {
        let mut total = self.rows_born_by(lsn).checked_sub(1).and_then(|r| self.row(r)).map_or(Totals::default(), |r| r.so_far);
        total -= self.deaths.between(Lsn(0), lsn);
        total
    }

    /// The first and last seq here, if there is a row.
    pub fn seq_range(&self) -> Option<(Seq, Seq)> {
        let last = self.row_count().checked_sub(1)?;
        Some((self.row(0)?.seq, self.row(last)?.seq))
    }
}

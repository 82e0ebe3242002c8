//! Makes a database out of documents that were stored before: their times, sources and order are kept, and they become one state.
//!
//! Documents are gathered in a memtable and written as segments when it is full, so memory is bounded by `memtable_bytes`, a 16th of that and
//! one document and, for noticing an id that comes twice, by 16 MiB a collection. What is derived from documents is derived by all cores, a
//! handful of documents at a time; everything else is done in their order. Nothing counts before [`Restorer::finish`].

use super::files::Files;
use super::merge::{Plan, Workshop};
use super::rewrite::Rewriter;
use super::segments::{OpenFiles, SegmentFile, SegmentHandle};
use super::unfinished::{Unfinished, abandon};
use super::version::{CollectionInfo, Part};
use super::{flush, graphs};
use crate::document::StoredDocument;
use crate::error::{Error, Result};
use crate::format::head::HeadState;
use crate::format::manifest::{CollectionEntry, Manifest, SegmentEntry};
use crate::format::row_hash::id_hash;
use crate::format::vectors::first_unrounded;
use crate::ids::{Generation, Incarnation, Lsn, Seq, Uuid};
use crate::io::Directory;
use crate::io::names::FileName;
use crate::manifest::write_manifest;
use crate::memtable::{Analysis, Memtable, graph_weight};
use crate::options::{Derivation, Options, Schema, check_name, limits};
use crate::progress::Progress;
use crate::wal::WalWriter;
use crate::workers::side_by_side;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The only lsn of a restored state.
const RESTORED: Lsn = Lsn(1);

/// The most bytes of documents that wait to be analysed together.
const PENDING_BYTES_MAX: usize = 4 << 20;
/// So few documents are not worth another thread.
const HANDFUL: usize = 16;

/// A database that is being made. Dropped without [`Restorer::finish`], or after an error, it leaves no file.
#[derive(Debug)]
pub(crate) struct Restorer {
    dir: Arc<dyn Directory>,
    /// Taken when it is finished.
    place: Option<Unfinished>,
    options: Options,
    database: Uuid,
    files: Files,
    /// Documents that are checked and not in the memtable yet, all of the last collection.
    pending: Vec<StoredDocument>,
    pending_bytes: usize,
    /// Documents that were taken so far, and their bytes.
    taken: (u64, u64),
    memtable: Memtable,
    collections: Vec<CollectionEntry>,
    /// The segments of the last collection, for looking up an id that may have come before.
    segments: Vec<Arc<SegmentHandle>>,
    seen: SeenIds,
    /// The first of the last collection.
    first_seq: Seq,
    next_seq: Seq,
    /// Why nothing more is taken.
    failed: bool,
}

impl Restorer {
    /// Begins in a directory that is new, empty, or holds what a restore that was cut short left.
    pub(crate) fn begin(dir: &Arc<dyn Directory>, options: Options) -> Result<Restorer> {
        let place = Unfinished::begin(dir)?;
        Ok(Restorer {
            files: Files::new(dir.clone(), &[]),
            dir: dir.clone(),
            place: Some(place),
            options,
            database: Uuid::random(),
            pending: Vec::new(),
            pending_bytes: 0,
            taken: (0, 0),
            memtable: Memtable::new(),
            collections: Vec::new(),
            segments: Vec::new(),
            seen: SeenIds::default(),
            first_seq: Seq(1),
            next_seq: Seq(1),
            failed: false,
        })
    }

    /// Begins the next collection: the documents that follow belong to it. Its name was not given before.
    pub(crate) fn collection(&mut self, name: &str, schema: Schema) -> Result<()> {
        check_name("a collection's name", name)?;
        schema.validate()?;
        self.absorb()?;
        let incarnation = Incarnation(self.collections.len() as u64 + 1);
        self.collections.push(CollectionEntry::empty(name, incarnation, schema));
        self.segments.clear();
        self.seen = SeenIds::default();
        self.first_seq = self.next_seq;
        Ok(())
    }

    /// The last collection.
    pub(crate) fn last_collection(&self) -> Option<&CollectionEntry> {
        self.collections.last()
    }

    /// The collections, in the order in which they were begun.
    pub(crate) fn collections(&self) -> &[CollectionEntry] {
        &self.collections
    }

    /// Fixes the dimension of the last collection, which has no vector yet.
    pub(crate) fn set_dimension(&mut self, dimension: Option<u32>) {
        if let Some(entry) = self.collections.last_mut() {
            entry.schema.dimension = dimension;
        }
    }

    /// What names the database that is being made.
    pub(crate) fn database(&self) -> Uuid {
        self.database
    }

    /// Adds a document to the last collection, after those before it. One that is refused changes nothing.
    ///
    /// # Errors
    /// `DuplicateId` when the collection has a document of this id; `SchemaMismatch` when its vector has another dimension than the schema
    /// says, or the schema says none, or when a component is none that the schema stores as it is. After any other error nothing more is taken.
    pub(crate) fn document(&mut self, document: StoredDocument) -> Result<()> {
        let Some(entry) = self.collections.last() else {
            return Err(Error::InvalidArgument("a document comes before the first collection".into()));
        };
        let found = document.vector.as_ref().map(|v| v.len() as u64);
        if let Some(found) = found.filter(|found| Some(*found) != entry.schema.dimension.map(u64::from)) {
            let expected = entry.schema.dimension.map_or("no dimension".into(), |d| format!("dimension {d}"));
            return Err(Error::SchemaMismatch(format!(
                "the vector of document {:?} has {found} components; the schema of collection {:?} has {expected}",
                document.id, entry.name
            )));
        }
        if let Some(i) = document.vector.as_deref().and_then(|v| first_unrounded(v, entry.schema.components)) {
            return Err(Error::SchemaMismatch(format!(
                "component {i} of the vector of document {:?} is no number of the form {}, in which the schema of collection {:?} stores it",
                document.id, entry.schema.components, entry.name
            )));
        }
        if !self.seen.insert(id_hash(&document.id))
            && let Some(first) = self.position(&document.id)?
        {
            return Err(Error::DuplicateId(format!(
                "documents {} and {} of collection {:?}, counted from 1, have the same id, {:?}",
                first + 1,
                self.next_seq.0 + self.pending.len() as u64 - self.first_seq.0 + 1,
                entry.name,
                document.id
            )));
        }
        let bytes = weight(&document);
        self.pending_bytes += bytes;
        self.taken = (self.taken.0 + 1, self.taken.1 + bytes as u64);
        self.pending.push(document);
        let most = PENDING_BYTES_MAX.min(self.options.memtable_bytes / 16);
        if self.pending_bytes > most { self.absorb() } else { Ok(()) }
    }

    /// Which document of the last collection has this id, from 0. O(segments x log rows + pending documents).
    pub(crate) fn position(&self, id: &str) -> Result<Option<u64>> {
        let Some(incarnation) = self.collections.last().map(|c| c.incarnation) else { return Ok(None) };
        let from_first = |seq: Seq| Ok(Some(seq.0 - self.first_seq.0));
        if let Some(at) = self.pending.iter().position(|d| &*d.id == id) {
            return from_first(Seq(self.next_seq.0 + at as u64));
        }
        if let Some(memory) = self.memtable.collection(incarnation) {
            let part = Part::Memory(memory);
            if let Some(row) = part.find(id, RESTORED)? {
                return from_first(part.seq(row)?);
            }
        }
        for segment in &self.segments {
            if let Some(row) = segment.find(id, RESTORED)? {
                return from_first(segment.rooms()?.rows.seq(row)?);
            }
        }
        Ok(None)
    }

    /// Brings the pending documents into the memtable, and writes it when it is full.
    fn absorb(&mut self) -> Result<()> {
        if self.failed {
            return Err(Error::Poisoned("making the database failed before; nothing of it counts. Begin again".into()));
        }
        let Some(entry) = self.collections.last().filter(|_| !self.pending.is_empty()) else { return Ok(()) };
        let (incarnation, derivation) = (entry.incarnation, entry.schema.derivation());
        let documents = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        let analyses = analyse(derivation, &documents, graphs::threads(&self.options, false));
        let memory = self.memtable.collection_or_new(incarnation, derivation);
        for (document, analysis) in documents.into_iter().zip(&analyses) {
            let (_, bytes) = memory.append(RESTORED, self.next_seq, Arc::new(document), analysis);
            self.memtable.grow(bytes);
            self.next_seq = self.next_seq.next();
        }
        let (documents, bytes) = self.taken;
        self.options.tell(Progress::Taken { documents, bytes });
        if self.memtable.bytes() <= self.options.memtable_bytes {
            return Ok(());
        }
        // What is in memory is gone when it cannot be written.
        self.failed = true;
        self.flush()?;
        self.failed = false;
        Ok(())
    }

    /// Writes what is in memory as segments, one a collection, in one file.
    fn flush(&mut self) -> Result<()> {
        let memtable = std::mem::take(&mut self.memtable);
        if memtable.is_empty() {
            return Ok(());
        }
        let file = self.files.create(FileName::Segments)?;
        let flushed = flush::write_memtable(&file, self.database, &memtable, RESTORED, |_| true)?;
        file.sync()?;
        let open = SegmentFile::open(self.dir.as_ref(), file.number(), self.options.io_mode)?;
        let last = self.collections.last().map(|c| c.incarnation);
        for f in flushed {
            let components = f.memory.derivation().components;
            let handle = SegmentHandle::new(self.database, open.clone(), None, f.entry.clone(), components, Lsn(0), RESTORED);
            // Read back before it is named.
            handle.rooms()?;
            let entry = self.collections.iter_mut().find(|c| c.incarnation == f.incarnation).expect("its documents came after it");
            entry.documents += f.entry.rows;
            entry.tokens += f.entry.tokens;
            entry.vectors += f.entry.vectors;
            entry.segments.push(f.entry);
            if Some(f.incarnation) == last {
                self.segments.push(handle);
            }
        }
        Ok(())
    }

    /// Merges the segments of each collection into one, or as few as hold them, with a vector graph where there are enough vectors; gives the
    /// merged segments by collection. O(documents), and the graphs; memory as any merge.
    ///
    /// # Errors
    /// `Interrupted` when `stop` was set.
    pub(crate) fn merge(&mut self, stop: &AtomicBool) -> Result<()> {
        self.absorb()?;
        self.failed = true;
        self.flush()?;
        self.segments.clear();
        let plans = self.plans()?;
        if plans.is_empty() {
            self.failed = false;
            return Ok(());
        }
        let (dir, files, database, options) = (self.dir.clone(), &self.files, self.database, &self.options);
        let mut rewriter = Rewriter::new(Workshop { dir: dir.as_ref(), files, database, options, in_background: false, stop });
        plans.iter().try_for_each(|plan| rewriter.write(plan))?;
        let merged = rewriter.finish()?;
        for (plan, new) in plans.iter().zip(merged) {
            let entry = self.collections.iter_mut().find(|c| c.incarnation == plan.incarnation).expect("it was planned for");
            let at = entry.segments.iter().position(|s| s.base_seq == plan.inputs[0].entry.base_seq).expect("it was planned with");
            let replacement = new.handle.map(|handle| handle.entry.clone());
            entry.segments.splice(at..at + plan.inputs.len(), replacement);
        }
        drop(rewriter);
        self.remove_unnamed(plans.iter().flat_map(|p| &p.inputs).map(|s| s.entry.file).collect());
        self.failed = false;
        Ok(())
    }

    /// What is worth merging: more segments than are needed, and those that are to have a graph.
    fn plans(&self) -> Result<Vec<Plan>> {
        let mut open = OpenFiles::new(self.dir.as_ref(), self.database, self.options.io_mode);
        let mut plans = Vec::new();
        for c in &self.collections {
            for group in groups(&c.segments, limits::SEGMENT_ROWS_MAX) {
                if group.len() < 2 && !group.iter().any(|s| graphs::wanted(&self.options, s.vectors)) {
                    continue;
                }
                let inputs = group.iter().map(|s| open.handle(s, c.schema.components, Lsn(0), RESTORED)).collect::<Result<_>>()?;
                let info = CollectionInfo { incarnation: c.incarnation, schema: c.schema.clone() };
                plans.push(Plan { incarnation: c.incarnation, info, inputs, lsn: RESTORED });
            }
        }
        Ok(plans)
    }

    /// Removes those of these files in which no segment is named any more. One that stays is garbage, which the first writer removes.
    fn remove_unnamed(&self, mut files: BTreeSet<u64>) {
        for segment in self.collections.iter().flat_map(|c| &c.segments) {
            files.remove(&segment.file);
        }
        for file in files {
            let _ = self.dir.unlink(&FileName::Segments(file).to_string());
        }
    }

    /// Makes it a database. After an error nothing of it is left, unless that is `OutcomeUnknown`.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.absorb()?;
        self.flush()?;
        let manifest = Manifest {
            applied_lsn: RESTORED,
            next_seq: self.next_seq,
            next_incarnation: Incarnation(self.collections.len() as u64 + 1),
            collections: std::mem::take(&mut self.collections),
            ..Manifest::default()
        };
        let manifest_number = self.files.next_number()?;
        let (manifest_length, manifest_crc) = write_manifest(self.dir.as_ref(), manifest_number, self.database, &manifest)?;
        let wal_sequence = self.files.next_number()?;
        let wal = WalWriter::create(&self.dir, self.database, wal_sequence, RESTORED.next(), RESTORED, None)?;
        self.place.as_ref().expect("it is finished once").complete()?;
        let place = self.place.take().expect("it is finished once");
        let state = HeadState {
            generation: Generation(1),
            database: self.database,
            manifest_number,
            manifest_length,
            manifest_crc,
            applied_lsn: RESTORED,
            wal_sequence,
            wal_id: wal.id(),
            durable_lsn: RESTORED,
        };
        place.publish(&state)
    }
}

impl Drop for Restorer {
    fn drop(&mut self) {
        if self.place.is_some() {
            abandon(self.dir.as_ref());
        }
    }
}

/// About how many bytes a document takes while it waits.
fn weight(document: &StoredDocument) -> usize {
    let metadata = document.metadata.as_ref().map_or(0, |m| m.as_str().len());
    let vector = document.vector.as_ref().map_or(0, |v| size_of_val(&**v));
    document.id.len() + document.text.len() + metadata + vector + graph_weight(document)
}

/// What is derived from each document, by as many threads as there is work for.
fn analyse(derivation: Derivation, documents: &[StoredDocument], threads: usize) -> Vec<Analysis> {
    let threads = threads.min(documents.len() / HANDFUL).max(1);
    let chunks: Vec<_> = documents.chunks(documents.len().div_ceil(threads).max(1)).collect();
    let each = |chunk: usize| chunks[chunk].iter().map(|d| Analysis::of(derivation, d)).collect::<Vec<_>>();
    side_by_side(chunks.len(), threads, each).into_iter().flatten().collect()
}

/// Adjacent segments that fit into one of at most so many rows, as many together as do.
fn groups(segments: &[SegmentEntry], rows_max: u64) -> Vec<&[SegmentEntry]> {
    let (mut groups, mut from, mut rows) = (Vec::new(), 0, 0);
    for (at, segment) in segments.iter().enumerate() {
        if at > from && rows + segment.rows > rows_max {
            groups.push(&segments[from..at]);
            (from, rows) = (at, 0);
        }
        rows += segment.rows;
    }
    groups.extend((from < segments.len()).then(|| &segments[from..]));
    groups
}

/// Ids that came before, by their hashes: exactly while they are few, then as a Bloom filter of a fixed size. An id that it calls new is new.
#[derive(Debug)]
enum SeenIds {
    Few(FxHashSet<u64>),
    Many(Vec<u64>),
}

impl Default for SeenIds {
    fn default() -> SeenIds {
        SeenIds::Few(FxHashSet::default())
    }
}

impl SeenIds {
    /// How many hashes are kept whole.
    const FEW: usize = 1 << 19;
    /// Words of the filter: 2^27 bits.
    const WORDS: usize = 1 << 21;

    /// Notes a hash; false when it may have come before.
    fn insert(&mut self, hash: u64) -> bool {
        match self {
            SeenIds::Few(hashes) if hashes.len() < Self::FEW => hashes.insert(hash),
            SeenIds::Few(hashes) => {
                let hashes = std::mem::take(hashes);
                *self = SeenIds::Many(vec![0; Self::WORDS]);
                for h in hashes {
                    self.insert(h);
                }
                self.insert(hash)
            }
            SeenIds::Many(words) => {
                let mut new = false;
                // Four positions out of two halves of one hash, as Kirsch and Mitzenmacher do it.
                for i in 0..4u64 {
                    let bit = (hash.wrapping_add(i.wrapping_mul(hash >> 32 | 1))) as usize % (Self::WORDS * 64);
                    let (word, mask) = (&mut words[bit / 64], 1u64 << (bit % 64));
                    new |= *word & mask == 0;
                    *word |= mask;
                }
                new
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_grouped_by_what_fits_into_one() {
        let segment = |rows: u64| flush::new_entry(Seq(1), Seq(rows), rows);
        let lengths = |rows: &[u64]| {
            let segments: Vec<SegmentEntry> = rows.iter().map(|&r| segment(r)).collect();
            groups(&segments, 10).iter().map(|g| g.len()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&[]), Vec::<usize>::new());
        assert_eq!(lengths(&[3, 3, 4]), [3]);
        assert_eq!(lengths(&[3, 3, 5, 5, 10, 1]), [2, 2, 1, 1]);
    }

    #[test]
    fn an_id_that_came_before_is_never_called_new_and_few_new_ones_are_called_old() {
        let mut seen = SeenIds::default();
        let hash = |i: u64| id_hash(&i.to_string());
        let ids = (SeenIds::FEW + SeenIds::FEW / 2) as u64;
        let wrong = (0..ids).filter(|i| !seen.insert(hash(*i))).count();
        assert!(matches!(seen, SeenIds::Many(_)));
        assert!(wrong < 20, "{wrong} of {ids}");
        assert!((0..ids).all(|i| !seen.insert(hash(i))));
    }
}

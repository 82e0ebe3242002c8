//! Makes a database out of documents that were stored before: their times, sources and order are kept, and they become one state.
//!
//! Documents are gathered in a memtable and written as segments when it is full, so memory is bounded by `memtable_bytes` and one document
//! and, for noticing an id that comes twice, by 16 MiB a collection. Nothing counts before [`Restorer::finish`].

use super::files::Files;
use super::flush;
use super::segments::{SegmentFile, SegmentHandle};
use super::unfinished::{Unfinished, abandon};
use super::version::Part;
use crate::document::StoredDocument;
use crate::error::{Error, Result};
use crate::format::head::HeadState;
use crate::format::manifest::{CollectionEntry, Manifest};
use crate::format::row_hash::id_hash;
use crate::format::vectors::first_unrounded;
use crate::ids::{Generation, Incarnation, Lsn, Seq, Uuid};
use crate::io::Directory;
use crate::io::names::FileName;
use crate::manifest::write_manifest;
use crate::memtable::{Analysis, Memtable};
use crate::options::{Options, Schema, check_name};
use crate::wal::WalWriter;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// The only lsn of a restored state.
const RESTORED: Lsn = Lsn(1);

/// A database that is being made. Dropped without [`Restorer::finish`], or after an error, it leaves no file.
#[derive(Debug)]
pub(crate) struct Restorer {
    dir: Arc<dyn Directory>,
    /// Taken when it is finished.
    place: Option<Unfinished>,
    options: Options,
    database: Uuid,
    files: Files,
    memtable: Memtable,
    collections: Vec<CollectionEntry>,
    /// The segments of the last collection, for looking up an id that may have come before.
    segments: Vec<Arc<SegmentHandle>>,
    seen: SeenIds,
    next_seq: Seq,
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
            memtable: Memtable::new(),
            collections: Vec::new(),
            segments: Vec::new(),
            seen: SeenIds::default(),
            next_seq: Seq(1),
        })
    }

    /// Begins the next collection: the documents that follow belong to it. Its name was not given before.
    pub(crate) fn collection(&mut self, name: &str, schema: Schema) -> Result<()> {
        check_name("a collection's name", name)?;
        schema.validate()?;
        let incarnation = Incarnation(self.collections.len() as u64 + 1);
        self.collections.push(CollectionEntry::empty(name, incarnation, schema));
        self.segments.clear();
        self.seen = SeenIds::default();
        Ok(())
    }

    /// Adds a document to the last collection, after those before it.
    ///
    /// # Errors
    /// `DuplicateId` when the collection has a document of this id; `SchemaMismatch` when its vector has another dimension than the schema
    /// says, or the schema says none, or when a component is none that the schema stores without rounding it: what was stored comes back as it
    /// was.
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
        let (incarnation, derivation) = (entry.incarnation, entry.schema.derivation());
        if !self.seen.insert(id_hash(&document.id)) && self.holds(incarnation, &document.id)? {
            return Err(Error::DuplicateId(format!("{:?} stands twice in collection {:?}", document.id, entry.name)));
        }
        let analysis = Analysis::of(derivation, &document);
        let memory = self.memtable.collection_or_new(incarnation, derivation);
        let (_, bytes) = memory.append(RESTORED, self.next_seq, Arc::new(document), &analysis);
        self.memtable.grow(bytes);
        self.next_seq = self.next_seq.next();
        if self.memtable.bytes() > self.options.memtable_bytes { self.flush() } else { Ok(()) }
    }

    /// Whether the collection has a document of this id.
    fn holds(&self, incarnation: Incarnation, id: &str) -> Result<bool> {
        if let Some(memory) = self.memtable.collection(incarnation)
            && Part::Memory(memory).find(id, RESTORED)?.is_some()
        {
            return Ok(true);
        }
        for segment in &self.segments {
            if segment.find(id, RESTORED)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
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

    /// Makes it a database. After an error nothing of it is left, unless that is `OutcomeUnknown`.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.flush()?;
        let manifest = Manifest {
            applied_lsn: RESTORED,
            next_seq: self.next_seq,
            next_incarnation: Incarnation(self.collections.len() as u64 + 1),
            collections: std::mem::take(&mut self.collections),
            ..Manifest::default()
        };
        let manifest_number = self.files.next_number();
        let (manifest_length, manifest_crc) = write_manifest(self.dir.as_ref(), manifest_number, self.database, &manifest)?;
        let wal_sequence = self.files.next_number();
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

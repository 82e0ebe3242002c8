//! The metadata index of the rows in memory, which grows while it is read.

use super::postings::PostingList;
use crate::document::Metadata;
use crate::error::Result;
use crate::metadata::{KeyRange, Keys, MetadataIndex, keys};
use parking_lot::RwLock;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// About how many bytes a key takes beside its own.
const KEY_OVERHEAD: usize = 112;

/// Rows by key. One writer at a time appends; readers hold the lock only while they gather the lists of a range.
#[derive(Debug, Default)]
pub struct MemMetadata {
    keys: RwLock<BTreeMap<Box<[u8]>, Arc<PostingList>>>,
}

impl MemMetadata {
    /// No rows yet.
    pub fn new() -> MemMetadata {
        MemMetadata::default()
    }

    /// Adds a row, which is greater than every row before, before any reader sees it. Returns about how many bytes it takes. For one thread
    /// at a time.
    pub fn add(&self, row: u32, metadata: Option<&Metadata>) -> usize {
        metadata.map_or(0, |metadata| self.add_keys(row, &keys(metadata)))
    }

    /// As [`MemMetadata::add`], of keys that were made before.
    pub fn add_keys(&self, row: u32, keys: &Keys) -> usize {
        let mut bytes = 0;
        for key in keys.iter() {
            // Looked up first: most keys are known, and a reader never waits for a look-up.
            let known = self.keys.read().get(key).cloned();
            let list = known.unwrap_or_else(|| {
                bytes += key.len() + KEY_OVERHEAD;
                self.keys.write().entry(key.into()).or_default().clone()
            });
            list.push(row, 0);
            bytes += 8;
        }
        bytes
    }

    /// The index of the first `rows` rows, all of which were added.
    pub fn first_rows(&self, rows: u32) -> MemMetadataIndex<'_> {
        MemMetadataIndex { metadata: self, rows }
    }
}

/// The metadata of the first rows in memory.
#[derive(Debug, Clone, Copy)]
pub struct MemMetadataIndex<'a> {
    metadata: &'a MemMetadata,
    rows: u32,
}

impl MetadataIndex for MemMetadataIndex<'_> {
    fn rows(&self) -> u32 {
        self.rows
    }

    fn cost(&self, range: &KeyRange, enough: u64) -> Result<u64> {
        let keys = self.metadata.keys.read();
        let found = keys.range::<[u8], _>(range.bounds());
        Ok(found.take(usize::try_from(enough).unwrap_or(usize::MAX)).count() as u64)
    }

    fn collect(&self, range: &KeyRange, out: &mut RoaringBitmap) -> Result<()> {
        let lists: Vec<Arc<PostingList>> = {
            let keys = self.metadata.keys.read();
            keys.range::<[u8], _>(range.bounds()).map(|(_, list)| list.clone()).collect()
        };
        let mut rows = Vec::new();
        for list in lists {
            list.for_each(|row, _| {
                if row < self.rows {
                    rows.push(row);
                }
            });
        }
        out.extend(rows);
        Ok(())
    }
}

//! Writes the metadata index of one segment.

use super::keys::{Keys, keys};
use crate::document::Metadata;
use crate::error::{Error, Result};
use crate::format::metadata::{MetadataRowsEntry, RowsPlace, encode_list};
use crate::format::segment::SectionKind;
use crate::segment::SegmentWriter;
use fst::MapBuilder;
use roaring::RoaringBitmap;
use rustc_hash::FxHashMap;
use std::fmt;
use zerocopy::IntoBytes;

/// The rows of one key. Most keys of a column of distinct values have one.
#[derive(Debug)]
enum Rows {
    Sole(u32),
    Many(Box<RoaringBitmap>),
}

impl Rows {
    fn push(&mut self, row: u32) {
        match self {
            Rows::Sole(first) => *self = Rows::Many(Box::new([*first, row].into_iter().collect())),
            Rows::Many(rows) => {
                rows.insert(row);
            }
        }
    }
}

/// Gathers the keys of all rows of a segment. Memory: every distinct key once, and its rows.
#[derive(Debug, Default)]
pub struct MetadataBuilder {
    keys: FxHashMap<Box<[u8]>, Rows>,
    rows: u32,
}

impl MetadataBuilder {
    /// No rows yet.
    pub fn new() -> MetadataBuilder {
        MetadataBuilder::default()
    }

    /// Adds a row with its metadata. Every row of the segment is added, in ascending order, also those without any.
    pub fn add(&mut self, row: u32, metadata: Option<&Metadata>) {
        match metadata {
            Some(metadata) => self.add_keys(row, &keys(metadata)),
            None => self.add_keys(row, &Keys::default()),
        }
    }

    /// As [`MetadataBuilder::add`], of keys that were made before.
    pub fn add_keys(&mut self, row: u32, keys: &Keys) {
        debug_assert!(row >= self.rows, "rows ascend");
        self.rows = row + 1;
        for key in keys.iter() {
            match self.keys.get_mut(key) {
                Some(rows) => rows.push(row),
                None => {
                    self.keys.insert(key.into(), Rows::Sole(row));
                }
            }
        }
    }

    /// Writes `MetadataRows` and `MetadataTerms`, also when there is no key.
    pub fn finish(self, out: &mut SegmentWriter) -> Result<()> {
        let mut all: Vec<(Box<[u8]>, Rows)> = self.keys.into_iter().collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut sections = Sections::begin(out)?;
        for (key, rows) in all {
            match rows {
                Rows::Sole(row) => sections.sole(&key, row)?,
                Rows::Many(mut rows) => sections.many(&key, &mut rows)?,
            }
        }
        sections.finish(self.rows)
    }
}

/// Writes both sections key by key, in ascending order. `MetadataRows` is open meanwhile.
struct Sections<'a> {
    out: &'a mut SegmentWriter,
    fst: MapBuilder<Vec<u8>>,
    entries: Vec<u8>,
    list: Vec<u8>,
    keys: u64,
}

/// An error of the fst's builder, which writes to memory and is given ascending keys.
fn unexpected(e: impl fmt::Display) -> Error {
    Error::InvalidArgument(format!("the metadata index refused a key: {e}"))
}

impl Sections<'_> {
    fn begin(out: &mut SegmentWriter) -> Result<Sections<'_>> {
        let fst = MapBuilder::new(Vec::new()).map_err(unexpected)?;
        out.begin(SectionKind::MetadataRows)?;
        Ok(Sections { out, fst, entries: Vec::new(), list: Vec::new(), keys: 0 })
    }

    fn sole(&mut self, key: &[u8], row: u32) -> Result<()> {
        self.entry(key, RowsPlace::Sole(row))
    }

    fn many(&mut self, key: &[u8], rows: &mut RoaringBitmap) -> Result<()> {
        rows.optimize();
        self.list.clear();
        encode_list(rows, &mut self.list).map_err(|e| Error::LimitExceeded(e.what))?;
        let place = RowsPlace::List(self.out.position());
        self.out.write(&self.list)?;
        self.entry(key, place)
    }

    fn entry(&mut self, key: &[u8], place: RowsPlace) -> Result<()> {
        self.fst.insert(key, self.keys).map_err(unexpected)?;
        self.entries.extend_from_slice(MetadataRowsEntry::new(place).as_bytes());
        self.keys += 1;
        Ok(())
    }

    fn finish(self, rows: u32) -> Result<()> {
        let lists = self.out.position();
        self.out.write(&self.entries)?;
        self.out.end(self.keys, lists)?;
        let fst = self.fst.into_inner().map_err(unexpected)?;
        self.out.section(SectionKind::MetadataTerms, self.keys, u64::from(rows), &fst)
    }
}

//! One segment, read as far as its blocks hold.

use crate::docstore::salvage::{SalvagedRow, tolerated};
use crate::docstore::{RowsReader, content_hash};
use crate::document::StoredDocument;
use crate::error::{Error, Result};
use crate::format::manifest::SegmentEntry;
use crate::ids::Seq;
use crate::io::Directory;
use crate::io::names::FileName;
use crate::options::Components;
use crate::segment::SegmentReader;
use crate::vector::VectorsReader;

/// An open segment. No derived section of it is ever read.
#[derive(Debug)]
pub(super) struct OpenSegment {
    rows: RowsReader,
    /// Its vectors, if it has any; or why they cannot be told from one another.
    vectors: Result<Option<VectorsReader>>,
}

/// What is left of a row.
pub(super) struct Found {
    pub(super) row: u32,
    pub(super) id: Option<Box<str>>,
    pub(super) seq: Result<Seq>,
    /// With its vector, unless that is an error.
    pub(super) document: Result<StoredDocument>,
    pub(super) vector: Result<()>,
}

impl OpenSegment {
    /// Opens a segment by its section table. The inner error is damage that leaves no table.
    pub(super) fn open(dir: &dyn Directory, entry: &SegmentEntry) -> Result<Result<OpenSegment>> {
        let name = FileName::Segments(entry.file).to_string();
        let opened = || {
            let handle = dir.open(&name).map_err(|e| {
                if e.kind() == std::io::ErrorKind::NotFound {
                    Error::corrupt(&name, entry.offset, "the file is missing")
                } else {
                    Error::io(format!("opening {name}"), e)
                }
            })?;
            let segment = SegmentReader::open_damaged(handle, &name, entry.offset, entry.length, entry.crc)?;
            let rows = RowsReader::open(&segment, entry.base_seq)?;
            let vectors = tolerated(VectorsReader::open(&segment))?;
            let fits = vectors.as_ref().is_ok_and(|v| v.as_ref().map_or(0, |v| u64::from(v.count())) == entry.vectors);
            let differs =
                || Error::corrupt(&name, entry.offset, format!("the manifest says {} vectors, the segment another number", entry.vectors));
            let vectors = if vectors.is_ok() && !fits { Err(differs()) } else { vectors };
            Ok(OpenSegment { rows, vectors })
        };
        tolerated(opened())
    }

    /// Components of its vectors, if it has any.
    pub(super) fn dimension(&self) -> Option<u32> {
        self.vectors.as_ref().ok()?.as_ref().filter(|v| v.count() > 0).map(VectorsReader::dimension)
    }

    /// How their components are stored, if it has any.
    pub(super) fn components(&self) -> Option<Components> {
        self.vectors.as_ref().ok()?.as_ref().filter(|v| v.count() > 0).map(VectorsReader::components)
    }

    /// Hands every row to `each`, with its vector, in ascending order. Gives the content hash of all rows, if each can be read.
    pub(super) fn rows(&self, mut each: impl FnMut(Found) -> Result<()>) -> Result<Option<u64>> {
        let mut hash = Some(0u64);
        self.rows.salvage(|found| {
            let SalvagedRow { row, id, seq, mut document } = found;
            let mut vector = Ok(());
            if let Ok(document) = &mut document {
                match self.vector(row)? {
                    Ok(found) => document.vector = found,
                    Err(e) => vector = Err(e),
                }
            }
            let whole = document.as_ref().ok().filter(|_| vector.is_ok());
            hash = hash.zip(whole).map(|(hash, document)| hash.wrapping_add(content_hash(document)));
            each(Found { row, id, seq, document, vector })
        })?;
        Ok(hash)
    }

    fn vector(&self, row: u32) -> Result<Result<Option<Box<[f32]>>>> {
        match &self.vectors {
            Ok(None) => Ok(Ok(None)),
            Ok(Some(vectors)) => tolerated(vectors.get(row).and_then(|v| {
                // Sound checksums may stand over what no writer takes.
                v.map(|v| if v.iter().all(|c| c.is_finite()) { Ok(v.into_owned().into()) } else { Err(vectors.not_finite(row)) })
                    .transpose()
            })),
            Err(e) => Ok(Err(e.duplicate())),
        }
    }
}

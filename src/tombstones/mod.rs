//! Files of tombstones: which rows of a segment are dead, and which seqs a commit kills. Spec §13.
//!
//! Answers what one envelope of a file names. Never knows what a row or a seq is, nor which envelope is the one in force: the manifest and
//! the log name it. A file is written once, synced by [`TombstonesWriter::finish`], and named only after that; it is read by system calls,
//! every byte checked.

use crate::error::{Error, Result};
use crate::format::tombstones::{
    ENVELOPE_ALIGN, ENVELOPE_BYTES, EnvelopeKind, TombstonesEnvelope, TombstonesHeader, decode_seqs, decode_tombstones, encode_seqs,
    encode_tombstones,
};
use crate::ids::Uuid;
use crate::io::names::FileName;
use crate::io::{Directory, File};
use roaring::{RoaringBitmap, RoaringTreemap};
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Where one envelope lies in its file: what a manifest or a log record repeats of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TombstonesPart {
    /// Where it starts. The first envelope of every file starts at [`TombstonesPart::FIRST_OFFSET`].
    pub offset: u64,
    /// Its bytes, the envelope's 32 included, padding not.
    pub length: u64,
    /// The checksum of the envelope, which covers that of the body.
    pub crc: u32,
}

impl TombstonesPart {
    /// Where the first envelope of a file starts: what a log record, which names the only envelope of a file, does not repeat.
    pub const FIRST_OFFSET: u64 = ENVELOPE_ALIGN;
}

/// Writes one file of tombstones. Nothing of it is durable before [`TombstonesWriter::finish`], nor is its name before the caller syncs the
/// directory.
#[derive(Debug)]
pub struct TombstonesWriter {
    file: Arc<dyn File>,
    name: String,
    length: u64,
}

impl TombstonesWriter {
    /// Creates the file `number`, which must not exist.
    pub fn create(dir: &dyn Directory, database: Uuid, number: u64) -> Result<TombstonesWriter> {
        let name = FileName::Tombstones(number).to_string();
        let file = dir.create_new(&name).map_err(|e| Error::io(format!("creating {name}"), e))?;
        TombstonesWriter::of(file, database, number)
    }

    /// Begins in the file `number`, which was just created and is empty.
    pub fn of(file: Arc<dyn File>, database: Uuid, number: u64) -> Result<TombstonesWriter> {
        let name = FileName::Tombstones(number).to_string();
        let header = TombstonesHeader::new(database, number);
        let mut writer = TombstonesWriter { file, name, length: 0 };
        writer.write(header.as_bytes())?;
        Ok(writer)
    }

    /// Adds the dead rows of one segment, and of each term (by strictly ascending ordinal) in how many of them it stands, at least 1.
    pub fn add_tombstones(&mut self, dead: &RoaringBitmap, dead_df: &[(u32, u32)]) -> Result<TombstonesPart> {
        self.add(EnvelopeKind::Tombstones, dead.len(), &encode_tombstones(dead, dead_df))
    }

    /// Adds the seqs that a commit kills.
    pub fn add_dying_seqs(&mut self, seqs: &RoaringTreemap) -> Result<TombstonesPart> {
        self.add(EnvelopeKind::DyingSeqs, seqs.len(), &encode_seqs(seqs))
    }

    /// Adds the dead rows of one segment, as [`TombstonesWriter::add_tombstones`], and nothing else, and syncs the file.
    pub fn only(mut self, dead: &RoaringBitmap, dead_df: &[(u32, u32)]) -> Result<TombstonesPart> {
        let part = self.add_tombstones(dead, dead_df)?;
        self.finish().map(|()| part)
    }

    /// Syncs the file.
    pub fn finish(self) -> Result<()> {
        self.file.sync().map_err(|e| Error::io(format!("syncing {}", self.name), e))
    }

    fn add(&mut self, kind: EnvelopeKind, items: u64, body: &[u8]) -> Result<TombstonesPart> {
        let envelope = TombstonesEnvelope::new(kind, items, body);
        let start = self.length.next_multiple_of(ENVELOPE_ALIGN);
        let mut bytes = vec![0; (start - self.length) as usize];
        bytes.extend_from_slice(envelope.as_bytes());
        bytes.extend_from_slice(body);
        self.write(&bytes)?;
        Ok(TombstonesPart { offset: start, length: ENVELOPE_BYTES + body.len() as u64, crc: envelope.crc.get() })
    }

    /// Appends; after an error the next write starts at the same place.
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(self.length, bytes).map_err(|e| Error::io(format!("writing {}", self.name), e))?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// Reads one file of tombstones.
#[derive(Debug)]
pub struct TombstonesReader {
    file: Arc<dyn File>,
    name: String,
    length: u64,
}

impl TombstonesReader {
    /// Opens the file `number` of `database` and checks its header.
    ///
    /// # Errors
    /// `Corrupt` when it is missing (whoever asks was told that it exists), damaged, or another one; `UnsupportedVersion` when it is newer.
    pub fn open(dir: &dyn Directory, database: Uuid, number: u64) -> Result<TombstonesReader> {
        let name = FileName::Tombstones(number).to_string();
        let file = dir.open(&name).map_err(|e| {
            if e.kind() == std::io::ErrorKind::NotFound {
                Error::corrupt(&name, 0, "the file is missing")
            } else {
                Error::io(format!("opening {name}"), e)
            }
        })?;
        let length = file.len().map_err(|e| Error::io(format!("reading the length of {name}"), e))?;
        let reader = TombstonesReader { file, name, length };
        let header = reader.read(0, size_of::<TombstonesHeader>() as u64)?;
        TombstonesHeader::decode(&header, database, number).map_err(|e| e.in_file(&reader.name, 0))?;
        Ok(reader)
    }

    /// The dead rows of a segment of `rows` rows, and the dead document frequencies of its terms by ascending ordinal. Every row is below
    /// `rows`; that ordinals are below the number of terms is for the caller to check, who knows it.
    pub fn tombstones(&self, part: TombstonesPart, rows: u32) -> Result<(RoaringBitmap, Vec<(u32, u32)>)> {
        self.envelope(part, EnvelopeKind::Tombstones, |body, items| decode_tombstones(body, items, rows))
    }

    /// The seqs that a commit kills.
    pub fn dying_seqs(&self, part: TombstonesPart) -> Result<RoaringTreemap> {
        self.envelope(part, EnvelopeKind::DyingSeqs, decode_seqs)
    }

    fn envelope<T>(
        &self,
        part: TombstonesPart,
        kind: EnvelopeKind,
        decode: impl FnOnce(&[u8], u64) -> std::result::Result<T, crate::format::FormatError>,
    ) -> Result<T> {
        let bytes = self.read(part.offset, part.length)?;
        TombstonesEnvelope::decode(&bytes, kind, part.crc)
            .and_then(|(items, body)| decode(body, items).map_err(|e| e.shifted(ENVELOPE_BYTES)))
            .map_err(|e| e.in_file(&self.name, part.offset))
    }

    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        let size = usize::try_from(length).ok().filter(|_| inside);
        let size = size.ok_or_else(|| {
            Error::corrupt(
                &self.name,
                offset.min(self.length),
                format!("{length} bytes are named at {offset}; the file has {}", self.length),
            )
        })?;
        let mut bytes = vec![0; size];
        self.file.read_exact_at(offset, &mut bytes).map_err(|e| Error::io(format!("reading {} at byte {offset}", self.name), e))?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;

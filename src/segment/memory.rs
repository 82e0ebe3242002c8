//! Test support: a file in memory, and segments opened from it in both modes.

use super::{SegmentReader, SegmentSummary, SegmentWriter};
use crate::error::Result;
use crate::ids::Uuid;
use crate::io::{Bytes, File};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

/// The database of every test segment.
pub(crate) const DATABASE: Uuid = Uuid([7; 16]);
/// The name of every test file.
pub(crate) const FILE: &str = "s-0000000000000001.segments";

/// A file whose bytes a test can look at.
#[derive(Debug, Default)]
pub(crate) struct MemoryFile(pub(crate) Mutex<Vec<u8>>);

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().len() as u64)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.lock();
        let from = usize::try_from(offset).map_err(io::Error::other)?;
        let part = bytes.get(from..).and_then(|b| b.get(..buf.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(part);
        Ok(())
    }

    fn write_all_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.lock();
        let from = usize::try_from(offset).map_err(io::Error::other)?;
        let end = from + buf.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[from..end].copy_from_slice(buf);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().resize(usize::try_from(len).map_err(io::Error::other)?, 0);
        Ok(())
    }

    fn map(&self, len: u64) -> io::Result<Bytes> {
        Bytes::new(self.0.lock().clone()).slice(0, len).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// How a test reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Mapped,
    Pread,
}

/// Both ways.
pub(crate) const MODES: [Mode; 2] = [Mode::Mapped, Mode::Pread];

/// Writes a segment at `start` of an empty file and answers the file's bytes.
pub(crate) fn write_segment(start: u64, fill: impl FnOnce(&mut SegmentWriter) -> Result<()>) -> Result<(Vec<u8>, SegmentSummary)> {
    let file = Arc::new(MemoryFile::default());
    let mut writer = SegmentWriter::new(file.clone(), FILE, DATABASE, 1, 0, start);
    fill(&mut writer)?;
    let summary = writer.finish()?;
    let bytes = std::mem::take(&mut *file.0.lock());
    Ok((bytes, summary))
}

/// Opens the segment that `summary` describes in a file of these bytes.
pub(crate) fn open_segment(bytes: Vec<u8>, summary: SegmentSummary, mode: Mode) -> Result<SegmentReader> {
    let SegmentSummary { offset, length, crc } = summary;
    match mode {
        Mode::Mapped => SegmentReader::open_mapped(&Bytes::new(bytes), FILE, DATABASE, offset, length, crc),
        Mode::Pread => SegmentReader::open_pread(Arc::new(MemoryFile(Mutex::new(bytes))), FILE, DATABASE, offset, length, crc),
    }
}

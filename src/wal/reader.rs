//! Reads one log: its header, its records from the front, every header anywhere in it.

use crate::error::{Error, Result};
use crate::format::sabotage::{Rule, breaks};
use crate::format::wal::{RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RECORD_MAGIC, RecordHeader, WAL_BLOCK_BYTES, WAL_HEADER_BYTES, WalHeader};
use crate::ids::{Lsn, Uuid};
use crate::io::names::FileName;
use crate::io::{Directory, File};
use std::io::ErrorKind;
use std::sync::Arc;

/// Bytes read at once, unless one record has more.
const WINDOW_BYTES: u64 = 1 << 20;

/// A log that is read up to the length it had when it was opened.
#[derive(Debug)]
pub(crate) struct LogFile {
    file: Arc<dyn File>,
    pub(crate) name: Arc<str>,
    pub(crate) sequence: u64,
    /// Fixed when the log is opened; lowered only when a live writer cuts a failed write away meanwhile.
    pub(crate) len: u64,
    window: Vec<u8>,
    window_at: u64,
}

/// What a pass over every 8-byte step of a log found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The greatest `durable_lsn` in a valid header, and where that header is.
    pub(crate) durable: Option<(Lsn, u64)>,
    /// Valid headers at or after the given end.
    pub(crate) records_after_end: u64,
    /// Whether a byte at or after the given end is not zero.
    pub(crate) nonzero_after_end: bool,
}

impl LogFile {
    /// Opens the log `sequence` and fixes its length; `None` when there is no such file.
    pub(crate) fn open(dir: &dyn Directory, sequence: u64) -> Result<Option<LogFile>> {
        let name = FileName::Wal(sequence).to_string();
        let file = match dir.open(&name) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(format!("opening {name}"), e)),
        };
        let len = file.len().map_err(|e| Error::io(format!("reading the length of {name}"), e))?;
        Ok(Some(LogFile { file, name: name.into(), sequence, len, window: Vec::new(), window_at: 0 }))
    }

    /// Its header, checked.
    pub(crate) fn header(&mut self) -> Result<WalHeader> {
        let name = self.name.clone();
        WalHeader::decode(self.bytes(0, WAL_HEADER_BYTES as u64)?).map_err(|e| e.in_file(name, 0))
    }

    /// The bytes from `offset` on: `want`, or fewer when the log ends before.
    pub(crate) fn bytes(&mut self, offset: u64, want: u64) -> Result<&[u8]> {
        let mut end = offset.saturating_add(want).min(self.len);
        if offset < self.window_at || end > self.window_at + self.window.len() as u64 {
            self.load(offset, want)?;
            end = end.min(self.len);
        }
        if end <= offset {
            return Ok(&[]);
        }
        Ok(&self.window[(offset - self.window_at) as usize..(end - self.window_at) as usize])
    }

    fn load(&mut self, offset: u64, want: u64) -> Result<()> {
        loop {
            let length = want.max(WINDOW_BYTES).min(self.len.saturating_sub(offset));
            self.window.resize(usize::try_from(length).expect("a window has at most 8 MiB and a header"), 0);
            self.window_at = offset;
            match self.file.read_exact_at(offset, &mut self.window) {
                Ok(()) => return Ok(()),
                Err(e) => {
                    self.window.clear();
                    let failed = |e| Error::io(format!("reading {} at byte {offset}", self.name), e);
                    // A live writer may cut away a failed write; anything else that ends early is an error of the medium.
                    let now = self.file.len().map_err(failed)?;
                    if e.kind() != ErrorKind::UnexpectedEof || now >= self.len {
                        return Err(failed(e));
                    }
                    self.len = now;
                }
            }
        }
    }

    /// The valid record header at `offset`, if one stands there.
    pub(crate) fn record_header(&mut self, id: Uuid, offset: u64) -> Result<Option<RecordHeader>> {
        Ok(RecordHeader::decode(self.bytes(offset, RECORD_HEADER_BYTES as u64)?, id, offset).ok())
    }

    /// The payload of `header`, if it is whole and passes its checksum.
    pub(crate) fn payload(&mut self, id: Uuid, header: &RecordHeader) -> Result<Option<&[u8]>> {
        let length = header.payload_length.get();
        let payload = self.bytes(header.self_offset.get() + RECORD_HEADER_BYTES as u64, u64::from(length))?;
        Ok((payload.len() == length as usize && header.check_payload(id, payload).is_ok()).then_some(payload))
    }

    /// Looks at every 8-byte step after the header block for valid record headers. Linear: a step without the magic costs one comparison,
    /// one with it a checksum of 40 bytes, and no payload is read.
    pub(crate) fn scan(&mut self, id: Uuid, end: u64) -> Result<Scan> {
        let mut found = Scan::default();
        let mut at = WAL_HEADER_BYTES as u64;
        while at < self.len {
            // A header may begin at the last step of a window.
            let window = self.bytes(at, WINDOW_BYTES + RECORD_HEADER_BYTES as u64 - RECORD_ALIGNMENT)?;
            let own = window.len().min(WINDOW_BYTES as usize);
            let tail_from = (end.saturating_sub(at) as usize).min(own);
            found.nonzero_after_end |= window[tail_from..own].iter().any(|&b| b != 0);
            for (step, bytes) in window[..own].chunks_exact(RECORD_ALIGNMENT as usize).enumerate() {
                if bytes[..4] != RECORD_MAGIC.to_le_bytes() {
                    continue;
                }
                let from = step * RECORD_ALIGNMENT as usize;
                let offset = at + from as u64;
                let Some(header) = window.get(from..from + RECORD_HEADER_BYTES).and_then(|b| RecordHeader::decode(b, id, offset).ok())
                else {
                    continue;
                };
                let durable = (Lsn(header.durable_lsn.get()), offset);
                if found.durable.is_none_or(|best| durable.0 > best.0) {
                    found.durable = Some(durable);
                }
                found.records_after_end += u64::from(offset >= end);
            }
            at += WINDOW_BYTES;
        }
        Ok(found)
    }
}

/// Takes the records of a log one after another, for as long as each continues the one before.
#[derive(Debug)]
pub(crate) struct Walk {
    id: Uuid,
    /// The lsn of the last record taken.
    pub(crate) last_lsn: Lsn,
    /// Where it ends, alignment included.
    pub(crate) at: u64,
    previous_header_crc: u32,
    /// Where the header of the last record taken is; 0 before the first.
    previous_header_at: u64,
}

impl Walk {
    /// Where the header of the last record taken is, and its checksum.
    pub(crate) fn last_header(&self) -> Option<(u64, u32)> {
        (self.previous_header_at > 0).then_some((self.previous_header_at, self.previous_header_crc))
    }

    /// Before the first record of the log with this header.
    pub(crate) fn new(header: &WalHeader) -> Walk {
        Walk { id: Uuid(header.id), last_lsn: Lsn(header.first_lsn.get() - 1), at: WAL_HEADER_BYTES as u64, previous_header_crc: 0, previous_header_at: 0 }
    }

    /// The next record, when it is whole: right here, or at the next block, where the first record after a sync starts.
    pub(crate) fn next(&mut self, log: &mut LogFile) -> Result<Option<RecordHeader>> {
        let block = self.at.next_multiple_of(WAL_BLOCK_BYTES);
        let later = if breaks(Rule::LaterRecordsDropped) { self.at..log.len } else { 0..0 };
        for offset in [Some(self.at), Some(block).filter(|&block| block != self.at)].into_iter().flatten().chain(later.step_by(RECORD_ALIGNMENT as usize)) {
            let Some(header) = log.record_header(self.id, offset)? else {
                continue;
            };
            let continues =
                header.lsn.get().checked_sub(1) == Some(self.last_lsn.0) && header.previous_header_crc.get() == self.previous_header_crc;
            let continues = continues || (breaks(Rule::LaterRecordsDropped) && header.lsn.get() > self.last_lsn.0);
            if continues && log.payload(self.id, &header)?.is_some() {
                self.last_lsn = Lsn(header.lsn.get());
                self.at = header.end_offset();
                (self.previous_header_crc, self.previous_header_at) = (header.header_crc.get(), offset);
                return Ok(Some(header));
            }
        }
        Ok(None)
    }
}

/// Whether a log has no byte but zeros after its header block: then no record was ever written to it, whatever its header holds.
pub fn has_no_records(dir: &dyn Directory, sequence: u64) -> Result<bool> {
    let Some(mut log) = LogFile::open(dir, sequence)? else {
        return Ok(true);
    };
    let mut at = WAL_HEADER_BYTES as u64;
    while at < log.len {
        if log.bytes(at, WINDOW_BYTES)?.iter().any(|&b| b != 0) {
            return Ok(false);
        }
        at += WINDOW_BYTES;
    }
    Ok(true)
}

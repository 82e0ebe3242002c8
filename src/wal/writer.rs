//! Appends to one log, which this process created.

use crate::error::{Error, Result};
use crate::format::sabotage::{Rule, breaks};
use crate::format::wal::{Link, RecordHeader, WAL_BLOCK_BYTES, WAL_HEADER_BYTES, WalHeader, record_end};
use crate::ids::{Lsn, Uuid};
use crate::io::names::FileName;
use crate::io::{Directory, File};
use crate::options::limits;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Bytes of the write buffer that are kept between groups.
const BUFFER_KEPT_BYTES: usize = 1 << 20;

/// A record to be appended.
#[derive(Debug, Clone, Copy)]
pub struct NewRecord<'a> {
    /// One more than the lsn before it.
    pub lsn: Lsn,
    /// What the payload is.
    pub kind: u8,
    /// At most 8 MiB.
    pub payload: &'a [u8],
}

/// The log that a writer appends to.
///
/// After a failed [`WalWriter::append`] it takes nothing before [`WalWriter::cut_back`]; after a failed sync it takes nothing any more and
/// answers [`Error::Poisoned`].
#[derive(Debug)]
pub struct WalWriter {
    file: Arc<dyn File>,
    name: String,
    sequence: u64,
    id: Uuid,
    last_lsn: Lsn,
    durable_lsn: Lsn,
    /// Where the last good record ends, alignment included.
    end_offset: u64,
    /// `end_offset` when the last sync was issued.
    synced_offset: u64,
    previous_header_crc: u32,
    state: State,
    buffer: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    /// A write failed: the bytes after `end_offset` are unknown.
    Uncut,
    /// A sync failed.
    Poisoned,
}

impl WalWriter {
    /// Creates the log `sequence`, writes its header and syncs it. The caller syncs the directory before HEAD or a link names it, and appends
    /// only once both slots of HEAD do.
    ///
    /// `durable_lsn` is what is known to be durable so far. Panics when `link` does not end right before `first_lsn`.
    pub fn create(
        dir: &Arc<dyn Directory>,
        database: Uuid,
        sequence: u64,
        first_lsn: Lsn,
        durable_lsn: Lsn,
        link: Option<Link>,
    ) -> Result<WalWriter> {
        assert!(first_lsn.0 > 0, "the first lsn of a log is at least 1");
        assert!(link.is_none_or(|l| l.last_lsn.next() == first_lsn && l.sequence < sequence), "a log continues where its predecessor ends");
        let name = FileName::Wal(sequence).to_string();
        let id = Uuid::random();
        let file = dir.create_new(&name).map_err(|e| Error::io(format!("creating {name}"), e))?;
        let header = WalHeader::encode(database, sequence, id, first_lsn, link);
        file.write_all_at(0, header.as_bytes()).map_err(|e| Error::io(format!("writing {name}"), e))?;
        file.sync().map_err(|e| Error::io(format!("syncing {name}"), e))?;
        Ok(WalWriter {
            file,
            name,
            sequence,
            id,
            last_lsn: Lsn(first_lsn.0 - 1),
            durable_lsn,
            end_offset: WAL_HEADER_BYTES as u64,
            synced_offset: WAL_HEADER_BYTES as u64,
            previous_header_crc: 0,
            state: State::Good,
            buffer: Vec::new(),
        })
    }

    /// Appends a group with one write; on an error nothing of it counts, and [`WalWriter::cut_back`] must remove what may have been written.
    ///
    /// Panics when the lsns do not continue those before, and when a payload has more than 8 MiB.
    pub fn append(&mut self, records: &[NewRecord<'_>]) -> Result<()> {
        self.refuse_unless_good()?;
        if records.is_empty() {
            return Ok(());
        }
        // A block that holds synced bytes is never written again, so a crash cannot tear it.
        let fresh = self.end_offset == self.synced_offset && !breaks(Rule::FreshBlock);
        let start = if fresh { self.end_offset.next_multiple_of(WAL_BLOCK_BYTES) } else { self.end_offset };
        let mut buffer = std::mem::take(&mut self.buffer);
        let (last_lsn, end_offset, previous_header_crc) = self.encode_group(records, start, &mut buffer);
        // To the end of the block, so that the file system never has to fill up a block that was synced.
        let padded = end_offset.next_multiple_of(WAL_BLOCK_BYTES);
        buffer.resize(usize::try_from(padded - start).expect("a group fits into memory"), 0);
        let written = self.file.write_all_at(start, &buffer);
        buffer.clear();
        buffer.shrink_to(BUFFER_KEPT_BYTES);
        self.buffer = buffer;
        if let Err(e) = written {
            self.state = State::Uncut;
            return Err(Error::io(format!("writing {}", self.name), e));
        }
        (self.last_lsn, self.end_offset, self.previous_header_crc) = (last_lsn, end_offset, previous_header_crc);
        Ok(())
    }

    /// The bytes of a group that starts at offset `start`: into `buffer`, and what it makes of the last lsn, the end and the last header's CRC.
    fn encode_group(&self, records: &[NewRecord<'_>], start: u64, buffer: &mut Vec<u8>) -> (Lsn, u64, u32) {
        let (mut lsn, mut at, mut previous) = (self.last_lsn, start, self.previous_header_crc);
        for record in records {
            assert_eq!(record.lsn, lsn.next(), "lsns are contiguous");
            assert!(record.payload.len() <= limits::RECORD_BYTES_MAX, "a payload has at most 8 MiB; a larger batch lands as a segment");
            let header = RecordHeader::encode(self.id, at, record.lsn, self.durable_lsn(), previous, record.kind, record.payload);
            buffer.extend_from_slice(header.as_bytes());
            buffer.extend_from_slice(record.payload);
            at = record_end(at, record.payload.len());
            buffer.resize(usize::try_from(at - start).expect("a group fits into memory"), 0);
            (lsn, previous) = (record.lsn, header.header_crc.get());
        }
        (lsn, at, previous)
    }

    /// Makes every record appended before this call durable. Does nothing when all are. After an error the outcome is unknown for good.
    pub fn sync(&mut self) -> Result<()> {
        self.refuse_unless_good()?;
        if self.unsynced_bytes() == 0 {
            return Ok(());
        }
        self.sync_file()
    }

    /// Removes what a failed append may have left: cuts the file after its last good record and syncs. Only then may the failed commits be
    /// told that they failed. After an error the outcome is unknown for good.
    pub fn cut_back(&mut self) -> Result<()> {
        if self.state == State::Poisoned {
            return self.refuse_unless_good();
        }
        if breaks(Rule::CutBack) {
            self.state = State::Good;
            return Ok(());
        }
        if let Err(e) = self.cut_file() {
            self.state = State::Poisoned;
            return Err(Error::io(format!("cutting {} back to {} bytes", self.name, self.end_offset), e));
        }
        self.sync_file()
    }

    /// Leaves the file as it was before the failed append: zeros from the last good record to the end of its block.
    fn cut_file(&self) -> std::io::Result<()> {
        // When that block was synced, the failed write began after it, and the block is left alone.
        if self.unsynced_bytes() > 0 {
            self.file.set_len(self.end_offset)?;
        }
        self.file.set_len(self.end_offset.next_multiple_of(WAL_BLOCK_BYTES))
    }

    fn sync_file(&mut self) -> Result<()> {
        let synced = if breaks(Rule::NoRetry) { self.file.sync().or_else(|_| self.file.sync()) } else { self.file.sync() };
        if let Err(e) = synced {
            self.state = State::Poisoned;
            return Err(Error::io(format!("syncing {}", self.name), e));
        }
        self.state = State::Good;
        if self.unsynced_bytes() > 0 {
            self.durable_lsn = self.last_lsn;
            self.synced_offset = self.end_offset;
        }
        Ok(())
    }

    fn refuse_unless_good(&self) -> Result<()> {
        match self.state {
            State::Good => Ok(()),
            State::Poisoned => Err(Error::Poisoned(format!(
                "an earlier sync of {} failed; reopen the database, which finds out what is durable",
                self.name
            ))),
            State::Uncut => Err(Error::Poisoned(format!("an earlier write to {} failed and was not cut back", self.name))),
        }
    }

    /// Its random identity.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// The number in its file name.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The lsn of the last good record; one below the first lsn of the log when it has none.
    pub fn last_lsn(&self) -> Lsn {
        self.last_lsn
    }

    /// The greatest lsn known to be durable.
    pub fn durable_lsn(&self) -> Lsn {
        if breaks(Rule::DurableLsn) { Lsn(0) } else { self.durable_lsn }
    }

    /// Where the last good record ends, in bytes.
    pub fn end_offset(&self) -> u64 {
        self.end_offset
    }

    /// Bytes appended since the last sync.
    pub fn unsynced_bytes(&self) -> u64 {
        self.end_offset - self.synced_offset
    }

    /// What the log that continues this one says of it. Panics when a record was not synced.
    pub fn link_for_successor(&self) -> Link {
        assert!(self.unsynced_bytes() == 0 && self.state == State::Good, "a log is synced before another continues it");
        Link { id: self.id, sequence: self.sequence, last_lsn: self.last_lsn, end_offset: self.end_offset }
    }
}

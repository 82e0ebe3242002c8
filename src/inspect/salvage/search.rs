//! Searches one log for every record that can be proved.

use super::ledger::{Loss, LossKind};
use super::log::Record;
use crate::error::{Error, Result};
use crate::format::effects::CommitEffects;
use crate::format::wal::{RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RECORD_MAGIC, RecordHeader, WAL_BLOCK_BYTES, WAL_HEADER_BYTES, WalHeader};
use crate::ids::{Lsn, Uuid};
use crate::io::Directory;
use crate::io::names::FileName;
use crate::wal::LogFile;
use std::collections::BTreeMap;

/// Bytes that are looked at between two reads.
const STEP_BYTES: u64 = 64 << 10;

/// A record as it was found. Its checksums hold.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) header: RecordHeader,
    /// `None` when it is of a kind that is skipped.
    payload: Option<Vec<u8>>,
}

/// What one log holds.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) header: Option<WalHeader>,
    pub(super) records: BTreeMap<Lsn, Found>,
    /// The greatest lsn that a valid header calls durable.
    pub(super) durable: Lsn,
    /// Whether a record would have been found: the identity is known, and the file holds more than zeros.
    pub(super) searched: bool,
    /// The last place that the system did not let be read.
    failed_at: Option<u64>,
}

impl Log {
    /// Whether its commits go on where a state at the lsn before this one ends.
    pub(super) fn reaches(&self, lsn: Lsn) -> bool {
        self.searched && (self.records.contains_key(&lsn) || self.header.is_some_and(|h| h.first_lsn.get() == lsn.0))
    }

    /// Where records after the last one found may stand that the system did not let be read.
    pub(super) fn unread_end(&self) -> Option<u64> {
        let end = self.records.values().next_back().map_or(0, |last| last.header.end_offset());
        self.failed_at.filter(|at| *at >= end)
    }

    /// Whether a record stands where one that follows the one before would.
    fn continues(&self, header: &RecordHeader) -> bool {
        let (at, link) = (header.self_offset.get(), header.previous_header_crc.get());
        let lsn = Lsn(header.lsn.get());
        let end = match self.records.get(&Lsn(lsn.0 - 1)) {
            Some(before) if before.header.header_crc.get() == link => before.header.end_offset(),
            Some(_) => return false,
            None if self.header.is_some_and(|h| h.first_lsn.get() == lsn.0) && link == 0 => WAL_HEADER_BYTES as u64,
            // The one before is in another log, or cannot be read.
            None => return true,
        };
        at == end || at == end.next_multiple_of(WAL_BLOCK_BYTES)
    }

    /// The record of a lsn, understood as far as it can be. An error when only a newer version can.
    pub(super) fn record(&self, lsn: Lsn, file: &str) -> Result<Option<Record>> {
        let Some(Found { header, payload }) = self.records.get(&lsn) else { return Ok(None) };
        let offset = header.self_offset.get() + RECORD_HEADER_BYTES as u64;
        let mut record =
            Record { effects: CommitEffects::default(), file: file.into(), offset, loss: None, continues: self.continues(header) };
        match payload.as_deref().map(CommitEffects::decode) {
            None => {}
            Some(Ok(effects)) => record.effects = effects,
            Some(Err(e)) if e.newer => return Err(e.in_file(file, offset)),
            Some(Err(e)) => {
                let reason = format!("this commit is whole and says what no commit can do: {}", e.what);
                let place = (offset + e.offset, u64::from(header.payload_length.get()).saturating_sub(e.offset));
                record.loss = Some(Loss::new(LossKind::Commits, reason).lsns(lsn, Some(lsn)).place(file, place.0, Some(place.1)));
            }
        }
        Ok(Some(record))
    }
}

/// What a log is known by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    /// The database that it belongs to.
    pub(super) database: Option<Uuid>,
    /// What HEAD or the log after it call it.
    pub(super) named: Option<Uuid>,
    /// What it may be, if its records say so: their checksums begin with the identity.
    pub(super) guess: Option<Uuid>,
}

/// Finds every record of a log that can be proved.
pub(super) fn search(dir: &dyn Directory, number: u64, identity: Identity) -> Result<Log> {
    let mut found = Log::default();
    let mut log = match LogFile::open(dir, number) {
        Ok(Some(log)) => log,
        Ok(None) => return Ok(found),
        Err(_) => {
            found.failed_at = Some(0);
            return Ok(found);
        }
    };
    // A sound header of another log is no damaged one: the log of this name is missing.
    let mut another = false;
    match log.header() {
        Ok(header)
            if header.sequence.get() == number
                && identity.database.is_none_or(|uuid| uuid.0 == header.database)
                && identity.named.is_none_or(|id| id.0 == header.id) =>
        {
            found.header = Some(header);
        }
        Err(e @ Error::UnsupportedVersion(_)) => return Err(e),
        Ok(_) => another = true,
        Err(_) => {}
    }
    let known = found.header.map(|h| Uuid(h.id)).or(identity.named);
    if let Some(id) = known.or(identity.guess) {
        found.take_records(&mut log, id)?;
    }
    let written = log.bytes(0, WAL_HEADER_BYTES as u64).is_ok_and(|b| b.len() == WAL_HEADER_BYTES && b.iter().any(|&b| b != 0));
    // What a guess does not find may be there under another identity.
    found.searched = if known.is_some() { !another && written } else { !found.records.is_empty() };
    Ok(found)
}

impl Log {
    fn take_records(&mut self, log: &mut LogFile, id: Uuid) -> Result<()> {
        let mut at = WAL_HEADER_BYTES as u64;
        while at < log.len {
            let (base, end) = (at, (at + STEP_BYTES).min(log.len));
            // A part of the medium that cannot be read holds no record that can be proved.
            let Ok(window) = log.bytes(at, end - at + RECORD_HEADER_BYTES as u64).map(<[u8]>::to_vec) else {
                self.failed_at = Some(at);
                at = end;
                continue;
            };
            while at < end {
                let from = (at - base) as usize;
                let magic = window.get(from..from + 4).is_some_and(|bytes| bytes == RECORD_MAGIC.to_le_bytes());
                at = if magic { self.take_record(log, id, at)? } else { None }.unwrap_or(at + RECORD_ALIGNMENT);
            }
        }
        Ok(())
    }

    /// Takes the record at `at`, if a whole one stands there, and says where it ends.
    fn take_record(&mut self, log: &mut LogFile, id: Uuid, at: u64) -> Result<Option<u64>> {
        let header = log.record_header(id, at);
        let Some(header) = self.given(at, header) else { return Ok(None) };
        self.durable = self.durable.max(Lsn(header.durable_lsn.get()));
        let payload = log.payload(id, &header).map(|bytes| bytes.map(<[u8]>::to_vec));
        let Some(payload) = self.given(at, payload) else { return Ok(None) };
        let understood = header.understand().map_err(|e| e.in_file(FileName::Wal(log.sequence).to_string(), at))?;
        self.records.insert(Lsn(header.lsn.get()), Found { header, payload: understood.then_some(payload) });
        Ok(Some(header.end_offset()))
    }

    /// What the system gave, if it gave anything.
    fn given<T>(&mut self, at: u64, read: Result<Option<T>>) -> Option<T> {
        read.unwrap_or_else(|_| {
            self.failed_at = Some(at);
            None
        })
    }
}

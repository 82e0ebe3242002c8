//! The verdict: which records are true, and whether what follows them was never synced or is damaged.

use super::chain::{ChainLog, follow, leftovers};
use super::reader::{LogFile, Walk};
use super::witness::Witness;
use crate::error::{Error, Result};
use crate::format::sabotage::{Rule, breaks};
use crate::format::wal::{RECORD_HEADER_BYTES, RecordHeader, WAL_BLOCK_BYTES};
use crate::format::witness::WitnessRecord;
use crate::ids::{Lsn, Uuid};
use crate::io::Directory;
use crate::io::names::{HEAD, WITNESS};
use std::sync::Arc;

/// A record to be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRecord {
    /// Its lsn.
    pub lsn: Lsn,
    /// What its payload is: one that this version knows.
    pub kind: u8,
    /// The payload, which passed its checksum.
    pub payload: Vec<u8>,
    /// The log it stands in.
    pub file: Arc<str>,
    /// Where its payload starts there.
    pub offset: u64,
}

/// What follows the last good record of the active log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    Clean,
    /// Bytes that were never synced, and do not count.
    Torn {
        /// The active log.
        file: String,
        /// Where they start.
        offset: u64,
        /// How many there are.
        bytes: u64,
        /// How many records with a valid header are among them.
        dropped_records: u64,
    },
}

/// Where the active log ended when it was read, for [`is_unchanged`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    sequence: u64,
    id: Uuid,
    length: u64,
    /// Where the last good record ends.
    at: u64,
    /// Where its header is, and the header's checksum, which stands for the record and, by its link, for all before it.
    last: Option<(u64, u32)>,
}

/// Whether the log still ends where it ended: then no record came since. Reads the last header and what follows the last record.
///
/// The length alone would not do: a record that follows an unsynced one fills up its block. Nor would the end alone: a writer takes a failed
/// group back, and its next records may end in the same place.
pub fn is_unchanged(dir: &dyn Directory, end: &LogEnd) -> Result<bool> {
    let Some(mut log) = LogFile::open(dir, end.sequence)? else { return Ok(false) };
    if log.len != end.length {
        return Ok(false);
    }
    if let Some((offset, crc)) = end.last {
        match log.record_header(end.id, offset)? {
            Some(header) if header.header_crc.get() == crc => {}
            _ => return Ok(false),
        }
    }
    Ok(log.bytes(end.at, end.length.saturating_sub(end.at))?.iter().all(|&b| b == 0))
}

/// What the logs hold after the state of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The records after `applied_lsn`, ascending; those of an unknown kind that may be skipped are left out.
    pub records: Vec<LoggedRecord>,
    /// What follows them.
    pub tail: Tail,
    /// The last lsn of the state: at least `applied_lsn`.
    pub last_lsn: Lsn,
    /// Sequences of the logs that were followed, ascending; the active log is the last.
    pub logs: Vec<u64>,
    /// Sequences of the logs that the chosen slot does not reach. The other slot may reach them.
    pub leftovers: Vec<u64>,
    /// The greatest lsn that any evidence calls durable; at most `last_lsn`.
    pub max_durable: Lsn,
    /// Where the active log ends; `None` when anything but zeros follows its last good record.
    pub end: Option<LogEnd>,
}

/// Finds the records after `applied_lsn` in the log that HEAD names as active and in those it continues. Writes nothing.
///
/// `witness` is what [`super::Witness::read`] found *before* HEAD was read: of a live database only that order never shows evidence for a
/// record that the logs, whose lengths are fixed here, do not hold yet. A reader that gets [`Error::Corrupt`] compares HEAD with what it had
/// read, and starts again when it has changed.
///
/// With b the first bad lsn and W the greatest lsn that a valid record header, WITNESS or HEAD calls durable: b <= W is [`Error::Corrupt`] that
/// names the lsns lost. Otherwise everything from b on, later valid records too, was never synced and is dropped.
pub fn recover(
    dir: &dyn Directory,
    database: Uuid,
    active_sequence: u64,
    active_id: Uuid,
    applied_lsn: Lsn,
    head_durable_lsn: Lsn,
    witness: Option<WitnessRecord>,
) -> Result<Recovered> {
    let mut chain = follow(dir, database, active_sequence, active_id, applied_lsn)?;
    let logs: Vec<u64> = chain.iter().map(|c| c.log.sequence).collect();
    let leftovers = leftovers(dir, &logs, active_sequence)?;
    let mut active = chain.pop().expect("the active log is the last of its chain");
    let witness = if breaks(Rule::WitnessFirst) { Witness::read(dir)? } else { witness };
    let mut records = Vec::new();
    for log in &mut chain {
        read_continued(log, applied_lsn, &mut records)?;
    }
    let mut evidence = Evidence::none();
    if !breaks(Rule::EvidenceOfHead) {
        evidence.add(head_durable_lsn, || HEAD.into());
    }
    if let Some(witness) = witness.filter(|_| !breaks(Rule::EvidenceOfWitness)) {
        evidence.add(witness.durable_lsn, || format!("{WITNESS} (byte {} of log {})", witness.durable_offset, witness.wal_id));
    }
    let (walk, tail) = read_active(&mut active, applied_lsn, &mut evidence, &mut records)?;
    let end = (tail == Tail::Clean).then(|| LogEnd {
        sequence: active.log.sequence,
        id: Uuid(active.header.id),
        length: active.log.len,
        at: walk.at,
        last: walk.last_header(),
    });
    Ok(Recovered { records, tail, last_lsn: walk.last_lsn.max(applied_lsn), logs, leftovers, max_durable: evidence.lsn, end })
}

/// The greatest lsn called durable, and by whom.
struct Evidence {
    lsn: Lsn,
    by: String,
}

impl Evidence {
    fn none() -> Evidence {
        Evidence { lsn: Lsn(0), by: String::new() }
    }

    fn add(&mut self, lsn: Lsn, by: impl FnOnce() -> String) {
        if lsn > self.lsn {
            *self = Evidence { lsn, by: by() };
        }
    }
}

/// Reads a log that another one continues: it was synced before, so it is whole exactly to the link, and bytes after that never counted.
fn read_continued(chained: &mut ChainLog, applied_lsn: Lsn, records: &mut Vec<LoggedRecord>) -> Result<()> {
    let (link, by) = chained.continued.clone().expect("every log but the active one is continued");
    let mut walk = Walk::new(&chained.header);
    while walk.last_lsn < link.last_lsn && walk.at < link.end_offset {
        match walk.next(&mut chained.log)? {
            Some(header) => keep(chained, &header, applied_lsn, records)?,
            None => break,
        }
    }
    if walk.last_lsn == link.last_lsn && walk.at == link.end_offset && walk.at <= chained.log.len {
        return Ok(());
    }
    let lost = match walk.last_lsn.0.saturating_add(1) {
        first if first <= link.last_lsn.0 => format!("lsn {first} to {} are lost", link.last_lsn),
        _ => "every record is there, but it does not end where it ended".into(),
    };
    let what = format!(
        "the log is whole up to lsn {} at byte {} of {}, but {by} continues it after lsn {} at byte {}: {lost}",
        walk.last_lsn, walk.at, chained.log.len, link.last_lsn, link.end_offset
    );
    Err(Error::corrupt(chained.log.name.to_string(), walk.at, what))
}

/// Reads the active log to its first bad lsn, and judges what follows.
fn read_active(active: &mut ChainLog, applied_lsn: Lsn, evidence: &mut Evidence, records: &mut Vec<LoggedRecord>) -> Result<(Walk, Tail)> {
    let id = Uuid(active.header.id);
    let mut walk = Walk::new(&active.header);
    let kept_before = records.len();
    let mut unknown = None;
    while let Some(header) = walk.next(&mut active.log)? {
        // A record that is too new is refused only once the log is known to be sound.
        if unknown.is_none() {
            unknown = keep(active, &header, applied_lsn, records).map_or_else(newer, |()| Ok(None))?;
        }
    }
    let scan = active.log.scan(id, walk.at)?;
    let name = active.log.name.to_string();
    if let Some((lsn, offset)) = scan.durable.filter(|_| !breaks(Rule::EvidenceOfRecords)) {
        evidence.add(lsn, || format!("the record at byte {offset}"));
    }
    if walk.last_lsn < evidence.lsn && !breaks(Rule::Verdict) {
        records.truncate(kept_before);
        let lost = walk.last_lsn.0.saturating_add(1);
        let what = format!(
            "lsn {lost} to {} were synced, says {}, but no whole record of lsn {lost} is found here: they are lost or damaged. The commits up to \
             lsn {} are whole",
            evidence.lsn, evidence.by, walk.last_lsn
        );
        return Err(Error::corrupt(name, walk.at, what));
    }
    if let Some(e) = unknown {
        return Err(e);
    }
    let rest = active.log.len.saturating_sub(walk.at);
    let padding = walk.at.next_multiple_of(WAL_BLOCK_BYTES) - walk.at;
    let tail = if scan.nonzero_after_end || rest > padding {
        Tail::Torn { file: name, offset: walk.at, bytes: rest, dropped_records: scan.records_after_end }
    } else {
        Tail::Clean
    };
    Ok((walk, tail))
}

/// Separates "needs a newer version" from the other errors.
fn newer(e: Error) -> Result<Option<Error>> {
    if matches!(e, Error::UnsupportedVersion(_)) { Ok(Some(e)) } else { Err(e) }
}

/// Takes a record that was walked over, when it is after `applied_lsn` and of a kind to be replayed.
fn keep(chained: &mut ChainLog, header: &RecordHeader, applied_lsn: Lsn, records: &mut Vec<LoggedRecord>) -> Result<()> {
    let lsn = Lsn(header.lsn.get());
    if lsn <= applied_lsn {
        return Ok(());
    }
    let file = chained.log.name.clone();
    let at = header.self_offset.get();
    if !header.understand().map_err(|e| e.in_file(&file, at))? {
        return Ok(());
    }
    let id = Uuid(chained.header.id);
    let payload = chained.log.payload(id, header)?;
    let payload = payload.ok_or_else(|| Error::corrupt(file.to_string(), at, format!("lsn {lsn} changed while it was read")))?.to_vec();
    records.push(LoggedRecord { lsn, kind: header.kind, payload, file, offset: at + RECORD_HEADER_BYTES as u64 });
    Ok(())
}

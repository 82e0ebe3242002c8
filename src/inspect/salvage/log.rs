//! Every record of every log that can be proved, in the order of lsns, and which lsns are missing between them.

use super::ledger::{Loss, LossKind};
use super::state::Start;
use crate::error::{Error, Result};
use crate::format::effects::CommitEffects;
use crate::format::wal::{
    Link, RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RECORD_MAGIC, RecordHeader, WAL_BLOCK_BYTES, WAL_HEADER_BYTES, WalHeader,
};
use crate::ids::{Lsn, Uuid};
use crate::io::Directory;
use crate::io::names::FileName;
use crate::wal::LogFile;
use std::collections::BTreeMap;

/// Bytes that are looked at between two reads.
const STEP_BYTES: u64 = 64 << 10;

/// A record and where its payload stands.
#[derive(Debug)]
pub(super) struct Record {
    /// What it did: nothing, if it is of a kind that is skipped, or cannot be understood.
    pub(super) effects: CommitEffects,
    pub(super) file: String,
    pub(super) offset: u64,
    /// What to say of it, if it cannot be understood.
    loss: Option<Loss>,
    /// Whether it stands right behind the record before it, as far as that one can be read.
    continues: bool,
}

/// A record as it was found. Its checksums hold.
#[derive(Debug)]
struct Found {
    header: RecordHeader,
    /// `None` when it is of a kind that is skipped.
    payload: Option<Vec<u8>>,
}

/// What one log holds.
#[derive(Debug, Default)]
struct Log {
    header: Option<WalHeader>,
    records: BTreeMap<Lsn, Found>,
    /// The greatest lsn that a valid header calls durable.
    durable: Lsn,
    /// Whether a record would have been found: the identity is known, and the file holds more than zeros.
    searched: bool,
}

impl Log {
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
    fn record(&self, lsn: Lsn, file: &str) -> Result<Option<Record>> {
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

/// The records after the manifest. What is missing among them, and was durable, goes to the ledger.
pub(super) fn records(dir: &dyn Directory, present: &[String], start: &Start, ledger: &mut Vec<Loss>) -> Result<BTreeMap<Lsn, Record>> {
    let applied = start.manifest.applied_lsn;
    let mut logs = BTreeMap::new();
    let mut links: BTreeMap<u64, Link> = BTreeMap::new();
    let mut sequences: Vec<u64> = present.iter().filter_map(|name| sequence(name)).collect();
    // The youngest first: it links to the one before, and what it holds counts where both hold an lsn.
    sequences.sort_unstable_by(|a, b| b.cmp(a));
    for &number in &sequences {
        let slot = start.slots.iter().find(|slot| slot.wal_sequence == number).map(|slot| slot.wal_id);
        let id = slot.or_else(|| links.get(&number).map(|link| link.id));
        let guess = start.witness.filter(|_| start.slots.is_empty()).map(|witness| witness.wal_id);
        let log = read(dir, number, start.database, id, guess)?;
        if let Some(link) = log.header.as_ref().and_then(WalHeader::link) {
            links.insert(link.sequence, link);
        }
        logs.insert(number, log);
    }
    let mut kept: BTreeMap<Lsn, Record> = BTreeMap::new();
    let mut bound = Lsn(u64::MAX);
    let mut durable = start.durable;
    for (number, log) in logs.iter().rev() {
        durable = durable.max(log.durable);
        let file = FileName::Wal(*number).to_string();
        for lsn in log.records.keys().copied().filter(|lsn| *lsn > applied && *lsn < bound) {
            if !kept.contains_key(&lsn) {
                kept.extend(log.record(lsn, &file)?.map(|record| (lsn, record)));
            }
        }
        // A log that took a record was named by HEAD, and what an older one holds beyond its start never counted.
        let first = log.records.keys().next().copied();
        bound = first.map_or(bound, |first| log.header.as_ref().map_or(first, |h| Lsn(h.first_lsn.get())));
    }
    note_missing_logs(start, &logs, &links, durable.max(applied), ledger);
    note_gaps(applied, durable, &mut kept, ledger);
    ledger.extend(kept.values_mut().filter_map(|record| record.loss.take()));
    Ok(kept)
}

fn sequence(name: &str) -> Option<u64> {
    match FileName::parse(name) {
        Some(FileName::Wal(sequence)) => Some(sequence),
        _ => None,
    }
}

/// Finds every record of a log that can be proved. `id` is its identity as others know it; where nobody does and its header is damaged, it may be
/// `guess`, for a record proves whose it is.
fn read(dir: &dyn Directory, number: u64, database: Option<Uuid>, id: Option<Uuid>, guess: Option<Uuid>) -> Result<Log> {
    let mut found = Log::default();
    let Ok(Some(mut log)) = LogFile::open(dir, number) else { return Ok(found) };
    // A sound header of another log is no damaged one: the log of this name is missing.
    let (mut another, known, mut id) = (false, id.is_some(), id);
    match log.header() {
        Ok(header)
            if header.sequence.get() == number
                && database.is_none_or(|uuid| uuid.0 == header.database)
                && id.is_none_or(|id| id.0 == header.id) =>
        {
            found.header = Some(header);
        }
        Err(e @ Error::UnsupportedVersion(_)) => return Err(e),
        Ok(_) => another = true,
        Err(_) => id = id.or(guess),
    }
    let Some(id) = found.header.map(|h| Uuid(h.id)).or(id) else { return Ok(found) };
    found.searched =
        !another && log.bytes(0, WAL_HEADER_BYTES as u64).is_ok_and(|b| b.len() == WAL_HEADER_BYTES && b.iter().any(|&b| b != 0));
    let mut at = WAL_HEADER_BYTES as u64;
    while at < log.len {
        let (base, end) = (at, (at + STEP_BYTES).min(log.len));
        // A part of the medium that cannot be read holds no record that can be proved.
        let Ok(window) = log.bytes(at, end - at + RECORD_HEADER_BYTES as u64).map(<[u8]>::to_vec) else {
            at = end;
            continue;
        };
        while at < end {
            let from = (at - base) as usize;
            let magic = window.get(from..from + 4).is_some_and(|bytes| bytes == RECORD_MAGIC.to_le_bytes());
            let header = if magic { log.record_header(id, at).ok().flatten() } else { None };
            let Some(header) = header else {
                at += RECORD_ALIGNMENT;
                continue;
            };
            found.durable = found.durable.max(Lsn(header.durable_lsn.get()));
            let payload = log.payload(id, &header).ok().flatten().map(<[u8]>::to_vec);
            let Some(payload) = payload else {
                at += RECORD_ALIGNMENT;
                continue;
            };
            let understood = header.understand().map_err(|e| e.in_file(FileName::Wal(number).to_string(), at))?;
            found.records.insert(Lsn(header.lsn.get()), Found { header, payload: understood.then_some(payload) });
            at = header.end_offset();
        }
    }
    // That nothing was found by a guess says nothing.
    found.searched &= found.header.is_some() || known || !found.records.is_empty();
    Ok(found)
}

/// A log that HEAD or another log needs and that says nothing: nobody knows what it held.
fn note_missing_logs(start: &Start, logs: &BTreeMap<u64, Log>, links: &BTreeMap<u64, Link>, known: Lsn, ledger: &mut Vec<Loss>) {
    let says_nothing = |number: u64| logs.get(&number).is_none_or(|log| !log.searched);
    match start.slots.first() {
        Some(slot) if says_nothing(slot.wal_sequence) => {
            let name = FileName::Wal(slot.wal_sequence).to_string();
            let reason = "any commits after those known are lost: HEAD names this log as the active one, and it is missing or nothing in it \
                          can be read";
            ledger.push(Loss::new(LossKind::Commits, reason).lsns(known.next(), None).place(&name, 0, None));
        }
        Some(_) => {}
        None => note_unknown_end(start, logs, known, ledger),
    }
    for link in links.values().filter(|link| link.last_lsn > start.manifest.applied_lsn && says_nothing(link.sequence)) {
        let name = FileName::Wal(link.sequence).to_string();
        let reason = format!(
            "commits up to lsn {} are lost: another log continues this one after that, and it is missing or nothing in it can be read",
            link.last_lsn
        );
        ledger
            .push(Loss::new(LossKind::Commits, reason).lsns(start.manifest.applied_lsn.next(), Some(link.last_lsn)).place(&name, 0, None));
    }
}

/// Without HEAD nobody knows which log is the active one: it is one of those that are here only if each of them could be read, one goes on
/// where the manifest ends, and WITNESS tells of no commit beyond them.
fn note_unknown_end(start: &Start, logs: &BTreeMap<u64, Log>, known: Lsn, ledger: &mut Vec<Loss>) {
    let unread = logs.iter().rev().find(|(_, log)| !log.searched).map(|(number, _)| FileName::Wal(*number).to_string());
    let goes_on = |log: &Log| log.header.map_or(!log.records.is_empty(), |header| header.first_lsn.get() > start.manifest.applied_lsn.0);
    let what = match &unread {
        Some(name) => format!("nothing in {name} can be read"),
        None if !logs.values().any(goes_on) => "the log that goes on where the manifest ends is missing".into(),
        None if start.witness.is_none() => "WITNESS does not say either whether there was a younger log".into(),
        None => return,
    };
    let reason = format!("any commits after those known are lost: HEAD cannot be read, and {what}");
    let loss = Loss::new(LossKind::Commits, reason).lsns(known.next(), None);
    ledger.push(match &unread {
        Some(name) => loss.place(name, 0, None),
        None => loss,
    });
}

/// Says which durable lsns are missing. Where the first missing one was never durable, what follows it never counted; nor does a whole
/// record there that does not continue the one before.
fn note_gaps(applied: Lsn, durable: Lsn, kept: &mut BTreeMap<Lsn, Record>, ledger: &mut Vec<Loss>) {
    let mut next = applied.next();
    while kept.get(&next).is_some_and(|record| next <= durable || record.continues) {
        next = next.next();
    }
    if next > durable {
        kept.split_off(&next);
        return;
    }
    let last = kept.keys().next_back().copied().unwrap_or_default().max(durable);
    let mut lsn = next;
    let mut say = |first: Lsn, last: Lsn| {
        let covered = ledger.iter().any(|l| l.kind == LossKind::Commits && l.first_lsn == Some(first.0) && l.last_lsn == Some(last.0));
        if !covered {
            let reason = "these commits were durable, and no whole record of them is found in any log";
            ledger.push(Loss::new(LossKind::Commits, reason).lsns(first, Some(last)));
        }
    };
    // By gaps, not by lsns: a damaged number must not make this long.
    let mut present: Vec<Lsn> = kept.range(next..).map(|(lsn, _)| *lsn).collect();
    present.push(last.next());
    for there in present {
        if there > lsn {
            say(lsn, Lsn(there.0 - 1));
        }
        lsn = there.next();
    }
}

//! Every record of every log that can be proved, in the order of lsns, and which lsns are missing between them.

use super::ledger::{Loss, LossKind};
use super::search::{Identity, Log, search};
use super::state::{Standing, Start};
use crate::error::Result;
use crate::format::effects::CommitEffects;
use crate::format::wal::{Link, WalHeader};
use crate::ids::Lsn;
use crate::io::Directory;
use crate::io::names::FileName;
use std::collections::BTreeMap;

/// A record and where its payload stands.
#[derive(Debug)]
pub(super) struct Record {
    /// What it did: nothing, if it is of a kind that is skipped, or cannot be understood.
    pub(super) effects: CommitEffects,
    pub(super) file: String,
    pub(super) offset: u64,
    /// What to say of it, if it cannot be understood.
    pub(super) loss: Option<Loss>,
    /// Whether it stands right behind the record before it, as far as that one can be read.
    pub(super) continues: bool,
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
        let named = slot.or_else(|| links.get(&number).map(|link| link.id));
        let identity = Identity { database: start.database, named, guess: start.witness.map(|w| w.wal_id) };
        let log = search(dir, number, identity)?;
        if let Some(link) = log.header.as_ref().and_then(WalHeader::link) {
            links.insert(link.sequence, link);
        }
        logs.insert(number, log);
    }
    let mut kept: BTreeMap<Lsn, Record> = BTreeMap::new();
    let mut bound = Lsn(u64::MAX);
    let mut durable = start.durable();
    for (number, log) in logs.iter().rev() {
        // What came before a log was synced before the log was made.
        let before = log.header.map(|h| Lsn(h.first_lsn.get() - 1)).unwrap_or_default();
        durable = durable.max(log.durable).max(before);
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
    note_unread_ends(start, &logs, &links, durable.max(applied), ledger);
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

/// A log that HEAD or another log needs and that says nothing: nobody knows what it held.
fn note_missing_logs(start: &Start, logs: &BTreeMap<u64, Log>, links: &BTreeMap<u64, Link>, known: Lsn, ledger: &mut Vec<Loss>) {
    let says_nothing = |number: u64| logs.get(&number).is_none_or(|log| !log.searched);
    match start.slots.first() {
        Some(slot) if says_nothing(slot.wal_sequence) => {
            let reason = "any commits after those known are lost: HEAD names this log as the active one, and it is missing or nothing in it \
                          can be read";
            ledger.push(after(known, reason).place(&FileName::Wal(slot.wal_sequence).to_string(), 0, None));
        }
        Some(_) => {}
        None => note_logs_without_head(start, logs, known, ledger),
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

/// Without a slot nothing says which log was the active one: it may be any that says nothing, unless a younger one holds what the manifest
/// lacks; and if no log does that, it is not here. Only WITNESS can then say how far commits went.
fn note_logs_without_head(start: &Start, logs: &BTreeMap<u64, Log>, known: Lsn, ledger: &mut Vec<Loss>) {
    let base = base(start, logs);
    let silent: Vec<u64> = younger(logs, base).filter(|(_, log)| !log.searched).map(|(number, _)| *number).collect();
    for number in &silent {
        let reason =
            "any commits after those known are lost, if this was the active log: HEAD cannot say, and nothing in this one can be read";
        ledger.push(after(known, reason).place(&FileName::Wal(*number).to_string(), 0, None));
    }
    if !silent.is_empty() {
        return;
    }
    if base.is_none() {
        let reason = "any commits after those known are lost: HEAD cannot say which log was the active one, and no log here goes on where the \
                      manifest ends";
        ledger.push(after(known, reason));
    } else if start.witness.is_none() {
        let reason =
            "any commits after those known are lost: neither HEAD nor WITNESS can say whether the logs here are all that there were";
        ledger.push(after(known, reason));
    }
}

/// A log at whose end the system did not let everything be read, unless everything is known to be found.
fn note_unread_ends(start: &Start, logs: &BTreeMap<u64, Log>, links: &BTreeMap<u64, Link>, known: Lsn, ledger: &mut Vec<Loss>) {
    for (number, log) in younger(logs, base(start, logs)) {
        let last = log.records.keys().next_back().copied().unwrap_or_default();
        let complete = links.get(number).is_some_and(|link| link.last_lsn <= last);
        let name = FileName::Wal(*number).to_string();
        let said = ledger.iter().any(|l| l.kind == LossKind::Commits && l.file.as_deref() == Some(name.as_str()));
        if let Some(at) = log.unread_end().filter(|_| !complete && !said) {
            let reason = "any commits after those known are lost, if some stand here: the system does not let this be read";
            ledger.push(after(known, reason).place(&name, at, None));
        }
    }
}

fn after(known: Lsn, reason: &str) -> Loss {
    Loss::new(LossKind::Commits, reason).lsns(known.next(), None)
}

/// The youngest log that goes on where the manifest ends: no older one has anything that the manifest lacks. Without a manifest the youngest
/// that says anything.
fn base(start: &Start, logs: &BTreeMap<u64, Log>) -> Option<u64> {
    let lacking = start.manifest.applied_lsn.next();
    let is_base = |log: &Log| if start.standing == Standing::Missing { log.searched } else { log.reaches(lacking) };
    logs.iter().rev().find(|(_, log)| is_base(log)).map(|(number, _)| *number)
}

/// The base and the logs after it; all, when there is none.
fn younger(logs: &BTreeMap<u64, Log>, base: Option<u64>) -> impl Iterator<Item = (&u64, &Log)> {
    logs.range(base.unwrap_or_default()..)
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

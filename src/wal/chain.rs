//! Which logs hold the records after an lsn, and what the others are.

use super::reader::LogFile;
use crate::error::{Corruption, Error, Result};
use crate::format::sabotage::{Rule, breaks};
use crate::format::wal::{Link, WalHeader};
use crate::ids::{Lsn, Uuid};
use crate::io::Directory;
use crate::io::names::FileName;

/// A log that was followed.
#[derive(Debug)]
pub(super) struct ChainLog {
    pub(super) log: LogFile,
    pub(super) header: WalHeader,
    /// Where its successor says that it ends, and the successor's name; `None` for the active log.
    pub(super) continued: Option<(Link, String)>,
}

/// The sequences of the logs that hold the records after `applied_lsn`, ascending: the active log, and its predecessors as far as they are
/// needed. These are what a slot of HEAD reaches. Reads headers only.
pub fn reachable_logs(dir: &dyn Directory, database: Uuid, active_sequence: u64, active_id: Uuid, applied_lsn: Lsn) -> Result<Vec<u64>> {
    Ok(follow(dir, database, active_sequence, active_id, applied_lsn)?.iter().map(|c| c.log.sequence).collect())
}

/// Follows links back from the active log until one starts at or below `applied_lsn` + 1. Oldest first; the active log is the last.
pub(super) fn follow(
    dir: &dyn Directory,
    database: Uuid,
    active_sequence: u64,
    active_id: Uuid,
    applied_lsn: Lsn,
) -> Result<Vec<ChainLog>> {
    let mut chain = vec![open_named(dir, database, active_sequence, active_id, "HEAD", None)?];
    loop {
        let last = chain.last().expect("the active log is in it");
        // Each sequence is lower than the one before (checked by the decoder), so this ends.
        if last.header.first_lsn.get() - 1 <= applied_lsn.0 {
            chain.reverse();
            return Ok(chain);
        }
        let Some(link) = last.header.link() else {
            let first = last.header.first_lsn.get();
            let what = format!(
                "the log starts at lsn {first} and continues no other, but the manifest ends at lsn {applied_lsn}: lsn {} to {} are lost",
                applied_lsn.0 + 1,
                first - 1
            );
            return Err(Error::corrupt(last.log.name.to_string(), 56, what));
        };
        let by = last.log.name.to_string();
        chain.push(open_named(dir, database, link.sequence, link.id, &by.clone(), Some((link, by)))?);
    }
}

/// Opens a log that `by` names: it is there, and it is that one, or something is corrupt.
fn open_named(
    dir: &dyn Directory,
    database: Uuid,
    sequence: u64,
    id: Uuid,
    by: &str,
    continued: Option<(Link, String)>,
) -> Result<ChainLog> {
    let name = FileName::Wal(sequence).to_string();
    let mut log =
        LogFile::open(dir, sequence)?.ok_or_else(|| Error::corrupt(&name, 0, format!("the log is missing, but {by} names it")))?;
    let header = log.header().map_err(|e| tell_records(&mut log, id, e))?;
    let differs = |at: u64, what: &str, found: &dyn std::fmt::Display, expected: &dyn std::fmt::Display| {
        Err(Error::corrupt(&name, at, format!("{what} of this log is {found}, but {by} names one with {expected}")))
    };
    if header.database != database.0 {
        return differs(16, "the database", &Uuid(header.database), &database);
    }
    if header.sequence.get() != sequence {
        return differs(32, "the sequence", &header.sequence.get(), &sequence);
    }
    if header.id != id.0 {
        return differs(40, "the identity", &Uuid(header.id), &id);
    }
    Ok(ChainLog { log, header, continued })
}

/// Says what is known of the records of a log whose header is damaged, which is little: without it none counts, and it may hold none.
fn tell_records(log: &mut LogFile, id: Uuid, e: Error) -> Error {
    let Error::Corrupt(damage) = e else { return e };
    // What cannot be read is not told beside the damage.
    let what = match log.scan(id, 0).map(|found| found.records_after_end) {
        Ok(0) => format!("{}: the header is damaged. No record is found: which commits are lost is not known, maybe none", damage.what),
        Ok(records) => format!("{}: the header is damaged. Records found after it: {records}; without it none counts", damage.what),
        Err(_) => format!("{}: the header is damaged", damage.what),
    };
    Error::Corrupt(Corruption { what, ..damage })
}

/// The sequences of all logs that were not followed, ascending: leftovers. One of a higher sequence than the active log that holds a record is
/// corruption instead: HEAD is older than that log, which takes records only once both slots name it.
pub(super) fn leftovers(dir: &dyn Directory, followed: &[u64], active_sequence: u64) -> Result<Vec<u64>> {
    let names = dir.list().map_err(|e| Error::io(format!("listing {}", dir.describe()), e))?;
    let mut unreached: Vec<u64> = names
        .iter()
        .filter_map(|name| match FileName::parse(name) {
            Some(FileName::Wal(sequence)) if !followed.contains(&sequence) => Some(sequence),
            _ => None,
        })
        .collect();
    unreached.sort_unstable();
    let refused = |sequence: u64| match sequence > active_sequence {
        true => !breaks(Rule::HigherLogsAreRefused),
        false => breaks(Rule::LowerLogsAreLeftovers),
    };
    for &sequence in unreached.iter().filter(|&&sequence| refused(sequence)) {
        // A log that was listed may be gone by now, and one without a sound header never held a record that counts.
        let Some(mut log) = LogFile::open(dir, sequence)? else {
            continue;
        };
        let header = match log.header() {
            Ok(header) => header,
            Err(Error::Corrupt(_)) => continue,
            Err(e) => return Err(e),
        };
        let found = log.scan(Uuid(header.id), 0)?;
        if found.records_after_end > 0 {
            let what = format!(
                "the log holds {} records, but HEAD names log {active_sequence} as the active one: HEAD is older than this log",
                found.records_after_end
            );
            return Err(Error::corrupt(log.name.to_string(), 0, what));
        }
    }
    Ok(unreached)
}

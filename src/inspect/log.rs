//! Logs: a plain walk over the records of each, and what follows the last of them.

use super::findings::{Findings, located, what};
use super::survey::Survey;
use crate::error::{Error, Result};
use crate::format::effects::{CommitEffects, DeadSet};
use crate::format::manifest::SegmentEntry;
use crate::format::wal::{Link, RECORD_HEADER_BYTES, RecordHeader, WAL_HEADER_BYTES, WalHeader};
use crate::ids::{Lsn, Uuid};
use crate::io::Directory;
use crate::io::names::FileName;
use crate::wal::{LogFile, Walk};

/// A log as it was read.
#[derive(Debug, Default)]
pub(super) struct LogSurvey {
    /// Its header, when it is sound.
    pub(super) header: Option<WalHeader>,
    /// What its records name in other files.
    pub(super) names: Vec<Named>,
    /// Records that follow one another from the first on.
    records: u64,
    /// The lsn of the last of them.
    last_lsn: Lsn,
    /// Where it ends, alignment included.
    end: u64,
    /// Bytes from there to the end of the file.
    after: u64,
    /// Whether one of those is not zero.
    nonzero_after: bool,
    /// Headers of records that stand among them and do not continue what is before.
    records_after: u64,
    /// The greatest durable lsn in any valid header of a record, anywhere.
    durable: Option<Lsn>,
    problem: Option<String>,
}

/// A file that a record names.
#[derive(Debug)]
pub(super) struct Named {
    /// The record.
    pub(super) lsn: Lsn,
    /// What it names.
    pub(super) what: NamedPart,
}

/// The part of a file that a record names.
#[derive(Debug)]
pub(super) enum NamedPart {
    /// A segment.
    Segment(SegmentEntry),
    /// The only envelope of a file of tombstones.
    Dying { number: u64, length: u64, crc: u32 },
}

impl LogSurvey {
    /// Reads the log as far as it can be read.
    pub(super) fn read(dir: &dyn Directory, sequence: u64) -> LogSurvey {
        let mut survey = LogSurvey::default();
        if let Err(e) = survey.walk(dir, sequence) {
            survey.problem.get_or_insert(what(&e));
        }
        survey
    }

    fn walk(&mut self, dir: &dyn Directory, sequence: u64) -> Result<()> {
        let Some(mut log) = LogFile::open(dir, sequence)? else {
            return Err(Error::NotFound("the file went while it was looked at".into()));
        };
        let header = log.header()?;
        if header.sequence.get() != sequence {
            let what = format!("the sequence is {}, its name says {sequence}: another file stands in its place", header.sequence);
            self.problem = Some(format!("byte 32: {what}"));
        }
        self.header = Some(header);
        let mut walk = Walk::new(&header);
        self.end = WAL_HEADER_BYTES as u64;
        while let Some(record) = walk.next(&mut log)? {
            self.records += 1;
            (self.last_lsn, self.end) = (walk.last_lsn, walk.at);
            self.take(&mut log, Uuid(header.id), &record)?;
        }
        // The last record's alignment may reach beyond the file.
        self.after = log.len.saturating_sub(self.end);
        let scan = log.scan(Uuid(header.id), self.end)?;
        self.nonzero_after = scan.nonzero_after_end;
        self.records_after = scan.records_after_end;
        self.durable = scan.durable.map(|(lsn, _)| lsn);
        Ok(())
    }

    /// Notes what a record names.
    fn take(&mut self, log: &mut LogFile, id: Uuid, record: &RecordHeader) -> Result<()> {
        let at = record.self_offset.get();
        match record.understand() {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(e) => {
                self.problem.get_or_insert(located(e, at));
                return Ok(());
            }
        }
        let lsn = Lsn(record.lsn.get());
        let Some(payload) = log.payload(id, record)? else { return Ok(()) };
        let effects = match CommitEffects::decode(payload) {
            Ok(effects) => effects,
            Err(e) => {
                self.problem.get_or_insert(located(e, at + RECORD_HEADER_BYTES as u64));
                return Ok(());
            }
        };
        for c in effects.collections {
            self.names.extend(c.landed.into_iter().map(|entry| Named { lsn, what: NamedPart::Segment(entry) }));
            if let DeadSet::File { number, length, crc } = c.dead {
                self.names.push(Named { lsn, what: NamedPart::Dying { number, length, crc } });
            }
        }
        Ok(())
    }

    /// Its link to a predecessor.
    pub(super) fn link(&self) -> Option<Link> {
        self.header.and_then(|header| header.link())
    }

    /// Whether all of its records were read, so that everything it names is known.
    pub(super) fn is_whole(&self) -> bool {
        self.problem.is_none()
    }

    /// The lsns that are called durable and are not among its records, given the greatest lsn that is called durable elsewhere.
    fn lost(&self, evidence: Lsn) -> Option<(Lsn, Lsn)> {
        let next = match self.records {
            0 => Lsn(self.header?.first_lsn.get()),
            _ => Lsn(self.last_lsn.0.saturating_add(1)),
        };
        let durable = self.durable.unwrap_or_default().max(evidence);
        (next <= durable).then_some((next, durable))
    }
}

/// The fields of the log `sequence`, and the first thing wrong.
pub(super) fn describe(survey: &Survey, sequence: u64, findings: &mut Findings) {
    let Some(log) = survey.logs.get(&sequence) else { return };
    let Some(header) = log.header else {
        return findings.problem(log.problem.as_deref().unwrap_or("the header cannot be read"));
    };
    findings.field("version", format_args!("{}.{}", header.major, header.minor));
    findings.field("database", Uuid(header.database));
    findings.field("sequence", header.sequence);
    findings.field("identity", Uuid(header.id));
    findings.field("first lsn", header.first_lsn);
    findings.field(
        "continues",
        match log.link() {
            None => "no other log".to_string(),
            Some(link) => {
                let name = FileName::Wal(link.sequence);
                format!("{name}, identity {}, which ends with lsn {} at byte {}", link.id, link.last_lsn, link.end_offset)
            }
        },
    );
    findings.field("records", log.records);
    if log.records > 0 {
        findings.field("lsns", format_args!("{} to {}", header.first_lsn, log.last_lsn));
    }
    findings.field("durable lsn", log.durable.map_or("no record says".to_string(), |lsn| lsn.to_string()));
    findings.field("records end", format_args!("byte {}", log.end));
    findings.field("bytes after", log.after);
    judge(survey, sequence, log, findings);
    if let Some(problem) = &log.problem {
        findings.problem(problem);
    }
}

/// What a plain walk says of the end of the log.
fn judge(survey: &Survey, sequence: u64, log: &LogSurvey, findings: &mut Findings) {
    let end = log.end;
    let wanted = survey.continued.get(&sequence).filter(|(link, _)| log.header.is_some_and(|h| h.id == link.id.0));
    let cut = wanted.filter(|(link, _)| log.last_lsn < link.last_lsn);
    let lost = log.lost(survey.evidence(sequence, log.header.map(|h| Uuid(h.id))));
    let verdict = match (log.nonzero_after, cut, lost) {
        (_, Some((link, by)), _) => {
            let what = format!("{by} continues this log after lsn {}, but its records end with lsn {}", link.last_lsn, log.last_lsn);
            findings.problem(format!("byte {end}: {what}"));
            "corrupt: records that were synced are missing or damaged".into()
        }
        (_, None, Some((from, to))) => {
            findings.problem(format!("byte {end}: no record here continues the log, but lsn {from} to {to} are called durable"));
            "corrupt: records that were synced are missing or damaged".into()
        }
        (true, None, None) => {
            let (after, records) = (log.after, log.records_after);
            format!(
                "torn tail: {after} bytes after byte {end}, with {records} records that continue nothing, were never synced as far as is known"
            )
        }
        (false, None, None) => "clean".to_string(),
    };
    findings.field("verdict", verdict);
}

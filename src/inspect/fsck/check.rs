//! The levels above 0: segment by segment, on files that are open, and then what the commits of the log make of them.

use super::codes::FindingCode as Code;
use super::live::Live;
use super::report::{Finding, FsckReport, finding_of};
use super::segment::{self, Facts};
use super::state::{NamedSegment, State};
use super::{FsckOptions, FsckProgress, bytes, queries, small, totals};
use crate::error::{Error, Result};
use crate::format::segment::{SectionEntry, SectionKind};
use crate::io::names::FileName;
use crate::segment::SegmentReader;
use std::collections::BTreeSet;

/// Checks everything that the options ask for.
pub(super) fn run(state: &State, options: &FsckOptions, report: &mut FsckReport) -> Result<()> {
    small::tombstones(state, report);
    let sound = state.segments.iter().filter(|s| s.sound);
    let mut progress = Progress::new(options, sound.map(|s| s.entry.length).sum());
    let mut live = Live::new(state);
    let mut facts: Vec<Option<Facts>> = Vec::with_capacity(state.segments.len());
    for segment in &state.segments {
        // A segment whose frame cannot be read was noted when it was opened.
        let reader = if segment.sound { state.reader(segment).and_then(Result::ok) } else { None };
        let Some(reader) = reader else {
            facts.push(None);
            continue;
        };
        let mut at = At::new(segment, &reader, report);
        let end = progress.now.done.saturating_add(segment.entry.length);
        bytes::check(state, &reader, &mut at, &mut progress)?;
        progress.reach(end)?;
        facts.push(match options.level {
            0 | 1 => None,
            level => segment::check(state, &live, &reader, level, &mut at, &mut progress)?,
        });
        progress.reach(end.saturating_add(segment.entry.length.saturating_mul(u64::from(options.level.min(3)) - 1)))?;
    }
    if options.level < 2 {
        return Ok(());
    }
    totals::check(state, &facts, report);
    live.replay(state, &facts, report)?;
    live.check_ids(state, report)?;
    if options.level >= 3 {
        queries::check(state, &live, report, &mut progress)?;
    }
    Ok(())
}

/// How far the check has come, and whether it shall go on.
pub(super) struct Progress<'a> {
    options: &'a FsckOptions,
    now: FsckProgress,
}

impl Progress<'_> {
    fn new(options: &FsckOptions, bytes: u64) -> Progress<'_> {
        let levels = u64::from(options.level.min(3));
        Progress { options, now: FsckProgress { done: 0, total: bytes.saturating_mul(levels) } }
    }

    /// Counts everything up to here as looked at.
    fn reach(&mut self, done: u64) -> Result<()> {
        self.add(done.saturating_sub(self.now.done))
    }

    /// Counts bytes as looked at.
    pub(super) fn add(&mut self, bytes: u64) -> Result<()> {
        self.now.done = self.now.done.saturating_add(bytes).min(self.now.total);
        if self.options.watch.as_ref().is_none_or(|watch| watch(self.now)) {
            return Ok(());
        }
        Err(Error::Interrupted(format!("after {} of {} bytes; nothing was changed", self.now.done, self.now.total)))
    }
}

/// Where findings of one segment belong.
pub(super) struct At<'a> {
    pub(super) report: &'a mut FsckReport,
    pub(super) segment: &'a NamedSegment,
    pub(super) file: String,
    entries: Vec<SectionEntry>,
    /// Sections that failed a checksum: nothing more is asked of them.
    pub(super) bad: BTreeSet<u16>,
}

impl<'a> At<'a> {
    pub(super) fn new(segment: &'a NamedSegment, reader: &SegmentReader, report: &'a mut FsckReport) -> At<'a> {
        let entries = reader.entries().copied().collect();
        At { report, segment, file: FileName::Segments(segment.entry.file).to_string(), entries, bad: BTreeSet::new() }
    }

    /// The section that holds a byte of the file.
    fn section_at(&self, offset: u64) -> Option<&SectionEntry> {
        let at = offset.checked_sub(self.segment.entry.offset)?;
        let holds = |e: &&SectionEntry| at >= e.offset.get() && at - e.offset.get() < e.length.get().max(1);
        self.entries.iter().find(holds)
    }

    /// Notes damage that a reader found.
    pub(super) fn error(&mut self, code: Code, error: &Error) {
        let mut finding = finding_of(code, &self.file, error);
        finding.collection = Some(self.segment.collection.clone());
        if finding.file == self.file {
            let section = self.section_at(finding.offset);
            finding.code = section.and_then(|e| narrower(finding.code, e)).unwrap_or(finding.code);
            finding.section = section.map(section_name);
        }
        self.report.push(finding);
    }

    /// Notes damage at a byte of the segment, in a section if one is given.
    pub(super) fn note(&mut self, code: Code, section: Option<SectionKind>, at: u64, detail: impl Into<String>) {
        self.report.push(Finding {
            code,
            file: self.file.clone(),
            offset: self.segment.entry.offset.saturating_add(at),
            collection: Some(self.segment.collection.clone()),
            section: section.map(|kind| kind.name().to_string()),
            detail: detail.into(),
        });
    }
}

/// Damage to a section that a room met while it opened others is that section's own.
fn narrower(code: Code, section: &SectionEntry) -> Option<Code> {
    (code == Code::Rows && section.kind.get() == SectionKind::Sources as u16).then_some(Code::Sources)
}

/// The name of a section for people, also when this version does not know it.
pub(super) fn section_name(entry: &SectionEntry) -> String {
    SectionKind::from_number(entry.kind.get()).map_or_else(|| format!("kind {}", entry.kind), |kind| kind.name().to_string())
}

/// The beginning of a long description.
pub(super) fn shortened(mut what: String) -> String {
    const MOST: usize = 400;
    if let Some((end, _)) = what.char_indices().nth(MOST) {
        what.truncate(end);
        what.push('…');
    }
    what
}

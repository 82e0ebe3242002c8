//! `triune fsck`: whether a database is whole. Reads the files themselves, so it works when `open` refuses; writes nothing.
//!
//! The exit status is that of the worst finding, so the errors of other commands (10 and above) are left to what keeps the check from being made.

use crate::output::{Counted, Failure, Out, Outcome, report as say};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::sync::Arc;
use triune::inspect::{Finding, FindingCode, FsckOptions, FsckProgress, FsckReport, FsckWatch, Severity, fsck};

#[derive(Debug, clap::Args)]
#[command(after_help = FSCK_STATUSES)]
pub(crate) struct FsckArgs {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// 0 names and lengths, 1 every checksum, 2 every structure, 3 every index against the stored documents
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub(crate) level: u8,
    /// Check the segments of this collection alone. Default: all
    #[arg(long, value_name = "NAME")]
    pub(crate) collection: Option<String>,
}

const FSCK_STATUSES: &str = "Exit status: 0 clean, 1 benign (torn tail, leftover file, unfinished create), 4 derived damage (can be made again),\n\
    8 primary damage (salvage or restore). When the check itself cannot be made: 10 NotFound, 12 Locked, 14 UnsupportedVersion,\n\
    23 Io, 130 Interrupted. The codes of findings are in docs/fsck.md.";

#[derive(Serialize)]
struct ReportObject<'a> {
    database: String,
    level: u8,
    /// `clean`, or the severity of the worst finding.
    verdict: &'a str,
    exit_status: u8,
    files: u64,
    segments: u64,
    rows: u64,
    findings: Vec<FindingObject<'a>>,
    /// Findings beyond those listed: of one code in one file at most 16 are.
    more: u64,
}

#[derive(Serialize)]
struct FindingObject<'a> {
    code: &'a str,
    severity: &'a str,
    file: &'a str,
    offset: u64,
    collection: Option<&'a str>,
    section: Option<&'a str>,
    detail: &'a str,
    meaning: &'a str,
}

pub(crate) fn run(args: &FsckArgs, out: &mut Out) -> Outcome<()> {
    let bar = stderr().is_terminal().then(progress_bar);
    let mut options = FsckOptions::level(args.level);
    options.collection.clone_from(&args.collection);
    options.watch = bar.clone().map(watch);
    let report = fsck(&args.database, &options);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let report = report?;
    let told = match out.json() {
        true => out.object(&object(args, &report)),
        false => print(args, &report, out),
    };
    match (report.exit_status(), told.and_then(|()| out.flush()).map_err(|f| f.unwritten(""))) {
        (0, told) => told,
        // The verdict is the status, also when the report was not read to its end or could not be written; the latter is said.
        (status, Err(Failure::Refused { code, message })) => {
            say(out.json(), code, &format!("{message}. The exit status is the verdict"));
            Err(Failure::Status(status))
        }
        (status, _) => Err(Failure::Status(status)),
    }
}

fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("checking {bar:30} {bytes} of {total_bytes}, {eta} left");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn watch(bar: ProgressBar) -> FsckWatch {
    Arc::new(move |at: FsckProgress| {
        bar.set_length(at.total);
        bar.set_position(at.done);
        true
    })
}

fn object<'a>(args: &FsckArgs, report: &'a FsckReport) -> ReportObject<'a> {
    let finding = |f: &'a Finding| FindingObject {
        code: f.code.as_str(),
        severity: f.severity().as_str(),
        file: &f.file,
        offset: f.offset,
        collection: f.collection.as_deref(),
        section: f.section.as_deref(),
        detail: &f.detail,
        meaning: f.code.meaning(),
    };
    ReportObject {
        database: args.database.display().to_string(),
        level: report.level,
        verdict: report.worst().map_or("clean", Severity::as_str),
        exit_status: report.exit_status(),
        files: report.files,
        segments: report.segments,
        rows: report.rows,
        findings: report.findings.iter().map(finding).collect(),
        more: report.more,
    }
}

/// Whether the next writer puts it right.
fn heals(code: FindingCode) -> bool {
    !matches!(code, FindingCode::Padding | FindingCode::HeadLength | FindingCode::CreateUnfinished)
}

/// Whether indexes are to be made again. LOCK is none: an empty file does, where a rebuild writes every segment again.
fn needs_rebuild(finding: &Finding) -> bool {
    finding.severity() == Severity::Derived && finding.code != FindingCode::LockMissing
}

fn print(args: &FsckArgs, report: &FsckReport, out: &mut Out) -> Outcome<()> {
    for f in &report.findings {
        let section = f.section.as_deref().map_or(String::new(), |s| format!(", section {s}"));
        let collection = f.collection.as_deref().map_or(String::new(), |c| format!(", collection {c:?}"));
        out.line(format_args!("{} ({}): {} at byte {}{section}{collection}", f.code, f.severity(), f.file, f.offset))?;
        out.line(format_args!("    {}", f.detail))?;
        out.line(format_args!("    {}", f.code.meaning()))?;
    }
    if report.more > 0 {
        out.line(format_args!("and {} more of the same codes", report.more))?;
    }
    let looked = format!("level {}, {}, {}", report.level, Counted(report.files, "file"), Counted(report.segments, "segment"));
    let path = args.database.display();
    out.line(match report.worst() {
        None => format!("clean: {looked}"),
        Some(Severity::Benign) if report.findings.iter().all(|f| heals(f.code)) => {
            format!("benign: {looked}; nothing is lost. The next writer that commits something puts it right")
        }
        Some(Severity::Benign) => format!("benign: {looked}; nothing is lost. docs/fsck.md says of each code what to do"),
        Some(Severity::Derived) if !report.findings.iter().any(needs_rebuild) => {
            format!("derived damage: {looked}; nothing stored is lost. An empty file named LOCK in {path} restores it")
        }
        Some(Severity::Derived) => {
            format!("derived damage: {looked}; nothing stored is lost. Make the indexes again with `triune rebuild {path}`")
        }
        Some(Severity::Primary) => {
            format!("primary damage: {looked}. Nothing was changed. Restore a backup, or save what is whole with `triune salvage {path} --out {path}.saved`")
        }
    })
}

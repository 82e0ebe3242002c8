//! What a check found.

use super::codes::{FindingCode, Severity};
use crate::error::{Error, ErrorCode};
use std::collections::BTreeMap;

/// Findings of one code in one file that are kept in full; more of them are only counted.
const KEPT_PER_FILE: u64 = 16;

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub code: FindingCode,
    /// The file that shows it.
    pub file: String,
    /// Where in that file, in bytes from its start: the structure that failed its check.
    pub offset: u64,
    /// The collection that it belongs to, where one is known.
    pub collection: Option<String>,
    /// The section of a segment, by its name in the specification.
    pub section: Option<String>,
    /// What exactly, with both values.
    pub detail: String,
}

impl Finding {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }
}

/// What a check looked at and found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FsckReport {
    /// The level that was asked for.
    pub level: u8,
    /// What was found, in the order in which it was met. At most 16 of one code in one file are kept.
    pub findings: Vec<Finding>,
    /// How many more there are that were counted only.
    pub more: u64,
    /// Files that were looked at.
    pub files: u64,
    /// Segments that were looked at.
    pub segments: u64,
    /// Rows of these segments and records of the logs, dead ones included.
    pub rows: u64,
    kept: BTreeMap<(FindingCode, String), u64>,
}

impl FsckReport {
    pub(super) fn new(level: u8) -> FsckReport {
        FsckReport { level, ..FsckReport::default() }
    }

    /// The worst severity found; `None` when nothing was.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(Finding::severity).max()
    }

    /// 0 clean, 1 benign, 4 derived damage, 8 primary damage.
    pub fn exit_status(&self) -> u8 {
        self.worst().map_or(0, Severity::exit_status)
    }

    /// Whether nothing at all was found.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Whether no byte is damaged: what a crash may leave is allowed.
    pub fn is_sound(&self) -> bool {
        self.worst().is_none_or(|worst| worst == Severity::Benign)
    }

    pub(super) fn push(&mut self, finding: Finding) {
        let kept = self.kept.entry((finding.code, finding.file.clone())).or_default();
        *kept += 1;
        if *kept <= KEPT_PER_FILE { self.findings.push(finding) } else { self.more += 1 }
    }

    /// Notes a finding that belongs to no collection.
    pub(super) fn note(&mut self, code: FindingCode, file: impl Into<String>, offset: u64, detail: impl Into<String>) {
        self.push(Finding { code, file: file.into(), offset, collection: None, section: None, detail: detail.into() });
    }

    /// Notes an error met while `file` was read: damage is `code`, and what is not damage has its own codes.
    pub(super) fn error(&mut self, code: FindingCode, file: &str, error: &Error) {
        self.push(finding_of(code, file, error));
    }
}

/// The finding that an error of a reader means.
pub(super) fn finding_of(code: FindingCode, file: &str, error: &Error) -> Finding {
    let (code, file, offset, detail) = if let Error::Corrupt(c) = error {
        (code, c.file.clone(), c.offset, c.what.clone())
    } else {
        let kinds = [(ErrorCode::Io, FindingCode::ReadFailed), (ErrorCode::UnsupportedVersion, FindingCode::Newer)];
        let code = kinds.iter().find(|(kind, _)| *kind == error.code()).map_or(code, |(_, code)| *code);
        (code, file.to_string(), 0, error.to_string())
    };
    Finding { code, file, offset, collection: None, section: None, detail }
}

//! BALLAST: spare room that a full disk gives back.

use super::findings::Findings;

/// What it is for. Its bytes mean nothing, so none of them can be wrong.
pub(super) fn describe(bytes: u64, findings: &mut Findings) {
    findings.field("spare room", format!("{bytes} bytes"));
}

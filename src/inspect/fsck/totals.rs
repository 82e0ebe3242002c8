//! Level 2 of the manifest: the counts that it keeps of each collection.

use super::codes::FindingCode as Code;
use super::report::{Finding, FsckReport};
use super::segment::Facts;
use super::state::State;
use crate::format::manifest::MANIFEST_HEADER_BYTES;
use crate::ids::Lsn;

/// Compares documents, vectors and tokens of every collection whose segments could all be counted.
pub(super) fn check(state: &State, facts: &[Option<Facts>], report: &mut FsckReport) {
    for c in &state.manifest.collections {
        let own = || state.segments.iter().zip(facts).filter(|(s, _)| s.incarnation == c.incarnation && s.landed == Lsn(0));
        if own().count() != c.segments.len() {
            continue;
        }
        let sum = |of: fn(&Facts) -> Option<u64>| own().map(|(_, facts)| facts.as_ref().and_then(of)).sum::<Option<u64>>();
        let counts: [(&str, u64, Option<u64>); 3] = [
            ("documents", c.documents, sum(|f| Some(u64::from(f.rows).saturating_sub(f.dead.len())))),
            ("vectors", c.vectors, sum(|f| f.vectors)),
            ("tokens", c.tokens, sum(|f| f.tokens)),
        ];
        for (what, said, found) in counts {
            if let Some(found) = found.filter(|found| *found != said) {
                report.push(Finding {
                    code: Code::ManifestTotals,
                    file: state.manifest_file.clone(),
                    offset: MANIFEST_HEADER_BYTES as u64,
                    collection: Some(c.name.clone()),
                    section: None,
                    detail: format!("the manifest counts {said} {what}, the living rows have {found}"),
                });
            }
        }
    }
}

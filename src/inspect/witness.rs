//! WITNESS: two records of what was synced.

use super::findings::{Findings, located};
use crate::format::witness::{WITNESS_SLOT_BYTES, WitnessSlot};
use crate::io::Directory;
use crate::io::names::WITNESS;

/// What each record says. One that cannot be read is no evidence, which is not a problem: the file is never synced.
pub(super) fn describe(dir: &dyn Directory, findings: &mut Findings) {
    let Some(file) = findings.take("opening", dir.open(WITNESS)) else { return };
    for index in 0..2u64 {
        let at = index * WITNESS_SLOT_BYTES as u64;
        let mut bytes = [0; WITNESS_SLOT_BYTES];
        let said = match file.read_exact_at(at, &mut bytes) {
            Err(e) => format!("no evidence: {e}"),
            Ok(()) if bytes.iter().all(|&b| b == 0) => "no evidence: not written yet".into(),
            Ok(()) => match WitnessSlot::decode(&bytes) {
                Ok(r) => format!("log {} is durable up to lsn {}, which ends at byte {}", r.wal_id, r.durable_lsn, r.durable_offset),
                Err(e) => format!("no evidence: {}", located(e, at)),
            },
        };
        findings.field(format!("record {index}"), said);
    }
}

//! LOCK: who writes, or wrote last.

use super::findings::Findings;
use crate::io::Directory;
use crate::io::names::LOCK;

/// The most bytes of it that are shown.
const SHOWN_BYTES: u64 = 64;

/// What the last writer left for people. The lock itself is the operating system's, and no byte of this file means anything to it.
pub(super) fn describe(dir: &dyn Directory, findings: &mut Findings) {
    let text = dir.open(LOCK).and_then(|file| {
        let mut bytes = vec![0; file.len()?.min(SHOWN_BYTES) as usize];
        file.read_exact_at(0, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().escape_debug().to_string())
    });
    let Some(text) = findings.take("reading", text) else { return };
    findings.field("last writer", if text.is_empty() { "nobody wrote yet" } else { &text });
}

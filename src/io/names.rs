//! Every file name, spelled and parsed in one place. Spec §2.

use crate::options::limits::COUNTER_MAX;
use std::fmt;

/// The two slots that name the state.
pub const HEAD: &str = "HEAD";
/// The writer's lock.
pub const LOCK: &str = "LOCK";
/// Unsynced evidence of what was synced.
pub const WITNESS: &str = "WITNESS";
/// Spare room for a full disk.
pub const BALLAST: &str = "BALLAST";

/// The name of a numbered file. Every name is used once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// A manifest, by its number.
    Manifest(u64),
    /// A log, by its sequence.
    Wal(u64),
    /// A file of segments, by its number.
    Segments(u64),
    /// A file of tombstones or dying seqs, by its number.
    Tombstones(u64),
}

impl FileName {
    /// The number in the name.
    pub fn number(self) -> u64 {
        match self {
            FileName::Manifest(n) | FileName::Wal(n) | FileName::Segments(n) | FileName::Tombstones(n) => n,
        }
    }

    /// Parses a name; `None` when it is not exactly one that `Display` spells.
    pub fn parse(name: &str) -> Option<FileName> {
        let (kind, rest) = name.split_once('-')?;
        let (number, extension) = rest.split_once('.')?;
        if number.len() != 16 || !number.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return None;
        }
        let number = u64::from_str_radix(number, 16).ok().filter(|number| *number <= COUNTER_MAX)?;
        match (kind, extension) {
            ("m", "manifest") => Some(FileName::Manifest(number)),
            ("w", "wal") => Some(FileName::Wal(number)),
            ("s", "segments") => Some(FileName::Segments(number)),
            ("d", "tombstones") => Some(FileName::Tombstones(number)),
            _ => None,
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Manifest(n) => write!(f, "m-{n:016x}.manifest"),
            FileName::Wal(n) => write!(f, "w-{n:016x}.wal"),
            FileName::Segments(n) => write!(f, "s-{n:016x}.segments"),
            FileName::Tombstones(n) => write!(f, "d-{n:016x}.tombstones"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNTER_MAX, FileName};

    #[test]
    fn a_name_parses_to_what_spelled_it_and_nothing_else_does() {
        for name in [FileName::Manifest(1), FileName::Wal(0xabc), FileName::Segments(COUNTER_MAX), FileName::Tombstones(7)] {
            assert_eq!(FileName::parse(&name.to_string()), Some(name));
        }
        for stray in [
            "HEAD",
            "m-1.manifest",
            "m-00000000000000AB.manifest",
            "w-0000000000000001.wal.tmp",
            "x-0000000000000001.wal",
            "",
            "w-+000000000000001.wal",
            "w-8000000000000000.wal",
        ] {
            assert_eq!(FileName::parse(stray), None, "{stray}");
        }
    }
}

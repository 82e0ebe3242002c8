//! What a state names in immutable files, and whether it is there as it was written.

use super::segments::open_named;
use crate::docstore::RowsReader;
use crate::error::Result;
use crate::format::effects::{CommitEffects, DeadSet};
use crate::format::manifest::{Manifest, SegmentEntry};
use crate::format::segment::SECTION_DERIVED;
use crate::ids::Uuid;
use crate::io::Directory;
use crate::io::names::FileName;
use crate::segment::SegmentReader;
use crate::tombstones::{TombstonesPart, TombstonesReader};
use crate::vector::VectorsReader;
use crate::wal::LoggedRecord;

/// Bytes of a section that are read at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// A part of a file that a manifest or a log record names.
#[derive(Debug, Clone)]
pub(super) struct NamedPart {
    pub(super) file: FileName,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Segment(SegmentEntry),
    /// The dead rows of a segment of so many rows.
    Tombstones(TombstonesPart, u32),
    DyingSeqs(TombstonesPart),
}

impl NamedPart {
    /// The dead rows of a segment, when it has some.
    pub(super) fn tombstones_of(entry: &SegmentEntry) -> Option<NamedPart> {
        let t = entry.tombstones.as_ref()?;
        let part = TombstonesPart { offset: t.offset, length: t.length, crc: t.crc };
        let rows = u32::try_from(entry.rows).unwrap_or(u32::MAX);
        Some(NamedPart { file: FileName::Tombstones(t.file), what: What::Tombstones(part, rows) })
    }

    /// Whether it is a segment.
    pub(super) fn is_segment(&self) -> bool {
        matches!(self.what, What::Segment(_))
    }
}

/// How much of a part is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// What identifies it: of a segment header, section table and footer, whose checksum covers all other checksums. Tombstones whole.
    Frame,
    /// Every byte of it that cannot be made anew from others.
    Primary,
    /// Every byte that a checksum covers.
    EveryByte,
}

/// Everything that a manifest and the records after it name.
pub(super) fn parts_of(manifest: &Manifest, records: &[LoggedRecord]) -> Result<Vec<NamedPart>> {
    let mut parts = Vec::new();
    for entry in manifest.collections.iter().flat_map(|c| &c.segments) {
        parts.push(NamedPart { file: FileName::Segments(entry.file), what: What::Segment(entry.clone()) });
        parts.extend(NamedPart::tombstones_of(entry));
    }
    for record in records {
        let effects = CommitEffects::decode(&record.payload).map_err(|e| e.in_file(&record.file, record.offset))?;
        for c in effects.collections {
            let landed = c.landed.into_iter();
            parts.extend(landed.map(|entry| NamedPart { file: FileName::Segments(entry.file), what: What::Segment(entry) }));
            if let DeadSet::File { number, length, crc } = c.dead {
                let part = TombstonesPart { offset: TombstonesPart::FIRST_OFFSET, length, crc };
                parts.push(NamedPart { file: FileName::Tombstones(number), what: What::DyingSeqs(part) });
            }
        }
    }
    Ok(parts)
}

/// Whether a part is in `dir` as it was written. Reads by system calls.
pub(super) fn check_part(dir: &dyn Directory, database: Uuid, part: &NamedPart, depth: Depth) -> Result<()> {
    match &part.what {
        What::Segment(entry) => {
            let segment = open_segment(dir, database, entry)?;
            match depth {
                Depth::Frame => Ok(()),
                Depth::Primary => check_sections(&segment, |flags| flags & SECTION_DERIVED == 0),
                Depth::EveryByte => {
                    check_sections(&segment, |_| true)?;
                    // What the section table says of these two is looked at when they are used.
                    RowsReader::open(&segment, entry.base_seq)?.check_id_map()?;
                    VectorsReader::open(&segment)?.map_or(Ok(()), |vectors| vectors.check_norms())
                }
            }
        }
        What::Tombstones(named, rows) => TombstonesReader::open(dir, database, part.file.number())?.tombstones(*named, *rows).map(drop),
        What::DyingSeqs(named) => TombstonesReader::open(dir, database, part.file.number())?.dying_seqs(*named).map(drop),
    }
}

/// Opens a segment for reading by system calls.
pub(super) fn open_segment(dir: &dyn Directory, database: Uuid, entry: &SegmentEntry) -> Result<SegmentReader> {
    let name = FileName::Segments(entry.file).to_string();
    let handle = open_named(dir, &name)?;
    SegmentReader::open_pread(handle, &name, database, entry.offset, entry.length, entry.crc)
}

/// Reads every block of the sections whose flags are `wanted`.
pub(super) fn check_sections(segment: &SegmentReader, wanted: impl Fn(u16) -> bool) -> Result<()> {
    for (section, flags) in segment.sections() {
        if wanted(flags) {
            section.verify_checksums()?;
        }
        let mut at = 0;
        while wanted(flags) && at < section.len() {
            let end = (at + CHUNK_BYTES).min(section.len());
            section.read(at..end)?;
            at = end;
        }
    }
    Ok(())
}

//! Files of segments: each segment with its sections, all of their checksums computed.

use super::findings::{Findings, what};
use super::survey::Survey;
use crate::error::Result;
use crate::format::segment::{
    BLOCK_BYTES, FOOTER_MAGIC, SECTION_CRITICAL, SECTION_DERIVED, SEGMENT_MAGIC, SectionEntry, SectionKind, SegmentFooter, SegmentHeader,
};
use crate::ids::Uuid;
use crate::io::names::FileName;
use crate::io::{Directory, File};
use crate::segment::{Section, SegmentReader};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes read at once.
const WINDOW_BYTES: u64 = 1 << 20;
/// Footers stand at multiples of this, as everything in a segment does.
const FOOTER_BYTES: usize = size_of::<SegmentFooter>();

/// Where a segment lies and how it was found.
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) crc: u32,
    database: Uuid,
    pub(super) found: String,
}

/// The fields of the file `number`, and the first thing wrong.
pub(super) fn describe(dir: &dyn Directory, survey: &Survey, number: u64, findings: &mut Findings) {
    let name = FileName::Segments(number).to_string();
    let Some(file) = findings.take("opening", dir.open(&name)) else { return };
    let Some(length) = findings.take("reading the length", file.len()) else { return };
    let Some(places) = findings.take("reading", places(file.as_ref(), length, survey, number)) else { return };
    if places.is_empty() {
        findings.problem("byte 0: nothing that can be read names a segment here, and none with a sound header and footer was found");
    }
    findings.field("segments", places.len());
    for (index, place) in places.iter().enumerate() {
        let said = format!("{} bytes at byte {}, checksum {:#010x}, {}", place.length, place.offset, place.crc, place.found);
        findings.field(format!("segment {index}"), said);
        if let Err(e) = describe_segment(&file, &name, place, index, findings) {
            findings.problem(what(&e));
        }
    }
}

/// The segments that are named in a file, or those that are found in it when nothing names any.
pub(super) fn places(file: &dyn File, length: u64, survey: &Survey, number: u64) -> std::io::Result<Vec<Place>> {
    let named = survey.segments_in(number);
    if named.is_empty() {
        return scan(file, length);
    }
    let place = |s: &super::survey::NamedSegment<'_>| {
        let entry = s.entry;
        let found = format!("named by {}, seqs {} to {}, {} rows", s.by, entry.base_seq, entry.last_seq, entry.rows);
        Place { offset: entry.offset, length: entry.length, crc: entry.crc, database: s.database, found }
    };
    Ok(named.iter().map(place).collect())
}

fn describe_segment(file: &Arc<dyn File>, name: &str, place: &Place, index: usize, findings: &mut Findings) -> Result<()> {
    let segment = SegmentReader::open_pread(file.clone(), name, place.database, place.offset, place.length, place.crc)?;
    for entry in segment.entries() {
        let kind = SectionKind::from_number(entry.kind.get());
        let label = kind.map_or(format!("section of unknown kind {}", entry.kind), |kind| kind.name().to_string());
        // A kind that this version does not know is not critical, or opening would have failed; its bytes are left alone.
        let verdict = match kind.and_then(|kind| segment.section(kind)).map(|section| check(&section)) {
            None => "not read".to_string(),
            Some(Ok(())) => "sound".to_string(),
            Some(Err(e)) => {
                findings.problem(what(&e));
                what(&e)
            }
        };
        findings.field(format!("segment {index} {label}"), describe_section(entry, place.offset, &verdict));
    }
    Ok(())
}

fn describe_section(entry: &SectionEntry, start: u64, verdict: &str) -> String {
    let flags = entry.flags.get();
    let flag = |bit: u16, name: &'static str| if flags & bit != 0 { name } else { "" };
    format!(
        "{} bytes at byte {}, {} items, aux {}{}{}, {verdict}",
        entry.length,
        // Both lie inside the file: opening checked it.
        start.saturating_add(entry.offset.get()),
        entry.items,
        entry.aux,
        flag(SECTION_CRITICAL, ", critical"),
        flag(SECTION_DERIVED, ", derived")
    )
}

/// Reads all of a section; every block is compared with its checksum.
fn check(section: &Section) -> Result<()> {
    let mut at = 0;
    while at < section.len() {
        let end = (at + WINDOW_BYTES).min(section.len());
        section.read(at..end)?;
        at = end;
    }
    Ok(())
}

/// Looks for segments by their headers, which stand at multiples of 4,096 bytes, and the footers that lead back to them.
fn scan(file: &dyn File, length: u64) -> std::io::Result<Vec<Place>> {
    let mut headers: BTreeMap<u64, SegmentHeader> = BTreeMap::new();
    let mut found = Vec::new();
    let (mut at, mut window) = (0, Vec::new());
    while at < length {
        window.resize((length - at).min(WINDOW_BYTES) as usize, 0);
        file.read_exact_at(at, &mut window)?;
        for (step, bytes) in window.chunks_exact(FOOTER_BYTES).enumerate() {
            let offset = at + (step * FOOTER_BYTES) as u64;
            if offset.is_multiple_of(BLOCK_BYTES as u64)
                && bytes.starts_with(&SEGMENT_MAGIC)
                && let Ok(header) = SegmentHeader::decode(bytes)
            {
                headers.insert(offset, header);
            }
            if bytes.starts_with(&FOOTER_MAGIC)
                && let Ok(footer) = SegmentFooter::decode(bytes)
                && let Some(start) = (offset + FOOTER_BYTES as u64).checked_sub(footer.length.get())
                && let Some(header) = headers.get(&start)
            {
                found.push(Place {
                    offset: start,
                    length: footer.length.get(),
                    crc: footer.crc.get(),
                    database: Uuid(header.database),
                    found: "found by its header and footer".into(),
                });
            }
        }
        at += WINDOW_BYTES;
    }
    Ok(found)
}

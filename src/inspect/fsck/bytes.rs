//! Level 1 of a segment: every checksum, both tables, and the zeros between.

use super::check::{At, Progress, section_name};
use super::codes::FindingCode as Code;
use super::report::Finding;
use super::small;
use super::state::State;
use crate::error::{Error, Result};
use crate::format::checksum::crc32;
use crate::format::segment::{
    BLOCK_BYTES, SECTION_DERIVED, SECTION_PAGE_THRESHOLD, SectionEntry, SectionKind, SegmentFooter, SegmentHeader,
};
use crate::io::File;
use crate::segment::SegmentReader;
use std::ops::Range;

/// Bytes read at once: a multiple of a block.
const WINDOW_BYTES: u64 = 1 << 20;
/// Bytes of a header, a footer and a table entry.
const FRAME_BYTES: u64 = 64;

/// Checks every byte of a segment whose frame was read.
pub(super) fn check(state: &State, reader: &SegmentReader, at: &mut At<'_>, progress: &mut Progress<'_>) -> Result<()> {
    let Some(file) = state.segment_files.get(&at.segment.entry.file) else { return Ok(()) };
    let entries: Vec<SectionEntry> = reader.entries().copied().collect();
    if let Err(e) = frame(file.as_ref(), &entries, at) {
        at.error(Code::SegmentFrame, &e);
    }
    for entry in &entries {
        section(file.as_ref(), entry, at, progress)?;
    }
    Ok(())
}

/// Reads bytes of the segment.
fn read(file: &dyn File, at: &At<'_>, offset: u64, length: u64) -> Result<Vec<u8>> {
    let start = at.segment.entry.offset.saturating_add(offset);
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| Error::corrupt(&at.file, start, "a read longer than memory"))?];
    file.read_exact_at(start, &mut bytes).map_err(|e| Error::io(format!("reading {} at byte {start}", at.file), e))?;
    Ok(bytes)
}

/// Header, footer, both tables, and what lies between the parts. Opening checked that all of them lie inside.
fn frame(file: &dyn File, entries: &[SectionEntry], at: &mut At<'_>) -> Result<()> {
    let length = at.segment.entry.length;
    let in_file = |e: crate::format::error::FormatError, offset: u64| e.in_file(&at.file, at.segment.entry.offset + offset);
    let header = SegmentHeader::decode(&read(file, at, 0, FRAME_BYTES)?).map_err(|e| in_file(e, 0))?;
    let footer_at = length - FRAME_BYTES;
    let footer = SegmentFooter::decode(&read(file, at, footer_at, FRAME_BYTES)?).map_err(|e| in_file(e, footer_at))?;
    let table_bytes = entries.len() as u64 * FRAME_BYTES;
    let tables = [("section table", footer.table_offset.get()), ("copy of the section table", footer.table_copy_offset.get())];
    for (what, offset) in tables {
        let inside = offset.checked_add(table_bytes).is_some_and(|end| end <= length);
        let found = if inside { Some(crc32(&read(file, at, offset, table_bytes)?)) } else { None };
        if found != Some(footer.table_crc.get()) {
            let found = found.map_or("it lies outside the segment".to_string(), |crc| format!("its bytes give {crc:#010x}"));
            at.note(Code::SegmentTable, None, offset.min(length), format!("checksum of the {what} is {:#010x}, {found}", footer.table_crc));
        }
    }
    if header.reserved != [0; 20] && header.minor.get() == 0 {
        at.note(Code::Padding, None, 44, "reserved bytes of the segment header are not zero");
    }
    if footer.reserved != [0; 16] {
        at.note(Code::Padding, None, footer_at + 44, "reserved bytes of the segment footer are not zero");
    }
    entries.iter().enumerate().for_each(|(i, entry)| check_entry(i, entry, entries, at));
    let mut parts: Vec<Range<u64>> = vec![0..FRAME_BYTES, footer_at..length];
    parts.extend(tables.map(|(_, offset)| offset..offset.saturating_add(table_bytes)));
    for entry in entries {
        parts.push(entry.offset.get()..entry.offset.get() + entry.length.get());
        parts.push(entry.crcs_offset.get()..entry.crcs_offset.get() + blocks(entry) * 4);
    }
    gaps(file, parts, at);
    // A segment starts at a multiple of 4,096, so whatever follows this one, zeros come first.
    small::padding(file, &at.file.clone(), at.segment.entry.offset.saturating_add(length), BLOCK_BYTES as u64, at.report);
    Ok(())
}

fn blocks(entry: &SectionEntry) -> u64 {
    entry.length.get().div_ceil(BLOCK_BYTES as u64)
}

/// What a table entry says beside what opening checked.
fn check_entry(index: usize, entry: &SectionEntry, entries: &[SectionEntry], at: &mut At<'_>) {
    let kind = SectionKind::from_number(entry.kind.get());
    let offset = entry.offset.get();
    let aligned = if entry.length.get() >= SECTION_PAGE_THRESHOLD { BLOCK_BYTES as u64 } else { 64 };
    let name = section_name(entry);
    if !offset.is_multiple_of(aligned) || !entry.crcs_offset.get().is_multiple_of(4) {
        at.note(Code::SegmentFrame, kind, offset, format!("section {name} starts at {offset}, its checksums at {}", entry.crcs_offset));
    }
    if index > 0 && entries[index - 1].offset.get() > offset {
        at.note(Code::SegmentFrame, kind, offset, format!("section {name} stands in the table behind one that starts after it"));
    }
    if let Some(kind) = kind.filter(|kind| kind.flags() != entry.flags.get()) {
        let what = format!("section {name} has the flags {:#x}, its kind has {:#x}", entry.flags, kind.flags());
        at.note(Code::SegmentFrame, Some(kind), offset, what);
    }
    if entry.reserved != [0; 16] {
        at.note(Code::Padding, kind, offset, format!("reserved bytes of the table entry of {name} are not zero"));
    }
}

/// What lies between the parts is zero, and no two parts share a byte.
fn gaps(file: &dyn File, mut parts: Vec<Range<u64>>, at: &mut At<'_>) {
    parts.retain(|part| !part.is_empty());
    parts.sort_unstable_by_key(|part| (part.start, part.end));
    let (start, name) = (at.segment.entry.offset, at.file.clone());
    let mut end = 0;
    for part in parts {
        if part.start < end {
            at.note(Code::SegmentFrame, None, part.start, format!("bytes {} to {} belong to two parts of the segment", part.start, end));
        } else {
            small::zeros(file, &name, start.saturating_add(end), start.saturating_add(part.start), at.report);
        }
        end = end.max(part.end);
    }
}

/// Compares every block of a section with its checksum; all that fail are noted, each with its offset.
fn section(file: &dyn File, entry: &SectionEntry, at: &mut At<'_>, progress: &mut Progress<'_>) -> Result<()> {
    let code = if entry.flags.get() & SECTION_DERIVED != 0 { Code::DerivedCrc } else { Code::PrimaryCrc };
    let crcs = match read(file, at, entry.crcs_offset.get(), blocks(entry) * 4) {
        Ok(bytes) => bytes,
        Err(e) => {
            failed(code, entry, &e, at);
            return Ok(());
        }
    };
    let computed = crc32(&crcs);
    if computed != entry.crcs_crc.get() {
        let what = format!("checksum of the block checksums is {:#010x}, their bytes give {computed:#010x}", entry.crcs_crc);
        bad(code, entry, entry.crcs_offset.get(), what, at);
        return progress.add(entry.length.get());
    }
    let mut crcs = crcs.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
    let mut from = 0;
    while from < entry.length.get() {
        let length = WINDOW_BYTES.min(entry.length.get() - from);
        let window = match read(file, at, entry.offset.get() + from, length) {
            Ok(bytes) => bytes,
            Err(e) => {
                failed(code, entry, &e, at);
                return Ok(());
            }
        };
        for (i, block) in window.chunks(BLOCK_BYTES).enumerate() {
            let (stored, computed) = (crcs.next().unwrap_or_default(), crc32(block));
            if stored != computed {
                let what = format!("checksum of the block is {stored:#010x}, its bytes give {computed:#010x}");
                bad(code, entry, entry.offset.get() + from + (i * BLOCK_BYTES) as u64, what, at);
            }
        }
        from += length;
        progress.add(length)?;
    }
    Ok(())
}

fn bad(code: Code, entry: &SectionEntry, offset: u64, detail: String, at: &mut At<'_>) {
    at.bad.insert(entry.kind.get());
    at.report.push(Finding {
        code,
        file: at.file.clone(),
        offset: at.segment.entry.offset.saturating_add(offset),
        collection: Some(at.segment.collection.clone()),
        section: Some(section_name(entry)),
        detail,
    });
}

fn failed(code: Code, entry: &SectionEntry, error: &Error, at: &mut At<'_>) {
    at.bad.insert(entry.kind.get());
    at.error(code, error);
}

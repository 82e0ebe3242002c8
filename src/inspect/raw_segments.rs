//! Segments, structure by structure: header, sections with the verdict of all of their blocks, both tables, footer.

use super::raw::{Structure, fields};
use super::raw_vectors;
use super::segments::{Place, places};
use super::structures::problem;
use super::survey::Survey;
use crate::error::{Error, Result};
use crate::format::checksum::crc32;
use crate::format::segment::{
    BLOCK_BYTES, SECTION_CRITICAL, SECTION_DERIVED, SECTIONS_MAX, SectionEntry, SectionKind, SegmentFooter, SegmentHeader,
};
use crate::io::File;
use zerocopy::FromBytes;

/// Bytes of a header, a footer and a table entry.
const FRAME_BYTES: u64 = 64;
/// Bytes read at once: a multiple of a block.
const WINDOW_BYTES: u64 = 1 << 20;

/// The structures of every segment in a file.
pub(super) fn structures(file: &dyn File, name: &str, survey: &Survey, number: u64) -> Result<Vec<Structure>> {
    let failed = |e| Error::io(format!("reading {name}"), e);
    let length = file.len().map_err(failed)?;
    let mut all = Vec::new();
    for (index, place) in places(file, length, survey, number).map_err(failed)?.iter().enumerate() {
        describe(file, length, index, place, &mut all).map_err(failed)?;
    }
    all.sort_by_key(|s: &Structure| s.offset);
    Ok(all)
}

fn describe(file: &dyn File, file_length: u64, index: usize, place: &Place, all: &mut Vec<Structure>) -> std::io::Result<()> {
    let end = place.offset.saturating_add(place.length);
    let frame = |at: u64| -> std::io::Result<[u8; FRAME_BYTES as usize]> {
        let mut bytes = [0; FRAME_BYTES as usize];
        let there = file_length.saturating_sub(at).min(FRAME_BYTES) as usize;
        file.read_exact_at(at, &mut bytes[..there])?;
        Ok(bytes)
    };
    let bytes = frame(place.offset)?;
    if let Ok(header) = SegmentHeader::read_from_bytes(&bytes) {
        let own = fields!(place.offset, header, SegmentHeader { magic, major, minor, crc, database, origin_file, origin_index, reserved });
        let found = problem(SegmentHeader::decode(&bytes), place.offset);
        let name = format!("segment {index} header (SegmentHeader)");
        all.push(Structure::new(place.offset, FRAME_BYTES, name, found, own).saying(&*place.found));
    }
    let at = end.saturating_sub(FRAME_BYTES);
    let bytes = frame(at)?;
    let decoded = SegmentFooter::decode(&bytes);
    let Ok(footer) = SegmentFooter::read_from_bytes(&bytes) else { return Ok(()) };
    let own = fields!(
        at,
        footer,
        SegmentFooter { magic, length, table_offset, table_copy_offset, sections, table_crc, header_crc, reserved, crc }
    );
    let sound = decoded.is_ok();
    let named = (footer.crc.get() != place.crc).then(|| format!("byte {}: whoever names it says {:#010x}", at + 60, place.crc));
    let found = problem(decoded, at).or(named);
    all.push(Structure::new(at, FRAME_BYTES, format!("segment {index} footer (SegmentFooter)"), found, own));
    if sound { tables(file, index, place, &footer, all) } else { Ok(()) }
}

/// Both copies of the section table, and the sections of the first that holds.
fn tables(file: &dyn File, index: usize, place: &Place, footer: &SegmentFooter, all: &mut Vec<Structure>) -> std::io::Result<()> {
    let mut described = false;
    let count = u64::from(footer.sections.get()).min(SECTIONS_MAX as u64);
    for (copy, offset) in [("table", footer.table_offset.get()), ("copy of the table", footer.table_copy_offset.get())] {
        if offset.checked_add(count * FRAME_BYTES).is_none_or(|end| end > place.length) {
            continue;
        }
        let mut bytes = vec![0; (count * FRAME_BYTES) as usize];
        let at = place.offset + offset;
        file.read_exact_at(at, &mut bytes)?;
        let computed = crc32(&bytes);
        let holds = computed == footer.table_crc.get();
        let found = (!holds).then(|| format!("byte {at}: checksum is {:#010x}, its bytes give {computed:#010x}", footer.table_crc));
        let name = format!("segment {index} {copy} ({count} SectionEntry)");
        all.push(Structure::new(at, bytes.len() as u64, name, found, Vec::new()).saying(format!("checksum {computed:#010x}")));
        if holds && !described {
            described = true;
            for (i, entry) in bytes.chunks_exact(FRAME_BYTES as usize).enumerate() {
                let Ok(entry) = SectionEntry::read_from_bytes(entry) else { continue };
                let (described, lies_inside) = section(file, index, place, at + i as u64 * FRAME_BYTES, &entry)?;
                let start = described.offset;
                all.push(described);
                if lies_inside {
                    all.extend(raw_vectors::inside(file, index, start, &entry)?);
                }
            }
        }
    }
    Ok(())
}

/// A section, with the fields of its table entry and the verdict on its blocks; and whether it lies inside its segment.
fn section(file: &dyn File, index: usize, place: &Place, at: u64, entry: &SectionEntry) -> std::io::Result<(Structure, bool)> {
    let own = fields!(at, entry, SectionEntry { kind, flags, crcs_crc, offset, length, items, aux, crcs_offset, reserved });
    let kind = SectionKind::from_number(entry.kind.get());
    let label = kind.map_or_else(|| format!("section of unknown kind {}", entry.kind), |kind| format!("section {}", kind.name()));
    let start = place.offset.saturating_add(entry.offset.get());
    let blocks = entry.length.get().div_ceil(BLOCK_BYTES as u64);
    let inside = |offset: u64, length: u64| offset.checked_add(length).is_some_and(|end| end <= place.length);
    let lies_inside = inside(entry.offset.get(), entry.length.get()) && inside(entry.crcs_offset.get(), blocks.saturating_mul(4));
    let found = if lies_inside {
        bad_blocks(file, place, entry)?
    } else {
        Some(format!("byte {at}: it lies outside its segment of {} bytes", place.length))
    };
    let flag = |bit: u16, name: &'static str| if entry.flags.get() & bit != 0 { name } else { "" };
    let says = format!(
        "{} items, aux {}, {blocks} blocks{}{}",
        entry.items,
        entry.aux,
        flag(SECTION_CRITICAL, ", critical"),
        flag(SECTION_DERIVED, ", derived")
    );
    Ok((Structure::new(start, entry.length.get(), format!("segment {index} {label}"), found, own).saying(says), lies_inside))
}

/// The first block whose checksum does not hold, and how many there are.
fn bad_blocks(file: &dyn File, place: &Place, entry: &SectionEntry) -> std::io::Result<Option<String>> {
    let mut crcs = vec![0; entry.length.get().div_ceil(BLOCK_BYTES as u64) as usize * 4];
    let crcs_at = place.offset + entry.crcs_offset.get();
    file.read_exact_at(crcs_at, &mut crcs)?;
    let computed = crc32(&crcs);
    if computed != entry.crcs_crc.get() {
        let stored = entry.crcs_crc;
        return Ok(Some(format!("byte {crcs_at}: checksum of the block checksums is {stored:#010x}, their bytes give {computed:#010x}")));
    }
    let mut stored = crcs.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
    let (mut from, mut bad, mut first) = (0, 0u64, None);
    while from < entry.length.get() {
        let mut window = vec![0; WINDOW_BYTES.min(entry.length.get() - from) as usize];
        let at = place.offset + entry.offset.get() + from;
        file.read_exact_at(at, &mut window)?;
        for (i, block) in window.chunks(BLOCK_BYTES).enumerate() {
            let (stored, computed) = (stored.next().unwrap_or_default(), crc32(block));
            if stored != computed {
                bad += 1;
                first.get_or_insert((at + (i * BLOCK_BYTES) as u64, stored, computed));
            }
        }
        from += window.len() as u64;
    }
    Ok(first.map(|(at, stored, computed)| {
        format!("byte {at}: checksum of the block is {stored:#010x}, its bytes give {computed:#010x}; {bad} blocks fail")
    }))
}

//! Finds segments in their files when no manifest is left to say where they are.

use super::log::Record;
use crate::docstore::salvage::tolerated;
use crate::error::{Error, Result};
use crate::format::manifest::SegmentEntry;
use crate::format::segment::{BLOCK_BYTES, FOOTER_MAGIC, SectionKind, SegmentFooter, SegmentHeader};
use crate::ids::{Lsn, Seq};
use crate::io::names::FileName;
use crate::io::{Directory, File};
use crate::segment::SegmentReader;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const FRAME_BYTES: u64 = 64;
/// Bytes that are looked through at once.
const PIECE_BYTES: u64 = 1 << 20;

/// A segment, and its place among those of its file.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) entry: SegmentEntry,
    pub(super) index: usize,
}

/// Every segment whose header and footer can be proved, in files that no record names: those come with their record.
pub(super) fn find(dir: &dyn Directory, present: &[String], records: &BTreeMap<Lsn, Record>) -> Result<Vec<Orphan>> {
    let landed = records.values().flat_map(|r| &r.effects.collections).flat_map(|c| &c.landed);
    let named: BTreeSet<u64> = landed.map(|entry| entry.file).collect();
    let mut files: Vec<u64> = present
        .iter()
        .filter_map(|name| match FileName::parse(name) {
            Some(FileName::Segments(number)) if !named.contains(&number) => Some(number),
            _ => None,
        })
        .collect();
    files.sort_unstable();
    let mut found = Vec::new();
    for number in files {
        let name = FileName::Segments(number).to_string();
        // What cannot be read at all has no row to be saved.
        if let Ok(Err(_)) = tolerated(segments_of(dir, number, &name, &mut found)) {
            continue;
        }
    }
    Ok(found)
}

fn segments_of(dir: &dyn Directory, number: u64, name: &str, found: &mut Vec<Orphan>) -> Result<()> {
    let failed = |e| Error::io(format!("reading {name}"), e);
    let file = dir.open(name).map_err(failed)?;
    let length = file.len().map_err(failed)?;
    let (mut at, mut index) = (0, 0);
    while at + 2 * FRAME_BYTES <= length {
        let next = match segment_at(&file, length, at)? {
            Some(footer) => {
                found.extend(tolerated(entry(&file, number, name, at, &footer))?.ok().map(|entry| Orphan { entry, index }));
                index += 1;
                at + footer.length.get()
            }
            None => at + 1,
        };
        at = next.next_multiple_of(BLOCK_BYTES as u64);
    }
    Ok(())
}

/// The footer of the segment that starts at `start`, if one does.
fn segment_at(file: &Arc<dyn File>, length: u64, start: u64) -> Result<Option<SegmentFooter>> {
    let read = |at: u64, bytes: u64| -> Option<Vec<u8>> {
        let mut buffer = vec![0; bytes as usize];
        file.read_exact_at(at, &mut buffer).ok().map(|()| buffer)
    };
    let Some(header) = read(start, FRAME_BYTES).and_then(|bytes| SegmentHeader::decode(&bytes).ok()) else { return Ok(None) };
    let mut at = start + FRAME_BYTES;
    while at < length {
        let piece = read(at, PIECE_BYTES.min(length - at)).unwrap_or_default();
        for (i, bytes) in piece.chunks_exact(FRAME_BYTES as usize).enumerate().filter(|(_, bytes)| bytes.starts_with(&FOOTER_MAGIC)) {
            let end = at + (i as u64 + 1) * FRAME_BYTES;
            let footer = SegmentFooter::decode(bytes).ok();
            if let Some(footer) = footer.filter(|f| f.length.get() == end - start && f.header_crc == header.crc) {
                return Ok(Some(footer));
            }
        }
        at += PIECE_BYTES;
    }
    Ok(None)
}

/// What a manifest would have said of the segment, as far as the segment says it itself. Seqs count from its own first.
fn entry(file: &Arc<dyn File>, number: u64, name: &str, offset: u64, footer: &SegmentFooter) -> Result<SegmentEntry> {
    let (length, crc) = (footer.length.get(), footer.crc.get());
    let segment = SegmentReader::open_damaged(file.clone(), name, offset, length, crc)?;
    let items = |kind| segment.section(kind).map_or(0, |section| section.items());
    Ok(SegmentEntry {
        file: number,
        offset,
        length,
        crc,
        base_seq: Seq(1),
        last_seq: Seq(u64::MAX),
        rows: items(SectionKind::Ids),
        vectors: items(SectionKind::Vectors),
        tokens: 0,
        content_hash: 0,
        tombstones: None,
        unknown: Default::default(),
    })
}

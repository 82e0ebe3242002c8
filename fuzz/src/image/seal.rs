//! Makes every checksum fit what an edit left, from the inside out: dictionaries, blocks, sections, segments, envelopes, records, manifests,
//! HEAD.

use super::Files;
use super::layout::{Layout, word};
use crate::seal_dictionary;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use triune::format::checksum::{crc32, crc32_seeded};
use triune::format::effects::{CommitEffects, DeadSet};
use triune::format::head::HEAD_SLOT_BYTES;
use triune::format::manifest::MANIFEST_HEADER_BYTES;
use triune::format::segment::{BLOCK_BYTES, SECTIONS_MAX, SectionEntry, SegmentFooter};
use triune::format::tombstones::ENVELOPE_BYTES;
use triune::format::wal::{RECORD_HEADER_BYTES, WAL_HEADER_BYTES};
use triune::format::witness::WITNESS_SLOT_BYTES;
use triune::io::names::FileName;
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

/// The checksums that others repeat, by file number and offset.
#[derive(Default)]
struct Repeated {
    segments: BTreeMap<(u64, u64), u32>,
    tombstones: BTreeMap<(u64, u64), u32>,
}

pub fn seal(layout: &Layout, files: &mut Files) {
    let mut repeated = Repeated::default();
    for (name, segments) in &layout.segments {
        let file = of(files, *name);
        for range in segments {
            if let Some(crc) = file.get_mut(range.clone()).and_then(segment) {
                repeated.segments.insert((name.number(), range.start as u64), crc);
            }
        }
    }
    for (name, envelopes) in &layout.tombstones {
        let file = of(files, *name);
        field(file, 0..64, 12);
        for range in envelopes {
            if let Some(crc) = file.get_mut(range.clone()).and_then(envelope) {
                repeated.tombstones.insert((name.number(), range.start as u64), crc);
            }
        }
    }
    for (name, records) in &layout.logs {
        log(of(files, *name), records, &repeated);
    }
    let mut manifests = BTreeMap::new();
    for name in &layout.manifests {
        let file = of(files, *name);
        manifest(file, &repeated);
        manifests.insert(name.number(), (file.len() as u64, crc32(file)));
    }
    if let Some(head) = files.get_mut("HEAD") {
        (0..2).for_each(|slot| head_slot(head, slot * HEAD_SLOT_BYTES, &manifests));
    }
    if let Some(witness) = files.get_mut("WITNESS") {
        (0..2).for_each(|slot| field(witness, slot * WITNESS_SLOT_BYTES..(slot + 1) * WITNESS_SLOT_BYTES, 40));
    }
}

fn of(files: &mut Files, name: FileName) -> &mut Vec<u8> {
    files.get_mut(&name.to_string()).expect("edits remove no file")
}

/// Seals a structure that lies in `range`, its checksum in a field that counts as zero.
fn field(file: &mut [u8], range: Range<usize>, at: usize) {
    if let Some(structure) = file.get_mut(range) {
        structure[at..at + 4].fill(0);
        let crc = crc32(structure);
        structure[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Seals a segment and answers the checksum of its footer.
fn segment(bytes: &mut [u8]) -> Option<u32> {
    field(bytes, 0..64, 12);
    let header_crc = word(bytes, 12);
    let end = bytes.len() - 64;
    let mut footer = SegmentFooter::read_from_bytes(&bytes[end..]).ok()?;
    let length = (footer.sections.get() as usize).min(SECTIONS_MAX) * 64;
    let at = usize::try_from(footer.table_offset.get()).ok()?;
    if let Some(table) = at.checked_add(length).and_then(|table_end| bytes[..end].get(at..table_end)).map(<[u8]>::to_vec) {
        let table: Vec<u8> = table.chunks(64).flat_map(|entry| section(&mut bytes[..end], entry)).collect();
        footer.table_crc = U32::new(crc32(&table));
        let copy = usize::try_from(footer.table_copy_offset.get()).unwrap_or(usize::MAX);
        for place in [at, copy] {
            if let Some(there) = place.checked_add(length).and_then(|table_end| bytes[..end].get_mut(place..table_end)) {
                there.copy_from_slice(&table);
            }
        }
    }
    footer.header_crc = U32::new(header_crc);
    let footer = footer.sealed();
    bytes[end..].copy_from_slice(zerocopy::IntoBytes::as_bytes(&footer));
    Some(footer.crc.get())
}

/// The entry of a section with the checksum of its block checksums, which are made and written.
fn section(segment: &mut [u8], entry: &[u8]) -> Vec<u8> {
    let mut sealed = SectionEntry::read_from_bytes(entry).expect("the size is right");
    let place = |offset: u64, length: u64| {
        let (from, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
        Some(from..from.checked_add(length)?)
    };
    let bytes = place(sealed.offset.get(), sealed.length.get()).and_then(|range| segment.get_mut(range));
    if let Some(bytes) = bytes {
        seal_dictionary(sealed.kind.get(), sealed.aux.get(), bytes);
        let crcs: Vec<u8> = bytes.chunks(BLOCK_BYTES).flat_map(|block| crc32(block).to_le_bytes()).collect();
        if let Some(there) = place(sealed.crcs_offset.get(), crcs.len() as u64).and_then(|range| segment.get_mut(range)) {
            there.copy_from_slice(&crcs);
            sealed.crcs_crc = U32::new(crc32(&crcs));
        }
    }
    zerocopy::IntoBytes::as_bytes(&sealed).to_vec()
}

/// Seals an envelope with its body and answers its checksum.
fn envelope(bytes: &mut [u8]) -> Option<u32> {
    let (head, body) = bytes.split_at_mut_checked(ENVELOPE_BYTES as usize)?;
    head[24..28].copy_from_slice(&crc32(body).to_le_bytes());
    let crc = crc32(&head[..28]);
    head[28..].copy_from_slice(&crc.to_le_bytes());
    Some(crc)
}

fn log(file: &mut [u8], records: &[Range<usize>], repeated: &Repeated) {
    field(file, 0..WAL_HEADER_BYTES, 12);
    let Some(id) = file.get(40..56).map(<[u8]>::to_vec) else { return };
    let mut previous = 0;
    for range in records {
        let Some(record) = file.get_mut(range.clone()) else { return };
        let (head, payload) = record.split_at_mut(RECORD_HEADER_BYTES);
        effects(payload, repeated);
        // A length that an edit changed reaches further, or less far, than the payload that was there.
        let length = (word(head, 12) as usize).min(payload.len());
        head[8..12].copy_from_slice(&crc32_seeded(&id, &payload[..length]).to_le_bytes());
        head[40..44].copy_from_slice(&u32::to_le_bytes(previous));
        previous = crc32_seeded(&id, &head[8..]);
        head[4..8].copy_from_slice(&previous.to_le_bytes());
    }
}

/// Repeats the checksums of what the effects name, if that leaves their length as it is.
fn effects(payload: &mut [u8], repeated: &Repeated) {
    let Ok(mut effects) = CommitEffects::decode(payload) else { return };
    for collection in &mut effects.collections {
        for landed in &mut collection.landed {
            landed.crc = repeated.segments.get(&(landed.file, landed.offset)).copied().unwrap_or(landed.crc);
        }
        if let DeadSet::File { number, crc, .. } = &mut collection.dead {
            *crc = repeated.tombstones.get(&(*number, 64)).copied().unwrap_or(*crc);
        }
    }
    let mut again = Vec::new();
    effects.encode(&mut again);
    if again.len() == payload.len() {
        payload.copy_from_slice(&again);
    }
}

fn manifest(file: &mut Vec<u8>, repeated: &Repeated) {
    if file.len() < MANIFEST_HEADER_BYTES {
        return;
    }
    if let Ok(mut body) = serde_json::from_slice::<Value>(&file[MANIFEST_HEADER_BYTES..]) {
        let collections = body.get_mut("collections").and_then(Value::as_array_mut).into_iter().flatten();
        let segments = collections.filter_map(|c| c.get_mut("segments").and_then(Value::as_array_mut)).flatten();
        for segment in segments {
            repeat(segment, &repeated.segments);
            segment.get_mut("tombstones").into_iter().for_each(|t| repeat(t, &repeated.tombstones));
        }
        file.truncate(MANIFEST_HEADER_BYTES);
        serde_json::to_writer(&mut *file, &body).expect("memory takes it");
    }
    let (length, crc) = ((file.len() - MANIFEST_HEADER_BYTES) as u64, crc32(&file[MANIFEST_HEADER_BYTES..]));
    file[40..48].copy_from_slice(&length.to_le_bytes());
    file[48..52].copy_from_slice(&crc.to_le_bytes());
    field(file, 0..MANIFEST_HEADER_BYTES, 12);
}

fn repeat(named: &mut Value, crcs: &BTreeMap<(u64, u64), u32>) {
    let number = |key: &str| named.get(key)?.as_str()?.parse::<u64>().ok();
    if let Some(crc) = number("file").zip(number("offset")).and_then(|place| crcs.get(&place)) {
        named["crc"] = Value::from(*crc);
    }
}

fn head_slot(head: &mut [u8], at: usize, manifests: &BTreeMap<u64, (u64, u32)>) {
    let Some(slot) = head.get_mut(at..at + HEAD_SLOT_BYTES) else { return };
    let number = u64::from_le_bytes(slot[64..72].try_into().expect("it has 8 bytes"));
    if let Some((length, crc)) = manifests.get(&number) {
        slot[72..80].copy_from_slice(&length.to_le_bytes());
        slot[80..84].copy_from_slice(&crc.to_le_bytes());
    }
    field(slot, 0..HEAD_SLOT_BYTES, 20);
}

//! The frame of a segment, and what it says of its rows: bodies, ids, seqs, sources.

use crate::{dispatch, number, split};
use triune::format::checksum::crc32;
use triune::format::docs::{BlockEncoder, DOC_INDEX_ENTRY_BYTES, DocBlock, DocIndexEntry};
use triune::format::document::{decode_body, encode_body};
use triune::format::ids::{SeqWidth, check_id_map, check_ids, first_bucket, ids_text_start, name_range, row_in_bucket};
use triune::format::row_hash::{content_hash, id_hash};
use triune::format::segment::{SegmentFooter, SegmentHeader, decode_table, encode_table};
use triune::format::sources::{SourcesLayout, encode_sources};
use zerocopy::IntoBytes;

pub fn fuzz(bytes: &[u8]) {
    dispatch(bytes, &[frame, table, block, body, ids, id_map, seqs, sources]);
}

fn frame(bytes: &[u8]) {
    let (mut block, _) = split::<64>(bytes);
    let _ = (SegmentHeader::decode(&block), SegmentFooter::decode(&block));
    block[..8].copy_from_slice(&triune::format::segment::SEGMENT_MAGIC);
    block[12..16].fill(0);
    let crc = crc32(&block);
    block[12..16].copy_from_slice(&crc.to_le_bytes());
    if let Ok(header) = SegmentHeader::decode(&block) {
        assert_eq!(header.as_bytes(), block);
    }
    block[..8].copy_from_slice(&triune::format::segment::FOOTER_MAGIC);
    let crc = crc32(&block[..60]);
    block[60..].copy_from_slice(&crc.to_le_bytes());
    if let Ok(footer) = SegmentFooter::decode(&block) {
        assert_eq!(footer.sealed(), footer, "the checksum of what was accepted is the one it has");
    }
}

fn table(bytes: &[u8]) {
    let segment_length = bytes.len() as u64 * 16;
    if let Ok(entries) = decode_table(bytes, crc32(bytes), segment_length) {
        assert_eq!(encode_table(&entries), bytes);
        assert!(entries.iter().all(|e| e.offset.get() + e.length.get() <= segment_length));
    }
}

/// A block of documents: its index entry, its stored bytes, and each body in it.
fn block(bytes: &[u8]) {
    let Some((entry, stored)) = bytes.split_at_checked(DOC_INDEX_ENTRY_BYTES as usize) else { return };
    let Ok(entry) = DocIndexEntry::decode(entry, u32::MAX >> 1) else { return };
    let whole = stored.get(..entry.stored_length.get() as usize);
    let Ok(block) = DocBlock::decode(&entry, whole.unwrap_or(stored)) else { return };
    let rows = entry.rows.get().min(1000);
    for row in entry.first_row.get()..entry.first_row.get() + rows {
        assert!(block.contains(row) && entry.contains(row));
        if let Ok(bytes) = block.body(row) {
            body(bytes);
        }
    }
    assert!(block.body(entry.first_row.get().wrapping_sub(1)).is_err());
}

fn body(bytes: &[u8]) {
    let Ok(document) = decode_body(bytes, "id".into()) else { return };
    let mut again = Vec::new();
    encode_body(&document, &mut again);
    let read = decode_body(&again, "id".into()).expect("what was written can be read");
    assert_eq!(read, document);
    assert_eq!(content_hash(&read), content_hash(&document));
    let mut encoder = BlockEncoder::default();
    encoder.push(&again);
    let _ = encoder.finish();
}

fn ids(bytes: &[u8]) {
    let (items, rest) = number(bytes);
    let (text_bytes, section) = number(rest);
    let Ok(rows) = check_ids(items, text_bytes, section.len() as u64) else { return };
    let text = &section[ids_text_start(rows) as usize..];
    for row in 0..rows as usize {
        if let Ok(range) = name_range(&section[row * 8..row * 8 + 16], text_bytes) {
            let _ = id_hash(&String::from_utf8_lossy(&text[range.start as usize..range.end as usize]));
        }
    }
}

fn id_map(bytes: &[u8]) {
    let (items, rest) = number(bytes);
    let (buckets, section) = number(rest);
    let rows = items as u32 & 0xfff;
    let Ok(buckets) = check_id_map(items, buckets, section.len() as u64, rows) else { return };
    for hash in [0, u64::MAX, id_hash("guide#0"), items] {
        let at = first_bucket(hash, buckets) as usize;
        let (bucket, _) = number(&section[at * 8..]);
        let _ = row_in_bucket(bucket, hash);
    }
}

fn seqs(bytes: &[u8]) {
    let (aux, rest) = number(bytes);
    let ([low, high], section) = split::<2>(rest);
    let rows = u32::from(low) | u32::from(high) << 8;
    let Ok(width) = SeqWidth::decode(aux, section.len() as u64, rows) else { return };
    let read = |row: u32| {
        let range = width.range(row);
        width.value(row, &section[range.start as usize..range.end as usize])
    };
    let seqs: Vec<u64> = (0..rows).map(read).collect();
    assert_eq!(width.encode(&seqs), section);
}

fn sources(bytes: &[u8]) {
    let (aux, rest) = number(bytes);
    let ([sources, rows], section) = split::<2>(rest);
    let Ok(layout) = SourcesLayout::decode(u64::from(sources), aux, section.len() as u64, u32::from(rows)) else { return };
    if layout.sources == 0 {
        return;
    }
    let at = |range: std::ops::Range<u64>| &section[range.start as usize..range.end as usize];
    let mut names = Vec::new();
    let mut members = Vec::new();
    for source in 0..layout.sources {
        let Ok(name) = name_range(at(layout.name_bounds(source)), layout.text_bytes) else { return };
        let Ok(name) = str::from_utf8(&section[layout.text_start() as usize..][name.start as usize..name.end as usize]) else { return };
        let Ok(range) = layout.decode_row_bounds(at(layout.row_bounds(source))) else { return };
        let Ok(rows) = layout.decode_rows(at(layout.members(range))) else { return };
        names.push(name);
        members.push(rows);
    }
    let mut of_row = Vec::new();
    for row in 0..layout.rows {
        let Ok(source) = layout.decode_ordinal(at(layout.ordinal_of_row(row))) else { return };
        of_row.push(source);
    }
    let agrees = |(row, source): (usize, &Option<u32>)| {
        members.iter().enumerate().all(|(s, rows)| rows.contains(&(row as u32)) == (*source == Some(s as u32)))
    };
    if names.is_sorted() && !names.is_empty() && of_row.iter().enumerate().all(agrees) {
        let (again, text_bytes) = encode_sources(&names, &of_row);
        let read = SourcesLayout::decode(names.len() as u64, text_bytes, again.len() as u64, layout.rows);
        assert_eq!(read.expect("what was written can be read").sources, layout.sources);
    }
}

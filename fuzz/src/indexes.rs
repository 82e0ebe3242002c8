//! What the indexes of a segment consist of, and tombstones: lists, entries and arrays, one at a time.

use crate::{dispatch, number, split};
use triune::format::graph::{
    ListsEncoder, ListsLayout, decode_mentions, decode_name, decode_relations, encode_mentions, encode_name, encode_relations,
};
use triune::format::half::half_to_single;
use triune::format::metadata::{ENTRY_BYTES, LIST_HEADER_BYTES, MetadataListHeader, MetadataRowsEntry, RowsPlace, encode_list};
use triune::format::postings::{PostingEncoder, decode_list};
use triune::format::terms::{TermInfoEntry, TextStatistics};
use triune::format::tombstones::{
    EnvelopeKind, TombstonesEnvelope, TombstonesHeader, decode_seqs, decode_tombstones, encode_seqs, encode_tombstones,
};
use triune::format::transducer::{FST_KEY_BYTES_MAX, FST_VERSION, Transducer};
use triune::format::vector_codes::{CodesShape, check_codes, check_meta, decode_tail, encode_tail, image_dimension, row_meta, set_row_meta};
use triune::format::vector_graph::{GraphShape, NO_LINK, check_row, encode_numbers};
use triune::format::vectors::{
    VectorsShape, check_rows, encode_halves, encode_rows, view_components, view_halves, view_inverse_norms, view_rows,
};
use triune::{Components, Metric, Uuid};
use zerocopy::IntoBytes;

pub fn fuzz(bytes: &[u8]) {
    dispatch(
        bytes,
        &[
            postings,
            terms,
            vectors,
            metadata,
            mentions,
            relations,
            lists,
            tombstones,
            dying_seqs,
            envelope,
            dictionary,
            vector_graph,
            vector_codes,
        ],
    );
}

fn postings(bytes: &[u8]) {
    let (numbers, list) = split::<2>(bytes);
    let (count, rows) = (u32::from(u16::from_le_bytes(numbers)), 1 << 31);
    let mut postings = Vec::new();
    if decode_list(list, count, rows, &mut postings).is_err() {
        return assert!(postings.is_empty(), "nothing of a refused list is kept");
    }
    assert_eq!(postings.len(), count as usize);
    assert!(postings.windows(2).all(|pair| pair[0].row < pair[1].row) && postings.iter().all(|p| p.row < rows && p.frequency > 0));
    let (mut again, mut read) = (Vec::new(), Vec::new());
    PostingEncoder::default().encode(&postings, &mut again);
    decode_list(&again, count, rows, &mut read).expect("what was written can be read");
    assert_eq!(read, postings);
}

fn terms(bytes: &[u8]) {
    let ([low, high], rest) = split::<2>(bytes);
    let _ = TermInfoEntry::decode(rest, 7, 1 << 31, u64::from(low) << 8 | u64::from(high));
    let (block, _) = split::<64>(rest);
    if let Ok(statistics) = TextStatistics::decode(&block) {
        let name = statistics.analyzer_name().expect("a name was accepted");
        assert_eq!(TextStatistics::analyzer_field(name), Some(statistics.analyzer));
    }
}

fn vectors(bytes: &[u8]) {
    let (items, rest) = number(bytes);
    let (aux, rest) = number(rest);
    let (length, rest) = number(rest);
    if let Ok(shape) = VectorsShape::decode(items, aux, length) {
        assert_eq!(u64::from(shape.count) * shape.vector_bytes(), length);
        let _ = shape.decode_rows_entry(items, aux, rest.len() as u64);
        let _ = shape.decode_norms_entry(items, rest.len() as u64);
    }
    if let Ok(rows) = view_rows(rest)
        && check_rows(rows, 1 << 16).is_ok()
    {
        let plain: Vec<u32> = rows.iter().map(|row| row.get()).collect();
        assert!(plain.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(encode_rows(&plain), rest);
    }
    if let Ok(norms) = view_inverse_norms(rest) {
        assert_eq!(norms.len() * 8, rest.len());
    }
    if rest.len().is_multiple_of(4) {
        assert_eq!(view_components(rest).len() * 4, rest.len());
    }
    let components: Vec<f32> = view_halves(rest).iter().map(|half| half_to_single(u16::from_le_bytes(*half))).collect();
    if components.iter().all(|c| !c.is_nan()) {
        let mut again = Vec::new();
        encode_halves(&components, &mut again);
        assert_eq!(again, rest[..components.len() * 2], "every value has one binary16");
    }
}

/// The header against any numbers, then the rows behind it as the rows of a level.
fn vector_graph(bytes: &[u8]) {
    let (length, section) = number(bytes);
    let (header, _) = split::<192>(section);
    let nodes = u32::from_le_bytes([header[16], header[17], header[18], header[19]]);
    if let Ok(shape) = GraphShape::decode(section, u64::from(nodes), 0, length, nodes) {
        assert_eq!(shape.encode().as_bytes(), &header);
        assert_eq!((shape.count(), shape.length()), (nodes, length));
        let levels = shape.level_counts.len();
        assert!((0..levels).all(|level| shape.level_offset(level) <= shape.level_offset(level + 1)));
        assert!(shape.base_offset() <= shape.level_offset(0) && shape.base_offset().is_multiple_of(64));
        // Under any other number of vectors or of bytes it is refused.
        assert!(GraphShape::decode(section, u64::from(nodes), 0, length, nodes.wrapping_add(1)).is_err());
        assert!(GraphShape::decode(section, u64::from(nodes), 0, length.wrapping_add(1), nodes).is_err());
    }
    let rows: Vec<u32> = section.as_chunks::<4>().0.iter().map(|n| u32::from_le_bytes(*n)).collect();
    for (node, row) in (0..).zip(rows.chunks(8)) {
        if check_row(node, row, nodes).is_ok() {
            let links: Vec<u32> = row.iter().copied().take_while(|&link| link != NO_LINK).collect();
            assert!(links.iter().all(|&link| link < nodes && link != node));
            assert!(links.iter().enumerate().all(|(i, link)| !links[..i].contains(link)));
            assert!(row[links.len()..].iter().all(|&link| link == NO_LINK));
            assert_eq!(encode_numbers(row), section[node as usize * 32..][..row.len() * 4]);
        }
    }
}

/// The numbers of the table, then rows and tail.
fn vector_codes(bytes: &[u8]) {
    let ([count, dimension, metric], rest) = split::<3>(bytes);
    let (items, rest) = number(rest);
    let (aux, section) = number(rest);
    let vectors = VectorsShape { count: u32::from(count), dimension: u32::from(dimension).max(1), components: Components::F32 };
    let metric = [Metric::Cosine, Metric::Dot, Metric::L2][usize::from(metric) % 3];
    let dimension = image_dimension(metric, vectors.dimension);
    let shape = CodesShape::new(vectors.count, dimension);
    if let Ok(decoded) = CodesShape::decode(vectors, metric, items, aux, section.len() as u64) {
        assert!(decoded == shape || decoded == CodesShape::earlier(vectors.count, dimension));
        assert_eq!((decoded.length(), decoded.stride as u64), (section.len() as u64, aux));
    }
    if let Some(decoded) = CodesShape::of_table(items, aux, section.len() as u64) {
        assert_eq!((u64::from(decoded.count), decoded.stride as u64, decoded.length()), (items, aux, section.len() as u64));
    }
    for row in section.chunks_exact(shape.stride) {
        if check_codes(&row[..shape.codes_bytes()], dimension as usize).is_ok() {
            assert!(row[..dimension as usize].iter().all(|&code| (1..=127).contains(&code)));
        }
        if check_meta(row).is_ok() {
            let (scale, bias) = row_meta(row);
            assert!(scale > 0.0 && scale.is_finite() && bias.is_finite());
            let mut again = row.to_vec();
            set_row_meta(&mut again, scale, bias);
            assert_eq!(again, row);
        }
    }
    let tail = &section[section.len().min(shape.unit_offset() as usize)..];
    if let Ok((unit, centre)) = decode_tail(tail, shape) {
        assert!(unit > 0.0 && unit.is_finite() && centre.iter().all(|c| c.is_finite()) && centre.len() == shape.dimension as usize);
        assert!(tail.starts_with(&encode_tail(unit, &centre)));
    }
}

fn metadata(bytes: &[u8]) {
    let ([low, high], rest) = split::<2>(bytes);
    let rows = u32::from(low) << 8 | u32::from(high) | 1;
    let (entry, lists) = split::<{ ENTRY_BYTES as usize }>(rest);
    let at = match MetadataRowsEntry::decode(&entry, rows, lists.len() as u64) {
        Ok(RowsPlace::Sole(row)) => return assert!(row < rows),
        Ok(RowsPlace::List(at)) => at,
        Err(_) => 0,
    };
    let (header, list) = lists[at as usize..].split_at((LIST_HEADER_BYTES as usize).min(lists.len() - at as usize));
    let Ok(header) = MetadataListHeader::decode(header, at, rows, lists.len() as u64) else { return };
    let Ok(found) = header.decode_list(&list[..header.length.get() as usize], rows) else { return };
    let mut again = Vec::new();
    encode_list(&found, &mut again).expect("it has few rows");
    let read = MetadataListHeader::decode(&again[..LIST_HEADER_BYTES as usize], 0, rows, again.len() as u64);
    let read = read.expect("what was written can be read").decode_list(&again[LIST_HEADER_BYTES as usize..], rows);
    assert_eq!(read, Ok(found));
}

fn mentions(bytes: &[u8]) {
    let ([low, high], list) = split::<2>(bytes);
    let rows = u32::from(low) << 8 | u32::from(high) | 1;
    let mut edges = Vec::new();
    if decode_mentions(list, rows, &mut |e| edges.push(e)).is_err() {
        return;
    }
    assert!(edges.windows(2).all(|pair| pair[0].to < pair[1].to) && edges.iter().all(|e| e.to < rows && e.variants > 0));
    let (mut again, mut read) = (Vec::new(), Vec::new());
    encode_mentions(&edges, &mut again);
    decode_mentions(&again, rows, &mut |e| read.push(e)).expect("what was written can be read");
    assert_eq!(read, edges);
}

fn relations(bytes: &[u8]) {
    let ([first, second], list) = split::<2>(bytes);
    let (rows, entities) = (u32::from(first) << 8 | 1, u32::from(second) << 8 | 1);
    let mut records = Vec::new();
    if decode_relations(list, rows, entities, &mut |r| records.push(r)).is_err() {
        return;
    }
    assert!(records.windows(2).all(|pair| (pair[0].row, pair[0].index) < (pair[1].row, pair[1].index)));
    let (mut again, mut read) = (Vec::new(), Vec::new());
    encode_relations(&records, &mut again);
    decode_relations(&again, rows, entities, &mut |r| read.push(r)).expect("what was written can be read");
    assert_eq!(read, records);
}

fn lists(bytes: &[u8]) {
    let ([first, second], section) = split::<2>(bytes);
    if let Ok(name) = decode_name(section, u32::from(first)) {
        let mut again = Vec::new();
        encode_name(name, &mut again);
        assert_eq!(decode_name(&again, 0), Ok(name));
    }
    let width = if first & 1 == 0 { 4 } else { 8 };
    if let Ok(layout) = ListsLayout::decode(u64::from(second), width, section.len() as u64) {
        for list in 0..layout.lists() {
            let bounds = layout.bounds(list);
            let Ok(block) = layout.decode_bounds(&section[bounds.start as usize..bounds.end as usize]) else { continue };
            let header = ListsLayout::header(&block);
            let Ok(range) = layout.locate(list, &block, &section[header.start as usize..header.end as usize]) else { continue };
            assert!(range.start <= range.end && range.end <= section.len() as u64);
        }
    }
    let mut encoder = ListsEncoder::default();
    section.chunks(usize::from(first) + 1).for_each(|chunk| encoder.push(chunk));
    let (items, aux, section) = encoder.finish();
    ListsLayout::decode(items, aux, section.len() as u64).expect("what was written can be read");
}

fn tombstones(bytes: &[u8]) {
    let ([items], body) = split::<1>(bytes);
    let items = u64::from(items);
    if let Ok((dead, frequencies)) = decode_tombstones(body, items, 1 << 20) {
        assert!(dead.len() == items && dead.max().is_none_or(|row| row < 1 << 20));
        let again = encode_tombstones(&dead, &frequencies);
        assert_eq!(decode_tombstones(&again, items, 1 << 20), Ok((dead, frequencies)));
    }
}

fn dying_seqs(bytes: &[u8]) {
    let ([items], body) = split::<1>(bytes);
    if let Ok(seqs) = decode_seqs(body, u64::from(items)) {
        assert_eq!(decode_seqs(&encode_seqs(&seqs), u64::from(items)), Ok(seqs));
    }
}

/// A header as given, and an envelope that fits its body.
fn envelope(bytes: &[u8]) {
    let ([items], rest) = split::<1>(bytes);
    let (header, body) = split::<64>(rest);
    let (database, file) = (Uuid([2; 16]), u64::from(items));
    let _ = TombstonesHeader::decode(&header, database, file);
    assert!(TombstonesHeader::decode(TombstonesHeader::new(database, file).as_bytes(), database, file).is_ok());
    for kind in [EnvelopeKind::Tombstones, EnvelopeKind::DyingSeqs] {
        let envelope = TombstonesEnvelope::new(kind, u64::from(items), body);
        let whole = [envelope.as_bytes(), body].concat();
        assert_eq!(TombstonesEnvelope::decode(&whole, kind, envelope.crc.get()), Ok((u64::from(items), body)));
        let _ = TombstonesEnvelope::decode(rest, kind, envelope.crc.get());
    }
}

/// An fst as it is, or nodes between a header and a footer that fit them, looked up and walked.
fn dictionary(bytes: &[u8]) {
    let ([mode, keys], rest) = split::<2>(bytes);
    let framed = {
        let header = [FST_VERSION, 0].map(u64::to_le_bytes).concat();
        let root = (header.len() + rest.len()).wrapping_sub(1) as u64;
        [&header[..], rest, &u64::from(keys).to_le_bytes(), &root.to_le_bytes(), &[0; 4]].concat()
    };
    let bytes = if mode & 1 == 0 { &framed[..] } else { rest };
    let Ok(fst) = Transducer::open(bytes) else { return };
    let _ = fst.verify();
    for probe in [&rest[..rest.len().min(9)], b"row", b""] {
        let _ = (fst.get(probe), fst.first_from(probe));
    }
    let (mut found, mut stream) = (Vec::new(), fst.stream());
    // A few states can spell more keys than anyone can wait for.
    let whole = loop {
        match stream.next() {
            Ok(Some((key, number))) if found.len() < 500 => found.push((key.to_vec(), number)),
            Ok(None) => break true,
            Ok(Some(_)) | Err(_) => break false,
        }
    };
    assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0) && found.iter().all(|(key, _)| key.len() <= FST_KEY_BYTES_MAX));
    if whole {
        for (key, number) in found {
            // The index of a state may lie; that is an error and no other number.
            assert!(fst.get(&key).is_ok_and(|n| n == Some(number)) || fst.get(&key).is_err());
            assert_eq!(fst.first_from(&key), Ok(Some(number)));
        }
    }
}

//! Lists and edges, both ways, and hostile bytes.

use super::*;
use proptest::prelude::*;

fn read(section: &[u8], layout: &ListsLayout, list: u32) -> Result<Vec<u8>, FormatError> {
    let slice = |range: Range<u64>| {
        let (start, end) = (range.start as usize, range.end as usize);
        section.get(start..end).map(<[u8]>::to_vec).ok_or_else(|| FormatError::new(start, "outside"))
    };
    let block = layout.decode_bounds(&slice(layout.bounds(list))?)?;
    let header = slice(ListsLayout::header(&block))?;
    slice(layout.locate(list, &block, &header)?)
}

fn mentions(list: &[u8], ends: u32) -> Result<Vec<MentionEdge>, FormatError> {
    let mut edges = Vec::new();
    decode_mentions(list, ends, &mut |e| edges.push(e))?;
    Ok(edges)
}

fn relations(list: &[u8], rows: u32, entities: u32) -> Result<Vec<RelationRecord>, FormatError> {
    let mut records = Vec::new();
    decode_relations(list, rows, entities, &mut |r| records.push(r))?;
    Ok(records)
}

fn edges() -> impl Strategy<Value = Vec<MentionEdge>> {
    let one = (0u32..1000, 1u32..4, prop_oneof![Just(0), 0..u32::MAX - 4], 0u32..3);
    prop::collection::btree_map(0u32..100_000, one, 0..20).prop_map(|map| {
        let edge = |(to, (_, variants, more, name))| MentionEdge { to, variants, occurrences: variants + more, name };
        map.into_iter().map(edge).collect()
    })
}

fn records() -> impl Strategy<Value = Vec<RelationRecord>> {
    let weight = prop_oneof![Just(1.0), Just(0.5), Just(0.1), Just(f64::MAX), Just(5e-324)];
    prop::collection::btree_map((0u32..1000, prop_oneof![Just(0u32), 0..9u32]), (0u32..500, weight, 0u32..2), 0..20).prop_map(|map| {
        let record = |((row, index), (other, weight, name))| RelationRecord { row, index, other, weight, name };
        map.into_iter().map(record).collect()
    })
}

proptest! {
    #[test]
    fn lists_read_as_they_were_pushed(lists in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..50)) {
        let mut encoder = ListsEncoder::default();
        lists.iter().for_each(|l| encoder.push(l));
        let (items, aux, bytes) = encoder.finish();
        let layout = ListsLayout::decode(items, aux, bytes.len() as u64).expect("the encoder's own");
        prop_assert_eq!(layout.lists() as usize, lists.len());
        for (i, list) in lists.iter().enumerate() {
            prop_assert_eq!(&read(&bytes, &layout, i as u32).expect("the encoder's own"), list);
        }
    }

    #[test]
    fn edges_and_records_read_as_they_were_written(edges in edges(), records in records()) {
        let mut list = Vec::new();
        encode_mentions(&edges, &mut list);
        prop_assert_eq!(mentions(&list, 100_000), Ok(edges.clone()));
        if let Some(last) = edges.last() {
            prop_assert!(mentions(&list, last.to).is_err(), "an end beyond the last");
        }
        list.clear();
        encode_relations(&records, &mut list);
        prop_assert_eq!(relations(&list, 1000, 500), Ok(records));
    }

    #[test]
    fn any_bytes_decode_or_are_refused_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200), items in 0u64..60, list in 0u32..60, wide in any::<bool>(),
    ) {
        let _ = mentions(&bytes, 1000);
        let _ = relations(&bytes, 1000, 1000);
        let _ = decode_name(&bytes, list);
        if let Ok(layout) = ListsLayout::decode(items, if wide { 8 } else { 4 }, bytes.len() as u64)
            && list < layout.lists()
        {
            let _ = read(&bytes, &layout, list);
        }
    }
}

#[test]
fn a_mention_of_one_occurrence_takes_a_byte_when_its_neighbour_is_near() {
    let plain = |to| MentionEdge { to, variants: 1, occurrences: 1, name: 0 };
    let mut list = Vec::new();
    encode_mentions(&[plain(3), plain(5), plain(60)], &mut list);
    assert_eq!(list, [7, 3, 109]);
}

#[test]
fn records_that_do_not_ascend_and_impossible_numbers_are_refused() {
    assert!(relations(&[0, 3, 0, 3], 1, 9).is_err(), "one relation of a row twice");
    assert!(relations(&[0, 3, 1, 1, 3], 1, 9).is_ok(), "a second relation of the row");
    assert!(relations(&[3 << 2, 3], 1, 9).is_err(), "an unknown form of weight");
    assert!(relations(&[1 << 2, 3, 0, 0, 0, 0], 1, 9).is_err(), "a weight of 0");
    assert!(mentions(&[0, 2, 1, 0], 1).is_err(), "two spellings that occur once");
    assert!(mentions(&[0, 0, 1, 0], 1).is_err(), "no spelling");
    assert!(decode_name(&[0], 0).is_err() && decode_name(&[1, b'a'], 1).is_err());
    assert_eq!(name_bounds(&[1, b'a', 2, b'b', b'c']).unwrap(), [0, 2, 5]);
    assert!(name_bounds(&[]).unwrap() == [0] && name_bounds(&[1, b'a', 2, b'b']).is_err());
    assert!(ListsLayout::decode(1, 4, 7).is_err() && ListsLayout::decode(1, 5, 99).is_err() && ListsLayout::decode(1 << 33, 4, 99).is_err());
}

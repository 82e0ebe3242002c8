//! Lists of the entity graph, and the edges in them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::format::graph::{
    ListsEncoder, ListsLayout, decode_mentions, decode_name, decode_relations, encode_mentions, encode_relations,
};

fuzz_target!(|bytes: &[u8]| {
    let Some(([first, second], list)) = bytes.split_first_chunk::<2>() else { return };
    let (rows, entities) = (u32::from(*first) << 8 | 1, u32::from(*second) << 8 | 1);
    let mut edges = Vec::new();
    if decode_mentions(list, rows, &mut |e| edges.push(e)).is_ok() {
        assert!(edges.windows(2).all(|pair| pair[0].to < pair[1].to) && edges.iter().all(|e| e.to < rows && e.variants > 0));
        let (mut again, mut read) = (Vec::new(), Vec::new());
        encode_mentions(&edges, &mut again);
        decode_mentions(&again, rows, &mut |e| read.push(e)).expect("what was written can be read");
        assert_eq!(read, edges);
    }
    let mut records = Vec::new();
    if decode_relations(list, rows, entities, &mut |r| records.push(r)).is_ok() {
        assert!(records.windows(2).all(|pair| (pair[0].row, pair[0].index) < (pair[1].row, pair[1].index)));
        let (mut again, mut read) = (Vec::new(), Vec::new());
        encode_relations(&records, &mut again);
        decode_relations(&again, rows, entities, &mut |r| read.push(r)).expect("what was written can be read");
        assert_eq!(read, records);
    }
    let _ = decode_name(list, u32::from(*first));
    let width = if first & 1 == 0 { 4 } else { 8 };
    if let Ok(layout) = ListsLayout::decode(u64::from(*second), width, list.len() as u64) {
        for number in 0..layout.lists() {
            let bounds = layout.bounds(number);
            let Ok(block) = layout.decode_bounds(&list[bounds.start as usize..bounds.end as usize]) else { continue };
            let header = ListsLayout::header(&block);
            let Ok(range) = layout.locate(number, &block, &list[header.start as usize..header.end as usize]) else { continue };
            assert!(range.start <= range.end && range.end <= list.len() as u64);
        }
    }
    let mut encoder = ListsEncoder::default();
    list.chunks(usize::from(*first) + 1).for_each(|chunk| encoder.push(chunk));
    let (items, aux, section) = encoder.finish();
    ListsLayout::decode(items, aux, section.len() as u64).expect("what was written can be read");
});

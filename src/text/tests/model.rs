//! Builder, reader and merge against a map from terms to postings.

use super::*;
use crate::error::ErrorCode;
use crate::format::terms::FST_TERM_BYTES_MAX;
use proptest::prelude::*;

/// A model of `rows` rows from terms whose document frequencies and frequencies come from `seed`.
fn random_model(rows: u32, frequencies: &[u32], seed: u64) -> Model {
    let mut state = seed | 1;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as u32) % below.max(1)
    };
    let mut model = Model { lengths: vec![0; rows as usize], terms: BTreeMap::new() };
    for (i, &df) in frequencies.iter().enumerate() {
        let df = df.min(rows);
        let mut left = df;
        let mut postings = Vec::new();
        for row in 0..rows {
            // Selection sampling: exactly df of the rows.
            if random(rows - row) < left {
                let frequency = if random(4) == 0 { 1 + random(300) } else { 1 };
                postings.push(Posting { row, frequency });
                model.lengths[row as usize] += frequency;
                left -= 1;
            }
        }
        if !postings.is_empty() {
            let long = if i % 5 == 4 { "é".repeat(FST_TERM_BYTES_MAX / 2 + i) } else { String::new() };
            model.terms.insert(format!("{}{long}-{i}", char::from(b'a' + random(26) as u8)).into_bytes(), postings);
        }
    }
    model
}

/// What a merge of `parts` without the rows that `dead` names must hold, and the map of each part's rows.
fn expected_merge(parts: &[Model], dead: &dyn Fn(usize, u32) -> bool) -> (Model, Vec<Vec<u32>>) {
    let mut merged = Model::default();
    let mut maps = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        let mut map = Vec::new();
        for row in 0..part.lengths.len() as u32 {
            if dead(i, row) {
                map.push(DROPPED);
            } else {
                map.push(merged.lengths.len() as u32);
                merged.lengths.push(part.lengths[row as usize]);
            }
        }
        for (term, postings) in &part.terms {
            let kept = postings.iter().map(|p| Posting { row: map[p.row as usize], ..*p }).filter(|p| p.row != DROPPED);
            merged.terms.entry(term.clone()).or_default().extend(kept);
        }
        maps.push(map);
    }
    merged.terms.retain(|_, postings| !postings.is_empty());
    (merged, maps)
}

fn check_merge(parts: &[Model], dead: &dyn Fn(usize, u32) -> bool) {
    let (expected, maps) = expected_merge(parts, dead);
    let readers: Vec<TextReader> = parts.iter().enumerate().map(|(i, p)| p.reader(i % 2 == 0)).collect();
    let inputs: Vec<(&TextReader, &[u32])> = readers.iter().zip(&maps).map(|(r, m)| (r, m.as_slice())).collect();
    let (bytes, summary) = segment(|out| merge_text(&inputs, &analyzer(), expected.lengths.clone(), out)).expect("merges");
    let (direct, _) = segment(|out| expected.write(out)).expect("writes");
    assert_eq!(Model::read_back(&open(bytes.clone(), summary, true).expect("opens")).expect("reads"), expected);
    assert!(bytes == direct, "a merge writes the bytes that building anew from the kept rows writes");
}

#[test]
fn frequencies_at_block_edges_come_back() {
    let model = random_model(3000, &[1, 2, 127, 128, 129, 255, 256, 257, 1024, 3000], 11);
    for mapped in [true, false] {
        let reader = model.reader(mapped);
        assert_eq!(Model::read_back(&reader).expect("reads"), model);
        assert_eq!(reader.term(b"unknown").expect("looks up"), None);
        assert_eq!(reader.term("é".repeat(5000).as_bytes()).expect("looks up"), None);
        assert!(reader.length(3000).is_err());
    }
}

#[test]
fn lengths_over_16_bits_are_exact() {
    for longest in [65_535, 65_536, 5_000_000] {
        let mut model = Model { lengths: vec![0, longest, 3], terms: BTreeMap::new() };
        let postings = vec![Posting { row: 1, frequency: longest }, Posting { row: 2, frequency: 3 }];
        model.terms.insert(b"word".to_vec(), postings);
        assert_eq!(Model::read_back(&model.reader(true)).expect("reads"), model);
    }
}

#[test]
fn text_without_a_token_is_kept_as_such() {
    for lengths in [vec![], vec![0, 0, 0]] {
        let model = Model { lengths, terms: BTreeMap::new() };
        let reader = model.reader(true);
        assert_eq!(Model::read_back(&reader).expect("reads"), model);
        assert_eq!(reader.term(b"a").expect("looks up"), None);
    }
    let (bytes, summary) = segment(|_| Ok(())).expect("writes");
    let reader = SegmentReader::open_mapped(&Bytes::new(bytes), "s", DATABASE, 0, summary.length, summary.crc).expect("opens");
    assert!(TextReader::open(&reader).expect("opens").is_none(), "a segment without text sections");
}

#[test]
fn terms_of_megabytes_are_told_apart() {
    let long = |tail: &str| [vec![b'm'; 3 << 20], tail.as_bytes().to_vec()].concat();
    let mut model = Model { lengths: vec![4, 4], terms: BTreeMap::new() };
    for term in [b"a".to_vec(), long("x"), long("y"), b"z".to_vec()] {
        model.terms.insert(term, (0..2).map(|row| Posting { row, frequency: 1 }).collect());
    }
    assert_eq!(Model::read_back(&model.reader(false)).expect("reads"), model);
    check_merge(&[model.clone(), model], &|_, row| row == 1);
}

#[test]
fn wrong_input_is_refused() {
    let refused = |lengths: Vec<u32>, terms: &[(&str, &[(u32, u32)])]| {
        let result = segment(|out| {
            let mut builder = TextBuilder::begin(out, &analyzer(), lengths)?;
            for (term, postings) in terms {
                let postings: Vec<Posting> = postings.iter().map(|&(row, frequency)| Posting { row, frequency }).collect();
                builder.term(out, term.as_bytes(), &postings)?;
            }
            builder.finish(out)
        });
        assert_eq!(result.expect_err("refused").code(), ErrorCode::InvalidArgument);
    };
    refused(vec![1, 1], &[("b", &[(0, 1)]), ("a", &[(1, 1)])]);
    refused(vec![1, 1], &[("a", &[(0, 1)]), ("a", &[(1, 1)])]);
    refused(vec![1, 1], &[("a", &[(1, 1), (0, 1)])]);
    refused(vec![1, 1], &[("a", &[(0, 1), (2, 1)])]);
    refused(vec![1, 1], &[("a", &[(0, 0), (1, 2)])]);
    refused(vec![0], &[("a", &[])]);
    refused(vec![2], &[("a", &[(0, 1)])]);
    let reader = random_model(5, &[3], 1).reader(true);
    let wrong_map = segment(|out| merge_text(&[(&reader, &[0, 1])], &analyzer(), vec![1, 1], out));
    assert_eq!(wrong_map.expect_err("refused").code(), ErrorCode::InvalidArgument);
}

#[test]
fn merging_drops_terms_whose_rows_all_died() {
    let parts = [random_model(200, &[1, 5, 130], 3), random_model(300, &[1, 200, 128], 4), random_model(10, &[2], 5)];
    check_merge(&parts, &|_, _| false);
    check_merge(&parts, &|_, _| true);
    check_merge(&parts, &|part, row| part == 1 || row % 3 == 0);
    check_merge(&[], &|_, _| false);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_text_comes_back_and_merges_to_what_building_anew_gives(
        parts in prop::collection::vec((0u32..400, prop::collection::vec(0u32..400, 0..8), any::<u64>()), 1..5),
        keep in 1u64..100,
        seed: u64,
    ) {
        let parts: Vec<Model> = parts.iter().map(|(rows, df, seed)| random_model(*rows, df, *seed)).collect();
        for (i, part) in parts.iter().enumerate() {
            prop_assert_eq!(&Model::read_back(&part.reader(i % 2 == 0)).expect("reads"), part);
        }
        check_merge(&parts, &|part, row| (seed ^ (part as u64) << 32 ^ u64::from(row)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xff >= keep);
    }
}

//! The reader against the crate that writes, and against bytes that nobody wrote.

use super::*;
use fst::{IntoStreamer, Map, MapBuilder, Streamer};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Pairs = BTreeMap<Vec<u8>, u64>;

fn encode(pairs: &Pairs) -> Vec<u8> {
    let mut builder = MapBuilder::memory();
    pairs.iter().for_each(|(key, number)| builder.insert(key, *number).unwrap());
    builder.into_inner().unwrap()
}

/// All that the reader says of its bytes.
fn pairs(fst: &Transducer<&[u8]>) -> Result<Vec<(Vec<u8>, u64)>, FormatError> {
    let mut stream = fst.stream();
    let mut pairs = Vec::new();
    while let Some((key, number)) = stream.next()? {
        pairs.push((key.to_vec(), number));
    }
    Ok(pairs)
}

/// Holds the reader against the crate and against the map, for keys that are there and keys that are not.
fn assert_same(expected: &Pairs, probes: &[Vec<u8>]) {
    let bytes = encode(expected);
    let (ours, theirs) = (Transducer::open(&bytes[..]).unwrap(), Map::new(&bytes).unwrap());
    ours.verify().unwrap();
    assert_eq!(ours.len(), expected.len() as u64);
    assert!(pairs(&ours).unwrap().iter().map(|(k, n)| (k, n)).eq(expected.iter()));
    for key in expected.keys().chain(probes) {
        assert_eq!(ours.get(key).unwrap(), theirs.get(key), "{key:?}");
        let theirs = theirs.range().ge(key).into_stream().next().map(|(_, number)| number);
        assert_eq!(ours.first_from(key).unwrap(), theirs, "{key:?}");
        assert_eq!(theirs, expected.range(key.clone()..).next().map(|(_, number)| *number));
    }
}

/// Keys beside the ones that there are: cut, lengthened, one byte off.
fn neighbours(pairs: &Pairs) -> Vec<Vec<u8>> {
    let mut near = vec![vec![], vec![0], vec![255; 3]];
    for key in pairs.keys() {
        near.push([key, &[0][..]].concat());
        if let Some((last, front)) = key.split_last() {
            near.push(front.to_vec());
            near.extend([last.wrapping_sub(1), last.wrapping_add(1)].map(|byte| [front, &[byte]].concat()));
        }
    }
    near
}

/// Few bytes make long shared prefixes and wide states; all of them make states with an index.
fn keys() -> impl Strategy<Value = Pairs> {
    let byte = prop_oneof![3 => prop::sample::select(b"te/o\x00\xff".to_vec()), 1 => any::<u8>()];
    let key = prop_oneof![
        4 => prop::collection::vec(byte.clone(), 0..6),
        1 => prop::collection::vec(byte, 0..3).prop_map(|end| [b"a long prefix that many keys share".to_vec(), end].concat()),
        2 => any::<u8>().prop_map(|byte| vec![byte]),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| vec![a, b, a]),
    ];
    let number = prop_oneof![4 => 0..100u64, 2 => any::<u64>(), 1 => Just(u64::MAX), 1 => Just(0)];
    prop::collection::btree_map(key, number, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_answer_is_that_of_the_crate_which_wrote_it(
        pairs in keys(),
        probes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 0..20),
    ) {
        assert_same(&pairs, &[neighbours(&pairs), probes].concat());
    }

    /// Damage to any bytes: an answer or an address inside, within the steps that are promised, and keys that ascend.
    #[test]
    fn any_bytes_give_an_answer_or_an_address(
        pairs in keys(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = encode(&pairs);
        for (at, byte) in damages {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        try_all(&bytes, &neighbours(&pairs));
    }

    #[test]
    fn bytes_that_nobody_wrote_give_an_answer_or_an_address(nodes in prop::collection::vec(any::<u8>(), 1..600), keys in 1..50u64) {
        try_all(&framed(&nodes, keys), &[vec![], b"te".to_vec(), vec![7; 9]]);
    }
}

/// An fst of these nodes, the last one its root.
fn framed(nodes: &[u8], keys: u64) -> Vec<u8> {
    let root = (HEADER_BYTES + nodes.len() - 1) as u64;
    [&FST_VERSION.to_le_bytes(), &[0; 8][..], nodes, &keys.to_le_bytes(), &root.to_le_bytes(), &[0; 4]].concat()
}

fn try_all(bytes: &[u8], probes: &[Vec<u8>]) {
    let inside = |e: FormatError| assert!(e.offset < bytes.len() as u64, "{e}");
    let fst = match Transducer::open(bytes) {
        Ok(fst) => fst,
        Err(e) => return inside(e),
    };
    for key in probes {
        fst.get(key).map(drop).unwrap_or_else(inside);
        fst.first_from(key).map(drop).unwrap_or_else(inside);
    }
    let (mut stream, mut last) = (fst.stream(), None);
    // A few states can spell more keys than anyone can wait for.
    for _ in 0..2_000 {
        match stream.next() {
            Ok(Some((key, _))) => {
                assert!(key.len() <= FST_KEY_BYTES_MAX && last.is_none_or(|last: Vec<u8>| last[..] < *key));
                last = Some(key.to_vec());
            }
            Ok(None) => break,
            Err(e) => return inside(e),
        }
    }
}

fn map<K: AsRef<[u8]>>(pairs: impl IntoIterator<Item = (K, u64)>) -> Pairs {
    pairs.into_iter().map(|(key, number)| (key.as_ref().to_vec(), number)).collect()
}

#[test]
fn corners_of_the_format_are_read_as_they_were_written() {
    let all = |prefix: &'static [u8]| (0..=255u8).map(move |byte| [prefix, &[byte]].concat());
    let cases = [
        map::<&[u8]>([]),
        map([(b"", 0)]),
        map([(b"", u64::MAX)]),
        map([(&b""[..], 7), (b"a", 3)]),
        map([(vec![b'x'; FST_KEY_BYTES_MAX], 1), (vec![b'x'; FST_KEY_BYTES_MAX - 1], u64::MAX)]),
        map(all(b"").zip(0..)),
        map(all(b"prefix").map(|key| (key, 0))),
        map(all(b"").chain(all(b"\xff")).chain(all(b"t")).zip((0..).map(|n| n << 40))),
        // States of 32, 33, 63, 64 and 255 transitions.
        map([32, 33, 63, 64, 255].into_iter().flat_map(|count: u8| (0..count).map(move |byte| vec![count, byte, 1])).zip(1..)),
        map((0..50_000u64).map(|n| (format!("{n:05}"), n))),
    ];
    for pairs in cases {
        assert_same(&pairs, &neighbours(&pairs));
    }
}

#[test]
fn a_key_longer_than_any_is_refused_where_it_is_walked() {
    let bytes = encode(&map([(vec![b'y'; FST_KEY_BYTES_MAX + 1], 5)]));
    let fst = Transducer::open(&bytes[..]).unwrap();
    assert!(fst.first_from(b"").unwrap_err().what.contains("more than 4096 bytes"));
    assert!(pairs(&fst).unwrap_err().what.contains("more than 4096 bytes"));
    assert_eq!(fst.get(b"y").unwrap(), None);
}

#[test]
fn what_is_wrong_is_said_with_its_address() {
    let refused = |bytes: &[u8]| Transducer::open(bytes).err().map(|e| (e.offset, e.what));
    let sound = encode(&map([("ab", 1), ("ac", 300)]));
    let changed = |at: usize, byte: u8| {
        let mut bytes = sound.clone();
        bytes[at] = byte;
        bytes
    };
    assert_eq!(refused(&sound), None);
    assert_eq!(refused(&sound[..35]), Some((0, "an fst has at least 36 bytes, not 35".into())));
    assert_eq!(refused(&changed(0, 2)), Some((0, "an fst of version 2 and type 0, expected 3 and 0".into())));
    assert_eq!(refused(&changed(8, 1)), Some((0, "an fst of version 3 and type 1, expected 3 and 0".into())));
    let root = sound.len() - 12;
    assert!(refused(&changed(root, 15)).unwrap().1.contains("the root is at 15"));
    assert!(refused(&changed(root, (sound.len() - 20) as u8)).unwrap().1.contains("the root is at"));
    assert!(refused(&changed(root + 7, 255)).unwrap().1.contains("the root is at"));
    assert!(refused(&changed(sound.len() - 20, 0)).unwrap().1.contains("0 keys, and a root with 1 transitions"));
    let checksum = changed(sound.len() - 1, sound[sound.len() - 1] ^ 1);
    assert!(Transducer::open(&checksum[..]).unwrap().verify().unwrap_err().what.contains("its bytes give"));

    let walked = |nodes: &[u8], key: &[u8]| {
        let bytes = framed(nodes, 1);
        let fst = Transducer::open(&bytes[..])?;
        assert_eq!(fst.first_from(key).is_err(), fst.get(key).is_err());
        fst.get(key)
    };
    let said = |nodes: &[u8], key: &[u8]| walked(nodes, key).unwrap_err();
    // A lone `t` to the state before, which is no state.
    assert_eq!(said(&[0xc1], b"t"), FormatError::new(16, "a transition of an fst leads 1 bytes back from byte 16"));
    // A `t` with a target of 1 byte, 0: the end. Then one that leads further back than there are states.
    assert_eq!(walked(&[0x00, 0x10, 0x81], b"t"), Ok(Some(0)));
    assert_eq!(said(&[0x01, 0x10, 0x81], b"t"), FormatError::new(16, "a transition of an fst leads 1 bytes back from byte 16"));
    assert_eq!(said(&[0x90, 0x81], b"t"), FormatError::new(17, "a state of an fst with targets of 9 and outputs of 0 bytes; they have at most 8"));
    assert_eq!(said(&[0x11, 0x81], b"t"), FormatError::new(17, "a state of an fst begins before the first one"));
    // A state that ends no key and has no transitions, under a `t`.
    assert_eq!(said(&[0x00, 0x00, 0x00, 0xc1], b"t"), FormatError::new(18, "a state of an fst that ends no key and leads nowhere"));
    // Two outputs that add up to 2^64.
    let outputs = [&[0xff; 8][..], &[0x00, 0x18, 0x81, 1, 1, 0x11, 0x82]].concat();
    assert!(said(&outputs, b"et").what.contains("add up to more than 64 bits"));
}

/// A state in which every transition leads to the one before, n times: 256^n keys, or none, were the last state to lead nowhere.
#[test]
fn a_few_states_that_spell_more_keys_than_there_is_time_for_hold_nobody_up() {
    let state = |sizes: u8, target: u8| [&[target; 3][..], b"cba", &[sizes, 3]].concat();
    let many = [state(0x10, 0), state(0x10, 1).repeat(200)].concat();
    let bytes = framed(&many, 1);
    let fst = Transducer::open(&bytes[..]).unwrap();
    assert_eq!(fst.first_from(b"b").unwrap(), Some(0));
    let mut stream = fst.stream();
    assert_eq!(stream.next().unwrap(), Some((&[b'a'; 201][..], 0)));
    let dead = [vec![0, 0, 0], state(0x10, 1).repeat(200)].concat();
    let bytes = framed(&dead, 1);
    let fst = Transducer::open(&bytes[..]).unwrap();
    assert!(fst.stream().next().is_err() && fst.first_from(b"b").is_err());
}

/// The index of a state of many transitions is held against the transitions.
#[test]
fn an_index_that_lies_is_found_out() {
    let sound = encode(&map((0..200u8).map(|byte| ([byte, 1], u64::from(byte)))));
    let root = number(&sound, sound.len() - 12);
    let index = root - 2 - INDEX;
    for byte in 0..=255u8 {
        // Another transition, none, and none in another way.
        for (said, right) in [(17, byte == 17), (255, byte >= 200), (200, byte >= 200)] {
            let mut bytes = sound.clone();
            bytes[index + usize::from(byte)] = said;
            let answer = Transducer::open(&bytes[..]).unwrap().get(&[byte, 1]);
            assert_eq!(answer.ok(), right.then_some((byte == 17).then_some(17)), "{byte}, {said}");
        }
    }
}

const INDEX: usize = 256;

fn number(bytes: &[u8], at: usize) -> usize {
    node::number(bytes, at, 8) as usize
}

#[test]
fn the_checksum_is_the_one_of_the_specification() {
    assert_eq!(masked_crc32c(b"123456789"), 0xc78a_b0e5);
    let bytes = encode(&map([("a", 1)]));
    assert_eq!(bytes[bytes.len() - 4..], masked_crc32c(&bytes[..bytes.len() - 4]).to_le_bytes());
}

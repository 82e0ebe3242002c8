//! Tokens, sums, fingerprints, and files of weights that are not whole.

use super::*;
use crate::models::{Purpose, UsageLedger};
use serde::Deserialize;
use std::time::Instant;

const GOLDEN: &str = include_str!("../../../tests/golden/wordpiece.jsonl");

#[derive(Deserialize)]
#[serde(untagged)]
enum Golden {
    Case { text: String, ids: Vec<u32> },
    Digest { every_scalar: String },
}

fn golden() -> impl Iterator<Item = Golden> {
    GOLDEN.lines().map(|line| serde_json::from_str(line).unwrap())
}

/// A file of three tokens (`a`, `##b`, the unknown one) in two dimensions.
fn small() -> Vec<u8> {
    let mut bytes = weights::MAGIC.to_vec();
    for field in [weights::VERSION, 3, 2, 10, 2, 4, 0, 0] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(b"a\n##b\n[U]\n");
    for scale in [0.5f32, 2.0, 1.0] {
        bytes.extend(scale.to_le_bytes());
    }
    bytes.extend([6i8, 0, 0, -2, 0, 0].map(i8::cast_unsigned));
    sealed(bytes)
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// The small file with one change before its checksum is computed.
fn forged(change: impl FnOnce(&mut Vec<u8>)) -> WeightsError {
    let mut bytes = small();
    bytes.truncate(bytes.len() - 4);
    change(&mut bytes);
    StaticEmbedder::from_bytes(sealed(bytes)).unwrap_err()
}

#[test]
fn tokens_are_those_of_the_reference_tokenizer() {
    let embedder = StaticEmbedder::built_in().unwrap();
    let mut cases = 0;
    for golden in golden() {
        if let Golden::Case { text, ids } = golden {
            assert_eq!(embedder.tokens(&text), ids, "{text:?}");
            cases += 1;
        }
    }
    assert!(cases > 400);
}

#[test]
fn every_character_is_treated_as_the_reference_tokenizer_treats_it() {
    let embedder = StaticEmbedder::built_in().unwrap();
    let expected = golden().find_map(|g| match g {
        Golden::Digest { every_scalar } => Some(every_scalar),
        Golden::Case { .. } => None,
    });
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for c in '\0'..=char::MAX {
        for id in embedder.tokens(&format!("a{c}b")).into_iter().chain([0xffff]) {
            for byte in u16::try_from(id).unwrap().to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
    assert_eq!(Some(format!("{hash:016x}")), expected);
}

#[test]
fn a_vector_is_the_scaled_sum_of_its_tokens_vectors() {
    let embedder = StaticEmbedder::from_bytes(small()).unwrap();
    let one = |text| embedder.embed_one(&Call::default(), text, TextRole::Query).unwrap();
    assert_eq!(one("a"), [1.0, 0.0]);
    // 3 and -4 along the axes, whatever the case and the order of words.
    assert_eq!(one("AB b"), one("b ab"));
    assert_eq!(one("ab"), [0.6, -0.8]);
    assert_eq!((one(""), one("?"), one("\u{301}")), (vec![0.0; 2], vec![0.0; 2], vec![0.0; 2]));
    assert_eq!(embedder.tokens("abbbb ab"), [2, 0, 1], "a word of more than four characters is unknown");
}

#[test]
fn the_same_weights_have_the_same_fingerprint_and_others_another() {
    let (a, b) = (StaticEmbedder::from_bytes(small()).unwrap(), StaticEmbedder::from_bytes(small()).unwrap());
    assert_eq!(a.fingerprint(), b.fingerprint());
    assert!(a.fingerprint().starts_with("triune-static-2-v1-"), "{}", a.fingerprint());
    let mut other = small();
    other.truncate(other.len() - 5);
    other.push(1);
    assert_ne!(StaticEmbedder::from_bytes(sealed(other)).unwrap().fingerprint(), a.fingerprint());
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_file_is_an_error() {
    let bytes = small();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            StaticEmbedder::from_bytes(flipped).unwrap_err();
        }
        StaticEmbedder::from_bytes(bytes[..at].to_vec()).unwrap_err();
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let (expected, found) = (bytes.len() as u64, bytes.len() as u64 + 1);
    assert_eq!(StaticEmbedder::from_bytes(longer).unwrap_err(), WeightsError::Length { expected, found });
}

#[test]
fn a_file_with_a_sound_checksum_is_still_checked() {
    let put = |at: usize, value: u32| move |b: &mut Vec<u8>| b[at..at + 4].copy_from_slice(&value.to_le_bytes());
    assert_eq!(forged(|b| b[0] = b'X'), WeightsError::Magic);
    assert_eq!(forged(put(8, 2)), WeightsError::Version { found: 2 });
    for (at, value, field) in [
        (12, 0, "number of tokens"),
        (12, u32::MAX, "number of tokens"),
        (16, 0, "dimension"),
        (16, 65_536, "dimension"),
        (24, 3, "unknown token"),
        (28, 0, "length of a word"),
        (36, 1, "reserved field"),
    ] {
        assert!(matches!(forged(put(at, value)), WeightsError::Field { field: f, .. } if f == field), "{field} {value}");
    }
    assert!(matches!(forged(put(20, u32::MAX)), WeightsError::Length { .. }));
    assert!(matches!(forged(put(50, f32::NAN.to_bits())), WeightsError::Token { token: 0, .. }));
    let vocabulary = |text: &'static [u8; 10]| move |b: &mut Vec<u8>| b[40..50].copy_from_slice(text);
    for (text, token) in
        [(b"a\na\n[UUU]\n", 1), (b"a\n\n##[UU]\n", 1), (b"a\n##b\n[U]]", 2), (b"a\n##b\nc\nd\n", 3), (b"a\n\xff##b\n[U\n", 1)]
    {
        assert!(matches!(forged(vocabulary(text)), WeightsError::Token { token: t, .. } if t == token), "{token}");
    }
}

#[test]
fn damage_to_the_weights_of_the_build_is_found() {
    let step = BUILT_IN.len() / 7;
    for at in (0..BUILT_IN.len()).step_by(step) {
        let mut bytes = BUILT_IN.to_vec();
        bytes[at] ^= 0x10;
        StaticEmbedder::from_bytes(bytes).unwrap_err();
    }
}

#[test]
fn the_weights_of_the_build_fit_in_eight_mebibytes_and_have_256_components() {
    assert!(BUILT_IN.len() <= 8 << 20);
    let embedder = StaticEmbedder::built_in().unwrap();
    assert_eq!(embedder.dimension(), 256);
    let vector = embedder.embed_one(&Call::default(), "A torn tail is dropped when the log is read.", TextRole::Document).unwrap();
    let square: f32 = vector.iter().map(|x| x * x).sum();
    assert!((square - 1.0).abs() < 1e-5, "{square}");
}

#[test]
fn texts_that_mean_the_same_are_nearer_than_others() {
    let embedder = StaticEmbedder::built_in().unwrap();
    let texts = ["how to fix a flat tyre", "repairing a punctured wheel of a bicycle", "the king signed a treaty of peace"];
    let vectors = embedder.embed(&Call::default(), &texts, TextRole::Document).unwrap();
    let cosine = |a: usize, b: usize| vectors[a].iter().zip(&vectors[b]).map(|(x, y)| x * y).sum::<f32>();
    assert!(cosine(0, 1) > cosine(0, 2) + 0.1, "{} {}", cosine(0, 1), cosine(0, 2));
}

#[test]
fn a_call_counts_its_tokens_and_stops_when_it_is_of_no_use() {
    let embedder = StaticEmbedder::from_bytes(small()).unwrap();
    let ledger = UsageLedger::default();
    let call = Call { purpose: Purpose::EMBED_DOCUMENTS, usage: Some(&ledger), ..Call::default() };
    embedder.embed(&call, &["a ab", "", "ab"], TextRole::Document).unwrap();
    assert_eq!(ledger.by_purpose()[&Purpose::EMBED_DOCUMENTS], Usage::of_call(5, 0));
    let late = Call { deadline: Some(Instant::now()), ..call.clone() };
    assert_eq!(embedder.embed(&late, &["a"], TextRole::Document).unwrap_err().kind, ModelErrorKind::TimedOut);
    call.cancellation.cancel();
    assert_eq!(embedder.embed(&call, &["a"], TextRole::Document).unwrap_err().kind, ModelErrorKind::Cancelled);
    assert_eq!(ledger.total().calls, 1);
}

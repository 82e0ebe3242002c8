//! Counts against those of tiktoken, and pieces against the definition.

use super::*;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Counts that tiktoken 0.14.0 gave (`encode_ordinary`).
const COUNTED: &str = include_str!("data/counts.jsonl");

#[derive(Deserialize)]
struct Counted {
    text: String,
    /// How often the text is repeated; once if absent.
    #[serde(default = "once")]
    times: usize,
    tokens: usize,
}

fn once() -> usize {
    1
}

#[test]
fn counts_equal_those_of_tiktoken() {
    let mut lines = 0;
    for line in COUNTED.lines() {
        let counted: Counted = serde_json::from_str(line).unwrap();
        assert_eq!(Cl100k.count(&counted.text.repeat(counted.times)), counted.tokens, "{line}");
        lines += 1;
    }
    assert!(lines > 100, "{lines} lines");
}

#[test]
fn what_looks_like_a_special_token_counts_as_plain_text() {
    // As one token it would count 1.
    assert_eq!(Cl100k.count("<|endoftext|>"), 7);
    assert_eq!(Cl100k.count("<|fim_prefix|>"), 7);
}

#[test]
fn the_vocabulary_is_the_one_that_was_packed() {
    let hash: String = Sha256::digest(PACKED).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, "6bfd43f7b31b50b645b3228413547e662af1ae4801e9b192b9791680a71d650c");
    assert_eq!(RANKS.0.len(), 100_256);
    assert_eq!(RANKS.get(b" the"), Some(279));
    assert_eq!(RANKS.get(b"Hello"), Some(9906));
    for byte in 0..=u8::MAX {
        assert!(RANKS.get(&[byte]).is_some(), "every byte is a token, so every text has a count");
    }
}

/// The definition itself, pair by pair.
fn slowly(piece: &[u8]) -> usize {
    let mut parts: Vec<&[u8]> = piece.chunks(1).collect();
    loop {
        let rank = |i: usize| RANKS.get(&[parts[i], parts[i + 1]].concat());
        let Some((_, at)) = (0..parts.len().saturating_sub(1)).filter_map(|i| Some((rank(i)?, i))).min() else { return parts.len() };
        let start = parts[..at].iter().map(|p| p.len()).sum::<usize>();
        parts[at] = &piece[start..start + parts[at].len() + parts[at + 1].len()];
        parts.remove(at + 1);
    }
}

#[test]
fn pieces_are_put_together_by_the_lowest_rank_first() {
    let mut state = 7_u64;
    let mut next = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let mut scratch = Scratch::default();
    for alphabet in [&b"a"[..], b"ab", b"etaoin", b"abcdefghijklmnopqrstuvwxyz", b"\xe6\x97\xa5\xac\xe8\xaa\x9e", b" \t\n=-/"] {
        for len in 0..80 {
            let piece: Vec<u8> = (0..len).map(|_| alphabet[next(alphabet.len() as u64) as usize]).collect();
            assert_eq!(scratch.count(&RANKS, &piece), slowly(&piece), "{piece:?}");
        }
    }
}

#[test]
fn a_text_without_any_blank_is_counted_too() {
    // By pairs searched one by one these would take 10^11 steps.
    for text in ["a".repeat(1 << 19), "语".repeat(1 << 17), " ".repeat(1 << 19), "=".repeat(1 << 19), "ab".repeat(1 << 18)] {
        let tokens = Cl100k.count(&text);
        assert!(tokens > 1000 && tokens < text.len(), "{tokens}");
    }
}

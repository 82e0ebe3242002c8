//! Every list comes back as it was, from both decoders; damage is an error.

use super::*;
use proptest::prelude::*;

/// Reads a list posting by posting from the words of the specification, without the bit-packing crate.
fn reference_decode(bytes: &[u8], count: usize) -> Vec<Posting> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let unpack = |at: usize, bits: usize, i: usize| -> u32 {
        // Lane i % 4 is a stream of 32-bit words, every fourth word of the block; the lane's values lie in it lowest bits first.
        let (lane, first_bit) = (i % 4, i / 4 * bits);
        (0..bits).map(|b| first_bit + b).enumerate().fold(0, |value, (b, bit)| {
            let lane_word = word(at + (bit / 32 * 4 + lane) * 4);
            value | (lane_word >> (bit % 32) & 1) << b
        })
    };
    let blocks = count / 128;
    let (mut out, mut at, mut next) = (Vec::new(), blocks * 16, 0u32);
    for block in 0..blocks {
        let (row_bits, frequency_bits) = (bytes[block * 16 + 12] as usize, bytes[block * 16 + 13] as usize);
        let mut row = word(block * 16).wrapping_sub(1);
        for i in 0..128 {
            row = row.wrapping_add(unpack(at, row_bits, i)).wrapping_add(1);
            out.push(Posting { row, frequency: unpack(at + row_bits * 16, frequency_bits, i) + 1 });
        }
        at += (row_bits + frequency_bits) * 16;
        next = row + 1;
    }
    let mut varint = || {
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            let byte = bytes[at];
            at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    };
    for _ in 0..count % 128 {
        let gap = varint();
        let row = next + (gap >> 1) as u32;
        let frequency = if gap & 1 == 1 { 1 } else { varint() as u32 + 2 };
        out.push(Posting { row, frequency });
        next = row + 1;
    }
    out
}

fn encode(postings: &[Posting]) -> Vec<u8> {
    let mut out = Vec::new();
    PostingEncoder::default().encode(postings, &mut out);
    out
}

fn check(postings: &[Posting], rows: u32) {
    let bytes = encode(postings);
    let mut decoded = Vec::new();
    decode_list(&bytes, postings.len() as u32, rows, &mut decoded).expect("decodes");
    assert_eq!(decoded, postings);
    assert_eq!(reference_decode(&bytes, postings.len()), postings);
}

/// `count` postings whose gaps and frequencies have the given numbers of bits at most.
fn postings(count: usize, gap_bits: u32, frequency_bits: u32, seed: u64) -> Vec<Posting> {
    let mut state = seed | 1;
    let mut random = move |bits: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as u32 & ((1u64 << bits) - 1) as u32
    };
    let mut next = 0u64;
    let mut out = Vec::new();
    for _ in 0..count {
        let row = next + u64::from(random(gap_bits));
        if row >= 1 << 31 {
            break;
        }
        out.push(Posting { row: row as u32, frequency: random(frequency_bits).saturating_add(1) });
        next = row + 1;
    }
    out
}

#[test]
fn block_edges_decode_as_they_were_written() {
    for count in [1, 2, 127, 128, 129, 255, 256, 257, 1000] {
        for gap_bits in [0, 1, 7, 20] {
            for frequency_bits in [0, 1, 5, 32] {
                check(&postings(count, gap_bits, frequency_bits, count as u64 * 7 + 1), 1 << 31);
            }
        }
    }
}

#[test]
fn every_width_agrees_with_the_scalar_decoder() {
    for bits in 0..=32u32 {
        let frequency = if bits == 0 { 1 } else { 1 + ((1u64 << bits) - 2) as u32 };
        let mut list = postings(300, 3, bits.min(31), 99);
        list[200].frequency = frequency;
        check(&list, 1 << 31);
    }
    for bits in 0..=30u32 {
        let mut list: Vec<Posting> = (0..128).map(|row| Posting { row, frequency: 1 }).collect();
        list[127].row = 127 + ((1u64 << bits) - 1) as u32;
        check(&list, 1 << 31);
    }
}

#[test]
fn the_last_possible_row_and_frequency_survive() {
    let last = (1u32 << 31) - 1;
    check(&[Posting { row: 0, frequency: 1 }, Posting { row: last, frequency: u32::MAX }], 1 << 31);
    let mut list: Vec<Posting> = (0..128).map(|row| Posting { row, frequency: 1 }).collect();
    list[127] = Posting { row: last, frequency: u32::MAX };
    check(&list, 1 << 31);
}

#[test]
fn every_flipped_byte_and_truncation_is_an_error_or_a_valid_list() {
    for count in [3, 128, 131] {
        let list = postings(count, 4, 3, 5);
        let bytes = encode(&list);
        let rows = list[count - 1].row + 1;
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let mut out = Vec::new();
                if decode_list(&damaged, count as u32, rows, &mut out).is_ok() {
                    assert!(out.windows(2).all(|w| w[0].row < w[1].row) && out.iter().all(|p| p.row < rows && p.frequency > 0));
                    assert_eq!(out.len(), count);
                } else {
                    assert!(out.is_empty());
                }
            }
            assert!(decode_list(&bytes[..at], count as u32, rows, &mut Vec::new()).is_err(), "cut at {at}");
        }
        assert!(decode_list(&bytes, count as u32, rows - 1, &mut Vec::new()).is_err(), "a row outside the segment");
    }
}

proptest! {
    #[test]
    fn any_list_round_trips(count in 0usize..600, gap_bits in 0u32..24, frequency_bits in 0u32..=32, seed: u64) {
        check(&postings(count, gap_bits, frequency_bits, seed), 1 << 31);
    }

    #[test]
    fn any_bytes_are_refused_or_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), count in 0u32..300, rows in 0u32..1000) {
        let _ = decode_list(&bytes, count, rows, &mut Vec::new());
    }
}

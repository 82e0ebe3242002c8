//! Bodies of a tombstones file: dead rows with document frequencies, and sets of seqs. What is accepted is written again as the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::format::tombstones::{decode_seqs, decode_tombstones, encode_seqs, encode_tombstones};

fuzz_target!(|bytes: &[u8]| {
    let Some((&items, body)) = bytes.split_first() else { return };
    let items = u64::from(items);
    if let Ok((dead, frequencies)) = decode_tombstones(body, items, 1 << 20) {
        assert!(dead.len() == items && dead.max().is_none_or(|row| row < 1 << 20));
        let again = encode_tombstones(&dead, &frequencies);
        assert_eq!(decode_tombstones(&again, items, 1 << 20), Ok((dead, frequencies)));
    }
    if let Ok(seqs) = decode_seqs(body, items) {
        assert_eq!(decode_seqs(&encode_seqs(&seqs), items), Ok(seqs));
    }
});

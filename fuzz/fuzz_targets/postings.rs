//! Posting lists, and what stands beside a term dictionary.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::format::postings::{PostingEncoder, decode_list};
use triune::format::terms::{TermInfoEntry, TextStatistics};

fuzz_target!(|bytes: &[u8]| {
    let Some(([low, high], list)) = bytes.split_first_chunk::<2>() else { return };
    let count = u32::from(*low) | u32::from(*high) << 8;
    let rows = 1 << 31;
    let mut postings = Vec::new();
    if decode_list(list, count, rows, &mut postings).is_ok() {
        assert_eq!(postings.len(), count as usize);
        assert!(postings.windows(2).all(|pair| pair[0].row < pair[1].row) && postings.iter().all(|p| p.row < rows && p.frequency > 0));
        let mut again = Vec::new();
        PostingEncoder::default().encode(&postings, &mut again);
        let mut read = Vec::new();
        decode_list(&again, count, rows, &mut read).expect("what was written can be read");
        assert_eq!(read, postings);
    } else {
        assert!(postings.is_empty(), "nothing of a refused list is kept");
    }
    let _ = TermInfoEntry::decode(list, 7, rows, u64::from(count));
    if let Ok(statistics) = TextStatistics::decode(list) {
        assert!(statistics.analyzer_name().is_some());
    }
});

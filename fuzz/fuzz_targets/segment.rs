//! The frame of a segment: header, section table and footer. What is accepted is written again as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::format::checksum::crc32;
use triune::format::segment::{SegmentFooter, SegmentHeader, decode_table, encode_table};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = SegmentHeader::decode(bytes) {
        assert!(header.major.get() <= 1);
    }
    if let Ok(footer) = SegmentFooter::decode(bytes) {
        assert_eq!(footer.sealed(), footer, "the checksum of what was accepted is the one it has");
    }
    // The checksum is made to fit, so that the checks behind it are reached.
    let segment_length = bytes.len() as u64 * 16;
    if let Ok(entries) = decode_table(bytes, crc32(bytes), segment_length) {
        assert_eq!(encode_table(&entries), bytes);
        assert!(entries.iter().all(|e| e.offset.get() + e.length.get() <= segment_length));
    }
});

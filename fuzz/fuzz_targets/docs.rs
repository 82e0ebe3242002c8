//! A block of documents: its index entry, its LZ4 bytes, and each body in it. A body that is accepted is written again as the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::format::docs::{DOC_INDEX_ENTRY_BYTES, DocBlock, DocIndexEntry};
use triune::format::document::{decode_body, encode_body};

fuzz_target!(|bytes: &[u8]| {
    body(bytes);
    let Some((entry, stored)) = bytes.split_at_checked(DOC_INDEX_ENTRY_BYTES as usize) else { return };
    let Ok(entry) = DocIndexEntry::decode(entry, u32::MAX >> 1) else { return };
    let Ok(block) = DocBlock::decode(&entry, stored) else { return };
    let rows = entry.rows.get().min(1000);
    for row in entry.first_row.get()..entry.first_row.get() + rows {
        if let Ok(bytes) = block.body(row) {
            body(bytes);
        }
    }
});

fn body(bytes: &[u8]) {
    let Ok(document) = decode_body(bytes, "id".into()) else { return };
    let mut again = Vec::new();
    encode_body(&document, &mut again);
    assert_eq!(decode_body(&again, "id".into()).expect("what was written can be read"), document);
}

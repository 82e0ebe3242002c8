//! The header of a log and the headers of its records, with checksums as they are and with checksums that fit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::format::wal::{RECORD_HEADER_BYTES, RecordHeader, WalHeader};
use triune::{Lsn, Uuid};
use zerocopy::{FromBytes, IntoBytes};

const ID: Uuid = Uuid([3; 16]);

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = WalHeader::decode(bytes) {
        let _ = header.link();
    }
    if let Ok(header) = RecordHeader::decode(bytes, ID, 4096) {
        let _ = (header.understand(), header.end_offset());
    }
    let Some((numbers, payload)) = bytes.split_at_checked(RECORD_HEADER_BYTES) else { return };
    let wild = RecordHeader::read_from_bytes(numbers).expect("the size is right");
    let offset = wild.self_offset.get() >> 8;
    let made = RecordHeader::encode(
        ID,
        offset,
        Lsn(wild.lsn.get()),
        Lsn(wild.durable_lsn.get()),
        wild.previous_header_crc.get(),
        wild.kind,
        payload,
    );
    let read = RecordHeader::decode(made.as_bytes(), ID, offset).expect("what was written can be read");
    assert_eq!(read, made);
    assert!(read.check_payload(ID, payload).is_ok() && read.end_offset() >= offset + bytes.len() as u64);
    let _ = read.understand();
});

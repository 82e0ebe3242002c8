//! Every byte flipped and every cut of a small log: the exact answer, or a located error.

use super::*;
use crate::format::wal::RECORD_MAGIC;
use crate::io::Directory;

/// Five lsns, the last two a group; a witness for all.
fn witnessed() -> (SimDirectory, WalWriter) {
    let (dir, mut writer) = log_of(3);
    group(&mut writer, 4..=5).and_then(|()| writer.sync()).expect("the disk is sound");
    create_witness(&dir).expect("the disk is sound");
    Witness::open(&dir).expect("it is there").record(writer.id(), writer.durable_lsn(), writer.end_offset());
    (dir, writer)
}

fn exact_or_corrupt(dir: &SimDirectory, writer: &WalWriter, what: &str) {
    match recover_from(dir, writer, 0, 0) {
        Ok(recovered) => assert_eq!(lsns(&recovered), [1, 2, 3, 4, 5], "{what}"),
        Err(Error::Corrupt(c)) => assert_eq!(c.file, name(1), "{what}"),
        Err(e) => panic!("{what}: {e}"),
    }
}

#[test]
fn with_a_witness_no_damage_to_one_byte_and_no_cut_loses_a_commit_silently() {
    let (dir, writer) = witnessed();
    let len = bytes_of(&dir, &name(1)).len();
    for at in 0..len {
        for mask in [1, 0x80] {
            edit(&dir, &name(1), |bytes| bytes[at] ^= mask);
            exact_or_corrupt(&dir, &writer, &format!("byte {at}"));
            edit(&dir, &name(1), |bytes| bytes[at] ^= mask);
        }
    }
    let cut = dir.snapshot();
    for shorter in (0..len).rev() {
        edit(&cut, &name(1), |bytes| bytes.truncate(shorter));
        exact_or_corrupt(&cut, &writer, &format!("{shorter} bytes"));
    }
}

#[test]
fn without_a_witness_only_the_last_group_can_be_lost() {
    let (dir, writer) = witnessed();
    dir.remove_file("WITNESS");
    let len = bytes_of(&dir, &name(1)).len();
    for at in 0..len {
        edit(&dir, &name(1), |bytes| bytes[at] ^= 4);
        match recover_from(&dir, &writer, 0, 0) {
            Ok(recovered) => assert!(recovered.last_lsn >= Lsn(3), "byte {at}: {:?}", recovered.last_lsn),
            Err(Error::Corrupt(c)) => assert_eq!(c.file, name(1)),
            Err(e) => panic!("byte {at}: {e}"),
        }
        edit(&dir, &name(1), |bytes| bytes[at] ^= 4);
    }
}

#[test]
fn damage_to_the_witness_is_no_error() {
    let (dir, writer) = witnessed();
    for at in 0..1024 {
        edit(&dir, "WITNESS", |bytes| bytes[at] ^= 1);
        assert_eq!(recover_from(&dir, &writer, 0, 0).expect("it recovers").last_lsn, Lsn(5));
        edit(&dir, "WITNESS", |bytes| bytes[at] ^= 1);
    }
    for len in [0, 100, 600] {
        edit(&dir, "WITNESS", |bytes| bytes.truncate(len));
        assert_eq!(recover_from(&dir, &writer, 0, 0).expect("it recovers").last_lsn, Lsn(5));
    }
}

#[test]
fn evidence_is_found_anywhere_in_a_long_log() {
    // Records larger than a window of the scan, so that headers fall near its edges.
    for shift in [0usize, 8, 16, 24, 32, 40, 48] {
        let (dir, mut writer) = log_of(0);
        let payload = vec![0; (1 << 20) - 4096 - 48 - shift];
        for lsn in 1..=4 {
            writer.append(&[NewRecord { lsn: Lsn(lsn), kind: RECORD_COMMIT, payload: &payload }]).expect("the disk is sound");
        }
        writer.sync().expect("the disk is sound");
        writer.append(&[NewRecord { lsn: Lsn(5), kind: RECORD_COMMIT, payload: b"last" }]).expect("the disk is sound");
        assert_eq!(recover_from(&dir, &writer, 4, 0).expect("it recovers").max_durable, Lsn(4));
        rot_payload(&dir, &writer, 1);
        assert!(corruption(recover_from(&dir, &writer, 0, 0)).what.contains("lsn 1 to 4"), "shift {shift}");
    }
}

#[test]
fn evidence_across_the_edge_of_a_window_is_found() {
    for before in (0..=56).step_by(8) {
        let (dir, writer) = log_of(2);
        let at = 4096 + (1 << 20) - before;
        let header = RecordHeader::encode(writer.id(), at as u64, Lsn(9), Lsn(7), 0, RECORD_COMMIT, b"");
        edit(&dir, &name(1), |bytes| {
            bytes.resize(at, 0);
            bytes.extend_from_slice(header.as_bytes());
        });
        assert!(corruption(recover_from(&dir, &writer, 0, 2)).what.contains("lsn 3 to 7"), "{before} bytes before the edge");
    }
}

#[test]
fn a_record_that_does_not_continue_the_one_before_does_not_count() {
    let (dir, writer) = log_of(2);
    let last = offset_of(&dir, &writer, 2);
    let end = bytes_of(&dir, &name(1)).len();
    let last = RecordHeader::decode(&bytes_of(&dir, &name(1))[last..last + 48], writer.id(), last as u64).expect("it is valid");
    let last_lsn = |lsn, previous| {
        let header = RecordHeader::encode(writer.id(), end as u64, Lsn(lsn), Lsn(2), previous, RECORD_COMMIT, b"");
        edit(&dir, &name(1), |bytes| {
            bytes.truncate(end);
            bytes.extend_from_slice(header.as_bytes());
        });
        recover_from(&dir, &writer, 3, 2).expect("it recovers").tail
    };
    let crc = last.header_crc.get();
    assert_eq!(last_lsn(3, crc), Tail::Clean, "the right one");
    for (lsn, previous) in [(3, crc ^ 1), (3, 0), (4, crc), (2, crc)] {
        assert!(matches!(last_lsn(lsn, previous), Tail::Torn { dropped_records: 1, .. }), "lsn {lsn} after {previous:#x}");
    }
}

#[test]
fn a_tail_full_of_magic_words_and_torn_headers_ends_the_log_quickly() {
    let (dir, writer) = log_of(2);
    edit(&dir, &name(1), |bytes| {
        for _ in 0..1 << 19 {
            bytes.extend_from_slice(&RECORD_MAGIC.to_le_bytes());
            bytes.extend_from_slice(&[0xff; 4]);
        }
    });
    let recovered = recover_from(&dir, &writer, 0, 2).expect("it recovers");
    assert!(matches!(recovered.tail, Tail::Torn { dropped_records: 0, .. }), "{:?}", recovered.tail);
    assert_eq!(lsns(&recovered), [1, 2]);
}

#[test]
fn a_header_that_promises_more_than_the_file_holds_is_no_record() {
    let (dir, writer) = log_of(2);
    let end = bytes_of(&dir, &name(1)).len();
    let mut header = RecordHeader::encode(writer.id(), end as u64, Lsn(3), Lsn(2), 0, RECORD_COMMIT, &vec![7; 8 << 20]);
    edit(&dir, &name(1), |bytes| bytes.extend_from_slice(header.as_bytes()));
    let recovered = recover_from(&dir, &writer, 0, 2).expect("it recovers");
    assert!(matches!(recovered.tail, Tail::Torn { dropped_records: 1, .. }), "{:?}", recovered.tail);
    header.payload_length = u32::MAX.into();
    edit(&dir, &name(1), |bytes| bytes[end..].copy_from_slice(header.as_bytes()));
    assert_eq!(recover_from(&dir, &writer, 0, 2).expect("it recovers").last_lsn, Lsn(2));
}

#[test]
fn a_log_that_a_live_writer_cuts_back_while_it_is_read_is_read_to_its_new_end() {
    let (dir, writer) = log_of(2);
    let len = bytes_of(&dir, &name(1)).len();
    edit(&dir, &name(1), |bytes| bytes.resize(len + 3_000_000, 0xaa));
    let file = dir.open(&name(1)).expect("it is there");
    let mut log = super::super::reader::LogFile::open(&dir, 1).expect("it opens").expect("it is there");
    edit(&dir, &name(1), |bytes| bytes.truncate(len));
    assert_eq!(log.len, len as u64 + 3_000_000);
    let scan = log.scan(writer.id(), writer.end_offset()).expect("it reads");
    assert_eq!((log.len, scan.nonzero_after_end), (file.len().expect("it has one"), false));
}

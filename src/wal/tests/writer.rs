//! Appending: one write a group, fresh blocks, failed writes and syncs.

use super::*;
use crate::io::sim::FailureKind;

#[test]
fn a_group_is_one_write_and_the_first_record_after_a_sync_starts_a_block() {
    let dir = SimDirectory::new();
    let mut writer = create(&dir, 3, 1, None);
    let file = name(3);
    let mut seen = 0;
    assert_eq!(done(&dir, &mut seen), [format!("create {file}"), format!("write {file} 0+4096"), format!("sync {file}")]);
    group(&mut writer, 1..=2).expect("the disk is sound");
    let end = writer.end_offset();
    group(&mut writer, 3..=3).expect("the disk is sound");
    assert_eq!(writer.unsynced_bytes(), writer.end_offset() - 4096);
    writer.sync().expect("the disk is sound");
    writer.sync().expect("the disk is sound");
    group(&mut writer, 4..=4).expect("the disk is sound");
    let expected = [
        format!("write {file} 4096+4096"),
        format!("write {file} {end}+{}", 8192 - end),
        format!("sync {file}"),
        format!("write {file} 8192+4096"),
    ];
    assert_eq!(done(&dir, &mut seen), expected);
    assert_eq!((offset_of(&dir, &writer, 3) as u64, offset_of(&dir, &writer, 4)), (end, 8192));
    assert_eq!((writer.last_lsn(), writer.durable_lsn()), (Lsn(4), Lsn(3)));
}

#[test]
fn a_block_that_holds_synced_bytes_is_never_written_again() {
    let (dir, mut writer) = log_of(3);
    let (synced, mut seen) = (bytes_of(&dir, &name(1)), dir.operations());
    group(&mut writer, 4..=6).and_then(|()| group(&mut writer, 7..=7)).expect("the disk is sound");
    assert_eq!(bytes_of(&dir, &name(1))[..synced.len()], synced);
    for write in done(&dir, &mut seen) {
        let offset: u64 = write.split([' ', '+']).nth(2).and_then(|n| n.parse().ok()).expect("an offset");
        assert!(offset >= synced.len() as u64, "{write}");
    }
}

#[test]
fn a_record_calls_durable_only_what_a_sync_before_it_covered() {
    let dir = SimDirectory::new();
    let mut writer = create(&dir, 1, 6, None);
    let durable = |writer: &WalWriter, lsn| {
        let at = offset_of(&dir, writer, lsn);
        let bytes = bytes_of(&dir, &name(1));
        RecordHeader::decode(&bytes[at..at + 48], writer.id(), at as u64).expect("it is valid").durable_lsn.get()
    };
    group(&mut writer, 6..=7).expect("the disk is sound");
    assert_eq!((durable(&writer, 6), durable(&writer, 7)), (5, 5));
    writer.sync().expect("the disk is sound");
    group(&mut writer, 8..=8).and_then(|()| group(&mut writer, 9..=9)).expect("the disk is sound");
    assert_eq!((durable(&writer, 8), durable(&writer, 9)), (7, 7));
}

#[test]
fn a_failed_write_moves_nothing_and_is_cut_back_before_the_next() {
    for buffered in [false, true] {
        for kept in [0, 1, 47, 60, 2000, 5000] {
            let (dir, mut writer) = log_of(2);
            if buffered {
                group(&mut writer, 3..=3).expect("the disk is sound");
            }
            let (last, before, end) = (writer.last_lsn(), bytes_of(&dir, &name(1)), writer.end_offset());
            let next = last.0 + 1;
            dir.disk_limit(before.len() as u64 + kept);
            assert_eq!(group(&mut writer, next..=next + 40).expect_err("it was made to fail").code(), ErrorCode::DiskFull);
            assert_eq!((writer.last_lsn(), writer.end_offset()), (last, end));
            assert_eq!(group(&mut writer, next..=next).expect_err("not cut back").code(), ErrorCode::Poisoned);
            assert_eq!(writer.sync().expect_err("not cut back").code(), ErrorCode::Poisoned);
            writer.cut_back().expect("the disk is sound");
            dir.disk_limit(u64::MAX);
            assert_eq!(bytes_of(&dir, &name(1)), before, "buffered {buffered}, {kept} bytes");
            assert_eq!((writer.durable_lsn(), writer.unsynced_bytes()), (last, 0));
            let recovered = recover_from(&dir, &writer, 0, 0).expect("it recovers");
            assert_eq!((recovered.last_lsn, recovered.tail), (last, Tail::Clean), "what failed never comes back");
            commit(&mut writer, next..=next + 1);
            let recovered = recover_from(&dir, &writer, 0, 0).expect("it recovers");
            assert_eq!(lsns(&recovered), (1..=next + 1).collect::<Vec<_>>());
        }
    }
}

#[test]
fn cutting_back_leaves_a_synced_block_alone() {
    let (dir, mut writer) = log_of(2);
    let end = bytes_of(&dir, &name(1)).len();
    dir.fail(dir.operations(), FailureKind::Enospc);
    group(&mut writer, 3..=3).expect_err("it was made to fail");
    let mut seen = dir.operations();
    writer.cut_back().expect("the disk is sound");
    assert_eq!(done(&dir, &mut seen), [format!("set_len {} {end}", name(1)), format!("sync {}", name(1))]);
}

#[test]
fn a_failed_sync_or_cut_stops_the_log_for_good() {
    let poisoned = |writer: &mut WalWriter, dir: &SimDirectory| {
        let mut seen = dir.operations();
        assert_eq!(group(writer, 3..=3).expect_err("poisoned").code(), ErrorCode::Poisoned);
        assert_eq!(writer.sync().expect_err("poisoned").code(), ErrorCode::Poisoned);
        assert_eq!(writer.cut_back().expect_err("poisoned").code(), ErrorCode::Poisoned);
        assert!(done(dir, &mut seen).is_empty(), "nothing is tried again");
    };
    let (dir, mut writer) = log_of(1);
    group(&mut writer, 2..=2).expect("the disk is sound");
    dir.fail(dir.operations(), FailureKind::Eio);
    assert_eq!(writer.sync().expect_err("it was made to fail").code(), ErrorCode::Io);
    assert_eq!(writer.durable_lsn(), Lsn(1));
    poisoned(&mut writer, &dir);
    for operation in [0, 1] {
        let (dir, mut writer) = log_of(2);
        dir.fail(dir.operations(), FailureKind::Enospc);
        group(&mut writer, 3..=3).expect_err("it was made to fail");
        dir.fail(dir.operations() + operation, FailureKind::Eio);
        assert_eq!(writer.cut_back().expect_err("it was made to fail").code(), ErrorCode::Io);
        poisoned(&mut writer, &dir);
    }
}

#[test]
#[should_panic(expected = "lsns are contiguous")]
fn a_gap_in_the_lsns_is_a_bug() {
    let (_, mut writer) = log_of(1);
    let _ = group(&mut writer, 3..=3);
}

#[test]
#[should_panic(expected = "at most 8 MiB")]
fn an_oversize_payload_is_a_bug() {
    let (_, mut writer) = log_of(1);
    let payload = vec![0; (8 << 20) + 1];
    let _ = writer.append(&[NewRecord { lsn: Lsn(2), kind: RECORD_COMMIT, payload: &payload }]);
}

#[test]
#[should_panic(expected = "synced before another continues it")]
fn linking_to_an_unsynced_log_is_a_bug() {
    let (_, mut writer) = log_of(1);
    group(&mut writer, 2..=2).expect("the disk is sound");
    writer.link_for_successor();
}

#[test]
fn a_payload_of_8_mib_goes_through() {
    let (dir, mut writer) = log_of(1);
    let payload = vec![0x57; 8 << 20];
    writer.append(&[NewRecord { lsn: Lsn(2), kind: RECORD_COMMIT, payload: &payload }]).expect("the disk is sound");
    writer.sync().expect("the disk is sound");
    let recovered = recover_from(&dir, &writer, 1, 2).expect("it recovers");
    assert!(recovered.records.len() == 1 && recovered.records[0].payload == payload);
}

#[test]
fn a_log_is_created_once() {
    let (dir, _) = log_of(1);
    let again = WalWriter::create(&shared(&dir), DATABASE, 1, Lsn(1), Lsn(0), None);
    assert_eq!(again.expect_err("the name is taken").code(), ErrorCode::Io);
}

#[test]
fn the_witness_alternates_and_the_greater_record_counts() {
    let dir = SimDirectory::new();
    assert!(Witness::open(&dir).is_none() && Witness::read(&dir).unwrap().is_none());
    create_witness(&dir).expect("the disk is sound");
    let mut seen = 0;
    assert_eq!(done(&dir, &mut seen), ["create WITNESS", "write WITNESS 0+1024", "sync WITNESS"]);
    assert!(Witness::read(&dir).unwrap().is_none(), "zeros are no evidence");
    let mut witness = Witness::open(&dir).expect("it is there");
    for lsn in 1..=3 {
        witness.record(Uuid([4; 16]), Lsn(lsn), 4096 * lsn);
    }
    assert_eq!(done(&dir, &mut seen), ["write WITNESS 0+512", "write WITNESS 512+512", "write WITNESS 0+512"]);
    let record = |lsn| WitnessRecord { wal_id: Uuid([4; 16]), durable_lsn: Lsn(lsn), durable_offset: 4096 * lsn };
    assert_eq!(Witness::read(&dir).unwrap(), Some(record(3)));
    // The next process overwrites the record that says less, and does so again after a write that failed.
    let mut witness = Witness::open(&dir).expect("it is there");
    dir.fail(dir.operations(), FailureKind::Eio);
    witness.record(Uuid([4; 16]), Lsn(4), 4096 * 4);
    assert_eq!(done(&dir, &mut seen), ["write WITNESS 512+512"]);
    witness.record(Uuid([4; 16]), Lsn(5), 4096 * 5);
    assert_eq!(done(&dir, &mut seen), ["write WITNESS 512+512"]);
    assert_eq!(Witness::read(&dir).unwrap(), Some(record(5)));
    edit(&dir, "WITNESS", |bytes| bytes[512 + 30] ^= 1);
    assert_eq!(Witness::read(&dir).unwrap(), Some(record(3)));
}

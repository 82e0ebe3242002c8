//! A tail that was never synced, and durable records that are damaged: each evidence alone tells them apart.

use super::*;
use crate::options::limits::COUNTER_MAX;

#[test]
fn a_log_without_records_is_clean() {
    let (dir, writer) = log_of(0);
    let recovered = recover_from(&dir, &writer, 0, 0).expect("it recovers");
    assert_eq!((recovered.records, recovered.tail, recovered.last_lsn), (vec![], Tail::Clean, Lsn(0)));
    assert_eq!((recovered.logs, recovered.leftovers, recovered.max_durable), (vec![1], vec![], Lsn(0)));
}

#[test]
fn a_log_is_unchanged_only_while_its_last_record_is_the_last_one() {
    let (dir, mut writer) = log_of(3);
    let end = |writer: &WalWriter| recover_from(&dir, writer, 0, 0).expect("it recovers").end.expect("nothing follows");
    let before = (end(&writer), dir.read_file(&name(1)).unwrap());
    assert!(is_unchanged(&dir, &before.0).unwrap());
    let payload = payload(4);
    writer.append(&[NewRecord { lsn: Lsn(4), kind: RECORD_COMMIT, payload: &payload }]).unwrap();
    assert!(!is_unchanged(&dir, &before.0).unwrap(), "a record came");
    let after = end(&writer);
    assert!(is_unchanged(&dir, &after).unwrap());
    // The group was taken back, and the log is as long as it was with it.
    let mut bytes = before.1;
    bytes.resize(dir.read_file(&name(1)).unwrap().len(), 0);
    dir.write_file(&name(1), bytes);
    assert!(!is_unchanged(&dir, &after).unwrap(), "its last record is gone");
    // In the last block, without a byte more: what follows an unsynced record.
    let mut bytes = dir.read_file(&name(1)).unwrap();
    *bytes.last_mut().unwrap() = 1;
    dir.write_file(&name(1), bytes);
    assert!(!is_unchanged(&dir, &before.0).unwrap());
}

#[test]
fn records_after_the_applied_lsn_are_replayed_in_order() {
    let (dir, writer) = log_of(5);
    for applied in 0..=5 {
        let recovered = recover_from(&dir, &writer, applied, 0).expect("it recovers");
        assert_eq!(lsns(&recovered), (applied + 1..=5).collect::<Vec<_>>());
        assert_eq!((recovered.last_lsn, &recovered.tail, recovered.max_durable), (Lsn(5), &Tail::Clean, Lsn(4)));
    }
    let first = &recover_from(&dir, &writer, 0, 0).expect("it recovers").records[0];
    assert_eq!((&*first.file, first.offset, first.kind), (&*name(1), 4096 + 48, RECORD_COMMIT));
}

#[test]
fn without_evidence_a_bad_last_record_is_a_torn_tail() {
    let (dir, writer) = log_of(3);
    let at = offset_of(&dir, &writer, 3) as u64;
    rot_payload(&dir, &writer, 3);
    let recovered = recover_from(&dir, &writer, 0, 0).expect("it recovers");
    assert_eq!(lsns(&recovered), [1, 2]);
    assert_eq!(recovered.max_durable, Lsn(2), "the header of the bad record still says so");
    let end = recovered.records[1].offset - 48 + 48 + payload(2).len().next_multiple_of(8) as u64;
    let Tail::Torn { file, offset, bytes, dropped_records } = recovered.tail else { panic!("the tail is torn") };
    assert_eq!((file, offset, bytes, dropped_records), (name(1), end, 4096 + at - end, 1));
}

#[test]
fn each_evidence_alone_makes_a_bad_record_corruption() {
    // HEAD.
    let (dir, writer) = log_of(3);
    rot_header(&dir, &writer, 3);
    assert_eq!(recover_from(&dir, &writer, 0, 2).expect("lsn 3 may be torn").last_lsn, Lsn(2));
    let c = corruption(recover_from(&dir, &writer, 0, 3));
    assert!(c.file == name(1) && c.what.contains("lsn 3 to 3") && c.what.contains("HEAD"), "{c}");
    // WITNESS, whatever log its record names.
    for id in [writer.id(), Uuid([0xee; 16])] {
        let dir = dir.snapshot();
        create_witness(&dir).expect("the disk is sound");
        Witness::open(&dir).expect("it is there").record(id, Lsn(3), 4096 * 4);
        let c = corruption(recover_from(&dir, &writer, 0, 0));
        assert!(c.what.contains("lsn 3 to 3") && c.what.contains("WITNESS"), "{c}");
    }
    // The durable lsn of a later record.
    let (dir, writer) = log_of(5);
    rot_header(&dir, &writer, 2);
    let c = corruption(recover_from(&dir, &writer, 0, 0));
    assert!(c.what.contains("lsn 2 to 4") && c.what.contains("the record at byte"), "{c}");
    assert_eq!(c.offset, offset_of(&dir, &writer, 1) as u64 + 48 + payload(1).len().next_multiple_of(8) as u64);
    // The durable lsn in the header of a record whose own payload is bad.
    let (dir, mut writer) = log_of(2);
    group(&mut writer, 3..=4).expect("the disk is sound");
    rot_header(&dir, &writer, 2);
    rot_payload(&dir, &writer, 3);
    rot_header(&dir, &writer, 4);
    assert!(corruption(recover_from(&dir, &writer, 0, 0)).what.contains("lsn 2 to 2"));
}

#[test]
fn no_evidence_comes_from_a_later_record_of_the_same_group() {
    let (dir, mut writer) = log_of(2);
    group(&mut writer, 3..=6).expect("the disk is sound");
    rot_payload(&dir, &writer, 4);
    let recovered = recover_from(&dir, &writer, 0, 2).expect("never synced");
    assert_eq!(lsns(&recovered), [1, 2, 3]);
    assert!(matches!(recovered.tail, Tail::Torn { dropped_records: 3, .. }), "later valid records are dropped too: {:?}", recovered.tail);
}

#[test]
fn every_verdict_of_evidence_against_the_first_bad_lsn() {
    for bad in 1..=6u64 {
        for head in 0..=6u64 {
            for witness in 0..=6u64 {
                // One group, so that its records are no evidence for each other.
                let (dir, mut writer) = log_of(0);
                group(&mut writer, 1..=6).and_then(|()| writer.sync()).expect("the disk is sound");
                create_witness(&dir).expect("the disk is sound");
                Witness::open(&dir).expect("it is there").record(writer.id(), Lsn(witness), 9000);
                rot_payload(&dir, &writer, bad);
                let outcome = recover_from(&dir, &writer, 0, head);
                let durable = head.max(witness);
                if bad <= durable {
                    let c = corruption(outcome);
                    assert!(c.what.contains(&format!("lsn {bad} to {durable}")), "bad {bad}, HEAD {head}, WITNESS {witness}: {c}");
                } else {
                    let recovered = outcome.expect("it recovers");
                    assert_eq!((recovered.last_lsn, recovered.max_durable), (Lsn(bad - 1), Lsn(durable)));
                }
            }
        }
    }
}

#[test]
fn a_log_cut_short_is_a_torn_tail_or_corruption_by_the_same_rule() {
    let (dir, writer) = log_of(3);
    let third = offset_of(&dir, &writer, 3);
    for len in [third, third + 20, third + 50] {
        let dir = dir.snapshot();
        edit(&dir, &name(1), |bytes| bytes.truncate(len));
        assert_eq!(recover_from(&dir, &writer, 0, 2).expect("it recovers").last_lsn, Lsn(2));
        assert!(corruption(recover_from(&dir, &writer, 0, 3)).what.contains("lsn 3 to 3"));
    }
    // Without its padding it is whole, and clean.
    edit(&dir, &name(1), |bytes| bytes.truncate(third + 48 + payload(3).len()));
    let recovered = recover_from(&dir, &writer, 0, 3).expect("it recovers");
    assert_eq!((recovered.last_lsn, recovered.tail), (Lsn(3), Tail::Clean));
}

#[test]
fn zeros_in_place_of_a_lost_write_are_a_torn_tail() {
    let (dir, writer) = log_of(2);
    edit(&dir, &name(1), |bytes| bytes.resize(bytes.len() + 4096, 0));
    let recovered = recover_from(&dir, &writer, 0, 2).expect("it recovers");
    assert!(matches!(recovered.tail, Tail::Torn { dropped_records: 0, bytes: 4097.., .. }), "{:?}", recovered.tail);
}

#[test]
fn records_of_an_unknown_kind_are_skipped_or_stop_the_open() {
    let with_kind = |kind| {
        let (dir, mut writer) = log_of(2);
        writer.append(&[NewRecord { lsn: Lsn(3), kind, payload: b"new" }]).expect("the disk is sound");
        group(&mut writer, 4..=4).and_then(|()| writer.sync()).expect("the disk is sound");
        (dir, writer)
    };
    let (dir, writer) = with_kind(0x02);
    let recovered = recover_from(&dir, &writer, 0, 4).expect("it recovers");
    assert_eq!((lsns(&recovered), recovered.last_lsn), (vec![1, 2, 4], Lsn(4)));
    let (dir, writer) = with_kind(0x82);
    let e = recover_from(&dir, &writer, 0, 4).expect_err("it is critical");
    assert!(e.code() == ErrorCode::UnsupportedVersion && e.to_string().contains("lsn 3"), "{e}");
    assert!(recover_from(&dir, &writer, 3, 4).is_ok(), "what the manifest holds already needs no replay");
    rot_payload(&dir, &writer, 4);
    assert!(corruption(recover_from(&dir, &writer, 0, 4)).what.contains("lsn 4 to 4"), "damage is said first");
}

#[test]
fn a_record_of_another_log_or_place_does_not_count() {
    // A stale log of the same lsns, laid over the tail: the seed of its checksums is another.
    let (stale, _) = log_of(4);
    let (dir, writer) = log_of(2);
    let tail = bytes_of(&stale, &name(1))[3 * 4096..].to_vec();
    edit(&dir, &name(1), |bytes| bytes.extend_from_slice(&tail));
    let recovered = recover_from(&dir, &writer, 0, 2).expect("it recovers");
    assert_eq!(lsns(&recovered), [1, 2]);
    assert!(matches!(recovered.tail, Tail::Torn { dropped_records: 0, .. }));
    // Its own last record once more, one block further: it names its own offset.
    let (dir, writer) = log_of(3);
    edit(&dir, &name(1), |bytes| bytes.extend_from_within(2 * 4096..));
    assert_eq!(recover_from(&dir, &writer, 0, 3).expect("it recovers").last_lsn, Lsn(3));
}

#[test]
fn an_error_of_the_system_is_never_the_end_of_a_log() {
    let (dir, writer) = log_of(3);
    dir.fail_reads(&name(1), offset_of(&dir, &writer, 3) as u64);
    assert_eq!(recover_from(&dir, &writer, 0, 0).expect_err("it was made to fail").code(), ErrorCode::Io);
}

#[test]
fn the_lsns_of_a_hostile_head_or_log_overflow_nothing() {
    let (dir, writer) = log_of(1);
    assert!(recover_from(&dir, &writer, u64::MAX, 0).is_ok_and(|r| r.last_lsn == Lsn(u64::MAX)));
    assert!(corruption(recover_from(&dir, &writer, u64::MAX, u64::MAX)).what.contains("lsn 2 to 18446744073709551615"));
    assert!(corruption(recover_from(&dir, &create(&dir, 6, COUNTER_MAX + 1, None), 5, 0)).what.contains("at most"));
    let last = create(&dir, 7, COUNTER_MAX, None);
    assert!(corruption(recover_from(&dir, &last, 5, 0)).what.contains("lsn 6 to 9223372036854775806"));
    assert!(recover_from(&dir, &last, u64::MAX, 0).is_ok());
}

//! Which logs are followed, and what the others are.

use super::*;

/// Logs 1 (lsn 1 to 3), 2 (4 to 5) and 4 (6 to 7), each continuing the one before; and their writers.
fn three() -> (SimDirectory, [WalWriter; 3]) {
    let (dir, first) = log_of(3);
    let mut second = create(&dir, 2, 4, Some(first.link_for_successor()));
    commit(&mut second, 4..=5);
    let mut third = create(&dir, 4, 6, Some(second.link_for_successor()));
    commit(&mut third, 6..=7);
    (dir, [first, second, third])
}

#[test]
fn links_are_followed_back_only_as_far_as_needed() {
    let (dir, [_, _, active]) = three();
    let reached: [(u64, &[u64], &[u64]); 8] = [
        (0, &[1, 2, 4], &[]),
        (1, &[1, 2, 4], &[]),
        (2, &[1, 2, 4], &[]),
        (3, &[2, 4], &[1]),
        (4, &[2, 4], &[1]),
        (5, &[4], &[1, 2]),
        (6, &[4], &[1, 2]),
        (7, &[4], &[1, 2]),
    ];
    for (applied, logs, leftovers) in reached {
        let recovered = recover_from(&dir, &active, applied, 0).expect("it recovers");
        assert_eq!(lsns(&recovered), (applied + 1..=7).collect::<Vec<_>>());
        assert_eq!((recovered.logs.as_slice(), recovered.leftovers.as_slice()), (logs, leftovers), "applied {applied}");
        assert_eq!(reachable_logs(&dir, DATABASE, 4, active.id(), Lsn(applied)).expect("they are there"), logs);
        // What is not needed may be gone.
        let gone = dir.snapshot();
        leftovers.iter().for_each(|&sequence| gone.remove_file(&name(sequence)));
        assert_eq!(recover_from(&gone, &active, applied, 0).expect("it recovers").records, recovered.records);
    }
}

#[test]
fn a_log_that_is_needed_and_gone_is_corruption_naming_it_and_who_names_it() {
    let (dir, [_, _, active]) = three();
    for (gone, by) in [(1, name(2)), (2, name(4)), (4, "HEAD".into())] {
        let dir = dir.snapshot();
        dir.remove_file(&name(gone));
        let c = corruption(recover_from(&dir, &active, 0, 0));
        assert!(c.file == name(gone) && c.what.contains("missing") && c.what.contains(&by), "{c}");
    }
}

#[test]
fn a_damaged_header_of_a_named_log_is_corruption_and_of_another_is_not() {
    let (dir, [_, _, active]) = three();
    for sequence in [1, 2, 4] {
        for at in [0, 9, 13, 20, 40, 60, 70, 4095] {
            let dir = dir.snapshot();
            edit(&dir, &name(sequence), |bytes| bytes[at] ^= 1);
            assert_eq!(corruption(recover_from(&dir, &active, 0, 0)).file, name(sequence));
            let needed = recover_from(&dir, &active, 5, 0);
            assert_eq!(needed.is_ok(), sequence != 4, "log {sequence} is a leftover once lsn 5 is applied");
        }
        for len in [0, 100, 4095] {
            let dir = dir.snapshot();
            edit(&dir, &name(sequence), |bytes| bytes.truncate(len));
            assert_eq!(corruption(recover_from(&dir, &active, 0, 0)).file, name(sequence));
        }
    }
}

#[test]
fn a_log_that_another_continues_is_whole_exactly_to_the_link() {
    let (dir, [first, second, active]) = three();
    for (log, lsn) in [(&first, 1), (&first, 3), (&second, 4), (&second, 5)] {
        for rot in [rot_header, rot_payload] {
            let dir = dir.snapshot();
            rot(&dir, log, lsn);
            let c = corruption(recover_from(&dir, &active, 0, 0));
            let lost = format!("lsn {lsn} to {} are lost", if lsn <= 3 { 3 } else { 5 });
            assert!(c.file == name(log.sequence()) && c.what.contains(&lost), "{c}");
        }
    }
    // Cut anywhere before the link's end it is corrupt; bytes after that end never counted.
    let end = first.end_offset() as usize;
    for len in [4096, end - 9, end - 1] {
        let dir = dir.snapshot();
        edit(&dir, &name(1), |bytes| bytes.truncate(len));
        assert_eq!(corruption(recover_from(&dir, &active, 0, 0)).file, name(1));
    }
    edit(&dir, &name(1), |bytes| {
        bytes.truncate(end);
        bytes.extend_from_slice(&[0xaa; 5000]);
    });
    assert_eq!(lsns(&recover_from(&dir, &active, 0, 0).expect("it recovers")), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_record_beyond_the_link_is_void() {
    // The predecessor got another record after its successor was linked to it: nobody acknowledged it there.
    let (dir, mut first) = log_of(3);
    let mut second = create(&dir, 2, 4, Some(first.link_for_successor()));
    commit(&mut first, 4..=4);
    commit(&mut second, 4..=4);
    let recovered = recover_from(&dir, &second, 0, 0).expect("it recovers");
    assert_eq!(lsns(&recovered), [1, 2, 3, 4]);
    assert_eq!(&*recovered.records[3].file, &name(2));
}

#[test]
fn a_link_to_a_log_without_records_is_followed() {
    let (dir, first) = log_of(2);
    let second = create(&dir, 2, 3, Some(first.link_for_successor()));
    let mut third = create(&dir, 3, 3, Some(second.link_for_successor()));
    commit(&mut third, 3..=3);
    let recovered = recover_from(&dir, &third, 0, 0).expect("it recovers");
    assert_eq!((lsns(&recovered), recovered.logs), (vec![1, 2, 3], vec![1, 2, 3]));
}

#[test]
fn a_gap_before_a_log_without_a_link_is_corruption() {
    let dir = SimDirectory::new();
    let mut writer = create(&dir, 5, 8, None);
    commit(&mut writer, 8..=9);
    assert!(recover_from(&dir, &writer, 7, 0).is_ok());
    let c = corruption(recover_from(&dir, &writer, 5, 0));
    assert!(c.file == name(5) && c.what.contains("lsn 6 to 7 are lost"), "{c}");
}

#[test]
fn a_higher_log_is_corruption_when_it_holds_a_record_and_a_leftover_when_not() {
    // A recovery that died before it named its log, and HEAD as it was: nothing is wrong.
    let (dir, active) = log_of(3);
    let mut higher = create(&dir, 9, 4, None);
    let recovered = recover_from(&dir, &active, 0, 0).expect("it recovers");
    assert_eq!((lsns(&recovered), recovered.leftovers), (vec![1, 2, 3], vec![9]));
    for torn in [0, 50, 4096] {
        let dir = dir.snapshot();
        edit(&dir, &name(9), |bytes| bytes.resize(torn, 0));
        assert_eq!(recover_from(&dir, &active, 0, 0).expect("it recovers").leftovers, [9], "a torn creation of {torn} bytes");
    }
    // HEAD rolled back: log 9 took a record, so both slots named it once.
    commit(&mut higher, 4..=4);
    let c = corruption(recover_from(&dir, &active, 0, 0));
    assert!(c.file == name(9) && c.what.contains("HEAD is older"), "{c}");
    // Linked or not makes no difference.
    let (dir, first) = log_of(3);
    let mut second = create(&dir, 2, 4, Some(first.link_for_successor()));
    commit(&mut second, 4..=4);
    assert_eq!(corruption(recover_from(&dir, &first, 0, 0)).file, name(2));
}

#[test]
fn a_lower_log_that_is_not_reached_is_a_leftover_whatever_it_holds() {
    let (dir, _) = log_of(3);
    let mut active = create(&dir, 2, 4, None);
    commit(&mut active, 4..=5);
    let recovered = recover_from(&dir, &active, 3, 3).expect("it recovers");
    assert_eq!((lsns(&recovered), recovered.logs, recovered.leftovers), (vec![4, 5], vec![2], vec![1]));
}

#[test]
fn a_sound_log_that_is_not_the_one_named_is_corruption() {
    let (dir, active) = log_of(2);
    let named = |database, sequence, id| corruption(recover(&dir, database, sequence, id, Lsn(0), Lsn(0), None)).what;
    assert!(named(Uuid([2; 16]), 1, active.id()).contains("the database"));
    assert!(named(DATABASE, 1, Uuid([2; 16])).contains("the identity"));
    dir.write_file(&name(6), bytes_of(&dir, &name(1)));
    assert!(named(DATABASE, 6, active.id()).contains("the sequence"));
}

#[test]
fn a_log_has_records_when_a_byte_follows_its_header() {
    let (dir, mut writer) = log_of(0);
    assert!(has_no_records(&dir, 1).expect("it reads"));
    assert!(has_no_records(&dir, 77).expect("it reads"), "what is not there has none");
    edit(&dir, &name(1), |bytes| bytes.resize(3_000_000, 0));
    assert!(has_no_records(&dir, 1).expect("it reads"));
    edit(&dir, &name(1), |bytes| bytes[2_999_999] = 1);
    assert!(!has_no_records(&dir, 1).expect("it reads"));
    edit(&dir, &name(1), |bytes| bytes.truncate(10));
    assert!(has_no_records(&dir, 1).expect("it reads"));
    commit(&mut writer, 1..=1);
    assert!(!has_no_records(&dir, 1).expect("it reads"));
}

//! HEAD: which slot counts, and the order in which slots are written.

use super::*;
use crate::error::ErrorCode;
use crate::format::head::HeadSlot;
use crate::io::sim::FailureKind;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U64};

const WRITE_0: &str = "write HEAD 0+4096";
const WRITE_1: &str = "write HEAD 4096+4096";
const SYNC: &str = "sync HEAD";

fn publisher(dir: &SimDirectory) -> Publisher {
    Publisher::open(dir, &view(dir)).expect("HEAD opens")
}

/// Changes the slot `index` and seals it again.
fn reseal(dir: &SimDirectory, index: usize, change: impl FnOnce(&mut HeadSlot)) {
    edit(dir, "HEAD", |bytes| {
        let at = index * 4096..(index + 1) * 4096;
        let mut slot = HeadSlot::decode(&bytes[at.clone()]).expect("the slot is valid");
        change(&mut slot);
        slot.seal();
        bytes[at].copy_from_slice(slot.as_bytes());
    });
}

#[test]
fn the_first_state_stands_in_both_slots() {
    let dir = created();
    let view = view(&dir);
    assert_eq!((view.chosen.generation, view.chosen_slot), (Generation(2), 1));
    assert_eq!(view.other, Some(HeadState { generation: Generation(1), ..view.chosen.clone() }));
}

#[test]
fn settling_writes_the_chosen_slot_again_in_place_byte_for_byte() {
    let dir = created();
    let before = bytes_of(&dir, "HEAD");
    let mut seen = dir.operations();
    let mut publisher = publisher(&dir);
    publisher.settle().expect("the disk is sound");
    assert_eq!(done(&dir, &mut seen), [WRITE_1, SYNC]);
    assert_eq!(bytes_of(&dir, "HEAD"), before);
    publisher.settle().expect("the disk is sound");
    assert!(done(&dir, &mut seen).is_empty(), "settled once");
}

#[test]
fn settling_beside_an_invalid_slot_writes_there_with_the_next_generation_but_one() {
    for bad in [0, 1] {
        let dir = created();
        edit(&dir, "HEAD", |bytes| bytes[bad * 4096 + 2000] ^= 1);
        let (generation, manifest, good) = chosen(&dir);
        assert_eq!(good, 1 - bad);
        let kept = bytes_of(&dir, "HEAD")[good * 4096..(good + 1) * 4096].to_vec();
        let mut seen = dir.operations();
        publisher(&dir).settle().expect("the disk is sound");
        assert_eq!(done(&dir, &mut seen), [[WRITE_0, WRITE_1][bad], SYNC]);
        assert_eq!(chosen(&dir), (generation + 2, manifest, bad));
        assert_eq!(bytes_of(&dir, "HEAD")[good * 4096..(good + 1) * 4096], kept);
    }
}

#[test]
fn publishing_writes_the_lower_generation_first_and_then_the_other() {
    let dir = created();
    let mut publisher = publisher(&dir);
    publisher.settle().expect("the disk is sound");
    let mut seen = dir.operations();
    assert_eq!(publisher.publish(&state(2)).expect("the disk is sound"), Generation(4));
    assert_eq!(done(&dir, &mut seen), [WRITE_0, SYNC, WRITE_1, SYNC]);
    assert_eq!(chosen(&dir), (4, 2, 1));
    assert_eq!(view(&dir).other.map(|o| (o.generation, o.manifest_number)), Some((Generation(3), 2)));
    assert_eq!(publisher.current(), &view(&dir).chosen);
}

#[test]
#[should_panic(expected = "settles HEAD before it publishes")]
fn publishing_before_settling_is_a_bug() {
    let dir = created();
    let _ = publisher(&dir).publish(&state(2));
}

#[test]
fn a_failed_write_may_be_tried_again() {
    for (failing, reached) in [(0, 1), (2, 2)] {
        let dir = created();
        let mut publisher = publisher(&dir);
        publisher.settle().expect("the disk is sound");
        dir.fail(dir.operations() + failing, FailureKind::Enospc);
        assert_eq!(publisher.publish(&state(2)).expect_err("it was made to fail").code(), ErrorCode::DiskFull);
        assert!(!publisher.is_poisoned());
        assert_eq!(publisher.current().manifest_number, reached, "write {failing}");
        publisher.publish(&state(3)).expect("the disk is sound");
        assert_eq!(chosen(&dir).1, 3);
        assert_eq!(view(&dir).other.map(|other| other.manifest_number), Some(3));
    }
}

#[test]
fn a_failed_sync_stops_the_publisher_for_good() {
    for failing in [1, 3] {
        let dir = created();
        let mut publisher = publisher(&dir);
        publisher.settle().expect("the disk is sound");
        dir.fail(dir.operations() + failing, FailureKind::Eio);
        assert_eq!(publisher.publish(&state(2)).expect_err("it was made to fail").code(), ErrorCode::Io);
        assert!(publisher.is_poisoned());
        let mut seen = dir.operations();
        assert_eq!(publisher.publish(&state(2)).expect_err("poisoned").code(), ErrorCode::Poisoned);
        assert!(done(&dir, &mut seen).is_empty(), "nothing is tried again");
    }
}

#[test]
fn heads_without_a_valid_slot_are_told_apart() {
    let dir = SimDirectory::new();
    assert_eq!(read_head(&dir, false).expect("it reads"), HeadVerdict::Missing);
    for (bytes, all_zero) in [(Vec::new(), true), (vec![0; 100], true), (vec![0; 8192], true), (vec![9; 8192], false)] {
        dir.write_file("HEAD", bytes);
        assert_eq!(read_head(&dir, false).expect("it reads"), HeadVerdict::NoValidSlot { all_zero });
    }
    // A head cut inside the second slot still has the first.
    let dir = created();
    edit(&dir, "HEAD", |bytes| bytes.truncate(5000));
    assert_eq!(chosen(&dir), (1, 1, 0));
}

#[test]
fn two_slots_of_one_generation_are_one_state_or_a_fork() {
    let dir = created();
    reseal(&dir, 0, |slot| slot.generation = U64::new(2));
    assert_eq!(chosen(&dir), (2, 1, 0), "the same content is no fork");
    reseal(&dir, 0, |slot| slot.manifest_number = U64::new(9));
    let e = read_head(&dir, false).expect_err("a fork");
    assert!(e.code() == ErrorCode::Corrupt && e.to_string().contains("generation 2"), "{e}");
}

#[test]
fn slots_of_two_databases_are_corrupt() {
    let dir = created();
    reseal(&dir, 0, |slot| slot.database = [5; 16]);
    assert_eq!(read_head(&dir, false).expect_err("two databases").code(), ErrorCode::Corrupt);
}

#[test]
fn a_newer_slot_is_never_a_reason_to_fall_back() {
    let code = |dir: &SimDirectory, writing| read_head(dir, writing).map(|_| ()).map_err(|e| e.code());
    let newer = Err(ErrorCode::UnsupportedVersion);
    let changes: [fn(&mut HeadSlot); 2] = [|s| s.major = U16::new(2), |s| s.incompatible = U64::new(1)];
    for change in changes {
        let dir = created();
        reseal(&dir, 1, change);
        assert_eq!((code(&dir, false), code(&dir, true)), (newer, newer), "the chosen slot");
        // Of the lower generation it is not the state, but a writer would overwrite it.
        let dir = created();
        reseal(&dir, 0, change);
        assert_eq!((code(&dir, false), code(&dir, true)), (Ok(()), newer), "the other slot");
    }
    let dir = created();
    reseal(&dir, 1, |slot| slot.read_only_compatible = U64::new(1));
    assert_eq!((code(&dir, false), code(&dir, true)), (Ok(()), newer));
}

#[test]
fn unknown_compatible_features_are_kept_when_publishing() {
    let dir = created();
    reseal(&dir, 1, |slot| slot.compatible = U64::new(0x30));
    let mut publisher = publisher(&dir);
    publisher.settle().expect("the disk is sound");
    publisher.publish(&state(2)).expect("the disk is sound");
    for at in [0, 4096] {
        let slot = HeadSlot::decode(&bytes_of(&dir, "HEAD")[at..at + 4096]).expect("the slot is valid");
        assert_eq!(slot.compatible.get(), 0x30);
    }
}

#[test]
fn an_error_of_the_system_is_not_a_missing_head() {
    let dir = created();
    dir.fail_reads("HEAD", 5000);
    assert_eq!(read_head(&dir, false).expect_err("it was made to fail").code(), ErrorCode::Io);
}

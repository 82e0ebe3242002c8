//! Counting, crashing, and each manner of failing.

use std::io::ErrorKind;
use std::sync::Arc;

use super::{bytes_of, durable_file};
use crate::io::sim::{CrashMode, FailureKind, Operation, SimDirectory};
use crate::io::{Directory, File};

/// A durable file holding "old" with "new" written over it, about to be synced in this manner.
fn about_to_fail(kind: FailureKind) -> (SimDirectory, Arc<dyn File>) {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"old");
    file.write_all_at(0, b"new").expect("written");
    disk.fail(disk.operations(), kind);
    (disk, file)
}

#[test]
fn every_operation_that_changes_or_syncs_is_counted_and_described() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"bytes");
    file.set_len(2).expect("cut");
    file.read_all().expect("read");
    disk.list().expect("listed");
    disk.unlink("a").expect("unlinked");
    disk.sync_parent().expect("synced");
    let trace = disk.trace();
    let lines: Vec<String> = trace.iter().map(Operation::to_string).collect();
    assert_eq!(lines, ["create a", "write a 0+5", "sync a", "sync directory", "set_len a 2", "unlink a", "sync parent"]);
    assert_eq!(trace.iter().filter(|operation| operation.is_sync()).count(), 3);
    assert_eq!(disk.operations(), 7);
}

#[test]
fn a_crash_stops_everything_from_its_operation_on() {
    let disk = SimDirectory::new();
    disk.crash_at(2, CrashMode::Before);
    let file = disk.create_new("a").expect("operation 0");
    file.write_all_at(0, b"one").expect("operation 1");
    assert!(!disk.crashed());
    let error = file.write_all_at(0, b"two").expect_err("operation 2");
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Other, "simulated crash"));
    assert!(disk.crashed());

    file.read_exact_at(0, &mut [0]).expect_err("a dead machine reads nothing");
    file.len().expect_err("a dead machine");
    file.map(1).expect_err("a dead machine");
    file.sync().expect_err("a dead machine");
    disk.list().expect_err("a dead machine");
    disk.open("a").expect_err("a dead machine");
    disk.create_new("a").expect_err("a dead machine");
    disk.sync().expect_err("a dead machine");
    assert_eq!(disk.operations(), 3);
    assert_eq!(bytes_of(&disk.survivors_all(), "a"), b"one");
    assert_eq!(bytes_of(&disk.after_kill(), "a"), b"one");
    disk.after_kill().open("a").expect("a new process on the same disk");
}

#[test]
fn a_crash_during_an_operation_leaves_its_effect_pending() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"one");
    disk.crash_at(disk.operations(), CrashMode::During);
    file.write_all_at(0, b"two").expect_err("a crash");
    assert_eq!(bytes_of(&disk.survivors_all(), "a"), b"two");
    assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"one");
    assert_eq!(bytes_of(&disk.after_kill(), "a"), b"two");

    let disk = SimDirectory::new();
    disk.crash_at(0, CrashMode::During);
    disk.create_new("a").expect_err("a crash");
    assert_eq!(disk.survivors_all().file_names(), ["a"]);
    assert!(disk.survivors_none().file_names().is_empty());
}

#[test]
fn a_crash_during_a_sync_makes_nothing_certain() {
    let (disk, file) = about_to_fail(FailureKind::Truthful);
    disk.crash_at(disk.operations(), CrashMode::During);
    assert_eq!(file.sync().expect_err("a crash").to_string(), "simulated crash");
    assert_eq!(disk.survivor_images(10).count(), 2);
}

#[test]
fn keep_loses_the_bytes_behind_a_cache_that_shows_them() {
    let (disk, file) = about_to_fail(FailureKind::Keep);
    file.sync().expect_err("failed");
    assert_eq!(file.read_all().expect("read"), b"new");
    assert_eq!(bytes_of(&disk.survivors_all(), "a"), b"old");
    file.sync().expect("there is nothing left that it knows of");
    assert_eq!(bytes_of(&disk.survivors_all(), "a"), b"old");
    assert_eq!(bytes_of(&disk.after_kill(), "a"), b"new");
    assert_eq!(bytes_of(&disk.after_kill().survivors_all(), "a"), b"old");

    // What is written to other sectors later is written; the lost bytes stay lost.
    file.write_all_at(600, b"later").expect("written");
    file.sync().expect("synced");
    let durable = bytes_of(&disk.survivors_none(), "a");
    assert_eq!((&durable[..3], &durable[600..]), (&b"old"[..], &b"later"[..]));
}

#[test]
fn revert_takes_the_cache_back_to_the_disk() {
    let (disk, file) = about_to_fail(FailureKind::Revert);
    file.sync().expect_err("failed");
    assert_eq!(file.read_all().expect("read"), b"old");
    file.sync().expect("nothing to do");
    assert_eq!(bytes_of(&disk.survivors_all(), "a"), b"old");
}

#[test]
fn late_lies_first_and_tells_with_the_next_sync() {
    let (disk, file) = about_to_fail(FailureKind::Late);
    file.sync().expect("a lie");
    assert_eq!(file.read_all().expect("read"), b"new");
    assert_eq!(bytes_of(&disk.survivors_all(), "a"), b"old");
    durable_file(&disk, "b", b"the error belongs to the other file");
    file.write_all_at(600, b"later").expect("written");
    file.sync().expect_err("the truth about the one before");
    assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"old");
    file.sync().expect("synced");
    let durable = bytes_of(&disk.survivors_none(), "a");
    assert_eq!((&durable[..3], &durable[600..]), (&b"old"[..], &b"later"[..]));
}

#[test]
fn truthful_loses_nothing() {
    for (kind, reported) in [(FailureKind::Truthful, None), (FailureKind::Eio, None), (FailureKind::Enospc, Some(ErrorKind::StorageFull))] {
        let (disk, file) = about_to_fail(kind);
        let error = file.sync().expect_err("failed");
        assert!(reported.is_none_or(|kind| kind == error.kind()), "{error}");
        assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"old");
        assert_eq!(bytes_of(&disk.survivors_all(), "a"), b"new");
        file.sync().expect("synced");
        assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"new");
    }
}

#[test]
fn skip_is_a_sync_that_is_missing() {
    let (disk, file) = about_to_fail(FailureKind::Skip);
    file.sync().expect("it looks well");
    assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"old");
    assert_eq!(bytes_of(&disk.survivors_all(), "a"), b"new");
}

#[test]
fn names_fail_in_the_same_manners() {
    let failing = |kind: FailureKind| {
        let disk = SimDirectory::new();
        durable_file(&disk, "gone", b"");
        disk.create_new("made").expect("created");
        disk.unlink("gone").expect("unlinked");
        disk.fail(disk.operations(), kind);
        let answered = disk.sync().is_ok();
        (disk, answered)
    };
    let names = |disk: &SimDirectory| (disk.file_names(), disk.survivors_none().file_names(), disk.survivors_all().file_names());
    let (old, new) = (vec!["gone".to_owned()], vec!["made".to_owned()]);

    for (kind, answers, cached, at_most) in [
        (FailureKind::Keep, false, &new, &old),
        (FailureKind::Revert, false, &old, &old),
        (FailureKind::Late, true, &new, &old),
        (FailureKind::Truthful, false, &new, &new),
        (FailureKind::Skip, true, &new, &new),
    ] {
        let (disk, answered) = failing(kind);
        assert_eq!(answered, answers, "{kind:?}");
        assert_eq!(names(&disk), (cached.clone(), old.clone(), at_most.clone()), "{kind:?}");
        assert_eq!(disk.sync().is_ok(), kind != FailureKind::Late, "{kind:?}");
        assert_eq!(&disk.survivors_none().file_names(), at_most, "{kind:?}");
    }
}

#[test]
fn a_parent_that_failed_to_sync_proves_nothing() {
    for kind in FailureKind::REPORTED {
        let disk = SimDirectory::newly_made();
        durable_file(&disk, "a", b"");
        disk.fail(disk.operations(), kind);
        assert_eq!(disk.sync_parent().is_ok(), kind == FailureKind::Late, "{kind:?}");
        assert!(disk.survivors_none().file_names().is_empty(), "{kind:?}");
    }
}

#[test]
fn a_failed_write_has_written_half_and_other_failed_changes_nothing() {
    for kind in [FailureKind::Eio, FailureKind::Enospc, FailureKind::Keep] {
        let disk = SimDirectory::new();
        let file = durable_file(&disk, "a", b"0123");
        disk.fail_from(disk.operations(), kind);
        file.write_all_at(0, b"wxyz").expect_err("failed");
        assert_eq!(file.read_all().expect("read"), b"wx23");
        file.set_len(1).expect_err("failed");
        disk.unlink("a").expect_err("failed");
        disk.create_new("b").expect_err("failed");
        assert_eq!(disk.file_names(), ["a"]);
        assert_eq!(file.len().expect("length"), 4);
    }
}

#[test]
fn a_failure_strikes_its_operation_and_no_other() {
    let disk = SimDirectory::new();
    disk.fail(1, FailureKind::Enospc);
    let file = disk.create_new("a").expect("operation 0");
    assert_eq!(file.write_all_at(0, b"x").expect_err("operation 1").kind(), ErrorKind::StorageFull);
    file.write_all_at(0, b"x").expect("operation 2");
}

#[test]
fn a_full_disk_takes_what_fits_and_has_room_again_after_an_unlink() {
    let disk = SimDirectory::new();
    durable_file(&disk, "ballast", &[1; 10]);
    let file = durable_file(&disk, "a", b"0123");
    disk.disk_limit(16);
    file.write_all_at(0, b"wxyz").expect("no growth");
    let error = file.write_all_at(2, b"abcdef").expect_err("two bytes too many");
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(file.read_all().expect("read"), b"wxabcd");
    assert_eq!(file.write_all_at(100, b"x").expect_err("no room").kind(), ErrorKind::StorageFull);
    assert_eq!(file.set_len(7).expect_err("no room").kind(), ErrorKind::StorageFull);
    assert_eq!(file.len().expect("length"), 6);
    file.sync().expect("what fits can be synced");
    disk.unlink("ballast").expect("unlinked");
    file.write_all_at(6, &[2; 10]).expect("there is room");
    disk.disk_limit(u64::MAX);
    file.write_all_at(6, &[2; 1000]).expect("no limit");
}

#[test]
fn a_sector_that_can_not_be_read_fails_every_read_that_needs_it() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", &[7; 2000]);
    disk.fail_reads("a", 1000);
    file.read_exact_at(0, &mut [0; 512]).expect("before it");
    file.read_exact_at(1024, &mut [0; 900]).expect("after it");
    for (offset, len) in [(511, 2), (512, 1), (1023, 1), (0, 2000)] {
        let error = file.read_exact_at(offset, &mut vec![0; len]).expect_err("unreadable");
        assert_eq!(error.raw_os_error(), Some(5));
    }
    file.map(2000).expect_err("unreadable");
    disk.survivors_all().open("a").expect("opened").read_all().expect_err("a power cut repairs nothing");
    disk.write_file("a", vec![7; 2000]);
    file.read_all().expect("a new file");
}

#[test]
fn calls_that_only_look_are_counted_apart_and_fail_on_request() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"bytes");
    assert_eq!((disk.accesses(), disk.used()), (0, 5));
    disk.fail_access(1, FailureKind::Emfile);
    disk.fail_access(3, FailureKind::Eio);
    disk.list().expect("access 0");
    assert_eq!(disk.open("a").expect_err("access 1").raw_os_error(), Some(24));
    disk.open("a").expect("access 2");
    assert_eq!(file.len().expect_err("access 3").raw_os_error(), Some(5));
    assert_eq!(file.read_all().expect("accesses 4 and 5"), b"bytes");
    assert_eq!((disk.accesses(), disk.operations()), (6, 4));
    disk.fail(4, FailureKind::Emfile);
    assert_eq!(disk.create_new("b").expect_err("operation 4").raw_os_error(), Some(24));
    assert_eq!(disk.file_names(), ["a"]);
}

//! What `FsDirectory` promises, on a real directory.

use std::io::ErrorKind;

use super::{FsDirectory, Locked, OFlags};
use crate::io::{Directory, LockMode};

fn scratch() -> (tempfile::TempDir, FsDirectory) {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let directory = FsDirectory::create(scratch.path().join("db")).expect("a new directory");
    (scratch, directory)
}

#[test]
fn open_wants_a_directory_that_exists() {
    let (scratch, directory) = scratch();
    directory.create_new("file").expect("created");
    assert_eq!(FsDirectory::open(scratch.path().join("none")).expect_err("missing").kind(), ErrorKind::NotFound);
    assert_eq!(FsDirectory::open(directory.path().join("file")).expect_err("a file").kind(), ErrorKind::NotADirectory);
    assert_eq!(FsDirectory::open(directory.path()).expect("a directory").path(), directory.path());
}

#[test]
fn create_makes_the_directories_above_and_takes_one_that_exists() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let path = scratch.path().join("a/b/c");
    let made = FsDirectory::create(&path).expect("made");
    made.create_new("HEAD").expect("created");
    made.sync().expect("synced");
    made.sync_parent().expect("synced");
    let again = FsDirectory::create(&path).expect("taken as it is");
    assert_eq!(again.list().expect("listed"), ["HEAD"]);
    assert_eq!(again.describe(), path.display().to_string());
}

#[test]
fn a_name_is_created_once() {
    let (_scratch, directory) = scratch();
    directory.create_new("once").expect("created").write_all_at(0, b"first").expect("written");
    assert_eq!(directory.create_new("once").expect_err("taken").kind(), ErrorKind::AlreadyExists);
    assert_eq!(directory.open("once").expect("opened").read_all().expect("read"), b"first");
}

#[test]
fn a_missing_file_is_not_found_and_never_created() {
    let (_scratch, directory) = scratch();
    assert_eq!(directory.open("gone").expect_err("missing").kind(), ErrorKind::NotFound);
    assert_eq!(directory.open_writable("gone").expect_err("missing").kind(), ErrorKind::NotFound);
    assert_eq!(directory.unlink("gone").expect_err("missing").kind(), ErrorKind::NotFound);
    assert_eq!(directory.try_lock("gone", LockMode::Shared).expect_err("missing").kind(), ErrorKind::NotFound);
    assert_eq!(directory.try_lock("gone", LockMode::Exclusive).expect_err("missing").kind(), ErrorKind::NotFound);
    assert!(directory.list().expect("listed").is_empty());
}

#[test]
fn no_name_reaches_outside_the_directory() {
    let (_scratch, directory) = scratch();
    for name in ["", ".", "..", "../x", "a/b", "a/", "./a", "/etc/hostname"] {
        assert_eq!(directory.create_new(name).expect_err(name).kind(), ErrorKind::InvalidInput, "{name:?}");
        assert_eq!(directory.unlink(name).expect_err(name).kind(), ErrorKind::InvalidInput, "{name:?}");
    }
}

#[test]
fn bytes_are_read_where_they_were_written() {
    let (_scratch, directory) = scratch();
    let file = directory.create_new("f").expect("created");
    file.write_all_at(3, b"abc").expect("written");
    file.write_all_at(1, b"x").expect("written");
    file.sync().expect("synced");
    assert_eq!(file.read_all().expect("read"), b"\0x\0abc");
    let mut buf = [0; 4];
    assert_eq!(file.read_exact_at(3, &mut buf).expect_err("too short").kind(), ErrorKind::UnexpectedEof);
    file.set_len(2).expect("cut");
    file.set_len(4).expect("extended");
    assert_eq!(directory.open_writable("f").expect("opened").read_all().expect("read"), b"\0x\0\0");
}

#[test]
fn a_file_opened_for_reading_can_not_be_written() {
    let (_scratch, directory) = scratch();
    directory.create_new("f").expect("created");
    let file = directory.open("f").expect("opened");
    file.write_all_at(0, b"x").expect_err("read-only");
    assert_eq!(file.len().expect("length"), 0);
}

#[test]
fn an_unlinked_file_stays_readable_and_mapped() {
    let (_scratch, directory) = scratch();
    let file = directory.create_new("f").expect("created");
    file.write_all_at(0, b"still here").expect("written");
    let mapped = file.map(10).expect("mapped");
    directory.unlink("f").expect("unlinked");
    directory.sync().expect("synced");
    assert!(directory.list().expect("listed").is_empty());
    assert_eq!(file.read_all().expect("read"), b"still here");
    drop(file);
    assert_eq!(&mapped[..], b"still here");
}

#[test]
fn a_map_is_as_long_as_asked_or_refused() {
    let (_scratch, directory) = scratch();
    let file = directory.create_new("f").expect("created");
    assert!(file.map(0).expect("nothing of an empty file").is_empty());
    file.write_all_at(0, b"0123456789").expect("written");
    assert_eq!(&file.map(4).expect("a part")[..], b"0123");
    assert_eq!(&file.map(10).expect("all")[..], b"0123456789");
    let error = file.map(11).expect_err("longer than the file");
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert_eq!(error.to_string(), "f has 10 bytes, 11 were expected");
    assert_eq!(file.map(u64::MAX).expect_err("longer than the file").kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn sub_directories_are_not_files() {
    let (_scratch, directory) = scratch();
    std::fs::create_dir(directory.path().join("sub")).expect("made");
    directory.create_new("f").expect("created");
    assert_eq!(directory.list().expect("listed"), ["f"]);
}

#[test]
fn two_handles_of_one_process_exclude_each_other() {
    let (_scratch, directory) = scratch();
    directory.create_new("LOCK").expect("created");
    let other = FsDirectory::open(directory.path()).expect("opened");

    let exclusive = directory.try_lock("LOCK", LockMode::Exclusive).expect("asked").expect("free");
    assert!(directory.try_lock("LOCK", LockMode::Exclusive).expect("asked").is_none());
    assert!(other.try_lock("LOCK", LockMode::Exclusive).expect("asked").is_none());
    assert!(other.try_lock("LOCK", LockMode::Shared).expect("asked").is_none());
    drop(exclusive);

    let shared = directory.try_lock("LOCK", LockMode::Shared).expect("asked").expect("free");
    let also = other.try_lock("LOCK", LockMode::Shared).expect("asked").expect("shared");
    assert!(other.try_lock("LOCK", LockMode::Exclusive).expect("asked").is_none());
    drop((shared, also));
    assert!(other.try_lock("LOCK", LockMode::Exclusive).expect("asked").is_some());
}

#[test]
fn a_released_lock_is_free_though_a_copy_of_the_handle_is_still_open() {
    let (_scratch, directory) = scratch();
    directory.create_new("LOCK").expect("a file");
    let file = directory.open_here("LOCK", OFlags::RDWR).expect("opened");
    // What a child has between its start and its program.
    let copy = file.try_clone().expect("a copy of the handle");
    file.try_lock().expect("nobody holds the lock");
    drop(Locked { file, directory: directory.handle.clone(), name: "LOCK".into() });
    assert!(directory.try_lock("LOCK", LockMode::Exclusive).expect("locking works").is_some());
    drop(copy);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a user moves a whole directory")]
fn a_directory_that_was_moved_away_is_the_one_that_is_used() {
    let (scratch, directory) = scratch();
    directory.create_new("before").expect("created");
    let (path, moved) = (scratch.path().join("db"), scratch.path().join("moved"));
    std::fs::rename(&path, &moved).expect("moved");
    std::fs::create_dir(&path).expect("another one in its place");
    std::fs::write(path.join("before"), b"another").expect("written");
    directory.create_new("after").expect("created");
    directory.unlink("before").expect("removed");
    directory.sync().expect("synced");
    directory.sync_parent().expect("synced");
    assert_eq!(directory.list().expect("listed"), ["after"]);
    assert!(moved.join("after").is_file() && !moved.join("before").exists());
    assert!(path.join("before").is_file() && !path.join("after").exists());
    let other = FsDirectory::open(&path).expect("opened");
    other.link("linked", &directory.link_source("after").expect("a source")).expect("linked");
    assert!(path.join("linked").is_file());
    directory.unlink("after").expect("removed");
    assert_eq!(directory.remove().expect_err("another one is in its place").kind(), ErrorKind::NotFound);
    assert!(path.is_dir() && moved.is_dir());
}

#[test]
fn a_lock_whose_name_went_or_is_another_files_is_not_in_its_place() {
    let (_scratch, directory) = scratch();
    directory.create_new("LOCK").expect("a file");
    let lock = directory.try_lock("LOCK", LockMode::Exclusive).expect("locking works").expect("free");
    assert!(lock.is_in_place().expect("asked"));
    directory.unlink("LOCK").expect("removed");
    assert!(!lock.is_in_place().expect("asked"));
    directory.create_new("LOCK").expect("another file");
    assert!(!lock.is_in_place().expect("asked"));
}

//! What is durable when, kill and power cut, locks, maps.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use super::{bytes_of, durable_file};
use crate::io::sim::{Chooser, Seeded, SimDirectory};
use crate::io::{Directory, LockMode};

#[test]
fn a_files_sync_keeps_its_bytes_but_not_its_name() {
    let disk = SimDirectory::new();
    let file = disk.create_new("a").expect("created");
    file.write_all_at(0, b"bytes").expect("written");
    file.sync().expect("synced");
    assert!(disk.survivors_none().file_names().is_empty());
    disk.sync().expect("synced");
    assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"bytes");
}

#[test]
fn the_directorys_sync_keeps_names_but_no_bytes() {
    let disk = SimDirectory::new();
    let file = disk.create_new("a").expect("created");
    file.write_all_at(0, b"bytes").expect("written");
    disk.sync().expect("synced");
    assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"");
    assert_eq!(bytes_of(&disk.survivors_all(), "a"), b"bytes");
}

#[test]
fn an_unlinked_name_comes_back_until_the_directory_is_synced() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"bytes");
    disk.unlink("a").expect("unlinked");
    assert_eq!(disk.open("a").expect_err("gone").kind(), ErrorKind::NotFound);
    assert_eq!(file.read_all().expect("an open file stays readable"), b"bytes");
    assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"bytes");
    disk.sync().expect("synced");
    assert!(disk.survivors_none().file_names().is_empty());
}

#[test]
fn a_new_file_of_an_old_name_is_another_file() {
    let disk = SimDirectory::new();
    let old = durable_file(&disk, "a", b"old");
    disk.unlink("a").expect("unlinked");
    disk.create_new("a").expect("created").write_all_at(0, b"new").expect("written");
    assert_eq!(old.read_all().expect("read"), b"old");
    assert_eq!(bytes_of(&disk, "a"), b"new");
    assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"old");
    assert_eq!(bytes_of(&disk.survivors_all(), "a"), b"new");
}

#[test]
fn a_length_is_durable_after_a_sync_only() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"0123456789");
    file.set_len(4).expect("cut");
    assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"0123456789");
    assert_eq!(bytes_of(&disk.survivors_all(), "a"), b"0123");
    file.set_len(6).expect("extended");
    file.sync().expect("synced");
    assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"0123\0\0");
}

#[test]
fn a_newly_made_directory_is_there_after_its_parent_is_synced() {
    let disk = SimDirectory::newly_made();
    durable_file(&disk, "a", b"bytes");
    assert!(disk.survivors_none().file_names().is_empty());
    assert_eq!(disk.survivor_images(10).count(), 2);
    disk.sync_parent().expect("synced");
    assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"bytes");
    assert_eq!(disk.survivor_images(10).count(), 1);
}

#[test]
fn a_kill_loses_nothing_but_a_power_cut_after_it_still_can() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"old");
    file.write_all_at(0, b"new").expect("written");
    disk.create_new("b").expect("created");

    let killed = disk.after_kill();
    assert_eq!(killed.file_names(), ["a", "b"]);
    assert_eq!(bytes_of(&killed, "a"), b"new");
    assert_eq!(killed.operations(), 0);
    assert_eq!(killed.survivors_none().file_names(), ["a"]);
    assert_eq!(bytes_of(&killed.survivors_none(), "a"), b"old");

    killed.open_writable("a").expect("opened").sync().expect("synced");
    assert_eq!(bytes_of(&killed.survivors_none(), "a"), b"new");
    assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"old", "the original is another disk");
}

#[test]
fn handles_share_a_disk_and_snapshots_do_not() {
    let disk = SimDirectory::new();
    let handle = disk.clone();
    durable_file(&handle, "a", b"one");
    assert_eq!(bytes_of(&disk, "a"), b"one");

    let copy = disk.snapshot();
    assert_eq!((copy.image_hash(), copy.operations()), (disk.image_hash(), disk.operations()));
    disk.open_writable("a").expect("opened").write_all_at(0, b"two").expect("written");
    copy.remove_file("a");
    assert_eq!(bytes_of(&disk, "a"), b"two");
    assert!(copy.file_names().is_empty());
    assert_ne!(copy.image_hash(), disk.image_hash());
}

#[test]
fn hashes_tell_names_bytes_and_lengths_apart() {
    let image = |files: &[(&str, &[u8])]| {
        let disk = SimDirectory::new();
        files.iter().for_each(|(name, bytes)| disk.write_file(name, *bytes));
        disk.image_hash()
    };
    let all = [
        image(&[]),
        image(&[("a", b"")]),
        image(&[("a", b"\0")]),
        image(&[("a", b"\0\0")]),
        image(&[("b", b"\0")]),
        image(&[("a", b"b"), ("c", b"")]),
        image(&[("a", b""), ("c", b"b")]),
    ];
    let different: std::collections::BTreeSet<u64> = all.into_iter().collect();
    assert_eq!(different.len(), all.len());
    assert_eq!(image(&[("a", b"x"), ("b", b"y")]), image(&[("b", b"y"), ("a", b"x")]));
}

#[test]
fn damage_is_durable_and_seen_through_open_handles() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"bytes");
    disk.write_file("a", b"rot".to_vec());
    assert_eq!(file.read_all().expect("read"), b"rot");
    assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"rot");
    disk.remove_file("a");
    assert!(disk.survivors_none().file_names().is_empty());
}

#[test]
fn locks_exclude_each_other_as_flock_has_it() {
    let disk = SimDirectory::new();
    durable_file(&disk, "LOCK", b"");
    let other = disk.clone();
    let try_lock = |on: &SimDirectory, mode| on.try_lock("LOCK", mode).expect("asked");

    let exclusive = try_lock(&disk, LockMode::Exclusive).expect("free");
    assert!(try_lock(&other, LockMode::Exclusive).is_none());
    assert!(try_lock(&other, LockMode::Shared).is_none());
    assert!(try_lock(&disk.after_kill(), LockMode::Exclusive).is_some(), "the process that held it is gone");
    drop(exclusive);

    let shared = try_lock(&disk, LockMode::Shared).expect("free");
    let also = try_lock(&other, LockMode::Shared).expect("shared");
    drop(shared);
    assert!(try_lock(&disk, LockMode::Exclusive).is_none(), "one shared lock is left");
    drop(also);
    assert!(try_lock(&disk, LockMode::Exclusive).is_some());
    assert_eq!(disk.try_lock("none", LockMode::Shared).expect_err("missing").kind(), ErrorKind::NotFound);
}

#[test]
fn a_lock_stays_with_a_file_whose_name_was_given_to_another() {
    let disk = SimDirectory::new();
    durable_file(&disk, "LOCK", b"");
    let _held = disk.try_lock("LOCK", LockMode::Exclusive).expect("asked").expect("free");
    disk.unlink("LOCK").expect("unlinked");
    disk.create_new("LOCK").expect("created");
    assert!(disk.try_lock("LOCK", LockMode::Exclusive).expect("asked").is_some());
}

#[test]
fn a_map_checks_the_length_and_keeps_its_bytes() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"0123456789");
    assert_eq!(file.map(11).expect_err("too long").kind(), ErrorKind::UnexpectedEof);
    assert!(file.map(0).expect("nothing").is_empty());
    let mapped = file.map(4).expect("mapped");
    disk.unlink("a").expect("unlinked");
    assert_eq!(&mapped[..], b"0123");
}

#[test]
#[should_panic(expected = "a is changed after it was mapped")]
fn writing_a_mapped_file_is_a_bug() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"0123456789");
    let _mapped = disk.open("a").expect("opened").map(4);
    let _ = file.write_all_at(20, b"x");
}

#[test]
#[should_panic(expected = "a is changed after it was mapped")]
fn truncating_a_mapped_file_is_a_bug() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"0123456789");
    let _mapped = file.map(4);
    let _ = file.set_len(10);
}

#[test]
fn what_a_killed_process_had_mapped_may_be_written_by_the_next() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"0123456789");
    let _mapped = file.map(4);
    for next in [disk.after_kill(), disk.survivors_all()] {
        next.open_writable("a").expect("opened").write_all_at(0, b"x").expect("nobody maps it any more");
    }
}

#[test]
fn calls_that_make_no_sense_are_refused_and_not_counted() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"0123");
    let before = disk.operations();
    assert_eq!(disk.create_new("a").expect_err("taken").kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.unlink("b").expect_err("missing").kind(), ErrorKind::NotFound);
    assert_eq!(disk.open("a").expect("opened").write_all_at(0, b"x").expect_err("read-only").kind(), ErrorKind::PermissionDenied);
    assert_eq!(file.write_all_at(u64::MAX, b"x").expect_err("too far").kind(), ErrorKind::FileTooLarge);
    assert_eq!(file.read_exact_at(3, &mut [0; 2]).expect_err("too short").kind(), ErrorKind::UnexpectedEof);
    assert_eq!(file.read_exact_at(u64::MAX, &mut [0; 2]).expect_err("too far").kind(), ErrorKind::UnexpectedEof);
    file.write_all_at(1 << 40, b"").expect("nothing to write");
    assert_eq!(disk.operations(), before);
}

/// A file of the model: its bytes as read, and as last synced.
type Pair = (Vec<u8>, Vec<u8>);

/// The two views that the promises are about, kept by the plainest means: whole copies.
#[derive(Default)]
struct Model {
    files: Vec<Pair>,
    cached: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
}

impl Model {
    fn durable(&self) -> BTreeMap<String, Vec<u8>> {
        self.durable.iter().map(|(name, &file)| (name.clone(), self.files[file].1.clone())).collect()
    }

    fn cached(&self) -> BTreeMap<String, Vec<u8>> {
        self.cached.iter().map(|(name, &file)| (name.clone(), self.files[file].0.clone())).collect()
    }
}

fn files_of(disk: &SimDirectory) -> BTreeMap<String, Vec<u8>> {
    disk.file_names().into_iter().map(|name| (name.clone(), bytes_of(disk, &name))).collect()
}

#[test]
fn random_runs_agree_with_a_model_of_whole_copies() {
    for seed in 0..300 {
        let mut random = Seeded::new(seed);
        let (mut disk, mut model) = (SimDirectory::new(), Model::default());
        for _ in 0..60 {
            random_step(&mut random, &mut disk, &mut model);
            let (durable, cached) = (model.durable(), model.cached());
            assert_eq!(files_of(&disk.survivors_none()), durable, "seed {seed}: {:?}", disk.trace());
            assert_eq!(files_of(&disk.survivors_all()), cached, "seed {seed}: {:?}", disk.trace());
            assert_eq!(files_of(&disk), cached, "seed {seed}: {:?}", disk.trace());
        }
    }
}

fn random_step(random: &mut Seeded, disk: &mut SimDirectory, model: &mut Model) {
    let name = ["a", "b", "c"][random.pick(3)];
    let Some(&file) = model.cached.get(name) else {
        disk.create_new(name).expect("created");
        model.files.push(Default::default());
        model.cached.insert(name.to_owned(), model.files.len() - 1);
        return;
    };
    let handle = disk.open_writable(name).expect("opened");
    let bytes = &mut model.files[file];
    match random.pick(8) {
        0..3 => {
            let (offset, len) = (random.pick(6000), random.pick(1500));
            let new = vec![u8::try_from(random.pick(256)).expect("a byte"); len];
            handle.write_all_at(offset as u64, &new).expect("written");
            if len > 0 {
                bytes.0.resize(bytes.0.len().max(offset + len), 0);
                bytes.0[offset..offset + len].copy_from_slice(&new);
            }
        }
        3 => {
            let len = random.pick(6000);
            handle.set_len(len as u64).expect("set");
            bytes.0.resize(len, 0);
        }
        4 => {
            handle.sync().expect("synced");
            bytes.1 = bytes.0.clone();
        }
        5 => {
            disk.sync().expect("synced");
            model.durable = model.cached.clone();
        }
        6 => {
            disk.unlink(name).expect("unlinked");
            model.cached.remove(name);
        }
        _ => *disk = disk.after_kill(),
    }
}

//! Manifest files, and what every manifest must be.

use super::*;
use crate::error::{Error, ErrorCode};
use crate::format::checksum::crc32;
use crate::format::manifest::tests::sample;
use crate::format::manifest::{CollectionEntry, Manifest, TombstoneEntry, UnknownKeys};
use crate::ids::{Incarnation, Seq};
use crate::options::Schema;

const NAME: &str = "m-0000000000000005.manifest";

/// A manifest that keeps every invariant.
fn valid() -> Manifest {
    let mut manifest = sample();
    for (i, segment) in manifest.collections[0].segments.iter_mut().enumerate() {
        segment.offset = i as u64 * 8192;
        segment.length = 5000;
    }
    manifest
}

fn written() -> (SimDirectory, HeadState) {
    let dir = SimDirectory::new();
    let (length, crc) = write_manifest(&dir, 5, Uuid([1; 16]), &valid()).expect("the disk is sound");
    assert_eq!(done(&dir, &mut 0), [format!("create {NAME}"), format!("write {NAME} 0+{length}"), format!("sync {NAME}")]);
    let head = HeadState { manifest_number: 5, manifest_length: length, manifest_crc: crc, applied_lsn: Lsn(9), ..state(5) };
    (dir, head)
}

#[test]
fn a_manifest_reads_as_it_was_written() {
    let (dir, head) = written();
    assert_eq!(read_manifest(&dir, &head).expect("it reads"), valid());
    let e = write_manifest(&dir, 5, Uuid([1; 16]), &valid()).expect_err("a name is used once");
    assert_eq!(e.code(), ErrorCode::Io);
}

#[test]
fn a_missing_or_damaged_manifest_is_corrupt_and_names_the_file() {
    let (dir, head) = written();
    let corrupt = |dir: &SimDirectory| match read_manifest(dir, &head) {
        Err(Error::Corrupt(c)) => assert_eq!(c.file, NAME, "{c}"),
        other => panic!("not seen as damage: {other:?}"),
    };
    for at in 0..bytes_of(&dir, NAME).len() {
        let dir = dir.snapshot();
        edit(&dir, NAME, |bytes| bytes[at] ^= 4);
        corrupt(&dir);
    }
    for len in 0..bytes_of(&dir, NAME).len() {
        let dir = dir.snapshot();
        edit(&dir, NAME, |bytes| bytes.truncate(len));
        corrupt(&dir);
    }
    edit(&dir, NAME, |bytes| bytes.push(b' '));
    corrupt(&dir);
    dir.remove_file(NAME);
    corrupt(&dir);
}

#[test]
fn a_sound_manifest_that_is_not_the_one_named_is_corrupt() {
    let (dir, head) = written();
    let swapped = [
        HeadState { database: Uuid([4; 16]), ..head.clone() },
        HeadState { manifest_crc: head.manifest_crc ^ 1, ..head.clone() },
        HeadState { applied_lsn: Lsn(8), ..head.clone() },
    ];
    for head in swapped {
        assert_eq!(read_manifest(&dir, &head).expect_err("swapped").code(), ErrorCode::Corrupt, "{head:?}");
    }
    dir.write_file("m-0000000000000006.manifest", bytes_of(&dir, NAME));
    let other = HeadState { manifest_number: 6, ..head };
    assert_eq!(crc32(&bytes_of(&dir, NAME)), other.manifest_crc);
    assert!(read_manifest(&dir, &other).expect_err("another number").to_string().contains("the number"));
}

#[test]
fn a_manifest_that_breaks_an_invariant_is_never_written() {
    let dir = SimDirectory::new();
    let broken = Manifest { next_incarnation: Incarnation(0), ..valid() };
    let e = write_manifest(&dir, 5, Uuid([1; 16]), &broken).expect_err("broken");
    assert!(e.code() == ErrorCode::Corrupt && e.to_string().contains(NAME), "{e}");
    assert_eq!(dir.operations(), 0);
}

#[test]
fn every_invariant_is_checked() {
    check(&valid()).expect("the sample is valid");
    check(&Manifest::default()).expect("so is the first manifest");
    let broken = |what: &str, change: &dyn Fn(&mut Manifest)| {
        let mut manifest = valid();
        change(&mut manifest);
        let e = check(&manifest).expect_err(what);
        assert!(e.to_string().contains(what), "{what}: {e}");
    };
    let twin = |name: &str, incarnation| CollectionEntry::empty(name, Incarnation(incarnation), Schema::default());
    broken("two collections are named", &|m| m.collections.push(twin("main", 0)));
    broken("two collections have incarnation 1", &|m| m.collections.push(twin("b", 1)));
    broken("is not one of 1 to below the next", &|m| m.collections.push(twin("b", 2)));
    broken("is empty", &|m| m.collections.push(twin("", 0)));
    broken("dimension is at least 1", &|m| m.collections[0].schema.dimension = Some(0));
    broken("no dimension is fixed", &|m| m.collections[0].schema.dimension = None);
    broken("17 documents are counted", &|m| m.collections[0].documents = 17);
    broken("vectors are counted", &|m| m.collections[0].vectors = 9);
    broken("tokens are counted", &|m| m.collections[0].tokens = u64::MAX);
    broken("do not lie below the next one", &|m| m.next_seq = Seq(29));
    broken("at or below the last one before it", &|m| m.collections[0].segments.swap(0, 1));
    broken("at or below the last one before it", &|m| m.collections[0].segments[0].last_seq = Seq(20));
    broken("do not lie below", &|m| m.collections[0].segments[0].last_seq = Seq(9));
    broken("it has 0 rows", &|m| m.collections[0].segments[1].rows = 0);
    broken("but only the seqs", &|m| m.collections[0].segments[1].rows = 11);
    broken("it has 2147483649 rows", &|m| m.collections[0].segments[1].rows = (1 << 31) + 1);
    broken("vectors in 10 rows", &|m| m.collections[0].segments[1].vectors = 11);
    broken("no multiple of 4,096", &|m| m.collections[0].segments[1].offset = 8193);
    broken("share bytes", &|m| m.collections[0].segments[1].offset = 4096);
    broken("are named at byte", &|m| m.collections[0].segments[1].length = u64::MAX);
    broken("rows are dead", &|m| m.collections[0].segments[0].tombstones.as_mut().expect("it has some").dead = 11);
    broken("rows are dead", &|m| m.collections[0].segments[0].tombstones.as_mut().expect("it has some").dead = 0);
    broken("tombstones of file 4 are named twice", &|m| {
        let same = TombstoneEntry { file: 4, offset: 100, length: 8, crc: 0, dead: 1, unknown: UnknownKeys::new() };
        m.collections[0].segments[1].tombstones = Some(same);
        m.collections[0].documents = 17;
    });
}

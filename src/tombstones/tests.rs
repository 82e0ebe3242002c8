//! What files of tombstones promise: what was written is what is read, and damage is never a wrong answer.

use super::{TombstonesPart, TombstonesReader, TombstonesWriter};
use crate::error::{Error, ErrorCode, Result};
use crate::format::tombstones::{decode_seqs, decode_tombstones, encode_seqs, encode_tombstones};
use crate::ids::Uuid;
use crate::io::Directory;
use crate::io::sim::{FailureKind, SimDirectory};
use proptest::prelude::*;
use roaring::{RoaringBitmap, RoaringTreemap};

const DATABASE: Uuid = Uuid([3; 16]);
const ROWS: u32 = 200_000;

const NAME: &str = "d-0000000000000005.tombstones";

/// One sparse set with terms, one dense one, one of seqs.
fn sample() -> (RoaringBitmap, Vec<(u32, u32)>, RoaringBitmap, RoaringTreemap) {
    let sparse: RoaringBitmap = [0, 7, 65_536, 199_999].into_iter().collect();
    let dense: RoaringBitmap = (0..50_000).map(|i| i * 3).collect();
    (sparse, vec![(0, 4), (1, 1), (300, 2), (u32::MAX, 1)], dense, [1, u64::from(u32::MAX) + 9, u64::MAX].into_iter().collect())
}

fn write(dir: &dyn Directory) -> Result<[TombstonesPart; 3]> {
    let (sparse, terms, dense, seqs) = sample();
    let mut writer = TombstonesWriter::create(dir, DATABASE, 5)?;
    let parts = [writer.add_tombstones(&sparse, &terms)?, writer.add_tombstones(&dense, &[])?, writer.add_dying_seqs(&seqs)?];
    writer.finish()?;
    Ok(parts)
}

/// Reads all three parts and compares: equal, or the first error.
fn check(dir: &dyn Directory, parts: [TombstonesPart; 3]) -> Result<()> {
    let (sparse, terms, dense, seqs) = sample();
    let reader = TombstonesReader::open(dir, DATABASE, 5)?;
    assert_eq!(reader.tombstones(parts[0], ROWS)?, (sparse, terms));
    assert_eq!(reader.tombstones(parts[1], ROWS)?, (dense, vec![]));
    assert_eq!(reader.dying_seqs(parts[2])?, seqs);
    Ok(())
}

#[test]
fn what_was_written_is_what_is_read() {
    let dir = SimDirectory::new();
    let parts = write(&dir).expect("writes");
    assert_eq!(parts[0].offset, TombstonesPart::FIRST_OFFSET);
    assert!(parts.iter().all(|p| p.offset.is_multiple_of(64)));
    check(&dir, parts).expect("reads");
}

#[test]
fn any_flipped_byte_and_any_cut_is_damage_or_the_exact_answer() {
    let dir = SimDirectory::new();
    let parts = write(&dir).expect("writes");
    let bytes = dir.read_file(NAME).expect("is there");
    let covered = 64 + parts.iter().map(|p| p.length).sum::<u64>();
    // The dense body is long and all alike: a byte of it in every 97 stands for the rest.
    let dense = parts[1].offset as usize + 64..(parts[1].offset + parts[1].length) as usize;
    let mut exact = 0;
    for at in (0..bytes.len()).filter(|at| !dense.contains(at) || at.is_multiple_of(97)) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        dir.write_file(NAME, flipped);
        match check(&dir, parts) {
            Ok(()) => exact += 1,
            Err(Error::Corrupt(c)) => assert!(c.file == NAME && c.offset < bytes.len() as u64, "byte {at}: {c}"),
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
    assert_eq!(exact, bytes.len() as u64 - covered, "only padding is covered by nothing");
    for length in (0..bytes.len()).rev().filter(|at| !dense.contains(at) || at.is_multiple_of(97)) {
        dir.write_file(NAME, &bytes[..length]);
        let error = check(&dir, parts).expect_err("something is missing");
        assert_eq!(error.code(), ErrorCode::Corrupt, "{length}: {error}");
    }
}

#[test]
fn an_envelope_under_another_name_is_damage() {
    let dir = SimDirectory::new();
    let parts = write(&dir).expect("writes");
    let code = |r: Result<()>| r.expect_err("refused").code();
    assert_eq!(code(TombstonesReader::open(&dir, Uuid([4; 16]), 5).map(|_| ())), ErrorCode::Corrupt, "another database");
    assert_eq!(code(TombstonesReader::open(&dir, DATABASE, 6).map(|_| ())), ErrorCode::Corrupt, "no such file");
    let reader = TombstonesReader::open(&dir, DATABASE, 5).expect("opens");
    let swapped = TombstonesPart { crc: parts[1].crc, ..parts[0] };
    assert_eq!(code(reader.tombstones(swapped, ROWS).map(|_| ())), ErrorCode::Corrupt, "another checksum");
    assert_eq!(code(reader.dying_seqs(parts[0]).map(|_| ())), ErrorCode::Corrupt, "another kind");
    assert_eq!(code(reader.tombstones(parts[0], 199_999).map(|_| ())), ErrorCode::Corrupt, "a row that the segment has not");
    for part in [
        TombstonesPart { offset: u64::MAX, ..parts[0] },
        TombstonesPart { length: u64::MAX, ..parts[0] },
        TombstonesPart { length: parts[0].length - 1, ..parts[0] },
        TombstonesPart { length: 3, ..parts[0] },
        TombstonesPart { offset: 0, ..parts[0] },
    ] {
        assert_eq!(code(reader.tombstones(part, ROWS).map(|_| ())), ErrorCode::Corrupt, "{part:?}");
    }
}

#[test]
fn a_file_is_never_written_over() {
    let dir = SimDirectory::new();
    write(&dir).expect("writes");
    assert!(TombstonesWriter::create(&dir, DATABASE, 5).is_err());
}

#[test]
fn a_finished_file_survives_a_power_cut_and_an_unfinished_one_is_never_misread() {
    let dir = SimDirectory::new();
    let parts = write(&dir).expect("writes");
    dir.sync().expect("syncs the name");
    check(&dir.survivors_none(), parts).expect("nothing was left unsynced");

    let dir = SimDirectory::new();
    let (sparse, terms, ..) = sample();
    let mut writer = TombstonesWriter::create(&dir, DATABASE, 5).expect("creates");
    let part = writer.add_tombstones(&sparse, &terms).expect("writes");
    dir.sync().expect("syncs the name");
    for image in dir.survivor_images(64) {
        match TombstonesReader::open(&image, DATABASE, 5).and_then(|reader| reader.tombstones(part, ROWS)) {
            Ok(found) => assert_eq!(found, (sparse.clone(), terms.clone())),
            Err(error) => assert_eq!(error.code(), ErrorCode::Corrupt, "{error}"),
        }
    }
}

#[test]
fn a_full_or_failing_disk_is_reported_as_what_it_is() {
    let (sparse, terms, dense, _) = sample();
    for (kind, code) in [(FailureKind::Enospc, ErrorCode::DiskFull), (FailureKind::Eio, ErrorCode::Io)] {
        let dir = SimDirectory::new();
        let mut writer = TombstonesWriter::create(&dir, DATABASE, 5).expect("creates");
        dir.fail(dir.operations(), kind);
        assert_eq!(writer.add_tombstones(&dense, &[]).expect_err("fails").code(), code);
        // What a failed write left behind is written over: nobody was told of it.
        let part = writer.add_tombstones(&sparse, &terms).expect("writes");
        assert_eq!(part.offset, TombstonesPart::FIRST_OFFSET);
        dir.fail(dir.operations(), kind);
        assert_eq!(writer.finish().expect_err("fails").code(), code);
        let reader = TombstonesReader::open(&dir, DATABASE, 5).expect("opens");
        assert_eq!(reader.tombstones(part, ROWS).expect("reads"), (sparse.clone(), terms.clone()));
        dir.fail_reads(NAME, part.offset);
        assert_eq!(reader.tombstones(part, ROWS).expect_err("fails").code(), ErrorCode::Io, "an unreadable disk is not damage");
    }
}

#[test]
fn hostile_bodies_that_pass_their_checksums_are_refused() {
    let dead: RoaringBitmap = (10..20).collect();
    let terms = [(3, 1), (9, 10)];
    let good = encode_tombstones(&dead, &terms);
    assert_eq!(decode_tombstones(&good, 10, 20).expect("decodes"), (dead, terms.to_vec()));
    assert!(decode_tombstones(&good, 9, 20).is_err(), "another number of rows");
    assert!(decode_tombstones(&good, 10, 19).is_err(), "a row too many");
    assert!(decode_tombstones(&[&good[..], &[0]].concat(), 10, 20).is_err(), "bytes after the end");
    let more_than_the_dead = encode_tombstones(&(10..20).collect(), &[(3, 11)]);
    assert!(decode_tombstones(&more_than_the_dead, 10, 20).is_err(), "a term in more dead rows than there are");
    let past_the_last = [encode_tombstones(&(10..20).collect(), &[(u32::MAX, 1)]), vec![0, 1]].concat();
    let mut past_the_last = past_the_last;
    past_the_last[4] = 2;
    assert!(decode_tombstones(&past_the_last, 10, 20).is_err(), "a term after the last");
    let seqs = encode_seqs(&[5, 1 << 40].into_iter().collect());
    assert!(decode_seqs(&seqs, 3).is_err(), "another number of seqs");
    let mut twice = seqs.clone();
    twice.copy_within(8..8 + (seqs.len() - 8) / 2, 8 + (seqs.len() - 8) / 2);
    assert!(decode_seqs(&twice, 2).is_err(), "a part twice");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn bodies_come_back_and_no_bytes_upset_the_decoders(
        rows in proptest::collection::btree_set(0u32..300_000, 1..300),
        seqs in proptest::collection::btree_set(any::<u64>(), 0..100),
        ordinals in proptest::collection::btree_set(any::<u32>(), 0..100),
        flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
    ) {
        let dead: RoaringBitmap = rows.iter().copied().collect();
        let terms: Vec<(u32, u32)> = ordinals.iter().map(|o| (*o, o % rows.len() as u32 + 1)).collect();
        let set: RoaringTreemap = seqs.iter().copied().collect();
        let (mut a, mut b) = (encode_tombstones(&dead, &terms), encode_seqs(&set));
        prop_assert_eq!(decode_tombstones(&a, dead.len(), 300_000), Ok((dead.clone(), terms)));
        prop_assert_eq!(decode_seqs(&b, set.len()), Ok(set.clone()));
        for (at, value) in flips {
            let (in_a, in_b) = (at % a.len(), at % b.len());
            a[in_a] = value;
            b[in_b] = value;
            if let Ok((dead, _)) = decode_tombstones(&a, dead.len(), 300_000) {
                prop_assert!(dead.max() < Some(300_000));
            }
            let _ = decode_seqs(&b, set.len());
        }
    }
}

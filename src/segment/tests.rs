//! What the container promises: sections come back as they were written, where the specification says, and damage is never handed out.

use super::memory::{DATABASE, FILE, MODES, MemoryFile, Mode, open_segment, write_segment};
use super::{SegmentReader, SegmentSummary, SegmentWriter};
use crate::error::{Error, ErrorCode, Result};
use crate::format::segment::{BLOCK_BYTES, SECTION_PAGE_THRESHOLD, SectionEntry, SectionKind, SegmentFooter};
use crate::ids::Uuid;
use crate::io::sim::SimDirectory;
use crate::io::{Bytes, Directory};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use zerocopy::FromBytes;

/// The segment of most tests starts here in its file.
const START: u64 = 2 * BLOCK_BYTES as u64;

/// Bytes that differ from block to block and from `seed` to `seed`.
fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|i| ((i * 31) ^ (i >> 8) ^ (seed * 101)) as u8).collect()
}

/// Small sections, an empty one, a streamed one, and one that ends inside its second block.
fn contents() -> Vec<(SectionKind, Vec<u8>)> {
    vec![
        (SectionKind::Docs, bytes(9_000, 1)),
        (SectionKind::Ids, bytes(100, 2)),
        (SectionKind::Seqs, Vec::new()),
        (SectionKind::Sources, bytes(BLOCK_BYTES, 3)),
        (SectionKind::IdMap, bytes(BLOCK_BYTES + 1, 4)),
    ]
}

fn write(start: u64, contents: &[(SectionKind, Vec<u8>)]) -> (Vec<u8>, SegmentSummary) {
    write_segment(start, |out| {
        for (i, (kind, bytes)) in contents.iter().enumerate() {
            if *kind == SectionKind::Docs {
                out.begin(*kind)?;
                for part in bytes.chunks(777) {
                    out.write(part)?;
                }
                assert_eq!(out.position(), bytes.len() as u64);
                out.end(i as u64, 7)?;
            } else {
                out.section(*kind, i as u64, 7, bytes)?;
            }
        }
        Ok(())
    })
    .expect("writes")
}

/// Reads every byte of every section, and compares: equal, or the first error.
fn check(reader: &SegmentReader, contents: &[(SectionKind, Vec<u8>)]) -> Result<()> {
    for (i, (kind, bytes)) in contents.iter().enumerate() {
        let section = reader.require(*kind)?;
        assert_eq!((section.len(), section.items(), section.aux()), (bytes.len() as u64, i as u64, 7));
        assert_eq!(&*section.read(0..section.len())?, &bytes[..]);
    }
    Ok(())
}

#[test]
fn sections_come_back_as_they_were_written() {
    let contents = contents();
    for start in [0, START] {
        let (file, summary) = write(start, &contents);
        assert_eq!((summary.offset, summary.offset + summary.length), (start, file.len() as u64));
        for mode in MODES {
            let reader = open_segment(file.clone(), summary, mode).expect("opens");
            check(&reader, &contents).expect("reads");
            for (kind, bytes) in &contents {
                let section = reader.require(*kind).expect("is there");
                assert_eq!(section.whole().expect("reads"), &bytes[..]);
                assert_eq!(&*section.whole_bytes().expect("reads"), &bytes[..]);
            }
            check(&reader, &contents).expect("reads the same once all was asked for");
            assert!(reader.section(SectionKind::Terms).is_none());
            let missing = reader.require(SectionKind::Terms).expect_err("is not there");
            assert!(missing.to_string().contains("Terms"), "{missing}");
        }
    }
}

#[test]
fn a_segment_without_sections_opens() {
    let (file, summary) = write(0, &[]);
    for mode in MODES {
        assert_eq!(open_segment(file.clone(), summary, mode).expect("opens").entries().count(), 0);
    }
}

#[test]
fn bytes_outside_a_section_are_refused_not_read() {
    let (file, summary) = write(START, &contents());
    #[allow(clippy::reversed_empty_ranges, reason = "a reversed range is what is tested")]
    let outside: [Range<u64>; 5] = [100..101, 0..101, 99..98, 200..200, u64::MAX - 1..u64::MAX];
    for mode in MODES {
        let section = open_segment(file.clone(), summary, mode).expect("opens").require(SectionKind::Ids).expect("is there");
        assert!(section.read(100..100).expect("nothing is asked for").is_empty());
        for range in outside.clone() {
            assert_eq!(section.read(range.clone()).expect_err("refused").code(), ErrorCode::Corrupt, "{range:?}");
        }
    }
}

fn footer(file: &[u8], summary: SegmentSummary) -> SegmentFooter {
    SegmentFooter::decode(&file[(summary.offset + summary.length - 64) as usize..]).expect("decodes")
}

fn entries(file: &[u8], summary: SegmentSummary) -> Vec<SectionEntry> {
    open_segment(file.to_vec(), summary, Mode::Mapped).expect("opens").entries().copied().collect()
}

#[test]
fn sections_and_tables_start_where_the_specification_says() {
    let large = SECTION_PAGE_THRESHOLD as usize;
    let contents = vec![
        (SectionKind::Ids, bytes(10, 1)),
        (SectionKind::Docs, bytes(5, 2)),
        (SectionKind::Seqs, bytes(large - 1, 3)),
        (SectionKind::Sources, bytes(large, 4)),
        (SectionKind::IdMap, bytes(1, 5)),
    ];
    let (file, summary) = write(START, &contents);
    let at: Vec<_> = entries(&file, summary).iter().map(|e| e.offset.get()).collect();
    assert_eq!(at[0], 64, "a small section follows the header");
    assert_eq!(at[1], 128, "so does a streamed one that turns out to be small");
    assert_eq!(at[2], 192, "64 KiB less one byte is small");
    assert_eq!(at[3], (at[2] + large as u64 - 1).next_multiple_of(4096), "one of 64 KiB starts a block");
    assert_eq!(at[4], at[3] + large as u64);
    let footer = footer(&file, summary);
    let (table, copy) = (footer.table_offset.get(), footer.table_copy_offset.get());
    assert!(table.is_multiple_of(64) && copy.is_multiple_of(4096), "{table} {copy}");
    assert!(table + 5 * 64 <= copy, "no block holds bytes of both");
    assert_eq!(footer.length.get(), copy + 5 * 64 + 64);
    let start = START as usize;
    assert_eq!(file[start + table as usize..][..320], file[start + copy as usize..][..320]);
    // Everything that nothing covers is zero: a file is a function of what was written.
    let mut rest = file.clone();
    let mut clear = |from: u64, length: u64| rest[start + from as usize..][..length as usize].fill(0);
    entries(&file, summary).iter().for_each(|e| {
        clear(e.offset.get(), e.length.get());
        clear(e.crcs_offset.get(), e.length.get().div_ceil(4096) * 4);
    });
    [(0, 64), (table, 320), (copy, 384)].into_iter().for_each(|(from, length)| clear(from, length));
    assert!(rest.iter().all(|b| *b == 0), "padding is zero");
}

#[test]
fn any_flipped_byte_is_damage_at_its_address_or_the_exact_answer() {
    let contents = contents();
    let (file, summary) = write(START, &contents);
    let entries = entries(&file, summary);
    let footer = footer(&file, summary);
    let in_segment = |at: usize| at as u64 - START;
    let within = |at: u64, from: u64, length: u64| (from..from + length).contains(&at);
    for mode in MODES {
        for at in START as usize..file.len() {
            let mut flipped = file.clone();
            flipped[at] ^= 1 << (at % 8);
            let here = in_segment(at);
            let in_frame = here < 64 || here >= summary.length - 64;
            let block = entries.iter().find(|e| within(here, e.offset.get(), e.length.get()));
            let crcs = entries.iter().find(|e| within(here, e.crcs_offset.get(), e.length.get().div_ceil(4096) * 4));
            match open_segment(flipped, summary, mode).and_then(|reader| check(&reader, &contents)) {
                Ok(()) => assert!(!in_frame && block.is_none() && crcs.is_none(), "byte {here} was not covered"),
                Err(Error::Corrupt(c)) => {
                    assert_eq!(c.file, FILE);
                    if let Some(e) = block {
                        assert_eq!(c.offset, START + e.offset.get() + (here - e.offset.get()) / 4096 * 4096, "the block is named");
                    } else if let Some(e) = crcs {
                        assert_eq!(c.offset, START + e.crcs_offset.get(), "the checksums are named");
                    } else {
                        assert!(in_frame, "byte {here} is covered by nothing: {c}");
                    }
                }
                Err(other) => panic!("byte {here}, {mode:?}: {other}"),
            }
        }
    }
    assert_eq!(footer.sections.get() as usize, contents.len());
}

#[test]
fn a_damaged_table_is_read_from_its_copy_and_two_are_damage() {
    let contents = contents();
    let (file, summary) = write(START, &contents);
    let footer = footer(&file, summary);
    let table = (START + footer.table_offset.get()) as usize;
    let copy = (START + footer.table_copy_offset.get()) as usize;
    for mode in MODES {
        let mut one = file.clone();
        one[table..table + 320].fill(0);
        check(&open_segment(one.clone(), summary, mode).expect("opens"), &contents).expect("reads from the copy");
        one[copy] ^= 1;
        let error = open_segment(one, summary, mode).expect_err("both are bad");
        assert!(matches!(&error, Error::Corrupt(c) if c.offset == copy as u64), "{error}");
    }
}

#[test]
fn damage_is_found_at_first_touch_of_its_block_only() {
    let contents = contents();
    let (mut file, summary) = write(START, &contents);
    let docs = entries(&file, summary)[0].offset.get();
    file[(START + docs) as usize + BLOCK_BYTES + 5] ^= 0x10;
    for mode in MODES {
        let section = open_segment(file.clone(), summary, mode).expect("opens").require(SectionKind::Docs).expect("is there");
        let bytes = &contents[0].1;
        for _ in 0..2 {
            assert_eq!(&*section.read(0..4096).expect("the block before"), &bytes[..4096]);
            assert_eq!(&*section.read(8192..9000).expect("the block after"), &bytes[8192..]);
            for range in [4095..4097, 4096..4097, 8191..8192, 0..9000] {
                let error = section.read(range).expect_err("damaged");
                assert!(matches!(&error, Error::Corrupt(c) if c.offset == START + docs + 4096), "{error}");
            }
            assert_eq!(section.whole().expect_err("damaged").code(), ErrorCode::Corrupt);
        }
    }
}

#[test]
fn bytes_that_are_touched_are_checked_and_others_are_not() {
    use crate::format::transducer::TransducerBytes;
    let contents = vec![(SectionKind::Entities, bytes(3 * BLOCK_BYTES, 5))];
    let (mut file, summary) = write(START, &contents);
    let offset = entries(&file, summary)[0].offset.get();
    let bad = START + offset + 2 * BLOCK_BYTES as u64;
    file[bad as usize + 7] ^= 1;
    let open = |mode| open_segment(file.clone(), summary, mode).unwrap().require(SectionKind::Entities).unwrap();
    let touched = open(Mode::Mapped).touched(2 * BLOCK_BYTES as u64 + 100).unwrap();
    assert_eq!(touched.bytes().len(), 2 * BLOCK_BYTES + 100);
    for sound in [0..1, 4095..4097, 0..2 * BLOCK_BYTES, 4096..4096, 5..9] {
        touched.check(sound).unwrap();
    }
    for range in [8191..8193, 8192..8193, 0..8292] {
        let Err(Error::Corrupt(damage)) = touched.check(range) else { panic!("the third block is damaged") };
        assert_eq!(damage.offset, bad);
    }
    assert_eq!(open(Mode::Pread).touched(9).unwrap_err().code(), ErrorCode::Corrupt, "all of it is read, and checked");
    assert_eq!(open(Mode::Mapped).touched(3 * BLOCK_BYTES as u64 + 1).unwrap_err().code(), ErrorCode::Corrupt);
}

#[test]
fn a_file_cut_anywhere_is_damage() {
    let contents = contents();
    let (file, summary) = write(START, &contents);
    for mode in MODES {
        for length in 0..file.len() {
            let error = open_segment(file[..length].to_vec(), summary, mode).expect_err("something is missing");
            assert!(matches!(&error, Error::Corrupt(c) if c.file == FILE), "{length}: {error}");
        }
        // A manifest that names a shorter segment finds no footer where it says.
        for shorter in 1..summary.length {
            let error = open_segment(file.clone(), SegmentSummary { length: shorter, ..summary }, mode).expect_err("another length");
            assert_eq!(error.code(), ErrorCode::Corrupt, "{shorter}: {error}");
        }
    }
}

#[test]
fn another_segment_in_its_place_is_damage() {
    let (file, summary) = write(START, &contents());
    let SegmentSummary { offset, length, crc } = summary;
    let mapped = Bytes::new(file.clone());
    let handle = Arc::new(MemoryFile(parking_lot::Mutex::new(file)));
    let attempts = [(DATABASE, offset, length, crc ^ 1), (Uuid([8; 16]), offset, length, crc), (DATABASE, 0, length, crc)];
    for (database, offset, length, crc) in attempts {
        let errors = [
            SegmentReader::open_mapped(&mapped, FILE, database, offset, length, crc).expect_err("refused"),
            SegmentReader::open_pread(handle.clone(), FILE, database, offset, length, crc).expect_err("refused"),
        ];
        assert!(errors.iter().all(|e| e.code() == ErrorCode::Corrupt), "{errors:?}");
    }
    for (offset, length) in [(u64::MAX, 1), (1, u64::MAX), (START, length + 1)] {
        assert!(SegmentReader::open_mapped(&mapped, FILE, DATABASE, offset, length, crc).is_err());
        assert!(SegmentReader::open_pread(handle.clone(), FILE, DATABASE, offset, length, crc).is_err());
    }
}

#[test]
fn a_sector_that_cannot_be_read_is_an_error_of_the_disk_not_damage() {
    let contents = contents();
    let (file, summary) = write(START, &contents);
    let SegmentSummary { offset, length, crc } = summary;
    let dir = SimDirectory::new();
    dir.write_file(FILE, file.clone());
    let open = || SegmentReader::open_pread(dir.open(FILE).expect("opens"), FILE, DATABASE, offset, length, crc);
    check(&open().expect("opens"), &contents).expect("reads");
    dir.fail_reads(FILE, START + entries(&file, summary)[0].offset.get() + 5_000);
    assert_eq!(check(&open().expect("opens"), &contents).expect_err("fails").code(), ErrorCode::Io);
    dir.fail_reads(FILE, START);
    assert_eq!(open().expect_err("fails").code(), ErrorCode::Io);
}

#[test]
fn segments_of_one_file_do_not_know_each_other() {
    let file = Arc::new(MemoryFile::default());
    let (mut start, mut summaries) = (0u64, Vec::new());
    for index in 0..3 {
        let mut out = SegmentWriter::new(file.clone(), FILE, DATABASE, 1, index, start);
        out.section(SectionKind::Ids, 0, 7, &bytes(5_000, index as usize)).expect("writes");
        let summary = out.finish().expect("finishes");
        start = (summary.offset + summary.length).next_multiple_of(BLOCK_BYTES as u64);
        summaries.push(summary);
    }
    let all = file.0.lock().clone();
    for mode in MODES {
        for (index, summary) in summaries.iter().enumerate() {
            let reader = open_segment(all.clone(), *summary, mode).expect("opens");
            assert_eq!(reader.start(), summary.offset);
            assert_eq!(&*reader.require(SectionKind::Ids).expect("is there").read(0..5_000).expect("reads"), &bytes(5_000, index)[..]);
        }
    }
}

#[test]
fn every_kind_of_section_has_one_number_and_one_name() {
    for (i, kind) in SectionKind::ALL.iter().enumerate() {
        assert_eq!(SectionKind::from_number(*kind as u16), Some(*kind));
        assert!(SectionKind::ALL[..i].iter().all(|other| *other as u16 != *kind as u16 && other.name() != kind.name()));
    }
    assert_eq!(SectionKind::from_number(0), None);
    assert_eq!(SectionEntry::read_from_bytes(&[0; 64]).map(|e| e.kind.get()), Ok(0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn any_range_of_any_section_reads_what_was_written(
        lengths in proptest::collection::vec(prop_oneof![0usize..300, 4_000usize..4_200, 65_000usize..66_000, 0usize..200_000], 1..6),
        ranges in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<prop::sample::Index>()), 20),
    ) {
        let contents: Vec<_> = lengths.iter().enumerate().map(|(i, length)| (SectionKind::ALL[i], bytes(*length, i))).collect();
        let (file, summary) = write(START, &contents);
        for mode in MODES {
            let reader = open_segment(file.clone(), summary, mode).expect("opens");
            for (which, a, b) in &ranges {
                let (kind, bytes) = which.get(&contents);
                let (a, b) = (a.index(bytes.len() + 1), b.index(bytes.len() + 1));
                let (from, to) = (a.min(b), a.max(b));
                let section = reader.require(*kind).expect("is there");
                prop_assert_eq!(&*section.read(from as u64..to as u64).expect("reads"), &bytes[from..to]);
            }
        }
    }
}

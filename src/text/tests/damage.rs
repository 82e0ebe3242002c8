//! Damage is `Corrupt` or does not change the answer; it never panics.

use super::*;
use crate::error::ErrorCode;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn small_segment() -> (Model, Vec<u8>, SegmentSummary) {
    let texts: Vec<String> = (0..140).map(|i| format!("common word{} other{}", i % 7, i % 50)).collect();
    let mut model = Model::of_texts(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    model.terms.insert([b"z".repeat(2000), b"long".to_vec()].concat(), vec![Posting { row: 3, frequency: 2 }]);
    model.lengths[3] += 2;
    let (bytes, summary) = segment(|out| model.write(out)).expect("writes");
    (model, bytes, summary)
}

fn read(bytes: Vec<u8>, summary: SegmentSummary, mapped: bool, what: &str) -> Result<Model> {
    catch_unwind(AssertUnwindSafe(|| Model::read_back(&open(bytes, summary, mapped)?))).unwrap_or_else(|_| panic!("{what}: panicked"))
}

#[test]
fn every_flipped_byte_is_corrupt_or_gives_the_exact_answer() {
    let (model, bytes, summary) = small_segment();
    let frame = SegmentReader::open_mapped(&Bytes::new(bytes.clone()), "s", DATABASE, 0, summary.length, summary.crc).expect("opens");
    let sections: Vec<_> = frame.entries().map(|e| e.offset.get()..e.offset.get() + e.length.get()).collect();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        match read(damaged, summary, at % 5 != 0, &format!("byte {at}")) {
            Ok(found) => {
                assert!(!sections.iter().any(|s| s.contains(&(at as u64))), "byte {at} of a section: damage was not noticed");
                assert!(found == model, "byte {at}: another answer");
            }
            Err(e) => assert!(matches!(e.code(), ErrorCode::Corrupt | ErrorCode::UnsupportedVersion), "byte {at}: {e}"),
        }
    }
}

#[test]
fn every_truncation_is_corrupt() {
    let (_, bytes, summary) = small_segment();
    for len in (0..bytes.len()).step_by(97) {
        let shorter = SegmentSummary { length: len as u64, ..summary };
        for summary in [summary, shorter] {
            let e = read(bytes[..len].to_vec(), summary, true, &format!("cut at {len}")).expect_err("refused");
            assert_eq!(e.code(), ErrorCode::Corrupt, "cut at {len}: {e}");
        }
    }
}

/// Writes the sections of a segment again with `change` applied to their bytes, `items` and `aux`: every checksum is right, and what it
/// covers is not.
fn resealed(change: impl Fn(SectionKind, &mut Vec<u8>, &mut u64, &mut u64)) -> Result<Model> {
    let (_, bytes, summary) = small_segment();
    let original = SegmentReader::open_mapped(&Bytes::new(bytes), "s", DATABASE, 0, summary.length, summary.crc)?;
    let (bytes, summary) = segment(|out| {
        for entry in original.entries() {
            let kind = SectionKind::from_number(entry.kind.get()).expect("a known kind");
            let mut content = original.require(kind)?.whole()?.to_vec();
            let (mut items, mut aux) = (entry.items.get(), entry.aux.get());
            change(kind, &mut content, &mut items, &mut aux);
            out.section(kind, items, aux, &content)?;
        }
        Ok(())
    })?;
    read(bytes, summary, true, "resealed")
}

#[test]
fn sections_that_contradict_each_other_are_corrupt() {
    type Change = fn(SectionKind, &mut Vec<u8>, &mut u64, &mut u64);
    let changes: &[(&str, Change)] = &[
        ("fewer lengths", |kind, bytes, _, _| {
            if kind == SectionKind::Lengths {
                bytes.truncate(10)
            }
        }),
        ("a width of three", |kind, _, _, aux| {
            if kind == SectionKind::Lengths {
                *aux = 3
            }
        }),
        ("more terms", |kind, _, items, _| {
            if kind == SectionKind::Terms {
                *items += 1
            }
        }),
        ("an fst beyond its section", |kind, _, _, aux| {
            if kind == SectionKind::Terms {
                *aux = u64::MAX
            }
        }),
        ("an fst cut short", |kind, _, _, aux| {
            if kind == SectionKind::Terms {
                *aux = 20
            }
        }),
        ("no long terms", |kind, bytes, _, aux| {
            if kind == SectionKind::Terms {
                bytes.truncate(*aux as usize)
            }
        }),
        ("half a long term", |kind, bytes, _, _| {
            if kind == SectionKind::Terms {
                bytes.truncate(bytes.len() - 1)
            }
        }),
        ("a wrong ordinal", |kind, bytes, _, aux| {
            if kind == SectionKind::Terms {
                bytes[*aux as usize + 12] = 0
            }
        }),
        ("a list elsewhere", |kind, bytes, _, _| {
            if kind == SectionKind::TermInfos {
                bytes[0] ^= 64
            }
        }),
        ("another frequency", |kind, bytes, _, _| {
            if kind == SectionKind::TermInfos {
                bytes[8] ^= 2
            }
        }),
        ("a list of no bytes", |kind, bytes, _, _| {
            if kind == SectionKind::TermInfos {
                bytes[12..16].fill(0)
            }
        }),
        ("no postings", |kind, bytes, _, _| {
            if kind == SectionKind::Postings {
                bytes.clear()
            }
        }),
        ("more tokens than 64 bits", |kind, bytes, _, _| {
            if kind == SectionKind::Statistics {
                bytes[0..8].fill(0xff)
            }
        }),
        ("more postings than tokens", |kind, bytes, _, _| {
            if kind == SectionKind::Statistics {
                bytes[24..32].fill(0xff)
            }
        }),
        ("no analyzer", |kind, bytes, _, _| {
            if kind == SectionKind::Statistics {
                bytes[32] = 0
            }
        }),
    ];
    assert!(resealed(|_, _, _, _| {}).is_ok());
    for (what, change) in changes {
        let e = resealed(change).expect_err(what);
        assert_eq!(e.code(), ErrorCode::Corrupt, "{what}: {e}");
    }
    let newer = resealed(|kind, _, _, aux| {
        if kind == SectionKind::Postings {
            *aux = 2
        }
    });
    assert_eq!(newer.expect_err("a newer layout").code(), ErrorCode::UnsupportedVersion);
}

#[test]
fn every_flipped_byte_under_a_right_checksum_reads_without_a_panic() {
    let (_, bytes, summary) = small_segment();
    let original = SegmentReader::open_mapped(&Bytes::new(bytes), "s", DATABASE, 0, summary.length, summary.crc).expect("opens");
    for victim in [SectionKind::Terms, SectionKind::TermInfos, SectionKind::Postings, SectionKind::Lengths, SectionKind::Statistics] {
        for at in 0..original.require(victim).expect("is there").len() as usize {
            let result = resealed(|kind, bytes, _, _| {
                if kind == victim {
                    bytes[at] ^= 1 << (at % 8);
                }
            });
            if let Err(e) = result {
                assert!(matches!(e.code(), ErrorCode::Corrupt | ErrorCode::UnsupportedVersion), "{victim:?} byte {at}: {e}");
            }
        }
    }
}

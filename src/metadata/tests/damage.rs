//! Damage is `Corrupt` or does not change the answer; it never panics.

use super::*;
use crate::error::ErrorCode;
use crate::format::segment::SectionKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn sample() -> (Documents, Vec<Filter>) {
    let documents = documents(&(0..60).map(|i| json!({"id": i, "n": i % 3, "tags": ["a", i % 5], "o": {"x": "y".repeat(i)}})).collect::<Vec<_>>());
    let filters = [
        json!({"id": {"$gt": 7}}),
        json!({"n": 2}),
        json!({"tags": {"$contains": 3}, "n": {"$ne": 1}}),
        json!({"o.x": {"$gte": "yy"}}),
        json!({"o": {"$exists": true}}),
    ];
    (documents, filters.iter().map(|f| Filter::from_value(f).unwrap()).collect())
}

/// Every answer that a segment gives, without reading documents.
fn answers(segment: Result<SegmentReader>, filters: &[Filter], documents: &Documents) -> Result<Vec<Vec<u32>>> {
    let index = MetadataReader::open(&segment?)?.expect("the sections are there");
    filters.iter().map(|f| Ok(found(f, &index, documents)?.0)).collect()
}

#[test]
fn every_flipped_byte_is_corrupt_or_gives_the_exact_answer() {
    let (documents, filters) = sample();
    let (bytes, summary) = written(&documents);
    let right: Vec<Vec<u32>> = filters.iter().map(|f| expected(f, &documents)).collect();
    assert_eq!(answers(open_segment(bytes.clone(), summary, Mode::Mapped), &filters, &documents).unwrap(), right);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let mode = MODES[usize::from(at % 5 == 0)];
        match catch_unwind(AssertUnwindSafe(|| answers(open_segment(damaged, summary, mode), &filters, &documents))) {
            Ok(Ok(found)) => assert_eq!(found, right, "byte {at}: another answer"),
            Ok(Err(e)) => assert!(matches!(e.code(), ErrorCode::Corrupt | ErrorCode::UnsupportedVersion), "byte {at}: {e}"),
            Err(_) => panic!("byte {at}: panicked"),
        }
    }
}

/// Writes the sections again with `change` applied to their bytes, `items` and `aux`: every checksum is right, what it covers is not.
fn resealed(change: impl Fn(SectionKind, &mut Vec<u8>, &mut u64, &mut u64)) -> Result<Vec<Vec<u32>>> {
    let (documents, filters) = sample();
    let (bytes, summary) = written(&documents);
    let original = open_segment(bytes, summary, Mode::Mapped)?;
    let (bytes, summary) = write_segment(0, |out| {
        for entry in original.entries() {
            let kind = SectionKind::from_number(entry.kind.get()).expect("a known kind");
            let mut content = original.require(kind)?.whole()?.to_vec();
            let (mut items, mut aux) = (entry.items.get(), entry.aux.get());
            change(kind, &mut content, &mut items, &mut aux);
            out.section(kind, items, aux, &content)?;
        }
        Ok(())
    })?;
    let documents: Documents = documents.into_iter().cycle().take(70_000).collect();
    catch_unwind(AssertUnwindSafe(|| answers(open_segment(bytes, summary, Mode::Mapped), &filters, &documents))).expect("no panic")
}

#[test]
fn sections_that_contradict_each_other_are_corrupt() {
    type Change = fn(SectionKind, &mut Vec<u8>, &mut u64, &mut u64);
    let changes: &[(&str, Change)] = &[
        ("more keys", |kind, _, items, _| *items += u64::from(kind == SectionKind::MetadataTerms)),
        ("more entries", |kind, _, items, _| *items += u64::from(kind == SectionKind::MetadataRows)),
        ("more bytes of lists", |kind, _, _, aux| *aux += 8 * u64::from(kind == SectionKind::MetadataRows)),
        ("endless entries", |_, _, items, _| *items = u64::MAX / 4),
        ("fewer rows", |kind, _, _, aux| *aux -= 5 * u64::from(kind == SectionKind::MetadataTerms)),
        ("endless rows", |kind, _, _, aux| *aux |= u64::from(kind == SectionKind::MetadataTerms) << 40),
        ("no fst", |kind, bytes, _, _| bytes.truncate(if kind == SectionKind::MetadataTerms { 0 } else { bytes.len() })),
        ("an fst cut short", |kind, bytes, _, _| bytes.truncate(bytes.len() - usize::from(kind == SectionKind::MetadataTerms))),
        ("no lists", |kind, bytes, _, aux| {
            if kind == SectionKind::MetadataRows {
                bytes.drain(..*aux as usize);
                *aux = 0;
            }
        }),
    ];
    assert!(resealed(|_, _, _, _| {}).is_ok());
    for (what, change) in changes {
        assert_eq!(resealed(change).expect_err(what).code(), ErrorCode::Corrupt, "{what}");
    }
}

#[test]
fn every_flipped_byte_under_a_right_checksum_reads_without_a_panic() {
    let (documents, _) = sample();
    let (bytes, summary) = written(&documents);
    let original = open_segment(bytes, summary, Mode::Mapped).unwrap();
    for victim in [SectionKind::MetadataTerms, SectionKind::MetadataRows] {
        for at in (0..original.require(victim).unwrap().len() as usize).step_by(3) {
            let result = resealed(|kind, bytes, _, _| {
                if kind == victim {
                    bytes[at] ^= 1 << (at % 8);
                }
            });
            if let Err(e) = result {
                assert!(matches!(e.code(), ErrorCode::Corrupt), "{victim:?} byte {at}: {e}");
            }
        }
    }
}

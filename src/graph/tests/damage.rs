//! Damage is `Corrupt` or does not change the answer; it never panics.

use super::*;
use crate::error::ErrorCode;
use crate::format::segment::SectionKind;
use crate::options::ExtractorKind;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn docs() -> Vec<Doc> {
    let doc = |i: usize| {
        let text = format!("Alpha{} and ALPHA with Beta Gamma. getIt{} RAG Rag", ["", " Prime"][i % 2], ["X", "Yes"][i % 2]);
        let relations = (0..i % 3).map(|j| Relation::new(format!("n{}", (i * 7 + j) % 11), "RAG").weight([1.0, 0.5, 0.1][(i + j) % 3]));
        Doc { mentions: extract::mentions(None, &text, ExtractorKind::Compat), relations: relations.collect(), dead: false }
    };
    (0..40).map(doc).collect()
}

/// Everything that a segment answers.
#[derive(Debug, PartialEq, Default)]
struct Answers {
    keys: Vec<String>,
    names: Vec<String>,
    documents: Vec<DocumentEdge>,
    relations: Vec<RelationEdge>,
    mentions: Vec<Vec<Mention>>,
}

fn read_all(segment: &SegmentReader) -> Result<Answers> {
    let Some(reader) = GraphReader::open(segment)? else { return Ok(Answers::default()) };
    let mut all = Answers::default();
    reader.for_each_key(&mut |_, key| all.keys.push(key.to_string()))?;
    for entity in 0..reader.entities() {
        let mut names = vec![0];
        reader.for_each_document(entity, &mut |e| {
            names.push(e.name);
            all.documents.push(e);
        })?;
        reader.for_each_relation(entity, &mut |e| {
            names.push(e.name);
            all.relations.push(e);
        })?;
        for name in names {
            all.names.push(reader.name(entity, name)?.into_owned());
        }
        all.keys.push(reader.key(entity)?.into_owned());
    }
    for key in all.keys.clone() {
        all.keys.push(format!("{:?}", reader.entity(&key)?));
    }
    for row in 0..reader.rows() {
        all.mentions.push(Spellings::new(&reader).mentions(row)?);
    }
    Ok(all)
}

fn read(bytes: Vec<u8>, summary: SegmentSummary, mode: Mode, what: &str) -> Result<Answers> {
    catch_unwind(AssertUnwindSafe(|| read_all(&open_segment(bytes, summary, mode)?))).unwrap_or_else(|_| panic!("{what}: panicked"))
}

#[test]
fn every_flipped_byte_is_corrupt_or_gives_the_exact_answer() {
    let (bytes, summary) = segment_of(&docs()).expect("writes");
    let exact = read(bytes.clone(), summary, Mode::Mapped, "whole").expect("reads");
    assert!(exact.mentions.len() == 40 && !exact.relations.is_empty());
    let frame = open_segment(bytes.clone(), summary, Mode::Mapped).expect("opens");
    let sections: Vec<_> = frame.entries().map(|e| e.offset.get()..e.offset.get() + e.length.get()).collect();
    assert_eq!(sections.len(), 6);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let mode = if at % 5 == 0 { Mode::Pread } else { Mode::Mapped };
        match read(damaged, summary, mode, &format!("byte {at}")) {
            Ok(found) => {
                assert!(!sections.iter().any(|s| s.contains(&(at as u64))), "byte {at} of a section: damage was not noticed");
                assert!(found == exact, "byte {at}: another answer");
            }
            Err(e) => assert!(matches!(e.code(), ErrorCode::Corrupt | ErrorCode::UnsupportedVersion), "byte {at}: {e}"),
        }
    }
}

/// Writes the sections again with `change` applied to their bytes, `items` and `aux`: every checksum is right, and what it covers is not.
fn resealed(change: impl Fn(SectionKind, &mut Vec<u8>, &mut u64, &mut u64)) -> Result<Answers> {
    let (bytes, summary) = segment_of(&docs())?;
    let original = open_segment(bytes, summary, Mode::Mapped)?;
    let (bytes, summary) = write_segment(0, |out| {
        for entry in original.entries() {
            let kind = SectionKind::from_number(entry.kind.get()).expect("a known kind");
            let mut content = original.require(kind)?.whole()?.to_vec();
            let (mut items, mut aux) = (entry.items.get(), entry.aux.get());
            change(kind, &mut content, &mut items, &mut aux);
            if items != u64::MAX {
                out.section(kind, items, aux, &content)?;
            }
        }
        Ok(())
    })?;
    read(bytes, summary, Mode::Mapped, "resealed")
}

#[test]
fn sections_that_contradict_each_other_are_corrupt() {
    assert!(resealed(|_, _, _, _| {}).is_ok());
    const KINDS: [SectionKind; 6] = [
        SectionKind::Entities,
        SectionKind::EntityNames,
        SectionKind::Mentions,
        SectionKind::EntityDocs,
        SectionKind::RelationsBySource,
        SectionKind::RelationsByTarget,
    ];
    for kind in KINDS {
        let refused = |what: &str, change: &dyn Fn(&mut Vec<u8>, &mut u64, &mut u64)| {
            let found = resealed(|k, bytes, items, aux| {
                if k == kind {
                    change(bytes, items, aux);
                }
            });
            let e = found.expect_err(what);
            assert_eq!(e.code(), ErrorCode::Corrupt, "{what}, {}: {e}", kind.name());
        };
        refused("left out", &|_, items, _| *items = u64::MAX);
        refused("another aux", &|_, _, aux| *aux += 1);
        refused("empty", &|bytes, _, _| bytes.clear());
        refused("cut short", &|bytes, _, _| bytes.truncate(bytes.len() - 1));
        if kind != SectionKind::Mentions {
            refused("one more", &|_, items, _| *items += 1);
            refused("one less", &|_, items, _| *items -= 1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_section_of_other_bytes_answers_or_is_corrupt_and_never_panics(
        section in 0usize..6, at in any::<prop::sample::Index>(), byte in any::<u8>(), more in any::<prop::sample::Index>(),
    ) {
        let found = resealed(|kind, bytes, _, _| {
            let number = [40, 47, 48, 41, 49, 42].iter().position(|&n| n == kind as u16);
            if number == Some(section) {
                let (at, more) = (at.index(bytes.len()), more.index(bytes.len()));
                bytes[at] = byte;
                bytes[more] ^= 0x81;
            }
        });
        if let Err(e) = found {
            prop_assert_eq!(e.code(), ErrorCode::Corrupt, "{}", e);
        }
    }
}

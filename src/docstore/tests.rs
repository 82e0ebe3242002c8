//! What the rows of a segment promise: what was pushed is what is read, in both modes, and damage is never a wrong answer.

use super::{RowsBuilder, RowsReader};
use crate::document::{Metadata, StoredDocument};
use crate::error::{Error, Result};
use crate::format::segment::SectionKind;
use crate::ids::Seq;
use crate::segment::memory::{MODES, Mode, open_segment, write_segment};
use crate::segment::{SegmentReader, SegmentSummary};
use proptest::prelude::*;
use std::collections::BTreeMap;

const BASE: Seq = Seq(1_000);

type Rows = [(u64, StoredDocument)];

fn document(id: &str, text: &str, metadata: Option<&str>, source: Option<&str>) -> StoredDocument {
    StoredDocument {
        id: id.into(),
        text: text.into(),
        metadata: metadata.map(|m| Metadata::trusted(m.into())),
        vector: None,
        source: source.map(Into::into),
        source_given: source.is_some_and(|s| s.len().is_multiple_of(2)),
        time_ms: 1_700_000_000_000 + id.len() as u64,
        entities: None,
        relations: None,
    }
}

fn build(rows: &Rows) -> Result<(Vec<u8>, SegmentSummary)> {
    write_segment(0, |out| {
        let mut builder = RowsBuilder::begin(out)?;
        rows.iter().try_for_each(|(seq, d)| builder.push(out, *seq, d))?;
        builder.finish(out)
    })
}

fn open(bytes: Vec<u8>, summary: SegmentSummary, mode: Mode) -> Result<RowsReader> {
    RowsReader::open(&open_segment(bytes, summary, mode)?, BASE)
}

/// Everything a reader can be asked, answered: equal to `rows`, or the first error.
fn check_all(reader: &RowsReader, rows: &Rows) -> Result<()> {
    assert_eq!(reader.rows() as usize, rows.len());
    let mut scanner = reader.scanner();
    let mut by_source: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (row, (seq, d)) in rows.iter().enumerate() {
        let row = row as u32;
        assert_eq!(&scanner.document(row)?, d);
        assert_eq!(&reader.document(row)?, d);
        assert_eq!(reader.id(row)?, *d.id);
        assert_eq!(reader.seq(row)?, Seq(BASE.0 + seq));
        assert_eq!(reader.row_of_seq(Seq(BASE.0 + seq))?, Some(row));
        assert_eq!(reader.source_of(row)?.as_deref(), d.source.as_deref());
        let same: Vec<u32> = (0..rows.len() as u32).filter(|r| rows[*r as usize].1.id == d.id).collect();
        assert_eq!(reader.find(&d.id)?, same.last().copied());
        let mut all = Vec::new();
        reader.find_all(&d.id, |r| {
            all.push(r);
            Ok(false)
        })?;
        assert_eq!(all, same);
        if let Some(source) = &d.source {
            by_source.entry(source).or_default().push(row);
        }
    }
    let count = rows.len() as u32;
    for range in [0..count, count / 3..count / 2, count..count] {
        let expected = &rows[range.start as usize..range.end as usize];
        assert!(reader.ids(range.clone())?.iter().map(|id| &**id).eq(expected.iter().map(|(_, d)| &*d.id)));
        assert!(reader.seqs(range)?.into_iter().eq(expected.iter().map(|(seq, _)| Seq(BASE.0 + seq))));
    }
    let sources = reader.sources().collect::<Result<Vec<_>>>()?;
    assert!(sources.iter().map(|(name, rows)| (&**name, rows)).eq(by_source.iter().map(|(name, rows)| (*name, rows))));
    for (source, rows) in &by_source {
        assert_eq!(&reader.source_rows(source)?, rows);
    }
    for stranger in ["", "nobody", "\u{10ffff}"] {
        assert_eq!(reader.find(stranger)?, None);
        assert!(reader.source_rows(stranger)?.is_empty());
    }
    Ok(())
}

fn sample() -> Vec<(u64, StoredDocument)> {
    vec![
        (0, document("a", "first words", Some(r#"{"k":1}"#), Some("one.md"))),
        (3, document("b", "", None, None)),
        (4, document("ünïcode ✓", "words of another", None, Some("two"))),
        (9, document("a", "newer words", Some("{}"), Some("one.md"))),
    ]
}

#[test]
fn a_segment_without_rows_answers_nothing() {
    let (bytes, summary) = build(&[]).expect("builds");
    for mode in MODES {
        let reader = open(bytes.clone(), summary, mode).expect("opens");
        check_all(&reader, &[]).expect("reads");
        assert_eq!(reader.row_of_seq(BASE).expect("reads"), None);
        assert!(matches!(reader.document(0), Err(Error::Corrupt(_))), "a row that is not there");
        assert!(matches!(reader.id(u32::MAX), Err(Error::Corrupt(_))));
        assert!(matches!(reader.seq(0), Err(Error::Corrupt(_))));
        assert!(matches!(reader.seqs(0..1), Err(Error::Corrupt(_))));
        assert!(matches!(reader.ids(0..u32::MAX), Err(Error::Corrupt(_))));
        assert!(matches!(reader.source_of(0), Err(Error::Corrupt(_))));
    }
}

#[test]
fn a_text_of_sixty_four_mebibytes_comes_back() {
    // Half of it repeats and half does not, so that both the compressor and the stored length are put to work.
    let mut noise = 1u64;
    let mut text: String = "compaction ".repeat((32 << 20) / 11);
    while text.len() < 64 << 20 {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push(char::from(b' ' + (noise >> 58) as u8));
    }
    let rows = vec![(0, document("small", "before", None, None)), (1, document("huge", &text, None, None))];
    let rows = [rows, vec![(2, document("after", "after", None, None))]].concat();
    let (bytes, summary) = build(&rows).expect("builds");
    for mode in MODES {
        check_all(&open(bytes.clone(), summary, mode).expect("opens"), &rows).expect("reads");
    }
}

#[test]
fn rows_fill_blocks_of_sixteen_kibibytes_and_any_order_reads_right() {
    let rows: Vec<_> = (0..3_000u64).map(|i| (i * 2, document(&format!("id{i}"), &format!("text {i} ").repeat(20), None, None))).collect();
    let (bytes, summary) = build(&rows).expect("builds");
    for mode in MODES {
        let segment = open_segment(bytes.clone(), summary, mode).expect("opens");
        let docs = segment.require(SectionKind::Docs).expect("is there");
        let blocks = segment.require(SectionKind::DocIndex).expect("is there").items();
        assert!(docs.aux() / blocks > 15 << 10, "blocks are filled: {} raw bytes in {blocks}", docs.aux());
        assert!(docs.len() * 3 < docs.aux(), "and compressed: {} of {}", docs.len(), docs.aux());
        let reader = RowsReader::open(&segment, BASE).expect("opens");
        let mut scanner = reader.scanner();
        for i in 0..rows.len() {
            let row = i * 1_237 % rows.len();
            assert_eq!(scanner.document(row as u32).expect("reads"), rows[row].1);
        }
        assert_eq!(reader.row_of_seq(Seq(BASE.0 + 11)).expect("reads"), None, "a seq between two rows");
        assert_eq!(reader.row_of_seq(Seq(BASE.0 - 1)).expect("reads"), None, "a seq before the base");
        assert_eq!(reader.row_of_seq(Seq(u64::MAX)).expect("reads"), None, "a seq after the end");
    }
}

#[test]
fn a_seq_out_of_order_is_damage_where_order_is_asked_for() -> Result<()> {
    let rows = [(3, document("a", "", None, None)), (5, document("b", "", None, None))];
    let (bytes, summary) = build(&rows)?;
    let reader = open(bytes, summary, Mode::Mapped)?;
    let (first, second) = (reader.seq_after(0, None)?, reader.seq(1)?);
    assert_eq!(reader.seq_after(1, Some(first))?, second);
    let refused = reader.seq_after(0, Some(second)).expect_err("it is not above the one before");
    assert!(matches!(&refused, Error::Corrupt(c) if c.what.contains("the row before it")), "{refused}");
    Ok(())
}

#[test]
fn find_all_stops_when_told_to() {
    let (bytes, summary) = build(&sample()).expect("builds");
    let reader = open(bytes, summary, Mode::Mapped).expect("opens");
    let mut seen = Vec::new();
    reader
        .find_all("a", |row| {
            seen.push(row);
            Ok(true)
        })
        .expect("reads");
    assert_eq!(seen, [0]);
}

#[test]
fn any_flipped_byte_is_damage_or_the_exact_answer() {
    let rows = sample();
    let (bytes, summary) = build(&rows).expect("builds");
    let segment = open_segment(bytes.clone(), summary, Mode::Mapped).expect("opens");
    let covered: u64 = segment.entries().map(|e| e.length.get() + 4 * e.length.get().div_ceil(4096)).sum::<u64>() + 64 + 64;
    for mode in MODES {
        let (mut damaged, mut exact) = (0, 0);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            match open(flipped, summary, mode).and_then(|reader| check_all(&reader, &rows)) {
                Ok(()) => exact += 1,
                Err(Error::Corrupt(c)) => {
                    assert!(!c.what.is_empty() && (c.offset as usize) < bytes.len(), "byte {at}: {c}");
                    damaged += 1;
                }
                Err(other) => panic!("byte {at}, {mode:?}: {other}"),
            }
        }
        assert_eq!(damaged, covered, "every byte of the sections, of their checksums, of header and footer");
        assert_eq!(exact, bytes.len() as u64 - covered, "and the exact answer from behind padding and either table");
    }
}

/// Rewrites one section with good checksums: what a fuzzer would find behind them.
fn with_section(segment: &SegmentReader, kind: SectionKind, bytes: &[u8]) -> Result<(Vec<u8>, SegmentSummary)> {
    write_segment(0, |out| {
        for e in segment.entries() {
            let this = SectionKind::from_number(e.kind.get()).expect("was written by us");
            let section = segment.require(this)?;
            let old = section.whole()?;
            out.section(this, e.items.get(), e.aux.get(), if this == kind { bytes } else { old })?;
        }
        Ok(())
    })
}

#[test]
fn bytes_that_pass_their_checksums_are_validated_all_the_same() {
    let rows = sample();
    let (bytes, summary) = build(&rows).expect("builds");
    let segment = open_segment(bytes, summary, Mode::Mapped).expect("opens");
    let kinds: Vec<_> = segment.entries().filter_map(|e| SectionKind::from_number(e.kind.get())).collect();
    assert_eq!(kinds.len(), 6);
    for kind in kinds {
        let old = segment.require(kind).expect("is there").whole().expect("is whole").to_vec();
        for at in 0..old.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff, old[at].wrapping_add(1), old[at].wrapping_sub(1)] {
                let mut hostile = old.clone();
                hostile[at] = value;
                let (bytes, summary) = with_section(&segment, kind, &hostile).expect("builds");
                // Any answer will do: no panic, no hang, and nothing but damage for an error.
                if let Ok(reader) = open(bytes, summary, Mode::Mapped) {
                    ask_everything(&reader);
                }
            }
        }
        for length in 0..old.len() {
            let (bytes, summary) = with_section(&segment, kind, &old[..length]).expect("builds");
            if let Ok(reader) = open(bytes, summary, Mode::Mapped) {
                ask_everything(&reader);
            }
        }
    }
}

fn ask_everything(reader: &RowsReader) {
    fn damage<T>(answer: Result<T>) {
        if let Err(e) = answer {
            assert!(matches!(e, Error::Corrupt(_) | Error::UnsupportedVersion(_)), "{e}");
        }
    }
    let mut scanner = reader.scanner();
    for row in 0..reader.rows().min(8) {
        damage(scanner.document(row));
        damage(reader.id(row));
        damage(reader.seq(row));
        damage(reader.source_of(row));
        damage(reader.row_of_seq(Seq(BASE.0 + u64::from(row))));
        damage(reader.document(row));
        damage(reader.ids(row / 2..row));
    }
    damage(reader.seqs(0..reader.rows().min(8)));
    for name in ["a", "b", "ünïcode ✓", "one.md", "nobody"] {
        damage(reader.find(name));
        damage(reader.source_rows(name));
    }
    reader.sources().for_each(damage);
}

#[test]
fn a_full_id_map_ends_the_search_after_one_round() {
    let rows = sample();
    let (bytes, summary) = build(&rows).expect("builds");
    let segment = open_segment(bytes, summary, Mode::Mapped).expect("opens");
    let map = segment.require(SectionKind::IdMap).expect("is there");
    // Every bucket is taken by row 1, under a fingerprint that no id asked for has.
    let full = [2u8, 0, 0, 0, 0x55, 0x55, 0x55, 0x55].repeat(map.aux() as usize);
    let (bytes, summary) = with_section(&segment, SectionKind::IdMap, &full).expect("builds");
    assert_eq!(open(bytes, summary, Mode::Mapped).expect("opens").find("a").expect("ends"), None);
}

fn any_document() -> impl Strategy<Value = StoredDocument> {
    let text = prop_oneof![
        3 => Just(String::new()),
        10 => "\\PC{0,200}",
        1 => ("\\PC{1,40}", 1usize..3_000).prop_map(|(s, n)| s.repeat(n)),
    ];
    let source = proptest::option::of(prop_oneof![Just("shared.md".to_string()), "[a-c]{1,2}", "\\PC{1,20}"]);
    let metadata = proptest::option::of(Just(r#"{ "page" : 3, "lang":"en" }"#));
    ("\\PC{1,12}", text, metadata, source, any::<bool>(), any::<u64>()).prop_map(|(id, text, metadata, source, given, time)| {
        StoredDocument {
            id: id.into(),
            text: text.into(),
            metadata: metadata.map(|m| Metadata::trusted(m.into())),
            vector: None,
            source_given: given && source.is_some(),
            source: source.map(Into::into),
            time_ms: time,
            entities: None,
            relations: None,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn what_was_pushed_is_what_is_read(
        documents in proptest::collection::vec((any_document(), prop_oneof![8 => Just(1u64), 2 => 1u64..9, 1 => Just(1 << 33)]), 0..60),
        dense in any::<bool>(),
    ) {
        let mut next = 0;
        let rows: Vec<_> = documents
            .into_iter()
            .map(|(d, gap)| {
                let seq = next;
                next += if dense { 1 } else { gap };
                (seq, d)
            })
            .collect();
        let (bytes, summary) = build(&rows).expect("builds");
        for mode in MODES {
            check_all(&open(bytes.clone(), summary, mode).expect("opens"), &rows).expect("reads");
        }
    }
}

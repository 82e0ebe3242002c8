//! Any damage at all: a check gives a verdict, never a panic, and is never clean where reading gives a wrong answer.

use super::image::{Image, options};
use proptest::prelude::*;
use std::sync::{Arc, OnceLock};
use triune::format::segment::SectionKind;
use triune::inspect::{FsckOptions, FsckReport, fsck_directory};
use triune::io::SimDirectory;
use triune::{Database, Error, Mode, Result, Search, Seq};

fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(Image::of_rich)
}

/// A verdict, or the one refusal that damage can lead to.
fn verdict(disk: &SimDirectory, level: u8) -> Option<FsckReport> {
    match fsck_directory(disk, &FsckOptions::level(level)) {
        Ok(report) => Some(report),
        Err(Error::UnsupportedVersion(_) | Error::NotFound(_)) => None,
        Err(e) => panic!("no verdict: {e}"),
    }
}

/// Everything that a reader is told, seqs included.
fn answers(disk: &SimDirectory) -> Result<Vec<String>> {
    told(disk, |seq, document| format!("{seq} {document}"))
}

/// The same without the seqs themselves; the order that they give stays.
fn answers_without_seqs(disk: &SimDirectory) -> Result<Vec<String>> {
    told(disk, |_, document| document)
}

fn told(disk: &SimDirectory, line: impl Fn(Seq, String) -> String) -> Result<Vec<String>> {
    let db = Database::open_read_only_with(Arc::new(disk.clone()), options())?;
    let mut all = Vec::new();
    for name in db.snapshot().collections() {
        let collection = db.snapshot().collection(&name)?;
        for item in collection.scan().with_vectors(true) {
            let (seq, document) = item?;
            all.push(line(seq, format!("{document:?}")));
        }
        all.push(format!("{:?} {:?}", collection.stats()?, collection.sources()?));
        for (query, mode) in [("common number3", Mode::Text), ("Alpha Beta and E10", Mode::Graph), ("tok log", Mode::Text)] {
            let search = Search { query: Some(query.into()), mode, k: 50, ..Search::default() };
            let hits: Vec<(String, u64)> = collection.search(&search)?.hits.into_iter().map(|h| (h.id, h.score.to_bits())).collect();
            all.push(format!("{hits:?}"));
        }
        let vector = collection.schema().dimension.map(|d| vec![1.5; d as usize]);
        if vector.is_some() {
            let search = Search { vector, mode: Mode::Vector, k: 50, ..Search::default() };
            all.push(format!("{:?}", collection.search(&search)?.hits.iter().map(|h| (&h.id, h.score.to_bits())).collect::<Vec<_>>()));
        }
        let filter = triune::Filter::parse(r#"{"tag":"t3","n":{"$gte":50}}"#)?;
        all.push(format!("{:?}", collection.count_where(&filter)?));
    }
    Ok(all)
}

fn right() -> &'static Vec<String> {
    static RIGHT: OnceLock<Vec<String>> = OnceLock::new();
    RIGHT.get_or_init(|| answers(&image().disk).unwrap())
}

/// Of a database that a check calls clean although a section was forged, checksums and all. A seq may have moved to a number between its
/// neighbours that no row of the collection has: nothing else says which number it was, and the rows stand in the same order.
fn assert_no_wrong_answer(disk: &SimDirectory, kind: SectionKind, what: &str) {
    if kind == SectionKind::Seqs {
        assert_eq!(answers_without_seqs(disk).unwrap(), answers_without_seqs(&image().disk).unwrap(), "clean, and Seqs is {what}");
    } else {
        assert_eq!(answers(disk).unwrap(), *right(), "clean, and {kind:?} is {what}");
    }
}

/// What is done to a file.
#[derive(Debug, Clone)]
enum Damage {
    Flip { at: prop::sample::Index, mask: u8 },
    Fill { at: prop::sample::Index, length: usize, byte: u8 },
    Cut { at: prop::sample::Index },
    Grow { bytes: Vec<u8> },
    Copy { from: prop::sample::Index, to: prop::sample::Index, length: usize },
    Remove,
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        4 => (at(), 1u8..).prop_map(|(at, mask)| Damage::Flip { at, mask }),
        2 => (at(), 1usize..600, any::<u8>()).prop_map(|(at, length, byte)| Damage::Fill { at, length, byte }),
        1 => at().prop_map(|at| Damage::Cut { at }),
        1 => prop::collection::vec(any::<u8>(), 1..200).prop_map(|bytes| Damage::Grow { bytes }),
        2 => (at(), at(), 1usize..5000).prop_map(|(from, to, length)| Damage::Copy { from, to, length }),
        1 => Just(Damage::Remove),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let end = |from: usize, length: usize, all: usize| (from + length).min(all);
        match self {
            Damage::Flip { at, mask } => {
                let i = at.index(bytes.len());
                bytes[i] ^= mask;
            }
            Damage::Fill { at, length, byte } => {
                let (from, all) = (at.index(bytes.len()), bytes.len());
                bytes[from..end(from, *length, all)].fill(*byte);
            }
            Damage::Cut { at } => bytes.truncate(at.index(bytes.len())),
            Damage::Grow { bytes: more } => bytes.extend_from_slice(more),
            Damage::Copy { from, to, length } => {
                let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
                let length = (*length).min(bytes.len() - from.max(to));
                bytes.copy_within(from..from + length, to);
            }
            Damage::Remove => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Nothing mends the checksums: level 1 sees whatever a reader could be misled by.
    #[test]
    fn any_damage_has_a_verdict_and_none_is_clean_over_a_wrong_answer(
        file in any::<prop::sample::Index>(),
        damages in prop::collection::vec(damage(), 1..3),
        level in 1u8..=3,
    ) {
        let names = image().disk.file_names();
        let name = &names[file.index(names.len())];
        let disk = image().disk.after_kill();
        let mut bytes = disk.read_file(name).unwrap();
        damages.iter().for_each(|damage| damage.apply(&mut bytes));
        if damages.iter().any(|damage| matches!(damage, Damage::Remove)) { disk.remove_file(name) } else { disk.write_file(name, bytes) }
        verdict(&disk, 0);
        if verdict(&disk, level).is_some_and(|report| report.is_clean()) {
            prop_assert_eq!(answers(&disk).unwrap(), right().clone(), "clean, and {} is {:?}", name, damages);
        }
    }

    /// Every checksum holds: levels 2 and 3 read whatever stands there.
    #[test]
    fn any_bytes_under_whole_checksums_have_a_verdict(
        segment in 0usize..3,
        kind in any::<prop::sample::Index>(),
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        let sections = image().sections(&image().segments()[segment]);
        let entry = &sections[kind.index(sections.len())];
        let kind = SectionKind::from_number(entry.kind.get()).unwrap();
        let disk = image().with_section(segment, kind, |section| {
            let mut bytes = section.to_vec();
            damages.iter().for_each(|damage| damage.apply(&mut bytes));
            bytes.resize(section.len(), 0);
            section.copy_from_slice(&bytes);
        });
        prop_assert!(verdict(&disk, 1).is_some_and(|report| report.is_clean()));
        verdict(&disk, 2);
        if verdict(&disk, 3).is_some_and(|report| report.is_clean()) {
            assert_no_wrong_answer(&disk, kind, &format!("{damages:?}"));
        }
    }

    /// Any table, any manifest.
    #[test]
    fn any_table_under_whole_checksums_has_a_verdict(
        segment in 0usize..3,
        section in any::<prop::sample::Index>(),
        field in 0usize..6,
        value in prop_oneof![any::<u64>(), 0u64..100_000, Just(0)],
    ) {
        let disk = image().with_segment(segment, |bytes, table| {
            let length = bytes.len() as u64;
            let i = section.index(table.len());
            let entry = &mut table[i];
            match field {
                0 => entry.items.set(value),
                1 => entry.aux.set(value),
                // The image's own mending needs these inside the segment.
                2 => entry.length.set(value % (entry.length.get() + 1)),
                3 => entry.offset.set(value % (length - entry.length.get())),
                4 => entry.kind.set(value as u16),
                _ => entry.flags.set(value as u16),
            }
        });
        for level in 0..=3 {
            verdict(&disk, level);
        }
    }
}

/// Every byte of them, where gaps leave numbers free.
#[test]
fn a_forged_seq_is_found_or_leaves_the_order_of_rows() {
    let seqs = |segment: &_| image().sections(segment).into_iter().find(|e| e.kind.get() == SectionKind::Seqs as u16).unwrap();
    let (mut clean, mut found) = (0, 0);
    for (number, segment) in image().segments().iter().enumerate() {
        for at in 0..seqs(segment).length.get() as usize {
            for mask in [1, 3, 7, 0x80] {
                let disk = image().with_section(number, SectionKind::Seqs, |bytes| bytes[at] ^= mask);
                if verdict(&disk, 3).is_some_and(|report| report.is_clean()) {
                    assert_no_wrong_answer(&disk, SectionKind::Seqs, &format!("byte {at} of segment {number} ^ {mask}"));
                    clean += 1;
                } else {
                    found += 1;
                }
            }
        }
    }
    assert!(clean > 0 && found > 100 * clean, "{clean} clean, {found} found");
}

#[test]
fn rubbish_has_a_verdict() {
    let names = image().disk.file_names();
    let mut state = 1u64;
    for round in 0..60usize {
        let disk = image().disk.after_kill();
        for (i, name) in names.iter().enumerate().filter(|(i, _)| (round + i) % 3 == 0) {
            let length = [0, 1, 47, 64, 4096, 8192, 9000][(round + i) % 7];
            let byte = |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            };
            disk.write_file(name, (0..length).map(byte).collect::<Vec<u8>>());
        }
        verdict(&disk, (round % 4) as u8);
    }
}

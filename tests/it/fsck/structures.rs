//! Damage that passes every checksum: only the structures themselves, or the stored documents, tell.

use super::image::{Image, options};
use super::{Code, check, codes};
use std::sync::Arc;
use triune::format::segment::{SECTION_DERIVED, SectionKind};
use triune::inspect::Severity;
use triune::io::SimDirectory;
use triune::io::names::FileName;
use triune::maintenance::{LossKind, Salvage, rebuild_directory, write_salvaged};

#[track_caller]
pub fn finds(disk: &SimDirectory, level: u8, code: Code) {
    for below in 0..level {
        assert!(check(disk, below).is_clean(), "level {below} sees it too: {:#?}", check(disk, below).findings);
    }
    let report = check(disk, level);
    assert!(codes(&report).contains(&code), "level {level}: {:#?}", report.findings);
    let worst = report.findings.iter().map(|f| f.severity()).max();
    assert_eq!(worst, Some(code.severity()), "{:#?}", report.findings);
}

#[test]
fn a_changed_byte_of_any_section_is_found_though_every_checksum_holds() {
    let image = Image::of_rich();
    let (mut tried, mut at_two, mut the_same) = (0, 0, 0);
    for segment in 0..2 {
        let bodies = image.bodies(segment);
        for entry in image.sections(&image.segments()[segment]) {
            let kind = SectionKind::from_number(entry.kind.get()).unwrap();
            let length = entry.length.get() as usize;
            let step = (length / 12).max(1);
            for at in (0..length).step_by(step).chain(length.checked_sub(1)) {
                let disk = image.with_section(segment, kind, |bytes| bytes[at] ^= 1 << (at % 8));
                // The checksums were mended.
                assert!(at > 0 || check(&disk, 1).is_clean(), "{kind:?}: {:#?}", check(&disk, 1).findings);
                let report = check(&disk, 3);
                // A block has more than one encoding in LZ4: a match may point to another place where the same bytes stand.
                if kind == SectionKind::Docs && report.is_clean() {
                    assert!(Image { disk }.bodies(segment) == bodies, "byte {at} of {length}, segment {segment}");
                    the_same += 1;
                    continue;
                }
                assert!(!report.is_clean(), "{kind:?}, byte {at} of {length}, segment {segment}");
                let derived = entry.flags.get() & SECTION_DERIVED != 0;
                let worst = report.worst().unwrap();
                assert_eq!(worst == Severity::Derived, derived, "{kind:?}, byte {at}: {:#?}", report.findings);
                tried += 1;
                at_two += usize::from(report.findings.iter().any(|f| f.code.level() <= 2));
            }
        }
    }
    assert!(tried > 300 && at_two > tried / 2 && the_same < 5, "{at_two} of {tried} at level 2; {the_same} changed nothing");
}

#[test]
fn a_changed_table_entry_is_found() {
    let image = Image::of_rich();
    let (mut tried, mut rebuilt) = (0, 0);
    for (i, entry) in image.sections(&image.segments()[0]).iter().enumerate() {
        for field in 0..3 {
            let disk = image.with_segment(0, |_, table| match field {
                0 => table[i].items.set(entry.items.get() + 1),
                1 => table[i].aux.set(entry.aux.get() ^ 1),
                _ => table[i].flags.set(entry.flags.get() ^ 2),
            });
            let report = check(&disk, 3);
            assert!(!report.is_clean(), "{i}: field {field} of section {}", entry.kind);
            let derived = entry.flags.get() & SECTION_DERIVED != 0 && field < 2;
            assert!(!derived || report.worst() == Some(Severity::Derived), "field {field} of {}: {:#?}", entry.kind, report.findings);
            if derived {
                rebuild_directory(Arc::new(disk.clone()), options(), None).unwrap_or_else(|e| panic!("{}: {e}", entry.kind));
                assert!(check(&disk, 3).is_clean(), "{}: {:#?}", entry.kind, check(&disk, 3).findings);
                rebuilt += 1;
            }
            tried += 1;
        }
    }
    assert!(tried > 50 && rebuilt > 20, "{tried}, {rebuilt}");
}

#[test]
fn a_vector_that_is_no_number_is_lost_by_its_name_when_the_rest_is_saved() {
    let image = Image::of_rich();
    let disk = image.with_section(0, SectionKind::Vectors, |bytes| bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes()));
    finds(&disk, 2, Code::Vectors);
    let survey = Salvage::survey(&disk).unwrap();
    let lost: Vec<_> = survey.ledger().iter().map(|loss| loss.kind).collect();
    assert_eq!(lost, [LossKind::Vector]);
    let new = SimDirectory::new();
    write_salvaged(&survey, Arc::new(new.clone()), options()).unwrap();
    assert!(check(&new, 3).is_clean(), "{:#?}", check(&new, 3).findings);
}

#[test]
fn an_id_that_lives_twice_costs_no_document_without_a_line() {
    let image = Image::of_rich();
    // Of ten ids that differ in one digit, two are made the same.
    let disk = image.with_section(0, SectionKind::Ids, |bytes| {
        let at = bytes.windows(5).position(|id| id == b"doc 1").unwrap();
        bytes[at + 4] = b'2';
    });
    assert!(codes(&check(&disk, 2)).contains(&Code::IdTwice));
    let survey = Salvage::survey(&disk).unwrap();
    let lines: Vec<_> = survey.ledger().iter().map(|loss| (loss.kind, loss.id.as_deref(), loss.rows)).collect();
    let whole = image.bodies(0).unwrap().len() as u64;
    assert!(
        matches!(lines[..], [(LossKind::Document, Some("doc 2"), None), (LossKind::Altered, None, Some(rows))] if rows <= whole),
        "{lines:?}"
    );
    let kept: u64 = survey.collections().iter().map(|c| c.documents).sum();
    let before = Salvage::survey(&image.disk).unwrap();
    assert!(before.ledger().is_empty());
    assert_eq!(kept + 1, before.collections().iter().map(|c| c.documents).sum::<u64>());
}

#[test]
fn a_seq_that_lives_twice_costs_no_document_without_a_line() {
    let image = Image::of_rich();
    let before = Salvage::survey(&image.disk).unwrap();
    // The second segment has gaps between its seqs, so they stand in it.
    let disk = image.with_section(1, SectionKind::Seqs, |bytes| bytes.copy_within(4..8, 8));
    assert_eq!(check(&disk, 2).exit_status(), 8);
    let survey = Salvage::survey(&disk).unwrap();
    let documents = |survey: &Salvage| survey.collections().iter().map(|c| c.documents).sum::<u64>();
    assert_eq!(documents(&survey) + 1, documents(&before));
    assert!(matches!(survey.ledger(), [one] if one.kind == LossKind::Document && one.id.is_some()), "{:?}", survey.ledger());
}

#[test]
fn documents_that_are_not_what_was_stored_are_kept_and_told() {
    let image = Image::of_rich();
    let disk = image.with_section(0, SectionKind::Vectors, |bytes| bytes[..4].copy_from_slice(&7.5f32.to_le_bytes()));
    assert!(codes(&check(&disk, 2)).contains(&Code::ContentHash));
    let survey = Salvage::survey(&disk).unwrap();
    assert!(
        matches!(survey.ledger(), [one] if one.kind == LossKind::Altered && one.collection.as_deref() == Some("main")),
        "{:?}",
        survey.ledger()
    );
    let before = Salvage::survey(&image.disk).unwrap();
    assert_eq!(survey.collections(), before.collections());
}

#[test]
fn what_the_manifest_counts_is_counted_again() {
    let image = Image::of_rich();
    finds(&image.with_manifest(|m| m.collections[0].tokens -= 1), 2, Code::ManifestTotals);
    finds(&image.with_manifest(|m| m.collections[0].vectors -= 1), 2, Code::ManifestTotals);
    finds(&image.with_manifest(|m| m.collections[0].segments[0].content_hash ^= 1), 2, Code::ContentHash);
    finds(&image.with_manifest(|m| m.collections[0].segments.last_mut().unwrap().last_seq.0 -= 1), 2, Code::SegmentCounts);
    finds(&image.with_manifest(|m| m.collections[0].segments[0].vectors += 1), 2, Code::SegmentCounts);
    finds(&image.with_manifest(|m| m.collections[0].segments[0].tokens += 1), 2, Code::TextIndex);
    finds(&image.with_manifest(|m| m.collections[0].schema.dimension = Some(9)), 2, Code::Vectors);
}

#[test]
fn dead_rows_that_live_again_are_found() {
    let image = Image::of_rich();
    let raised = image.with_manifest(|m| {
        let c = &mut m.collections[0];
        let dead = c.segments[0].tombstones.take().map_or(0, |t| t.dead);
        c.documents += dead;
    });
    let report = check(&raised, 2);
    assert!(codes(&report).contains(&Code::IdTwice), "{:#?}", report.findings);
    assert_eq!(report.exit_status(), 8);
    let miscounted = image.with_manifest(|m| {
        let c = &mut m.collections[0];
        c.segments[0].tombstones.as_mut().unwrap().dead -= 1;
        c.documents += 1;
    });
    finds(&miscounted, 1, Code::Tombstones);
}

#[test]
fn dead_frequencies_that_are_not_those_of_the_dead_are_found() {
    use triune::tombstones::{TombstonesPart, TombstonesReader, TombstonesWriter};
    let image = Image::of_rich();
    let t = image.segments()[0].tombstones.clone().unwrap();
    let disk = image.disk.after_kill();
    let database = image.head().database;
    let part = TombstonesPart { offset: t.offset, length: t.length, crc: t.crc };
    let (dead, mut frequencies) = TombstonesReader::open(&disk, database, t.file).unwrap().tombstones(part, 300).unwrap();
    assert!(dead.len() > 2 && frequencies.len() > 2);
    frequencies.remove(1);
    let name = FileName::Tombstones(t.file).to_string();
    disk.remove_file(&name);
    let mut writer = TombstonesWriter::create(&disk, database, t.file).unwrap();
    let part = writer.add_tombstones(&dead, &frequencies).unwrap();
    writer.finish().unwrap();
    let changed = Image { disk }.with_manifest(|m| {
        let entry = m.collections[0].segments[0].tombstones.as_mut().unwrap();
        (entry.offset, entry.length, entry.crc) = (part.offset, part.length, part.crc);
    });
    finds(&changed, 2, Code::DeadFrequencies);
}

/// Two rows of equal length exchange their postings of a term: every count still adds up.
#[test]
fn postings_that_contradict_only_the_texts_are_found_at_level_3() {
    let image = Image::of_rich();
    // `Lengths` are two bytes each: two rows exchange their counts, which the postings contradict at level 2.
    let exchanged = image.with_section(0, SectionKind::Lengths, |bytes| {
        let (a, b) = (bytes[0], bytes[2]);
        assert_ne!(a, b);
        (bytes[0], bytes[2]) = (b, a);
    });
    finds(&exchanged, 2, Code::TextIndex);
    // An inverse norm that another vector could have.
    let norm = image.with_section(0, SectionKind::VectorNorms, |bytes| bytes.copy_within(8..16, 0));
    finds(&norm, 3, Code::VectorNorms);
}

#[test]
fn a_log_record_that_no_commit_can_be_is_found() {
    use triune::format::effects::{CollectionEffects, CommitEffects, DeadSet};
    use triune::format::wal::{RECORD_COMMIT, RECORD_HEADER_BYTES, RecordHeader, WalHeader};
    use triune::{Incarnation, Lsn, Seq, Uuid};
    use zerocopy::IntoBytes;
    let image = Image::of_rich();
    let log = image.log();
    let bytes = image.disk.read_file(&log).unwrap();
    let id = Uuid(WalHeader::decode(&bytes[..4096]).unwrap().id);
    // The last record of the log is replaced by another one.
    let headers = (4096..bytes.len() - RECORD_HEADER_BYTES).step_by(8);
    let last = headers.filter_map(|at| RecordHeader::decode(&bytes[at..at + RECORD_HEADER_BYTES], id, at as u64).ok()).next_back().unwrap();
    let at = last.self_offset.get() as usize;
    let with = |payload: &[u8]| {
        let header = RecordHeader::encode(
            id,
            at as u64,
            Lsn(last.lsn.get()),
            Lsn(last.durable_lsn.get()),
            last.previous_header_crc.get(),
            RECORD_COMMIT,
            payload,
        );
        let disk = image.disk.after_kill();
        disk.write_file(&log, [&bytes[..at], header.as_bytes(), payload].concat());
        disk
    };
    finds(&with(b"no effects at all"), 0, Code::LogRecord);
    let effects = |dying: u64, incarnation: u64| {
        let dead = DeadSet::Inline([dying].into_iter().collect());
        let c = CollectionEffects { incarnation: Incarnation(incarnation), rows: Vec::new(), landed: Vec::new(), dead };
        let effects = CommitEffects {
            time_ms: 1,
            next_seq: Seq(10_000),
            next_incarnation: Incarnation(100),
            catalog: Vec::new(),
            collections: vec![c],
        };
        let mut payload = Vec::new();
        effects.encode(&mut payload);
        payload
    };
    assert!(check(&with(&effects(1, 1)), 3).is_clean());
    finds(&with(&effects(9_999, 1)), 2, Code::LogRecord);
    finds(&with(&effects(1, 77)), 2, Code::LogRecord);
}

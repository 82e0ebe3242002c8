//! Damage that checksums see.

use super::image::Image;
use super::{Code, check, codes};
use std::sync::Arc;
use triune::format::segment::{SECTION_DERIVED, SectionKind};
use triune::io::SimDirectory;
use triune::io::names::FileName;
use triune::{Database, Options, Schema};

/// A copy with a bit of one byte flipped.
fn flipped(image: &Image, file: &str, at: usize) -> SimDirectory {
    let disk = image.disk.after_kill();
    let mut bytes = disk.read_file(file).unwrap();
    bytes[at] ^= 1 << (at % 8);
    disk.write_file(file, bytes);
    disk
}

#[test]
fn a_changed_byte_of_a_section_is_named_and_graded() {
    let image = Image::of_rich();
    let mut kinds = std::collections::BTreeSet::new();
    for segment in &image.segments() {
        let file = FileName::Segments(segment.file).to_string();
        for entry in image.sections(segment) {
            let kind = SectionKind::from_number(entry.kind.get()).unwrap();
            let length = entry.length.get();
            let (code, status) = if entry.flags.get() & SECTION_DERIVED != 0 { (Code::DerivedCrc, 4) } else { (Code::PrimaryCrc, 8) };
            let mut places: Vec<u64> = [0, length / 2, length.saturating_sub(1)].iter().map(|at| entry.offset.get() + at).collect();
            // Of an array of block checksums too.
            places.push(entry.crcs_offset.get());
            for at in places.into_iter().filter(|_| length > 0) {
                let disk = flipped(&image, &file, (segment.offset + at) as usize);
                // Every level does what level 1 does.
                for level in if at == entry.offset.get() { 1..=3 } else { 1..=1 } {
                    let report = check(&disk, level);
                    let first = &report.findings[0];
                    assert_eq!(
                        (first.code, first.section.as_deref()),
                        (code, Some(kind.name())),
                        "{kind:?} at {at}: {:#?}",
                        report.findings
                    );
                    assert_eq!((&*first.file, first.collection.is_some()), (&*file, true));
                    assert!(first.offset <= segment.offset + at && first.offset + 4096 > segment.offset + at, "{first:?}");
                    assert_eq!(report.exit_status(), status, "{kind:?}, level {level}: {:#?}", report.findings);
                }
                assert!(check(&disk, 0).is_clean(), "level 0 reads no section");
                kinds.insert(kind);
            }
        }
    }
    let written = [
        SectionKind::Docs,
        SectionKind::Ids,
        SectionKind::Seqs,
        SectionKind::Sources,
        SectionKind::Vectors,
        SectionKind::VectorRows,
        SectionKind::Postings,
        SectionKind::MetadataRows,
        SectionKind::RelationsByTarget,
    ];
    assert!(written.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

#[test]
fn a_changed_byte_of_a_frame_is_found() {
    let image = Image::of_rich();
    let segment = &image.segments()[0];
    let file = FileName::Segments(segment.file).to_string();
    let found = |at: u64, level| check(&flipped(&image, &file, (segment.offset + at) as usize), level);
    // Header and footer: the segment cannot be read.
    for at in [0, 9, 20, segment.length - 64, segment.length - 20, segment.length - 1] {
        for level in 0..=3 {
            let report = found(at, level);
            assert_eq!((codes(&report)[0], report.exit_status()), (Code::SegmentFrame, 8), "byte {at}: {:#?}", report.findings);
        }
    }
    // Each copy of the table.
    let sections = image.sections(segment);
    assert!(sections.len() > 15);
    let footer = image.footer(segment);
    for at in [footer.table_offset.get() + 16, footer.table_copy_offset.get() + 17] {
        let report = found(at, 1);
        assert_eq!((codes(&report), report.exit_status()), (vec![Code::SegmentTable], 4), "byte {at}: {:#?}", report.findings);
    }
}

/// No byte can change unseen, but for those that mean nothing.
#[test]
fn no_changed_byte_and_no_cut_is_clean() {
    let image = Image::of_rich();
    let (mut tried, mut worst) = (0, std::collections::BTreeMap::new());
    for name in image.disk.file_names().into_iter().filter(|name| !["LOCK", "BALLAST"].contains(&name.as_str())) {
        let bytes = image.disk.read_file(&name).unwrap();
        let step = (bytes.len() / 200).max(1);
        for at in (0..bytes.len()).step_by(step).chain((0..bytes.len()).filter(|&at| bytes[at] != 0).step_by(step)) {
            let report = check(&flipped(&image, &name, at), 1);
            assert!(!report.is_clean(), "byte {at} of {name}");
            *worst.entry((name.chars().next(), report.exit_status())).or_insert(0) += 1;
            tried += 1;
        }
        for length in (0..bytes.len()).step_by(step * 7) {
            let disk = image.disk.after_kill();
            disk.write_file(&name, &bytes[..length]);
            // What follows the last record of the log is zeros, of which any number may be there.
            let only_zeros = name.starts_with('w') && bytes[length..].iter().all(|&b| b == 0);
            assert!(!check(&disk, 1).is_clean() || only_zeros, "{name} cut to {length} bytes");
            tried += 1;
        }
        let disk = image.disk.after_kill();
        disk.remove_file(&name);
        assert!(!check(&disk, 0).is_clean() || name == "WITNESS", "{name} removed");
    }
    assert!(tried > 1500, "{tried} tried");
    // A changed log loses what was durable; a changed manifest, tombstone or document is lost; an index is not.
    for graded in [('w', 8), ('m', 8), ('d', 8), ('s', 8), ('s', 4), ('W', 1), ('H', 1)] {
        assert!(worst.contains_key(&(Some(graded.0), graded.1)), "{graded:?} in {worst:?}");
    }
}

#[test]
fn a_missing_lock_ballast_or_witness_loses_nothing() {
    let image = Image::of_rich();
    for (name, code, status) in [("LOCK", Code::LockMissing, 4), ("BALLAST", Code::Ballast, 1), ("WITNESS", Code::Witness, 1)] {
        let disk = image.disk.after_kill();
        disk.remove_file(name);
        let report = check(&disk, 1);
        assert_eq!((codes(&report), report.exit_status()), (vec![code], status), "{name}");
    }
    let disk = image.disk.after_kill();
    disk.remove_file("HEAD");
    let report = check(&disk, 3);
    assert_eq!((codes(&report), report.exit_status()), (vec![Code::HeadMissing], 8));
    disk.write_file("HEAD", vec![1; 8192]);
    assert_eq!(codes(&check(&disk, 3)), vec![Code::HeadLost]);
    // The two slots are not of one database, or not of one mind.
    let mut bytes = image.disk.read_file("HEAD").unwrap();
    bytes.truncate(4096);
    disk.write_file("HEAD", bytes.clone());
    assert_eq!(codes(&check(&disk, 0)), vec![Code::HeadSlot]);
}

#[test]
fn a_missing_file_is_named() {
    let image = Image::of_rich();
    let names = image.disk.file_names();
    for (kind, code) in [('m', Code::Manifest), ('s', Code::FileMissing), ('d', Code::FileMissing), ('w', Code::LogDamaged)] {
        let head = image.head();
        let name = match kind {
            'm' => FileName::Manifest(head.manifest_number).to_string(),
            'w' => image.log(),
            _ => names.iter().find(|name| name.starts_with(kind)).unwrap().clone(),
        };
        let disk = image.disk.after_kill();
        disk.remove_file(&name);
        for level in 0..=3 {
            let report = check(&disk, level);
            let first = &report.findings[0];
            assert_eq!((first.code, &*first.file, report.exit_status()), (code, &*name, 8), "{:#?}", report.findings);
        }
    }
}

#[test]
fn a_read_that_fails_is_a_finding() {
    let image = Image::of_rich();
    let segment = &image.segments()[0];
    let disk = image.disk.after_kill();
    disk.fail_reads(&FileName::Segments(segment.file).to_string(), segment.offset + 100);
    let report = triune::inspect::fsck_directory(&disk, &triune::inspect::FsckOptions::level(3)).unwrap();
    assert!(codes(&report).contains(&Code::ReadFailed), "{:#?}", report.findings);
    assert_eq!(report.exit_status(), 8);
}

#[test]
fn a_damaged_header_of_a_log_without_records_claims_no_lost_commit() {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), Options::default()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    let log = |disk: &SimDirectory| disk.file_names().into_iter().rfind(|n| n.ends_with(".wal")).unwrap();
    let flip = |disk: &SimDirectory| {
        let mut bytes = disk.read_file(&log(disk)).unwrap();
        bytes[2000] ^= 1;
        disk.write_file(&log(disk), bytes);
        check(disk, 1)
    };
    let with_records = flip(&disk.after_kill());
    assert!(with_records.findings.iter().any(|f| f.code == Code::LogDamaged && f.detail.contains("Records found after it: 1")));
    db.close().unwrap();
    let report = flip(&disk);
    let found = report.findings.iter().find(|f| f.code == Code::LogDamaged).unwrap();
    assert!(found.detail.contains("checksum of the log header") && found.detail.contains("the header is damaged"), "{}", found.detail);
    assert!(found.detail.contains("No record is found") && found.detail.contains("maybe none"), "{}", found.detail);
    assert!(found.code.meaning().ends_with("or may be."), "{}", found.code.meaning());
    assert_eq!(report.exit_status(), 8);
}

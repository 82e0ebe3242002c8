//! Rebuild: derived sections anew, nothing lost, nothing changed when that is impossible.

use super::backing_up::{assert_sound, with_landed_batches};
use super::fixture::{copy, dump_of, dump_of_disk, fixture, open, options};
use super::sections::{flip, manifest_of, sections_of};
use std::sync::Arc;
use triune::io::SimDirectory;
use triune::io::sim::{CrashMode, FailureKind};
use triune::maintenance::{RebuildReport, rebuild_directory};
use triune::{Database, Document, ErrorCode, Mode, Result, Schema, Search, WriteBatch};

fn rebuild(disk: &SimDirectory, collection: Option<&str>) -> Result<RebuildReport> {
    rebuild_directory(Arc::new(disk.clone()), options(), collection)
}

fn closed() -> SimDirectory {
    let (disk, db) = fixture();
    db.close().unwrap();
    disk
}

/// What every retriever answers, and what is counted.
fn answers(disk: &SimDirectory) -> Vec<String> {
    let db = Database::open_read_only_with(Arc::new(disk.clone()), options()).unwrap();
    let main = db.snapshot().collection("main").unwrap();
    let mut said =
        vec![format!("{:?}", triune::CollectionStats { segments: 0, ..main.stats().unwrap() }), format!("{:?}", main.sources().unwrap())];
    for (mode, query, vector) in [
        (Mode::Text, "torn tail number3 replaced", None),
        (Mode::Vector, "", Some(vec![2.0, 0.3, -1.0])),
        (Mode::Graph, "RAG Torn Tail", None),
    ] {
        let search = Search { mode, query: Some(query.into()), vector, k: 50, ..Search::default() };
        let hits = main.search(&search).unwrap().hits;
        assert!(!hits.is_empty(), "{query}");
        said.push(format!("{:?}", hits.iter().map(|h| (&h.id, h.score.to_bits())).collect::<Vec<_>>()));
    }
    said.push(format!("{:?}", main.get("p33").unwrap().map(|d| d.text)));
    said
}

#[test]
fn derived_sections_are_rebuilt_whatever_became_of_them() {
    let (open_disk, db) = fixture();
    drop(db);
    for disk in [closed(), open_disk.after_kill()] {
        let (text, said) = (dump_of_disk(&disk), answers(&disk));
        let derived: Vec<_> = sections_of(&disk).into_iter().filter(|s| s.derived).collect();
        assert!(derived.len() >= 15, "{}", derived.len());
        // One by one, and at last all of them at once.
        for damaged in derived.chunks(1).chain([derived.as_slice()]) {
            let disk = copy(&disk);
            for section in damaged {
                for at in [0, section.length / 2, section.length - 1] {
                    flip(&disk, &section.file, section.start + at);
                }
            }
            let report = rebuild(&disk, None).unwrap();
            assert!(report.segments >= 2 && report.rows > 50, "{report:?}");
            assert_eq!(dump_of_disk(&disk), text, "section {}", damaged[0].kind);
            assert_eq!(answers(&disk), said, "section {}", damaged[0].kind);
            assert_sound(&disk);
        }
    }
}

#[test]
fn one_collection_is_rebuilt_and_the_log_is_brought_in() {
    for (disk, db) in [fixture(), with_landed_batches()] {
        let text = dump_of(&db);
        assert_eq!(rebuild(&disk, None).unwrap_err().code(), ErrorCode::Locked);
        drop(db);
        let killed = copy(&disk.after_kill());
        let report = rebuild(&killed, Some("main")).unwrap();
        assert!(report.segments >= 2, "{report:?}");
        assert_eq!(dump_of_disk(&killed), text);
        assert_sound(&killed);
        assert_eq!(open(&killed).recovery().replayed_commits, 0);
        let error = rebuild(&killed, Some("absent")).unwrap_err();
        assert!(error.code() == ErrorCode::NotFound && dump_of_disk(&killed) == text, "{error}");
    }
    let nothing = rebuild(&SimDirectory::new(), None).unwrap_err();
    assert_eq!(nothing.code(), ErrorCode::NotFound);
}

#[test]
fn damage_to_what_cannot_be_rebuilt_is_refused_and_nothing_is_changed() {
    let disk = closed();
    let mut refused = 0;
    let primary: Vec<(String, u64)> =
        sections_of(&disk).into_iter().filter(|s| !s.derived).map(|s| (s.file, s.start + s.length / 2)).collect();
    let tombstones = disk.file_names().into_iter().find(|n| n.starts_with("d-")).map(|n| (n, 100));
    for (file, at) in primary.into_iter().chain(tombstones) {
        let damaged = copy(&disk);
        flip(&damaged, &file, at);
        let before = damaged.image_hash();
        let error = rebuild(&damaged, None).unwrap_err();
        assert!(error.code() == ErrorCode::Corrupt && error.to_string().contains(&file), "{error}");
        assert!(error.to_string().contains("triune salvage"), "{error}");
        assert_eq!(damaged.image_hash(), before, "{file}");
        refused += 1;
    }
    assert!(refused >= 9, "{refused}");
}

#[test]
fn damage_that_only_the_log_leads_to_refuses_a_rebuild_before_a_byte_is_written() {
    let (disk, db) = with_landed_batches();
    let disk = disk.after_kill();
    drop(db);
    let mut refused = 0;
    for file in disk.file_names().into_iter().filter(|name| name.ends_with(".segments") || name.ends_with(".tombstones")) {
        let damaged = copy(&disk);
        let bytes = damaged.read_file(&file).unwrap();
        damaged.write_file(&file, bytes[..bytes.len() / 2].to_vec());
        let before = damaged.image_hash();
        if let Err(error) = rebuild(&damaged, None) {
            assert!(error.code() == ErrorCode::Corrupt && error.to_string().contains(&file), "{error}");
            assert_eq!(damaged.image_hash(), before, "{file}");
            refused += 1;
        }
    }
    assert!(refused >= 2, "{refused}");
}

#[test]
fn a_rebuild_cut_short_anywhere_leaves_the_old_state_or_the_new_one() {
    let disk = copy(&closed());
    let text = dump_of_disk(&disk);
    let whole = copy(&disk);
    rebuild(&whole, None).unwrap();
    for n in 0..whole.operations() {
        let cut = copy(&disk);
        cut.crash_at(n, CrashMode::During);
        if rebuild(&cut, None).is_ok() {
            continue;
        }
        for image in cut.survivor_images(6).chain([cut.after_kill()]) {
            let db = open(&image);
            assert_eq!(dump_of(&db), text, "operation {n}");
            db.compact().unwrap();
            db.close().unwrap();
            assert_eq!(dump_of_disk(&image), text, "operation {n}");
        }
    }
}

#[test]
fn a_missing_lock_is_made_again() {
    let disk = closed();
    let before = dump_of_disk(&disk);
    triune::io::Directory::unlink(&disk, "LOCK").unwrap();
    assert_eq!(Database::open_with(Arc::new(disk.clone()), options()).unwrap_err().code(), ErrorCode::Corrupt);
    rebuild(&disk, None).unwrap();
    assert_eq!(dump_of_disk(&disk), before);
    open(&disk).close().unwrap();
    assert_sound(&disk);
}

/// Collections `main` and `other` in segments, and a log that changes a document of `other`.
fn with_another_in_the_log() -> SimDirectory {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    for name in ["main", "other"] {
        db.create_collection(name, Schema::default()).unwrap();
        db.put(name, (0..20).map(|i| Document::new(format!("d{i}")).text(format!("{name} words {i}"))).collect()).unwrap();
        db.checkpoint().unwrap();
    }
    db.put("other", vec![Document::new("d3").text("replaced after the checkpoint")]).unwrap();
    copy(&disk.after_kill())
}

#[test]
fn damage_elsewhere_that_the_log_needs_refuses_before_anything_is_published() {
    let disk = with_another_in_the_log();
    let text = dump_of_disk(&disk);
    let other = manifest_of(&disk).1.collections.iter().find(|c| c.name == "other").unwrap().segments[0].clone();
    let file = triune::io::names::FileName::Segments(other.file).to_string();
    let (mut refused, mut rebuilt) = (0, 0);
    for section in sections_of(&disk).into_iter().filter(|s| s.file == file) {
        for at in [0, section.length / 2, section.length - 1] {
            let damaged = copy(&disk);
            flip(&damaged, &file, section.start + at);
            let before = damaged.image_hash();
            match rebuild(&damaged, Some("main")) {
                Ok(_) => rebuilt += 1,
                Err(e) => {
                    assert!(e.code() == ErrorCode::Corrupt && e.to_string().contains(&file), "{e}");
                    assert!(e.to_string().contains("Nothing was changed."), "{e}");
                    assert_eq!(damaged.image_hash(), before, "section {}: {e}", section.kind);
                    refused += 1;
                }
            }
            if section.derived {
                rebuild(&damaged, None).unwrap();
                assert_eq!(dump_of_disk(&damaged), text);
            }
        }
    }
    assert!(refused > 0 && rebuilt > 3, "{refused} refused, {rebuilt} rebuilt");
}

/// Whatever operation or call fails: an error that does not say what stands changed nothing.
#[test]
fn a_rebuild_on_a_failing_disk_says_what_stands() {
    let (landed, db) = with_landed_batches();
    drop(db);
    for disk in [with_another_in_the_log(), copy(&landed.after_kill())] {
        let text = dump_of_disk(&disk);
        let whole = copy(&disk);
        rebuild(&whole, Some("main")).unwrap();
        let (mut refused, mut stands) = (0, 0);
        let changes = (0..whole.operations()).flat_map(|n| [FailureKind::Eio, FailureKind::Enospc].map(|kind| (n, kind, true)));
        let looks = (0..whole.accesses()).map(|n| (n, FailureKind::Eio, false));
        for (n, kind, changes) in changes.chain(looks) {
            let failing = copy(&disk);
            if changes {
                failing.fail(n, kind)
            } else {
                failing.fail_access(n, kind)
            }
            let Err(e) = rebuild(&failing, Some("main")) else { continue };
            let said = e.to_string();
            if said.contains("stands") {
                stands += 1;
            } else if e.code() != ErrorCode::OutcomeUnknown {
                assert_eq!(failing.file_names(), disk.file_names(), "{kind:?} at {n}: {said}");
                refused += 1;
            }
            assert_eq!(dump_of_disk(&failing.after_kill()), text, "{kind:?} at {n}: {said}");
        }
        assert!(refused > 10 && stands > 10, "{refused} refused, {stands} stand");
    }
}

#[test]
fn a_name_that_no_collection_has_is_refused_before_anything_is_written() {
    let disk = with_another_in_the_log();
    let db = open(&disk);
    db.create_collection("new", Schema::default()).unwrap();
    let mut batch = WriteBatch::new();
    batch.drop_collection("other").rename_collection("main", "renamed");
    db.commit(batch).unwrap();
    drop(db);
    let disk = copy(&disk.after_kill());
    for absent in ["absent", "other", "main"] {
        let refused = copy(&disk);
        let error = rebuild(&refused, Some(absent)).unwrap_err();
        assert_eq!((error.code(), refused.image_hash()), (ErrorCode::NotFound, disk.image_hash()), "{error}");
    }
    assert_eq!(rebuild(&copy(&disk), Some("new")).unwrap().segments, 0);
    assert_eq!(rebuild(&copy(&disk), Some("renamed")).unwrap().segments, 1, "the log gives it that name");
}

#[test]
fn what_cannot_be_rebuilt_gets_no_lock() {
    let disk = closed();
    disk.remove_file("LOCK");
    let headless = copy(&disk);
    headless.remove_file("HEAD");
    let zeroed = copy(&disk);
    zeroed.write_file("HEAD", vec![0; 8192]);
    let foreign = SimDirectory::new();
    foreign.write_file("HEAD", *b"ref: refs/heads/main\n");
    foreign.write_file("config", *b"[core]\n");
    for (disk, collection, code) in [
        (headless, None, ErrorCode::Corrupt),
        (zeroed, None, ErrorCode::Corrupt),
        (foreign, None, ErrorCode::NotFound),
        (copy(&disk), Some("absent"), ErrorCode::NotFound),
    ] {
        let before = disk.image_hash();
        assert_eq!(rebuild(&disk, collection).unwrap_err().code(), code);
        assert_eq!(disk.image_hash(), before);
    }
}

//! Salvage: everything that is not in the ledger is there, exactly; the damaged directory is never touched.

use super::backing_up::{assert_sound, before_landed_batches, with_landed_batches};
use super::fixture::{copy, dump_of_disk, fixture, options};
use super::sections::{flip, manifest_of, sections_of};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use triune::format::segment::SegmentFooter;
use triune::format::wal::{RECORD_COMMIT, RECORD_HEADER_BYTES, RecordHeader, WAL_HEADER_BYTES, WalHeader};
use triune::io::SimDirectory;
use triune::io::names::FileName;
use triune::maintenance::{Loss, LossKind, Salvage, salvage, write_salvaged};
use triune::{Database, Document, ErrorCode, Lsn, Schema, Uuid};

/// Each document of a dump, by collection and id, as its line.
type Documents = BTreeMap<(String, String), serde_json::Value>;

pub(super) fn documents_of(dump: &[u8]) -> Documents {
    let (mut documents, mut collection) = (Documents::new(), String::new());
    for line in std::str::from_utf8(dump).unwrap().lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(name) = value["collection"].as_str() {
            collection = name.into();
        } else if let Some(id) = value["id"].as_str() {
            documents.insert((collection.clone(), id.into()), value);
        }
    }
    documents
}

/// What was salvaged: its dump and the ledger.
pub(super) fn saved(disk: &SimDirectory, what: &str) -> (Vec<u8>, Vec<Loss>) {
    let (before, operations) = (disk.image_hash(), disk.operations());
    let survey = Salvage::survey(disk).unwrap_or_else(|e| panic!("{what}: {e}"));
    let new = SimDirectory::new();
    let report = write_salvaged(&survey, Arc::new(new.clone()), options()).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!((disk.image_hash(), disk.operations()), (before, operations), "{what}: the source was touched");
    assert_sound(&new);
    let db = Database::open_with(Arc::new(new.clone()), options()).unwrap();
    assert_eq!(report.collections, db.snapshot().collections().len() as u64);
    db.close().unwrap();
    (dump_of_disk(&new), report.ledger)
}

/// Holds a salvage against what was stored: `now` is the content, `before` that of the last checkpoint.
pub(super) fn judge(what: &str, now: &[u8], before: &[u8], saved: &[u8], ledger: &[Loss]) {
    if ledger.is_empty() {
        assert_eq!(String::from_utf8_lossy(saved), String::from_utf8_lossy(now), "{what}: nothing is said to be lost");
        return;
    }
    let (now, before, saved) = (documents_of(now), documents_of(before), documents_of(saved));
    let has = |kind: LossKind| ledger.iter().any(|l| l.kind == kind);
    if has(LossKind::Manifest) {
        // Whose documents they are is lost: each is there under some collection, exactly.
        for ((_, id), document) in &saved {
            let known = now.iter().chain(&before).any(|((_, other), d)| other == id && d == document);
            let dead = ledger.iter().any(|l| l.kind == LossKind::Death && l.id.as_deref() == Some(id));
            assert!(known || dead, "{what}: {document}");
        }
        return;
    }
    let named = |kind: LossKind| -> BTreeSet<(String, String)> {
        let of = ledger.iter().filter(|l| l.kind == kind);
        of.filter_map(|l| Some((l.collection.clone()?, l.id.clone()?))).collect()
    };
    let (lost, without_vector, maybe_dead) = (named(LossKind::Document), named(LossKind::Vector), named(LossKind::Death));
    let unnamed = has(LossKind::Documents) || ledger.iter().any(|l| l.kind == LossKind::Document && l.id.is_none());
    let commits = has(LossKind::Commits);
    // Between the checkpoint and now a document may have been written anew with the same content: only its time differs then.
    let timeless = |document: &serde_json::Value| {
        let mut document = document.clone();
        document.as_object_mut().unwrap().remove("time_ms");
        document
    };
    let older = |key: &(String, String), found: &serde_json::Value| before.get(key).is_some_and(|b| timeless(b) == timeless(found));
    for (key, document) in &now {
        match saved.get(key) {
            Some(found) if found == document => assert!(!lost.contains(key), "{what}: {key:?} is there and said to be lost"),
            Some(found) if without_vector.contains(key) => {
                let mut expected = document.clone();
                expected.as_object_mut().unwrap().remove("vector");
                assert_eq!(*found, expected, "{what}");
            }
            Some(found) => assert!((commits || unnamed || maybe_dead.contains(key)) && older(key, found), "{what}: {key:?} is {found}"),
            None => assert!(lost.contains(key) || unnamed || commits, "{what}: {key:?} is gone and nothing says so: {ledger:?}"),
        }
    }
    for (key, document) in saved.iter().filter(|(key, _)| !now.contains_key(*key)) {
        assert!(maybe_dead.contains(key) || (commits && older(key, document)), "{what}: {key:?} is back, and nothing says so");
    }
}

/// Databases to be damaged, each with its content and that of its last checkpoint.
pub(super) fn subjects() -> Vec<(&'static str, SimDirectory, Vec<u8>, Vec<u8>)> {
    let mut subjects = Vec::new();
    for (name, (disk, db)) in [("fixture", fixture()), ("landed", with_landed_batches())] {
        let killed = copy(&disk.after_kill());
        let now = dump_of_disk(&killed);
        drop(db);
        let before = match name {
            "landed" => dump_of_disk(&before_landed_batches().0),
            // Without the records of its log a database is as its manifest says.
            _ => {
                let bare = copy(&killed);
                for log in bare.file_names().into_iter().filter(|n| n.ends_with(".wal")) {
                    let mut bytes = bare.read_file(&log).unwrap();
                    bytes[4096..].fill(0);
                    bare.write_file(&log, bytes);
                }
                bare.remove_file("WITNESS");
                dump_of_disk(&bare)
            }
        };
        assert_ne!(now, before);
        subjects.push((name, killed, now.clone(), before));
        let clean = copy(&disk.after_kill());
        Database::open_with(Arc::new(clean.clone()), options()).unwrap().close().unwrap();
        subjects.push((name, clean, now.clone(), now));
    }
    subjects
}

#[test]
fn an_undamaged_database_is_saved_whole_and_its_ledger_is_empty() {
    for (name, disk, now, _) in subjects() {
        let (saved, ledger) = saved(&disk, name);
        assert_eq!(ledger, []);
        assert!(saved == now, "{name}");
    }
    // A torn tail that was never synced is no loss: `open` drops it too.
    let (_, disk, now, _) = subjects().swap_remove(0);
    let log = disk.file_names().into_iter().rfind(|n| n.ends_with(".wal")).unwrap();
    let mut bytes = disk.read_file(&log).unwrap();
    bytes.extend([7; 900]);
    disk.write_file(&log, bytes);
    assert_eq!(saved(&disk, "torn"), (now, vec![]));
    assert_eq!(Salvage::survey(&SimDirectory::new()).unwrap_err().code(), ErrorCode::NotFound);
}

#[test]
fn each_section_damaged_in_turn_costs_its_own_documents_and_no_other() {
    let (mut lossless, mut losses) = (0, BTreeMap::new());
    for (name, disk, now, before) in subjects() {
        for section in sections_of(&disk) {
            for at in [0, section.length / 2, section.length - 1] {
                let what = format!("{name}: section {} of {}, byte {at}", section.kind, section.file);
                let damaged = copy(&disk);
                flip(&damaged, &section.file, section.start + at);
                let (saved, ledger) = saved(&damaged, &what);
                if section.derived {
                    assert_eq!(ledger, [], "{what}");
                }
                judge(&what, &now, &before, &saved, &ledger);
                lossless += usize::from(ledger.is_empty());
                *losses.entry(section.kind).or_insert(0) += ledger.len();
            }
        }
    }
    assert!(lossless > 50 && losses.values().filter(|n| **n > 0).count() >= 4, "{lossless} {losses:?}");
}

#[test]
fn each_file_deleted_cut_or_emptied_in_turn_is_survived() {
    let mut kinds = BTreeSet::new();
    for (name, disk, now, before) in subjects() {
        for file in disk.file_names() {
            let bytes = disk.read_file(&file).unwrap();
            for (how, left) in [("deleted", None), ("cut", Some(bytes[..bytes.len() / 2].to_vec())), ("zeroed", Some(vec![0; bytes.len()]))]
            {
                let what = format!("{name}: {file} {how}");
                let damaged = copy(&disk);
                match left {
                    None => damaged.remove_file(&file),
                    Some(left) => damaged.write_file(&file, left),
                }
                let (saved, ledger) = saved(&damaged, &what);
                judge(&what, &now, &before, &saved, &ledger);
                kinds.extend(ledger.iter().map(|l| format!("{:?}", l.kind)));
                if ["HEAD", "LOCK", "BALLAST"].contains(&file.as_str()) {
                    assert_eq!(ledger, [], "{what}");
                }
                if file.ends_with(".manifest") {
                    assert!(!documents_of(&saved).is_empty(), "{what}: segments are saved without their manifest");
                }
            }
        }
    }
    assert!(["Commits", "Death", "Documents", "Manifest"].iter().all(|k| kinds.contains(*k)), "{kinds:?}");
}

#[test]
fn a_changed_byte_anywhere_is_survived() {
    let mut lost = 0;
    for (name, disk, now, before) in subjects() {
        for file in disk.file_names().into_iter().filter(|f| f != "BALLAST" && f != "LOCK") {
            let length = disk.read_file(&file).unwrap().len() as u64;
            for i in 0..40 {
                // Spread evenly, and the last bytes of each file, where frames end.
                let at = if i < 30 { i * length / 30 } else { length.saturating_sub(1 + (i - 30) * 7) };
                let what = format!("{name}: {file} byte {at}");
                let damaged = copy(&disk);
                flip(&damaged, &file, at);
                let (saved, ledger) = saved(&damaged, &what);
                judge(&what, &now, &before, &saved, &ledger);
                lost += usize::from(!ledger.is_empty());
            }
        }
    }
    assert!(lost > 20, "{lost}");
}

#[test]
fn a_frame_of_a_segment_is_found_again() {
    let (_, disk, now, _) = subjects().swap_remove(1);
    let (_, manifest) = manifest_of(&disk);
    let entry = &manifest.collections.iter().find(|c| c.name == "main").unwrap().segments[0];
    let file = FileName::Segments(entry.file).to_string();
    let end = entry.offset + entry.length;
    // Header, footer, one section table, its copy: any one of them may go.
    for (at, opens) in [(entry.offset + 3, false), (end - 1, false), (end - 61, false), (end - 74, true)] {
        let damaged = copy(&disk);
        flip(&damaged, &file, at);
        let opened =
            Database::open_read_only_with(Arc::new(damaged.clone()), options()).and_then(|db| db.snapshot().collection("main")?.stats());
        assert_eq!(opened.is_ok(), opens, "byte {at}");
        let (saved, ledger) = saved(&damaged, &format!("byte {at}"));
        assert_eq!(ledger, [], "byte {at}");
        assert!(saved == now, "byte {at}");
    }
}

#[test]
fn a_file_cut_in_the_tables_at_its_end_costs_nothing() {
    let (_, disk, now, before) = subjects().swap_remove(1);
    let (_, manifest) = manifest_of(&disk);
    let last = |file: u64| manifest.collections.iter().flat_map(|c| &c.segments).filter(move |s| s.file == file).max_by_key(|s| s.offset);
    let entry = manifest.collections.iter().find(|c| c.name == "main").and_then(|c| last(c.segments[0].file)).unwrap();
    let file = FileName::Segments(entry.file).to_string();
    let bytes = disk.read_file(&file).unwrap();
    let end = (entry.offset + entry.length) as usize;
    let footer = SegmentFooter::decode(&bytes[end - 64..end]).unwrap();
    // Footer and copy are gone, the table is not; and then its last entry is gone too.
    let table = entry.offset as usize + (footer.table_offset.get() + 64 * u64::from(footer.sections.get())) as usize;
    let cuts = [1, 2, 63, 64, 65, 100, end - table - 1, end - table, end - table + 64, end - table + 500];
    for cut in cuts {
        let damaged = copy(&disk);
        damaged.write_file(&file, bytes[..end - cut].to_vec());
        let (saved, ledger) = saved(&damaged, &format!("cut by {cut}"));
        judge(&format!("cut by {cut}"), &now, &before, &saved, &ledger);
        assert_eq!(ledger.is_empty(), cut <= end - table, "cut by {cut}: {ledger:?}");
    }
}

#[test]
fn nothing_is_made_of_a_loss_that_is_not_accepted() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, new) = (scratch.path().join("db"), scratch.path().join("new"));
    let (_, disk, _, _) = subjects().swap_remove(1);
    std::fs::create_dir(&path).unwrap();
    for name in disk.file_names() {
        std::fs::write(path.join(&name), disk.read_file(&name).unwrap()).unwrap();
    }
    let report = salvage(&path, &new, false).unwrap();
    assert!(report.made && report.ledger.is_empty());
    std::fs::remove_dir_all(&new).unwrap();
    let section = sections_of(&disk).into_iter().find(|s| !s.derived).unwrap();
    let damaged = copy(&disk);
    flip(&damaged, &section.file, section.start + section.length / 2);
    std::fs::write(path.join(&section.file), damaged.read_file(&section.file).unwrap()).unwrap();
    let report = salvage(&path, &new, false).unwrap();
    assert!(!report.made && !report.ledger.is_empty() && !new.exists());
    let accepted = salvage(&path, &new, true).unwrap();
    assert!(accepted.made && accepted.ledger == report.ledger);
    assert_eq!(salvage(&path, &new, true).unwrap_err().code(), ErrorCode::AlreadyExists);
    let writer = Database::create(scratch.path().join("busy")).unwrap();
    assert_eq!(salvage(scratch.path().join("busy"), scratch.path().join("x"), false).unwrap_err().code(), ErrorCode::Locked);
    writer.close().unwrap();
}

#[test]
fn a_log_of_another_time_under_the_name_of_the_active_one_is_a_missing_log() {
    let (disk, db) = fixture();
    let old = copy(&disk);
    db.checkpoint().unwrap();
    db.put("main", vec![Document::new("late").text("after the rotation")]).unwrap();
    drop(db);
    let log = |disk: &SimDirectory| disk.file_names().into_iter().rfind(|n| n.ends_with(".wal")).unwrap();
    let (active, earlier) = (log(&disk), log(&old));
    assert_ne!(active, earlier, "a checkpoint starts another log");
    disk.write_file(&active, old.read_file(&earlier).unwrap());
    disk.remove_file("WITNESS");
    let (_, ledger) = saved(&disk, "another log under the name of the active one");
    assert!(ledger.iter().any(|loss| loss.kind == LossKind::Commits), "what the log held may be lost: {ledger:?}");
}

#[test]
fn the_reason_for_a_missing_log_says_first_what_is_lost() {
    let (disk, db) = fixture();
    drop(db);
    let log = disk.file_names().into_iter().rfind(|n| n.ends_with(".wal")).unwrap();
    disk.remove_file(&log);
    let (_, ledger) = saved(&disk, "a missing log");
    let of_log = ledger.iter().find(|loss| loss.file.as_deref() == Some(log.as_str())).unwrap();
    assert!(of_log.reason.starts_with("any commits after those known are lost: HEAD names this log"), "{}", of_log.reason);
}

/// The youngest log with its record `index` changed, behind sound checksums that chain, and without evidence of what was synced.
pub(super) fn forged(disk: &SimDirectory, index: usize, kind: u8, payload: impl Fn(&[u8]) -> Vec<u8>) -> SimDirectory {
    let forged = copy(disk);
    let name = forged.file_names().into_iter().rfind(|n| n.ends_with(".wal")).unwrap();
    let mut log = forged.read_file(&name).unwrap();
    let id = Uuid(WalHeader::decode(&log[..WAL_HEADER_BYTES]).unwrap().id);
    let (mut number, mut previous) = (0, 0);
    for at in (WAL_HEADER_BYTES..log.len() - RECORD_HEADER_BYTES).step_by(8) {
        let Ok(old) = RecordHeader::decode(&log[at..at + RECORD_HEADER_BYTES], id, at as u64) else { continue };
        let body = at + RECORD_HEADER_BYTES..at + RECORD_HEADER_BYTES + old.payload_length.get() as usize;
        let changed = if number == index { payload(&log[body.clone()]) } else { log[body.clone()].to_vec() };
        let kind = if number == index { kind } else { old.kind };
        let header = RecordHeader::encode(id, at as u64, Lsn(old.lsn.get()), Lsn(0), previous, kind, &changed);
        log[at..at + RECORD_HEADER_BYTES].copy_from_slice(zerocopy::IntoBytes::as_bytes(&header));
        log[body].copy_from_slice(&changed);
        (number, previous) = (number + 1, header.header_crc.get());
    }
    assert!(number > index + 2, "{number} records");
    forged.write_file(&name, log);
    forged.remove_file("WITNESS");
    forged
}

/// A database whose documents `0` to `9` are a commit each, all in the log.
pub(super) fn ten_commits() -> SimDirectory {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    (0..10).for_each(|i| drop(db.put("main", vec![Document::new(i.to_string()).text("a text")]).unwrap()));
    copy(&disk.after_kill())
}

#[test]
fn a_record_of_an_unknown_kind_that_may_be_skipped_costs_no_other_commit() {
    let disk = ten_commits();
    for index in [1, 4, 8] {
        let forged = forged(&disk, index, 0x02, <[u8]>::to_vec);
        let (saved, ledger) = saved(&forged, "an unknown kind");
        assert_eq!(ledger, []);
        assert!(saved == dump_of_disk(&forged), "what opening finds");
        assert_eq!(documents_of(&saved).len(), 9);
    }
}

#[test]
fn a_whole_record_that_nobody_understands_is_in_the_ledger_and_what_follows_it_is_saved() {
    let disk = ten_commits();
    for index in [1, 4, 8] {
        let forged = forged(&disk, index, RECORD_COMMIT, |payload| vec![0xff; payload.len()]);
        let (saved, ledger) = saved(&forged, "a record that does not decode");
        let lsn = index as u64 + 1;
        assert!(matches!(&ledger[..], [one] if one.kind == LossKind::Commits && one.first_lsn == Some(lsn) && one.last_lsn == Some(lsn)));
        assert_eq!(documents_of(&saved).len(), 9);
    }
}

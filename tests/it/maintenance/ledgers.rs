//! What the ledger of a salvage says: a line for each document that is not saved as it was, and none for what a commit ended.

use super::fixture::{copy, dump_of_disk, fixture, open, options};
use super::salvaging::{forged, saved};
use super::sections::{flip, manifest_of};
use std::collections::BTreeSet;
use std::sync::Arc;
use triune::format::checksum::crc32;
use triune::format::effects::{CommitEffects, DeadSet};
use triune::format::manifest::SegmentEntry;
use triune::format::segment::SegmentHeader;
use triune::format::wal::RECORD_COMMIT;
use triune::io::SimDirectory;
use triune::io::names::FileName;
use triune::maintenance::{Loss, LossKind, Salvage, restore_into};
use triune::{Database, Document, ErrorCode, Metadata, Schema};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

fn create(disk: &SimDirectory) -> Database {
    Database::create_with(Arc::new(disk.clone()), options()).unwrap()
}

/// The segments that the manifest names, with their files.
fn segments(disk: &SimDirectory) -> Vec<(String, SegmentEntry)> {
    let (_, manifest) = manifest_of(disk);
    let all = manifest.collections.into_iter().flat_map(|c| c.segments);
    all.map(|entry| (FileName::Segments(entry.file).to_string(), entry)).collect()
}

fn without_manifest(disk: &SimDirectory) -> SimDirectory {
    let disk = copy(disk);
    disk.file_names().iter().filter(|name| name.ends_with(".manifest")).for_each(|name| disk.remove_file(name));
    disk
}

/// The fixture, checkpointed: all of it is in segments.
fn at_rest() -> SimDirectory {
    let (disk, db) = fixture();
    db.close().unwrap();
    copy(&disk)
}

/// Makes the segment at `at` one of a newer format, with a sound header.
fn newer(disk: &SimDirectory, file: &str, at: u64) {
    let mut bytes = disk.read_file(file).unwrap();
    let place = at as usize..at as usize + 64;
    let mut header = SegmentHeader::read_from_bytes(&bytes[place.clone()]).unwrap();
    (header.major, header.crc) = (U16::new(2), U32::new(0));
    header.crc = U32::new(crc32(header.as_bytes()));
    bytes[place].copy_from_slice(header.as_bytes());
    disk.write_file(file, bytes);
}

fn ids(dump: &[u8]) -> BTreeSet<String> {
    let lines = std::str::from_utf8(dump).unwrap().lines();
    lines.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().map(Into::into)).collect()
}

fn of_kind(ledger: &[Loss], kind: LossKind) -> Vec<&Loss> {
    ledger.iter().filter(|loss| loss.kind == kind).collect()
}

#[test]
fn without_a_manifest_a_damaged_header_of_a_segment_costs_nothing_and_a_lost_frame_has_a_line() {
    let disk = without_manifest(&at_rest());
    let (whole, _) = saved(&disk, "no manifest");
    for (file, entry) in segments(&at_rest()) {
        let damaged = copy(&disk);
        flip(&damaged, &file, entry.offset + 3);
        assert!(saved(&damaged, "a header").0 == whole, "{file}: the footer says enough");
        flip(&damaged, &file, entry.offset + entry.length - 1);
        let (rest, ledger) = saved(&damaged, "header and footer");
        assert!(ids(&rest).len() < ids(&whole).len(), "{file}");
        let line = of_kind(&ledger, LossKind::Documents).pop().unwrap();
        let range = line.offset.unwrap()..line.offset.unwrap() + line.length.unwrap();
        assert!(
            line.file.as_deref() == Some(&file) && range.contains(&entry.offset) && range.end >= entry.offset + entry.length,
            "{line:?}"
        );
        // An intact header that no footer belongs to is told from what never was a segment.
        let damaged = copy(&disk);
        flip(&damaged, &file, entry.offset + entry.length - 1);
        let (_, ledger) = saved(&damaged, "a footer");
        let line = of_kind(&ledger, LossKind::Documents).pop().unwrap();
        assert!(line.offset == Some(entry.offset) && line.reason.starts_with("a segment starts here"), "{line:?}");
        // Both tables: the footer says where it ends, and nothing what it holds.
        let damaged = copy(&disk);
        let mut bytes = damaged.read_file(&file).unwrap();
        bytes[(entry.offset + entry.length) as usize - 2048..(entry.offset + entry.length) as usize - 64].fill(1);
        damaged.write_file(&file, bytes);
        let (_, ledger) = saved(&damaged, "tables");
        let line = of_kind(&ledger, LossKind::Documents).pop().unwrap();
        assert_eq!((line.offset, line.length), (Some(entry.offset), Some(entry.length)), "{line:?}");
    }
}

#[test]
fn what_nobody_can_tell_has_a_line_only_without_a_manifest() {
    let disk = at_rest();
    let (file, entry) = segments(&disk).pop().unwrap();
    let mut bytes = disk.read_file(&file).unwrap();
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    let end = bytes.len() as u64;
    bytes.extend([7; 5000]);
    disk.write_file(&file, bytes);
    let start = disk.read_file(&file).unwrap()[entry.offset as usize..][..100].to_vec();
    disk.write_file("s-00000000000000f1.segments", start);
    disk.write_file("s-00000000000000f2.segments", Vec::new());
    let (with, ledger) = saved(&disk, "leftovers beside a manifest");
    assert!(ledger.is_empty() && with == dump_of_disk(&disk), "{ledger:?}");
    let (_, ledger) = saved(&without_manifest(&disk), "leftovers");
    let places = |loss: &&Loss| (loss.file.clone().unwrap(), loss.offset.unwrap(), loss.length.unwrap());
    let found: Vec<_> = of_kind(&ledger, LossKind::Documents).iter().map(places).collect();
    let [unfinished, empty] = ["s-00000000000000f1.segments", "s-00000000000000f2.segments"].map(String::from);
    assert_eq!(found, [(file, end, 5000), (unfinished, 0, 100), (empty, 0, 0)]);
}

#[test]
fn a_segment_of_a_newer_format_is_refused_with_and_without_a_manifest() {
    let disk = at_rest();
    for (file, entry) in segments(&disk) {
        let newer_one = copy(&disk);
        newer(&newer_one, &file, entry.offset);
        for disk in [without_manifest(&newer_one), newer_one] {
            assert_eq!(Salvage::survey(&disk).unwrap_err().code(), ErrorCode::UnsupportedVersion, "{file}");
        }
    }
}

/// What is done to a database.
type Act<'a> = &'a dyn Fn(&Database);

/// A database whose manifest names a segment of collection `main` that cannot be opened, and which `after` changed in the log.
fn unreadable_and(after: impl Fn(&Database)) -> SimDirectory {
    let disk = SimDirectory::new();
    let db = create(&disk);
    db.create_collection("main", Schema::default()).unwrap();
    db.put("main", (0..9).map(|i| Document::new(i.to_string()).text("a text")).collect()).unwrap();
    db.checkpoint().unwrap();
    after(&db);
    let killed = copy(&disk.after_kill());
    let (file, _) = segments(&killed).pop().expect("nothing was checkpointed since");
    killed.remove_file(&file);
    killed
}

#[test]
fn what_a_commit_of_the_log_ended_is_not_missed() {
    let all = || (0..9).map(|i| i.to_string()).collect::<Vec<_>>();
    let cases: [(&str, Act<'_>); 4] = [
        ("dropped", &|db| drop(db.drop_collection("main").unwrap())),
        ("cleared", &|db| assert_eq!(db.clear("main").unwrap(), 9)),
        ("deleted", &|db| assert_eq!(db.delete("main", all()).unwrap(), 9)),
        ("replaced", &|db| drop(db.put("main", all().into_iter().map(|id| Document::new(id).text("new")).collect()).unwrap())),
    ];
    for (what, after) in cases {
        let disk = unreadable_and(after);
        let (dump, ledger) = saved(&disk, what);
        assert_eq!(ledger, [], "{what}");
        assert_eq!(ids(&dump).len(), if what == "replaced" { 9 } else { 0 }, "{what}");
    }
    let disk = unreadable_and(|db| assert_eq!(db.delete("main", all()[..4].to_vec()).unwrap(), 4));
    let (_, ledger) = saved(&disk, "some deleted");
    assert!(matches!(&ledger[..], [one] if one.kind == LossKind::Documents && one.rows == Some(5)), "{ledger:?}");
    assert_eq!(ledger[0].collection.as_deref(), Some("main"));
}

/// Makes record `index` of the log one that nobody understands: a lost commit.
fn lose_commit(disk: &SimDirectory, index: usize) -> SimDirectory {
    forged(disk, index, RECORD_COMMIT, |payload| vec![0xff; payload.len()])
}

#[test]
fn a_made_up_name_that_is_long_or_taken_keeps_nothing_from_being_made() {
    let long = "é".repeat(512);
    let disk = SimDirectory::new();
    let db = create(&disk);
    let document = || vec![Document::new("a").text("a text")];
    db.create_collection(&long, Schema::default()).unwrap();
    db.put(&long, document()).unwrap();
    db.drop_collection(&long).unwrap();
    db.create_collection(&long, Schema::default()).unwrap();
    db.put(&long, document()).unwrap();
    db.create_collection("collection 1 of a lost commit", Schema::default()).unwrap();
    db.put("collection 1 of a lost commit", document()).unwrap();
    let disk = copy(&disk.after_kill());
    // The drop is lost: two have one name of 1,024 bytes.
    let (_, ledger) = saved(&lose_commit(&disk, 2), "a lost drop");
    let names: Vec<_> = of_kind(&ledger, LossKind::Collection).iter().map(|loss| loss.collection.clone().unwrap()).collect();
    assert!(matches!(&names[..], [one] if one.len() <= 1024 && one.ends_with(" (before collection 2)")), "{names:?}");
    // The creation is lost too, and the name that would be made up is there.
    let (dump, ledger) = saved(&lose_commit(&lose_commit(&disk, 2), 0), "a lost creation");
    let names: Vec<_> = of_kind(&ledger, LossKind::Collection).iter().map(|loss| loss.collection.clone().unwrap()).collect();
    assert_eq!(names, ["collection 1 of a lost commit 2"]);
    assert_eq!(String::from_utf8(dump).unwrap().matches(r#""id":"a""#).count(), 3);
}

#[test]
fn a_name_that_a_lost_manifest_would_have_explained_yields_to_one_that_is_there() {
    let disk = at_rest();
    let (_, entry) = segments(&disk).remove(0);
    let made_up = format!("salvaged {} 0", entry.file);
    let db = open(&disk);
    db.create_collection(&made_up, Schema::default()).unwrap();
    let killed = copy(&disk.after_kill());
    drop(db);
    let (_, ledger) = saved(&without_manifest(&killed), "a name that is there");
    let names: BTreeSet<_> = of_kind(&ledger, LossKind::Collection).iter().map(|loss| loss.collection.clone().unwrap()).collect();
    assert!(names.contains(&format!("{made_up} 2")) && !names.contains(&made_up), "{names:?}");
}

#[test]
fn what_is_saved_without_its_schema_can_be_dumped_and_restored() {
    let metadata = |json: &str| Metadata::from_json(json).unwrap();
    let plain = || Document::new("plain").metadata(metadata(r#"{"file_hash":"no source"}"#));
    let sets = [
        vec![Document::new("a").metadata(metadata(r#"{"path":"a.md","file_hash":"x"}"#)), plain(), Document::new("b").source("b.md")],
        vec![plain()],
        vec![Document::new("number").metadata(metadata(r#"{"file_hash":5,"file_hash 2":[]}"#)), Document::new("b").source("b.md")],
    ];
    for documents in sets {
        for at_rest in [true, false] {
            let disk = SimDirectory::new();
            let db = create(&disk);
            db.create_collection("main", Schema { source_key: "path".into(), ..Schema::default() }).unwrap();
            db.put("main", documents.clone()).unwrap();
            let damaged = if at_rest {
                db.close().unwrap();
                without_manifest(&disk)
            } else {
                db.put("main", vec![Document::new("one more")]).unwrap();
                db.put("main", vec![Document::new("another")]).unwrap();
                lose_commit(&copy(&disk.after_kill()), 0)
            };
            let new = SimDirectory::new();
            let survey = Salvage::survey(&damaged).unwrap();
            triune::maintenance::write_salvaged(&survey, Arc::new(new.clone()), options()).unwrap();
            let (dump, restored) = (dump_of_disk(&new), SimDirectory::new());
            assert!(documents.iter().all(|document| ids(&dump).contains(&document.id)), "{:?}", survey.ledger());
            restore_into(Arc::new(restored.clone()), options(), dump.as_slice()).unwrap();
            assert!(dump_of_disk(&restored) == dump);
        }
    }
}

/// Documents `0` to `9`, a commit each; then `3` again, by a commit that does not kill the older one; then three more.
fn twice() -> SimDirectory {
    let disk = SimDirectory::new();
    let db = create(&disk);
    db.create_collection("main", Schema::default()).unwrap();
    let ids = (0..10).map(|i| i.to_string()).chain(["3", "x", "y", "z"].map(String::from));
    ids.for_each(|id| drop(db.put("main", vec![Document::new(id).text("a text")]).unwrap()));
    let killed = copy(&disk.after_kill());
    forged(&killed, 11, RECORD_COMMIT, |payload| {
        let mut effects = CommitEffects::decode(payload).unwrap();
        assert!(matches!(&effects.collections[0].dead, DeadSet::Inline(dead) if dead.len() == 1));
        // As many bytes, and nobody's seq.
        effects.collections[0].dead = DeadSet::Inline([999].into_iter().collect());
        let mut changed = Vec::new();
        effects.encode(&mut changed);
        changed
    })
}

#[test]
fn only_a_commit_that_was_lost_between_two_versions_explains_that_both_live() {
    let disk = twice();
    let beside = |ledger: &[Loss]| of_kind(ledger, LossKind::Document).iter().filter(|l| l.reason.contains("lives beside")).count();
    let (dump, ledger) = saved(&disk, "twice");
    assert!(beside(&ledger) == 1 && ledger.len() == 1 && ids(&dump).len() == 13, "{ledger:?}");
    // Lost before the older one was written, and after the newer one was: neither can have killed it.
    for index in [2, 12] {
        let (_, ledger) = saved(&lose_commit(&disk, index), "lost beside");
        assert!(beside(&ledger) == 1 && ledger.len() == 2, "{index}: {ledger:?}");
    }
    let (_, ledger) = saved(&lose_commit(&disk, 7), "lost between");
    assert!(beside(&ledger) == 0 && ledger.len() == 1, "{ledger:?}");
    assert!(ledger[0].reason.contains("of 1 documents that live beside a newer one"), "{}", ledger[0].reason);
}

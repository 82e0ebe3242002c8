//! Descriptions of whole, damaged and made-up databases.
//!
//! The database is written by the rooms below, as the engine would write it, because this room may not know the engine.

use super::{Description, FileDescription, Structure, describe_directory, structures_directory};
use crate::docstore::RowsBuilder;
use crate::document::StoredDocument;
use crate::format::checksum::crc32;
use crate::format::effects::{CollectionEffects, CommitEffects, DeadSet, RowEffect};
use crate::format::head::HeadState;
use crate::format::manifest::{CollectionEntry, Manifest, SegmentEntry, TombstoneEntry, encode_manifest};
use crate::format::wal::RECORD_COMMIT;
use crate::ids::{Generation, Incarnation, Lsn, Seq, Uuid};
use crate::io::names::FileName;
use crate::io::{Directory, SimDirectory};
use crate::manifest::{Publisher, create_head};
use crate::options::Schema;
use crate::segment::SegmentWriter;
use crate::tombstones::{TombstonesPart, TombstonesWriter};
use crate::wal::{NewRecord, WalWriter, Witness, create_witness};
use roaring::{RoaringBitmap, RoaringTreemap};
use std::sync::Arc;

const DATABASE: Uuid = Uuid([7; 16]);
const SEGMENTS: &str = "s-0000000000000004.segments";
const TOMBSTONES: &str = "d-0000000000000005.tombstones";
const DYING: &str = "d-0000000000000006.tombstones";
const LOG: &str = "w-0000000000000002.wal";
const MANIFEST: &str = "m-0000000000000003.manifest";

fn document(id: &str) -> StoredDocument {
    StoredDocument {
        id: id.into(),
        text: format!("the text of {id}").into(),
        metadata: None,
        vector: None,
        source: Some("a source".into()),
        source_given: true,
        time_ms: 1,
        entities: None,
        relations: None,
    }
}

fn segment(dir: &SimDirectory) -> SegmentEntry {
    let file = dir.create_new(SEGMENTS).unwrap();
    let mut out = SegmentWriter::new(file, SEGMENTS, DATABASE, 4, 0, 0);
    let mut rows = RowsBuilder::begin(&mut out).unwrap();
    (0..3).for_each(|i| rows.push(&mut out, i, &document(&format!("d{i}"))).unwrap());
    rows.finish(&mut out).unwrap();
    let written = out.finish().unwrap();
    SegmentEntry {
        file: 4,
        offset: written.offset,
        length: written.length,
        crc: written.crc,
        base_seq: Seq(1),
        last_seq: Seq(3),
        rows: 3,
        vectors: 0,
        tokens: 12,
        content_hash: 0,
        tombstones: None,
        unknown: Default::default(),
    }
}

fn commit(lsn: u64, dead: DeadSet) -> Vec<u8> {
    let rows = vec![RowEffect { seq: Seq(lsn), document: Arc::new(document("logged")) }];
    let collections = vec![CollectionEffects { incarnation: Incarnation(1), rows, landed: Vec::new(), dead }];
    let effects = CommitEffects { time_ms: 1, next_seq: Seq(lsn + 1), next_incarnation: Incarnation(2), catalog: Vec::new(), collections };
    let mut payload = Vec::new();
    effects.encode(&mut payload);
    payload
}

/// A database of one segment with a dead row, and a log of two records after it, the first of which names a file of dying seqs.
fn database() -> SimDirectory {
    let sim = SimDirectory::new();
    let dir: Arc<dyn Directory> = Arc::new(sim.clone());
    let head = create_head(&sim).unwrap();
    create_witness(&sim).unwrap();
    sim.write_file("LOCK", *b"pid 4711           \n");
    sim.write_file("BALLAST", vec![0xb5; 100]);
    let mut entry = segment(&sim);
    let mut tombstones = TombstonesWriter::create(&sim, DATABASE, 5).unwrap();
    let part = tombstones.add_tombstones(&RoaringBitmap::from_iter([1]), &[]).unwrap();
    tombstones.finish().unwrap();
    entry.tombstones =
        Some(TombstoneEntry { file: 5, offset: part.offset, length: part.length, crc: part.crc, dead: 1, unknown: Default::default() });
    let mut dying = TombstonesWriter::create(&sim, DATABASE, 6).unwrap();
    let TombstonesPart { length, crc, .. } = dying.add_dying_seqs(&RoaringTreemap::from_iter([2])).unwrap();
    dying.finish().unwrap();

    let mut collection = CollectionEntry::empty("main", Incarnation(1), Schema::default());
    (collection.documents, collection.tokens, collection.segments) = (2, 8, vec![entry]);
    let manifest = Manifest {
        applied_lsn: Lsn(3),
        next_seq: Seq(4),
        next_incarnation: Incarnation(2),
        collections: vec![collection],
        ..Manifest::default()
    };
    let bytes = encode_manifest(3, DATABASE, &manifest);
    sim.write_file(MANIFEST, bytes.clone());
    let mut log = WalWriter::create(&dir, DATABASE, 2, Lsn(4), Lsn(3), None).unwrap();
    let state = HeadState {
        generation: Generation(1),
        database: DATABASE,
        manifest_number: 3,
        manifest_length: bytes.len() as u64,
        manifest_crc: crc32(&bytes),
        applied_lsn: Lsn(3),
        wal_sequence: 2,
        wal_id: log.id(),
        durable_lsn: Lsn(3),
    };
    Publisher::first_publish(head, &state).unwrap();
    let named = commit(4, DeadSet::File { number: 6, length, crc });
    log.append(&[NewRecord { lsn: Lsn(4), kind: RECORD_COMMIT, payload: &named }]).unwrap();
    log.sync().unwrap();
    log.append(&[NewRecord { lsn: Lsn(5), kind: RECORD_COMMIT, payload: &commit(5, DeadSet::None) }]).unwrap();
    log.sync().unwrap();
    Witness::open(&sim).unwrap().record(log.id(), log.durable_lsn(), log.end_offset());
    sim
}

fn described(dir: &SimDirectory) -> Description {
    let before = dir.image_hash();
    let description = describe_directory(dir).unwrap();
    for file in &description.files {
        let Ok(parts) = structures_directory(dir, &file.name) else { continue };
        for part in parts {
            let inside = |f: &super::Field| f.bytes > 0 && !f.value.is_empty() || f.name == "magic";
            assert!(part.fields.iter().all(inside), "{}: {part:?}", file.name);
        }
    }
    assert_eq!(dir.image_hash(), before, "inspecting changed something");
    description
}

fn file<'a>(description: &'a Description, name: &str) -> &'a FileDescription {
    description.files.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("{name} is not described"))
}

fn field<'a>(file: &'a FileDescription, key: &str) -> &'a str {
    file.fields.iter().find(|(k, _)| k == key).map_or_else(|| panic!("{} has no field {key:?}: {file:#?}", file.name), |(_, v)| v)
}

fn problem<'a>(description: &'a Description, name: &str) -> &'a str {
    file(description, name).problem.as_deref().unwrap_or_else(|| panic!("{name} has no problem"))
}

#[test]
fn a_whole_database_is_described_without_a_problem() {
    let description = described(&database());
    let problems: Vec<_> = description.files.iter().filter(|f| f.problem.is_some()).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(description.files.iter().all(|f| f.fields.iter().all(|(k, _)| k != "orphan")), "{description:#?}");
    let head = file(&description, "HEAD");
    assert_eq!((field(head, "chosen"), field(head, "slot 1")), ("slot 1", "valid, chosen"));
    assert_eq!(field(head, "slot 0 applied lsn"), "3");
    assert!(field(head, "slot 0 manifest").starts_with(MANIFEST));
    assert_eq!(field(file(&description, "LOCK"), "last writer"), "pid 4711");
    assert!(field(file(&description, "WITNESS"), "record 0").contains("durable up to lsn 5"));
    assert_eq!(field(file(&description, MANIFEST), "named by"), "HEAD slot 0, HEAD slot 1");
    assert!(field(file(&description, MANIFEST), "collection 0 segment 0").contains("1 dead"));
    let log = file(&description, LOG);
    assert_eq!((field(log, "records"), field(log, "lsns"), field(log, "verdict")), ("2", "4 to 5", "clean"));
    assert_eq!(field(log, "durable lsn"), "4");
    assert!(field(file(&description, SEGMENTS), "segment 0 Ids").ends_with("critical, sound"));
    assert!(field(file(&description, SEGMENTS), "segment 0 IdMap").ends_with("derived, sound"));
    assert!(field(file(&description, TOMBSTONES), "envelope 0").contains("tombstones of 1 rows"));
    assert!(field(file(&description, DYING), "envelope 0").contains(&format!("1 dying seqs, named by {LOG}, sound")));
}

#[test]
fn a_problem_names_the_first_wrong_byte() {
    let damaged = |name: &str, at: usize| {
        let dir = database();
        let mut bytes = dir.read_file(name).unwrap();
        bytes[at] ^= 0x20;
        dir.write_file(name, bytes);
        described(&dir)
    };
    assert!(problem(&damaged("HEAD", 4096 + 70), "HEAD").starts_with("slot 1: byte 4116: checksum"));
    assert_eq!(field(file(&damaged("HEAD", 4096 + 70), "HEAD"), "chosen"), "slot 0");
    assert!(problem(&damaged(MANIFEST, 100), MANIFEST).starts_with("byte 48: checksum of the manifest body"));
    assert!(problem(&damaged(SEGMENTS, 70), SEGMENTS).contains("byte 64: Docs: checksum of the block"));
    assert!(problem(&damaged(TOMBSTONES, 100), TOMBSTONES).contains("byte 88: checksum of the body"));
    // The first record's payload, the header of the last one: both are durable, WITNESS says.
    for at in [4096 + 60, 8192 + 20] {
        let description = damaged(LOG, at);
        assert!(problem(&description, LOG).contains("to 5 are called durable"), "{at}: {}", problem(&description, LOG));
        assert!(field(file(&description, LOG), "verdict").starts_with("corrupt"));
    }
}

fn parts(dir: &SimDirectory, name: &str) -> Vec<Structure> {
    structures_directory(dir, name).unwrap()
}

#[test]
fn every_structure_is_shown_with_its_offset_and_is_sound() {
    let dir = database();
    for (name, expected) in [("HEAD", 2), ("WITNESS", 2), (MANIFEST, 2), (LOG, 3), (TOMBSTONES, 2), (DYING, 2), ("LOCK", 0), ("BALLAST", 0)]
    {
        let found = parts(&dir, name);
        assert_eq!(found.len(), expected, "{name}: {found:#?}");
        assert!(found.iter().all(|part| part.problem.is_none()), "{name}: {found:#?}");
        assert!(found.windows(2).all(|w| w[0].offset + w[0].bytes <= w[1].offset), "{name}: {found:#?}");
        // A field starts where the one before ends.
        let gaps = found.iter().filter(|p| p.name.contains("Slot") || p.name.contains("Header")).flat_map(|p| p.fields.windows(2));
        assert!(gaps.into_iter().all(|w| w[0].offset + w[0].bytes == w[1].offset), "{name}: {found:#?}");
    }
    let segment = parts(&dir, SEGMENTS);
    assert!(segment.iter().all(|part| part.problem.is_none()), "{segment:#?}");
    let named = |end: &str| segment.iter().find(|part| part.name.ends_with(end)).unwrap_or_else(|| panic!("{end} in {segment:#?}"));
    assert_eq!(named("section Docs").offset, 64);
    assert!(named("section Docs").says.contains("critical") && named("section IdMap").says.contains("derived"));
    assert_eq!(named("footer (SegmentFooter)").bytes, 64);
    let log = parts(&dir, LOG);
    assert!(log[1].name.starts_with("record lsn 4") && log[1].says.contains("1 rows, seqs 4 to 4") && log[1].says.contains(DYING));
    let field = |part: &Structure, name: &str| part.fields.iter().find(|f| f.name == name).map(|f| (f.offset, f.bytes, f.value.clone()));
    assert_eq!(field(&log[2], "durable_lsn"), Some((8192 + 24, 8, "4".into())));
    assert_eq!(field(&parts(&dir, "HEAD")[1], "applied_lsn"), Some((4096 + 88, 8, "3".into())));
    assert!(matches!(structures_directory(&dir, "nothing"), Err(crate::error::Error::NotFound(_))));
}

#[test]
fn a_damaged_structure_says_so_and_the_others_stay_sound() {
    for (name, at, part) in [
        ("HEAD", 4096 + 70, "slot 1"),
        ("WITNESS", 30, "record 0"),
        (MANIFEST, 40, "header"),
        (MANIFEST, 100, "body"),
        (SEGMENTS, 70, "segment 0 section Docs"),
        (SEGMENTS, 20, "segment 0 header"),
        (TOMBSTONES, 20, "header"),
        (TOMBSTONES, 100, "envelope"),
        (LOG, 100, "header"),
        // The record behind the damaged one continues nothing.
        (LOG, 4096 + 60, "record lsn"),
    ] {
        let dir = database();
        let mut bytes = dir.read_file(name).unwrap();
        bytes[at] ^= 0x20;
        dir.write_file(name, bytes);
        let found = parts(&dir, name);
        let bad: Vec<&Structure> = found.iter().filter(|p| p.problem.is_some()).collect();
        assert!(!bad.is_empty() && bad.iter().all(|p| p.name.starts_with(part)), "{name} at {at}: {found:#?}");
        assert!(bad.iter().all(|p| p.offset <= at as u64 || name == LOG), "{name} at {at}: {bad:#?}");
    }
}

#[test]
fn a_tail_that_nothing_calls_durable_is_torn() {
    let dir = database();
    dir.remove_file("WITNESS");
    let mut bytes = dir.read_file(LOG).unwrap();
    bytes[8192 + 50] ^= 1;
    dir.write_file(LOG, bytes);
    let description = described(&dir);
    let log = file(&description, LOG);
    assert_eq!((field(log, "lsns"), &log.problem), ("4 to 4", &None));
    assert!(field(log, "verdict").starts_with("torn tail"));
}

#[test]
fn what_nothing_reaches_is_an_orphan_and_what_is_reached_and_gone_is_missing() {
    let dir = database();
    let orphans = [FileName::Manifest(9), FileName::Wal(0xff), FileName::Segments(9), FileName::Tombstones(9)].map(|name| name.to_string());
    let sources = [MANIFEST, LOG, SEGMENTS, TOMBSTONES];
    orphans.iter().zip(sources).for_each(|(name, source)| dir.write_file(name, dir.read_file(source).unwrap()));
    // The last log of the process before stays until a writer next removes files: that is nothing to worry about, and fsck says nothing.
    let earlier = FileName::Wal(1).to_string();
    dir.write_file(&earlier, dir.read_file(LOG).unwrap());
    dir.write_file("notes.txt", *b"mine");
    dir.remove_file(DYING);
    dir.remove_file("LOCK");
    let description = described(&dir);
    for name in &orphans {
        assert_eq!(field(file(&description, name), "orphan"), "yes: nothing names it");
    }
    assert!(field(file(&description, &earlier), "superseded").starts_with("yes"));
    assert_eq!(file(&description, "notes.txt").kind, "not Triune's");
    assert_eq!(problem(&description, DYING), format!("the file is missing, but {LOG} names it"));
    assert!(problem(&description, "LOCK").starts_with("the file is missing"));
    // Without the manifest nobody knows; its segments are found by looking.
    dir.write_file(MANIFEST, *b"rubbish");
    dir.remove_file(&orphans[0]);
    let description = described(&dir);
    assert!(field(file(&description, SEGMENTS), "orphan").starts_with("not known"));
    assert!(field(file(&description, SEGMENTS), "segment 0").ends_with("found by its header and footer"));
    assert!(field(file(&description, SEGMENTS), "segment 0 Docs").ends_with("sound"));
    assert_eq!(file(&description, SEGMENTS).problem, None);
}

#[test]
fn a_directory_without_a_database_is_not_described_as_one() {
    let dir = SimDirectory::new();
    assert!(matches!(describe_directory(&dir), Err(crate::Error::NotFound(_))));
    dir.write_file("notes.txt", *b"mine");
    assert!(matches!(describe_directory(&dir), Err(crate::Error::NotFound(_))));
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    std::fs::write(&path, b"mine").unwrap();
    let refused = crate::inspect::describe(&path).unwrap_err().to_string();
    assert!(refused.contains("that is a file, and a database is a directory"), "{refused}");
}

#[test]
fn any_truncation_of_any_file_is_described() {
    let whole = database();
    let mut described_ = 0;
    for name in whole.file_names() {
        let bytes = whole.read_file(&name).unwrap();
        // Every length near a boundary of something, and samples of the zeros between.
        let near = |len: usize| {
            len % 512 < 130 || len.is_multiple_of(97) || bytes[len.saturating_sub(9)..bytes.len().min(len + 9)].iter().any(|&b| b != 0)
        };
        for len in (0..bytes.len()).filter(|&len| near(len)) {
            let dir = whole.after_kill();
            dir.write_file(&name, &bytes[..len]);
            let description = described(&dir);
            // The zeros that align the last record of a log say nothing.
            let only_alignment = name == LOG && len >= 8192 + 48 + commit(5, DeadSet::None).len();
            let harmless = only_alignment || ["LOCK", "WITNESS", "BALLAST"].contains(&name.as_str());
            assert_eq!(file(&description, &name).problem.is_none(), harmless, "{name} cut to {len} bytes");
            described_ += 1;
        }
    }
    assert!(described_ > 3000, "{described_} truncations");
}

#[test]
fn any_changed_byte_of_any_file_is_described_and_seen() {
    let whole = database();
    let mut described_ = 0;
    for name in whole.file_names() {
        let bytes = whole.read_file(&name).unwrap();
        for at in (0..bytes.len()).filter(|at| bytes[*at] != 0 || at % 61 == 0) {
            let dir = whole.after_kill();
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            dir.write_file(&name, changed);
            let description = described(&dir);
            let checked = ["HEAD", MANIFEST].contains(&name.as_str());
            assert!(!checked || file(&description, &name).problem.is_some(), "byte {at} of {name}");
            described_ += 1;
        }
    }
    assert!(described_ > 1500, "{described_} changed bytes");
}

#[test]
fn bytes_that_mean_nothing_are_described() {
    let names = ["HEAD", "LOCK", "WITNESS", "BALLAST", MANIFEST, LOG, SEGMENTS, TOMBSTONES, DYING];
    let mut state = 1u64;
    for round in 0..40usize {
        let dir = SimDirectory::new();
        for (i, name) in names.iter().enumerate() {
            let length = [0, 1, 47, 64, 4096, 8192, 9000][(round + i) % 7];
            let byte = |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            };
            dir.write_file(name, (0..length).map(byte).collect::<Vec<u8>>());
        }
        assert!(problem(&described(&dir), "HEAD").contains("byte 0"));
    }
}

//! Checking whole databases. What is sound is clean, whatever state it is in; every kind of damage is found, and graded by what is lost; no
//! bytes make a check panic, and none make it write.
//!
//! | file | role |
//! | --- | --- |
//! | `image.rs` | a database with everything, and edits of it that mend every checksum |
//! | `bytes.rs` | damage that checksums see |
//! | `components.rs` | vectors of another width than the schema says |
//! | `structures.rs` | damage that passes every checksum |
//! | `vector_graphs.rs` | damage to vector graphs and their codes that passes every checksum |
//! | `dictionaries.rs` | dictionaries changed behind fitting checksums: searches answer or refuse |
//! | `random.rs` | any damage: no panic, a verdict always, and never clean over a wrong answer |
//! | `refused.rs` | what the system refuses is no damage |
//! | `table.rs` | the table of codes in `docs/fsck.md` |

mod bytes;
mod components;
mod dictionaries;
pub(crate) mod image;
mod random;
mod refused;
mod structures;
mod table;
mod vector_graphs;

use image::{Image, doc, options, rich, with_graphs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use triune::inspect::{FindingCode as Code, FsckOptions, FsckReport, fsck, fsck_directory};
use triune::io::SimDirectory;
use triune::io::sim::CrashMode;
use triune::{Database, Entity, Error, Options, Patch, Relation, Schema, WriteBatch};

/// Checks at a level; that writes nothing.
#[track_caller]
fn check(disk: &SimDirectory, level: u8) -> FsckReport {
    let before = (disk.image_hash(), disk.operations());
    let report = fsck_directory(disk, &FsckOptions::level(level)).unwrap();
    assert_eq!((disk.image_hash(), disk.operations()), before, "checking wrote");
    report
}

#[track_caller]
fn assert_clean(disk: &SimDirectory, what: &str) {
    for level in 0..=3 {
        let report = check(disk, level);
        assert!(report.is_clean(), "{what}, level {level}: {:#?}", report.findings);
        assert_eq!(report.exit_status(), 0);
    }
}

fn codes(report: &FsckReport) -> Vec<Code> {
    report.findings.iter().map(|f| f.code).collect()
}

fn open(disk: &SimDirectory) -> Database {
    Database::open_with(Arc::new(disk.clone()), options()).unwrap()
}

#[test]
fn a_sound_database_is_clean_at_every_level() {
    let (disk, db) = rich();
    assert_clean(&disk, "while it is open");
    assert_clean(&disk.after_kill(), "after a kill");
    drop(db);
    assert_clean(&disk, "dropped");
    let db = open(&disk);
    assert_clean(&disk, "recovered");
    db.compact().unwrap();
    assert_clean(&disk, "compacted");
    db.put("main", vec![doc("large", &"a text that is larger than a record ".repeat(300_000))]).unwrap();
    db.put("main", vec![doc("logged", "after it").vector([1.0, 2.0, 3.0, 4.0])]).unwrap();
    assert_clean(&disk, "after an oversize commit");
    db.patch("main", vec![Patch::new("large").text("small")]).unwrap();
    db.clear("other").unwrap();
    let mut batch = WriteBatch::new();
    batch.rename_collection("other", "another");
    db.commit(batch).unwrap();
    db.create_collection("new", Schema::default()).unwrap();
    db.put("new", vec![doc("a", "A Document with Vectors").vector([1.0])]).unwrap();
    db.drop_collection("another").unwrap();
    assert_clean(&disk, "with changes of collections in the log");
    db.delete("main", (0..200).map(|i| format!("doc {i}")).collect()).unwrap();
    assert_clean(&disk, "with deaths in the log");
    db.checkpoint().unwrap();
    assert_clean(&disk, "with tombstones");
    db.close().unwrap();
    assert_clean(&disk, "closed");
}

#[test]
fn sound_vector_graphs_are_clean_at_every_level() {
    let disk = with_graphs();
    assert_clean(&disk, "with graphs");
    let segments = Image { disk }.segments();
    assert_eq!(segments.len(), 4, "one for each collection: {segments:?}");
}

#[test]
fn an_empty_database_is_clean_and_no_database_is_not_found() {
    let disk = SimDirectory::new();
    assert!(matches!(fsck_directory(&disk, &FsckOptions::level(1)), Err(Error::NotFound(_))));
    disk.write_file("HEAD", *b"ref: refs/heads/main\n");
    disk.write_file("config", *b"of somebody else");
    assert!(matches!(fsck_directory(&disk, &FsckOptions::level(1)), Err(Error::NotFound(_))));
    let disk = SimDirectory::new();
    Database::create_with(Arc::new(disk.clone()), options()).unwrap().close().unwrap();
    assert_clean(&disk, "empty");
    assert!(matches!(fsck("/nowhere/at all", &FsckOptions::level(0)), Err(Error::NotFound(_))));
}

#[test]
fn one_collection_can_be_checked_alone() {
    let image = Image::of_rich();
    let broken = image.with_section(0, triune::format::segment::SectionKind::Lengths, |bytes| bytes[0] ^= 1);
    let of = |name: &str| {
        let mut options = FsckOptions::level(2);
        options.collection = Some(name.into());
        fsck_directory(&broken, &options)
    };
    assert_eq!(of("main").unwrap().exit_status(), 4);
    assert!(of("other").unwrap().is_clean());
    assert!(matches!(of("none"), Err(Error::NotFound(_))));
}

#[test]
fn a_watch_sees_progress_and_can_end_a_check() {
    let image = Image::of_rich();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = seen.clone();
    let mut options = FsckOptions::level(3);
    options.watch = Some(Arc::new(move |at| {
        notes.lock().unwrap().push(at);
        true
    }));
    fsck_directory(&image.disk, &options).unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.windows(2).all(|w| w[0].done <= w[1].done && w[0].total == w[1].total));
    assert_eq!(seen.last().map(|at| at.done == at.total), Some(true));
    options.watch = Some(Arc::new(|at| at.done == 0));
    assert!(matches!(fsck_directory(&image.disk, &options), Err(Error::Interrupted(_))));
}

/// Every crash image of a create, commits, a checkpoint and a compaction has at most benign findings, and those say what it is.
#[test]
fn a_crash_leaves_nothing_but_benign_findings() {
    let work = |disk: &SimDirectory| -> triune::Result<()> {
        let db = Database::create_with(Arc::new(disk.clone()), options())?;
        db.create_collection("main", Schema::default())?;
        for i in 0..3 {
            db.put("main", vec![doc("a", &format!("Text number {i}")).vector([1.0, 2.0]), doc(&format!("{i}"), "x")])?;
            db.checkpoint()?;
        }
        db.compact()?;
        db.delete("main", vec!["a".into()])?;
        db.close()
    };
    let probe = SimDirectory::new();
    work(&probe).unwrap();
    assert_clean(&probe, "the whole");
    let (mut unfinished, mut torn, mut orphans) = (0, 0, 0);
    for n in 0..probe.operations() {
        let disk = SimDirectory::new();
        disk.crash_at(n, CrashMode::During);
        work(&disk).unwrap_err();
        for survivor in [disk.survivors_none(), disk.survivors_all(), disk.after_kill()] {
            // Before the first file has a name there is nothing to check.
            let Ok(report) = fsck_directory(&survivor, &FsckOptions::level(2)) else {
                assert!(survivor.file_names().is_empty(), "crash at {n}");
                continue;
            };
            let lock = |f: &triune::inspect::Finding| f.code == Code::LockMissing && n < 20;
            assert!(report.is_sound() || report.findings.iter().all(lock), "crash at {n}: {:#?}", report.findings);
            let found = codes(&report);
            unfinished += usize::from(found.contains(&Code::CreateUnfinished));
            torn += usize::from(found.contains(&Code::LogTornTail));
            orphans += usize::from(found.contains(&Code::Orphan));
        }
    }
    assert!(unfinished > 5 && orphans > 10, "{unfinished} unfinished, {torn} torn, {orphans} orphans");
}

#[test]
fn leftovers_torn_tails_and_unfinished_creates_are_benign() {
    let benign = |disk: &SimDirectory, code: Code| {
        for level in 0..=3 {
            let report = check(disk, level);
            assert_eq!((codes(&report), report.exit_status()), (vec![code], 1), "level {level}: {:#?}", report.findings);
        }
    };
    let image = Image::of_rich();
    let orphan = image.disk.after_kill();
    orphan.write_file("s-00000000000000ff.segments", *b"half a file");
    benign(&orphan, Code::Orphan);

    let torn = image.disk.after_kill();
    let log = image.log();
    let mut bytes = torn.read_file(&log).unwrap();
    bytes.extend_from_slice(&[0x5a; 100]);
    torn.write_file(&log, bytes);
    benign(&torn, Code::LogTornTail);

    let slot = image.disk.after_kill();
    let mut bytes = slot.read_file("HEAD").unwrap();
    bytes[4096 + 20] ^= 1;
    slot.write_file("HEAD", bytes);
    benign(&slot, Code::HeadSlot);

    let unfinished = SimDirectory::new();
    let db = Database::create_with(Arc::new(unfinished.clone()), options()).unwrap();
    drop(db);
    unfinished.write_file("HEAD", vec![0; 8192]);
    benign(&unfinished, Code::CreateUnfinished);
}

#[test]
fn a_database_with_a_live_writer_is_sound_at_every_level() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = Database::create(&path).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.put("main", vec![doc("a", "Written before")]).unwrap();
    for level in 0..=3 {
        let report = fsck(&path, &FsckOptions::level(level)).unwrap();
        assert!(report.is_clean(), "an idle writer, level {level}: {:#?}", report.findings);
    }
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let options = Options { background: false, ..Options::default() };
    drop(db);
    let db = Database::open_with(Arc::new(triune::io::FsDirectory::open(&path).unwrap()), options).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut round = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let document = |i: u64| doc(&format!("{i}"), &format!("Round {round} of document {i}")).vector([round as f32, i as f32]);
                db.put("main", (0..20).map(document).collect()).unwrap();
                db.delete("main", vec![format!("{}", round % 20)]).unwrap();
                match round % 4 {
                    1 => db.checkpoint().unwrap(),
                    3 => db.compact().unwrap(),
                    _ => {}
                }
                round += 1;
                rounds.store(round, Ordering::Relaxed);
            }
        });
        let enough = |checks: usize| checks >= 24 && rounds.load(Ordering::Relaxed) >= 8 || writer.is_finished();
        for (_, level) in (0..).zip((0..=3).cycle()).take_while(|(checks, _)| !enough(*checks)) {
            let report = fsck(&path, &FsckOptions::level(level)).unwrap();
            assert!(report.is_sound(), "level {level}: {:#?}", report.findings);
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
    db.close().unwrap();
    assert!(fsck(&path, &FsckOptions::level(3)).unwrap().is_clean());
}

#[test]
fn a_document_of_many_spellings_of_one_entity_is_checked_as_any() {
    // All cases of 16 letters, of which 50,000 fit into one document. Reading the ones before for each would be 10^9 steps and more.
    let cased = |case: u32| -> String {
        ('a'..='p').enumerate().map(|(i, c)| if case >> i & 1 == 1 { c.to_ascii_uppercase() } else { c }).collect()
    };
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.put("main", vec![doc("many", "").relations((0..50_000).map(|case| Relation::new(cased(case), "t")).collect::<Vec<_>>())]).unwrap();
    db.put("main", (0..100).map(|i| doc(&format!("{i}"), "").entities([Entity::new(cased(49_999 - i))])).collect()).unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let report = check(&disk, 3);
    assert!(report.is_clean(), "{:#?}", report.findings);
}

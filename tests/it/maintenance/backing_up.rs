//! Backup: the same content, nothing written to the original, whole or not at all.

use super::fixture::{copy, dump_of, dump_of_disk, fixture, open, options};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use triune::inspect::FsckOptions;
use triune::io::sim::CrashMode;
use triune::io::{Directory, SimDirectory};
use triune::maintenance::{BackupOptions, BackupReport, backup, backup_into};
use triune::options::Thresholds;
use triune::{Database, Document, ErrorCode, Options, Result, Schema, inspect};

fn back_up(source: &SimDirectory, previous: Option<&SimDirectory>, options: &BackupOptions) -> (SimDirectory, Result<BackupReport>) {
    let disk = SimDirectory::new();
    let dest: Arc<dyn Directory> = Arc::new(disk.clone());
    let report = backup_into(source, &dest, previous.map(|p| p as &dyn Directory), options);
    (disk, report)
}

pub(crate) fn assert_sound(disk: &SimDirectory) {
    let problems: Vec<_> = inspect::describe_directory(disk).unwrap().files.into_iter().filter(|f| f.problem.is_some()).collect();
    assert!(problems.is_empty(), "{problems:?}");
    let report = inspect::fsck_directory(disk, &FsckOptions::level(3)).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

fn twenty(from: usize) -> Vec<Document> {
    (from..from + 20).map(|i| Document::new(format!("d{i}")).text("some torn words").vector([i as f32])).collect()
}

/// A database as the manifest of the next one has it.
pub(crate) fn before_landed_batches() -> (SimDirectory, Database) {
    let disk = SimDirectory::new();
    let small = Options { thresholds: Thresholds { record_bytes: 600, dead_inline_bytes: 0, ..Thresholds::default() }, ..options() };
    let db = Database::create_with(Arc::new(disk.clone()), small).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.put("main", twenty(0)).unwrap();
    db.checkpoint().unwrap();
    (disk, db)
}

/// A database whose log names files of both kinds, besides the manifest's.
pub(crate) fn with_landed_batches() -> (SimDirectory, Database) {
    let (disk, db) = before_landed_batches();
    db.put("main", vec![Document::new("small")]).unwrap();
    db.put("main", twenty(10)).unwrap();
    db.delete("main", vec!["d3".into(), "d12".into()]).unwrap();
    (disk, db)
}

#[test]
fn a_backup_has_the_same_content_and_the_original_is_not_touched() {
    for (disk, db) in [fixture(), with_landed_batches()] {
        let text = dump_of(&db);
        let (before, operations) = (disk.image_hash(), disk.operations());
        let (copy, report) = back_up(&disk, None, &BackupOptions::default());
        let report = report.unwrap();
        assert_eq!((disk.image_hash(), disk.operations()), (before, operations), "nothing is written to the original");
        assert_eq!(report.lsn, db.snapshot().lsn());
        assert!(report.copied_files >= 3 && report.linked_files == 0 && report.logged_commits > 0, "{report:?}");
        assert_sound(&copy);
        assert_eq!(dump_of_disk(&copy), text);
        // Only what was synced counts, and all of it was.
        assert_eq!(dump_of_disk(&copy.survivors_none()), text);
        // Both go on by themselves.
        let other = open(&copy);
        assert_eq!(other.recovery().replayed_commits, report.logged_commits);
        other.put("main", vec![Document::new("in the backup")]).unwrap();
        other.compact().unwrap();
        other.close().unwrap();
        assert_sound(&copy);
        db.put("main", vec![Document::new("in the original")]).unwrap();
        db.close().unwrap();
        assert_ne!(dump_of_disk(&disk), dump_of_disk(&copy));
        assert!(open(&copy).snapshot().collection("main").unwrap().get("in the original").unwrap().is_none());
    }
}

#[test]
fn a_backup_can_be_made_of_a_killed_and_of_an_empty_database() {
    let (disk, db) = fixture();
    let text = dump_of(&db);
    let killed = disk.after_kill();
    let (copy, report) = back_up(&killed, None, &BackupOptions::default());
    report.unwrap();
    assert_eq!(dump_of_disk(&copy), text);

    let empty = SimDirectory::new();
    let db = Database::create_with(Arc::new(empty.clone()), options()).unwrap();
    let (copy, report) = back_up(&empty, None, &BackupOptions { link: true, verify: true, ..BackupOptions::default() });
    assert_eq!(report.unwrap().logged_commits, 0);
    assert_eq!(dump_of_disk(&copy), dump_of(&db));
    open(&copy).create_collection("main", Schema::default()).unwrap();
}

#[test]
fn a_backup_beside_a_busy_writer_is_one_moment_of_it() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("db");
    let db = Database::create(&path).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    let (stop, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            while !stop.load(Ordering::SeqCst) {
                db.put("main", vec![Document::new(format!("d{n}")).text("torn words").vector([n as f32])]).unwrap();
                n += 1;
                written.store(n, Ordering::SeqCst);
                match n % 40 {
                    10 => db.checkpoint().unwrap(),
                    30 => db.compact().unwrap(),
                    _ => {}
                }
            }
        });
        for round in 0..6 {
            while written.load(Ordering::SeqCst) < 25 * (round + 1) {
                std::thread::yield_now();
            }
            let at_least = written.load(Ordering::SeqCst);
            let dest = scratch.path().join(format!("backup {round}"));
            let options = BackupOptions { link: round % 2 == 1, ..BackupOptions::default() };
            backup(&path, &dest, &options).unwrap();
            let copy = Database::open(&dest).unwrap();
            let found = copy.snapshot().collection("main").unwrap();
            let ids: Vec<String> = found.scan().map(|d| d.unwrap().1.id.into()).collect();
            assert!(ids.len() >= at_least, "{} of {at_least}", ids.len());
            assert_eq!(ids, (0..ids.len()).map(|i| format!("d{i}")).collect::<Vec<_>>());
            copy.close().unwrap();
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert_eq!(db.snapshot().collection("main").unwrap().count() as usize, written.load(Ordering::SeqCst));
    let error = backup(&path, scratch.path().join("backup 0"), &BackupOptions::default()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::AlreadyExists);
    let error = backup(scratch.path().join("absent"), scratch.path().join("new"), &BackupOptions::default()).unwrap_err();
    assert!(error.code() == ErrorCode::NotFound && !scratch.path().join("new").exists());
}

#[test]
fn a_backup_cut_short_anywhere_is_refused_by_name_and_can_begin_again() {
    let (disk, db) = fixture();
    let text = dump_of(&db);
    let run = |dest: &SimDirectory| {
        let dest: Arc<dyn Directory> = Arc::new(dest.clone());
        backup_into(&disk, &dest, None, &BackupOptions::default())
    };
    let whole = SimDirectory::newly_made();
    run(&whole).unwrap();
    let (mut finished, mut unfinished) = (0, 0);
    for n in 0..whole.operations() {
        let dest = SimDirectory::newly_made();
        dest.crash_at(n, CrashMode::During);
        run(&dest).unwrap_err();
        for image in dest.survivor_images(8).chain([dest.after_kill()]) {
            match Database::open_with(Arc::new(image.clone()), options()) {
                Ok(db) => {
                    assert_eq!(dump_of(&db), text, "operation {n}");
                    finished += 1;
                }
                Err(e) => {
                    assert_eq!(e.code(), ErrorCode::NotFound, "operation {n}: {e}");
                    run(&image).unwrap();
                    assert_eq!(dump_of_disk(&image), text, "operation {n}");
                    unfinished += 1;
                }
            }
        }
    }
    assert!(finished > 0 && unfinished > 50, "{finished} finished, {unfinished} unfinished");
}

#[test]
fn a_damaged_original_is_not_backed_up_and_nothing_is_left() {
    let (disk, db) = fixture();
    drop(db);
    let mut refusals = 0;
    for name in disk.file_names().iter().filter(|n| n.starts_with("s-") || n.starts_with("d-") || n.starts_with("m-")) {
        let bytes = disk.read_file(name).unwrap();
        for at in [70, bytes.len() / 3, bytes.len() - 40] {
            let damaged = copy(&disk);
            let mut changed = bytes.clone();
            changed[at] ^= 0x20;
            damaged.write_file(name, changed);
            // A byte that no checksum covers is one that nothing reads.
            let (dest, report) = back_up(&damaged, None, &BackupOptions::default());
            if let Err(e) = report {
                assert!(e.code() == ErrorCode::Corrupt && e.to_string().contains(name.as_str()), "{name} {at}: {e}");
                assert_eq!(dest.file_names(), Vec::<String>::new());
                refusals += 1;
            } else {
                assert_eq!(dump_of_disk(&dest), dump_of_disk(&disk), "{name} {at}");
            }
        }
    }
    assert!(refusals >= 8, "{refusals}");
}

#[test]
fn linked_files_are_shared_and_checked_as_deeply_as_asked() {
    let (disk, db) = fixture();
    let text = dump_of(&db);
    let (linked, report) = back_up(&disk, None, &BackupOptions { link: true, ..BackupOptions::default() });
    let report = report.unwrap();
    assert!(report.copied_files == 0 && report.linked_files >= 4, "{report:?}");
    assert_eq!(dump_of_disk(&linked), text);

    // What an earlier backup holds is linked from there, and only what is new is copied.
    db.put("main", vec![Document::new("new").text("words")]).unwrap();
    db.checkpoint().unwrap();
    let (next, report) = back_up(&disk, Some(&linked), &BackupOptions::default());
    let report = report.unwrap();
    assert!(report.linked_files >= 2 && report.copied_files >= 2, "{report:?}");
    assert_eq!(dump_of_disk(&next), dump_of(&db));

    // A rotted block of the earlier backup comes along unless everything is read; its frame is looked at always.
    let name = linked.file_names().into_iter().find(|n| n.starts_with("s-")).unwrap();
    let rotted = copy(&linked);
    let mut bytes = linked.read_file(&name).unwrap();
    bytes[80] ^= 1;
    rotted.write_file(&name, bytes.clone());
    back_up(&disk, Some(&rotted), &BackupOptions::default()).1.unwrap();
    let (copied, deep) = back_up(&disk, Some(&rotted), &BackupOptions { verify: true, ..BackupOptions::default() });
    assert_eq!(deep.unwrap().linked_files + 1, report.linked_files, "the rotten file is copied from the original, which is sound");
    assert_eq!(dump_of_disk(&copied), dump_of(&db));
    // By links to a rotten original there is no copy to be had, and everything is read only where that is asked for.
    let deep = back_up(&rotted, None, &BackupOptions { link: true, verify: true, ..BackupOptions::default() }).1.unwrap_err();
    assert!(deep.code() == ErrorCode::Corrupt && deep.to_string().contains(&name), "{deep}");
    bytes[3] ^= 1;
    rotted.write_file(&name, bytes);
    let (copied, _) = back_up(&disk, Some(&rotted), &BackupOptions::default());
    assert_eq!(dump_of_disk(&copied), dump_of(&db), "a file whose frame differs is copied from the original");
}

#[test]
fn a_backup_that_was_written_to_lends_only_what_is_the_same() {
    let (disk, db) = fixture();
    let (previous, report) = back_up(&disk, None, &BackupOptions::default());
    report.unwrap();
    for (db, id) in [(open(&previous), "them"), (db, "ours")] {
        for i in 0..4 {
            db.put("main", vec![Document::new(format!("{id} {i}")).text("the same length")]).unwrap();
            db.checkpoint().unwrap();
        }
        drop(db);
    }
    let ours = dump_of_disk(&disk);
    // Two that went on from one state give the same number to different files sooner or later.
    let segments = |of: &SimDirectory, other: &SimDirectory| -> Vec<String> {
        of.file_names().into_iter().filter(|n| n.starts_with("s-") && other.read_file(n).is_none()).collect()
    };
    let pairs: Vec<_> = segments(&disk, &previous).into_iter().zip(segments(&previous, &disk)).collect();
    assert!(pairs.len() >= 3, "{pairs:?}");
    for (our_name, their_name) in &pairs {
        let theirs = previous.read_file(their_name).unwrap();
        assert_eq!(theirs.len(), disk.read_file(our_name).unwrap().len());
        previous.write_file(our_name, theirs);
    }
    let (dest, report) = back_up(&disk, Some(&previous), &BackupOptions::default());
    assert!(report.unwrap().linked_files > 0);
    assert_eq!(dump_of_disk(&dest), ours);
}

#[test]
fn nothing_is_made_inside_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = Database::create(&path).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.close().unwrap();
    let before = files_of(&path);
    let inside = |name: &str| path.join("deeper").join(name);
    let refused = [
        backup(&path, inside("backup"), &BackupOptions::default()).unwrap_err(),
        triune::maintenance::restore(inside("restored"), &b""[..]).unwrap_err(),
        triune::maintenance::salvage(&path, inside("saved"), true).unwrap_err(),
        Database::create(path.join("database")).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        assert!(error.to_string().contains("lies inside the database"), "{error}");
    }
    assert_eq!(files_of(&path), before);
    backup(&path, folder.path().join("backup"), &BackupOptions::default()).unwrap();
}

fn files_of(path: &std::path::Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let read = |e: std::io::Result<std::fs::DirEntry>| e.map(|e| (e.file_name(), std::fs::read(e.path()).unwrap_or_default())).unwrap();
    let mut files: Vec<_> = std::fs::read_dir(path).unwrap().map(read).collect();
    files.sort();
    files
}

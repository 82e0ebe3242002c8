//! Checking whole databases: what is sound is clean, whatever state it is in, and checking writes nothing.

use super::{doc, fresh, json, open, options, put, try_open};
use std::sync::Arc;
use triune::inspect::{FindingCode, FsckOptions, FsckReport, Severity, fsck_directory};
use triune::io::SimDirectory;
use triune::{Database, Patch, Schema};

/// Checks at a level; that writes nothing.
pub(super) fn check(disk: &SimDirectory, level: u8) -> FsckReport {
    let before = (disk.image_hash(), disk.operations());
    let report = fsck_directory(disk, &FsckOptions::level(level)).unwrap();
    assert_eq!((disk.image_hash(), disk.operations()), before, "checking wrote");
    report
}

#[track_caller]
pub(super) fn assert_clean(disk: &SimDirectory, what: &str) {
    for level in 0..=3 {
        let report = check(disk, level);
        assert!(report.is_clean(), "{what}, level {level}: {:#?}", report.findings);
    }
}

/// A database with everything: several segments with text, vectors, sources and tombstones, linked logs, and commits that only the log has.
pub(super) fn busy() -> (SimDirectory, Database) {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.create_collection("other", Schema::default()).unwrap();
    for round in 0..3 {
        let document = |i: usize| {
            let vector = [i as f32, round as f32, 1.0];
            let text = format!("Words of Round {round} and row {i} about RAG");
            doc(&format!("{round} {i}"), &text).vector(vector).source(format!("s{round}"))
        };
        put(&db, (0..20).map(document).collect());
        db.put("other", vec![doc("x", "other").metadata(json(r#"{"k":1}"#))]).unwrap();
        db.delete("main", vec![format!("{round} 7")]).unwrap();
        db.checkpoint().unwrap();
    }
    db.delete("main", vec!["0 3".into(), "1 4".into()]).unwrap();
    db.checkpoint().unwrap();
    put(&db, vec![doc("logged", "only in the log")]);
    db.patch("main", vec![Patch::new("2 2").text("patched")]).unwrap();
    (disk, db)
}

#[test]
fn a_sound_database_is_clean_at_every_level() {
    let (disk, db) = busy();
    assert_clean(&disk, "while it is open");
    assert_clean(&disk.after_kill(), "after a kill");
    drop(db);
    assert_clean(&disk, "dropped");
    let db = open(&disk);
    assert_clean(&disk, "recovered");
    db.compact().unwrap();
    assert_clean(&disk, "compacted");
    db.put("main", vec![doc("large", &"a text that is larger than a record ".repeat(300_000))]).unwrap();
    assert_clean(&disk, "after an oversize commit");
    db.clear("other").unwrap();
    db.close().unwrap();
    assert_clean(&disk, "closed");
    let (empty, db) = fresh();
    db.close().unwrap();
    assert_clean(&empty, "empty");
    assert!(try_open(&empty).is_ok());
    assert_eq!((Severity::Benign.exit_status(), FindingCode::Orphan.severity()), (1, Severity::Benign));
}

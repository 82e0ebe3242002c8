//! Creating and opening.

use super::{doc, fresh, ids, main_of, open, open_read_only, options, put, refused, try_open};
use std::sync::Arc;
use triune::io::SimDirectory;
use triune::io::sim::FailureKind;
use triune::{Database, ErrorCode, Patch, Schema, WriteBatch};

#[test]
fn open_never_creates_and_create_never_opens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    refused(Database::open(&path), ErrorCode::NotFound, &["create"]);
    refused(Database::open_read_only(&path), ErrorCode::NotFound, &[]);
    assert!(!path.exists(), "opening made a directory");
    std::fs::create_dir(&path).unwrap();
    refused(Database::open(&path), ErrorCode::NotFound, &[]);
    refused(Database::open_read_only(&path), ErrorCode::NotFound, &[]);
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0, "opening made a file");
    Database::create(&path).unwrap().close().unwrap();
    refused(Database::create(&path), ErrorCode::AlreadyExists, &["nothing was changed"]);
    Database::open(&path).unwrap().close().unwrap();
}

#[test]
fn create_changes_nothing_where_something_is() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "kept")]);
    db.close().unwrap();
    let before = disk.image_hash();
    refused(Database::create_with(Arc::new(disk.clone()), options()), ErrorCode::AlreadyExists, &[]);
    assert_eq!(disk.image_hash(), before);
    assert_eq!(ids(&main_of(&open(&disk))), ["a"]);
    // Somebody else's directory.
    let foreign = SimDirectory::new();
    foreign.write_file("thesis.tex", *b"years of work");
    let before = foreign.image_hash();
    refused(Database::create_with(Arc::new(foreign.clone()), options()), ErrorCode::InvalidArgument, &["thesis.tex"]);
    refused(try_open(&foreign), ErrorCode::NotFound, &[]);
    assert_eq!(foreign.image_hash(), before);
    // One in which a name happens to be one of ours, as in the directory of a git repository.
    let git = SimDirectory::new();
    git.write_file("HEAD", *b"ref: refs/heads/main\n");
    git.write_file("config", *b"[core]\n");
    let before = git.image_hash();
    refused(Database::create_with(Arc::new(git.clone()), options()), ErrorCode::InvalidArgument, &["config"]);
    refused(try_open(&git), ErrorCode::NotFound, &[]);
    assert_eq!(git.image_hash(), before);
}

#[test]
fn files_that_are_not_triunes_are_left_alone() {
    let (disk, db) = fresh();
    disk.write_file("notes.txt", *b"mine");
    put(&db, vec![doc("a", "")]);
    db.compact().unwrap();
    db.close().unwrap();
    open(&disk).close().unwrap();
    assert_eq!(disk.read_file("notes.txt").as_deref(), Some(&b"mine"[..]));
    // A HEAD that lost both slots beside them is damage, not an unfinished create.
    disk.write_file("HEAD", vec![0; 8192]);
    let before = disk.image_hash();
    refused(try_open(&disk), ErrorCode::Corrupt, &["HEAD"]);
    refused(Database::create_with(Arc::new(disk.clone()), options()), ErrorCode::AlreadyExists, &["nothing was changed"]);
    assert_eq!(disk.image_hash(), before);
}

#[test]
fn an_unfinished_create_is_not_found_and_can_be_completed() {
    let probe = SimDirectory::new();
    Database::create_with(Arc::new(probe.clone()), options()).unwrap();
    let mut unfinished = 0;
    for n in 0..probe.operations() {
        let disk = SimDirectory::new();
        disk.crash_at(n, triune::io::sim::CrashMode::Before);
        if Database::create_with(Arc::new(disk.clone()), options()).is_ok() {
            continue;
        }
        let left = disk.survivors_all();
        if let Err(e) = try_open(&left) {
            assert_eq!(e.code(), ErrorCode::NotFound, "operation {n}: {e}");
            Database::create_with(Arc::new(left.clone()), options()).unwrap().close().unwrap();
            unfinished += 1;
        }
        assert!(open(&left).snapshot().collections().is_empty());
    }
    assert!(unfinished > 5, "{unfinished}");
}

#[test]
fn reading_only_writes_nothing() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "in a segment"), doc("b", "in a segment too")]);
    db.checkpoint().unwrap();
    put(&db, vec![doc("c", "in the log")]);
    drop(db);
    let (operations, hash) = (disk.operations(), disk.image_hash());
    let reader = open_read_only(&disk).unwrap();
    assert_eq!(ids(&main_of(&reader)), ["a", "b", "c"]);
    assert_eq!(reader.recovery().replayed_commits, 1);
    refused(reader.put("main", vec![doc("d", "")]), ErrorCode::ReadOnly, &["nothing was written"]);
    refused(reader.patch("main", vec![Patch::new("a").text("x")]), ErrorCode::ReadOnly, &[]);
    refused(reader.delete("main", vec!["a".into()]), ErrorCode::ReadOnly, &[]);
    refused(reader.delete_source("main", "s"), ErrorCode::ReadOnly, &[]);
    refused(reader.replace_source("main", "s", vec![]), ErrorCode::ReadOnly, &[]);
    refused(reader.clear("main"), ErrorCode::ReadOnly, &[]);
    refused(reader.create_collection("other", Schema::default()), ErrorCode::ReadOnly, &[]);
    refused(reader.drop_collection("main"), ErrorCode::ReadOnly, &[]);
    refused(reader.commit(WriteBatch::new()), ErrorCode::ReadOnly, &[]);
    refused(reader.checkpoint(), ErrorCode::ReadOnly, &[]);
    refused(reader.merge(), ErrorCode::ReadOnly, &[]);
    refused(reader.compact(), ErrorCode::ReadOnly, &[]);
    refused(reader.sync(), ErrorCode::ReadOnly, &[]);
    reader.refresh().unwrap();
    reader.close().unwrap();
    drop(open_read_only(&disk).unwrap());
    assert_eq!((disk.operations(), disk.image_hash()), (operations, hash));
}

#[test]
fn a_second_writer_is_refused_and_told_who_writes() {
    let (disk, db) = fresh();
    let pid = std::process::id().to_string();
    refused(try_open(&disk), ErrorCode::Locked, &["pid", &pid, "nothing was changed"]);
    // Readers come and go beside it, and a refused writer takes nothing from it.
    put(&db, vec![doc("a", "")]);
    assert_eq!(main_of(&open_read_only(&disk).unwrap()).count(), 1);
    drop(db);
    open(&disk).close().unwrap();
    let again = open(&disk);
    refused(try_open(&disk), ErrorCode::Locked, &[&pid]);
    again.close().unwrap();
    open(&disk);
}

#[test]
fn a_second_writer_is_refused_on_a_real_disk_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = Database::create(&path).unwrap();
    refused(Database::open(&path), ErrorCode::Locked, &["pid", &std::process::id().to_string()]);
    db.close().unwrap();
    Database::open(&path).unwrap();
}

#[test]
fn a_reader_stands_still_until_it_is_refreshed() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "one")]);
    let reader = open_read_only(&disk).unwrap();
    let old = main_of(&reader);
    put(&db, vec![doc("b", "two")]);
    db.compact().unwrap();
    assert_eq!(ids(&main_of(&reader)), ["a"]);
    let before = disk.operations();
    reader.refresh().unwrap();
    assert_eq!(disk.operations(), before);
    assert_eq!((ids(&main_of(&reader)), ids(&old)), (vec!["a".to_string(), "b".into()], vec!["a".to_string()]));
}

#[test]
fn closing_leaves_nothing_to_replay() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "text")]);
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!((db.recovery().replayed_commits, &db.recovery().torn_tail), (0, &None));
    // A session that writes nothing leaves the files as they are.
    let names = disk.file_names();
    let head = disk.read_file("HEAD");
    assert_eq!(main_of(&db).count(), 1);
    db.close().unwrap();
    assert_eq!((disk.file_names(), disk.read_file("HEAD")), (names, head));
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a user moves a whole directory")]
fn a_database_moved_away_from_under_its_writer_goes_on_and_the_one_in_its_place_is_untouched() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, moved, twin) = (scratch.path().join("db"), scratch.path().join("moved"), scratch.path().join("twin"));
    let twin_db = Database::create(&twin).unwrap();
    twin_db.create_collection("main", Schema::default()).unwrap();
    twin_db.close().unwrap();
    let db = Database::create(&path).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    std::fs::rename(&twin, &path).unwrap();
    let listed = |path: &std::path::Path| {
        let files = std::fs::read_dir(path).unwrap().map(|f| f.unwrap());
        files.map(|f| (f.file_name(), std::fs::read(f.path()).unwrap())).collect::<std::collections::BTreeMap<_, _>>()
    };
    let before = listed(&path);
    for i in 0..20 {
        db.put("main", vec![triune::Document::new(i.to_string()).text("a text")]).unwrap();
        db.checkpoint().unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    assert!(listed(&path) == before, "nothing was made, changed or removed there");
    assert_eq!(Database::open(&moved).unwrap().snapshot().collection("main").unwrap().count(), 20);
}

/// Whatever operation or call fails: the answer says whether there is a database.
#[test]
fn a_create_on_a_failing_disk_says_whether_there_is_a_database() {
    let whole = SimDirectory::newly_made();
    Database::create_with(Arc::new(whole.clone()), options()).unwrap();
    let (mut refused, mut unknown, mut stands) = (0, 0, 0);
    let changes =
        (0..whole.operations()).flat_map(|n| [FailureKind::Eio, FailureKind::Enospc, FailureKind::Revert].map(|kind| (n, kind, true)));
    let looks = (0..whole.accesses()).map(|n| (n, FailureKind::Eio, false));
    for (n, kind, changes) in changes.chain(looks) {
        let disk = SimDirectory::newly_made();
        if changes {
            disk.fail(n, kind)
        } else {
            disk.fail_access(n, kind)
        }
        let Err(e) = Database::create_with(Arc::new(disk.clone()), options()) else { continue };
        let opened = try_open(&disk);
        if e.code() == ErrorCode::OutcomeUnknown {
            assert!(opened.is_ok() || opened.is_err_and(|e| e.code() == ErrorCode::NotFound), "{kind:?} at {n}: {e}");
            unknown += 1;
        } else if e.to_string().contains("an empty database stands in") {
            assert!(opened.unwrap().snapshot().collections().is_empty(), "{kind:?} at {n}: {e}");
            stands += 1;
        } else {
            assert_eq!(opened.map(drop).map_err(|e| e.code()), Err(ErrorCode::NotFound), "{kind:?} at {n}: {e}");
            assert_eq!(disk.file_names(), Vec::<String>::new(), "{kind:?} at {n}: {e}");
            refused += 1;
        }
        let again = Database::create_with(Arc::new(disk.clone()), options());
        assert!(again.is_ok() || again.is_err_and(|e| e.code() == ErrorCode::AlreadyExists), "{kind:?} at {n}");
    }
    assert!(refused > 20 && unknown > 5 && stands > 2, "{refused} refused, {unknown} unknown, {stands} stand");
}

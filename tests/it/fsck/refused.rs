//! What the operating system refuses is told as that, and never as damage.

use super::image::{options, rich};
use super::{FsckOptions, check, codes, fsck_directory};
use std::sync::Arc;
use triune::inspect::FindingCode as Code;
use triune::io::SimDirectory;
use triune::io::sim::FailureKind;
use triune::maintenance::Salvage;
use triune::{Database, ErrorCode};

/// A database with everything, killed while it is open: a log, tombstones, segments.
fn killed() -> SimDirectory {
    let (disk, db) = rich();
    let left = disk.after_kill();
    drop(db);
    left
}

/// Lets each call of `read` that only looks fail in turn with EMFILE: it answers with that error, whatever call it was.
fn refused_at_each_call(what: &str, read: impl Fn(&SimDirectory) -> triune::Result<()>) {
    let left = killed();
    read(&left).unwrap();
    let mut refused = 0;
    for n in left.accesses().. {
        let disk = left.snapshot();
        disk.fail_access(n, FailureKind::Emfile);
        let before = (disk.image_hash(), disk.operations());
        let answer = read(&disk);
        assert_eq!((disk.image_hash(), disk.operations()), before, "{what}, call {n}: something was written");
        if disk.accesses() <= n {
            break;
        }
        let e = answer.err().unwrap_or_else(|| panic!("{what}, call {n} was refused, and nothing is said"));
        let text = e.to_string();
        assert!(e.code() == ErrorCode::Io && text.contains("no damage") && text.contains("ulimit -n"), "{what}, call {n}: {text}");
        refused += 1;
    }
    assert!(refused > 20, "{what}: {refused} calls");
}

/// WITNESS alone says that the last commit was synced, and its record is damaged: without the one the other is no torn tail.
#[test]
fn a_witness_that_cannot_be_read_is_an_error_and_drops_no_commit() {
    let disk = killed();
    let log = disk.file_names().into_iter().filter(|name| name.ends_with(".wal")).max().unwrap();
    let mut bytes = disk.read_file(&log).unwrap();
    let last = bytes.iter().rposition(|b| *b != 0).unwrap();
    bytes[last] ^= 1;
    disk.write_file(&log, bytes);
    let opened = |disk: &SimDirectory| Database::open_with(Arc::new(disk.clone()), options()).map(drop).unwrap_err().code();
    assert_eq!(opened(&disk), ErrorCode::Corrupt);
    assert_eq!(check(&disk, 0).exit_status(), 8);
    let refused = disk.snapshot();
    refused.fail_reads("WITNESS", 0);
    let before = refused.image_hash();
    assert_eq!(opened(&refused), ErrorCode::Io);
    let report = check(&refused, 0);
    assert!(codes(&report).contains(&Code::ReadFailed) && report.exit_status() == 8, "{:#?}", report.findings);
    assert!(!Salvage::survey(&refused).unwrap().ledger().is_empty());
    assert_eq!(refused.image_hash(), before);
    // What stands in its place says nothing, and is no error.
    refused.remove_file("WITNESS");
    Database::open_with(Arc::new(refused.clone()), options()).unwrap();
}

#[test]
fn a_file_that_the_system_refuses_to_open_is_not_damaged() {
    for level in 0..=3 {
        refused_at_each_call(&format!("fsck at level {level}"), |disk| {
            let report = fsck_directory(disk, &FsckOptions::level(level))?;
            assert!(report.is_sound(), "{:#?}", report.findings);
            Ok(())
        });
    }
}

#[test]
fn documents_that_the_system_refuses_to_read_are_not_lost() {
    refused_at_each_call("salvage", |disk| {
        let survey = Salvage::survey(disk)?;
        assert!(survey.ledger().is_empty(), "{:#?}", survey.ledger());
        (0..survey.collections().len()).try_for_each(|index| survey.documents(index, |_| Ok(())))
    });
}

/// A medium that fails has lost what it does not give: that stays a finding.
#[test]
fn a_medium_that_fails_is_damage() {
    let left = killed();
    let mut found = 0;
    for n in left.accesses()..left.accesses() + accesses_of_a_check(&left) {
        let disk = left.snapshot();
        disk.fail_access(n, FailureKind::Eio);
        if let Ok(report) = fsck_directory(&disk, &FsckOptions::level(1)) {
            found += usize::from(report.findings.iter().any(|f| f.code == Code::ReadFailed));
        }
    }
    assert!(found > 5, "{found}");
}

/// How many calls a check makes that only look.
fn accesses_of_a_check(left: &SimDirectory) -> usize {
    let disk = left.snapshot();
    let before = disk.accesses();
    check(&disk, 1);
    disk.accesses() - before
}

//! What the operating system refuses is told as that, and never as damage.

use super::image::rich;
use super::{FsckOptions, check, fsck_directory};
use triune::ErrorCode;
use triune::inspect::FindingCode as Code;
use triune::io::SimDirectory;
use triune::io::sim::FailureKind;
use triune::maintenance::Salvage;

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

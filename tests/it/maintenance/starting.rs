//! Where a salvage starts without HEAD, and without a lock.

use super::fixture::{copy, fixture};
use super::salvaging::{judge, saved, subjects};
use super::sections::flip;
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use triune::ErrorCode;
use triune::format::wal::WAL_HEADER_BYTES;
use triune::io::{Directory, File, LockGuard, LockMode, SimDirectory};
use triune::maintenance::{Loss, LossKind, Salvage};

fn has(ledger: &[Loss], kind: LossKind) -> bool {
    ledger.iter().any(|loss| loss.kind == kind)
}

fn logs(disk: &SimDirectory) -> Vec<String> {
    disk.file_names().into_iter().filter(|name| name.ends_with(".wal")).collect()
}

/// Everything is saved exactly, or the ledger has a line.
#[test]
fn without_head_what_a_log_held_is_saved_or_said_to_be_lost() {
    let (mut exact, mut said) = (0, 0);
    for (name, disk, now, before) in subjects() {
        let active = logs(&disk).pop().unwrap();
        for damage in 0..32u32 {
            let damaged = copy(&disk);
            let is = |bit: u32| damage >> bit & 1 == 1;
            match is(0) {
                true => damaged.remove_file("HEAD"),
                false => damaged.write_file("HEAD", vec![0; 8192]),
            }
            if is(1) {
                damaged.remove_file("WITNESS");
            }
            match (is(2), is(3)) {
                (true, false) => flip(&damaged, &active, 20),
                (false, true) => damaged.remove_file(&active),
                (true, true) => damaged.write_file(&active, vec![0; WAL_HEADER_BYTES + 8192]),
                (false, false) => {}
            }
            if is(4) {
                logs(&damaged).iter().filter(|log| **log != active).for_each(|log| damaged.remove_file(log));
            }
            let what = format!("{name}, damage {damage:05b}");
            let (saved, ledger) = saved(&damaged, &what);
            judge(&what, &now, &before, &saved, &ledger);
            match ledger.is_empty() {
                true => exact += 1,
                false => said += 1,
            }
            let gone = is(2) != is(3) && is(1) || is(3);
            assert!(!gone || has(&ledger, LossKind::Commits), "{what}: nobody knows what the log held: {ledger:?}");
            assert!(damage > 1 || ledger.is_empty(), "{what}: the rest tells everything: {ledger:?}");
        }
    }
    assert!(exact > 10 && said > 60, "{exact} {said}");
}

/// A disk whose LOCK cannot be locked.
#[derive(Debug)]
struct Unlockable(SimDirectory, ErrorKind);

impl Directory for Unlockable {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn create_new(&self, name: &str) -> Result<Arc<dyn File>> {
        self.0.create_new(name)
    }

    fn open_writable(&self, name: &str) -> Result<Arc<dyn File>> {
        self.0.open_writable(name)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        self.0.unlink(name)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn sync_parent(&self) -> Result<()> {
        self.0.sync_parent()
    }

    fn list(&self) -> Result<Vec<String>> {
        self.0.list()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        self.0.open(name)
    }

    fn try_lock(&self, _: &str, _: LockMode) -> Result<Option<LockGuard>> {
        Err(Error::from(self.1))
    }
}

#[test]
fn a_lock_that_cannot_be_had_ends_a_salvage() {
    let disk = fixture().0;
    let survey = |kind| Salvage::survey(&Unlockable(copy(&disk), kind)).map(drop).map_err(|e| e.code());
    assert_eq!(survey(ErrorKind::Other), Err(ErrorCode::Io), "a writer may have it open");
    assert_eq!(survey(ErrorKind::NotFound), Ok(()), "no writer opens without LOCK");
}

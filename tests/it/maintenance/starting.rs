//! Where a salvage starts: what HEAD, WITNESS, manifests and the headers of logs leave it to know.

use super::fixture::{copy, dump_of_disk, fixture, open, options, plain};
use super::salvaging::{judge, saved, subjects};
use super::sections::flip;
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use triune::format::wal::WAL_HEADER_BYTES;
use triune::io::{Directory, File, LockGuard, LockMode, SimDirectory};
use triune::maintenance::{Loss, LossKind, Salvage};
use triune::{Database, ErrorCode, Schema, WriteBatch};

fn has(ledger: &[Loss], kind: LossKind) -> bool {
    ledger.iter().any(|loss| loss.kind == kind)
}

fn logs(disk: &SimDirectory) -> Vec<String> {
    disk.file_names().into_iter().filter(|name| name.ends_with(".wal")).collect()
}

#[test]
fn a_manifest_that_head_contradicts_is_in_the_ledger() {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.create_collection("other", Schema::default()).unwrap();
    db.put("main", plain(0..5)).unwrap();
    db.close().unwrap();
    let twin = copy(&disk);
    let changed = |disk: &SimDirectory, change: &dyn Fn(&mut WriteBatch)| {
        let (db, mut batch) = (open(disk), WriteBatch::new());
        change(&mut batch);
        db.commit(batch).unwrap();
        db.close().unwrap();
    };
    changed(&disk, &|batch| _ = batch.rename_collection("other", "zwei"));
    changed(&twin, &|batch| _ = batch.drop_collection("main"));
    let manifest = disk.file_names().into_iter().rfind(|name| name.ends_with(".manifest")).unwrap();
    let before = dump_of_disk(&disk);
    assert_eq!(saved(&disk, "whole"), (before, vec![]));
    disk.write_file(&manifest, twin.read_file(&manifest).expect("both wrote a manifest of this number"));
    let (dump, ledger) = saved(&disk, "the twin's manifest");
    let said = ledger.iter().find(|loss| loss.kind == LossKind::Manifest).unwrap_or_else(|| panic!("{ledger:?}"));
    assert!(said.reason.starts_with(&format!("HEAD says of {manifest} ")), "{}", said.reason);
    let text = String::from_utf8(dump).unwrap();
    assert!((0..5).all(|i| text.contains(&format!("\"p{i}\""))), "what no manifest names is saved too: {text}");
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

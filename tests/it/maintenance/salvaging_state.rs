//! Salvage where HEAD, manifests and logs do not fit together, are missing, or are kept back by the system: what may be lost has a line.

use super::fixture::{copy, dump_of_disk, options};
use super::salvaging::{documents_of, judge, saved, subjects, ten_commits};
use super::sections::flip;
use std::sync::Arc;
use triune::format::head::HEAD_SLOT_BYTES;
use triune::format::wal::WAL_HEADER_BYTES;
use triune::io::SimDirectory;
use triune::io::sim::FailureKind;
use triune::maintenance::{Loss, LossKind, Salvage, write_salvaged};
use triune::{Database, Document, ErrorCode, Schema, WriteBatch};

fn youngest(disk: &SimDirectory, extension: &str) -> String {
    disk.file_names().into_iter().rfind(|name| name.ends_with(extension)).unwrap()
}

fn zero(disk: &SimDirectory, file: &str) {
    disk.write_file(file, vec![0; disk.read_file(file).unwrap().len()]);
}

fn has(ledger: &[Loss], kind: LossKind) -> bool {
    ledger.iter().any(|loss| loss.kind == kind)
}

/// Two databases that were one and went different ways, by one commit each.
fn twins() -> (SimDirectory, SimDirectory) {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.create_collection("other", Schema::default()).unwrap();
    db.put("main", (0..5).map(|i| Document::new(i.to_string()).text("a text")).collect()).unwrap();
    db.close().unwrap();
    let twin = copy(&disk);
    let change = |disk: &SimDirectory, change: &dyn Fn(&Database)| {
        let db = Database::open_with(Arc::new(disk.clone()), options()).unwrap();
        change(&db);
        db.close().unwrap();
    };
    change(&disk, &|db| {
        let mut batch = WriteBatch::new();
        batch.rename_collection("other", "another");
        db.commit(batch).unwrap();
    });
    change(&twin, &|db| drop(db.drop_collection("main").unwrap()));
    (copy(&disk), copy(&twin))
}

#[test]
fn a_manifest_that_is_not_the_one_that_head_names_is_in_the_ledger() {
    let (disk, twin) = twins();
    let now = dump_of_disk(&disk);
    assert_eq!(saved(&disk, "one twin"), (now.clone(), vec![]));
    let manifest = youngest(&disk, ".manifest");
    assert_eq!(manifest, youngest(&twin, ".manifest"));
    disk.write_file(&manifest, twin.read_file(&manifest).unwrap());
    let (saved, ledger) = saved(&disk, "the manifest of the other");
    let line = ledger.iter().find(|loss| loss.kind == LossKind::Manifest).unwrap_or_else(|| panic!("{ledger:?}"));
    assert!(line.file.as_deref() == Some(manifest.as_str()) && line.reason.starts_with("HEAD names other bytes"), "{line:?}");
    let kept = documents_of(&saved);
    for ((_, id), document) in &documents_of(&now) {
        assert!(kept.iter().any(|((_, other), found)| other == id && found == document), "{id} is in a segment that nothing names");
    }
}

/// A database that was killed between the two writes of a publishing: its slots name two states, and every file of both is there.
fn between_two_slots() -> (SimDirectory, SimDirectory, Vec<u8>) {
    let (_, before, now, _) = subjects().swap_remove(0);
    let after = copy(&before);
    Database::open_with(Arc::new(after.clone()), options()).unwrap().close().unwrap();
    let both = copy(&before);
    for name in after.file_names() {
        both.write_file(&name, after.read_file(&name).unwrap());
    }
    let mut head = after.read_file("HEAD").unwrap();
    let generation = |slot: usize| u64::from_le_bytes(head[slot * HEAD_SLOT_BYTES + 8..][..8].try_into().unwrap());
    let older = usize::from(generation(1) < generation(0)) * HEAD_SLOT_BYTES;
    head[older..older + HEAD_SLOT_BYTES].copy_from_slice(&before.read_file("HEAD").unwrap()[older..older + HEAD_SLOT_BYTES]);
    both.write_file("HEAD", head);
    (before, both, now)
}

#[test]
fn the_older_slot_serves_when_the_manifest_of_the_newer_one_does_not() {
    let (before, both, now) = between_two_slots();
    assert_eq!(saved(&both, "between two slots"), (now.clone(), vec![]));
    flip(&both, &youngest(&both, ".manifest"), 100);
    assert_eq!(saved(&both, "the newer manifest is damaged"), (now.clone(), vec![]));
    let log = youngest(&before, ".wal");
    both.remove_file(&log);
    let (saved, ledger) = saved(&both, "and the log of the older state is missing");
    assert!(saved != now && has(&ledger, LossKind::Commits), "{ledger:?}");
}

#[test]
fn slots_that_contradict_each_other_are_in_the_ledger() {
    let (disk, twin) = twins();
    let mut head = disk.read_file("HEAD").unwrap();
    let others = twin.read_file("HEAD").unwrap();
    head[HEAD_SLOT_BYTES..].copy_from_slice(&others[HEAD_SLOT_BYTES..]);
    // The same generation in the other place: the slot of the twin moves there whole.
    head[..HEAD_SLOT_BYTES].copy_from_slice(&disk.read_file("HEAD").unwrap()[HEAD_SLOT_BYTES..]);
    disk.write_file("HEAD", head);
    let (_, ledger) = saved(&disk, "two slots of one generation");
    assert!(ledger.iter().any(|l| l.kind == LossKind::Manifest && l.file.as_deref() == Some("HEAD")), "{ledger:?}");
}

#[test]
fn without_head_the_log_that_witness_names_is_found_again_and_any_other_has_a_line() {
    let disk = ten_commits();
    let (now, log) = (dump_of_disk(&disk), youngest(&disk, ".wal"));
    for head_is_missing in [false, true] {
        let damaged = copy(&disk);
        if head_is_missing {
            damaged.remove_file("HEAD")
        } else {
            zero(&damaged, "HEAD")
        }
        flip(&damaged, &log, 10);
        assert_eq!(saved(&damaged, "the header of the log is damaged"), (now.clone(), vec![]), "WITNESS knows the log");
        damaged.remove_file("WITNESS");
        let (_, ledger) = saved(&damaged, "and WITNESS is missing");
        assert!(matches!(&ledger[..], [one] if one.kind == LossKind::Commits && one.file.as_deref() == Some(log.as_str())), "{ledger:?}");
        damaged.remove_file(&log);
        let (_, ledger) = saved(&damaged, "the log is missing too, and one that a writer never used is left");
        assert!(matches!(&ledger[..], [one] if one.kind == LossKind::Commits && one.last_lsn.is_none()), "{ledger:?}");
    }
}

#[test]
fn a_log_that_ends_where_the_manifest_does_is_not_the_active_one() {
    let (before, both, now) = between_two_slots();
    both.remove_file("HEAD");
    assert_eq!(saved(&both, "the log of the newer state is there"), (now, vec![]));
    both.remove_file(&youngest(&both, ".wal"));
    assert_eq!(youngest(&both, ".wal"), youngest(&before, ".wal"));
    let (_, ledger) = saved(&both, "only that of the older one is");
    assert!(has(&ledger, LossKind::Commits), "{ledger:?}");
}

#[test]
fn what_the_system_does_not_let_be_read_of_head_is_in_the_ledger() {
    for (name, disk, now, before) in subjects() {
        for slots in [&[0][..], &[1], &[0, 1]] {
            let damaged = copy(&disk);
            slots.iter().for_each(|slot| damaged.fail_reads("HEAD", (slot * HEAD_SLOT_BYTES) as u64));
            let (saved, ledger) = saved(&damaged, name);
            let lines = ledger.iter().filter(|l| l.kind == LossKind::Commits && l.file.as_deref() == Some("HEAD")).count();
            assert_eq!(lines, slots.len(), "{name}, slots {slots:?}: {ledger:?}");
            assert!(saved == now, "{name}: nothing else is damaged");
            judge(name, &now, &before, &saved, &ledger);
        }
    }
}

#[test]
fn the_end_of_a_log_that_the_system_does_not_let_be_read_is_in_the_ledger() {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    // Longer than what is read at once, so that its beginning can be.
    let text = "a long text ".repeat(20_000);
    (0..12).for_each(|i| drop(db.put("main", vec![Document::new(i.to_string()).text(&text)]).unwrap()));
    let log = youngest(&disk, ".wal");
    let bytes = disk.read_file(&log).unwrap();
    let end = bytes.iter().rposition(|b| *b != 0).unwrap() as u64;
    assert!(end > 2 << 20, "{end}");
    for witness in [true, false] {
        let damaged = copy(&disk.after_kill());
        damaged.fail_reads(&log, end);
        if !witness {
            damaged.remove_file("WITNESS");
        }
        let (_, ledger) = saved(&damaged, "the last record is on a bad sector");
        assert!(has(&ledger, LossKind::Commits), "WITNESS {witness}: {ledger:?}");
        assert!(ledger.iter().any(|l| l.file.as_deref() == Some(log.as_str()) && l.offset > Some(0)), "WITNESS {witness}: {ledger:?}");
    }
}

/// Everything is saved exactly, or the ledger has a line.
#[test]
fn without_head_what_a_log_held_is_saved_or_said_to_be_lost() {
    let (mut exact, mut said) = (0, 0);
    for (name, disk, now, before) in subjects() {
        let active = youngest(&disk, ".wal");
        for damage in 0..32u32 {
            let damaged = copy(&disk);
            let is = |bit: u32| damage >> bit & 1 == 1;
            match is(0) {
                true => damaged.remove_file("HEAD"),
                false => damaged.write_file("HEAD", vec![0; 2 * HEAD_SLOT_BYTES]),
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
                let older = damaged.file_names().into_iter().filter(|name| name.ends_with(".wal") && *name != active);
                older.for_each(|log| damaged.remove_file(&log));
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

type Damage = (&'static str, fn(&SimDirectory, &str));

/// Ways to lose a file, or parts of it.
const DAMAGES: [Damage; 6] = [
    ("kept", |_, _| {}),
    ("removed", SimDirectory::remove_file),
    ("zeroed", zero),
    ("with another byte 10", |disk, file| flip(disk, file, 10)),
    ("unreadable at its start", |disk, file| disk.fail_reads(file, 0)),
    ("unreadable at its end", |disk, file| disk.fail_reads(file, disk.read_file(file).unwrap().len() as u64 - 1)),
];

#[test]
fn whatever_becomes_of_head_witness_manifest_and_log_together_what_is_lost_is_said() {
    for (name, disk, now, before) in subjects() {
        let (manifest, log) = (youngest(&disk, ".manifest"), youngest(&disk, ".wal"));
        let (mut whole, mut lossy) = (0, 0);
        for combination in 0..DAMAGES.len().pow(3) * 2 {
            let damaged = copy(&disk);
            let (mut what, mut rest) = (name.to_string(), combination);
            for file in ["HEAD", "WITNESS", log.as_str()] {
                let (how, damage) = DAMAGES[rest % DAMAGES.len()];
                what += &format!(", {file} {how}");
                damage(&damaged, file);
                rest /= DAMAGES.len();
            }
            if rest == 1 {
                what += ", without its manifest";
                damaged.remove_file(&manifest);
            }
            let survey = Salvage::survey(&damaged).unwrap_or_else(|e| panic!("{what}: {e}"));
            let new = SimDirectory::new();
            let ledger = write_salvaged(&survey, Arc::new(new.clone()), options()).unwrap().ledger;
            judge(&what, &now, &before, &dump_of_disk(&new), &ledger);
            *(if ledger.is_empty() { &mut whole } else { &mut lossy }) += 1;
        }
        assert!(whole > 10 && lossy > 200, "{name}: {whole} {lossy}");
    }
}

/// Each call that only looks fails in turn, once: either that ends it, or what was not seen has a line.
#[test]
fn a_medium_that_fails_at_any_call_hides_nothing_from_the_ledger() {
    for (name, disk, now, before) in subjects() {
        let (mut refused, mut said) = (Vec::new(), 0);
        for n in disk.accesses().. {
            let failing = disk.snapshot();
            failing.fail_access(n, FailureKind::Eio);
            let what = format!("{name}, call {n}");
            let survey = Salvage::survey(&failing);
            if failing.accesses() <= n {
                break;
            }
            match survey {
                Err(e) => {
                    assert_eq!(e.code(), ErrorCode::Io, "{what}: {e}");
                    refused.push(e.to_string());
                }
                Ok(survey) => {
                    let new = SimDirectory::new();
                    let ledger = write_salvaged(&survey, Arc::new(new.clone()), options()).unwrap().ledger;
                    judge(&what, &now, &before, &dump_of_disk(&new), &ledger);
                    said += usize::from(!ledger.is_empty());
                }
            }
        }
        assert!(said > 5, "{name}: {said}");
        // A lock that cannot be asked for is no leave to go on beside a writer.
        assert!(refused.iter().any(|e| e.contains("locking LOCK")) && refused.len() <= 3, "{name}: {refused:?}");
    }
}

//! The log: writing, scanning, links, and the verdict of recovery.

mod chain;
mod crash;
mod damage;
mod verdict;
mod writer;

use super::*;
use crate::error::{Error, ErrorCode, Result};
use crate::format::wal::{RECORD_COMMIT, RecordHeader};
use crate::ids::{Lsn, Uuid};
use crate::io::Directory;
use crate::io::SimDirectory;
use crate::io::names::FileName;
use std::sync::Arc;
use zerocopy::IntoBytes;

const DATABASE: Uuid = Uuid([1; 16]);

/// The payload that the tests give the record of `lsn`: each has another length.
fn payload(lsn: u64) -> Vec<u8> {
    format!("payload of lsn {lsn}, {}", "x".repeat(lsn as usize * 7)).into_bytes()
}

fn name(sequence: u64) -> String {
    FileName::Wal(sequence).to_string()
}

fn shared(dir: &SimDirectory) -> Arc<dyn Directory> {
    Arc::new(dir.clone())
}

/// A log `sequence` that starts at `first_lsn`.
fn create(dir: &SimDirectory, sequence: u64, first_lsn: u64, link: Option<Link>) -> WalWriter {
    WalWriter::create(&shared(dir), DATABASE, sequence, Lsn(first_lsn), Lsn(first_lsn - 1), link).expect("the disk is sound")
}

/// Appends `lsns` as one group.
fn group(writer: &mut WalWriter, lsns: std::ops::RangeInclusive<u64>) -> Result<()> {
    let payloads: Vec<Vec<u8>> = lsns.clone().map(payload).collect();
    let records: Vec<NewRecord<'_>> =
        lsns.zip(&payloads).map(|(lsn, payload)| NewRecord { lsn: Lsn(lsn), kind: RECORD_COMMIT, payload }).collect();
    writer.append(&records)
}

/// Appends each of `lsns` as a group of its own and syncs it.
fn commit(writer: &mut WalWriter, lsns: std::ops::RangeInclusive<u64>) {
    for lsn in lsns {
        group(writer, lsn..=lsn).and_then(|()| writer.sync()).expect("the disk is sound");
    }
}

/// The log 1 with the synced lsns 1 to `last`, and its writer.
fn log_of(last: u64) -> (SimDirectory, WalWriter) {
    let dir = SimDirectory::new();
    let mut writer = create(&dir, 1, 1, None);
    commit(&mut writer, 1..=last);
    (dir, writer)
}

/// Recovers with the evidence that is on the disk, and `head_durable` in HEAD.
fn recover_from(dir: &SimDirectory, active: &WalWriter, applied: u64, head_durable: u64) -> Result<Recovered> {
    recover(dir, DATABASE, active.sequence(), active.id(), Lsn(applied), Lsn(head_durable), Witness::read(dir)?)
}

/// The lsns replayed, after their payloads were compared with what was appended.
fn lsns(recovered: &Recovered) -> Vec<u64> {
    for record in &recovered.records {
        assert_eq!(record.payload, payload(record.lsn.0), "lsn {}", record.lsn);
    }
    recovered.records.iter().map(|r| r.lsn.0).collect()
}

/// Where the record of `lsn` starts in the log.
fn offset_of(dir: &SimDirectory, writer: &WalWriter, lsn: u64) -> usize {
    let bytes = bytes_of(dir, &name(writer.sequence()));
    (4096..bytes.len() - 47)
        .step_by(8)
        .find(|&at| RecordHeader::decode(&bytes[at..at + 48], writer.id(), at as u64).is_ok_and(|h| h.lsn.get() == lsn))
        .expect("the record is there")
}

/// Flips a byte of the payload of `lsn`.
fn rot_payload(dir: &SimDirectory, writer: &WalWriter, lsn: u64) {
    let at = offset_of(dir, writer, lsn);
    edit(dir, &name(writer.sequence()), |bytes| bytes[at + 50] ^= 1);
}

/// Flips a byte of the header of `lsn`, so that it is no record any more.
fn rot_header(dir: &SimDirectory, writer: &WalWriter, lsn: u64) {
    let at = offset_of(dir, writer, lsn);
    edit(dir, &name(writer.sequence()), |bytes| bytes[at + 20] ^= 1);
}

/// The damage that recovery reports.
fn corruption(outcome: Result<Recovered>) -> crate::error::Corruption {
    match outcome {
        Err(Error::Corrupt(c)) => c,
        other => panic!("not seen as damage: {other:?}"),
    }
}

/// Changes the bytes of a file, durably.
fn edit<R>(dir: &SimDirectory, name: &str, change: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut bytes = bytes_of(dir, name);
    let answer = change(&mut bytes);
    dir.write_file(name, bytes);
    answer
}

fn bytes_of(dir: &SimDirectory, name: &str) -> Vec<u8> {
    dir.read_file(name).expect("the test made this file")
}

/// The operations from number `seen` on, which is moved to the end.
fn done(dir: &SimDirectory, seen: &mut usize) -> Vec<String> {
    let operations = dir.trace()[*seen..].iter().map(ToString::to_string).collect();
    *seen = dir.operations();
    operations
}

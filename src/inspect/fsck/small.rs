//! Level 1 of the files that are not segments: WITNESS, BALLAST, tombstones, and what stands between the records of the logs.

use super::codes::FindingCode as Code;
use super::report::FsckReport;
use super::state::State;
use crate::error::Result;
use crate::format::effects::DeadSet;
use crate::format::tombstones::ENVELOPE_ALIGN;
use crate::format::wal::RECORD_HEADER_BYTES;
use crate::format::witness::{WITNESS_BYTES, WITNESS_SLOT_BYTES, WitnessSlot};
use crate::io::names::{self, FileName};
use crate::io::{Directory, File};
use crate::tombstones::TombstonesPart;
use crate::wal::{LogFile, Recovered, Walk};

/// What `create` gives BALLAST. Spec §2.6.
const BALLAST_BYTES: u64 = 1 << 20;
/// Bytes read at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// WITNESS and BALLAST. Neither holds anything that is lost with it.
pub(super) fn files(dir: &dyn Directory, report: &mut FsckReport) {
    match dir.open(names::BALLAST).and_then(|file| file.len()) {
        Ok(length) if length >= BALLAST_BYTES => {}
        Ok(length) => report.note(Code::Ballast, names::BALLAST, length, format!("it has {length} bytes, {BALLAST_BYTES} are its whole")),
        Err(e) => report.note(Code::Ballast, names::BALLAST, 0, format!("it cannot be read: {e}")),
    }
    let witness = dir.open(names::WITNESS).and_then(|file| Ok((file.len()?, file.read_at_most(WITNESS_BYTES as u64)?)));
    let (length, bytes) = match witness {
        Ok(read) => read,
        Err(e) => return report.note(Code::Witness, names::WITNESS, 0, format!("it cannot be read: {e}")),
    };
    if length != WITNESS_BYTES as u64 {
        let what = format!("it has {length} bytes, not {WITNESS_BYTES}");
        return report.note(Code::Witness, names::WITNESS, bytes.len().min(WITNESS_BYTES) as u64, what);
    }
    for (index, slot) in bytes.chunks_exact(WITNESS_SLOT_BYTES).enumerate() {
        if slot.iter().any(|&b| b != 0)
            && let Err(e) = WitnessSlot::decode(slot)
        {
            let at = (index * WITNESS_SLOT_BYTES) as u64;
            report.note(Code::Witness, names::WITNESS, at + e.offset, format!("record {index}: {}", e.what));
        }
    }
}

/// What stands between the records of every log that was followed.
pub(super) fn logs(dir: &dyn Directory, recovered: &Recovered, report: &mut FsckReport) {
    for &sequence in &recovered.logs {
        if let Err(e) = log(dir, sequence, report) {
            report.error(Code::LogDamaged, &FileName::Wal(sequence).to_string(), &e);
        }
    }
}

fn log(dir: &dyn Directory, sequence: u64, report: &mut FsckReport) -> Result<()> {
    // Whether it is there and whole was asked before.
    let Some(mut log) = LogFile::open(dir, sequence)? else { return Ok(()) };
    let mut walk = Walk::new(&log.header()?);
    let mut end = walk.at;
    let name = log.name.to_string();
    while let Some(record) = walk.next(&mut log)? {
        let start = record.self_offset.get();
        let payload_end = start + RECORD_HEADER_BYTES as u64 + u64::from(record.payload_length.get());
        for (from, to) in [(end, start), (payload_end, walk.at)] {
            let bytes = log.bytes(from, to - from)?;
            if let Some(i) = bytes.iter().position(|&b| b != 0) {
                let what = format!("byte {} of the zeros before or after record {} is not zero", from + i as u64, record.lsn);
                report.note(Code::Padding, name.clone(), from + i as u64, what);
            }
        }
        report.rows += 1;
        end = walk.at;
    }
    Ok(())
}

/// Every set of dead rows and of dying seqs that is named, and the zeros behind it.
pub(super) fn tombstones(state: &State, report: &mut FsckReport) {
    for segment in &state.segments {
        let Some(t) = &segment.entry.tombstones else { continue };
        let Some((reader, file)) = state.tombstones.get(&t.file) else { continue };
        let name = FileName::Tombstones(t.file).to_string();
        let part = TombstonesPart { offset: t.offset, length: t.length, crc: t.crc };
        let rows = u32::try_from(segment.entry.rows).unwrap_or(u32::MAX);
        match reader.tombstones(part, rows) {
            Ok((dead, _)) if dead.len() == t.dead => {}
            Ok((dead, _)) => {
                let what = format!("{} rows are dead here, the manifest says {}", dead.len(), t.dead);
                report.note(Code::Tombstones, name.clone(), t.offset, what);
            }
            Err(e) => report.error(Code::Tombstones, &name, &e),
        }
        padding(file.as_ref(), &name, part.offset.saturating_add(part.length), ENVELOPE_ALIGN, report);
    }
    for c in state.commits.iter().flat_map(|c| &c.effects.collections) {
        let DeadSet::File { number, length, crc } = c.dead else { continue };
        let Some((reader, file)) = state.tombstones.get(&number) else { continue };
        let name = FileName::Tombstones(number).to_string();
        let part = TombstonesPart { offset: TombstonesPart::FIRST_OFFSET, length, crc };
        if let Err(e) = reader.dying_seqs(part) {
            report.error(Code::Tombstones, &name, &e);
        }
        padding(file.as_ref(), &name, part.offset.saturating_add(part.length), ENVELOPE_ALIGN, report);
    }
}

/// The zeros from `from` up to the next multiple of `align`, or to the end of the file.
pub(super) fn padding(file: &dyn File, name: &str, from: u64, align: u64, report: &mut FsckReport) {
    let Some(to) = from.checked_next_multiple_of(align) else { return };
    zeros(file, name, from, to, report);
}

/// The zeros from `from` up to `to`, or to the end of the file. O(1) memory.
pub(super) fn zeros(file: &dyn File, name: &str, from: u64, to: u64, report: &mut FsckReport) {
    let to = file.len().map_or(to, |len| to.min(len));
    let read = || -> std::io::Result<Option<u64>> {
        let mut at = from;
        let mut window = Vec::new();
        while at < to {
            window.resize((to - at).min(WINDOW_BYTES) as usize, 0);
            file.read_exact_at(at, &mut window)?;
            if let Some(i) = window.iter().position(|&b| b != 0) {
                return Ok(Some(at + i as u64));
            }
            at += window.len() as u64;
        }
        Ok(None)
    };
    match read() {
        Ok(None) => {}
        Ok(Some(at)) => {
            report.note(Code::Padding, name, at, format!("of the bytes from {from} to {to} each that is written is zero, this one is not"))
        }
        Err(e) => report.note(Code::ReadFailed, name, from, e.to_string()),
    }
}

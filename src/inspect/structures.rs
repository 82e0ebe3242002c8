//! The structures of one file, field by field: what stands there, and whether its checksum holds.
//!
//! Nothing here is taken from a part of the program that would refuse the file: each structure is read as it stands, and its decoder's
//! opinion is put beside it.

use super::findings::located;
use super::raw::{Field, Structure, fields};
use super::survey::Survey;
use super::{opened, raw_log, raw_segments, tombstones, whole};
use crate::error::{Error, Result};
use crate::format::checksum::crc32;
use crate::format::error::FormatError;
use crate::format::head::{HEAD_BYTES, HEAD_SLOT_BYTES, HeadSlot};
use crate::format::manifest::{MANIFEST_HEADER_BYTES, ManifestHeader, decode_manifest};
use crate::format::tombstones::{ENVELOPE_BYTES, TombstonesEnvelope, TombstonesHeader};
use crate::format::witness::{WITNESS_BYTES, WITNESS_SLOT_BYTES, WitnessSlot};
use crate::ids::Uuid;
use crate::io::Directory;
use crate::io::names::{self, FileName};
use std::path::Path;
use zerocopy::FromBytes;

/// The structures of the file `name` of the database in `path`, in the order of their offsets. Damage is described, not an error. LOCK and
/// BALLAST have none. O(bytes of all files that name others, and of this one).
///
/// # Errors
/// `NotFound` when there is no such directory or file, `Io` when it cannot be read.
///
/// ```
/// # use triune::{Database, Schema};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// # Database::create(&path)?.close()?;
/// let slots = triune::inspect::structures(&path, "HEAD")?;
/// assert_eq!((slots.len(), slots[1].offset, slots[1].problem.as_ref()), (2, 4096, None));
/// assert_eq!((slots[1].fields[1].name, slots[1].fields[1].offset), ("generation", 4104));
/// # Ok::<(), triune::Error>(())
/// ```
pub fn structures(path: impl AsRef<Path>, name: &str) -> Result<Vec<Structure>> {
    structures_directory(&opened(path.as_ref())?, name)
}

/// As [`structures`], for any directory.
///
/// # Errors
/// As [`structures`].
pub fn structures_directory(dir: &dyn Directory, name: &str) -> Result<Vec<Structure>> {
    let file = dir.open(name).map_err(|e| {
        if e.kind() == std::io::ErrorKind::NotFound {
            Error::NotFound(format!("a file {name} in {}", dir.describe()))
        } else {
            Error::io(format!("opening {name}"), e)
        }
    })?;
    let failed = |e| Error::io(format!("reading {name}"), e);
    let first = |bytes: usize| file.read_at_most(bytes as u64).map_err(failed);
    let all = || whole(file.as_ref()).map_err(failed);
    match (name, FileName::parse(name)) {
        (names::HEAD, _) => Ok(head(&first(HEAD_BYTES)?)),
        (names::WITNESS, _) => Ok(witness(&first(WITNESS_BYTES)?)),
        (_, Some(FileName::Manifest(_))) => Ok(manifest(&all()?)),
        (_, Some(FileName::Wal(sequence))) => raw_log::structures(dir, sequence),
        (_, Some(FileName::Segments(number))) => {
            let present = dir.list().map_err(|e| Error::io(format!("listing {}", dir.describe()), e))?;
            raw_segments::structures(file.as_ref(), name, &Survey::of(dir, &present), number)
        }
        (_, Some(FileName::Tombstones(number))) => Ok(tombstones_file(&all()?, number)),
        (_, None) => Ok(Vec::new()),
    }
}

/// Bytes at `at`, filled up with zeros where the file ends before: a cut structure is shown as far as it goes.
pub(super) fn padded<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    let there = bytes.get(at..).unwrap_or_default();
    let length = there.len().min(N);
    out[..length].copy_from_slice(&there[..length]);
    out
}

/// What a decoder says against a structure at `at`.
pub(super) fn problem<T>(decoded: std::result::Result<T, FormatError>, at: u64) -> Option<String> {
    decoded.err().map(|e| located(e, at))
}

fn part(bytes: &[u8], at: usize, length: usize) -> &[u8] {
    let there = bytes.get(at..).unwrap_or_default();
    &there[..there.len().min(length)]
}

fn head(bytes: &[u8]) -> Vec<Structure> {
    let slot = |index: usize| {
        let at = index * HEAD_SLOT_BYTES;
        let own = part(bytes, at, HEAD_SLOT_BYTES);
        let raw: [u8; HEAD_SLOT_BYTES] = padded(bytes, at);
        let slot = HeadSlot::read_from_bytes(&raw).ok()?;
        let found = problem(HeadSlot::decode(own).and_then(|slot| slot.understand()), at as u64);
        Some(Structure::new(at as u64, HEAD_SLOT_BYTES as u64, format!("slot {index} (HeadSlot)"), found, slot_fields(at as u64, &slot)))
    };
    [0, 1].into_iter().filter_map(slot).collect()
}

fn slot_fields(at: u64, slot: &HeadSlot) -> Vec<Field> {
    fields!(
        at,
        slot,
        HeadSlot {
            magic,
            generation,
            major,
            minor,
            crc,
            compatible,
            read_only_compatible,
            incompatible,
            database,
            manifest_number,
            manifest_length,
            manifest_crc,
            reserved,
            applied_lsn,
            wal_sequence,
            wal_id,
            durable_lsn,
            padding,
        }
    )
}

fn witness(bytes: &[u8]) -> Vec<Structure> {
    let record = |index: usize| {
        let at = index * WITNESS_SLOT_BYTES;
        let own = part(bytes, at, WITNESS_SLOT_BYTES);
        let raw: [u8; WITNESS_SLOT_BYTES] = padded(bytes, at);
        let slot = WitnessSlot::read_from_bytes(&raw).ok()?;
        let written = own.iter().any(|&b| b != 0);
        let found = if written { problem(WitnessSlot::decode(own), at as u64) } else { None };
        let all = fields!(at as u64, slot, WitnessSlot { magic, wal_id, durable_lsn, durable_offset, crc, padding });
        let record = Structure::new(at as u64, WITNESS_SLOT_BYTES as u64, format!("record {index} (WitnessSlot)"), found, all);
        Some(if written { record } else { record.saying("not written yet") })
    };
    [0, 1].into_iter().filter_map(record).collect()
}

fn manifest(bytes: &[u8]) -> Vec<Structure> {
    let raw: [u8; MANIFEST_HEADER_BYTES] = padded(bytes, 0);
    let Ok(header) = ManifestHeader::read_from_bytes(&raw) else { return Vec::new() };
    let body = bytes.get(MANIFEST_HEADER_BYTES..).unwrap_or_default();
    let all = fields!(0, header, ManifestHeader { magic, major, minor, crc, database, number, body_length, body_crc, reserved });
    let found = problem(ManifestHeader::decode(bytes), 0);
    let whole = decode_manifest(bytes);
    let computed = crc32(body);
    // Damage to the header is not damage to the body.
    let wrong = match &found {
        None => problem(whole.as_ref().map_err(Clone::clone), 0),
        Some(_) if computed == header.body_crc.get() => None,
        Some(_) => Some(format!("byte 48: checksum of the manifest body is {:#010x}, its bytes give {computed:#010x}", header.body_crc)),
    };
    let says = match &whole {
        Ok((_, m)) => format!(
            "checksum {computed:#010x}: applied lsn {}, next seq {}, next incarnation {}, {} collections",
            m.applied_lsn,
            m.next_seq,
            m.next_incarnation,
            m.collections.len()
        ),
        Err(_) => format!("checksum {computed:#010x}"),
    };
    let at = MANIFEST_HEADER_BYTES as u64;
    vec![
        Structure::new(0, at, "header (ManifestHeader)", found, all),
        Structure::new(at, body.len() as u64, "body (JSON)", wrong, Vec::new()).saying(says),
    ]
}

fn tombstones_file(bytes: &[u8], number: u64) -> Vec<Structure> {
    const HEADER: usize = size_of::<TombstonesHeader>();
    let raw: [u8; HEADER] = padded(bytes, 0);
    let Ok(header) = TombstonesHeader::read_from_bytes(&raw) else { return Vec::new() };
    let found = problem(TombstonesHeader::decode(part(bytes, 0, HEADER), Uuid(header.database), number), 0);
    let all = fields!(0, header, TombstonesHeader { magic, major, minor, crc, database, number, reserved });
    let mut structures = vec![Structure::new(0, HEADER as u64, "header (TombstonesHeader)", found, all)];
    for (at, envelope) in tombstones::envelopes(bytes) {
        let all = fields!(at, envelope, TombstonesEnvelope { magic, kind, body_length, items, body_crc, crc });
        let end = (at + ENVELOPE_BYTES).saturating_add(envelope.body_length.get());
        let body = bytes.get((at + ENVELOPE_BYTES) as usize..usize::try_from(end).unwrap_or(usize::MAX));
        let computed = body.map(crc32);
        let found = match computed {
            None => Some(format!("byte {}: the body ends at byte {end}, the file at {}", at + 8, bytes.len())),
            Some(crc) if crc != envelope.body_crc.get() => {
                Some(format!("byte {}: checksum of the body is {:#010x}, its bytes give {crc:#010x}", at + 24, envelope.body_crc))
            }
            Some(_) => None,
        };
        let says = tombstones::contents(&envelope);
        structures.push(Structure::new(at, end - at, "envelope (TombstonesEnvelope)", found, all).saying(says));
    }
    structures
}

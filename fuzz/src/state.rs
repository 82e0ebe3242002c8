//! Slots of HEAD, records of WITNESS and manifests. Checksums are made to fit, so that the checks behind them are reached.

use crate::{dispatch, split};
use triune::Uuid;
use triune::format::checksum::crc32;
use triune::format::head::{HEAD_MAGIC, HEAD_SLOT_BYTES, HeadSlot};
use triune::format::manifest::{MANIFEST_HEADER_BYTES, MANIFEST_MAGIC, Manifest, decode_manifest, encode_manifest};
use triune::format::witness::{WITNESS_MAGIC, WITNESS_SLOT_BYTES, WitnessSlot};
use zerocopy::{FromBytes, IntoBytes};

pub fn fuzz(bytes: &[u8]) {
    dispatch(bytes, &[head, witness, manifest, manifest_body]);
}

fn head(bytes: &[u8]) {
    let _ = HeadSlot::decode(bytes);
    let (block, _) = split::<HEAD_SLOT_BYTES>(bytes);
    let mut slot = HeadSlot::read_from_bytes(&block).expect("the size is right");
    slot.magic = HEAD_MAGIC;
    slot.seal();
    let slot = HeadSlot::decode(slot.as_bytes()).expect("its checksum was just made");
    let _ = slot.writable();
    if let Ok(state) = slot.understand() {
        assert_eq!(HeadSlot::encode(&state, slot.compatible.get()).understand(), Ok(state));
    }
}

fn witness(bytes: &[u8]) {
    let _ = WitnessSlot::decode(bytes);
    let (mut block, _) = split::<WITNESS_SLOT_BYTES>(bytes);
    block[..8].copy_from_slice(&WITNESS_MAGIC);
    seal(&mut block, 40);
    if let Ok(record) = WitnessSlot::decode(&block) {
        assert_eq!(WitnessSlot::encode(&record).as_bytes(), block);
    }
}

/// A header as given, before a body that its lengths and checksums fit.
fn manifest(bytes: &[u8]) {
    let _ = decode_manifest(bytes);
    let (mut header, body) = split::<MANIFEST_HEADER_BYTES>(bytes);
    header[..8].copy_from_slice(&MANIFEST_MAGIC);
    header[40..48].copy_from_slice(&(body.len() as u64).to_le_bytes());
    header[48..52].copy_from_slice(&crc32(body).to_le_bytes());
    seal(&mut header, 12);
    if let Ok((header, manifest)) = decode_manifest(&[header.as_slice(), body].concat()) {
        again(header.number.get(), Uuid(header.database), &manifest);
    }
}

fn manifest_body(bytes: &[u8]) {
    if let Ok(manifest) = serde_json::from_slice::<Manifest>(bytes) {
        again(7, Uuid([1; 16]), &manifest);
    }
}

fn again(number: u64, database: Uuid, manifest: &Manifest) {
    let file = encode_manifest(number, database, manifest);
    let (header, read) = decode_manifest(&file).expect("what was written can be read");
    assert_eq!((header.number.get(), header.database, &read), (number, database.0, manifest));
    assert_eq!(encode_manifest(number, database, &read), file);
    let _ = triune::manifest::check(manifest);
}

/// Writes the checksum of a structure into its field at `field`.
fn seal(structure: &mut [u8], field: usize) {
    structure[field..field + 4].fill(0);
    let crc = crc32(structure);
    structure[field..field + 4].copy_from_slice(&crc.to_le_bytes());
}

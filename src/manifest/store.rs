//! Writes and reads manifest files.

use super::invariants::violation;
use crate::error::{Error, Result};
use crate::format::checksum::crc32;
use crate::format::head::HeadState;
use crate::format::manifest::{MANIFEST_HEADER_BYTES, Manifest, decode_manifest, encode_manifest};
use crate::format::sabotage::skips_checksum;
use crate::ids::Uuid;
use crate::io::Directory;
use crate::io::names::FileName;
use std::io::ErrorKind;

/// Writes the manifest `number` under its final name and syncs it. Returns its length and checksum, for HEAD. The caller syncs the directory
/// before it names the file. A manifest that breaks an invariant is not written.
pub fn write_manifest(dir: &dyn Directory, number: u64, database: Uuid, manifest: &Manifest) -> Result<(u64, u32)> {
    let name = FileName::Manifest(number).to_string();
    refuse_broken(&name, manifest)?;
    let bytes = encode_manifest(number, database, manifest);
    let file = dir.create_new(&name).map_err(|e| Error::io(format!("creating {name}"), e))?;
    file.write_all_at(0, &bytes).map_err(|e| Error::io(format!("writing {name}"), e))?;
    file.sync().map_err(|e| Error::io(format!("syncing {name}"), e))?;
    Ok((bytes.len() as u64, crc32(&bytes)))
}

/// Reads the manifest that `head` names, and checks that it is that one, whole, and one that a database can have.
pub fn read_manifest(dir: &dyn Directory, head: &HeadState) -> Result<Manifest> {
    let name = FileName::Manifest(head.manifest_number).to_string();
    let named_by = format!("HEAD (generation {}) names it", head.generation);
    let file = dir.open(&name).map_err(|e| {
        if e.kind() == ErrorKind::NotFound {
            return Error::corrupt(&name, 0, format!("the manifest is missing, but {named_by}"));
        }
        Error::io(format!("opening {name}"), e)
    })?;
    let failed = |e| Error::io(format!("reading {name}"), e);
    let length = file.len().map_err(failed)?;
    if length != head.manifest_length {
        let what = format!("the manifest has {length} bytes, but {named_by} with {}", head.manifest_length);
        return Err(Error::corrupt(&name, length.min(head.manifest_length), what));
    }
    let bytes = file.read_all().map_err(failed)?;
    // The header first: it knows where the damage is.
    let (header, manifest) = decode_manifest(&bytes).map_err(|e| e.in_file(&name, 0))?;
    let differs = |at: u64, what: &str, found: &dyn std::fmt::Display, expected: &dyn std::fmt::Display| {
        Err(Error::corrupt(
            &name,
            at,
            format!("{what} of this manifest is {found}, but {named_by} with {expected}: another file stands in its place"),
        ))
    };
    let found = crc32(&bytes);
    if header.database != head.database.0 {
        return differs(16, "the database", &Uuid(header.database), &head.database);
    }
    if header.number.get() != head.manifest_number {
        return differs(32, "the number", &header.number.get(), &head.manifest_number);
    }
    if found != head.manifest_crc && !skips_checksum("manifest in HEAD") {
        return differs(0, "the checksum", &format_args!("{found:#010x}"), &format_args!("{:#010x}", head.manifest_crc));
    }
    if manifest.applied_lsn != head.applied_lsn {
        return differs(64, "the applied lsn", &manifest.applied_lsn, &head.applied_lsn);
    }
    refuse_broken(&name, &manifest)?;
    Ok(manifest)
}

/// Refuses a manifest that no database can have; its body begins at byte 64.
fn refuse_broken(name: &str, manifest: &Manifest) -> Result<()> {
    violation(manifest).map_or(Ok(()), |what| Err(Error::corrupt(name, MANIFEST_HEADER_BYTES as u64, what)))
}

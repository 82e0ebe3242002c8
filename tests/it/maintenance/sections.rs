//! Where the sections of every segment of a disk stand, for damaging them one by one.

use std::sync::Arc;
use triune::Uuid;
use triune::format::manifest::{Manifest, decode_manifest};
use triune::format::segment::SECTION_DERIVED;
use triune::io::{Directory, SimDirectory};
use triune::segment::SegmentReader;

/// A section that has bytes.
pub(crate) struct Section {
    pub(crate) file: String,
    pub(crate) kind: u16,
    pub(crate) derived: bool,
    /// Its first byte in the file.
    pub(crate) start: u64,
    pub(crate) length: u64,
}

pub(crate) fn manifest_of(disk: &SimDirectory) -> (Uuid, Manifest) {
    let name = disk.file_names().into_iter().rfind(|n| n.ends_with(".manifest")).unwrap();
    let (header, manifest) = decode_manifest(&disk.read_file(&name).unwrap()).unwrap();
    (Uuid(header.database), manifest)
}

/// The sections of every segment that the manifest names.
pub(crate) fn sections_of(disk: &SimDirectory) -> Vec<Section> {
    let (database, manifest) = manifest_of(disk);
    let mut sections = Vec::new();
    for entry in manifest.collections.iter().flat_map(|c| &c.segments) {
        let file = triune::io::names::FileName::Segments(entry.file).to_string();
        let dir: Arc<dyn Directory> = Arc::new(disk.clone());
        let handle = dir.open(&file).unwrap();
        let segment = SegmentReader::open_pread(handle, &file, database, entry.offset, entry.length, entry.crc).unwrap();
        sections.extend(segment.entries().filter(|e| e.length.get() > 0).map(|e| Section {
            file: file.clone(),
            kind: e.kind.get(),
            derived: e.flags.get() & SECTION_DERIVED != 0,
            start: entry.offset + e.offset.get(),
            length: e.length.get(),
        }));
    }
    assert!(sections.len() > 8);
    sections
}

/// Changes one byte.
pub(crate) fn flip(disk: &SimDirectory, file: &str, at: u64) {
    let mut bytes = disk.read_file(file).unwrap();
    bytes[at as usize] ^= 0x40;
    disk.write_file(file, bytes);
}

//! Where the structures of a sound database stand. Damage does not move them: what an edit makes of a length is for the program to find.

use super::Files;
use std::ops::Range;
use triune::format::head::HEAD_SLOT_BYTES;
use triune::format::manifest::MANIFEST_HEADER_BYTES;
use triune::format::segment::{FOOTER_MAGIC, SEGMENT_MAGIC, SectionEntry, SegmentFooter};
use triune::format::tombstones::{ENVELOPE_ALIGN, ENVELOPE_BYTES, ENVELOPE_MAGIC};
use triune::format::wal::{RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RECORD_MAGIC, WAL_HEADER_BYTES};
use triune::format::witness::WITNESS_SLOT_BYTES;
use triune::io::names::FileName;
use zerocopy::FromBytes;

/// A run of bytes of a file that an edit may change, or the JSON of a manifest.
pub struct Site {
    pub file: String,
    pub bytes: Range<usize>,
    pub json: bool,
}

/// Everything that is edited or sealed.
#[derive(Default)]
pub struct Layout {
    pub sites: Vec<Site>,
    /// Files of segments, and where each segment lies.
    pub segments: Vec<(FileName, Vec<Range<usize>>)>,
    /// Files of tombstones, and where each envelope with its body lies.
    pub tombstones: Vec<(FileName, Vec<Range<usize>>)>,
    /// Logs, and where each record with its payload lies.
    pub logs: Vec<(FileName, Vec<Range<usize>>)>,
    pub manifests: Vec<FileName>,
}

impl Layout {
    pub fn of(files: &Files) -> Layout {
        let mut layout = Layout::default();
        for (name, bytes) in files {
            match (name.as_str(), FileName::parse(name)) {
                ("HEAD", _) => (0..2).for_each(|slot| layout.site(name, slot * HEAD_SLOT_BYTES..slot * HEAD_SLOT_BYTES + 128)),
                ("WITNESS", _) => (0..2).for_each(|slot| layout.site(name, slot * WITNESS_SLOT_BYTES..slot * WITNESS_SLOT_BYTES + 44)),
                (_, Some(file @ FileName::Manifest(_))) => {
                    layout.site(name, 0..MANIFEST_HEADER_BYTES);
                    layout.sites.push(Site { file: name.clone(), bytes: MANIFEST_HEADER_BYTES..bytes.len(), json: true });
                    layout.manifests.push(file);
                }
                (_, Some(file @ FileName::Wal(_))) => layout.log(name, file, bytes),
                (_, Some(file @ FileName::Segments(_))) => layout.segments(name, file, bytes),
                (_, Some(file @ FileName::Tombstones(_))) => layout.envelopes(name, file, bytes),
                _ => {}
            }
        }
        layout
    }

    fn site(&mut self, file: &str, bytes: Range<usize>) {
        if !bytes.is_empty() {
            self.sites.push(Site { file: file.to_string(), bytes, json: false });
        }
    }

    fn log(&mut self, name: &str, file: FileName, bytes: &[u8]) {
        self.site(name, 0..112);
        let mut records = Vec::new();
        let starts = (WAL_HEADER_BYTES..bytes.len()).step_by(RECORD_ALIGNMENT as usize);
        for start in starts.filter(|at| bytes[*at..].starts_with(&RECORD_MAGIC.to_le_bytes())) {
            let payload = start + RECORD_HEADER_BYTES;
            let end = payload + word(bytes, start + 12) as usize;
            if end <= bytes.len() {
                self.site(name, start..payload);
                self.site(name, payload..end);
                records.push(start..end);
            }
        }
        self.logs.push((file, records));
    }

    fn segments(&mut self, name: &str, file: FileName, bytes: &[u8]) {
        let mut segments = Vec::new();
        for start in (0..bytes.len()).step_by(4096).filter(|at| bytes[*at..].starts_with(&SEGMENT_MAGIC)) {
            let ends = (start + 64..bytes.len()).step_by(64).map(|footer| footer + 64);
            let whole = |end: &usize| {
                let footer = &bytes[end - 64..*end];
                footer.starts_with(&FOOTER_MAGIC) && footer[8..16] == ((end - start) as u64).to_le_bytes()
            };
            let Some(end) = ends.take_while(|end| *end <= bytes.len()).find(whole) else { continue };
            let footer = SegmentFooter::read_from_bytes(&bytes[end - 64..end]).expect("the size is right");
            let table = start + footer.table_offset.get() as usize;
            let table = table..table + footer.sections.get() as usize * 64;
            self.site(name, start..start + 64);
            for entry in bytes[table.clone()].chunks(64) {
                let entry = SectionEntry::read_from_bytes(entry).expect("the size is right");
                let from = start + entry.offset.get() as usize;
                self.site(name, from..from + entry.length.get() as usize);
            }
            self.site(name, table);
            self.site(name, end - 64..end);
            segments.push(start..end);
        }
        self.segments.push((file, segments));
    }

    fn envelopes(&mut self, name: &str, file: FileName, bytes: &[u8]) {
        self.site(name, 0..64);
        let mut envelopes = Vec::new();
        for start in (64..bytes.len()).step_by(ENVELOPE_ALIGN as usize) {
            let body = start + ENVELOPE_BYTES as usize;
            if bytes[start..].starts_with(&ENVELOPE_MAGIC.to_le_bytes()) && body <= bytes.len() {
                let end = (body + word(bytes, start + 8) as usize).min(bytes.len());
                self.site(name, start..end);
                envelopes.push(start..end);
            }
        }
        self.tombstones.push((file, envelopes));
    }
}

/// The `u32` at `at`.
pub fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

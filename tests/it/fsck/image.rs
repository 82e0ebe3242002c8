//! A database with everything, and edits of it after which every checksum holds again.

use std::sync::Arc;
use triune::format::checksum::crc32;
use triune::format::docs::{DocBlock, DocIndexEntry};
use triune::format::head::{HEAD_SLOT_BYTES, HeadSlot, HeadState};
use triune::format::manifest::{Manifest, SegmentEntry, decode_manifest, encode_manifest};
use triune::format::segment::{BLOCK_BYTES, SectionEntry, SectionKind, SegmentFooter, decode_table, encode_table};
use triune::io::SimDirectory;
use triune::io::names::FileName;
use triune::options::Thresholds;
use triune::{Database, Document, Entity, Hnsw, Metadata, Metric, Options, Quantisation, Relation, Schema};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

/// A database that checkpoints and merges only when it is told to.
pub fn options() -> Options {
    Options { background: false, ..Options::default() }
}

pub fn doc(id: &str, text: &str) -> Document {
    Document::new(id).text(text)
}

fn document(i: usize, round: usize) -> Document {
    let text = format!("Common Words and Alpha Beta, number{} item{i} of Round {round} {}", i % 7, "tok ".repeat(i % 4));
    let mut d = doc(&format!("doc {i}"), &text);
    d = d.metadata(Metadata::from_json(format!(r#"{{"n":{i},"tag":"t{}","deep":{{"x":[1,"a",null]}}}}"#, i % 5)).unwrap());
    if !i.is_multiple_of(3) {
        d = d.vector([i as f32, round as f32, 0.5, -1.0]);
    }
    if i.is_multiple_of(2) {
        d = d.source(format!("source {}", i % 10));
    }
    if i.is_multiple_of(10) {
        let entity = |name: &str| Entity { name: name.into(), kind: Some("thing".into()), mentions: 2 };
        d.entities = Some(vec![entity("Alpha Beta"), entity("ALPHA BETA"), entity(&format!("E{i}"))]);
        let relation = |source: &str, target: &str, weight: f64| Relation {
            source: source.into(),
            target: target.into(),
            kind: Some("beside".into()),
            description: None,
            weight,
        };
        d.relations = Some(vec![relation("alpha beta", &format!("E{i}"), 0.1), relation("Self", "Self", 2.0)]);
    }
    d
}

/// Two collections; in `main` a segment of 300 rows, some of them dead, one of 40, and commits that only the log has.
pub fn rich() -> (SimDirectory, Database) {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.create_collection("other", Schema::default()).unwrap();
    let mut first: Vec<Document> = (0..299).map(|i| document(i, 0)).collect();
    first.push(doc("long", &format!("{} short", "x".repeat(3000))));
    db.put("main", first).unwrap();
    db.checkpoint().unwrap();
    db.put("main", (0..40).map(|i| document(i * 3, 1)).collect()).unwrap();
    // Seqs with gaps between them.
    for i in 0..3 {
        db.put("main", vec![doc(&format!("gap {i}"), "between")]).unwrap();
        db.put("other", vec![doc(&format!("y {i}"), "between")]).unwrap();
    }
    db.put("other", vec![doc("x", "Other Text").metadata(Metadata::from_json(r#"{"k":1}"#).unwrap())]).unwrap();
    db.delete("main", vec!["doc 100".into(), "doc 250".into()]).unwrap();
    db.checkpoint().unwrap();
    db.put("main", vec![doc("logged", "Only in the Log"), document(9, 2)]).unwrap();
    db.delete("main", vec!["doc 101".into()]).unwrap();
    (disk, db)
}

/// Collections with a vector graph each: of every metric, with and without codes, with rows that are dead or have no vector.
pub const GRAPHS: [(&str, Metric, Quantisation); 4] = [
    ("cosine", Metric::Cosine, Quantisation::Sq7),
    ("dot", Metric::Dot, Quantisation::Sq7),
    ("l2", Metric::L2, Quantisation::Sq7),
    ("plain", Metric::L2, Quantisation::None),
];

/// As [`options`], with graphs from 40 vectors on.
pub fn graph_options() -> Options {
    Options { thresholds: Thresholds { graph_vectors: 40, ..Thresholds::default() }, ..options() }
}

/// A vector of 5 components; those of equal `i` modulo 61 are near each other.
pub fn point(i: usize) -> [f32; 5] {
    std::array::from_fn(|j| ((i % 61 * (j + 3) * 7919 + j * 104_729) % 1009) as f32 / 100.0 - 5.0 + (i / 61) as f32 / 50.0)
}

/// The collections of [`GRAPHS`], one merged segment each, closed.
pub fn with_graphs() -> SimDirectory {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), graph_options()).unwrap();
    for (name, metric, quantisation) in GRAPHS {
        let hnsw = Hnsw { m: 4, ef_construction: 30, quantisation };
        db.create_collection(name, Schema { metric, hnsw, ..Schema::default() }).unwrap();
        let document = |i: usize| {
            let plain = doc(&format!("p{i}"), "a point");
            if i % 11 == 5 { plain } else { plain.vector(point(i)) }
        };
        db.put(name, (0..130).map(document).collect()).unwrap();
    }
    db.compact().unwrap();
    db.delete("cosine", vec!["p3".into(), "p70".into()]).unwrap();
    db.close().unwrap();
    disk
}

/// The bytes of a database that nobody has open.
pub struct Image {
    pub disk: SimDirectory,
}

impl Image {
    pub fn of_rich() -> Image {
        let (disk, db) = rich();
        drop(db);
        Image { disk: disk.after_kill() }
    }

    pub fn of_graphs() -> Image {
        Image { disk: with_graphs() }
    }

    /// A database that some version wrote, and the BALLAST that fixtures lack.
    pub fn of_fixture(name: &str) -> Image {
        let disk = SimDirectory::new();
        disk.write_file("BALLAST", vec![0xb5; 1 << 20]);
        for file in std::fs::read_dir(crate::source::root().join("tests/fixtures/v1.0").join(name)).unwrap().map(Result::unwrap) {
            let file_name = file.file_name().into_string().unwrap();
            if !file_name.starts_with("expected") {
                disk.write_file(&file_name, std::fs::read(file.path()).unwrap());
            }
        }
        Image { disk }
    }

    pub fn head(&self) -> HeadState {
        slots(&self.disk).into_iter().flatten().max_by_key(|state| state.generation).unwrap()
    }

    pub fn manifest(&self) -> Manifest {
        let name = FileName::Manifest(self.head().manifest_number).to_string();
        decode_manifest(&self.disk.read_file(&name).unwrap()).unwrap().1
    }

    pub fn log(&self) -> String {
        FileName::Wal(self.head().wal_sequence).to_string()
    }

    /// The segments of all collections, in the order of the manifest.
    pub fn segments(&self) -> Vec<SegmentEntry> {
        self.manifest().collections.into_iter().flat_map(|c| c.segments).collect()
    }

    pub fn sections(&self, segment: &SegmentEntry) -> Vec<SectionEntry> {
        let bytes = self.segment_bytes(segment);
        let (_, table) = frame(&bytes);
        table
    }

    pub fn footer(&self, segment: &SegmentEntry) -> SegmentFooter {
        frame(&self.segment_bytes(segment)).0
    }

    /// The bodies of a segment's documents by row, or none when its blocks do not decode.
    pub fn bodies(&self, segment: usize) -> Option<Vec<Vec<u8>>> {
        let entry = &self.segments()[segment];
        let (bytes, table) = (self.segment_bytes(entry), self.sections(entry));
        let section = |kind: SectionKind| {
            let e = table.iter().find(|e| e.kind.get() == kind as u16).unwrap();
            &bytes[e.offset.get() as usize..][..e.length.get() as usize]
        };
        let mut bodies = Vec::new();
        for entry in section(SectionKind::DocIndex).chunks(size_of::<DocIndexEntry>()) {
            let entry = DocIndexEntry::decode(entry, u32::MAX).ok()?;
            let stored = &section(SectionKind::Docs)[entry.offset.get() as usize..][..entry.stored_length.get() as usize];
            let block = DocBlock::decode(&entry, stored).ok()?;
            for row in 0..entry.rows.get() {
                bodies.push(block.body(entry.first_row.get() + row).ok()?.to_vec());
            }
        }
        Some(bodies)
    }

    fn segment_bytes(&self, segment: &SegmentEntry) -> Vec<u8> {
        let file = self.disk.read_file(&FileName::Segments(segment.file).to_string()).unwrap();
        file[segment.offset as usize..(segment.offset + segment.length) as usize].to_vec()
    }

    /// A copy with another manifest.
    pub fn with_manifest(&self, edit: impl FnOnce(&mut Manifest)) -> SimDirectory {
        let disk = self.disk.after_kill();
        let mut manifest = self.manifest();
        edit(&mut manifest);
        put_manifest(&disk, &self.head(), &manifest);
        disk
    }

    /// A copy in which a segment's section has other bytes, as many.
    pub fn with_section(&self, segment: usize, kind: SectionKind, edit: impl FnOnce(&mut [u8])) -> SimDirectory {
        let bytes = |bytes: &mut Vec<u8>, table: &mut Vec<SectionEntry>| {
            let entry = table.iter().find(|e| e.kind.get() == kind as u16).unwrap();
            let from = entry.offset.get() as usize;
            edit(&mut bytes[from..from + entry.length.get() as usize]);
        };
        self.with_segment(segment, bytes)
    }

    /// A copy in which a segment has lost a section: its bytes are zeros, and no table names it.
    pub fn without_section(&self, segment: usize, kind: SectionKind) -> SimDirectory {
        self.with_segment(segment, |bytes, table| {
            let index = table.iter().position(|e| e.kind.get() == kind as u16).unwrap();
            let entry = table.remove(index);
            let mut clear = |from: u64, length: u64| bytes[from as usize..][..length as usize].fill(0);
            clear(entry.offset.get(), entry.length.get());
            clear(entry.crcs_offset.get(), entry.length.get().div_ceil(BLOCK_BYTES as u64) * 4);
        })
    }

    /// A copy in which a segment has other bytes, as many, or another table, of which entries may be missing.
    pub fn with_segment(&self, segment: usize, edit: impl FnOnce(&mut Vec<u8>, &mut Vec<SectionEntry>)) -> SimDirectory {
        let disk = self.disk.after_kill();
        let entry = &self.segments()[segment];
        let mut bytes = self.segment_bytes(entry);
        let (footer, mut table) = frame(&bytes);
        edit(&mut bytes, &mut table);
        for e in &mut table {
            let (from, length) = (e.offset.get() as usize, e.length.get() as usize);
            let crcs: Vec<u8> = bytes[from..from + length].chunks(BLOCK_BYTES).flat_map(|block| crc32(block).to_le_bytes()).collect();
            e.crcs_crc = U32::new(crc32(&crcs));
            let at = e.crcs_offset.get() as usize;
            bytes[at..at + crcs.len()].copy_from_slice(&crcs);
        }
        let encoded = encode_table(&table);
        for at in [footer.table_offset.get() as usize, footer.table_copy_offset.get() as usize] {
            bytes[at..at + footer.sections.get() as usize * 64].fill(0);
            bytes[at..at + encoded.len()].copy_from_slice(&encoded);
        }
        let (sections, table_crc) = (U32::new(table.len() as u32), U32::new(crc32(&encoded)));
        let footer = SegmentFooter { sections, table_crc, ..footer }.sealed();
        let end = bytes.len();
        bytes[end - 64..].copy_from_slice(footer.as_bytes());
        let name = FileName::Segments(entry.file).to_string();
        let mut file = disk.read_file(&name).unwrap();
        file[entry.offset as usize..(entry.offset + entry.length) as usize].copy_from_slice(&bytes);
        disk.write_file(&name, file);
        let mut manifest = self.manifest();
        let named = manifest.collections.iter_mut().flat_map(|c| &mut c.segments).nth(segment).unwrap();
        named.crc = footer.crc.get();
        put_manifest(&disk, &self.head(), &manifest);
        disk
    }
}

fn frame(bytes: &[u8]) -> (SegmentFooter, Vec<SectionEntry>) {
    let footer = SegmentFooter::decode(&bytes[bytes.len() - 64..]).unwrap();
    let from = footer.table_offset.get() as usize;
    let table = &bytes[from..from + footer.sections.get() as usize * 64];
    (footer, decode_table(table, footer.table_crc.get(), bytes.len() as u64).unwrap())
}

fn slots(disk: &SimDirectory) -> [Option<HeadState>; 2] {
    let bytes = disk.read_file("HEAD").unwrap();
    [0, 1].map(|i| HeadSlot::decode(&bytes[i * HEAD_SLOT_BYTES..(i + 1) * HEAD_SLOT_BYTES]).ok().and_then(|slot| slot.understand().ok()))
}

/// Writes the manifest in the place of the one that HEAD names, and both slots.
fn put_manifest(disk: &SimDirectory, head: &HeadState, manifest: &Manifest) {
    let bytes = encode_manifest(head.manifest_number, head.database, manifest);
    disk.write_file(&FileName::Manifest(head.manifest_number).to_string(), bytes.clone());
    let slot = |generation| {
        let state = HeadState {
            generation,
            manifest_length: bytes.len() as u64,
            manifest_crc: crc32(&bytes),
            applied_lsn: manifest.applied_lsn,
            ..head.clone()
        };
        HeadSlot::encode(&state, 0).as_bytes().to_vec()
    };
    disk.write_file("HEAD", [slot(head.generation), slot(head.generation.next())].concat());
}

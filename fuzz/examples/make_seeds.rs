//! Makes the first seeds of each target from the databases of `tests/fixtures`: `cargo run --example make_seeds`, in this folder. Those of
//! `seeds/` that have a hash for a name are what the fuzzer found since.

use std::path::{Path, PathBuf};
use triune::format::head::HEAD_SLOT_BYTES;
use triune::format::manifest::MANIFEST_HEADER_BYTES;
use triune::format::segment::{FOOTER_MAGIC, SEGMENT_MAGIC, SectionEntry, SectionKind, SegmentFooter};
use triune::format::wal::{RECORD_HEADER_BYTES, RECORD_MAGIC, WAL_HEADER_BYTES};
use triune::io::names::FileName;
use triune_fuzz::TARGETS;
use zerocopy::FromBytes;

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, _) in TARGETS {
        std::fs::create_dir_all(here.join("seeds").join(name)).expect("the folder can be made");
    }
    for database in ["empty", "one-document", "everything", "killed", "torn-tail", "vector-graph"] {
        let folder = here.join("../tests/fixtures/v1.0").join(database);
        let entries = std::fs::read_dir(&folder).expect("the fixtures are there").map(|e| e.expect("it can be listed").path());
        for path in entries {
            of_file(database, &path);
        }
    }
    input();
    image();
}

fn of_file(database: &str, path: &PathBuf) {
    let bytes = std::fs::read(path).expect("it can be read");
    let name = path.file_name().and_then(|n| n.to_str()).expect("names are ASCII");
    match (name, FileName::parse(name)) {
        ("HEAD", _) => write("state", database, &[&[0], &bytes[..HEAD_SLOT_BYTES]].concat()[..160]),
        ("WITNESS", _) => write("state", &format!("{database}-witness"), &[&[1], &bytes[..64]].concat()),
        (_, Some(FileName::Manifest(_))) => {
            write("state", &format!("{database}-manifest"), &[&[2], &bytes[..]].concat());
            write("state", &format!("{database}-manifest-body"), &[&[3], &bytes[MANIFEST_HEADER_BYTES..]].concat());
        }
        ("expected.dump", _) => write("dump", database, &bytes[..bytes.len().min(6_000)]),
        (_, Some(FileName::Wal(n))) => log(&format!("{database}-{n}"), &bytes),
        // The segments of `killed` are those of `everything`.
        (_, Some(FileName::Segments(n))) if database != "killed" => {
            for start in (0..bytes.len()).step_by(4096).filter(|at| bytes[*at..].starts_with(&SEGMENT_MAGIC)) {
                segment(&format!("{database}-{n}-{start}"), &bytes[start..]);
            }
        }
        (_, Some(FileName::Tombstones(n))) => tombstones(&format!("{database}-{n}"), &bytes),
        _ => {}
    }
}

fn log(name: &str, bytes: &[u8]) {
    write("log", &format!("{name}-header"), &[&[0], &bytes[..112]].concat());
    let mut scan = vec![4, 1, 0, 0, 0];
    for at in (WAL_HEADER_BYTES..bytes.len()).step_by(8).filter(|at| bytes[*at..].starts_with(&RECORD_MAGIC.to_le_bytes())) {
        let length = u32::from_le_bytes(bytes[at + 12..at + 16].try_into().expect("4 bytes")) as usize;
        let payload = at + RECORD_HEADER_BYTES;
        write("log", &format!("{name}-record-{at}"), &[&[1], &bytes[at..payload + length.min(64)]].concat());
        if let Some(effects) = bytes.get(payload..payload + length) {
            write("log", &format!("{name}-effects-{at}"), &[&[2], effects].concat());
        }
        scan.extend([8, 0, 0, 0, (at % 4096 == 0) as u8, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
    write("log", &format!("{name}-scan"), &scan);
    let chained = [scan.as_slice(), &[255; 6], &scan[5..]].concat();
    write("log", &format!("{name}-scan-chained"), &chained);
    let version = [3, 7, 5, 1, b'a', 1, b's', 2, b'{', b'}', 4, b't', b'e', b'x', b't', 1, 0, 0, 0x80, 0x3f];
    write("log", "version", &version);
}

/// The sections one by one for their decoders, and in groups of those that are read together.
fn segment(name: &str, bytes: &[u8]) {
    let footer = (64..bytes.len() - 63)
        .step_by(64)
        .find(|at| bytes[*at..].starts_with(&FOOTER_MAGIC) && bytes[at + 8..at + 16] == (*at as u64 + 64).to_le_bytes());
    let Some(at) = footer else { return };
    let footer = SegmentFooter::read_from_bytes(&bytes[at..at + 64]).expect("the size is right");
    let table = footer.table_offset.get() as usize;
    let table = &bytes[table..table + footer.sections.get() as usize * 64];
    write("segment", &format!("{name}-header"), &[&[0], &bytes[..64]].concat());
    write("segment", &format!("{name}-footer"), &[&[0], &bytes[at..at + 64]].concat());
    write("segment", &format!("{name}-table"), &[&[1], table].concat());
    const GROUPS: [(&str, &[SectionKind]); 5] = [
        (
            "rows",
            &[SectionKind::Docs, SectionKind::DocIndex, SectionKind::Ids, SectionKind::Seqs, SectionKind::Sources, SectionKind::IdMap],
        ),
        ("text", &[SectionKind::Terms, SectionKind::TermInfos, SectionKind::Postings, SectionKind::Lengths, SectionKind::Statistics]),
        (
            "vectors",
            &[
                SectionKind::Vectors,
                SectionKind::VectorRows,
                SectionKind::VectorNorms,
                SectionKind::VectorGraph,
                SectionKind::VectorCodes,
                SectionKind::Ids,
            ],
        ),
        ("metadata", &[SectionKind::MetadataTerms, SectionKind::MetadataRows]),
        (
            "graph",
            &[
                SectionKind::Entities,
                SectionKind::EntityNames,
                SectionKind::Mentions,
                SectionKind::EntityDocs,
                SectionKind::RelationsBySource,
                SectionKind::RelationsByTarget,
            ],
        ),
    ];
    let mut groups: Vec<Vec<u8>> = GROUPS.iter().map(|_| vec![0]).collect();
    for entry in table.chunks(64) {
        let entry = SectionEntry::read_from_bytes(entry).expect("the size is right");
        let Some(kind) = SectionKind::from_number(entry.kind.get()) else { continue };
        let from = entry.offset.get() as usize;
        let section = &bytes[from..from + entry.length.get() as usize];
        let (items, aux) = (entry.items.get(), entry.aux.get());
        for ((_, kinds), group) in GROUPS.iter().zip(&mut groups) {
            if kinds.contains(&kind) {
                let index = SectionKind::ALL.iter().position(|k| *k == kind).expect("it is one of all");
                group.push(index as u8);
                group.extend((items as u32).to_le_bytes());
                group.extend((aux as u32).to_le_bytes());
                group.extend((section.len() as u16).to_le_bytes());
                group.extend(section);
            }
        }
        decoders(&format!("{name}-{}", kind.name()), kind, items, aux, section);
    }
    for ((group, _), bytes) in GROUPS.iter().zip(groups) {
        write("sections", &format!("{name}-{group}"), &bytes);
    }
}

/// Seeds of the decoders of one section.
fn decoders(name: &str, kind: SectionKind, items: u64, aux: u64, section: &[u8]) {
    let (items_le, aux_le, length_le) = (items.to_le_bytes(), aux.to_le_bytes(), (section.len() as u64).to_le_bytes());
    let lists = |decoder: u8| [&[decoder, 0, items as u8], section].concat();
    match kind {
        SectionKind::Docs => {
            let entry = [0u64.to_le_bytes().as_slice(), &0u32.to_le_bytes(), &(items as u32).to_le_bytes()].concat();
            let lengths = [(section.len() as u32).to_le_bytes(), (aux as u32).to_le_bytes()].concat();
            write("segment", name, &[&[2], entry.as_slice(), &lengths, section].concat());
            write("segment", "body", &[3, 1, 5, 1, b's', 4, b't', b'e', b'x', b't']);
        }
        SectionKind::Ids => write("segment", name, &[&[4], items_le.as_slice(), &aux_le, section].concat()),
        SectionKind::IdMap => write("segment", name, &[&[5], items_le.as_slice(), &aux_le, section].concat()),
        SectionKind::Seqs => write("segment", name, &[&[6], aux_le.as_slice(), &(items as u16).to_le_bytes(), section].concat()),
        SectionKind::Sources => write("segment", name, &[&[7], aux_le.as_slice(), &[items as u8, 10], section].concat()),
        SectionKind::Postings => write("indexes", name, &[&[0, 2, 0], section].concat()),
        SectionKind::TermInfos => write("indexes", name, &[&[1, 0xff, 0xff], section].concat()[..32.min(section.len() + 3)]),
        SectionKind::Statistics => write("indexes", name, &[&[1, 0xff, 0xff], section].concat()),
        SectionKind::VectorRows => write("indexes", name, &[&[2], items_le.as_slice(), &aux_le, &length_le, section].concat()),
        SectionKind::VectorNorms => write("indexes", name, &[&[2], items_le.as_slice(), &aux_le, &length_le, section].concat()),
        SectionKind::VectorGraph => write("indexes", name, &[&[11], length_le.as_slice(), section].concat()),
        // The fixtures have vectors of 4 components, which under the inner product have images of 5.
        SectionKind::VectorCodes => {
            let dot = (section.len() as u64 - items * aux - 8) / 4 - 4;
            write("indexes", name, &[&[12, items as u8, 4, dot as u8], items_le.as_slice(), &aux_le, section].concat());
        }
        SectionKind::MetadataRows => write("indexes", name, &[&[3, 1, 0], 0u64.to_le_bytes().as_slice(), section].concat()),
        SectionKind::Mentions | SectionKind::EntityDocs => {
            write("indexes", &format!("{name}-list"), &[&[4, 1, 0], &section[section.len() / 2..]].concat());
            write("indexes", name, &lists(6));
        }
        SectionKind::RelationsBySource | SectionKind::RelationsByTarget => {
            write("indexes", &format!("{name}-list"), &[&[5, 1, 1], &section[section.len() / 2..]].concat());
            write("indexes", name, &lists(6));
        }
        _ => {}
    }
}

fn tombstones(name: &str, bytes: &[u8]) {
    let items = bytes[80];
    write("indexes", &format!("{name}-tombstones"), &[&[7, items], &bytes[96..]].concat());
    write("indexes", &format!("{name}-dying"), &[&[8, items], &bytes[96..]].concat());
    write("indexes", &format!("{name}-envelope"), &[&[9, items], bytes].concat());
}

fn input() {
    let line = r#"{"id":"a","text":"Google Cloud\n","metadata":{"page":1.50,"t":[null]},"vector":[1,-2.5e3,0],"source":"s","entities":[{"name":"X","type":"t","mentions":2}],"relations":[{"source":"X","target":"Y","type":"r","description":"d","weight":0.5}]}"#;
    write("input", "line", &[&[0], line.as_bytes()].concat());
    write("input", "line-title", b"\x00{\"id\":\"\\u00e9\",\"title\":\"T\",\"text\":\"x\",\"other\":{\"a\":[1,2]}}");
    let metadata = r#"{"page":7,"tags":["a",null,true,{"x":1}],"ß":{"deep":-1.50e-300},"big":18446744073709551615,"":{}}"#;
    write("input", "metadata", &[&[1], metadata.as_bytes()].concat());
    let filters = [
        r#"{"page":{"$gte":1,"$lt":9.5},"tags":"a"}"#,
        r#"{"$or":[{"$not":{"page":7}},{"big":{"$in":[1,"x",null]}},{"$and":[]}]}"#,
        r#"{"ß.deep":{"$exists":true},"tags":{"$nin":[true]},"page":{"$ne":null}}"#,
        r#"{"tags":{"$regex":"^a|b{2,3}$"},"$text":"torn"}"#,
    ];
    for (i, filter) in filters.iter().enumerate() {
        write("input", &format!("filter-{i}"), &[&[2], filter.as_bytes(), b"\0", metadata.as_bytes(), b"\0torn tail"].concat());
    }
    write("input", "text", "\x03The RAG of Google Cloud Platform uses camelCase, ΟΔΟΣ, İstanbul, straße_1 and 日本語 in NASA".as_bytes());
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";
    let array = [
        b"\x04\x93NUMPY\x01\x00".as_slice(),
        &(header.len() as u16).to_le_bytes(),
        header.as_bytes(),
        &[0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64],
    ];
    write("input", "array", &array.concat());
}

/// Each database as it is, in each way, and with edits here and there.
fn image() {
    for database in 0..6u8 {
        for mode in 0..4u8 {
            write("image", &format!("sound-{database}-{mode}"), &[database, mode]);
        }
        for step in 0..12u8 {
            let edits: Vec<u8> = (0..3u8)
                .flat_map(|i| {
                    [step.wrapping_mul(21) + i * 7, 0, step.wrapping_mul(37).wrapping_add(i), 0, step * 5 + i * 3, step * 11 + i, i, 0, 0]
                })
                .collect();
            write("image", &format!("edited-{database}-{step}"), &[&[database, step & 3], edits.as_slice()].concat());
        }
    }
}

fn write(target: &str, name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target).join(name);
    std::fs::write(path, bytes).expect("the folder takes it");
}

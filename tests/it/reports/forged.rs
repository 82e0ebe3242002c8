//! Files whose checksums fit and whose contents do not: what a bug or a misdirected repair writes, rather than a disk.

use crate::recovery::oracle::options;
use std::sync::Arc;
use triune::format::head::{HEAD_SLOT_BYTES, HeadSlot, HeadState};
use triune::format::manifest::{Manifest, decode_manifest, encode_manifest};
use triune::format::sabotage::{Rule, with_broken};
use triune::io::sim::SimDirectory;
use triune::{Database, Document, Entity, ErrorCode, IoMode, Metadata, Options, Relation, Schema};
use zerocopy::IntoBytes;

/// A closed database with every kind of content, and what it answers.
fn closed() -> SimDirectory {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("a", Schema::default()).unwrap();
    let document = |i: usize| {
        let document = Document::new(format!("d{i}")).text(format!("common word{} at Hub Town", i % 5)).vector(vec![i as f32, 1.0, 0.5]);
        let document = document.source(format!("s{}", i % 3)).metadata(Metadata::from_json(format!(r#"{{"n": {i}}}"#)).unwrap());
        if i.is_multiple_of(2) { document } else { document.entities([Entity::new("Hub")]).relations([Relation::new("Hub", "Town")]) }
    };
    db.put("a", (0..40).map(document).collect()).unwrap();
    db.checkpoint().unwrap();
    db.delete("a", vec!["d3".into(), "d4".into()]).unwrap();
    db.close().unwrap();
    let copy = SimDirectory::new();
    disk.file_names().iter().for_each(|name| copy.write_file(name, disk.read_file(name).unwrap()));
    copy
}

fn manifest_name(disk: &SimDirectory) -> String {
    disk.file_names().into_iter().find(|name| name.ends_with(".manifest")).unwrap()
}

/// Puts another manifest in the place of the one that is there, with every checksum that covers it.
fn forge(disk: &SimDirectory, change: impl FnOnce(&mut Manifest)) {
    let name = manifest_name(disk);
    let (header, mut manifest) = decode_manifest(&disk.read_file(&name).unwrap()).unwrap();
    change(&mut manifest);
    let bytes = encode_manifest(header.number.get(), triune::Uuid(header.database), &manifest);
    let head = disk.read_file("HEAD").unwrap();
    let forged = head.chunks(HEAD_SLOT_BYTES).flat_map(|slot| {
        let state = HeadSlot::decode(slot).unwrap().understand().unwrap();
        let (manifest_length, manifest_crc) = (bytes.len() as u64, triune::format::checksum::crc32(&bytes));
        HeadSlot::encode(&HeadState { manifest_length, manifest_crc, ..state }, 0).as_bytes().to_vec()
    });
    disk.write_file("HEAD", forged.collect::<Vec<u8>>());
    disk.write_file(&name, bytes);
}

/// Everything that one can ask, as one string.
fn answers(db: &Database) -> triune::Result<String> {
    let mut said = String::new();
    for name in db.snapshot().collections() {
        let c = db.snapshot().collection(&name)?;
        let all = c.scan().with_vectors(true).collect::<triune::Result<Vec<_>>>()?;
        let ids = |hits: Vec<triune::ranking::Scored>| hits.iter().map(|h| c.id_of(h)).collect::<triune::Result<Vec<_>>>();
        let texts = ids(c.best_texts("common word1", None, None, 100)?)?;
        let vector: Vec<f32> = (0..c.schema().dimension.unwrap_or(3)).map(|i| if i == 0 { 1.0 } else { 0.0 }).collect();
        let near = ids(c.nearest(&vector, None, 100)?)?;
        let graph = (c.entity("hub town")?, c.neighbours("hub")?, c.pagerank(&[])?);
        said += &format!("{name} {} {all:?} {texts:?} {near:?} {graph:?} {:?} {:?}\n", c.count(), c.sources()?, c.stats()?);
    }
    Ok(said)
}

fn asked(disk: &SimDirectory) -> triune::Result<String> {
    Database::open_read_only_with(Arc::new(disk.snapshot()), options()).and_then(|db| answers(&db))
}

/// chroma #6949: metadata that lacked the dimension crashed the loader, or was put aside for a fresh, empty index.
#[test]
fn a_catalog_that_contradicts_its_segments_is_an_error_and_never_an_empty_collection() {
    type Forgery = (&'static str, fn(&mut Manifest));
    let forgeries: [Forgery; 13] = [
        ("no dimension", |m| m.collections[0].schema.dimension = None),
        ("another dimension", |m| m.collections[0].schema.dimension = Some(4)),
        ("no documents", |m| m.collections[0].documents = 0),
        ("one document more", |m| m.collections[0].documents += 1),
        ("more vectors than documents", |m| m.collections[0].vectors = 1000),
        ("more tokens than there are", |m| m.collections[0].tokens += 100_000),
        ("no segments", |m| m.collections[0].segments.clear()),
        ("fewer rows", |m| m.collections[0].segments[0].rows -= 1),
        ("more rows", |m| m.collections[0].segments[0].rows += 1),
        ("another place", |m| m.collections[0].segments[0].offset += 64),
        ("another length", |m| m.collections[0].segments[0].length -= 64),
        ("a length beyond any file", |m| m.collections[0].segments[0].length = u64::MAX),
        ("fewer dead rows", |m| m.collections[0].segments[0].tombstones = None),
    ];
    let sound = closed();
    forge(&sound, |_| {});
    let expected = asked(&sound).unwrap();
    for (what, change) in forgeries {
        let disk = sound.snapshot();
        forge(&disk, change);
        match asked(&disk) {
            // A search with the dimension that the catalog claims is refused, with both values.
            Err(e) => assert!(matches!(e.code(), ErrorCode::Corrupt | ErrorCode::SchemaMismatch), "{what}: {e}"),
            Ok(answer) => assert!(answer == expected, "{what}: it opens, and answers otherwise"),
        }
    }
}

/// chroma #7510 (hnswlib PR 47), hnswlib #673, redb #1332: a count or link inside an index that nobody had checked sent reads and writes
/// anywhere. Here every checksum of the segments is ignored, as if it fitted, and every byte is changed.
#[test]
fn a_length_or_link_that_lies_ends_no_process_and_grows_no_file() {
    let sound = closed();
    let segments: Vec<String> = sound.file_names().into_iter().filter(|n| n.ends_with(".segments") || n.ends_with(".tombstones")).collect();
    let rule = Rule::Checksums(&["block", "block checksums", "section table", "body", "envelope", "envelope in the manifest"]);
    let step = if std::env::var("TRIUNE_SWEEP").is_ok_and(|v| v == "full") { 1 } else { 5 };
    let mut cases = 0;
    for name in &segments {
        let bytes = sound.read_file(name).unwrap();
        for (i, at) in (0..bytes.len()).step_by(step).enumerate() {
            let disk = sound.snapshot();
            let mut forged = bytes.clone();
            forged[at] = [forged[at] ^ 0x01, forged[at] ^ 0x80, 0xff][i % 3];
            disk.write_file(name, forged);
            let before = disk.image_hash();
            with_broken(Some(rule), || {
                if let Err(e) = asked(&disk) {
                    assert!(matches!(e.code(), ErrorCode::Corrupt | ErrorCode::UnsupportedVersion), "{name} byte {at}: {e}");
                }
            });
            assert!(disk.image_hash() == before && disk.used() == sound.used(), "{name} byte {at}: something was written");
            cases += 1;
        }
    }
    assert!(cases > 1000, "{cases}");
}

/// A counter that starts at its end: the write is refused before anything of it is kept, and what is there stays readable.
#[test]
fn a_counter_at_its_end_refuses_the_write_and_not_the_database() {
    const MOST: u64 = triune::options::limits::COUNTER_MAX;
    type Forgery = (&'static str, fn(&mut Manifest));
    let forgeries: [Forgery; 2] = [("seq", |m| m.next_seq.0 = MOST), ("incarnation", |m| m.next_incarnation.0 = MOST)];
    let sound = closed();
    let expected = asked(&sound).unwrap();
    for (what, change) in forgeries {
        let disk = sound.snapshot();
        forge(&disk, change);
        let db = Database::open_with(Arc::new(disk.clone()), options()).unwrap();
        let refused = match what {
            "seq" => db.put("a", vec![Document::new("one more").text("word")]).map(drop),
            _ => db.create_collection("another", Schema::default()).map(drop),
        };
        let e = refused.unwrap_err();
        assert!(e.code() == ErrorCode::LimitExceeded && e.to_string().contains(what), "{what}: {e}");
        assert!(answers(&db).unwrap() == expected, "{what}: the database itself goes on");
        // What counts nothing up goes on, too.
        db.delete("a", vec!["d7".into()]).unwrap();
        db.close().unwrap();
        let again = Database::open_with(Arc::new(disk.clone()), options()).unwrap();
        assert_eq!(again.snapshot().collection("a").unwrap().count(), 37, "{what}");
    }
}

/// HEAD counts its own writings: at their end a commit is refused before it is written, and not when HEAD fails to say that it stands.
#[test]
fn a_head_whose_generations_are_at_their_end_refuses_the_write() {
    const MOST: u64 = triune::options::limits::COUNTER_MAX;
    let sound = closed();
    let expected = asked(&sound).unwrap();
    for left in 0..4 {
        let disk = sound.snapshot();
        let head = disk.read_file("HEAD").unwrap();
        let forged = head.chunks(HEAD_SLOT_BYTES).zip([1, 0]).flat_map(|(slot, older)| {
            let state = HeadSlot::decode(slot).unwrap().understand().unwrap();
            HeadSlot::encode(&HeadState { generation: triune::Generation(MOST - left - older), ..state }, 0).as_bytes().to_vec()
        });
        disk.write_file("HEAD", forged.collect::<Vec<u8>>());
        let db = Database::open_with(Arc::new(disk.clone()), options()).unwrap();
        let before = disk.image_hash();
        for refused in [db.put("a", vec![Document::new("one more")]).map(drop), db.compact()] {
            let e = refused.unwrap_err();
            assert!(e.code() == ErrorCode::LimitExceeded && e.to_string().contains("generation"), "{left}: {e}");
        }
        assert_eq!(disk.image_hash(), before, "{left}: something was written");
        assert!(answers(&db).unwrap() == expected, "{left}");
    }
}

/// A schema that contradicts every vector there is: a salvage keeps the vectors, and says what the schema said.
#[test]
fn a_salvage_keeps_documents_whose_schema_has_another_dimension() {
    let sound = closed();
    for said in [None, Some(4), Some(65_535)] {
        let disk = sound.snapshot();
        forge(&disk, |m| m.collections[0].schema.dimension = said);
        // Without a dimension the manifest itself is refused: its segments are found by themselves.
        let survey = triune::maintenance::Salvage::survey(&disk).unwrap();
        let reasons: Vec<&str> = survey.ledger().iter().map(|loss| loss.reason.as_str()).collect();
        let told = said
            .map_or("no dimension is fixed".into(), |said| format!("the schema says {said} components, the vectors that are here have 3"));
        assert!(reasons.iter().any(|reason| reason.contains(&told)), "{said:?}: {reasons:#?}");
        let new = SimDirectory::new();
        let report = triune::maintenance::write_salvaged(&survey, Arc::new(new.clone()), options()).unwrap();
        let db = Database::open_with(Arc::new(new), options()).unwrap();
        let name = db.snapshot().collections().remove(0);
        let collection = db.snapshot().collection(&name).unwrap();
        assert_eq!((collection.schema().dimension, collection.count()), (Some(3), report.documents), "{said:?}");
        assert!(report.documents >= 38, "{said:?}: {}", report.documents);
        let all = collection.scan().with_vectors(true).collect::<triune::Result<Vec<_>>>().unwrap();
        assert!(all.iter().all(|(_, d)| d.vector.as_ref().is_some_and(|v| v.len() == 3)), "{said:?}");
    }
}

/// redb #515 (PR 516): beyond 4 GB another place was read and written.
#[test]
fn a_segment_beyond_four_gibibytes_is_read_where_it_stands() {
    let sound = closed();
    let expected = asked(&sound).unwrap();
    let far = sound.snapshot();
    let scratch = tempfile::tempdir().unwrap();
    let shift = (5u64 << 30) + (1 << 31);
    let mut moved = None;
    forge(&far, |m| {
        for segment in &mut m.collections[0].segments {
            segment.offset += shift;
            moved = Some(segment.file);
        }
    });
    let moved = triune::io::names::FileName::Segments(moved.unwrap()).to_string();
    for name in far.file_names() {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::create(scratch.path().join(&name)).unwrap();
        let at = if name == moved { shift } else { 0 };
        file.write_all_at(&far.read_file(&name).unwrap(), at).unwrap();
    }
    for io_mode in [IoMode::Mmap, IoMode::Pread] {
        let dir = Arc::new(triune::io::FsDirectory::open(scratch.path()).unwrap());
        let db = Database::open_read_only_with(dir, Options { io_mode, ..options() }).unwrap();
        assert!(answers(&db).unwrap() == expected, "{io_mode:?}");
    }
}

#[test]
fn a_hole_behind_a_file_is_not_read_into_memory() {
    use triune::inspect::{FindingCode, FsckOptions, fsck, structures};
    let scratch = tempfile::tempdir().unwrap();
    for (name, open) in [("HEAD", true), ("WITNESS", true), ("LOCK", true), ("m-", false)] {
        let path = scratch.path().join(name);
        Database::create(&path).unwrap().close().unwrap();
        let files = std::fs::read_dir(&path).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
        let file = files.filter(|f| f.starts_with(name)).max().unwrap();
        std::fs::OpenOptions::new().write(true).open(path.join(&file)).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(Database::open_read_only(&path).is_ok(), open, "{file}");
        let report = fsck(&path, &FsckOptions::level(3)).unwrap();
        let expected = match name {
            "HEAD" => Some(FindingCode::HeadLength),
            "WITNESS" => Some(FindingCode::Witness),
            "LOCK" => None,
            _ => Some(FindingCode::Manifest),
        };
        assert_eq!(report.findings.first().map(|f| f.code), expected, "{file}");
        assert_eq!(structures(&path, &file).is_ok(), open, "{file}");
        let saved = triune::maintenance::salvage(&path, scratch.path().join(format!("{name}.saved")), true).unwrap();
        assert_eq!(saved.ledger.is_empty(), open, "{file}: {:?}", saved.ledger);
    }
}

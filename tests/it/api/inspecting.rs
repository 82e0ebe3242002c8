//! Looking at the files of a database, whole and damaged.

use super::{doc, ids, json, main_of, open, open_read_only, options, put, try_open};
use std::sync::Arc;
use triune::inspect::{Description, FileDescription, describe_directory, structures_directory};
use triune::io::SimDirectory;
use triune::{Database, Error, Mode, Patch, Result, Schema, Search};

/// A database with everything: several segments with text, vectors, sources and tombstones, linked logs, and commits that only the log has.
fn busy() -> (SimDirectory, Database) {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.create_collection("other", Schema::default()).unwrap();
    for round in 0..3 {
        let document = |i: usize| {
            let vector = [i as f32, round as f32, 1.0];
            doc(&format!("{round} {i}"), &format!("words of round {round} and row {i}")).vector(vector).source(format!("s{round}"))
        };
        put(&db, (0..20).map(document).collect());
        db.put("other", vec![doc("x", "other").metadata(json(r#"{"k":1}"#))]).unwrap();
        db.delete("main", vec![format!("{round} 7")]).unwrap();
        db.checkpoint().unwrap();
    }
    db.delete("main", vec!["0 3".into(), "1 4".into()]).unwrap();
    db.checkpoint().unwrap();
    put(&db, vec![doc("logged", "only in the log")]);
    db.patch("main", vec![Patch::new("2 2").text("patched")]).unwrap();
    (disk, db)
}

fn describe(disk: &SimDirectory) -> Description {
    let before = (disk.image_hash(), disk.operations());
    let description = describe_directory(disk).unwrap();
    assert_eq!((disk.image_hash(), disk.operations()), before, "inspecting wrote");
    for file in &description.files {
        let mut keys: Vec<&str> = file.fields.iter().map(|(key, _)| key.as_str()).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|w| w[0] != w[1]), "a key of {} stands twice", file.name);
    }
    description
}

fn problems(description: &Description) -> Vec<&FileDescription> {
    description.files.iter().filter(|f| f.problem.is_some() || f.fields.iter().any(|(key, _)| key == "orphan")).collect()
}

#[test]
fn inspecting_a_sound_database_finds_nothing_wrong() {
    let (disk, db) = busy();
    let clean = |disk: &SimDirectory, what: &str| {
        let description = describe(disk);
        assert!(problems(&description).is_empty(), "{what}: {:#?}", problems(&description));
        for file in &description.files {
            let parts = structures_directory(disk, &file.name).unwrap();
            let bad: Vec<_> = parts.iter().filter(|part| part.problem.is_some()).collect();
            assert!(bad.is_empty(), "{what}, {}: {bad:#?}", file.name);
            let ascending = parts.windows(2).all(|w| w[0].offset <= w[1].offset);
            assert!(ascending && parts.iter().all(|part| part.offset + part.bytes <= file.bytes.next_multiple_of(8)), "{what}: {parts:#?}");
        }
    };
    clean(&disk, "while it is open");
    clean(&disk.after_kill(), "after a kill");
    drop(db);
    clean(&disk, "dropped");
    let db = open(&disk);
    clean(&disk, "recovered");
    db.compact().unwrap();
    clean(&disk, "compacted");
    db.put("main", vec![doc("large", &"a text that is larger than a record ".repeat(300_000))]).unwrap();
    clean(&disk, "after an oversize commit");
    db.clear("other").unwrap();
    db.close().unwrap();
    clean(&disk, "closed");
}

#[test]
fn a_vector_graph_is_shown_field_by_field_with_the_recall_it_was_measured_to_have() {
    let disk = crate::fsck::image::with_graphs();
    let names = disk.file_names().into_iter().filter(|name| name.ends_with(".segments"));
    let parts: Vec<_> = names.flat_map(|name| structures_directory(&disk, &name).unwrap()).collect();
    assert!(parts.windows(2).all(|w| w[0].offset <= w[1].offset) && parts.iter().all(|part| part.problem.is_none()), "{parts:#?}");
    let all = |what: &str| parts.iter().filter(|part| part.name.ends_with(what)).collect::<Vec<_>>();
    let headers = all("graph header (VectorGraphHeader)");
    let sections = all("section VectorGraph");
    assert_eq!((headers.len(), sections.len()), (4, 4));
    for (header, section) in headers.iter().zip(sections) {
        assert_eq!((header.offset, header.bytes), (section.offset, 192));
        let value =
            |name: &str| header.fields.iter().find(|field| field.name == name).map(|field| (field.offset - header.offset, &*field.value));
        assert_eq!((value("layout"), value("m"), value("ef_construction")), (Some((0, "1")), Some((2, "4")), Some((4, "30"))));
        assert_eq!(value("level_counts").map(|(at, counts)| (at, counts.split(", ").count())), Some((16, 16)));
        assert_eq!(value("compared").map(|(at, counts)| (at, counts.split(", ").count())), Some((100, 10)));
        assert!(header.says.contains("recall of the nearest 10, measured by ") && header.says.contains("% with 64 ("), "{header:?}");
    }
    assert_eq!(all("positions of the nodes").len(), 4);
    let links = all("links of level 0");
    assert!(links.iter().all(|part| part.says.starts_with("118 nodes, rows of 32 bytes; node 0 links to ")), "{links:#?}");
    assert_eq!((all("rows of codes").len(), all("unit of the images").len(), all("centre of the images").len()), (3, 3, 3));
}

#[test]
fn a_crash_leaves_at_most_orphans_and_torn_tails_for_inspecting() {
    let (disk, db) = busy();
    let from = disk.operations();
    let work = |disk: &SimDirectory| -> Result<()> {
        let db = try_open(disk)?;
        put_one(&db, "more")?;
        db.checkpoint()?;
        db.compact()
    };
    drop(db);
    let probe = disk.snapshot();
    work(&probe).unwrap();
    let mut inspected = 0;
    for n in from..probe.operations() {
        let crashed = disk.snapshot();
        crashed.crash_at(n, triune::io::sim::CrashMode::During);
        work(&crashed).unwrap_err();
        for survivor in [crashed.survivors_none(), crashed.survivors_all()] {
            let description = describe(&survivor);
            for file in problems(&description) {
                // A file that was being made may be half there, and so may the slot that was being written.
                let orphan = file.fields.iter().any(|(key, value)| {
                    key == "superseded" || key == "orphan" && (value.starts_with("yes") || value.starts_with("not known"))
                });
                assert!(orphan || file.name == "HEAD", "crash at {n}: {file:#?}");
            }
            open(&survivor);
            inspected += 1;
        }
    }
    assert!(inspected > 40, "{inspected}");
}

fn put_one(db: &Database, id: &str) -> Result<()> {
    db.put("main", vec![doc(id, "")]).map(drop)
}

/// Reads everything there is.
fn read_all(disk: &SimDirectory) -> Result<()> {
    let db = open_read_only(disk)?;
    for name in db.snapshot().collections() {
        let collection = db.snapshot().collection(&name)?;
        collection.scan().with_vectors(true).try_for_each(|item| item.map(drop))?;
        collection.stats()?;
        collection.get("0 1")?;
        collection.get("nowhere")?;
        let vector = collection.schema().dimension.map(|d| vec![1.0; d as usize]);
        collection.search(&Search { query: Some("words patched".into()), vector, mode: Mode::Hybrid, ..Search::default() })?;
    }
    Ok(())
}

#[test]
fn inspecting_sees_all_damage_that_reading_refuses() {
    let (disk, db) = busy();
    drop(db);
    let (mut refused, mut tried) = (0, 0);
    for name in disk.file_names() {
        let bytes = disk.read_file(&name).unwrap();
        let step = (bytes.len() / 150).max(1);
        let mut damaged: Vec<(String, Option<Vec<u8>>)> = vec![("deleted".into(), None)];
        for at in (0..bytes.len()).step_by(step).chain((0..bytes.len()).filter(|at| bytes[*at] != 0).step_by(step)) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            damaged.push((format!("byte {at} changed"), Some(flipped)));
            if at % 3 == 0 {
                damaged.push((format!("cut to {at} bytes"), Some(bytes[..at].to_vec())));
            }
        }
        for (what, bytes) in damaged {
            let copy = disk.after_kill();
            match bytes {
                Some(bytes) => copy.write_file(&name, bytes),
                None => copy.remove_file(&name),
            }
            let description = describe(&copy);
            tried += 1;
            match read_all(&copy) {
                Ok(()) => {}
                Err(Error::Corrupt(c)) => {
                    let seen = description.files.iter().any(|f| f.name == c.file && f.problem.is_some());
                    assert!(seen, "{name}, {what}: reading says {c}, inspecting {:#?}", problems(&description));
                    refused += 1;
                }
                Err(e) => panic!("{name}, {what}: {e}"),
            }
        }
    }
    assert!(tried > 1500 && refused > 300, "{refused} of {tried} were refused");
    assert_eq!(ids(&main_of(&open(&disk))).len(), 60 - 5 + 1);
}

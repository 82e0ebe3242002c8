//! Dump and restore: the same bytes for the same content, all of it or nothing.

use super::fixture::{dump_of, dump_of_disk, fixture, open, options};
use std::sync::{Arc, Mutex};
use triune::io::SimDirectory;
use triune::io::sim::FailureKind;
use triune::maintenance::{dump, restore, restore_into};
use triune::{Components, Database, Document, Entity, Error, ErrorCode, LegWeights, Observer, Options, Progress, Relation, Schema, Search};

fn restored(text: &[u8]) -> SimDirectory {
    let disk = SimDirectory::new();
    restore_into(Arc::new(disk.clone()), options(), text).unwrap();
    disk
}

#[test]
fn what_is_restored_dumps_to_the_same_bytes() {
    let (_, db) = fixture();
    let text = dump_of(&db);
    assert!(text.windows(16).any(|w| w == b"\"source_given\":t"), "the fixture has a given source");
    for memtable_bytes in [64 << 20, 2_000] {
        let disk = SimDirectory::new();
        let report = restore_into(Arc::new(disk.clone()), Options { memtable_bytes, ..options() }, text.as_slice()).unwrap();
        assert_eq!(report.collections, 3);
        let copy = open(&disk);
        assert_eq!(dump_of(&copy), text);
        assert_eq!(copy.recovery().replayed_commits, 0);
        if memtable_bytes < 10_000 {
            assert!(copy.snapshot().collection("main").unwrap().stats().unwrap().segments > 5, "it was flushed in between");
        }
        // It goes on as a database of its own: what follows takes later places.
        copy.put("main", vec![Document::new("after").text("torn")]).unwrap();
        copy.merge().unwrap();
        copy.compact().unwrap();
        assert_eq!(copy.snapshot().collection("main").unwrap().scan().last().unwrap().unwrap().1.id.as_ref(), "after");
        copy.delete("main", vec!["after".into()]).unwrap();
        copy.close().unwrap();
        assert_eq!(dump_of_disk(&disk), text);
    }
}

/// Documents without text, each of 20 to 30 KB in memory for its entities and relations: half of them long, half of them many.
fn related() -> Vec<Document> {
    let long = |i: usize| Relation::new(format!("a{i}"), "b").description("so it is said ".repeat(2_000));
    let many = |i: usize| (0..100).map(move |j| Relation::new(format!("a{}", (i + j) % 50), "b")).collect::<Vec<_>>();
    let entities = |i: usize| (0..100).map(move |j| Entity::new(format!("e{}", (i + j) % 120))).collect::<Vec<_>>();
    let document = |i: usize| if i.is_multiple_of(2) { vec![long(i)] } else { many(i) };
    (0..80).map(|i| Document::new(format!("d{i}")).entities(entities(i)).relations(document(i))).collect()
}

#[test]
fn entities_and_relations_count_towards_the_memory_that_a_restore_may_take() {
    let db = Database::create_with(Arc::new(SimDirectory::new()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    let held = || db.health().unwrap().memtable_bytes;
    let long = "x".repeat(100_000);
    db.put("main", vec![Document::new("relation").relations([Relation::new("a", "b").description(long.as_str()).kind("k".repeat(1_000))])])
        .unwrap();
    assert!(held() > 101_000, "{}", held());
    let before = held();
    db.put("main", vec![Document::new("entities").entities(vec![Entity::new("a"); 1_000])]).unwrap();
    // They are one mention, and a thousand structures all the same.
    assert!(held() - before > (1_000 * size_of::<Entity>()) as u64, "{}", held() - before);

    db.clear("main").unwrap();
    db.put("main", related()).unwrap();
    let text = dump_of(&db);
    let told = Arc::new(Mutex::new(0));
    let count = told.clone();
    let observer = Observer::new(move |p| *count.lock().unwrap() += u32::from(matches!(p, Progress::Taken { .. })));
    let disk = SimDirectory::new();
    // A 16th of it, which may wait, is less than two of the documents.
    let options = Options { memtable_bytes: 300_000, observer: Some(observer), ..options() };
    restore_into(Arc::new(disk.clone()), options, text.as_slice()).unwrap();
    let segments = open(&disk).snapshot().collection("main").unwrap().stats().unwrap().segments;
    assert!(segments >= 6, "{segments} segments of 80 documents that take 20 KB or more each");
    assert_eq!(*told.lock().unwrap(), 80, "each was taken alone");
    assert_eq!(dump_of_disk(&disk), text);
}

#[test]
fn vectors_of_two_bytes_a_component_come_back_as_they_were() {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema { components: Components::F16, ..Schema::default() }).unwrap();
    db.put("main", (0..50).map(|i| Document::new(format!("{i}")).vector([i as f32 / 7.0, 65_519.0, 3e-8])).collect()).unwrap();
    let text = dump_of(&db);
    assert!(String::from_utf8_lossy(&text).contains(r#","components":"f16"}"#));
    let copy = open(&restored(&text));
    assert_eq!(dump_of(&copy), text);
    let bytes = |db: &Database| db.snapshot().collection("main").unwrap().vector_bytes().unwrap().vectors;
    assert_eq!(bytes(&copy), 50 * (3 * 2 + 8));
    // The same documents under a schema that would round them: nothing is restored as something else.
    db.create_collection("wide", Schema::default()).unwrap();
    db.put("wide", vec![Document::new("third").vector([1.0 / 3.0])]).unwrap();
    let text = String::from_utf8(dump_of(&db)).unwrap();
    let (body, _) = text.rsplit_once("{\"end\"").unwrap();
    let forged = body.replacen(r#""dimension":1,"#, r#""components":"f16","dimension":1,"#, 1);
    assert_ne!(forged, body);
    let refused = restore_into(Arc::new(SimDirectory::new()), options(), forged.as_bytes()).unwrap_err();
    assert!(refused.to_string().contains("component 0") && refused.to_string().contains("third"), "{refused}");
}

#[test]
fn weights_of_legs_come_back_and_the_usual_ones_leave_no_trace() {
    let leg_weights = LegWeights { vector: 500, ..LegWeights::default() };
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema { leg_weights, ..Schema::default() }).unwrap();
    db.create_collection("usual", Schema::default()).unwrap();
    let text = dump_of(&db);
    let found = String::from_utf8(text.clone()).unwrap();
    assert_eq!(found.matches(r#","leg_weights":{"vector":500,"text":1000,"graph":1000}}"#).count(), 1);
    assert_eq!(found.matches("leg_weights").count(), 1);
    let copy = open(&restored(&text));
    assert_eq!(copy.snapshot().collection("main").unwrap().schema().leg_weights, leg_weights);
    assert_eq!(dump_of(&copy), text);
    let forged = found.replacen(r#""vector":500"#, r#""vector":1000001"#, 1);
    let (forged, _) = forged.rsplit_once("{\"end\"").unwrap();
    restore_into(Arc::new(SimDirectory::new()), options(), forged.as_bytes()).unwrap_err();
}

#[test]
fn searches_answer_the_same_after_a_restore() {
    let (_, db) = fixture();
    let copy = open(&restored(&dump_of(&db)));
    for (query, vector) in [(Some("torn tail number3"), None), (None, Some(vec![3.0, 0.1, -1.0])), (Some("rag"), Some(vec![1.0, 1.0, 1.0]))]
    {
        let ask = |db: &Database| {
            let search = Search { query: query.map(Into::into), vector: vector.clone(), k: 20, ..Search::default() };
            let hits = db.snapshot().collection("main").unwrap().search(&search).unwrap().hits;
            hits.into_iter().map(|h| (h.id, h.score.to_bits())).collect::<Vec<_>>()
        };
        assert!(!ask(&db).is_empty());
        assert_eq!(ask(&db), ask(&copy));
    }
}

#[test]
fn a_dump_of_nothing_and_of_one_collection_restore() {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk), options()).unwrap();
    let empty = dump_of(&db);
    let lines: Vec<&str> = std::str::from_utf8(&empty).unwrap().lines().collect();
    assert_eq!(lines[0], r#"{"triune_dump":1,"collections":0}"#);
    assert!(lines[1].starts_with(r#"{"end":true,"collections":0,"documents":"0","sha256":""#) && lines.len() == 2, "{lines:?}");
    assert_eq!(dump_of_disk(&restored(&empty)), empty);

    let (_, db) = fixture();
    let mut one = Vec::new();
    let report = dump(&db.snapshot(), Some(&["empty".into(), "fixed, no vectors".into(), "empty".into()]), &mut one).unwrap();
    assert_eq!((report.collections, report.documents, report.bytes), (2, 1, one.len() as u64));
    assert_eq!(dump_of_disk(&restored(&one)), one);
    let missing = dump(&db.snapshot(), Some(&["main".into(), "absent".into()]), &mut one).unwrap_err();
    assert_eq!(missing.code(), ErrorCode::NotFound);
}

/// Refuses `text` and leaves nothing; what it says.
fn refused(text: &[u8]) -> Error {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("new");
    let error = restore(&path, text).unwrap_err();
    assert!(!path.exists(), "{error}");
    let disk = SimDirectory::new();
    restore_into(Arc::new(disk.clone()), options(), text).unwrap_err();
    assert_eq!(disk.file_names(), Vec::<String>::new(), "{error}");
    error
}

#[test]
fn a_bad_dump_is_refused_by_its_line_and_leaves_nothing() {
    let (_, db) = fixture();
    let text = String::from_utf8(dump_of(&db)).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let count = lines.len();
    // Cut at every line, and inside one.
    for end in 0..count {
        let said = refused(lines[..end].concat().as_bytes()).to_string();
        assert!(said.contains(&format!("line {}", end + 1)) && said.contains("nothing was restored"), "{said}");
    }
    let cut = refused(&text.as_bytes()[..text.len() - 1]);
    assert!(cut.to_string().contains(&format!("line {count} of the dump: the dump was cut short in it")), "{cut}");
    // Each line dropped, doubled, and changed in one byte that leaves it JSON.
    for i in 0..count {
        let without = [&lines[..i], &lines[i + 1..]].concat().concat();
        refused(without.as_bytes());
        let doubled = [&lines[..=i], &lines[i..]].concat().concat();
        refused(doubled.as_bytes());
        if let Some(at) = lines[i].find("torn").or_else(|| lines[i].find("Torn")) {
            let mut changed = lines[i].to_string();
            changed.replace_range(at + 1..at + 2, "u");
            let said = refused([&lines[..i], &[changed.as_str()], &lines[i + 1..]].concat().concat().as_bytes()).to_string();
            assert!(said.contains("SHA-256") && said.contains(&format!("line {count}")), "{said}");
        }
    }
    let with = |i: usize, from: &str, to: &str| {
        assert!(lines[i].contains(from), "{}", lines[i]);
        let changed = lines[i].replacen(from, to, 1);
        refused([&lines[..i], &[changed.as_str()], &lines[i + 1..]].concat().concat().as_bytes())
    };
    assert_eq!(with(0, ":1,", ":2,").code(), ErrorCode::UnsupportedVersion);
    assert!(with(1, "\"schema\":{", "\"schema\":{\"colour\":1,").to_string().contains("unknown field `colour`"));
    assert!(with(0, "\"collections\":3", "\"collections\":2").to_string().contains("line "));
    assert!(refused(format!("{text}\n").as_bytes()).to_string().contains("something follows the trailer"));
    assert!(refused(b"SQLite format 3\0").to_string().contains("line 1"));
    let twice = [lines[0], &lines[1].replace("\"empty\"", "\"a\""), &lines[1].replace("\"empty\"", "\"a\"")].concat();
    assert!(refused(twice.as_bytes()).to_string().contains("does not come after"));
}

#[test]
fn documents_that_contradict_their_collection_are_refused() {
    let schema = r#""schema":{"metric":"cosine","analyzer":"word","scorer":"lucene","extractor":"none","source_key":"k"}"#;
    let fixed = schema.replace("{\"metric", "{\"dimension\":2,\"metric");
    let dump = |schema: &str, documents: &str| {
        let count = documents.lines().count();
        format!("{{\"triune_dump\":1,\"collections\":1}}\n{{\"collection\":\"c\",{schema},\"documents\":\"{count}\"}}\n{documents}")
    };
    let document = |id: &str, vector: &str| format!("{{\"id\":\"{id}\",\"text\":\"\",\"time_ms\":\"0\"{vector}}}\n");
    let twice = [document("a", ""), document("b", ""), document("a", "")].concat();
    let error = refused(dump(schema, &twice).as_bytes());
    assert!(error.code() == ErrorCode::DuplicateId && error.to_string().contains("line 5"), "{error}");
    for schema in [schema, &fixed] {
        let error = refused(dump(schema, &document("a", ",\"vector\":\"AACAPw==\"")).as_bytes());
        assert!(error.code() == ErrorCode::SchemaMismatch && error.to_string().contains("line 3"), "{error}");
    }
    // The source that metadata name, under the collection's key, is the document's source, as `put` has it.
    for (source, metadata) in [
        (r#","source":"s","source_given":true"#, r#""{\"k\":\"t\"}""#),
        (r#","source":"s""#, r#""{\"k\":\"t\"}""#),
        (r#","source":"s""#, r#""{}""#),
    ] {
        let error = refused(dump(schema, &document("a", &format!("{source},\"metadata\":{metadata}"))).as_bytes());
        assert!(error.code() == ErrorCode::InvalidArgument && error.to_string().contains("line 3"), "{error}");
        assert!(error.to_string().contains("document \"a\" has source \"s\""), "{error}");
    }
}

#[test]
fn an_existing_database_and_a_foreign_directory_stay_as_they_are() {
    let (disk, db) = fixture();
    let text = dump_of(&db);
    drop(db);
    let before = disk.image_hash();
    let error = restore_into(Arc::new(disk.clone()), options(), text.as_slice()).unwrap_err();
    assert_eq!((error.code(), disk.image_hash()), (ErrorCode::AlreadyExists, before));
    let foreign = SimDirectory::new();
    foreign.write_file("letter.txt", b"dear".to_vec());
    let error = restore_into(Arc::new(foreign.clone()), options(), text.as_slice()).unwrap_err();
    assert_eq!((error.code(), foreign.file_names()), (ErrorCode::InvalidArgument, vec!["letter.txt".to_string()]));
}

/// What a crash before operation `n` of a restore may leave: nothing, something unfinished that can be restored into, or all of it.
#[test]
fn a_restore_cut_short_anywhere_is_refused_by_name_and_can_begin_again() {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.put("main", (0..30).map(|i| Document::new(format!("d{i}")).text("some words here and there")).collect()).unwrap();
    let text = dump_of(&db);
    let small = || Options { memtable_bytes: 4_000, ..options() };
    let whole = SimDirectory::newly_made();
    restore_into(Arc::new(whole.clone()), small(), text.as_slice()).unwrap();
    assert!(whole.file_names().iter().filter(|n| n.ends_with(".segments")).count() > 1);
    let (mut finished, mut unfinished) = (0, 0);
    for n in 0..whole.operations() {
        let disk = SimDirectory::newly_made();
        disk.crash_at(n, triune::io::sim::CrashMode::During);
        restore_into(Arc::new(disk.clone()), small(), text.as_slice()).unwrap_err();
        for image in disk.survivor_images(12).chain([disk.after_kill()]) {
            match Database::open_with(Arc::new(image.clone()), options()) {
                Ok(db) => {
                    assert_eq!(dump_of(&db), text, "operation {n}");
                    finished += 1;
                }
                Err(e) => {
                    assert!(e.code() == ErrorCode::NotFound, "operation {n}: {e} with {:?}", image.file_names());
                    unfinished += 1;
                    restore_into(Arc::new(image.clone()), small(), text.as_slice()).unwrap();
                    assert_eq!(dump_of_disk(&image), text, "operation {n}");
                }
            }
        }
    }
    assert!(finished > 0 && unfinished > 50, "{finished} finished, {unfinished} unfinished");
}

#[test]
fn a_failing_disk_leaves_no_database_or_says_that_it_may_have() {
    let (_, db) = fixture();
    let text = dump_of(&db);
    let whole = restored(&text);
    let mut unknown = 0;
    for n in 0..whole.operations() {
        for kind in [FailureKind::Enospc, FailureKind::Eio] {
            let disk = SimDirectory::new();
            disk.fail(n, kind);
            let Err(error) = restore_into(Arc::new(disk.clone()), options(), text.as_slice()) else { continue };
            let opened = Database::open_with(Arc::new(disk.clone()), options());
            match error.code() {
                ErrorCode::OutcomeUnknown => unknown += 1,
                _ => assert!(opened.is_err_and(|e| e.code() == ErrorCode::NotFound), "operation {n}: {error}"),
            }
        }
    }
    assert!(unknown > 0);
}

#[test]
fn a_restore_cut_short_twice_is_still_refused_by_name() {
    let db = Database::create_with(Arc::new(SimDirectory::new()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.put("main", (0..30).map(|i| Document::new(format!("d{i}")).text("some words here and there")).collect()).unwrap();
    let text = dump_of(&db);
    let small = || Options { memtable_bytes: 4_000, ..options() };
    let again = |disk: &SimDirectory| restore_into(Arc::new(disk.clone()), small(), text.as_slice());
    let whole = SimDirectory::newly_made();
    again(&whole).unwrap();
    let mut judged = 0;
    for n in [whole.operations() / 2, whole.operations() - 8] {
        let first = SimDirectory::newly_made();
        first.crash_at(n, triune::io::sim::CrashMode::Before);
        again(&first).unwrap_err();
        let first = first.after_kill();
        assert!(first.file_names().len() > 4, "files of every kind are left: {:?}", first.file_names());
        // As many as there are files to remove, and some.
        for m in 0..first.file_names().len() + 6 {
            let disk = first.snapshot();
            disk.crash_at(disk.operations() + m, triune::io::sim::CrashMode::During);
            again(&disk).unwrap_err();
            for image in disk.survivor_images(12).chain([disk.after_kill()]) {
                let error = Database::open_with(Arc::new(image.clone()), options()).unwrap_err();
                assert_eq!(error.code(), ErrorCode::NotFound, "{n}, {m}: {error} with {:?}", image.file_names());
                again(&image).unwrap();
                assert_eq!(dump_of_disk(&image), text, "{n}, {m}");
                judged += 1;
            }
        }
    }
    assert!(judged > 50, "{judged}");
}

//! Builders: the database that puts and a compaction would have made, whole or not at all.

use super::backing_up::assert_sound;
use super::fixture::{dump_of, dump_of_disk, odd_documents, open, options, plain};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use triune::io::sim::{CrashMode, FailureKind};
use triune::io::{Directory, SimDirectory};
use triune::options::Thresholds;
use triune::{
    BuildReport, Builder, Collection, Database, Document, Effort, Error, ErrorCode, Hnsw, IoMode, Metric, Mode, Observer, Options,
    Progress, Quantisation, Result, Schema, Search,
};

const DIMENSION: usize = 12;

/// Graphs from 200 vectors on, and a segment for every few documents.
fn small() -> Options {
    Options { memtable_bytes: 20_000, thresholds: Thresholds { graph_vectors: 200, ..Thresholds::default() }, ..options() }
}

fn documents(count: u64) -> Vec<Document> {
    let component = |i: u64, j: u64| ((i * 7919 + j * 104_729) % 1009) as f32 / 1009.0 - 0.5;
    let document = |i: u64| {
        let text = format!("document {i} of the Torn Tail, number{} word{}", i % 7, i % 3);
        let vector: Vec<f32> = (0..DIMENSION as u64).map(|j| component(i, j) + component(i % 17, j)).collect();
        let document = Document::new(format!("d{i}")).text(text).source(format!("file {}", i % 4));
        if i % 5 == 4 { document } else { document.vector(vector) }
    };
    (0..count).map(document).collect()
}

fn built(disk: &SimDirectory, options: Options, collections: &[(&str, Schema, Vec<Document>)]) -> Result<BuildReport> {
    let mut builder = Builder::create_in(Arc::new(disk.clone()), options)?;
    for (name, schema, documents) in collections {
        builder.collection(name, schema.clone())?;
        documents.iter().cloned().try_for_each(|d| builder.push(d))?;
    }
    builder.finish()
}

/// The same by commits, and compacted.
fn put(options: Options, collections: &[(&str, Schema, Vec<Document>)]) -> Database {
    let db = Database::create_with(Arc::new(SimDirectory::new()), options).unwrap();
    for (name, schema, documents) in collections {
        db.create_collection(name, schema.clone()).unwrap();
        documents.chunks(37).for_each(|some| drop(db.put(name, some.to_vec()).unwrap()));
    }
    db.compact().unwrap();
    db
}

/// Whatever call that only looks is refused: an error means that there is no database, and that there can be one.
#[test]
fn a_build_that_answers_with_an_error_left_no_database_and_one_that_is_there_answers_ok() {
    let collections = [("main", Schema::default(), documents(40))];
    let disk = SimDirectory::new();
    built(&disk, small(), &collections).unwrap();
    let all = disk.accesses();
    assert!(all > 20, "{all}");
    for n in 0..all {
        let disk = SimDirectory::new();
        disk.fail_access(n, FailureKind::Eio);
        let answer = built(&disk, small(), &collections);
        let opened = Database::open_with(Arc::new(disk.clone()), small());
        match (&answer, &opened) {
            (Ok(_), Ok(db)) => assert_eq!(db.snapshot().collection("main").unwrap().count(), 40, "call {n}"),
            (Err(e), Err(_)) => {
                assert_eq!(e.code(), ErrorCode::Io, "call {n}: {e}");
                built(&disk, small(), &collections).unwrap_or_else(|e| panic!("call {n}: {e}"));
            }
            _ => panic!("call {n}: {answer:?}, and then {opened:?}"),
        }
    }
}

/// A dump with the times of its documents, and the checksum over them, struck out.
fn timeless(dump: &[u8]) -> Vec<String> {
    let strike = |line: &str| match line.split_once("\"time_ms\":\"") {
        Some((before, rest)) => format!("{before}{}", rest.split_once('"').unwrap().1),
        None => line.split("\"sha256\"").next().unwrap().to_string(),
    };
    std::str::from_utf8(dump).unwrap().lines().map(strike).collect()
}

fn answers(collection: &Collection, effort: Effort) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for (i, document) in documents(12).into_iter().enumerate() {
        let query = Some(format!("torn number{} word{}", i % 7, i % 3));
        for mode in [Mode::Text, Mode::Vector, Mode::Hybrid, Mode::Graph] {
            if mode == Mode::Vector && document.vector.is_none() {
                continue;
            }
            let search = Search { query: query.clone(), vector: document.vector.clone(), mode, effort, ..Search::default() };
            all.extend(collection.search(&search).unwrap().hits.into_iter().map(|hit| (hit.id, hit.score.to_bits())));
        }
    }
    all
}

#[test]
fn a_build_gives_what_puts_and_a_compaction_give() {
    let kinds = [(Metric::Cosine, Quantisation::Sq7), (Metric::Dot, Quantisation::None), (Metric::L2, Quantisation::Sq7)];
    for (metric, quantisation) in kinds {
        let schema = Schema { metric, hnsw: Hnsw { quantisation, ..Hnsw::default() }, ..Schema::default() };
        let collections = [("main", schema, documents(600))];
        let disk = SimDirectory::newly_made();
        let report = built(&disk, small(), &collections).unwrap();
        assert_eq!((report.documents, report.vectors, report.segments, report.graphs), (600, 480, 1, 1), "{report:?}");
        assert!(report.recall.is_some_and(|recall| recall > 0.9), "{report:?}");
        assert_eq!(report.bytes, disk.file_names().iter().map(|n| disk.read_file(n).unwrap().len() as u64).sum::<u64>());
        assert_eq!(disk.file_names().iter().filter(|n| n.ends_with(".segments")).count(), 1, "what was merged is gone");
        assert_sound(&disk);
        // Only what was synced counts, and all of it was.
        let (db, other) = (open(&disk.survivors_none()), put(small(), &collections));
        assert_eq!(db.recovery().replayed_commits, 0);
        assert!(timeless(&dump_of(&db)) == timeless(&dump_of(&other)), "the dumps differ");
        let [ours, theirs] = [&db, &other].map(|db| db.snapshot().collection("main").unwrap());
        assert_eq!(ours.stats().unwrap(), theirs.stats().unwrap());
        let exact = answers(&ours, Effort::Exact);
        assert!(exact.len() > 300 && exact == answers(&theirs, Effort::Exact), "{metric}, {quantisation}");
        // Their graph was made of others, so what a walk finds may differ; that it finds enough may not.
        for collection in [ours, theirs] {
            let audit = collection.audit_recall(40, Effort::Ef(32)).unwrap();
            assert!(audit.recall > 0.9 && audit.walks == 1.0, "{metric}, {quantisation}: {audit:?}");
        }
    }
}

#[test]
fn a_build_takes_every_document_that_a_put_takes_and_goes_on_as_a_database() {
    let fixed = Schema { dimension: Some(7), metric: Metric::L2, source_key: "path".into(), ..Schema::default() };
    let odd = [odd_documents(), plain(0..200)].concat();
    let collections =
        [("main", Schema::default(), odd), ("empty", Schema::default(), Vec::new()), ("a fixed one", fixed, vec![Document::new("only")])];
    for memtable_bytes in [64 << 20, 2_000] {
        let disk = SimDirectory::newly_made();
        let report = built(&disk, Options { memtable_bytes, ..options() }, &collections).unwrap();
        assert_eq!((report.documents, report.segments, report.graphs, report.recall), (209, 2, 0, None));
        assert_sound(&disk);
        let other = put(options(), &collections);
        let db = open(&disk);
        assert_eq!(timeless(&dump_of(&db)), timeless(&dump_of(&other)), "the dimension is fixed by the first vector too");
        db.put("empty", vec![Document::new("after")]).unwrap();
        db.put("main", vec![Document::new("p3").text("replaced")]).unwrap();
        db.compact().unwrap();
        assert_eq!(db.snapshot().collection("main").unwrap().scan().last().unwrap().unwrap().1.id.as_ref(), "p3");
        db.close().unwrap();
        assert_sound(&disk);
    }
    let disk = SimDirectory::newly_made();
    assert_eq!(built(&disk, options(), &[]).unwrap().documents, 0);
    assert_eq!(open(&disk).snapshot().collections(), Vec::<String>::new());
}

#[test]
fn the_same_documents_give_the_same_segments_with_any_number_of_threads() {
    let segments = |build_threads, memtable_bytes| {
        let disk = SimDirectory::newly_made();
        let options = Options { build_threads, memtable_bytes, ..small() };
        built(&disk, options, &[("main", Schema::default(), documents(500))]).unwrap();
        let db = Database::open_read_only_with(Arc::new(disk), small()).unwrap();
        let collection = db.snapshot().collection("main").unwrap();
        (timeless(&dump_of(&db)), collection.stats().unwrap(), answers(&collection, Effort::Ef(10)))
    };
    let one = segments(1, 64 << 20);
    for (threads, memtable_bytes) in [(2, 64 << 20), (7, 20_000)] {
        assert!(segments(threads, memtable_bytes) == one, "{threads} threads");
    }
}

#[test]
fn a_document_that_is_refused_is_left_out_and_the_build_may_go_on() {
    for memtable_bytes in [64 << 20, 2_000] {
        let disk = SimDirectory::newly_made();
        let mut builder = Builder::create_in(Arc::new(disk.clone()), Options { memtable_bytes, ..options() }).unwrap();
        let early = builder.push(Document::new("early")).unwrap_err();
        assert_eq!(early.code(), ErrorCode::InvalidArgument);
        builder.collection("other", Schema::default()).unwrap();
        builder.push(Document::new("p5")).unwrap();
        builder.collection("main", Schema::default()).unwrap();
        assert_eq!(builder.collection("other", Schema::default()).unwrap_err().code(), ErrorCode::AlreadyExists);
        // Not even a dimension is left of it.
        assert_eq!(builder.push(Document::new("").vector([1.0; 9])).unwrap_err().code(), ErrorCode::InvalidArgument);
        plain(0..100).into_iter().for_each(|d| builder.push(d).unwrap());
        let twice = builder.push(Document::new("p6").text("again")).unwrap_err();
        assert_eq!(twice.code(), ErrorCode::DuplicateId);
        assert!(twice.to_string().contains("documents 7 and 101 of collection \"main\""), "{twice}");
        assert_eq!((builder.position("p6").unwrap(), builder.position("p99").unwrap()), (Some(6), Some(99)));
        assert_eq!(builder.position("other").unwrap(), None);
        let wide = builder.push(Document::new("wide").vector([1.0; 4])).unwrap_err();
        assert!(wide.code() == ErrorCode::SchemaMismatch && wide.to_string().contains("4 components"), "{wide}");
        builder.push(Document::new("last")).unwrap();
        assert_eq!(builder.finish().unwrap().documents, 102);
        let db = open(&disk);
        let main = db.snapshot().collection("main").unwrap();
        assert_eq!((main.count(), &*main.get("p6").unwrap().unwrap().text), (101, "document 6 of the Torn Tail number6 word0"));
    }
}

#[test]
fn a_build_cut_short_anywhere_is_refused_by_name_and_can_begin_again() {
    let collections = [("main", Schema::default(), documents(40)), ("other", Schema::default(), plain(0..5))];
    let few = || Options { memtable_bytes: 8_000, thresholds: Thresholds { graph_vectors: 20, ..Thresholds::default() }, ..options() };
    let whole = SimDirectory::newly_made();
    built(&whole, few(), &collections).unwrap();
    let text = timeless(&dump_of_disk(&whole));
    let (mut finished, mut unfinished) = (0, 0);
    for n in 0..whole.operations() {
        let disk = SimDirectory::newly_made();
        disk.crash_at(n, CrashMode::During);
        built(&disk, few(), &collections).unwrap_err();
        for image in disk.survivor_images(4).chain([disk.after_kill()]) {
            match Database::open_with(Arc::new(image.clone()), few()) {
                Ok(db) => {
                    assert_eq!(timeless(&dump_of(&db)), text, "operation {n}");
                    finished += 1;
                }
                Err(e) => {
                    assert_eq!(e.code(), ErrorCode::NotFound, "operation {n}: {e} with {:?}", image.file_names());
                    built(&image, few(), &collections).unwrap();
                    assert_eq!(timeless(&dump_of_disk(&image)), text, "operation {n}");
                    unfinished += 1;
                }
            }
        }
    }
    assert!(finished > 0 && unfinished > 100, "{finished} finished, {unfinished} unfinished");
}

#[test]
fn a_failing_disk_leaves_no_database_or_says_that_it_may_have() {
    let collections = [("main", Schema::default(), documents(60))];
    let few = || Options { memtable_bytes: 8_000, ..options() };
    let whole = SimDirectory::newly_made();
    built(&whole, few(), &collections).unwrap();
    let (mut refused, mut unknown) = (0, 0);
    for n in 0..whole.operations() {
        for kind in [FailureKind::Enospc, FailureKind::Eio] {
            let disk = SimDirectory::new();
            disk.fail(n, kind);
            let Err(error) = built(&disk, few(), &collections) else { continue };
            let opened = Database::open_with(Arc::new(disk.clone()), few());
            match error.code() {
                ErrorCode::OutcomeUnknown => unknown += 1,
                _ => {
                    assert!(opened.is_err_and(|e| e.code() == ErrorCode::NotFound), "operation {n}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 20 && unknown > 0, "{refused} refused, {unknown} unknown");
}

/// Pushes what is left of a build after an error of the disk.
#[test]
fn after_a_failing_disk_nothing_more_is_taken() {
    let disk = SimDirectory::new();
    let mut builder = Builder::create_in(Arc::new(disk.clone()), Options { memtable_bytes: 2_000, ..options() }).unwrap();
    builder.collection("main", Schema::default()).unwrap();
    disk.fail(disk.operations(), FailureKind::Enospc);
    let mut codes = documents(40).into_iter().filter_map(|d| builder.push(d).err()).map(|e| e.code());
    assert_eq!(codes.next(), Some(ErrorCode::DiskFull));
    assert_eq!(codes.collect::<Vec<_>>().last(), Some(&ErrorCode::Poisoned));
    builder.finish().unwrap_err();
    assert_eq!(disk.file_names(), Vec::<String>::new());
}

#[test]
fn progress_is_told_and_an_interrupt_is_heard_at_any_stage() {
    let collections = || [("main", Schema::default(), documents(600))];
    let stages = Arc::new(Mutex::new(Vec::new()));
    let seen = stages.clone();
    let observer = Observer::new(move |p| seen.lock().unwrap().push(p));
    built(&SimDirectory::new(), Options { observer: Some(observer), ..small() }, &collections()).unwrap();
    let stages = stages.lock().unwrap().clone();
    let mut taken = stages.iter().filter_map(|p| if let Progress::Taken { documents, .. } = p { Some(*documents) } else { None });
    assert_eq!(taken.next_back(), Some(600));
    assert!(stages.contains(&Progress::Rewritten { done: 0, of: 600 }));
    let linked: Vec<u64> =
        stages.iter().filter_map(|p| if let Progress::Linked { done, of: 480 } = p { Some(*done) } else { None }).collect();
    assert!(linked.is_sorted() && linked.last() == Some(&480), "{linked:?}");

    // Somebody sets the flag when so much is told.
    for at in [0, 3, stages.len() / 2, stages.len() - 2] {
        let disk = SimDirectory::newly_made();
        let told = AtomicU64::new(0);
        let flag: Arc<Mutex<Option<Arc<std::sync::atomic::AtomicBool>>>> = Arc::default();
        let set = flag.clone();
        let observer = Observer::new(move |_| {
            if told.fetch_add(1, Ordering::SeqCst) == at as u64 {
                set.lock().unwrap().as_ref().unwrap().store(true, Ordering::SeqCst);
            }
        });
        let run = || -> Result<BuildReport> {
            let mut builder = Builder::create_in(Arc::new(disk.clone()), Options { observer: Some(observer), ..small() })?;
            *flag.lock().unwrap() = Some(builder.interrupt());
            builder.collection("main", Schema::default())?;
            documents(600).into_iter().try_for_each(|d| builder.push(d))?;
            builder.finish()
        };
        let error = run().unwrap_err();
        assert!(matches!(error, Error::Interrupted(_)) && error.to_string().contains("no database was made"), "{at}: {error}");
        assert_eq!(disk.file_names(), Vec::<String>::new(), "{at}");
    }
}

#[test]
fn a_directory_that_was_made_for_a_build_goes_with_it() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("new");
    drop(Builder::create(&path, options()).unwrap());
    assert!(!path.exists());
    let mut builder = Builder::create(&path, options()).unwrap();
    assert_eq!(Builder::create(&path, options()).unwrap_err().code(), ErrorCode::Locked);
    assert!(path.exists(), "the second one takes nothing away");
    assert_eq!(Database::open(&path).unwrap_err().code(), ErrorCode::NotFound, "it is unfinished");
    builder.collection("main", Schema::default()).unwrap();
    documents(10).into_iter().for_each(|d| builder.push(d).unwrap());
    builder.finish().unwrap();
    let before = std::fs::read_dir(&path).unwrap().count();
    assert_eq!(Builder::create(&path, options()).unwrap_err().code(), ErrorCode::AlreadyExists);
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), before);
    for io_mode in [IoMode::Mmap, IoMode::Pread, IoMode::Pinned] {
        let dir: Arc<dyn Directory> = Arc::new(triune::io::FsDirectory::open(&path).unwrap());
        let db = Database::open_read_only_with(dir, Options { io_mode, ..options() }).unwrap();
        assert_eq!(db.snapshot().collection("main").unwrap().count(), 10);
    }
    // A directory that was there before stays, empty.
    let there = scratch.path().join("there");
    std::fs::create_dir(&there).unwrap();
    drop(Builder::create(&there, options()).unwrap());
    assert_eq!(std::fs::read_dir(&there).unwrap().count(), 0);
    let foreign = scratch.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("letter.txt"), "dear").unwrap();
    assert_eq!(Builder::create(&foreign, options()).unwrap_err().code(), ErrorCode::InvalidArgument);
    assert!(foreign.join("letter.txt").exists());
}

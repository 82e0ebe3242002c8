//! Many threads on one database in a real directory: writers move units between the documents of two collections, readers check that every
//! moment they see is whole, and one thread keeps checkpointing and compacting. `threads/graphs.rs` has readers that walk vector graphs beside that.

mod graphs;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use triune::{Database, Document, IoMode, Lsn, Metadata, Mode, Options, Patch, Schema, Scorer, Search, Snapshot, WriteBatch};

const COLLECTIONS: [&str; 2] = ["left", "right"];
/// Documents of each collection; each starts with `UNITS`.
const DOCUMENTS: usize = 12;
const UNITS: i64 = 100;
const WRITERS: usize = 3;
const MOVES: usize = 120;
const READERS: usize = 2;

fn options(io_mode: IoMode) -> Options {
    // So small that nearly every commit freezes a memtable, and that merges have something to do all the time.
    Options { background: true, memtable_bytes: 2_000, wal_bytes: 64 << 10, merge_fan_in: 2, io_mode, ..Options::default() }
}

/// A document that says its units in three ways: in its metadata, as many times in its text, and in its vector.
fn document(id: usize, units: i64) -> Document {
    Document::new(format!("d{id}"))
        .text(text(id, units))
        .metadata(Metadata::from_json(format!(r#"{{"units":{units}}}"#)).unwrap())
        .vector(vec![units as f32, 1.0])
        .source(format!("source {}", id % 3))
}

fn text(id: usize, units: i64) -> String {
    format!("{}document{id}", "unit ".repeat(units as usize))
}

/// Units by document, as the metadata says.
fn units(snapshot: &Snapshot, collection: &str) -> Vec<(String, i64)> {
    let units = |m: Option<Metadata>| m.unwrap().to_object()["units"].as_i64().unwrap();
    let collection = snapshot.collection(collection).unwrap();
    collection.scan().map(|item| item.unwrap().1).map(|d| (d.id.to_string(), units(d.metadata))).collect()
}

/// Everything of one moment agrees with everything else of it.
fn check(snapshot: &Snapshot) {
    let mut sum = 0;
    for name in COLLECTIONS {
        let collection = snapshot.collection(name).unwrap();
        let by_scan = units(snapshot, name);
        sum += by_scan.iter().map(|(_, u)| u).sum::<i64>();
        assert_eq!((by_scan.len(), collection.count()), (DOCUMENTS, DOCUMENTS as u64), "{name}");
        let stats = collection.stats().unwrap();
        let tokens = by_scan.iter().map(|(_, u)| *u as u64 + 1).sum::<u64>();
        let terms = DOCUMENTS as u64 + u64::from(by_scan.iter().any(|(_, u)| *u > 0));
        assert_eq!((stats.documents, stats.vectors, stats.tokens, stats.terms, stats.sources), (12, 12, tokens, terms, 3), "{name}");
        for (id, u) in &by_scan {
            let found = collection.get(id).unwrap().unwrap();
            assert_eq!(*found.text, *text(id[1..].parse().unwrap(), *u), "{name} {id}");
            assert_eq!(found.vector.as_deref(), Some(&[*u as f32, 1.0][..]), "{name} {id}");
        }
        // Vectors: the distance to (0, 1) is the square of the units. Texts: everyone with a unit is found.
        let k = DOCUMENTS;
        let search = |mode, query: &str, vector: Vec<f32>| {
            let scorer = Some(Scorer::Lucene);
            let search = Search { query: Some(query.into()), vector: Some(vector), mode, k, scorer, ..Search::default() };
            collection.search(&search).unwrap().hits
        };
        let mut nearest: Vec<(String, f64)> = by_scan.iter().map(|(id, u)| (id.clone(), -((u * u) as f64))).collect();
        nearest.sort_by(|a, b| b.1.total_cmp(&a.1));
        let hits = search(Mode::Vector, "", vec![0.0, 1.0]);
        assert_eq!(hits.iter().map(|h| (h.id.clone(), h.score)).collect::<Vec<_>>(), nearest, "{name}");
        let mut with_units: Vec<&String> = by_scan.iter().filter(|(_, u)| *u > 0).map(|(id, _)| id).collect();
        let hits = search(Mode::Text, "unit", vec![0.0, 1.0]);
        let mut found: Vec<&String> = hits.iter().map(|h| &h.id).collect();
        with_units.sort();
        found.sort();
        assert_eq!(found, with_units, "{name}");
        let one = search(Mode::Text, "document7", vec![0.0, 1.0]);
        assert_eq!(one.iter().map(|h| &*h.id).collect::<Vec<_>>(), ["d7"], "{name}");
    }
    assert_eq!(sum, 2 * DOCUMENTS as i64 * UNITS, "units at {}", snapshot.lsn());
}

/// A small generator, so that every thread does something else and the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
}

/// Moves units between two documents of different collections, in one commit. Each writer has documents of its own, so that what it read is
/// still so when it commits.
fn move_units(db: &Database, writer: usize, random: &mut Random, last: &mut Lsn) {
    let mine = |random: &mut Random| writer + WRITERS * random.below(DOCUMENTS / WRITERS);
    let (from, to) = if random.below(2) == 0 { (0, 1) } else { (1, 0) };
    let (giver, taker) = (mine(random), mine(random));
    let snapshot = db.snapshot();
    let now = |side: usize, id: usize| units(&snapshot, COLLECTIONS[side]).into_iter().find(|(i, _)| *i == format!("d{id}")).unwrap().1;
    let moved = (random.below(20) as i64).min(now(from, giver));
    let mut batch = WriteBatch::new();
    for (side, id, units) in [(from, giver, now(from, giver) - moved), (to, taker, now(to, taker) + moved)] {
        match random.below(3) {
            0 => batch.put(COLLECTIONS[side], vec![document(id, units)]),
            1 => {
                let patch = Patch::new(format!("d{id}")).metadata(format!(r#"{{"units":{units}}}"#)).unwrap();
                batch.patch(COLLECTIONS[side], vec![patch.text(text(id, units)).vector(vec![units as f32, 1.0])])
            }
            _ => batch.delete(COLLECTIONS[side], vec![format!("d{id}")]).insert(COLLECTIONS[side], vec![document(id, units)]),
        };
    }
    let lsn = db.commit(batch).unwrap().lsn;
    assert!(lsn > *last, "lsns ascend");
    *last = lsn;
    assert!(db.snapshot().lsn() >= lsn, "a commit is seen once it is acknowledged");
}

fn run(io_mode: IoMode) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    Database::create(&path).unwrap().close().unwrap();
    let open = || Database::open_with(Arc::new(triune::io::FsDirectory::open(&path).unwrap()), options(io_mode)).unwrap();
    let db = open();
    for name in COLLECTIONS {
        db.create_collection(name, Schema { metric: triune::Metric::L2, ..Schema::default() }).unwrap();
        db.put(name, (0..DOCUMENTS).map(|id| document(id, UNITS)).collect()).unwrap();
    }
    let first = db.snapshot();
    let done = AtomicBool::new(false);
    let checked = AtomicU64::new(0);
    std::thread::scope(|threads| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let db = &db;
                threads.spawn(move || {
                    let (mut random, mut last) = (Random(writer as u64), Lsn(0));
                    (0..MOVES).for_each(|_| move_units(db, writer, &mut random, &mut last));
                })
            })
            .collect();
        for _ in 0..READERS {
            threads.spawn(|| {
                let mut last = Lsn(0);
                let mut old = db.snapshot();
                while !done.load(Ordering::Relaxed) {
                    let snapshot = db.snapshot();
                    assert!(snapshot.lsn() >= last, "snapshots never go back");
                    last = snapshot.lsn();
                    check(&snapshot);
                    if checked.fetch_add(1, Ordering::Relaxed).is_multiple_of(16) {
                        check(&std::mem::replace(&mut old, snapshot));
                    }
                }
            });
        }
        threads.spawn(|| {
            let reader = Database::open_read_only(&path).unwrap();
            let mut last = Lsn(0);
            while !done.load(Ordering::Relaxed) {
                reader.refresh().unwrap();
                let snapshot = reader.snapshot();
                assert!(snapshot.lsn() >= last, "a reading handle never goes back");
                last = snapshot.lsn();
                check(&snapshot);
            }
        });
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                db.checkpoint().unwrap();
                db.merge().unwrap();
                db.compact().unwrap();
            }
        });
        let ended: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|e| e.unwrap());
    });
    assert!(db.take_background_error().is_none_or(|e| panic!("background work: {e}")));
    check(&first);
    assert!(units(&first, "left").iter().all(|(_, u)| *u == UNITS), "the first snapshot stays as it was");
    let (last, left, right) = (db.snapshot().lsn(), units(&db.snapshot(), "left"), units(&db.snapshot(), "right"));
    assert_eq!(last, Lsn(4 + (WRITERS * MOVES) as u64), "one lsn a commit");

    // Once by replay, once after a clean close.
    drop((db, first));
    for _ in 0..2 {
        let db = open();
        check(&db.snapshot());
        assert_eq!(
            (db.snapshot().lsn(), units(&db.snapshot(), "left"), units(&db.snapshot(), "right")),
            (last, left.clone(), right.clone())
        );
        db.close().unwrap();
    }
}

#[test]
fn every_moment_that_any_thread_sees_is_whole_when_files_are_mapped() {
    run(IoMode::Mmap);
}

#[test]
fn every_moment_that_any_thread_sees_is_whole_when_files_are_read() {
    run(IoMode::Pread);
}

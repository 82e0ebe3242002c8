//! yugabyte #32319, SVS PR 321, VelesDB #2305: a search while vectors came and indexes were merged read lists that were half written, or blocks
//! that were freed. Here readers walk graphs of their snapshots while these are merged, replaced and removed.

use super::Random;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use triune::io::FsDirectory;
use triune::options::Thresholds;
use triune::{Database, Document, Effort, Filter, Hnsw, IoMode, Metadata, Metric, Options, Quantisation, Schema, Snapshot, WriteBatch};

const DIMENSION: usize = 6;
/// Ids from which documents come; at first all are there.
const DOCUMENTS: usize = 240;
const COMMITS: usize = 60;
const K: usize = 7;

fn options(io_mode: IoMode) -> Options {
    let thresholds = Thresholds { graph_vectors: 16, ..Thresholds::default() };
    Options { background: true, memtable_bytes: 3_000, merge_fan_in: 2, io_mode, thresholds, ..Options::default() }
}

fn point(random: &mut Random) -> Vec<f32> {
    (0..DIMENSION).map(|_| random.below(4_001) as f32 / 1_000.0 - 2.0).collect()
}

fn document(id: usize, random: &mut Random) -> Document {
    let metadata = Metadata::from_json(format!(r#"{{"third":{}}}"#, id % 3)).unwrap();
    Document::new(format!("d{id}")).vector(point(random)).metadata(metadata)
}

/// Everything that a search finds is of its own moment: as many as there can be, alive, admitted, with the scores that their vectors have.
/// Returns how many graphs were walked.
fn check(snapshot: &Snapshot, random: &mut Random) -> u64 {
    let collection = snapshot.collection("main").unwrap();
    let vectors: BTreeMap<String, Box<[f32]>> =
        collection.scan().with_vectors(true).map(|item| item.unwrap().1).map(|d| (d.id.to_string(), d.vector.unwrap())).collect();
    assert_eq!(vectors.len() as u64, collection.count());
    let filter = Filter::parse(r#"{"third":{"$ne":1}}"#).unwrap();
    let mut walks = 0;
    for filter in [None, Some(&filter)] {
        let query = point(random);
        let score = |v: &[f32]| -query.iter().zip(v).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum::<f64>();
        let admitted = |id: &str| filter.is_none() || id[1..].parse::<usize>().unwrap() % 3 != 1;
        let mut wanted: Vec<f64> = vectors.iter().filter(|(id, _)| admitted(id)).map(|(_, v)| score(v)).collect();
        wanted.sort_by(|a, b| b.total_cmp(a));
        wanted.truncate(K);
        for effort in [Effort::Ef(12), Effort::DEFAULT, Effort::Exact] {
            let found = collection.nearest_explained(&query, filter, K, effort).unwrap();
            walks += found.walks;
            assert_eq!(found.hits.len(), wanted.len(), "at {}, {effort:?}", snapshot.lsn());
            for hit in &found.hits {
                let id = collection.id_of(hit).unwrap();
                let of_it = vectors.get(&id).unwrap_or_else(|| panic!("at {}: {id} is dead", snapshot.lsn()));
                assert!(
                    admitted(&id) && (score(of_it) - hit.score).abs() < 1e-9,
                    "at {}, {effort:?}: {id} with {}",
                    snapshot.lsn(),
                    hit.score
                );
            }
            assert!(found.hits.windows(2).all(|w| w[0].score > w[1].score || (w[0].score == w[1].score && w[0].seq < w[1].seq)));
            if effort == Effort::Exact {
                assert!(found.hits.iter().zip(&wanted).all(|(hit, wanted)| (hit.score - wanted).abs() < 1e-9), "at {}", snapshot.lsn());
            }
        }
    }
    walks
}

/// Puts, replaces and deletes, now and then half of all there is.
fn write(db: &Database) {
    let mut random = Random(3);
    for commit in 0..COMMITS {
        let (first, many) = (random.below(DOCUMENTS), 1 + random.below(if commit % 20 == 19 { DOCUMENTS / 2 } else { 20 }));
        let ids = (0..many).map(|i| (first + i) % DOCUMENTS);
        let mut batch = WriteBatch::new();
        match commit % 4 {
            3 => batch.delete("main", ids.map(|id| format!("d{id}")).collect()),
            _ => batch.put("main", ids.map(|id| document(id, &mut random)).collect()),
        };
        db.commit(batch).unwrap();
    }
}

/// Asks again and again, at least once after the end too. A snapshot is asked a second time after much has changed.
fn read(done: &AtomicBool, walks: &AtomicU64, seed: u64, mut moment: impl FnMut() -> Snapshot) {
    let mut random = Random(seed);
    let mut old = moment();
    loop {
        let ended = done.load(Ordering::Relaxed);
        let snapshot = moment();
        assert!(snapshot.lsn() >= old.lsn(), "snapshots never go back");
        let walked = check(&snapshot, &mut random) + check(&old, &mut random);
        walks.fetch_add(walked, Ordering::Relaxed);
        if random.below(4) == 0 {
            old = snapshot;
        }
        if ended {
            return;
        }
    }
}

fn run(path: &Path, io_mode: IoMode, quantisation: Quantisation) {
    Database::create(path).unwrap().close().unwrap();
    let open = || Database::open_with(Arc::new(FsDirectory::open(path).unwrap()), options(io_mode)).unwrap();
    let db = open();
    let hnsw = Hnsw { m: 6, ef_construction: 40, quantisation };
    db.create_collection("main", Schema { metric: Metric::L2, hnsw, ..Schema::default() }).unwrap();
    let mut random = Random(1);
    db.put("main", (0..DOCUMENTS).map(|id| document(id, &mut random)).collect()).unwrap();
    db.compact().unwrap();
    let first = db.snapshot();
    assert_eq!(first.collection("main").unwrap().vector_bytes().unwrap().graphs, 1);
    let reader = Database::open_read_only_with(Arc::new(FsDirectory::open(path).unwrap()), options(io_mode)).unwrap();
    let (done, here, elsewhere) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| write(&db));
        threads.spawn(|| read(&done, &here, 5, || db.snapshot()));
        threads.spawn(|| {
            read(&done, &elsewhere, 7, || {
                reader.refresh().unwrap();
                reader.snapshot()
            });
        });
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                db.checkpoint().unwrap();
                db.merge().unwrap();
                db.compact().unwrap();
            }
        });
        let ended = writer.join();
        done.store(true, Ordering::Relaxed);
        ended.unwrap();
    });
    assert!(db.take_background_error().is_none_or(|e| panic!("background work: {e}")));
    assert!(here.load(Ordering::Relaxed) > 0 && elsewhere.load(Ordering::Relaxed) > 0, "{here:?} and {elsewhere:?} walks");
    assert!(check(&first, &mut random) > 0, "the first snapshot still walks its graph, which no file has any more");
    let moment = db.snapshot().lsn();
    drop((first, reader));
    db.close().unwrap();
    let db = open();
    assert_eq!(db.snapshot().lsn(), moment);
    check(&db.snapshot(), &mut random);
}

#[test]
fn readers_beside_merging_graphs_get_exact_hits_of_their_own_moment() {
    for (io_mode, quantisation) in
        [(IoMode::Mmap, Quantisation::Sq7), (IoMode::Pread, Quantisation::None), (IoMode::Pinned, Quantisation::Sq7)]
    {
        let dir = tempfile::tempdir().unwrap();
        run(&dir.path().join("db"), io_mode, quantisation);
    }
}

//! Small databases on a simulated disk: one closed cleanly, and some whose process was killed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use triune::io::{Directory, File, LockGuard, LockMode, SimDirectory};
use triune::options::Thresholds;
use triune::{
    Database, Document, Durability, Entity, Hnsw, IoMode, Lsn, Metadata, Metric, Options, Patch, Relation, Schema, Scorer, WriteBatch,
};

/// The terms of every text.
pub const WORDS: [&str; 10] = ["the", "torn", "tail", "log", "segment", "of", "straße", "日本", "vector", "rare"];

pub fn options(io_mode: IoMode) -> Options {
    // So low that the one collection with some more vectors has a graph over them.
    let thresholds = Thresholds { graph_vectors: 40, ..Thresholds::default() };
    Options { background: false, io_mode, thresholds, ..Options::default() }
}

pub fn open(dir: &SimDirectory) -> Database {
    Database::open_with(Arc::new(dir.clone()), options(IoMode::Mmap)).unwrap()
}

/// A disk that holds the same files, all of them durable, and nothing else.
pub fn compact_copy(dir: &SimDirectory) -> SimDirectory {
    let copy = SimDirectory::new();
    for name in dir.file_names() {
        copy.write_file(&name, dir.read_file(&name).unwrap());
    }
    copy
}

fn numbers(seed: usize) -> impl Iterator<Item = usize> {
    let mut state = seed as u64 * 2 + 1;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    })
}

/// Document `i` of `kind`: about every fifth without a text, every third without a vector, every fourth without a source, every third with
/// entities and relations of its own.
pub fn document(kind: &str, i: usize, dimension: usize) -> Document {
    let mut random = numbers(i * 31 + kind.len());
    let mut pick = |below: usize| random.next().unwrap() % below;
    let mut document = Document::new(format!("{kind}-{i}"));
    if i % 5 != 4 {
        let words: Vec<&str> = (0..3 + pick(9)).map(|_| WORDS[pick(WORDS.len() - 1)]).collect();
        document = document.text(words.join(" "));
    }
    if i == 3 {
        document = document.text("a rare RÉSUMÉ of the torn torn log");
    }
    if i % 3 != 2 {
        document = document.vector((0..dimension).map(|_| pick(2001) as f32 / 1000.0 - 1.0).collect::<Vec<_>>());
    }
    if i % 3 == 1 {
        let node = Entity::new(format!("узел {}", i % 2)).kind("node").mentions(1 + i as u32);
        let relation = Relation::new("Torn Tail", "Log").kind("ends").weight(0.5 + i as f64).description("why");
        document = document.entities([Entity::new("Torn Tail"), Entity::new("узел"), node]).relations([relation]);
    }
    match i % 4 {
        0 => document.source(format!("файл-{}.md", i % 3)),
        1 => document.metadata(Metadata::from_json(format!(r#"{{"file_hash":"h{}", "page": {i}}}"#, i % 2)).unwrap()),
        2 => document.metadata(Metadata::from_json(r#"{"tags":["a",null,{"ß":1.50}]}"#).unwrap()),
        _ => document,
    }
}

fn documents(kind: &str, range: std::ops::Range<usize>, dimension: usize) -> Vec<Document> {
    range.map(|i| document(kind, i, dimension)).collect()
}

/// Documents of a vector alone.
fn points(count: usize) -> Vec<Document> {
    let vector = |i: usize| numbers(i + 900).take(4).map(|n| (n % 2001) as f32 / 1000.0 - 1.0).collect::<Vec<f32>>();
    (0..count).map(|i| Document::new(format!("point-{i}")).vector(vector(i))).collect()
}

/// A text that does not compress, so that its section has more than one block.
fn long_metadata() -> Metadata {
    let hex: Vec<String> = numbers(7).take(700).map(|n| format!("{n:08x}")).collect();
    Metadata::from_json(format!(r#"{{"noise":"{}"}}"#, hex.concat())).unwrap()
}

/// A database that was closed cleanly, and what it was at earlier clean closes.
pub struct Closed {
    pub image: SimDirectory,
    /// Each with its name.
    pub earlier: Vec<(&'static str, SimDirectory)>,
}

/// Three collections with a metric each and several segments, merged ones and ones with tombstones, an empty collection, one all of whose
/// rows died, and one with a vector graph and its codes.
pub fn closed() -> Closed {
    let dir = SimDirectory::new();
    let db = Database::create_with(Arc::new(dir.clone()), options(IoMode::Mmap)).unwrap();
    let schema = |metric, scorer| Schema { metric, scorer, ..Schema::default() };
    let hnsw = Hnsw { m: 3, ef_construction: 20, ..Hnsw::default() };
    db.create_collection("near", Schema { hnsw, ..schema(Metric::Dot, Scorer::Lucene) }).unwrap();
    db.put("near", points(40)).unwrap();
    db.compact().unwrap();
    let mut batch = WriteBatch::new();
    batch.create_collection("main", schema(Metric::Cosine, Scorer::Lucene)).create_collection("пункт", schema(Metric::Dot, Scorer::Okapi));
    batch.create_collection("l2", Schema { dimension: Some(3), ..schema(Metric::L2, Scorer::Lucene) });
    batch.create_collection("empty", Schema::default()).create_collection("emptied", Schema::default());
    batch.put("main", documents("é", 0..9, 5)).put("l2", documents("日", 0..6, 3)).put("emptied", documents("gone", 0..3, 2));
    db.commit(batch).unwrap();
    db.checkpoint().unwrap();
    db.put("main", documents("dead", 0..4, 5)).unwrap();
    db.put("main", documents("m", 0..5, 5)).unwrap();
    db.put("пункт", documents("п", 0..8, 4)).unwrap();
    db.close().unwrap();
    let first = compact_copy(&dir);

    let db = open(&dir);
    let mut batch = WriteBatch::new();
    batch.delete("main", (0..4).map(|i| format!("dead-{i}")).collect()).delete_source("emptied", "файл-0.md");
    batch.put("main", documents("é", 2..4, 5)).put("l2", vec![document("noise", 7, 3).metadata(long_metadata())]);
    db.commit(batch).unwrap();
    db.checkpoint().unwrap();
    db.delete("emptied", vec!["gone-1".into(), "gone-2".into()]).unwrap();
    db.patch("пункт", vec![Patch::new("п-1").text("patched: the segment of a log"), Patch::new("п-4").without_vector()]).unwrap();
    db.checkpoint().unwrap();
    drop(db);
    open(&dir).close().unwrap();
    let second = compact_copy(&dir);

    let db = open(&dir);
    db.put("main", documents("late", 0..4, 5)).unwrap();
    db.delete("пункт", vec!["п-6".into()]).unwrap();
    db.checkpoint().unwrap();
    db.put("main", documents("gone", 0..2, 5)).unwrap();
    db.checkpoint().unwrap();
    db.delete("main", vec!["gone-0".into(), "gone-1".into(), "late-0".into()]).unwrap();
    db.checkpoint().unwrap();
    drop(db);
    open(&dir).close().unwrap();
    Closed { image: compact_copy(&dir), earlier: vec![("the first close", first), ("the second close", second)] }
}

/// A database whose process was killed, and what it was after each of its last commits.
pub struct Killed {
    pub image: SimDirectory,
    /// The image after each lsn from the manifest's on, all of them sound.
    pub states: Vec<(Lsn, SimDirectory)>,
}

/// What stands between the last manifest and the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// Groups of one and several records, all of them synced and witnessed.
    Witnessed,
    /// As `Witnessed`, and WITNESS never reached the disk.
    Unwitnessed,
    /// As `Witnessed`, then records that were never synced.
    Unsynced,
    /// Two logs: a checkpoint failed after it had started the second.
    Continued,
}

/// A disk that makes no file of segments while it is told not to, so that logs are all that a database can write.
#[derive(Debug)]
struct RefusesSegments {
    disk: SimDirectory,
    refusing: Arc<AtomicBool>,
}

impl Directory for RefusesSegments {
    fn create_new(&self, name: &str) -> io::Result<Arc<dyn File>> {
        if name.ends_with(".segments") && self.refusing.load(Ordering::Relaxed) {
            return Err(io::Error::other("no file of segments is made now"));
        }
        self.disk.create_new(name)
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open(name)
    }

    fn open_writable(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open_writable(name)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        self.disk.unlink(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }

    fn sync_parent(&self) -> io::Result<()> {
        self.disk.sync_parent()
    }

    fn try_lock(&self, name: &str, mode: LockMode) -> io::Result<Option<LockGuard>> {
        self.disk.try_lock(name, mode)
    }
}

pub fn killed(log: Log) -> Killed {
    let dir = SimDirectory::new();
    let db = Database::create_with(Arc::new(dir.clone()), options(IoMode::Mmap)).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.create_collection("empty", Schema::default()).unwrap();
    db.put("main", documents("é", 0..6, 3)).unwrap();
    db.close().unwrap();
    let blank = dir.read_file("WITNESS").unwrap();

    let refusing = Arc::new(AtomicBool::new(false));
    let refuses_segments = RefusesSegments { disk: dir.clone(), refusing: refusing.clone() };
    let db = Database::open_with(Arc::new(refuses_segments), options(IoMode::Mmap)).unwrap();
    let mut states = vec![(db.snapshot().lsn(), compact_copy(&dir))];
    let mut commit = |fill: &dyn Fn(&mut WriteBatch), durability| {
        let mut batch = WriteBatch::new();
        fill(&mut batch);
        let commit = db.commit_with(batch, durability).unwrap();
        states.push((commit.lsn, compact_copy(&dir)));
    };
    let (sync, buffered) = (Durability::Sync, Durability::Buffered);
    commit(
        &|b| {
            b.put("main", documents("one", 0..2, 3));
        },
        sync,
    );
    commit(
        &|b| {
            b.delete("main", vec!["é-1".into(), "one-0".into()]);
        },
        sync,
    );
    commit(
        &|b| {
            b.patch("main", vec![Patch::new("é-0").text("the patched tail")]);
        },
        buffered,
    );
    commit(
        &|b| {
            b.create_collection("later", Schema::default()).put("later", documents("p", 0..2, 2));
        },
        buffered,
    );
    if log == Log::Continued {
        // It has started the next log by the time it makes a segment's file; every later commit tries again, as much in vain.
        refusing.store(true, Ordering::Relaxed);
        db.checkpoint().unwrap_err();
    }
    db.sync().unwrap();
    commit(
        &|b| {
            b.put("main", documents("two", 3..5, 3));
        },
        sync,
    );
    commit(
        &|b| {
            b.delete_source("main", "h1").put("later", documents("q", 0..1, 2));
        },
        buffered,
    );
    commit(
        &|b| {
            b.put("main", documents("three", 0..1, 3));
        },
        buffered,
    );
    db.sync().unwrap();
    if log == Log::Unsynced {
        commit(
            &|b| {
                b.put("main", documents("four", 0..2, 3));
            },
            buffered,
        );
        commit(
            &|b| {
                b.delete("main", vec!["three-0".into()]);
            },
            buffered,
        );
    }
    drop(db);
    let image = compact_copy(&dir);
    if log == Log::Unwitnessed {
        image.write_file("WITNESS", blank);
    }
    Killed { image, states }
}

/// A killed process whose last commit was too large for a record: the log names a segment that no manifest names.
pub fn landed() -> SimDirectory {
    let dir = SimDirectory::new();
    let db = Database::create_with(Arc::new(dir.clone()), options(IoMode::Mmap)).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.put("main", documents("é", 0..6, 3)).unwrap();
    // Long, and cheap to store.
    let metadata = Metadata::from_json(format!(r#"{{"long":"{}"}}"#, " ".repeat(1_000_000))).unwrap();
    db.put("main", documents("large", 0..9, 3).into_iter().map(|d| Document { metadata: Some(metadata.clone()), ..d }).collect()).unwrap();
    db.delete("main", vec!["large-1".into(), "é-2".into()]).unwrap();
    drop(db);
    let image = compact_copy(&dir);
    assert!(image.file_names().iter().any(|name| name.ends_with(".segments")), "the batch landed");
    let db = open(&image.snapshot());
    assert!(db.recovery().replayed_commits >= 2, "only the log knows of it: {:?}", db.recovery());
    image
}

//! A database with the vectors, asked through the public API.

use crate::curve::Side;
use std::path::Path;
use std::time::Instant;
use triune::{Collection, Database, Document, Effort, Hnsw, IoMode, Options, Schema};
use triune_benches::Failure;
use triune_benches::neighbours::{K, Neighbours};

/// Documents of a commit.
const BATCH: usize = 2_000;

pub(crate) struct Ours<'a> {
    data: &'a Neighbours,
    name: String,
    remark: String,
    collection: Collection,
    /// Of the dead, true: they are no neighbours any more.
    dead: Vec<bool>,
    _db: Database,
}

impl<'a> Ours<'a> {
    /// Loads all vectors and looks at what that leaves, without waiting for merges.
    pub(crate) fn loaded(data: &'a Neighbours, path: &Path, m: u16, efc: u32) -> Result<Ours<'a>, Failure> {
        let _ = std::fs::remove_dir_all(path);
        let begun = Instant::now();
        load(data, path, m, efc, |document, _| document)?.close()?;
        let remark = format!("loaded in {:.1} s", begun.elapsed().as_secs_f64());
        Ours::open(data, path, "loaded", m, remark, IoMode::Mmap)
    }

    /// Loads all vectors and waits until nothing is due in the background any more.
    pub(crate) fn settled(data: &'a Neighbours, path: &Path, m: u16, efc: u32) -> Result<Ours<'a>, Failure> {
        let _ = std::fs::remove_dir_all(path);
        let db = load(data, path, m, efc, |document, _| document)?;
        db.checkpoint()?;
        let begun = Instant::now();
        db.merge()?;
        let segments = db.snapshot().collection("main")?.stats()?.segments;
        let remark = format!("merges that were due took {:.1} s and left {segments} segments", begun.elapsed().as_secs_f64());
        db.close()?;
        Ours::open(data, path, "settled", m, remark, IoMode::Mmap)
    }

    /// Loads and compacts, unless that was done before.
    pub(crate) fn compacted(data: &'a Neighbours, path: &Path, m: u16, efc: u32) -> Result<Ours<'a>, Failure> {
        let mut remark = "kept from an earlier run".to_string();
        if !path.join("HEAD").exists() {
            let db = load(data, path, m, efc, |document, _| document)?;
            let begun = Instant::now();
            db.compact()?;
            remark = format!("compacted in {:.1} s", begun.elapsed().as_secs_f64());
            db.close()?;
        }
        let bytes: u64 = std::fs::read_dir(path)?.filter_map(|e| Some(e.ok()?.metadata().ok()?.len())).sum();
        let raw = (data.base.len() * 4) as f64;
        let remark = format!("{remark}, {bytes} bytes on disk, {:.3}x the raw vectors", bytes as f64 / raw);
        Ours::open(data, path, "compacted", m, remark, IoMode::Mmap)
    }

    /// What a builder made.
    pub(crate) fn built(data: &'a Neighbours, path: &Path, m: u16) -> Result<Ours<'a>, Failure> {
        Ours::open(data, path, "built", m, String::new(), IoMode::Mmap)
    }

    /// The same database, links and codes in memory of their own.
    pub(crate) fn pinned(data: &'a Neighbours, path: &Path, m: u16) -> Result<Ours<'a>, Failure> {
        Ours::open(data, path, "pinned", m, String::new(), IoMode::Pinned)
    }

    /// A copy of the database of which every tenth document was deleted since.
    pub(crate) fn with_dead(data: &'a Neighbours, path: &Path, m: u16) -> Result<Ours<'a>, Failure> {
        let copy = path.with_extension("dead");
        let _ = std::fs::remove_dir_all(&copy);
        std::fs::create_dir(&copy)?;
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            std::fs::copy(entry.path(), copy.join(entry.file_name()))?;
        }
        let db = Database::open_with(triune_directory(&copy)?, quiet())?;
        db.delete("main", (0..data.points()).step_by(10).map(|i| i.to_string()).collect::<Vec<_>>())?;
        db.checkpoint()?;
        drop(db);
        let mut side = Ours::open(data, &copy, "a tenth dead", m, String::new(), IoMode::Mmap)?;
        side.dead = (0..data.points()).map(|i| i.is_multiple_of(10)).collect();
        Ok(side)
    }

    fn open(data: &'a Neighbours, path: &Path, name: &str, m: u16, remark: String, io_mode: IoMode) -> Result<Ours<'a>, Failure> {
        let db = Database::open_read_only_with(triune_directory(path)?, Options { io_mode, ..Options::default() })?;
        let collection = db.snapshot().collection("main")?;
        // What is touched first is checked first; that is not what is measured.
        data.queries.iter().try_for_each(|query| collection.nearest_with(query, None, K, Effort::Ef(64)).map(drop))?;
        Ok(Ours { data, name: format!("{name} M{m}"), remark, collection, dead: Vec::new(), _db: db })
    }
}

pub(crate) fn quiet() -> Options {
    Options { background: false, ..Options::default() }
}

pub(crate) fn triune_directory(path: &Path) -> Result<std::sync::Arc<dyn triune::io::Directory>, Failure> {
    Ok(std::sync::Arc::new(triune::io::FsDirectory::open(path)?))
}

/// A new database with all vectors.
pub(crate) fn load(
    data: &Neighbours,
    path: &Path,
    m: u16,
    efc: u32,
    with: impl Fn(Document, usize) -> Document,
) -> Result<Database, Failure> {
    let db = Database::create(path)?;
    let hnsw = Hnsw { m, ef_construction: efc, ..Hnsw::default() };
    db.create_collection("main", Schema { dimension: Some(data.dimension as u32), hnsw, ..Schema::default() })?;
    for begin in (0..data.points()).step_by(BATCH) {
        let document = |i: usize| with(Document::new(i.to_string()).vector(data.row(i).to_vec()), i);
        db.put("main", (begin..data.points().min(begin + BATCH)).map(document).collect::<Vec<_>>())?;
    }
    Ok(db)
}

impl Side for Ours<'_> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn peer(&self) -> Option<String> {
        None
    }

    fn widths(&self) -> Vec<usize> {
        vec![10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768]
    }

    fn remark(&self) -> String {
        self.remark.clone()
    }

    fn pass(&mut self, ef: usize) -> Result<(f64, f64), Failure> {
        let (mut found, mut there, mut took) = (0, 0, 0.0);
        for (query, truth) in self.data.queries.iter().zip(&self.data.truth) {
            let begun = Instant::now();
            let hits = self.collection.nearest_with(query, None, K, Effort::Ef(ef))?;
            took += begun.elapsed().as_secs_f64();
            let truth: Vec<u32> = truth.iter().copied().filter(|&t| self.dead.get(t as usize) != Some(&true)).collect();
            for hit in &hits {
                let id: u32 = self.collection.id_of(hit)?.parse()?;
                found += usize::from(truth.contains(&id));
            }
            there += truth.len();
        }
        Ok((found as f64 / there as f64, took * 1e6 / self.data.queries.len() as f64))
    }
}

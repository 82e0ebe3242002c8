//! Segments as the engine holds them: an open file, and a handle that reads its rooms at first use.

use crate::docstore::RowsReader;
use crate::error::{Error, Result};
use crate::format::manifest::SegmentEntry;
use crate::graph::GraphReader;
use crate::ids::{Lsn, Seq, Uuid};
use crate::io::names::FileName;
use crate::io::{Bytes, Directory, File};
use crate::memtable::deaths::{DeathLog, DeathMap};
use crate::memtable::{Analysis, Totals};
use crate::metadata::{MetadataIndex, MetadataReader};
use crate::options::{AnalyzerKind, Components, IoMode, limits};
use crate::segment::SegmentReader;
use crate::text::TextReader;
use crate::tombstones::{TombstonesPart, TombstonesReader};
use crate::vector::VectorsReader;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, OnceLock};

/// An open, sealed file of segments. While a snapshot holds it, its bytes stay readable even after the name is gone.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub(crate) number: u64,
    name: String,
    /// Its bytes when it was opened; it is never written again.
    pub(crate) length: u64,
    access: Access,
    /// Whether vector graphs in it are to be copied into memory.
    pinned: bool,
}

/// How the file is read. A mapping needs no descriptor: many files do not use them up.
#[derive(Debug)]
enum Access {
    Mapped(Bytes),
    Read(Arc<dyn File>),
}

impl SegmentFile {
    /// Opens the file, and maps it when `mode` says so.
    pub(crate) fn open(dir: &dyn Directory, number: u64, mode: IoMode) -> Result<Arc<SegmentFile>> {
        let name = FileName::Segments(number).to_string();
        let handle = open_named(dir, &name)?;
        let length = handle.len().map_err(|e| Error::io(format!("reading the length of {name}"), e))?;
        let access = match mode {
            IoMode::Mmap | IoMode::Pinned => Access::Mapped(handle.map(length).map_err(|e| Error::io(format!("mapping {name}"), e))?),
            IoMode::Pread => Access::Read(handle),
        };
        Ok(Arc::new(SegmentFile { number, name, length, access, pinned: mode == IoMode::Pinned }))
    }
}

/// The files that a version names, each opened once however many segments lie in it.
#[derive(Debug)]
pub(crate) struct OpenFiles<'a> {
    dir: &'a dyn Directory,
    database: Uuid,
    mode: IoMode,
    segments: BTreeMap<u64, Arc<SegmentFile>>,
    tombstones: BTreeMap<u64, Arc<TombstonesReader>>,
}

impl<'a> OpenFiles<'a> {
    /// None is open yet.
    pub(crate) fn new(dir: &'a dyn Directory, database: Uuid, mode: IoMode) -> OpenFiles<'a> {
        OpenFiles { dir, database, mode, segments: BTreeMap::new(), tombstones: BTreeMap::new() }
    }

    /// A handle on the segment `entry` of a collection that stores `components`, over files that are opened when this is the first to need them.
    pub(crate) fn handle(&mut self, entry: &SegmentEntry, components: Components, landed: Lsn, applied: Lsn) -> Result<Arc<SegmentHandle>> {
        let file = match self.segments.entry(entry.file) {
            Entry::Occupied(open) => open.get().clone(),
            Entry::Vacant(slot) => slot.insert(SegmentFile::open(self.dir, entry.file, self.mode)?).clone(),
        };
        let tombstones = match &entry.tombstones {
            None => None,
            Some(t) => Some(match self.tombstones.entry(t.file) {
                Entry::Occupied(open) => open.get().clone(),
                Entry::Vacant(slot) => slot.insert(Arc::new(TombstonesReader::open(self.dir, self.database, t.file)?)).clone(),
            }),
        };
        Ok(SegmentHandle::new(self.database, file, tombstones, entry.clone(), components, landed, applied))
    }
}

/// Opens a file that the state on disk names: its absence is damage.
pub(crate) fn open_named(dir: &dyn Directory, name: &str) -> Result<Arc<dyn File>> {
    dir.open(name).map_err(|e| {
        if e.kind() == std::io::ErrorKind::NotFound {
            return Error::corrupt(name, 0, "the file is missing, and the committed state names it");
        }
        Error::io(format!("opening {name}"), e)
    })
}

/// What the rooms of one segment read.
#[derive(Debug)]
pub(crate) struct Rooms {
    pub(crate) rows: RowsReader,
    pub(crate) text: Option<TextReader>,
    pub(crate) vectors: Option<VectorsReader>,
    pub(crate) metadata: Option<MetadataReader>,
    pub(crate) graph: Option<GraphReader>,
    /// Which rows died, and when.
    pub(crate) deaths: DeathMap,
    /// Dead document frequencies as of the stored tombstones: term ordinal and count, ordinals ascending.
    pub(crate) dead_frequencies: Vec<(u32, u32)>,
}

impl Rooms {
    /// The rows that died at or before `lsn`.
    pub(crate) fn dead(&self, lsn: Lsn) -> RoaringBitmap {
        let mut dead = RoaringBitmap::new();
        self.deaths.for_each(lsn, |row, _| {
            dead.insert(row);
        });
        dead
    }
}

/// One segment of a collection. The same handle serves every version that names it, so a death is recorded once.
#[derive(Debug)]
pub(crate) struct SegmentHandle {
    pub(crate) entry: SegmentEntry,
    /// How the schema of its collection says that vectors are stored.
    components: Components,
    /// The commit that landed it; 0 when the manifest named it.
    pub(crate) landed: Lsn,
    /// The lsn of the deaths in its stored tombstones.
    applied: Lsn,
    database: Uuid,
    file: Arc<SegmentFile>,
    /// The file that holds its stored tombstones, open from the start so that nobody can pull it away.
    tombstones: Option<Arc<TombstonesReader>>,
    rooms: OnceLock<Rooms>,
    /// Deaths after `applied`, in commit order.
    pub(crate) log: DeathLog,
}

impl SegmentHandle {
    /// A handle on the segment `entry` of an open file, with the open file of its stored tombstones. Nothing of it is read yet.
    pub(crate) fn new(
        database: Uuid,
        file: Arc<SegmentFile>,
        tombstones: Option<Arc<TombstonesReader>>,
        entry: SegmentEntry,
        components: Components,
        landed: Lsn,
        applied: Lsn,
    ) -> Arc<SegmentHandle> {
        debug_assert_eq!(tombstones.is_some(), entry.tombstones.is_some(), "stored tombstones lie in an open file");
        let (rooms, log) = (OnceLock::new(), DeathLog::default());
        Arc::new(SegmentHandle { entry, components, landed, applied, database, file, tombstones, rooms, log })
    }

    /// The file it lies in.
    pub(crate) fn file(&self) -> &Arc<SegmentFile> {
        &self.file
    }

    /// Rows of the segment, dead ones included.
    pub(crate) fn rows(&self) -> u32 {
        u32::try_from(self.entry.rows).unwrap_or(u32::MAX)
    }

    /// The rows that its stored tombstones name.
    pub(crate) fn stored_dead(&self, rooms: &Rooms) -> RoaringBitmap {
        rooms.dead(self.applied)
    }

    /// Its rooms, opened and held against the manifest at first use.
    pub(crate) fn rooms(&self) -> Result<&Rooms> {
        if let Some(rooms) = self.rooms.get() {
            return Ok(rooms);
        }
        let opened = self.open_rooms()?;
        // When two threads open at once, one result is kept; nobody recorded a death in the other, since deaths go through this call.
        Ok(self.rooms.get_or_init(|| opened))
    }

    fn open_rooms(&self) -> Result<Rooms> {
        let e = &self.entry;
        let reader = match &self.file.access {
            Access::Mapped(bytes) => SegmentReader::open_mapped(bytes, &self.file.name, self.database, e.offset, e.length, e.crc)?,
            Access::Read(file) => SegmentReader::open_pread(file.clone(), &self.file.name, self.database, e.offset, e.length, e.crc)?,
        };
        let rows = RowsReader::open(&reader, e.base_seq)?;
        let differs = |what: &str, expected: u64, found: u64| {
            Err(Error::corrupt(&self.file.name, e.offset, format!("the segment has {found} {what}, the manifest says {expected}")))
        };
        if u64::from(rows.rows()) != e.rows || e.rows > limits::SEGMENT_ROWS_MAX {
            return differs("rows", e.rows, u64::from(rows.rows()));
        }
        let vectors = VectorsReader::open_pinned(&reader, self.file.pinned)?;
        let count = vectors.as_ref().map_or(0, |v| u64::from(v.count()));
        if count != e.vectors {
            return differs("vectors", e.vectors, count);
        }
        if let Some(v) = &vectors {
            v.check_components(self.components)?;
            if v.rows() != rows.rows() {
                return differs("rows by its vectors", e.rows, u64::from(v.rows()));
            }
        }
        let text = TextReader::open(&reader)?;
        if let Some(t) = &text
            && (t.documents() != rows.rows() || t.tokens() != e.tokens)
        {
            return differs("tokens", e.tokens, t.tokens());
        }
        let deaths = DeathMap::new(rows.rows());
        let mut dead_frequencies = Vec::new();
        if let (Some(t), Some(file)) = (&e.tombstones, &self.tombstones) {
            let part = TombstonesPart { offset: t.offset, length: t.length, crc: t.crc };
            let (dead, frequencies) = file.tombstones(part, rows.rows())?;
            if dead.len() != t.dead {
                let name = FileName::Tombstones(t.file).to_string();
                return Err(Error::corrupt(name, t.offset, format!("{} rows are dead here, the manifest says {}", dead.len(), t.dead)));
            }
            dead.iter().for_each(|row| deaths.set(row, self.applied.0));
            dead_frequencies = frequencies;
        }
        let metadata = MetadataReader::open(&reader)?;
        let graph = GraphReader::open(&reader)?;
        let indexed = [metadata.as_ref().map(MetadataIndex::rows), graph.as_ref().map(GraphReader::rows)];
        if let Some(found) = indexed.into_iter().flatten().find(|found| *found != rows.rows()) {
            return differs("rows by its indexes", e.rows, u64::from(found));
        }
        Ok(Rooms { rows, text, vectors, metadata, graph, deaths, dead_frequencies })
    }

    /// Bytes of its vector graph that were copied into memory of their own. Opens nothing.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.rooms.get().and_then(|rooms| rooms.vectors.as_ref()).map_or(0, |vectors| vectors.bytes().pinned)
    }

    /// What one row adds to the totals.
    pub(crate) fn row_totals(&self, row: u32) -> Result<Totals> {
        let tokens = self.rooms()?.text.as_ref().map_or(Ok(0), |t| t.length(row))?;
        self.row_totals_with(row, tokens)
    }

    /// As [`SegmentHandle::row_totals`], from the text of the row instead of its stored length.
    pub(crate) fn row_totals_of_text(&self, row: u32, analyzer: AnalyzerKind) -> Result<Totals> {
        let rooms = self.rooms()?;
        let tokens = match &rooms.text {
            Some(_) => Analysis::of_text(analyzer, &rooms.rows.scanner().document(row)?.text).tokens,
            None => 0,
        };
        self.row_totals_with(row, tokens)
    }

    fn row_totals_with(&self, row: u32, tokens: u32) -> Result<Totals> {
        let vectors = match &self.rooms()?.vectors {
            Some(v) => v.contains(row)?,
            None => false,
        };
        Ok(Totals { documents: 1, tokens: u64::from(tokens), vectors: u64::from(vectors) })
    }

    /// Lets a row die at `lsn`. For one thread at a time; `of` is the row's share of the totals.
    pub(crate) fn kill(&self, row: u32, lsn: Lsn, of: Totals) -> Result<()> {
        self.rooms()?.deaths.set(row, lsn.0);
        self.log.push(lsn, row, of);
        Ok(())
    }

    /// Takes back every death at or after `lsn`, none of which was published.
    pub(crate) fn undo_from(&self, lsn: Lsn) -> Result<()> {
        let rooms = self.rooms()?;
        for row in self.log.rows_between(Lsn(lsn.0.saturating_sub(1)), Lsn(u64::MAX)) {
            rooms.deaths.set(row, crate::memtable::deaths::ALIVE);
        }
        self.log.undo_from(lsn);
        Ok(())
    }

    /// The row that holds `id` at `lsn`.
    pub(crate) fn find(&self, id: &str, lsn: Lsn) -> Result<Option<u32>> {
        let rooms = self.rooms()?;
        let mut found = None;
        rooms.rows.find_all(id, |row| {
            if rooms.deaths.lives(row, lsn) {
                found = Some(row);
            }
            Ok(found.is_some())
        })?;
        Ok(found)
    }

    /// The row of a seq, if the segment's range holds it.
    pub(crate) fn row_of_seq(&self, seq: Seq) -> Result<Option<u32>> {
        if seq < self.entry.base_seq || seq > self.entry.last_seq {
            return Ok(None);
        }
        self.rooms()?.rows.row_of_seq(seq)
    }
}

//! Reads the vectors of one segment.

use super::ann::{Searchers, StoredGraph};
use super::components::StoredComponents;
use super::kernel;
use super::query::QueryVector;
use crate::error::{Error, Result};
use crate::format::error::FormatError;
use crate::format::segment::SectionKind;
use crate::format::vectors::{INVERSE_NORM_BYTES, VectorsShape, check_rows, view_inverse_norms, view_rows};
use crate::options::{Components, Metric};
use crate::segment::{Section, SegmentReader};
use roaring::RoaringBitmap;
use std::borrow::Cow;
use std::ops::{AddAssign, Range};
use std::sync::{Arc, OnceLock};
use zerocopy::little_endian::U32;

/// Bytes of vectors that are read at once: large enough to make a system call cheap, small enough to stay in a processor's cache.
const PIECE_BYTES: u64 = 1 << 20;
/// The most adjacent rows that are scored by one call.
const RUN_ROWS: usize = 64;

/// Bytes that vectors and vector graphs take, by what they are. All but `pinned` lie in files, of which the operating system keeps in memory
/// what is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VectorBytes {
    /// The vectors, their norms and which rows they belong to.
    pub vectors: u64,
    /// How many graphs there are.
    pub graphs: u64,
    /// Links of the graphs.
    pub links: u64,
    /// Codes that the graphs are walked by.
    pub codes: u64,
    /// Those of links and codes that were copied into memory of their own so far, as [`crate::options::IoMode::Pinned`] does, and
    /// [`crate::options::IoMode::Pread`] has to.
    pub pinned: u64,
}

impl AddAssign for VectorBytes {
    fn add_assign(&mut self, other: VectorBytes) {
        self.vectors += other.vectors;
        self.graphs += other.graphs;
        self.links += other.links;
        self.codes += other.codes;
        self.pinned += other.pinned;
    }
}

/// The vectors of one open segment. Cheap to clone; `Send + Sync`. Vectors lie at positions, in ascending order of their rows.
#[derive(Debug, Clone)]
pub struct VectorsReader {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shape: VectorsShape,
    /// Rows of the segment, those without a vector included.
    rows: u32,
    vectors: Section,
    vector_rows: Option<Section>,
    /// Set once the rows were found ascending and in bounds.
    rows_checked: OnceLock<()>,
    /// Missing only in a segment that lost its derived sections; or why they cannot be used.
    norms: Option<Result<Section>>,
    /// Whether links and codes are copied into memory of their own.
    pinned: bool,
    segment: SegmentReader,
    /// Opened when it is first asked for; `Some(None)` when there is none.
    graph: OnceLock<Option<StoredGraph>>,
    searchers: Searchers,
}

impl VectorsReader {
    /// Opens the vectors of a segment; `None` when it has none. O(1): what is in the sections is checked when it is first touched.
    pub fn open(segment: &SegmentReader) -> Result<Option<VectorsReader>> {
        VectorsReader::open_pinned(segment, false)
    }

    /// The same; `pinned` says whether links and codes of a graph are to lie in memory of their own.
    pub fn open_pinned(segment: &SegmentReader, pinned: bool) -> Result<Option<VectorsReader>> {
        let Some(vectors) = segment.section(SectionKind::Vectors) else { return Ok(None) };
        let shape = VectorsShape::decode(vectors.items(), vectors.aux(), vectors.len()).map_err(|e| located(&vectors, e))?;
        let vector_rows = segment.section(SectionKind::VectorRows);
        let rows = match &vector_rows {
            Some(s) => shape.decode_rows_entry(s.items(), s.aux(), s.len()).map_err(|e| located(s, e))?,
            None => shape.count,
        };
        let norms = segment.section(SectionKind::VectorNorms).map(|s| match shape.decode_norms_entry(s.items(), s.len()) {
            Ok(_) => Ok(s),
            Err(e) => Err(located(&s, e)),
        });
        let (rows_checked, segment) = (OnceLock::new(), segment.clone());
        let (graph, searchers) = (OnceLock::new(), Searchers::default());
        let inner = Inner { shape, rows, vectors, vector_rows, rows_checked, norms, pinned, segment, graph, searchers };
        Ok(Some(VectorsReader { inner: Arc::new(inner) }))
    }

    /// Components of every vector.
    pub fn dimension(&self) -> u32 {
        self.inner.shape.dimension
    }

    /// How many there are, and what each of them is made of.
    pub(crate) fn shape(&self) -> VectorsShape {
        self.inner.shape
    }

    /// How components are stored. Of no vectors it cannot be told, and is f32.
    pub fn components(&self) -> Components {
        self.inner.shape.components
    }

    /// Refuses vectors that are stored otherwise than the schema of their collection says.
    pub fn check_components(&self, schema: Components) -> Result<()> {
        let VectorsShape { count, components, .. } = self.inner.shape;
        if count == 0 || components == schema {
            return Ok(());
        }
        let what = format!("components of {} bytes ({components}) are here, the schema says {schema}", components.bytes());
        Err(self.inner.vectors.corrupt(0, what))
    }

    /// How many rows have a vector, dead ones included.
    pub fn count(&self) -> u32 {
        self.inner.shape.count
    }

    /// Rows of the segment as the vectors know it; whoever opened the segment's documents compares the two.
    pub fn rows(&self) -> u32 {
        self.inner.rows
    }

    /// Whether `row` has a vector. O(log count), O(1) when every row has one.
    pub fn contains(&self, row: u32) -> Result<bool> {
        Ok(self.positions()?.position(row).is_some())
    }

    /// The vector of `row`, as it was stored; `None` when it has none.
    pub fn get(&self, row: u32) -> Result<Option<Cow<'_, [f32]>>> {
        let Some(position) = self.positions()?.position(row) else { return Ok(None) };
        Ok(Some(match self.vector_bytes(position..position + 1)? {
            Cow::Borrowed(bytes) => self.view(bytes).all(),
            Cow::Owned(bytes) => Cow::Owned(self.view(&bytes).all().into_owned()),
        }))
    }

    /// The score of the vector of `row`, the same bits as [`VectorsReader::scan`] gives; `None` when it has none.
    pub fn score(&self, query: &QueryVector, row: u32) -> Result<Option<f64>> {
        self.check_dimension(query)?;
        let Some(position) = self.positions()?.position(row) else { return Ok(None) };
        let bytes = self.vector_bytes(position..position + 1)?;
        let norm_bytes = self.norm_bytes(query, position..position + 1)?;
        let norms = view_inverse_norms(&norm_bytes).map_err(|e| located(&self.inner.vectors, e))?;
        let inverse_norm = norms.first().map_or(0.0, |norm| norm.get());
        Ok(Some(self.view(&bytes).with_all(|vector| query.score(vector, inverse_norm))))
    }

    /// Calls `read` with the vector at a position, below [`VectorsReader::count`], and its inverse norm, which is 0 where the metric needs none.
    pub(super) fn at<T>(&self, position: u32, metric: Metric, read: impl FnOnce(&[f32], f64) -> T) -> Result<T> {
        let bytes = self.vector_bytes(position..position + 1)?;
        let norm = if metric == Metric::Cosine { self.inverse_norm(position)? } else { 0.0 };
        Ok(self.view(&bytes).with_all(|vector| read(vector, norm)))
    }

    /// Asks for what [`VectorsReader::at`] will read. Changes nothing but time.
    pub(super) fn fetch(&self, position: u32) {
        let position = u64::from(position);
        let bytes = self.inner.shape.vector_bytes();
        kernel::walk::fetch(self.inner.vectors.ahead(position * bytes..(position + 1) * bytes));
        if let Some(Ok(norms)) = &self.inner.norms {
            kernel::walk::fetch(norms.ahead(position * INVERSE_NORM_BYTES..(position + 1) * INVERSE_NORM_BYTES));
        }
    }

    /// The row of the vector at a position.
    pub(crate) fn row_at(&self, position: u32) -> Result<u32> {
        Ok(self.positions()?.row(position))
    }

    /// Calls `sink` with the positions of those of `rows` that have a vector, ascending. O(rows), or O(rows log count) when not all rows have one.
    pub(super) fn for_each_position(&self, rows: &RoaringBitmap, mut sink: impl FnMut(u32)) -> Result<()> {
        let positions = self.positions()?;
        rows.iter().filter_map(|row| positions.position(row)).for_each(&mut sink);
        Ok(())
    }

    /// The graph over the vectors, if the segment has one; `metric` is that of the collection, for which it was built.
    pub fn graph(&self, metric: Metric) -> Result<Option<&StoredGraph>> {
        let Inner { segment, shape, graph, pinned, .. } = &*self.inner;
        if let Some(graph) = graph.get() {
            return Ok(graph.as_ref());
        }
        let opened = StoredGraph::open(segment, *shape, metric, *pinned)?;
        Ok(graph.get_or_init(|| opened).as_ref())
    }

    /// Whether the segment has a graph. O(sections).
    pub fn has_graph(&self) -> bool {
        self.inner.segment.section(SectionKind::VectorGraph).is_some()
    }

    /// What is stored of vectors, links and codes, and what of it was copied into memory so far. Opens nothing.
    pub fn bytes(&self) -> VectorBytes {
        let Inner { segment, vectors, vector_rows, norms, graph, .. } = &*self.inner;
        let stored = |kind| segment.section(kind).map_or(0, |s| s.len());
        let norms = norms.as_ref().and_then(|norms| norms.as_ref().ok());
        let small = [vector_rows.as_ref(), norms].into_iter().flatten().map(Section::len).sum::<u64>();
        VectorBytes {
            vectors: vectors.len() + small,
            graphs: u64::from(self.has_graph()),
            links: stored(SectionKind::VectorGraph),
            codes: stored(SectionKind::VectorCodes),
            pinned: graph.get().and_then(Option::as_ref).map_or(0, |graph| graph.bytes().pinned),
        }
    }

    /// What searches of the graph keep from one to the next.
    pub(super) fn searchers(&self) -> &Searchers {
        &self.inner.searchers
    }

    fn inverse_norm(&self, position: u32) -> Result<f64> {
        let bytes = self.norms()?.read(u64::from(position) * INVERSE_NORM_BYTES..u64::from(position + 1) * INVERSE_NORM_BYTES)?;
        Ok(bytes.first_chunk::<8>().map_or(0.0, |b| f64::from_le_bytes(*b)))
    }

    /// Scores every vector whose row `live` accepts, in ascending order of rows. `live` may be asked about a row more than once.
    ///
    /// Vectors are read in pieces of about 1 MiB, from the first to the last live one of each; nothing is allocated per row.
    /// O(count of live vectors x dimension + count).
    pub fn scan(&self, query: &QueryVector, live: impl Fn(u32) -> bool, mut sink: impl FnMut(u32, f64)) -> Result<()> {
        self.check_dimension(query)?;
        let (positions, mut widened) = (self.positions()?, Vec::new());
        for piece in self.pieces() {
            let mut span = piece;
            let Some(first) = span.find(|&p| live(positions.row(p))) else { continue };
            let last = span.rfind(|&p| live(positions.row(p))).unwrap_or(first);
            self.scan_span(query, positions, first..last + 1, &live, &mut sink, &mut widened)?;
        }
        Ok(())
    }

    /// Every row that has a vector, with it, in ascending order: what a merge copies. Stops at the first error of `sink`.
    pub fn for_each(&self, mut sink: impl FnMut(u32, &[f32]) -> Result<()>) -> Result<()> {
        let (positions, dimension, mut widened) = (self.positions()?, self.dimension() as usize, Vec::new());
        for piece in self.pieces() {
            let bytes = self.vector_bytes(piece.clone())?;
            let components = self.view(&bytes);
            for (i, position) in piece.enumerate() {
                sink(positions.row(position), components.get(i * dimension..(i + 1) * dimension, &mut widened))?;
            }
        }
        Ok(())
    }

    /// Scores the live vectors at the positions of `span`, run by run of adjacent ones. Those that are to be widened are in `widened`, a run at
    /// a time.
    fn scan_span(
        &self,
        query: &QueryVector,
        positions: Positions<'_>,
        span: Range<u32>,
        live: &impl Fn(u32) -> bool,
        sink: &mut impl FnMut(u32, f64),
        widened: &mut Vec<f32>,
    ) -> Result<()> {
        let bytes = self.vector_bytes(span.clone())?;
        let components = self.view(&bytes);
        let norm_bytes = self.norm_bytes(query, span.clone())?;
        let norms = view_inverse_norms(&norm_bytes).map_err(|e| located(&self.inner.vectors, e))?;
        let dimension = self.dimension() as usize;
        let is_live = |at: usize| live(positions.row(span.start + at as u32));
        let mut scores = [0.0; RUN_ROWS];
        let mut at = 0;
        while at < span.len() {
            // Every `at` before the run's end is live: a run is as long as it gets, up to what `scores` holds.
            let longest = RUN_ROWS.min(span.len() - at);
            let run = (0..longest).find(|i| !is_live(at + i)).unwrap_or(longest);
            let scores = &mut scores[..run];
            let vectors = components.get(at * dimension..(at + run) * dimension, widened);
            query.score_rows(vectors, |i| norms[at + i].get(), scores);
            for (i, score) in scores.iter().enumerate() {
                sink(positions.row(span.start + (at + i) as u32), *score);
            }
            // The row that ended a run short of the longest is dead, and was asked about just now.
            at += if run < longest { run + 1 } else { run };
        }
        Ok(())
    }

    /// The positions, cut so that each piece has about [`PIECE_BYTES`].
    fn pieces(&self) -> impl Iterator<Item = Range<u32>> {
        let VectorsShape { count, .. } = self.inner.shape;
        let step = (PIECE_BYTES / self.inner.shape.vector_bytes()).max(1) as u32;
        (0..count.div_ceil(step)).map(move |i| i * step..count.min((i + 1).saturating_mul(step)))
    }

    /// Whether there are inverse norms, one a vector, as far as the section table says.
    pub(crate) fn check_norms(&self) -> Result<()> {
        self.norms().map(drop)
    }

    fn norms(&self) -> Result<&Section> {
        match &self.inner.norms {
            Some(norms) => norms.as_ref().map_err(Error::duplicate),
            None => Err(self.inner.vectors.corrupt(0, "the segment has no VectorNorms section")),
        }
    }

    /// Damage: `row` has a vector with a component that is no finite number.
    pub(crate) fn not_finite(&self, row: u32) -> Error {
        self.inner.vectors.corrupt(0, format!("the vector of row {row} has a component that is not finite"))
    }

    fn view<'a>(&self, bytes: &'a [u8]) -> StoredComponents<'a> {
        StoredComponents::new(self.inner.shape, bytes)
    }

    fn vector_bytes(&self, positions: Range<u32>) -> Result<Cow<'_, [u8]>> {
        let bytes = self.inner.shape.vector_bytes();
        self.inner.vectors.read(u64::from(positions.start) * bytes..u64::from(positions.end) * bytes)
    }

    /// The inverse norms at `positions` when the query's metric needs them, else nothing.
    fn norm_bytes(&self, query: &QueryVector, positions: Range<u32>) -> Result<Cow<'_, [u8]>> {
        if !query.needs_norms() {
            return Ok(Cow::Borrowed(&[]));
        }
        self.norms()?.read(u64::from(positions.start) * INVERSE_NORM_BYTES..u64::from(positions.end) * INVERSE_NORM_BYTES)
    }

    /// Which row lies at which position. Checks the rows at first use.
    fn positions(&self) -> Result<Positions<'_>> {
        let Inner { vector_rows, rows, rows_checked, shape, .. } = &*self.inner;
        let Some(section) = vector_rows else { return Ok(Positions::All(shape.count)) };
        let vector_rows = view_rows(section.whole()?).map_err(|e| located(section, e))?;
        if rows_checked.get().is_none() {
            check_rows(vector_rows, *rows).map_err(|e| located(section, e))?;
            rows_checked.get_or_init(|| ());
        }
        Ok(Positions::Some(vector_rows))
    }

    pub(super) fn check_dimension(&self, query: &QueryVector) -> Result<()> {
        if query.dimension() == self.dimension() as usize {
            return Ok(());
        }
        Err(Error::SchemaMismatch(format!(
            "the query vector has {} components, the collection's vectors have {}. Make the query with the embedder that made them",
            query.dimension(),
            self.dimension()
        )))
    }
}

/// The rows that have a vector, by position.
#[derive(Debug, Clone, Copy)]
enum Positions<'a> {
    /// Every row of as many has one.
    All(u32),
    /// These have one, ascending.
    Some(&'a [U32]),
}

impl Positions<'_> {
    fn row(self, position: u32) -> u32 {
        match self {
            Positions::All(_) => position,
            Positions::Some(rows) => rows[position as usize].get(),
        }
    }

    fn position(self, row: u32) -> Option<u32> {
        match self {
            Positions::All(count) => (row < count).then_some(row),
            Positions::Some(rows) => rows.binary_search_by_key(&row, |r| r.get()).ok().map(|position| position as u32),
        }
    }
}

fn located(section: &Section, e: FormatError) -> Error {
    section.corrupt(e.offset, e.what)
}

//! The graph of an open segment: links, positions and codes where they lie.

use crate::error::{Error, Result};
use crate::format::error::FormatError;
use crate::format::segment::SectionKind;
use crate::format::vector_codes::{CodesShape, META_BYTES, MetaPlace, decode_tail};
use crate::format::vector_graph::{GraphShape, NO_LINK, VectorGraphHeader, view_numbers};
use crate::format::vectors::VectorsShape;
use crate::io::{Bytes, Usage};
use crate::options::Metric;
use crate::segment::{Region, Section, SegmentReader, is_set};
use crate::vector::hnsw::codes::Coder;
use crate::vector::hnsw::graph::Links;
use crate::vector::hnsw::images::Images;
use crate::vector::hnsw::sealed::Sealed;
use crate::vector::kernel;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use zerocopy::IntoBytes;

/// The vector graph of one open segment.
#[derive(Debug)]
pub struct StoredGraph {
    pub(super) shape: GraphShape,
    links: Region,
    /// Where the rows of each level start.
    level_starts: Vec<usize>,
    pub(super) codes: Option<StoredCodes>,
    pub(super) images: Images,
    /// By position, the node: made when a filter is first asked for.
    nodes: OnceLock<Vec<u32>>,
}

/// The codes of the nodes.
#[derive(Debug)]
pub(super) struct StoredCodes {
    pub(super) shape: CodesShape,
    pub(super) bytes: Region,
    pub(super) coder: Coder,
    /// The nodes whose rows were checked, by bits: one is asked for where four of blocks would be.
    known: Vec<AtomicU64>,
}

impl StoredCodes {
    /// Checks the rows of these nodes, and what belongs to them.
    #[inline]
    pub(super) fn admit(&self, nodes: &[u32]) -> Result<()> {
        // All are looked at without a branch on the way.
        if nodes.iter().fold(true, |all, &node| all & is_set(&self.known, node as usize)) { Ok(()) } else { self.check(nodes) }
    }

    #[cold]
    fn check(&self, nodes: &[u32]) -> Result<()> {
        self.bytes.admit_rows(nodes, 0, self.shape.stride)?;
        if self.shape.meta == MetaPlace::After {
            self.bytes.admit_rows(nodes, self.shape.rows_bytes() as usize, META_BYTES)?;
        }
        for &node in nodes {
            if let Some(word) = self.known.get(node as usize / 64) {
                word.fetch_or(1 << (node % 64), Ordering::Release);
            }
        }
        Ok(())
    }
}

/// Bytes that a graph occupies, by what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GraphBytes {
    /// Links and positions.
    pub links: u64,
    /// Codes.
    pub codes: u64,
    /// Those of both that were copied into memory of their own.
    pub pinned: u64,
}

impl StoredGraph {
    /// Opens the graph of a segment with these vectors; `None` when it has none. O(levels + dimension + nodes / 64), but in the mode that reads by system
    /// calls, where links and codes are read into memory.
    pub fn open(segment: &SegmentReader, vectors: VectorsShape, metric: Metric, pinned: bool) -> Result<Option<StoredGraph>> {
        let Some(section) = segment.section(SectionKind::VectorGraph) else { return Ok(None) };
        let at = |e: FormatError| located(&section, e);
        let header = section.read(0..section.len().min(size_of::<VectorGraphHeader>() as u64))?;
        let shape = GraphShape::decode(&header, section.items(), section.aux(), section.len(), vectors.count).map_err(at)?;
        let mut links = Region::open(section.clone())?;
        if pinned && !links.is_pinned() {
            links = links.pinned()?;
        }
        if view_numbers(&links.bytes()[shape.base_offset() as usize..]).is_none() {
            links = links.replaced(in_host_order(section.whole()?));
        }
        // Of both of them every query touches some page; of codes only those it meets.
        links.advise(Usage::Soon);
        let (codes, unit) = match segment.section(SectionKind::VectorCodes) {
            None => (None, 1.0),
            Some(section) => {
                let (codes, unit) = open_codes(section, vectors, metric, pinned)?;
                (Some(codes), unit)
            }
        };
        let level_starts = (0..shape.level_counts.len()).map(|level| shape.level_offset(level) as usize).collect();
        let images = Images::with_unit(metric, vectors.dimension, unit);
        Ok(Some(StoredGraph { shape, links, level_starts, codes, images, nodes: OnceLock::new() }))
    }

    /// What the header says.
    pub fn shape(&self) -> &GraphShape {
        &self.shape
    }

    /// Whether walks compare codes, and not the vectors themselves.
    pub fn has_codes(&self) -> bool {
        self.codes.is_some()
    }

    /// Bytes of links and codes.
    pub fn bytes(&self) -> GraphBytes {
        let regions = [Some(&self.links), self.codes.as_ref().map(|c| &c.bytes)].map(|r| r.map_or((0, false), |r| (r.bytes().len() as u64, r.is_pinned())));
        let pinned = regions.iter().filter(|(_, pinned)| *pinned).map(|(bytes, _)| bytes).sum();
        GraphBytes { links: regions[0].0, codes: regions[1].0, pinned }
    }

    /// The position of a node's vector.
    #[inline]
    pub(super) fn position(&self, node: u32) -> Result<u32> {
        let from = GraphShape::positions_offset() as usize + node as usize * 4;
        self.links.admit(from, from + 4)?;
        let position = view_numbers(&self.links.bytes()[from..from + 4]).map_or(u32::MAX, |p| p[0]);
        if position < self.shape.count() { Ok(position) } else { Err(self.beyond(from, "position", position)) }
    }

    /// Asks for what [`StoredGraph::position`] will read. Changes nothing but time.
    #[inline]
    pub(super) fn fetch_position(&self, node: u32) {
        let from = GraphShape::positions_offset() as usize + node as usize * 4;
        kernel::walk::fetch(self.links.bytes().get(from..from + 4).unwrap_or(&[]));
    }

    /// By position, the node. O(nodes) the first time.
    pub(super) fn nodes(&self) -> Result<&[u32]> {
        if let Some(nodes) = self.nodes.get() {
            return Ok(nodes);
        }
        let mut nodes = vec![NO_LINK; self.shape.count() as usize];
        for node in 0..self.shape.count() {
            let position = self.position(node)?;
            // As many nodes as positions: when none has two, each has one.
            if std::mem::replace(&mut nodes[position as usize], node) != NO_LINK {
                return Err(self.at_position_twice(position));
            }
        }
        Ok(self.nodes.get_or_init(|| nodes))
    }

    /// The row of a node on a level that it has, out of the bytes of all links.
    #[inline]
    fn row<'a>(&self, level: usize, node: u32, all: &'a [u8]) -> Result<&'a [u32]> {
        let bytes = self.shape.row_bytes(level);
        let from = self.level_starts[level] + node as usize * bytes;
        self.links.admit(from, from + bytes)?;
        Ok(view_numbers(&all[from..from + bytes]).unwrap_or(&[]))
    }

    fn beyond(&self, at: usize, what: &str, number: u32) -> Error {
        self.links.section().corrupt(at as u64, format!("{what} {number} of a graph of {} nodes", self.shape.count()))
    }

    /// Two nodes stand for the vector at one position.
    pub(super) fn at_position_twice(&self, position: u32) -> Error {
        self.beyond(GraphShape::positions_offset() as usize, "a second node at position", position)
    }

    /// The whole graph, every byte of it checked: what a merge begins with. O(links).
    pub fn to_sealed(&self) -> Result<Sealed> {
        let count = self.shape.count();
        let mut sealed = Sealed { m: self.shape.m, level_counts: self.shape.level_counts.clone(), ..Sealed::default() };
        let mut seen = vec![false; count as usize];
        for node in 0..count {
            let position = self.position(node)?;
            if std::mem::replace(&mut seen[position as usize], true) {
                return Err(self.beyond(GraphShape::positions_offset() as usize + node as usize * 4, "a second node at position", position));
            }
            sealed.points.push(position);
        }
        for (level, &nodes) in self.shape.level_counts.iter().enumerate() {
            let rows = if level == 0 { &mut sealed.base } else { &mut sealed.upper };
            for node in 0..nodes {
                let row = self.row(level, node, self.links.bytes())?;
                crate::format::vector_graph::check_row(node, row, nodes)
                    .map_err(|what| self.links.section().corrupt((self.level_starts[level] + node as usize * self.shape.row_bytes(level)) as u64, what))?;
                rows.extend_from_slice(row);
            }
        }
        Ok(sealed)
    }
}

fn open_codes(section: Section, vectors: VectorsShape, metric: Metric, pinned: bool) -> Result<(StoredCodes, f64)> {
    let at = |e: FormatError| located(&section, e);
    let shape = CodesShape::decode(vectors, metric, section.items(), section.aux(), section.len()).map_err(at)?;
    let tail = section.read(shape.unit_offset()..section.len())?;
    let (unit, centre) = decode_tail(&tail, shape).map_err(|e| section.corrupt(shape.unit_offset() + e.offset, e.what))?;
    drop(tail);
    let mut bytes = Region::open(section)?;
    if pinned && !bytes.is_pinned() {
        bytes = bytes.pinned()?;
    }
    bytes.advise(Usage::Random);
    let known = (0..shape.count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
    Ok((StoredCodes { shape, bytes, coder: Coder::new(metric, centre), known }, unit))
}

fn located(section: &Section, e: FormatError) -> Error {
    section.corrupt(e.offset, e.what)
}

/// The bytes of a section of numbers as this host holds numbers, aligned.
fn in_host_order(bytes: &[u8]) -> Bytes {
    struct Numbers(Vec<u32>);
    impl AsRef<[u8]> for Numbers {
        fn as_ref(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }
    Bytes::new(Numbers(bytes.as_chunks::<4>().0.iter().map(|n| u32::from_le_bytes(*n)).collect()))
}

/// The links of a stored graph for one query, and the first thing that went wrong on the way: a walk that meets damage ends early, and whoever
/// started it asks for [`Walked::failure`] before believing it.
#[derive(Debug)]
pub(super) struct Walked<'a> {
    pub(super) graph: &'a StoredGraph,
    /// Its links and positions, as they lie.
    bytes: &'a [u8],
    failure: OnceLock<Error>,
}

impl<'a> Walked<'a> {
    pub(super) fn new(graph: &'a StoredGraph) -> Walked<'a> {
        Walked { graph, bytes: graph.links.bytes(), failure: OnceLock::new() }
    }

    #[cold]
    pub(super) fn fail(&self, error: Error) {
        let _ = self.failure.set(error);
    }

    /// What went wrong, if anything did.
    pub(super) fn failure(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

impl Links for Walked<'_> {
    fn points(&self) -> usize {
        self.graph.shape.count() as usize
    }

    fn entry(&self) -> Option<(u32, usize)> {
        Some((0, self.graph.shape.level_counts.len() - 1))
    }

    fn row(&self, level: usize, node: u32) -> &[u32] {
        let row = self.unchecked(level, node);
        // The walk passes over such a link; the answer is not believed.
        let nodes = self.graph.shape.level_counts[level];
        if let Some(&link) = row.iter().find(|&&link| link >= nodes && link != NO_LINK) {
            self.fail(self.graph.beyond(self.graph.level_starts[level] + node as usize * self.graph.shape.row_bytes(level), "link", link));
            return &[];
        }
        row
    }

    #[inline]
    fn unchecked(&self, level: usize, node: u32) -> &[u32] {
        self.graph.row(level, node, self.bytes).unwrap_or_else(|e| {
            self.fail(e);
            &[]
        })
    }

    #[inline]
    fn fetch(&self, node: u32) {
        let bytes = self.graph.shape.row_bytes(0);
        let from = self.graph.level_starts[0] + node as usize * bytes;
        kernel::walk::fetch(self.bytes.get(from..from + bytes).unwrap_or(&[]));
    }
}

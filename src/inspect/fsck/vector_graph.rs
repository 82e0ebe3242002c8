//! Levels 2 and 3 of the vector graph of a segment: every position and every link against their rules, and a few walks against comparing all
//! vectors. Spec §12.7.
//!
//! What the header and the section table say was held against the bytes that are there before anything is allocated for it.

use super::check::{At, Progress};
use super::codes::FindingCode as Code;
use crate::error::Result;
use crate::format::segment::SectionKind;
use crate::format::vector_graph::{EF_LADDER, GraphShape, NO_LINK, VectorGraphHeader, check_row};
use crate::options::{Metric, Quantisation};
use crate::segment::{Section, SegmentReader};
use crate::vector::VectorsReader;
use crate::vector::hnsw::images::{Images, Vectors};
use crate::vector::hnsw::measure::spread;
use crate::vector::hnsw::space::ROUNDING;
use crate::vector::kernel;
use rustc_hash::FxHashSet;

/// Bytes of links, positions or codes that are read at once.
pub(super) const PIECE_BYTES: u64 = 1 << 20;
/// Nodes after which a check asks whether it shall go on.
pub(super) const NODES_PER_STEP: u32 = 1 << 16;
/// Members of the segment to which walks are made; and to how many when these find too little, which may be chance.
const MEMBERS: [u32; 2] = [32, 256];
/// The true neighbours that each walk should find.
const NEAREST: usize = 10;
/// The place of the width of these walks in the ladder: 64.
const WIDTH: usize = 4;
/// Walks that find this much less than the header says are a finding. The header has it from other, harder questions, compared by codes.
const FAR_BELOW: f64 = 0.2;

/// A graph whose every link is one that a writer may make.
pub(super) struct Graph {
    shape: GraphShape,
    links: Section,
    /// By node.
    positions: Vec<u32>,
}

/// Which of the two sections there are: codes beside a graph, exactly when the schema asks for them.
pub(super) fn presence(reader: &SegmentReader, quantisation: Quantisation, at: &mut At<'_>) {
    let [graph, codes] = [SectionKind::VectorGraph, SectionKind::VectorCodes].map(|kind| reader.section(kind).is_some());
    let wanted = quantisation == Quantisation::Sq7;
    let what = match (graph, codes) {
        (false, true) => "the segment has codes of a vector graph, and no graph".to_string(),
        (true, true) if !wanted => format!("the segment has codes, the schema's quantisation is {quantisation}"),
        (true, false) if wanted => format!("the segment has a vector graph and no codes, the schema's quantisation is {quantisation}"),
        _ => return,
    };
    at.note(Code::VectorGraph, Some(if codes { SectionKind::VectorCodes } else { SectionKind::VectorGraph }), 0, what);
}

impl Graph {
    /// The graph over these vectors, checked; `None` when the segment has none. O(links).
    pub(super) fn open(reader: &SegmentReader, vectors: &VectorsReader, progress: &mut Progress<'_>) -> Result<Option<Graph>> {
        let Some(links) = reader.section(SectionKind::VectorGraph) else { return Ok(None) };
        let header = links.read(0..links.len().min(size_of::<VectorGraphHeader>() as u64))?;
        let shape = GraphShape::decode(&header, links.items(), links.aux(), links.len(), vectors.count());
        let shape = shape.map_err(|e| links.corrupt(e.offset, e.what))?;
        drop(header);
        let mut graph = Graph { shape, links, positions: Vec::new() };
        graph.read_positions()?;
        for level in 0..graph.shape.level_counts.len() {
            graph.check_rows(level, progress)?;
        }
        graph.check_reachable(progress)?;
        Ok(Some(graph))
    }

    /// Every position stands once, and zeros follow.
    fn read_positions(&mut self) -> Result<()> {
        let (count, from) = (self.shape.count(), GraphShape::positions_offset());
        let mut seen = vec![false; count as usize];
        self.positions.reserve_exact(count as usize);
        let end = from + u64::from(count) * 4;
        for at in (from..end).step_by(PIECE_BYTES as usize) {
            for (i, position) in numbers(&self.links.read(at..end.min(at + PIECE_BYTES))?).enumerate() {
                let node = self.positions.len();
                let wrong = match seen.get_mut(position as usize).map(|seen| std::mem::replace(seen, true)) {
                    None => format!("node {node} has position {position} of {count}"),
                    Some(true) => format!("node {node} is the second one at position {position}"),
                    Some(false) => {
                        self.positions.push(position);
                        continue;
                    }
                };
                return Err(self.links.corrupt(at + i as u64 * 4, wrong));
            }
        }
        match self.links.read(end..self.shape.base_offset())?.iter().position(|&byte| byte != 0) {
            Some(i) => Err(self.links.corrupt(end + i as u64, "bytes after the positions are not zero")),
            None => Ok(()),
        }
    }

    /// Every row of a level is one that a writer may make.
    fn check_rows(&self, level: usize, progress: &mut Progress<'_>) -> Result<()> {
        let (nodes, bytes) = (self.shape.level_counts[level], self.shape.row_bytes(level));
        let (start, rows_at_once) = (self.shape.level_offset(level), (PIECE_BYTES / bytes as u64) as u32);
        let mut row = Vec::with_capacity(bytes / 4);
        for first in (0..nodes).step_by(rows_at_once as usize) {
            let [from, to] = [first, nodes.min(first.saturating_add(rows_at_once))].map(|node| start + u64::from(node) * bytes as u64);
            for (node, links) in (first..).zip(self.links.read(from..to)?.chunks_exact(bytes)) {
                row.clear();
                row.extend(numbers(links));
                let at = start + u64::from(node) * bytes as u64;
                check_row(node, &row, nodes).map_err(|what| self.links.corrupt(at, format!("level {level}: {what}")))?;
            }
            progress.add(0)?;
        }
        Ok(())
    }

    /// Links of level 0 lead from node 0 to every other one.
    fn check_reachable(&self, progress: &mut Progress<'_>) -> Result<()> {
        let mut reached = vec![false; self.shape.count() as usize];
        let (mut to_go, mut gone) = (vec![0], 0u32);
        reached[0] = true;
        while let Some(node) = to_go.pop() {
            gone += 1;
            if gone.is_multiple_of(NODES_PER_STEP) {
                progress.add(0)?;
            }
            to_go.extend(self.row(0, node)?.into_iter().filter(|&link| !std::mem::replace(&mut reached[link as usize], true)));
        }
        match reached.iter().position(|reached| !reached) {
            Some(node) => {
                let what = format!("no links of level 0 lead from node 0 to node {node}; {gone} of {} are reached", self.shape.count());
                Err(self.links.corrupt(self.shape.base_offset(), what))
            }
            None => Ok(()),
        }
    }

    /// The links of a node on a level that it has.
    fn row(&self, level: usize, node: u32) -> Result<Vec<u32>> {
        let bytes = self.shape.row_bytes(level) as u64;
        let from = self.shape.level_offset(level) + u64::from(node) * bytes;
        Ok(numbers(&self.links.read(from..from + bytes)?).take_while(|&link| link != NO_LINK).collect())
    }

    /// The node at every position.
    pub(super) fn nodes(&self) -> Vec<u32> {
        let mut nodes = vec![0; self.positions.len()];
        (0..).zip(&self.positions).for_each(|(node, &position)| nodes[position as usize] = node);
        nodes
    }

    /// Walks to members of the segment find about as many of their true neighbours as the header says. What was not measured is not held
    /// against anything. O(vectors x members x dimension).
    pub(super) fn recall(&self, vectors: &VectorsReader, metric: Metric, progress: &mut Progress<'_>) -> Result<()> {
        let most = self.shape.count() / 4;
        if self.shape.sample == 0 || most == 0 {
            return Ok(());
        }
        let space = Space { vectors, positions: &self.positions, images: Images::of(metric, vectors.dimension(), &Stored(vectors))? };
        let said = self.shape.measured[WIDTH].recall;
        let mut found = 1.0;
        for members in MEMBERS.map(|members| members.min(most)) {
            found = self.found(&space, &spread(self.shape.count(), members), progress)?;
            if found >= said - FAR_BELOW {
                return Ok(());
            }
        }
        let what = format!("walks of width {} find {found:.2} of the nearest ten, the header says {said:.2}", EF_LADDER[WIDTH]);
        Err(self.links.corrupt(80 + 2 * WIDTH as u64, what))
    }

    /// The share of the true neighbours of these members that walks to them find.
    fn found(&self, space: &Space<'_>, members: &[u32], progress: &mut Progress<'_>) -> Result<f64> {
        let queries: Vec<Vec<f32>> = members.iter().map(|&node| space.query(node)).collect::<Result<_>>()?;
        let farthest = space.farthest_of_nearest(members, &queries, progress)?;
        let (mut found, mut there) = (0, 0);
        for ((&member, query), &(farthest, known)) in members.iter().zip(&queries).zip(&farthest) {
            let walked = self.walk(&mut |node| Ok(space.distance(query, &space.image(node)?)))?;
            // As near as the numbers by which the graph was built can tell.
            let farthest = farthest + farthest.abs() * f64::from(ROUNDING);
            let near = walked.iter().filter(|&&(distance, node)| node != member && distance <= farthest).count();
            found += near.min(known);
            there += known;
            progress.add(0)?;
        }
        Ok(found as f64 / there.max(1) as f64)
    }

    /// A walk from node 0: the nearest nodes that it met, nearest first.
    fn walk(&self, distance: &mut dyn FnMut(u32) -> Result<f64>) -> Result<Vec<(f64, u32)>> {
        let mut nearest = (distance(0)?, 0);
        for level in (1..self.shape.level_counts.len()).rev() {
            loop {
                let from = nearest;
                for link in self.row(level, from.1)? {
                    let there = (distance(link)?, link);
                    nearest = if there.0 < nearest.0 { there } else { nearest };
                }
                if nearest.1 == from.1 {
                    break;
                }
            }
        }
        let width = EF_LADDER[WIDTH] as usize;
        let mut met = FxHashSet::from_iter([nearest.1]);
        let mut pool = vec![(nearest, false)];
        while let Some(at) = pool.iter().position(|(_, gone_on)| !gone_on) {
            pool[at].1 = true;
            for link in self.row(0, pool[at].0.1)? {
                if met.insert(link) {
                    let there = distance(link)?;
                    pool.insert(pool.partition_point(|((distance, _), _)| *distance <= there), ((there, link), false));
                    pool.truncate(width);
                }
            }
        }
        Ok(pool.into_iter().map(|(node, _)| node).collect())
    }
}

/// Vectors of a segment, as images.
struct Space<'a> {
    vectors: &'a VectorsReader,
    positions: &'a [u32],
    images: Images,
}

impl Space<'_> {
    fn image(&self, node: u32) -> Result<Vec<f32>> {
        self.made_of(node, Images::image)
    }

    /// What a search for the vector of a node asks with.
    fn query(&self, node: u32) -> Result<Vec<f32>> {
        self.made_of(node, Images::query)
    }

    fn made_of(&self, node: u32, make: fn(&Images, &[f32], &mut Vec<f32>)) -> Result<Vec<f32>> {
        let mut made = Vec::with_capacity(self.images.dimension());
        let row = self.vectors.row_at(self.positions[node as usize])?;
        if let Some(vector) = self.vectors.get(row)? {
            make(&self.images, &vector, &mut made);
        }
        Ok(made)
    }

    fn distance(&self, a: &[f32], b: &[f32]) -> f64 {
        if self.images.metric() == Metric::L2 { kernel::squared_distance(a, b) } else { -kernel::dot(a, b) }
    }

    /// For each member, how far the last of its nearest others is, and how many those are.
    fn farthest_of_nearest(&self, members: &[u32], queries: &[Vec<f32>], progress: &mut Progress<'_>) -> Result<Vec<(f64, usize)>> {
        let own: Vec<u32> = members.iter().map(|&node| self.positions[node as usize]).collect();
        let mut nearest: Vec<Vec<f64>> = vec![Vec::with_capacity(NEAREST + 1); queries.len()];
        let (mut image, mut position) = (Vec::new(), 0u32);
        self.vectors.for_each(|_, vector| {
            self.images.image(vector, &mut image);
            for ((query, nearest), &own) in queries.iter().zip(&mut nearest).zip(&own) {
                let distance = self.distance(query, &image);
                let at = nearest.partition_point(|d| *d <= distance);
                if own != position && at < NEAREST {
                    nearest.insert(at, distance);
                    nearest.truncate(NEAREST);
                }
            }
            position += 1;
            if position.is_multiple_of(NODES_PER_STEP) { progress.add(0) } else { Ok(()) }
        })?;
        Ok(nearest.into_iter().map(|n| (n.last().copied().unwrap_or(f64::INFINITY), n.len())).collect())
    }
}

/// The vectors of a segment in their order.
pub(super) struct Stored<'a>(pub(super) &'a VectorsReader);

impl Vectors for Stored<'_> {
    fn for_each(&self, sink: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        self.0.for_each(|_, vector| sink(vector))
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|n| u32::from_le_bytes(*n))
}

//! The links of a graph.

use crate::vector::kernel;

/// No point: pads a row of links.
pub const NONE: u32 = u32::MAX;

/// The links of a hierarchical graph, level by level. A row ends at the first [`NONE`].
pub trait Links {
    /// How many points there are.
    fn points(&self) -> usize;
    /// Where searches begin, and the highest level; `None` without points.
    fn entry(&self) -> Option<(u32, usize)>;
    /// The neighbours of a point on a level that it has, padded.
    fn row(&self, level: usize, point: u32) -> &[u32];
    /// The same, but that its links may lead to points that do not exist. A caller that meets such a one asks for [`Links::row`], which knows what
    /// that means, and walks no further on it.
    #[inline]
    fn unchecked(&self, level: usize, point: u32) -> &[u32] {
        self.row(level, point)
    }
    /// Asks for the row of a point on level 0 that will soon be walked. Changes nothing but time.
    #[inline]
    fn fetch(&self, _point: u32) {}
}

/// A graph in memory, as it is built.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// Links of a point on the levels above 0, at most; twice as many on level 0.
    pub m: usize,
    /// The highest level of each point.
    pub levels: Vec<u8>,
    pub(super) entry: Option<(u32, usize)>,
    /// Rows of 2M, and how far each neighbour is.
    pub(super) base: Rows,
    /// Rows of M: those of the levels 1.. of a point one after another.
    pub(super) upper: Rows,
    /// By point: its first row in `upper`.
    pub(super) upper_starts: Vec<u32>,
}

/// Rows of links of equal width, nearest first unless said otherwise, with the distances beside them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rows {
    pub(super) width: usize,
    pub(super) links: Vec<u32>,
    pub(super) distances: Vec<f32>,
}

impl Rows {
    pub(super) fn new(width: usize, rows: usize) -> Rows {
        Rows { width, links: vec![NONE; width * rows], distances: vec![0.0; width * rows] }
    }

    #[inline]
    pub(super) fn row(&self, row: usize) -> &[u32] {
        &self.links[row * self.width..(row + 1) * self.width]
    }

    /// The links of a row with their distances.
    pub(super) fn edges(&self, row: usize) -> impl Iterator<Item = (f32, u32)> {
        let range = row * self.width..(row + 1) * self.width;
        self.distances[range.clone()].iter().copied().zip(self.links[range].iter().copied()).take_while(|(_, link)| *link != NONE)
    }
}

/// Replaces a row.
pub(super) fn set_row(links: &mut [u32], distances: &mut [f32], edges: &[(f32, u32)]) {
    links.fill(NONE);
    distances.fill(0.0);
    for ((link, distance), edge) in links.iter_mut().zip(distances).zip(edges) {
        (*distance, *link) = *edge;
    }
}

impl Graph {
    /// A graph of points with these levels and no links yet.
    pub(super) fn new(m: usize, levels: Vec<u8>) -> Graph {
        let mut upper_starts = Vec::with_capacity(levels.len());
        let mut rows = 0;
        for &level in &levels {
            upper_starts.push(rows);
            rows += u32::from(level);
        }
        Graph { m, entry: None, base: Rows::new(2 * m, levels.len()), upper: Rows::new(m, rows as usize), upper_starts, levels }
    }

    /// Where the row of a point on a level is.
    pub(super) fn place(&self, level: usize, point: u32) -> (&Rows, usize) {
        match level {
            0 => (&self.base, point as usize),
            _ => (&self.upper, self.upper_starts[point as usize] as usize + level - 1),
        }
    }

    /// Replaces the links of a point on a level.
    pub(super) fn set(&mut self, level: usize, point: u32, edges: &[(f32, u32)]) {
        let row = self.place(level, point).1;
        let rows = if level == 0 { &mut self.base } else { &mut self.upper };
        let range = row * rows.width..(row + 1) * rows.width;
        set_row(&mut rows.links[range.clone()], &mut rows.distances[range], edges);
    }
}

impl Links for Graph {
    fn points(&self) -> usize {
        self.levels.len()
    }

    fn entry(&self) -> Option<(u32, usize)> {
        self.entry
    }

    #[inline]
    fn row(&self, level: usize, point: u32) -> &[u32] {
        let (rows, row) = self.place(level, point);
        rows.row(row)
    }

    #[inline]
    fn fetch(&self, point: u32) {
        kernel::walk::fetch(self.base.row(point as usize));
    }
}

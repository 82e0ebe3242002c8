//! A graph that is finished: its points renumbered as nodes, its rows of fixed width, as a segment holds it.

use super::graph::{Links, NONE};
use crate::vector::kernel;

/// A finished graph. Nodes are numbered by level, highest first, and among those of a level so that neighbours lie near each other. Whether a
/// node has level `l` is then one comparison, and node 0 is the entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sealed {
    /// Links of a node on the levels above 0, at most; twice as many on level 0.
    pub m: usize,
    /// By level: how many nodes have it. The first is the number of nodes; each is at most the one before, and at least 1.
    pub level_counts: Vec<u32>,
    /// By node: its point, which is the position of its vector.
    pub points: Vec<u32>,
    /// Level 0: a row of 2M links a node, nearest first, padded with [`NONE`].
    pub base: Vec<u32>,
    /// Levels 1, 2, ...: a row of M links for each node that has the level, one level after another.
    pub upper: Vec<u32>,
}

impl Links for Sealed {
    fn points(&self) -> usize {
        self.points.len()
    }

    fn entry(&self) -> Option<(u32, usize)> {
        (!self.points.is_empty()).then(|| (0, self.level_counts.len() - 1))
    }

    #[inline]
    fn row(&self, level: usize, node: u32) -> &[u32] {
        if level == 0 {
            return &self.base[node as usize * 2 * self.m..][..2 * self.m];
        }
        let before: usize = self.level_counts[1..level].iter().map(|&count| count as usize).sum();
        &self.upper[(before + node as usize) * self.m..][..self.m]
    }

    #[inline]
    fn fetch(&self, node: u32) {
        kernel::walk::fetch(self.row(0, node));
    }
}

impl Sealed {
    /// The links of a node on a level, without the padding.
    pub fn links(&self, level: usize, node: u32) -> impl Iterator<Item = u32> {
        self.row(level, node).iter().copied().take_while(|&link| link != NONE)
    }
}

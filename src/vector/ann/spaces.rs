//! What a walk through a stored graph compares: codes, or the vectors themselves.

use super::stored::{StoredCodes, StoredGraph, Walked};
use crate::error::Result;
use crate::options::Metric;
use crate::vector::hnsw::codes::doubt;
use crate::vector::hnsw::space::Space;
use crate::vector::kernel::walk::{self, CodeQuery, CodeRows};
use crate::vector::kernel;
use crate::vector::reader::VectorsReader;

/// Codes in the order of the nodes.
pub(super) struct CodesOfNodes<'a> {
    pub(super) walked: &'a Walked<'a>,
    pub(super) codes: &'a StoredCodes,
    /// The codes, as they lie.
    rows: CodeRows<'a>,
}

impl<'a> CodesOfNodes<'a> {
    pub(super) fn new(walked: &'a Walked<'a>, codes: &'a StoredCodes) -> CodesOfNodes<'a> {
        CodesOfNodes { walked, codes, rows: CodeRows::new(codes.bytes.bytes(), &codes.shape) }
    }
}

impl Space for CodesOfNodes<'_> {
    type Query = CodeQuery;

    fn points(&self) -> usize {
        self.codes.shape.count as usize
    }

    fn query_of(&self, node: u32, query: &mut CodeQuery) {
        match self.codes.admit(&[node]) {
            Ok(()) => self.codes.coder.query_of_row(self.rows.row(node), self.rows.meta(node), query),
            Err(e) => self.walked.fail(e),
        }
    }

    #[inline]
    fn distances(&self, query: &CodeQuery, nodes: &[u32], out: &mut [f32]) {
        if let Err(e) = self.codes.admit(nodes) {
            self.walked.fail(e);
            return out.fill(f32::INFINITY);
        }
        walk::code_distances(query, self.rows, nodes, out);
        // Damage behind sound checksums may be anything; an order of distances needs numbers.
        for distance in out.iter_mut() {
            *distance = if distance.is_nan() { f32::INFINITY } else { *distance };
        }
    }

    fn doubt(&self, query: &CodeQuery, node: u32) -> f32 {
        doubt(query, self.rows.meta(node))
    }

    /// Of two that were compared, so both were checked.
    fn are_copies(&self, a: u32, b: u32) -> bool {
        self.rows.row(a) == self.rows.row(b) && self.rows.meta(a) == self.rows.meta(b)
    }
}

/// Vectors that are fetched before the first is compared.
const AHEAD: usize = 4;

/// The vectors of the nodes as they were given: slower, and four times as many bytes.
pub(super) struct VectorsOfNodes<'a> {
    pub(super) walked: &'a Walked<'a>,
    pub(super) vectors: &'a VectorsReader,
}

impl VectorsOfNodes<'_> {
    fn graph(&self) -> &StoredGraph {
        self.walked.graph
    }

    /// In the order of the metric. Roots are taken of what may be greater, or smaller, than any f32, so that it still differs.
    fn distance(&self, query: &[f32], node: u32) -> Result<f32> {
        let (position, metric) = (self.graph().position(node)?, self.graph().images.metric());
        self.vectors.at(position, metric, |vector, inverse_norm| match metric {
            Metric::Cosine => -(kernel::dot(query, vector) * inverse_norm) as f32,
            Metric::Dot => {
                let product = kernel::dot(query, vector);
                -product.abs().sqrt().copysign(product) as f32
            }
            Metric::L2 => kernel::squared_distance(query, vector).sqrt().sqrt() as f32,
        })
    }

    /// What walks compare in place of a query: but under the Euclidean distance its length does not matter to the order, and may be anything.
    pub(super) fn query(metric: Metric, components: &[f32], query: &mut Vec<f32>) {
        let factor = if metric == Metric::L2 { 1.0 } else { kernel::inverse_norm(components) };
        query.clear();
        query.extend(components.iter().map(|&c| (f64::from(c) * factor) as f32));
    }
}

impl Space for VectorsOfNodes<'_> {
    type Query = Vec<f32>;

    fn points(&self) -> usize {
        self.graph().shape().count() as usize
    }

    fn query_of(&self, node: u32, query: &mut Vec<f32>) {
        let metric = self.graph().images.metric();
        let read = self.graph().position(node).and_then(|p| self.vectors.at(p, metric, |vector, _| Self::query(metric, vector, query)));
        if let Err(e) = read {
            self.walked.fail(e);
        }
    }

    fn are_copies(&self, a: u32, b: u32) -> bool {
        let metric = self.graph().images.metric();
        let alike = || {
            let (a, b) = (self.graph().position(a)?, self.graph().position(b)?);
            self.vectors.at(a, metric, |a, _| self.vectors.at(b, metric, |b, _| a == b))?
        };
        alike().unwrap_or_else(|e| {
            self.walked.fail(e);
            false
        })
    }

    #[inline]
    fn distances(&self, query: &Vec<f32>, nodes: &[u32], out: &mut [f32]) {
        let fetch = |&node: &u32| {
            if let Ok(position) = self.graph().position(node) {
                self.vectors.fetch(position);
            }
        };
        nodes.iter().take(AHEAD).for_each(fetch);
        let mut ahead = nodes.iter().skip(AHEAD);
        for (&node, out) in nodes.iter().zip(out) {
            ahead.next().into_iter().for_each(fetch);
            *out = self.distance(query, node).unwrap_or_else(|e| {
                self.walked.fail(e);
                f32::INFINITY
            });
        }
    }
}

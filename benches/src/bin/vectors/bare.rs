//! The graph alone, in memory: what a search through a database is measured against.

use crate::curve::Side;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use triune::vector::hnsw::build::{BuildOptions, build};
use triune::vector::hnsw::codes::CodeSpace;
use triune::vector::hnsw::images::Images;
use triune::vector::hnsw::seal::seal;
use triune::vector::hnsw::sealed::Sealed;
use triune::vector::hnsw::search::Scratch;
use triune::vector::hnsw::space::Space;
use triune::vector::kernel::dot;
use triune::vector::kernel::walk::{CodeQuery, fetch};
use triune_benches::Failure;
use triune_benches::neighbours::{K, Neighbours};

/// Candidates that are scored by the vectors themselves, at most.
const SCORED: usize = 2 * K;

pub(crate) struct Bare<'a> {
    data: &'a Neighbours,
    sealed: Sealed,
    space: CodeSpace,
    scratch: Scratch,
    query: CodeQuery,
    remark: String,
}

impl<'a> Bare<'a> {
    pub(crate) fn build(data: &'a Neighbours, m: usize, efc: usize) -> Bare<'a> {
        let begun = Instant::now();
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let points = CodeSpace::of(&data.base, data.dimension);
        let options = BuildOptions { m, ef_construction: efc, threads };
        let graph = build(&points, &options, &AtomicBool::new(false), |_| {}).expect("nobody stops it");
        let sealed = seal(&graph);
        let remark = format!("built in {:.1} s by {threads} threads", begun.elapsed().as_secs_f64());
        let in_order: Vec<f32> = sealed.points.iter().flat_map(|&p| data.row(p as usize)).copied().collect();
        let space = CodeSpace::of(&in_order, data.dimension);
        Bare { data, sealed, space, scratch: Scratch::default(), query: CodeQuery::default(), remark }
    }

    fn nearest(&mut self, query: &[f32], ef: usize) -> Vec<(f64, u32)> {
        let images = Images::with_unit(triune::Metric::Cosine, self.data.dimension as u32, 1.0);
        let mut image = Vec::new();
        images.query(query, &mut image);
        self.space.query(&image, &mut self.query);
        let found: Vec<(f32, u32)> = self.scratch.search(&self.space, &self.query, &self.sealed, ef).take(SCORED).collect();
        let nodes = &found[..self.space.contenders(&self.query, &found, K)];
        let points = nodes.iter().map(|&(_, node)| self.sealed.points[node as usize]);
        points.clone().for_each(|p| fetch(self.data.row(p as usize)));
        let mut scored: Vec<(f64, u32)> = points.map(|p| (dot(query, self.data.row(p as usize)), p)).collect();
        scored.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.truncate(K);
        scored
    }
}

impl Side for Bare<'_> {
    fn name(&self) -> String {
        format!("bare M{}", self.sealed.m)
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
        let (data, mut found, mut took) = (self.data, 0, 0.0);
        for (query, truth) in data.queries.iter().zip(&data.truth) {
            let begun = Instant::now();
            let hits = self.nearest(query, ef);
            took += begun.elapsed().as_secs_f64();
            found += hits.iter().filter(|(_, p)| truth.contains(p)).count();
        }
        Ok((found as f64 / (K * data.queries.len()) as f64, took * 1e6 / data.queries.len() as f64))
    }
}

//! The graph alone, in memory: what a search through a database is measured against. Its nodes are compared by codes, as those of a database, or by
//! their components.

use crate::curve::Side;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use triune::vector::hnsw::build::{BuildOptions, build};
use triune::vector::hnsw::codes::CodeSpace;
use triune::vector::hnsw::floats::FloatSpace;
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

pub(crate) struct Bare<'a, W> {
    data: &'a Neighbours,
    sealed: Sealed,
    walk: W,
    scratch: Scratch,
    remark: String,
}

/// What a walk compares.
pub(crate) trait Walk {
    const NAME: &'static str;
    /// The nearest points, nearest first.
    fn nearest(&mut self, data: &Neighbours, sealed: &Sealed, scratch: &mut Scratch, query: &[f32], ef: usize) -> Vec<u32>;
}

/// Codes, and then the vectors of the nearest of them.
pub(crate) struct Codes {
    space: CodeSpace,
    query: CodeQuery,
}

/// The vectors alone, in the order of the nodes.
pub(crate) struct Floats {
    rows: Vec<f32>,
    query: Vec<f32>,
}

impl<'a> Bare<'a, Codes> {
    pub(crate) fn of_codes(data: &'a Neighbours, m: usize, efc: usize) -> Self {
        let walk = |rows: Vec<f32>| Codes { space: CodeSpace::of(&rows, data.dimension), query: CodeQuery::default() };
        Bare::build(data, || CodeSpace::of(&data.base, data.dimension), walk, m, efc)
    }
}

impl<'a> Bare<'a, Floats> {
    pub(crate) fn of_floats(data: &'a Neighbours, m: usize, efc: usize) -> Self {
        let walk = |rows| Floats { rows, query: Vec::new() };
        Bare::build(data, || FloatSpace::new(&data.base, data.dimension), walk, m, efc)
    }
}

impl<'a, W> Bare<'a, W> {
    fn build<S: Space>(
        data: &'a Neighbours,
        points: impl FnOnce() -> S,
        walk: impl FnOnce(Vec<f32>) -> W,
        m: usize,
        ef_construction: usize,
    ) -> Self {
        let begun = Instant::now();
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let graph = build(&points(), &BuildOptions { m, ef_construction, threads }, &AtomicBool::new(false), |_| {});
        let sealed = seal(&graph.expect("nobody stops it"));
        let remark = format!("built in {:.1} s by {threads} threads", begun.elapsed().as_secs_f64());
        let walk = walk(sealed.points.iter().flat_map(|&p| data.row(p as usize)).copied().collect());
        Bare { data, sealed, walk, scratch: Scratch::default(), remark }
    }
}

impl Walk for Codes {
    const NAME: &'static str = "bare";

    fn nearest(&mut self, data: &Neighbours, sealed: &Sealed, scratch: &mut Scratch, query: &[f32], ef: usize) -> Vec<u32> {
        let images = Images::with_unit(triune::Metric::Cosine, data.dimension as u32, 1.0);
        let mut image = Vec::new();
        images.query(query, &mut image);
        self.space.query(&image, &mut self.query);
        let found: Vec<(f32, u32)> = scratch.search(&self.space, &self.query, sealed, ef).take(SCORED).collect();
        let nodes = &found[..self.space.contenders(&self.query, &found, K)];
        let points = nodes.iter().map(|&(_, node)| sealed.points[node as usize]);
        points.clone().for_each(|p| fetch(data.row(p as usize)));
        let mut scored: Vec<(f64, u32)> = points.map(|p| (dot(query, data.row(p as usize)), p)).collect();
        scored.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.into_iter().take(K).map(|(_, p)| p).collect()
    }
}

impl Walk for Floats {
    const NAME: &'static str = "floats";

    fn nearest(&mut self, data: &Neighbours, sealed: &Sealed, scratch: &mut Scratch, query: &[f32], ef: usize) -> Vec<u32> {
        self.query.clear();
        self.query.extend_from_slice(query);
        let space = FloatSpace::new(&self.rows, data.dimension);
        scratch.search(&space, &self.query, sealed, ef).take(K).map(|(_, node)| sealed.points[node as usize]).collect()
    }
}

impl<W: Walk> Side for Bare<'_, W> {
    fn name(&self) -> String {
        format!("{} M{}", W::NAME, self.sealed.m)
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
            let points = self.walk.nearest(data, &self.sealed, &mut self.scratch, query, ef);
            took += begun.elapsed().as_secs_f64();
            found += points.iter().filter(|p| truth.contains(p)).count();
        }
        Ok((found as f64 / (K * data.queries.len()) as f64, took * 1e6 / data.queries.len() as f64))
    }
}

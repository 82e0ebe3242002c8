//! Time, recall, and what a query costs.

use crate::data::{Data, K};
use std::fmt;
use std::time::{Duration, Instant};
use triune::vector::hnsw::codes::CodeSpace;
use triune::vector::hnsw::floats::FloatSpace;
use triune::vector::hnsw::graph::{Links, NONE};
use triune::vector::hnsw::sealed::Sealed;
use triune::vector::hnsw::search::Scratch;
use triune::vector::hnsw::space::Space;
use triune::vector::kernel;

/// Candidates of a walk over codes that are scored by their components, at most.
const RESCORED: usize = 20;

/// Time on the wall and time of the processors since it was started.
pub(crate) struct Watch(Instant, f64);

impl Watch {
    pub(crate) fn start() -> Watch {
        Watch(Instant::now(), processor_seconds())
    }

    pub(crate) fn wall(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    pub(crate) fn processors(&self) -> f64 {
        processor_seconds() - self.1
    }
}

impl fmt::Display for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} s ({:.2} CPU s)", self.wall(), self.processors())
    }
}

/// What all threads of this process used, where the system tells: ticks of a hundredth of a second.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// What a query needs, kept between queries.
#[derive(Default)]
pub(crate) struct Query<'a> {
    data: Option<&'a Data>,
    vector: &'a [f32],
    scratch: Scratch,
    codes: kernel::walk::CodeQuery,
    floats: Vec<f32>,
    walked: Vec<(f32, u32)>,
    rescored: Vec<(f64, u32)>,
}

impl Query<'_> {
    /// Walks over codes and scores the best by their components.
    pub(crate) fn by_codes(&mut self, space: &CodeSpace, links: &impl Links, ef: usize, found: &mut Vec<u32>) {
        let Some(data) = self.data else { return };
        space.query(self.vector, &mut self.codes);
        self.rescored.clear();
        self.walked.clear();
        self.walked.extend(self.scratch.search(space, &self.codes, links, ef).take(RESCORED));
        let walked = &self.walked[..space.contenders(&self.codes, &self.walked, K)];
        walked.iter().for_each(|&(_, point)| kernel::walk::fetch(data.row(point)));
        self.rescored.extend(walked.iter().map(|&(_, point)| (-kernel::dot(self.vector, data.row(point)), point)));
        self.rescored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        found.extend(self.rescored.iter().take(K).map(|(_, point)| *point));
    }

    /// Walks over components.
    pub(crate) fn by_floats(&mut self, space: &FloatSpace<'_>, links: &impl Links, ef: usize, found: &mut Vec<u32>) {
        self.floats.clear();
        self.floats.extend_from_slice(self.vector);
        found.extend(self.scratch.search(space, &self.floats, links, ef).take(K).map(|(_, point)| point));
    }
}

/// What was found, and how fast.
pub(crate) struct Figures {
    pub(crate) recall: f64,
    /// Queries a second: the median of the rounds, and the best.
    pub(crate) median: f64,
    pub(crate) best: f64,
    /// Distances a query.
    pub(crate) compared: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "recall {:.4}  QPS {:.0} (best {:.0})  compared {:.0}", self.recall, self.median, self.best, self.compared)
    }
}

/// Asks all queries, one after another, `rounds` times.
pub(crate) fn measure<'a>(data: &'a Data, rounds: usize, mut ask: impl FnMut(&mut Query<'a>, &mut Vec<u32>)) -> Figures {
    let mut query = Query { data: Some(data), ..Query::default() };
    let (mut times, mut hits) = (Vec::new(), 0);
    let mut found = Vec::new();
    for _ in 0..rounds.max(1) {
        let mut time = Duration::ZERO;
        hits = 0;
        query.scratch.compared = 0;
        for (vector, truth) in data.queries.iter().zip(&data.truth) {
            found.clear();
            let begun = Instant::now();
            query.vector = vector;
            ask(&mut query, &mut found);
            time += begun.elapsed();
            hits += found.iter().filter(|point| truth.contains(point)).count();
        }
        times.push(time.as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let n = data.queries.len() as f64;
    Figures {
        recall: hits as f64 / (K as f64 * n),
        median: n / times[times.len() / 2],
        best: n / times[0],
        compared: query.scratch.compared as f64 / n,
    }
}

/// A sealed graph whose nodes are in another order: `points` says which point each node is.
pub(crate) fn renumbered(sealed: &Sealed, points: &[u32]) -> Sealed {
    let mut nodes = vec![NONE; points.len()];
    points.iter().zip(0u32..).for_each(|(&point, node)| nodes[point as usize] = node);
    let mut old = vec![NONE; points.len()];
    sealed.points.iter().zip(0u32..).for_each(|(&point, node)| old[point as usize] = node);
    let row = |level: usize, &point: &u32| {
        let row: Vec<u32> = sealed.row(level, old[point as usize]).to_vec();
        row.into_iter().map(|link| sealed.points.get(link as usize).map_or(NONE, |&p| nodes[p as usize])).collect::<Vec<_>>()
    };
    Sealed {
        m: sealed.m,
        level_counts: sealed.level_counts.clone(),
        points: points.to_vec(),
        base: points.iter().flat_map(|point| row(0, point)).collect(),
        upper: (1..sealed.level_counts.len())
            .flat_map(|level| points[..sealed.level_counts[level] as usize].iter().flat_map(move |point| row(level, point)))
            .collect(),
    }
}

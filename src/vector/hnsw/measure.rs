//! How much of the true nearest a graph finds, by how widely it is walked: what says how hard a search has to try.

use super::build::draw;
use super::codes::CodeSpace;
use super::floats::FloatSpace;
use super::graph::Graph;
use super::images::{Images, Vectors};
use super::search::Scratch;
use super::space::Space;
use crate::error::Result;
use crate::format::vector_graph::{EF_LADDER, Measured};
use crate::options::Metric;
use crate::vector::kernel::{self, walk};
use crate::workers::side_by_side;
use std::collections::BTreeMap;

/// Questions whose neighbours are looked for.
const SAMPLE: usize = 128;
/// One in so many questions stands between two members.
const ONE_BETWEEN: usize = 4;
/// The true neighbours that are looked for, of each.
const NEAREST: usize = 10;
/// Candidates that a search scores by the vectors themselves when it is asked for ten.
const SCORED: usize = 20;

/// Points that can be asked about an image that is none of them.
pub trait Imaged: Space {
    /// Prepares the image of a query.
    fn query_of_image(&self, image: &[f32], query: &mut Self::Query);
}

impl Imaged for CodeSpace {
    fn query_of_image(&self, image: &[f32], query: &mut Self::Query) {
        self.query(image, query);
    }
}

impl Imaged for FloatSpace<'_> {
    fn query_of_image(&self, image: &[f32], query: &mut Self::Query) {
        query.clear();
        query.extend_from_slice(image);
    }
}

/// Some questions with their true neighbours.
///
/// A member of the graph is found more easily than what is none: its own links lead to its neighbours. So a question is a member a, moved as
/// another member b would have to move to stand on its nearest neighbour: as far as neighbours are from each other here, in a direction that
/// occurs here. Not all questions are like the members: one in four stands half way between a and b. Where members lie in clusters that is
/// in none of them, and a walk has to look into several.
#[derive(Debug, Default)]
pub struct Sample {
    questions: Vec<Vec<f32>>,
    /// Of each question, the nearest points.
    nearest: Vec<Vec<u32>>,
}

/// The nearest points so far, nearest first.
type Nearest = Vec<(f64, u32)>;

impl Sample {
    /// Questions from members spread over the vectors, with their true neighbours by a scan of the images. O(vectors x sample x
    /// dimension), shared by the threads; the same sample comes about with any number.
    pub fn of(images: &Images, count: u32, vectors: &dyn Vectors, threads: usize) -> Result<Sample> {
        let size = SAMPLE.min(count as usize / 8);
        let members = spread(count, 2 * size as u32);
        let mut rows = Vec::with_capacity(2 * size);
        scan(images, vectors, |point, _, image| {
            if members.binary_search(&point).is_ok() {
                rows.push(image.to_vec());
            }
        })?;
        let (asked, moved): (Vec<_>, Vec<_>) = rows.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).unzip();
        let skipped: Vec<u32> = members.iter().skip(1).step_by(2).copied().collect();
        let targets = nearest_to(images, vectors, &moved, 1, threads, |i, point| skipped[i] == point)?;
        let mut to = vec![Vec::new(); size];
        let wanted: BTreeMap<u32, Vec<usize>> = targets.iter().enumerate().fold(BTreeMap::new(), |mut all, (i, target)| {
            target.iter().for_each(|&point| all.entry(point).or_insert_with(Vec::new).push(i));
            all
        });
        scan(images, vectors, |point, _, image| {
            wanted.get(&point).into_iter().flatten().for_each(|&i| to[i] = image.to_vec());
        })?;
        let pairs = asked.iter().zip(&moved).zip(&to).enumerate();
        let questions: Vec<Vec<f32>> = pairs
            .map(|(i, ((a, b), to))| if i % ONE_BETWEEN == 0 { between(images, a, b) } else { beside(images, a, b, to) })
            .collect();
        let nearest = nearest_to(images, vectors, &questions, NEAREST, threads, |_, _| false)?;
        Ok(Sample { questions, nearest })
    }

    /// Questions.
    #[allow(clippy::len_without_is_empty, reason = "how many were asked, not a container's size")]
    pub fn len(&self) -> usize {
        self.questions.len()
    }
}

/// `most` of `count` numbers, at most all of them, in ascending order: one drawn from each of as many parts of equal size. At equal distances
/// they would be alike wherever vectors come in a rhythm.
pub fn spread(count: u32, most: u32) -> Vec<u32> {
    let most = most.min(count);
    let start = |part: u32| u64::from(part) * u64::from(count) / u64::from(most);
    let drawn = |part: u32| start(part) + draw(part.into()) % (start(part + 1) - start(part));
    (0..most).map(|part| drawn(part) as u32).collect()
}

/// `a` moved as `b` would have to move to stand on `to`, as an image of a query.
fn beside(images: &Images, a: &[f32], b: &[f32], to: &[f32]) -> Vec<f32> {
    as_query(images, a.iter().zip(b.iter().zip(to)).map(|(a, (b, to))| a + (to - b)).collect())
}

/// Half way from `a` to `b`, as an image of a query.
fn between(images: &Images, a: &[f32], b: &[f32]) -> Vec<f32> {
    as_query(images, a.iter().zip(b).map(|(a, b)| a + (b - a) / 2.0).collect())
}

/// What was computed of images, as the image of a query.
fn as_query(images: &Images, mut moved: Vec<f32>) -> Vec<f32> {
    if images.metric() == Metric::Dot {
        moved.truncate(moved.len() - 1);
    }
    if images.metric() != Metric::L2 {
        let factor = kernel::inverse_norm(&moved);
        moved.iter_mut().for_each(|c| *c = (f64::from(*c) * factor) as f32);
    }
    if images.metric() == Metric::Dot {
        moved.push(0.0);
    }
    moved
}

/// Calls `sink` with every point, its vector, and its image.
fn scan(images: &Images, vectors: &dyn Vectors, mut sink: impl FnMut(u32, &[f32], &[f32])) -> Result<()> {
    let (mut image, mut point) = (Vec::new(), 0u32);
    vectors.for_each(&mut |x| {
        images.image(x, &mut image);
        sink(point, x, &image);
        point += 1;
        Ok(())
    })
}

/// Of each question the nearest points, but for those that `skip` says. Each thread answers some of the questions.
fn nearest_to(
    images: &Images,
    vectors: &dyn Vectors,
    questions: &[Vec<f32>],
    most: usize,
    threads: usize,
    skip: impl Fn(usize, u32) -> bool + Sync,
) -> Result<Vec<Vec<u32>>> {
    let share = questions.len().div_ceil(threads.max(1)).max(1);
    let parts: Vec<&[Vec<f32>]> = questions.chunks(share).collect();
    let answers = side_by_side(parts.len(), threads, |part| {
        nearest_of(images, vectors, parts[part], most, |i, point| skip(part * share + i, point))
    });
    let answers: Vec<_> = answers.into_iter().collect::<Result<_>>()?;
    Ok(answers.concat())
}

/// Of each of these questions the nearest points, by one pass over the vectors.
fn nearest_of(
    images: &Images,
    vectors: &dyn Vectors,
    questions: &[Vec<f32>],
    most: usize,
    skip: impl Fn(usize, u32) -> bool,
) -> Result<Vec<Vec<u32>>> {
    let rows: Vec<f32> = questions.concat();
    let all: Vec<u32> = (0..questions.len() as u32).collect();
    let (mut dots, mut least) = (vec![0f32; questions.len()], vec![0f64; questions.len()]);
    let mut nearest: Vec<Nearest> = vec![Vec::with_capacity(most + 1); questions.len()];
    // What binary32 may change of the inner product of two images, which are no longer than 1.
    let doubt = f64::from(f32::EPSILON) * (8.0 + images.dimension() as f64 / 8.0);
    scan(images, vectors, |point, vector, image| {
        // The least that each distance may be. Close together and far from the others, or from the origin, images differ by less than binary32
        // can tell: what may be among the nearest is measured by its vector.
        if images.metric() == Metric::L2 {
            kernel::squared_distance_rows(image, &rows, &mut least);
        } else {
            walk::negative_dots(image, &rows, &all, &mut dots);
            least.iter_mut().zip(&dots).for_each(|(least, dot)| *least = f64::from(*dot) - doubt);
        }
        for (i, nearest) in nearest.iter_mut().enumerate() {
            let farthest = if nearest.len() < most { f64::INFINITY } else { nearest[most - 1].0 };
            if least[i] <= farthest && !skip(i, point) {
                offer(nearest, most, images.distance(&questions[i], vector, image), point);
            }
        }
    })?;
    Ok(nearest.into_iter().map(|n| n.into_iter().map(|(_, p)| p).collect()).collect())
}

fn offer(nearest: &mut Nearest, most: usize, distance: f64, point: u32) {
    if nearest.len() == most && nearest[most - 1].0 <= distance {
        return;
    }
    nearest.truncate(most - 1);
    let at = nearest.partition_point(|&(d, _)| d <= distance);
    nearest.insert(at, (distance, point));
}

/// Asks every question of the sample with each width of the ladder.
pub fn measure<S: Imaged>(space: &S, graph: &Graph, sample: &Sample) -> [Measured; EF_LADDER.len()] {
    let (mut scratch, mut query) = (Scratch::default(), S::Query::default());
    EF_LADDER.map(|ef| {
        let (begun, mut found, mut there) = (scratch.compared, 0usize, 0usize);
        for (question, nearest) in sample.questions.iter().zip(&sample.nearest) {
            space.query_of_image(question, &mut query);
            // What is scored afterwards is in true order.
            let candidates: Vec<u32> = scratch.search(space, &query, graph, ef as usize).take(SCORED).map(|(_, p)| p).collect();
            found += nearest.iter().filter(|point| candidates.contains(point)).count();
            there += nearest.len();
        }
        let compared = (scratch.compared - begun) / sample.len().max(1) as u64;
        let recall = if there == 0 { 0.0 } else { found as f64 / there as f64 };
        Measured { recall, compared: compared.min(u64::from(u32::MAX)) as u32 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_lies_close_together_far_from_the_origin_has_its_true_neighbours() {
        struct Line;
        impl Vectors for Line {
            fn for_each(&self, sink: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
                (0..64u16).try_for_each(|i| sink(&[1e4, 1e4 + f32::from(i) / 64.0]))
            }
        }
        let images = Images::of(Metric::L2, 2, &Line).expect("no disk is read");
        let mut asked = vec![Vec::new(); 2];
        images.query(&[1e4, 1e4 + 10.25 / 64.0], &mut asked[0]);
        images.query(&[1e4, 1e4 + 40.75 / 64.0], &mut asked[1]);
        let nearest = nearest_of(&images, &Line, &asked, 3, |_, _| false).expect("no disk is read");
        assert_eq!(nearest, [[10, 11, 9], [41, 40, 42]]);
    }

    #[test]
    fn members_are_spread_and_follow_no_rhythm_of_the_vectors() {
        for (count, most) in [(12_800, 256), (12_800, 32), (7, 7), (9, 7), (1, 5), (3, 0), (u32::MAX, 256)] {
            let drawn = spread(count, most);
            assert_eq!(drawn.len(), most.min(count) as usize);
            assert!(drawn.is_sorted_by(|a, b| a < b) && drawn.last().is_none_or(|&last| last < count), "{count} {most}: {drawn:?}");
            let widest = 2 * u64::from(count) / u64::from(most.clamp(1, count)) + 2;
            assert!(drawn.windows(2).all(|two| u64::from(two[1] - two[0]) < widest), "{count} {most}: {drawn:?}");
        }
        // A fiftieth of the vectors is unlike the others: 256 of 12,800 meet all places of the rhythm about equally.
        let places: BTreeSet<u32> = spread(12_800, 256).into_iter().map(|member| member % 50).collect();
        assert!(places.len() > 45, "{places:?}");
    }
}

//! How much of the true nearest a graph finds, by how widely it is walked: what says how hard a search has to try.

use super::graph::Graph;
use super::images::{Images, Vectors};
use super::search::Scratch;
use super::space::Space;
use crate::error::Result;
use crate::format::vector_graph::{EF_LADDER, Measured};
use crate::options::Metric;
use crate::vector::kernel::walk;

/// Members of the segment whose neighbours are looked for.
const SAMPLE: usize = 128;
/// The true neighbours that are looked for, of each.
const NEAREST: usize = 10;
/// Candidates that a search scores by the vectors themselves when it is asked for ten, the member itself beside them.
const SCORED: usize = 31;

/// Some members of a segment with their true neighbours.
#[derive(Debug, Default)]
pub struct Sample {
    members: Vec<u32>,
    /// Of each member, the points of the nearest others.
    nearest: Vec<Vec<u32>>,
}

/// The nearest others of one member so far, nearest first.
type Nearest = Vec<(f32, u32)>;

impl Sample {
    /// Members spread evenly over the vectors, with their true neighbours by a scan of their images. O(vectors x sample x dimension).
    pub fn of(images: &Images, count: u32, vectors: &dyn Vectors) -> Result<Sample> {
        let size = SAMPLE.min(count as usize / 4);
        let members: Vec<u32> = (0..size as u64).map(|i| (i * u64::from(count) / size as u64) as u32).collect();
        let dimension = images.dimension();
        let (mut rows, mut image, mut point) = (Vec::with_capacity(size * dimension), Vec::new(), 0u32);
        vectors.for_each(&mut |x| {
            if members.binary_search(&point).is_ok() {
                images.image(x, &mut image);
                rows.extend_from_slice(&image);
            }
            point += 1;
            Ok(())
        })?;
        let lengths: Vec<f32> = rows.chunks_exact(dimension).map(|row| row.iter().map(|c| c * c).sum()).collect();
        let (all, mut distances): (Vec<u32>, _) = ((0..size as u32).collect(), vec![0f32; size]);
        let mut nearest: Vec<Nearest> = vec![Vec::with_capacity(NEAREST + 1); size];
        point = 0;
        vectors.for_each(&mut |x| {
            images.image(x, &mut image);
            if size > 0 {
                walk::negative_dots(&image, &rows, &all, &mut distances);
            }
            let length: f32 = image.iter().map(|c| c * c).sum();
            for (i, (&dot, nearest)) in distances.iter().zip(&mut nearest).enumerate() {
                let distance = if images.metric() == Metric::L2 { 2.0 * dot + length + lengths[i] } else { dot };
                if members[i] != point {
                    offer(nearest, distance, point);
                }
            }
            point += 1;
            Ok(())
        })?;
        Ok(Sample { members, nearest: nearest.into_iter().map(|n| n.into_iter().map(|(_, p)| p).collect()).collect() })
    }

    /// Members.
    #[allow(clippy::len_without_is_empty, reason = "how many were looked at, not a container's size")]
    pub fn len(&self) -> usize {
        self.members.len()
    }
}

fn offer(nearest: &mut Nearest, distance: f32, point: u32) {
    if nearest.len() == NEAREST && nearest[NEAREST - 1].0 <= distance {
        return;
    }
    nearest.truncate(NEAREST - 1);
    let at = nearest.partition_point(|&(d, _)| d <= distance);
    nearest.insert(at, (distance, point));
}

/// Walks to every member of the sample with each width of the ladder.
pub fn measure<S: Space>(space: &S, graph: &Graph, sample: &Sample) -> [Measured; EF_LADDER.len()] {
    let (mut scratch, mut query) = (Scratch::default(), S::Query::default());
    EF_LADDER.map(|ef| {
        let (begun, mut found, mut there) = (scratch.compared, 0usize, 0usize);
        for (&member, nearest) in sample.members.iter().zip(&sample.nearest) {
            space.query_of(member, &mut query);
            // One more than asked for, since the member finds itself; what is scored afterwards is in true order.
            let candidates: Vec<u32> = scratch.search(space, &query, graph, ef as usize).take(SCORED).map(|(_, p)| p).collect();
            found += nearest.iter().filter(|point| candidates.contains(point)).count();
            there += nearest.len();
        }
        let compared = (scratch.compared - begun) / sample.members.len().max(1) as u64;
        let recall = if there == 0 { 0.0 } else { found as f64 / there as f64 };
        Measured { recall, compared: compared.min(u64::from(u32::MAX)) as u32 }
    })
}

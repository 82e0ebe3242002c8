//! Which candidates become neighbours: those that no nearer neighbour is nearer to (the heuristic of the HNSW paper, algorithm 4).

use super::space::Space;
use super::worker::nearest_first;

/// Chooses neighbours, kept between calls so that none allocates.
#[derive(Debug)]
pub(super) struct Selector<S: Space> {
    query: S::Query,
    points: Vec<u32>,
    distances: Vec<f32>,
    passed_over: Vec<(f32, u32)>,
}

impl<S: Space> Default for Selector<S> {
    fn default() -> Self {
        Selector { query: S::Query::default(), points: Vec::new(), distances: Vec::new(), passed_over: Vec::new() }
    }
}

/// Neighbours of a candidate that are compared with it at once.
const GROUP: usize = 4;

impl<S: Space> Selector<S> {
    /// Of `candidates`, which ascend by distance and then by point, takes at most `most` into `kept`, nearest first. A candidate is passed over
    /// when a kept one is at most as far from it as the point is; of those, the nearest still fill up to `least` places, so that a point
    /// in a crowd of equals keeps ways out of it.
    pub(super) fn select(&mut self, space: &S, candidates: &[(f32, u32)], most: usize, least: usize, kept: &mut Vec<(f32, u32)>) {
        kept.clear();
        self.add(space, candidates, most, least, kept);
    }

    /// The same, beside those that are kept already, whatever their order.
    pub(super) fn add(&mut self, space: &S, candidates: &[(f32, u32)], most: usize, least: usize, kept: &mut Vec<(f32, u32)>) {
        let before = kept.len();
        self.points.clear();
        self.points.extend(kept.iter().map(|k| k.1));
        self.passed_over.clear();
        for &(distance, candidate) in candidates {
            if kept.len() >= most {
                break;
            }
            if self.stands_apart(space, distance, candidate) {
                kept.push((distance, candidate));
                self.points.push(candidate);
            } else if self.passed_over.len() < least {
                self.passed_over.push((distance, candidate));
            }
        }
        let fill = least.saturating_sub(kept.len()).min(self.passed_over.len());
        kept.extend(&self.passed_over[..fill]);
        if before > 0 || fill > 0 {
            kept.sort_unstable_by(nearest_first);
        }
    }

    fn stands_apart(&mut self, space: &S, distance: f32, candidate: u32) -> bool {
        if self.points.is_empty() {
            return true;
        }
        space.query_of(candidate, &mut self.query);
        self.points.chunks(GROUP).all(|group| {
            self.distances.resize(group.len(), 0.0);
            space.distances(&self.query, group, &mut self.distances);
            self.distances.iter().all(|&d| d > distance)
        })
    }
}

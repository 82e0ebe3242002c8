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
    /// when a kept one is nearer to it than the point is, or is its copy; of those, the nearest still fill up to `least` places.
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

    /// Whether no kept point is nearer to the candidate than the point is, nor a copy of the candidate. A kept copy of the point is as near to
    /// the candidate as the point itself and must not speak for it: it would leave the copies with no links but those among themselves.
    fn stands_apart(&mut self, space: &S, distance: f32, candidate: u32) -> bool {
        if self.points.is_empty() {
            return true;
        }
        space.query_of(candidate, &mut self.query);
        let mut as_near = f32::INFINITY;
        for group in self.points.chunks(GROUP) {
            self.distances.resize(group.len(), 0.0);
            space.distances(&self.query, group, &mut self.distances);
            let nearest = self.distances.iter().copied().fold(f32::INFINITY, f32::min);
            if nearest < distance {
                return false;
            }
            as_near = as_near.min(nearest);
        }
        if as_near > distance {
            return true;
        }
        let mut own = [0.0];
        space.distances(&self.query, &[candidate], &mut own);
        as_near > own[0]
    }
}

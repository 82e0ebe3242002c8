//! What a graph is built over: numbered points, and how far one is from another.

/// What binary32 may change of a number, as a share of it; some times that.
pub const ROUNDING: f32 = 4.0 * f32::EPSILON;

/// Points `0..len`, and a distance that smaller is nearer. A distance may be approximate; it is a pure function of the two points.
pub trait Space: Sync {
    /// A point prepared to be compared with many.
    type Query: Send + Default;

    /// How many points there are, at most 2^31.
    fn points(&self) -> usize;

    /// Prepares a point.
    fn query_of(&self, point: u32, query: &mut Self::Query);

    /// The distance of each of `points` from the query. Points are below [`Space::points`].
    ///
    /// # Panics
    /// When `points` and `out` differ in length, or a point is none.
    fn distances(&self, query: &Self::Query, points: &[u32], out: &mut [f32]);

    /// By how much the distance of a point and another may differ and be in the wrong order, when they are approximate.
    fn doubt(&self, _query: &Self::Query, _point: u32) -> f32 {
        0.0
    }

    /// How many of these, nearest first, may be among the `k` nearest by what the points stand for: at least `k`, when there are so many.
    fn contenders(&self, query: &Self::Query, found: &[(f32, u32)], k: usize) -> usize {
        let Some(&(distance, point)) = found.get(k.saturating_sub(1)) else { return found.len() };
        let farthest = distance + self.doubt(query, point) + distance.abs() * ROUNDING;
        found.partition_point(|(distance, _)| *distance <= farthest).max(k)
    }

    /// Whether two points are copies: equally far from every other.
    fn are_copies(&self, a: u32, b: u32) -> bool {
        let (mut query, mut distances) = (Self::Query::default(), [0.0; 2]);
        self.query_of(a, &mut query);
        self.distances(&query, &[a, b], &mut distances);
        distances[1] <= distances[0]
    }
}

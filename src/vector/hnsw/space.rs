//! What a graph is built over: numbered points, and how far one is from another.

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

    /// Whether two points are copies: equally far from every other.
    fn are_copies(&self, a: u32, b: u32) -> bool {
        let (mut query, mut distances) = (Self::Query::default(), [0.0; 2]);
        self.query_of(a, &mut query);
        self.distances(&query, &[a, b], &mut distances);
        distances[1] <= distances[0]
    }
}

//! A weighted, undirected graph in compressed rows.

/// An undirected, weighted graph of nodes `0..nodes` in compressed rows: of each node its neighbours in ascending order, with the share of
/// the node's rank that each of them gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Adjacency {
    /// Where the neighbours of each node start; one more than there are nodes.
    pub(super) starts: Vec<usize>,
    pub(super) neighbours: Vec<u32>,
    /// The weight of each edge divided by the weights of all edges of the node that the row belongs to.
    pub(super) shares: Vec<f64>,
    /// The square root of the weights of all edges of each node; 0 for one without edges.
    pub(super) roots: Vec<f64>,
}

impl Adjacency {
    /// The graph of these edges, whose ends are below `nodes`. Parallel edges, in either direction, add up in the order given; a self-loop
    /// is one edge. Weights are finite and above 0; edges of other weights, and edges to nodes that do not exist, are left out.
    /// O(nodes + edges x log(edges of a node)).
    pub fn from_edges(nodes: u32, edges: &[(u32, u32, f64)]) -> Adjacency {
        let usable = |&&(u, v, w): &&(u32, u32, f64)| u < nodes && v < nodes && w.is_finite() && w > 0.0;
        let mut starts = vec![0usize; nodes as usize + 1];
        for &(u, v, _) in edges.iter().filter(usable) {
            starts[u as usize + 1] += 1;
            if u != v {
                starts[v as usize + 1] += 1;
            }
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut entries = vec![(0u32, 0f64); starts[nodes as usize]];
        let mut put = |from: u32, to: u32, weight: f64| {
            entries[next[from as usize]] = (to, weight);
            next[from as usize] += 1;
        };
        for &(u, v, w) in edges.iter().filter(usable) {
            put(u, v, w);
            if u != v {
                put(v, u, w);
            }
        }
        let mut graph = Adjacency { starts: vec![0], neighbours: Vec::new(), shares: Vec::new(), roots: Vec::new() };
        for bounds in starts.windows(2) {
            graph.push_node(&mut entries[bounds[0]..bounds[1]]);
        }
        graph
    }

    /// Appends a node with these edges, parallel ones still apart.
    fn push_node(&mut self, edges: &mut [(u32, f64)]) {
        let from = self.neighbours.len();
        // Stable, so that parallel edges add up in the order in which they came.
        edges.sort_by_key(|e| e.0);
        for &(to, weight) in edges.iter() {
            if self.neighbours.len() > from && self.neighbours.last() == Some(&to) {
                *self.shares.last_mut().expect("as long as the neighbours") += weight;
            } else {
                self.neighbours.push(to);
                self.shares.push(weight);
            }
        }
        // Divided by the greatest first, so that the sum of huge weights stays finite.
        let row = &mut self.shares[from..];
        let greatest = row.iter().copied().fold(0.0, f64::max).min(f64::MAX);
        if greatest > 0.0 {
            row.iter_mut().for_each(|w| *w = w.min(f64::MAX) / greatest);
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|w| *w /= sum);
            self.roots.push((sum * greatest).sqrt());
        } else {
            self.roots.push(0.0);
        }
        self.starts.push(self.neighbours.len());
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// How many pairs of a node and a neighbour there are: two for each edge, one for a self-loop.
    pub fn entries(&self) -> usize {
        self.neighbours.len()
    }
}

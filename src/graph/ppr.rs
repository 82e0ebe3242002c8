//! Personalised PageRank on a weighted, undirected graph: the fixed point, by power iteration.

/// The greatest L1 distance between two rounds at which the ranks count as settled.
const TOLERANCE: f64 = 1e-12;

/// An undirected, weighted graph of nodes `0..nodes` in compressed rows: of each node its neighbours in ascending order, with the share of
/// the node's rank that each of them gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Adjacency {
    /// Where the neighbours of each node start; one more than there are nodes.
    starts: Vec<usize>,
    neighbours: Vec<u32>,
    /// The weight of each edge divided by the weights of all edges of the node that the row belongs to.
    shares: Vec<f64>,
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
        let mut graph = Adjacency { starts: vec![0], neighbours: Vec::new(), shares: Vec::new() };
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

/// The rank of every node: the fixed point of `networkx.pagerank(graph, alpha, personalization = seeds, weight = "weight")`.
///
/// Each round passes `alpha` of a node's rank on along its edges by their shares; a node without edges gives it to the seeds; the rest
/// restarts at the seeds. `seeds` holds a weight for each node, at least 0 and finite; only their proportions count, and if all are 0, all
/// nodes are seeds alike. Rounds go on until the ranks move by less than 1e-12 in all. The ranks add up to 1; without nodes there are none.
/// `alpha` lies in 0 to 1, 1 excluded. Deterministic: each sum has one order. O(rounds x (nodes + edges)), with about
/// ln(1e-12) / ln(alpha) rounds: 170 at 0.85.
///
/// # Panics
/// When `seeds` has not one weight a node.
pub fn personalized_pagerank(graph: &Adjacency, seeds: &[f64], alpha: f64) -> Vec<f64> {
    assert_eq!(seeds.len(), graph.nodes(), "a seed weight for each node");
    let restart = distribution(seeds);
    let mut ranks = restart.clone();
    let mut next = vec![0.0; ranks.len()];
    for _ in 0..rounds_max(alpha) {
        let dangling: f64 = ranks.iter().zip(graph.starts.windows(2)).filter(|(_, b)| b[0] == b[1]).map(|(rank, _)| rank).sum();
        // What a node restarts with, and its part of what nodes without edges give away.
        let base = (1.0 - alpha) + alpha * dangling;
        next.iter_mut().zip(&restart).for_each(|(n, p)| *n = base * p);
        for (rank, bounds) in ranks.iter().zip(graph.starts.windows(2)) {
            let passed = alpha * rank;
            if passed == 0.0 {
                continue;
            }
            let row = bounds[0]..bounds[1];
            for (&to, share) in graph.neighbours[row.clone()].iter().zip(&graph.shares[row]) {
                next[to as usize] += passed * share;
            }
        }
        let moved: f64 = ranks.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
        std::mem::swap(&mut ranks, &mut next);
        if moved < TOLERANCE {
            break;
        }
    }
    ranks
}

/// The weights divided by their sum; uniform when that is 0.
fn distribution(weights: &[f64]) -> Vec<f64> {
    let greatest = weights.iter().copied().filter(|w| w.is_finite()).fold(0.0, f64::max);
    if greatest == 0.0 {
        return vec![1.0 / weights.len() as f64; weights.len()];
    }
    let scaled = |w: &f64| if w.is_finite() && *w > 0.0 { w / greatest } else { 0.0 };
    let sum: f64 = weights.iter().map(scaled).sum();
    weights.iter().map(|w| scaled(w) / sum).collect()
}

/// Rounds after which the ranks have settled whatever the graph: each brings them nearer by the factor `alpha`, from 2 at most.
fn rounds_max(alpha: f64) -> u32 {
    if alpha <= 0.0 {
        return 1;
    }
    let rounds = (TOLERANCE / 4.0).ln() / alpha.min(0.999_999).ln();
    rounds.ceil() as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_golden_ranks_of_networkx_come_out() {
        let mut cases = 0;
        for line in include_str!("../../tests/golden/ppr.jsonl").lines() {
            let case: serde_json::Value = serde_json::from_str(line).expect("a golden line is JSON");
            let number = |v: &serde_json::Value| v.as_f64().expect("a number");
            let list = |key: &str| case[key].as_array().expect("a list").clone();
            let nodes = number(&case["nodes"]) as u32;
            let edges: Vec<(u32, u32, f64)> =
                list("edges").iter().map(|e| (number(&e[0]) as u32, number(&e[1]) as u32, number(&e[2]))).collect();
            let mut seeds = vec![0.0; nodes as usize];
            list("seeds").iter().for_each(|s| seeds[number(&s[0]) as usize] = number(&s[1]));
            let ranks = personalized_pagerank(&Adjacency::from_edges(nodes, &edges), &seeds, number(&case["alpha"]));
            for (node, (rank, expected)) in ranks.iter().zip(list("scores")).enumerate() {
                let expected = number(&expected);
                assert!((rank - expected).abs() <= 1e-11 + 1e-9 * expected, "case {cases}, node {node}: {rank}, expected {expected}");
            }
            assert_eq!(ranks.len(), list("scores").len());
            cases += 1;
        }
        assert_eq!(cases, 20);
    }

    #[test]
    fn parallel_edges_add_up_in_either_direction_and_a_loop_is_one_edge() {
        let apart = Adjacency::from_edges(3, &[(0, 1, 1.0), (1, 0, 2.0), (0, 0, 0.5), (1, 2, 1.0), (0, 1, 1.0)]);
        let together = Adjacency::from_edges(3, &[(0, 0, 0.5), (0, 1, 4.0), (2, 1, 1.0)]);
        assert_eq!(apart, together);
        assert_eq!(together.entries(), 5);
        let seeds = [1.0, 0.0, 0.0];
        assert_eq!(personalized_pagerank(&apart, &seeds, 0.85), personalized_pagerank(&together, &seeds, 0.85));
    }

    #[test]
    fn rank_is_conserved_with_dangling_nodes_loops_and_extreme_weights() {
        let edges = [(0, 1, f64::MAX), (0, 1, f64::MAX), (1, 2, f64::MIN_POSITIVE), (2, 2, 3.0), (4, 4, 1e-300)];
        let graph = Adjacency::from_edges(6, &edges);
        for seeds in [[1.0, 0.0, 0.0, 2.0, 0.0, 0.0], [0.0; 6], [f64::MAX; 6], [0.0, 0.0, 0.0, 0.0, 0.0, 5e-324]] {
            for alpha in [0.0, 0.5, 0.85, 0.99] {
                let ranks = personalized_pagerank(&graph, &seeds, alpha);
                assert!((ranks.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{seeds:?} {alpha}: {ranks:?}");
                assert!(ranks.iter().all(|r| (0.0..=1.0 + 1e-12).contains(r)));
            }
        }
    }

    #[test]
    fn seeds_of_zero_mean_all_nodes_alike_and_no_nodes_have_no_ranks() {
        let graph = Adjacency::from_edges(2, &[(0, 1, 1.0)]);
        let ranks = personalized_pagerank(&graph, &[0.0, 0.0], 0.85);
        assert!(ranks.iter().all(|r| (r - 0.5).abs() < 1e-12), "{ranks:?}");
        assert!(personalized_pagerank(&Adjacency::from_edges(0, &[]), &[], 0.85).is_empty());
        let ranks = personalized_pagerank(&Adjacency::from_edges(2, &[]), &[1.0, 0.0], 0.85);
        assert_eq!(ranks, [1.0, 0.0], "a node without edges gives its rank to the seeds");
    }
}

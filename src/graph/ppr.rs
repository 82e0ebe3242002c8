//! Personalised PageRank on a weighted, undirected graph: the fixed point, to 1e-12.

/// The greatest L1 distance between two rounds at which the ranks count as settled.
const TOLERANCE: f64 = 1e-12;

/// Steps of conjugate gradients after which rounds take over: twice what alpha 0.85 needs at worst.
const STEPS_MAX: usize = 100;

/// An undirected, weighted graph of nodes `0..nodes` in compressed rows: of each node its neighbours in ascending order, with the share of
/// the node's rank that each of them gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Adjacency {
    /// Where the neighbours of each node start; one more than there are nodes.
    starts: Vec<usize>,
    neighbours: Vec<u32>,
    /// The weight of each edge divided by the weights of all edges of the node that the row belongs to.
    shares: Vec<f64>,
    /// The square root of the weights of all edges of each node; 0 for one without edges.
    roots: Vec<f64>,
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

/// The rank of every node: the fixed point of `networkx.pagerank(graph, alpha, personalization = seeds, weight = "weight")`.
///
/// In a round each node passes `alpha` of its rank on along its edges by their shares; one without edges gives it to the seeds; the rest
/// restarts at the seeds. `seeds` holds a weight for each node, at least 0 and finite; only their proportions count, and if all are 0, all
/// nodes are seeds alike. The answer is one that a further round moves by less than 1e-12 in all. The ranks add up to 1; without nodes
/// there are none. `alpha` lies in 0 to 1, 1 excluded. Deterministic: each sum has one order.
///
/// Rounds alone would need about ln(1e-12) / ln(alpha) of them, 170 at 0.85. The graph being undirected, the fixed point also solves a
/// symmetric system, of which conjugate gradients come near in a fifth of the steps; rounds from there judge, and finish where weights are
/// too extreme for that. O(steps x (nodes + edges)).
///
/// # Panics
/// When `seeds` has not one weight a node.
pub fn personalized_pagerank(graph: &Adjacency, seeds: &[f64], alpha: f64) -> Vec<f64> {
    assert_eq!(seeds.len(), graph.nodes(), "a seed weight for each node");
    let restart = distribution(seeds);
    let start = solve(graph, &restart, alpha).unwrap_or_else(|| restart.clone());
    rounds(graph, &restart, start, alpha)
}

/// Rounds from `start`, until one moves the ranks by less than the tolerance.
fn rounds(graph: &Adjacency, restart: &[f64], start: Vec<f64>, alpha: f64) -> Vec<f64> {
    let mut ranks = start;
    let mut next = vec![0.0; ranks.len()];
    for _ in 0..rounds_max(alpha) {
        let dangling: f64 = ranks.iter().zip(graph.starts.windows(2)).filter(|(_, b)| b[0] == b[1]).map(|(rank, _)| rank).sum();
        // What a node restarts with, and its part of what nodes without edges give away.
        let base = (1.0 - alpha) + alpha * dangling;
        next.iter_mut().zip(restart).for_each(|(n, p)| *n = base * p);
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

/// Ranks near the fixed point; `None` when the weights lie too far apart, or the steps come to nothing.
///
/// Let W be the weights, S the diagonal of their sums, p the restart. What nodes without edges give to the seeds only scales the ranks, so
/// they are z / sum(z) with z = p + alpha W S^-1 z. With z = S^1/2 v this is (1 - alpha N) v = S^-1/2 p, where N = S^-1/2 W S^-1/2 is
/// symmetric with eigenvalues in [-1, 1]: positive definite, of condition at most (1 + alpha) / (1 - alpha). N(i, j) is the share of j in
/// i, times root(i) / root(j). A node without edges has z = p.
fn solve(graph: &Adjacency, restart: &[f64], alpha: f64) -> Option<Vec<f64>> {
    // Squares of their squares, and sums of those, stay far from what a float cannot hold.
    if !graph.roots.iter().all(|&root| root == 0.0 || (1e-30..1e30).contains(&root)) {
        return None;
    }
    let inverse: Vec<f64> = graph.roots.iter().map(|&root| if root == 0.0 { 0.0 } else { 1.0 / root }).collect();
    let mut residual: Vec<f64> = restart.iter().zip(&inverse).map(|(p, i)| p * i).collect();
    let mut direction = residual.clone();
    let mut solution = vec![0.0; residual.len()];
    let (mut scaled, mut image) = (solution.clone(), solution.clone());
    let mut square = dot(&residual, &residual);
    for _ in 0..STEPS_MAX {
        if weighted_l1(&residual, &graph.roots) < TOLERANCE / 4.0 {
            break;
        }
        scaled.iter_mut().zip(direction.iter().zip(&inverse)).for_each(|(s, (d, i))| *s = d * i);
        for ((image, own), (root, bounds)) in image.iter_mut().zip(&direction).zip(graph.roots.iter().zip(graph.starts.windows(2))) {
            let row = bounds[0]..bounds[1];
            let passed: f64 = graph.neighbours[row.clone()].iter().zip(&graph.shares[row]).map(|(&j, share)| share * scaled[j as usize]).sum();
            *image = own - alpha * root * passed;
        }
        let step = square / dot(&direction, &image);
        if !step.is_finite() {
            return None;
        }
        solution.iter_mut().zip(&direction).for_each(|(x, d)| *x += step * d);
        residual.iter_mut().zip(&image).for_each(|(r, i)| *r -= step * i);
        let next = dot(&residual, &residual);
        let turn = next / square;
        direction.iter_mut().zip(&residual).for_each(|(d, r)| *d = r + turn * *d);
        square = next;
    }
    let value = |((x, root), p): ((&f64, &f64), &f64)| if *root == 0.0 { *p } else { (x * root).max(0.0) };
    let mut ranks: Vec<f64> = solution.iter().zip(&graph.roots).zip(restart).map(value).collect();
    let sum: f64 = ranks.iter().sum();
    ranks.iter_mut().for_each(|rank| *rank /= sum);
    (sum.is_finite() && sum > 0.0).then_some(ranks)
}

/// The sum of products, in four lanes.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 4];
    let (fours, rest) = a.as_chunks::<4>();
    let (fours_b, rest_b) = b.as_chunks::<4>();
    for (x, y) in fours.iter().zip(fours_b) {
        (0..4).for_each(|i| lanes[i] += x[i] * y[i]);
    }
    rest.iter().zip(rest_b).for_each(|(x, y)| lanes[0] += x * y);
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

/// The sum of the sizes of products, in four lanes.
fn weighted_l1(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 4];
    let (fours, rest) = a.as_chunks::<4>();
    let (fours_b, rest_b) = b.as_chunks::<4>();
    for (x, y) in fours.iter().zip(fours_b) {
        (0..4).for_each(|i| lanes[i] += (x[i] * y[i]).abs());
    }
    rest.iter().zip(rest_b).for_each(|(x, y)| lanes[0] += (x * y).abs());
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
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
    use proptest::prelude::*;

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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn the_short_way_and_rounds_alone_come_to_the_same_ranks(
            nodes in 1u32..40,
            edges in prop::collection::vec((0u32..40, 0u32..40, prop_oneof![Just(1.0), 1e-6..1e6]), 0..120),
            seeds in prop::collection::vec(prop_oneof![2 => Just(0.0), 1 => 0.001..9.0], 40),
            alpha in prop_oneof![Just(0.85), 0.0..0.99],
        ) {
            let graph = Adjacency::from_edges(nodes, &edges);
            let restart = distribution(&seeds[..nodes as usize]);
            let ranks = personalized_pagerank(&graph, &seeds[..nodes as usize], alpha);
            let slow = rounds(&graph, &restart, restart.clone(), alpha);
            let moved: f64 = ranks.iter().zip(&slow).map(|(a, b)| (a - b).abs()).sum();
            // Each stops within 1e-12 x alpha / (1 - alpha) of the fixed point.
            prop_assert!(moved < 4e-12 / (1.0 - alpha), "{} apart", moved);
            // Where the short way is taken, one round or two must be all that is left.
            let start = solve(&graph, &restart, alpha).expect("these weights are not extreme");
            let left: f64 = rounds(&graph, &restart, start.clone(), 0.85).iter().zip(&start).map(|(a, b)| (a - b).abs()).sum();
            prop_assert!(alpha != 0.85 || left < 1e-11, "{} left to go", left);
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

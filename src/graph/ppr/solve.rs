//! The short way to ranks near the fixed point.
//!
//! Let W be the weights, S the diagonal of their sums, p the restart. What nodes without edges give to the seeds only scales the ranks, so
//! they are z / sum(z) with z = p + alpha W S^-1 z. With z = S^1/2 v this is (1 - alpha N) v = S^-1/2 p, where N = S^-1/2 W S^-1/2 is
//! symmetric with eigenvalues in [-1, 1]: positive definite, of condition at most (1 + alpha) / (1 - alpha). A node without edges has z = p.
//!
//! A node with one neighbour is eliminated by one step of Gauss, which adds no entry; that neighbour may have one left then, and so on.
//! What stays is the 2-core, of which the same bounds hold (it is a Schur complement), scaled to a diagonal of ones. Graphs of entities
//! are mostly trees with few cycles, so the core has a small part of their nodes.

use super::{Adjacency, TOLERANCE};

/// Steps of conjugate gradients after which rounds take over: twice what alpha 0.85 needs at worst.
const STEPS_MAX: usize = 100;

/// Ranks near the fixed point; `None` when the weights lie too far apart, or the steps come to nothing.
pub(super) fn solve(graph: &Adjacency, restart: &[f64], alpha: f64) -> Option<Vec<f64>> {
    // Squares of their squares, and sums of those, stay far from what a float cannot hold.
    if !graph.roots.iter().all(|&root| root == 0.0 || (1e-30..1e30).contains(&root)) {
        return None;
    }
    let mut system = System::new(graph, restart, alpha);
    let leaves = system.eliminate_leaves();
    let mut solution = Core::of(&system).solve(system.right.len())?;
    for leaf in leaves.iter().rev() {
        solution[leaf.node] = (system.right[leaf.node] + leaf.entry * solution[leaf.neighbour]) / system.diagonal[leaf.node];
    }
    let value = |((x, root), p): ((&f64, &f64), &f64)| if *root == 0.0 { *p } else { (x * root).max(0.0) };
    let mut ranks: Vec<f64> = solution.iter().zip(&graph.roots).zip(restart).map(value).collect();
    let sum: f64 = ranks.iter().sum();
    ranks.iter_mut().for_each(|rank| *rank /= sum);
    (sum.is_finite() && sum > 0.0).then_some(ranks)
}

/// The symmetric system, as far as it is eliminated: `diagonal[i] v[i] - sum of entry(i, j) v[j] = right[i]` over the neighbours left.
struct System<'a> {
    graph: &'a Adjacency,
    alpha: f64,
    diagonal: Vec<f64>,
    right: Vec<f64>,
    /// Neighbours left, the node itself not counted.
    degrees: Vec<u32>,
    /// Whether a node is still in the system; one without edges never is.
    left: Vec<bool>,
}

/// A node that was eliminated when it had one neighbour, and the entry between the two.
struct Leaf {
    node: usize,
    neighbour: usize,
    entry: f64,
}

impl<'a> System<'a> {
    fn new(graph: &'a Adjacency, restart: &[f64], alpha: f64) -> System<'a> {
        let right = restart.iter().zip(&graph.roots).map(|(p, &root)| if root == 0.0 { 0.0 } else { p / root }).collect();
        let left: Vec<bool> = graph.roots.iter().map(|&root| root != 0.0).collect();
        let mut system = System { graph, alpha, diagonal: vec![1.0; left.len()], right, degrees: vec![0; left.len()], left };
        for (node, bounds) in graph.starts.windows(2).enumerate() {
            system.degrees[node] = (bounds[1] - bounds[0]) as u32;
            let row = &graph.neighbours[bounds[0]..bounds[1]];
            if let Ok(own) = row.binary_search(&(node as u32)) {
                system.diagonal[node] -= alpha * graph.shares[bounds[0] + own];
                system.degrees[node] -= 1;
            }
        }
        system
    }

    /// The neighbours of a node that are left, each with its entry: the share that the node passes on, brought to the symmetric form.
    fn entries(&self, node: usize) -> impl Iterator<Item = (usize, f64)> {
        let row = self.graph.starts[node]..self.graph.starts[node + 1];
        let scale = self.alpha * self.graph.roots[node];
        let entry = move |(&to, share): (&u32, &f64)| (to as usize, scale * share / self.graph.roots[to as usize]);
        let there = move |(to, _): &(usize, f64)| *to != node && self.left[*to];
        self.graph.neighbours[row.clone()].iter().zip(&self.graph.shares[row]).map(entry).filter(there)
    }

    /// Takes out nodes with one neighbour until there are none, and says in which order.
    fn eliminate_leaves(&mut self) -> Vec<Leaf> {
        let mut leaves = Vec::with_capacity(self.left.len());
        for start in 0..self.left.len() {
            let mut node = start;
            while self.left[node] && self.degrees[node] == 1 {
                let Some((neighbour, entry)) = self.entries(node).next() else { break };
                self.left[node] = false;
                self.degrees[neighbour] -= 1;
                self.right[neighbour] += entry * self.right[node] / self.diagonal[node];
                self.diagonal[neighbour] -= entry * entry / self.diagonal[node];
                leaves.push(Leaf { node, neighbour, entry });
                // A neighbour with a higher number is met later; one with a lower number only here.
                if neighbour > start {
                    break;
                }
                node = neighbour;
            }
        }
        leaves
    }
}

/// What is left of the system, numbered anew and scaled to a diagonal of ones.
struct Core {
    nodes: Vec<usize>,
    starts: Vec<u32>,
    entries: Vec<(u32, f64)>,
    right: Vec<f64>,
    /// What a value of the core is multiplied with to be one of the system.
    scales: Vec<f64>,
    /// How much of a residual of the core is rank.
    weights: Vec<f64>,
}

impl Core {
    fn of(system: &System<'_>) -> Core {
        let nodes: Vec<usize> = (0..system.left.len()).filter(|&node| system.left[node]).collect();
        let mut numbers = vec![0u32; system.left.len()];
        (0u32..).zip(&nodes).for_each(|(number, &node)| numbers[node] = number);
        let scales: Vec<f64> = nodes.iter().map(|&node| 1.0 / system.diagonal[node].sqrt()).collect();
        let (mut starts, mut entries) = (vec![0], Vec::new());
        for (&node, scale) in nodes.iter().zip(&scales) {
            for (to, entry) in system.entries(node) {
                let to = numbers[to];
                entries.push((to, entry * scale * scales[to as usize]));
            }
            starts.push(entries.len() as u32);
        }
        let right = nodes.iter().zip(&scales).map(|(&node, scale)| system.right[node] * scale).collect();
        let weights = nodes.iter().zip(&scales).map(|(&node, scale)| system.graph.roots[node] / scale).collect();
        Core { nodes, starts, entries, right, scales, weights }
    }

    /// Values of the whole system, of `nodes` nodes, those of the core filled in.
    fn solve(self, nodes: usize) -> Option<Vec<f64>> {
        let mut residual = self.right;
        let mut direction = residual.clone();
        let (mut solution, mut image) = (vec![0.0; residual.len()], vec![0.0; residual.len()]);
        let mut square = dot(&residual, &residual);
        for _ in 0..STEPS_MAX {
            if weighted_l1(&residual, &self.weights) < TOLERANCE / 4.0 {
                break;
            }
            for ((image, own), bounds) in image.iter_mut().zip(&direction).zip(self.starts.windows(2)) {
                let row = &self.entries[bounds[0] as usize..bounds[1] as usize];
                *image = own - row.iter().map(|&(to, entry)| entry * direction[to as usize]).sum::<f64>();
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
        let mut values = vec![0.0; nodes];
        self.nodes.iter().zip(solution).zip(&self.scales).for_each(|((&node, x), scale)| values[node] = x * scale);
        Some(values)
    }
}

/// The sum of products, in four lanes.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    in_lanes(a, b, |x, y| x * y)
}

/// The sum of the sizes of products, in four lanes.
fn weighted_l1(a: &[f64], b: &[f64]) -> f64 {
    in_lanes(a, b, |x, y| (x * y).abs())
}

fn in_lanes(a: &[f64], b: &[f64], product: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lanes = [0.0; 4];
    let (fours, rest) = a.as_chunks::<4>();
    let (fours_b, rest_b) = b.as_chunks::<4>();
    for (x, y) in fours.iter().zip(fours_b) {
        (0..4).for_each(|i| lanes[i] += product(x[i], y[i]));
    }
    rest.iter().zip(rest_b).for_each(|(&x, &y)| lanes[0] += product(x, y));
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

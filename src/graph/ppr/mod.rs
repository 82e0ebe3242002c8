//! Personalised PageRank on a weighted, undirected graph: the fixed point, to 1e-12.
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | [`personalized_pagerank`]: what is asked, and the rounds that judge an answer |
//! | `adjacency.rs` | [`Adjacency`]: the graph |
//! | `solve.rs` | the short way to ranks near the fixed point: leaves first, then conjugate gradients |

mod adjacency;
mod solve;

pub use adjacency::Adjacency;

/// The greatest L1 distance between two rounds at which the ranks count as settled.
const TOLERANCE: f64 = 1e-12;

/// The rank of every node: the fixed point of `networkx.pagerank(graph, alpha, personalization = seeds, weight = "weight")`.
///
/// In a round each node passes `alpha` of its rank on along its edges by their shares; one without edges gives it to the seeds; the rest
/// restarts at the seeds. `seeds` holds a weight for each node, at least 0 and finite; only their proportions count, and if all are 0, all
/// nodes are seeds alike. The answer is one that a further round moves by less than 1e-12 in all. The ranks add up to 1; without nodes
/// there are none. `alpha` lies in 0 to 1, 1 excluded. Deterministic: each sum has one order.
///
/// Rounds alone would need about ln(1e-12) / ln(alpha) of them, 170 at 0.85. The graph being undirected, the fixed point also solves a
/// symmetric system: nodes with one neighbour are eliminated from it, again and again, and conjugate gradients come near the ranks of the
/// others in a fifth of the steps; rounds from there judge, and finish where weights are too extreme for that.
/// O(nodes + edges + steps x (nodes and edges of the 2-core)).
///
/// # Panics
/// When `seeds` has not one weight a node.
pub fn personalized_pagerank(graph: &Adjacency, seeds: &[f64], alpha: f64) -> Vec<f64> {
    assert_eq!(seeds.len(), graph.nodes(), "a seed weight for each node");
    let restart = distribution(seeds);
    let start = solve::solve(graph, &restart, alpha).unwrap_or_else(|| restart.clone());
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
mod tests;

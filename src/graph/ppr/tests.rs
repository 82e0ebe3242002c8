//! Against networkx, and against rounds alone.

use super::*;
use proptest::prelude::*;

#[test]
fn the_golden_ranks_of_networkx_come_out() {
    let mut cases = 0;
    for line in include_str!("../../../tests/golden/ppr.jsonl").lines() {
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
        let start = solve::solve(&graph, &restart, alpha).expect("these weights are not extreme");
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


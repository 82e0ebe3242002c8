//! What public reports say went wrong in other vector indexes; `docs/testing.md` says which test stands for which.

use super::merging::{gather, merged, part};
use super::*;
use crate::options::Metric;
use crate::vector::QueryVector;
use crate::vector::hnsw::images::{Images, Vectors};
use crate::vector::kernel;

const DIMENSION: usize = 12;

/// Asks for points by their own vectors, and gives those of which nothing as near as themselves was found.
fn not_found(rows: &[f32], graph: &Graph, ef: usize) -> Vec<u32> {
    let space = FloatSpace::new(rows, DIMENSION);
    // As many as a search for ten could ever return.
    let mut scratch = Scratch::for_few_copies(10);
    let lost = |(query, point): &(&[f32], u32)| {
        let query = query.to_vec();
        let mut own = [0.0];
        space.distances(&query, &[*point], &mut own);
        scratch.search(&space, &query, graph, ef).next().is_none_or(|(distance, _)| distance > own[0])
    };
    rows.chunks_exact(DIMENSION).zip(0u32..).filter(lost).map(|(_, point)| point).collect()
}

fn assert_each_finds_itself(rows: &[f32], graph: &Graph, ef: usize) {
    let lost = not_found(rows, graph, ef);
    assert!(lost.is_empty(), "{lost:?}");
}

fn unit(row: &mut [f32]) {
    let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
    row.iter_mut().for_each(|x| *x /= norm);
}

/// 5,000 vectors of their own, 100 of them twice, one 40 times and one 2,000 times, in an order that mixes them; and which row each copies.
fn with_copies() -> (Vec<f32>, Vec<usize>) {
    let distinct = vectors(5_000, DIMENSION, 21);
    let mut sources: Vec<usize> = (0..5_000).chain(0..100).chain(std::iter::repeat_n(100, 39)).chain(std::iter::repeat_n(101, 1_999)).collect();
    let keys: Vec<usize> = super::merging::draws(21, 1 << 30).take(sources.len()).collect();
    let mut order: Vec<usize> = (0..sources.len()).collect();
    order.sort_by_key(|&i| keys[i]);
    sources = order.into_iter().map(|i| sources[i]).collect();
    (gather(&distinct, &sources), sources)
}

#[test]
fn copies_form_no_island_and_take_no_neighbours_from_others() {
    let (rows, sources) = with_copies();
    let options = BuildOptions { m: 8, ef_construction: 100, threads: 2 };
    let graph = built(&rows, DIMENSION, &options);
    // Whichever copy a walk comes to, it comes out again.
    for (group, size) in [(100, 40), (101, 2_000)] {
        let members: Vec<u32> = (0..rows.len() as u32 / DIMENSION as u32).filter(|&p| sources[p as usize] == group).collect();
        assert_eq!(members.len(), size);
        let out = |&&p: &&u32| graph.row(0, p).iter().any(|&l| l != NONE && sources[l as usize] != group);
        assert_eq!(members.iter().filter(out).count(), size, "copies of {group} that link to others");
    }
    // Those that have no copies are found as in a graph without any.
    let distinct = vectors(5_000, DIMENSION, 21);
    let alone = built(&distinct, DIMENSION, &options);
    let hits = |rows: &[f32], graph: &Graph, ef: usize| {
        let (space, mut scratch, mut hits) = (FloatSpace::new(rows, DIMENSION), Scratch::default(), 0);
        for query in distinct.chunks_exact(DIMENSION).skip(102).step_by(5) {
            let nearest = exact(rows, DIMENSION, query, 10);
            let mut worst = [0.0];
            space.distances(&query.to_vec(), &nearest[9..], &mut worst);
            hits += scratch.search(&space, &query.to_vec(), graph, ef).take(10).filter(|(distance, _)| *distance <= worst[0]).count();
        }
        hits as f64 / 9_800.0
    };
    let (with, without) = (hits(&rows, &graph, 40), hits(&distinct, &alone, 40));
    assert!(with >= without - 0.01, "{with}, {without}");
}

#[test]
fn copies_in_several_graphs_are_merged_without_islands() {
    let (rows, sources) = with_copies();
    let options = BuildOptions { m: 8, ef_construction: 60, threads: 2 };
    let count = sources.len();
    let parts = [part(&rows, 0..count / 2, &options), part(&rows, count / 2..count * 3 / 4, &options)];
    // All copies of one vector but two die in the first part.
    let next: Vec<usize> = (0..count).filter(|&row| sources[row] != 101 || row % 7 == 0 || row > count / 3).collect();
    let graph = merged(&rows, &parts, &next, &options);
    assert_each_finds_itself(&gather(&rows, &next), &graph, 40);
}

#[test]
fn nothing_but_copies_is_one_graph() {
    let rows: Vec<f32> = vectors(1, DIMENSION, 22).repeat(2_000);
    let graph = built(&rows, DIMENSION, &BuildOptions { m: 8, ef_construction: 40, threads: 2 });
    let query = rows[..DIMENSION].to_vec();
    assert_eq!(Scratch::default().search(&FloatSpace::new(&rows, DIMENSION), &query, &graph, 2_000).len(), 2_000);
}

#[test]
fn far_points_that_come_after_a_tight_crowd_are_all_found() {
    let mut rows = vectors(1, DIMENSION, 23).repeat(3 * 32);
    rows.iter_mut().enumerate().for_each(|(i, x)| *x += (i * 31 % 17) as f32 * 1e-4);
    rows.extend(vectors(20, DIMENSION, 24).iter().map(|x| -x));
    rows.chunks_exact_mut(DIMENSION).for_each(unit);
    let graph = built(&rows, DIMENSION, &BuildOptions::default());
    assert_each_finds_itself(&rows, &graph, 10);
}

#[test]
fn outliers_are_found_and_every_point_finds_itself() {
    let mut rows = vectors(2_000, DIMENSION, 25);
    // All but five lie around one direction.
    rows.chunks_exact_mut(DIMENSION).skip(5).for_each(|row| row[0] += 4.0);
    rows.chunks_exact_mut(DIMENSION).for_each(unit);
    let options = BuildOptions { m: 8, ef_construction: 100, threads: 2 };
    let graph = built(&rows, DIMENSION, &options);
    assert_each_finds_itself(&rows, &graph, 40);
    let parts = [part(&rows, 0..1_000, &options), part(&rows, 1_000..1_800, &options)];
    let next: Vec<usize> = (0..2_000).filter(|row| *row < 5 || row % 11 != 0).collect();
    assert_each_finds_itself(&gather(&rows, &next), &merged(&rows, &parts, &next, &options), 40);
}

#[test]
fn as_many_as_there_are_can_be_asked_for() {
    for count in [1, 2, 3, 40, 700] {
        let rows = vectors(count, DIMENSION, 26);
        let graph = built(&rows, DIMENSION, &BuildOptions { m: 4, ef_construction: 20, threads: 1 });
        let space = FloatSpace::new(&rows, DIMENSION);
        let mut all: Vec<u32> = Scratch::default().search(&space, &rows[..DIMENSION].to_vec(), &graph, count).map(|(_, p)| p).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..count as u32), "{count}");
    }
}

#[test]
fn a_graph_whose_entry_and_upper_levels_died_is_merged_and_searched() {
    let rows = vectors(1_500, DIMENSION, 27);
    let options = BuildOptions { m: 6, ef_construction: 60, threads: 2 };
    let parts = [part(&rows, 0..900, &options), part(&rows, 900..1_400, &options)];
    let above = |part: &super::merging::Part| -> Vec<usize> {
        part.sealed.points[..part.sealed.level_counts[1] as usize].iter().map(|&p| part.rows[p as usize]).collect()
    };
    let dead = [above(&parts[0]), above(&parts[1])].concat();
    assert!(dead.len() > 100);
    let next: Vec<usize> = (0..1_500).filter(|row| !dead.contains(row)).collect();
    let alive = gather(&rows, &next);
    for count in [1, 2] {
        let last = if count == 1 { 900 } else { 1_500 };
        let next: Vec<usize> = next.iter().copied().filter(|row| *row < last).collect();
        let graph = merged(&rows, &parts[..count], &next, &options);
        assert!(graph.levels.iter().filter(|level| **level > 0).count() > next.len() / 20, "the levels above have points again");
        assert_each_finds_itself(&alive[..next.len() * DIMENSION], &graph, 40);
    }
}

#[test]
fn a_graph_of_which_all_died_leaves_nothing_behind() {
    let rows = vectors(300, DIMENSION, 28);
    let options = BuildOptions { m: 6, ef_construction: 60, threads: 2 };
    let parts = [part(&rows, 0..200, &options)];
    assert_eq!(merged(&rows, &parts, &[], &options).entry(), None);
    let next: Vec<usize> = (200..300).collect();
    assert_each_finds_itself(&rows[200 * DIMENSION..], &merged(&rows, &parts, &next, &options), 20);
    for alive in [0, 1, 2] {
        let next: Vec<usize> = (0..alive).collect();
        assert_each_finds_itself(&rows[..alive * DIMENSION], &merged(&rows, &parts, &next, &options), 20);
    }
}

#[test]
fn small_graphs_are_merged() {
    let rows = vectors(8, DIMENSION, 29);
    let options = BuildOptions { m: 6, ef_construction: 60, threads: 2 };
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (2, 2), (5, 3)] {
        let parts = [part(&rows, 0..first, &options), part(&rows, first..first + second, &options)];
        let next: Vec<usize> = (0..first + second).collect();
        let graph = merged(&rows, &parts, &next, &options);
        assert_each_finds_itself(&rows[..(first + second) * DIMENSION], &graph, 8);
    }
}

#[test]
fn every_seed_gives_one_graph_on_one_thread_and_on_two() {
    for seed in 100..116 {
        let rows = vectors(600, DIMENSION, seed);
        let [one, two] = [1, 2].map(|threads| built(&rows, DIMENSION, &BuildOptions { m: 6, ef_construction: 40, threads }));
        assert!(one == two, "seed {seed}");
    }
}

#[test]
fn vectors_of_no_length_and_of_hardly_any_are_in_the_graph() {
    let mut rows = vectors(500, DIMENSION, 30);
    for (i, row) in rows.chunks_exact_mut(DIMENSION).enumerate() {
        let length = [0.0, 1e-45, 1e-20, 1.0, 1.0][i % 5];
        row.iter_mut().for_each(|x| *x *= length);
    }
    let graph = built(&rows, DIMENSION, &BuildOptions { m: 6, ef_construction: 60, threads: 2 });
    let space = FloatSpace::new(&rows, DIMENSION);
    let all = Scratch::default().search(&space, &rows[3 * DIMENSION..4 * DIMENSION].to_vec(), &graph, 500).collect::<Vec<_>>();
    assert_eq!(all.len(), 500);
    assert!(all.iter().all(|(distance, _)| distance.is_finite()), "{all:?}");
}

/// Rows one after another, as a segment gives its vectors.
struct Rows(Vec<f32>);

impl Vectors for Rows {
    fn for_each(&self, sink: &mut dyn FnMut(&[f32]) -> crate::error::Result<()>) -> crate::error::Result<()> {
        self.0.chunks_exact(DIMENSION).try_for_each(sink)
    }
}

/// A graph over the codes of rows, and the codes.
fn built_of_codes(metric: Metric, rows: &Rows) -> (Graph, CodeSpace, Images) {
    let images = Images::of(metric, DIMENSION as u32, rows).unwrap();
    let codes = CodeSpace::of_vectors(&images, (rows.0.len() / DIMENSION) as u32, rows).unwrap();
    let options = BuildOptions { m: 8, ef_construction: 100, threads: 2 };
    let graph = build(&codes, &options, &AtomicBool::new(false), |_| {}).unwrap();
    assert_whole(&graph);
    (graph, codes, images)
}

#[test]
fn vectors_of_any_length_are_in_a_graph_of_codes_under_every_metric() {
    let mut rows = Rows(vectors(600, DIMENSION, 31));
    for (i, row) in rows.0.chunks_exact_mut(DIMENSION).enumerate() {
        let length = [0.0, 1e-45, 1e-20, 1.0, 1.0, 1e30][i % 6];
        row.iter_mut().for_each(|x| *x *= length);
    }
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        let (graph, codes, _) = built_of_codes(metric, &rows);
        let mut query = Default::default();
        for point in 0..12 {
            codes.query_of(point, &mut query);
            let all: Vec<(f32, u32)> = Scratch::default().search(&codes, &query, &graph, 600).collect();
            assert!(all.len() == 600 && all.iter().all(|(distance, _)| distance.is_finite()), "{metric}");
        }
    }
}

#[test]
fn codes_keep_their_recall_under_every_metric_whatever_the_data_look_like() {
    type Shape = fn(usize, &mut [f32]);
    let shapes: [(&str, Shape); 3] = [
        ("lengths of 1 to 100", |i, row| row.iter_mut().for_each(|x| *x *= 1.0 + (i * 37 % 100) as f32)),
        ("far from the origin", |_, row| row.iter_mut().for_each(|x| *x += 3.0)),
        ("one component far greater than the others", |i, row| row[4] *= 1.0 + (i * 37 % 20) as f32),
    ];
    for (name, shape) in shapes {
        let mut rows = Rows(vectors(2_000, DIMENSION, 32));
        rows.0.chunks_exact_mut(DIMENSION).enumerate().for_each(|(i, row)| shape(i, row));
        for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
            let (graph, codes, images) = built_of_codes(metric, &rows);
            let (mut scratch, mut image, mut query, mut found) = (Scratch::default(), Vec::new(), Default::default(), 0);
            for vector in rows.0.chunks_exact(DIMENSION).step_by(20) {
                let exact = QueryVector::new(metric, vector);
                let score = |row: &[f32]| exact.score(row, kernel::inverse_norm(row));
                let mut scores: Vec<f64> = rows.0.chunks_exact(DIMENSION).map(score).collect();
                images.query(vector, &mut image);
                codes.query(&image, &mut query);
                let mut hits: Vec<f64> = scratch.search(&codes, &query, &graph, 64).take(31).map(|(_, p)| scores[p as usize]).collect();
                hits.sort_by(|a, b| b.total_cmp(a));
                scores.sort_by(|a, b| b.total_cmp(a));
                found += hits.iter().take(10).filter(|hit| **hit >= scores[9]).count();
            }
            assert!(found >= 950, "{name}, {metric}: {found} of 1,000");
        }
    }
}

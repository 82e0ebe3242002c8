//! Filters of every share, at random, with the question and against it, by every way to answer: qdrant #3094 and #9926, milvus #44854, USearch PR 673
//! (one document of two thousand; other answers for an equivalent filter; none where one matches).
//!
//! Which way was taken is not said in so many words, but follows from what is: a scan, a scan of codes, or a walk, and of walks from the share of
//! documents that match, as `src/vector/ann/plan.rs` has it.

use super::asking::main_of;
use super::{Noise, filter, options};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use triune::io::sim::SimDirectory;
use triune::{Collection, Database, Document, Effort, Filter, Hnsw, IoMode, Metadata, Metric, Quantisation, Schema, Seq};

const DOCUMENTS: usize = 10_000;
const DIMENSION: usize = 10;
const K: usize = 10;

/// A way to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Scan,
    ScanCodes,
    /// A walk through all, after which what does not match is sifted out; where too much does not, another one.
    Sifted,
    /// A walk through all that keeps those that match.
    ThroughAll,
    /// A walk that looks through those that do not match at what lies behind them.
    TwoHops,
}

/// A point of one of 25 clouds.
fn point(seed: u64) -> Vec<f32> {
    let mut noise = Noise(seed);
    let mut cloud = Noise(1 + noise.next() % 25);
    (0..DIMENSION).map(|_| 1.5 * cloud.normal() + noise.normal()).collect()
}

/// Where the questions are asked. Documents say in their metadata how many lie nearer to it.
fn centre() -> Vec<f32> {
    point(77_777)
}

struct Made {
    db: Database,
    /// Of each document by its seq: how many lie nearer to the centre, and its lot, which is a number drawn at random; each number comes once.
    of: BTreeMap<Seq, (usize, usize)>,
}

fn made(quantisation: Quantisation) -> Made {
    let distance = |v: &[f32]| v.iter().zip(&centre()).map(|(x, y)| (x - y) * (x - y)).sum::<f32>();
    let points: Vec<Vec<f32>> = (0..DOCUMENTS as u64).map(point).collect();
    let places_by = |key: &dyn Fn(usize) -> f64| {
        let mut order: Vec<usize> = (0..DOCUMENTS).collect();
        order.sort_by(|&a, &b| key(a).total_cmp(&key(b)).then(a.cmp(&b)));
        let mut places = vec![0; DOCUMENTS];
        order.into_iter().enumerate().for_each(|(place, i)| places[i] = place);
        places
    };
    let near = places_by(&|i| f64::from(distance(&points[i])));
    let lots = places_by(&|i| Noise(i as u64 + 1_000_000).next() as f64);
    let document = |(i, point): (usize, Vec<f32>)| {
        let metadata = serde_json::json!({ "near": near[i], "lot": lots[i], "odd": lots[i] % 2 == 1 });
        Document::new(format!("d{i}")).vector(point).metadata(Metadata::from_json(metadata.to_string()).unwrap())
    };
    let db = Database::create_with(Arc::new(SimDirectory::newly_made()), options(IoMode::Mmap)).unwrap();
    let hnsw = Hnsw { m: 8, ef_construction: 60, quantisation };
    db.create_collection("main", Schema { metric: Metric::L2, hnsw, ..Schema::default() }).unwrap();
    db.put("main", points.into_iter().enumerate().map(document).collect()).unwrap();
    db.compact().unwrap();
    let of = main_of(&db).scan().enumerate().map(|(i, item)| (item.unwrap().0, (near[i], lots[i]))).collect();
    Made { db, of }
}

/// Which documents a filter admits, by its own words.
type Admits<'a> = &'a dyn Fn(usize, usize) -> bool;

impl Made {
    /// Asks near the centre, and answers what share of the true nearest is found, and how. There are as many hits as can be, and all match.
    fn ask(&self, json: &str, admits: Admits<'_>, effort: Effort) -> (f64, BTreeSet<Way>) {
        let (collection, filter) = (main_of(&self.db), filter(json));
        let matching = self.of.values().filter(|(near, lot)| admits(*near, *lot)).count();
        let (mut recall, mut ways) = (0.0, BTreeSet::new());
        for q in 0..6 {
            let mut noise = Noise(9_000 + q);
            let query: Vec<f32> = centre().into_iter().map(|x| x + 0.3 * noise.normal()).collect();
            let ask = |effort| collection.nearest_explained(&query, Some(&filter), K, effort).unwrap();
            let (found, exact) = (ask(effort), ask(Effort::Exact));
            let about = format!("{json}, {effort:?}: {found:?}, exactly {exact:?}");
            assert_eq!((found.hits.len(), exact.hits.len()), (K.min(matching), K.min(matching)), "{about}");
            assert_eq!(found.hits.iter().map(|hit| hit.seq).collect::<BTreeSet<_>>().len(), found.hits.len(), "{about}");
            assert!(found.hits.iter().chain(&exact.hits).all(|hit| admits(self.of[&hit.seq].0, self.of[&hit.seq].1)), "{about}");
            let true_ones = found.hits.iter().filter(|hit| exact.hits.contains(hit)).count();
            recall += if matching == 0 { 1.0 } else { true_ones as f64 / found.hits.len() as f64 };
            let share = matching as f64 / DOCUMENTS as f64;
            ways.insert(match (found.walks, found.code_scans, found.compared) {
                (0, 0, compared) if compared == matching as u64 => Way::Scan,
                (0, 1, 0) => Way::ScanCodes,
                (1, 0, 0) if share >= 0.6 => Way::Sifted,
                (1, 0, 0) if share >= 0.3 => Way::ThroughAll,
                (1, 0, 0) => Way::TwoHops,
                _ => panic!("{about}"),
            });
        }
        (recall / 6.0, ways)
    }

    /// Filters that say the same admit the same: the answers are equal to the bit, whatever way they are come by.
    fn equal(&self, filters: &[&str]) {
        let collection: Collection = main_of(&self.db);
        for q in 0..4 {
            let query = point(50_000 + q);
            let ask = |json: &&str| collection.nearest_explained(&query, Some(&Filter::parse(json).unwrap()), K, Effort::DEFAULT).unwrap();
            let first = ask(&filters[0]);
            filters[1..].iter().for_each(|other| assert_eq!(ask(other), first, "{other} and {}", filters[0]));
        }
    }
}

/// The documents that match are some at random, or the nearest to the questions.
#[test]
fn filters_of_every_share_find_their_nearest_by_every_way_to_answer() {
    let mut taken = BTreeSet::new();
    for quantisation in [Quantisation::Sq7, Quantisation::None] {
        let made = made(quantisation);
        for per_mille in [800, 500, 280, 200, 50, 10, 1] {
            let many = DOCUMENTS * per_mille / 1_000;
            let cases: [(&str, Admits<'_>); 2] = [("lot", &|_, lot| lot < many), ("near", &|near, _| near < many)];
            for (key, admits) in cases {
                // The last is so hasty that a walk costs less than comparing codes, and finds less.
                for (effort, least) in [(Effort::DEFAULT, 0.95), (Effort::Ef(64), 0.95), (Effort::Ef(K), 0.8)] {
                    let (recall, ways) = made.ask(&format!(r#"{{"{key}":{{"$lt":{many}}}}}"#), admits, effort);
                    assert!(recall >= least, "{quantisation}, {key} below {many}, {effort:?}: {recall} by {ways:?}");
                    taken.extend(ways.into_iter().map(|way| (quantisation.to_string(), way)));
                }
            }
        }
        for one in [0, 1_234, DOCUMENTS - 1] {
            assert_eq!(made.ask(&format!(r#"{{"near":{one}}}"#), &|near, _| near == one, Effort::DEFAULT).0, 1.0, "a single one");
        }
        assert_eq!(made.ask(r#"{"near":{"$lt":0}}"#, &|_, _| false, Effort::DEFAULT).0, 1.0, "none");
        made.equal(&[
            r#"{"odd":true}"#,
            r#"{"odd":{"$ne":false}}"#,
            r#"{"$and":[{"odd":true},{"near":{"$gte":0}}]}"#,
            r#"{"odd":{"$in":[true]}}"#,
        ]);
        made.equal(&[
            r#"{"lot":{"$lt":2000}}"#,
            r#"{"$or":[{"lot":{"$lt":500}},{"lot":{"$gte":500,"$lt":2000}}]}"#,
            r#"{"lot":{"$lte":1999}}"#,
        ]);
        made.equal(&[r#"{"lot":{"$lt":90}}"#, r#"{"$and":[{"lot":{"$lt":90}},{"lot":{"$lt":4000}}]}"#]);
    }
    let ways = |quantisation: Quantisation| -> Vec<Way> {
        taken.iter().filter(|(of, _)| *of == quantisation.to_string()).map(|(_, way)| *way).collect()
    };
    assert_eq!(ways(Quantisation::Sq7), [Way::Scan, Way::ScanCodes, Way::Sifted, Way::ThroughAll, Way::TwoHops]);
    assert_eq!(ways(Quantisation::None), [Way::Scan, Way::Sifted, Way::ThroughAll, Way::TwoHops]);
}

/// What lies around the questions does not match: walks have to get out of it.
#[test]
fn filters_against_the_question_get_all_their_hits() {
    for quantisation in [Quantisation::Sq7, Quantisation::None] {
        let (made, mut walked) = (made(quantisation), BTreeSet::new());
        for per_mille in [990, 800, 500, 280, 200, 50, 10, 1] {
            let from = DOCUMENTS - DOCUMENTS * per_mille / 1_000;
            for effort in [Effort::DEFAULT, Effort::Ef(64), Effort::Ef(K)] {
                walked.extend(made.ask(&format!(r#"{{"near":{{"$gte":{from}}}}}"#), &|near, _| near >= from, effort).1);
            }
        }
        // Where there are codes, walks two hops away are given up here for a scan.
        let two_hops = walked.contains(&Way::TwoHops) || quantisation == Quantisation::Sq7;
        assert!(walked.contains(&Way::Sifted) && two_hops, "{quantisation}: {walked:?}");
    }
}

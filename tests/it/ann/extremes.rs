//! Vectors that are unlike those of an embedder: of extreme lengths, and many that are the same.

use super::asking::{ask, main_of};
use super::{DIMENSION, Noise, filter, made, options};
use std::sync::Arc;
use triune::io::sim::SimDirectory;
use triune::{Database, Document, Effort, Filter, Hnsw, IoMode, Metadata, Metric, Quantisation, Schema};

fn normal(noise: &mut Noise, length: f32) -> Vec<f32> {
    (0..DIMENSION).map(|_| length * noise.normal()).collect()
}

#[test]
fn walks_over_vectors_alone_find_their_way_whatever_the_lengths() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        for length in [1e-30f32, 1.0, 1e25, 1e37] {
            let schema = Schema { metric, hnsw: Hnsw { quantisation: Quantisation::None, ..Hnsw::default() }, ..Schema::default() };
            let disk = SimDirectory::newly_made();
            let db = made(&disk, schema, &[]);
            let mut noise = Noise(3);
            let documents = (0..1_200).map(|i| Document::new(format!("d{i}")).vector(normal(&mut noise, length)));
            db.put("main", documents.collect::<Vec<_>>()).unwrap();
            db.compact().unwrap();
            let collection = main_of(&db);
            let (mut recall, mut hasty) = (0.0, 0.0);
            for _ in 0..20 {
                let query = normal(&mut noise, length);
                recall += ask(&collection, &query, None, 10, Effort::Ef(96)).1 / 20.0;
                let (found, share) = ask(&collection, &query, None, 10, Effort::Ef(10));
                assert_eq!((found.walks, found.compared), (1, 0), "{metric}, {length}");
                hasty += share / 20.0;
            }
            assert!(recall >= 0.95, "{metric}, {length}: {recall}");
            assert!(hasty < 1.0, "{metric}, {length}: {hasty} is not what a scan finds");
        }
    }
}

/// Documents of which the first `copies` have one vector, near which nothing else is.
fn with_copies(copies: usize) -> (Database, Vec<f32>) {
    let disk = SimDirectory::newly_made();
    let db = Database::create_with(Arc::new(disk), options(IoMode::Mmap)).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    let mut noise = Noise(5);
    let copy = normal(&mut noise, 1.0);
    let of = |i: usize, noise: &mut Noise| if i < copies { copy.clone() } else { normal(noise, 1.0) };
    let documents: Vec<Document> = (0..2_000).map(|i| Document::new(format!("d{i}")).vector(of(i, &mut noise))).collect();
    db.put("main", documents).unwrap();
    db.compact().unwrap();
    (db, copy)
}

#[test]
fn of_many_copies_those_that_live_are_found_when_others_died() {
    for dead_first in [true, false] {
        let (db, copy) = with_copies(40);
        let die = |i: usize| if dead_first { i < 28 } else { (12..40).contains(&i) };
        db.delete("main", (0..40).filter(|i| die(*i)).map(|i| format!("d{i}")).collect::<Vec<_>>()).unwrap();
        let collection = main_of(&db);
        for effort in [Effort::DEFAULT, Effort::Ef(16), Effort::Ef(64)] {
            let (found, share) = ask(&collection, &copy, None, 10, effort);
            assert_eq!((found.hits.len(), share), (10, 1.0), "{effort:?}");
            assert!(found.hits.iter().all(|hit| hit.score > 0.999_999), "{effort:?}: twelve copies live, {found:?}");
        }
    }
}

/// 2,400 documents of one vector, but for `others` that each have one of their own, by where they are. Those are odd, and two more than a multiple of five.
fn a_crowd(schema: Schema, others: usize) -> (Database, Vec<(usize, Vec<f32>)>) {
    let db = made(&SimDirectory::newly_made(), schema, &[]);
    let mut noise = Noise(11);
    let copy = normal(&mut noise, 0.3);
    let own: Vec<(usize, Vec<f32>)> = (0..others).map(|i| (i * 2_400 / others + 7, normal(&mut noise, 1.0))).collect();
    let mut vectors = vec![copy; 2_400];
    own.iter().for_each(|(at, vector)| vectors[*at].clone_from(vector));
    let document = |(i, vector): (usize, Vec<f32>)| {
        let metadata = serde_json::json!({ "two": i % 2, "five": i % 5, "seven": i % 7 });
        Document::new(format!("d{i}")).vector(vector).metadata(Metadata::from_json(metadata.to_string()).unwrap())
    };
    db.put("main", vectors.into_iter().enumerate().map(document).collect::<Vec<_>>()).unwrap();
    db.compact().unwrap();
    (db, own)
}

const CROWDS: [(Quantisation, usize); 4] =
    [(Quantisation::Sq7, 1), (Quantisation::Sq7, 12), (Quantisation::None, 12), (Quantisation::Sq7, 60)];

/// Asks for each of those that have a vector of their own by it.
fn find_each(db: &Database, own: &[(usize, Vec<f32>)], with: Option<&Filter>) {
    let collection = main_of(db);
    let schema = collection.schema();
    for (at, vector) in own {
        for (k, effort) in [(1, Effort::DEFAULT), (1, Effort::Ef(64)), (3, Effort::Ef(200)), (10, Effort::DEFAULT)] {
            let (found, share) = ask(&collection, vector, with, k, effort);
            let about = format!("{}, {:?}, {} others, d{at} by k {k}, {effort:?} and {with:?}", schema.metric, schema.hnsw, own.len());
            // Of ten the last may be missed, as in any walk; what is asked for by itself may not.
            let least = if k < 10 { 1.0 } else { 0.9 };
            assert!(share >= least, "{share}, {about}: {found:?}");
            if schema.metric != Metric::Dot {
                assert_eq!(super::asking::ids_of(&collection, &found)[0], format!("d{at}"), "{about}");
            }
        }
    }
}

#[test]
fn what_lies_behind_a_crowd_of_copies_is_found_however_few_are_asked_for() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        for (quantisation, others) in CROWDS {
            let (db, own) = a_crowd(Schema { metric, hnsw: Hnsw { quantisation, ..Hnsw::default() }, ..Schema::default() }, others);
            find_each(&db, &own, None);
        }
    }
}

/// A walk on which some may be no answers keeps others than one on which all may.
#[test]
fn what_lies_behind_a_crowd_of_copies_is_found_by_filters_and_among_the_dead() {
    for (quantisation, others) in CROWDS {
        let (db, own) = a_crowd(Schema { hnsw: Hnsw { quantisation, ..Hnsw::default() }, ..Schema::default() }, others);
        for json in [r#"{"two":1}"#, r#"{"five":2}"#, r#"{"seven":{"$ne":8}}"#, r#"{"five":{"$gte":1}}"#] {
            find_each(&db, &own, Some(&filter(json)));
        }
        let die = |share: usize| (0..2_400).filter(|i| i % 2 == 0 && i % share == 0).map(|i| format!("d{i}")).collect::<Vec<_>>();
        for dead in [vec!["d0".to_string()], die(20), die(4), die(2)] {
            db.delete("main", dead).unwrap();
            find_each(&db, &own, None);
            find_each(&db, &own, Some(&filter(r#"{"five":2}"#)));
        }
    }
}

#[test]
fn directions_that_binary32_can_hardly_tell_apart_are_told_apart() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        for quantisation in [Quantisation::Sq7, Quantisation::None] {
            for spread in [1e-2f32, 1e-3, 1e-4] {
                let schema = Schema { metric, hnsw: Hnsw { quantisation, ..Hnsw::default() }, ..Schema::default() };
                let db = made(&SimDirectory::newly_made(), schema, &[]);
                let mut noise = Noise(13);
                let all = normal(&mut noise, 1.0);
                let near = |noise: &mut Noise| -> Vec<f32> { all.iter().map(|c| c + spread * noise.normal()).collect() };
                let documents = (0..1_200).map(|i| Document::new(format!("d{i}")).vector(near(&mut noise)));
                db.put("main", documents.collect::<Vec<_>>()).unwrap();
                db.compact().unwrap();
                let collection = main_of(&db);
                let recall: f64 = (0..30).map(|_| ask(&collection, &near(&mut noise), None, 10, Effort::DEFAULT).1 / 30.0).sum();
                // What was measured to find less than nine of ten however widely it is walked is scanned.
                assert!(recall >= 0.9, "{metric}, {quantisation:?}, {spread}: {recall}");
            }
        }
    }
}

//! Vectors that are unlike those of an embedder: of extreme lengths, and many that are the same.

use super::{DIMENSION, Noise, made, options};
use std::collections::BTreeSet;
use std::sync::Arc;
use triune::io::sim::SimDirectory;
use triune::{Collection, Database, Document, Effort, Hnsw, IoMode, Metric, Quantisation, Schema};

fn normal(noise: &mut Noise, length: f32) -> Vec<f32> {
    (0..DIMENSION).map(|_| length * noise.normal()).collect()
}

fn ids(collection: &Collection, query: &[f32], k: usize, effort: Effort) -> Vec<String> {
    collection.nearest_with(query, None, k, effort).unwrap().iter().map(|hit| collection.id_of(hit).unwrap()).collect()
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
            let collection = db.snapshot().collection("main").unwrap();
            let (mut found, mut hasty) = (0, 0);
            for _ in 0..20 {
                let query = normal(&mut noise, length);
                let exact: BTreeSet<String> = ids(&collection, &query, 10, Effort::Exact).into_iter().collect();
                let nearest = |ef| ids(&collection, &query, 10, Effort::Ef(ef)).iter().filter(|id| exact.contains(*id)).count();
                found += nearest(96);
                hasty += nearest(10);
            }
            assert!(found >= 190, "{metric}, {length}: {found} of 200");
            assert!(hasty < 200, "{metric}, {length}: a walk was taken, and {hasty} of 200 is not what a scan finds");
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
        let collection = db.snapshot().collection("main").unwrap();
        for effort in [Effort::DEFAULT, Effort::Ef(16), Effort::Ef(64)] {
            let hits = collection.nearest_with(&copy, None, 10, effort).unwrap();
            assert_eq!(hits.len(), 10);
            assert!(hits.iter().all(|hit| hit.score > 0.999_999), "{effort:?}: twelve copies live, {hits:?}");
        }
    }
}

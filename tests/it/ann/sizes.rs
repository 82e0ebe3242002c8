//! Graphs of hardly anything, and of many keys.

use super::asking::{ask, ids_of, is_clean, main_of};
use super::{Noise, options};
use std::sync::Arc;
use triune::io::sim::SimDirectory;
use triune::options::Thresholds;
use triune::{Database, Document, Effort, Hnsw, IoMode, Metric, Options, Quantisation, Schema};

const MODES: [IoMode; 3] = [IoMode::Mmap, IoMode::Pread, IoMode::Pinned];

/// So many documents with a vector, and one without.
fn few(prefix: &str, many: usize) -> Vec<Document> {
    let point = |i: usize| Document::new(format!("{prefix}{i}")).vector([i as f32 + 1.0, 2.0, prefix.len() as f32]);
    (0..many).map(point).chain([Document::new(format!("{prefix} without"))]).collect()
}

/// MemPalace #1716: a level above the lowest that rightly held nothing was taken for damage, and repaired for ever.
#[test]
fn segments_of_no_one_and_two_vectors_are_opened_searched_merged_and_clean() {
    let small = |io_mode| Options { thresholds: Thresholds { graph_vectors: 1, ..Thresholds::default() }, ..options(io_mode) };
    let hnsw = [Quantisation::Sq7, Quantisation::None].map(|quantisation| Hnsw { quantisation, ..Hnsw::default() });
    for (metric, hnsw) in [Metric::Cosine, Metric::Dot, Metric::L2].into_iter().flat_map(|metric| hnsw.map(|hnsw| (metric, hnsw))) {
        for (first, second) in (0..3).flat_map(|first| (0..3).map(move |second| (first, second))) {
            let about = format!("{metric}, {}, {first} and {second}", hnsw.quantisation);
            let disk = SimDirectory::newly_made();
            let db = Database::create_with(Arc::new(disk.clone()), small(IoMode::Mmap)).unwrap();
            db.create_collection("main", Schema { metric, hnsw, dimension: Some(3), ..Schema::default() }).unwrap();
            let found_by_all = |living: usize, graphs: u64| {
                is_clean(&disk.after_kill());
                for io_mode in MODES {
                    let db = Database::open_read_only_with(Arc::new(disk.clone()), small(io_mode)).unwrap();
                    let collection = main_of(&db);
                    assert_eq!(collection.vector_bytes().unwrap().graphs, graphs, "{about}");
                    for (k, effort) in (1..4).flat_map(|k| [Effort::DEFAULT, Effort::Ef(1), Effort::Recall(1.0)].map(|effort| (k, effort)))
                    {
                        let (found, share) = ask(&collection, &[1.0, -0.5, 0.25], None, k, effort);
                        assert_eq!((found.hits.len(), share), (k.min(living), 1.0), "{about}");
                    }
                }
            };
            db.put("main", few("a", first)).unwrap();
            db.compact().unwrap();
            found_by_all(first, u64::from(first > 0));
            db.put("main", few("bb", second)).unwrap();
            db.checkpoint().unwrap();
            db.merge().unwrap();
            found_by_all(first + second, u64::from(first > 0) + u64::from(second > 0));
            db.compact().unwrap();
            found_by_all(first + second, u64::from(first + second > 0));
            db.delete("main", vec!["a0".into(), "bb1".into()]).unwrap();
            db.compact().unwrap();
            let left = first.saturating_sub(1) + second.min(1);
            found_by_all(left, u64::from(left > 0));
        }
    }
}

/// USearch #770, #769: a table of keys that broke down on numbers in a row, and answered for keys that were not there.
#[test]
fn many_keys_of_every_kind_are_found_again_after_opening() {
    const MANY: usize = 20_000;
    let key = |i: usize| match i % 3 {
        0 => format!("{i}"),
        1 => format!("{}", (i as u64) << 32),
        _ => format!("{}", Noise(i as u64).next()),
    };
    let point = |i: usize| -> Vec<f32> {
        let mut noise = Noise(i as u64 + 400_000);
        (0..6).map(|_| noise.normal()).collect()
    };
    let disk = SimDirectory::newly_made();
    let db = Database::create_with(Arc::new(disk.clone()), options(IoMode::Mmap)).unwrap();
    let hnsw = Hnsw { m: 8, ef_construction: 32, ..Hnsw::default() };
    db.create_collection("main", Schema { metric: Metric::L2, hnsw, ..Schema::default() }).unwrap();
    db.put("main", (0..MANY).map(|i| Document::new(key(i)).vector(point(i))).collect()).unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let db = Database::open_read_only_with(Arc::new(disk), options(IoMode::Mmap)).unwrap();
    let collection = main_of(&db);
    assert_eq!((collection.count(), collection.vector_bytes().unwrap().graphs), (MANY as u64, 1));
    for i in 0..MANY {
        assert!(collection.get(&key(i)).unwrap().is_some_and(|document| *document.id == *key(i)), "{i}");
    }
    for i in (0..MANY).step_by(3) {
        // Neither what follows the last in a row nor what differs in one digit is there.
        assert!(
            collection.get(&key(i + MANY.next_multiple_of(3))).unwrap().is_none()
                && collection.get(&format!("0{}", key(i))).unwrap().is_none()
        );
    }
    for i in (0..MANY).step_by(67) {
        let found = collection.nearest_explained(&point(i), None, 1, Effort::Ef(100)).unwrap();
        assert_eq!((found.walks, ids_of(&collection, &found)), (1, vec![key(i)]), "{i}");
        assert_eq!(found.hits[0].score, 0.0);
    }
}

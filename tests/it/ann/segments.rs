//! Several graphs asked at once, beside what is in memory: opensearch k-NN #1003, lucene PR 14680, pgvector #244 (fewer hits than asked for, or
//! those of one segment only, when several had to be put together or rows were dead).

use super::asking::{ask, ids_of, main_of};
use super::{Noise, documents, filter, options, vector};
use std::sync::Arc;
use triune::io::sim::SimDirectory;
use triune::options::Thresholds;
use triune::{Database, Document, Effort, IoMode, Metric, Options, Quantisation, Schema};

/// A graph in each of so many segments, of so many vectors; each after the first replaces some documents of the first, and the last ones are in
/// memory, where some of each segment are replaced or deleted again.
fn made(segments: usize, each: usize, metric: Metric, quantisation: Quantisation) -> Database {
    let thresholds = Thresholds { graph_vectors: 30, ..Thresholds::default() };
    let options = Options { merge_fan_in: 64, thresholds, ..options(IoMode::Mmap) };
    let db = Database::create_with(Arc::new(SimDirectory::newly_made()), options).unwrap();
    let hnsw = triune::Hnsw { quantisation, ..triune::Hnsw::default() };
    db.create_collection("main", Schema { metric, hnsw, ..Schema::default() }).unwrap();
    for segment in 0..segments {
        let first = 1 + segment % 5;
        let replaced = if segment == 0 { 0..0 } else { first..first + 3 };
        let again = replaced.map(|i| documents(i..i + 1).remove(0).vector(vector(&mut Noise((900 * segment + i) as u64))));
        db.put("main", again.chain(documents(segment * each..(segment + 1) * each)).collect()).unwrap();
        db.checkpoint().unwrap();
        // A segment with vectors enough and no graph is merged by itself.
        db.merge().unwrap();
    }
    let of_each = |offset: usize| (0..segments).map(move |segment| segment * each + offset);
    let again = of_each(20).map(|i| documents(i..i + 1).remove(0).vector(vector(&mut Noise(5_000 + i as u64))));
    db.put("main", again.chain(documents(segments * each..segments * each + 20)).collect::<Vec<Document>>()).unwrap();
    db.delete("main", of_each(21).map(|i| format!("d{i}")).collect()).unwrap();
    db
}

#[test]
fn several_graphs_and_what_is_in_memory_give_the_hits_of_one_ranking() {
    let cases = [
        (1, 300, Metric::Cosine, Quantisation::Sq7),
        (2, 250, Metric::Dot, Quantisation::None),
        (3, 200, Metric::L2, Quantisation::Sq7),
        (7, 100, Metric::Cosine, Quantisation::None),
        (30, 40, Metric::L2, Quantisation::Sq7),
    ];
    for (segments, each, metric, quantisation) in cases {
        let db = made(segments, each, metric, quantisation);
        let collection = main_of(&db);
        let about = format!("{segments} segments, {metric}, {quantisation}");
        assert_eq!(collection.vector_bytes().unwrap().graphs, segments as u64, "{about}");
        assert_eq!(collection.count(), (segments * each + 20 - segments) as u64, "{about}");
        let (third, two) = (filter(r#"{"tenth":{"$ne":true}}"#), segments.min(2));
        for q in 0..20 {
            let query = vector(&mut Noise(3_000_000 + q));
            let (found, share) = ask(&collection, &query, None, 10, Effort::Ef(200));
            // In memory are those that came last and those that were replaced there.
            assert_eq!((found.walks, found.compared, share), (segments as u64, 20 + segments as u64, 1.0), "{about}");
            let parts = found.hits.iter().map(|hit| hit.address.part).collect::<std::collections::BTreeSet<_>>();
            assert!(q > 0 || parts.len() >= two, "{about}: {found:?}");
            let (filtered, share) = ask(&collection, &query, Some(&third), 10, Effort::Ef(200));
            assert!(share == 1.0, "{about}: {filtered:?}");
            let (by_itself, share) = ask(&collection, &query, None, 10, Effort::DEFAULT);
            assert!(by_itself.walks == segments as u64 && share >= 0.7, "{about}: {share}");
            // More than any segment has, and more than there are.
            for k in [each + 5, 5_000] {
                assert_eq!(ask(&collection, &query, None, k, Effort::DEFAULT).1, 1.0, "{about}, k {k}");
            }
        }
        db.compact().unwrap();
        let one = main_of(&db);
        assert_eq!((one.vector_bytes().unwrap().graphs, one.count()), (1, collection.count()), "{about}");
        for q in 0..20 {
            let query = vector(&mut Noise(3_000_000 + q));
            // Scores do not depend on how many segments there are.
            let scores =
                |c| ask(c, &query, None, 10, Effort::Exact).0.hits.iter().map(|hit| (hit.seq, hit.score.to_bits())).collect::<Vec<_>>();
            assert_eq!(scores(&one), scores(&collection), "{about}");
        }
    }
}

/// What a commit of one document asks of the disk, when so many others have their vectors in a graph; the next search finds it.
fn commit_beside(others: usize) -> (Vec<String>, usize) {
    let disk = SimDirectory::newly_made();
    let db = Database::create_with(Arc::new(disk.clone()), options(IoMode::Mmap)).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.put("main", documents(0..others)).unwrap();
    db.compact().unwrap();
    assert_eq!(main_of(&db).vector_bytes().unwrap().graphs, 1, "of {others}");
    let (operations, accesses) = (disk.operations(), disk.accesses());
    let place = vector(&mut Noise(2_000_000));
    db.put("main", vec![Document::new("new").text("one more").vector(place.clone())]).unwrap();
    let written = disk.trace().split_off(operations);
    let asked = disk.accesses() - accesses;
    for effort in [Effort::DEFAULT, Effort::Ef(1), Effort::Exact] {
        let collection = main_of(&db);
        let (found, _) = ask(&collection, &place, None, 1, effort);
        assert_eq!(ids_of(&collection, &found), ["new"], "beside {others}, {effort:?}");
    }
    (written.iter().map(ToString::to_string).collect(), asked)
}

#[test]
fn a_vector_is_found_by_the_next_search_and_its_commit_asks_the_same_of_the_disk_beside_any_graph() {
    let beside_few = commit_beside(500);
    assert!(beside_few.0.iter().any(|operation| operation.starts_with("write")), "{beside_few:?}");
    assert_eq!(beside_few, commit_beside(5_000));
}

//! Searches when much of a graph is dead: hnswlib #608, #321, #220, PR 344 (fewer hits than there are), #309 (an id that is added again), and
//! hannoy #52, weaviate PR 11151, RuVector #930, valkey-search PR 1362 (the entry, or everything, died).

use super::asking::{ask, ids_of, is_clean, main_of};
use super::{DIMENSION, Noise, documents, filter, made, options, vector};
use crate::fsck::image::Image;
use std::collections::BTreeSet;
use std::sync::Arc;
use triune::format::segment::SectionKind;
use triune::format::vector_graph::{GraphShape, NO_LINK, VectorGraphHeader};
use triune::io::sim::SimDirectory;
use triune::options::Thresholds;
use triune::{Database, Document, Effort, Hnsw, IoMode, Metric, Options, Quantisation, Schema};
use zerocopy::FromBytes;

fn delete(db: &Database, which: impl IntoIterator<Item = usize>) {
    db.delete("main", which.into_iter().map(|i| format!("d{i}")).collect()).unwrap();
}

/// The cluster that [`vector`] takes the vector of a document from.
fn cluster(i: usize) -> u64 {
    Noise(i as u64 + 7).next() % 40
}

fn of_document(i: usize) -> Vec<f32> {
    vector(&mut Noise(i as u64 + 7))
}

fn query(q: u64) -> Vec<f32> {
    vector(&mut Noise(2_000_000 + q))
}

#[test]
fn however_many_died_there_are_as_many_hits_as_live_on() {
    let disk = SimDirectory::newly_made();
    let db = made(&disk, Schema::default(), &[2_000]);
    db.compact().unwrap();
    let rank = |i: usize| Noise(i as u64).next() % 1_000;
    let mut walked = Vec::new();
    for dead in [10, 300, 500, 900, 990, 999] {
        delete(&db, (0..2_000).filter(|&i| rank(i) < dead));
        let collection = main_of(&db);
        let (living, mut recall, mut walks) = (collection.count(), 0.0, 0);
        for (q, k) in (0..30).zip([1, 10, 10, 40].into_iter().cycle()) {
            let (found, share) = ask(&collection, &query(q), None, k, Effort::Ef(20));
            recall += share / 30.0;
            walks += found.walks;
            assert!(found.walks > 0 || found.compared == living, "{dead} of 1,000 are dead: {found:?}");
        }
        assert!(recall > 0.95, "{dead} of 1,000 are dead: {recall}");
        let (half, _) = ask(&collection, &query(1), Some(&filter(r#"{"half":true}"#)), 10, Effort::DEFAULT);
        assert!(ids_of(&collection, &half).iter().all(|id| id[1..].parse::<usize>().unwrap().is_multiple_of(2)));
        walked.push(walks);
    }
    // With nine of ten dead it costs less to compare the others.
    assert!(walked[..3].iter().all(|&walks| walks == 30) && walked[4..] == [0, 0], "{walked:?}");
}

#[test]
fn clusters_that_died_whole_hide_nothing_behind_them() {
    for quantisation in [Quantisation::Sq7, Quantisation::None] {
        let disk = SimDirectory::newly_made();
        let db = made(&disk, Schema { hnsw: Hnsw { quantisation, ..Hnsw::default() }, ..Schema::default() }, &[2_500]);
        db.compact().unwrap();
        delete(&db, (0..2_500).filter(|&i| cluster(i).is_multiple_of(2)));
        let collection = main_of(&db);
        let (mut recall, mut asked) = (0.0, 0.0);
        // Questions from the middle of what died.
        for i in (0..2_500).filter(|&i| cluster(i).is_multiple_of(2)).step_by(50) {
            let (found, share) = ask(&collection, &of_document(i), None, 10, Effort::Ef(40));
            assert_eq!((found.walks, found.compared), (1, 0), "{quantisation}");
            (recall, asked) = (recall + share, asked + 1.0);
        }
        assert!(recall / asked > 0.95, "{quantisation}: {}", recall / asked);
    }
}

/// Of each node that stands on an upper level, and of node 0, at which every walk begins: the documents it leads to, on any level.
fn around_the_entry(disk: &SimDirectory) -> (usize, BTreeSet<usize>) {
    let (mut entry, mut around) = (0, BTreeSet::new());
    let read = |bytes: &mut [u8]| {
        let header = VectorGraphHeader::ref_from_prefix(bytes).unwrap().0;
        let count = header.level_counts[0].get();
        let shape = GraphShape::decode(bytes, u64::from(count), 0, bytes.len() as u64, count).unwrap();
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        // All documents have a vector, so its position is the document's number.
        let document = |node: u32| number(GraphShape::positions_offset() as usize + node as usize * 4) as usize;
        entry = number(GraphShape::positions_offset() as usize) as usize;
        for level in 0..shape.level_counts.len() {
            let row = shape.level_offset(level) as usize;
            let links = (0..shape.row_bytes(level) / 4).map(|i| number(row + i * 4));
            around.extend(links.take_while(|&link| link != NO_LINK).map(document));
        }
    };
    Image { disk: disk.after_kill() }.with_section(0, SectionKind::VectorGraph, read);
    (entry, around)
}

#[test]
fn an_entry_whose_neighbours_all_died_leads_on_and_so_does_one_that_died_too() {
    let disk = SimDirectory::newly_made();
    let db = made(&disk, Schema::default(), &[1_500]);
    db.compact().unwrap();
    db.close().unwrap();
    let (entry, around) = around_the_entry(&disk);
    assert!(around.len() > 10 && !around.contains(&entry), "{around:?}");
    let db = Database::open_with(Arc::new(disk.clone()), options(IoMode::Mmap)).unwrap();
    let check = |what: &str| {
        let collection = main_of(&db);
        let mut recall = 0.0;
        for q in 0..20 {
            let query = if q < 10 { of_document(entry) } else { query(q) };
            let (found, share) = ask(&collection, &query, None, 1 + q as usize, Effort::Ef(40));
            assert_eq!((found.walks, found.compared), (1, 0), "{what}");
            recall += share / 20.0;
        }
        assert!(recall > 0.95, "{what}: {recall}");
    };
    delete(&db, around.iter().copied());
    check("the neighbours of the entry are dead");
    let first = ask(&main_of(&db), &of_document(entry), None, 1, Effort::Ef(40)).0;
    assert_eq!(ids_of(&main_of(&db), &first), [format!("d{entry}")]);
    delete(&db, [entry]);
    check("the entry too");
    db.compact().unwrap();
    check("merged");
    db.close().unwrap();
    is_clean(&disk);
}

#[test]
fn everything_dies_and_other_things_come_and_every_step_is_sound() {
    for clear in [false, true] {
        let disk = SimDirectory::newly_made();
        let open = |disk: &SimDirectory| Database::open_with(Arc::new(disk.clone()), options(IoMode::Mmap)).unwrap();
        let mut db = made(&disk, Schema::default(), &[800]);
        db.compact().unwrap();
        let finds = |db: &Database, living: std::ops::Range<usize>, graphs: u64| {
            let collection = main_of(db);
            assert_eq!((collection.count(), collection.vector_bytes().unwrap().graphs), (living.len() as u64, graphs));
            for (k, effort) in [(1, Effort::DEFAULT), (10, Effort::Ef(30)), (1_000, Effort::DEFAULT)] {
                let (found, share) = ask(&collection, &query(3), None, k, effort);
                let ids = ids_of(&collection, &found);
                assert!(share > 0.9 && ids.iter().all(|id| living.contains(&id[1..].parse().unwrap())), "{found:?}");
            }
            ask(&collection, &query(4), Some(&filter(r#"{"half":true}"#)), 10, Effort::DEFAULT);
        };
        match clear {
            true => _ = db.clear("main").unwrap(),
            false => delete(&db, 0..800),
        }
        finds(&db, 0..0, if clear { 0 } else { 1 });
        db.put("main", documents(800..820)).unwrap();
        finds(&db, 800..820, if clear { 0 } else { 1 });
        db.compact().unwrap();
        finds(&db, 800..820, 0);
        db.put("main", documents(820..1_500)).unwrap();
        db.compact().unwrap();
        finds(&db, 800..1_500, 1);
        db.close().unwrap();
        is_clean(&disk);
        db = open(&disk);
        finds(&db, 800..1_500, 1);
        // Nothing is left, not even for a merge.
        delete(&db, 800..1_500);
        db.compact().unwrap();
        finds(&db, 0..0, 0);
        db.close().unwrap();
        is_clean(&disk);
        db = open(&disk);
        finds(&db, 0..0, 0);
        db.put("main", documents(0..600)).unwrap();
        db.compact().unwrap();
        finds(&db, 0..600, 1);
    }
}

/// What is done to one id, in every order.
#[derive(Debug, Clone, Copy)]
enum Act {
    Delete,
    Put,
    Checkpoint,
    Compact,
}

#[test]
fn an_id_that_was_deleted_and_added_again_is_found_by_its_newest_vector_alone() {
    const ACTS: [Act; 4] = [Act::Delete, Act::Put, Act::Checkpoint, Act::Compact];
    let thresholds = Thresholds { graph_vectors: 4, ..Thresholds::default() };
    let document = |i: usize| Document::new(format!("d{i}")).vector(of_document(i));
    let schema = Schema { metric: Metric::L2, dimension: Some(DIMENSION as u32), ..Schema::default() };
    let begun = SimDirectory::newly_made();
    let open = |disk: &SimDirectory| Database::open_with(Arc::new(disk.clone()), Options { thresholds, ..options(IoMode::Mmap) }).unwrap();
    let db = Database::create_with(Arc::new(begun.clone()), Options { thresholds, ..options(IoMode::Mmap) }).unwrap();
    db.create_collection("main", schema).unwrap();
    db.put("main", (0..20).map(document).collect()).unwrap();
    db.compact().unwrap();
    drop(db);
    let mut walks = 0;
    for order in 0..4usize.pow(4) {
        let db = open(&begun.after_kill());
        // The vector is that of the document with this number.
        let (mut now, mut gone) = (Some(7), Vec::new());
        for turn in 0..4 {
            let act = ACTS[order / 4usize.pow(turn) % 4];
            match act {
                Act::Delete => {
                    db.delete("main", vec!["d7".into()]).unwrap();
                    gone.extend(now.take());
                }
                Act::Put => {
                    gone.extend(now.replace(100 + turn as usize));
                    db.put("main", vec![Document::new("d7").vector(of_document(100 + turn as usize))]).unwrap();
                }
                Act::Checkpoint => db.checkpoint().unwrap(),
                Act::Compact => db.compact().unwrap(),
            }
            let collection = main_of(&db);
            let about = format!("order {order}, turn {turn}, {act:?}");
            for (vector, is_there) in gone.iter().map(|&i| (i, false)).chain(now.map(|i| (i, true))) {
                let (found, share) = ask(&collection, &of_document(vector), None, 3, Effort::Ef(16));
                walks += found.walks;
                assert_eq!(share, 1.0, "{about}");
                let at_it = found.hits[0].score == 0.0;
                assert_eq!(at_it, is_there, "{about}: {found:?}");
                assert!(!at_it || ids_of(&collection, &found)[0] == "d7", "{about}");
            }
            let all = ids_of(&collection, &ask(&collection, &of_document(7), None, 30, Effort::DEFAULT).0);
            assert_eq!(
                (all.len(), all.iter().filter(|id| *id == "d7").count()),
                (19 + usize::from(now.is_some()), usize::from(now.is_some()))
            );
        }
    }
    assert!(walks > 1_000, "{walks}");
}

//! Snapshots, scans, counts.

use super::{at_every_stage, doc, fresh, ids, json, main_of, open, put, refused};
use triune::{Collection, CollectionStats, Database, ErrorCode, Mode, Patch, Scan, Schema, Search, Seq, Snapshot};

#[test]
fn an_old_snapshot_reads_the_same_while_everything_changes() {
    let (disk, db) = fresh();
    put(&db, (0..40).map(|i| doc(&format!("d{i}"), "some words here").vector([i as f32, 1.0]).source(format!("s{}", i % 3))).collect());
    db.checkpoint().unwrap();
    put(&db, vec![doc("memory", "some words").vector([0.5, 0.5])]);
    db.delete("main", vec!["d7".into()]).unwrap();
    let old = db.snapshot();
    let everything = |snapshot: &Snapshot| {
        let main = snapshot.collection("main").unwrap();
        let search = |mode| {
            let search = Search { query: Some("words".into()), vector: Some(vec![1.0, 0.2]), mode, k: 50, ..Search::default() };
            main.search(&search).unwrap().hits
        };
        let scanned: Vec<_> = main.scan().with_vectors(true).map(Result::unwrap).collect();
        let stats = CollectionStats { segments: 0, ..main.stats().unwrap() };
        (scanned, search(Mode::Text), search(Mode::Vector), search(Mode::Hybrid), main.sources().unwrap(), stats, main.get("d8").unwrap())
    };
    let expected = everything(&old);
    let step = |what: &str| assert!(everything(&old) == expected, "the snapshot changed: {what}");
    put(&db, vec![doc("d3", "other words words words").vector([9.0, 9.0]), doc("new", "words")]);
    step("put");
    db.patch("main", vec![Patch::new("d4").text("none").without_vector()]).unwrap();
    step("patch");
    db.delete_source("main", "s1").unwrap();
    step("delete_source");
    db.checkpoint().unwrap();
    step("checkpoint");
    db.compact().unwrap();
    step("compact");
    assert!(!disk.file_names().is_empty());
    db.clear("main").unwrap();
    db.drop_collection("main").unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    put(&db, vec![doc("d8", "another life")]);
    db.compact().unwrap();
    step("clear, drop, create, compact");
    db.close().unwrap();
    step("close");
    drop(open(&disk));
    step("another handle");
}

#[test]
fn handles_and_snapshots_may_go_to_other_threads() {
    fn both<T: Send + Sync>() {}
    both::<Database>();
    both::<Snapshot>();
    both::<Collection>();
    both::<Scan>();
    let (_disk, db) = fresh();
    put(&db, vec![doc("a", "word")]);
    let old = db.snapshot();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let (db, old) = (&db, &old);
            scope.spawn(move || {
                for i in 0..25 {
                    db.put("main", vec![doc(&format!("{t} {i}"), "word")]).unwrap();
                    assert_eq!(ids(&old.collection("main").unwrap()), ["a"]);
                    let main = db.snapshot().collection("main").unwrap();
                    assert_eq!(main.count() as usize, ids(&main).len());
                }
            });
        }
    });
    assert_eq!(main_of(&db).count(), 101);
}

#[test]
fn a_scan_can_be_taken_up_where_it_stopped() {
    let (disk, db) = fresh();
    put(&db, (0..10).map(|i| doc(&format!("{i}"), "")).collect());
    db.checkpoint().unwrap();
    put(&db, (10..15).map(|i| doc(&format!("{i}"), "")).collect());
    db.delete("main", vec!["4".into(), "12".into()]).unwrap();
    put(&db, vec![doc("2", "moved")]);
    at_every_stage(&disk, db, |db| {
        let main = main_of(db);
        let all: Vec<(Seq, String)> = main.scan().map(|item| item.unwrap()).map(|(seq, d)| (seq, d.id.into())).collect();
        let expected = ["0", "1", "3", "5", "6", "7", "8", "9", "10", "11", "13", "14", "2"];
        assert_eq!(all.iter().map(|(_, id)| id.as_str()).collect::<Vec<_>>(), expected);
        assert!(all.is_sorted_by(|a, b| a.0 < b.0));
        let after = |seq| -> Vec<String> { main.scan_after(seq).unwrap().map(|item| item.unwrap().1.id.into()).collect() };
        for (n, (seq, _)) in all.iter().enumerate() {
            assert_eq!(after(*seq), expected[n + 1..], "after {seq}");
        }
        assert_eq!((after(Seq(0)).len(), after(Seq(u64::MAX)).len()), (13, 0));
    });
    // A cursor holds across commits.
    let db = open(&disk);
    let (seq, _) = main_of(&db).scan().nth(5).unwrap().unwrap();
    put(&db, vec![doc("15", "")]);
    db.delete("main", vec!["7".into(), "8".into()]).unwrap();
    let rest: Vec<String> = main_of(&db).scan_after(seq).unwrap().map(|item| item.unwrap().1.id.into()).collect();
    assert_eq!(rest, ["9", "10", "11", "13", "14", "2", "15"]);
}

#[test]
fn vectors_come_with_a_scan_when_asked_for() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "").vector([1.0]), doc("b", "")]);
    at_every_stage(&disk, db, |db| {
        let vectors = |with| -> Vec<Option<Vec<f32>>> {
            main_of(db).scan().with_vectors(with).map(|item| item.unwrap().1.vector.map(|v| v.to_vec())).collect()
        };
        assert_eq!(vectors(true), [Some(vec![1.0]), None]);
        assert_eq!(vectors(false), [None, None]);
    });
}

#[test]
fn statistics_count_what_lives() {
    let (disk, db) = fresh();
    put(
        &db,
        vec![
            doc("a", "one two two").vector([1.0]).source("s"),
            doc("b", "two three").source("s"),
            doc("c", ""),
            doc("d", "gone").vector([2.0]),
        ],
    );
    db.checkpoint().unwrap();
    put(&db, vec![doc("b", "two four").source("t")]);
    db.delete("main", vec!["d".into()]).unwrap();
    at_every_stage(&disk, db, |db| {
        let stats = CollectionStats { segments: 0, ..main_of(db).stats().unwrap() };
        let mut expected = CollectionStats::default();
        (expected.documents, expected.sources, expected.vectors, expected.terms, expected.tokens) = (3, 2, 1, 3, 5);
        assert_eq!(stats, expected);
    });
    assert_eq!(main_of(&open(&disk)).stats().unwrap().segments, 1);
}

#[test]
fn an_empty_collection_answers_everything() {
    let (disk, db) = fresh();
    at_every_stage(&disk, db, |db| {
        let main = main_of(db);
        assert_eq!((main.count(), ids(&main).len(), main.sources().unwrap().len()), (0, 0, 0));
        assert_eq!(main.stats().unwrap(), CollectionStats::default());
        assert!(main.get("a").unwrap().is_none() && main.get("").unwrap().is_none());
        let search = Search { query: Some("x".into()), vector: Some(vec![1.0]), ..Search::default() };
        assert!(main.search(&search).unwrap().hits.is_empty());
        refused(db.snapshot().collection("gone"), ErrorCode::NotFound, &["\"gone\""]);
    });
}

#[test]
fn any_unicode_is_an_id_a_source_and_a_text() {
    let (disk, db) = fresh();
    let names = ["ü", "u\u{308}", "日本語", "🙂", " ", "\n", "\u{0}", "a/b", "..", "\u{202e}", "Ａ", "\u{10ffff}"];
    put(&db, names.iter().map(|n| doc(n, &format!("Straße {n} İ")).source(*n).metadata(json("{\"ключ\":\"значение\"}"))).collect());
    at_every_stage(&disk, db, |db| {
        let main = main_of(db);
        // Compared byte for byte: nothing is normalised.
        assert_eq!(ids(&main), names);
        assert_eq!(main.sources().unwrap().len(), names.len());
        for name in names {
            assert_eq!(&*main.get(name).unwrap().unwrap().text, format!("Straße {name} İ"));
        }
        let text =
            |query: &str| main.search(&Search { query: Some(query.into()), mode: Mode::Text, ..Search::default() }).unwrap().hits.len();
        assert_eq!((text("STRASSE"), text("straße"), text("日本語")), (0, 10, 1));
    });
}

//! What a commit does, counts and refuses.

use super::{at_every_stage, doc, found, fresh, ids, json, main_of, open, put, refused, source_of, sources};
use triune::{Document, ErrorCode, Mode, Outcome, Patch, Search, WriteBatch};

#[test]
fn what_was_stored_comes_back_byte_for_byte() {
    let (disk, db) = fresh();
    let awkward = ["", " ", "\0", "a\u{0}b", "\u{feff}bom", "🙂 e\u{301} \u{202e}rtl", "line\r\nline\u{2028}", "\u{10ffff}"];
    let floats = [0.0f32, -0.0, f32::MIN_POSITIVE, f32::MIN_POSITIVE / 2.0, f32::MAX, f32::MIN, 0.1, 1.0 + f32::EPSILON];
    let mut documents: Vec<Document> = Vec::new();
    for (i, text) in awkward.iter().enumerate() {
        let vector: Vec<f32> = floats.iter().cycle().skip(i).take(floats.len()).copied().collect();
        let metadata = json(&format!("{{\"t\": {}, \"n\":1.0E+2}}", serde_json::to_string(text).unwrap()));
        documents.push(doc(&format!("id {i}{text}"), text).vector(vector).metadata(metadata).source(format!("source {text}")));
    }
    // A text of more than one block, and one that does not compress.
    let noise: String = (0u32..40_000).map(|i| char::from(33 + (i.wrapping_mul(2_654_435_761) >> 25) as u8 % 90)).collect();
    documents.push(doc("long", &"the same words again ".repeat(10_000)));
    documents.push(doc("noise", &noise));
    put(&db, documents.clone());
    at_every_stage(&disk, db, |db| {
        let main = main_of(db);
        let bits = |d: &Document| d.vector.as_ref().map(|v| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        for expected in &documents {
            let stored = main.get(&expected.id).unwrap().unwrap().to_document();
            assert_eq!((&stored, bits(&stored)), (expected, bits(expected)));
        }
        let scanned: Vec<Document> = main.scan().with_vectors(true).map(|item| item.unwrap().1.to_document()).collect();
        assert_eq!(scanned, documents);
    });
}

#[test]
fn a_put_orders_and_a_replaced_document_moves_to_the_end() {
    let (disk, db) = fresh();
    put(&db, ["a", "b", "c", "d"].map(|id| doc(id, "same words").vector([1.0, 1.0])).to_vec());
    db.checkpoint().unwrap();
    put(&db, vec![doc("b", "same words").vector([1.0, 1.0])]);
    db.patch("main", vec![Patch::new("a").metadata(r#"{"k":1}"#).unwrap()]).unwrap();
    at_every_stage(&disk, db, |db| {
        let expected = ["c", "d", "b", "a"];
        assert_eq!(ids(&main_of(db)), expected);
        // Equal scores stand in the order of insertion.
        let search = Search { query: Some("words".into()), vector: Some(vec![2.0, 2.0]), ..Search::default() };
        for mode in [Mode::Text, Mode::Vector, Mode::Hybrid] {
            assert_eq!(found(db, Search { mode, ..search.clone() }), expected, "{mode}");
            assert_eq!(found(db, Search { mode, k: 2, ..search.clone() }), expected[..2], "{mode}");
        }
    });
}

#[test]
fn a_refused_batch_changes_nothing() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "kept").vector([1.0, 2.0]).source("s"), doc("b", "kept")]);
    let (before, operations) = (db.snapshot(), disk.operations());
    type Refusal<'a> = (&'a str, ErrorCode, &'a dyn Fn(&mut WriteBatch));
    let refusals: [Refusal<'_>; 9] = [
        ("an id twice", ErrorCode::DuplicateId, &|b| {
            b.put("main", vec![doc("x", ""), doc("x", "")]);
        }),
        ("an id that exists", ErrorCode::AlreadyExists, &|b| {
            b.insert("main", vec![doc("x", ""), doc("b", "")]);
        }),
        ("a patch of nothing", ErrorCode::NotFound, &|b| {
            b.patch("main", vec![Patch::new("x")]);
        }),
        ("another dimension", ErrorCode::SchemaMismatch, &|b| {
            b.put("main", vec![doc("x", "").vector([1.0])]);
        }),
        ("a long id", ErrorCode::LimitExceeded, &|b| {
            b.put("main", vec![doc(&"x".repeat(1025), "")]);
        }),
        ("NaN", ErrorCode::InvalidArgument, &|b| {
            b.put("main", vec![doc("x", "").vector([1.0, f32::NAN])]);
        }),
        ("another source", ErrorCode::InvalidArgument, &|b| {
            b.replace_source("main", "s", vec![doc("x", "").source("t")]);
        }),
        ("no such collection", ErrorCode::NotFound, &|b| {
            b.put("gone", vec![doc("x", "")]);
        }),
        ("a taken name", ErrorCode::AlreadyExists, &|b| {
            b.create_collection("main", triune::Schema::default());
        }),
    ];
    for (what, code, refuse) in refusals {
        for first in [true, false] {
            let mut batch = WriteBatch::new();
            if first {
                refuse(&mut batch);
            }
            batch.put("main", vec![doc("new", "")]).delete("main", vec!["a".into()]);
            batch.create_collection("other", triune::Schema::default()).put("other", vec![doc("new", "")]).clear("other");
            if !first {
                refuse(&mut batch);
            }
            let refusal = db.commit(batch);
            assert_eq!(refusal.map_err(|e| e.code()), Err(code), "{what}");
            let now = db.snapshot();
            assert_eq!((now.lsn(), now.collections()), (before.lsn(), before.collections()), "{what}");
            assert_eq!((ids(&main_of(&db)), disk.operations()), (vec!["a".to_string(), "b".into()], operations), "{what}");
        }
    }
    // Nor does it leave anything behind that a later commit would reveal.
    put(&db, vec![doc("c", "")]);
    drop(db);
    assert_eq!(ids(&main_of(&open(&disk))), ["a", "b", "c"]);
}

#[test]
fn a_batch_sees_its_earlier_calls() {
    let (disk, db) = fresh();
    put(&db, vec![doc("old", "").source("s")]);
    let mut batch = WriteBatch::new();
    batch.put("main", vec![doc("a", "1"), doc("b", "1").source("s")]);
    batch.patch("main", vec![Patch::new("a").text("2")]);
    batch.delete_source("main", "s");
    batch.insert("main", vec![doc("b", "3")]);
    batch.delete("main", vec!["a".into(), "a".into(), "never".into()]);
    batch.put("main", vec![doc("a", "4")]);
    let commit = db.commit(batch).unwrap();
    let outcome = |written, deleted| {
        let mut o = Outcome::default();
        (o.written, o.deleted) = (written, deleted);
        o
    };
    assert_eq!(commit.outcomes, [outcome(2, 0), outcome(1, 0), outcome(0, 2), outcome(1, 0), outcome(0, 1), outcome(1, 0)]);
    at_every_stage(&disk, db, |db| {
        assert_eq!(ids(&main_of(db)), ["b", "a"]);
        assert_eq!(&*main_of(db).get("a").unwrap().unwrap().text, "4");
    });
}

#[test]
fn a_batch_spans_collections() {
    let (disk, db) = fresh();
    let mut batch = WriteBatch::new();
    batch.create_collection("other", triune::Schema::default());
    batch.put("main", vec![doc("a", "")]).put("other", vec![doc("a", ""), doc("b", "")]);
    db.commit(batch).unwrap();
    at_every_stage(&disk, db, |db| {
        assert_eq!((main_of(db).count(), db.snapshot().collection("other").unwrap().count()), (1, 2));
    });
}

#[test]
fn insert_writes_all_or_none() {
    let (disk, db) = fresh();
    db.insert("main", vec![doc("a", ""), doc("b", "")]).unwrap();
    at_every_stage(&disk, db, |db| {
        refused(db.insert("main", vec![doc("c", ""), doc("b", ""), doc("d", "")]), ErrorCode::AlreadyExists, &["\"b\"", "nothing"]);
        assert_eq!(ids(&main_of(db)), ["a", "b"]);
    });
    let db = open(&disk);
    db.delete("main", vec!["a".into()]).unwrap();
    db.insert("main", vec![doc("a", "again")]).unwrap();
    assert_eq!(ids(&main_of(&db)), ["b", "a"]);
}

#[test]
fn deletes_count_what_they_removed() {
    let (disk, db) = fresh();
    put(&db, ["a", "b", "c", "d"].map(|id| doc(id, "").source("s")).to_vec());
    put(&db, vec![doc("e", "")]);
    db.checkpoint().unwrap();
    assert_eq!(db.delete("main", vec!["a".into(), "a".into(), "never".into(), "".into()]).unwrap(), 1);
    assert_eq!(db.delete("main", vec!["a".into()]).unwrap(), 0);
    assert_eq!(db.delete_source("main", "never").unwrap(), 0);
    assert_eq!(db.delete_source("main", "s").unwrap(), 3);
    assert_eq!(db.delete_source("main", "s").unwrap(), 0);
    assert_eq!(db.delete("main", vec![]).unwrap(), 0);
    at_every_stage(&disk, db, |db| {
        assert_eq!((ids(&main_of(db)), sources(db)), (vec!["e".to_string()], vec![]));
        assert!(main_of(db).get("a").unwrap().is_none());
    });
    let db = open(&disk);
    put(&db, vec![doc("f", "")]);
    assert_eq!((db.clear("main").unwrap(), db.clear("main").unwrap()), (2, 0));
}

#[test]
fn replace_source_replaces_all_documents_of_a_source_at_once() {
    let (disk, db) = fresh();
    put(&db, vec![doc("1", "old").source("s"), doc("2", "old").source("s"), doc("x", "").source("t"), doc("y", "")]);
    db.checkpoint().unwrap();
    let before = main_of(&db);
    // Known ids, a new one, one that lives under another source and one that lives under none.
    let commit = db.replace_source("main", "s", ["2", "3", "x", "y"].map(|id| doc(id, "new")).to_vec()).unwrap();
    assert_eq!((commit.outcomes[0].written, commit.outcomes[0].deleted), (4, 1));
    assert_eq!(before.sources().unwrap().len(), 2);
    at_every_stage(&disk, db, |db| {
        assert_eq!(sources(db), [("s".to_string(), 4)]);
        assert_eq!(ids(&main_of(db)), ["2", "3", "x", "y"]);
        assert_eq!(source_of(db, "y").as_deref(), Some("s"));
    });
    let db = open(&disk);
    let other = db.replace_source("main", "s", vec![doc("2", ""), doc("4", "").source("t")]);
    refused(other, ErrorCode::InvalidArgument, &["\"s\"", "\"t\"", "\"4\""]);
    let conflict = vec![doc("4", "").metadata(json(r#"{"file_hash":"t"}"#))];
    refused(db.replace_source("main", "s", conflict), ErrorCode::InvalidArgument, &["\"s\"", "\"t\""]);
    assert_eq!(main_of(&db).count(), 4);
    assert_eq!(db.replace_source("main", "s", vec![]).unwrap().outcomes[0].deleted, 4);
    assert_eq!(main_of(&db).count(), 0);
}

#[test]
fn an_empty_batch_writes_nothing() {
    let (disk, db) = fresh();
    put(&db, vec![doc("a", "")]);
    let (lsn, operations) = (db.snapshot().lsn(), disk.operations());
    let commit = db.commit(WriteBatch::new()).unwrap();
    assert_eq!((commit.lsn, commit.outcomes.len()), (lsn, 0));
    // Nor does one that changes nothing.
    for empty in [db.put("main", vec![]), db.insert("main", vec![]), db.patch("main", vec![]), db.replace_source("main", "s", vec![])] {
        assert_eq!(empty.unwrap().lsn, lsn);
    }
    assert_eq!(db.delete("main", vec!["never".into()]).unwrap(), 0);
    assert_eq!((db.snapshot().lsn(), disk.operations()), (lsn, operations));
    refused(db.put("gone", vec![]), ErrorCode::NotFound, &["\"gone\""]);
}

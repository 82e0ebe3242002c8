//! The vectors of entities' names: kept beside a collection, in its commits. One test a promise.

use crate::stand_ins::{Letters, Scripted, Unreachable, letters};
use std::sync::Arc;
use triune::io::SimDirectory;
use triune::models::{Call, Cancellation, Embedder, ModelError, TextRole};
use triune::retrieval::extraction::GraphExtraction;
use triune::retrieval::{CollectionStore, Dispatcher, Models, Question, RetrievalConfig, SourceEntry, Store, Stores};
use triune::{Database, Document, Entity, Error, ErrorCode, Options, Relation, Result, Schema, WriteBatch};

fn fresh() -> (SimDirectory, Database) {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("notes", Schema::default()).unwrap();
    (disk, db)
}

fn options() -> Options {
    Options { background: false, ..Options::default() }
}

fn doc(id: &str, names: &[&str]) -> Document {
    Document::new(id).source(format!("{id}.md")).entities(names.iter().map(|name| Entity::new(*name)).collect::<Vec<_>>())
}

fn vectors(of: &[(&str, [f32; 2])]) -> Vec<(String, Vec<f32>)> {
    of.iter().map(|(name, vector)| (name.to_string(), vector.to_vec())).collect()
}

/// Documents and vectors of three entities, in one commit.
fn filled() -> (SimDirectory, Database) {
    let (disk, db) = fresh();
    let mut batch = WriteBatch::new();
    batch.put("notes", vec![doc("a", &["Marie Curie", "Radium"]), doc("b", &["Bees"])]);
    batch.put_entity_vectors("notes", vectors(&[("Marie Curie", [1.0, 0.0]), ("Radium", [0.8, 0.6]), ("Bees", [0.0, 1.0])]));
    db.commit(batch).unwrap();
    (disk, db)
}

fn nearest(db: &Database, vector: [f32; 2], k: usize) -> Vec<(String, f64)> {
    let vectors = db.snapshot().entity_vectors("notes").unwrap().unwrap();
    vectors.nearest(&vector, k).unwrap().into_iter().map(|e| (e.name.into(), e.similarity)).collect()
}

fn names(db: &Database, vector: [f32; 2], k: usize) -> Vec<String> {
    nearest(db, vector, k).into_iter().map(|(name, _)| name).collect()
}

fn refused(result: Result<triune::Commit>) -> ErrorCode {
    result.unwrap_err().code()
}

#[test]
fn vectors_of_names_are_in_the_commit_of_the_documents_or_not_at_all() {
    let (disk, db) = filled();
    let lsn = db.snapshot().lsn();
    assert_eq!(names(&db, [1.0, 0.0], 3), ["Marie Curie", "Radium", "Bees"]);
    // The second part of the batch is refused, so neither is there.
    let mut batch = WriteBatch::new();
    batch.put("notes", vec![doc("c", &["Oaks"])]);
    batch.put_entity_vectors("notes", vec![("Oaks".into(), vec![1.0, 2.0, 3.0])]);
    assert_eq!(refused(db.commit(batch)), ErrorCode::SchemaMismatch);
    assert_eq!((db.snapshot().lsn(), db.snapshot().collection("notes").unwrap().count()), (lsn, 2));
    db.close().unwrap();
    let db = Database::open_with(Arc::new(disk), options()).unwrap();
    assert_eq!(names(&db, [0.0, 1.0], 1), ["Bees"]);
}

#[test]
fn the_nearest_are_by_cosine_whatever_the_collections_metric() {
    let (_disk, db) = fresh();
    let mut batch = WriteBatch::new();
    batch.create_collection("dots", Schema { metric: triune::Metric::Dot, ..Schema::default() });
    batch.put("dots", vec![doc("a", &["far and long", "near and short"])]);
    batch.put_entity_vectors(
        "dots",
        vectors(&[("far and long", [90.0, 90.0]), ("near and short", [0.1, 0.0]), ("near and short2", [1.0, 0.0])]),
    );
    db.commit(batch).unwrap();
    let vectors = db.snapshot().entity_vectors("dots").unwrap().unwrap();
    let found = vectors.nearest(&[2.0, 0.0], 2).unwrap();
    assert_eq!((&*found[0].name, found[0].similarity), ("near and short", 1.0));
    assert!((found[1].similarity - 0.5f64.sqrt()).abs() < 1e-6);
    assert_eq!((vectors.count(), vectors.dimension(), vectors.embedder()), (3, Some(2), None));
    assert!(vectors.nearest(&[1.0], 1).is_err() && vectors.nearest(&[f32::NAN, 0.0], 1).is_err());
    assert!(vectors.nearest(&[1.0, 0.0], 0).unwrap().is_empty());
}

#[test]
fn names_that_differ_in_letter_case_alone_have_one_vector() {
    let (_disk, db) = filled();
    let mut batch = WriteBatch::new();
    batch.put_entity_vectors("notes", vectors(&[("MARIE CURIE", [0.0, 1.0])]));
    db.commit(batch).unwrap();
    let vectors = db.snapshot().entity_vectors("notes").unwrap().unwrap();
    assert_eq!((vectors.count(), vectors.get("marie Curie").unwrap().as_deref()), (3, Some(&[0.0, 1.0][..])));
    let mut batch = WriteBatch::new();
    batch.put_entity_vectors("notes", vectors_twice());
    assert_eq!(refused(db.commit(batch)), ErrorCode::DuplicateId);
}

fn vectors_twice() -> Vec<(String, Vec<f32>)> {
    vectors(&[("Bees", [1.0, 0.0]), ("BEES", [0.0, 1.0])])
}

#[test]
fn an_entity_that_no_live_document_mentions_or_relates_is_not_found() {
    let (_disk, db) = filled();
    db.put("notes", vec![Document::new("r").entities([]).relations([Relation::new("Bees", "Honey")])]).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_entity_vectors("notes", vectors(&[("Honey", [0.1, 1.0])]));
    db.commit(batch).unwrap();
    db.delete("notes", vec!["b".into()]).unwrap();
    // A relation is enough.
    assert_eq!(names(&db, [0.0, 1.0], 2), ["Bees", "Honey"]);
    db.delete("notes", vec!["r".into()]).unwrap();
    db.checkpoint().unwrap();
    assert_eq!(names(&db, [0.0, 1.0], 2), ["Radium", "Marie Curie"]);
}

#[test]
fn as_many_as_exist_are_found_behind_any_number_that_do_not() {
    let (_disk, db) = fresh();
    let mut batch = WriteBatch::new();
    let gone: Vec<(String, Vec<f32>)> = (0..300).map(|i| (format!("gone {i}"), vec![1.0, i as f32 / 1e6])).collect();
    batch.put("notes", vec![doc("a", &["first", "second", "third"])]);
    batch.put_entity_vectors("notes", gone);
    batch.put_entity_vectors("notes", vectors(&[("third", [-1.0, 0.1]), ("first", [0.5, 0.5]), ("second", [0.0, 1.0])]));
    db.commit(batch).unwrap();
    assert_eq!(names(&db, [1.0, 0.0], 2), ["first", "second"]);
    assert_eq!(names(&db, [1.0, 0.0], 10), ["first", "second", "third"]);
    assert_eq!(db.remove_stale_entity_vectors("notes").unwrap(), 300);
    assert_eq!(db.snapshot().entity_vectors("notes").unwrap().unwrap().count(), 3);
    assert_eq!(db.remove_stale_entity_vectors("notes").unwrap(), 0);
}

#[test]
fn vectors_go_where_their_collection_goes() {
    let (_disk, db) = filled();
    let mut batch = WriteBatch::new();
    batch.rename_collection("notes", "papers");
    db.commit(batch).unwrap();
    assert_eq!(db.snapshot().entity_vectors("papers").unwrap().unwrap().count(), 3);
    db.create_collection("notes", Schema::default()).unwrap();
    assert!(db.snapshot().entity_vectors("notes").unwrap().is_none());
    let mut batch = WriteBatch::new();
    batch.swap_collections("notes", "papers");
    db.commit(batch).unwrap();
    assert_eq!(names(&db, [0.0, 1.0], 1), ["Bees"]);
    db.clear("notes").unwrap();
    assert_eq!(db.snapshot().entity_vectors("notes").unwrap().unwrap().count(), 0);
    db.drop_collection("notes").unwrap();
    assert_eq!(db.snapshot().entity_vectors("notes").unwrap_err().code(), ErrorCode::NotFound);
    assert!(!db.snapshot().collections().contains(&"notes:entities".to_string()));
}

#[test]
fn bare_names_without_a_vector_are_embedded_once_and_the_embedder_is_kept() {
    let (_disk, db) = fresh();
    db.put("notes", vec![doc("a", &["Radium", "Curie"]), doc("b", &["RADIUM"]).relations([Relation::new("Radium", "Paris")])]).unwrap();
    assert_eq!(db.snapshot().entities_without_vector("notes").unwrap(), ["Curie", "Paris", "Radium"]);
    let embed = |embedder: &dyn Embedder| db.embed_entities("notes", embedder, &Call::default());
    assert_eq!(embed(&Letters("letters-v1")).unwrap(), 3);
    let vectors = db.snapshot().entity_vectors("notes").unwrap().unwrap();
    assert_eq!((vectors.embedder(), vectors.get("radium").unwrap().unwrap().to_vec()), (Some("letters-v1"), letters("radium")));
    assert_eq!(&*vectors.nearest(&letters("Curies"), 1).unwrap()[0].name, "Curie");
    assert_eq!(embed(&Letters("letters-v1")).unwrap(), 0);
    db.put("notes", vec![doc("c", &["Bees", "curie"])]).unwrap();
    assert_eq!(embed(&Letters("letters-v1")).unwrap(), 1);
}

#[test]
fn vectors_of_another_embedder_are_refused_until_the_old_ones_are_dropped() {
    let (_disk, db) = fresh();
    db.put("notes", vec![doc("a", &["Radium"])]).unwrap();
    let embed = |embedder: &dyn Embedder| db.embed_entities("notes", embedder, &Call::default());
    embed(&Letters("letters-v1")).unwrap();
    let other = embed(&Letters("letters-v2")).unwrap_err();
    assert_eq!(other.code(), ErrorCode::EmbedderMismatch);
    assert!(other.to_string().contains("letters-v1") && other.to_string().contains("letters-v2"), "{other}");
    let mut batch = WriteBatch::new();
    batch.put_entity_vectors_by("notes", "letters-v2", vec![("Radium".into(), letters("x"))]);
    assert_eq!(refused(db.commit(batch)), ErrorCode::EmbedderMismatch);
    let mut batch = WriteBatch::new();
    batch.drop_entity_vectors("notes");
    db.commit(batch).unwrap();
    assert_eq!(embed(&Letters("letters-v2")).unwrap(), 1);
    assert_eq!(db.snapshot().entity_vectors("notes").unwrap().unwrap().embedder(), Some("letters-v2"));
}

#[test]
fn names_are_embedded_by_the_embedder_of_the_documents_if_they_have_one() {
    let (_disk, db) = fresh();
    let mut batch = WriteBatch::new();
    batch.create_collection("embedded", Schema { embedder: Some("letters-v1".into()), ..Schema::default() });
    batch.put("embedded", vec![doc("a", &["Radium"])]);
    db.commit(batch).unwrap();
    let wrong = db.embed_entities("embedded", &Letters("other"), &Call::default()).unwrap_err();
    assert_eq!(wrong.code(), ErrorCode::EmbedderMismatch);
    let extraction = GraphExtraction::new(Arc::new(Scripted::says("{}"))).embedder(Arc::new(Letters("other")));
    assert_eq!(extraction.run(&db, "embedded", None, &Call::default()).unwrap_err().code(), ErrorCode::EmbedderMismatch);
    assert_eq!(db.embed_entities("embedded", &Letters("letters-v1"), &Call::default()).unwrap(), 1);
    // Vectors of nobody knows whom are of another model than any.
    let mut batch = WriteBatch::new();
    batch.put_entity_vectors("notes", vec![("Radium".into(), letters("radium"))]);
    db.commit(batch).unwrap();
    assert_eq!(db.embed_entities("notes", &Letters("letters-v1"), &Call::default()).unwrap_err().code(), ErrorCode::EmbedderMismatch);
}

#[test]
fn a_question_of_another_embedder_is_not_compared_with_names_and_the_walk_starts_at_those_it_names() {
    let (_disk, db) = fresh();
    db.put("notes", vec![doc("a", &["Radium"]).text("Of Radium."), doc("b", &["Bees"]).text("Of Bees.")]).unwrap();
    db.embed_entities("notes", &Letters("letters-v1"), &Call::default()).unwrap();
    let asked = |embedder: &'static str| {
        let store = Arc::new(CollectionStore::whole(&db.snapshot(), "notes").unwrap());
        let models = Models { embedder: Some(Arc::new(Letters(embedder))), ..Models::default() };
        let config = RetrievalConfig { retriever: "graphrag".into(), ..RetrievalConfig::default() };
        let question = Question { sources: vec![SourceEntry::with("s", config)], ..Question::new("Who studied Radium?") };
        Dispatcher::new(Stores::all_in(store), models).ask(&question)
    };
    assert!(asked("letters-v1").errors.is_empty());
    let other = asked("letters-v2");
    assert_eq!(other.errors.iter().map(|e| e.error.code()).collect::<Vec<_>>(), [ErrorCode::EmbedderMismatch]);
    let told = other.errors[0].to_string();
    assert!(told.contains("letters-v1") && told.contains("letters-v2") && told.contains("entities"), "{told}");
    assert_eq!(other.passages[0].id, "a");
}

#[test]
fn an_embedder_that_fails_stops_or_lies_leaves_what_was_stored() {
    struct Lies(usize, f32);
    impl Embedder for Lies {
        fn fingerprint(&self) -> &str {
            "letters-v1"
        }
        fn dimension(&self) -> u32 {
            2
        }
        fn embed(&self, _: &Call<'_>, texts: &[&str], _: TextRole) -> std::result::Result<Vec<Vec<f32>>, ModelError> {
            Ok(texts.iter().map(|_| vec![self.1; self.0]).skip(usize::from(self.1 == 0.5)).collect())
        }
    }
    let (_disk, db) = fresh();
    db.put("notes", vec![doc("a", &["Radium", "Curie"])]).unwrap();
    let stop = Cancellation::new();
    stop.cancel();
    let stopped = Call { cancellation: stop, ..Call::default() };
    let broken: [(&dyn Embedder, &Call<'_>); 5] = [
        (&Unreachable, &Call::default()),
        (&Letters("letters-v1"), &stopped),
        (&Lies(2, f32::NAN), &Call::default()),
        (&Lies(3, 1.0), &Call::default()),
        (&Lies(2, 0.5), &Call::default()),
    ];
    for (embedder, call) in broken {
        assert!(matches!(db.embed_entities("notes", embedder, call), Err(Error::Model(_))));
    }
    assert!(db.snapshot().entity_vectors("notes").unwrap().is_none());
}

#[test]
fn removing_vectors_takes_names_in_any_spelling() {
    let (_disk, db) = filled();
    let mut batch = WriteBatch::new();
    batch.delete_entity_vectors("notes", &["BEES".into(), "nobody".into()]);
    assert_eq!(db.commit(batch).unwrap().outcomes[0].deleted, 1);
    assert_eq!(names(&db, [0.0, 1.0], 9), ["Radium", "Marie Curie"]);
    assert_eq!(db.snapshot().entities_without_vector("notes").unwrap(), ["Bees"]);
}

#[test]
fn a_source_is_seeded_by_the_entities_of_its_own_documents_weighted_by_cosine_from_zero_up() {
    let (_disk, db) = filled();
    let mut batch = WriteBatch::new();
    batch.put_entity_vectors("notes", vectors(&[("Marie Curie", [1.0, 0.0]), ("Radium", [-1.0, 0.1])]));
    db.commit(batch).unwrap();
    let store = CollectionStore::new(&db.snapshot(), "notes").unwrap();
    assert!(store.has_entity_vectors(&Call::default(), "a.md").unwrap());
    let seeds = |source: &str, k| -> Vec<(String, f64)> {
        store.nearest_entities(&Call::default(), source, &[1.0, 0.0], k).unwrap().into_iter().map(|seed| (seed.name, seed.weight)).collect()
    };
    assert_eq!(seeds("a.md", 10), [("marie curie".to_string(), 1.0), ("radium".to_string(), 0.0)]);
    assert_eq!(seeds("b.md", 10), [("bees".to_string(), 0.0)]);
    assert_eq!(seeds("a.md", 1).len(), 1);
    assert!(seeds("nothing.md", 10).is_empty());
}

//! What is configured of sources: stored in the commits of the documents, carried along with their collection, refused when it is wrong.

use serde_json::json;
use std::sync::Arc;
use triune::io::SimDirectory;
use triune::maintenance;
use triune::models::Call;
use triune::retrieval::{
    CollectionStore, GraphConfig, PreScreenConfig, Registry, Request, RetrievalConfig, Retrieved, Retriever, SourceConfig, Store,
};
use triune::{Database, Document, ErrorCode, Metadata, Options, Schema, WriteBatch};

fn fresh() -> (SimDirectory, Database) {
    let disk = SimDirectory::new();
    let db = open(&disk, true);
    db.create_collection("main", Schema::default()).unwrap();
    (disk, db)
}

fn open(disk: &SimDirectory, create: bool) -> Database {
    let options = Options { background: false, ..Options::default() };
    let dir = Arc::new(disk.clone());
    if create { Database::create_with(dir, options).unwrap() } else { Database::open_with(dir, options).unwrap() }
}

fn chunks(chunks: usize) -> RetrievalConfig {
    RetrievalConfig { chunks, ..Default::default() }
}

fn configure(db: &Database, collection: &str, source: &str, n: usize) {
    let mut batch = WriteBatch::new();
    batch.configure_source(collection, source, chunks(n)).unwrap();
    db.commit(batch).unwrap();
}

/// The chunks that are configured, by source; nothing without the collection.
fn configured(db: &Database, collection: &str) -> Vec<(String, usize)> {
    let configs = db.snapshot().source_configs(collection).unwrap();
    configs.into_iter().map(|(source, config)| (source, config.retrieval.chunks)).collect()
}

#[test]
fn a_configuration_is_committed_with_the_documents_it_is_about() {
    let (disk, db) = fresh();
    let mut batch = WriteBatch::new();
    batch.put("main", vec![Document::new("a").source("s")]);
    let screen = PreScreenConfig { max_keep: 3, ..Default::default() };
    let config = SourceConfig {
        retrieval: RetrievalConfig { retriever: "HYBRID".into(), score_threshold: Some(0.25), prescreen: Some(screen), ..chunks(4) },
        graph: GraphConfig { max_chunks: Some(9), ..Default::default() },
    };
    batch.configure_source("main", "s", &config).unwrap();
    let commit = db.commit(batch).unwrap();
    assert_eq!(commit.outcomes.iter().map(|o| o.written).collect::<Vec<_>>(), [1, 1]);
    let check = |db: &Database, when: &str| {
        let snapshot = db.snapshot();
        assert_eq!(snapshot.source_config("main", "s").unwrap().as_ref(), Some(&config), "{when}");
        assert_eq!(snapshot.source_config("main", "t").unwrap(), None);
        assert_eq!(snapshot.collections(), ["main", "main:sources"]);
        assert_eq!(CollectionStore::new(&snapshot, "main").unwrap().config(&Call::default(), "s").unwrap().as_ref(), Some(&config));
        assert_eq!(snapshot.collection("main").unwrap().count(), 1);
    };
    check(&db, "at once");
    check(&open(&disk.survivors_none(), false), "after a power cut");
    db.checkpoint().unwrap();
    db.compact().unwrap();
    check(&db, "compacted");
    db.close().unwrap();
    check(&open(&disk, false), "closed");
}

#[test]
fn a_batch_that_is_refused_configures_nothing() {
    let (_, db) = fresh();
    configure(&db, "main", "s", 3);
    let mut batch = WriteBatch::new();
    batch.configure_source("main", "s", chunks(9)).unwrap();
    batch.configure_source("main", "t", chunks(9)).unwrap();
    batch.patch("main", vec![triune::Patch::new("nobody")]);
    assert_eq!(db.commit(batch).unwrap_err().code(), ErrorCode::NotFound);
    assert_eq!(configured(&db, "main"), [("s".to_string(), 3)]);
    let mut batch = WriteBatch::new();
    batch.configure_source("nowhere", "s", chunks(9)).unwrap();
    assert_eq!(db.commit(batch).unwrap_err().code(), ErrorCode::NotFound);
    assert_eq!(db.snapshot().collections(), ["main", "main:sources"]);
}

#[test]
fn what_is_configured_again_is_replaced_whole_and_can_be_taken_away() {
    let (_, db) = fresh();
    let mut nothing = WriteBatch::new();
    nothing.unconfigure_source("main", "s");
    assert_eq!(db.commit(nothing).unwrap().outcomes[0].deleted, 0);
    assert_eq!(db.snapshot().collections(), ["main"], "taking nothing away makes nothing");
    configure(&db, "main", "s", 3);
    configure(&db, "main", "t", 4);
    configure(&db, "main", "s", 5);
    assert_eq!(configured(&db, "main"), [("s".to_string(), 5), ("t".to_string(), 4)]);
    let mut batch = WriteBatch::new();
    batch.unconfigure_source("main", "s").unconfigure_source("main", "unknown");
    assert_eq!(db.commit(batch).unwrap().outcomes.iter().map(|o| o.deleted).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(configured(&db, "main"), [("t".to_string(), 4)]);
}

#[test]
fn a_source_keeps_its_configuration_when_its_documents_go_and_come_again() {
    let (_, db) = fresh();
    configure(&db, "main", "s", 3);
    db.replace_source("main", "s", vec![Document::new("a")]).unwrap();
    db.delete_source("main", "s").unwrap();
    assert_eq!(configured(&db, "main"), [("s".to_string(), 3)]);
}

#[test]
fn configurations_go_where_their_collection_goes_in_the_same_commit() {
    let (disk, db) = fresh();
    for name in ["other", "bare"] {
        db.create_collection(name, Schema::default()).unwrap();
    }
    configure(&db, "main", "s", 3);
    configure(&db, "other", "s", 7);
    let only = |n: usize| vec![("s".to_string(), n)];
    let does = |fill: &dyn Fn(&mut WriteBatch)| {
        let mut batch = WriteBatch::new();
        fill(&mut batch);
        db.commit(batch).unwrap();
    };
    let all = |db: &Database| ["main", "other", "bare", "new"].map(|name| configured(db, name));
    does(&|b| {
        b.swap_collections("main", "other");
    });
    assert_eq!(all(&db), [only(7), only(3), vec![], vec![]]);
    does(&|b| {
        b.swap_collections("bare", "main");
    });
    assert_eq!(all(&db), [vec![], only(3), only(7), vec![]]);
    does(&|b| {
        b.swap_collections("bare", "main").rename_collection("main", "new");
    });
    assert_eq!(all(&db), [vec![], only(3), vec![], only(7)]);
    assert_eq!(db.snapshot().collections(), ["bare", "new", "new:sources", "other", "other:sources"]);
    let again = open(&disk.survivors_none(), false);
    assert_eq!(all(&again), [vec![], only(3), vec![], only(7)], "after a power cut");
    does(&|b| {
        b.clear("other");
    });
    assert_eq!(all(&db), [vec![], vec![], vec![], only(7)]);
    does(&|b| {
        b.drop_collection("new").drop_collection("other");
    });
    assert_eq!(db.snapshot().collections(), ["bare"]);
}

#[test]
fn nobody_makes_what_is_kept_beside_a_collection_by_hand() {
    let (_, db) = fresh();
    db.create_collection("b", Schema::default()).unwrap();
    for suffix in ["sources", "entities", "extraction"] {
        let name = format!("main:{suffix}");
        assert_eq!(db.create_collection(&name, Schema::default()).unwrap_err().code(), ErrorCode::InvalidArgument);
        let mut batch = WriteBatch::new();
        batch.rename_collection("b", &name);
        assert_eq!(db.commit(batch).unwrap_err().code(), ErrorCode::InvalidArgument);
        let mut batch = WriteBatch::new();
        batch.swap_collections("b", &name);
        assert_eq!(db.commit(batch).unwrap_err().code(), ErrorCode::InvalidArgument);
    }
    for free in ["main:source", "sources", "a:b"] {
        db.create_collection(free, Schema::default()).unwrap();
    }
}

#[test]
fn a_name_too_long_for_what_is_kept_beside_it_is_refused_before_anything_is_written() {
    let (_, db) = fresh();
    let long = "n".repeat(1020);
    db.create_collection(&long, Schema::default()).unwrap();
    let mut batch = WriteBatch::new();
    batch.configure_source(&long, "s", chunks(3)).unwrap();
    assert_eq!(db.commit(batch).unwrap_err().code(), ErrorCode::LimitExceeded);
    configure(&db, "main", "s", 3);
    let mut batch = WriteBatch::new();
    batch.rename_collection("main", "m".repeat(1020));
    assert_eq!(db.commit(batch).unwrap_err().code(), ErrorCode::LimitExceeded);
    assert_eq!(configured(&db, "main"), [("s".to_string(), 3)]);
}

/// A retriever that is not Triune's.
struct Own;

impl Retriever for Own {
    fn name(&self) -> &str {
        "own"
    }
    fn search(&self, _: &Request<'_>) -> Retrieved {
        Retrieved::default()
    }
}

#[test]
fn a_retriever_is_known_when_it_is_configured() {
    let mut batch = WriteBatch::new();
    for name in ["classic", "Default", "HYBRID", "graphRAG"] {
        batch.configure_source("main", "s", RetrievalConfig { retriever: name.into(), ..Default::default() }).unwrap();
    }
    let own = RetrievalConfig { retriever: "Own".into(), ..Default::default() };
    let refused = batch.configure_source("main", "s", &own).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidArgument);
    assert!(refused.to_string().contains("known: classic, default, graphrag, hybrid"), "{refused}");
    let mut registry = Registry::default();
    registry.register("own", Arc::new(Own));
    batch.configure_source_with(&registry, "main", "s", &own).unwrap();
    let wrong = RetrievalConfig { chunks: 0, score_threshold: Some(f64::INFINITY), ..Default::default() };
    assert_eq!(batch.configure_source("main", "s", wrong).unwrap_err().code(), ErrorCode::InvalidArgument);
    assert_eq!(batch.configure_source("main", "", chunks(3)).unwrap_err().code(), ErrorCode::InvalidArgument);
    let (_, db) = fresh();
    assert_eq!(db.commit(batch).unwrap().outcomes.len(), 5, "what was refused is not in the batch");
}

#[test]
fn what_another_version_stored_is_read_field_by_field() {
    let (_, db) = fresh();
    configure(&db, "main", "s", 3);
    let foreign = json!({"retrieval": {"chunks": 0, "retriever": "hybrid", "new": 1}, "later": true}).to_string();
    db.put("main:sources", vec![Document::new("s").metadata(Metadata::from_json(foreign).unwrap()), Document::new("t")]).unwrap();
    let configs = db.snapshot().source_configs("main").unwrap();
    assert_eq!(configs["s"].retrieval, RetrievalConfig { retriever: "hybrid".into(), ..Default::default() });
    assert_eq!(configs["t"], SourceConfig::default());
}

#[test]
fn a_dump_carries_configurations_and_a_restore_brings_them_back() {
    let (_, db) = fresh();
    configure(&db, "main", "s", 6);
    let mut dump = Vec::new();
    maintenance::dump(&db.snapshot(), None, &mut dump).unwrap();
    let target = SimDirectory::new();
    maintenance::restore_into(Arc::new(target.clone()), Options::default(), dump.as_slice()).unwrap();
    assert_eq!(configured(&open(&target, false), "main"), [("s".to_string(), 6)]);
}

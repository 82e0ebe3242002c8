//! What the library promises, through its public names alone, on a simulated disk: one test a promise.

mod batches;
mod collections;
mod durability;
mod health;
mod inspecting;
mod limits;
mod many;
mod merging;
mod opening;
mod patching;
mod reading;
mod searching;
mod tracing;
mod vectors;
mod watched;
mod writing;

use std::sync::Arc;
use triune::io::SimDirectory;
use triune::{Collection, Database, Document, Error, ErrorCode, Metadata, Options, Result, Schema, Search, SearchResult, WriteBatch};

/// A database that checkpoints and merges only when it is told to.
fn options() -> Options {
    Options { background: false, ..Options::default() }
}

/// A new database with the collection `main`.
fn fresh() -> (SimDirectory, Database) {
    fresh_with(Schema::default())
}

fn fresh_with(schema: Schema) -> (SimDirectory, Database) {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", schema).unwrap();
    (disk, db)
}

fn open(disk: &SimDirectory) -> Database {
    try_open(disk).unwrap()
}

fn try_open(disk: &SimDirectory) -> Result<Database> {
    Database::open_with(Arc::new(disk.clone()), options())
}

fn open_read_only(disk: &SimDirectory) -> Result<Database> {
    Database::open_read_only_with(Arc::new(disk.clone()), options())
}

fn main_of(db: &Database) -> Collection {
    db.snapshot().collection("main").unwrap()
}

fn doc(id: &str, text: &str) -> Document {
    Document::new(id).text(text)
}

/// The calls of a batch are chained; what they give is of no use in a closure.
fn done(_: &mut WriteBatch) {}

fn json(text: &str) -> Metadata {
    Metadata::from_json(text).unwrap()
}

fn put(db: &Database, documents: Vec<Document>) {
    db.put("main", documents).unwrap();
}

/// Ids in insertion order.
fn ids(collection: &Collection) -> Vec<String> {
    collection.scan().map(|item| item.unwrap().1.id.into()).collect()
}

fn metadata_of(db: &Database, id: &str) -> Option<String> {
    main_of(db).get(id).unwrap().unwrap().metadata.map(|m| m.as_str().to_string())
}

fn source_of(db: &Database, id: &str) -> Option<String> {
    main_of(db).get(id).unwrap().unwrap().source.map(String::from)
}

/// Sources with the number of their documents.
fn sources(db: &Database) -> Vec<(String, u64)> {
    main_of(db).sources().unwrap().into_iter().map(|s| (s.source, s.documents)).collect()
}

fn search(db: &Database, search: Search) -> Result<SearchResult> {
    main_of(db).search(&search)
}

fn found(db: &Database, asked: Search) -> Vec<String> {
    search(db, asked).unwrap().hits.into_iter().map(|h| h.id).collect()
}

/// Asserts that something is refused with `code`, in a message that holds every one of `parts`.
#[track_caller]
fn refused<T>(result: Result<T>, code: ErrorCode, parts: &[&str]) -> Error {
    let Err(error) = result else { panic!("accepted; {code} was expected") };
    let message = error.to_string();
    assert_eq!(error.code(), code, "{message}");
    parts.iter().for_each(|part| assert!(message.contains(part), "{message:?} does not name {part:?}"));
    error
}

/// Runs `check` on the database as it is, checkpointed, reopened and compacted.
fn at_every_stage(disk: &SimDirectory, db: Database, check: impl Fn(&Database)) {
    check(&db);
    db.checkpoint().unwrap();
    check(&db);
    db.close().unwrap();
    let db = open(disk);
    check(&db);
    db.compact().unwrap();
    check(&db);
}

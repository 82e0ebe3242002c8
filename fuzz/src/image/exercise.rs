//! Everything that can be done with a database. Errors are answers; what must not happen is a panic, a hang, or memory without bound.

use std::sync::Arc;
use triune::io::SimDirectory;
use triune::options::Thresholds;
use triune::{
    Collection, Database, Document, Effort, Entity, Filter, IoMode, Legs, Metadata, Mode, Options, Patch, Relation, Rerank, Result, Schema,
    Scorer, Search, Snapshot, WriteBatch, inspect, maintenance,
};

/// Collections, documents, sources that are looked at one by one.
const LOOKED_AT: usize = 12;

fn options(io_mode: IoMode) -> Options {
    // So low that merging and rebuilding builds graphs over what the fixtures hold.
    let thresholds = Thresholds { graph_vectors: 40, ..Thresholds::default() };
    Options { background: false, io_mode, thresholds, ..Options::default() }
}

/// Opens for reading, asks everything, and finds every byte as it was.
pub fn read_only(dir: &SimDirectory, io_mode: IoMode) {
    let before = dir.image_hash();
    if let Ok(db) = Database::open_read_only_with(Arc::new(dir.clone()), options(io_mode)) {
        ask(&db.snapshot());
        let _ = maintenance::dump(&db.snapshot(), None, std::io::sink());
        let _ = (db.refresh(), db.close());
    }
    assert_eq!(dir.image_hash(), before, "reading only writes nothing");
}

pub fn describe(dir: &SimDirectory) {
    let before = dir.image_hash();
    let described = inspect::describe_directory(dir).expect("the directory can be listed");
    for file in described.files {
        let mut keys: Vec<&String> = file.fields.iter().map(|(key, _)| key).collect();
        let all = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all, "the keys of {} are unique", file.name);
    }
    let _ = inspect::fsck_directory(dir, &inspect::FsckOptions::level(3));
    for name in dir.file_names() {
        let _ = inspect::structures_directory(dir, &name);
    }
    if let Ok(survey) = inspect::salvage::Salvage::survey(dir) {
        let _ = maintenance::write_salvaged(&survey, Arc::new(SimDirectory::new()), options(IoMode::Mmap));
    }
    assert_eq!(dir.image_hash(), before, "looking at files writes nothing");
}

/// Opens for writing, writes, merges, closes, and asks everything before and after that.
pub fn write(dir: &SimDirectory, io_mode: IoMode, compacting: bool) {
    let Ok(db) = Database::open_with(Arc::new(dir.clone()), options(io_mode)) else { return };
    let _ = change(&db);
    let _ = db.sync();
    let _ = db.checkpoint();
    let _ = (db.merge(), db.bytes_on_disk());
    if compacting {
        let _ = db.compact();
    }
    ask(&db.snapshot());
    let _ = db.close();
    if let Ok(db) = Database::open_with(Arc::new(dir.clone()), options(io_mode)) {
        ask(&db.snapshot());
    }
    if !compacting {
        let _ = maintenance::rebuild_directory(Arc::new(dir.clone()), options(io_mode), None);
    }
}

fn change(db: &Database) -> Result<()> {
    let snapshot = db.snapshot();
    for name in snapshot.collections().into_iter().take(LOOKED_AT) {
        let collection = snapshot.collection(&name)?;
        let dimension = collection.schema().dimension.unwrap_or(3) as usize;
        let document = Document::new("added")
            .text("written after the damage, by Triune")
            .metadata(Metadata::from_json(r#"{"page":7,"tags":["a"]}"#)?)
            .source("added.md")
            .vector(vec![0.25; dimension])
            .entities(vec![Entity::new("COBOL")])
            .relations(vec![Relation::new("COBOL", "Triune")]);
        let _ = db.put(&name, vec![document, Document::new("row-001").text("replaced")]);
        let ids: Vec<String> = collection.scan().take(2).filter_map(|d| Some(d.ok()?.1.id.to_string())).collect();
        let _ = ids.first().map(|id| db.patch(&name, vec![Patch::new(id.clone()).text("patched").without_vector()]));
        let _ = db.delete(&name, ids);
        let mut batch = WriteBatch::new();
        batch.delete_source(&name, "файл-0.md").delete_where(&name, Filter::parse(r#"{"page":{"$lt":12}}"#)?);
        let _ = db.commit(batch);
    }
    let _ = db.clear("l2");
    let _ = db.drop_collection("emptied");
    db.create_collection("created", Schema::default())?;
    db.put("created", vec![Document::new("a").text("row"), Document::new("b")]).map(drop)
}

fn ask(snapshot: &Snapshot) {
    for name in snapshot.collections().into_iter().take(LOOKED_AT) {
        let collection = snapshot.collection(&name).expect("it was listed");
        // Each question is asked whatever became of the one before.
        let _ = documents(&collection);
        let _ = counts(&collection);
        let _ = graph(&collection);
        let _ = searches(&collection);
    }
}

fn documents(collection: &Collection) -> Result<()> {
    let mut ids = vec!["absent".to_string(), "added".to_string()];
    let mut middle = None;
    for document in collection.scan().with_vectors(true).take(1_000) {
        let Ok((seq, document)) = document else { continue };
        if ids.len() < LOOKED_AT {
            ids.push(document.id.to_string());
            middle = Some(seq);
        }
    }
    for id in ids {
        let _ = collection.get(&id);
    }
    for filter in FILTERS {
        let filter = Filter::parse(filter)?;
        let _ = collection.scan().filtered(&filter).map(|scan| scan.take(1_000).count());
    }
    if let Some(seq) = middle {
        let _ = collection.scan_after(seq)?.take(1_000).count();
    }
    Ok(())
}

fn counts(collection: &Collection) -> Result<()> {
    let _ = (collection.count(), collection.stats(), collection.cooccurrences());
    for filter in FILTERS {
        let _ = collection.count_where(&Filter::parse(filter)?);
    }
    for source in collection.sources()?.into_iter().take(LOOKED_AT) {
        let _ = (collection.source(&source.source), collection.documents_of_source(&source.source));
    }
    Ok(())
}

fn graph(collection: &Collection) -> Result<()> {
    for name in ["COBOL", "Grace Hopper", "Triune", "absent"] {
        let _ = (collection.entity(name), collection.neighbours(name), collection.pagerank(&[(name.into(), 1.0)]));
    }
    collection.pagerank(&[]).map(drop)
}

const FILTERS: [&str; 5] = [
    r#"{"page":{"$gte":20}}"#,
    r#"{"tags":"a","nested.x":{"$exists":false}}"#,
    r#"{"$or":[{"even":true},{"file_hash":{"$in":["h0","h1"]}}]}"#,
    r#"{"$not":{"page":{"$ne":5}}}"#,
    r#"{"$text":"torn"}"#,
];

fn searches(collection: &Collection) -> Result<()> {
    let query = Some("the torn tail of row 7, straße, by Grace Hopper and COBOL".to_string());
    // A dimension is damage, too; a vector of it is not made before it is known to be small.
    let vector = collection.schema().dimension.filter(|d| *d <= 64).map(|d| vec![0.5; d as usize]);
    let base = Search { query, vector, k: 20, explain: true, ..Search::default() };
    let text = Search { mode: Mode::Text, scorer: Some(Scorer::Okapi), ..base.clone() };
    let legs = Legs { graph: true, ..Legs::default() };
    let filter = Some(Filter::parse(FILTERS[0])?);
    for search in [
        Search { scorer: Some(Scorer::Lucene), filter: Some(Filter::parse(FILTERS[1])?), ..text.clone() },
        text,
        Search { mode: Mode::Vector, filter: filter.clone(), ..base.clone() },
        Search { mode: Mode::Vector, bodies: false, ..base.clone() },
        Search { mode: Mode::Vector, k: 3, effort: Effort::Ef(12), ..base.clone() },
        Search { mode: Mode::Vector, k: 3, effort: Effort::Ef(30), filter: filter.clone(), ..base.clone() },
        Search { mode: Mode::Graph, rerank: Some(Rerank::Text), ..base.clone() },
        Search { mode: Mode::Ppr, rerank: Some(Rerank::Dense), filter, ..base.clone() },
        Search { legs, ..base },
    ] {
        let _ = collection.search(&search);
    }
    Ok(())
}

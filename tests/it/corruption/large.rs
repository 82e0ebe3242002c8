//! A sample of damage to a database as large as a small one in use: 5,000 documents in several merged segments, with deletes, replaced and
//! moved documents, metadata, sources, entities and relations. Only in a whole sweep.
//!
//! With `TRIUNE_DATA` naming a folder of collections (`*/corpus.jsonl`, each line with `id`, `title` and `text`), the documents are those; else
//! their texts are the glosses in `tests/golden`, again and again.

use super::answers::Question;
use super::fixture::{compact_copy, document, open, options};
use super::judge::{Outcome, Reference, WAYS, judge, sweep};
use super::mutation::{Change, Mutation};
use super::{conclude, kind_of, note, whole};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use triune::io::SimDirectory;
use triune::{Database, Document, ExtractorKind, IoMode, Metadata, Mode, Options, Relation, Schema, Search, WriteBatch, extract_entities};

const DOCUMENTS: usize = 5000;

/// Every line of a file of JSON.
fn lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Document `i`, of texts made of glosses: each of them many times.
fn made() -> Vec<Document> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let strings = |value: &Value| -> Vec<String> {
        let of_key = |key: &str| match &value[key] {
            Value::String(text) => vec![text.clone()],
            Value::Array(texts) => texts.iter().filter_map(|t| t.as_str().map(String::from)).collect(),
            _ => Vec::new(),
        };
        [of_key("docs"), of_key("text")].concat()
    };
    let texts: Vec<String> =
        ["okapi.jsonl", "entities.jsonl"].iter().flat_map(|name| lines(&golden.join(name))).flat_map(|v| strings(&v)).collect();
    assert!(texts.len() > 100, "{} texts", texts.len());
    (0..DOCUMENTS).map(|i| document("large", i, 8).text(texts[i * 7 % texts.len()].clone())).collect()
}

/// Real documents, evenly of all collections of a folder. What they mention is found in their texts; every third has relations from its title to that.
fn real(data: &Path) -> Vec<Document> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(data).unwrap().map(|e| e.unwrap().path()).collect();
    folders.sort();
    let mut all = Vec::new();
    for folder in folders.iter().filter(|folder| folder.join("corpus.jsonl").exists()) {
        let name = folder.file_name().unwrap().to_str().unwrap();
        all.extend(lines(&folder.join("corpus.jsonl")).into_iter().map(|line| (name.to_string(), line)));
    }
    assert!(all.len() >= DOCUMENTS, "{} documents in {}", all.len(), data.display());
    let of = |i: usize| -> Document {
        let (corpus, line) = &all[i * all.len() / DOCUMENTS];
        let (title, text) = (line["title"].as_str().unwrap(), line["text"].as_str().unwrap());
        let text = format!("{title}\n{text}");
        let mut metadata = serde_json::json!({"title": title, "page": i % 40});
        // Every fourth names its source in its metadata.
        if i % 4 == 3 {
            metadata["file_hash"] = format!("h{}", i % 8 / 4).into();
        }
        let mentioned = extract_entities(ExtractorKind::Compat, &text);
        let mut made = Document::new(format!("{corpus}/{}", line["id"].as_str().unwrap())).text(text);
        if i % 4 != 3 {
            made = made.source(corpus.clone());
        }
        made = made.metadata(Metadata::from_json(metadata.to_string()).unwrap());
        made.vector = document("large", i, 8).vector;
        let others = mentioned.iter().map(|(name, _)| name.as_str()).filter(|name| *name != title && !title.is_empty());
        let relations: Vec<Relation> = others.take(4).map(|name| Relation::new(title, name).kind("mentions")).collect();
        if i % 3 == 1 && !relations.is_empty() { made.relations(relations) } else { made }
    };
    (0..DOCUMENTS).map(of).collect()
}

fn large() -> SimDirectory {
    let documents = std::env::var_os("TRIUNE_DATA").map_or_else(made, |data| real(Path::new(&data)));
    let dir = SimDirectory::new();
    let fan_in = Options { merge_fan_in: 4, ..options(IoMode::Mmap) };
    let db = Database::create_with(Arc::new(dir.clone()), fan_in).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    for round in 0..10 {
        let from = round * DOCUMENTS / 10;
        let mut batch = WriteBatch::new();
        batch.put("main", documents[from..from + DOCUMENTS / 10].to_vec());
        if round > 2 {
            let id = |i: usize| documents[i].id.clone();
            batch.delete("main", (0..60).map(|i| id((round * 37 + i * 29) % from)).collect());
            let again = |i: usize| Document { id: id(i), ..document("large", i, 8).text("replaced by a torn tail") };
            batch.put("main", (0..9).map(|i| again((round * 11 + i * 53) % from)).collect());
        }
        db.commit(batch).unwrap();
        db.checkpoint().unwrap();
        if round % 4 == 3 {
            db.merge().unwrap();
        }
    }
    // The next process folds nothing at its close, since it has flushed nothing.
    drop(db);
    open(&dir).close().unwrap();
    let image = compact_copy(&dir);
    let stats = open(&image.snapshot()).snapshot().collection("main").unwrap().stats().unwrap();
    assert!(stats.documents > 4000 && stats.segments > 1 && stats.relations > 500, "{stats:?}");
    assert!(image.file_names().iter().any(|name| name.ends_with(".tombstones")), "deletes after the last merge");
    note(&format!("5,000 documents, {}: {stats:?}", if documents[0].id.starts_with("large") { "made" } else { "real" }));
    image
}

/// The questions of the small database, but few of those that name one document, and some in the words of the documents.
fn reference(image: &SimDirectory) -> Reference {
    let mut reference = Reference::of(image);
    reference.questions.extend(in_their_words(image));
    let mut gets = 0;
    let keep: Vec<bool> = reference
        .questions
        .iter()
        .map(|q| {
            gets += usize::from(matches!(q, Question::Get(..)));
            !matches!(q, Question::Get(..)) || gets % 250 == 0
        })
        .collect();
    let mut kept = keep.iter();
    reference.questions.retain(|_| *kept.next().unwrap());
    let reference = reference.asked_of(image);
    assert!(reference.answers.iter().all(|answer| answer.is_ok()), "a sound database answers everything");
    reference
}

/// The beginning of some documents as a query, and what stands there as an entity.
fn in_their_words(image: &SimDirectory) -> Vec<Question> {
    let db = open(&image.snapshot());
    let documents: Vec<_> = db.snapshot().collection("main").unwrap().scan().step_by(617).map(|d| d.unwrap().1).collect();
    let mut all = Vec::new();
    for document in documents {
        let query = document.text.split_whitespace().take(9).collect::<Vec<_>>().join(" ");
        for mode in [Mode::Text, Mode::Graph] {
            all.push(Question::Search("main".into(), Box::new(Search { query: Some(query.clone()), mode, k: 20, ..Search::default() })));
        }
        let mentioned = extract_entities(ExtractorKind::Compat, &document.text);
        all.extend(mentioned.first().map(|(name, _)| Question::Entity("main".into(), name.clone())));
    }
    all
}

/// Damage of every kind, evenly spread over a file.
fn spread(image: &SimDirectory, file: &str) -> Vec<Mutation> {
    let len = image.read_file(file).unwrap().len();
    let name = || file.to_string();
    let at = |i: usize, of: usize| (len.saturating_sub(1)) * i / of;
    let blocks = len.div_ceil(4096);
    let mut all: Vec<Mutation> =
        (0..240).map(|i| Mutation::Byte { file: name(), at: at(i, 239), change: Change::ALL[i % Change::ALL.len()] }).collect();
    all.retain(|_| len > 0);
    all.extend((0..24).map(|i| Mutation::Truncate { file: name(), len: at(i, 23) }));
    for i in 0..blocks.min(24) {
        let block = (blocks - 1) * i / 23;
        all.push(Mutation::ZeroBlock { file: name(), block });
        all.push(Mutation::RepeatBlock { file: name(), block });
        all.push(Mutation::SwapBlocks { file: name(), a: block, b: (block + blocks / 2) % blocks });
    }
    all.push(Mutation::Delete { file: name() });
    all
}

#[test]
fn damage_to_five_thousand_documents_is_located_or_harmless() {
    if !whole() {
        return;
    }
    let image = large();
    let reference = reference(&image);
    let mutations: Vec<Mutation> = image.file_names().iter().flat_map(|file| spread(&image, file)).collect();
    let report = sweep(&mutations, |index, m: &Mutation| {
        let Some(damaged) = m.apply(&image) else { return Ok(Vec::new()) };
        let way = WAYS[index % WAYS.len()];
        let outcome: Outcome = judge(&damaged, way, &reference, m, &image)?;
        Ok(vec![(format!("{}, {}, {:?}", kind_of(m), m.kind(), way.0), outcome)])
    });
    conclude("5,000 documents", &report);
}

//! A sample of damage to a database as large as a small one in use: 5,000 documents in several merged segments, with deletes, replaced and
//! moved documents, metadata, sources, entities and relations. Only in a whole sweep.
//!
//! With `TRIUNE_DATA` naming a folder of collections (`*/corpus.jsonl`, each line with a `title` and a `text`), the texts come from there; else
//! they are made of the glosses in `tests/golden`.

use super::fixture::{compact_copy, document, open, options};
use super::judge::{Outcome, Reference, WAYS, judge, sweep};
use super::mutation::{Change, Mutation};
use super::{conclude, kind_of, whole};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use triune::io::SimDirectory;
use triune::{Database, Document, IoMode, Options, Schema, WriteBatch};

const DOCUMENTS: usize = 5000;

/// The strings under these keys of every line of a file.
fn strings(path: &Path, keys: &[&str]) -> Vec<String> {
    let lines = std::fs::read_to_string(path).unwrap();
    let values = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let of = |value: serde_json::Value| -> Vec<String> {
        let mut found = Vec::new();
        for key in keys {
            match &value[*key] {
                serde_json::Value::String(text) => found.push(text.clone()),
                serde_json::Value::Array(texts) => found.extend(texts.iter().filter_map(|t| t.as_str().map(String::from))),
                _ => {}
            }
        }
        found
    };
    values.flat_map(of).collect()
}

fn texts() -> Vec<String> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let found: Vec<String> = match std::env::var_os("TRIUNE_DATA") {
        Some(data) => {
            let mut files: Vec<PathBuf> = std::fs::read_dir(data).unwrap().map(|e| e.unwrap().path().join("corpus.jsonl")).collect();
            files.sort();
            files.iter().filter(|f| f.exists()).flat_map(|f| strings(f, &["title", "text"])).collect()
        }
        None => ["okapi.jsonl", "entities.jsonl"].iter().flat_map(|name| strings(&golden.join(name), &["docs", "text"])).collect(),
    };
    assert!(found.len() > 100, "{} texts", found.len());
    found
}

fn large() -> SimDirectory {
    let texts = texts();
    let dir = SimDirectory::new();
    let fan_in = Options { merge_fan_in: 4, ..options(IoMode::Mmap) };
    let db = Database::create_with(Arc::new(dir.clone()), fan_in).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    let made = |i: usize| -> Document { document("large", i, 8).text(texts[i * 7 % texts.len()].clone()) };
    for round in 0..10 {
        let from = round * DOCUMENTS / 10;
        let mut batch = WriteBatch::new();
        batch.put("main", (from..from + DOCUMENTS / 10).map(made).collect());
        if round > 2 {
            batch.delete("main", (0..60).map(|i| format!("large-{}", (round * 37 + i * 29) % from)).collect());
            batch.put("main", (0..9).map(|i| document("large", (round * 11 + i * 53) % from, 8).text("replaced by a torn tail")).collect());
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
    image
}

/// The questions of the small database, but few of those that name one document.
fn reference(image: &SimDirectory) -> Reference {
    let mut reference = Reference::of(image);
    let mut gets = 0;
    let keep: Vec<bool> = reference
        .questions
        .iter()
        .map(|q| {
            gets += usize::from(matches!(q, super::answers::Question::Get(..)));
            !matches!(q, super::answers::Question::Get(..)) || gets % 250 == 0
        })
        .collect();
    let mut kept = keep.iter();
    reference.questions.retain(|_| *kept.next().unwrap());
    let mut kept = keep.iter();
    reference.answers.retain(|_| *kept.next().unwrap());
    reference
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

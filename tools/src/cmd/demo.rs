//! `triune demo`: the main job on real text. Commits, answers by text, by vector and by both, deletes, restarts, and answers again.
//!
//! The passages, the questions and the vectors of both ship inside the binary (see `demo/README.md` for where they come from), so it needs
//! neither a model nor a network.

use super::search::{HitLine, ranks};
use crate::args::DemoArgs;
#[cfg(feature = "static-embedder")]
use crate::embedder::{self, Wanted};
use crate::jsonl::{Fields, Form, value};
use crate::npy::Rows;
use crate::output::{Failure, Out, Outcome, excerpt, quoted};
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use triune::{Database, Document, ErrorCode, Hit, Mode, Schema, Search};

const PASSAGES: &str = include_str!("../../../demo/passages.jsonl");
const PASSAGE_VECTORS: &[u8] = include_bytes!("../../../demo/passages.npy");
const QUESTIONS: &str = include_str!("../../../demo/questions.jsonl");
const QUESTION_VECTORS: &[u8] = include_bytes!("../../../demo/questions.npy");

const COLLECTION: &str = "main";
#[cfg(feature = "static-embedder")]
const BY_OURSELVES: &str = "static";
const QUESTIONS_SHOWN: usize = 3;
const HITS_SHOWN: usize = 3;

const BY_TEXT: (&str, Mode) = ("text", Mode::Text);
const BY_VECTOR: (&str, Mode) = ("vector", Mode::Vector);
const BY_BOTH: (&str, Mode) = ("hybrid", Mode::Hybrid);

#[derive(Serialize)]
struct Asked {
    #[serde(rename = "query")]
    text: String,
    vector: Vec<f32>,
    /// The passages that hold the answer.
    #[serde(skip)]
    gold: Vec<String>,
    #[serde(skip)]
    answer: Option<String>,
}

impl Asked {
    fn line(&self) -> String {
        let answer = self.answer.as_deref().map(|a| format!("   (answer: {a}; * marks the passages it rests on)")).unwrap_or_default();
        format!("Q: {}{answer}", self.text)
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    question: &'a str,
    mode: &'a str,
    hits: Vec<HitLine<'a>>,
}

pub(crate) fn run(args: &DemoArgs, out: &mut Out) -> Outcome<()> {
    let (passages, questions) = (passages()?, questions()?);
    #[cfg(feature = "static-embedder")]
    let same_passages: Vec<Document> = passages.clone();
    let directory = directory(args.directory.as_deref())?;
    let path = directory.join("db");
    let shown = path.display().to_string();

    let database = Database::create(&path)?;
    commit(&database, passages, &shown, out)?;
    for question in questions.iter().take(QUESTIONS_SHOWN) {
        say(out, format!("\n{}", question.line()))?;
        for mode in [BY_TEXT, BY_VECTOR, BY_BOTH] {
            answer(&database, question, mode, out)?;
        }
    }
    #[cfg(feature = "static-embedder")]
    without_a_model(&database, same_passages, &questions, out)?;
    let Some(question) = questions.first() else { return Err(broken("there is no question")) };
    let before = ask(&database, question, BY_BOTH.1)?;
    let Some(best) = before.first() else { return Err(broken("the first question has no answer")) };
    let gone = best.id.clone();
    let deleted = database.delete(COLLECTION, vec![gone.clone()])?;
    say(out, format!("\ndeleted {gone}, the best answer to the first question; asked again:\n{}", question.line()))?;
    if out.json() {
        out.object(&json!({ "deleted": deleted }))?;
    }
    let after = answer(&database, question, BY_BOTH, out)?;
    if after.iter().any(|h| h.id == gone) {
        return Err(broken("a deleted passage was found"));
    }
    database.close()?;
    let database = Database::open(&path)?;
    say(out, format!("\nclosed the database and opened it again; asked again:\n{}", question.line()))?;
    let again = answer(&database, question, BY_BOTH, out)?;
    database.close()?;
    let ranking = |hits: &[Hit]| hits.iter().map(|h| (h.id.clone(), h.score.to_bits())).collect::<Vec<_>>();
    if ranking(&again) != ranking(&after) {
        return Err(broken("the answer changed with the restart"));
    }
    say(out, "   the same answer as before the restart")?;
    let file = write_questions(&directory, &questions)?;
    farewell(&shown, &file, &gone, &again, out)
}

fn commit(database: &Database, passages: Vec<Document>, path: &str, out: &mut Out) -> Outcome<()> {
    let dimension = passages.first().and_then(|d| d.vector.as_ref()).map(|v| v.len() as u32);
    let (count, bytes) = (passages.len(), passages.iter().map(|d| d.text.len()).sum::<usize>());
    let created = database.create_collection(COLLECTION, Schema { dimension, ..Schema::default() });
    created.map_err(|e| super::in_new_database(e.into(), Path::new(path)))?;
    let commit = database.put(COLLECTION, passages)?;
    if out.json() {
        return out.object(&json!({ "committed": count, "lsn": commit.lsn.0, "database": path }));
    }
    out.line(format_args!(
        "committed {count} passages of Wikipedia ({bytes} bytes of text, a vector of {} components each)\nin one atomic commit, number {}, to {path}",
        dimension.unwrap_or(0),
        commit.lsn
    ))
}

fn ask(database: &Database, question: &Asked, mode: Mode) -> Outcome<Vec<Hit>> {
    let search =
        Search { query: Some(question.text.clone()), vector: Some(question.vector.clone()), mode, k: HITS_SHOWN, ..Search::default() };
    Ok(database.snapshot().collection(COLLECTION)?.search(&search)?.hits)
}

/// Asks, prints the answer with the ranks that led to it, and gives it back.
fn answer(database: &Database, question: &Asked, (name, mode): (&str, Mode), out: &mut Out) -> Outcome<Vec<Hit>> {
    let hits = ask(database, question, mode)?;
    show(question, name, &hits, out)?;
    Ok(hits)
}

/// The same passages in a collection whose vectors this program makes, as it does for `ingest`.
#[cfg(feature = "static-embedder")]
fn without_a_model(database: &Database, mut passages: Vec<Document>, questions: &[Asked], out: &mut Out) -> Outcome<()> {
    let Some(embedder) = Wanted::Static.for_new_collection()? else { return Ok(()) };
    let mut schema = Schema::default();
    embedder::name(&*embedder, &mut schema);
    let begin = std::time::Instant::now();
    let texts: Vec<&str> = passages.iter().map(|d| d.text.as_str()).collect();
    let vectors = embedder::of_documents(&*embedder, &texts)?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    let count = vectors.len();
    passages.iter_mut().zip(vectors).for_each(|(passage, vector)| passage.vector = vector);
    database.create_collection(BY_OURSELVES, schema)?;
    database.put(BY_OURSELVES, passages)?;
    if out.json() {
        out.object(&json!({ "embedded": count, "collection": BY_OURSELVES, "embedder": embedder.fingerprint(), "took_ms": took }))?;
    } else {
        out.line(format_args!(
            "\nNow without a model: this program made a vector of each passage by itself, in {took:.0} ms, and makes those of the questions.\nThe \
             passages with these vectors are the collection {BY_OURSELVES}."
        ))?;
    }
    let Some(question) = questions.first() else { return Ok(()) };
    say(out, question.line())?;
    for (name, mode) in [("vector", Mode::Vector), ("both", Mode::Hybrid)] {
        let vector = embedder::of_question(&*embedder, &question.text)?;
        let search = Search { query: Some(question.text.clone()), vector, mode, k: HITS_SHOWN, ..Search::default() };
        let hits = database.snapshot().collection(BY_OURSELVES)?.search(&search)?.hits;
        show(question, name, &hits, out)?;
    }
    Ok(())
}

fn show(question: &Asked, name: &str, hits: &[Hit], out: &mut Out) -> Outcome<()> {
    if out.json() {
        return out.object(&Answer { question: &question.text, mode: name, hits: hits.iter().map(HitLine).collect() });
    }
    for (i, hit) in hits.iter().enumerate() {
        let label = if i == 0 { format!("by {name}") } else { String::new() };
        let mark = if question.gold.contains(&hit.id) { '*' } else { ' ' };
        // The text begins with the title and a blank line.
        let text = hit.text.replacen("\n\n", ": ", 1);
        out.line(format_args!("   {label:9} {mark}{}. {}  score {:.4}  ({})", i + 1, hit.id, hit.score, ranks(&hit.retrievers)))?;
        out.line(format_args!("                {}", excerpt(&text, 110)))?;
    }
    if hits.is_empty() {
        out.line(format_args!("   by {name}: nothing"))?;
    }
    Ok(())
}

fn farewell(path: &str, questions: &Path, gone: &str, left: &[Hit], out: &mut Out) -> Outcome<()> {
    if out.json() {
        return out.object(&json!({ "database": path, "questions": questions.display().to_string() }));
    }
    let program = quoted(&std::env::args().next().unwrap_or_else(|| "triune".into()));
    let (db, questions) = (quoted(path), quoted(&questions.display().to_string()));
    let some = quoted(left.first().map_or(gone, |h| &h.id));
    let own = match cfg!(feature = "static-embedder") {
        true => format!("\n  {program} search {db} --collection static \"a ruler who lost the throne\""),
        false => String::new(),
    };
    out.line(format_args!(
        "\nThe database is {path}. Try next:\n\
         \x20 {program} search {db} \"who directed the film\"{own}\n\
         \x20 {program} search {db} --queries {questions} --json\n\
         \x20 {program} get {db} {some}\n\
         \x20 {program} stats {db}\n\
         \x20 {program} delete {db} --id {some}"
    ))
}

/// Text for people; with `--json` the objects say it all.
fn say(out: &mut Out, text: impl std::fmt::Display) -> Outcome<()> {
    if out.json() { Ok(()) } else { out.line(text) }
}

/// The passages as `triune load --text-field title,text --rest-to-metadata --vectors passages.npy` reads them.
fn passages() -> Outcome<Vec<Document>> {
    let form = Form::new(&["title".to_string(), "text".to_string()], true)?;
    let mut rows = Rows::from_reader(PASSAGE_VECTORS, "demo/passages.npy")?;
    let mut documents = Vec::new();
    for line in PASSAGES.lines() {
        let mut document = form.document(line)?;
        document.vector = rows.next_row()?;
        documents.push(document);
    }
    Ok(documents)
}

fn questions() -> Outcome<Vec<Asked>> {
    let mut rows = Rows::from_reader(QUESTION_VECTORS, "demo/questions.npy")?;
    let mut questions = Vec::new();
    for line in QUESTIONS.lines() {
        let fields = Fields::parse(line)?;
        let text = fields.get("text").ok_or_else(|| broken("a question has no text"))?;
        let gold = fields.get("gold").map_or(Ok(Vec::new()), |raw| value("gold", raw, "a list of ids"))?;
        let answer = fields.get("answer").map(|raw| value("answer", raw, "a string")).transpose()?;
        let vector = rows.next_row()?.ok_or_else(|| broken("a question has no vector"))?;
        questions.push(Asked { text: value("text", text, "a string")?, vector, gold, answer });
    }
    Ok(questions)
}

/// The directory given, or a new one among the temporary files.
fn directory(given: Option<&Path>) -> Outcome<PathBuf> {
    if let Some(directory) = given {
        let failed = |e| Failure::file(directory.display(), &e);
        if directory.is_file() {
            let message =
                format!("{} is a file, and a demo takes a directory; nothing was changed. Name a new or empty one", directory.display());
            return Err(Failure::invalid(message));
        }
        std::fs::create_dir_all(directory).map_err(failed)?;
        if std::fs::read_dir(directory).map_err(failed)?.next().is_some() {
            let message = format!("{} is not empty; nothing was changed. Name a new or empty directory", directory.display());
            return Err(Failure::Refused { code: ErrorCode::AlreadyExists, message });
        }
        return Ok(directory.to_path_buf());
    }
    for attempt in 0..ATTEMPTS_MAX {
        let directory = temporary(attempt);
        match std::fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Failure::file(directory.display(), &e)),
        }
    }
    Err(Failure::Refused {
        code: ErrorCode::AlreadyExists,
        message: format!("{} is full of demos; name a directory", std::env::temp_dir().display()),
    })
}

const ATTEMPTS_MAX: u32 = 10_000;

fn temporary(attempt: u32) -> PathBuf {
    std::env::temp_dir().join(format!("triune-demo-{}-{attempt}", std::process::id()))
}

/// The directory among the temporary files that this process has made, if it has.
pub(super) fn begun() -> Option<PathBuf> {
    (0..ATTEMPTS_MAX).map(temporary).take_while(|directory| directory.exists()).last()
}

/// Leaves the questions with their vectors beside the database, so that hybrid search can be tried by hand.
fn write_questions(directory: &Path, questions: &[Asked]) -> Outcome<PathBuf> {
    let mut lines = Vec::new();
    for question in questions {
        serde_json::to_writer(&mut lines, question).expect("a question is JSON, and memory takes it");
        lines.push(b'\n');
    }
    let file = directory.join("questions.jsonl");
    std::fs::write(&file, lines).map_err(|e| Failure::file(file.display(), &e))?;
    Ok(file)
}

/// What the demo shows did not hold.
fn broken(what: &str) -> Failure {
    Failure::Refused { code: ErrorCode::Corrupt, message: format!("the demo did not go as promised: {what}") }
}

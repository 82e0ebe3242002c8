//! `triune eval`: how well judged questions are answered, by each retriever and by several together.
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | which modes are asked, of which database; what is printed |
//! | `judgements.rs` | questions and judgements from files |
//! | `metrics.rs` | nDCG, recall and reciprocal rank, pure |

mod judgements;
mod metrics;

use super::asker::Asker;
use super::cut_short::Half;
use super::load;
use super::search::Question;
use crate::args::{EvalArgs, ModeName, Target};
use crate::embedder::{self, Wanted};
use crate::jsonl::{Form, Lines};
use crate::npy;
use crate::output::{Counted, Failure, Out, Outcome, note};
use judgements::Judged;
use metrics::{Worth, mean, worth};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use triune::{Collection, Database, Document, ExtractorKind, Fusion, LegWeights, Schema, Search};

/// Documents a commit of `--corpus`.
const BATCH: usize = 1000;

pub(crate) fn run(args: &EvalArgs, out: &mut Out) -> Outcome<()> {
    let wanted = Wanted::parse(args.embedder.as_deref())?;
    let weights = super::create::leg_weights(args.leg_weights.as_deref())?;
    let (questions, unjudged) = judgements::read(&args.queries, &args.qrels, args.query_vectors.as_deref())?;
    // It is removed when it goes out of scope, also after an error and by Ctrl-C.
    let (mut temporary, mut half) = (None, None);
    let database = match (&args.corpus, &args.database) {
        (Some(corpus), _) => {
            let directory = tempfile::tempdir().map_err(|e| Failure::file("a temporary directory", &e))?;
            half = Some(Half::directory(directory.path()));
            let database = of_corpus(corpus, args.vectors.as_deref(), &wanted, &directory.path().join("db"))?;
            temporary = Some(directory);
            database
        }
        (None, Some(path)) => super::open_for_reading(path)?,
        (None, None) => return Err(Failure::invalid("nothing to ask: give a database or --corpus")),
    };
    let snapshot = database.snapshot();
    let target = Target { database: args.database.clone().unwrap_or_default(), collection: args.collection.clone() };
    let collection = super::collection(&snapshot, &target)?;
    // The vectors of `--vectors` are of no embedder that this program knows, whatever it would make of the questions.
    let mut asker = Asker::new(if args.vectors.is_some() { Wanted::Nothing } else { wanted }, &collection);
    let vectors = args.query_vectors.is_some() || asker.embedder()?.is_some();
    note(format_args!("{} with a relevant document, {unjudged} without", Counted(questions.len() as u64, "question")));
    say_what_is_missing(&collection, &questions)?;
    if !vectors && args.modes.is_empty() {
        note("the questions have no vectors, so mode text alone is measured: --query-vectors gives them");
    }
    for mode in modes(args, vectors) {
        let measured = measure(&collection, &mut asker, &questions, mode, args.k as usize, weights)?;
        measured.say(mode, args.k, out)?;
        out.flush()?;
    }
    drop((snapshot, collection));
    database.close()?;
    drop((temporary, half));
    Ok(())
}

/// Relevant documents that are not there can't be found: figures of a database that another one's judgements are of mean nothing.
fn say_what_is_missing(collection: &Collection, questions: &[Judged]) -> Outcome<()> {
    let relevant: BTreeSet<&String> = questions.iter().flat_map(|question| question.grades.keys()).collect();
    let mut there = 0;
    for id in &relevant {
        there += usize::from(collection.get(id)?.is_some());
    }
    match relevant.len() - there {
        0 => {}
        missing if missing == relevant.len() => {
            note(format_args!("none of the relevant documents is in {}: is it the database of these judgements?", collection.name()));
        }
        missing => note(format_args!(
            "{missing} of the {} are not in {}, so no search finds them",
            Counted(relevant.len() as u64, "relevant document"),
            collection.name()
        )),
    }
    Ok(())
}

fn modes(args: &EvalArgs, vectors: bool) -> Vec<ModeName> {
    match (args.modes.is_empty(), vectors) {
        (false, _) => args.modes.clone(),
        (true, true) => vec![ModeName::Text, ModeName::Vector, ModeName::Hybrid],
        (true, false) => vec![ModeName::Text],
    }
}

/// A database of the lines of a file, whose text is title and text.
fn of_corpus(file: &str, vectors: Option<&Path>, wanted: &Wanted, path: &Path) -> Outcome<Database> {
    let mut schema = Schema { extractor: ExtractorKind::Compat, ..Schema::default() };
    let embedder = if vectors.is_some() { None } else { wanted.for_new_collection()? };
    if let Some(embedder) = &embedder {
        embedder::name(&**embedder, &mut schema);
    }
    let form = Form::new(&["title".to_string(), "text".to_string()], true)?;
    let mut rows = vectors.map(npy::open).transpose()?;
    let mut lines = Lines::open(file)?;
    let database = Database::create(path)?;
    database.create_collection("main", schema)?;
    let (mut batch, mut count) = (Vec::new(), 0u64);
    let put = |mut documents: Vec<Document>| -> Outcome<()> {
        if let Some(embedder) = &embedder {
            let texts: Vec<&str> = documents.iter().map(|d| d.text.as_str()).collect();
            let vectors = embedder::of_documents(&**embedder, &texts)?;
            documents.iter_mut().zip(vectors).for_each(|(document, vector)| document.vector = vector);
        }
        database.put("main", documents)?;
        Ok(())
    };
    loop {
        let place = |f: Failure, lines: &Lines| f.reworded(|m| format!("{}, line {}: {m}", lines.name(), lines.number()));
        let read = match lines.next_line() {
            Ok(None) => break,
            Ok(Some(line)) => form.document(line),
            Err(failure) => Err(failure),
        };
        let mut document = read.map_err(|f| place(f, &lines))?;
        load::give_row(&mut document, rows.as_mut()).map_err(|f| place(f, &lines))?;
        batch.push(document);
        count += 1;
        if batch.len() == BATCH {
            put(std::mem::take(&mut batch))?;
        }
    }
    load::all_rows_given(rows.as_ref(), count)?;
    put(batch)?;
    Ok(database)
}

/// What the questions came to in one mode.
struct Measured {
    worth: Worth,
    questions: usize,
    /// The latency of each question, in order of size.
    took: Vec<Duration>,
}

fn measure(
    collection: &Collection,
    asker: &mut Asker,
    questions: &[Judged],
    mode: ModeName,
    k: usize,
    weights: Option<LegWeights>,
) -> Outcome<Measured> {
    let weight = |of: fn(LegWeights) -> u32| weights.map(|w| f64::from(of(w)) / 1000.0);
    let fusion = Fusion {
        vector_weight: weight(|w| w.vector),
        text_weight: weight(|w| w.text),
        graph_weight: weight(|w| w.graph),
        ..Fusion::default()
    };
    let (mut worths, mut took) = (Vec::with_capacity(questions.len()), Vec::with_capacity(questions.len()));
    for judged in questions {
        let begin = Instant::now();
        let mut question = Question::plain(judged.text.clone(), judged.vector.clone(), mode, k);
        asker.complete(&mut question)?;
        let (search, _) = question.search()?;
        let answer = collection.search(&Search { bodies: false, fusion, ..search })?;
        took.push(begin.elapsed());
        let ids: Vec<&str> = answer.hits.iter().map(|h| h.id.as_str()).collect();
        worths.push(worth(&ids, &judged.grades, k));
    }
    took.sort_unstable();
    Ok(Measured { worth: mean(&worths), questions: questions.len(), took })
}

impl Measured {
    /// The latency that this many of a hundred questions do not exceed, in milliseconds.
    fn percentile(&self, hundredths: usize) -> f64 {
        let at = (self.took.len() * hundredths).div_ceil(100).saturating_sub(1);
        self.took.get(at).map_or(0.0, |t| t.as_secs_f64() * 1e3)
    }

    fn say(&self, mode: ModeName, k: u32, out: &mut Out) -> Outcome<()> {
        let Worth { ndcg, recall, reciprocal_rank } = self.worth;
        let (name, p50, p99) = (mode.name(), self.percentile(50), self.percentile(99));
        if out.json() {
            return out.object(&json!({
                "mode": name, "k": k, "questions": self.questions, "ndcg": ndcg, "recall": recall, "mrr": reciprocal_rank,
                "p50_ms": p50, "p99_ms": p99,
            }));
        }
        out.line(format_args!(
            "{name:8} nDCG@{k} {ndcg:.4}  recall@{k} {recall:.4}  MRR@{k} {reciprocal_rank:.4}  p50 {p50:.3} ms  p99 {p99:.3} ms"
        ))
    }
}

//! `triune search --queries`: many questions, one process, one snapshot; one line of JSON out for each line in, in the order asked.
//!
//! A bad line is answered in its place and ends nothing; the first one decides the exit status.

use super::asker::Asker;
use super::explain::{Given, without_entities};
use super::search::Question;
use crate::args::SearchArgs;
use crate::embedder::Wanted;
use crate::jsonl::{Fields, Lines, source_name, value};
use crate::npy;
use crate::output::{Counted, ErrorObject, Failure, Out, Outcome, note};
use clap::ValueEnum;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use triune::{Collection, Effort, ErrorCode, Filter, IoMode, Options, Search, SearchResult};

pub(crate) fn run(args: &SearchArgs, flags: &Question, wanted: Wanted, file: &str, out: &mut Out) -> Outcome<()> {
    let mut lines = Lines::open(file)?;
    let mut vectors = args.query_vectors.as_deref().map(npy::open).transpose()?;
    let io_mode = if args.pinned { IoMode::Pinned } else { IoMode::default() };
    let database = super::open_for_reading_with(&args.target.database, Options { io_mode, ..Options::default() })?;
    let snapshot = database.snapshot();
    let collection = super::collection(&snapshot, &args.target)?;
    let (mut tally, mut asker) = (Tally::default(), Asker::new(wanted, &collection));
    loop {
        let mut id: Option<String> = None;
        let mut unused = Vec::new();
        let asked = match lines.next_line() {
            Ok(None) => break,
            Ok(Some(line)) => Fields::parse(line).and_then(|fields| {
                id = fields.get("id").map(|raw| value("id", raw, "a string")).transpose()?;
                let (q, own) = question(flags, &fields)?;
                unused = given(&fields, &q).ignored();
                tally.own_modes |= fields.get("mode").is_some();
                Ok((q, own))
            }),
            Err(failure) => Err(failure),
        };
        // The row is taken for a bad line too, so that the next line meets its own.
        let row = vectors.as_mut().map(npy::Rows::next_row).transpose()?;
        let answer = asked.and_then(|(q, own)| with_row(q, own, row)).and_then(|mut q| {
            asker.complete(&mut q)?;
            ask(&collection, q, args.explain)
        });
        match answer {
            Ok((result, remark)) => {
                tally.took.push(result.took);
                unused.into_iter().chain(remark).for_each(|remark| *tally.remarks.entry(remark).or_default() += 1);
                if args.explain {
                    result.notes.iter().for_each(|n| note(format_args!("line {}: {n}", lines.number())));
                }
                out.object(&Answer::of(id.as_deref(), &result))?;
            }
            Err(stopped @ Failure::Refused { code: ErrorCode::Interrupted, .. }) => return Err(stopped),
            Err(Failure::Refused { code, message }) => {
                out.object(&Refusal { id: id.as_deref(), error: ErrorObject { code: code.as_str(), message: &message } })?;
                tally.refuse(lines.number(), code, message);
            }
            Err(closed) => return Err(closed),
        }
        if file == "-" {
            // Whoever writes our stdin may wait for each answer.
            out.flush()?;
        }
    }
    if let Some(rows) = &vectors
        && rows.rows() > tally.lines()
    {
        let (rows, lines) = (Counted(rows.rows(), "row"), Counted(tally.lines(), "line"));
        return Err(Failure::invalid(format!("--query-vectors has {rows} and {} has {lines}; row i belongs to line i", source_name(file))));
    }
    out.flush()?;
    if !tally.own_modes {
        // Else a flag may be for the lines of another mode.
        Given::by_flags(args).ignored().into_iter().for_each(note);
    }
    if args.pinned {
        note(format_args!("{} of links and codes are pinned", Counted(database.health()?.pinned_graph_bytes, "byte")));
    }
    tally.summary(lines.name())
}

/// What a line asks, with the flags for the keys it lacks; and whether it has a vector of its own.
fn question(flags: &Question, fields: &Fields<'_>) -> Outcome<(Question, bool)> {
    let mut q = flags.clone();
    let exact = fields.get("exact").is_some_and(|raw| raw.get() == "true");
    for (key, raw) in fields.0.iter().filter(|(_, raw)| raw.get() != "null") {
        match &**key {
            // What the right answer is, is no part of the question: one file serves `eval`, people and this.
            "id" | "gold" | "answer" => {}
            "text" if fields.get("query").is_some() => {
                return Err(Failure::invalid("the line has a query and a text, which are the same; give one of them"));
            }
            "ef" if fields.get("recall").is_some_and(|raw| raw.get() != "null") => {
                return Err(Failure::invalid("the line has ef and recall, which both say how hard to try; give one of them"));
            }
            "query" | "text" => q.query = Some(value(key, raw, "a string")?),
            "vector" => q.vector = Some(value(key, raw, "an array of numbers")?),
            "mode" => q.mode = named(key, &value::<String>(key, raw, "a string")?)?,
            "scorer" => q.scorer = Some(named(key, &value::<String>(key, raw, "a string")?)?),
            "k" => q.k = value(key, raw, "a whole number, 0 or more")?,
            "exact" if value(key, raw, "true or false")? => q.effort = Effort::Exact,
            "exact" if q.effort == Effort::Exact => q.effort = Effort::DEFAULT,
            "exact" => {}
            // What compares every vector finds all; nothing widens that.
            "ef" | "recall" if exact => {}
            "ef" => q.effort = Effort::Ef(value::<std::num::NonZeroUsize>(key, raw, "a whole number, 1 or more")?.get()),
            "recall" => q.effort = Effort::Recall(value(key, raw, "a number from 0 to 1")?),
            "filter" => q.filter = Some(Filter::parse(raw.get())?),
            "hops" => q.hops = value(key, raw, "1 or 2")?,
            "rerank" => q.rerank = Some(named(key, &value::<String>(key, raw, "a string")?)?),
            _ => {
                return Err(Failure::invalid(format!(
                    "unknown key {key:?}; a line has id, query (or text), vector, mode, k, filter, scorer, hops, exact, ef, recall and rerank"
                )));
            }
        }
    }
    Ok((q, fields.get("vector").is_some()))
}

/// What the keys of a line give to the question that it comes to.
fn given<'a>(fields: &Fields<'_>, q: &'a Question) -> Given<'a> {
    let has = |key: &str| fields.get(key).is_some();
    Given {
        mode: q.mode,
        legs: &q.legs,
        legs_given: false,
        rerank: q.rerank,
        rerank_given: has("rerank"),
        query: has("query") || has("text"),
        vector: has("vector"),
        hops: has("hops"),
        scorer: has("scorer"),
        effort: has("ef") || has("recall") || fields.get("exact").is_some_and(|raw| raw.get() == "true"),
    }
}

fn named<T: ValueEnum>(key: &str, name: &str) -> Outcome<T> {
    T::from_str(name, false).map_err(|_| {
        let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value).filter(|v| !v.is_hide_set());
        let known: Vec<String> = values.map(|v| v.get_name().to_string()).collect();
        Failure::invalid(format!("the key {key:?} holds {name:?}; known: {}", known.join(", ")))
    })
}

/// Adds the line's row of `--query-vectors`: `None` without the flag, `Some(None)` when the rows have run out.
fn with_row(mut q: Question, own: bool, row: Option<Option<Vec<f32>>>) -> Outcome<Question> {
    match row {
        None => Ok(q),
        Some(_) if own => Err(Failure::invalid("the line has a key \"vector\" and --query-vectors has a row for it; give one of them")),
        Some(None) => Err(Failure::invalid("--query-vectors has no row for this line")),
        Some(row) => {
            q.vector = row;
            Ok(q)
        }
    }
}

fn ask(collection: &Collection, q: Question, explain: bool) -> Outcome<(SearchResult, Option<&'static str>)> {
    let (search, remark) = q.search()?;
    let remark = remark.or_else(|| without_entities(collection, &search));
    // The answer is ids and scores, so no text is fetched for it.
    Ok((collection.search(&Search { bodies: false, explain, ..search })?, remark))
}

#[derive(Serialize)]
struct Answer<'a> {
    /// As the line has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    hits: Vec<IdScore<'a>>,
    retrievers: &'a [&'static str],
    took_us: u64,
}

#[derive(Serialize)]
struct Refusal<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    error: ErrorObject<'a>,
}

#[derive(Serialize)]
struct IdScore<'a> {
    id: &'a str,
    score: f64,
}

impl Answer<'_> {
    fn of<'a>(id: Option<&'a str>, result: &'a SearchResult) -> Answer<'a> {
        let hits = result.hits.iter().map(|h| IdScore { id: &h.id, score: h.score }).collect();
        Answer { id, hits, retrievers: &result.retrievers, took_us: u64::try_from(result.took.as_micros()).unwrap_or(u64::MAX) }
    }
}

/// What happened so far.
#[derive(Default)]
struct Tally {
    took: Vec<Duration>,
    refused: u64,
    first: Option<(u64, ErrorCode, String)>,
    /// So many lines gave rise to each.
    remarks: BTreeMap<&'static str, u64>,
    /// Whether some line names its mode.
    own_modes: bool,
}

impl Tally {
    fn refuse(&mut self, line: u64, code: ErrorCode, message: String) {
        self.refused += 1;
        self.first.get_or_insert((line, code, message));
    }

    fn lines(&self) -> u64 {
        self.took.len() as u64 + self.refused
    }

    fn summary(mut self, file: &str) -> Outcome<()> {
        for (remark, lines) in &self.remarks {
            note(format_args!("{}: {remark}", Counted(*lines, "line")));
        }
        let total: Duration = self.took.iter().sum();
        self.took.sort_unstable();
        let percentile = |p: usize| self.took.get((self.took.len() * p).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default();
        if !self.took.is_empty() {
            note(format_args!(
                "{} in {:.3} s: {:.0} queries/s, p50 {:.3} ms, p99 {:.3} ms",
                if self.took.len() == 1 { "1 query".to_string() } else { format!("{} queries", self.took.len()) },
                total.as_secs_f64(),
                self.took.len() as f64 / total.as_secs_f64().max(1e-9),
                percentile(50).as_secs_f64() * 1e3,
                percentile(99).as_secs_f64() * 1e3
            ));
        }
        match self.first {
            None => Ok(()),
            Some((line, code, message)) => {
                let (refused, all) = (self.refused, Counted(self.refused + self.took.len() as u64, "line"));
                let message = format!("{file}, line {line}: {message}. {refused} of {all} got an error, the others their answer");
                Err(Failure::Refused { code, message })
            }
        }
    }
}

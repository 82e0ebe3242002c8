//! `triune search`: one question, or with `--queries` many (see `queries.rs`).

use super::asker::Asker;
use super::explain::{self, Given};
use super::why_not;
use crate::args::{Args, Leg, ModeName, RerankName, ScorerName, SearchArgs};
use crate::embedder::Wanted;
use crate::jsonl::Verbatim;
use crate::npy;
use crate::output::{Counted, Failure, Name, Out, Outcome, excerpt, note, quoted};
use clap::CommandFactory;
use clap::error::ErrorKind;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::path::Path;
use triune::{Collection, Effort, Filter, Hit, Legs, Mode, RetrieverRank, Search};

/// Characters of a hit's text that people see.
const EXCERPT_CHARS: usize = 200;

pub(crate) fn run(args: &SearchArgs, out: &mut Out) -> Outcome<()> {
    refuse_bare_words(args);
    let mut question = Question::from_flags(args)?;
    let wanted = Wanted::parse(args.embedder.as_deref())?;
    if let Some(file) = &args.queries {
        return super::queries::run(args, &question, wanted, file, out);
    }
    let database = super::open_for_reading(&args.target.database)?;
    let snapshot = database.snapshot();
    let collection = super::collection(&snapshot, &args.target)?;
    Asker::new(wanted, &collection).complete(&mut question)?;
    let (search, remark) = question.search()?;
    let search = Search { explain: args.explain, ..search };
    if let Some(id) = &args.why_not {
        remark.into_iter().for_each(note);
        return why_not::run(&collection, &search, id, out);
    }
    let result = collection.search(&search)?;
    Given::by_flags(args).ignored().into_iter().chain(remark).for_each(note);
    if args.explain {
        explain::answer(&collection, &search, &result)?.into_iter().chain(result.notes.iter().cloned()).for_each(note);
    } else if let Some(remark) = explain::without_entities(&collection, &search) {
        note(remark);
    }
    for hit in &result.hits {
        match out.json() {
            true => out.object(&HitLine(hit))?,
            false => print(hit, out)?,
        }
    }
    if result.hits.is_empty() && !out.json() {
        note(nothing_found(&collection, &search)?);
    }
    Ok(())
}

/// A query of several words that nobody quoted came as several arguments.
fn refuse_bare_words(args: &SearchArgs) {
    let (Some(query), false) = (&args.query, args.words.is_empty()) else { return };
    let whole = format!("{query} {}", args.words.join(" "));
    let message = format!(
        "unexpected argument {}: a query of several words is one argument in quotes, so `triune search {} {}`",
        quoted(&args.words[0]),
        quoted(&args.target.database.display().to_string()),
        quoted(&whole)
    );
    Args::command().override_usage("triune search [OPTIONS] <DB> [QUERY]").error(ErrorKind::UnknownArgument, message).exit();
}

/// Why there is no hit, as far as the filter is to blame.
fn nothing_found(collection: &Collection, search: &Search) -> Outcome<String> {
    // With --explain it stands above already.
    let Some(filter) = search.filter.as_ref().filter(|_| !search.explain) else { return Ok("no hits".into()) };
    let (admitted, all) = (collection.count_where(filter)?, collection.count());
    Ok(format!("no hits; the filter matches {admitted} of {}", Counted(all, "document")))
}

fn print(hit: &Hit, out: &mut Out) -> Outcome<()> {
    let source = hit.source.as_deref().map(|s| format!("  source {}", Name(s))).unwrap_or_default();
    out.line(format_args!("{:>3}. {}  score {:.4}{source}  ({})", hit.rank + 1, Name(&hit.id), hit.score, ranks(&hit.retrievers)))?;
    match excerpt(&hit.text, EXCERPT_CHARS) {
        text if text.is_empty() => Ok(()),
        text => out.line(format_args!("     {text}")),
    }
}

/// Which retrievers found a hit: `text #1 (4.2101), vector #3 (0.7120)`, counted from 1 for people.
pub(crate) fn ranks(retrievers: &[RetrieverRank]) -> String {
    let each: Vec<String> = retrievers.iter().map(|r| format!("{} #{} ({:.4})", r.name, r.rank + 1, r.score)).collect();
    each.join(", ")
}

fn effort(args: &SearchArgs) -> Effort {
    match (args.exact, args.ef, args.recall) {
        (true, ..) => Effort::Exact,
        (_, Some(ef), _) => Effort::Ef(usize::try_from(ef).unwrap_or(usize::MAX)),
        (_, _, Some(recall)) => Effort::Recall(recall),
        _ => Effort::DEFAULT,
    }
}

/// What is asked, before it is known whether it makes sense.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) query: Option<String>,
    pub(crate) vector: Option<Vec<f32>>,
    pub(crate) mode: ModeName,
    pub(crate) k: usize,
    pub(crate) scorer: Option<ScorerName>,
    pub(crate) effort: Effort,
    pub(crate) filter: Option<Filter>,
    pub(crate) hops: u32,
    pub(crate) rerank: Option<RerankName>,
    pub(super) legs: Vec<Leg>,
}

impl Question {
    fn from_flags(args: &SearchArgs) -> Outcome<Question> {
        Ok(Question {
            query: args.query.clone(),
            vector: args.vector.as_deref().map(vector).transpose()?,
            mode: args.mode,
            k: args.k,
            scorer: args.scorer,
            effort: effort(args),
            filter: super::which(&args.which)?,
            hops: args.hops.unwrap_or(2),
            rerank: args.rerank,
            legs: if args.legs.is_empty() { vec![Leg::Vector, Leg::Text] } else { args.legs.clone() },
        })
    }

    /// The library's form of the question, and what the user should know about it. A mode ignores the input it does not use.
    pub(crate) fn search(self) -> Outcome<(Search, Option<&'static str>)> {
        let blank = self.query.as_ref().is_some_and(|query| query.trim().is_empty());
        let emptiness = blank.then_some("the query is empty, and no text fits it");
        let (mode, remark) = match self.mode {
            ModeName::Vector if self.vector.is_none() && blank => {
                return Err(Failure::invalid("mode vector needs a query vector, and an empty query has none"));
            }
            ModeName::Vector if self.vector.is_none() => {
                return Err(Failure::invalid(
                    "mode vector needs a query vector (--vector, or the key \"vector\" of a line), or a query and a collection that names an embedder",
                ));
            }
            ModeName::Text if self.query.is_none() => {
                return Err(Failure::invalid("mode text needs a query (QUERY, or the key \"query\" of a line)"));
            }
            ModeName::Vector => (Mode::Vector, None),
            ModeName::Text => (Mode::Text, emptiness),
            ModeName::Hybrid if self.vector.is_none() && blank => (Mode::Hybrid, emptiness),
            ModeName::Hybrid => self.hybrid()?,
            ModeName::Graph | ModeName::Ppr | ModeName::Docsgpt if self.query.is_none() => {
                return Err(Failure::invalid("a search of the graph needs a query (QUERY, or the key \"query\" of a line)"));
            }
            ModeName::Graph => (Mode::Graph, None),
            // So far one walk has both names.
            ModeName::Ppr | ModeName::Docsgpt => (Mode::Ppr, None),
        };
        let legs =
            Legs { vector: self.legs.contains(&Leg::Vector), text: self.legs.contains(&Leg::Text), graph: self.legs.contains(&Leg::Graph) };
        let search = Search {
            query: self.query.filter(|_| mode != Mode::Vector),
            vector: self.vector.filter(|_| mode != Mode::Text),
            mode,
            k: self.k,
            effort: self.effort,
            scorer: self.scorer.map(Into::into),
            filter: self.filter,
            hops: self.hops,
            legs,
            rerank: self.rerank.map(Into::into),
            ..Search::default()
        };
        Ok((search, remark))
    }

    /// Whether hybrid is to search by vector.
    pub(crate) fn wants_vector(&self) -> bool {
        self.legs.contains(&Leg::Vector)
    }

    /// A question with nothing but its words, its vector and its mode.
    pub(crate) fn plain(query: String, vector: Option<Vec<f32>>, mode: ModeName, k: usize) -> Question {
        let legs = vec![Leg::Vector, Leg::Text];
        Question { query: Some(query), vector, mode, k, scorer: None, effort: Effort::DEFAULT, filter: None, hops: 2, rerank: None, legs }
    }

    /// What hybrid comes to with the legs and the input that are there.
    fn hybrid(&self) -> Outcome<(Mode, Option<&'static str>)> {
        let wants = |leg| self.legs.contains(&leg);
        let vector = self.vector.is_some() && wants(Leg::Vector);
        let by_query = wants(Leg::Text) || wants(Leg::Graph);
        match (vector, self.query.is_some() && by_query) {
            (true, false) if by_query => Ok((Mode::Hybrid, Some("no query text was given, so mode hybrid searches by vector alone"))),
            (false, true) if wants(Leg::Vector) && !wants(Leg::Graph) => {
                Ok((Mode::Hybrid, Some("no query vector was given, so mode hybrid searches by text alone")))
            }
            (false, true) if wants(Leg::Vector) => Ok((Mode::Hybrid, Some("no query vector was given, so mode hybrid goes without one"))),
            (false, false) => Err(Failure::invalid("nothing to search for: give a query, a query vector or both")),
            _ => Ok((Mode::Hybrid, None)),
        }
    }
}

/// Reads `--vector JSON|@FILE`.
fn vector(argument: &str) -> Outcome<Vec<f32>> {
    let parse = |json: &str, what: &str| {
        serde_json::from_str(json).map_err(|e| Failure::invalid(format!("{what} is not a JSON array of numbers: {e}")))
    };
    let Some(file) = argument.strip_prefix('@') else { return parse(argument, "--vector") };
    if Path::new(file).extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) {
        return npy::open(Path::new(file))?.only_row();
    }
    parse(&crate::jsonl::read_all(file)?, file)
}

/// A hit as `--json` prints it.
pub(crate) struct HitLine<'a>(pub(crate) &'a Hit);

impl Serialize for HitLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hit = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &hit.id)?;
        map.serialize_entry("score", &hit.score)?;
        map.serialize_entry("rank", &hit.rank)?;
        map.serialize_entry("text", &hit.text)?;
        map.serialize_entry("metadata", &hit.metadata.as_ref().map(Verbatim))?;
        map.serialize_entry("source", &hit.source)?;
        map.serialize_entry("retrievers", &Ranks(&hit.retrievers))?;
        map.end()
    }
}

struct Ranks<'a>(&'a [RetrieverRank]);

impl Serialize for Ranks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|r| (r.name, serde_json::json!({ "rank": r.rank, "score": r.score }))))
    }
}

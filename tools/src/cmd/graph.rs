//! `triune graph`: one entity, its neighbours, or a ranking of all.

use crate::args::{GraphAction, GraphArgs, Target};
use crate::output::{Counted, Failure, Name, Out, Outcome, note};
use serde_json::{Map, Value, json};
use triune::Collection;

pub(crate) fn run(args: &GraphArgs, out: &mut Out) -> Outcome<()> {
    let database = super::open_for_reading(&args.database)?;
    let target = Target { database: args.database.clone(), collection: args.collection.clone() };
    let collection = super::collection(&database.snapshot(), &target)?;
    match &args.action {
        GraphAction::Entity { name } => entity(&collection, name, out),
        GraphAction::Neighbors { name, k } => neighbors(&collection, name, *k, out),
        GraphAction::Ppr { seeds, k } => ppr(&collection, seeds, *k, out),
    }
}

fn missing(collection: &Collection, name: &str) -> Failure {
    Failure::not_found(format!("there is no entity {name:?} in collection {}", collection.name()))
}

fn entity(collection: &Collection, name: &str, out: &mut Out) -> Outcome<()> {
    let e = collection.entity(name)?.ok_or_else(|| missing(collection, name))?;
    match out.json() {
        true => out.object(&json!({
            "entity": e.key, "name": e.name, "documents": e.documents, "mentions": e.occurrences, "relations": e.relations,
        })),
        false => out.line(format_args!(
            "{}: mentioned {} in {}, {}",
            Name(&e.name),
            Counted(e.occurrences, "time"),
            Counted(e.documents, "document"),
            Counted(e.relations, "relation")
        )),
    }
}

/// How many lines people get who do not say.
const LINES_SHOWN: usize = 20;

/// Calls `print` with the first of `all`, and says how many are left.
fn first<T>(all: Vec<T>, k: Option<usize>, out: &mut Out, print: impl Fn(T, &mut Out) -> Outcome<()>) -> Outcome<()> {
    let shown = k.unwrap_or(if out.json() { all.len() } else { LINES_SHOWN });
    let left = all.len().saturating_sub(shown);
    all.into_iter().take(shown).try_for_each(|each| print(each, out))?;
    match left > 0 && k.is_none() {
        true => out.line(format_args!("... and {left} more (-k)")),
        false => Ok(()),
    }
}

fn neighbors(collection: &Collection, name: &str, k: Option<usize>, out: &mut Out) -> Outcome<()> {
    collection.entity(name)?.ok_or_else(|| missing(collection, name))?;
    first(collection.neighbours(name)?, k, out, |n, out| {
        if out.json() {
            return out.object(&json!({
                "entity": n.key, "name": n.name, "relations": n.relations, "weight": n.weight, "documents": n.documents,
            }));
        }
        let relations = match n.relations {
            0 => String::new(),
            some => format!("{} of weight {}, ", Counted(some, "relation"), n.weight),
        };
        out.line(format_args!("{}: {relations}{} in common", Name(&n.name), Counted(n.documents, "document")))
    })
}

fn ppr(collection: &Collection, seeds: &str, k: Option<usize>, out: &mut Out) -> Outcome<()> {
    let parsed: Map<String, Value> =
        serde_json::from_str(seeds).map_err(|e| Failure::invalid(format!("--seeds is not a JSON object of names and weights: {e}")))?;
    let weight = |(name, value): (String, Value)| match value.as_f64() {
        Some(weight) => Ok((name, weight)),
        None => Err(Failure::invalid(format!("the weight of seed {name:?} is {value}; it is a number of at least 0"))),
    };
    let seeds: Vec<(String, f64)> = parsed.into_iter().map(weight).collect::<Outcome<_>>()?;
    let ranked = collection.pagerank(&seeds)?;
    if collection.stats()?.relations == 0 {
        note(
            "there are no relations, and ppr walks along relations only: the ranks say nothing but the seeds. `search --mode ppr` walks along shared documents too",
        );
    }
    first(ranked, k, out, |(key, score), out| {
        // Ranks come by key, in which the case of letters is lost.
        let name = collection.entity(&key)?.map_or_else(|| key.clone(), |e| e.name.into());
        match out.json() {
            true => out.object(&json!({ "entity": key, "name": name, "score": score })),
            false => out.line(format_args!("{score:.6}  {}", Name(&name))),
        }
    })
}

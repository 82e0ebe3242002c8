//! `triune graph`: one entity, its neighbours, or a ranking of all.

use crate::args::{GraphAction, GraphArgs};
use crate::output::{Counted, Failure, Out, Outcome};
use serde_json::{Map, Value, json};
use triune::Collection;

pub(crate) fn run(args: &GraphArgs, out: &mut Out) -> Outcome<()> {
    let database = super::open_for_reading(&args.target.database)?;
    let collection = super::collection(&database.snapshot(), &args.target)?;
    match &args.action {
        GraphAction::Entity { name } => entity(&collection, name, out),
        GraphAction::Neighbors { name } => neighbors(&collection, name, out),
        GraphAction::Ppr { seeds } => ppr(&collection, seeds, out),
    }
}

fn missing(collection: &Collection, name: &str) -> Failure {
    Failure::not_found(format!("entity {name:?} in collection {}", collection.name()))
}

fn entity(collection: &Collection, name: &str, out: &mut Out) -> Outcome<()> {
    let e = collection.entity(name)?.ok_or_else(|| missing(collection, name))?;
    match out.json() {
        true => out.object(&json!({
            "entity": e.key, "name": e.name, "documents": e.documents, "mentions": e.occurrences, "relations": e.relations,
        })),
        false => out.line(format_args!(
            "{}: mentioned {} in {}, {}",
            e.name,
            Counted(e.occurrences, "time"),
            Counted(e.documents, "document"),
            Counted(e.relations, "relation")
        )),
    }
}

fn neighbors(collection: &Collection, name: &str, out: &mut Out) -> Outcome<()> {
    collection.entity(name)?.ok_or_else(|| missing(collection, name))?;
    for n in collection.neighbours(name)? {
        match out.json() {
            true => out.object(&json!({
                "entity": n.key, "name": n.name, "relations": n.relations, "weight": n.weight, "documents": n.documents,
            }))?,
            false => out.line(format_args!(
                "{}: {} of weight {}, {} in common",
                n.name,
                Counted(n.relations, "relation"),
                n.weight,
                Counted(n.documents, "document")
            ))?,
        }
    }
    Ok(())
}

fn ppr(collection: &Collection, seeds: &str, out: &mut Out) -> Outcome<()> {
    let parsed: Map<String, Value> =
        serde_json::from_str(seeds).map_err(|e| Failure::invalid(format!("--seeds is not a JSON object of names and weights: {e}")))?;
    let weight = |(name, value): (String, Value)| match value.as_f64() {
        Some(weight) => Ok((name, weight)),
        None => Err(Failure::invalid(format!("the weight of seed {name:?} is {value}; it is a number of at least 0"))),
    };
    let seeds: Vec<(String, f64)> = parsed.into_iter().map(weight).collect::<Outcome<_>>()?;
    for (entity, score) in collection.pagerank(&seeds)? {
        match out.json() {
            true => out.object(&json!({ "entity": entity, "score": score }))?,
            false => out.line(format_args!("{score:.6}  {entity}"))?,
        }
    }
    Ok(())
}

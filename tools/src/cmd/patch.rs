//! `triune patch`: merges metadata into one document, or replaces its text, vector, entities or relations.

use crate::args::PatchArgs;
use crate::jsonl::{ENTITIES, Fields, RELATIONS, read_all, value};
use crate::output::{Failure, Name, Out, Outcome, note};
use triune::{Entity, Metadata, Patch, Relation, WriteBatch};

pub(crate) fn run(args: &PatchArgs, out: &mut Out) -> Outcome<()> {
    let patch = match args.patch.as_str() {
        "-" => patch(&args.id, &read_all("-")?)?,
        json => patch(&args.id, json)?,
    };
    let Some(patch) = patch else { return unchanged(args, out) };
    let database = super::open_for_writing(&args.target.database)?;
    let embedder = super::collection(&database.snapshot(), &args.target)?.schema().embedder.clone();
    let stale = embedder.filter(|_| patch.text.is_some() && patch.vector.is_none());
    let mut batch = WriteBatch::new();
    batch.patch(&args.target.collection, vec![patch]);
    let committed = database.commit(batch).map_err(Failure::from);
    super::tell_and_close(database, committed, |_| {
        if let Some(named) = stale {
            let name = &args.target.collection;
            note(format_args!(
                "{name} names the embedder {named:?}; the vector is still that of the old text: give \"vector\" too, null for none, or load the \
                 document again (`triune load DATABASE FILE --embedder static`, or `cmd:PROGRAM`)"
            ));
        }
        match out.json() {
            true => out.object(&serde_json::json!({ "patched": 1 })),
            false => out.line(format_args!("patched {}", Name(&args.id))),
        }
    })
}

/// A patch that names nothing commits nothing: the document keeps its place too.
fn unchanged(args: &PatchArgs, out: &mut Out) -> Outcome<()> {
    let database = super::open_for_reading(&args.target.database)?;
    let collection = super::collection(&database.snapshot(), &args.target)?;
    if collection.get(&args.id)?.is_none() {
        let name = &args.target.collection;
        return Err(Failure::not_found(format!("there is no document {:?} in collection {name:?}; nothing was changed", args.id)));
    }
    match out.json() {
        true => out.object(&serde_json::json!({ "patched": 0 })),
        false => out.line(format_args!("the patch names nothing to change: {} stays as it is", Name(&args.id))),
    }
}

/// Reads `{"metadata","text","vector","entities","relations"}`. Null removes a vector, and leaves entities to the collection's extractor;
/// elsewhere it equals absent. Nothing when it changes nothing.
fn patch(id: &str, json: &str) -> Outcome<Option<Patch>> {
    let mut patch = Patch::new(id);
    for (key, raw) in &Fields::parse(json)?.0 {
        let null = raw.get() == "null";
        match &**key {
            "vector" if null => patch = patch.without_vector(),
            "vector" => patch = patch.vector(value::<Vec<f32>>(key, raw, "an array of numbers or null")?),
            "entities" if null => patch.entities = Some(None),
            "entities" => patch = patch.entities(value::<Vec<Entity>>(key, raw, ENTITIES)?),
            "text" | "metadata" | "relations" if null => {}
            "relations" => patch = patch.relations(value::<Vec<Relation>>(key, raw, RELATIONS)?),
            "text" => patch = patch.text(value::<String>(key, raw, "a string")?),
            "metadata" => patch = patch.metadata(raw.get())?,
            _ => return Err(Failure::invalid(format!("unknown key {key:?}; a patch has metadata, text, vector, entities and relations"))),
        }
    }
    patch.metadata = patch.metadata.filter(|keys| !is_empty(keys));
    Ok(Some(patch).filter(|patch| *patch != Patch::new(id)))
}

/// Whether no key is merged.
fn is_empty(metadata: &Metadata) -> bool {
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(metadata.as_str()).is_ok_and(|keys| keys.is_empty())
}

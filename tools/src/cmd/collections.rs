//! `triune collections`: lists the collections, or drops, renames or swaps some, each in one commit.

use crate::args::{CollectionsAction, CollectionsArgs};
use crate::output::{Counted, Failure, Name, Out, Outcome};
use serde_json::{Value, json};
use triune::{ErrorCode, Schema, WriteBatch};

pub(crate) fn run(args: &CollectionsArgs, out: &mut Out) -> Outcome<()> {
    match &args.action {
        None => list(args, out),
        Some(action) => change(args, action, out),
    }
}

fn list(args: &CollectionsArgs, out: &mut Out) -> Outcome<()> {
    let snapshot = super::open_for_reading(&args.database)?.snapshot();
    for name in snapshot.collections() {
        let collection = snapshot.collection(&name)?;
        let (documents, schema) = (collection.count(), collection.schema());
        match out.json() {
            true => out.object(&json!({ "name": name, "documents": documents, "schema": described(schema) }))?,
            false => out.line(format_args!(
                "{}: {}, metric {}, scorer {}",
                Name(&name),
                Counted(documents, "document"),
                schema.metric,
                schema.scorer
            ))?,
        }
    }
    Ok(())
}

/// A schema as people give it: of weights the thousandths are stored.
fn described(schema: &Schema) -> Value {
    let mut described = json!(schema);
    if let Some(weights) = described.get_mut("leg_weights").and_then(Value::as_object_mut) {
        for weight in weights.values_mut() {
            *weight = match weight.as_u64() {
                Some(thousandths) if thousandths % 1000 == 0 => json!(thousandths / 1000),
                Some(thousandths) => json!(thousandths as f64 / 1000.0),
                None => continue,
            };
        }
    }
    described
}

fn change(args: &CollectionsArgs, action: &CollectionsAction, out: &mut Out) -> Outcome<()> {
    let mut batch = WriteBatch::new();
    let done = match action {
        CollectionsAction::Drop { name } => {
            batch.drop_collection(name);
            format!("dropped {name}")
        }
        CollectionsAction::Rename { old, new } => {
            batch.rename_collection(old, new);
            format!("renamed {old} to {new}")
        }
        CollectionsAction::Swap { a, b } => {
            batch.swap_collections(a, b);
            format!("swapped {a} and {b}")
        }
    };
    let database = super::open_for_writing(&args.database)?;
    let committed = database.commit(batch);
    let there = super::names(&database.snapshot().collections());
    let committed = committed.map_err(|error| {
        let missing = error.code() == ErrorCode::NotFound;
        Failure::from(error).reworded(|message| if missing { format!("{message}. There {there}") } else { message })
    });
    super::tell_and_close(database, committed, |commit| {
        let deleted: u64 = commit.outcomes.iter().map(|o| o.deleted).sum();
        match out.json() {
            true => out.object(&json!({ "done": done, "deleted": deleted })),
            false => out.line(done),
        }
    })
}

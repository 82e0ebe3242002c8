//! `triune get`: documents by id, each as the line that `load` reads, in the order asked.

use crate::args::GetArgs;
use crate::jsonl::Line;
use crate::output::{Failure, Out, Outcome};

pub(crate) fn run(args: &GetArgs, out: &mut Out) -> Outcome<()> {
    let database = super::open_for_reading(&args.target.database)?;
    let snapshot = database.snapshot();
    let collection = super::collection(&snapshot, &args.target)?;
    let mut missing = Vec::new();
    for id in &args.ids {
        match collection.get(id)? {
            Some(document) => out.object(&Line { document: &document, vectors: args.vectors })?,
            None => missing.push(format!("{id:?}")),
        }
    }
    match missing[..] {
        [] => Ok(()),
        [ref id] => Err(Failure::not_found(format!("{} holds no document {id}", args.target.collection))),
        [..] => Err(Failure::not_found(format!("{} holds no documents {}", args.target.collection, missing.join(", ")))),
    }
}

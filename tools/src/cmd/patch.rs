//! `triune patch`: merges metadata into one document, or replaces its text or vector.

use crate::args::PatchArgs;
use crate::jsonl::{Fields, read_all, value};
use crate::output::{Failure, Name, Out, Outcome, note};
use triune::{Patch, WriteBatch};

pub(crate) fn run(args: &PatchArgs, out: &mut Out) -> Outcome<()> {
    let patch = match args.patch.as_str() {
        "-" => patch(&args.id, &read_all("-")?)?,
        json => patch(&args.id, json)?,
    };
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

/// Reads `{"metadata","text","vector"}`. Null removes a vector; elsewhere it equals absent.
fn patch(id: &str, json: &str) -> Outcome<Patch> {
    let mut patch = Patch::new(id);
    for (key, raw) in &Fields::parse(json)?.0 {
        let null = raw.get() == "null";
        match &**key {
            "vector" if null => patch = patch.without_vector(),
            "vector" => patch = patch.vector(value::<Vec<f32>>(key, raw, "an array of numbers or null")?),
            "text" | "metadata" if null => {}
            "text" => patch = patch.text(value::<String>(key, raw, "a string")?),
            "metadata" => patch = patch.metadata(raw.get())?,
            _ => return Err(Failure::invalid(format!("unknown key {key:?}; a patch has metadata, text and vector"))),
        }
    }
    Ok(patch)
}

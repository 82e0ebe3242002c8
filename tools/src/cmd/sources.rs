//! `triune sources`: the registry of sources, each with what is stored of it.

use crate::args::SourcesArgs;
use crate::output::{Counted, Out, Outcome};

pub(crate) fn run(args: &SourcesArgs, out: &mut Out) -> Outcome<()> {
    let database = super::open_for_reading(&args.target.database)?;
    let collection = super::collection(&database.snapshot(), &args.target)?;
    for s in collection.sources()? {
        match out.json() {
            true => out.object(&serde_json::json!({
                "source": s.source, "chunks": s.documents, "entities": s.entities, "bytes": s.bytes, "time_ms": s.time_ms,
            }))?,
            false => out.line(format_args!(
                "{}: {}, {}, {} bytes",
                s.source,
                Counted(s.documents, "chunk"),
                Counted(s.entities, "distinct entity name"),
                s.bytes
            ))?,
        }
    }
    Ok(())
}

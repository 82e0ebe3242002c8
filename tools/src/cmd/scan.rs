//! `triune scan`: every document, in insertion order.

use crate::args::ScanArgs;
use crate::jsonl::Line;
use crate::output::{Name, Out, Outcome, excerpt};

/// Characters of a text that people see.
const EXCERPT_CHARS: usize = 100;

pub(crate) fn run(args: &ScanArgs, out: &mut Out) -> Outcome<()> {
    let filter = super::which(&args.which)?;
    let database = super::open_for_reading(&args.target.database)?;
    let snapshot = database.snapshot();
    let collection = super::collection(&snapshot, &args.target)?;
    let mut scan = collection.scan().with_vectors(args.vectors);
    if let Some(filter) = &filter {
        scan = scan.filtered(filter)?;
    }
    let limit = usize::try_from(args.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    for document in scan.take(limit) {
        let (_, document) = document?;
        if out.json() {
            out.object(&Line { document: &document, vectors: args.vectors })?;
        } else {
            let source = document.source.as_deref().map(|s| format!("  [{}]", Name(s))).unwrap_or_default();
            out.line(format_args!("{}{source}  {}", Name(&document.id), excerpt(&document.text, EXCERPT_CHARS)))?;
        }
    }
    Ok(())
}

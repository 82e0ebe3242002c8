//! `triune rebuild`: indexes anew from documents.

use crate::args::RebuildArgs;
use crate::output::{Counted, Out, Outcome};
use triune::maintenance::rebuild;

pub(crate) fn run(args: &RebuildArgs, out: &mut Out) -> Outcome<()> {
    let report = rebuild(&args.database, args.collection.as_deref())?;
    if out.json() {
        return out.object(&serde_json::json!({ "segments": report.segments, "rows": report.rows, "bytes": report.bytes }));
    }
    out.line(format_args!(
        "rebuilt the indexes of {} with {} ({} bytes)",
        Counted(report.segments, "segment"),
        Counted(report.rows, "row"),
        report.bytes
    ))
}

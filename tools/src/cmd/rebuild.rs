//! `triune rebuild`: indexes anew from documents.

use crate::args::RebuildArgs;
use crate::output::{Counted, Failure, Out, Outcome};
use triune::maintenance::rebuild;

pub(crate) fn run(args: &RebuildArgs, out: &mut Out) -> Outcome<()> {
    // Whoever rebuilds is not told to rebuild.
    let itself = "indexes alone are made again by `triune rebuild DB`; else restore";
    let report = rebuild(&args.database, args.collection.as_deref())
        .map_err(|e| Failure::from(e).reworded(|message| message.replacen(itself, "restore", 1)))?;
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

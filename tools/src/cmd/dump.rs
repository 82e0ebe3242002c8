//! `triune dump`: the content as text, to stdout or to a new file.

use super::cut_short::Half;
use crate::args::DumpArgs;
use crate::output::{Counted, Failure, Out, Outcome, note};
use std::io::{BufWriter, ErrorKind};
use std::path::Path;
use triune::maintenance::{DumpReport, dump};
use triune::{Error, ErrorCode, Snapshot};

pub(crate) fn run(args: &DumpArgs, out: &mut Out) -> Outcome<()> {
    let database = super::open_for_reading(&args.database)?;
    let snapshot = database.snapshot();
    let names = (!args.collection.is_empty()).then_some(args.collection.as_slice());
    let Some(path) = &args.out else {
        return out.stream(|stdout| dump(&snapshot, names, stdout)).map(drop);
    };
    let report = to_file(&snapshot, names, path)?;
    if out.json() {
        return out.object(&serde_json::json!({
            "collections": report.collections, "documents": report.documents, "bytes": report.bytes, "sha256": report.sha256
        }));
    }
    note(format_args!(
        "dumped {} in {} to {}",
        Counted(report.documents, "document"),
        Counted(report.collections, "collection"),
        path.display()
    ));
    Ok(())
}

/// Writes a new file and syncs it; half a dump is none, and is removed.
fn to_file(snapshot: &Snapshot, names: Option<&[String]>, path: &Path) -> Outcome<DumpReport> {
    if let Some(database) = triune::io::database_above(path) {
        let message =
            format!("{} lies inside the database {}; nothing was written. Name a file beside it", path.display(), database.display());
        return Err(Failure::Refused { code: ErrorCode::InvalidArgument, message });
    }
    let (file, half) = Half::file(path).map_err(|e| {
        if e.kind() == ErrorKind::AlreadyExists {
            let message = format!("{} exists; nothing was written. Name a new file", path.display());
            return Failure::Refused { code: ErrorCode::AlreadyExists, message };
        }
        Failure::new_file(path, &e).reworded(|message| format!("{message}. Nothing was written"))
    })?;
    let written = dump(snapshot, names, BufWriter::with_capacity(1 << 20, &file));
    let report = written.and_then(|report| match file.sync_all() {
        Ok(()) => Ok(report),
        Err(e) => Err(Error::io(format!("syncing {}", path.display()), e)),
    })?;
    half.keep();
    Ok(report)
}

//! `triune backup`: a copy of a database that may be in use.

use crate::args::BackupArgs;
use crate::output::{Counted, Out, Outcome};
use triune::maintenance::{BackupOptions, backup};

pub(crate) fn run(args: &BackupArgs, out: &mut Out) -> Outcome<()> {
    let options = BackupOptions { link: args.link, link_from: args.link_from.clone(), verify: args.verify };
    let report = backup(&args.database, &args.destination, &options).map_err(super::taken)?;
    if out.json() {
        return out.object(&serde_json::json!({
            "lsn": report.lsn.0,
            "copied": { "files": report.copied_files, "bytes": report.copied_bytes },
            "linked": { "files": report.linked_files, "bytes": report.linked_bytes },
            "logged_commits": report.logged_commits,
        }));
    }
    out.line(format_args!(
        "backed up {} as of commit {} to {}: copied and checked {} ({} bytes), linked {} ({} bytes), {} in the log",
        args.database.display(),
        report.lsn,
        args.destination.display(),
        Counted(report.copied_files, "file"),
        report.copied_bytes,
        Counted(report.linked_files, "file"),
        report.linked_bytes,
        Counted(report.logged_commits, "commit"),
    ))
}

//! `triune upgrade`: the version of the file format.

use crate::args::UpgradeArgs;
use crate::output::{Out, Outcome};
use triune::maintenance::upgrade;

pub(crate) fn run(args: &UpgradeArgs, out: &mut Out) -> Outcome<()> {
    let report = upgrade(&args.database)?;
    let (major, minor) = report.version;
    if out.json() {
        return out.object(&serde_json::json!({ "version": format!("{major}.{minor}"), "changed": report.changed }));
    }
    let done = if report.changed { "it was brought there" } else { "there is nothing to do" };
    out.line(format_args!("{} has file format {major}.{minor}, the newest that this program knows; {done}", args.database.display()))
}

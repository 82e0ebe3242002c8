//! `triune compact`: one segment a collection, nothing dead, no file that nothing names.

use super::progress::Stages;
use crate::args::CompactArgs;
use crate::output::{Failure, Out, Outcome};
use triune::Options;

pub(crate) fn run(args: &CompactArgs, out: &mut Out) -> Outcome<()> {
    let stages = Stages::new();
    let options = Options { observer: Some(stages.observer()), ..Options::default() };
    let database = super::open_for_writing_with(&args.database, options)?;
    let before = database.bytes_on_disk()?;
    let compacted = database.compact();
    stages.clear();
    let compacted = compacted.and_then(|()| database.bytes_on_disk()).map_err(Failure::from);
    super::tell_and_close(database, compacted, |after| match out.json() {
        true => out.object(&serde_json::json!({ "bytes_before": before, "bytes": after })),
        false => out.line(format_args!("compacted: {before} bytes before, {after} after")),
    })
}

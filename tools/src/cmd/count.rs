//! `triune count`: how many documents a collection holds.

use crate::args::CountArgs;
use crate::output::{Out, Outcome};

pub(crate) fn run(args: &CountArgs, out: &mut Out) -> Outcome<()> {
    let filter = super::which(&args.which)?;
    let database = super::open_for_reading(&args.target.database)?;
    let collection = super::collection(&database.snapshot(), &args.target)?;
    let count = filter.as_ref().map_or_else(|| Ok(collection.count()), |f| collection.count_where(f))?;
    match out.json() {
        true => out.object(&serde_json::json!({ "count": count })),
        false => out.line(count),
    }
}

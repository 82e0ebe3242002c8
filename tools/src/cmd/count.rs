//! `triune count`: how many documents a collection holds.

use crate::args::CountArgs;
use crate::output::{Out, Outcome};

pub(crate) fn run(args: &CountArgs, out: &mut Out) -> Outcome<()> {
    super::no_filter(args.filter.as_ref())?;
    let database = super::open_for_reading(&args.target.database)?;
    let count = super::collection(&database.snapshot(), &args.target)?.count();
    match out.json() {
        true => out.object(&serde_json::json!({ "count": count })),
        false => out.line(count),
    }
}

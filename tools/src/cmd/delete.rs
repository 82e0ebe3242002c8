//! `triune delete`: documents by id, by source or by filter, or all of them. What is not there counts as none.

use crate::args::{Args, DELETE_USAGE, DeleteArgs};
use crate::output::{Counted, Failure, Out, Outcome, quoted};
use clap::CommandFactory;
use clap::error::ErrorKind;
use triune::WriteBatch;

pub(crate) fn run(args: &DeleteArgs, out: &mut Out) -> Outcome<()> {
    if let Some(id) = args.bare.first() {
        let (database, id) = (quoted(&args.target.database.display().to_string()), quoted(id));
        let message =
            format!("unexpected argument {id}: an id is named by --id, so `triune delete {database} --id {id}`; nothing was deleted");
        Args::command().override_usage(DELETE_USAGE).error(ErrorKind::UnknownArgument, message).exit();
    }
    let filter = super::filter(args.filter.as_ref())?;
    if args.ids.is_empty() && args.source.is_none() && filter.is_none() && !args.all {
        let message = "what to delete is not said: give --id ID, --source S, --filter JSON or --all";
        Args::command().override_usage(DELETE_USAGE).error(ErrorKind::MissingRequiredArgument, message).exit();
    }
    let name = &args.target.collection;
    let mut batch = WriteBatch::new();
    if args.all {
        batch.clear(name);
    } else if let Some(filter) = filter {
        if filter.is_empty() {
            return Err(Failure::invalid("the filter {} matches every document; `triune delete --all` is for that, nothing was deleted"));
        }
        batch.delete_where(name, filter);
    } else if let Some(source) = &args.source {
        batch.delete_source(name, source);
    } else {
        batch.delete(name, args.ids.clone());
    }
    let database = super::open_for_writing(&args.target.database)?;
    super::collection(&database.snapshot(), &args.target)?;
    let committed = database.commit(batch).map_err(Failure::from);
    super::tell_and_close(database, committed, |commit| {
        let deleted = commit.outcomes.iter().map(|o| o.deleted).sum();
        match out.json() {
            true => out.object(&serde_json::json!({ "deleted": deleted })),
            false => out.line(format_args!("deleted {}", Counted(deleted, "document"))),
        }
    })
}

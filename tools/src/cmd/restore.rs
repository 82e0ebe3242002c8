//! `triune restore`: a new database out of a dump.

use crate::args::RestoreArgs;
use crate::output::{Counted, Failure, Out, Outcome};
use std::fs::File;
use std::io::{BufRead, BufReader};
use triune::maintenance::restore;

pub(crate) fn run(args: &RestoreArgs, out: &mut Out) -> Outcome<()> {
    if std::path::Path::new(&args.file).is_dir() {
        return Err(Failure::invalid(format!(
            "{} is a directory, and a dump is a file: `triune dump` writes it. What `triune backup` makes is a database: use it in the place of the \
             other, or copy its directory there while nobody has it open. Nothing was made",
            args.file
        )));
    }
    let input: Box<dyn BufRead> = match args.file.as_str() {
        "-" => Box::new(BufReader::with_capacity(1 << 20, std::io::stdin())),
        file => Box::new(BufReader::with_capacity(1 << 20, File::open(file).map_err(|e| Failure::file(file, &e))?)),
    };
    let report = restore(&args.database, input).map_err(super::taken)?;
    if out.json() {
        return out.object(&serde_json::json!({ "collections": report.collections, "documents": report.documents }));
    }
    out.line(format_args!(
        "restored {} in {} into {}",
        Counted(report.documents, "document"),
        Counted(report.collections, "collection"),
        args.database.display()
    ))
}

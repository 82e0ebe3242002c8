//! `triune salvage`: what can be saved of a damaged database, and a ledger of what cannot.

use crate::args::SalvageArgs;
use crate::output::{Counted, Failure, Out, Outcome};
use std::fs::File;
use std::io::{BufWriter, Write};
use triune::ErrorCode;
use triune::maintenance::{Loss, salvage};

pub(crate) fn run(args: &SalvageArgs, out: &mut Out) -> Outcome<()> {
    let report = salvage(&args.database, &args.out, args.accept_loss)?;
    match &args.ledger {
        Some(path) => to_file(&report.ledger, path)?,
        None => report.ledger.iter().try_for_each(|loss| out.object(loss))?,
    }
    if !report.made {
        let saved = Counted(report.documents, "document");
        let losses = Counted(report.ledger.len() as u64, "line");
        return Err(Failure::Refused {
            code: ErrorCode::Corrupt,
            message: format!(
                "{saved} of {} can be saved, and not everything: the ledger has {losses}. Nothing was made. Read it, and go on with --accept-loss",
                args.database.display()
            ),
        });
    }
    if out.json() {
        return out.object(&serde_json::json!({
            "collections": report.collections, "documents": report.documents, "losses": report.ledger.len()
        }));
    }
    out.line(format_args!(
        "saved {} in {} into {}; the ledger has {}",
        Counted(report.documents, "document"),
        Counted(report.collections, "collection"),
        args.out.display(),
        Counted(report.ledger.len() as u64, "line")
    ))
}

fn to_file(ledger: &[Loss], path: &std::path::Path) -> Outcome<()> {
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for loss in ledger {
            serde_json::to_writer(&mut file, loss)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    write().map_err(|e| Failure::file(path.display(), &e))
}

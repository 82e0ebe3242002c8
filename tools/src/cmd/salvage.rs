//! `triune salvage`: what can be saved of a damaged database, and a ledger of what cannot.

use crate::args::SalvageArgs;
use crate::output::{Counted, Failure, Out, Outcome};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use triune::ErrorCode;
use triune::maintenance::{Loss, salvage};

pub(crate) fn run(args: &SalvageArgs, out: &mut Out) -> Outcome<()> {
    if let Some(path) = &args.ledger {
        refuse_ledger(path)?;
    }
    let report = salvage(&args.database, &args.out, args.accept_loss).map_err(|error| {
        let busy = error.code() == ErrorCode::Locked;
        super::taken(error).reworded(|message| if busy { format!("{message} ({})", writer(&args.database)) } else { message })
    })?;
    match &args.ledger {
        Some(path) => to_file(&report.ledger, path)?,
        None => match report.ledger.iter().try_for_each(|loss| out.object(loss)).and_then(|()| out.flush()) {
            // What is lost decides the status, also when nobody reads the ledger to its end.
            Err(Failure::OutputClosed) => {}
            told => told?,
        },
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

/// Who writes to the database, as it says itself.
fn writer(database: &Path) -> String {
    let said = std::fs::read_to_string(database.join("LOCK")).unwrap_or_default();
    if said.trim().is_empty() { "its pid is not known".into() } else { format!("the writer is {}", said.trim()) }
}

fn to_file(ledger: &[Loss], path: &Path) -> Outcome<()> {
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create_new(path)?);
        for loss in ledger {
            serde_json::to_writer(&mut file, loss)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    write().map_err(|e| Failure::file(path.display(), &e))
}

/// A ledger is a new file, and none inside a database: not the one that is to be saved either.
fn refuse_ledger(path: &std::path::Path) -> Outcome<()> {
    if let Some(database) = triune::io::database_above(path) {
        let message =
            format!("{} lies inside the database {}; nothing was made. Name a file beside it", path.display(), database.display());
        return Err(Failure::Refused { code: ErrorCode::InvalidArgument, message });
    }
    if path.exists() {
        let message = format!("{} exists; nothing was made. Name a new file for the ledger", path.display());
        return Err(Failure::Refused { code: ErrorCode::AlreadyExists, message });
    }
    Ok(())
}

//! `triune salvage`: what can be saved of a damaged database, and a ledger of what cannot.

use super::cut_short::Half;
use crate::args::SalvageArgs;
use crate::output::{Counted, Failure, Out, Outcome, born_closed};
use std::io::{BufWriter, Write};
use std::path::Path;
use triune::ErrorCode;
use triune::maintenance::{Loss, save, survey};

pub(crate) fn run(args: &SalvageArgs, out: &mut Out) -> Outcome<()> {
    if let Some(path) = &args.ledger {
        refuse_ledger(path, args.accept_loss)?;
    }
    let found = survey(&args.database).map_err(|error| {
        let busy = error.code() == ErrorCode::Locked;
        super::taken(error).reworded(|message| if busy { format!("{message} ({})", writer(&args.database)) } else { message })
    })?;
    if args.accept_loss && args.ledger.is_none() && !found.ledger().is_empty() && born_closed() {
        return Err(unread());
    }
    let kept = args.ledger.as_ref().is_some_and(|path| is_kept(found.ledger(), path));
    let half = if kept { None } else { keep(found.ledger(), args, out)? };
    if !found.ledger().is_empty() && !args.accept_loss {
        half.into_iter().for_each(Half::keep);
        let saved = Counted(found.collections().iter().map(|c| c.documents).sum(), "document");
        let losses = Counted(found.ledger().len() as u64, "line");
        return Err(Failure::Refused {
            code: ErrorCode::Corrupt,
            message: format!(
                "{saved} of {} can be saved, and not everything: the ledger has {losses}. Nothing was made. Read it, and run the same with \
                 --accept-loss to go on",
                args.database.display()
            ),
        });
    }
    let saved = save(&found, &args.out);
    // That of a database that stands, or may stand, stays; any other is written again by the next attempt.
    if saved.as_ref().map_or_else(|e| e.code() == ErrorCode::OutcomeUnknown, |_| true) {
        half.into_iter().for_each(Half::keep);
    }
    let report = saved.map_err(super::taken)?;
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

/// Writes the ledger where it is to be. Before anything is made: nothing is lost without a word. A file of it is half of what is done here.
fn keep(ledger: &[Loss], args: &SalvageArgs, out: &mut Out) -> Outcome<Option<Half>> {
    let kept = match &args.ledger {
        Some(path) if path.exists() => return Err(exists(path, ", and is not the ledger of what is damaged now")),
        Some(path) => to_file(ledger, path).map(Some).map_err(|e| Failure::new_file(path, &e)),
        None => ledger.iter().try_for_each(|loss| out.object(loss)).and_then(|()| out.flush()).map(|()| None),
    };
    match kept {
        // Nothing is made without `--accept-loss`: then what is lost decides the status, also when nobody reads the ledger to its end.
        Err(Failure::OutputClosed) if !args.accept_loss => Ok(None),
        Err(Failure::OutputClosed) => Err(unread()),
        kept => kept.map_err(|f| f.unwritten("").reworded(|m| format!("the ledger could not be written, and nothing was made: {m}"))),
    }
}

/// A ledger that nobody can read is none.
fn unread() -> Failure {
    let message = "stdout was closed before the ledger was read, and nothing was made; `--ledger FILE` keeps it".to_string();
    Failure::Refused { code: ErrorCode::Io, message }
}

fn to_file(ledger: &[Loss], path: &Path) -> std::io::Result<Half> {
    // What is there already is somebody else's, and stays.
    let (file, half) = Half::file(path)?;
    let mut file = BufWriter::new(file);
    write_lines(ledger, &mut file)?;
    file.flush()?;
    file.get_ref().sync_all()?;
    Ok(half)
}

fn write_lines(ledger: &[Loss], to: &mut impl Write) -> std::io::Result<()> {
    for loss in ledger {
        serde_json::to_writer(&mut *to, loss)?;
        to.write_all(b"\n")?;
    }
    Ok(())
}

/// Whether the run before, which accepted no loss, left this very ledger there. What differs in one byte is somebody else's.
fn is_kept(ledger: &[Loss], path: &Path) -> bool {
    let mut lines = Vec::new();
    let same_length = |lines: &[u8]| path.metadata().is_ok_and(|m| m.is_file() && m.len() == lines.len() as u64);
    write_lines(ledger, &mut lines).is_ok() && same_length(&lines) && std::fs::read(path).is_ok_and(|there| there == lines)
}

/// A ledger is a new file, and none inside a database: not the one that is to be saved either. With `--accept-loss` it may be there, as long
/// as it turns out to be the one that would be written.
fn refuse_ledger(path: &Path, accept_loss: bool) -> Outcome<()> {
    if let Some(database) = triune::io::database_above(path) {
        let message =
            format!("{} lies inside the database {}; nothing was made. Name a file beside it", path.display(), database.display());
        return Err(Failure::Refused { code: ErrorCode::InvalidArgument, message });
    }
    if path.exists() && !accept_loss {
        return Err(exists(path, ""));
    }
    Ok(())
}

fn exists(path: &Path, what: &str) -> Failure {
    let message = format!("{} exists{what}; nothing was made. Name a new file for the ledger", path.display());
    Failure::Refused { code: ErrorCode::AlreadyExists, message }
}

//! `triune`: the command line of the retrieval database.
//!
//! Results go to stdout, for people or as JSON lines with `--json`; progress, notes and errors go to stderr. The exit status says what kind
//! of error ended a command. Nothing here knows a file of the database: every command is a few calls of the library.
//!
//! | file | role |
//! | --- | --- |
//! | `args.rs` | every form of every command, in one place |
//! | `output.rs` | stdout, notes, errors and their exit statuses |
//! | `jsonl.rs` | the line format of documents, both ways |
//! | `embedder.rs` | which embedder a command works with |
//! | `limits.rs` | how many files this process may have open |
//! | `npy.rs` | vectors from NumPy files, row by row |
//! | `cmd/` | one file a command, each with a `run` |
//! | `ingest/` | from files to chunks of text (feature `ingest`) |

mod args;
mod cmd;
mod embedder;
#[cfg(feature = "ingest")]
mod ingest;
mod jsonl;
mod limits;
mod npy;
mod output;

use clap::Parser;
use output::{Failure, Out};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::try_parse().unwrap_or_else(|mut error| {
        // To pass an unknown flag as a value, behind `--`, is hardly ever what was meant.
        if error.kind() == clap::error::ErrorKind::UnknownArgument {
            error.remove(clap::error::ContextKind::Suggested);
        }
        error.exit()
    });
    // The child of `ingest` keeps its stdout for its answers.
    #[cfg(feature = "ingest")]
    if let args::Command::IngestWorker(worker) = &args.command {
        return ingest::worker::serve(worker);
    }
    limits::raise_open_files();
    let mut out = Out::new(args.json);
    let outcome = cmd::run(&args.command, &mut out);
    // Results that were found before an error stand before its message.
    let flushed = out.flush();
    match outcome.and(flushed).map_err(|failure| failure.unwritten(args.command.stands())) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough: `triune scan db | head` is no error.
        Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        // The status that `Io` has; `unwritten` has said everything else.
        Err(Failure::OutputFailed(_)) => ExitCode::from(triune::ErrorCode::Io.exit_status()),
        Err(Failure::Incomplete) => ExitCode::FAILURE,
        Err(Failure::Status(status)) => ExitCode::from(status),
        Err(Failure::Refused { code, message }) => {
            output::report(args.json, code, &message);
            ExitCode::from(code.exit_status())
        }
    }
}

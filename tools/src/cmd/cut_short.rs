//! Ctrl-C during a command that may end anywhere: it does, and says what that leaves.
//!
//! No database needs a goodbye. What else would be left half goes, as after an error. `ingest`, `load` and `build` watch for Ctrl-C in ways of
//! their own (`interrupt.rs`, `build.rs`).

use super::demo;
use crate::args::{CollectionsArgs, Command, DumpArgs};
use crate::embedder::STOP;
use crate::output::{Failure, Outcome, report};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use triune::{Database, ErrorCode};

/// How long a program that makes the vectors of questions has to be ended.
const PATIENCE: Duration = Duration::from_millis(300);

/// Takes over Ctrl-C for a command that does not do so itself.
pub(super) fn watch(command: &Command, json: bool) -> Outcome<()> {
    let Some(left) = Left::by(command) else { return Ok(()) };
    let asks = matches!(command, Command::Search(_) | Command::Eval(_));
    let handler = move || {
        if asks {
            STOP.cancel();
            std::thread::sleep(PATIENCE);
        }
        // Not given back: nothing becomes whole after it was removed.
        let mut half = half();
        remove(half.take());
        report(json, ErrorCode::Interrupted, &left.told());
        std::process::exit(i32::from(ErrorCode::Interrupted.exit_status()));
    };
    ctrlc::set_handler(handler).map_err(|e| Failure::Refused { code: ErrorCode::Io, message: format!("Ctrl-C cannot be handled: {e}") })
}

/// A command that noticed by itself that it was to end says the same.
pub(super) fn told(command: &Command, failure: Failure) -> Failure {
    match (&failure, Left::by(command)) {
        (Failure::Refused { code: ErrorCode::Interrupted, .. }, Some(left)) => failure.reworded(|_| left.told()),
        _ => failure,
    }
}

/// What a command leaves that ends anywhere.
enum Left {
    /// What was there.
    All,
    /// All that it was to write into this file is removed.
    NoFile(PathBuf),
    /// A database before or after a commit.
    Whole(PathBuf),
    /// A database that was to be made here: none, one that is begun, or the whole of it.
    Making(PathBuf),
    /// A demo, here or among the temporary files.
    Demo(Option<PathBuf>),
}

impl Left {
    /// Nothing for a command that says it itself.
    fn by(command: &Command) -> Option<Left> {
        Some(match command {
            #[cfg(feature = "ingest")]
            Command::Ingest(_) | Command::IngestWorker(_) => return None,
            Command::Load(_) | Command::Build(_) => return None,
            Command::Collections(CollectionsArgs { action: None, .. }) | Command::Dump(DumpArgs { out: None, .. }) => Left::All,
            Command::Search(_)
            | Command::Eval(_)
            | Command::Get(_)
            | Command::Scan(_)
            | Command::Count(_)
            | Command::Stats(_)
            | Command::Sources(_)
            | Command::Graph(_)
            | Command::Analyze(_)
            | Command::Fsck(_)
            | Command::Inspect(_)
            | Command::Upgrade(_) => Left::All,
            Command::Dump(DumpArgs { out: Some(file), .. }) => Left::NoFile(file.clone()),
            Command::Put(args) => Left::Whole(args.target.database.clone()),
            Command::Patch(args) => Left::Whole(args.target.database.clone()),
            Command::Delete(args) => Left::Whole(args.target.database.clone()),
            Command::Collections(args) => Left::Whole(args.database.clone()),
            Command::Compact(args) => Left::Whole(args.database.clone()),
            Command::Rebuild(args) => Left::Whole(args.database.clone()),
            Command::Create(args) => Left::Making(args.target.database.clone()),
            Command::Restore(args) => Left::Making(args.database.clone()),
            Command::Backup(args) => Left::Making(args.destination.clone()),
            Command::Salvage(args) => Left::Making(args.out.clone()),
            Command::Demo(args) => Left::Demo(args.directory.clone()),
        })
    }

    fn told(&self) -> String {
        let what = match self {
            Left::All => "nothing was changed".to_string(),
            Left::NoFile(file) => format!("{} was not written", file.display()),
            Left::Whole(database) => {
                format!(
                    "{} is as it was, or as the command was to leave it, and never between; running it again does no harm",
                    database.display()
                )
            }
            Left::Making(database) => made(database),
            Left::Demo(given) => match given.clone().or_else(demo::begun) {
                Some(directory) => {
                    format!("the demo's database so far stays in {}; remove it, or name another directory", directory.display())
                }
                None => "nothing was made".to_string(),
            },
        };
        format!("stopped by Ctrl-C; {what}")
    }
}

fn made(database: &Path) -> String {
    let path = database.display();
    match database.join("HEAD").exists() {
        false => format!("no database was made in {path}"),
        true if Database::open_read_only(database).is_ok() => format!("the database in {path} is whole"),
        true => format!(
            "what was begun in {path} stays, and nothing in it counts: run the same command again, which begins anew there, or remove the directory"
        ),
    }
}

/// The file or directory that is to be removed should the process end now.
static HALF: Mutex<Option<PathBuf>> = Mutex::new(None);

fn half() -> MutexGuard<'static, Option<PathBuf>> {
    HALF.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove(path: Option<PathBuf>) {
    // Should that fail, what is left lacks its end, and says so to whoever reads it.
    let _ = path.map(|path| if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) });
}

/// What only counts as a whole: dropped before that, or after Ctrl-C, it is removed. There is one at a time.
pub(super) struct Half(());

impl Half {
    /// A new file.
    pub(super) fn file(path: &Path) -> io::Result<(File, Half)> {
        let mut half = half();
        let file = File::create_new(path)?;
        *half = Some(path.to_path_buf());
        Ok((file, Half(())))
    }

    /// A directory that this process has made.
    pub(super) fn directory(path: &Path) -> Half {
        *half() = Some(path.to_path_buf());
        Half(())
    }

    /// It is whole, and stays.
    pub(super) fn keep(self) {
        *half() = None;
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        remove(half().take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::Parser;

    fn left(line: &str) -> Option<String> {
        let args = Args::try_parse_from(line.split(' ')).unwrap_or_else(|e| panic!("{e}"));
        Left::by(&args.command).map(|left| left.told())
    }

    #[test]
    fn every_command_says_what_it_leaves() {
        let path = tempfile::tempdir().unwrap().path().join("db").display().to_string();
        let whole = format!("stopped by Ctrl-C; {path} is as it was, or as the command was to leave it");
        for line in ["compact DB", "rebuild DB", "delete DB --all", "put DB {}", "patch DB a {}", "collections DB drop main"] {
            let told = left(&format!("triune {}", line.replace("DB", &path))).unwrap();
            assert!(told.starts_with(&whole), "{line}: {told}");
        }
        for line in ["scan DB", "search DB words", "eval DB --queries q --qrels r", "stats DB", "dump DB", "fsck DB", "collections DB"] {
            assert_eq!(left(&format!("triune {line}")).unwrap(), "stopped by Ctrl-C; nothing was changed", "{line}");
        }
        for line in ["backup from DB", "salvage from --out DB", "restore DB -", "create DB"] {
            let told = left(&format!("triune {}", line.replace("DB", &path))).unwrap();
            assert_eq!(told, format!("stopped by Ctrl-C; no database was made in {path}"), "{line}");
        }
        assert_eq!(left("triune dump DB --out file").unwrap(), "stopped by Ctrl-C; file was not written");
        assert_eq!(left("triune demo").unwrap(), "stopped by Ctrl-C; nothing was made");
        assert!(left("triune demo DIR").unwrap().contains("stays in DIR"));
        for line in ["load DB -", "build DB --input -"] {
            assert_eq!(left(&format!("triune {line}")), None, "{line} says it itself");
        }
    }

    #[test]
    fn what_a_database_on_its_way_is_called() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        Database::create(&path).unwrap();
        assert!(made(&path).ends_with("is whole"));
        std::fs::write(path.join("HEAD"), b"").unwrap();
        assert!(made(&path).contains("nothing in it counts"));
    }
}

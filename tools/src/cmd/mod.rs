//! One file a command. What several of them need stands here: opening a database so that the message says what to run next.

mod analyze;
mod asker;
mod backup;
mod build;
mod collections;
mod compact;
mod count;
mod create;
mod cut_short;
mod delete;
mod demo;
mod dump;
mod eval;
mod explain;
pub(crate) mod fsck;
mod get;
mod graph;
#[cfg(feature = "ingest")]
mod ingest;
mod inspect;
mod interrupt;
mod load;
mod patch;
mod progress;
mod put;
mod queries;
mod rebuild;
mod restore;
mod salvage;
mod scan;
mod search;
mod sources;
mod stats;
mod upgrade;
mod why_not;

use crate::args::{BackupArgs, Command, SalvageArgs, Target, Which};
use crate::output::{Failure, Out, Outcome, note, quoted};
use std::path::Path;
use std::sync::Arc;
use triune::io::FsDirectory;
use triune::{Collection, Database, ErrorCode, Filter, Options, Snapshot};

/// Runs one command. What its error tells to run next names the database in question.
pub(crate) fn run(command: &Command, out: &mut Out) -> Outcome<()> {
    cut_short::watch(command, out.json())?;
    let Some(path) = command.database() else { return dispatch(command, out).map_err(|f| cut_short::told(command, f)) };
    refuse_file(path, command.makes())?;
    if let Command::Backup(BackupArgs { destination: new, .. }) | Command::Salvage(SalvageArgs { out: new, .. }) = command {
        refuse_file(new, true)?;
    }
    dispatch(command, out).map_err(|failure| {
        cut_short::told(command, failure).reworded(|message| {
            let (database, saved) = (quoted(&path.display().to_string()), quoted(&format!("{}.saved", path.display())));
            message
                .replace("`triune fsck DB`", &format!("`triune fsck {database}`"))
                .replace("`triune rebuild DB`", &format!("`triune rebuild {database}`"))
                .replace("`triune salvage DB --out NEW`", &format!("`triune salvage {database} --out {saved}`"))
        })
    })
}

/// A file stands where the directory of a database is named.
fn refuse_file(path: &Path, makes: bool) -> Outcome<()> {
    if !std::fs::metadata(path).is_ok_and(|m| !m.is_dir()) {
        return Ok(());
    }
    let path = path.display();
    Err(match makes {
        true => Failure::invalid(format!("{path} is a file, and a database is a directory; nothing was made. Name a new directory")),
        false => {
            Failure::not_found(format!("there is no database in {path}: that is a file, and a database is a directory. Name the directory"))
        }
    })
}

fn dispatch(command: &Command, out: &mut Out) -> Outcome<()> {
    match command {
        Command::Demo(args) => demo::run(args, out),
        Command::Create(args) => create::run(args, out),
        #[cfg(feature = "ingest")]
        Command::Ingest(args) => ingest::run(args, out),
        #[cfg(feature = "ingest")]
        Command::IngestWorker(_) => unreachable!("the child of `ingest` is served before any command"),
        Command::Load(args) => load::run(args, out),
        Command::Build(args) => build::run(args, out),
        Command::Search(args) => search::run(args, out),
        Command::Eval(args) => eval::run(args, out),
        Command::Get(args) => get::run(args, out),
        Command::Scan(args) => scan::run(args, out),
        Command::Count(args) => count::run(args, out),
        Command::Put(args) => put::run(args, out),
        Command::Patch(args) => patch::run(args, out),
        Command::Delete(args) => delete::run(args, out),
        Command::Stats(args) => stats::run(args, out),
        Command::Collections(args) => collections::run(args, out),
        Command::Sources(args) => sources::run(args, out),
        Command::Graph(args) => graph::run(args, out),
        Command::Analyze(args) => analyze::run(args, out),
        Command::Compact(args) => compact::run(args, out),
        Command::Fsck(args) => fsck::run(args, out),
        Command::Inspect(args) => inspect::run(args, out),
        Command::Dump(args) => dump::run(args, out),
        Command::Restore(args) => restore::run(args, out),
        Command::Backup(args) => backup::run(args, out),
        Command::Rebuild(args) => rebuild::run(args, out),
        Command::Salvage(args) => salvage::run(args, out),
        Command::Upgrade(args) => upgrade::run(args, out),
    }
}

/// Opens without writing anything, so that it works beside a writer.
fn open_for_reading(path: &Path) -> Outcome<Database> {
    opened(Database::open_read_only(path), path)
}

/// As [`open_for_reading`], with options.
fn open_for_reading_with(path: &Path, options: Options) -> Outcome<Database> {
    match FsDirectory::open(path) {
        Ok(dir) => opened(Database::open_read_only_with(Arc::new(dir), options), path),
        // It says why.
        Err(_) => open_for_reading(path),
    }
}

/// Opens as the one writer.
fn open_for_writing(path: &Path) -> Outcome<Database> {
    opened(Database::open(path), path)
}

/// As [`open_for_writing`], with options.
fn open_for_writing_with(path: &Path, options: Options) -> Outcome<Database> {
    match FsDirectory::open(path) {
        Ok(dir) => opened(Database::open_with(Arc::new(dir), options), path),
        Err(_) => open_for_writing(path),
    }
}

fn opened(result: triune::Result<Database>, path: &Path) -> Outcome<Database> {
    let database = result.map_err(|error| {
        let missing = error.code() == ErrorCode::NotFound;
        Failure::from(error).reworded(|message| if missing { absent(&message, path) } else { message })
    })?;
    if let Some(torn) = &database.recovery().torn_tail {
        note(format_args!("recovered after a crash: {torn}"));
    }
    Ok(database)
}

/// There is no database: what is there instead, and what to do about it.
fn absent(message: &str, path: &Path) -> String {
    // A path may end in a dot, and then it must not look like the end of the sentence.
    let message = message.replacen(&format!("in {}", path.display()), &format!("in {:?}", path.display().to_string()), 1);
    let inside = path.join("db");
    let (here, below) = (quoted(&path.display().to_string()), quoted(&inside.display().to_string()));
    if Database::open_read_only(&inside).is_ok() {
        return format!("{message}. There is one in it: did you mean {below}?");
    }
    if path.join("HEAD").exists() {
        // Of what was cut short the message says how it goes on.
        return message;
    }
    if std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
        return format!(
            "{message}. Other files are there: is that the right directory? A database is made in one of its own, say with `triune create {below}`"
        );
    }
    format!("{message}. Make a database with `triune create {here}`")
}

/// The collection that a command is about, or an error that says how to make it.
fn collection(snapshot: &Snapshot, target: &Target) -> Outcome<Collection> {
    snapshot.collection(&target.collection).map_err(|error| {
        let missing = error.code() == ErrorCode::NotFound;
        Failure::from(error).reworded(|message| match missing {
            true => format!(
                "{message}. There {}. One is made with `triune create {} --collection {}`",
                names(&snapshot.collections()),
                target.database.display(),
                target.collection
            ),
            false => message,
        })
    })
}

/// Says what was committed, then closes: it stands, whatever becomes of closing.
fn tell_and_close<T>(database: Database, committed: Outcome<T>, tell: impl FnOnce(T) -> Outcome<()>) -> Outcome<()> {
    let told = committed.and_then(tell);
    let closed = database.close();
    match told {
        Err(refused @ Failure::Refused { .. }) => Err(refused),
        told => {
            closed?;
            told
        }
    }
}

/// What failed after a database was made for it: the database is there all the same.
fn in_new_database(failure: Failure, path: &Path) -> Failure {
    failure.after_commits().reworded(|message| format!("{message}. An empty database stands in {}", path.display()))
}

/// A command that makes a database found its place taken.
fn taken(error: triune::Error) -> Failure {
    let exists = error.code() == ErrorCode::AlreadyExists;
    // Of files without their HEAD the message says it.
    let advise = |message: &str| exists && !message.contains("Name another directory");
    Failure::from(error).reworded(|message| if advise(&message) { format!("{message}. Name a new directory") } else { message })
}

fn names(collections: &[String]) -> String {
    match collections {
        [] => "is no collection".into(),
        [one] => format!("is one collection, {one}"),
        many => format!("are the collections {}", many.join(", ")),
    }
}

/// Reads `--filter` and `--source`.
fn which(which: &Which) -> Outcome<Option<Filter>> {
    let sources = (!which.sources.is_empty()).then(|| Filter::of_sources(which.sources.iter().map(String::as_str)));
    Ok([filter(which.filter.as_ref())?, sources].into_iter().flatten().reduce(Filter::and))
}

/// Reads `--filter`.
fn filter(json: Option<&String>) -> Outcome<Option<Filter>> {
    let Some(json) = json else { return Ok(None) };
    Filter::parse(json).map(Some).map_err(|error| {
        // Of an object the message names what is wrong in it; whoever wrote something else has not seen one yet.
        let object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(json).is_ok();
        Failure::from(error).reworded(|message| match object {
            true => message,
            false => format!(r#"{message}. One is --filter '{{"year":{{"$gte":2020}}}}'"#),
        })
    })
}

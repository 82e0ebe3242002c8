//! `triune build`: a new database out of JSON lines, of a NumPy file, or of both, in one commit.

mod source;

use super::progress::Stages;
use crate::args::BuildArgs;
use crate::embedder::{self, STOP, Wanted};
use crate::output::{Counted, Failure, Out, Outcome, note, report};
use source::Source;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use triune::models::Embedder;
use triune::{BuildReport, Builder, Document, Error, ErrorCode, Options, Schema};

pub(crate) fn run(args: &BuildArgs, out: &mut Out) -> Outcome<()> {
    let started = Instant::now();
    // Everything that can be checked is checked before the first file is made.
    let mut schema = super::create::schema(&args.schema)?;
    let embedder = named(args, &mut schema)?;
    let mut source = Source::open(args, embedder, &schema.source_key)?;
    let bar = super::load::progress(args.input.as_deref().unwrap_or("-"));
    let stages = Stages::after(bar.clone());
    let options = Options { build_threads: args.threads.map_or(0, usize::from), observer: Some(stages.observer()), ..Options::default() };
    let building = Building::watch(out.json())?;
    let mut builder = Builder::create(&args.target.database, options).map_err(super::taken)?;
    builder.collection(&args.target.collection, schema)?;
    building.begin(builder);
    let built = source.feed(&building, &bar).and_then(|()| building.finish());
    stages.clear();
    building.leave();
    let built = built.map_err(|f| unfinished(f, &args.target.database))?;
    source.without_text(built.vectors > 0).into_iter().for_each(note);
    if let Some(name) = args.embedder_name.as_ref().filter(|_| built.documents > 0 && built.vectors == 0) {
        let collection = &args.target.collection;
        note(format_args!("{collection} names the embedder {name:?}, and no document came with a vector: --vectors gives them"));
    }
    tell(args, &built, started.elapsed(), out)
}

/// A build that failed, with what became of what it made. The disk's errors name a file alone, which may be full in either of two directories.
fn unfinished(failure: Failure, path: &Path) -> Failure {
    let Failure::Refused { code, .. } = failure else { return failure };
    // The build had the place for itself, so what is there now is its own.
    let left = code != ErrorCode::OutcomeUnknown && path.join("HEAD").exists();
    let path = path.display();
    if left {
        return failure.reworded(|message| {
            format!(
                "{message}. What was begun in {path} stays, and nothing in it counts: run the same command again, which begins anew there"
            )
        });
    }
    if !matches!(code, ErrorCode::Io | ErrorCode::DiskFull) {
        return failure;
    }
    failure.reworded(|message| format!("{message}. Nothing was made in {path}"))
}

/// Writes into the schema whose vectors the collection holds, and gives the embedder that is to make them.
fn named(args: &BuildArgs, schema: &mut Schema) -> Outcome<Option<Box<dyn Embedder>>> {
    if let Some(name) = &args.embedder_name {
        embedder::named(name, schema);
    }
    triune::check_new_collection(&args.target.collection, schema)?;
    let Some(given) = &args.embedder else { return Ok(None) };
    let embedder = Wanted::parse(Some(given))?.for_new_collection()?;
    if let Some(embedder) = &embedder {
        embedder::name(&**embedder, schema);
        schema.validate()?;
    }
    Ok(embedder)
}

/// How long something took, in a unit in which that is no zero.
pub(super) fn took(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 0.1 { format!("{:.2} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

fn tell(args: &BuildArgs, built: &BuildReport, time: Duration, out: &mut Out) -> Outcome<()> {
    let path = args.target.database.display();
    if out.json() {
        return out.object(&serde_json::json!({
            "database": path.to_string(),
            "collection": args.target.collection,
            "documents": built.documents,
            "vectors": built.vectors,
            "segments": built.segments,
            "graphs": built.graphs,
            "recall_at_ef_64": built.recall,
            "bytes": built.bytes,
            "seconds": time.as_secs_f64(),
        }));
    }
    out.line(format_args!(
        "built {path}: {}, {} in {} with {}, {} bytes, in {}",
        Counted(built.documents, "document"),
        Counted(built.vectors, "vector"),
        Counted(built.segments, "segment"),
        Counted(built.graphs, "vector graph"),
        built.bytes,
        took(time)
    ))?;
    match built.recall {
        Some(recall) => out.line(format_args!("recall@10 at ef 64, measured when the graph was built: {recall:.4}")),
        None => Ok(()),
    }
}

/// How long a build has to notice Ctrl-C before the handler acts for it.
const PATIENCE: Duration = Duration::from_millis(300);

/// A build that Ctrl-C ends, whatever it waits for.
struct Building(Arc<Shared>);

#[derive(Default)]
struct Shared {
    requested: AtomicBool,
    /// The flag that the builder looks at, once there is one.
    flag: Mutex<Option<Arc<AtomicBool>>>,
    /// Taken out to be finished or given up; whoever does so has the last word.
    builder: Mutex<Option<Builder>>,
}

impl Building {
    /// Takes over Ctrl-C. A build that works notices it by itself. One that is blocked in a read (of a pipe that stays silent) does not: then the
    /// handler removes what was made, and ends the process.
    fn watch(json: bool) -> Outcome<Building> {
        let building = Building(Arc::default());
        let shared = building.0.clone();
        let handler = move || {
            shared.request();
            std::thread::sleep(PATIENCE);
            let builder = shared.builder.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Without one, and once there was one, it is being finished, and hears of it.
            if builder.is_some() || shared.flag.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
                drop(builder);
                report(json, ErrorCode::Interrupted, "stopped by Ctrl-C; no database was made");
                std::process::exit(i32::from(ErrorCode::Interrupted.exit_status()));
            }
        };
        ctrlc::set_handler(handler)
            .map_err(|e| Failure::Refused { code: ErrorCode::Io, message: format!("Ctrl-C cannot be handled: {e}") })?;
        Ok(building)
    }

    fn begin(&self, builder: Builder) {
        *self.0.flag.lock().unwrap_or_else(PoisonError::into_inner) = Some(builder.interrupt());
        *self.builder() = Some(builder);
        if self.0.requested.load(Ordering::SeqCst) {
            self.0.request();
        }
    }

    fn builder(&self) -> MutexGuard<'_, Option<Builder>> {
        self.0.builder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, document: Document) -> triune::Result<()> {
        let mut guard = self.builder();
        let result = guard.as_mut().unwrap_or_else(|| ended_by_handler()).push(document);
        if matches!(result, Err(Error::Interrupted(_))) {
            *guard = None;
        }
        result
    }

    fn position(&self, id: &str) -> Option<u64> {
        self.builder().as_ref()?.position(id).ok()?
    }

    /// Removes what was made, unless it is finished. The handler keeps the rest of it for as long as the process lives.
    fn leave(&self) {
        *self.builder() = None;
    }

    fn finish(&self) -> Outcome<BuildReport> {
        let taken = self.builder().take();
        Ok(taken.unwrap_or_else(|| ended_by_handler()).finish()?)
    }
}

impl Shared {
    /// Lets the builder know.
    fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
        STOP.cancel();
        if let Some(flag) = &*self.flag.lock().unwrap_or_else(PoisonError::into_inner) {
            flag.store(true, Ordering::SeqCst);
        }
    }
}

/// The handler has the builder and is ending the process.
fn ended_by_handler() -> ! {
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_told_as_zero() {
        assert_eq!(took(Duration::from_micros(340)), "0.34 ms");
        assert_eq!(took(Duration::from_millis(47)), "47.00 ms");
        assert_eq!(took(Duration::from_millis(1250)), "1.25 s");
    }
}

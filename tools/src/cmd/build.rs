//! `triune build`: a new database out of JSON lines, of a NumPy file, or of both, in one commit.
//!
//! Lines are counted twice, as by `load`: by their place in the file (for messages) and without the blank ones (for rows of vectors).

use super::load::{all_rows_given, give_row};
use super::progress::Stages;
use crate::args::BuildArgs;
use crate::jsonl::{Form, Lines};
use crate::npy;
use crate::output::{Counted, Failure, Out, Outcome, report};
use indicatif::ProgressBar;
use std::fs::File;
use std::io::BufReader;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use triune::{BuildReport, Builder, Document, Error, ErrorCode, Options};

pub(crate) fn run(args: &BuildArgs, out: &mut Out) -> Outcome<()> {
    let started = Instant::now();
    // Everything that can be checked is checked before the first file is made.
    let schema = super::create::schema(&args.schema)?;
    let mut source = Source::open(args)?;
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
    tell(args, &built?, started.elapsed(), out)
}

fn tell(args: &BuildArgs, built: &BuildReport, took: Duration, out: &mut Out) -> Outcome<()> {
    let (path, seconds) = (args.target.database.display(), took.as_secs_f64());
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
            "seconds": seconds,
        }));
    }
    out.line(format_args!(
        "built {path}: {}, {} in {} with {}, {} bytes, in {seconds:.2} s",
        Counted(built.documents, "document"),
        Counted(built.vectors, "vector"),
        Counted(built.segments, "segment"),
        Counted(built.graphs, "vector graph"),
        built.bytes
    ))?;
    match built.recall {
        Some(recall) => out.line(format_args!("recall@10 at ef 64, measured when the graph was built: {recall:.4}")),
        None => Ok(()),
    }
}

/// Where documents come from.
enum Source {
    Lines { lines: Lines, form: Form, vectors: Option<npy::Rows<BufReader<File>>>, places: Places },
    Rows { rows: npy::Rows<BufReader<File>>, ids: Option<Lines>, name: String },
}

impl Source {
    fn open(args: &BuildArgs) -> Outcome<Source> {
        let vectors = args.vectors.as_deref().map(npy::open).transpose()?;
        if let Some(input) = &args.input {
            let form = Form::new(&args.form.text_field, args.form.rest_to_metadata)?;
            return Ok(Source::Lines { lines: Lines::open(input)?, form, vectors, places: Places::default() });
        }
        let (Some(rows), Some(path)) = (vectors, &args.vectors) else {
            return Err(Failure::invalid("nothing to build of: give --input, --vectors or both"));
        };
        Ok(Source::Rows { rows, ids: args.ids.as_deref().map(Lines::open).transpose()?, name: path.display().to_string() })
    }

    /// Gives every document to the builder.
    fn feed(&mut self, building: &Building, bar: &ProgressBar) -> Outcome<()> {
        for count in 0.. {
            let document = self.next(count).map_err(|f| self.placed(f, count))?;
            let Some(document) = document else { return Ok(()) };
            let id = document.id.clone();
            if let Err(error) = building.push(document) {
                let failure = self.twice(&error, building, &id).unwrap_or_else(|| error.into());
                return Err(self.placed(failure, count));
            }
            if let Source::Lines { lines, .. } = self {
                bar.set_position(lines.bytes());
            }
        }
        Ok(())
    }

    /// The next document, after `count` others.
    fn next(&mut self, count: u64) -> Outcome<Option<Document>> {
        match self {
            Source::Lines { lines, form, vectors, places } => {
                let Some(line) = lines.next_line()? else {
                    all_rows_given(vectors.as_ref(), count)?;
                    return Ok(None);
                };
                let document = form.document(line);
                places.note(count, lines.number());
                let mut document = document?;
                give_row(&mut document, vectors.as_mut())?;
                Ok(Some(document))
            }
            Source::Rows { rows, ids, .. } => {
                let id = match ids {
                    None => count.to_string(),
                    Some(ids) => match ids.next_line()? {
                        Some(line) => line.trim_end_matches(['\r', '\n']).to_string(),
                        None => {
                            all_rows_given(Some(rows), count)?;
                            return Ok(None);
                        }
                    },
                };
                let Some(vector) = rows.next_row()? else {
                    return match ids {
                        None => Ok(None),
                        Some(_) => Err(Failure::invalid(format!("--ids goes on after the {} of --vectors", Counted(count, "row")))),
                    };
                };
                Ok(Some(Document::new(id).vector(vector)))
            }
        }
    }

    /// The failure of a document whose id came before.
    fn twice(&self, error: &Error, building: &Building, id: &str) -> Option<Failure> {
        let Error::DuplicateId(_) = error else { return None };
        let first = self.place(building.position(id)?);
        Some(Failure::Refused { code: ErrorCode::DuplicateId, message: format!("the id {id:?} stands in {first} already") })
    }

    /// Where the document stands that came after `count` others.
    fn place(&self, count: u64) -> String {
        match self {
            Source::Lines { places, .. } => format!("line {}", places.line(count)),
            Source::Rows { ids: Some(_), .. } => format!("line {}", count + 1),
            Source::Rows { .. } => format!("row {count}"),
        }
    }

    fn placed(&self, failure: Failure, count: u64) -> Failure {
        if matches!(failure, Failure::Refused { code: ErrorCode::Interrupted | ErrorCode::DiskFull | ErrorCode::Io, .. }) {
            return failure;
        }
        let place = match self {
            Source::Lines { lines, .. } => format!("{}, line {}", lines.name(), lines.number()),
            Source::Rows { ids: Some(ids), .. } => format!("{}, line {}", ids.name(), ids.number()),
            Source::Rows { name, .. } => format!("{name}, row {count}"),
        };
        failure.reworded(|message| format!("{place}: {message}. No database was made"))
    }
}

/// On which line each document stands: kept only where blank lines make it another than the one after the last.
#[derive(Default)]
struct Places(Vec<(u64, u64)>);

impl Places {
    fn note(&mut self, count: u64, line: u64) {
        if self.line(count) != line {
            self.0.push((count, line));
        }
    }

    fn line(&self, count: u64) -> u64 {
        let before = self.0.partition_point(|(at, _)| *at <= count);
        let (at, line) = before.checked_sub(1).map_or((0, 1), |i| self.0[i]);
        line + (count - at)
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
    fn the_line_of_every_document_is_known_where_blank_ones_stand_between() {
        let mut places = Places::default();
        let lines = [1, 2, 5, 6, 7, 9, 10];
        for (count, line) in (0..).zip(lines) {
            places.note(count, line);
        }
        assert_eq!(places.0.len(), 2);
        assert_eq!((0..7).map(|count| places.line(count)).collect::<Vec<_>>(), lines);
    }
}

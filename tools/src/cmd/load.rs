//! `triune load`: documents from JSON lines, so many lines a commit, one `put` a line.
//!
//! Lines are counted twice: by their place in the file (for messages) and without the blank ones (for commits and for rows of vectors).
//! Memory is one batch and one line.

use super::interrupt::Interrupt;
use crate::args::LoadArgs;
use crate::embedder::{self, Wanted};
use crate::jsonl::{Form, Lines};
use crate::npy;
use crate::output::{Counted, Failure, Out, Outcome, note};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{BufReader, Read};
use std::time::Instant;
use triune::models::Embedder;
use triune::{Database, Document, Durability, ErrorCode, Schema, WriteBatch};

pub(crate) fn run(args: &LoadArgs, out: &mut Out) -> Outcome<()> {
    let form = Form::new(&args.form.text_field, args.form.rest_to_metadata)?;
    let lines = Lines::open(&args.file)?;
    let vectors = args.vectors.as_deref().map(npy::open).transpose()?;
    let database = super::open_for_writing(&args.target.database)?;
    let schema = super::collection(&database.snapshot(), &args.target)?.schema().clone();
    let embedder = match &args.embedder {
        Some(given) => Wanted::parse(Some(given))?.for_documents(&args.target.collection, &schema)?,
        None => None,
    };
    let interrupt = Interrupt::install(lines.name(), "line", out.json())?;
    let progress = progress(&args.file);
    let started = Instant::now();

    let mut loader = Loader {
        database: &database,
        collection: &args.target.collection,
        durability: args.durability.into(),
        batch: Vec::new(),
        batch_starts: 1,
        batch_max: args.batch,
        schema,
        embedder,
        lines,
        vectors,
        interrupt: &interrupt,
        progress: &progress,
        reading: true,
        had_vector: false,
    };
    let loaded = loader.run(&form, out);
    progress.finish_and_clear();
    let named = loader.schema.embedder.take().filter(|_| loader.embedder.is_none() && !loader.had_vector);
    let without_text = form.without_text(loader.had_vector);
    let closed = interrupt.close(|| database.close());
    loaded?;
    without_text.into_iter().for_each(note);
    if let Some(named) = named.filter(|_| interrupt.committed() > 0) {
        let collection = &args.target.collection;
        note(format_args!("{collection} names the embedder {named:?}, and the lines got no vectors: --embedder makes them"));
    }
    if !out.json() {
        let committed = interrupt.committed();
        let seconds = started.elapsed().as_secs_f64();
        out.line(format_args!(
            "loaded {} into {} in {seconds:.2} s ({:.0} lines/s)",
            Counted(committed, "line"),
            args.target.collection,
            committed as f64 / seconds.max(1e-9)
        ))?;
    }
    Ok(closed?)
}

struct Loader<'a> {
    database: &'a Database,
    collection: &'a str,
    durability: Durability,
    /// The documents of the lines read since the last commit.
    batch: Vec<Document>,
    /// Number of the batch's first line in the file.
    batch_starts: u64,
    batch_max: u64,
    /// As stored, with the dimension once a vector has fixed it.
    schema: Schema,
    embedder: Option<Box<dyn Embedder>>,
    lines: Lines,
    vectors: Option<npy::Rows<BufReader<File>>>,
    interrupt: &'a Interrupt,
    progress: &'a ProgressBar,
    /// Whether someone still reads the `--json` lines. A load goes on without.
    reading: bool,
    /// Whether some document came with a vector.
    had_vector: bool,
}

impl Loader<'_> {
    fn run(&mut self, form: &Form, out: &mut Out) -> Outcome<()> {
        loop {
            self.interrupt.check()?;
            let read = match self.lines.next_line() {
                Ok(None) => break,
                Ok(Some(line)) => form.document(line),
                Err(failure) => Err(failure),
            };
            let document = read.and_then(|d| self.complete(d)).map_err(|f| self.at_line(f))?;
            if self.batch.is_empty() {
                self.batch_starts = self.lines.number();
            }
            self.batch.push(document);
            if self.batch.len() as u64 == self.batch_max {
                self.commit(out)?;
            }
        }
        self.no_rows_left()?;
        self.commit(out)
    }

    /// Adds the line's row of `--vectors`, and checks what a commit would refuse without knowing the line.
    fn complete(&mut self, mut document: Document) -> Outcome<Document> {
        give_row(&mut document, self.vectors.as_mut())?;
        if self.embedder.is_some() && document.vector.is_some() {
            return Err(Failure::invalid("the line has a key \"vector\" and --embedder makes one; give one of them"));
        }
        document.validate()?;
        self.had_vector |= document.vector.is_some();
        if let Some(vector) = &document.vector {
            let length = vector.len() as u32;
            let dimension = *self.schema.dimension.get_or_insert(length);
            if length != dimension {
                let message = format!("the vector has {length} components; those of {} have {dimension}", self.collection);
                return Err(Failure::Refused { code: ErrorCode::SchemaMismatch, message });
            }
        }
        one_source(&document, &self.schema.source_key)?;
        Ok(document)
    }

    /// At the end of the lines: every row of `--vectors` must have had its line, or nothing of the last batch is committed.
    fn no_rows_left(&mut self) -> Outcome<()> {
        all_rows_given(self.vectors.as_ref(), self.interrupt.committed() + self.batch.len() as u64).map_err(|f| self.at_line(f))
    }

    /// Gives the documents that have text the vectors of the embedder.
    fn embed(&self, documents: &mut [Document]) -> Outcome<()> {
        let Some(embedder) = &self.embedder else { return Ok(()) };
        let texts: Vec<&str> = documents.iter().map(|d| d.text.as_str()).collect();
        let vectors = embedder::of_documents(&**embedder, &texts)?;
        documents.iter_mut().zip(vectors).for_each(|(document, vector)| document.vector = vector);
        Ok(())
    }

    fn commit(&mut self, out: &mut Out) -> Outcome<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let mut documents = std::mem::take(&mut self.batch);
        let lines = documents.len() as u64;
        self.embed(&mut documents).map_err(|f| self.interrupt.check().err().unwrap_or_else(|| self.at_batch(f)))?;
        let mut batch = WriteBatch::new();
        // One put a line: a later line of the same id replaces an earlier one, also inside a batch.
        for document in documents {
            batch.put(self.collection, vec![document]);
        }
        let (database, durability) = (self.database, self.durability);
        self.interrupt.commit(lines, || database.commit_with(batch, durability).map_err(|e| self.at_batch(e.into())))?;
        self.progress.set_position(self.lines.bytes());
        self.progress.set_message(format!("{} lines committed", self.interrupt.committed()));
        if out.json() && self.reading {
            let told = out.object(&serde_json::json!({ "committed": self.interrupt.committed() })).and_then(|()| out.flush());
            match told {
                Err(Failure::OutputClosed) => self.reading = false,
                other => other?,
            }
        }
        Ok(())
    }

    /// A failure of the line read last.
    fn at_line(&self, failure: Failure) -> Failure {
        let place = format!("{}, line {}", self.lines.name(), self.lines.number());
        self.placed(failure, &place)
    }

    /// A failure of the batch as a whole.
    fn at_batch(&self, failure: Failure) -> Failure {
        let place = format!("{}, lines {} to {}", self.lines.name(), self.batch_starts, self.lines.number());
        self.placed(failure, &place)
    }

    fn placed(&self, failure: Failure, place: &str) -> Failure {
        let committed = match self.interrupt.committed() {
            0 => "Nothing was committed".to_string(),
            1 => "1 line is committed, none after it".to_string(),
            n => format!("{n} lines are committed, none after them"),
        };
        // Of a commit whose outcome is unknown nobody can say that it is not there.
        let unknown = matches!(failure, Failure::Refused { code: ErrorCode::OutcomeUnknown, .. });
        let failure = if self.interrupt.committed() > 0 { failure.after_commits() } else { failure };
        failure.reworded(|message| match unknown {
            true => format!("{place}: {message}. {} before these are committed", Counted(self.interrupt.committed(), "line")),
            false => format!("{place}: {message}. {committed}"),
        })
    }
}

/// Refuses a line with another source than its metadata name under the collection's key, as a commit would, which knows no flags.
pub(super) fn one_source(document: &Document, key: &str) -> Outcome<()> {
    if let (Some(source), Some(metadata)) = (&document.source, &document.metadata)
        && let Some(named) = metadata.string(key)
        && named != *source
    {
        return Err(Failure::invalid(format!(
            "the source is {source:?} and the metadata's {key:?} is {named:?}; they name one source. A collection that is made with \
             `--source-key KEY` looks at another key: lines of what `ingest` made need `--source-key file_path`"
        )));
    }
    Ok(())
}

/// Gives a line its row of `--vectors`, if there are any.
pub(super) fn give_row<R: Read>(document: &mut Document, rows: Option<&mut npy::Rows<R>>) -> Outcome<()> {
    let Some(rows) = rows else { return Ok(()) };
    if document.vector.is_some() {
        return Err(Failure::invalid("the line has a key \"vector\" and --vectors has a row for it; give one of them"));
    }
    let row = rows.next_row()?;
    let none = || Failure::invalid(format!("--vectors has {}, and this line is beyond them", Counted(rows.rows(), "row")));
    document.vector = Some(row.ok_or_else(none)?);
    Ok(())
}

/// At the end of so many lines: every row of `--vectors` must have had its line.
pub(super) fn all_rows_given<R: Read>(rows: Option<&npy::Rows<R>>, lines: u64) -> Outcome<()> {
    match rows.map(npy::Rows::rows) {
        Some(rows) if rows != lines => Err(Failure::invalid(format!(
            "--vectors has {} and the lines end here after {}; row i belongs to line i",
            Counted(rows, "row"),
            Counted(lines, "line")
        ))),
        _ => Ok(()),
    }
}

/// Bytes read of the file, or only lines when its length is not known. Drawn on a terminal only.
pub(super) fn progress(file: &str) -> ProgressBar {
    let length = (file != "-").then(|| std::fs::metadata(file).ok().filter(|m| m.is_file()).map(|m| m.len())).flatten();
    let (bar, template) = match length {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:30} {percent:>3}% {msg} {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the templates are constant and parse"))
}

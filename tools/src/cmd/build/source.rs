//! Where the documents of a build come from: lines, rows of an array, or both.
//!
//! Lines are counted twice, as by `load`: by their place in the file (for messages) and without the blank ones (for rows of vectors).

use super::Building;
use crate::args::BuildArgs;
use crate::cmd::load::{all_rows_given, give_row, one_source};
use crate::embedder;
use crate::jsonl::{Form, Lines};
use crate::npy;
use crate::output::{Counted, Failure, Outcome};
use indicatif::ProgressBar;
use std::fs::File;
use std::io::BufReader;
use triune::models::Embedder;
use triune::{Document, Error, ErrorCode};

/// Lines whose texts an embedder is asked for at once.
const EMBEDDED_AT_ONCE: usize = 256;

/// Where documents come from.
pub(super) enum Source {
    Lines {
        lines: Lines,
        form: Form,
        vectors: Option<npy::Rows<BufReader<File>>>,
        embedder: Option<Box<dyn Embedder>>,
        places: Places,
        source_key: String,
    },
    Rows {
        rows: npy::Rows<BufReader<File>>,
        ids: Option<Lines>,
        name: String,
    },
}

impl Source {
    /// Opens what is given. The embedder makes the vectors of lines, which have none of their own then.
    pub(super) fn open(args: &BuildArgs, embedder: Option<Box<dyn Embedder>>, source_key: &str) -> Outcome<Source> {
        let vectors = args.vectors.as_deref().map(npy::open).transpose()?;
        if let Some(input) = &args.input {
            let form = Form::new(&args.form.text_field, args.form.rest_to_metadata)?;
            let (lines, places, source_key) = (Lines::open(input)?, Places::default(), source_key.to_string());
            return Ok(Source::Lines { lines, form, vectors, embedder, places, source_key });
        }
        let (Some(rows), Some(path)) = (vectors, &args.vectors) else {
            return Err(Failure::invalid("nothing to build of: give --input, --vectors or both"));
        };
        Ok(Source::Rows { rows, ids: args.ids.as_deref().map(Lines::open).transpose()?, name: path.display().to_string() })
    }

    /// Gives every document to the builder.
    pub(super) fn feed(&mut self, building: &Building, bar: &ProgressBar) -> Outcome<()> {
        let (mut waiting, mut given) = (Vec::<Document>::new(), 0_u64);
        loop {
            let count = given + waiting.len() as u64;
            let document = self.next(count).map_err(|f| placed(f, &self.here(count)))?;
            let ended = document.is_none();
            waiting.extend(document);
            if ended || waiting.len() >= self.at_once() {
                given += waiting.len() as u64;
                self.give(&mut waiting, count + u64::from(!ended), building)?;
                if let Source::Lines { lines, .. } = self {
                    bar.set_position(lines.bytes());
                }
            }
            if ended {
                return Ok(());
            }
        }
    }

    /// How many documents wait until they are given: a program answers many texts sooner than each by itself.
    fn at_once(&self) -> usize {
        if let Source::Lines { embedder: Some(_), .. } = self { EMBEDDED_AT_ONCE } else { 1 }
    }

    /// Gives the builder the last of the first `count` documents, with their vectors.
    fn give(&self, waiting: &mut Vec<Document>, count: u64, building: &Building) -> Outcome<()> {
        let first = count - waiting.len() as u64;
        self.embed(waiting).map_err(|f| placed(f, &self.between(first, count)))?;
        for (count, document) in (first..).zip(waiting.drain(..)) {
            let id = document.id.clone();
            if let Err(error) = building.push(document) {
                let failure = self.twice(&error, building, &id).unwrap_or_else(|| error.into());
                return Err(placed(failure, &self.given(count)));
            }
        }
        Ok(())
    }

    fn embed(&self, documents: &mut [Document]) -> Outcome<()> {
        let Source::Lines { embedder: Some(embedder), .. } = self else { return Ok(()) };
        if documents.is_empty() {
            return Ok(());
        }
        let texts: Vec<&str> = documents.iter().map(|d| d.text.as_str()).collect();
        let vectors = embedder::of_documents(&**embedder, &texts).map_err(|mut failure| {
            if let Failure::Refused { code: ErrorCode::Interrupted, message } = &mut failure {
                message.push_str("; no database was made");
            }
            failure
        })?;
        documents.iter_mut().zip(vectors).for_each(|(document, vector)| document.vector = vector);
        Ok(())
    }

    /// The next document, after `count` others.
    fn next(&mut self, count: u64) -> Outcome<Option<Document>> {
        match self {
            Source::Lines { lines, form, vectors, embedder, places, source_key } => {
                let Some(line) = lines.next_line()? else {
                    all_rows_given(vectors.as_ref(), count)?;
                    return Ok(None);
                };
                let document = form.document(line);
                places.note(count, lines.number());
                let mut document = document?;
                give_row(&mut document, vectors.as_mut())?;
                if embedder.is_some() && document.vector.is_some() {
                    return Err(Failure::invalid("the line has a key \"vector\" and --embedder makes one; give one of them"));
                }
                one_source(&document, source_key)?;
                Ok(Some(document))
            }
            Source::Rows { rows, ids, .. } => row(rows, ids.as_mut(), count),
        }
    }

    /// What is to be said when no line had text.
    pub(super) fn without_text(&self, had_vector: bool) -> Option<String> {
        match self {
            Source::Lines { form, .. } => form.without_text(had_vector),
            Source::Rows { .. } => None,
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

    /// Where in which file reading has come to, after `count` documents.
    fn here(&self, count: u64) -> String {
        match self {
            Source::Lines { lines, .. } => format!("{}, line {}", lines.name(), lines.number()),
            Source::Rows { ids: Some(ids), .. } => format!("{}, line {}", ids.name(), ids.number()),
            Source::Rows { name, .. } => format!("{name}, row {count}"),
        }
    }

    /// Where in which file the document stands that was read after `count` others. Lines may have waited; rows are given as they are read.
    fn given(&self, count: u64) -> String {
        match self {
            Source::Lines { lines, places, .. } => format!("{}, line {}", lines.name(), places.line(count)),
            Source::Rows { .. } => self.here(count),
        }
    }

    /// Where in which file the documents stand that were read after `first` others and before `end` were.
    fn between(&self, first: u64, end: u64) -> String {
        match self {
            Source::Lines { lines, places, .. } => {
                format!("{}, lines {} to {}", lines.name(), places.line(first), places.line(end.saturating_sub(1)))
            }
            Source::Rows { .. } => self.here(first),
        }
    }
}

/// The next row as a document, after `count` others.
fn row(rows: &mut npy::Rows<BufReader<File>>, ids: Option<&mut Lines>, count: u64) -> Outcome<Option<Document>> {
    let Some(ids) = ids else { return Ok(rows.next_row()?.map(|vector| Document::new(count.to_string()).vector(vector))) };
    let id = match ids.next_line()? {
        Some(line) => line.trim_end_matches(['\r', '\n']).to_string(),
        None => {
            all_rows_given(Some(&*rows), count)?;
            return Ok(None);
        }
    };
    match rows.next_row()? {
        Some(vector) => Ok(Some(Document::new(id).vector(vector))),
        None => Err(Failure::invalid(format!("--ids goes on after the {} of --vectors", Counted(count, "row")))),
    }
}

fn placed(failure: Failure, place: &str) -> Failure {
    if matches!(failure, Failure::Refused { code: ErrorCode::Interrupted | ErrorCode::DiskFull | ErrorCode::Io, .. }) {
        return failure;
    }
    failure.reworded(|message| format!("{place}: {message}. No database was made"))
}

/// On which line each document stands: kept only where blank lines make it another than the one after the last.
#[derive(Default)]
pub(super) struct Places(Vec<(u64, u64)>);

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

//! Questions and judgements, as the usual collections give them.

use super::metrics::Grades;
use crate::jsonl::{Fields, Lines, value};
use crate::npy;
use crate::output::{Counted, Failure, Outcome};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// A question that has a relevant document.
pub(super) struct Judged {
    pub(super) text: String,
    pub(super) vector: Option<Vec<f32>>,
    pub(super) grades: Grades,
}

/// The questions, in their order, and how many of the file have no relevant document.
pub(super) fn read(queries: &str, qrels: &str, vectors: Option<&Path>) -> Outcome<(Vec<Judged>, u64)> {
    let mut grades = judgements(qrels)?;
    let mut lines = Lines::open(queries)?;
    let mut rows = vectors.map(npy::open).transpose()?;
    let (mut judged, mut unjudged, mut count, mut seen) = (Vec::new(), 0, 0u64, HashSet::new());
    loop {
        let place = |f: Failure, lines: &Lines| f.reworded(|m| format!("{}, line {}: {m}", lines.name(), lines.number()));
        let read = match lines.next_line() {
            Ok(None) => break,
            Ok(Some(line)) => question(line),
            Err(failure) => Err(failure),
        };
        let read = read.and_then(|(id, text)| match seen.insert(id.clone()) {
            true => Ok((id, text)),
            false => Err(Failure::invalid(format!("the question {id:?} is on an earlier line, too"))),
        });
        let (id, text) = read.map_err(|f| place(f, &lines))?;
        count += 1;
        let vector = match &mut rows {
            Some(rows) => Some(rows.next_row()?.ok_or_else(|| Failure::invalid("--query-vectors has fewer rows than --queries lines"))?),
            None => None,
        };
        match grades.remove(&id) {
            Some(grades) if !grades.is_empty() => judged.push(Judged { text, vector, grades }),
            _ => unjudged += 1,
        }
    }
    if let Some(rows) = rows.filter(|r| r.rows() != count) {
        let (rows, lines) = (Counted(rows.rows(), "row"), Counted(count, "line"));
        return Err(Failure::invalid(format!("--query-vectors has {rows} and --queries {lines}; row i belongs to line i")));
    }
    if judged.is_empty() {
        return Err(Failure::invalid("no question of --queries has a relevant document in --qrels"));
    }
    Ok((judged, unjudged))
}

/// Id and text of a line. Other keys are passed over.
fn question(line: &str) -> Outcome<(String, String)> {
    let fields = Fields::parse(line)?;
    let id = match (fields.get("id"), fields.get("_id")) {
        (Some(raw), _) | (None, Some(raw)) => value("id", raw, "a string")?,
        (None, None) => return Err(Failure::invalid("the line has no id")),
    };
    let text: String = match (fields.get("text"), fields.get("query")) {
        (Some(raw), _) | (None, Some(raw)) => value("text", raw, "a string")?,
        (None, None) => return Err(Failure::invalid("the line has no text")),
    };
    if text.trim().is_empty() {
        return Err(Failure::invalid("the text is empty, which is no question"));
    }
    Ok((id, text))
}

/// Whether the last column of a first row names what stands below it, and is no grade that cannot be read.
fn is_name(column: &str) -> bool {
    column.trim().parse::<f64>().is_err() && !column.contains(|c: char| c.is_ascii_digit())
}

/// By question, its relevant documents.
fn judgements(file: &str) -> Outcome<HashMap<String, Grades>> {
    let mut lines = Lines::open(file)?;
    let mut all: HashMap<String, Grades> = HashMap::new();
    let mut number = 0u64;
    loop {
        let read = lines.next_line();
        let Some(line) = read.map_err(|f| f.reworded(|m| format!("{file}, line {}: {m}", number + 1)))? else { break };
        number += 1;
        let columns: Vec<&str> = line.trim_end_matches(['\r', '\n']).split('\t').collect();
        let columns = if columns.len() == 1 { line.split_whitespace().collect() } else { columns };
        let read = match columns[..] {
            [query, document, grade] | [query, _, document, grade] => grade.trim().parse::<f64>().ok().map(|g| (query, document, g)),
            _ => None,
        };
        match read {
            Some((query, document, grade)) if grade.is_finite() => {
                // Of a pair that is judged twice the last judgement holds.
                let of_query = all.entry(query.to_string()).or_default();
                if grade > 0.0 {
                    of_query.insert(document.to_string(), grade);
                } else {
                    of_query.remove(document);
                }
            }
            // The names of the columns.
            _ if number == 1 && columns.last().is_some_and(|name| is_name(name)) => {}
            _ => {
                let message = "not a question, a document and a grade, apart by tabs";
                return Err(Failure::invalid(format!("{file}, line {number} of those that are not blank: {message}")));
            }
        }
    }
    Ok(all)
}

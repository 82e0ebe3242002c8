//! Level 3 of a collection: what a search answers is what reading every document answers.

use super::check::Progress;
use super::codes::FindingCode as Code;
use super::live::Live;
use super::live::{LiveCollection, LiveSegment};
use super::report::{Finding, FsckReport};
use super::state::State;
use crate::document::StoredDocument;
use crate::error::{Error, Result};
use crate::ids::Seq;
use crate::memtable::Analysis;
use crate::options::Scorer;
use crate::text::bm25::{Weights, lucene_idf};
use crate::text::{CorpusStatistics, Posting, TextPart, TextReader, search};
use rustc_hash::FxHashMap;

/// Questions asked of each collection.
const QUESTIONS: usize = 8;
/// Answers compared of each question.
const ANSWERS: usize = 20;

/// Asks every collection in which nothing was found so far.
pub(super) fn check(state: &State, live: &Live, report: &mut FsckReport, progress: &mut Progress<'_>) -> Result<()> {
    let wanted = live.collections.iter().filter(|(i, c)| c.whole && state.only.is_none_or(|only| only == **i));
    for (_, collection) in wanted {
        let damaged = |f: &Finding| f.collection.as_deref().is_none_or(|name| name == collection.name);
        if !report.is_sound() && report.findings.iter().any(damaged) {
            continue;
        }
        progress.add(0)?;
        let asked = ask(state, collection);
        let detail = match asked {
            Ok(None) => continue,
            Ok(Some(differs)) => differs,
            Err(e @ Error::Interrupted(_)) => return Err(e),
            Err(e) => e.to_string(),
        };
        report.push(Finding {
            code: Code::SearchAnswer,
            file: state.manifest_file.clone(),
            offset: 0,
            collection: Some(collection.name.clone()),
            section: None,
            detail,
        });
    }
    Ok(())
}

/// A question: two terms.
type Question = [String; 2];

/// The first question that is answered wrongly, and how.
fn ask(state: &State, collection: &LiveCollection) -> Result<Option<String>> {
    let mut documents = 0u64;
    for_each(collection, |_, _| documents += 1)?;
    let step = (documents as usize / QUESTIONS).max(1);
    let mut questions: Vec<Question> = Vec::new();
    let (mut tokens, mut at) = (0u64, 0usize);
    for_each(collection, |_, document| {
        let analysis = Analysis::of_text(collection.schema.analyzer, &document.text);
        tokens += u64::from(analysis.tokens);
        let mut terms = analysis.terms.into_iter().map(|(term, _)| String::from(term));
        if at.is_multiple_of(step)
            && questions.len() < QUESTIONS
            && let Some(first) = terms.next()
        {
            questions.push([first.clone(), terms.next_back().unwrap_or(first)]);
        }
        at += 1;
    })?;
    let statistics = CorpusStatistics { documents, tokens };
    let expected = Expected::count(collection, &questions)?;
    let parts = parts(state, collection)?;
    for (i, question) in questions.iter().enumerate() {
        let found = search(&parts, question, Scorer::Lucene, &statistics, &mut || Ok(0.0), ANSWERS)?;
        let found: Result<Vec<(Seq, f64)>> =
            found.iter().map(|s| Ok((parts[s.address.part as usize].seq(s.address.row)?, s.score))).collect();
        let (found, wanted) = (found?, expected.answer(i, &statistics));
        let same = found.len() == wanted.len() && found.iter().zip(&wanted).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() <= 1e-9);
        if !same {
            let first = found.iter().zip(&wanted).find(|(a, b)| a != b);
            return Ok(Some(format!(
                "the search for {question:?} has {} answers, reading every document gives {}; the first that differ are {first:?}",
                found.len(),
                wanted.len()
            )));
        }
    }
    Ok(None)
}

/// Gives every living document with its seq.
fn for_each(collection: &LiveCollection, mut sink: impl FnMut(Seq, &StoredDocument)) -> Result<()> {
    for segment in &collection.segments {
        let mut scanner = segment.rows.scanner();
        for row in (0..segment.rows.rows()).filter(|row| !segment.dead.contains(*row)) {
            sink(segment.rows.seq(row)?, &scanner.document(row)?);
        }
    }
    collection.logged.values().filter(|row| !row.dead).for_each(|row| sink(row.seq, &row.document));
    Ok(())
}

/// What reading every document gives: of each question the documents that have one of its terms.
struct Expected {
    /// By question: seq, length, and how often each of the two terms stands in it.
    hits: Vec<Vec<(Seq, u32, [u32; 2])>>,
}

impl Expected {
    fn count(collection: &LiveCollection, questions: &[Question]) -> Result<Expected> {
        let mut hits = vec![Vec::new(); questions.len()];
        for_each(collection, |seq, document| {
            let analysis = Analysis::of_text(collection.schema.analyzer, &document.text);
            let counts: FxHashMap<&str, u32> = analysis.terms.iter().map(|(term, n)| (&**term, *n)).collect();
            for (question, hits) in questions.iter().zip(&mut hits) {
                let of: [u32; 2] = [0, 1].map(|i| counts.get(question[i].as_str()).copied().unwrap_or(0));
                if of != [0, 0] {
                    hits.push((seq, analysis.tokens, of));
                }
            }
        })?;
        Ok(Expected { hits })
    }

    /// The best answers to a question, best first.
    fn answer(&self, question: usize, statistics: &CorpusStatistics) -> Vec<(Seq, f64)> {
        let weights = Weights::new(Scorer::Lucene, statistics.documents, statistics.tokens);
        let hits = &self.hits[question];
        let idf = [0, 1].map(|i| lucene_idf(statistics.documents, hits.iter().filter(|h| h.2[i] > 0).count() as u64));
        let score = |(seq, length, counts): &(Seq, u32, [u32; 2])| {
            let norm = weights.norm(*length);
            let of = |i: usize| if counts[i] == 0 { 0.0 } else { weights.contribution(idf[i], counts[i], norm) };
            (*seq, of(0) + of(1))
        };
        let mut answers: Vec<(Seq, f64)> = hits.iter().map(score).collect();
        answers.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        answers.truncate(ANSWERS);
        answers
    }
}

/// One part of a collection: living rows only.
enum Part<'a> {
    Segment { text: Option<TextReader>, segment: &'a LiveSegment },
    Logged { rows: Vec<(Seq, Analysis)> },
}

fn parts<'a>(state: &State, collection: &'a LiveCollection) -> Result<Vec<Part<'a>>> {
    let mut parts = Vec::new();
    for segment in &collection.segments {
        let text = state.reader(&state.segments[segment.index]).map_or(Ok(None), |reader| TextReader::open(&reader?))?;
        parts.push(Part::Segment { text, segment });
    }
    let living = collection.logged.values().filter(|row| !row.dead);
    let rows = living.map(|row| (row.seq, Analysis::of_text(collection.schema.analyzer, &row.document.text))).collect();
    parts.push(Part::Logged { rows });
    Ok(parts)
}

impl TextPart for Part<'_> {
    fn collect(&self, term: &str, out: &mut Vec<Posting>) -> Result<()> {
        match self {
            Part::Segment { text, segment } => {
                let Some(text) = text else { return Ok(()) };
                let Some(info) = text.term(term.as_bytes())? else { return Ok(()) };
                let mut list = Vec::new();
                text.postings(&info, &mut list)?;
                out.extend(list.into_iter().filter(|p| !segment.dead.contains(p.row)));
            }
            Part::Logged { rows } => {
                for (row, (_, analysis)) in (0u32..).zip(rows) {
                    let count = analysis.terms.iter().find(|(t, _)| **t == *term).map(|(_, n)| *n);
                    out.extend(count.map(|frequency| Posting { row, frequency }));
                }
            }
        }
        Ok(())
    }

    fn length(&self, row: u32) -> Result<u32> {
        match self {
            Part::Segment { text, .. } => text.as_ref().map_or(Ok(0), |t| t.length(row)),
            Part::Logged { rows } => Ok(rows[row as usize].1.tokens),
        }
    }

    fn seq(&self, row: u32) -> Result<Seq> {
        match self {
            Part::Segment { segment, .. } => segment.rows.seq(row),
            Part::Logged { rows } => Ok(rows[row as usize].0),
        }
    }
}

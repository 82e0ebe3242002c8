//! Merges the text of several segments into that of one.

use super::analyzer::Analyzer;
use super::builder::TextBuilder;
use super::reader::{TermStream, TextReader};
use crate::error::{Error, Result};
use crate::format::postings::Posting;
use crate::format::terms::TermInfo;
use crate::segment::SegmentWriter;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A row that the merge drops, in a map from old rows to new ones.
pub const DROPPED: u32 = u32::MAX;

/// Writes the text sections of a segment that holds the rows of `inputs`, one input after the other.
///
/// Each input comes with the new number of each of its rows, or `u32::MAX` for a row that is dropped; new rows ascend within an input and
/// from one input to the next. `lengths` holds the token count of every new row. A term that no kept row holds is dropped. Statistics of the
/// rows kept are those that they had: nothing is recounted. Memory: the new dictionary and the postings of one term. O(postings + terms).
///
/// An input indexed by another analyzer is refused, as are rows out of order.
pub fn merge_text(inputs: &[(&TextReader, &[u32])], analyzer: &Analyzer, lengths: Vec<u32>, out: &mut SegmentWriter) -> Result<()> {
    let mut streams = Vec::with_capacity(inputs.len());
    let mut heads = BinaryHeap::with_capacity(inputs.len());
    for (i, (reader, rows)) in inputs.iter().enumerate() {
        reader.check_analyzer(analyzer)?;
        if rows.len() != reader.documents() as usize {
            return Err(Error::InvalidArgument(format!("input {i} has {} rows, its map names {}", reader.documents(), rows.len())));
        }
        streams.push(reader.terms()?);
        advance(&mut streams, &mut heads, i, Vec::new())?;
    }
    let mut builder = TextBuilder::begin(out, analyzer, lengths)?;
    let (mut term, mut old, mut new) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(head) = heads.peek() {
        term.clear();
        term.extend_from_slice(&head.0.term);
        new.clear();
        // Heads of one term come in the order of the inputs.
        while heads.peek().is_some_and(|head| head.0.term == term)
            && let Some(Reverse(head)) = heads.pop()
        {
            let (reader, rows) = inputs[head.input];
            old.clear();
            reader.postings(&head.info, &mut old)?;
            new.extend(old.iter().map(|p| Posting { row: rows[p.row as usize], ..*p }).filter(|p| p.row != DROPPED));
            advance(&mut streams, &mut heads, head.input, head.term)?;
        }
        if !new.is_empty() {
            builder.term(out, &term, &new)?;
        }
    }
    builder.finish(out)
}

/// The next term of one input. Ordered by term, then by input.
#[derive(Debug)]
struct Head {
    term: Vec<u8>,
    input: usize,
    info: TermInfo,
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Head {}
impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.term.cmp(&other.term).then(self.input.cmp(&other.input))
    }
}

/// Puts the next term of `input` among the heads, reusing a buffer.
fn advance(streams: &mut [TermStream<'_>], heads: &mut BinaryHeap<Reverse<Head>>, input: usize, mut term: Vec<u8>) -> Result<()> {
    if let Some((next, info)) = streams[input].next()? {
        term.clear();
        term.extend_from_slice(next);
        heads.push(Reverse(Head { term, input, info }));
    }
    Ok(())
}

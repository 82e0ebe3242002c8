//! Tests of the room as a whole: golden answers, a model, damage.

mod damage;
mod golden;
mod model;
mod oracle;

use super::*;
use crate::error::Result;
use crate::format::segment::SectionKind;
use crate::ids::{Seq, Uuid};
use crate::io::{Bytes, File};
use crate::options::AnalyzerKind;
use crate::segment::{SegmentReader, SegmentSummary, SegmentWriter};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A file in memory.
#[derive(Debug, Default)]
struct MemoryFile(Mutex<Vec<u8>>);

impl MemoryFile {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("no test panics with the lock").clone()
    }
}

impl File for MemoryFile {
    fn len(&self) -> std::io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        let from = offset as usize;
        buf.copy_from_slice(self.bytes().get(from..from + buf.len()).ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
    fn write_all_at(&self, offset: u64, buf: &[u8]) -> std::io::Result<()> {
        let mut bytes = self.0.lock().expect("no test panics with the lock");
        let end = offset as usize + buf.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(buf);
        Ok(())
    }
    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.0.lock().expect("no test panics with the lock").resize(len as usize, 0);
        Ok(())
    }
    fn map(&self, len: u64) -> std::io::Result<Bytes> {
        Bytes::new(self.bytes()).slice(0, len).ok_or(std::io::ErrorKind::UnexpectedEof.into())
    }
}

const DATABASE: Uuid = Uuid([7; 16]);

fn analyzer() -> Analyzer {
    Analyzer::new(AnalyzerKind::Word)
}

fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    analyzer().tokens(text, &mut |t| out.push(t.to_string()));
    out
}

/// A segment's bytes, written by `write`.
fn segment(write: impl FnOnce(&mut SegmentWriter) -> Result<()>) -> Result<(Vec<u8>, SegmentSummary)> {
    let file = Arc::new(MemoryFile::default());
    let mut out = SegmentWriter::new(file.clone(), "s-1.segments", DATABASE, 1, 0, 0);
    write(&mut out)?;
    let summary = out.finish()?;
    Ok((file.bytes(), summary))
}

fn open(bytes: Vec<u8>, summary: SegmentSummary, mapped: bool) -> Result<TextReader> {
    let reader = if mapped {
        SegmentReader::open_mapped(&Bytes::new(bytes), "s-1.segments", DATABASE, 0, summary.length, summary.crc)?
    } else {
        let file = Arc::new(MemoryFile(Mutex::new(bytes)));
        SegmentReader::open_pread(file, "s-1.segments", DATABASE, 0, summary.length, summary.crc)?
    };
    Ok(TextReader::open(&reader)?.expect("it was written with text"))
}

/// Terms with their postings, and the length of every row.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    lengths: Vec<u32>,
    terms: BTreeMap<Vec<u8>, Vec<Posting>>,
}

impl Model {
    fn of_texts(texts: &[&str]) -> Model {
        let mut model = Model::default();
        for (row, text) in texts.iter().enumerate() {
            let tokens = tokens(text);
            model.lengths.push(tokens.len() as u32);
            for token in tokens {
                let postings = model.terms.entry(token.into_bytes()).or_default();
                match postings.last_mut() {
                    Some(last) if last.row == row as u32 => last.frequency += 1,
                    _ => postings.push(Posting { row: row as u32, frequency: 1 }),
                }
            }
        }
        model
    }

    fn write(&self, out: &mut SegmentWriter) -> Result<()> {
        let mut builder = TextBuilder::begin(out, &analyzer(), self.lengths.clone())?;
        for (term, postings) in &self.terms {
            builder.term(out, term, postings)?;
        }
        builder.finish(out)
    }

    fn reader(&self, mapped: bool) -> TextReader {
        let (bytes, summary) = segment(|out| self.write(out)).expect("writes");
        let reader = open(bytes, summary, mapped).expect("opens");
        self.check_totals(&reader);
        reader
    }

    /// Everything that a reader tells, or the first error it met.
    fn read_back(reader: &TextReader) -> Result<Model> {
        let mut model = Model::default();
        let view = reader.lengths()?;
        for row in 0..reader.documents() {
            model.lengths.push(reader.length(row)?);
            assert_eq!(view.get(row), model.lengths[row as usize]);
        }
        let mut stream = reader.terms()?;
        while let Some((term, info)) = stream.next()? {
            let mut postings = Vec::new();
            reader.postings(&info, &mut postings)?;
            assert_eq!(reader.term(term)?, Some(info));
            model.terms.insert(term.to_vec(), postings);
        }
        Ok(model)
    }

    /// The totals that a reader of this text must give.
    fn check_totals(&self, reader: &TextReader) {
        assert_eq!(reader.tokens(), self.lengths.iter().map(|&l| u64::from(l)).sum::<u64>());
        assert_eq!(reader.term_count() as usize, self.terms.len());
        assert_eq!(reader.posting_count(), self.terms.values().map(|p| p.len() as u64).sum::<u64>());
    }
}

/// A reader with deleted rows hidden, as the engine shows a segment to a search.
struct LivePart {
    reader: TextReader,
    first_seq: u64,
    dead: Vec<bool>,
}

impl TextPart for LivePart {
    fn collect(&self, term: &str, out: &mut Vec<Posting>) -> Result<()> {
        if let Some(info) = self.reader.term(term.as_bytes())? {
            self.reader.postings(&info, out)?;
            out.retain(|p| !self.dead[p.row as usize]);
        }
        Ok(())
    }
    fn length(&self, row: u32) -> Result<u32> {
        self.reader.length(row)
    }
    fn seq(&self, row: u32) -> Result<Seq> {
        Ok(Seq(self.first_seq + u64::from(row)))
    }
}

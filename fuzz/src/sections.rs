//! Segments of any sections behind sound checksums, read through every reader.
//!
//! The first byte says how the file is read. Then sections: a byte that chooses the kind, `items` and `aux` as `u32`, a length as `u16`, and
//! that many bytes. A kind that stood before is left out. The checksums of dictionaries are made to fit when the second bit of the mode says so.

use crate::{seal_dictionary, split};
use roaring::RoaringBitmap;
use triune::docstore::RowsReader;
use triune::filter::Filter;
use triune::format::segment::SectionKind;
use triune::graph::{self, GraphPart, GraphReader, Spellings};
use triune::io::{Directory, SimDirectory};
use triune::metadata::{Beside, MetadataIndex, MetadataReader, evaluate};
use triune::segment::{SegmentReader, SegmentWriter};
use triune::text::TextReader;
use triune::vector::{Admitted, QueryVector, VectorsReader, nearest};
use triune::{Effort, Metric, Result, Seq, Uuid};

const DATABASE: Uuid = Uuid([1; 16]);
const FILE: &str = "s-0000000000000001.segments";

/// Rows, entities and terms that are looked at one by one.
const LOOKED_AT: u32 = 300;

pub fn fuzz(bytes: &[u8]) {
    let ([mode], sections) = split::<1>(bytes);
    let Some(segment) = segment(mode & 1 == 0, mode & 2 != 0, sections) else { return };
    // Damage is an error; what else there may be shows itself.
    let _ = (rows(&segment), text(&segment), vectors(&segment), graph(&segment), metadata(&segment));
}

fn segment(mapped: bool, sealed: bool, mut bytes: &[u8]) -> Option<SegmentReader> {
    let dir = SimDirectory::new();
    let file = dir.create_new(FILE).expect("the directory is empty");
    let mut out = SegmentWriter::new(file.clone(), FILE, DATABASE, 1, 0, 0);
    let mut there = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<11>() {
        let kind = SectionKind::ALL[usize::from(head[0]) % SectionKind::ALL.len()];
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = usize::from(u16::from_le_bytes([head[9], head[10]]));
        let (section, rest) = rest.split_at(rest.len().min(length));
        bytes = rest;
        if !there.contains(&kind) {
            there.push(kind);
            let mut section = section.to_vec();
            if sealed {
                seal_dictionary(kind as u16, u64::from(word(5)), &mut section);
            }
            out.section(kind, u64::from(word(1)), u64::from(word(5)), &section).expect("memory takes it");
        }
    }
    let made = out.finish().expect("memory takes it");
    if mapped {
        let bytes = file.map(file.len().expect("it is in memory")).expect("it is in memory");
        SegmentReader::open_mapped(&bytes, FILE, DATABASE, 0, made.length, made.crc).ok()
    } else {
        SegmentReader::open_pread(file, FILE, DATABASE, 0, made.length, made.crc).ok()
    }
}

fn rows(segment: &SegmentReader) -> Result<()> {
    let reader = RowsReader::open(segment, Seq(1))?;
    let mut scanner = reader.scanner();
    for row in 0..reader.rows().min(LOOKED_AT) {
        if let Ok(id) = reader.id(row) {
            let _ = (reader.find(&id), reader.find_all(&id, |_| Ok(true)));
        }
        if let Ok(seq) = reader.seq(row) {
            let _ = reader.row_of_seq(seq);
        }
        // A scan looks at neighbours too, so damage to those may refuse it alone.
        if let (Ok(one), Ok(scanned)) = (reader.document(row), scanner.document(row)) {
            assert_eq!(one, scanned);
        }
        let _ = reader.source_of(row);
    }
    let range = 0..reader.rows().min(LOOKED_AT);
    let _ = (reader.ids(range.clone()), reader.seqs(range), reader.find("absent"), reader.document(reader.rows()));
    for source in reader.sources().take(LOOKED_AT as usize) {
        let _ = reader.source_rows(&source?.0);
    }
    Ok(())
}

fn text(segment: &SegmentReader) -> Result<()> {
    let Some(reader) = TextReader::open(segment)? else { return Ok(()) };
    let mut postings = Vec::new();
    for ordinal in 0..reader.term_count().min(LOOKED_AT) {
        postings.clear();
        if let Ok(term) = reader.term_by_ordinal(ordinal)
            && reader.postings(&term, &mut postings).is_ok()
        {
            assert_eq!(postings.len(), term.document_frequency as usize);
            assert!(postings.iter().all(|p| p.row < reader.documents()));
        }
    }
    let _ = (reader.term(b"row"), reader.term(&[b'x'; 1_100]));
    if let Ok(lengths) = reader.lengths() {
        for row in 0..reader.documents().min(LOOKED_AT) {
            assert_eq!(reader.length(row).ok(), Some(lengths.get(row)));
        }
    }
    let mut terms = reader.terms()?;
    let mut seen = 0;
    while terms.next()?.is_some() {
        seen += 1;
    }
    assert_eq!(seen, reader.term_count(), "every term comes once");
    Ok(())
}

fn vectors(segment: &SegmentReader) -> Result<()> {
    let Some(reader) = VectorsReader::open(segment)? else { return Ok(()) };
    let query = vec![0.5; reader.dimension() as usize];
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        let query = QueryVector::new(metric, &query);
        for row in 0..reader.rows().min(LOOKED_AT) {
            let _ = (reader.score(&query, row), reader.get(row), reader.contains(row));
        }
        let _ = walks(&reader, &query, metric);
        let _ = reader.scan(&query, |row| row % 3 != 1, |row, _| assert!(row < reader.rows()));
    }
    reader.for_each(|row, vector| {
        assert!(row < reader.rows() && vector.len() == reader.dimension() as usize);
        Ok(())
    })
}

/// The graph over the vectors: whatever its links and codes say, what is found is a row with its score.
fn walks(reader: &VectorsReader, query: &QueryVector, metric: Metric) -> Result<()> {
    let Some(graph) = reader.graph(metric)? else { return Ok(()) };
    if let Ok(sealed) = graph.to_sealed() {
        assert_eq!(sealed.points.len(), reader.count() as usize);
    }
    let every_third: RoaringBitmap = (0..reader.rows().min(LOOKED_AT)).step_by(3).collect();
    let lives = |row: u32| row % 5 != 2;
    for admitted in [Admitted::All, Admitted::Living { dead: u64::from(reader.rows() / 5), lives: &lives }, Admitted::Only(&every_third)] {
        for effort in [Effort::Ef(1), Effort::Ef(40), Effort::DEFAULT] {
            let mut found = Vec::new();
            if nearest(reader, query, admitted, effort, 5, &mut |row, score| found.push((row, score.to_bits()))).is_ok() {
                assert!(found.iter().all(|&(row, score)| reader.score(query, row).is_ok_and(|s| s.is_none_or(|s| s.to_bits() == score))));
                found.sort_unstable();
                assert!(found.windows(2).all(|pair| pair[0].0 != pair[1].0), "a row is found once");
            }
        }
    }
    Ok(())
}

fn graph(segment: &SegmentReader) -> Result<()> {
    let Some(reader) = GraphReader::open(segment)? else { return Ok(()) };
    let mut spellings = Spellings::new(&reader);
    for row in 0..reader.rows().min(LOOKED_AT) {
        let _ = (spellings.mentions(row), reader.for_each_entity(row, &mut |entity| assert!(entity < reader.entities())));
    }
    for entity in 0..reader.entities().min(LOOKED_AT) {
        let mut names = vec![0, 1];
        let _ = reader.for_each_document(entity, &mut |edge| assert!(edge.row < reader.rows()));
        let _ = reader.for_each_relation(entity, &mut |edge| names.push(edge.row));
        for name in names.into_iter().take(5) {
            let _ = reader.name(entity, name);
        }
        if let Ok(key) = reader.key(entity) {
            let _ = (reader.entity(&key), graph::entity(&[&reader], &key), graph::neighbours(&[&reader], &key));
        }
    }
    reader.for_each_key(&mut |_, _| {})?;
    let _ = (graph::counts(&[&reader]), graph::statistics(&[&reader]), graph::whole(&[&reader], true));
    Ok(())
}

/// Documents that match whatever is asked.
struct All;

impl Beside for All {
    fn matches(&mut self, _: u32, _: &[&Filter]) -> Result<bool> {
        Ok(true)
    }

    fn of_source(&mut self, _: Option<&str>) -> Result<RoaringBitmap> {
        Ok(RoaringBitmap::new())
    }
}

fn metadata(segment: &SegmentReader) -> Result<()> {
    let Some(reader) = MetadataReader::open(segment)? else { return Ok(()) };
    const FILTERS: [&str; 6] = [
        r#"{"page":{"$gte":20,"$lt":1e9}}"#,
        r#"{"tags":"a"}"#,
        r#"{"nested.x":null}"#,
        r#"{"$or":[{"even":true},{"file_hash":{"$in":["h0","h1"]}}]}"#,
        r#"{"page":{"$exists":false}}"#,
        r#"{"$not":{"page":{"$ne":1}}}"#,
    ];
    for filter in FILTERS {
        let filter = Filter::parse(filter).expect("it is well formed");
        if let Ok(rows) = evaluate(&filter, &reader, &mut All) {
            assert!(rows.max().is_none_or(|row| row < reader.rows()));
        }
    }
    Ok(())
}

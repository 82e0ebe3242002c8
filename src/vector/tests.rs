//! What a segment gives back is what was pushed, exactly, in both ways of reading; and damage never passes for an answer.

use super::*;
use crate::error::{Error, Result};
use crate::format::segment::SectionKind;
use crate::ids::{Seq, Uuid};
use crate::io::{Bytes, File};
use crate::options::{Components, Metric};
use crate::ranking::{RowAddress, Scored, TopK};
use crate::segment::{SegmentReader, SegmentSummary, SegmentWriter};
use parking_lot::RwLock;
use proptest::prelude::*;
use std::sync::Arc;

const DATABASE: Uuid = Uuid([7; 16]);
const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::L2];

/// A file in memory.
#[derive(Debug, Default)]
struct MemoryFile(RwLock<Vec<u8>>);

impl File for MemoryFile {
    fn len(&self) -> std::io::Result<u64> {
        Ok(self.0.read().len() as u64)
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        let bytes = self.0.read();
        let source = bytes.get(offset as usize..offset as usize + buf.len()).ok_or(std::io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(source);
        Ok(())
    }
    fn write_all_at(&self, offset: u64, buf: &[u8]) -> std::io::Result<()> {
        let mut bytes = self.0.write();
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
        self.0.write().resize(len as usize, 0);
        Ok(())
    }
    fn map(&self, len: u64) -> std::io::Result<Bytes> {
        Ok(Bytes::new(self.0.read()[..len as usize].to_vec()))
    }
}

type Rows = Vec<Option<Vec<f32>>>;

fn write_as(rows: &Rows, dimension: u32, components: Components) -> (Vec<u8>, SegmentSummary) {
    let file = Arc::new(MemoryFile::default());
    let mut out = SegmentWriter::new(file.clone(), "s-1.segments", DATABASE, 1, 0, 0);
    let mut builder = VectorsBuilder::begin(&mut out, dimension, components).expect("in memory");
    for (row, vector) in rows.iter().enumerate() {
        if let Some(vector) = vector {
            builder.push(&mut out, row as u32, vector).expect("in memory");
        }
    }
    builder.finish(&mut out, rows.len() as u32).expect("in memory");
    let summary = out.finish().expect("in memory");
    (file.0.read().clone(), summary)
}

fn write(rows: &Rows, dimension: u32) -> (Vec<u8>, SegmentSummary) {
    write_as(rows, dimension, Components::F32)
}

/// The segment, mapped, mapped at an odd address, and read by system calls.
fn open_all(bytes: &[u8], summary: SegmentSummary) -> [Result<SegmentReader>; 3] {
    let SegmentSummary { offset, length, crc } = summary;
    let mut shifted = vec![0];
    shifted.extend_from_slice(bytes);
    let shifted = Bytes::new(shifted).slice(1, bytes.len() as u64).expect("inside");
    let file = Arc::new(MemoryFile(RwLock::new(bytes.to_vec())));
    [
        SegmentReader::open_mapped(&Bytes::new(bytes.to_vec()), "s-1.segments", DATABASE, offset, length, crc),
        SegmentReader::open_mapped(&shifted, "s-1.segments", DATABASE, offset, length, crc),
        SegmentReader::open_pread(file, "s-1.segments", DATABASE, offset, length, crc),
    ]
}

fn readers(rows: &Rows, dimension: u32) -> Vec<VectorsReader> {
    readers_as(rows, dimension, Components::F32)
}

fn readers_as(rows: &Rows, dimension: u32, components: Components) -> Vec<VectorsReader> {
    let (bytes, summary) = write_as(rows, dimension, components);
    open_all(&bytes, summary)
        .into_iter()
        .map(|segment| VectorsReader::open(&segment.expect("just written")).expect("just written").expect("has vectors"))
        .collect()
}

fn scan(reader: &VectorsReader, query: &QueryVector, live: impl Fn(u32) -> bool) -> Result<Vec<(u32, u64)>> {
    let mut hits = Vec::new();
    reader.scan(query, live, |row, score| hits.push((row, score.to_bits())))?;
    Ok(hits)
}

/// What a scan must give: each live vector scored alone.
fn expected(rows: &Rows, query: &QueryVector, live: impl Fn(u32) -> bool) -> Vec<(u32, u64)> {
    let scored = |(row, vector): (usize, &Option<Vec<f32>>)| {
        let vector = vector.as_ref()?;
        live(row as u32).then(|| (row as u32, query.score(vector, kernel::inverse_norm(vector)).to_bits()))
    };
    rows.iter().enumerate().filter_map(scored).collect()
}

/// `count` rows, of which those with `has(row)` have a vector.
fn made_up(count: u32, dimension: u32, has: impl Fn(u32) -> bool) -> Rows {
    let vector = |row: u32| (0..dimension).map(|i| (((row * 31 + i * 17) % 101) as f32 - 50.0) / 7.0).collect();
    (0..count).map(|row| has(row).then(|| vector(row))).collect()
}

/// The rows as they are stored.
fn rounded(rows: &Rows, components: Components) -> Rows {
    let round = |v: &Vec<f32>| match components {
        Components::F32 => v.clone(),
        Components::F16 => v.iter().map(|c| crate::format::half::rounded_to_half(*c)).collect(),
    };
    rows.iter().map(|row| row.as_ref().map(round)).collect()
}

#[test]
fn golden_answers_hold_for_every_metric() {
    let golden = include_str!("../../tests/golden/exact.jsonl");
    let mut answers = 0;
    for line in golden.lines() {
        let case: serde_json::Value = serde_json::from_str(line).expect("golden files are JSON lines");
        let vectors: Vec<Vec<f32>> = serde_json::from_value(case["vectors"].clone()).expect("vectors");
        let dimension = case["dim"].as_u64().expect("a dimension") as u32;
        let readers = readers(&vectors.into_iter().map(Some).collect(), dimension);
        for q in case["queries"].as_array().expect("queries") {
            let components: Vec<f32> = serde_json::from_value(q["vector"].clone()).expect("a vector");
            for (metric, reader) in METRICS.iter().flat_map(|&m| readers.iter().map(move |r| (m, r))) {
                let query = QueryVector::new(metric, &components);
                let mut top = TopK::new(10);
                let offer = |row, score| top.offer(Scored { score, seq: Seq(row as u64), address: RowAddress { part: 0, row } });
                reader.scan(&query, |_| true, offer).expect("just written");
                let got = top.into_sorted();
                let want: Vec<(u32, f64)> = serde_json::from_value(q[metric.as_str()].clone()).expect("rows with scores");
                assert_eq!(got.iter().map(|h| h.address.row).collect::<Vec<_>>(), want.iter().map(|w| w.0).collect::<Vec<_>>());
                for (hit, (_, score)) in got.iter().zip(&want) {
                    assert!((hit.score - score).abs() <= 2e-5 * score.abs().max(1.0), "{metric}: {} against {score}", hit.score);
                }
                answers += 1;
            }
        }
    }
    assert_eq!(answers, 4 * 4 * 3 * 3);
}

#[test]
fn scores_stay_in_their_range() {
    let v = [0.3f32, -0.7, 0.11];
    let inverse = kernel::inverse_norm(&v);
    let score = |metric, query: &[f32], v: &[f32]| QueryVector::new(metric, query).score(v, kernel::inverse_norm(v));
    assert!((0.999_999..=1.0).contains(&QueryVector::new(Metric::Cosine, &v).score(&v, inverse)));
    assert!((-1.0..-0.999_999).contains(&score(Metric::Cosine, &v, &v.map(|x| -2.0 * x))));
    assert_eq!(score(Metric::Cosine, &v, &[0.0; 3]).to_bits(), 0);
    assert_eq!(score(Metric::Cosine, &[0.0; 3], &v).to_bits(), 0);
    assert_eq!(score(Metric::L2, &v, &v).to_bits(), 0);
    assert_eq!(score(Metric::L2, &[1.0, 2.0], &[3.0, 5.0]), -13.0);
    assert_eq!(score(Metric::Dot, &[1.0, 2.0], &[3.0, -5.0]), -7.0);
    let diagonal = score(Metric::Cosine, &[1e-45, 0.0], &[f32::MAX, f32::MAX]);
    assert!((diagonal - std::f64::consts::FRAC_1_SQRT_2).abs() < 1e-15, "{diagonal}");
}

#[test]
fn a_segment_without_vectors_has_no_reader() {
    let file = Arc::new(MemoryFile::default());
    let mut out = SegmentWriter::new(file.clone(), "s-1.segments", DATABASE, 1, 0, 0);
    out.section(SectionKind::Ids, 0, 0, b"ids").expect("in memory");
    let summary = out.finish().expect("in memory");
    let bytes = file.0.read().clone();
    for segment in open_all(&bytes, summary) {
        assert!(VectorsReader::open(&segment.expect("just written")).expect("whole").is_none());
    }
}

#[test]
fn rows_have_a_section_only_when_some_lack_a_vector() {
    for (rows, has_section) in [(made_up(5, 3, |_| true), false), (made_up(5, 3, |row| row != 2), true), (made_up(4, 3, |_| false), true)] {
        let (bytes, summary) = write(&rows, 3);
        let segment = open_all(&bytes, summary).into_iter().next().expect("three").expect("just written");
        assert_eq!(segment.section(SectionKind::VectorRows).is_some(), has_section);
        let reader = VectorsReader::open(&segment).expect("just written").expect("has vectors");
        assert_eq!((reader.rows() as usize, reader.count() as usize), (rows.len(), rows.iter().flatten().count()));
    }
}

#[test]
fn scans_of_several_pieces_reach_every_live_row_and_no_other() {
    // 1,024 components make 256 vectors a piece.
    for has in [(|_| true) as fn(u32) -> bool, |row| row % 5 != 1] {
        let rows = made_up(700, 1024, has);
        let halves = rounded(&rows, Components::F16);
        assert_ne!(rows, halves);
        let mut all: Vec<(VectorsReader, &Rows)> = readers(&rows, 1024).into_iter().map(|reader| (reader, &rows)).collect();
        all.extend(readers_as(&halves, 1024, Components::F16).into_iter().map(|reader| (reader, &halves)));
        let filters: [fn(u32) -> bool; 6] =
            [|_| true, |_| false, |row| row % 2 == 0, |row| !(100..=600).contains(&row), |row| row == 699, |row| row % 97 > 3];
        for (reader, rows) in &all {
            for (live, metric) in filters.iter().zip(METRICS.iter().cycle()) {
                let query = QueryVector::new(*metric, rows[3].as_ref().expect("row 3 has one"));
                assert_eq!(scan(reader, &query, live).expect("whole"), expected(rows, &query, live));
            }
        }
    }
}

#[test]
fn two_bytes_a_component_take_half_the_room_and_are_held_against_the_schema() {
    let rows = rounded(&made_up(200, 256, |_| true), Components::F16);
    let length = |components| {
        let (bytes, summary) = write_as(&rows, 256, components);
        let [segment, ..] = open_all(&bytes, summary);
        segment.expect("just written").section(SectionKind::Vectors).expect("it has vectors").len()
    };
    assert_eq!((length(Components::F32), length(Components::F16)), (200 * 256 * 4, 200 * 256 * 2));
    for (stored, other) in [(Components::F32, Components::F16), (Components::F16, Components::F32)] {
        for reader in readers_as(&rows, 256, stored) {
            assert_eq!(reader.components(), stored);
            assert!(reader.check_components(stored).is_ok());
            let refused = reader.check_components(other).expect_err("another width");
            assert!(matches!(&refused, Error::Corrupt(d) if d.what.contains(other.as_str())), "{refused}");
        }
    }
    for reader in readers_as(&made_up(3, 4, |_| false), 4, Components::F16) {
        assert!(reader.check_components(Components::F16).is_ok() && reader.check_components(Components::F32).is_ok(), "no vectors, no width");
    }
}

#[test]
fn a_query_of_another_dimension_is_refused() {
    for reader in readers(&made_up(3, 4, |_| true), 4) {
        let query = QueryVector::new(Metric::Cosine, &[1.0; 5]);
        assert!(matches!(scan(&reader, &query, |_| true), Err(Error::SchemaMismatch(_))));
        assert!(matches!(reader.score(&query, 0), Err(Error::SchemaMismatch(_))));
    }
}

#[test]
fn a_segment_that_lost_its_norms_still_gives_its_vectors() {
    // None at all, and more of them than vectors.
    for norms in [None, Some((2, [0; 16]))] {
        let file = Arc::new(MemoryFile::default());
        let mut out = SegmentWriter::new(file.clone(), "s-1.segments", DATABASE, 1, 0, 0);
        out.section(SectionKind::Vectors, 1, 2, &crate::format::vectors::encode_components(&[3.0, 4.0])).expect("in memory");
        if let Some((items, bytes)) = norms {
            out.section(SectionKind::VectorNorms, items, 0, &bytes).expect("in memory");
        }
        let summary = out.finish().expect("in memory");
        let bytes = file.0.read().clone();
        for segment in open_all(&bytes, summary) {
            let reader = VectorsReader::open(&segment.expect("just written")).expect("whole").expect("has vectors");
            assert_eq!(reader.get(0).expect("whole").as_deref(), Some(&[3.0, 4.0][..]));
            assert!(scan(&reader, &QueryVector::new(Metric::Dot, &[1.0, 1.0]), |_| true).is_ok());
            assert!(matches!(scan(&reader, &QueryVector::new(Metric::Cosine, &[1.0, 1.0]), |_| true), Err(Error::Corrupt(_))));
        }
    }
}

#[test]
fn hostile_counts_and_rows_are_refused() {
    let open = |vectors: (u64, u64, &[u8]), rows: Option<(u64, u64, &[u8])>, norms: (u64, &[u8])| {
        let file = Arc::new(MemoryFile::default());
        let mut out = SegmentWriter::new(file.clone(), "s-1.segments", DATABASE, 1, 0, 0);
        out.section(SectionKind::Vectors, vectors.0, vectors.1, vectors.2).expect("in memory");
        if let Some((items, aux, bytes)) = rows {
            out.section(SectionKind::VectorRows, items, aux, bytes).expect("in memory");
        }
        out.section(SectionKind::VectorNorms, norms.0, 0, norms.1).expect("in memory");
        let summary = out.finish().expect("in memory");
        let bytes = file.0.read().clone();
        let [mapped, _, _] = open_all(&bytes, summary);
        VectorsReader::open(&mapped.expect("the frame is whole")).map(|reader| reader.expect("has vectors").contains(0))
    };
    let corrupt = |r: Result<Result<bool>>| matches!(r.and_then(|inner| inner), Err(Error::Corrupt(_)));
    let (two, norms) = ([0u8; 16], (2, &[0u8; 16][..]));
    assert!(matches!(open((2, 2, &two), None, norms), Ok(Ok(true))));
    assert!(corrupt(open((u64::MAX, 2, &two), None, norms)));
    assert!(corrupt(open((2, u64::MAX, &two), None, norms)));
    assert!(corrupt(open((2, 0, &two), None, norms)));
    assert!(corrupt(open((3, 2, &two), None, norms)));
    let rows = |rows: [u32; 2]| crate::format::vectors::encode_rows(&rows);
    assert!(matches!(open((2, 2, &two), Some((2, 9, &rows([0, 8]))), norms), Ok(Ok(true))));
    assert!(corrupt(open((2, 2, &two), Some((2, 9, &rows([0, 9]))), norms)));
    assert!(corrupt(open((2, 2, &two), Some((2, 9, &rows([4, 4]))), norms)));
    assert!(corrupt(open((2, 2, &two), Some((2, 9, &rows([5, 4]))), norms)));
    assert!(corrupt(open((2, 2, &two), Some((2, u64::MAX, &rows([0, 1]))), norms)));
    assert!(corrupt(open((2, 2, &two), Some((3, 9, &rows([0, 1]))), norms)));
}

/// Bits of every row's score, and of every row's vector.
type Everything = (Vec<(u32, u64)>, Vec<Option<Vec<u32>>>);

/// Opens and asks for everything; what comes back, or the first error.
fn everything(segment: Result<SegmentReader>, query: &QueryVector) -> Result<Everything> {
    let segment = segment?;
    // A segment always has its vectors here; were they gone from its table, that would be noticed by whoever knows its counts.
    let reader = VectorsReader::open(&segment)?.ok_or_else(|| segment.require(SectionKind::Vectors).expect_err("it has none"))?;
    let hits = scan(&reader, query, |_| true)?;
    let bits = |v: Option<std::borrow::Cow<'_, [f32]>>| v.map(|v| v.iter().map(|x| x.to_bits()).collect());
    let vectors = (0..reader.rows()).map(|row| reader.get(row).map(bits)).collect::<Result<_>>()?;
    Ok((hits, vectors))
}

#[test]
fn every_flipped_byte_is_corruption_or_changes_nothing() {
    every_flipped_byte(Components::F32);
    every_flipped_byte(Components::F16);
}

fn every_flipped_byte(components: Components) {
    let rows = rounded(&made_up(9, 5, |row| row % 3 != 1), components);
    let (bytes, summary) = write_as(&rows, 5, components);
    let query = QueryVector::new(Metric::Cosine, &[0.1, 0.2, -0.3, 0.4, 0.5]);
    let [whole, ..] = open_all(&bytes, summary);
    let answer = everything(whole, &query).expect("whole");
    let (mut refused, mut unchanged) = (0, 0);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        for segment in open_all(&damaged, summary) {
            match everything(segment, &query) {
                Ok(got) => {
                    assert_eq!(got, answer, "byte {at}");
                    unchanged += 1;
                }
                Err(Error::Corrupt(_) | Error::UnsupportedVersion(_)) => refused += 1,
                Err(other) => panic!("byte {at}: {other}"),
            }
        }
    }
    assert!(refused > 300 && unchanged > 0, "{refused} refused, {unchanged} unchanged");
}

proptest! {
    #[test]
    fn what_is_pushed_is_read_back(
        dimension in 1u32..40,
        rows in prop::collection::vec(prop::option::weighted(0.7, prop::collection::vec(-6e4f32..6e4, 40)), 0..150),
        query in prop::collection::vec(-10.0f32..10.0, 40),
        dead in any::<u64>(),
        halves in any::<bool>(),
    ) {
        let rows: Rows = rows.into_iter().map(|row| row.map(|v| v[..dimension as usize].to_vec())).collect();
        let components = if halves { Components::F16 } else { Components::F32 };
        let rows = rounded(&rows, components);
        let live = |row: u32| dead >> (row % 64) & 1 == 0;
        for reader in readers_as(&rows, dimension, components) {
            for metric in METRICS {
                let query = QueryVector::new(metric, &query[..dimension as usize]);
                prop_assert_eq!(scan(&reader, &query, live)?, expected(&rows, &query, live));
                let one_by_one: Vec<(u32, u64)> =
                    (0..reader.rows()).filter_map(|row| reader.score(&query, row).ok()?.map(|score| (row, score.to_bits()))).collect();
                prop_assert_eq!(one_by_one, expected(&rows, &query, |_| true));
            }
            let mut copied: Rows = vec![None; rows.len()];
            reader.for_each(|row, vector| { copied[row as usize] = Some(vector.to_vec()); Ok(()) })?;
            prop_assert_eq!(&copied, &rows);
            for (row, vector) in rows.iter().enumerate() {
                let got = reader.get(row as u32)?;
                prop_assert_eq!(got.as_deref(), vector.as_deref());
                prop_assert_eq!(reader.contains(row as u32)?, vector.is_some());
            }
            prop_assert_eq!(reader.get(rows.len() as u32)?, None);
        }
    }
}

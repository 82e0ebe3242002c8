//! The index answers as the filter itself does, whatever holds it, at the cost of what it finds; damage is noticed.

mod damage;
mod random;

use super::*;
use crate::document::Metadata;
use crate::filter::Filter;
use crate::memtable::metadata::MemMetadata;
use crate::segment::memory::{MODES, Mode, open_segment, write_segment};
use crate::segment::{SegmentReader, SegmentSummary};
use serde_json::{Map, Value, json};
use std::cell::Cell;

/// Documents as a filter sees them.
pub(super) type Documents = Vec<(Option<Metadata>, String)>;

pub(super) fn documents(metadata: &[Value]) -> Documents {
    metadata.iter().map(|m| (Some(Metadata::from_json(m.to_string()).unwrap()), String::new())).collect()
}

pub(super) fn written(documents: &Documents) -> (Vec<u8>, SegmentSummary) {
    write_segment(0, |out| {
        let mut builder = MetadataBuilder::new();
        for (row, (metadata, _)) in (0..).zip(documents) {
            builder.add(row, metadata.as_ref());
        }
        builder.finish(out)
    })
    .unwrap()
}

fn segment(documents: &Documents, mode: Mode) -> MetadataReader {
    let (bytes, summary) = written(documents);
    MetadataReader::open(&open_segment(bytes, summary, mode).unwrap()).unwrap().unwrap()
}

fn memory(documents: &Documents) -> MemMetadata {
    let memory = MemMetadata::new();
    for (row, (metadata, _)) in (0..).zip(documents) {
        memory.add(row, metadata.as_ref());
    }
    memory
}

fn object(metadata: &Option<Metadata>) -> Map<String, Value> {
    metadata.as_ref().map(Metadata::to_object).unwrap_or_default()
}

/// What the filter says of each document.
pub(super) fn expected(filter: &Filter, documents: &Documents) -> Vec<u32> {
    (0..).zip(documents).filter(|(_, (metadata, text))| filter.matches(&object(metadata), text, None)).map(|(row, _)| row).collect()
}

/// What the index says, and how many documents it read.
pub(super) fn found(filter: &Filter, index: &impl MetadataIndex, documents: &Documents) -> Result<(Vec<u32>, usize)> {
    let mut asked = Asked { documents, rows: Vec::new() };
    let rows = evaluate(filter, index, &mut asked)?;
    Ok((rows.iter().collect(), asked.rows.len()))
}

/// Documents without a source, and the rows that were read.
struct Asked<'a> {
    documents: &'a Documents,
    rows: Vec<u32>,
}

impl Beside for Asked<'_> {
    fn matches(&mut self, row: u32, filters: &[&Filter]) -> Result<bool> {
        self.rows.push(row);
        let (metadata, text) = &self.documents[row as usize];
        let metadata = object(metadata);
        Ok(filters.iter().all(|f| f.matches(&metadata, text, None)))
    }

    fn of_source(&mut self, _: Option<&str>) -> Result<RoaringBitmap> {
        Ok(RoaringBitmap::new())
    }
}

pub(super) fn agrees_everywhere(filters: &[Filter], documents: &Documents) {
    let memory = memory(documents);
    let segments = MODES.map(|mode| segment(documents, mode));
    for filter in filters {
        let expected = expected(filter, documents);
        for segment in &segments {
            assert_eq!(found(filter, segment, documents).unwrap().0, expected, "a segment and {filter:?}");
        }
        let memory = memory.first_rows(documents.len() as u32);
        assert_eq!(found(filter, &memory, documents).unwrap().0, expected, "memory and {filter:?}");
    }
}

#[test]
fn every_golden_filter_finds_its_documents_through_the_index() {
    let case: Value = serde_json::from_str(include_str!("../../tests/golden/filters.jsonl").lines().next().unwrap()).unwrap();
    let documents: Documents = case["docs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| (Some(Metadata::from_json(d["metadata"].to_string()).unwrap()), d["text"].as_str().unwrap().to_string()))
        .collect();
    let filters: Vec<Filter> = case["filters"].as_array().unwrap().iter().map(|f| Filter::from_value(&f["filter"]).unwrap()).collect();
    assert!(filters.len() > 50);
    agrees_everywhere(&filters, &documents);
}

#[test]
fn values_and_paths_too_long_for_a_key_are_found_and_told_apart() {
    let long = |end: &str| "x".repeat(200) + end;
    let deep = |end: &str| json!({ "p".repeat(300): { format!("q{end}"): { "r": 1 } } });
    let documents = documents(&[
        json!({"s": long("a")}),
        json!({"s": long("b")}),
        json!({"s": long("")}),
        json!({"s": "x".repeat(128)}),
        json!({"s": "x"}),
        json!({"s": "y"}),
        json!({"s": [long("a"), "y"]}),
        deep("1"),
        deep("2"),
    ]);
    let mut filters = Vec::new();
    for operand in [long("a"), long("b"), long(""), long("aa"), "x".repeat(128), "x".repeat(129), "x".into(), "y".into()] {
        for operator in ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$contains", "$not_contains"] {
            filters.push(Filter::from_value(&json!({"s": {operator: operand}})).unwrap());
        }
    }
    for path in [format!("{}.q1.r", "p".repeat(300)), format!("{}.q2", "p".repeat(300)), "p".repeat(300), "p".repeat(256)] {
        filters.push(Filter::from_value(&json!({path.clone(): {"$exists": true}})).unwrap());
        filters.push(Filter::from_value(&json!({path: 1})).unwrap());
    }
    agrees_everywhere(&filters, &documents);
}

#[test]
fn a_document_with_thousands_of_long_nested_keys_has_keys_of_bounded_size() {
    let inner: Map<String, Value> = (0..20_000).map(|i| (format!("k{i}"), json!(i))).collect();
    let metadata = Metadata::from_json(json!({ "p".repeat(500_000): inner }).to_string()).unwrap();
    let keys = keys(&metadata);
    assert_eq!(keys.len(), 1 + 2 * 20_000);
    assert!(keys.iter().all(|key| key.len() <= 410), "{:?}", keys.iter().map(<[u8]>::len).max());
    assert!(keys.iter().is_sorted());
}

/// An index that counts what it is asked for.
struct Counting<'a, I> {
    index: &'a I,
    cost: Cell<u64>,
}

impl<I: MetadataIndex> MetadataIndex for Counting<'_, I> {
    fn rows(&self) -> u32 {
        self.index.rows()
    }
    fn cost(&self, range: &KeyRange, enough: u64) -> Result<u64> {
        self.index.cost(range, enough)
    }
    fn collect(&self, range: &KeyRange, out: &mut RoaringBitmap) -> Result<()> {
        self.cost.set(self.cost.get() + self.index.cost(range, u64::MAX)?);
        self.index.collect(range, out)
    }
}

#[test]
fn a_selective_filter_costs_what_it_finds() {
    let documents = documents(&(0..20_000).map(|i| json!({"id": i, "group": i / 10, "kind": "k", "tags": [i % 7, "t"]})).collect::<Vec<_>>());
    let segment = segment(&documents, Mode::Mapped);
    let cases = [
        (json!({"id": 777}), 1, 0),
        (json!({"id": {"$gte": 100, "$lt": 110}}), 10, 0),
        (json!({"id": {"$gte": 110}, "$and": [{"id": {"$lt": 100}}]}), 0, 0),
        (json!({"id": {"$gte": 1, "$lt": "x"}}), 0, 0),
        (json!({"group": 5, "id": {"$gt": 0}}), 10, 10),
        (json!({"group": {"$in": [5, 6]}, "tags": {"$contains": 3}}), 3, 0),
        (json!({"$or": [{"id": 1}, {"id": {"$in": [2, 3]}}]}), 3, 0),
        (json!({"id": 3, "kind": {"$regex": "k"}, "$text": {"$not_contains": "z"}}), 1, 1),
        (json!({"id": 3, "$not": {"group": {"$gt": 7}}}), 1, 1),
        (json!({"absent": {"$exists": true}}), 0, 0),
    ];
    for (filter, matching, documents_read) in cases {
        let filter = Filter::from_value(&filter).unwrap();
        let counting = Counting { index: &segment, cost: Cell::new(0) };
        let (rows, read) = found(&filter, &counting, &documents).unwrap();
        assert_eq!(rows.len(), matching, "{filter:?}");
        assert_eq!(rows, expected(&filter, &documents), "{filter:?}");
        assert!(read <= documents_read, "{filter:?} read {read} documents");
        assert!(counting.cost.get() <= 100, "{filter:?} took {} keys from the index", counting.cost.get());
    }
}

#[test]
fn a_column_of_distinct_values_takes_few_bytes_a_row() {
    let rows = 50_000u64;
    let documents = documents(&(0..rows).map(|i| json!({"id": i * 7919})).collect::<Vec<_>>());
    let (bytes, _) = written(&documents);
    assert!(bytes.len() as u64 <= rows * 16, "{} bytes a row", bytes.len() as u64 / rows);
}

#[test]
fn rows_added_while_an_index_is_read_are_not_in_it() {
    let all = documents(&[json!({"n": 1}), json!({"n": 1}), json!({"n": 2})]);
    let memory = memory(&all);
    let filter = Filter::parse(r#"{"n": {"$gte": 1}}"#).unwrap();
    for rows in 0..=3 {
        assert_eq!(found(&filter, &memory.first_rows(rows), &all).unwrap().0, (0..rows).collect::<Vec<_>>());
    }
    let negative = Filter::parse(r#"{"n": {"$ne": 1}}"#).unwrap();
    assert_eq!(found(&negative, &memory.first_rows(2), &all).unwrap().0, [0u32; 0]);
}

#[test]
fn only_the_rows_asked_for_are_evaluated() {
    let all = documents(&(0..100).map(|i| json!({"n": i % 2})).collect::<Vec<_>>());
    let segment = segment(&all, Mode::Mapped);
    let filter = Filter::parse(r#"{"n": 1, "$text": {"$contains": ""}}"#).unwrap();
    let within: RoaringBitmap = [2u32, 3, 51].into_iter().collect();
    let mut asked = Asked { documents: &all, rows: Vec::new() };
    let rows = evaluate_within(&filter, &segment, &within, &mut asked).unwrap();
    assert_eq!(rows.iter().collect::<Vec<_>>(), [3, 51]);
    assert!(asked.rows.iter().all(|row| within.contains(*row)));
}

#[test]
fn a_segment_without_the_sections_has_no_index_and_one_without_keys_has() {
    let (bytes, summary) = write_segment(0, |_| Ok(())).unwrap();
    assert!(MetadataReader::open(&open_segment(bytes, summary, Mode::Mapped).unwrap()).unwrap().is_none());
    let none: Documents = vec![(None, "a".into()), (None, "b".into())];
    let segment = segment(&none, Mode::Pread);
    assert_eq!(segment.key_count(), 0);
    for (filter, rows) in [("{}", vec![0, 1]), (r#"{"n": {"$ne": 1}}"#, vec![0, 1]), (r#"{"n": 1}"#, vec![])] {
        assert_eq!(found(&Filter::parse(filter).unwrap(), &segment, &none).unwrap().0, rows);
    }
}

//! What people hand over: lines of documents, metadata, filters, texts, queries, NumPy files.

use crate::jsonl::{Form, Line};
use crate::{dispatch, npy};
use roaring::RoaringBitmap;
use serde_json::{Map, Value};
use triune::filter::Filter;
use triune::io::{Directory, SimDirectory};
use triune::metadata::{Beside, MetadataBuilder, MetadataReader, evaluate, keys};
use triune::segment::{SegmentReader, SegmentWriter};
use triune::{Analyzer, AnalyzerKind, Document, ExtractorKind, Metadata, Result, StoredDocument, Uuid};

const DATABASE: Uuid = Uuid([1; 16]);

pub fn fuzz(bytes: &[u8]) {
    dispatch(bytes, &[document, metadata, filter, text, numpy]);
}

/// A line is read in both forms; what is accepted is written as a line that reads as the same document.
fn document(bytes: &[u8]) {
    let Ok(line) = str::from_utf8(bytes) else { return };
    let wide = Form::new(&["title".into(), "text".into()], true).expect("fields of text");
    if let Ok(document) = wide.document(line) {
        let _ = document.validate();
    }
    let Ok(document) = Form::default().document(line) else { return };
    if document.validate().is_err() {
        return;
    }
    let again = serde_json::to_string(&Line { document: &stored(&document), vectors: true }).expect("a document is a line");
    let read = Form::default().document(&again).unwrap_or_else(|e| panic!("{again} was written and is refused: {e:?}"));
    let read = Document { metadata: document.metadata.clone(), ..read };
    assert_eq!(read, document);
}

fn stored(d: &Document) -> StoredDocument {
    StoredDocument {
        id: d.id.as_str().into(),
        text: d.text.as_str().into(),
        metadata: d.metadata.clone(),
        source: d.source.as_deref().map(Into::into),
        source_given: d.source.is_some(),
        time_ms: 0,
        vector: d.vector.as_deref().map(Into::into),
        entities: d.entities.as_deref().map(Into::into),
        relations: d.relations.as_deref().map(Into::into),
    }
}

fn metadata(bytes: &[u8]) {
    let Ok(json) = str::from_utf8(bytes) else { return };
    let Ok(metadata) = Metadata::from_json(json) else { return };
    assert_eq!(metadata.as_str(), json, "it is kept byte for byte");
    let object = metadata.to_object();
    for key in object.keys() {
        let _ = metadata.string(key);
    }
    let found = keys(&metadata);
    let found: Vec<&[u8]> = found.iter().collect();
    assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "keys ascend");
}

/// A filter, a zero byte, metadata, a zero byte and a text: the index of the metadata gives the answer of the filter itself.
fn filter(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |b| *b == 0).map(str::from_utf8);
    let Some(Ok(filter)) = parts.next() else { return };
    let Ok(filter) = Filter::parse(filter) else { return };
    let Some(Ok(metadata)) = parts.next() else { return };
    let text = parts.next().and_then(|part| part.ok()).unwrap_or_default();
    let Ok(metadata) = Metadata::from_json(metadata) else { return };
    let object = metadata.to_object();
    let matches = filter.matches(&object, text, Some(text));
    let index = index(&metadata);
    let rows = evaluate(&filter, &index, &mut Sole { metadata: &object, text });
    assert_eq!(rows.expect("the index is sound").contains(0), matches);
}

/// The only document of a segment. Its source is its text.
struct Sole<'a> {
    metadata: &'a Map<String, Value>,
    text: &'a str,
}

impl Beside for Sole<'_> {
    fn matches(&mut self, _: u32, filters: &[&Filter]) -> Result<bool> {
        Ok(filters.iter().all(|f| f.matches(self.metadata, self.text, Some(self.text))))
    }

    fn of_source(&mut self, source: Option<&str>) -> Result<RoaringBitmap> {
        Ok(source.is_none_or(|source| source == self.text).then_some(0).into_iter().collect())
    }
}

/// The index of a segment whose only row has this metadata.
fn index(metadata: &Metadata) -> MetadataReader {
    let dir = SimDirectory::new();
    let file = dir.create_new("s-0000000000000001.segments").expect("the directory is empty");
    let mut out = SegmentWriter::new(file.clone(), "segment", DATABASE, 1, 0, 0);
    let mut builder = MetadataBuilder::new();
    builder.add(0, Some(metadata));
    builder.finish(&mut out).expect("memory takes it");
    let made = out.finish().expect("memory takes it");
    let segment = SegmentReader::open_pread(file, "segment", DATABASE, 0, made.length, made.crc).expect("it was just written");
    MetadataReader::open(&segment).expect("it was just written").expect("it has the index")
}

fn text(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    Analyzer::new(AnalyzerKind::Word).tokens(text, &mut |token| assert!(!token.is_empty()));
    for (spelling, mentions) in triune::extract_entities(ExtractorKind::Compat, text) {
        assert!(text.contains(&spelling) && mentions > 0);
    }
    let _ = triune::graph::query_entities(text, ExtractorKind::Compat);
    let _ = triune::graph::key(text);
}

fn numpy(bytes: &[u8]) {
    let Ok(mut rows) = npy::Rows::from_reader(bytes, "array") else { return };
    let mut read = 0;
    while let Ok(Some(row)) = rows.next_row() {
        assert!(!row.is_empty());
        read += 1;
    }
    assert!(read <= rows.rows());
}

//! The lines of a dump: the content of a database as canonical text. Spec §20.
//!
//! A line here is the bytes between two line feeds. Which line may follow which, and the hash over all of them, is for whoever reads or
//! writes a whole dump.

use super::error::FormatError;
use crate::document::{Document, Entity, Metadata, Relation, StoredDocument};
use crate::options::{AnalyzerKind, Components, ExtractorKind, Hnsw, LegWeights, Metric, Schema, Scorer};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The version of dumps that is written, and the greatest that is read.
pub const DUMP_VERSION: u64 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderLine {
    /// [`DUMP_VERSION`].
    pub triune_dump: u64,
    /// How many collections follow.
    pub collections: u32,
}

/// The line that begins a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectionLine {
    /// Its name.
    pub collection: String,
    /// What it holds.
    #[serde(serialize_with = "write_schema", deserialize_with = "read_schema")]
    pub schema: Schema,
    /// How many documents follow.
    pub documents: Count,
}

/// The last line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrailerLine {
    /// True.
    pub end: bool,
    /// Collections of the dump.
    pub collections: u32,
    /// Documents of all of them.
    pub documents: Count,
    /// SHA-256 of every byte before this line, in 64 lower-case hexadecimal digits.
    pub sha256: String,
}

/// A 64-bit number as a string of decimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub u64);

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Count, D::Error> {
        let text = Cow::<'de, str>::deserialize(d)?;
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| digits).map(Count).ok_or_else(|| D::Error::custom(format!("{text:?} is not a 64-bit number")))
    }
}

/// The keys of a schema; one more is refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemaJson {
    #[serde(default)]
    dimension: Option<u32>,
    metric: Metric,
    analyzer: AnalyzerKind,
    scorer: Scorer,
    extractor: ExtractorKind,
    source_key: String,
    #[serde(default)]
    embedder: Option<String>,
    #[serde(default)]
    hnsw: Hnsw,
    #[serde(default)]
    components: Components,
    #[serde(default)]
    leg_weights: LegWeights,
}

fn write_schema<S: Serializer>(schema: &Schema, s: S) -> Result<S::Ok, S::Error> {
    schema.serialize(s)
}

fn read_schema<'de, D: Deserializer<'de>>(d: D) -> Result<Schema, D::Error> {
    let SchemaJson { dimension, metric, analyzer, scorer, extractor, source_key, embedder, hnsw, components, leg_weights } =
        SchemaJson::deserialize(d)?;
    Ok(Schema { dimension, metric, analyzer, scorer, extractor, source_key, embedder, hnsw, components, leg_weights })
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentJson<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    source_given: bool,
    time_ms: Count,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entities: Option<Vec<EntityJson<'a>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    relations: Option<Vec<RelationJson<'a>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vector: Option<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntityJson<'a> {
    name: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<Cow<'a, str>>,
    mentions: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RelationJson<'a> {
    source: Cow<'a, str>,
    target: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<Cow<'a, str>>,
    #[serde(serialize_with = "write_weight")]
    weight: f64,
}

fn write_weight<S: Serializer>(weight: &f64, s: S) -> Result<S::Ok, S::Error> {
    RawValue::from_string(weight_text(*weight)).map_err(serde::ser::Error::custom)?.serialize(s)
}

/// The canonical text of a finite number: the shortest digits that read back as it, without an exponent from 1e-5 to below 1e16.
fn weight_text(weight: f64) -> String {
    let scientific = format!("{weight:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(-5..=15) => {
            let plain = format!("{weight}");
            if plain.contains('.') { plain } else { plain + ".0" }
        }
        _ => format!("{mantissa}e{exponent}"),
    }
}

/// Appends a line and its line feed.
fn push_line(value: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(&mut *out, value).expect("strings, numbers and finite weights always have a JSON form");
    out.push(b'\n');
}

impl HeaderLine {
    /// Appends the line and its line feed.
    pub fn encode(&self, out: &mut Vec<u8>) {
        push_line(self, out);
    }

    /// Reads the line. A version above [`DUMP_VERSION`] is newer, whatever else the line holds.
    pub fn decode(line: &[u8]) -> Result<HeaderLine, FormatError> {
        #[derive(Deserialize)]
        struct Version {
            triune_dump: u64,
        }
        let Version { triune_dump } = parse(line, "the header of a dump")?;
        if triune_dump > DUMP_VERSION {
            return Err(FormatError::newer(0, format!("dump version {triune_dump} is newer than {DUMP_VERSION}")));
        }
        if triune_dump != DUMP_VERSION {
            return Err(FormatError::new(0, format!("dump version {triune_dump} was never released")));
        }
        parse(line, "the header of a dump")
    }
}

impl CollectionLine {
    /// Appends the line and its line feed.
    pub fn encode(&self, out: &mut Vec<u8>) {
        push_line(self, out);
    }

    /// Reads the line.
    pub fn decode(line: &[u8]) -> Result<CollectionLine, FormatError> {
        parse(line, "the line of a collection")
    }
}

impl TrailerLine {
    /// Appends the line and its line feed.
    pub fn encode(&self, out: &mut Vec<u8>) {
        push_line(self, out);
    }

    /// Reads the line.
    pub fn decode(line: &[u8]) -> Result<TrailerLine, FormatError> {
        let trailer: TrailerLine = parse(line, "the trailer of a dump")?;
        if trailer.end { Ok(trailer) } else { Err(FormatError::new(0, "the trailer says that it is not the end")) }
    }
}

/// Appends the line of a document and its line feed.
pub fn encode_document(document: &StoredDocument, out: &mut Vec<u8>) {
    fn text(s: &str) -> Cow<'_, str> {
        Cow::Borrowed(s)
    }
    fn entity(e: &Entity) -> EntityJson<'_> {
        EntityJson { name: text(&e.name), kind: e.kind.as_deref().map(text), mentions: e.mentions }
    }
    fn relation(r: &Relation) -> RelationJson<'_> {
        RelationJson {
            source: text(&r.source),
            target: text(&r.target),
            kind: r.kind.as_deref().map(text),
            description: r.description.as_deref().map(text),
            weight: r.weight,
        }
    }
    let bytes = |v: &[f32]| -> Vec<u8> { v.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let line = DocumentJson {
        id: Cow::Borrowed(&document.id),
        text: Cow::Borrowed(&document.text),
        metadata: document.metadata.as_ref().map(|m| Cow::Borrowed(m.as_str())),
        source: document.source.as_deref().map(Cow::Borrowed),
        source_given: document.source_given,
        time_ms: Count(document.time_ms),
        entities: document.entities.as_ref().map(|list| list.iter().map(entity).collect()),
        relations: document.relations.as_ref().map(|list| list.iter().map(relation).collect()),
        vector: document.vector.as_deref().map(|v| Cow::Owned(STANDARD.encode(bytes(v)))),
    };
    push_line(&line, out);
}

/// Reads the line of a document that a caller could have stored.
pub fn decode_document(line: &[u8]) -> Result<StoredDocument, FormatError> {
    let json: DocumentJson<'_> = match serde_json::from_slice(line) {
        Ok(json) => json,
        Err(e) => return Err(not_json(line, "the line of a document", &e)),
    };
    let refused = |e: crate::error::Error| FormatError::new(0, e.to_string());
    let metadata = json.metadata.map(|m| Metadata::from_json(m.into_owned())).transpose().map_err(refused)?;
    let vector = json.vector.map(|v| vector(&v)).transpose()?;
    let entity = |e: EntityJson<'_>| Entity { name: e.name.into(), kind: e.kind.map(Into::into), mentions: e.mentions };
    let relation = |r: RelationJson<'_>| Relation {
        source: r.source.into(),
        target: r.target.into(),
        kind: r.kind.map(Into::into),
        description: r.description.map(Into::into),
        weight: r.weight,
    };
    let document = Document {
        id: json.id.into(),
        text: json.text.into(),
        metadata,
        vector,
        source: json.source.map(Into::into),
        entities: json.entities.map(|list| list.into_iter().map(entity).collect()),
        relations: json.relations.map(|list| list.into_iter().map(relation).collect()),
    };
    document.validate().map_err(refused)?;
    if json.source_given && document.source.is_none() {
        return Err(FormatError::new(0, format!("document {:?} has no source, and says that it was given", document.id)));
    }
    Ok(StoredDocument {
        id: document.id.into(),
        text: document.text.into(),
        metadata: document.metadata,
        vector: document.vector.map(Into::into),
        source: document.source.map(Into::into),
        source_given: json.source_given,
        time_ms: json.time_ms.0,
        entities: document.entities,
        relations: document.relations,
    })
}

fn vector(text: &str) -> Result<Vec<f32>, FormatError> {
    let bytes = STANDARD.decode(text).map_err(|e| FormatError::new(0, format!("the vector is not base64: {e}")))?;
    if !bytes.len().is_multiple_of(4) {
        return Err(FormatError::new(0, format!("the vector has {} bytes, no multiple of 4", bytes.len())));
    }
    Ok(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
}

fn parse<T: DeserializeOwned>(line: &[u8], what: &str) -> Result<T, FormatError> {
    serde_json::from_slice(line).map_err(|e| not_json(line, what, &e))
}

/// An error of the parser, whose own line is always 1.
fn not_json(line: &[u8], what: &str, error: &serde_json::Error) -> FormatError {
    if let Err(e) = std::str::from_utf8(line) {
        return FormatError::new(e.valid_up_to(), format!("not UTF-8 from its byte {} on", e.valid_up_to() + 1));
    }
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    FormatError::new(error.column().saturating_sub(1), format!("not {what}: {said} (column {})", error.column()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::document::tests::documents;
    use proptest::prelude::*;

    #[test]
    fn weights_have_one_text() {
        let texts = [
            (1.0, "1.0"),
            (0.5, "0.5"),
            (0.000025, "0.000025"),
            (0.0000025, "2.5e-6"),
            (2.5e-7, "2.5e-7"),
            (1e15, "1000000000000000.0"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
            (1e16, "1e16"),
            (1.5e300, "1.5e300"),
            (f64::MIN_POSITIVE / 8.0, "2.781342323134e-309"),
            (f64::MAX, "1.7976931348623157e308"),
        ];
        for (weight, text) in texts {
            assert_eq!(weight_text(weight), text);
            assert_eq!(text.parse::<f64>().map(f64::to_bits), Ok(weight.to_bits()));
        }
    }

    #[test]
    fn only_what_must_be_escaped_is() {
        let mut document = decode_document(br#"{"id":"a","text":"","time_ms":"7"}"#).expect("a document");
        document.text = "\"\\/\u{0}\u{8}\u{c}\n\r\t\u{1f}\u{7f}\u{2028}é".into();
        let mut out = Vec::new();
        encode_document(&document, &mut out);
        let expected = "{\"id\":\"a\",\"text\":\"\\\"\\\\/\\u0000\\b\\f\\n\\r\\t\\u001f\u{7f}\u{2028}é\",\"time_ms\":\"7\"}\n";
        assert_eq!(String::from_utf8(out).as_deref(), Ok(expected));
    }

    #[test]
    fn a_line_that_no_dump_has_is_refused() {
        let document = |line: &str| decode_document(line.as_bytes()).map_err(|e| e.what);
        assert!(document(r#"{"id":"a","text":"","time_ms":"0","vector":"AACAPw=="}"#).is_ok());
        for (line, said) in [
            (r#"{"id":"a","text":"","time_ms":"0","colour":1}"#, "unknown field `colour`"),
            (r#"{"id":"a","id":"b","text":"","time_ms":"0"}"#, "duplicate field `id`"),
            (r#"{"id":"","text":"","time_ms":"0"}"#, "is empty"),
            (r#"{"id":"a","text":"","time_ms":"+1"}"#, "not a 64-bit number"),
            (r#"{"id":"a","text":"","time_ms":1}"#, "invalid type"),
            (r#"{"id":"a","text":"","time_ms":"0","vector":"AACAPw"}"#, "not base64"),
            (r#"{"id":"a","text":"","time_ms":"0","vector":"AACA"}"#, "no multiple of 4"),
            (r#"{"id":"a","text":"","time_ms":"0","vector":"AACAfw=="}"#, "holds inf"),
            (r#"{"id":"a","text":"","time_ms":"0","vector":""}"#, "no components"),
            (r#"{"id":"a","text":"","time_ms":"0","source_given":true}"#, "says that it was given"),
            (r#"{"id":"a","text":"","time_ms":"0","metadata":"[1]"}"#, "JSON object"),
            (r#"{"id":"a","text":"","time_ms":"0","relations":[{"source":"a","target":"b","weight":0}]}"#, "weight 0"),
        ] {
            let refused = document(line).expect_err(line);
            assert!(refused.contains(said), "{line}: {refused}");
        }
        assert!(decode_document(b"{\"id\":\"\xff\"}").is_err_and(|e| e.what.contains("UTF-8")));
        assert!(HeaderLine::decode(br#"{"triune_dump":2,"collections":0,"more":1}"#).is_err_and(|e| e.newer));
        assert!(HeaderLine::decode(br#"{"triune_dump":0,"collections":0}"#).is_err_and(|e| !e.newer));
        assert!(HeaderLine::decode(br#"{"triune_dump":1,"collections":0,"more":1}"#).is_err_and(|e| e.what.contains("more")));
    }

    proptest! {
        #[test]
        fn a_document_reads_as_it_was_written(document in documents()) {
            let mut line = Vec::new();
            encode_document(&document, &mut line);
            prop_assert_eq!(line.pop(), Some(b'\n'));
            prop_assert!(!line.contains(&b'\n'));
            // The generator gives names that no caller could have given; what is valid comes back the same.
            if let Ok(decoded) = decode_document(&line) {
                prop_assert_eq!(&decoded, &document);
                let mut again = Vec::new();
                encode_document(&decoded, &mut again);
                again.pop();
                prop_assert_eq!(again, line);
            }
        }
    }
}

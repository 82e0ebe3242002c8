//! A stored document version as bytes: whole for the log, without id and vector for the document section of a segment. Spec §8.2.
//!
//! Both forms start with a byte of flags that says which optional parts follow. Lengths are varints; text, ids and metadata are UTF-8, kept
//! byte for byte; vectors are little-endian `f32`.

use super::error::FormatError;
use super::varint::{Reader, VARINT_BYTES_MAX, write_prefixed, write_varint};
use crate::document::{Entity, Metadata, Relation, StoredDocument, graph_bytes};
use crate::options::limits;

/// A source follows.
pub const DOCUMENT_HAS_SOURCE: u8 = 1;
/// Metadata follows.
pub const DOCUMENT_HAS_METADATA: u8 = 2;
/// A vector follows.
pub const DOCUMENT_HAS_VECTOR: u8 = 4;
/// The source was given on the document itself.
pub const DOCUMENT_SOURCE_GIVEN: u8 = 8;
/// Entities follow, perhaps none: they were given.
pub const DOCUMENT_HAS_ENTITIES: u8 = 16;
/// Relations follow, perhaps none: they were given.
pub const DOCUMENT_HAS_RELATIONS: u8 = 32;

const KNOWN: u8 = DOCUMENT_HAS_SOURCE
    | DOCUMENT_HAS_METADATA
    | DOCUMENT_HAS_VECTOR
    | DOCUMENT_SOURCE_GIVEN
    | DOCUMENT_HAS_ENTITIES
    | DOCUMENT_HAS_RELATIONS;

/// A kind follows an entity's or a relation's names.
pub const EDGE_HAS_KIND: u8 = 1;
/// A description follows a relation's names and kind.
pub const EDGE_HAS_DESCRIPTION: u8 = 2;
/// A number of mentions or a weight follows; without it that is 1.
pub const EDGE_HAS_NUMBER: u8 = 4;

/// Appends the whole version, id and vector too.
pub fn encode_version(document: &StoredDocument, out: &mut Vec<u8>) {
    let vector = if document.vector.is_some() { DOCUMENT_HAS_VECTOR } else { 0 };
    out.push(body_flags(document) | vector);
    write_varint(out, document.time_ms);
    write_prefixed(out, document.id.as_bytes());
    encode_parts(document, out);
    if let Some(vector) = &document.vector {
        write_varint(out, vector.len() as u64);
        vector.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
    }
}

/// Reads a whole version; the reader stands after it.
pub fn decode_version(reader: &mut Reader<'_>) -> Result<StoredDocument, FormatError> {
    let flags = decode_flags(reader, KNOWN)?;
    let time_ms = reader.varint("the time of a document")?;
    let id = reader.name("a document's id")?.into();
    let mut document = decode_parts(reader, flags, id, time_ms)?;
    if flags & DOCUMENT_HAS_VECTOR != 0 {
        document.vector = Some(decode_vector(reader)?);
    }
    Ok(document)
}

/// Appends the version without its id and vector, which a segment keeps in sections of their own.
pub fn encode_body(document: &StoredDocument, out: &mut Vec<u8>) {
    out.push(body_flags(document));
    write_varint(out, document.time_ms);
    encode_parts(document, out);
}

/// Reads what [`encode_body`] wrote: all of `bytes`. The id is given, and the vector is `None`.
pub fn decode_body(bytes: &[u8], id: Box<str>) -> Result<StoredDocument, FormatError> {
    let mut reader = Reader::new(bytes);
    let flags = decode_flags(&mut reader, KNOWN & !DOCUMENT_HAS_VECTOR)?;
    let time_ms = reader.varint("the time of a document")?;
    let document = decode_parts(&mut reader, flags, id, time_ms)?;
    reader.finish("a document")?;
    Ok(document)
}

/// At most this many bytes does [`encode_version`] append.
pub fn version_bytes_max(document: &StoredDocument) -> usize {
    let source = document.source.as_ref().map_or(0, |s| s.len());
    let metadata = document.metadata.as_ref().map_or(0, |m| m.as_str().len());
    let vector = document.vector.as_ref().map_or(0, |v| 4 * v.len());
    // Of the 32 bytes that each entity and each relation counts beside its strings it needs 22 at most.
    let graph = graph_bytes(document.entities.as_deref(), document.relations.as_deref());
    1 + 8 * VARINT_BYTES_MAX + document.id.len() + source + metadata + document.text.len() + vector + graph
}

fn body_flags(document: &StoredDocument) -> u8 {
    let mut flags = 0;
    if document.source.is_some() {
        flags |= DOCUMENT_HAS_SOURCE;
        if document.source_given {
            flags |= DOCUMENT_SOURCE_GIVEN;
        }
    }
    if document.metadata.is_some() {
        flags |= DOCUMENT_HAS_METADATA;
    }
    if document.entities.is_some() {
        flags |= DOCUMENT_HAS_ENTITIES;
    }
    if document.relations.is_some() {
        flags |= DOCUMENT_HAS_RELATIONS;
    }
    flags
}

fn encode_parts(document: &StoredDocument, out: &mut Vec<u8>) {
    if let Some(source) = &document.source {
        write_prefixed(out, source.as_bytes());
    }
    if let Some(metadata) = &document.metadata {
        write_prefixed(out, metadata.as_str().as_bytes());
    }
    write_prefixed(out, document.text.as_bytes());
    if let Some(entities) = &document.entities {
        write_varint(out, entities.len() as u64);
        entities.iter().for_each(|e| encode_entity(e, out));
    }
    if let Some(relations) = &document.relations {
        write_varint(out, relations.len() as u64);
        relations.iter().for_each(|r| encode_relation(r, out));
    }
}

fn encode_entity(entity: &Entity, out: &mut Vec<u8>) {
    let kind = if entity.kind.is_some() { EDGE_HAS_KIND } else { 0 };
    out.push(kind | if entity.mentions == 1 { 0 } else { EDGE_HAS_NUMBER });
    write_prefixed(out, entity.name.as_bytes());
    if let Some(kind) = &entity.kind {
        write_prefixed(out, kind.as_bytes());
    }
    if entity.mentions != 1 {
        write_varint(out, u64::from(entity.mentions));
    }
}

fn encode_relation(relation: &Relation, out: &mut Vec<u8>) {
    let kind = if relation.kind.is_some() { EDGE_HAS_KIND } else { 0 };
    let description = if relation.description.is_some() { EDGE_HAS_DESCRIPTION } else { 0 };
    out.push(kind | description | if relation.weight == 1.0 { 0 } else { EDGE_HAS_NUMBER });
    write_prefixed(out, relation.source.as_bytes());
    write_prefixed(out, relation.target.as_bytes());
    for text in [&relation.kind, &relation.description].into_iter().flatten() {
        write_prefixed(out, text.as_bytes());
    }
    if relation.weight != 1.0 {
        out.extend_from_slice(&relation.weight.to_le_bytes());
    }
}

fn decode_flags(reader: &mut Reader<'_>, known: u8) -> Result<u8, FormatError> {
    let at = reader.position();
    let flags = reader.u8("the flags of a document")?;
    if flags & !KNOWN != 0 {
        return Err(FormatError::newer(at, format!("document flags {:#04x} are unknown to this version", flags & !KNOWN)));
    }
    if flags & !known != 0 {
        return Err(FormatError::new(at, format!("document flags {:#04x} have no place here", flags & !known)));
    }
    if flags & DOCUMENT_SOURCE_GIVEN != 0 && flags & DOCUMENT_HAS_SOURCE == 0 {
        return Err(FormatError::new(at, "a document without a source says that its source was given"));
    }
    Ok(flags)
}

fn decode_parts(reader: &mut Reader<'_>, flags: u8, id: Box<str>, time_ms: u64) -> Result<StoredDocument, FormatError> {
    let source = match flags & DOCUMENT_HAS_SOURCE {
        0 => None,
        _ => Some(reader.name("a document's source")?.into()),
    };
    let metadata = match flags & DOCUMENT_HAS_METADATA {
        0 => None,
        _ => Some(Metadata::trusted(reader.text("a document's metadata", limits::METADATA_BYTES_MAX)?.into())),
    };
    let text = reader.text("a document's text", limits::TEXT_BYTES_MAX)?.into();
    let entities = match flags & DOCUMENT_HAS_ENTITIES {
        0 => None,
        _ => Some(decode_list(reader, "entities of a document", decode_entity)?),
    };
    let relations = match flags & DOCUMENT_HAS_RELATIONS {
        0 => None,
        _ => Some(decode_list(reader, "relations of a document", decode_relation)?),
    };
    let source_given = flags & DOCUMENT_SOURCE_GIVEN != 0;
    Ok(StoredDocument { id, text, metadata, vector: None, source, source_given, time_ms, entities, relations })
}

fn decode_list<T>(
    reader: &mut Reader<'_>,
    what: &str,
    item: impl Fn(&mut Reader<'_>) -> Result<T, FormatError>,
) -> Result<Vec<T>, FormatError> {
    // The least of them has flags and a name: 3 bytes. A value is some 30 times as large, so room is made as they come.
    let count = reader.count(what, 3)?;
    let mut list = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        list.push(item(reader)?);
    }
    Ok(list)
}

fn decode_edge_flags(reader: &mut Reader<'_>, known: u8) -> Result<u8, FormatError> {
    let at = reader.position();
    let flags = reader.u8("the flags of an entity or a relation")?;
    match flags & !known {
        0 => Ok(flags),
        unknown => Err(FormatError::newer(at, format!("flags {unknown:#04x} of an entity or a relation are unknown to this version"))),
    }
}

fn decode_kind(reader: &mut Reader<'_>, flags: u8) -> Result<Option<String>, FormatError> {
    if flags & EDGE_HAS_KIND == 0 {
        return Ok(None);
    }
    Ok(Some(reader.text("the type of an entity or a relation", limits::NAME_BYTES_MAX)?.into()))
}

fn decode_entity(reader: &mut Reader<'_>) -> Result<Entity, FormatError> {
    let flags = decode_edge_flags(reader, EDGE_HAS_KIND | EDGE_HAS_NUMBER)?;
    let name = reader.name("an entity's name")?.into();
    let kind = decode_kind(reader, flags)?;
    let mentions = if flags & EDGE_HAS_NUMBER == 0 {
        1
    } else {
        let at = reader.position();
        let mentions = reader.varint("mentions of an entity")?;
        u32::try_from(mentions)
            .ok()
            .filter(|&n| n > 0)
            .ok_or_else(|| FormatError::new(at, format!("an entity is mentioned {mentions} times; 1 to 2^32 - 1 are possible")))?
    };
    Ok(Entity { name, kind, mentions })
}

fn decode_relation(reader: &mut Reader<'_>) -> Result<Relation, FormatError> {
    let flags = decode_edge_flags(reader, EDGE_HAS_KIND | EDGE_HAS_DESCRIPTION | EDGE_HAS_NUMBER)?;
    let source = reader.name("the source of a relation")?.into();
    let target = reader.name("the target of a relation")?.into();
    let kind = decode_kind(reader, flags)?;
    let description = match flags & EDGE_HAS_DESCRIPTION {
        0 => None,
        _ => Some(reader.text("the description of a relation", limits::GRAPH_BYTES_MAX)?.into()),
    };
    let weight = if flags & EDGE_HAS_NUMBER == 0 { 1.0 } else { decode_weight(reader)? };
    Ok(Relation { source, target, kind, description, weight })
}

fn decode_weight(reader: &mut Reader<'_>) -> Result<f64, FormatError> {
    let at = reader.position();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(reader.take("the weight of a relation", 8)?);
    let weight = f64::from_le_bytes(bytes);
    if weight > 0.0 && weight.is_finite() {
        return Ok(weight);
    }
    Err(FormatError::new(at, format!("the weight of a relation is {weight}; it is a finite number above 0")))
}

fn decode_vector(reader: &mut Reader<'_>) -> Result<Box<[f32]>, FormatError> {
    let at = reader.position();
    let dimension = reader.count("components of a vector", 4)?;
    if dimension == 0 || dimension > limits::DIMENSION_MAX {
        return Err(FormatError::new(at, format!("a vector has 1 to {} components, not {dimension}", limits::DIMENSION_MAX)));
    }
    let bytes = reader.take("a vector", 4 * dimension)?;
    let vector: Box<[f32]> = bytes.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    match vector.iter().position(|x| !x.is_finite()) {
        Some(i) => Err(FormatError::new(at, format!("component {i} of a vector is {}", vector[i]))),
        None => Ok(vector),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any document version that the limits allow, small.
    pub(crate) fn documents() -> impl Strategy<Value = StoredDocument> {
        let vector = prop::collection::vec(any::<f32>().prop_filter("finite", |x| x.is_finite()), 1..5);
        let metadata = prop::option::of("[a-z]{0,9}").prop_map(|m| m.map(|v| Metadata::trusted(format!("{{\"k\": \"{v}\"}}").into())));
        let source = prop::option::of((".{1,20}", any::<bool>()));
        ("\\PC{1,30}", "\\PC*", metadata, prop::option::of(vector), source, any::<u64>(), graphs()).prop_map(
            |(id, text, metadata, vector, source, time_ms, (entities, relations))| StoredDocument {
                id: id.into(),
                text: text.into(),
                metadata,
                vector: vector.map(Into::into),
                source_given: source.as_ref().is_some_and(|s| s.1),
                source: source.map(|s| s.0.into()),
                time_ms,
                entities,
                relations,
            },
        )
    }

    fn graphs() -> impl Strategy<Value = (Option<Vec<Entity>>, Option<Vec<Relation>>)> {
        let kind = || prop::option::of(".{0,9}");
        let mentions = prop_oneof![Just(1), 1..=u32::MAX];
        let entity = (".{1,20}", kind(), mentions).prop_map(|(name, kind, mentions)| Entity { name, kind, mentions });
        let weight = prop_oneof![Just(1.0), Just(0.5), Just(f64::MIN_POSITIVE / 8.0), Just(f64::MAX)];
        let relation = (".{1,9}", ".{1,9}", kind(), prop::option::of(".{0,30}"), weight)
            .prop_map(|(source, target, kind, description, weight)| Relation { source, target, kind, description, weight });
        (prop::option::of(prop::collection::vec(entity, 0..4)), prop::option::of(prop::collection::vec(relation, 0..4)))
    }

    proptest! {
        #[test]
        fn a_version_and_a_body_read_as_they_were_written(document in documents()) {
            let mut bytes = Vec::new();
            encode_version(&document, &mut bytes);
            prop_assert!(bytes.len() <= version_bytes_max(&document));
            let mut reader = Reader::new(&bytes);
            let decoded = decode_version(&mut reader);
            prop_assert_eq!(decoded.as_ref(), Ok(&document));
            prop_assert_eq!(reader.remaining(), 0);
            for cut in 0..bytes.len() {
                prop_assert!(decode_version(&mut Reader::new(&bytes[..cut])).is_err(), "cut at {}", cut);
            }
            let mut body = Vec::new();
            encode_body(&document, &mut body);
            let expected = StoredDocument { vector: None, ..document };
            prop_assert_eq!(decode_body(&body, expected.id.clone()), Ok(expected));
        }

        #[test]
        fn any_bytes_decode_or_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_version(&mut Reader::new(&bytes));
            let _ = decode_body(&bytes, "id".into());
        }
    }

    #[test]
    fn unknown_flags_are_newer_and_impossible_ones_are_damage() {
        let refused = |flags: u8| decode_version(&mut Reader::new(&[flags, 0, 1, b'a', 0])).expect_err("refused");
        assert!(refused(64).newer && refused(128).newer);
        let entity = |flags: u8| decode_body(&[DOCUMENT_HAS_ENTITIES, 0, 0, 1, flags, 1, b'x'], "a".into());
        assert!(entity(0).is_ok() && entity(EDGE_HAS_DESCRIPTION).is_err_and(|e| e.newer) && entity(8).is_err_and(|e| e.newer));
        assert!(!refused(DOCUMENT_SOURCE_GIVEN).newer);
        assert!(decode_body(&[DOCUMENT_HAS_VECTOR, 0, 0], "a".into()).is_err_and(|e| !e.newer));
        assert!(decode_body(&[0, 0, 0, 9], "a".into()).is_err(), "a byte after the end");
    }

    #[test]
    fn mentions_and_weights_that_no_caller_could_have_given_are_refused() {
        let entity = |mentions: u8| decode_body(&[DOCUMENT_HAS_ENTITIES, 0, 0, 1, EDGE_HAS_NUMBER, 1, b'x', mentions], "a".into());
        assert!(entity(2).is_ok() && entity(0).is_err());
        let relation = |weight: f64| {
            let mut bytes = vec![DOCUMENT_HAS_RELATIONS, 0, 0, 1, EDGE_HAS_NUMBER, 1, b'x', 1, b'y'];
            bytes.extend_from_slice(&weight.to_le_bytes());
            decode_body(&bytes, "a".into())
        };
        assert!(relation(0.25).is_ok());
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(relation(weight).is_err(), "{weight}");
        }
        assert!(decode_body(&[DOCUMENT_HAS_ENTITIES, 0, 0, 200, 1], "a".into()).is_err(), "more entities than bytes");
    }

    #[test]
    fn a_vector_that_no_caller_could_have_given_is_refused() {
        let mut bytes = vec![DOCUMENT_HAS_VECTOR, 0, 1, b'a', 0, 1];
        bytes.extend_from_slice(&f32::NAN.to_le_bytes());
        assert!(decode_version(&mut Reader::new(&bytes)).is_err_and(|e| e.what.contains("NaN")));
        assert!(decode_version(&mut Reader::new(&[DOCUMENT_HAS_VECTOR, 0, 1, b'a', 0, 0])).is_err());
    }
}

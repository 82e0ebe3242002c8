//! A stored document version as bytes: whole for the log, without id and vector for the document section of a segment. Spec §8.2.
//!
//! Both forms start with a byte of flags that says which optional parts follow. Lengths are varints; text, ids and metadata are UTF-8, kept
//! byte for byte; vectors are little-endian `f32`.

use super::error::FormatError;
use super::varint::{Reader, VARINT_BYTES_MAX, write_prefixed, write_varint};
use crate::document::{Metadata, StoredDocument};
use crate::options::limits;

/// A source follows.
pub const DOCUMENT_HAS_SOURCE: u8 = 1;
/// Metadata follows.
pub const DOCUMENT_HAS_METADATA: u8 = 2;
/// A vector follows.
pub const DOCUMENT_HAS_VECTOR: u8 = 4;
/// The source was given on the document itself.
pub const DOCUMENT_SOURCE_GIVEN: u8 = 8;
/// Reserved: mentions follow.
pub const DOCUMENT_HAS_MENTIONS: u8 = 16;
/// Reserved: relations follow.
pub const DOCUMENT_HAS_RELATIONS: u8 = 32;

const KNOWN: u8 = DOCUMENT_HAS_SOURCE | DOCUMENT_HAS_METADATA | DOCUMENT_HAS_VECTOR | DOCUMENT_SOURCE_GIVEN;

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
    1 + 6 * VARINT_BYTES_MAX + document.id.len() + source + metadata + document.text.len() + vector
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
    Ok(StoredDocument { id, text, metadata, vector: None, source, source_given: flags & DOCUMENT_SOURCE_GIVEN != 0, time_ms })
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
        ("\\PC{1,30}", "\\PC*", metadata, prop::option::of(vector), source, any::<u64>()).prop_map(
            |(id, text, metadata, vector, source, time_ms)| StoredDocument {
                id: id.into(),
                text: text.into(),
                metadata,
                vector: vector.map(Into::into),
                source_given: source.as_ref().is_some_and(|s| s.1),
                source: source.map(|s| s.0.into()),
                time_ms,
            },
        )
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
    fn reserved_flags_are_newer_and_impossible_ones_are_damage() {
        let refused = |flags: u8| decode_version(&mut Reader::new(&[flags, 0, 1, b'a', 0])).expect_err("refused");
        assert!(refused(DOCUMENT_HAS_MENTIONS).newer && refused(DOCUMENT_HAS_RELATIONS).newer && refused(128).newer);
        assert!(!refused(DOCUMENT_SOURCE_GIVEN).newer);
        assert!(decode_body(&[DOCUMENT_HAS_VECTOR, 0, 0], "a".into()).is_err_and(|e| !e.newer));
        assert!(decode_body(&[0, 0, 0, 9], "a".into()).is_err(), "a byte after the end");
    }

    #[test]
    fn a_vector_that_no_caller_could_have_given_is_refused() {
        let mut bytes = vec![DOCUMENT_HAS_VECTOR, 0, 1, b'a', 0, 1];
        bytes.extend_from_slice(&f32::NAN.to_le_bytes());
        assert!(decode_version(&mut Reader::new(&bytes)).is_err_and(|e| e.what.contains("NaN")));
        assert!(decode_version(&mut Reader::new(&[DOCUMENT_HAS_VECTOR, 0, 1, b'a', 0, 0])).is_err());
    }
}

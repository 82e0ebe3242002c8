//! One document version as bytes. Spec §8.4. (Stand-in until the log's own file is merged.)

use super::error::FormatError;
use crate::document::{Metadata, StoredDocument};

const SOURCE: u8 = 1;
const METADATA: u8 = 2;
const SOURCE_GIVEN: u8 = 8;

fn put_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

fn varint(bytes: &mut &[u8]) -> Result<u64, FormatError> {
    let mut v = 0u64;
    for shift in (0..70).step_by(7) {
        let (&b, rest) = bytes.split_first().ok_or_else(|| FormatError::new(0, "a number is cut off"))?;
        *bytes = rest;
        if shift == 63 && b > 1 {
            return Err(FormatError::new(0, "a number is too great"));
        }
        v |= u64::from(b & 0x7f) << shift;
        if b < 0x80 {
            return Ok(v);
        }
    }
    Err(FormatError::new(0, "a number is too long"))
}

fn string(bytes: &mut &[u8]) -> Result<Box<str>, FormatError> {
    let len = varint(bytes)? as usize;
    let (text, rest) = bytes.split_at_checked(len).ok_or_else(|| FormatError::new(0, "a text is cut off"))?;
    *bytes = rest;
    Ok(std::str::from_utf8(text).map_err(|_| FormatError::new(0, "a text is not UTF-8"))?.into())
}

/// Appends a body: a version without its id and vector.
pub fn encode_body(document: &StoredDocument, out: &mut Vec<u8>) {
    let mut flags = 0;
    for (bit, on) in [(SOURCE, document.source.is_some()), (METADATA, document.metadata.is_some()), (SOURCE_GIVEN, document.source_given)] {
        flags |= if on { bit } else { 0 };
    }
    out.push(flags);
    put_varint(out, document.time_ms);
    let texts = [document.source.as_deref(), document.metadata.as_ref().map(Metadata::as_str), Some(&*document.text)];
    for text in texts.into_iter().flatten() {
        put_varint(out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
}

/// Reads a body; the id comes from elsewhere.
pub fn decode_body(mut bytes: &[u8], id: Box<str>) -> Result<StoredDocument, FormatError> {
    let (&flags, rest) = bytes.split_first().ok_or_else(|| FormatError::new(0, "a document is cut off"))?;
    bytes = rest;
    if flags & !(SOURCE | METADATA | SOURCE_GIVEN) != 0 {
        return Err(FormatError::new(0, format!("unknown flags {flags:#x}")));
    }
    let time_ms = varint(&mut bytes)?;
    let source = (flags & SOURCE != 0).then(|| string(&mut bytes)).transpose()?;
    let metadata = (flags & METADATA != 0).then(|| string(&mut bytes)).transpose()?.map(Metadata::trusted);
    let text = string(&mut bytes)?;
    if !bytes.is_empty() {
        return Err(FormatError::new(0, "bytes after a document"));
    }
    Ok(StoredDocument { id, text, metadata, vector: None, source, source_given: flags & SOURCE_GIVEN != 0, time_ms })
}

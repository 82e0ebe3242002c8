//! The line format of documents, both ways, and the lines themselves.
//!
//! A line is `{"id","text","metadata","vector","source","entities","relations"}`; all but `id` may be absent or null. Metadata passes through
//! byte for byte: it is cut out of the line, never parsed into values and written again. Any other key is refused by its name.

use crate::output::{Failure, Outcome};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use triune::{Document, ErrorCode, Metadata, StoredDocument};

/// The keys that a line may hold whatever the flags say.
const KNOWN: [&str; 7] = ["id", "text", "metadata", "vector", "source", "entities", "relations"];

/// What `entities` and `relations` hold.
pub(crate) const ENTITIES: &str = "an array of {\"name\",\"type\",\"mentions\"}";
pub(crate) const RELATIONS: &str = "an array of {\"source\",\"target\",\"type\",\"description\",\"weight\"}";

/// Lines of a file or of stdin, counted from 1; blank ones are counted and skipped.
pub(crate) struct Lines {
    reader: Box<dyn BufRead>,
    name: String,
    buffer: Vec<u8>,
    number: u64,
    bytes: u64,
}

impl Lines {
    /// Opens `file`; `-` is stdin.
    pub(crate) fn open(file: &str) -> Outcome<Lines> {
        let (reader, name): (Box<dyn BufRead>, _) = if file == "-" {
            (Box::new(BufReader::with_capacity(1 << 20, std::io::stdin())), "stdin")
        } else {
            let opened = File::open(file).map_err(|e| Failure::file(file, &e))?;
            if opened.metadata().is_ok_and(|m| m.is_dir()) {
                let message = format!("{file} is a directory; nothing was read. Name a file with a line of JSON for each entry");
                return Err(Failure::Refused { code: ErrorCode::Io, message });
            }
            (Box::new(BufReader::with_capacity(1 << 20, opened)), file)
        };
        Ok(Lines { reader, name: name.to_string(), buffer: Vec::new(), number: 0, bytes: 0 })
    }

    /// The file's name, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The number of the line read last.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How many bytes were read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next line that is not blank. A line that is not UTF-8 is an error; reading may go on after it.
    pub(crate) fn next_line(&mut self) -> Outcome<Option<&str>> {
        loop {
            self.buffer.clear();
            let read = self.reader.read_until(b'\n', &mut self.buffer).map_err(|e| Failure::file(&self.name, &e))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.bytes += read as u64;
            // Some editors begin a file with a byte order mark, which is no part of its text.
            let start = if self.number == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
            if !self.buffer[start..].iter().all(u8::is_ascii_whitespace) {
                return std::str::from_utf8(&self.buffer[start..])
                    .map(Some)
                    .map_err(|e| Failure::invalid(format!("the line is not UTF-8 from its byte {} on", e.valid_up_to() + 1)));
            }
        }
    }
}

/// Everything in `file`, as text; `-` is stdin.
pub(crate) fn read_all(file: &str) -> Outcome<String> {
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().read_to_string(&mut text),
        _ => File::open(file).and_then(|mut f| f.read_to_string(&mut text)),
    };
    match read {
        Ok(_) => Ok(text),
        Err(e) if e.kind() == std::io::ErrorKind::InvalidData => Err(Failure::invalid(format!("{} is not UTF-8", source_name(file)))),
        Err(e) => Err(Failure::file(source_name(file), &e)),
    }
}

/// How messages call `file`.
pub(crate) fn source_name(file: &str) -> &str {
    if file == "-" { "stdin" } else { file }
}

/// The members of a JSON object in their order, each value as it stands in the text.
pub(crate) struct Fields<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Parses an object; a key that stands there twice is refused.
    pub(crate) fn parse(text: &'a str) -> Outcome<Fields<'a>> {
        let fields = Fields::parse_any(text)?;
        let mut seen = HashSet::new();
        match fields.0.iter().find(|(key, _)| !seen.insert(&**key)) {
            Some((key, _)) => Err(Failure::invalid(format!("the key {key:?} stands there twice"))),
            None => Ok(fields),
        }
    }

    fn parse_any(text: &'a str) -> Outcome<Fields<'a>> {
        if text.trim_start().starts_with('[') {
            return Err(Failure::invalid("an array and not an object; write one object a line, without brackets and commas around them"));
        }
        serde_json::from_str(text).map_err(|e| Failure::invalid(format!("not a JSON object: {}", without_position(&e))))
    }

    /// The value under `key`; null counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(k, v)| k == key && !is_null(v)).map(|(_, v)| *v)
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    fields.push((Cow::Owned(member.0), member.1));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// serde_json counts lines inside the text it was given; the caller knows the real one.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match (text.split_once(" at line "), error.column()) {
        (Some((what, _)), column) if column > 0 => format!("{what} (column {column})"),
        _ => text,
    }
}

/// Reads a value of a line as `T`, or says which key holds something else.
pub(crate) fn value<'a, T: Deserialize<'a>>(key: &str, raw: &'a RawValue, what: &str) -> Outcome<T> {
    serde_json::from_str(raw.get())
        .map_err(|e| Failure::invalid(format!("the key {key:?} holds {}; it is {what} ({})", short(raw), without_position(&e))))
}

/// The beginning of a value, for a message.
fn short(raw: &RawValue) -> String {
    crate::output::excerpt(raw.get(), 40)
}

/// How the lines of one command become documents.
pub(crate) struct Form {
    text_fields: Vec<String>,
    rest_to_metadata: bool,
    /// How many documents were read, and of how many a key of text was there.
    read: Cell<(u64, u64)>,
}

impl Default for Form {
    fn default() -> Form {
        Form { text_fields: vec!["text".into()], rest_to_metadata: false, read: Cell::default() }
    }
}

impl Form {
    /// `text_fields` are joined to the document's text; with `rest_to_metadata` no key is unknown.
    pub(crate) fn new(text_fields: &[String], rest_to_metadata: bool) -> Outcome<Form> {
        for field in text_fields {
            if field.is_empty() || field != "text" && KNOWN.contains(&field.as_str()) {
                return Err(Failure::invalid(format!("--text-field names {field:?}, which is no field of text")));
            }
        }
        Ok(Form { text_fields: text_fields.to_vec(), rest_to_metadata, read: Cell::default() })
    }

    /// What is to be said when no line had a key of text: one of another name most likely holds it. Vectors alone are no mistake, unless
    /// `--text-field` said that there is text.
    pub(crate) fn without_text(&self, had_vector: bool) -> Option<String> {
        let (documents, with_text) = self.read.get();
        let named = self.text_fields != ["text"];
        if documents == 0 || with_text > 0 || had_vector && !named {
            return None;
        }
        let keys: Vec<String> = self.text_fields.iter().map(|key| format!("{key:?}")).collect();
        Some(format!("no line has a key {}, so no document has a text: --text-field names the keys that hold it", keys.join(" or ")))
    }

    /// Reads one document.
    pub(crate) fn document(&self, line: &str) -> Outcome<Document> {
        let fields = Fields::parse(line)?;
        let mut document = Document::new(id(&fields)?);
        document.text = self.text(&fields)?;
        let (documents, with_text) = self.read.get();
        let has_text = self.text_fields.iter().any(|key| fields.get(key).is_some());
        self.read.set((documents + 1, with_text + u64::from(has_text)));
        if let Some(raw) = fields.get("vector") {
            document.vector = Some(value("vector", raw, "an array of numbers")?);
        }
        if let Some(raw) = fields.get("source") {
            document.source = Some(value("source", raw, "a string")?);
        }
        if let Some(raw) = fields.get("entities") {
            document.entities = Some(value("entities", raw, ENTITIES)?);
        }
        if let Some(raw) = fields.get("relations") {
            document.relations = Some(value("relations", raw, RELATIONS)?);
        }
        document.metadata = self.metadata(&fields)?;
        Ok(document)
    }

    /// Whether `key` is text that goes into the document's text.
    fn is_text(&self, key: &str) -> bool {
        self.text_fields.iter().any(|f| f == key)
    }

    fn text(&self, fields: &Fields<'_>) -> Outcome<String> {
        let mut text = String::new();
        for field in &self.text_fields {
            let Some(raw) = fields.get(field) else { continue };
            let part: String = value(field, raw, "a string")?;
            if !text.is_empty() && !part.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&part);
        }
        Ok(text)
    }

    fn metadata(&self, fields: &Fields<'_>) -> Outcome<Option<Metadata>> {
        let mut rest = Vec::new();
        for (key, raw) in &fields.0 {
            let own = KNOWN.contains(&&**key) && (key != "text" || self.is_text("text"));
            if own {
                continue;
            } else if self.rest_to_metadata {
                rest.push((&**key, *raw));
            } else if !self.is_text(key) {
                return Err(Failure::invalid(format!(
                    "unknown key {key:?}; a document has id, text, metadata, vector, source, entities and relations (`triune load --text-field title,text` joins other keys to the text, `--rest-to-metadata` takes them into the metadata)"
                )));
            }
        }
        let given = fields.get("metadata").map(RawValue::get);
        let json = match (given, rest.is_empty()) {
            (None, true) => return Ok(None),
            (Some(given), true) => given.to_string(),
            (given, false) => merge(given.unwrap_or("{}"), &rest)?,
        };
        Ok(Some(Metadata::from_json(json)?))
    }
}

fn id(fields: &Fields<'_>) -> Outcome<String> {
    let raw = fields.get("id").ok_or_else(|| Failure::invalid("there is no key \"id\"; every document has one"))?;
    let number = raw.get().starts_with(|c: char| c.is_ascii_digit() || c == '-');
    if number {
        return Err(Failure::invalid(format!("the id is the number {0}; ids are strings: write \"{0}\"", short(raw))));
    }
    value("id", raw, "a string")
}

/// Adds members to the text of an object without touching what stands there.
fn merge(object: &str, rest: &[(&str, &RawValue)]) -> Outcome<String> {
    let there = Fields::parse_any(object).map_err(|f| f.reworded(|m| format!("the metadata is {m}")))?;
    let keys: HashSet<&str> = there.0.iter().map(|(key, _)| &**key).collect();
    if let Some((key, _)) = rest.iter().find(|(key, _)| keys.contains(key)) {
        return Err(Failure::invalid(format!("the key {key:?} stands on the line and in its metadata; nothing chooses between them")));
    }
    let mut merged = object.trim_end().strip_suffix('}').unwrap_or(object).trim_end().to_string();
    let mut first = there.0.is_empty();
    for (key, raw) in rest {
        if !first {
            merged.push(',');
        }
        first = false;
        merged.push_str(&serde_json::Value::from(*key).to_string());
        merged.push(':');
        merged.push_str(raw.get());
    }
    merged.push('}');
    Ok(merged)
}

/// A stored document as the line that `load` reads.
pub(crate) struct Line<'a> {
    pub(crate) document: &'a StoredDocument,
    pub(crate) vectors: bool,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let d = self.document;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &*d.id)?;
        map.serialize_entry("text", &*d.text)?;
        if let Some(metadata) = &d.metadata {
            map.serialize_entry("metadata", &Verbatim(metadata))?;
        }
        // A source that the metadata names is not repeated: loaded again, it would count as given on the document itself.
        if let Some(source) = d.source.as_deref().filter(|_| d.source_given) {
            map.serialize_entry("source", source)?;
        }
        if let Some(vector) = d.vector.as_deref().filter(|_| self.vectors) {
            map.serialize_entry("vector", vector)?;
        }
        if let Some(entities) = &d.entities {
            map.serialize_entry("entities", entities)?;
        }
        if let Some(relations) = &d.relations {
            map.serialize_entry("relations", relations)?;
        }
        map.end()
    }
}

/// Metadata as it was given, on one line.
pub(crate) struct Verbatim<'a>(pub(crate) &'a Metadata);

impl Serialize for Verbatim<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A raw line break is white space between two tokens, never part of a string: a space means the same and keeps the line whole.
        let text = self.0.as_str().replace(['\n', '\r'], " ");
        RawValue::from_string(text).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

#[cfg(test)]
#[path = "jsonl_tests.rs"]
mod tests;

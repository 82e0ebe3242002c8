//! JSON, JSON lines and CSV as text: a line `name: value` for every value, a blank line between records. So a chunk says what its values
//! are, and records stay whole where they fit. What does not parse is taken as it stands, with a remark.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Names may repeat for every value; a file whose text grows beyond so many times its length is taken as it stands.
const GROWTH_MAX: usize = 4;

/// JSON, or JSON lines.
pub(super) fn json(text: &str) -> (String, Option<String>) {
    let mut lines = Lines { out: String::new(), path: String::new(), limit: limit(text), depth: 0 };
    let mut values = serde_json::Deserializer::from_str(text);
    loop {
        // At the end there is nothing but white space.
        if text_left(&mut values) {
            match (&mut lines).deserialize(&mut values) {
                Ok(()) => lines.blank(),
                Err(e) => return (text.to_string(), Some(format!("it was read as plain text: it is not JSON ({e})"))),
            }
        } else {
            return (lines.out, None);
        }
    }
}

fn text_left(values: &mut serde_json::Deserializer<serde_json::de::StrRead<'_>>) -> bool {
    values.end().is_err()
}

fn limit(text: &str) -> usize {
    text.len().saturating_mul(GROWTH_MAX).saturating_add(1 << 16)
}

struct Lines {
    out: String,
    /// Names on the way to the current value, with dots between.
    path: String,
    limit: usize,
    depth: usize,
}

impl Lines {
    fn value<E: Error>(&mut self, value: impl fmt::Display) -> Result<(), E> {
        use fmt::Write;
        let written = if self.path.is_empty() { writeln!(self.out, "{value}") } else { writeln!(self.out, "{}: {value}", self.path) };
        match written {
            Ok(()) if self.out.len() <= self.limit => Ok(()),
            _ => Err(E::custom(format!("its text would have more than {} bytes", self.limit))),
        }
    }

    /// Ends a record.
    fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }
}

impl<'de> DeserializeSeed<'de> for &mut Lines {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Lines {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E: Error>(self, v: bool) -> Result<(), E> {
        self.value(v)
    }
    fn visit_i64<E: Error>(self, v: i64) -> Result<(), E> {
        self.value(v)
    }
    fn visit_u64<E: Error>(self, v: u64) -> Result<(), E> {
        self.value(v)
    }
    fn visit_f64<E: Error>(self, v: f64) -> Result<(), E> {
        self.value(v)
    }
    fn visit_str<E: Error>(self, v: &str) -> Result<(), E> {
        self.value(v)
    }
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        // Nothing is said by it.
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let top = self.depth == 0;
        self.depth += 1;
        while seq.next_element_seed(&mut *self)?.is_some() {
            // The members of an array on top are records.
            if top {
                self.blank();
            }
        }
        self.depth -= 1;
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.depth += 1;
        let length = self.path.len();
        while let Some(key) = map.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            map.next_value_seed(&mut *self)?;
            self.path.truncate(length);
        }
        self.depth -= 1;
        Ok(())
    }
}

/// CSV with names in its first row; commas, semicolons or tabs between the fields, whichever that row has most of.
pub(super) fn csv(text: &str) -> (String, Option<String>) {
    let first = text.lines().next().unwrap_or_default();
    let separator = [b',', b';', b'\t'].into_iter().rev().max_by_key(|s| first.bytes().filter(|b| b == s).count()).unwrap_or(b',');
    let mut reader = csv::ReaderBuilder::new().delimiter(separator).flexible(true).has_headers(false).from_reader(text.as_bytes());
    let (mut names, mut out, limit): (Option<csv::StringRecord>, String, usize) = (None, String::new(), limit(text));
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(e) => return (text.to_string(), Some(format!("it was read as plain text: it is not CSV ({e})"))),
        };
        let Some(names) = &names else {
            names = Some(record);
            continue;
        };
        for (i, value) in record.iter().enumerate().filter(|(_, value)| !value.trim().is_empty()) {
            match names.get(i).map(str::trim).filter(|name| !name.is_empty()) {
                Some(name) => out.extend([name, ": ", value, "\n"]),
                None => out.extend([value, "\n"]),
            }
        }
        out.push('\n');
        if out.len() > limit {
            return (
                text.to_string(),
                Some(format!("it was read as plain text: with its names, its text would have more than {limit} bytes")),
            );
        }
    }
    // Without a record, the names are what it says.
    match (names, out.trim().is_empty()) {
        (Some(names), true) => (names.iter().collect::<Vec<_>>().join("\n"), None),
        _ => (out, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_values_stand_under_their_names() {
        let (text, remark) = json(r#"{"name":"Ada","tags":["x","y"],"born":{"year":1815,"known":true},"none":null}"#);
        assert_eq!((text.as_str(), remark), ("name: Ada\ntags: x\ntags: y\nborn.year: 1815\nborn.known: true\n\n", None));
        assert_eq!(json("[{\"a\":1},{\"a\":2.5}]").0, "a: 1\n\na: 2.5\n\n");
        assert_eq!(json("{\"a\":1}\n\n{\"a\":\"two\\nlines\"}\n").0, "a: 1\n\na: two\nlines\n\n");
        assert_eq!(json("\"just text\"").0, "just text\n\n");
        assert_eq!(json("  \n").0, "");
    }

    #[test]
    fn what_is_no_json_is_taken_as_it_stands() {
        for broken in ["{\"a\":1", "// comment\n{}", &"[".repeat(10_000)] {
            let (text, remark) = json(broken);
            assert_eq!(text, broken);
            assert!(remark.is_some_and(|r| r.contains("plain text")));
        }
    }

    #[test]
    fn long_names_repeated_do_not_multiply_without_bound() {
        let hostile = format!("{{\"{}\":[{}1]}}", "k".repeat(1 << 16), "1,".repeat(1 << 16));
        let (text, remark) = json(&hostile);
        assert!(text == hostile && remark.is_some());
        let hostile = format!("{}\n{}", "k".repeat(1 << 16), "1\n".repeat(1 << 16));
        let (text, remark) = csv(&hostile);
        assert!(text == hostile && remark.is_some());
    }

    #[test]
    fn csv_values_stand_under_their_names() {
        assert_eq!(csv("name,born\nAda,1815\n\"Grace, H.\",1906\n").0, "name: Ada\nborn: 1815\n\nname: Grace, H.\nborn: 1906\n\n");
        assert_eq!(csv("a;b\n1;2;3\n").0, "a: 1\nb: 2\n3\n\n");
        assert_eq!(csv("a\tb\n1\t\n").0, "a: 1\n\n");
        assert_eq!(csv("only,names\n").0, "only\nnames");
        assert_eq!(csv("").0, "");
    }
}

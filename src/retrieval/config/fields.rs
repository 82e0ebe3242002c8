//! The fields of one JSON object, read one by one: each has its value or its default, and everything that is wrong is written down.

use serde_json::{Map, Value};

/// An object that is being read.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    /// Absent when what stands here is no object: then every field has its default.
    object: Option<&'a Map<String, Value>>,
    /// Where it stands, for messages: empty, or a name and a dot.
    path: String,
    known: Vec<&'static str>,
    problems: Vec<String>,
}

impl<'a> Fields<'a> {
    /// The fields of an object; of null there are none.
    pub(super) fn of(json: &'a Value, path: &str) -> Fields<'a> {
        let mut fields = Fields { object: json.as_object(), path: path.into(), known: Vec::new(), problems: Vec::new() };
        if fields.object.is_none() && !json.is_null() {
            let place = if path.is_empty() { "it" } else { path.trim_end_matches('.') };
            fields.problems.push(format!("{place} is {}, not an object", kind(json)));
        }
        fields
    }

    /// Everything that is wrong; a key that nobody asked for is.
    pub(super) fn finish(mut self) -> Vec<String> {
        let path = &self.path;
        let unknown = self.object.into_iter().flat_map(Map::keys).filter(|key| !self.known.contains(&key.as_str()));
        let complaint = |key: &String| format!("{:?} is not known; known: {}", format!("{path}{key}"), self.known.join(", "));
        let unknown: Vec<String> = unknown.map(complaint).collect();
        self.problems.extend(unknown);
        self.problems
    }

    /// Writes down what is wrong between fields.
    pub(super) fn problem(&mut self, what: String) {
        self.problems.push(format!("{}{what}", self.path));
    }

    fn get(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.push(key);
        self.object.and_then(|o| o.get(key))
    }

    /// A field of any kind; `expected` says which values it has.
    pub(super) fn value<T>(&mut self, key: &'static str, default: T, expected: &str, read: impl Fn(&Value) -> Option<T>) -> T {
        let Some(value) = self.get(key) else { return default };
        read(value).unwrap_or_else(|| {
            self.problems.push(format!("{}{key} is {}; it is {expected}", self.path, kind(value)));
            default
        })
    }

    /// A whole number from `least` to `most`.
    pub(super) fn count(&mut self, key: &'static str, default: usize, least: usize, most: Option<usize>) -> usize {
        let range = match most {
            Some(most) => format!("a whole number from {least} to {most}"),
            None => format!("a whole number of at least {least}"),
        };
        let within = |n: &usize| *n >= least && most.is_none_or(|most| *n <= most);
        self.value(key, default, &range, |v| v.as_u64().and_then(|n| usize::try_from(n).ok()).filter(within))
    }

    /// A field of any kind that may be absent or null, which are the same; `expected` says which other values it has.
    pub(super) fn optional<T>(&mut self, key: &'static str, expected: &str, read: impl Fn(&Value) -> Option<T>) -> Option<T> {
        let expected = format!("{expected}, or null");
        self.value(key, None, &expected, |v| if v.is_null() { Some(None) } else { read(v).map(Some) })
    }

    /// A whole number of at least `least`, or null.
    pub(super) fn optional_count(&mut self, key: &'static str, least: usize) -> Option<usize> {
        let expected = format!("a whole number of at least {least}");
        self.optional(key, &expected, |v| v.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n >= least))
    }

    /// A text that is not blank.
    pub(super) fn text(&mut self, key: &'static str, default: &str) -> String {
        self.value(key, default.to_string(), "a text that is not blank", |v| {
            v.as_str().map(str::trim).filter(|s| !s.is_empty()).map(String::from)
        })
    }

    /// A text that is not blank, or null.
    pub(super) fn optional_text(&mut self, key: &'static str) -> Option<String> {
        self.optional(key, "a text that is not blank", |v| v.as_str().map(str::trim).filter(|s| !s.is_empty()).map(String::from))
    }

    /// An object within the object, which has its default as a whole when anything of it is wrong.
    pub(super) fn part<T>(&mut self, key: &'static str, default: T, read: impl FnOnce(&mut Fields<'_>) -> T) -> T {
        let Some(value) = self.get(key).filter(|v| !v.is_null()) else { return default };
        let mut part = Fields::of(value, &format!("{}{key}.", self.path));
        let read = read(&mut part);
        let problems = part.finish();
        let whole = problems.is_empty();
        self.problems.extend(problems);
        if whole { read } else { default }
    }

    /// An object within the object, which is read field by field too.
    pub(super) fn nested<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Fields<'_>) -> T) -> T {
        let value = self.get(key).unwrap_or(&Value::Null);
        let mut part = Fields::of(value, &format!("{}{key}.", self.path));
        let read = read(&mut part);
        self.problems.extend(part.finish());
        read
    }
}

/// What a value is, in words that hold nothing long: numbers as they are, of the rest the kind.
fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(_) => "a text that it cannot be".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

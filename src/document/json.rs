//! JSON of a caller to a value.
//!
//! Not by `serde_json`'s own `Value`: that takes an object with a key of its private ones for something else than the object that it is, and
//! parses what stands in its string.

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// What is to be done about a key that stands twice in one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Twice {
    /// Its last value counts.
    LastCounts,
    /// The text is refused.
    Refused,
}

/// Reads a text that holds one value.
pub(crate) fn parse(json: &str, twice: Twice) -> serde_json::Result<Value> {
    let mut text = serde_json::Deserializer::from_str(json);
    let value = twice.deserialize(&mut text)?;
    text.end().map(|()| value)
}

/// A value in which the last value of a key counts.
#[derive(Debug)]
pub(crate) struct Plain(pub(crate) Value);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Plain, D::Error> {
        Twice::LastCounts.deserialize(deserializer).map(Plain)
    }
}

impl<'de> DeserializeSeed<'de> for Twice {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Twice {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(b.into())
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(n.into())
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(n.into())
    }

    fn visit_f64<E>(self, x: f64) -> Result<Value, E> {
        Ok(x.into())
    }

    fn visit_str<E>(self, s: &str) -> Result<Value, E> {
        Ok(s.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if self == Twice::Refused && map.contains_key(&key) {
                return Err(de::Error::custom(format_args!("the key {key:?} stands twice in one object")));
            }
            let value = entries.next_value_seed(self)?;
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_the_value_that_another_parser_finds_in_it() {
        for text in
            [r#"{"b":[1,-2,0.5,1e300,null,true,"\u00e9\n"],"a":{"x":{}}}"#, "18446744073709551615", "-9223372036854775808", "[]", "1E2"]
        {
            assert_eq!(parse(text, Twice::Refused).unwrap(), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
        assert_eq!(parse(r#"{"a":1,"a":2}"#, Twice::LastCounts).unwrap(), json!({"a": 2}));
        for wrong in [r#"{"a":1} x"#, "{", "", r#"{"a":}"#, "1 2"] {
            assert!(parse(wrong, Twice::LastCounts).is_err(), "{wrong}");
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(parse(&deep, Twice::LastCounts).unwrap_err().to_string().starts_with("recursion limit"));
    }

    #[test]
    fn an_object_with_a_key_of_the_parsers_own_is_an_object() {
        for key in ["$serde_json::private::RawValue", "$serde_json::private::Number"] {
            let text = format!(r#"{{"{key}":"{{\"a\":[[1]]}}"}}"#);
            let value = parse(&text, Twice::LastCounts).unwrap();
            assert_eq!(value.as_object().unwrap().get(key), Some(&json!(r#"{"a":[[1]]}"#)), "{text}");
        }
    }
}

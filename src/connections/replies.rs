//! Reads vectors out of replies, and says what is wrong with one without repeating it.

use crate::models::ModelError;
#[cfg(any(feature = "http", feature = "command"))]
use base64::Engine;
#[cfg(any(feature = "http", feature = "command"))]
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// The components of a vector in JSON: numbers, or the base64 of 32-bit floats with the low byte first.
#[cfg(any(feature = "http", feature = "command"))]
pub(super) struct Components(pub(super) Vec<f32>);

#[cfg(any(feature = "http", feature = "command"))]
impl<'de> Deserialize<'de> for Components {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ComponentsVisitor)
    }
}

#[cfg(any(feature = "http", feature = "command"))]
struct ComponentsVisitor;

#[cfg(any(feature = "http", feature = "command"))]
impl<'de> Visitor<'de> for ComponentsVisitor {
    type Value = Components;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("numbers or base64")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Components, A::Error> {
        let mut components = Vec::new();
        while let Some(component) = seq.next_element::<f64>()? {
            // Out of the range of f32 becomes infinite here, and is refused with the vector.
            components.push(component as f32);
        }
        Ok(Components(components))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Components, E> {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(|_| E::custom("no base64"))?;
        let (floats, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(E::custom("no whole floats"));
        }
        Ok(Components(floats.iter().map(|b| f32::from_le_bytes(*b)).collect()))
    }
}

/// Holds vectors against what an embedder promises.
///
/// # Errors
/// `Malformed` when their number, the components of one or a component is wrong; `who` begins the message.
pub(super) fn checked(who: &str, vectors: Vec<Vec<f32>>, texts: usize, dimension: u32) -> Result<Vec<Vec<f32>>, ModelError> {
    if vectors.len() != texts {
        return Err(ModelError::malformed(format!("{who} gave {} vectors for {texts} texts", vectors.len())));
    }
    for (at, vector) in vectors.iter().enumerate() {
        if vector.len() != dimension as usize {
            let found = vector.len();
            return Err(ModelError::malformed(format!("{who}: vector {at} of {texts} has {found} components, not {dimension}")));
        }
        if let Some(component) = vector.iter().position(|c| !c.is_finite()) {
            return Err(ModelError::malformed(format!("{who}: component {component} of vector {at} is not finite")));
        }
    }
    Ok(vectors)
}

/// What is wrong with JSON, and where. The parser's own words may repeat a piece of what it read, and what it read may repeat what was asked.
#[cfg(any(feature = "http", feature = "command"))]
pub(super) fn fault(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Io => "cannot be read",
        serde_json::error::Category::Syntax => "is not JSON",
        serde_json::error::Category::Data => "has not the fields that the protocol promises",
        serde_json::error::Category::Eof => "ends early",
    };
    format!("{what} (line {}, column {})", error.line(), error.column())
}

#[cfg(all(test, any(feature = "http", feature = "command")))]
mod tests {
    use super::*;

    fn components(json: &str) -> Result<Vec<f32>, serde_json::Error> {
        serde_json::from_str::<Components>(json).map(|c| c.0)
    }

    #[test]
    fn vectors_are_read_from_numbers_and_from_base64() {
        assert_eq!(components("[1, -2.5, 3e-1]").unwrap(), [1.0, -2.5, 0.3]);
        // 1.0 and -2.0, low byte first.
        assert_eq!(components("\"AACAPwAAAMA=\"").unwrap(), [1.0, -2.0]);
        assert!(components("[1e300]").unwrap()[0].is_infinite());
        for bad in ["[1, null]", "[1, \"2\"]", "[NaN]", "\"AACA\"", "\"&&&&\"", "{}", "7", "[1, [2]]"] {
            assert!(components(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_vector_of_another_size_or_without_an_end_is_refused_with_its_place() {
        let refuse = |vectors: Vec<Vec<f32>>| checked("m", vectors, 2, 2).unwrap_err().message;
        assert_eq!(refuse(vec![vec![1.0, 2.0]]), "m gave 1 vectors for 2 texts");
        assert_eq!(refuse(vec![vec![1.0, 2.0], vec![1.0]]), "m: vector 1 of 2 has 1 components, not 2");
        assert_eq!(refuse(vec![vec![1.0, 2.0], vec![1.0, f32::NAN]]), "m: component 1 of vector 1 is not finite");
        assert_eq!(checked("m", vec![vec![1.0]], 1, 1), Ok(vec![vec![1.0]]));
    }

    #[test]
    fn the_fault_of_a_reply_never_repeats_it() {
        let error = serde_json::from_str::<Vec<u32>>("[\"a secret word\"]").unwrap_err();
        assert!(error.to_string().contains("secret"), "else this test shows nothing");
        assert_eq!(fault(&error), "has not the fields that the protocol promises (line 1, column 16)");
    }
}

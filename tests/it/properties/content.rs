//! What documents are made of: small numbers become texts, vectors, metadata, entities and relations.

use super::filters;
use super::operations::{DocumentSpec, ENTITIES, SOURCES, WORDS};
use triune::{Entity, Relation};

pub fn source(i: u8) -> String {
    SOURCES[usize::from(i) % SOURCES.len()].into()
}

pub fn text(words: &[u8]) -> String {
    words.iter().map(|&w| WORDS[usize::from(w) % WORDS.len()]).collect::<Vec<_>>().join(" ")
}

const NUMBERS: [&str; 10] = [
    "1152921504606846976",
    "1152921504606846977",
    "2.5",
    "2.0",
    "-1",
    "-0.0",
    "1.152921504606846976e18",
    "0.1",
    "-7.25",
    "18446744073709551615",
];

pub fn entity((name, rest): (u8, u8)) -> Entity {
    Entity {
        name: if name == 255 { String::new() } else { ENTITIES[usize::from(name) % ENTITIES.len()].into() },
        kind: (rest & 64 != 0).then(|| "kind".into()),
        mentions: if rest == 255 { 0 } else { 1 + u32::from(rest) % 3 },
    }
}

/// Weights whose sums are exact in any order.
pub fn relation((from, to, rest): (u8, u8, u8)) -> Relation {
    let name = |at: u8| ENTITIES[usize::from(at) % ENTITIES.len()].to_string();
    Relation {
        source: if from == 255 { String::new() } else { name(from) },
        target: name(to),
        kind: (rest & 16 != 0).then(|| "is".into()),
        description: (rest & 32 != 0).then(|| "of which the text tells".into()),
        weight: if rest == 255 { 0.0 } else { [1.0, 0.5, 2.0, 0.25][usize::from(rest) % 4] },
    }
}

/// Mostly of the collection's dimension; `kind` above 250 is refused somewhere.
pub fn vector((kind, parts): (u8, [i8; 3]), dimension: Option<usize>) -> Vec<f32> {
    let mut v: Vec<f32> = parts.iter().map(|&p| f32::from(p) * 0.5).collect();
    v.truncate(dimension.unwrap_or(2 + usize::from(kind % 2)));
    match kind {
        // Numbers that are no binary16.
        100..=159 => v.iter_mut().for_each(|x| *x = *x / 3.0 + 1e-6),
        160..=169 => begin_with(&mut v, 65_519.0),
        170..=175 => begin_with(&mut v, -65_520.0),
        251 => v.push(1.0),
        252 => begin_with(&mut v, f32::NAN),
        253 => v.clear(),
        254 => begin_with(&mut v, f32::INFINITY),
        _ => {}
    }
    v
}

/// One of many documents with vectors that are all unlike each other, or, by the seed, copies of a few.
pub fn crowd(i: u8, seed: u8, dimension: Option<usize>) -> DocumentSpec {
    let place = if seed.is_multiple_of(4) { i % 6 } else { i };
    // Numbers that any way of storing them keeps.
    let component = |c: usize| {
        let mixed = (u32::from(place) * 3 + c as u32 + 1).wrapping_mul(0x9e37_79b9).wrapping_add(u32::from(seed) << 20);
        ((mixed ^ mixed >> 13).wrapping_mul(0x85eb_ca6b) >> 24) as f32 / 64.0 - 2.0
    };
    DocumentSpec {
        id: format!("crowd {i}"),
        text: text(&[i % 3]),
        metadata: i.is_multiple_of(2).then(|| metadata((1, i))),
        vector: Some((0..dimension.unwrap_or(2)).map(component).collect()),
        source: None,
        entities: None,
        relations: None,
    }
}

/// In a batch that will be refused, an empty vector before this one may have made the dimension none.
fn begin_with(v: &mut [f32], component: f32) {
    if let Some(first) = v.first_mut() {
        *first = component;
    }
}

/// Objects with odd spacing, some naming a source under one of the two keys, some with values of every kind that a filter tells apart.
pub fn metadata((shape, value): (u8, u8)) -> String {
    let page = value % 4;
    match shape % 24 {
        0 => "{}".into(),
        1 | 2 => format!(r#"{{"page": {page},  "tag":"x"}}"#),
        3 | 4 => format!(r#"{{ "file_hash":"{}" }}"#, source(value)),
        5 | 6 => format!(r#"{{"s":"{}","page":{page}}}"#, source(value)),
        7 => format!(r#"{{"file_hash":"{}", "s" : null}}"#, source(value)),
        8 => format!(r#"{{"s":"{}","file_hash":"{}"}}"#, source(value), source(value / 3)),
        9 if value > 200 => r#"{"file_hash":7}"#.into(),
        10 if value > 200 => r#"{"s":[1, 2.50]}"#.into(),
        11 => format!(r#"{{"page":null,"big":12345678901234567890123,"deep":{{"é":[{page},1.50e3]}}}}"#),
        12 | 13 => format!(r#"{{"n":{},"flag":{}}}"#, NUMBERS[usize::from(value) % NUMBERS.len()], value > 127),
        14 => format!(r#"{{"tags":["x",{page},null,true,[1],{{"y":2}},"ü"]}}"#),
        15 => format!(r#"{{"tags":[],"n":"{page}","tag":""}}"#),
        16 => format!(r#"{{"a":{{"b":{page},"c":{{"d":"x"}}}},"flag":null}}"#),
        17 => format!(r#"{{"a.b":{page},"a":{{"b":"x"}},"a.c":{{"d":2}}}}"#),
        18 => format!(r#"{{"long":"{}","{}":{page}}}"#, filters::long_string(usize::from(value)), filters::long_key()),
        19 => format!(r#"{{"long":["{}"],"tag":"y","page":"{page}"}}"#, filters::long_string(usize::from(value))),
        20 => r#"{"file_hash":null,"s":null}"#.into(),
        21 => format!(r#"{{"page":{page}.0,"tag":{}}}"#, value > 127),
        22 => format!(r#"{{"file_name":"Guide {page}.pdf","s":"{}"}}"#, source(value)),
        23 => [r#"{"file_name":""}"#, r#"{"file_name":["Guide.pdf"]}"#][usize::from(page % 2)].into(),
        _ => format!(r#"{{"page":{page}}}"#),
    }
}

//! Reads struct layouts and constants out of Rust source, because the language has no reflection to ask.

use crate::source::{SourceFile, Spanned, Token, closing, lex, matches_at, without_test_modules, word_at};
use std::collections::BTreeMap;

/// A field of a `#[repr(C)]` struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub offset: u64,
    pub bytes: u64,
    /// As the specification writes it: `u32`, `[u8; 16]`, or the name of another struct.
    pub kind: String,
}

/// A `#[repr(C)]` struct: all its fields have alignment 1, so they follow each other without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub file: String,
    pub fields: Vec<Field>,
    pub bytes: u64,
}

/// What a constant is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Number(u128),
    Bytes(Vec<u8>),
}

/// The constants of `sources` whose value this module can work out. Constants are looked up by name across files, so an ambiguous name
/// (two values) is left out.
pub fn constants(sources: &[SourceFile]) -> BTreeMap<String, Value> {
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    let mut ambiguous = Vec::new();
    // Twice, so that a constant may build on one that is read later.
    for _ in 0..2 {
        for file in sources {
            let tokens = without_test_modules(lex(&file.text));
            for i in (0..tokens.len()).filter(|i| matches_at(&tokens, *i, &["const"])) {
                let Some(name) = word_at(&tokens, i + 1).filter(|n| *n != "fn" && *n != "_") else { continue };
                let Some(equals) = (i + 2..tokens.len()).find(|k| matches_at(&tokens, *k, &["="])) else { continue };
                if let Some(value) = evaluate(&tokens, equals + 1, &known)
                    && known.insert(name.to_string(), value.clone()).is_some_and(|old| old != value)
                {
                    ambiguous.push(name.to_string());
                }
            }
        }
    }
    known.retain(|name, _| !ambiguous.contains(name));
    known
}

/// The `#[repr(C)]` structs of `sources`, by name; or why one could not be read.
pub fn layouts(sources: &[SourceFile]) -> Result<BTreeMap<String, Layout>, String> {
    let known = constants(sources);
    let mut found: BTreeMap<String, Layout> = BTreeMap::new();
    for file in sources {
        let tokens = without_test_modules(lex(&file.text));
        for i in (0..tokens.len()).filter(|i| matches_at(&tokens, *i, &["repr", "(", "C"])) {
            let Some(at) = (i..tokens.len()).find(|k| matches!(word_at(&tokens, *k), Some("struct" | "enum" | "union"))) else { continue };
            let Some(name) = word_at(&tokens, at + 1) else { continue };
            let place = format!("{}:{}: {name}", file.path, tokens[at].1);
            if !matches_at(&tokens, at, &["struct"]) || !matches_at(&tokens, at + 2, &["{"]) {
                return Err(format!("{place} is not a struct with named fields"));
            }
            let (fields, bytes) =
                fields(&tokens[at + 3..closing(&tokens, at + 2) - 1], &known, &found).map_err(|e| format!("{place}: {e}"))?;
            let layout = Layout { file: file.path.clone(), fields, bytes };
            if found.insert(name.to_string(), layout).is_some() {
                return Err(format!("{place} is defined twice"));
            }
        }
    }
    Ok(found)
}

fn fields(body: &[Spanned], known: &BTreeMap<String, Value>, structs: &BTreeMap<String, Layout>) -> Result<(Vec<Field>, u64), String> {
    let (mut fields, mut offset, mut i) = (Vec::new(), 0, 0);
    while i < body.len() {
        if matches_at(body, i, &["#", "["]) {
            i = closing(body, i + 1);
        } else if matches_at(body, i, &["pub"]) {
            i = if matches_at(body, i + 1, &["("]) { closing(body, i + 1) } else { i + 1 };
        } else {
            let name = word_at(body, i).ok_or("a field has no name")?.to_string();
            if !matches_at(body, i + 1, &[":"]) {
                return Err(format!("field {name} has no type"));
            }
            let (kind, bytes) =
                size_of_type(body, i + 2, known, structs).ok_or(format!("the type of field {name} is unknown to this test"))?;
            fields.push(Field { name, offset, bytes, kind });
            offset += bytes;
            i += 2;
            while i < body.len() && !matches_at(body, i, &[","]) {
                i = if matches_at(body, i, &["["]) { closing(body, i) } else { i + 1 };
            }
            i += 1;
        }
    }
    Ok((fields, offset))
}

fn size_of_type(
    tokens: &[Spanned],
    i: usize,
    known: &BTreeMap<String, Value>,
    structs: &BTreeMap<String, Layout>,
) -> Option<(String, u64)> {
    if matches_at(tokens, i, &["["]) {
        let (kind, bytes) = size_of_type(tokens, i + 1, known, structs)?;
        let semicolon = (i..tokens.len()).find(|k| matches_at(tokens, *k, &[";"]))?;
        let Value::Number(count) = evaluate(tokens, semicolon + 1, known)? else { return None };
        let count = u64::try_from(count).ok()?;
        return Some((format!("[{kind}; {count}]"), bytes * count));
    }
    let word = word_at(tokens, i)?;
    let bytes = match word {
        "u8" | "i8" => 1,
        "U16" | "I16" => 2,
        "U32" | "I32" | "F32" => 4,
        "U64" | "I64" | "F64" => 8,
        "U128" => 16,
        name => return structs.get(name).map(|s| (name.to_string(), s.bytes)),
    };
    Some((word.to_lowercase(), bytes))
}

/// The value of the expression at `i`: numbers, known constants, `+ - * <<`, brackets, `as`, byte strings, `u32::from_le_bytes(*b"..")`.
fn evaluate(tokens: &[Spanned], i: usize, known: &BTreeMap<String, Value>) -> Option<Value> {
    let mut parser = Parser { tokens, i, known };
    let value = parser.shift()?;
    let ended = matches_at(tokens, parser.i, &[";"]) || matches_at(tokens, parser.i, &["]"]) || parser.i >= tokens.len();
    ended.then_some(value)
}

struct Parser<'a> {
    tokens: &'a [Spanned],
    i: usize,
    known: &'a BTreeMap<String, Value>,
}

impl Parser<'_> {
    fn eat(&mut self, wanted: &[&str]) -> bool {
        let found = matches_at(self.tokens, self.i, wanted);
        if found {
            self.i += wanted.len();
        }
        found
    }

    fn shift(&mut self) -> Option<Value> {
        let mut left = self.sum()?;
        while self.eat(&["<", "<"]) {
            left = both(left, self.sum()?, |a, b| a.checked_shl(u32::try_from(b).ok()?))?;
        }
        Some(left)
    }

    fn sum(&mut self) -> Option<Value> {
        let mut left = self.product()?;
        loop {
            left = if self.eat(&["+"]) {
                both(left, self.product()?, u128::checked_add)?
            } else if self.eat(&["-"]) {
                both(left, self.product()?, u128::checked_sub)?
            } else {
                return Some(left);
            };
        }
    }

    fn product(&mut self) -> Option<Value> {
        let mut left = self.atom()?;
        loop {
            left = if self.eat(&["*"]) {
                both(left, self.atom()?, u128::checked_mul)?
            } else if self.eat(&["as"]) {
                self.i += 1;
                left
            } else {
                return Some(left);
            };
        }
    }

    fn atom(&mut self) -> Option<Value> {
        if self.eat(&["("]) {
            let inner = self.shift();
            return self.eat(&[")"]).then_some(inner?);
        }
        if self.eat(&["u32", ":", ":", "from_le_bytes", "("]) {
            let Value::Bytes(bytes) = self.atom()? else { return None };
            let number = u32::from_le_bytes(bytes.try_into().ok()?);
            return self.eat(&[")"]).then_some(Value::Number(number.into()));
        }
        self.eat(&["*"]);
        let (token, _) = self.tokens.get(self.i)?;
        self.i += 1;
        match token {
            Token::Literal(text) => byte_string(text).map(Value::Bytes),
            Token::Word(word) if word.starts_with(|c: char| c.is_ascii_digit()) => number(word).map(Value::Number),
            Token::Word(word) if !matches_at(self.tokens, self.i, &[":"]) => self.known.get(word).cloned(),
            Token::Word(_) => {
                // A path: the last name counts.
                self.i += 2;
                self.atom()
            }
            Token::Punct(_) => None,
        }
    }
}

fn both(a: Value, b: Value, operation: impl Fn(u128, u128) -> Option<u128>) -> Option<Value> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => operation(a, b).map(Value::Number),
        _ => None,
    }
}

/// A number as Rust or the specification writes it: `65_535`, `0x1f_u32`, `65,535`.
pub fn number(text: &str) -> Option<u128> {
    let plain: String = text.chars().filter(|c| *c != '_' && *c != ',').collect();
    let plain = ["u8", "u16", "u32", "u64", "u128", "usize"].iter().find_map(|t| plain.strip_suffix(t)).unwrap_or(&plain);
    match plain.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None => plain.parse().ok(),
    }
}

/// The bytes of `b"..."`.
fn byte_string(literal: &str) -> Option<Vec<u8>> {
    let inner = literal.strip_prefix("b\"")?.strip_suffix('"')?;
    let (mut bytes, mut chars) = (Vec::new(), inner.chars());
    while let Some(c) = chars.next() {
        bytes.push(match c {
            '\\' => match chars.next()? {
                'n' => b'\n',
                'r' => b'\r',
                't' => b'\t',
                '0' => 0,
                'x' => u8::from_str_radix(&chars.by_ref().take(2).collect::<String>(), 16).ok()?,
                other => u8::try_from(other).ok()?,
            },
            plain => u8::try_from(plain).ok()?,
        });
    }
    Some(bytes)
}

#[test]
fn layouts_and_constants_are_read_from_source() {
    let text = r##"
        pub const PAGE: usize = 4 << 10;
        pub const REST: usize = PAGE - (2 * 8 + 3) as usize;
        pub const MAGIC: [u8; 4] = *b"\x89Tr\n";
        const WORD: u32 = u32::from_le_bytes(*b"TRIW");
        const OTHER: u64 = super::checksum::seed();
        /// Doc.
        #[derive(FromBytes)]
        #[repr(C)]
        pub struct Inner { pub a: U16, b: [u8; 6] }
        #[repr(C)] pub(crate) struct Outer { /// x
            pub inner: Inner, pub(super) d: U64, #[allow(x)] rest: [u8; REST], }
    "##;
    let sources = [SourceFile::new("src/format/x.rs", text)];
    let known = constants(&sources);
    assert_eq!(known["REST"], Value::Number(4077));
    assert_eq!(known["MAGIC"], Value::Bytes(vec![0x89, b'T', b'r', b'\n']));
    assert_eq!(known["WORD"], Value::Number(u128::from(u32::from_le_bytes(*b"TRIW"))));
    assert!(!known.contains_key("OTHER"));
    let found = layouts(&sources).unwrap();
    let outer: Vec<(&str, u64, u64, &str)> =
        found["Outer"].fields.iter().map(|f| (f.name.as_str(), f.offset, f.bytes, f.kind.as_str())).collect();
    assert_eq!(outer, [("inner", 0, 8, "Inner"), ("d", 8, 8, "u64"), ("rest", 16, 4077, "[u8; 4077]")]);
    assert_eq!(found["Outer"].bytes, 4093);
}

//! Reads the repository's own files, and cuts Rust into tokens well enough to follow imports and struct definitions.

use std::path::{Path, PathBuf};

/// A file of the repository, or a snippet that a test made up.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// From the root of the repository, with `/`.
    pub path: String,
    pub text: String,
}

impl SourceFile {
    pub fn new(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.into() }
    }

    /// Whether it holds the unit tests of a module beside it: `tests.rs`, `<module>_tests.rs`, or a file in a folder `tests`.
    pub fn is_tests(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.ends_with("_tests.rs") || self.path.contains("/tests/")
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// One file of the repository.
pub fn read(path: &str) -> SourceFile {
    let text = std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    SourceFile::new(path, &text)
}

/// All files under `folder` ("" is everything) whose name ends with `suffix`, by path. Build output and hidden folders are left out.
pub fn files(folder: &str, suffix: &str) -> Vec<SourceFile> {
    let mut found = Vec::new();
    walk(&root().join(folder), &mut |path| {
        if path.to_string_lossy().ends_with(suffix) {
            let relative = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
            found.push(read(&relative));
        }
    });
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn walk(folder: &Path, visit: &mut impl FnMut(&Path)) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                walk(&path, visit);
            }
        } else {
            visit(&path);
        }
    }
}

/// What a piece of Rust is, without comments and white space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// An identifier, a keyword or a number.
    Word(String),
    /// A string, byte string or character literal, as written.
    Literal(String),
    /// One character of anything else.
    Punct(char),
}

/// A token and its line, from 1.
pub type Spanned = (Token, usize);

/// Cuts Rust into tokens. Comments, documentation included, are dropped.
pub fn lex(text: &str) -> Vec<Spanned> {
    let chars: Vec<char> = text.chars().collect();
    let (mut tokens, mut i, mut line) = (Vec::new(), 0, 1);
    while i < chars.len() {
        let (start, first_line) = (i, line);
        i = match chars[i] {
            '/' if chars.get(i + 1) == Some(&'/') => position(&chars, i, '\n'),
            '/' if chars.get(i + 1) == Some(&'*') => end_of_block_comment(&chars, i),
            c if c.is_alphanumeric() || c == '_' => end_of_word(&chars, i),
            '"' => end_of_string(&chars, i, None),
            '\'' if chars.get(i + 1) == Some(&'\\') => position(&chars, i + 3, '\'') + 1,
            '\'' if chars.get(i + 2) == Some(&'\'') => i + 3,
            _ => i + 1,
        };
        let end = i.min(chars.len());
        line += chars[start..end].iter().filter(|c| **c == '\n').count();
        let piece: String = chars[start..end].iter().collect();
        let token = match chars[start] {
            '/' if piece.len() > 1 => continue,
            c if c.is_whitespace() => continue,
            '"' => Token::Literal(piece),
            '\'' if piece.chars().count() > 1 => Token::Literal(piece),
            c if c.is_alphanumeric() || c == '_' => {
                if piece.contains('"') {
                    Token::Literal(piece)
                } else {
                    Token::Word(piece)
                }
            }
            c => Token::Punct(c),
        };
        tokens.push((token, first_line));
    }
    tokens
}

fn position(chars: &[char], from: usize, wanted: char) -> usize {
    (from..chars.len()).find(|i| chars[*i] == wanted).unwrap_or(chars.len())
}

fn end_of_block_comment(chars: &[char], start: usize) -> usize {
    let (mut i, mut depth) = (start, 0);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

/// A word; with the string that it prefixes, as in `b"..."` or `r#"..."#`.
fn end_of_word(chars: &[char], start: usize) -> usize {
    let end = (start..chars.len()).find(|i| !(chars[*i].is_alphanumeric() || chars[*i] == '_')).unwrap_or(chars.len());
    let word: String = chars[start..end].iter().collect();
    match word.as_str() {
        "b" | "c" if chars.get(end) == Some(&'"') => end_of_string(chars, end, None),
        "r" | "br" | "cr" => {
            let quote = (end..chars.len()).find(|i| chars[*i] != '#').unwrap_or(end);
            if chars.get(quote) == Some(&'"') { end_of_string(chars, quote, Some(quote - end)) } else { end }
        }
        _ => end,
    }
}

/// The end of a string whose quote is at `quote`; `raw` is the number of `#` of a raw string, which knows no escapes.
fn end_of_string(chars: &[char], quote: usize, raw: Option<usize>) -> usize {
    let mut i = quote + 1;
    while i < chars.len() {
        match (chars[i], raw) {
            ('\\', None) => i += 2,
            ('"', None) => return i + 1,
            ('"', Some(n)) if chars[i + 1..].iter().take_while(|c| **c == '#').count() >= n => return i + 1 + n,
            _ => i += 1,
        }
    }
    chars.len()
}

/// The index after the bracket that closes the one at `open`.
pub fn closing(tokens: &[Spanned], open: usize) -> usize {
    let mut depth = 0;
    for (i, (token, _)) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Punct('{' | '(' | '[') => depth += 1,
            Token::Punct('}' | ')' | ']') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// Whether the tokens at `i` are these words and punctuation marks.
pub fn matches_at(tokens: &[Spanned], i: usize, wanted: &[&str]) -> bool {
    wanted.iter().enumerate().all(|(k, w)| match tokens.get(i + k) {
        Some((Token::Word(word), _)) => word == w,
        Some((Token::Punct(c), _)) => w.len() == 1 && w.starts_with(*c),
        _ => false,
    })
}

/// The word at `i`, if there is one.
pub fn word_at(tokens: &[Spanned], i: usize) -> Option<&str> {
    match tokens.get(i) {
        Some((Token::Word(word), _)) => Some(word),
        _ => None,
    }
}

/// Leaves out every `mod tests { ... }`.
pub fn without_test_modules(tokens: Vec<Spanned>) -> Vec<Spanned> {
    let (mut kept, mut i) = (Vec::with_capacity(tokens.len()), 0);
    while i < tokens.len() {
        if matches_at(&tokens, i, &["mod", "tests", "{"]) {
            i = closing(&tokens, i + 2);
        } else {
            kept.push(tokens[i].clone());
            i += 1;
        }
    }
    kept
}

#[test]
fn comments_strings_and_lifetimes_do_not_confuse_the_lexer() {
    let text = r##"fn f<'a>(x: &'a str) { // crate::no
        /* a /* nested */ crate::no */ let s = "crate::no \" //"; let r = r#"" crate::no "#; let c = '"'; let d = '\''; crate::yes::g() }"##;
    let words: Vec<String> = lex(text).into_iter().filter_map(|(t, _)| if let Token::Word(w) = t { Some(w) } else { None }).collect();
    assert_eq!(words.join(" "), "fn f a x a str let s let r let c let d crate yes g");
    assert_eq!(lex(text).last().unwrap().1, 2, "the line of the last token");
}

#[test]
fn test_modules_are_left_out() {
    let kept = without_test_modules(lex("fn a() {} mod tests { fn b() { {} } } fn c() {}"));
    assert_eq!(kept.iter().filter(|(t, _)| *t == Token::Word("fn".into())).count(), 2);
}

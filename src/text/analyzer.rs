//! Cuts text into tokens.

use crate::options::AnalyzerKind;
use crate::unicode::tables::{ASCII, NOT_ASCII};
use crate::unicode::{is_word, lower_char, lower_sigma};

/// Cuts text into tokens; the same text always gives the same tokens. Free to create and to copy.
///
/// `word` gives Python 3.11's `re.findall(r"\b\w+\b", text.lower())`: the whole text is lower-cased (a capital sigma looks at its
/// neighbours), then every maximal run of letters, numbers (categories L* and N*) and underscores is a token. The tables are those of
/// Unicode 14 whatever the compiler's are, so that a token never changes under a stored index. A token may be as long as its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Analyzer {
    kind: AnalyzerKind,
}

impl Analyzer {
    /// The analyzer of this kind.
    pub fn new(kind: AnalyzerKind) -> Analyzer {
        Analyzer { kind }
    }

    /// Name, version and Unicode version. Segments store it: tokens of one fingerprint are never mixed with those of another.
    pub fn fingerprint(&self) -> &'static str {
        match self.kind {
            AnalyzerKind::Word => "word/1,unicode/14.0.0",
        }
    }

    /// Gives every token of `text` to `sink`, in order. O(bytes); at most one buffer is allocated, for tokens that are not in the text as
    /// they stand.
    pub fn tokens(&self, text: &str, sink: &mut impl FnMut(&str)) {
        match self.kind {
            AnalyzerKind::Word => word_tokens(text, sink),
        }
    }
}

fn word_tokens(text: &str, sink: &mut impl FnMut(&str)) {
    let bytes = text.as_bytes();
    // The token under way, as far as it is not simply the run of ASCII just scanned.
    let mut token = String::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let mut lower = true;
        let stopped_by = loop {
            let Some(&byte) = bytes.get(at) else { break 0 };
            let class = ASCII[usize::from(byte)];
            if class == 0 || class == NOT_ASCII {
                break class;
            }
            lower &= class == byte;
            at += 1;
        };
        if stopped_by == 0 && token.is_empty() && lower {
            if start < at {
                sink(&text[start..at]);
            }
            at += 1;
            continue;
        }
        let before = token.len();
        token.push_str(&text[start..at]);
        token[before..].make_ascii_lowercase();
        if stopped_by == NOT_ASCII {
            at = other_character(text, at, &mut token, sink);
        } else {
            flush(&mut token, sink);
            at += 1;
        }
    }
    flush(&mut token, sink);
}

/// Takes the character at `at`, which is outside ASCII, into the token, or ends the token there. Gives the place behind the character.
fn other_character(text: &str, at: usize, token: &mut String, sink: &mut impl FnMut(&str)) -> usize {
    let c = text[at..].chars().next().expect("the loop stops at the first byte of a character");
    let behind = at + c.len_utf8();
    let lower = match c {
        'Σ' => lower_sigma(&text[..at], &text[behind..]),
        // Its lower case is an i and a combining dot, which is no word character and ends the token.
        'İ' => {
            token.push('i');
            '\u{307}'
        }
        _ => lower_char(c),
    };
    if is_word(lower) {
        token.push(lower);
    } else {
        flush(token, sink);
    }
    behind
}

fn flush(token: &mut String, sink: &mut impl FnMut(&str)) {
    if !token.is_empty() {
        sink(token);
        token.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unicode::tables::{TOKENS_OF_EVERY_SCALAR, UNICODE_VERSION};

    fn tokens(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        Analyzer::new(AnalyzerKind::Word).tokens(text, &mut |t| out.push(t.to_string()));
        out
    }

    #[test]
    fn the_golden_tokens_of_python_come_out() {
        let mut cases = 0;
        for line in include_str!("../../tests/golden/tokens.jsonl").lines() {
            let case: serde_json::Value = serde_json::from_str(line).expect("a golden line is JSON");
            let text = case["text"].as_str().expect("a text");
            let expected: Vec<&str> = case["tokens"].as_array().expect("tokens").iter().map(|t| t.as_str().expect("a token")).collect();
            assert_eq!(tokens(text), expected, "{text:?}");
            cases += 1;
        }
        assert_eq!(cases, 90);
    }

    #[test]
    fn every_scalar_value_gives_the_tokens_of_python_in_three_contexts() {
        let analyzer = Analyzer::new(AnalyzerKind::Word);
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |bytes: &[u8]| bytes.iter().for_each(|&b| hash = (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        for c in '\0'..=char::MAX {
            for text in [format!("A{c}b"), format!("aΣ{c}"), format!("{c}Σ")] {
                analyzer.tokens(&text, &mut |t| {
                    add(t.as_bytes());
                    add(&[0xff]);
                });
                add(&[0xfe]);
            }
        }
        assert_eq!(hash, TOKENS_OF_EVERY_SCALAR);
        assert!(analyzer.fingerprint().ends_with(UNICODE_VERSION), "the fingerprint names the tables' version");
    }

    #[test]
    fn a_sigma_looks_past_ignorable_characters() {
        assert_eq!(tokens("ΑΣ ΑΣΑ Σ ΑΣ' ΑΣ'Α Α'Σ ΑΣ.Β ΑΣ.1"), ["ας", "ασα", "σ", "ας", "ασ", "α", "α", "ς", "ασ", "β", "ας", "1"]);
    }

    #[test]
    fn a_token_may_be_as_long_as_its_text() {
        let text = "xY".repeat(1 << 20);
        assert_eq!(tokens(&text), [text.to_lowercase()]);
    }
}

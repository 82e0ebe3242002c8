//! Cuts a text into the pieces that the vocabulary is applied to one by one.
//!
//! tiktoken's pattern looks ahead: white space before a word leaves its last character to the word. Without looking ahead the same cut is one
//! rule applied to what a regular expression in linear time finds, so that no text can make it slow.

use regex::Regex;
use std::sync::LazyLock;

/// In this order: an English ending; letters with one sign before them; up to three digits; signs with a blank before and line ends after them;
/// white space at the end of the text; white space up to its last line end; other white space.
const PATTERN: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n]+|\s+";

/// `None` if the pattern were wrong, which a test rules out.
static REGEX: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PATTERN).ok());

/// Calls `each` with the pieces of `text` in order; together they are the text. O(bytes).
pub(super) fn pieces(text: &str, mut each: impl FnMut(&str)) {
    let Some(regex) = REGEX.as_ref() else { return each(text) };
    let mut at = 0;
    while let Some(found) = regex.find_at(text, at) {
        let mut piece = &text[at..found.end()];
        // Only white space of the last kind ends with white space that is no line end, before the end of the text.
        let last = piece.chars().next_back().filter(|c| c.is_whitespace() && !matches!(c, '\r' | '\n'));
        if let Some(last) = last
            && found.end() < text.len()
            && piece.len() > last.len_utf8()
        {
            // What comes after it takes its last character.
            piece = &piece[..piece.len() - last.len_utf8()];
        }
        each(piece);
        at += piece.len();
    }
    if at < text.len() {
        each(&text[at..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        let mut cut = Vec::new();
        // The pieces are parts of `text`; by their lengths they are found again.
        let mut at = 0;
        pieces(text, |piece| {
            assert_eq!(&text[at..at + piece.len()], piece);
            cut.push(at..at + piece.len());
            at += piece.len();
        });
        assert_eq!(at, text.len());
        cut.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn words_take_one_blank_before_them_and_numbers_fall_in_threes() {
        assert_eq!(cut("Hello  world, it's 12345 o'clock"), ["Hello", " ", " world", ",", " it", "'s", " ", "123", "45", " o", "'clock"]);
        assert_eq!(cut("a\n\n  b \n c  "), ["a", "\n\n", " ", " b", " \n", " c", "  "]);
        assert_eq!(cut("x = y;\n\n"), ["x", " =", " y", ";\n\n"]);
        assert_eq!(cut("WE'LL  ??"), ["WE", "'LL", " ", " ??"]);
        assert_eq!(cut("日本語 2\u{3000}\u{3000}語"), ["日本語", " ", "2", "\u{3000}", "\u{3000}語"]);
        assert_eq!(cut("x\n\n  "), ["x", "\n\n  "]);
        assert_eq!(cut("x\u{3000} \ty"), ["x", "\u{3000} ", "\ty"]);
        assert_eq!(cut("   "), ["   "]);
        assert!(cut("").is_empty());
    }
}

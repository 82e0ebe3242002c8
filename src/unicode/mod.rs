//! Characters, as the stored indexes know them: word characters, white space and lower case, from the tables of Unicode 14.
//!
//! Tokens and entity keys are stored, so they must never change under an index because a compiler came with newer tables. Hence these
//! tables, which are those of Python 3.11, and nothing of `char` beyond ASCII. Pure functions, no state.
//!
//! | file | role |
//! | --- | --- |
//! | `tables.rs` | the generated tables |

#[rustfmt::skip]
pub(crate) mod tables;

use tables::{CASED, IGNORABLE, LOWER, WORD};

/// Whether `c` is a word character: of the categories L* and N*, or the underscore. Python's `\w`.
#[inline]
pub fn is_word(c: char) -> bool {
    within(&WORD, c)
}

/// Whether `c` is white space, as Python's `\s` takes it: Unicode's White_Space, and U+001C to U+001F.
pub fn is_space(c: char) -> bool {
    matches!(
        u32::from(c),
        0x9..=0xd | 0x1c..=0x20 | 0x85 | 0xa0 | 0x1680 | 0x2000..=0x200a | 0x2028 | 0x2029 | 0x202f | 0x205f | 0x3000
    )
}

/// The text in lower case: Python's `str.lower()`. U+0130 becomes an i and a combining dot; a capital sigma looks at its neighbours.
pub fn lower(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            'İ' => out.push_str("i\u{307}"),
            'Σ' => out.push(lower_sigma(&text[..at], &text[at + c.len_utf8()..])),
            _ => out.push(lower_char(c)),
        }
    }
    out
}

/// The lower case of a capital sigma between these texts: final after a cased character and before none, ignorable ones skipped. Runs of
/// ignorable characters are looked at twice at most, once from either side.
pub fn lower_sigma(before: &str, behind: &str) -> char {
    let cased = |mut chars: &mut dyn Iterator<Item = char>| {
        let neighbour = (&mut chars).find(|&c| !within(&IGNORABLE, c));
        neighbour.is_some_and(|c| within(&CASED, c))
    };
    if cased(&mut before.chars().rev()) && !cased(&mut behind.chars()) { 'ς' } else { 'σ' }
}

/// The lower case of a character whose lower case is one character whatever its neighbours are: of all but U+0130 and the capital sigma.
pub fn lower_char(c: char) -> char {
    let code = u32::from(c);
    let (first, last, step, difference) = match LOWER.get(LOWER.partition_point(|r| r.1 < code)) {
        Some(&run) => run,
        None => return c,
    };
    if code < first || code > last || !(code - first).is_multiple_of(step) {
        return c;
    }
    char::from_u32(code.wrapping_add_signed(difference)).unwrap_or(c)
}

/// Whether `c` lies in one of the ranges, which ascend.
fn within(ranges: &[(u32, u32)], c: char) -> bool {
    let code = u32::from(c);
    ranges.get(ranges.partition_point(|r| r.1 < code)).is_some_and(|r| r.0 <= code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_that_of_python() {
        // Python 3.11: [c for c in map(chr, range(0x110000)) if re.match(r"\s", c)], by its number and sum.
        let all: Vec<u32> = ('\0'..=char::MAX).filter(|&c| is_space(c)).map(u32::from).collect();
        assert_eq!((all.len(), all.iter().sum::<u32>()), (29, 141_704));
        assert!(!is_space('\u{200b}') && is_space('\u{1c}') && is_space('\u{1f}'));
    }

    #[test]
    fn lower_case_is_that_of_the_standard_library_where_both_know_the_character() {
        for text in ["Google Cloud", "ΑΣ ΑΣΑ Σ ΑΣ' ΑΣ'Α", "İstanbul ÉLAN Ⅷ Ǆ", "straße ẞ"] {
            assert_eq!(lower(text), text.to_lowercase(), "{text:?}");
        }
    }
}

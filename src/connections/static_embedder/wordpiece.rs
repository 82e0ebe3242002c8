//! From text to tokens, as the uncased BERT tokenizer does it (Devlin et al. 2019; WordPiece of Schuster and Nakajima 2012): characters are lower-cased
//! and lose their accents, words part at white space and punctuation, ideographs are words, and each word is cut from the front into the
//! longest pieces that the vocabulary has.
//!
//! One pass over the text; a word takes time linear in its length times the length of the longest piece.

use super::characters::{DROPPED, IDEOGRAPHS, MARKS, ONE, SEVERAL, SPACES};
use super::weights::WeightsError;
use rustc_hash::FxHashMap;

/// Marks a piece that continues a word.
const CONTINUES: &str = "##";

/// Hangul syllables, and how their letters follow from their place (The Unicode Standard, 3.12).
const SYLLABLES: std::ops::RangeInclusive<u32> = 0xac00..=0xd7a3;
const LEADING: u32 = 0x1100;
const VOWEL: u32 = 0x1161;
const TRAILING: u32 = 0x11a7;
const TRAILING_COUNT: u32 = 28;
const SYLLABLES_A_LEADING: u32 = 21 * TRAILING_COUNT;

/// The pieces of a vocabulary.
pub(super) struct Vocabulary {
    beginning: FxHashMap<Box<str>, u32>,
    continuing: FxHashMap<Box<str>, u32>,
    unknown: u32,
    /// A word of more characters is unknown as a whole.
    word_max: usize,
    /// Bytes of the longest piece.
    piece_max: usize,
}

/// Room for the word at hand, kept from text to text.
#[derive(Default)]
pub(super) struct Word {
    text: String,
    chars: usize,
    pieces: Vec<u32>,
}

impl Vocabulary {
    /// Reads pieces, each ended by a line feed; the number of a piece is its id.
    pub(super) fn read(bytes: &[u8], tokens: u32, unknown: u32, word_max: usize) -> Result<Vocabulary, WeightsError> {
        let wrong = |token: u32, what: &'static str| WeightsError::Token { token, what };
        let (mut beginning, mut continuing, mut piece_max) = (FxHashMap::default(), FxHashMap::default(), 0);
        let mut pieces = bytes.split_inclusive(|b| *b == b'\n');
        for token in 0..tokens {
            let piece = pieces.next().and_then(|p| p.strip_suffix(b"\n")).ok_or_else(|| wrong(token, "is missing"))?;
            let piece = std::str::from_utf8(piece).map_err(|_| wrong(token, "is not UTF-8"))?;
            let (map, piece) = match piece.strip_prefix(CONTINUES).filter(|p| !p.is_empty()) {
                Some(rest) => (&mut continuing, rest),
                None => (&mut beginning, piece),
            };
            if piece.is_empty() {
                return Err(wrong(token, "is empty"));
            }
            piece_max = piece_max.max(piece.len());
            if map.insert(piece.into(), token).is_some() {
                return Err(wrong(token, "is there already"));
            }
        }
        if pieces.next().is_some() {
            return Err(wrong(tokens, "is one too many"));
        }
        Ok(Vocabulary { beginning, continuing, unknown, word_max, piece_max })
    }

    /// Gives the id of each token of the text to `take`.
    pub(super) fn tokens(&self, text: &str, word: &mut Word, mut take: impl FnMut(u32)) {
        word.clear();
        for c in text.chars() {
            match class(c) {
                Class::Dropped => {}
                Class::Space => self.cut(word, &mut take),
                Class::Alone(c) => {
                    self.cut(word, &mut take);
                    word.push(c);
                    self.cut(word, &mut take);
                }
                Class::Letter(c) => word.push(c),
                Class::Letters(letters) => letters.into_iter().flatten().for_each(|c| word.push(c)),
            }
        }
        self.cut(word, &mut take);
    }

    /// Cuts the word into pieces and clears it.
    fn cut(&self, word: &mut Word, take: &mut impl FnMut(u32)) {
        if word.text.is_empty() {
            return;
        }
        if word.chars <= self.word_max && self.pieces(&word.text, &mut word.pieces) {
            word.pieces.iter().for_each(|id| take(*id));
        } else {
            take(self.unknown);
        }
        word.clear();
    }

    /// The longest piece that the word begins with, and so on with its rest. Whether the whole word is made of pieces.
    fn pieces(&self, word: &str, pieces: &mut Vec<u32>) -> bool {
        let mut rest = word;
        while !rest.is_empty() {
            let map = if pieces.is_empty() { &self.beginning } else { &self.continuing };
            let mut end = rest.floor_char_boundary(self.piece_max);
            let found = loop {
                if let Some(id) = map.get(&rest[..end]) {
                    break *id;
                }
                match rest[..end].chars().next_back() {
                    Some(last) if end > last.len_utf8() => end -= last.len_utf8(),
                    _ => return false,
                }
            };
            pieces.push(found);
            rest = &rest[end..];
        }
        true
    }
}

impl Word {
    fn push(&mut self, c: char) {
        self.text.push(c);
        self.chars += 1;
    }

    fn clear(&mut self) {
        self.text.clear();
        self.chars = 0;
        self.pieces.clear();
    }
}

/// What becomes of a character.
enum Class {
    /// Nothing.
    Dropped,
    /// The word before it ends.
    Space,
    /// This character, a word by itself.
    Alone(char),
    /// This character, in the word at hand.
    Letter(char),
    /// These characters, in the word at hand.
    Letters([Option<char>; 3]),
}

fn class(c: char) -> Class {
    match c {
        'a'..='z' | '0'..='9' => Class::Letter(c),
        'A'..='Z' => Class::Letter(c.to_ascii_lowercase()),
        ' ' | '\t' | '\n' | '\r' => Class::Space,
        '\0'..='\x7f' if c.is_ascii_punctuation() => Class::Alone(c),
        '\0'..='\x7f' => Class::Dropped,
        _ => class_beyond_ascii(c),
    }
}

fn class_beyond_ascii(c: char) -> Class {
    let code = u32::from(c);
    if SYLLABLES.contains(&code) {
        return syllable(code - SYLLABLES.start());
    }
    if within(&DROPPED, code) {
        return Class::Dropped;
    }
    if within(&SPACES, code) {
        return Class::Space;
    }
    if let Ok(at) = SEVERAL.binary_search_by_key(&code, |s| s.0) {
        let mut letters = SEVERAL[at].1.chars();
        return Class::Letters([letters.next(), letters.next(), letters.next()]);
    }
    let became = ONE.binary_search_by_key(&code, |o| o.0).map_or(code, |at| ONE[at].1);
    let letter = char::from_u32(became).unwrap_or(c);
    let alone = within(&IDEOGRAPHS, code) || within(&MARKS, became) || letter.is_ascii_punctuation();
    if alone { Class::Alone(letter) } else { Class::Letter(letter) }
}

/// The two or three letters of a Hangul syllable, given by its place among them.
fn syllable(index: u32) -> Class {
    let (leading, vowel) = (index / SYLLABLES_A_LEADING, index % SYLLABLES_A_LEADING / TRAILING_COUNT);
    let trailing = index % TRAILING_COUNT;
    let letter = |code| char::from_u32(code);
    Class::Letters([letter(LEADING + leading), letter(VOWEL + vowel), (trailing > 0).then(|| letter(TRAILING + trailing)).flatten()])
}

/// Whether the code lies in one of the ranges, which ascend.
fn within(ranges: &[(u32, u32)], code: u32) -> bool {
    ranges.get(ranges.partition_point(|r| r.1 < code)).is_some_and(|r| r.0 <= code)
}

//! Finds entities in text: the `compat` extractor, and the mentions of a document.

use crate::document::Entity;
use crate::options::{ExtractorKind, limits};
use crate::unicode::{is_space, is_word, lower};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Capitalised words that are no entity when they stand alone.
const STOP_WORDS: [&str; 25] = [
    "The", "This", "That", "With", "From", "For", "And", "But", "Are", "Was", "Has", "Have", "Its", "Our", "Their", "Will", "Can", "May",
    "Also", "Such", "When", "Where", "How", "What", "Which",
];

/// Letters of the longest acronym.
const ACRONYM_LETTERS_MAX: usize = 6;

/// A distinct spelling that the extractor found, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surface<'a> {
    /// As it stands in the text.
    pub text: &'a str,
    /// How often it stands there; at least 1, and never above `u32::MAX`.
    pub occurrences: u32,
}

/// One entity of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// Its key: the name in lower case.
    pub key: Box<str>,
    /// The spelling that comes first in the document.
    pub name: Box<str>,
    /// How often the document mentions it, in whatever spelling; at least 1.
    pub occurrences: u32,
    /// How many distinct spellings the document has; at least 1.
    pub variants: u32,
}

/// The key of the entity called `name`: names that differ in letter case alone name one entity.
pub fn key(name: &str) -> Box<str> {
    lower(name).into()
}

/// The distinct spellings of entities in `text`, in the order of their first places.
///
/// It takes the union of three patterns, as Python's `re` finds them: capitalised words of at least three ASCII letters, a run of them over
/// white space being one (`\b[A-Z][a-z]{2,}(?:\s+[A-Z][a-z]{2,})*\b`, dropped when the whole is one of 25 stop words), acronyms
/// (`\b[A-Z]{2,6}\b`) and camelCase (`\b[a-z]+(?:[A-Z][a-z]+)+\b`). A boundary lies between a word character of any script and another
/// character. O(bytes).
pub fn compat(text: &str) -> Vec<Surface<'_>> {
    let mut found: Vec<Surface<'_>> = Vec::new();
    let mut index: FxHashMap<&str, usize> = FxHashMap::default();
    for_each_match(text, |surface| match index.get(surface) {
        Some(&at) => found[at].occurrences = found[at].occurrences.saturating_add(1),
        None => {
            index.insert(surface, found.len());
            found.push(Surface { text: surface, occurrences: 1 });
        }
    });
    found
}

/// What a maximal run of word characters is to the three patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A capitalised word, alone or with its neighbours.
    Name,
    /// An acronym or camelCase: a match by itself.
    Whole,
    /// No match, nor part of one.
    Nothing,
}

/// Gives every match to `sink`, in the order of the text.
///
/// All patterns begin and end at word boundaries and hold nothing but letters and white space, so each word of a match is a whole run of
/// word characters: a run is looked at once, and only a capitalised one can be joined with the run before it.
fn for_each_match<'a>(text: &'a str, mut sink: impl FnMut(&'a str)) {
    // The capitalised words under way, which the next run may continue. Whatever else comes next ends them.
    let mut name: Option<Range<usize>> = None;
    let mut at = 0;
    while let Some(run) = next_run(text, at) {
        let gap = &text[at..run.start];
        at = run.end;
        let shape = shape(&text.as_bytes()[run.clone()]);
        if let (Shape::Name, Some(name)) = (shape, &mut name)
            && gap.chars().all(is_space)
        {
            name.end = run.end;
            continue;
        }
        emit_name(name.take().map(|n| &text[n]), &mut sink);
        match shape {
            Shape::Name => name = Some(run),
            Shape::Whole => sink(&text[run]),
            Shape::Nothing => {}
        }
    }
    emit_name(name.map(|n| &text[n]), &mut sink);
}

fn emit_name<'a>(name: Option<&'a str>, sink: &mut impl FnMut(&'a str)) {
    if let Some(name) = name
        && !STOP_WORDS.contains(&name)
    {
        sink(name);
    }
}

/// The next maximal run of word characters at or behind `at`.
fn next_run(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let word_at = |at: usize| -> (bool, usize) {
        let byte = bytes[at];
        if byte.is_ascii() {
            return (byte.is_ascii_alphanumeric() || byte == b'_', 1);
        }
        let c = text[at..].chars().next().expect("a boundary of characters inside the text");
        (is_word(c), c.len_utf8())
    };
    let mut start = at;
    while start < bytes.len() {
        let (word, width) = word_at(start);
        if word {
            let mut end = start + width;
            while end < bytes.len() {
                let (word, width) = word_at(end);
                if !word {
                    break;
                }
                end += width;
            }
            return Some(start..end);
        }
        start += width;
    }
    None
}

fn shape(run: &[u8]) -> Shape {
    let upper = |b: &u8| b.is_ascii_uppercase();
    let lower = |b: &u8| b.is_ascii_lowercase();
    let whole = |matches: bool| if matches { Shape::Whole } else { Shape::Nothing };
    match run {
        [first, rest @ ..] if upper(first) => {
            if rest.len() >= 2 && rest.iter().all(lower) {
                return Shape::Name;
            }
            whole((2..=ACRONYM_LETTERS_MAX).contains(&run.len()) && rest.iter().all(upper))
        }
        // camelCase: lower-case letters first and last, and no capital right behind another.
        [first, .., last] if lower(first) && lower(last) => {
            let apart = !run.windows(2).any(|pair| upper(&pair[0]) && upper(&pair[1]));
            whole(apart && run.iter().any(upper) && run.iter().all(u8::is_ascii_alphabetic))
        }
        _ => Shape::Nothing,
    }
}

/// What a document mentions, in the order of first appearance: the entities given, if any were, else what the extractor finds in the text.
///
/// Spellings of one key are one mention. A spelling that the extractor finds and that has more than 1,024 bytes is no entity: no caller
/// could give it either. O(bytes).
pub fn mentions(entities: Option<&[Entity]>, text: &str, extractor: ExtractorKind) -> Vec<Mention> {
    let mut gathered = Gathered::default();
    match (entities, extractor) {
        (Some(entities), _) => entities.iter().for_each(|e| gathered.add(&e.name, e.mentions.max(1))),
        (None, ExtractorKind::None) => {}
        (None, ExtractorKind::Compat) => {
            let fits = |s: &Surface<'_>| s.text.len() <= limits::NAME_BYTES_MAX;
            compat(text).iter().filter(|s| fits(s)).for_each(|s| gathered.add(s.text, s.occurrences));
        }
    }
    gathered.mentions
}

/// Mentions by key, and the spellings seen of each.
#[derive(Default)]
struct Gathered<'a> {
    mentions: Vec<Mention>,
    by_key: FxHashMap<Box<str>, usize>,
    by_name: FxHashMap<&'a str, usize>,
}

impl<'a> Gathered<'a> {
    fn add(&mut self, name: &'a str, occurrences: u32) {
        if let Some(&at) = self.by_name.get(name) {
            let mention = &mut self.mentions[at];
            mention.occurrences = mention.occurrences.saturating_add(occurrences);
            return;
        }
        let key = key(name);
        let at = match self.by_key.get(&key) {
            Some(&at) => {
                let mention = &mut self.mentions[at];
                mention.occurrences = mention.occurrences.saturating_add(occurrences);
                mention.variants += 1;
                at
            }
            None => {
                self.by_key.insert(key.clone(), self.mentions.len());
                self.mentions.push(Mention { key, name: name.into(), occurrences, variants: 1 });
                self.mentions.len() - 1
            }
        };
        self.by_name.insert(name, at);
    }
}

/// The distinct spellings of entities in a query, in the order of their first places: `RAG` and `Rag` are two. An extractor of `none` finds
/// none.
pub fn query_entities(query: &str, extractor: ExtractorKind) -> Vec<String> {
    match extractor {
        ExtractorKind::None => Vec::new(),
        ExtractorKind::Compat => compat(query).into_iter().map(|s| s.text.to_string()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        compat(text).into_iter().map(|s| s.text).collect()
    }

    #[test]
    fn the_golden_entities_of_python_come_out() {
        let mut cases = 0;
        for line in include_str!("../../tests/golden/entities.jsonl").lines() {
            let case: serde_json::Value = serde_json::from_str(line).expect("a golden line is JSON");
            let text = case["text"].as_str().expect("a text");
            let expected: Vec<&str> = case["entities"].as_array().expect("a list").iter().map(|e| e.as_str().expect("a name")).collect();
            let mut entities = found(text);
            entities.sort_unstable();
            assert_eq!(entities, expected, "{text:?}");
            cases += 1;
        }
        assert_eq!(cases, 115);
    }

    #[test]
    fn spellings_come_in_the_order_of_their_first_places_with_their_number() {
        let text = "useIt RAG, Google Cloud and RAG; Paris useIt Google\u{1c}Cloud. Google\u{200b}Cloud";
        let counts: Vec<(&str, u32)> = compat(text).into_iter().map(|s| (s.text, s.occurrences)).collect();
        let expected =
            [("useIt", 2), ("RAG", 2), ("Google Cloud", 1), ("Paris", 1), ("Google\u{1c}Cloud", 1), ("Google", 1), ("Cloud", 1)];
        assert_eq!(counts, expected);
    }

    #[test]
    fn a_mention_counts_spellings_and_occurrences() {
        let mention = |key: &str, name: &str, occurrences, variants| Mention { key: key.into(), name: name.into(), occurrences, variants };
        let of_text = mentions(None, "RAG meets Rag and RAG again near Lyon", ExtractorKind::Compat);
        assert_eq!(of_text, [mention("rag", "RAG", 3, 2), mention("lyon", "Lyon", 1, 1)]);
        let given = [Entity::new("Zoë").mentions(4), Entity::new("ZOË"), Entity::new("Zoë").mentions(u32::MAX)];
        assert_eq!(mentions(Some(&given), "RAG", ExtractorKind::Compat), [mention("zoë", "Zoë", u32::MAX, 2)]);
        assert_eq!(mentions(Some(&[]), "RAG", ExtractorKind::Compat), []);
        assert_eq!(mentions(None, "RAG", ExtractorKind::None), []);
    }

    #[test]
    fn a_name_that_no_caller_could_give_is_no_entity() {
        let long = vec!["Word"; 300].join(" ");
        assert_eq!(found(&long), [long.as_str()]);
        assert_eq!(mentions(None, &long, ExtractorKind::Compat), []);
    }

    #[test]
    fn a_query_keeps_its_spellings_apart() {
        assert_eq!(query_entities("RAG or Rag, and RAG", ExtractorKind::Compat), ["RAG", "Rag"]);
        assert!(query_entities("RAG", ExtractorKind::None).is_empty());
    }
}

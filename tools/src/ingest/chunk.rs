//! Text to chunks: whole paragraphs where they fit, else whole lines, sentences, words, and last single characters.

use super::kind::SourceType;
use clap::ValueEnum;
use text_splitter::{ChunkConfig, ChunkSizer, MarkdownSplitter, TextSplitter};
use triune::{Analyzer, AnalyzerKind};

/// What a chunk's size is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unit {
    /// Unicode characters (scalar values)
    Chars,
    /// Tokens of the `word` analyzer
    Tokens,
}

/// How text is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub(crate) struct Cutting {
    /// The most that a chunk holds
    #[arg(long = "chunk-size", value_name = "N", default_value_t = 500)]
    pub(crate) size: usize,
    /// How much of a chunk's end the next one repeats, at most: as many whole sentences, words or lines as fit
    #[arg(long = "chunk-overlap", value_name = "N", default_value_t = 50)]
    pub(crate) overlap: usize,
    /// What both are counted in
    #[arg(long = "chunk-unit", value_enum, default_value_t = Unit::Chars)]
    pub(crate) unit: Unit,
}

impl Cutting {
    /// Refuses what no text could be cut by.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.size == 0 {
            return Err("--chunk-size is 0; a chunk holds at least 1".into());
        }
        if self.overlap >= self.size {
            return Err(format!("--chunk-overlap is {} and --chunk-size {}; the overlap is smaller than a chunk", self.overlap, self.size));
        }
        Ok(())
    }

    /// The chunks of `text`, none of them blank. Markdown is cut along its headings and blocks; code keeps the indentation of its lines.
    pub(crate) fn chunks(&self, kind: SourceType, text: &str) -> Result<Vec<String>, String> {
        let config = ChunkConfig::new(self.size)
            .with_sizer(self.sizer())
            .with_trim(kind != SourceType::Code)
            .with_overlap(self.overlap)
            .map_err(|e| e.to_string())?;
        let window = self.size.saturating_mul(16).max(WINDOW_BYTES_MIN);
        let pieces = if kind == SourceType::Markdown {
            let splitter = MarkdownSplitter::new(config);
            let pieces = in_windows(text, window.saturating_mul(4), |window| splitter.chunk_indices(window).collect());
            self.with_headings(text, pieces)
        } else {
            let splitter = TextSplitter::new(config);
            in_windows(text, window, |window| splitter.chunk_indices(window).collect())
        };
        let edged = |piece| if kind == SourceType::Code { without_blank_edges(piece) } else { piece };
        Ok(pieces.into_iter().map(|(_, piece)| edged(piece)).filter(|c| !c.trim().is_empty()).map(String::from).collect())
    }
}

impl Cutting {
    /// Puts headings that would stand alone at the head of what they are about: of that only as much goes along as fits, the rest follows.
    fn with_headings<'t>(&self, text: &'t str, pieces: Vec<Piece<'t>>) -> Vec<Piece<'t>> {
        let (mut all, mut headings): (Vec<Piece<'t>>, Vec<Piece<'t>>) = (Vec::with_capacity(pieces.len()), Vec::new());
        for (at, piece) in pieces {
            if is_headings(piece) {
                headings.push((at, piece));
                continue;
            }
            let (Some(&(from, _)), Some(&(last, alone))) = (headings.first(), headings.last()) else {
                all.push((at, piece));
                continue;
            };
            // An overlap may reach back over the headings.
            if at <= from {
                headings.clear();
                all.push((at, piece));
                continue;
            }
            let text = &text[from..at + piece.len()];
            let rest = self.rest_of(text, last + alone.len() - from);
            match rest.split_first() {
                Some((&(_, end), others)) if self.sizer().size(&text[..end]) <= self.size => {
                    all.push((from, &text[..end]));
                    all.extend(others.iter().map(|&(begin, end)| (from + begin, &text[begin..end])));
                }
                _ => all.extend(headings.iter().copied().chain([(at, piece)])),
            }
            headings.clear();
        }
        all.extend(headings);
        all
    }

    /// Where the parts of `text` begin and end behind its first `heading` bytes, cut so that heading and first part fit a chunk; none when no
    /// part would be as large as the heading.
    fn rest_of(&self, text: &str, heading: usize) -> Vec<(usize, usize)> {
        let sizer = self.sizer();
        let taken = sizer.size(&text[..heading]) + GAP_MAX;
        let room = self.size.saturating_sub(taken);
        if room <= self.overlap || room < taken {
            return Vec::new();
        }
        let Ok(config) = ChunkConfig::new(room).with_sizer(sizer).with_overlap(self.overlap) else { return Vec::new() };
        let splitter = MarkdownSplitter::new(config);
        splitter.chunk_indices(&text[heading..]).map(|(at, piece)| (heading + at, heading + at + piece.len())).collect()
    }

    fn sizer(&self) -> Sizer {
        Sizer { unit: self.unit, analyzer: Analyzer::new(AnalyzerKind::Word) }
    }
}

/// Where a chunk begins, and the chunk.
type Piece<'t> = (usize, &'t str);

/// White space that may stand between a heading and what it is about, and is counted with the heading.
const GAP_MAX: usize = 4;

/// Whether Markdown holds nothing but headings.
fn is_headings(piece: &str) -> bool {
    let heading = |line: &str| {
        let level = line.bytes().take_while(|b| *b == b'#').count();
        (1..=6).contains(&level) && line[level..].starts_with([' ', '\t'])
    };
    let mut lines = piece.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    lines.peek().is_some() && lines.all(heading)
}

/// Bytes that the splitter looks at together, at least.
const WINDOW_BYTES_MIN: usize = 8 << 10;

/// Cuts `text` window by window. The splitter looks through everything that is left for every chunk, so its time grows with the square of
/// what it is given; chunks depend on their neighbours alone. The last chunk of a window, which may go on behind it, begins the next one.
fn in_windows<'t>(text: &'t str, usual: usize, cut: impl Fn(&'t str) -> Vec<Piece<'t>>) -> Vec<Piece<'t>> {
    let (mut start, mut window, mut all) = (0usize, usual, Vec::new());
    loop {
        let end = text.floor_char_boundary(start.saturating_add(window));
        let from = start;
        let mut chunks = cut(&text[start..end]);
        if end < text.len() {
            match (chunks.len(), chunks.pop()) {
                // Nothing but white space.
                (0, _) | (_, None) if end > start => start = end,
                // A chunk as large as the window, or a window too small for a character.
                (..=1, _) | (_, None) => {
                    window *= 2;
                    continue;
                }
                (_, Some((at, _))) => start += at,
            }
            window = usual;
        }
        all.extend(chunks.into_iter().map(|(at, chunk)| (from + at, chunk)));
        if end == text.len() {
            return all;
        }
    }
}

/// Without blank lines before the first line and white space after the last.
fn without_blank_edges(text: &str) -> &str {
    let text = text.trim_end();
    let indented = text.trim_start();
    let blank = text.len() - indented.len();
    &text[text[..blank].rfind('\n').map_or(0, |at| at + 1)..]
}

struct Sizer {
    unit: Unit,
    analyzer: Analyzer,
}

/// Characters that count as a token where the analyzer finds none, so that no chunk is without bound.
const CHARS_A_TOKEN_MAX: usize = 32;

impl ChunkSizer for Sizer {
    fn size(&self, chunk: &str) -> usize {
        let chars = chunk.chars().count();
        match self.unit {
            Unit::Chars => chars,
            Unit::Tokens => {
                let mut tokens = 0;
                self.analyzer.tokens(chunk, &mut |_: &str| tokens += 1);
                tokens.max(chars / CHARS_A_TOKEN_MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUTTING: Cutting = Cutting { size: 40, overlap: 0, unit: Unit::Chars };

    #[test]
    fn paragraphs_stay_whole_where_they_fit_then_sentences_then_words() {
        let text = "One short paragraph.\n\nA second. It is longer than forty characters.\n\nThird.";
        let chunks = CUTTING.chunks(SourceType::Text, text).expect("it can be cut");
        assert_eq!(chunks, ["One short paragraph.", "A second.", "It is longer than forty characters.", "Third."]);
        let chunks = CUTTING.chunks(SourceType::Text, &"x".repeat(100)).expect("it can be cut");
        assert_eq!(chunks.iter().map(String::len).collect::<Vec<_>>(), [40, 40, 20]);
    }

    #[test]
    fn sizes_are_characters_or_tokens_and_are_kept() {
        let text = "größer schöner wärmer ".repeat(50);
        for (unit, size) in [(Unit::Chars, 30), (Unit::Tokens, 7)] {
            let cutting = Cutting { size, overlap: 2, unit };
            let sizer = Sizer { unit, analyzer: Analyzer::new(AnalyzerKind::Word) };
            let chunks = cutting.chunks(SourceType::Text, &text).expect("it can be cut");
            assert!(chunks.len() > 10 && chunks.iter().all(|c| sizer.size(c) <= size), "{unit:?}: {chunks:?}");
        }
    }

    #[test]
    fn an_overlap_repeats_the_end_of_the_chunk_before() {
        let text = (0..60).map(|n| format!("word{n} ")).collect::<String>();
        let chunks = Cutting { size: 60, overlap: 20, unit: Unit::Chars }.chunks(SourceType::Text, &text).expect("it can be cut");
        assert!(chunks.len() > 5);
        for pair in chunks.windows(2) {
            let first = pair[1].split(' ').next().expect("a chunk is not blank");
            assert!(pair[0].split(' ').any(|word| word == first), "{pair:?}");
        }
    }

    #[test]
    fn windows_do_not_show_in_the_chunks() {
        let text = (0..400).map(|n| format!("Sentence {n} of the größte text. ")).collect::<String>();
        let cut = |text| TextSplitter::new(ChunkConfig::new(40)).chunk_indices(text).collect::<Vec<_>>();
        let whole = cut(&text);
        for window in [1, 100, 101, 102, 103, 1000] {
            assert_eq!(in_windows(&text, window, cut), whole, "{window}");
        }
        let long = format!("{}{}", " ".repeat(1 << 18), "word ".repeat(1 << 16));
        let chunks = CUTTING.chunks(SourceType::Text, &long).expect("it can be cut");
        assert_eq!(chunks.iter().map(|c| c.split(' ').count()).sum::<usize>(), 1 << 16);
    }

    #[test]
    fn code_keeps_its_indentation_and_white_space_is_no_chunk() {
        assert_eq!(without_blank_edges("\n\n    if x:\n        y\n\n"), "    if x:\n        y");
        assert_eq!(without_blank_edges("  a"), "  a");
        for kind in [SourceType::Code, SourceType::Text, SourceType::Markdown] {
            assert_eq!(CUTTING.chunks(kind, " \n\n \t\n"), Ok(vec![]), "{kind:?}");
        }
    }

    #[test]
    fn a_heading_stands_at_the_head_of_what_it_is_about() {
        let body = "One sentence of it. ".repeat(20);
        let text = format!("# Wheels\n\n## Flat tyre\n\n{body}\n\n## Brakes\n\nShort.\n\n## Last\n");
        for (size, overlap) in [(100, 0), (100, 30), (1000, 0), (60, 20)] {
            let cutting = Cutting { size, overlap, unit: Unit::Chars };
            let chunks = cutting.chunks(SourceType::Markdown, &text).expect("it can be cut");
            assert!(chunks[0].starts_with("# Wheels\n\n## Flat tyre\n\nOne sentence"), "{chunks:?}");
            assert!(chunks.iter().all(|chunk| chunk.chars().count() <= size), "{chunks:?}");
            let alone = chunks.iter().filter(|chunk| is_headings(chunk)).count();
            assert!(alone <= 1, "only the last has nothing to stand before: {chunks:?}");
            assert!(chunks.iter().any(|chunk| chunk.contains("## Brakes\n\nShort.")), "{chunks:?}");
            assert_eq!(chunks.iter().filter(|chunk| chunk.contains("Flat tyre")).count(), 1, "{chunks:?}");
            let sentences: usize = chunks.iter().map(|chunk| chunk.matches("sentence of").count()).sum();
            assert!(sentences >= 20 && (overlap > 0 || sentences == 20), "nothing is lost: {chunks:?}");
        }
        let narrow = Cutting { size: 20, overlap: 0, unit: Unit::Chars }.chunks(SourceType::Markdown, &text).expect("it can be cut");
        assert!(narrow.iter().all(|chunk| chunk.chars().count() <= 20), "{narrow:?}");
        assert!(
            is_headings("## a\n\n### b\n")
                && !is_headings("#b")
                && !is_headings("####### c")
                && !is_headings(" \n")
                && !is_headings("# a\nb")
        );
    }

    #[test]
    fn an_overlap_is_smaller_than_a_chunk() {
        assert!(Cutting { size: 10, overlap: 10, ..CUTTING }.check().is_err());
        assert!(Cutting { size: 0, ..CUTTING }.check().is_err());
        assert!(CUTTING.check().is_ok());
    }
}

//! Cuts texts into requests.

use std::ops::Range;

/// How much one request may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Texts, at least 1.
    pub(super) texts: usize,
    /// Bytes of their text; a text that is longer by itself goes alone.
    pub(super) bytes: usize,
}

/// The texts of each request, in order and without a gap. Every request has at least one text, and none is over `bounds` but by one text
/// that is over it alone.
pub(super) fn batches(texts: &[&str], bounds: Bounds) -> Vec<Range<usize>> {
    let mut cut = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, text) in texts.iter().enumerate() {
        if at > start && (at - start >= bounds.texts || bytes + text.len() > bounds.bytes) {
            cut.push(start..at);
            (start, bytes) = (at, 0);
        }
        bytes += text.len();
    }
    if start < texts.len() {
        cut.push(start..texts.len());
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_hold_every_text_once_and_no_more_than_they_may() {
        let texts: Vec<String> = [3, 3, 3, 20, 0, 0, 0, 1, 9, 2].iter().map(|n| "x".repeat(*n)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let cut = |count, bytes| batches(&texts, Bounds { texts: count, bytes });
        assert_eq!(cut(100, 10), [0..3, 3..4, 4..9, 9..10]);
        assert_eq!(cut(2, 1000), [0..2, 2..4, 4..6, 6..8, 8..10]);
        assert_eq!(cut(1, 0).len(), 10, "a text over the bound goes alone");
        assert!(batches(&[], Bounds { texts: 1, bytes: 1 }).is_empty());
        for count in 1..12 {
            for bytes in 0..30 {
                let cut = cut(count, bytes);
                let whole: Vec<usize> = cut.iter().cloned().flatten().collect();
                assert_eq!(whole, (0..10).collect::<Vec<_>>());
                for range in cut {
                    let sum: usize = texts[range.clone()].iter().map(|t| t.len()).sum();
                    assert!(range.len() <= count && (sum <= bytes || range.len() == 1), "{range:?} of {count} and {bytes}");
                }
            }
        }
    }
}

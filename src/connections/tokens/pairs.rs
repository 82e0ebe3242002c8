//! Puts the bytes of a piece together to tokens.

use super::Ranks;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No part.
const NONE: u32 = u32::MAX;

/// Room that is used for one piece after the other.
#[derive(Default)]
pub(super) struct Scratch {
    /// A part begins where its slot is; slots inside a part are dead.
    parts: Vec<Part>,
    /// Pairs that are tokens: rank, beginning of the left part, and the end of the right one, by which a pair that is no more is known.
    pairs: BinaryHeap<Reverse<(u32, u32, u32)>>,
}

#[derive(Clone, Copy)]
struct Part {
    /// Where it ends, and the next one begins.
    end: u32,
    /// Where the one before it begins.
    before: u32,
    alive: bool,
}

impl Scratch {
    /// Tokens of a piece: of all neighbours, the pair whose bytes have the lowest rank becomes one part, the leftmost of equals, until no pair
    /// is a token. O(n log n), where a pair by pair search would be O(n²) for a long word.
    pub(super) fn count(&mut self, ranks: &Ranks, piece: &[u8]) -> usize {
        // A piece longer than this is counted in parts of it: positions have 32 bits.
        piece.chunks(1 << 30).map(|part| self.count_part(ranks, part)).sum()
    }

    fn count_part(&mut self, ranks: &Ranks, piece: &[u8]) -> usize {
        let len = piece.len() as u32;
        self.parts.clear();
        self.pairs.clear();
        self.parts.extend((0..len).map(|at| Part { end: at + 1, before: at.wrapping_sub(1), alive: true }));
        for at in 0..len.saturating_sub(1) {
            self.push(ranks, piece, at);
        }
        let mut tokens = piece.len();
        while let Some(Reverse((_, left, end))) = self.pairs.pop() {
            let part = self.parts[left as usize];
            // One of the two has grown since, or the left one is part of another.
            if !part.alive || part.end >= end || self.parts[part.end as usize].end != end {
                continue;
            }
            self.parts[part.end as usize].alive = false;
            self.parts[left as usize].end = end;
            if let Some(next) = self.parts.get_mut(end as usize) {
                next.before = left;
            }
            tokens -= 1;
            self.push(ranks, piece, left);
            if part.before != NONE {
                self.push(ranks, piece, part.before);
            }
        }
        tokens
    }

    /// Notes the pair of the part that begins at `left` and the next one, if it is a token.
    fn push(&mut self, ranks: &Ranks, piece: &[u8], left: u32) {
        let middle = self.parts[left as usize].end;
        let Some(right) = self.parts.get(middle as usize) else { return };
        if let Some(rank) = ranks.get(&piece[left as usize..right.end as usize]) {
            self.pairs.push(Reverse((rank, left, right.end)));
        }
    }
}

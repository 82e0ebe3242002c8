//! Counting tokens as the models of OpenAI from 2022 to 2024 do: the vocabulary cl100k, kept in the library, so that nothing is fetched.
//!
//! A text is cut into pieces; a piece that is a token counts as one, any other is put together from its bytes, always the pair with the lowest rank
//! first (byte pair encoding). The counts equal those of tiktoken's `encode_ordinary`.
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | [`Cl100k`] |
//! | `pieces.rs` | from a text to pieces |
//! | `pairs.rs` | from a piece to tokens |
//! | `data/` | the vocabulary, and where it comes from |

mod pairs;
mod pieces;

#[cfg(test)]
mod tests;

use crate::models::TokenCounter;
use pairs::Scratch;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The tokens one after the other, each with its length before it; a token's rank is its position.
static PACKED: &[u8] = include_bytes!("data/cl100k.bin");

static RANKS: LazyLock<Ranks> = LazyLock::new(|| Ranks::unpack(PACKED));

/// From the bytes of a token to its rank.
struct Ranks(FxHashMap<&'static [u8], u32>);

impl Ranks {
    fn unpack(mut packed: &'static [u8]) -> Ranks {
        let mut ranks = FxHashMap::with_capacity_and_hasher(100_256, rustc_hash::FxBuildHasher);
        while let Some((len, rest)) = packed.split_first()
            && let Some((token, rest)) = rest.split_at_checked(usize::from(*len))
        {
            ranks.insert(token, ranks.len() as u32);
            packed = rest;
        }
        Ranks(ranks)
    }

    fn get(&self, bytes: &[u8]) -> Option<u32> {
        self.0.get(bytes).copied()
    }
}

/// The vocabulary cl100k.
///
/// ```
/// use triune::connections::tokens::Cl100k;
/// use triune::models::TokenCounter;
/// assert_eq!(Cl100k.count("tiktoken is great!"), 6);
/// ```
///
/// The first count unpacks the vocabulary, some milliseconds and 8 MB for all that follow. A count is O(n log n) in the bytes of the longest piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cl100k;

impl TokenCounter for Cl100k {
    fn name(&self) -> &str {
        "cl100k_base"
    }

    fn count(&self, text: &str) -> usize {
        let ranks = &*RANKS;
        let (mut scratch, mut tokens) = (Scratch::default(), 0);
        pieces::pieces(text, |piece| {
            tokens += if ranks.get(piece.as_bytes()).is_some() { 1 } else { scratch.count(ranks, piece.as_bytes()) };
        });
        tokens
    }
}

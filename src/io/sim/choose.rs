//! Who decides, where a disk could have gone either way.

/// Decides one question after the other.
pub trait Chooser {
    /// Picks one of `n` possibilities, `n` being at least 1: a number below `n`.
    fn pick(&mut self, n: usize) -> usize;
}

/// Walks through every sequence of answers, like an odometer: the last question's answer turns fastest.
///
/// Which questions are asked may depend on the answers given, but the same answers must lead to the same questions.
///
/// ```
/// use triune::io::sim::{Chooser, Exhaustive};
///
/// let mut choices = Exhaustive::new();
/// let mut seen = Vec::new();
/// while choices.advance() {
///     let first = choices.pick(2);
///     seen.push((first, if first == 1 { choices.pick(3) } else { 0 }));
/// }
/// assert_eq!(seen, [(0, 0), (1, 0), (1, 1), (1, 2)]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Exhaustive {
    /// What was picked, and out of how many.
    picks: Vec<(usize, usize)>,
    /// The next question's place in `picks`.
    position: usize,
    begun: bool,
}

impl Exhaustive {
    /// Before the first sequence.
    pub fn new() -> Exhaustive {
        Exhaustive::default()
    }

    /// Moves to the next sequence of answers; `false` when there is none.
    pub fn advance(&mut self) -> bool {
        if !self.begun {
            self.begun = true;
            return true;
        }
        assert_eq!(self.position, self.picks.len(), "the same answers must lead to the same questions");
        self.position = 0;
        while let Some((picked, n)) = self.picks.pop() {
            if picked + 1 < n {
                self.picks.push((picked + 1, n));
                return true;
            }
        }
        false
    }
}

impl Chooser for Exhaustive {
    fn pick(&mut self, n: usize) -> usize {
        if self.position == self.picks.len() {
            assert!(n > 0, "a question needs an answer");
            self.picks.push((0, n));
        }
        let (picked, before) = self.picks[self.position];
        assert_eq!(before, n, "the same answers must lead to the same questions");
        self.position += 1;
        picked
    }
}

/// Answers at random, the same for the same seed.
#[derive(Debug, Clone)]
pub struct Seeded {
    state: u64,
}

impl Seeded {
    /// The answers of this seed.
    pub fn new(seed: u64) -> Seeded {
        Seeded { state: seed }
    }

    /// 64 random bits (SplitMix64).
    pub(super) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Chooser for Seeded {
    fn pick(&mut self, n: usize) -> usize {
        assert!(n > 0, "a question needs an answer");
        let below = self.next_u64() % n as u64;
        usize::try_from(below).expect("less than a usize")
    }
}

/// Answers as a string of bytes says: what a fuzzer and a property test vary and shrink. Every string is good; after its end each answer is 0,
/// the plainest.
///
/// ```
/// use triune::io::sim::{Chooser, FromBytes};
///
/// let mut choices = FromBytes::new(&[7, 1]);
/// assert_eq!((choices.pick(1), choices.pick(5), choices.pick(2), choices.pick(9)), (0, 2, 1, 0));
/// ```
#[derive(Debug, Clone)]
pub struct FromBytes<'a> {
    rest: &'a [u8],
}

impl FromBytes<'_> {
    /// The answers that `bytes` encode.
    pub fn new(bytes: &[u8]) -> FromBytes<'_> {
        FromBytes { rest: bytes }
    }
}

impl Chooser for FromBytes<'_> {
    /// A question with one answer takes no byte, one with up to 256 takes one, any other takes two.
    fn pick(&mut self, n: usize) -> usize {
        assert!(n > 0, "a question needs an answer");
        let width = usize::from(n > 1) + usize::from(n > 256);
        let (taken, rest) = self.rest.split_at(width.min(self.rest.len()));
        self.rest = rest;
        taken.iter().fold(0, |picked, &byte| picked << 8 | usize::from(byte)) % n
    }
}

//! The tokens that passages may take, over all sources and groups of a request.

use super::passage::Passage;
use crate::models::TokenCounter;

/// The least budget, in tokens.
const FLOOR: usize = 100;

/// What may be spent of a limit: nine tenths of it, cut to a whole number, and 100 at least.
///
/// ```
/// use triune::retrieval::spendable;
/// assert_eq!((spendable(1_000), spendable(333), spendable(50)), (900, 299, 100));
/// ```
pub fn spendable(limit: usize) -> usize {
    // As the original counts: a product of floats, cut.
    ((0.9 * limit as f64) as usize).max(FLOOR)
}

/// What a limit leaves for each of `groups`: even shares, of which the first ones take what does not divide.
pub(crate) fn shares(limit: usize, groups: usize) -> Vec<usize> {
    let groups = groups.max(1);
    (0..groups).map(|i| limit / groups + usize::from(i < limit % groups)).collect()
}

/// Spends a budget on passages. One that does not fit is passed over, and a smaller one after it may fit.
pub(crate) struct TokenLedger<'a> {
    /// Absent without a limit or without a counter.
    budget: Option<(usize, &'a dyn TokenCounter)>,
    spent: usize,
}

impl<'a> TokenLedger<'a> {
    pub(crate) fn new(limit: Option<usize>, counter: Option<&'a dyn TokenCounter>) -> TokenLedger<'a> {
        TokenLedger { budget: limit.map(spendable).zip(counter), spent: 0 }
    }

    /// What a passage costs: the tokens of its file's name, a line break, and its text. 0 where nothing is counted.
    pub(crate) fn cost(&self, passage: &Passage) -> usize {
        self.budget.map_or(0, |(_, counter)| counter.count(&format!("{}\n{}", passage.filename, passage.text)))
    }

    /// Whether so much more would stay below the budget; reaching it is too much.
    pub(crate) fn fits(&self, cost: usize) -> bool {
        self.budget.is_none_or(|(budget, _)| self.spent.saturating_add(cost) < budget)
    }

    pub(crate) fn spend(&mut self, cost: usize) {
        self.spent = self.spent.saturating_add(cost);
    }

    /// Spends what a passage costs, if that fits.
    pub(crate) fn accept(&mut self, passage: &Passage) -> bool {
        let cost = self.cost(passage);
        let fits = self.fits(cost);
        if fits {
            self.spend(cost);
        }
        fits
    }

    /// Whether anything is counted at all.
    pub(crate) fn counts(&self) -> bool {
        self.budget.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts bytes.
    struct Bytes;

    impl TokenCounter for Bytes {
        fn name(&self) -> &str {
            "bytes"
        }
        fn count(&self, text: &str) -> usize {
            text.len()
        }
    }

    fn passage(filename: &str, length: usize) -> Passage {
        Passage { filename: filename.into(), text: "x".repeat(length), ..Passage::default() }
    }

    #[test]
    fn nine_tenths_are_spent_cut_and_a_hundred_at_least() {
        let cases = [(0, 100), (100, 100), (111, 100), (112, 100), (113, 101), (1000, 900), (1001, 900), (333, 299), (50_000, 45_000)];
        for (limit, expected) in cases {
            assert_eq!(spendable(limit), expected, "{limit}");
        }
        assert!(spendable(usize::MAX) > usize::MAX / 2);
    }

    #[test]
    fn groups_share_a_limit_evenly_and_the_first_take_the_rest() {
        assert_eq!(shares(1000, 3), [334, 333, 333]);
        assert_eq!(shares(2, 3), [1, 1, 0]);
        assert_eq!(shares(7, 1), [7]);
    }

    #[test]
    fn a_passage_costs_its_files_name_a_line_break_and_its_text() {
        let ledger = TokenLedger::new(Some(1000), Some(&Bytes));
        assert_eq!(ledger.cost(&passage("a.md", 10)), 15);
        assert_eq!(ledger.cost(&passage("", 0)), 1);
    }

    #[test]
    fn what_reaches_the_budget_is_passed_over_and_a_smaller_one_after_it_fits() {
        let mut ledger = TokenLedger::new(Some(100), Some(&Bytes));
        assert!(ledger.accept(&passage("", 59)), "60 of 100");
        assert!(!ledger.accept(&passage("", 39)), "100 of 100 is too much");
        assert!(ledger.accept(&passage("", 38)), "99 of 100");
        assert!(!ledger.accept(&passage("", 0)));
    }

    #[test]
    fn nothing_is_counted_without_a_limit_or_without_a_counter() {
        for mut ledger in [TokenLedger::new(None, Some(&Bytes)), TokenLedger::new(Some(10), None)] {
            assert!(!ledger.counts());
            assert!((0..5).all(|_| ledger.accept(&passage("", 1000))));
        }
    }
}

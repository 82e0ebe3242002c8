//! Rules that the tests of this crate break on purpose, to see that something notices.
//!
//! With the feature `internals` a thread can switch off one rule for as long as a closure runs. Without it every question below is the
//! constant `false`, which the compiler removes with what it guards. Nothing here is read from a file or an environment.

/// A rule that can be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The checksums of these structures, as error messages name them, are compared.
    Checksums(&'static [&'static str]),
    /// Log records, WITNESS and HEAD repeat how far the log was synced; without it they say 0.
    DurableLsn,
    /// A bad record is held against the evidence of what was synced; without it, it ends the log.
    Verdict,
    /// A later valid record in the log is evidence.
    EvidenceOfRecords,
    /// WITNESS is evidence.
    EvidenceOfWitness,
    /// HEAD is evidence.
    EvidenceOfHead,
    /// WITNESS is read before HEAD and the logs.
    WitnessFirst,
    /// What follows the first bad record is dropped, whole records too.
    LaterRecordsDropped,
    /// A log below the active one that nothing reaches is a leftover, whatever it holds.
    LowerLogsAreLeftovers,
    /// A log above the active one that holds records is corruption.
    HigherLogsAreRefused,
    /// Both slots of HEAD are written and synced before anything rests on what they say.
    BothSlots,
    /// The first write of a process is the chosen slot again, in its own place.
    SettleInPlace,
    /// A failed write to the log is cut away before anyone hears of it.
    CutBack,
    /// A sync that failed is never tried again.
    NoRetry,
    /// The first record after a sync starts a block.
    FreshBlock,
    /// A log with a record in it is no unfinished create.
    CreateHeldNothing,
    /// A recovery ends with its commits in fresh, synced files.
    CheckpointRecovered,
    /// A recovery removes what earlier ones left before it writes.
    OrphansFirst,
    /// A merge drops only rows that had died by the state that it started from.
    MergeDropsApplied,
    /// A merge publishes the deaths up to the state that it is published with.
    MergeCarries,
    /// Files that an operation in progress has made stay.
    Claims,
    /// Replay begins a new part at a batch that landed.
    FreezeAtLanded,
}

#[cfg(feature = "internals")]
mod switch {
    use super::Rule;
    use std::cell::Cell;

    thread_local! {
        static BROKEN: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    /// Whether this thread breaks `rule`.
    pub fn breaks(rule: Rule) -> bool {
        BROKEN.get() == Some(rule)
    }

    /// Whether this thread does not compare the checksum called `name`.
    pub fn skips_checksum(name: &str) -> bool {
        matches!(BROKEN.get(), Some(Rule::Checksums(skipped)) if skipped.contains(&name))
    }

    /// Switches the rule on again, after a panic too.
    struct Restore(Option<Rule>);

    impl Drop for Restore {
        fn drop(&mut self) {
            BROKEN.set(self.0);
        }
    }

    /// Runs `act` while this thread breaks `rule`; every rule holds when it is `None`.
    pub fn with_broken<T>(rule: Option<Rule>, act: impl FnOnce() -> T) -> T {
        let _restore = Restore(BROKEN.replace(rule));
        act()
    }
}

#[cfg(feature = "internals")]
pub use switch::{breaks, skips_checksum, with_broken};

/// No rule can be broken.
#[cfg(not(feature = "internals"))]
#[inline(always)]
pub const fn breaks(_: Rule) -> bool {
    false
}

/// No checksum can be skipped.
#[cfg(not(feature = "internals"))]
#[inline(always)]
pub const fn skips_checksum(_: &str) -> bool {
    false
}

#[cfg(all(test, feature = "internals"))]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_broken_for_as_long_as_the_closure_runs_and_in_its_thread_alone() {
        let outside = with_broken(Some(Rule::Verdict), || {
            assert!(breaks(Rule::Verdict) && !breaks(Rule::DurableLsn) && !skips_checksum("body"));
            with_broken(Some(Rule::Checksums(&["body"])), || assert!(skips_checksum("body") && !breaks(Rule::Verdict)));
            with_broken(None, || assert!(!breaks(Rule::Verdict)));
            std::thread::scope(|scope| scope.spawn(|| breaks(Rule::Verdict)).join().expect("no panic"))
        });
        assert!(!outside && !breaks(Rule::Verdict));
        let panicked = std::panic::catch_unwind(|| with_broken(Some(Rule::Verdict), || panic!("on purpose")));
        assert!(panicked.is_err() && !breaks(Rule::Verdict));
    }
}

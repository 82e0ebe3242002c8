//! Tokens that models took, by purpose.

use super::Purpose;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// What calls took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Calls that were answered.
    pub calls: u64,
    /// Tokens that the models read.
    pub prompt_tokens: u64,
    /// Tokens that the models wrote.
    pub completion_tokens: u64,
}

impl Usage {
    /// What one answered call took.
    pub fn of_call(prompt_tokens: u64, completion_tokens: u64) -> Usage {
        Usage { calls: 1, prompt_tokens, completion_tokens }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        // What a server says may be anything.
        self.calls = self.calls.saturating_add(other.calls);
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
    }
}

/// Adds up what calls took, by purpose; shared by the threads that serve a request.
///
/// ```
/// use triune::models::{Purpose, Usage, UsageLedger};
/// let ledger = UsageLedger::default();
/// ledger.add(&Purpose::CONDENSE, Usage::of_call(120, 14));
/// ledger.add(&Purpose::CONDENSE, Usage::of_call(80, 9));
/// assert_eq!(ledger.by_purpose()[&Purpose::CONDENSE].prompt_tokens, 200);
/// assert_eq!(ledger.total().calls, 2);
/// ```
#[derive(Debug, Default)]
pub struct UsageLedger(Mutex<BTreeMap<Purpose, Usage>>);

impl UsageLedger {
    /// Adds what one call took.
    pub fn add(&self, purpose: &Purpose, usage: Usage) {
        *self.0.lock().entry(purpose.clone()).or_default() += usage;
    }

    /// What calls of each purpose took.
    pub fn by_purpose(&self) -> BTreeMap<Purpose, Usage> {
        self.0.lock().clone()
    }

    /// What all calls took.
    pub fn total(&self) -> Usage {
        let mut total = Usage::default();
        for usage in self.0.lock().values() {
            total += *usage;
        }
        total
    }
}

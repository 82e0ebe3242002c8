//! Keeps to a server's limits a minute before the server has to say no.
//!
//! A window slides: in no 60 seconds are there more requests or tokens than allowed. Buckets that refill would let twice as many through
//! around the end of a minute, which servers that count as this one does answer with 429.

use crate::connections::waiting::rest;
use crate::models::{Call, ModelError, ModelErrorKind};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);

/// The limits of one server, shared by all that asks it.
#[derive(Debug)]
pub(super) struct Pace {
    requests: Option<u32>,
    tokens: Option<u32>,
    window: Mutex<Window>,
}

/// A request that was let through, for [`Pace::settle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// The requests of the last 60 seconds.
#[derive(Debug, Default)]
struct Window {
    /// When, and how many tokens; oldest first.
    past: VecDeque<(Instant, u64)>,
    tokens: u64,
    /// Number of the first of `past`.
    first: u64,
}

impl Pace {
    /// Limits that are absent do not limit; a limit of 0 counts as 1.
    pub(super) fn new(requests: Option<u32>, tokens: Option<u32>) -> Pace {
        Pace { requests: requests.map(|n| n.max(1)), tokens: tokens.map(|n| n.max(1)), window: Mutex::default() }
    }

    /// Waits until a request of about `tokens` may go out, and counts it.
    ///
    /// # Errors
    /// `RateLimited`, with the wait that it would take, when that is not over before the call's deadline; `Cancelled`.
    pub(super) fn enter(&self, call: &Call<'_>, tokens: u64) -> Result<Ticket, ModelError> {
        loop {
            call.check()?;
            let wait = match self.admit(Instant::now(), tokens) {
                Ok(ticket) => return Ok(ticket),
                Err(wait) => wait,
            };
            if call.remaining().is_some_and(|remaining| remaining <= wait) {
                let seconds = wait.as_secs_f64();
                let message =
                    format!("the limits that are set for this server let {} go on in {seconds:.1} s, after its deadline", call.purpose);
                return Err(ModelError { retry_after: Some(wait), ..ModelError::new(ModelErrorKind::RateLimited, message) });
            }
            rest(call, wait)?;
        }
    }

    /// Counts a request at `now`, or says after what wait to ask again.
    fn admit(&self, now: Instant, tokens: u64) -> Result<Ticket, Duration> {
        if self.requests.is_none() && self.tokens.is_none() {
            return Ok(Ticket(0));
        }
        let mut window = self.window.lock();
        window.forget(now);
        let full = self.requests.is_some_and(|max| window.past.len() as u64 >= u64::from(max));
        // A request that is over the limit by itself goes out when it is alone: else it never would.
        let heavy = self.tokens.is_some_and(|max| window.tokens.saturating_add(tokens) > u64::from(max)) && !window.past.is_empty();
        match window.past.front() {
            Some((oldest, _)) if full || heavy => Err((*oldest + MINUTE).saturating_duration_since(now).max(Duration::from_millis(1))),
            _ => {
                window.past.push_back((now, tokens));
                window.tokens = window.tokens.saturating_add(tokens);
                Ok(Ticket(window.first + window.past.len() as u64 - 1))
            }
        }
    }

    /// Corrects what a request was held to take by what it took.
    pub(super) fn settle(&self, ticket: Ticket, tokens: u64) {
        let mut window = self.window.lock();
        let at = ticket.0.checked_sub(window.first).and_then(|at| usize::try_from(at).ok());
        if let Some(entry) = at.and_then(|at| window.past.get_mut(at)) {
            let held = std::mem::replace(&mut entry.1, tokens);
            window.tokens = window.tokens.saturating_sub(held).saturating_add(tokens);
        }
    }
}

impl Window {
    fn forget(&mut self, now: Instant) {
        while let Some((at, tokens)) = self.past.front().copied()
            && now.saturating_duration_since(at) >= MINUTE
        {
            self.past.pop_front();
            self.tokens = self.tokens.saturating_sub(tokens);
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn no_minute_has_more_requests_than_allowed() {
        let pace = Pace::new(Some(3), None);
        let start = Instant::now();
        let mut sent: Vec<Duration> = Vec::new();
        let mut now = Duration::ZERO;
        // Somebody who asks again as soon as he may, with pauses now and then.
        while now < 10 * MINUTE {
            match pace.admit(start + now, 1) {
                Ok(_) => sent.push(now),
                Err(wait) => now += wait,
            }
            now += SECOND * (sent.len() as u32 % 7);
        }
        assert!(sent.len() >= 25, "{} in ten minutes", sent.len());
        for window in sent.windows(4) {
            assert!(window[3] - window[0] >= MINUTE, "{window:?}");
        }
    }

    #[test]
    fn no_minute_has_more_tokens_than_allowed_and_a_request_over_the_limit_goes_alone() {
        let pace = Pace::new(None, Some(100));
        let start = Instant::now();
        assert!(pace.admit(start, 60).is_ok());
        assert!(pace.admit(start, 40).is_ok());
        assert_eq!(pace.admit(start + SECOND, 1), Err(59 * SECOND));
        assert!(pace.admit(start + MINUTE, 1000).is_ok());
        assert_eq!(pace.admit(start + MINUTE, 1), Err(MINUTE));
    }

    #[test]
    fn what_a_reply_took_replaces_what_it_was_held_to_take() {
        let pace = Pace::new(None, Some(100));
        let start = Instant::now();
        let first = pace.admit(start, 90).unwrap();
        assert!(pace.admit(start, 20).is_err());
        pace.settle(first, 30);
        let second = pace.admit(start + SECOND, 20).unwrap();
        pace.settle(second, 70);
        assert!(pace.admit(start + SECOND, 1).is_err());
        // The first is forgotten: what is said of it then changes nothing, and the second still counts.
        assert!(pace.admit(start + MINUTE, 30).is_ok());
        pace.settle(first, 5000);
        assert_eq!(pace.window.lock().tokens, 100);
    }

    #[test]
    fn a_wait_past_the_deadline_is_told_and_not_waited_for() {
        let pace = Pace::new(Some(1), None);
        let call = Call { deadline: Some(Instant::now() + 30 * SECOND), ..Call::default() };
        pace.enter(&call, 1).unwrap();
        let error = pace.enter(&call, 1).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::RateLimited);
        assert!(error.retry_after.is_some_and(|wait| wait > 30 * SECOND && wait <= MINUTE), "{error:?}");
        call.cancellation.cancel();
        assert_eq!(pace.enter(&call, 1).unwrap_err().kind, ModelErrorKind::Cancelled);
    }

    #[test]
    fn without_limits_nothing_is_kept() {
        let pace = Pace::new(None, None);
        for _ in 0..100 {
            pace.enter(&Call::default(), u64::MAX).unwrap();
        }
        assert!(pace.window.lock().past.is_empty());
    }
}

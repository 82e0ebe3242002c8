//! Ctrl-C during a long write: the commit that runs is finished, nothing is begun after it, and the user learns how much is committed.
//!
//! The loop asks [`Interrupt::commit`] before each commit. Should it be blocked in a read (of a pipe that stays silent) it can't ask, so the
//! handler's own thread ends the process; it waits for a commit or a close that runs, and what is committed needs no goodbye.

use crate::embedder::STOP;
use crate::output::{Counted, Failure, Outcome, report};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use triune::ErrorCode;

/// How long the loop has to notice the flag before the handler acts for it.
const PATIENCE: Duration = Duration::from_millis(300);

#[derive(Debug, Default)]
struct Shared {
    requested: AtomicBool,
    committed: AtomicU64,
    /// Held while something is written; true once the database is closed.
    closed: Mutex<bool>,
}

/// Watches for Ctrl-C from its making on.
pub(crate) struct Interrupt {
    shared: Arc<Shared>,
    input: String,
    noun: &'static str,
}

impl Interrupt {
    /// Takes over Ctrl-C. `input` is what is being read and `noun` what it is counted in, for the message.
    pub(crate) fn install(input: &str, noun: &'static str, json: bool) -> Outcome<Interrupt> {
        let interrupt = Interrupt { shared: Arc::default(), input: input.to_string(), noun };
        let (shared, input) = (interrupt.shared.clone(), interrupt.input.clone());
        let handler = move || {
            shared.requested.store(true, Ordering::SeqCst);
            STOP.cancel();
            std::thread::sleep(PATIENCE);
            let closed = shared.closed.lock().unwrap_or_else(PoisonError::into_inner);
            if !*closed {
                report(json, ErrorCode::Interrupted, &message(&input, noun, shared.committed.load(Ordering::SeqCst)));
                std::process::exit(i32::from(ErrorCode::Interrupted.exit_status()));
            }
        };
        ctrlc::set_handler(handler)
            .map_err(|e| Failure::Refused { code: ErrorCode::Io, message: format!("Ctrl-C cannot be handled: {e}") })?;
        Ok(interrupt)
    }

    /// Fails when Ctrl-C was pressed.
    pub(crate) fn check(&self) -> Outcome<()> {
        match self.shared.requested.load(Ordering::SeqCst) {
            true => Err(Failure::Refused { code: ErrorCode::Interrupted, message: message(&self.input, self.noun, self.committed()) }),
            false => Ok(()),
        }
    }

    /// Runs `commit`, which commits so many lines (or what else is counted), unless Ctrl-C was pressed before.
    pub(crate) fn commit<T>(&self, count: u64, commit: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let _writing = self.shared.closed.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        let done = commit()?;
        self.shared.committed.fetch_add(count, Ordering::SeqCst);
        Ok(done)
    }

    /// How many are committed so far.
    pub(crate) fn committed(&self) -> u64 {
        self.shared.committed.load(Ordering::SeqCst)
    }

    /// Runs `close`, which Ctrl-C does not cut short; afterwards Ctrl-C means nothing any more.
    pub(crate) fn close<T>(&self, close: impl FnOnce() -> T) -> T {
        let mut closed = self.shared.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let done = close();
        *closed = true;
        done
    }
}

fn message(input: &str, noun: &str, committed: u64) -> String {
    format!(
        "stopped by Ctrl-C; {} of {input} {} committed, none after",
        Counted(committed, noun),
        if committed == 1 { "is" } else { "are" }
    )
}

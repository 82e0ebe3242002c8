//! Waits that end when nobody needs their end any more.

use crate::models::{Call, ModelError};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
#[cfg(feature = "http")]
use std::time::Instant;

/// How long a wish to stop may go unseen.
const LOOK: Duration = Duration::from_millis(10);

/// Time without a limit: longer ones could not be added to the time of day.
#[cfg(feature = "http")]
pub(super) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Waits for `time`, between two tries of a server.
///
/// # Errors
/// `Cancelled` or `TimedOut`, as soon as it is so.
#[cfg(feature = "http")]
pub(super) fn rest(call: &Call<'_>, time: Duration) -> Result<(), ModelError> {
    let begun = Instant::now();
    loop {
        call.check()?;
        let left = time.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// Waits for what a thread sends; `None` when it ended without.
///
/// # Errors
/// `Cancelled` or `TimedOut`, as soon as it is so.
pub(super) fn receive<T>(call: &Call<'_>, from: &Receiver<T>) -> Result<Option<T>, ModelError> {
    loop {
        call.check()?;
        match from.recv_timeout(LOOK) {
            Ok(value) => return Ok(Some(value)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

//! What the operating system refuses is no damage: whoever met it did not see everything, and must not say what is lost.

use crate::error::{Error, Result};
use crate::io::refusals::Refusals;

/// The first refusal, as an error.
pub(super) fn refuse(refusals: &Refusals) -> Result<()> {
    let Some(refusal) = refusals.first() else { return Ok(()) };
    let context = format!("{}. That is no damage, and nothing was changed; {}, and try again", refusal.what, refusal.advice());
    Err(Error::Io { context, source: refusal.source() })
}

//! What long work tells of itself while it goes on.

use std::fmt;
use std::sync::Arc;

/// How far some long work has come. Numbers of one kind ascend until the next work of that kind begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// A builder has taken these.
    Taken {
        /// Documents so far.
        documents: u64,
        /// About how many bytes of memory their texts, metadata, vectors, entities and relations took.
        bytes: u64,
    },
    /// Documents are being written into the segment that several become.
    Rewritten {
        /// Documents so far.
        done: u64,
        /// Documents of the segment.
        of: u64,
    },
    /// A vector graph is being built.
    Linked {
        /// Vectors in the graph so far.
        done: u64,
        /// Vectors of the segment.
        of: u64,
    },
}

/// Somebody who is told of [`Progress`]: see [`crate::options::Options::observer`]. Called by the threads that work, so it should be quick.
///
/// ```
/// use triune::{Observer, Options, Progress};
/// let observer = Observer::new(|progress| {
///     if let Progress::Linked { done, of } = progress {
///         eprintln!("{done} of {of} vectors");
///     }
/// });
/// let options = Options { observer: Some(observer), ..Options::default() };
/// # let _ = options;
/// ```
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(Progress) + Send + Sync>);

impl Observer {
    /// Calls `tell` with everything there is to tell.
    pub fn new(tell: impl Fn(Progress) + Send + Sync + 'static) -> Observer {
        Observer(Arc::new(tell))
    }

    /// Tells it.
    pub(crate) fn tell(&self, progress: Progress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

//! How many files this process may have open: as many as the system allows it.
//!
//! The ordinary limit of 1,024 is there for programs that keep sets of descriptors in a fixed table, which this one does not. A check of a
//! database holds every file of it open, so that no writer can pull one away, and there may be thousands of collections.

/// Raises the limit to the greatest that needs no privilege. Where that fails, what needs more files says so itself.
#[cfg(unix)]
pub(crate) fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Elsewhere there is no such limit.
#[cfg(not(unix))]
pub(crate) fn raise_open_files() {}

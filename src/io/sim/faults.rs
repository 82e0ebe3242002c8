//! The operations that are counted, and what can be made to happen to one of them.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Error, Result};

use rpds::VectorSync;

/// An operation that changes something or makes it durable. Its `Display` is one line for a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A file was created.
    Create {
        /// Its name.
        name: String,
    },
    /// Bytes were written.
    Write {
        /// The name that the file was created under.
        name: String,
        /// Where, in bytes.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
    /// A file was cut or extended.
    SetLen {
        /// The name that the file was created under.
        name: String,
        /// Its new length in bytes.
        len: u64,
    },
    /// A name was removed.
    Unlink {
        /// The name.
        name: String,
    },
    /// A file was synced.
    SyncFile {
        /// The name that the file was created under.
        name: String,
    },
    /// The names in the directory were synced.
    SyncDirectory,
    /// The name of the directory was synced.
    SyncParent,
}

impl Operation {
    /// Whether it makes something durable, rather than changing something.
    pub fn is_sync(&self) -> bool {
        matches!(self, Operation::SyncFile { .. } | Operation::SyncDirectory | Operation::SyncParent)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Create { name } => write!(f, "create {name}"),
            Operation::Write { name, offset, len } => write!(f, "write {name} {offset}+{len}"),
            Operation::SetLen { name, len } => write!(f, "set_len {name} {len}"),
            Operation::Unlink { name } => write!(f, "unlink {name}"),
            Operation::SyncFile { name } => write!(f, "sync {name}"),
            Operation::SyncDirectory => write!(f, "sync directory"),
            Operation::SyncParent => write!(f, "sync parent"),
        }
    }
}

/// When exactly the machine stops, relative to the operation that it stops at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashMode {
    /// The operation is not performed.
    Before,
    /// The operation has begun: its effect is pending, so a power cut may keep, tear or lose it. A sync has made nothing certain yet.
    During,
}

impl CrashMode {
    /// Both.
    pub const ALL: [CrashMode; 2] = [CrashMode::Before, CrashMode::During];
}

/// How an operation fails. The kinds after `Eio` say what a failed *sync* does; another operation that meets one fails as with `Eio`.
///
/// A write that fails has written its first half to the cache. Another change that fails has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The disk is full (`StorageFull`). A sync loses nothing and stays due, as with [`FailureKind::Truthful`].
    Enospc,
    /// The disk fails (`EIO`). A sync loses nothing and stays due, as with [`FailureKind::Truthful`].
    Eio,
    /// The process has too many files open (`EMFILE`): what a create or an open may meet. A sync loses nothing.
    Emfile,
    /// The error is reported and the pages are marked clean: the cache keeps the new bytes, the disk the old ones, and later syncs succeed
    /// without ever writing these.
    Keep,
    /// The error is reported and the cache goes back to what the disk holds.
    Revert,
    /// This sync succeeds without having written anything ([`FailureKind::Keep`] in silence); the next one of the same file reports the error,
    /// and leaves due what was written between the two.
    Late,
    /// The error is reported, nothing is lost, and everything is still due.
    Truthful,
    /// The sync reports success, does nothing and leaves everything due: as if the call were missing from the program.
    Skip,
}

impl FailureKind {
    /// Every kind that the program gets to hear of, at once or late. [`FailureKind::Skip`] is not among them: no program survives it.
    pub const REPORTED: [FailureKind; 6] =
        [FailureKind::Enospc, FailureKind::Eio, FailureKind::Keep, FailureKind::Revert, FailureKind::Late, FailureKind::Truthful];

    fn error(self) -> Error {
        match self {
            FailureKind::Enospc => disk_full(),
            FailureKind::Emfile => Error::from_raw_os_error(24),
            FailureKind::Eio | FailureKind::Keep | FailureKind::Revert | FailureKind::Late | FailureKind::Truthful | FailureKind::Skip => {
                disk_failure()
            }
        }
    }
}

/// `ENOSPC`, of kind `StorageFull`; the number is the same on every unix.
pub(super) fn disk_full() -> Error {
    Error::from_raw_os_error(28)
}

/// `EIO`; the number is the same on every unix.
pub(super) fn disk_failure() -> Error {
    Error::from_raw_os_error(5)
}

fn crash() -> Error {
    Error::other("simulated crash")
}

/// What is to become of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It succeeds.
    Perform,
    /// It is performed, but nobody hears of it.
    Crash,
    /// It fails.
    Fail(FailureKind),
}

impl Fate {
    /// Whether a change other than a write takes place.
    pub(super) fn performs(self) -> bool {
        matches!(self, Fate::Perform | Fate::Crash)
    }

    /// What a change answers.
    pub(super) fn answer(self) -> Result<()> {
        match self {
            Fate::Perform => Ok(()),
            Fate::Crash => Err(crash()),
            Fate::Fail(kind) => Err(kind.error()),
        }
    }

    /// What a sync does and what it answers. `late` says whether an earlier sync of the same file lied.
    pub(super) fn sync(self, late: &mut bool) -> (SyncEffect, Result<()>) {
        match self {
            Fate::Perform if std::mem::take(late) => (SyncEffect::Leave, Err(disk_failure())),
            Fate::Perform => (SyncEffect::MakeDurable, Ok(())),
            Fate::Crash => (SyncEffect::Leave, self.answer()),
            Fate::Fail(FailureKind::Enospc | FailureKind::Eio | FailureKind::Emfile | FailureKind::Truthful) => {
                (SyncEffect::Leave, self.answer())
            }
            Fate::Fail(FailureKind::Keep) => (SyncEffect::Forget, self.answer()),
            Fate::Fail(FailureKind::Revert) => (SyncEffect::Revert, self.answer()),
            Fate::Fail(FailureKind::Late) => {
                *late = true;
                (SyncEffect::Forget, Ok(()))
            }
            Fate::Fail(FailureKind::Skip) => (SyncEffect::Leave, Ok(())),
        }
    }
}

/// What a sync does to the changes that are pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncEffect {
    MakeDurable,
    Leave,
    Forget,
    Revert,
}

/// The operations of one run so far, and what is to happen to later ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    /// Shared by the copies of a machine, which a sweep makes before each operation.
    pub(super) trace: VectorSync<Operation>,
    pub(super) crash: Option<(usize, CrashMode)>,
    pub(super) failures: BTreeMap<usize, FailureKind>,
    pub(super) failing_from: Option<(usize, FailureKind)>,
    pub(super) crashed: bool,
    /// Calls so far that only look: listing, opening, locking, reading, mapping.
    pub(super) accesses: usize,
    pub(super) access_failures: BTreeMap<usize, FailureKind>,
}

impl Faults {
    /// An error when the machine has stopped.
    pub(super) fn alive(&self) -> Result<()> {
        if self.crashed { Err(crash()) } else { Ok(()) }
    }

    /// Counts a call that only looks; an error when it is to fail.
    pub(super) fn access(&mut self) -> Result<()> {
        self.alive()?;
        self.accesses += 1;
        match self.access_failures.get(&(self.accesses - 1)) {
            Some(kind) => Err(kind.error()),
            None => Ok(()),
        }
    }

    /// Counts an operation that is about to be performed.
    pub(super) fn begin(&mut self, operation: Operation) -> Result<Fate> {
        self.alive()?;
        let number = self.trace.len();
        self.trace.push_back_mut(operation);
        match self.crash {
            Some((at, mode)) if number >= at => {
                self.crashed = true;
                match mode {
                    CrashMode::Before => Err(crash()),
                    CrashMode::During => Ok(Fate::Crash),
                }
            }
            Some(_) | None => Ok(self.failure_of(number).map_or(Fate::Perform, Fate::Fail)),
        }
    }

    fn failure_of(&self, number: usize) -> Option<FailureKind> {
        let ongoing = self.failing_from.filter(|&(from, _)| number >= from).map(|(_, kind)| kind);
        self.failures.get(&number).copied().or(ongoing)
    }
}

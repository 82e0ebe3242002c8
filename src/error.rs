//! What can go wrong, as values a program can act on.
//!
//! Every error has a stable [`ErrorCode`] that the library, the command line and other bindings share. A message says what happened, both
//! values, what was *not* changed and what to do next; a program never has to match on its text.

use crate::models::ModelError;
use std::fmt;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The stable name of a kind of error.
///
/// ```
/// use triune::ErrorCode;
/// assert_eq!(ErrorCode::NotFound.as_str(), "NotFound");
/// assert_eq!(ErrorCode::Corrupt.exit_status(), 13);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// A database, collection, document or source that was named does not exist.
    NotFound,
    /// What was to be created exists.
    AlreadyExists,
    /// Another process (or another handle) writes to this database.
    Locked,
    /// A file holds bytes that this database did not write there.
    Corrupt,
    /// A file was written by a newer version.
    UnsupportedVersion,
    /// A document or query does not fit the collection's schema.
    SchemaMismatch,
    /// Vectors of two different embedders would be mixed.
    EmbedderMismatch,
    /// An argument has no meaning.
    InvalidArgument,
    /// One call names the same document id twice.
    DuplicateId,
    /// A documented limit was exceeded.
    LimitExceeded,
    /// The database was opened for reading.
    ReadOnly,
    /// There is no room on the disk; nothing was changed.
    DiskFull,
    /// The operating system failed in a way that leaves the outcome unknown; reopening decides it.
    OutcomeUnknown,
    /// An earlier failure stopped this writer; reopening recovers.
    Poisoned,
    /// The operation was interrupted; what was acknowledged is kept.
    Interrupted,
    /// The operating system refused an operation; nothing was changed.
    Io,
    /// A model that the call needs gave no answer; nothing was changed.
    Model,
}

impl ErrorCode {
    /// The stable spelling, as the command line prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::NotFound => "NotFound",
            ErrorCode::AlreadyExists => "AlreadyExists",
            ErrorCode::Locked => "Locked",
            ErrorCode::Corrupt => "Corrupt",
            ErrorCode::UnsupportedVersion => "UnsupportedVersion",
            ErrorCode::SchemaMismatch => "SchemaMismatch",
            ErrorCode::EmbedderMismatch => "EmbedderMismatch",
            ErrorCode::InvalidArgument => "InvalidArgument",
            ErrorCode::DuplicateId => "DuplicateId",
            ErrorCode::LimitExceeded => "LimitExceeded",
            ErrorCode::ReadOnly => "ReadOnly",
            ErrorCode::DiskFull => "DiskFull",
            ErrorCode::OutcomeUnknown => "OutcomeUnknown",
            ErrorCode::Poisoned => "Poisoned",
            ErrorCode::Interrupted => "Interrupted",
            ErrorCode::Io => "Io",
            ErrorCode::Model => "Model",
        }
    }

    /// The exit status of the command line for this code.
    pub fn exit_status(self) -> u8 {
        match self {
            ErrorCode::NotFound => 10,
            ErrorCode::AlreadyExists => 11,
            ErrorCode::Locked => 12,
            ErrorCode::Corrupt => 13,
            ErrorCode::UnsupportedVersion => 14,
            ErrorCode::SchemaMismatch => 15,
            ErrorCode::EmbedderMismatch => 16,
            ErrorCode::InvalidArgument => 17,
            ErrorCode::DuplicateId => 18,
            ErrorCode::LimitExceeded => 19,
            ErrorCode::ReadOnly => 20,
            ErrorCode::DiskFull => 21,
            ErrorCode::OutcomeUnknown | ErrorCode::Poisoned => 22,
            ErrorCode::Io => 23,
            ErrorCode::Model => 24,
            ErrorCode::Interrupted => 130,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Damage, with its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corruption {
    /// Name of the file inside the database directory.
    pub file: String,
    /// Byte offset of the structure that failed its check.
    pub offset: u64,
    /// What was expected there, and what was found.
    pub what: String,
    /// What was done or stands in spite of it. `None`: nothing was changed.
    pub stands: Option<String>,
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.file, self.offset, self.what)?;
        self.stands.as_ref().map_or(Ok(()), |stands| write!(f, " ({stands})"))
    }
}

/// Why an operation failed.
///
/// | variant | what a caller does |
/// | --- | --- |
/// | `NotFound`, `AlreadyExists`, `SchemaMismatch`, `EmbedderMismatch`, `InvalidArgument`, `DuplicateId`, `LimitExceeded`, `ReadOnly` | mend the call |
/// | `Locked`, `DiskFull`, `Interrupted` | mend the circumstances and try again |
/// | `Corrupt`, `UnsupportedVersion` | keep the files; `triune fsck` says what is damaged |
/// | `OutcomeUnknown`, `Poisoned` | reopen the database: that decides what was committed |
/// | `Io` | read the cause |
/// | `Model` | its [`ModelErrorKind`](crate::models::ModelErrorKind) says whether trying again may help |
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something that was named does not exist.
    #[error("not found: {0}")]
    NotFound(String),
    /// Something that was to be created exists.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// The single-writer lock is held.
    #[error("locked: {0}")]
    Locked(String),
    /// A file is damaged.
    #[error(
        "corrupt: {0}.{nothing} `triune fsck DB` says what is damaged: indexes alone are made again by `triune rebuild DB`; else \
         restore a backup, or save what is whole with `triune salvage DB --out NEW`",
        nothing = if .0.stands.is_none() { " Nothing was changed." } else { "" }
    )]
    Corrupt(Corruption),
    /// A file needs a newer program.
    #[error("unsupported version: {0}")]
    UnsupportedVersion(String),
    /// A value does not fit the schema.
    #[error("schema mismatch: {0}")]
    SchemaMismatch(String),
    /// Two embedders would be mixed.
    #[error("embedder mismatch: {0}")]
    EmbedderMismatch(String),
    /// An argument has no meaning.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// The same id twice in one call.
    #[error("duplicate id: {0}")]
    DuplicateId(String),
    /// A limit was exceeded.
    #[error("limit exceeded: {0}")]
    LimitExceeded(String),
    /// The database was opened for reading.
    #[error("read only: {0}")]
    ReadOnly(String),
    /// No room.
    #[error("disk full: {0}")]
    DiskFull(String),
    /// Whether the commit is durable is not known.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(String),
    /// The writer stopped after an earlier failure.
    #[error("poisoned: {0}")]
    Poisoned(String),
    /// The caller asked to stop.
    #[error("interrupted: {0}")]
    Interrupted(String),
    /// The operating system refused.
    #[error("{context}: {source}")]
    Io {
        /// What was being done, and to which file.
        context: String,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// A model gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl Error {
    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::NotFound(_) => ErrorCode::NotFound,
            Error::AlreadyExists(_) => ErrorCode::AlreadyExists,
            Error::Locked(_) => ErrorCode::Locked,
            Error::Corrupt(_) => ErrorCode::Corrupt,
            Error::UnsupportedVersion(_) => ErrorCode::UnsupportedVersion,
            Error::SchemaMismatch(_) => ErrorCode::SchemaMismatch,
            Error::EmbedderMismatch(_) => ErrorCode::EmbedderMismatch,
            Error::InvalidArgument(_) => ErrorCode::InvalidArgument,
            Error::DuplicateId(_) => ErrorCode::DuplicateId,
            Error::LimitExceeded(_) => ErrorCode::LimitExceeded,
            Error::ReadOnly(_) => ErrorCode::ReadOnly,
            Error::DiskFull(_) => ErrorCode::DiskFull,
            Error::OutcomeUnknown(_) => ErrorCode::OutcomeUnknown,
            Error::Poisoned(_) => ErrorCode::Poisoned,
            Error::Interrupted(_) => ErrorCode::Interrupted,
            Error::Io { .. } => ErrorCode::Io,
            Error::Model(_) => ErrorCode::Model,
        }
    }

    /// Damage in `file` at `offset`.
    pub fn corrupt(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Error {
        Error::Corrupt(Corruption { file: file.into(), offset, what: what.into(), stands: None })
    }

    /// An error of the operating system while doing `context`. A full disk (or quota) becomes [`Error::DiskFull`].
    pub fn io(context: impl Into<String>, source: std::io::Error) -> Error {
        let context = context.into();
        if matches!(source.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded) {
            return Error::DiskFull(format!("{context}: {source}"));
        }
        let many = source.raw_os_error().is_some_and(|number| number == libc::EMFILE || number == libc::ENFILE);
        let advice = if many { " (`ulimit -n` is how many files a process may have open)" } else { "" };
        Error::Io { context: format!("{context}{advice}"), source }
    }

    /// Why `path` could not be opened as the directory of `what`.
    #[allow(clippy::wildcard_enum_match_arm, reason = "two kinds say that there is no directory, every other is an error of the system")]
    pub(crate) fn no_directory(what: &str, path: &std::path::Path, source: std::io::Error) -> Error {
        let path = path.display();
        match source.kind() {
            std::io::ErrorKind::NotFound => Error::NotFound(format!("{what} in {path}: there is no such directory")),
            std::io::ErrorKind::NotADirectory => {
                Error::NotFound(format!("{what} in {path}: that is a file, and a database is a directory"))
            }
            std::io::ErrorKind::PermissionDenied => {
                let context = format!("opening {path}, which this user may not read: that is no damage, and nothing was changed");
                Error::io(context, source)
            }
            _ => Error::io(format!("opening {path}"), source),
        }
    }

    /// Refuses a counter that would go beyond the greatest number that files may hold: no work reaches it, but a forged file may start there,
    /// and what was written behind it could never be read.
    pub(crate) fn refuse_counter(what: &str, next: u64) -> Result<()> {
        const MOST: u64 = crate::options::limits::COUNTER_MAX;
        if next <= MOST {
            return Ok(());
        }
        Err(Error::LimitExceeded(format!(
            "{what} {next} would be the next one, and at most {MOST} is counted; nothing was changed. `triune dump` and `triune restore` make a \
             database that counts from 1 again"
        )))
    }

    /// This error with what stands in spite of it.
    pub(crate) fn noting(self, note: &str) -> Error {
        let add = |what: String| format!("{what} ({note})");
        match self {
            Error::NotFound(s) => Error::NotFound(add(s)),
            Error::AlreadyExists(s) => Error::AlreadyExists(add(s)),
            Error::Locked(s) => Error::Locked(add(s)),
            Error::Corrupt(c) => {
                let stands = c.stands.map_or_else(|| note.to_string(), |stands| format!("{stands}; {note}"));
                Error::Corrupt(Corruption { stands: Some(stands), ..c })
            }
            Error::UnsupportedVersion(s) => Error::UnsupportedVersion(add(s)),
            Error::SchemaMismatch(s) => Error::SchemaMismatch(add(s)),
            Error::EmbedderMismatch(s) => Error::EmbedderMismatch(add(s)),
            Error::InvalidArgument(s) => Error::InvalidArgument(add(s)),
            Error::DuplicateId(s) => Error::DuplicateId(add(s)),
            Error::LimitExceeded(s) => Error::LimitExceeded(add(s)),
            Error::ReadOnly(s) => Error::ReadOnly(add(s)),
            Error::DiskFull(s) => Error::DiskFull(add(s)),
            Error::OutcomeUnknown(s) => Error::OutcomeUnknown(add(s)),
            Error::Poisoned(s) => Error::Poisoned(add(s)),
            Error::Interrupted(s) => Error::Interrupted(add(s)),
            Error::Io { context, source } => Error::Io { context: add(context), source },
            Error::Model(e) => Error::Model(ModelError { message: add(e.message), ..e }),
        }
    }

    /// A copy for another waiter of the same group of commits. An `Io` source is rebuilt from its number, or from its kind and text.
    pub(crate) fn duplicate(&self) -> Error {
        match self {
            Error::NotFound(m) => Error::NotFound(m.clone()),
            Error::AlreadyExists(m) => Error::AlreadyExists(m.clone()),
            Error::Locked(m) => Error::Locked(m.clone()),
            Error::Corrupt(c) => Error::Corrupt(c.clone()),
            Error::UnsupportedVersion(m) => Error::UnsupportedVersion(m.clone()),
            Error::SchemaMismatch(m) => Error::SchemaMismatch(m.clone()),
            Error::EmbedderMismatch(m) => Error::EmbedderMismatch(m.clone()),
            Error::InvalidArgument(m) => Error::InvalidArgument(m.clone()),
            Error::DuplicateId(m) => Error::DuplicateId(m.clone()),
            Error::LimitExceeded(m) => Error::LimitExceeded(m.clone()),
            Error::ReadOnly(m) => Error::ReadOnly(m.clone()),
            Error::DiskFull(m) => Error::DiskFull(m.clone()),
            Error::OutcomeUnknown(m) => Error::OutcomeUnknown(m.clone()),
            Error::Poisoned(m) => Error::Poisoned(m.clone()),
            Error::Interrupted(m) => Error::Interrupted(m.clone()),
            Error::Io { context, source } => {
                let copy = source.raw_os_error().map(std::io::Error::from_raw_os_error);
                let copy = copy.unwrap_or_else(|| std::io::Error::new(source.kind(), source.to_string()));
                Error::Io { context: context.clone(), source: copy }
            }
            Error::Model(e) => Error::Model(e.clone()),
        }
    }
}

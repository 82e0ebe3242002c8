//! Brings a database to the newest version of the file format. There is one version, so there is nothing to do yet but to say so.

use super::backup::existing;
use crate::engine::Database;
use crate::error::Result;
use crate::format::head::{FORMAT_MAJOR, FORMAT_MINOR};
use crate::io::Directory;
use crate::options::Options;
use std::path::Path;
use std::sync::Arc;

/// What an upgrade found and did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpgradeReport {
    /// The version of the format that the database has now: major and minor.
    pub version: (u16, u16),
    /// Whether anything was changed.
    pub changed: bool,
}

/// Says which version of the file format the database in `path` has. This version knows one format, 1.0, so nothing is written. Opening never
/// upgrades a database; from the next version of the format on, this does.
///
/// # Errors
/// `UnsupportedVersion`, with both versions, when the database is newer than this program; what opening for reading says else.
///
/// ```
/// # use triune::Database;
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// # Database::create(&path)?.close()?;
/// let report = triune::maintenance::upgrade(&path)?;
/// assert_eq!((report.version, report.changed), ((1, 0), false));
/// # Ok::<(), triune::Error>(())
/// ```
pub fn upgrade(path: impl AsRef<Path>) -> Result<UpgradeReport> {
    upgrade_directory(Arc::new(existing(path.as_ref(), "a database")?))
}

/// As [`upgrade()`], in any directory.
pub fn upgrade_directory(dir: Arc<dyn Directory>) -> Result<UpgradeReport> {
    // What opens is of a version that is known: of 1.0, since there is no other.
    Database::open_read_only_with(dir, Options::default())?;
    Ok(UpgradeReport { version: (FORMAT_MAJOR, FORMAT_MINOR), changed: false })
}

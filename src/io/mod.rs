//! The only door to files: what a database asks of a directory, and what is durable when.
//!
//! A [`Directory`] is flat. Files are created exclusively under their final name, never renamed, and every durability step is an explicit
//! call, so the whole set of things a crash can do is in this file:
//!
//! - **Bytes** written with [`File::write_all_at`] or a length changed with [`File::set_len`] may be lost, kept, reordered or torn at 512
//!   bytes until [`File::sync`] returns. `sync` makes the bytes and the length of that file durable, not its name.
//! - **Names** created or unlinked may be lost or kept, each on its own, until [`Directory::sync`] returns.
//! - A sync that **failed** proves nothing, and trying it again proves nothing either.
//!
//! | file | role |
//! | --- | --- |
//! | `fs.rs` | [`FsDirectory`]: a directory of the operating system |
//! | `mmap.rs` | the only place that maps files |
//! | `sim/` | [`SimDirectory`]: a simulated disk that loses, tears and fails on request |
//! | `names.rs` | every file name, spelled and parsed |
//! | `refusals.rs` | tells what the system refuses from what a medium has lost |
//!
//! Errors are `std::io::Error` here; the callers know what they were doing and add it.

pub mod fs;
pub mod mmap;
pub mod names;
pub(crate) mod refusals;
pub mod sim;

pub use fs::{FsDirectory, database_above};
pub use sim::SimDirectory;

use std::fmt;
use std::io::Result;
use std::ops::Deref;
use std::sync::Arc;

/// A directory that holds one database.
pub trait Directory: Send + Sync + fmt::Debug {
    /// Where it is, for messages.
    fn describe(&self) -> String;

    /// The names of all files, in no order. Sub-directories are left out.
    fn list(&self) -> Result<Vec<String>>;

    /// Creates a file for reading and writing; `AlreadyExists` when the name is taken. The name is durable after [`Directory::sync`].
    fn create_new(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Opens an existing file for reading.
    fn open(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Opens an existing file for reading and writing.
    fn open_writable(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Removes a name. Files that are open or mapped stay readable.
    fn unlink(&self, name: &str) -> Result<()>;

    /// Makes every name created or unlinked so far durable.
    fn sync(&self) -> Result<()>;

    /// Makes the name of this directory itself durable, in its parent.
    fn sync_parent(&self) -> Result<()>;

    /// Tries to take an advisory lock on an existing file without waiting; `None` when another handle holds a conflicting one. The lock is
    /// released when the guard is dropped or the process ends.
    fn try_lock(&self, name: &str, mode: LockMode) -> Result<Option<LockGuard>>;

    /// A file that nobody will change any more, for [`Directory::link`] of another directory. `Unsupported` where files cannot be linked.
    fn link_source(&self, _name: &str) -> Result<LinkSource> {
        Err(unsupported())
    }

    /// Makes `name` another name of the file: the bytes are shared and take no room twice. `AlreadyExists` when the name is taken;
    /// `Unsupported` or `CrossesDevices` where this directory and that file cannot share one, and then it is to be copied. The name is
    /// durable after [`Directory::sync`]; the bytes are as durable as they were.
    fn link(&self, _name: &str, _source: &LinkSource) -> Result<()> {
        Err(unsupported())
    }
}

fn unsupported() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::Unsupported, "files of this directory cannot be linked")
}

/// A file of some directory that another one may link to.
#[derive(Debug)]
pub struct LinkSource(pub(crate) LinkKind);

/// What it is in the directories that there are.
#[derive(Debug)]
pub(crate) enum LinkKind {
    /// A name in a directory of the operating system.
    Named { directory: Arc<std::fs::File>, name: String },
    /// A file of a simulated disk.
    Simulated(sim::SharedFile),
}

/// How a file is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Together with other shared holders.
    Shared,
    /// Alone.
    Exclusive,
}

/// A held lock; dropping it releases the lock.
pub struct LockGuard(pub(crate) Box<dyn HeldLock>);

impl LockGuard {
    /// Whether the name that was locked still stands for the file that is locked, and not for another one or none. A lock that is not in its
    /// place keeps nobody out.
    pub fn is_in_place(&self) -> Result<bool> {
        self.0.is_in_place()
    }
}

/// What a directory holds a lock by, until it is dropped.
pub(crate) trait HeldLock: Send + Sync {
    /// As [`LockGuard::is_in_place`].
    fn is_in_place(&self) -> Result<bool>;
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockGuard")
    }
}

/// An open file. Offsets and lengths are in bytes.
#[allow(clippy::len_without_is_empty, reason = "the length of a file is a system call, not a container's size")]
pub trait File: Send + Sync + fmt::Debug {
    /// Its length now.
    fn len(&self) -> Result<u64>;

    /// Fills `buf` from `offset`; `UnexpectedEof` when the file ends before.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Writes all of `buf` at `offset`. After an error any part of it may have been written.
    fn write_all_at(&self, offset: u64, buf: &[u8]) -> Result<()>;

    /// Makes all bytes and the length durable (`fdatasync`, which includes a changed length).
    fn sync(&self) -> Result<()>;

    /// Cuts or extends with zeros.
    fn set_len(&self, len: u64) -> Result<()>;

    /// The first `len` bytes of a file that nobody will change any more, mapped where the host can. `UnexpectedEof` when it is shorter.
    fn map(&self, len: u64) -> Result<Bytes>;

    /// The whole file, read by system calls. `OutOfMemory` when it does not fit into memory.
    fn read_all(&self) -> Result<Vec<u8>> {
        self.read_at_most(u64::MAX)
    }

    /// The first `limit` bytes of the file, or all when it has fewer: how to read a file that may be longer than it should be.
    fn read_at_most(&self, limit: u64) -> Result<Vec<u8>> {
        let len = usize::try_from(self.len()?.min(limit)).map_err(std::io::Error::other)?;
        let mut buf = Vec::new();
        buf.try_reserve_exact(len).map_err(|e| std::io::Error::new(std::io::ErrorKind::OutOfMemory, e))?;
        buf.resize(len, 0);
        self.read_exact_at(0, &mut buf)?;
        Ok(buf)
    }
}

/// Immutable bytes, mapped or owned; cheap to clone, and alive while any clone is.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn Memory>,
    start: usize,
    len: usize,
}

impl Bytes {
    /// All of `owner`.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Bytes {
        Bytes::of_memory(Plain(owner))
    }

    fn of_memory(owner: impl Memory + 'static) -> Bytes {
        let len = owner.bytes().len();
        Bytes { owner: Arc::new(owner), start: 0, len }
    }

    /// Tells the operating system how these bytes will be used, where they are mapped and it listens.
    pub fn advise(&self, usage: Usage) {
        self.owner.advise(self.start, self.len, usage);
    }

    /// A part of these bytes; `None` when it does not lie inside.
    pub fn slice(&self, offset: u64, len: u64) -> Option<Bytes> {
        let end = offset.checked_add(len)?;
        if end > self.len as u64 {
            return None;
        }
        Some(Bytes { owner: self.owner.clone(), start: self.start + usize::try_from(offset).ok()?, len: usize::try_from(len).ok()? })
    }
}

/// How mapped bytes will be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// All of them, soon: they are read ahead.
    Soon,
    /// Here and there: reading ahead would be wasted.
    Random,
}

/// What holds bytes.
trait Memory: Send + Sync {
    /// All of them.
    fn bytes(&self) -> &[u8];

    /// How a part of them will be used.
    fn advise(&self, _start: usize, _len: usize, _usage: Usage) {}
}

/// Memory that takes no advice.
struct Plain<T>(T);

impl<T: AsRef<[u8]> + Send + Sync> Memory for Plain<T> {
    fn bytes(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.owner.bytes()[self.start..self.start + self.len]
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({} bytes)", self.len)
    }
}

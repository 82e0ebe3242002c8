//! A directory of the operating system.
//!
//! Answers [`Directory`] with plain system calls and nothing else: no buffering, no retry of a failed sync, no fallback. Errors keep the kind
//! that the operating system gave them (`StorageFull`, `NotFound`, `PermissionDenied`, ...). Interrupted reads, writes and syncs are resumed
//! by the standard library's calls used here.
//!
//! Invariants: files are reached through the opened directory itself, so that neither a later change of the working directory nor another
//! directory put in its place moves anything: who has it open goes on in the directory that it opened, wherever it was moved to. A name is
//! one path component, so that nothing outside the directory can be reached.

use std::fs::{self, File as OsFile, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, linkat, openat, statat, unlinkat};
use rustix::io::retry_on_intr;

use super::names;
use super::{Bytes, Directory, File, HeldLock, LinkKind, LinkSource, LockGuard, LockMode, mmap, unsupported};

#[cfg(not(unix))]
compile_error!("Triune's promises rest on fsync of a directory, which it knows how to ask for on unix only.");

/// A directory of the operating system.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use triune::io::{Directory, FsDirectory};
///
/// let scratch = tempfile::tempdir()?;
/// let directory = FsDirectory::create(scratch.path().join("notes.triune"))?;
/// let file = directory.create_new("HEAD")?;
/// file.write_all_at(0, b"bytes")?;
/// file.sync()?; // the bytes and the length
/// directory.sync()?; // the name
/// assert_eq!(directory.list()?, ["HEAD"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FsDirectory {
    /// As the caller spelled it, for messages.
    given: PathBuf,
    /// Absolute and without symbolic links, as it was when it was opened.
    path: PathBuf,
    /// The opened directory itself: what names are looked up in, and what `sync` is asked of.
    handle: Arc<OsFile>,
}

/// The directory of a database that `path` would lie in, if it would: one above it that holds HEAD and LOCK. What is put there is in the
/// way of the database, which may remove files with names like its own.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// # triune::Database::create(&path)?.close()?;
/// assert!(triune::io::database_above(path.join("backup")).is_some());
/// assert!(triune::io::database_above(dir.path().join("backup")).is_none());
/// # Ok::<(), triune::Error>(())
/// ```
pub fn database_above(path: impl AsRef<Path>) -> Option<PathBuf> {
    let above = path.as_ref().ancestors().skip(1).map(|a| if a.as_os_str().is_empty() { Path::new(".") } else { a });
    let real = fs::canonicalize(above.into_iter().find(|a| a.exists())?).ok()?;
    real.ancestors().find(|a| [names::HEAD, names::LOCK].iter().all(|name| a.join(name).is_file())).map(Path::to_path_buf)
}

impl FsDirectory {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// `NotFound` when there is nothing, `NotADirectory` when there is something else, and whatever the operating system says.
    pub fn open(path: impl AsRef<Path>) -> Result<FsDirectory> {
        let given = path.as_ref().to_path_buf();
        let path = fs::canonicalize(&given)?;
        // Asked before it is opened: opening a pipe would wait for somebody who writes to it.
        if !fs::metadata(&path)?.is_dir() {
            return Err(Error::new(ErrorKind::NotADirectory, format!("{} is not a directory", given.display())));
        }
        let handle = Arc::new(OsFile::open(&path)?);
        Ok(FsDirectory { given, path, handle })
    }

    /// Opens a directory, making it and the directories above it when they are missing.
    ///
    /// The names of directories that had to be made above it are durable when this returns; its own name is after
    /// [`Directory::sync_parent`].
    ///
    /// # Errors
    /// As [`FsDirectory::open`].
    pub fn create(path: impl AsRef<Path>) -> Result<FsDirectory> {
        let path = path.as_ref();
        let missing: Vec<&Path> = path.ancestors().take_while(|a| !a.as_os_str().is_empty() && !a.exists()).collect();
        fs::create_dir_all(path)?;
        // The first one is the directory itself; the others would take it with them if a power cut lost their names.
        for made in missing.iter().skip(1) {
            sync_directory_above(&fs::canonicalize(made)?)?;
        }
        FsDirectory::open(path)
    }

    /// The directory's real path when it was opened: absolute and without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory, which must be empty. Its name is gone durably after a sync of the one above.
    ///
    /// # Errors
    /// `DirectoryNotEmpty` when it holds anything, `NotFound` when it was moved away, and whatever the operating system says.
    pub fn remove(self) -> Result<()> {
        let (own, named) = (self.handle.metadata()?, fs::symlink_metadata(&self.path)?);
        if identity(&own) != identity(&named) {
            return Err(Error::new(ErrorKind::NotFound, format!("another directory is in the place of {}", self.given.display())));
        }
        fs::remove_dir(&self.path)
    }

    /// Opens a file here, or makes it.
    fn open_here(&self, name: &str, flags: OFlags) -> Result<OsFile> {
        let name = one_component(name)?;
        // Opening a pipe for reading waits for somebody who writes to it, unless it is told not to.
        let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let handle = retry_on_intr(|| openat(&self.handle, name, flags, Mode::from_raw_mode(0o666)))?;
        Ok(OsFile::from(handle))
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<Arc<dyn File>> {
        let file = self.open_here(name, flags)?;
        if !file.metadata()?.is_file() {
            return Err(Error::new(ErrorKind::InvalidInput, format!("{name} is not a regular file")));
        }
        Ok(Arc::new(FsFile { file, name: name.to_owned() }))
    }
}

/// The name, if it is that of a file in a directory.
fn one_component(name: &str) -> Result<&str> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(Error::new(ErrorKind::InvalidInput, format!("{name:?} is not the name of a file in this directory"))),
    }
}

/// What tells a file from every other one that is there at the same time.
fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Makes the name of `path` durable in the directory above it; the root of the file system has no name.
fn sync_directory_above(path: &Path) -> Result<()> {
    match path.parent() {
        Some(parent) => OsFile::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

impl Directory for FsDirectory {
    fn describe(&self) -> String {
        self.given.display().to_string()
    }

    /// A name that is not UTF-8 is listed with replacement characters: it can't be opened, and is not one of ours, but it is there.
    fn list(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                // Not every file system tells it with the name.
                kind = FileType::from_raw_mode(statat(&self.handle, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
            }
            if kind != FileType::Directory {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    fn create_new(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open_file(name, OFlags::RDONLY)
    }

    fn open_writable(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open_file(name, OFlags::RDWR)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        Ok(unlinkat(&self.handle, one_component(name)?, AtFlags::empty())?)
    }

    fn sync(&self) -> Result<()> {
        self.handle.sync_all()
    }

    fn sync_parent(&self) -> Result<()> {
        // The root of the file system is its own parent.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        OsFile::from(retry_on_intr(|| openat(&self.handle, "..", flags, Mode::empty()))?).sync_all()
    }

    fn link_source(&self, name: &str) -> Result<LinkSource> {
        Ok(LinkSource(LinkKind::Named { directory: self.handle.clone(), name: one_component(name)?.to_owned() }))
    }

    fn link(&self, name: &str, source: &LinkSource) -> Result<()> {
        match &source.0 {
            LinkKind::Named { directory, name: from } => {
                Ok(linkat(directory, from.as_str(), &self.handle, one_component(name)?, AtFlags::empty())?)
            }
            LinkKind::Simulated(_) => Err(unsupported()),
        }
    }

    /// Every call opens the file anew, since the operating system ties a lock to the handle: two locks of one process conflict like those
    /// of two processes.
    fn try_lock(&self, name: &str, mode: LockMode) -> Result<Option<LockGuard>> {
        // An exclusive lock needs a writable handle on network file systems; a shared one must work on a read-only medium.
        let file = self.open_here(name, if mode == LockMode::Exclusive { OFlags::RDWR } else { OFlags::RDONLY })?;
        loop {
            let locked = match mode {
                LockMode::Shared => file.try_lock_shared(),
                LockMode::Exclusive => file.try_lock(),
            };
            match locked {
                Ok(()) => return Ok(Some(LockGuard(Box::new(Locked { file, directory: self.handle.clone(), name: name.to_owned() })))),
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

/// A locked file, and where it had its name.
#[derive(Debug)]
struct Locked {
    file: OsFile,
    directory: Arc<OsFile>,
    name: String,
}

impl HeldLock for Locked {
    fn is_in_place(&self) -> Result<bool> {
        match statat(&self.directory, self.name.as_str(), AtFlags::empty()) {
            Ok(named) => Ok(identity(&self.file.metadata()?) == (named.st_dev, named.st_ino)),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

impl Drop for Locked {
    /// Unlocks before the handle closes. Closing alone would not do: a child that another thread is about to start has a copy of every
    /// handle until it runs its own program, and the lock would last as long as the copy.
    fn drop(&mut self) {
        // Should it fail, closing unlocks, if later.
        let _ = self.file.unlock();
    }
}

/// An open file of the operating system.
#[derive(Debug)]
struct FsFile {
    file: OsFile,
    name: String,
}

impl File for FsFile {
    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.file.write_all_at(buf, offset)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }

    fn map(&self, len: u64) -> Result<Bytes> {
        mmap::map(&self.file, &self.name, len)
    }
}

#[cfg(test)]
mod tests;

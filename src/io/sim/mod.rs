//! A simulated disk that loses, tears and fails on request: the instrument that this crate's durability is proved with.
//!
//! A [`SimDirectory`] answers [`Directory`] in memory and keeps apart what is durable and what only the cache shows. Tests ask it what a power
//! cut may leave at any moment ([`SimDirectory::survivor_images`]), stop it before or during any operation ([`SimDirectory::crash_at`]), and
//! make any operation fail ([`SimDirectory::fail`]). It never touches a real file, never waits, and does the same for the same calls.
//!
//! **The model.** A file's sync makes its bytes and length durable, not its name; the directory's sync makes names durable, not bytes. What has
//! not been synced is *pending*, and a power cut decides about each part of it independently:
//!
//! - each sector of 512 bytes holds one of the contents that it had since the last sync, or with [`SimDirectory::set_garbage`] neither;
//! - each file has one of the lengths that it had, or one at a page's end that a growing write passed; bytes that did not land are zero;
//! - each name stands for one of the files (or none) that it stood for;
//! - the directory itself is there or not, if it was [made](SimDirectory::newly_made) and its parent not synced.
//!
//! A process kill loses none of this, but what was pending stays pending ([`SimDirectory::after_kill`]).
//!
//! **Numbers.** Every operation that changes something or syncs is counted from 0: [`SimDirectory::operations`] is how many there were, so also
//! the number of the next. Operations that are refused for their arguments (a name that is taken, a file that is missing) are not counted.
//!
//! ```
//! use triune::io::sim::{CrashMode, SimDirectory};
//! use triune::io::Directory;
//!
//! # fn main() -> std::io::Result<()> {
//! let disk = SimDirectory::new();
//! let file = disk.create_new("a")?;
//! file.write_all_at(0, b"acknowledged")?;
//! file.sync()?;
//! disk.sync()?;
//! disk.crash_at(disk.operations(), CrashMode::During);
//! file.write_all_at(0, b"ACK").unwrap_err();
//! for survivor in disk.survivor_images(100) {
//!     let bytes = survivor.read_file("a").expect("its name was synced");
//!     assert!(bytes == b"acknowledged" || bytes == b"ACKnowledged");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | [`SimDirectory`], and its files behind the traits |
//! | `machine.rs` | one run: the disk, the faults and the locks, and each operation on them |
//! | `disk.rs` | files and names |
//! | `inode.rs` | one file: durable, cached and everything in between |
//! | `faults.rs` | counted operations and how they fail |
//! | `choose.rs` | [`Chooser`] and its drivers |
//! | `survive.rs` | the decisions that make an image |
//! | `images.rs` | all images, or a selection |

mod choose;
mod disk;
mod faults;
mod images;
mod inode;
mod machine;
mod survive;

use std::fmt;
use std::io::Result;
use std::sync::Arc;

use parking_lot::Mutex;

pub use choose::{Chooser, Exhaustive, FromBytes, Seeded};
pub use faults::{CrashMode, FailureKind, Operation};
pub use images::Survivors;

use super::{Bytes, Directory, File, HeldLock, LinkKind, LinkSource, LockGuard, LockMode, unsupported};
use disk::{Disk, FileId};
use inode::Inode;
use machine::Machine;
use survive::{Asking, Choice, image};

/// A directory on a simulated disk. Clones are handles to the same one.
#[derive(Clone)]
pub struct SimDirectory {
    machine: Arc<Mutex<Machine>>,
}

impl Default for SimDirectory {
    fn default() -> SimDirectory {
        SimDirectory::new()
    }
}

impl SimDirectory {
    /// An empty directory whose own name is durable.
    pub fn new() -> SimDirectory {
        SimDirectory::from_disk(Disk::new(true, false))
    }

    /// An empty directory that was just made: until [`Directory::sync_parent`] a power cut may take it, which is shown as an empty one.
    pub fn newly_made() -> SimDirectory {
        SimDirectory::from_disk(Disk::new(false, false))
    }

    fn from_disk(disk: Disk) -> SimDirectory {
        SimDirectory::from_machine(Machine::new(disk))
    }

    fn from_machine(machine: Machine) -> SimDirectory {
        SimDirectory { machine: Arc::new(Mutex::new(machine)) }
    }

    // What happened, and what is to happen.

    /// How many operations were counted, which is also the number of the next one.
    pub fn operations(&self) -> usize {
        self.machine.lock().faults.trace.len()
    }

    /// The operations counted so far; element `n` is the one with number `n`.
    pub fn trace(&self) -> Vec<Operation> {
        self.machine.lock().faults.trace.iter().cloned().collect()
    }

    /// Stops the machine at operation `n`, or at the next one if `n` has passed. It and every later call, reads too, fail with an error of kind
    /// `Other` that says "simulated crash".
    pub fn crash_at(&self, n: usize, mode: CrashMode) {
        self.machine.lock().faults.crash = Some((n, mode));
    }

    /// Whether the machine has stopped.
    pub fn crashed(&self) -> bool {
        self.machine.lock().faults.crashed
    }

    /// Makes operation `n` fail once. Several may be told to.
    pub fn fail(&self, n: usize, kind: FailureKind) {
        self.machine.lock().faults.failures.insert(n, kind);
    }

    /// Makes operation `n` and every later one fail.
    pub fn fail_from(&self, n: usize, kind: FailureKind) {
        self.machine.lock().faults.failing_from = Some((n, kind));
    }

    /// How many calls only looked: listed, opened, locked, asked for a length, read or mapped. They are counted apart, from 0.
    pub fn accesses(&self) -> usize {
        self.machine.lock().faults.accesses
    }

    /// Makes the call `n` of those that only look fail once.
    pub fn fail_access(&self, n: usize, kind: FailureKind) {
        self.machine.lock().faults.access_failures.insert(n, kind);
    }

    /// How many bytes the named files take, as reads see them.
    pub fn used(&self) -> u64 {
        self.machine.lock().disk.used()
    }

    /// How many bytes the named files may take together, `u64::MAX` for any number. What would grow beyond it fails with `StorageFull`, a
    /// write after as much of it as fits.
    pub fn disk_limit(&self, bytes: u64) {
        self.machine.lock().limit = bytes;
    }

    /// Whether a sector that is being written when the power goes may hold neither the old nor the new bytes afterwards. It may
    /// not, unless this is called. Survivors inherit it.
    pub fn set_garbage(&self, possible: bool) {
        self.machine.lock().disk.garbage = possible;
    }

    /// Makes reads of the sector that holds byte `offset` fail with `EIO`, until the file is replaced.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn fail_reads(&self, name: &str, offset: u64) {
        let mut machine = self.machine.lock();
        let file = machine.disk.find(name).unwrap_or_else(|| panic!("there is no file {name}"));
        machine.disk.inode_mut(file).unreadable.insert(offset / inode::SECTOR as u64);
    }

    // What may be left. Every disk returned is independent of this one, has counted nothing, fails nothing, has no limit and holds no lock.

    /// The disk after a power cut now, where `chooser` decides about each part that is pending; see the module.
    ///
    /// With [`Exhaustive`] this enumerates everything that can be left:
    ///
    /// ```
    /// use triune::io::sim::{Exhaustive, SimDirectory};
    /// use triune::io::Directory;
    ///
    /// let disk = SimDirectory::new();
    /// disk.create_new("a").expect("created");
    /// disk.create_new("b").expect("created");
    /// let (mut choices, mut images) = (Exhaustive::new(), 0);
    /// while choices.advance() {
    ///     disk.survivors(&mut choices);
    ///     images += 1;
    /// }
    /// assert_eq!(images, 4);
    /// ```
    pub fn survivors(&self, chooser: &mut dyn Chooser) -> SimDirectory {
        SimDirectory::from_disk(image(&self.machine.lock().disk, &mut Asking(chooser)))
    }

    /// The disk after a power cut that nothing pending survived.
    pub fn survivors_none(&self) -> SimDirectory {
        SimDirectory::from_disk(image(&self.machine.lock().disk, &mut |_: Choice<'_>| 0))
    }

    /// The disk after a power cut that everything pending survived.
    pub fn survivors_all(&self) -> SimDirectory {
        SimDirectory::from_disk(image(&self.machine.lock().disk, &mut |choice: Choice<'_>| choice.newest()))
    }

    /// The different disks that a power cut now may leave, at most `limit` of them, made one by one.
    ///
    /// All of them, if there are at most `limit` sequences of decisions. Else a selection: nothing survived; everything did; everything up to
    /// each moment; each file's last write torn at each of its sectors; everything but one part; one part only; with garbage, one sector
    /// spoilt; and for the rest of `limit` random ones, the same at each call. Where one of these kinds has more than a sixth of `limit`, it is
    /// thinned out evenly.
    pub fn survivor_images(&self, limit: usize) -> Survivors {
        Survivors::new(self.machine.lock().disk.clone(), limit)
    }

    /// The disk after the process was killed: reads see everything, and what was pending still is.
    pub fn after_kill(&self) -> SimDirectory {
        let mut disk = self.machine.lock().disk.clone();
        disk.inodes.iter_mut().filter(|inode| inode.sealed).for_each(|inode| Arc::make_mut(inode).sealed = false);
        SimDirectory::from_disk(disk)
    }

    /// An independent copy as it stands, with what is pending, the count and the planned failures. Locks are not copied.
    pub fn snapshot(&self) -> SimDirectory {
        SimDirectory::from_machine(self.machine.lock().copy())
    }

    // What tests look at and damage. None of this is counted, fails or minds a crash.

    /// The names that reads see, ascending.
    pub fn file_names(&self) -> Vec<String> {
        self.machine.lock().disk.seen_names()
    }

    /// The bytes that reads see, if there is such a file.
    pub fn read_file(&self, name: &str) -> Option<Vec<u8>> {
        let machine = self.machine.lock();
        let file = machine.disk.find(name)?;
        Some(machine.disk.inodes[file].cache.bytes().to_vec())
    }

    /// Replaces a file or makes one, durably. Open handles see the new bytes; mapped ones keep the old.
    pub fn write_file(&self, name: &str, bytes: impl Into<Vec<u8>>) {
        self.machine.lock().disk.place(name, Inode::new(name, bytes.into()));
    }

    /// Removes a name, durably. Does nothing if there is none.
    pub fn remove_file(&self, name: &str) {
        Arc::make_mut(&mut self.machine.lock().disk.names).remove(name);
    }

    /// A hash of all names and bytes that reads see: equal for equal disks, and, but for a chance of 2^-64, only for them. Not to be stored: it
    /// may differ between versions of the standard library.
    pub fn image_hash(&self) -> u64 {
        self.machine.lock().disk.hash()
    }

    /// A hash of everything that decides what the disk may show from here on: as [`SimDirectory::image_hash`], and of what is durable and what is
    /// pending. Disks with equal ones answer alike to whatever is done to them, crashes too; the failures that are planned do not count, nor do
    /// the bytes of garbage.
    pub fn state_hash(&self) -> u64 {
        self.machine.lock().disk.state_hash()
    }

    fn file(&self, file: FileId, writable: bool) -> Arc<dyn File> {
        Arc::new(SimFile { machine: self.machine.clone(), file, writable })
    }
}

impl fmt::Debug for SimDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDirectory({:?}, {} operations)", self.file_names(), self.operations())
    }
}

impl Directory for SimDirectory {
    fn describe(&self) -> String {
        "simulated disk".to_owned()
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut machine = self.machine.lock();
        machine.faults.access()?;
        Ok(machine.disk.seen_names())
    }

    fn create_new(&self, name: &str) -> Result<Arc<dyn File>> {
        let file = self.machine.lock().create(name)?;
        Ok(self.file(file, true))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        let file = self.machine.lock().look_up(name)?;
        Ok(self.file(file, false))
    }

    fn open_writable(&self, name: &str) -> Result<Arc<dyn File>> {
        let file = self.machine.lock().look_up(name)?;
        Ok(self.file(file, true))
    }

    fn unlink(&self, name: &str) -> Result<()> {
        self.machine.lock().unlink(name)
    }

    fn sync(&self) -> Result<()> {
        self.machine.lock().sync_names()
    }

    fn sync_parent(&self) -> Result<()> {
        self.machine.lock().sync_parent()
    }

    fn link_source(&self, name: &str) -> Result<LinkSource> {
        let machine = self.machine.lock();
        let file = machine.find(name)?;
        Ok(LinkSource(LinkKind::Simulated(SharedFile(machine.disk.inodes[file].clone()))))
    }

    /// Another name for the bytes as they are, and as durable as they are; whoever changes them afterwards panics, as for mapped ones.
    fn link(&self, name: &str, source: &LinkSource) -> Result<()> {
        match &source.0 {
            LinkKind::Simulated(file) => self.machine.lock().link(name, &file.0),
            LinkKind::Named { .. } => Err(unsupported()),
        }
    }

    /// As `flock`: the lock belongs to the file, not to its name, and every call counts as a handle of its own.
    fn try_lock(&self, name: &str, mode: LockMode) -> Result<Option<LockGuard>> {
        let locked = self.machine.lock().try_lock(name, mode)?;
        Ok(locked.map(|file| LockGuard(Box::new(SimLock { machine: self.machine.clone(), name: name.to_owned(), file, mode }))))
    }
}

/// A file that another simulated disk may link to.
pub(crate) struct SharedFile(Arc<Inode>);

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedFile({})", self.0.name)
    }
}

/// A lock, for as long as it lives.
struct SimLock {
    machine: Arc<Mutex<Machine>>,
    name: String,
    file: FileId,
    mode: LockMode,
}

impl HeldLock for SimLock {
    fn is_in_place(&self) -> Result<bool> {
        let mut machine = self.machine.lock();
        machine.faults.access()?;
        Ok(machine.disk.find(&self.name) == Some(self.file))
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.machine.lock().unlock(self.file, self.mode);
    }
}

/// A handle to a file of the simulated disk.
struct SimFile {
    machine: Arc<Mutex<Machine>>,
    file: FileId,
    writable: bool,
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFile({})", self.machine.lock().disk.inodes[self.file].name)
    }
}

impl File for SimFile {
    fn len(&self) -> Result<u64> {
        let mut machine = self.machine.lock();
        machine.faults.access()?;
        Ok(machine.disk.inodes[self.file].cache.len())
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut machine = self.machine.lock();
        machine.faults.access()?;
        buf.copy_from_slice(machine.read(self.file, offset, buf.len() as u64)?);
        Ok(())
    }

    fn write_all_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.machine.lock().write(self.file, self.writable, offset, buf)
    }

    fn sync(&self) -> Result<()> {
        self.machine.lock().sync_file(self.file)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.machine.lock().set_len(self.file, self.writable, len)
    }

    /// Returns the bytes as they are now. Whoever changes the file afterwards breaks the promise that mapping rests on, and panics.
    fn map(&self, len: u64) -> Result<Bytes> {
        let mut machine = self.machine.lock();
        machine.faults.access()?;
        machine.read(self.file, 0, len)?;
        let inode = machine.disk.inode_mut(self.file);
        inode.sealed = true;
        Ok(Bytes::new(inode.cache.clone()).slice(0, len).expect("a read of as many bytes succeeded"))
    }
}

#[cfg(test)]
mod tests;

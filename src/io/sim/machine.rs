//! One run of a machine on a simulated disk: every operation is checked for its arguments, then counted and given its fate, then performed.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};

use super::disk::{Disk, FileId};
use super::faults::{Faults, Operation, SyncEffect, disk_failure, disk_full};
use super::inode::{Inode, sectors};
use crate::io::LockMode;

/// Far beyond what a test writes, far below what an allocation could fail for: a greater length is a bug of the caller.
const LONGEST_FILE: u64 = 1 << 32;

/// The disk, and what ends with the process: planned failures, limits and locks.
pub(super) struct Machine {
    pub(super) disk: Disk,
    pub(super) faults: Faults,
    /// How many bytes the named files may take together.
    pub(super) limit: u64,
    locks: BTreeMap<FileId, Lock>,
}

#[derive(Default)]
struct Lock {
    shared: usize,
    exclusive: bool,
}

impl Machine {
    pub(super) fn new(disk: Disk) -> Machine {
        Machine { disk, faults: Faults::default(), limit: u64::MAX, locks: BTreeMap::new() }
    }

    /// The same, but for the locks, whose guards know only the original.
    pub(super) fn copy(&self) -> Machine {
        Machine { disk: self.disk.clone(), faults: self.faults.clone(), limit: self.limit, locks: BTreeMap::new() }
    }

    pub(super) fn find(&self, name: &str) -> Result<FileId> {
        self.faults.alive()?;
        self.disk.find(name).ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no file {name}")))
    }

    /// As [`Machine::find`], for a program that opens or locks the file.
    pub(super) fn look_up(&mut self, name: &str) -> Result<FileId> {
        self.faults.access()?;
        self.find(name)
    }

    pub(super) fn create(&mut self, name: &str) -> Result<FileId> {
        self.faults.alive()?;
        if self.disk.find(name).is_some() {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("there is a file {name}")));
        }
        let fate = self.faults.begin(Operation::Create { name: name.to_owned() })?;
        if fate.performs() {
            self.disk.create(name);
        }
        fate.answer()?;
        self.find(name)
    }

    /// Gives a file of another disk a name here. Counted as a creation: what may happen to the name is the same.
    pub(super) fn link(&mut self, name: &str, file: &Inode) -> Result<()> {
        self.faults.alive()?;
        if self.disk.find(name).is_some() {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("there is a file {name}")));
        }
        let fate = self.faults.begin(Operation::Create { name: name.to_owned() })?;
        if fate.performs() {
            self.disk.link(name, Inode { name: name.to_owned(), sealed: true, ..file.clone() });
        }
        fate.answer()
    }

    pub(super) fn unlink(&mut self, name: &str) -> Result<()> {
        self.find(name)?;
        let fate = self.faults.begin(Operation::Unlink { name: name.to_owned() })?;
        if fate.performs() {
            self.disk.unlink(name);
        }
        fate.answer()
    }

    pub(super) fn read(&self, file: FileId, offset: u64, len: u64) -> Result<&[u8]> {
        self.faults.alive()?;
        let inode = &self.disk.inodes[file];
        let end = offset.checked_add(len).filter(|&end| end <= inode.cache.len()).ok_or_else(|| {
            let message = format!("{} has {} bytes, {len} at {offset} were asked for", inode.name, inode.cache.len());
            Error::new(ErrorKind::UnexpectedEof, message)
        })?;
        if inode.unreadable.range(sectors(offset, end)).next().is_some() {
            return Err(disk_failure());
        }
        Ok(&inode.cache.bytes()[in_memory(offset)..in_memory(end)])
    }

    pub(super) fn write(&mut self, file: FileId, writable: bool, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return self.faults.alive();
        }
        let len = bytes.len() as u64;
        let end = offset.checked_add(len).filter(|&end| end <= LONGEST_FILE).ok_or_else(too_long)?;
        self.check_change(file, writable)?;
        let name = self.disk.inodes[file].name.clone();
        let fate = self.faults.begin(Operation::Write { name, offset, len })?;

        let fits = self.longest(file).saturating_sub(offset).min(end - offset);
        let meant = if fate.performs() { len } else { len / 2 };
        self.disk.write(file, in_memory(offset), &bytes[..in_memory(meant.min(fits))]);
        fate.answer()?;
        if fits < len { Err(disk_full()) } else { Ok(()) }
    }

    pub(super) fn set_len(&mut self, file: FileId, writable: bool, len: u64) -> Result<()> {
        if len > LONGEST_FILE {
            return Err(too_long());
        }
        self.check_change(file, writable)?;
        let name = self.disk.inodes[file].name.clone();
        let fate = self.faults.begin(Operation::SetLen { name, len })?;
        if fate.performs() {
            if len > self.longest(file) {
                return Err(disk_full());
            }
            self.disk.set_len(file, in_memory(len));
        }
        fate.answer()
    }

    pub(super) fn sync_file(&mut self, file: FileId) -> Result<()> {
        let fate = self.faults.begin(Operation::SyncFile { name: self.disk.inodes[file].name.clone() })?;
        let (effect, answer) = fate.sync(&mut self.disk.inode_mut(file).late_error);
        self.disk.sync_file(file, effect);
        answer
    }

    pub(super) fn sync_names(&mut self) -> Result<()> {
        let fate = self.faults.begin(Operation::SyncDirectory)?;
        let (effect, answer) = fate.sync(&mut self.disk.names_late);
        self.disk.sync_names(effect);
        answer
    }

    /// The directory's own name has no cache to be lost or kept: a sync that fails leaves it as undecided as it was.
    pub(super) fn sync_parent(&mut self) -> Result<()> {
        let fate = self.faults.begin(Operation::SyncParent)?;
        let (effect, answer) = fate.sync(&mut self.disk.parent_late);
        self.disk.directory_durable |= effect == SyncEffect::MakeDurable;
        answer
    }

    fn check_change(&self, file: FileId, writable: bool) -> Result<()> {
        self.faults.alive()?;
        let inode = &self.disk.inodes[file];
        assert!(!inode.sealed, "{} is changed after it was mapped, which would kill a real process", inode.name);
        if writable { Ok(()) } else { Err(Error::new(ErrorKind::PermissionDenied, format!("{} was opened for reading", inode.name))) }
    }

    /// How long a file may be, with all the others as they are.
    fn longest(&self, file: FileId) -> u64 {
        if self.limit == u64::MAX {
            return u64::MAX;
        }
        self.disk.inodes[file].cache.len() + self.limit.saturating_sub(self.disk.used())
    }

    /// Locks a file, if its other locks allow it.
    pub(super) fn try_lock(&mut self, name: &str, mode: LockMode) -> Result<Option<FileId>> {
        let file = self.look_up(name)?;
        let lock = self.locks.entry(file).or_default();
        let free = !lock.exclusive && (mode == LockMode::Shared || lock.shared == 0);
        if free {
            match mode {
                LockMode::Shared => lock.shared += 1,
                LockMode::Exclusive => lock.exclusive = true,
            }
        }
        Ok(free.then_some(file))
    }

    pub(super) fn unlock(&mut self, file: FileId, mode: LockMode) {
        if let Some(lock) = self.locks.get_mut(&file) {
            match mode {
                LockMode::Shared => lock.shared -= 1,
                LockMode::Exclusive => lock.exclusive = false,
            }
        }
    }
}

fn too_long() -> Error {
    Error::new(ErrorKind::FileTooLarge, "the simulated disk takes files of up to 4 GiB")
}

fn in_memory(n: u64) -> usize {
    usize::try_from(n).expect("no more than a file in memory")
}

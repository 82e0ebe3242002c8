//! The simulated disk: its files, its names, and what of both is pending.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::faults::SyncEffect;
use super::inode::{Inode, Stamp, Versions, place};

/// The place of a file in [`Disk::inodes`].
pub(super) type FileId = usize;

/// A name and the files that it stood for since the directory was last synced.
#[derive(Clone, Default)]
pub(super) struct Entry {
    /// What a power cut can't take.
    pub(super) durable: Option<FileId>,
    /// What the program sees.
    pub(super) cached: Option<FileId>,
    pub(super) pending: Versions<Option<FileId>>,
}

/// Everything that outlives a process. Cloning it, which happens before each operation of a sweep, shares each file and the names until one of
/// the two changes them.
#[derive(Clone)]
pub(super) struct Disk {
    pub(super) clock: Stamp,
    /// Files are only added, so that an open handle stays valid after its name is gone.
    pub(super) inodes: Vec<Arc<Inode>>,
    pub(super) names: Arc<BTreeMap<String, Entry>>,
    /// Whether a power cut can't take the directory itself.
    pub(super) directory_durable: bool,
    /// An earlier sync of the names lied.
    pub(super) names_late: bool,
    /// An earlier sync of the directory's own name lied.
    pub(super) parent_late: bool,
    /// Whether a sector that is being written when the power goes may end up holding neither the old nor the new bytes.
    pub(super) garbage: bool,
}

impl Disk {
    pub(super) fn new(directory_durable: bool, garbage: bool) -> Disk {
        Disk { clock: 0, inodes: Vec::new(), names: Arc::default(), directory_durable, names_late: false, parent_late: false, garbage }
    }

    /// A file that is about to change, for this disk alone.
    pub(super) fn inode_mut(&mut self, file: FileId) -> &mut Inode {
        Arc::make_mut(&mut self.inodes[file])
    }

    pub(super) fn find(&self, name: &str) -> Option<FileId> {
        self.names.get(name)?.cached
    }

    /// The names that the program sees, ascending.
    pub(super) fn seen_names(&self) -> Vec<String> {
        self.names.iter().filter(|(_, entry)| entry.cached.is_some()).map(|(name, _)| name.clone()).collect()
    }

    fn tick(&mut self) -> Stamp {
        self.clock += 1;
        self.clock
    }

    pub(super) fn create(&mut self, name: &str) {
        self.inodes.push(Arc::new(Inode::new(name, Vec::new())));
        self.point(name, Some(self.inodes.len() - 1));
    }

    pub(super) fn link(&mut self, name: &str, file: Inode) {
        self.inodes.push(Arc::new(file));
        self.point(name, Some(self.inodes.len() - 1));
    }

    pub(super) fn unlink(&mut self, name: &str) {
        self.point(name, None);
    }

    fn point(&mut self, name: &str, file: Option<FileId>) {
        let stamp = self.tick();
        let entry = Arc::make_mut(&mut self.names).entry(name.to_owned()).or_default();
        entry.cached = file;
        entry.pending.push(stamp, file);
    }

    pub(super) fn write(&mut self, file: FileId, offset: usize, bytes: &[u8]) {
        let stamp = self.tick();
        self.inode_mut(file).write(stamp, offset, bytes);
    }

    pub(super) fn set_len(&mut self, file: FileId, len: usize) {
        let stamp = self.tick();
        self.inode_mut(file).set_len(stamp, len);
    }

    pub(super) fn sync_file(&mut self, file: FileId, effect: SyncEffect) {
        let inode = self.inode_mut(file);
        match effect {
            SyncEffect::MakeDurable => inode.make_durable(),
            SyncEffect::Leave => {}
            SyncEffect::Forget => inode.forget_dirty(),
            SyncEffect::Revert => inode.revert(),
        }
    }

    pub(super) fn sync_names(&mut self, effect: SyncEffect) {
        if effect == SyncEffect::Leave {
            return;
        }
        let names = Arc::make_mut(&mut self.names);
        for entry in names.values_mut() {
            if effect == SyncEffect::MakeDurable
                && let Some(&file) = entry.pending.newest()
            {
                entry.durable = file;
            }
            if effect == SyncEffect::Revert {
                entry.cached = entry.durable;
            }
            entry.pending.clear();
        }
        names.retain(|_, entry| entry.durable.is_some() || entry.cached.is_some());
    }

    /// Puts a file with these bytes under a name, durably. An open file of that name changes under its handles.
    pub(super) fn place(&mut self, name: &str, inode: Inode) {
        let file = self.find(name).unwrap_or(self.inodes.len());
        if file == self.inodes.len() {
            self.inodes.push(Arc::new(inode));
        } else {
            self.inodes[file] = Arc::new(inode);
        }
        let entry = Entry { durable: Some(file), cached: Some(file), pending: Versions::default() };
        Arc::make_mut(&mut self.names).insert(name.to_owned(), entry);
    }

    /// Cuts a file, durably, if it is longer.
    pub(super) fn shorten(&mut self, name: &str, len: u64) {
        let Some(file) = self.find(name).filter(|&file| self.inodes[file].durable.len() > len) else { return };
        let inode = self.inode_mut(file);
        inode.durable.edit().truncate(usize::try_from(len).expect("less than a length in memory"));
        inode.cache = inode.durable.clone();
    }

    /// How many bytes the named files take.
    pub(super) fn used(&self) -> u64 {
        self.names.values().filter_map(|entry| entry.cached).map(|file| self.inodes[file].cache.len()).sum()
    }

    /// A hash of everything that decides what this disk may show from here on, whoever works on it: what reads see, what is durable, and all that
    /// is pending, in its order. When it came about does not count.
    pub(super) fn state_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.directory_durable, self.names_late, self.parent_late, self.garbage).hash(&mut hasher);
        let files = |entry: &Entry| entry.pending.states(&entry.durable).flatten().copied().collect::<Vec<FileId>>();
        let of_names = self.names.values().flat_map(|entry| entry.pending.stamps().to_vec());
        let of_files = self.names.values().flat_map(files).flat_map(|file| self.inodes[file].stamps());
        let mut order: Vec<Stamp> = of_names.chain(of_files).collect();
        order.sort_unstable();
        order.dedup();
        for (name, entry) in self.names.iter() {
            (name, entry.pending.stamps().len()).hash(&mut hasher);
            entry.pending.stamps().iter().for_each(|stamp| place(&order, *stamp).hash(&mut hasher));
            for file in entry.pending.states(&entry.durable).chain([&entry.cached]) {
                file.is_some().hash(&mut hasher);
                file.iter().for_each(|&file| self.inodes[file].hash_state(&order, &mut hasher));
            }
        }
        hasher.finish()
    }

    /// A hash of all names and bytes that reads see, and of whether the directory itself is durable.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.directory_durable.hash(&mut hasher);
        for (name, entry) in self.names.iter() {
            if let Some(file) = entry.cached {
                name.hash(&mut hasher);
                self.inodes[file].cache.hash().hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}

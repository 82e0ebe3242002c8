//! What a power cut may leave.
//!
//! An image is made of independent decisions ([`Unit`]): whether the directory is there, which of its files each name stands for, and for each
//! file that is, which length it has and which contents each sector before its end. Decisions about files without a name, and about sectors past
//! the end, are not asked for, since nobody could see the difference. Decision 0 is always the durable state.

use super::choose::{Chooser, Seeded};
use super::disk::{Disk, FileId};
use super::inode::{Inode, SECTOR, Sector, Stamp};

/// What a decision is about. Names are counted in the order of `Disk::names`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Directory,
    Name(usize),
    Length(usize, FileId),
    Sector(usize, FileId, u64),
}

impl Unit {
    /// Whether `other` can only be seen when this is there.
    pub(super) fn carries(self, other: Unit) -> bool {
        match (self, other) {
            (Unit::Directory, _) => true,
            (Unit::Name(name), Unit::Length(of, _) | Unit::Sector(of, _, _)) => name == of,
            (Unit::Length(_, file), Unit::Sector(_, of, _)) => file == of,
            (Unit::Name(_) | Unit::Length(..) | Unit::Sector(..), _) => false,
        }
    }
}

/// One decision: the states are the durable one, one for each stamp, oldest first, and garbage where that is possible.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice<'a> {
    pub(super) unit: Unit,
    pub(super) stamps: &'a [Stamp],
    pub(super) garbage: bool,
}

impl Choice<'_> {
    pub(super) fn options(self) -> usize {
        1 + self.stamps.len() + usize::from(self.garbage)
    }

    pub(super) fn newest(self) -> usize {
        self.stamps.len()
    }

    /// The state at `stamp`.
    pub(super) fn at(self, stamp: Stamp) -> usize {
        self.stamps.partition_point(|&changed| changed <= stamp)
    }
}

/// Answers the decisions of an image.
pub(super) trait Decide {
    fn decide(&mut self, choice: Choice<'_>) -> usize;

    /// Asks, if there is anything to decide.
    fn ask(&mut self, choice: Choice<'_>) -> usize {
        let options = choice.options();
        if options == 1 {
            return 0;
        }
        let picked = self.decide(choice);
        assert!(picked < options, "a pick of {picked} among {options} possibilities");
        picked
    }
}

impl<F: FnMut(Choice<'_>) -> usize> Decide for F {
    fn decide(&mut self, choice: Choice<'_>) -> usize {
        self(choice)
    }
}

/// The disk after a power cut, as `decide` has it.
pub(super) fn image(disk: &Disk, decide: &mut dyn Decide) -> Disk {
    let there = disk.directory_durable || decide.ask(Choice { unit: Unit::Directory, stamps: &[0], garbage: false }) == 1;
    let mut after = Disk::new(there, disk.garbage);
    if !there {
        return after;
    }
    for (position, (name, entry)) in disk.names.iter().enumerate() {
        let picked = decide.ask(Choice { unit: Unit::Name(position), stamps: entry.pending.stamps(), garbage: false });
        if let Some(file) = *entry.pending.pending(picked).unwrap_or(&entry.durable) {
            after.place(name, surviving_file(disk, position, file, decide));
        }
    }
    after
}

fn surviving_file(disk: &Disk, name: usize, file: FileId, decide: &mut dyn Decide) -> Inode {
    let inode = &disk.inodes[file];
    let picked = decide.ask(Choice { unit: Unit::Length(name, file), stamps: inode.lengths.stamps(), garbage: false });
    let len = inode.lengths.pending(picked).copied().unwrap_or(inode.durable.len());
    let mut content = inode.durable.clone();
    if content.len() != len {
        content.edit().resize(usize::try_from(len).expect("a length of a buffer in memory"), 0);
    }
    for (&number, versions) in inode.dirty.range(..sectors_before(len)) {
        let choice = Choice { unit: Unit::Sector(name, file, number), stamps: versions.stamps(), garbage: disk.garbage };
        let picked = decide.ask(choice);
        if picked > choice.newest() {
            content.put_sector(number, &garbage(file, number));
        } else if let Some(sector) = versions.pending(picked) {
            content.put_sector(number, sector);
        }
    }
    Inode { name: inode.name.clone(), durable: content.clone(), cache: content, unreadable: inode.unreadable.clone(), ..Inode::default() }
}

fn sectors_before(len: u64) -> u64 {
    len.div_ceil(SECTOR as u64)
}

/// Bytes that nobody wrote, the same for the same sector.
fn garbage(file: FileId, number: u64) -> Sector {
    let mut random = Seeded::new(number.wrapping_mul(31).wrapping_add(file as u64));
    let mut sector = [0; SECTOR];
    for chunk in sector.chunks_exact_mut(8) {
        chunk.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    sector
}

/// How many sequences of decisions there are, which is at least the number of different images; `u64::MAX` when it is more than fits.
pub(super) fn sequences(disk: &Disk) -> u64 {
    let of_names = disk.names.values().fold(1u64, |product, entry| {
        let of_name =
            entry.pending.states(&entry.durable).map(|file| file.map_or(1, |file| sequences_of_file(&disk.inodes[file], disk.garbage)));
        product.saturating_mul(of_name.fold(0, u64::saturating_add))
    });
    if disk.directory_durable { of_names } else { of_names.saturating_add(1) }
}

fn sequences_of_file(inode: &Inode, garbage: bool) -> u64 {
    let durable_len = inode.durable.len();
    let of_lengths = inode.lengths.states(&durable_len).map(|&len| {
        let sectors = inode.dirty.range(..sectors_before(len));
        sectors.fold(1u64, |product, (_, versions)| product.saturating_mul((1 + versions.stamps().len() + usize::from(garbage)) as u64))
    });
    of_lengths.fold(0, u64::saturating_add)
}

/// Every decision that may have to be made.
pub(super) fn choices(disk: &Disk) -> Vec<(Unit, &[Stamp])> {
    let mut all: Vec<(Unit, &[Stamp])> = Vec::new();
    if !disk.directory_durable {
        all.push((Unit::Directory, &[0]));
    }
    for (position, entry) in disk.names.values().enumerate() {
        all.push((Unit::Name(position), entry.pending.stamps()));
        for &file in entry.pending.states(&entry.durable).flatten() {
            let inode = &disk.inodes[file];
            all.push((Unit::Length(position, file), inode.lengths.stamps()));
            all.extend(inode.dirty.iter().map(|(&number, versions)| (Unit::Sector(position, file, number), versions.stamps())));
        }
    }
    all.retain(|(unit, stamps)| !stamps.is_empty() || (disk.garbage && matches!(unit, Unit::Sector(..))));
    all
}

/// Lets a [`Chooser`], who is told only how many possibilities there are, answer.
pub(super) struct Asking<'a>(pub(super) &'a mut dyn Chooser);

impl Decide for Asking<'_> {
    fn decide(&mut self, choice: Choice<'_>) -> usize {
        self.0.pick(choice.options())
    }
}

//! The images that a power cut may leave, one after the other and each once: all of them, or a selection when there are too many.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::vec::IntoIter;

use super::SimDirectory;
use super::choose::{Chooser, Exhaustive, Seeded};
use super::disk::{Disk, FileId};
use super::inode::{SECTOR, Stamp};
use super::survive::{Asking, Choice, Unit, choices, image, sequences};

/// The different images that a power cut may leave; see [`SimDirectory::survivor_images`].
pub struct Survivors {
    disk: Disk,
    source: Source,
    limit: usize,
    seen: HashSet<u64>,
}

enum Source {
    All(Exhaustive),
    Some(IntoIter<Plan>),
}

impl Survivors {
    pub(super) fn new(disk: Disk, limit: usize) -> Survivors {
        let source =
            if sequences(&disk) <= limit as u64 { Source::All(Exhaustive::new()) } else { Source::Some(plans(&disk, limit).into_iter()) };
        Survivors { disk, source, limit, seen: HashSet::new() }
    }

    /// Whether these are all images that there are, rather than a selection.
    pub fn is_exhaustive(&self) -> bool {
        matches!(self.source, Source::All(_))
    }
}

impl Iterator for Survivors {
    type Item = SimDirectory;

    fn next(&mut self) -> Option<SimDirectory> {
        while self.seen.len() < self.limit {
            let after = match &mut self.source {
                Source::All(choices) => choices.advance().then(|| image(&self.disk, &mut Asking(choices)))?,
                Source::Some(plans) => plans.next()?.image(&self.disk),
            };
            if self.seen.insert(after.hash()) {
                return Some(SimDirectory::from_disk(after));
            }
        }
        None
    }
}

/// An image of a selection, by the rule that decides it.
#[derive(Debug, Clone, Copy)]
enum Plan {
    /// Nothing pending survived.
    Oldest,
    /// Everything did.
    Newest,
    /// Every change up to a moment survived and no later one: what a disk that keeps the order leaves.
    Through(Stamp),
    /// The write of this moment is torn: its sectors before `from` landed, the others did not. `cut`: nor did the length past them.
    Torn { stamp: Stamp, name: usize, file: FileId, from: u64, cut: bool },
    /// Everything survived but this.
    Omit(Unit),
    /// Only this survived, and what it takes to see it.
    Keep(Unit),
    /// Everything survived but this sector, which holds neither the old nor the new bytes.
    Spoil(Unit),
    /// Anything.
    Random(u64),
}

impl Plan {
    fn image(self, disk: &Disk) -> Disk {
        match self {
            Plan::Oldest => image(disk, &mut |_: Choice<'_>| 0),
            Plan::Newest => image(disk, &mut |choice: Choice<'_>| choice.newest()),
            Plan::Through(stamp) => image(disk, &mut |choice: Choice<'_>| choice.at(stamp)),
            Plan::Torn { stamp, name, file, from, cut } => {
                let mut after = image(disk, &mut |choice: Choice<'_>| match choice.unit {
                    Unit::Sector(_, of, number) if of == file && number >= from => choice.at(stamp - 1),
                    Unit::Directory | Unit::Name(_) | Unit::Length(..) | Unit::Sector(..) => choice.at(stamp),
                });
                if cut {
                    after.shorten(name_at(disk, name), disk.inodes[file].durable.len().max(from * SECTOR as u64));
                }
                after
            }
            Plan::Omit(unit) => image(disk, &mut |choice: Choice<'_>| if choice.unit == unit { 0 } else { choice.newest() }),
            Plan::Keep(unit) => image(disk, &mut |choice: Choice<'_>| {
                if choice.unit == unit || choice.unit.carries(unit) { choice.newest() } else { 0 }
            }),
            Plan::Spoil(unit) => image(disk, &mut |choice: Choice<'_>| choice.newest() + usize::from(choice.unit == unit)),
            Plan::Random(seed) => random_image(disk, seed),
        }
    }
}

/// Draws first how likely the oldest and the newest state are, so that images in which nearly nothing or nearly everything survived occur too.
fn random_image(disk: &Disk, seed: u64) -> Disk {
    let mut random = Seeded::new(seed);
    let (oldest, newest) = (random.pick(8), random.pick(8));
    image(disk, &mut |choice: Choice<'_>| match random.pick(16) {
        draw if draw < oldest => 0,
        draw if draw < oldest + newest => choice.newest(),
        _ => random.pick(choice.options()),
    })
}

fn name_at(disk: &Disk, position: usize) -> &str {
    disk.names.keys().nth(position).map_or("", String::as_str)
}

/// A selection of images to begin with, the plainest first, and more random ones than will be needed, since some come out alike.
fn plans(disk: &Disk, limit: usize) -> Vec<Plan> {
    let all = choices(disk);
    let stamps: BTreeSet<Stamp> = all.iter().flat_map(|(_, stamps)| stamps.iter().copied()).collect();
    let share = limit / 6;

    let mut plans = vec![Plan::Oldest, Plan::Newest];
    plans.extend(spread(stamps.iter().map(|&stamp| Plan::Through(stamp)).collect(), share));
    plans.extend(spread(torn_last_writes(&all), share));
    plans.extend(spread(all.iter().map(|&(unit, _)| Plan::Omit(unit)).collect(), share));
    plans.extend(spread(all.iter().map(|&(unit, _)| Plan::Keep(unit)).collect(), share));
    if disk.garbage {
        let sectors = all.iter().filter(|(unit, _)| matches!(unit, Unit::Sector(..)));
        plans.extend(spread(sectors.map(|&(unit, _)| Plan::Spoil(unit)).collect(), share));
    }
    plans.extend((0..2 * limit as u64).map(Plan::Random));
    plans
}

/// The last write to each file, torn before each of its sectors, with its length and without.
fn torn_last_writes(all: &[(Unit, &[Stamp])]) -> Vec<Plan> {
    let mut last: BTreeMap<FileId, Stamp> = BTreeMap::new();
    let mut torn = Vec::new();
    for &(unit, stamps) in all {
        if let (Unit::Sector(_, file, _), Some(&stamp)) = (unit, stamps.last()) {
            let newest = last.entry(file).or_default();
            *newest = stamp.max(*newest);
        }
    }
    for &(unit, stamps) in all {
        if let (Unit::Sector(name, file, from), Some(&stamp)) = (unit, stamps.last())
            && last.get(&file) == Some(&stamp)
        {
            torn.push(Plan::Torn { stamp, name, file, from, cut: false });
            torn.push(Plan::Torn { stamp, name, file, from, cut: true });
        }
    }
    torn
}

/// At most `at_most` of the plans, evenly spread.
fn spread(plans: Vec<Plan>, at_most: usize) -> Vec<Plan> {
    if plans.len() <= at_most {
        return plans;
    }
    (0..at_most).map(|i| plans[i * plans.len() / at_most]).collect()
}

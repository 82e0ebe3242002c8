//! HEAD after power cuts, kills and failed syncs: always the state before or the state after, and never older than what was reported.

use super::*;
use crate::io::Directory;
use crate::io::sim::{CrashMode, FailureKind};

/// A sync that lies and is not found out before the process ends is not survived by anybody who believes it.
const HONEST: [FailureKind; 5] = [FailureKind::Enospc, FailureKind::Eio, FailureKind::Keep, FailureKind::Revert, FailureKind::Truthful];

/// How far a writer came without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Reached {
    Nothing,
    Settled,
    Published,
}

/// A writer that opens, settles and publishes `state(number)`.
fn write(dir: &SimDirectory, number: u64) -> Reached {
    let Ok(HeadVerdict::Valid(view)) = read_head(dir, true) else { return Reached::Nothing };
    let Ok(mut publisher) = Publisher::open(dir, &view) else { return Reached::Nothing };
    if publisher.settle().is_err() {
        return Reached::Nothing;
    }
    if publisher.publish(&state(number)).is_err() { Reached::Settled } else { Reached::Published }
}

/// What may be left: after a kill, and after power cuts, `images` of them at most.
fn aftermaths(dir: &SimDirectory, images: usize) -> impl Iterator<Item = SimDirectory> {
    dir.survivor_images(images).chain([dir.after_kill()])
}

/// HEAD as `create` made it, synced with its name, where a torn sector may hold anything.
fn base() -> SimDirectory {
    let dir = created();
    dir.sync().expect("the disk is sound");
    let dir = dir.survivors_none();
    dir.set_garbage(true);
    dir
}

/// Runs a writer of `number` on copies of `dir` that meet every trouble: a crash before or during each operation, and each failure of each
/// operation. Calls `then` with each aftermath and how far the writer came.
fn every_trouble(dir: &SimDirectory, number: u64, images: usize, kinds: &[FailureKind], mut then: impl FnMut(SimDirectory, Reached)) {
    let sound = dir.snapshot();
    let first = sound.operations();
    assert_eq!(write(&sound, number), Reached::Published);
    for operation in first..=sound.operations() {
        for mode in CrashMode::ALL {
            let dir = dir.snapshot();
            dir.crash_at(operation, mode);
            let reached = write(&dir, number);
            aftermaths(&dir, images).for_each(|image| then(image, reached));
        }
        for &kind in kinds {
            let dir = dir.snapshot();
            dir.fail(operation, kind);
            let reached = write(&dir, number);
            aftermaths(&dir, images).for_each(|image| then(image, reached));
        }
    }
}

#[test]
fn after_one_trouble_the_state_is_the_old_or_the_new_one_and_what_was_published_stays() {
    every_trouble(&base(), 2, 500, &FailureKind::REPORTED, |image, reached| {
        let number = chosen(&image).1;
        assert!(number == 2 || number == 1 && reached < Reached::Published, "{number}, {reached:?}");
    });
}

#[test]
fn after_two_troubles_what_was_published_stays_and_so_does_what_a_writer_settled_on() {
    // The second writer stands on what a kill or a failed sync of the first left in the cache.
    let mut seen = std::collections::HashSet::new();
    every_trouble(&base(), 2, 30, &HONEST, |image, first| {
        let before = chosen(&image).1;
        if !seen.insert((image.image_hash(), image.survivors_none().image_hash(), first)) {
            return;
        }
        every_trouble(&image, 3, 30, &[], |image, second| {
            let number = chosen(&image).1;
            let expected: &[u64] = match (second, first) {
                (Reached::Published, _) => &[3],
                (Reached::Settled, _) => &[before, 3],
                (Reached::Nothing, Reached::Published) => &[2],
                // Nobody was told of state 2, and nothing has rested on either: both are true.
                (Reached::Nothing, _) => &[1, 2],
            };
            assert!(expected.contains(&number), "{number}, before {before}, {first:?}, then {second:?}");
        });
    });
    assert!(seen.len() > 4);
}

#[test]
fn the_first_state_is_there_or_no_slot_is_valid() {
    for operation in 0..8 {
        for mode in CrashMode::ALL {
            let dir = SimDirectory::new();
            dir.set_garbage(true);
            dir.crash_at(operation, mode);
            let created = create_head(&dir).and_then(|file| {
                dir.sync().map_err(|e| crate::Error::io("syncing the directory", e))?;
                Publisher::first_publish(file, &state(1))
            });
            for image in aftermaths(&dir, 500) {
                match read_head(&image, true).expect("it reads") {
                    HeadVerdict::Valid(view) => assert_eq!(view.chosen.manifest_number, 1),
                    HeadVerdict::Missing | HeadVerdict::NoValidSlot { .. } => assert!(created.is_err(), "operation {operation}"),
                }
            }
        }
    }
}

//! That the images are all that a power cut can leave, each once, or a fair selection.

use std::collections::BTreeSet;

use super::{bytes_of, durable_file};
use crate::io::sim::{Chooser, CrashMode, Exhaustive, FromBytes, Seeded, SimDirectory};
use crate::io::{Directory, File};

fn hashes(images: impl Iterator<Item = SimDirectory>) -> Vec<u64> {
    images.map(|image| image.image_hash()).collect()
}

fn all_by_odometer(disk: &SimDirectory) -> (usize, BTreeSet<u64>) {
    let (mut choices, mut sequences, mut images) = (Exhaustive::new(), 0, BTreeSet::new());
    while choices.advance() {
        sequences += 1;
        images.insert(disk.survivors(&mut choices).image_hash());
    }
    (sequences, images)
}

/// Checks that there are `sequences` ways to decide, leaving `images` different disks, and that `survivor_images` finds each once.
fn assert_counts(disk: &SimDirectory, sequences: usize, images: usize) {
    let (counted, found) = all_by_odometer(disk);
    assert_eq!((counted, found.len()), (sequences, images));
    let exhaustive = disk.survivor_images(sequences);
    assert!(exhaustive.is_exhaustive());
    let listed = hashes(exhaustive);
    assert_eq!(listed.len(), images, "each once");
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), found);
    assert!(sequences == 1 || !disk.survivor_images(sequences - 1).is_exhaustive());
}

#[test]
fn the_odometer_visits_every_sequence_once_in_order() {
    let mut choices = Exhaustive::new();
    let mut seen = Vec::new();
    while choices.advance() {
        let first = choices.pick(3);
        let second = choices.pick(1 + first);
        seen.push((first, second, choices.pick(2)));
    }
    let expected: Vec<_> = (0..3).flat_map(|a| (0..=a).flat_map(move |b| (0..2).map(move |c| (a, b, c)))).collect();
    assert_eq!(seen, expected);
    assert!(!choices.advance());
}

#[test]
fn the_odometer_visits_no_question_once() {
    let mut choices = Exhaustive::new();
    assert!(choices.advance());
    assert!(!choices.advance());
}

#[test]
fn a_synced_disk_has_one_image() {
    let disk = SimDirectory::new();
    durable_file(&disk, "a", &[1; 5000]);
    assert_counts(&disk, 1, 1);
    assert_eq!(disk.survivors_none().image_hash(), disk.image_hash());
}

#[test]
fn names_survive_independently() {
    let disk = SimDirectory::new();
    durable_file(&disk, "gone", b"");
    for name in ["a", "b", "c"] {
        disk.create_new(name).expect("created");
    }
    disk.unlink("gone").expect("unlinked");
    assert_counts(&disk, 16, 16);
}

#[test]
fn a_name_stands_for_one_of_the_files_that_it_stood_for() {
    let disk = SimDirectory::new();
    durable_file(&disk, "a", b"first");
    disk.unlink("a").expect("unlinked");
    let second = disk.create_new("a").expect("created");
    second.write_all_at(0, b"second").expect("written");
    second.sync().expect("synced");
    assert_counts(&disk, 3, 3);
}

#[test]
fn sectors_and_length_of_a_new_file_survive_independently() {
    let disk = SimDirectory::new();
    let file = disk.create_new("a").expect("created");
    file.write_all_at(0, &[1; 600]).expect("written");
    // No name; or a name and no byte; or 600 bytes with two sectors that are there or zero.
    assert_counts(&disk, 1 + 1 + 4, 6);
    disk.sync().expect("synced");
    assert_counts(&disk, 1 + 4, 5);
    file.sync().expect("synced");
    assert_counts(&disk, 1, 1);
}

#[test]
fn a_write_over_three_sectors_is_torn_in_every_way() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", &[1; 2048]);
    file.write_all_at(500, &[2; 600]).expect("written");
    assert_counts(&disk, 8, 8);
    for image in disk.survivor_images(8) {
        let bytes = bytes_of(&image, "a");
        assert_eq!(bytes.len(), 2048);
        for (range, written) in [(0..500, false), (500..512, true), (512..1024, true), (1024..1100, true), (1100..2048, false)] {
            let part = &bytes[range];
            assert!(part.iter().all(|&byte| byte == part[0]), "torn inside a sector");
            assert!(written || part[0] == 1, "nobody wrote here");
        }
    }
}

#[test]
fn a_sector_written_twice_holds_one_of_its_three_contents() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"..");
    file.write_all_at(0, b"x").expect("written");
    file.write_all_at(1, b"y").expect("written");
    file.write_all_at(1, b"y").expect("written again, which makes no other content");
    assert_counts(&disk, 3, 3);
    let left: BTreeSet<Vec<u8>> = disk.survivor_images(3).map(|image| bytes_of(&image, "a")).collect();
    assert_eq!(left, BTreeSet::from([b"..".to_vec(), b"x.".to_vec(), b"xy".to_vec()]));
}

#[test]
fn writing_what_is_there_leaves_nothing_undecided() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"same");
    file.write_all_at(0, b"same").expect("written");
    file.set_len(4).expect("as it is");
    assert_counts(&disk, 1, 1);
}

#[test]
fn a_growing_write_passes_the_pages_ends() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"");
    file.write_all_at(0, &[1; 5000]).expect("written");
    // The length is 0, or 4096 with 8 sectors undecided, or 5000 with 10.
    assert_counts(&disk, 1 + (1 << 8) + (1 << 10), 1 + (1 << 8) + (1 << 10));
}

#[test]
fn a_length_cut_and_grown_again_shows_no_old_bytes_but_where_the_cut_did_not_land() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", b"old!");
    file.set_len(0).expect("cut");
    file.write_all_at(2, b"nw").expect("written");
    let left: BTreeSet<Vec<u8>> = disk.survivor_images(100).map(|image| bytes_of(&image, "a")).collect();
    let expected: [&[u8]; 4] = [b"", b"old!", b"\0\0\0\0", b"\0\0nw"];
    assert_eq!(left, expected.into_iter().map(<[u8]>::to_vec).collect());
    file.sync().expect("synced");
    assert_eq!(bytes_of(&disk.survivors_none(), "a"), b"\0\0nw");
}

#[test]
fn garbage_is_a_third_possibility_for_sectors_being_written_only() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", &[1; 1024]);
    file.write_all_at(512, &[2; 10]).expect("written");
    disk.set_garbage(true);
    assert_counts(&disk, 3, 3);
    for image in disk.survivor_images(3) {
        assert_eq!(bytes_of(&image, "a")[..512], [1; 512]);
    }
    file.write_all_at(0, &[1; 10]).expect("the same bytes, but they are on their way");
    assert_counts(&disk, 6, 6);
}

/// A disk with far more images than anybody wants: a new file of 100 sectors, and a durable one overwritten in its middle.
fn many_images() -> SimDirectory {
    let disk = SimDirectory::new();
    let log = durable_file(&disk, "log", &[1; 8192]);
    let new = disk.create_new("new").expect("created");
    new.write_all_at(0, &[2; 51200]).expect("written");
    log.write_all_at(4096, &[3; 4096]).expect("written");
    disk
}

#[test]
fn a_selection_is_different_images_within_the_limit_that_hold_the_plain_ones() {
    let disk = many_images();
    let images: Vec<SimDirectory> = disk.survivor_images(2000).collect();
    let different: BTreeSet<u64> = images.iter().map(SimDirectory::image_hash).collect();
    assert_eq!(images.len(), different.len());
    assert_eq!(images.len(), 2000, "there are enough to fill it");
    assert!(different.contains(&disk.survivors_none().image_hash()));
    assert!(different.contains(&disk.survivors_all().image_hash()));

    assert!(images.iter().all(|image| bytes_of(image, "log").len() == 8192), "no write can shorten a file");

    // Torn at each sector of the last write to the log, and everything there but one sector.
    let logs: BTreeSet<Vec<u8>> = images.iter().map(|image| bytes_of(image, "log")[4096..].to_vec()).collect();
    for sector in 0..8 {
        let mut torn = vec![3; sector * 512];
        torn.resize(4096, 1);
        assert!(logs.contains(&torn), "torn before sector {sector}");
        let mut omitted = vec![3; 4096];
        omitted[sector * 512..][..512].fill(1);
        assert!(logs.contains(&omitted), "sector {sector} omitted");
    }
    // The same of the new file, which is too long for chance to find them, and one sector alone.
    let new: BTreeSet<Vec<u8>> = images.iter().filter_map(|image| image.read_file("new")).collect();
    for sector in 0..100 {
        let mut torn = vec![2; sector * 512];
        torn.resize(51200, 0);
        assert!(new.contains(&torn), "torn before sector {sector}");
        let mut alone = vec![0; 51200];
        alone[sector * 512..][..512].fill(2);
        assert!(new.contains(&alone), "sector {sector} alone");
    }
    // Cut where it is torn.
    let cut: BTreeSet<usize> = images.iter().filter_map(|image| image.read_file("new")).map(|bytes| bytes.len()).collect();
    assert!((0..100).all(|sectors| cut.contains(&(sectors * 512))), "{cut:?}");
}

#[test]
fn a_selection_holds_the_state_after_each_operation() {
    let disk = SimDirectory::new();
    let file = durable_file(&disk, "a", &[0; 16 * 512]);
    let mut states = BTreeSet::new();
    for number in 0..40u8 {
        file.write_all_at(u64::from(number % 16) * 512, &[number + 1]).expect("written");
        states.insert(bytes_of(&disk, "a"));
    }
    let images: BTreeSet<Vec<u8>> = disk.survivor_images(400).map(|image| bytes_of(&image, "a")).collect();
    assert!(states.is_subset(&images));
}

#[test]
fn a_selection_is_the_same_each_time_and_obeys_every_limit() {
    let disk = many_images();
    assert_eq!(hashes(disk.survivor_images(300)), hashes(disk.survivor_images(300)));
    for limit in 0..20 {
        assert!(disk.survivor_images(limit).count() <= limit);
    }
}

#[test]
fn a_selection_never_holds_an_image_that_the_odometer_does_not() {
    for seed in 0..20 {
        let mut random = Seeded::new(seed);
        let disk = SimDirectory::new();
        let file = durable_file(&disk, "a", &[9; 1500]);
        let new = disk.create_new("b").expect("created");
        for _ in 0..4 {
            let target = if random.pick(2) == 0 { &file } else { &new };
            target.write_all_at(random.pick(1000) as u64, &vec![1; 1 + random.pick(700)]).expect("written");
        }
        let (sequences, all) = all_by_odometer(&disk);
        for limit in [sequences / 2, sequences / 3] {
            let selected: BTreeSet<u64> =
                disk.survivor_images(limit).filter(|image| !was_cut(image, &disk)).map(|i| i.image_hash()).collect();
            assert!(selected.is_subset(&all), "seed {seed}");
        }
    }
}

/// A selection also has files cut between the lengths that they had, which the odometer, asked about lengths that were, has not.
fn was_cut(image: &SimDirectory, disk: &SimDirectory) -> bool {
    image.file_names().iter().any(|name| {
        let len = bytes_of(image, name).len();
        len.is_multiple_of(512) && len < bytes_of(disk, name).len()
    })
}

#[test]
fn the_hash_of_a_state_tells_what_is_pending_and_in_which_order() {
    let made = |act: &dyn Fn(&SimDirectory, &dyn File)| {
        let disk = SimDirectory::new();
        let file = durable_file(&disk, "a", &[9; 1500]);
        act(&disk, &*file);
        disk
    };
    let write = |file: &dyn File, sector: u64, byte: u8| file.write_all_at(sector * 512, &[byte; 512]).expect("written");
    let both = made(&|_, file| [0, 1].into_iter().for_each(|n| write(file, n, 1)));
    let backwards = made(&|_, file| [1, 0].into_iter().for_each(|n| write(file, n, 1)));
    let synced = made(&|_, file| {
        [0, 1].into_iter().for_each(|n| write(file, n, 1));
        file.sync().expect("synced");
    });
    let over = made(&|_, file| [2, 1].into_iter().for_each(|byte| [0, 1].into_iter().for_each(|n| write(file, n, byte))));
    let all = [&both, &backwards, &synced, &over];
    assert!(all.iter().all(|disk| disk.image_hash() == both.image_hash()), "they show the same");
    let states: BTreeSet<u64> = all.iter().map(|disk| disk.state_hash()).collect();
    assert_eq!(states.len(), all.len());

    // A name is pending too, until the directory is synced, and so is its removal.
    let named = made(&|disk, _| drop(disk.create_new("b").expect("created")));
    let before = named.state_hash();
    named.sync().expect("synced");
    assert_ne!(named.state_hash(), before);
    let removed = made(&|disk, _| disk.unlink("a").expect("removed"));
    assert_ne!(removed.state_hash(), SimDirectory::new().state_hash());
    assert_eq!(removed.image_hash(), SimDirectory::new().image_hash());

    // What led to a state does not count: nothing is pending after a sync, nor on what a power cut leaves.
    assert_eq!(synced.state_hash(), made(&|disk, _| disk.write_file("a", bytes_of(&synced, "a"))).state_hash());
    assert_eq!(synced.state_hash(), synced.survivors_none().state_hash());
    assert_eq!(both.state_hash(), both.after_kill().state_hash());
    assert_ne!(both.state_hash(), both.survivors_all().state_hash());
}

#[test]
fn an_image_is_a_working_disk_that_can_crash_again() {
    let disk = many_images();
    disk.crash_at(disk.operations(), CrashMode::Before);
    disk.sync().expect_err("a crash");
    let image = disk.survivors(&mut Seeded::new(7));
    assert_eq!(image.operations(), 0);
    image.crash_at(1, CrashMode::During);
    let file = image.open_writable("log").expect("opened");
    file.write_all_at(0, &[4; 600]).expect("operation 0");
    file.sync().expect_err("operation 1");
    assert_eq!(image.survivor_images(10).count(), 4);
}

#[test]
fn bytes_reach_every_answer_and_end_in_the_plainest() {
    let answers: BTreeSet<(usize, usize)> = (0..=255u8)
        .flat_map(|a| (0..=255u8).map(move |b| [a, b]))
        .map(|bytes| {
            let mut choices = FromBytes::new(&bytes);
            (choices.pick(3), choices.pick(4))
        })
        .collect();
    assert_eq!(answers.len(), 12);
    let mut wide = FromBytes::new(&[1, 2, 9]);
    assert_eq!((wide.pick(1), wide.pick(300), wide.pick(10), wide.pick(300)), (0, 258, 9, 0));
}

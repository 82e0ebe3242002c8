//! Vector graphs: a rebuild makes them again from the vectors, whatever became of them; a salvage needs none of them.

use super::backing_up::assert_sound;
use super::fixture::{copy, dump_of_disk};
use super::sections::{flip, sections_of};
use crate::fsck::image::{GRAPHS, Image, graph_options, point, with_graphs};
use std::sync::Arc;
use triune::format::segment::SectionKind;
use triune::inspect::{FsckOptions, fsck_directory};
use triune::io::SimDirectory;
use triune::maintenance::{Salvage, rebuild_directory, write_salvaged};
use triune::{Database, Effort};

const KINDS: [SectionKind; 2] = [SectionKind::VectorGraph, SectionKind::VectorCodes];

/// Hits of walks and of scans, of every collection.
fn answers(disk: &SimDirectory) -> Vec<String> {
    let db = Database::open_read_only_with(Arc::new(disk.clone()), graph_options()).unwrap();
    let mut said = Vec::new();
    for (name, ..) in GRAPHS {
        let collection = db.snapshot().collection(name).unwrap();
        // Walks so wide that they meet every node.
        for (query, effort) in (0..6).flat_map(|i| [(point(500 + 7 * i), Effort::Ef(118)), (point(500 + 7 * i), Effort::Exact)]) {
            let hits = collection.nearest_with(&query, None, 9, effort).unwrap();
            said.push(format!("{:?}", hits.iter().map(|h| (collection.id_of(h).unwrap(), h.score.to_bits())).collect::<Vec<_>>()));
        }
        assert_eq!(said[said.len() - 2], said[said.len() - 1], "{name}: a walk that meets every node finds what a scan finds");
    }
    said
}

fn fsck(disk: &SimDirectory) -> u8 {
    fsck_directory(disk, &FsckOptions::level(3)).unwrap().exit_status()
}

fn graphs(disk: &SimDirectory) -> usize {
    sections_of(disk).iter().filter(|section| KINDS.iter().any(|kind| section.kind == *kind as u16)).count()
}

#[test]
fn graphs_and_codes_are_rebuilt_whatever_became_of_them() {
    let image = Image { disk: with_graphs() };
    let (text, said) = (dump_of_disk(&image.disk), answers(&image.disk));
    assert_eq!(graphs(&image.disk), 7);
    let mut damaged: Vec<(String, SimDirectory)> = Vec::new();
    for section in sections_of(&image.disk).into_iter().filter(|section| KINDS.iter().any(|kind| section.kind == *kind as u16)) {
        for at in [0, section.length / 2, section.length - 1] {
            let disk = copy(&image.disk);
            flip(&disk, &section.file, section.start + at);
            damaged.push((format!("byte {at} of a section of kind {}", section.kind), disk));
        }
    }
    for segment in 0..GRAPHS.len() {
        damaged.push((format!("segment {segment} without a graph"), image.without_section(segment, SectionKind::VectorGraph)));
        let forged = image.with_section(segment, SectionKind::VectorGraph, |bytes| bytes[192..200].fill(1));
        damaged.push((format!("segment {segment} with forged positions"), forged));
        if segment < 3 {
            damaged.push((format!("segment {segment} without codes"), image.without_section(segment, SectionKind::VectorCodes)));
            let forged = image.with_section(segment, SectionKind::VectorCodes, |bytes| bytes[..64].fill(0xff));
            damaged.push((format!("segment {segment} with forged codes"), forged));
        }
    }
    assert!(damaged.len() > 30, "{}", damaged.len());
    for (what, disk) in damaged {
        // Without a graph and without codes that would need it vectors are scanned, and nothing is wrong.
        assert_eq!(fsck(&disk), if what == "segment 3 without a graph" { 0 } else { 4 }, "{what}");
        rebuild_directory(Arc::new(disk.clone()), graph_options(), None).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!((fsck(&disk), graphs(&disk)), (0, 7), "{what}");
        assert!(dump_of_disk(&disk) == text, "{what}: another dump");
        assert_eq!(answers(&disk), said, "{what}");
        assert_sound(&disk);
    }
}

#[test]
fn a_salvage_is_not_harmed_by_damaged_graphs_and_its_database_gets_graphs_of_its_own() {
    let image = Image { disk: with_graphs() };
    let (text, said) = (dump_of_disk(&image.disk), answers(&image.disk));
    let damaged = copy(&image.disk);
    for section in sections_of(&image.disk).into_iter().filter(|section| KINDS.iter().any(|kind| section.kind == *kind as u16)) {
        (0..section.length).step_by(100).for_each(|at| flip(&damaged, &section.file, section.start + at));
    }
    for (what, disk) in
        [("sound", image.disk.after_kill()), ("damaged", damaged), ("lost", image.without_section(0, SectionKind::VectorGraph))]
    {
        let survey = Salvage::survey(&disk).unwrap();
        let new = SimDirectory::new();
        let report = write_salvaged(&survey, Arc::new(new.clone()), graph_options()).unwrap();
        assert!(report.ledger.is_empty(), "{what}: {:?}", report.ledger);
        assert!(dump_of_disk(&new) == text, "{what}: another dump");
        let db = Database::open_with(Arc::new(new.clone()), graph_options()).unwrap();
        db.compact().unwrap();
        db.close().unwrap();
        assert_eq!(graphs(&new), 7, "{what}");
        assert_eq!(answers(&new), said, "{what}");
        assert_eq!(fsck(&new), 0, "{what}");
        assert_sound(&new);
    }
}

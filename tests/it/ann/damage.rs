//! What a search answers when the graph that it walks is damaged: an error that says where, or hits with exact scores, as many as there should be.

use crate::fsck::image::{GRAPHS, Image, graph_options, point};
use std::collections::BTreeMap;
use std::sync::Arc;
use triune::format::segment::{SectionEntry, SectionKind};
use triune::format::vector_graph::NO_LINK;
use triune::io::SimDirectory;
use triune::io::names::FileName;
use triune::{Collection, Database, Effort, Error, Filter, IoMode, Options};

const MODES: [IoMode; 3] = [IoMode::Mmap, IoMode::Pread, IoMode::Pinned];
const K: usize = 8;

/// What is asked of a collection, and what a sound one answers.
struct Asked {
    name: &'static str,
    queries: Vec<[f32; 5]>,
    filter: Filter,
    /// For each query the score of every document, by its id.
    exact: Vec<BTreeMap<String, u64>>,
    /// What walks find, for each query, without a filter and with it.
    found: Vec<Vec<(String, u64)>>,
}

type Hits = Vec<(String, u64)>;

fn open(disk: &SimDirectory, io_mode: IoMode) -> Database {
    Database::open_read_only_with(Arc::new(disk.clone()), Options { io_mode, ..graph_options() }).unwrap()
}

fn hits(collection: &Collection, query: &[f32], filter: Option<&Filter>, k: usize, effort: Effort) -> triune::Result<Hits> {
    let hits = collection.nearest_with(query, filter, k, effort)?;
    hits.iter().map(|hit| Ok((collection.id_of(hit)?, hit.score.to_bits()))).collect()
}

impl Asked {
    fn of(disk: &SimDirectory, name: &'static str) -> Asked {
        let db = open(disk, IoMode::Mmap);
        let collection = db.snapshot().collection(name).unwrap();
        let queries: Vec<[f32; 5]> = (0..4).map(|i| point(1_000 + 17 * i)).collect();
        // Two of three, so that a walk is worth while.
        let filter = Filter::parse(r#"{"missing":{"$exists":false}}"#).unwrap();
        let exact = |query: &[f32; 5]| hits(&collection, query, None, 1_000, Effort::Exact).unwrap().into_iter().collect();
        let exact = queries.iter().map(exact).collect();
        let mut asked = Asked { name, queries, filter, exact, found: Vec::new() };
        asked.found = asked.walks(&collection).map(|(_, found)| found.unwrap()).collect();
        asked
    }

    /// The answers to all questions, each with the number of its query.
    fn walks<'a>(&'a self, collection: &'a Collection) -> impl Iterator<Item = (usize, triune::Result<Hits>)> + 'a {
        let both = (0..self.queries.len()).flat_map(|query| [(query, None), (query, Some(&self.filter))]);
        both.map(|(query, filter)| (query, hits(collection, &self.queries[query], filter, K, Effort::Ef(12))))
    }

    /// Asks a damaged database; how many answers there were. An error has the address of `file`, from `from` to before `to`.
    fn ask(&self, disk: &SimDirectory, io_mode: IoMode, address: (&str, u64, u64), same: bool, what: &str) -> usize {
        let db = open(disk, io_mode);
        let collection = db.snapshot().collection(self.name).unwrap();
        let mut answered = 0;
        for ((query, found), sound) in self.walks(&collection).zip(&self.found) {
            match found {
                Ok(hits) => {
                    assert!(!same || hits == *sound, "{what}: {hits:?}, and not {sound:?}");
                    assert_eq!(hits.len(), K, "{what}: a shorter answer");
                    assert!(hits.iter().all(|(id, score)| self.exact[query].get(id) == Some(score)), "{what}: a wrong score in {hits:?}");
                    assert!((1..K).all(|i| hits[..i].iter().all(|hit| hit.0 != hits[i].0)), "{what}: a hit stands twice in {hits:?}");
                    answered += 1;
                }
                Err(Error::Corrupt(c)) => {
                    let (file, from, to) = address;
                    assert!(c.file == file && (from..to).contains(&c.offset), "{what}: {c}, and not in {file} from {from} to {to}");
                }
                Err(e) => panic!("{what}: {e}"),
            }
        }
        answered
    }
}

fn section(image: &Image, segment: usize, kind: SectionKind) -> Option<(String, u64, SectionEntry)> {
    let named = &image.segments()[segment];
    let entry = image.sections(named).into_iter().find(|entry| entry.kind.get() == kind as u16)?;
    Some((FileName::Segments(named.file).to_string(), named.offset, entry))
}

/// The bytes of a section that are tried: each of its header and of its first and last rows, and some of the others.
fn places(length: u64) -> impl Iterator<Item = u64> {
    (0..length).filter(move |at| *at < 256 || length - at <= 40 || at.is_multiple_of(37))
}

#[test]
fn a_byte_of_a_graph_that_changed_is_an_error_with_its_address_or_does_not_matter() {
    let image = Image::of_graphs();
    let mut refused = 0;
    for (segment, (name, ..)) in GRAPHS.into_iter().enumerate() {
        let asked = Asked::of(&image.disk, name);
        for kind in [SectionKind::VectorGraph, SectionKind::VectorCodes] {
            let Some((file, start, entry)) = section(&image, segment, kind) else { continue };
            let (offset, length, crcs) = (start + entry.offset.get(), entry.length.get(), start + entry.crcs_offset.get());
            let of_checksums = (0..length.div_ceil(4096) * 4).map(|at| (crcs + at, (crcs, crcs + 1)));
            let of_bytes = places(length).map(|at| (offset + at, (offset + at / 4096 * 4096, offset + at + 1)));
            for (i, (at, (from, to))) in of_bytes.chain(of_checksums).enumerate() {
                let disk = image.disk.after_kill();
                let mut bytes = disk.read_file(&file).unwrap();
                bytes[at as usize] ^= 1 << (at % 8);
                disk.write_file(&file, bytes);
                let what = format!("{name}, {}, byte {at} of {file}", kind.name());
                refused += asked.found.len() - asked.ask(&disk, MODES[i % 3], (&file, from, to), true, &what);
            }
        }
    }
    assert!(refused > 3_000, "{refused} refused");
}

#[test]
fn a_forged_byte_of_a_graph_is_an_error_in_it_or_gives_hits_with_exact_scores() {
    let image = Image::of_graphs();
    let (mut refused, mut answered) = (0, 0);
    for (segment, (name, ..)) in GRAPHS.into_iter().enumerate() {
        let asked = Asked::of(&image.disk, name);
        for kind in [SectionKind::VectorGraph, SectionKind::VectorCodes] {
            let Some((file, start, entry)) = section(&image, segment, kind) else { continue };
            let (from, length) = (start + entry.offset.get(), entry.length.get());
            for (i, at) in places(length).enumerate() {
                let byte = [0, 1, 0x7f, 0xff, 0x40][i % 5];
                let disk = image.with_section(segment, kind, |bytes| bytes[at as usize] = byte);
                let what = format!("{name}, {}, byte {at} is {byte}", kind.name());
                let answers = asked.ask(&disk, MODES[i % 3], (&file, from, from + length), false, &what);
                (refused, answered) = (refused + asked.found.len() - answers, answered + answers);
            }
        }
    }
    assert!(refused > 200 && answered > 3_000, "{refused} refused, {answered} answered");
}

/// Whole fields of one kind at once: every link, position, code or number of a row.
#[test]
fn forged_links_positions_and_codes_give_an_error_or_hits_with_exact_scores() {
    let image = Image::of_graphs();
    for (segment, (name, ..)) in GRAPHS.into_iter().enumerate() {
        let asked = Asked::of(&image.disk, name);
        let count = 118;
        let base = (192 + count * 4usize).next_multiple_of(64);
        let fill = |numbers: &mut [u8], number: &dyn Fn(usize) -> u32| {
            for (i, bytes) in numbers.chunks_exact_mut(4).enumerate() {
                bytes.copy_from_slice(&number(i).to_le_bytes());
            }
        };
        let (file, start, entry) = section(&image, segment, SectionKind::VectorGraph).unwrap();
        let address = (&*file, start + entry.offset.get(), start + entry.offset.get() + entry.length.get());
        let links: [(&str, &dyn Fn(usize) -> u32); 6] = [
            ("none", &|_| NO_LINK),
            ("all to node 0", &|_| 0),
            ("to the node after", &|i| ((i / 8 + 1) % 118) as u32),
            ("beyond the last node", &|i| 100 + (i % 60) as u32),
            ("as large as can be", &|_| u32::MAX - 1),
            ("in a circle of two", &|i| (i / 8 % 2) as u32),
        ];
        for (how, link) in links {
            let disk = image.with_section(segment, SectionKind::VectorGraph, |bytes| fill(&mut bytes[base..], link));
            MODES.into_iter().for_each(|mode| _ = asked.ask(&disk, mode, address, false, &format!("{name}: links {how}")));
        }
        let positions: [(&str, &dyn Fn(usize) -> u32); 3] =
            [("all 0", &|_| 0), ("beyond the last", &|i| i as u32 + 9), ("reversed", &|i| (117 - i) as u32)];
        for (how, position) in positions {
            let disk = image.with_section(segment, SectionKind::VectorGraph, |bytes| fill(&mut bytes[192..192 + count * 4], position));
            MODES.into_iter().for_each(|mode| _ = asked.ask(&disk, mode, address, false, &format!("{name}: positions {how}")));
        }
        let Some((file, start, entry)) = section(&image, segment, SectionKind::VectorCodes) else { continue };
        let address = (&*file, start + entry.offset.get(), start + entry.offset.get() + entry.length.get());
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let rows = image.with_section(segment, SectionKind::VectorCodes, |bytes| bytes[..count * 64].fill(byte));
            MODES.into_iter().for_each(|mode| _ = asked.ask(&rows, mode, address, false, &format!("{name}: rows of {byte:#x}")));
            let tail = image.with_section(segment, SectionKind::VectorCodes, |bytes| bytes[count * 64..].fill(byte));
            MODES.into_iter().for_each(|mode| _ = asked.ask(&tail, mode, address, false, &format!("{name}: a tail of {byte:#x}")));
        }
    }
}

#[test]
fn a_graph_or_codes_that_are_gone_cost_no_hit() {
    let image = Image::of_graphs();
    for (segment, (name, ..)) in GRAPHS.into_iter().enumerate() {
        let asked = Asked::of(&image.disk, name);
        for kind in [SectionKind::VectorGraph, SectionKind::VectorCodes] {
            if section(&image, segment, kind).is_none() {
                continue;
            }
            let disk = image.without_section(segment, kind);
            for mode in MODES {
                let answers = asked.ask(&disk, mode, ("", 0, 0), false, &format!("{name} without {}", kind.name()));
                assert_eq!(answers, asked.found.len());
            }
        }
    }
}

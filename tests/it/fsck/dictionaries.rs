//! Dictionaries that were changed behind checksums that fit: whoever asks gets an answer or damage with its address, and never a panic.

use super::image::{Image, options};
use std::sync::Arc;
use triune::format::segment::SectionKind;
use triune::format::transducer::masked_crc32c;
use triune::inspect::{FsckOptions, fsck_directory};
use triune::io::SimDirectory;
use triune::io::names::FileName;
use triune::{Database, Error, Filter, IoMode, Mode, Options, Result, Search};

const DICTIONARIES: [SectionKind; 3] = [SectionKind::Terms, SectionKind::Entities, SectionKind::MetadataTerms];

/// What a change does to an fst.
type Change<'a> = &'a dyn Fn(&mut [u8]);

/// How often something was refused, and how often it was answered.
#[derive(Default)]
struct Tally {
    refused: usize,
    answered: usize,
}

impl Tally {
    fn count<T>(&mut self, what: &str, file: &str, answer: Result<T>) {
        match answer {
            Ok(_) => self.answered += 1,
            Err(Error::Corrupt(damage)) => {
                assert_eq!(damage.file, file, "{what}: {damage}");
                self.refused += 1;
            }
            Err(e) => panic!("{what}: {e}"),
        }
    }
}

/// A copy with the fst of one dictionary changed, its own checksum mended when that is wanted, and every checksum above it.
fn forged(image: &Image, segment: usize, kind: SectionKind, change: Change<'_>, seal: bool) -> SimDirectory {
    let entries = image.sections(&image.segments()[segment]);
    let entry = entries.iter().find(|e| e.kind.get() == kind as u16).unwrap();
    let length = if kind == SectionKind::Terms { entry.aux.get() } else { entry.length.get() } as usize;
    image.with_section(segment, kind, |section| {
        let fst = &mut section[..length];
        change(fst);
        if seal {
            let (body, checksum) = fst.split_last_chunk_mut::<4>().unwrap();
            *checksum = masked_crc32c(body).to_le_bytes();
        }
    })
}

/// Asks for everything that goes through a dictionary.
fn ask(disk: &SimDirectory, io_mode: IoMode, what: &str, file: &str, tally: &mut Tally) {
    let db = Database::open_read_only_with(Arc::new(disk.clone()), Options { io_mode, ..options() });
    let db = db.unwrap_or_else(|e| panic!("{what}: opening reads no dictionary: {e}"));
    let main = db.snapshot().collection("main").unwrap();
    for (query, mode) in [("common number3 item41 tok absent", Mode::Text), ("Alpha Beta and E10 of Common Words", Mode::Graph)] {
        tally.count(what, file, main.search(&Search { query: Some(query.into()), mode, k: 50, ..Search::default() }));
    }
    for filter in [r#"{"tag":"t3","n":{"$gte":50}}"#, r#"{"deep.x":{"$in":["a",1]}}"#, r#"{"none":{"$exists":false}}"#] {
        tally.count(what, file, main.count_where(&Filter::parse(filter).unwrap()));
    }
    tally.count(what, file, main.entity("alpha beta"));
    tally.count(what, file, main.neighbours("E20"));
    tally.count(what, file, main.stats());
    tally.count(what, file, main.pagerank(&[]));
}

/// Merges what is there, which walks every dictionary, and checks what it was.
fn walk(disk: &SimDirectory, what: &str, file: &str, tally: &mut Tally) {
    fsck_directory(disk, &FsckOptions::level(3)).unwrap_or_else(|e| panic!("{what}: no verdict: {e}"));
    // A recovery looks up the terms of rows that died.
    let written = Database::open_with(Arc::new(disk.snapshot()), options());
    tally.count(what, file, written.and_then(|db| db.compact()));
}

/// Every dictionary of the segments of `main`, with its length.
fn dictionaries(image: &Image) -> Vec<(usize, SectionKind, String, usize)> {
    let mut all = Vec::new();
    for (i, segment) in image.manifest().collections[0].segments.iter().enumerate() {
        for entry in image.sections(segment) {
            if let Some(kind) = DICTIONARIES.into_iter().find(|kind| *kind as u16 == entry.kind.get()) {
                let length = if kind == SectionKind::Terms { entry.aux.get() } else { entry.length.get() };
                all.push((i, kind, FileName::Segments(segment.file).to_string(), length as usize));
            }
        }
    }
    all
}

#[test]
fn a_forged_dictionary_answers_or_is_damage_with_its_address() {
    let image = Image::of_rich();
    assert_eq!(image.manifest().collections[0].name, "main");
    let dictionaries = dictionaries(&image);
    assert!(dictionaries.len() >= 6, "{dictionaries:?}");
    let full = std::env::var("TRIUNE_SWEEP").is_ok_and(|v| v == "full");
    let (mut tally, mut cases) = (Tally::default(), 0usize);
    for (segment, kind, file, length) in dictionaries {
        let step = if full { 1 } else { length / 60 + 1 };
        let (header, footer) = (0..16, length - 20..length);
        // The last states written are the first ones that a walk comes to.
        let root = length.saturating_sub(if full { 20 } else { 60 })..length - 20;
        for at in header.chain((16..length).step_by(step)).chain(root).chain(footer) {
            let change =
                |fst: &mut [u8]| fst[at] = [fst[at] ^ 0x01, fst[at] ^ 0x80, 0xff, 0, fst[at].wrapping_add(1), 0x3f][(at + cases) % 6];
            let disk = forged(&image, segment, kind, &change, !cases.is_multiple_of(4));
            let what = format!("{} of segment {segment}, byte {at}", kind.name());
            let io_mode = if cases.is_multiple_of(3) { IoMode::Pread } else { IoMode::Mmap };
            ask(&disk, io_mode, &what, &file, &mut tally);
            if full || cases.is_multiple_of(16) {
                walk(&disk, &what, &file, &mut tally);
            }
            cases += 1;
        }
    }
    assert!(cases > 500 && tally.refused > 300 && tally.answered > 1000, "{cases}: {} refused, {} answered", tally.refused, tally.answered);
}

/// Whole stretches of one byte are chains of states: endless ones, if a reader let them be.
#[test]
fn a_dictionary_of_one_byte_ends_every_search() {
    let image = Image::of_rich();
    let (mut tally, mut cases) = (Tally::default(), 0usize);
    for (segment, kind, file, length) in dictionaries(&image) {
        for byte in [0x00, 0x01, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xbf, 0xc0, 0xc1, 0xff, 0x10, 0x11, 0x88] {
            for from in [16, length / 2, length - 40] {
                let disk = forged(&image, segment, kind, &|fst| fst[from..length - 20].fill(byte), true);
                let what = format!("{} of segment {segment}, {byte:#04x} from byte {from}", kind.name());
                ask(&disk, IoMode::Mmap, &what, &file, &mut tally);
                if cases.is_multiple_of(11) {
                    walk(&disk, &what, &file, &mut tally);
                }
                cases += 1;
            }
        }
    }
    assert!(tally.refused > 500, "{} refused, {} answered", tally.refused, tally.answered);
}

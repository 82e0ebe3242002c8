//! Vector graphs and their codes, forged: every checksum holds, and something in them is not what a writer makes.

use super::image::{GRAPHS, Image};
use super::structures::finds;
use super::{Code, check, codes};
use triune::format::segment::{SectionEntry, SectionKind};
use triune::format::vector_codes::{CodesShape, MetaPlace, row_meta, set_row_meta};
use triune::format::vector_graph::{GraphShape, NO_LINK, VectorGraphHeader};
use triune::inspect::Severity;
use triune::io::SimDirectory;
use zerocopy::{FromBytes, IntoBytes};

const GRAPH: SectionKind = SectionKind::VectorGraph;
const CODES: SectionKind = SectionKind::VectorCodes;

fn entry(image: &Image, segment: usize, kind: SectionKind) -> Option<SectionEntry> {
    image.sections(&image.segments()[segment]).into_iter().find(|e| e.kind.get() == kind as u16)
}

/// The shape that the header of a graph says.
fn shape_of(bytes: &[u8]) -> GraphShape {
    let header = VectorGraphHeader::ref_from_prefix(bytes).unwrap().0;
    let count = header.level_counts[0].get();
    GraphShape::decode(bytes, u64::from(count), 0, bytes.len() as u64, count).unwrap()
}

/// A copy in which the links of a segment's graph were edited as numbers.
fn with_links(
    image: &Image,
    segment: usize,
    edit: impl FnOnce(&GraphShape, &mut dyn FnMut(u64) -> u32, &mut Vec<(u64, u32)>),
) -> SimDirectory {
    image.with_section(segment, GRAPH, |bytes| {
        let shape = shape_of(bytes);
        let mut edits = Vec::new();
        let mut read = |at: u64| u32::from_le_bytes(bytes[at as usize..at as usize + 4].try_into().unwrap());
        edit(&shape, &mut read, &mut edits);
        edits.iter().for_each(|(at, number)| bytes[*at as usize..*at as usize + 4].copy_from_slice(&number.to_le_bytes()));
    })
}

/// Where the row of a node on a level starts.
fn row_of(shape: &GraphShape, level: usize, node: u32) -> u64 {
    shape.level_offset(level) + u64::from(node) * shape.row_bytes(level) as u64
}

fn with_header(image: &Image, edit: impl FnOnce(&mut VectorGraphHeader)) -> SimDirectory {
    image.with_section(0, GRAPH, |bytes| {
        let mut header = VectorGraphHeader::read_from_prefix(bytes).unwrap().0;
        edit(&mut header);
        bytes[..192].copy_from_slice(header.as_bytes());
    })
}

#[test]
fn the_graphs_have_levels_links_that_end_and_measurements() {
    let image = Image::of_graphs();
    for (segment, (name, ..)) in GRAPHS.iter().enumerate() {
        assert!(entry(&image, segment, GRAPH).is_some(), "{name}");
        assert_eq!(entry(&image, segment, CODES).is_some(), *name != "plain");
        let disk = with_links(&image, segment, |shape, read, _| {
            assert!(shape.level_counts.len() > 1 && shape.sample > 5 && shape.measured[4].recall > 0.8, "{shape:?}");
            let first = (0..shape.count()).find(|&node| read(shape.base_offset() + u64::from(node + 1) * 32 - 4) == NO_LINK);
            assert!(first.is_some(), "{name}: a row that is not full");
        });
        assert!(check(&disk, 3).is_clean());
    }
}

#[test]
fn a_header_that_lies_is_found() {
    let image = Image::of_graphs();
    let finds_it = |edit: &dyn Fn(&mut VectorGraphHeader)| finds(&with_header(&image, edit), 2, Code::VectorGraph);
    finds_it(&|h| h.layout.set(2));
    finds_it(&|h| h.m.set(1));
    finds_it(&|h| h.m.set(5));
    finds_it(&|h| h.levels.set(0));
    finds_it(&|h| h.levels.set(u32::MAX));
    finds_it(&|h| h.level_counts[0].set(u32::MAX));
    finds_it(&|h| h.level_counts.iter_mut().take(2).for_each(|count| count.set(u32::MAX)));
    finds_it(&|h| h.level_counts[1].set(0));
    finds_it(&|h| h.recall[9].set(10_001));
    finds_it(&|h| h.reserved[51] = 1);
    // Nothing was measured: there is nothing to hold against it.
    assert!(check(&with_header(&image, |h| h.sample.set(0)), 3).is_clean());
}

/// Sections as large as the file, which claim billions of nodes, are refused before anything is made for them.
#[test]
fn more_nodes_than_vectors_are_refused_whatever_header_and_table_say() {
    let image = Image::of_graphs();
    for (items, length) in [(u64::from(u32::MAX), None), (u64::from(u32::MAX), Some(0)), (1 << 40, None), (0, Some(192))] {
        let disk = image.with_segment(0, |bytes, table| {
            let entry = table.iter_mut().find(|e| e.kind.get() == GRAPH as u16).unwrap();
            entry.items.set(items);
            if let Some(length) = length {
                entry.length.set(length);
            }
            let at = entry.offset.get() as usize + 16;
            bytes[at..at + 4].copy_from_slice(&(items as u32).to_le_bytes());
        });
        let report = check(&disk, 3);
        assert!(codes(&report).contains(&Code::VectorGraph), "{items}, {length:?}: {:#?}", report.findings);
        assert_eq!(report.worst(), Some(Severity::Derived), "{:#?}", report.findings);
    }
}

#[test]
fn positions_that_are_no_permutation_are_found() {
    let image = Image::of_graphs();
    let finds_it = |at: u64, number: u32| {
        let disk = with_links(&image, 0, |_, _, edits| edits.push((at, number)));
        finds(&disk, 2, Code::VectorGraph);
    };
    finds_it(192, u32::MAX);
    finds_it(196, 119);
    let twice = with_links(&image, 0, |_, read, edits| edits.push((192, read(196))));
    finds(&twice, 2, Code::VectorGraph);
    let padding = with_links(&image, 0, |shape, _, edits| {
        let at = shape.base_offset() - 4;
        assert!(at >= 192 + u64::from(shape.count()) * 4, "there is padding");
        edits.push((at, 1));
    });
    finds(&padding, 2, Code::VectorGraph);
    // Of two nodes that exchange their vectors only the vectors tell.
    let exchanged = with_links(&image, 1, |_, read, edits| edits.extend([(192, read(220)), (220, read(192))]));
    finds(&exchanged, 3, Code::VectorCodes);
}

#[test]
fn links_that_no_writer_makes_are_found() {
    let image = Image::of_graphs();
    for level in 0..2 {
        // Node 2 links to no node, to itself, to nothing and then to something.
        for link in [118, u32::MAX - 1, 2, NO_LINK] {
            let disk = with_links(&image, 0, |shape, _, edits| edits.push((row_of(shape, level, 2), link)));
            finds(&disk, 2, Code::VectorGraph);
        }
        let twice = with_links(&image, 0, |shape, read, edits| {
            let row = row_of(shape, level, 2);
            edits.push((row + 4, read(row)));
        });
        finds(&twice, 2, Code::VectorGraph);
        let beyond_the_level = with_links(&image, 0, |shape, _, edits| edits.push((row_of(shape, level, 2), shape.level_counts[level])));
        finds(&beyond_the_level, 2, Code::VectorGraph);
    }
}

#[test]
fn a_node_that_no_link_leads_to_is_found() {
    let image = Image::of_graphs();
    let disk = with_links(&image, 0, |shape, read, edits| {
        // No row of level 0 leads to the last node any more; what stands behind the link moves up.
        let (last, links) = (shape.count() - 1, 2 * shape.m as u64);
        for row in (0..u64::from(shape.count())).map(|node| shape.base_offset() + node * links * 4) {
            let kept: Vec<u32> = (0..links).map(|i| read(row + i * 4)).filter(|&link| link != last).collect();
            edits.extend((0..links).map(|i| (row + i * 4, kept.get(i as usize).copied().unwrap_or(NO_LINK))));
        }
    });
    finds(&disk, 2, Code::VectorGraph);
}

/// A ring of valid links: every node is reached, and a walk finds hardly anything.
#[test]
fn links_that_lead_nowhere_near_are_found_by_walking() {
    let image = Image::of_graphs();
    for segment in 0..GRAPHS.len() {
        let disk = with_links(&image, segment, |shape, _, edits| {
            for (level, &nodes) in shape.level_counts.iter().enumerate() {
                for node in 0..nodes {
                    let row = shape.level_offset(level) + u64::from(node) * shape.row_bytes(level) as u64;
                    edits.extend((0..shape.row_bytes(level) as u64 / 4).map(|i| (row + i * 4, NO_LINK)));
                    if nodes > 1 {
                        edits.push((row, (node + 1) % nodes));
                    }
                }
            }
        });
        finds(&disk, 3, Code::VectorRecall);
    }
}

#[test]
fn codes_that_no_writer_makes_are_found() {
    let image = Image::of_graphs();
    let finds_it = |at: usize, byte: u8| {
        let disk = image.with_section(0, CODES, |bytes| bytes[at] = byte);
        finds(&disk, 2, Code::VectorGraph);
    };
    finds_it(0, 0);
    finds_it(64 + 4, 128);
    finds_it(64 + 5, 1);
    finds_it(64 + 55, 255);
    for (scale, bias) in [(0.0, 0.0), (-1.0, 0.0), (f32::NAN, 0.0), (1.0, f32::INFINITY)] {
        finds(&image.with_section(0, CODES, |bytes| set_row_meta(&mut bytes[..64], scale, bias)), 2, Code::VectorGraph);
    }
    let tail = |number: &[u8], at: usize| {
        image.with_section(0, CODES, |bytes| {
            let from = bytes.len() - 28 + at;
            bytes[from..from + number.len()].copy_from_slice(number);
        })
    };
    finds(&tail(&0f64.to_le_bytes(), 0), 2, Code::VectorGraph);
    finds(&tail(&f64::NAN.to_le_bytes(), 0), 2, Code::VectorGraph);
    finds(&tail(&f32::NAN.to_le_bytes(), 24), 2, Code::VectorGraph);
}

#[test]
fn codes_of_other_vectors_are_found() {
    let image = Image::of_graphs();
    for (segment, (name, ..)) in GRAPHS.into_iter().enumerate().take(3) {
        let dimension = if name == "dot" { 6 } else { 5 };
        let tail = |bytes: &[u8]| bytes.len() - 8 - 4 * dimension;
        assert_eq!(CodesShape::new(3, dimension as u32).stride, 64);
        let changed = |edit: &dyn Fn(&mut [u8])| finds(&image.with_section(segment, CODES, edit), 3, Code::VectorCodes);
        changed(&|bytes| bytes[64] = if bytes[64] > 64 { bytes[64] - 2 } else { bytes[64] + 2 });
        changed(&|bytes| bytes.copy_within(128..192, 64));
        changed(&|bytes| {
            let (scale, bias) = row_meta(&bytes[..64]);
            set_row_meta(&mut bytes[..64], scale, bias + 0.01);
        });
        changed(&|bytes| {
            let (scale, bias) = row_meta(&bytes[..64]);
            set_row_meta(&mut bytes[..64], scale * 1.001, bias);
        });
        changed(&|bytes| {
            let at = tail(bytes);
            bytes[at..at + 8].copy_from_slice(&1.5f64.to_le_bytes());
        });
    }
}

/// In the last bytes of a row or after all rows, as writers of now and of before lay them out.
#[test]
fn codes_scales_and_biases_are_checked_wherever_they_stand() {
    let mut places = Vec::new();
    for (image, segment) in ["wide-codes", "wide-codes-earlier"].map(Image::of_fixture).iter().flat_map(|image| [(image, 0), (image, 1)]) {
        let e = entry(image, segment, CODES).unwrap();
        let shape = CodesShape::of_table(e.items.get(), e.aux.get(), e.length.get()).unwrap();
        places.push((shape.dimension, shape.stride, shape.meta));
        let (row, meta) = (9 * shape.stride, shape.meta_offset(9) as usize);
        let at = |from: usize, bytes: &[u8]| {
            image.with_section(segment, CODES, |section| section[from..from + bytes.len()].copy_from_slice(bytes))
        };
        finds(&at(row + shape.dimension as usize - 1, &[0]), 2, Code::VectorGraph);
        finds(&at(meta, &0f32.to_le_bytes()), 2, Code::VectorGraph);
        finds(&at(meta + 4, &f32::NAN.to_le_bytes()), 2, Code::VectorGraph);
        finds(&at(meta, &3f32.to_le_bytes()), 3, Code::VectorCodes);
        finds(&at(meta + 4, &3f32.to_le_bytes()), 3, Code::VectorCodes);
        finds(
            &image.with_section(segment, CODES, |section| section.copy_within(row..row + shape.dimension as usize, row + shape.stride)),
            3,
            Code::VectorCodes,
        );
        if shape.codes_bytes() > shape.dimension as usize {
            finds(&at(row + shape.codes_bytes() - 1, &[1]), 2, Code::VectorGraph);
        }
    }
    places.sort_by_key(|place| (place.0, place.1));
    let [inside, after] = [MetaPlace::Inside, MetaPlace::After];
    assert_eq!(places, [(64, 64, after), (64, 128, inside), (100, 128, inside), (100, 192, inside)]);
}

#[test]
fn one_of_the_two_sections_without_the_other_is_found() {
    let image = Image::of_graphs();
    finds(&image.without_section(0, GRAPH), 2, Code::VectorGraph);
    finds(&image.without_section(0, CODES), 2, Code::VectorGraph);
    // Without codes that nobody asked for it is whole; without a graph vectors are scanned.
    let plain = image.without_section(3, GRAPH);
    assert!(check(&plain, 3).is_clean(), "{:#?}", check(&plain, 3).findings);
    let unasked = image.with_manifest(|m| m.collections[0].schema.hnsw.quantisation = triune::Quantisation::None);
    assert_eq!(codes(&check(&unasked, 2)), [Code::VectorGraph]);
}

/// A byte that changed anywhere, its checksums mended, is found unless it says what a writer might have said: a link to another node, or what
/// was measured.
#[test]
fn a_changed_byte_is_found_where_it_cannot_be_what_a_writer_means() {
    let image = Image::of_graphs();
    let (mut found, mut passed) = (0, 0);
    for (segment, (name, ..)) in GRAPHS.into_iter().enumerate() {
        for kind in [GRAPH, CODES] {
            let Some(entry) = entry(&image, segment, kind) else { continue };
            let length = entry.length.get() as usize;
            for at in (0..length).step_by(31) {
                let mut may_pass = false;
                let disk = image.with_section(segment, kind, |bytes| {
                    let measured = (4..8).contains(&at) || (12..16).contains(&at) || (80..140).contains(&at);
                    // Without codes no vector is known to be another's.
                    let pairing = name == "plain" && (192..).contains(&at);
                    let link = || at >= shape_of(bytes).base_offset() as usize;
                    // The low bits of a number are below what rounding may change.
                    let low = kind == CODES && (at.is_multiple_of(4) || at + 28 >= length);
                    may_pass = if kind == GRAPH { measured || pairing || link() } else { low };
                    bytes[at] ^= 1 << (at % 8);
                });
                let report = check(&disk, 3);
                assert!(may_pass || !report.is_clean(), "{kind:?}, byte {at} of {length}, segment {segment}");
                assert!(report.worst().is_none_or(|worst| worst == Severity::Derived), "{:#?}", report.findings);
                *(if report.is_clean() { &mut passed } else { &mut found }) += 1;
            }
        }
    }
    assert!(found > passed && found > 400, "{found} found, {passed} passed");
}

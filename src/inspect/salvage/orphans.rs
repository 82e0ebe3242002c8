//! Finds segments in their files when no manifest is left to say where they are, and says which parts of those files are none that can be
//! proved: documents may have stood there.

use super::ledger::{Loss, LossKind};
use super::log::Record;
use crate::docstore::salvage::tolerated;
use crate::error::{Error, Result};
use crate::format::manifest::{Manifest, SegmentEntry};
use crate::format::segment::{BLOCK_BYTES, FOOTER_MAGIC, SectionKind, SegmentFooter, SegmentHeader};
use crate::ids::{Lsn, Seq};
use crate::io::names::FileName;
use crate::io::{Directory, File};
use crate::segment::SegmentReader;
use std::collections::BTreeMap;
use std::sync::Arc;

const FRAME_BYTES: u64 = 64;
const BLOCK: u64 = BLOCK_BYTES as u64;
/// Bytes that are looked through at once.
const PIECE_BYTES: u64 = 1 << 20;

/// A segment, and its place among those of its file.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) entry: SegmentEntry,
    pub(super) index: usize,
}

/// What starts at a block of a file.
enum Part {
    Segment(SegmentEntry),
    /// A segment of this length, nothing of which can be read.
    Lost(u64, Error),
    /// Nothing whose end is known. Whether it is the start of a segment, and what is wrong.
    Unknown(bool, String),
}

/// Segments that a record or the manifest names, by file and offset, with their lengths: those come with it.
type Named = BTreeMap<u64, BTreeMap<u64, u64>>;

/// Every segment that can be proved and that neither the manifest nor a record names. Every other part of a file of segments goes to the ledger:
/// without a manifest that is the right one nobody can tell what was never finished from what was damaged.
pub(super) fn find(
    dir: &dyn Directory,
    present: &[String],
    manifest: &Manifest,
    records: &BTreeMap<Lsn, Record>,
    ledger: &mut Vec<Loss>,
) -> Result<Vec<Orphan>> {
    let mut named = Named::new();
    let landed = records.values().flat_map(|r| &r.effects.collections).flat_map(|c| &c.landed);
    for entry in landed.chain(manifest.collections.iter().flat_map(|c| &c.segments)) {
        named.entry(entry.file).or_default().insert(entry.offset, entry.length);
    }
    let mut files: Vec<u64> = present.iter().filter_map(|name| number_of(name)).collect();
    files.sort_unstable();
    let mut found = Vec::new();
    for number in files {
        let name = FileName::Segments(number).to_string();
        let named = named.remove(&number).unwrap_or_default();
        let searched = Searched::open(dir, number, &name).and_then(|file| file.search(&named, &mut found, ledger));
        if let Err(e) = tolerated(searched)? {
            ledger.push(Loss::of(LossKind::Documents, &e).place(&name, 0, None));
        }
    }
    Ok(found)
}

fn number_of(name: &str) -> Option<u64> {
    match FileName::parse(name) {
        Some(FileName::Segments(number)) => Some(number),
        _ => None,
    }
}

/// A file that is searched.
struct Searched<'a> {
    file: Arc<dyn File>,
    number: u64,
    name: &'a str,
    length: u64,
    /// Every footer in it that passes its checksum, by where its segment would start.
    footers: BTreeMap<u64, Vec<SegmentFooter>>,
}

impl<'a> Searched<'a> {
    fn open(dir: &dyn Directory, number: u64, name: &'a str) -> Result<Searched<'a>> {
        let failed = |e| Error::io(format!("reading {name}"), e);
        let file = dir.open(name).map_err(failed)?;
        let length = file.len().map_err(failed)?;
        let footers = footers(&file, length);
        Ok(Searched { file, number, name, length, footers })
    }

    /// Goes through the file from block to block: segments to `found`, what is none to the ledger.
    fn search(&self, named: &BTreeMap<u64, u64>, found: &mut Vec<Orphan>, ledger: &mut Vec<Loss>) -> Result<()> {
        let (mut at, mut index) = (0, 0);
        let mut unknown: Option<(u64, String)> = None;
        let say = |ledger: &mut Vec<Loss>, part: Option<(u64, String)>, end: u64| {
            ledger.extend(part.map(|(from, why)| Loss::new(LossKind::Documents, why).place(self.name, from, Some(end - from))));
        };
        while at < self.length {
            let part = if named.contains_key(&at) { None } else { Some(self.part_at(at)?) };
            let bytes = match part {
                Some(Part::Unknown(starts, why)) => {
                    if starts {
                        say(ledger, unknown.take(), at);
                    }
                    unknown.get_or_insert((at, why));
                    at += BLOCK;
                    continue;
                }
                None => named[&at],
                Some(Part::Lost(bytes, ref e)) => {
                    say(ledger, unknown.take(), at);
                    ledger.push(Loss::of(LossKind::Documents, e).place(self.name, at, Some(bytes)));
                    bytes
                }
                Some(Part::Segment(entry)) => {
                    let bytes = entry.length;
                    found.push(Orphan { entry, index });
                    index += 1;
                    bytes
                }
            };
            say(ledger, unknown.take(), at);
            at = at.saturating_add(bytes.max(1)).checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
        }
        if self.length == 0 {
            unknown = Some((0, "the file is empty: no manifest says whether documents were in it".into()));
        }
        say(ledger, unknown, self.length);
        Ok(())
    }

    /// What starts at `start`. An error when only a newer version can say.
    fn part_at(&self, start: u64) -> Result<Part> {
        let header = match read(&self.file, start, FRAME_BYTES.min(self.length - start)).map(|bytes| SegmentHeader::decode(&bytes)) {
            Some(Ok(header)) => Ok(header),
            Some(Err(e)) if e.newer => return Err(e.in_file(self.name, start)),
            Some(Err(e)) => Err(e.what),
            None => Err("these bytes cannot be read".into()),
        };
        // A footer proves itself, so that a damaged header costs nothing; an intact one is that of its own footer.
        let fits = |footer: &&SegmentFooter| header.as_ref().map_or(true, |header| footer.header_crc == header.crc);
        let mut lost = None;
        for footer in self.footers.get(&start).into_iter().flatten().filter(fits) {
            match tolerated(self.entry(start, footer))? {
                Ok(entry) => return Ok(Part::Segment(entry)),
                Err(e) => drop(lost.get_or_insert(Part::Lost(footer.length.get(), e))),
            }
        }
        Ok(lost.unwrap_or_else(|| match header {
            Ok(_) => {
                Part::Unknown(true, "a segment starts here, and nothing in the file ends it: it is damaged, or was never finished".into())
            }
            Err(why) => Part::Unknown(false, format!("no segment that can be proved is here, and no manifest says whether one was: {why}")),
        }))
    }

    /// What a manifest would have said of the segment, as far as the segment says it itself. Seqs count from its own first.
    fn entry(&self, offset: u64, footer: &SegmentFooter) -> Result<SegmentEntry> {
        let (length, crc) = (footer.length.get(), footer.crc.get());
        let segment = SegmentReader::open_damaged(self.file.clone(), self.name, offset, length, crc)?;
        let items = |kind| segment.section(kind).map_or(0, |section| section.items());
        Ok(SegmentEntry {
            file: self.number,
            offset,
            length,
            crc,
            base_seq: Seq(1),
            last_seq: Seq(u64::MAX),
            rows: items(SectionKind::Ids),
            vectors: items(SectionKind::Vectors),
            tokens: 0,
            content_hash: 0,
            tombstones: None,
            unknown: Default::default(),
        })
    }
}

fn read(file: &Arc<dyn File>, at: u64, bytes: u64) -> Option<Vec<u8>> {
    let mut buffer = vec![0; bytes as usize];
    file.read_exact_at(at, &mut buffer).ok().map(|()| buffer)
}

/// Every footer of a file that passes its checksum and ends a segment that starts at a block, by that start.
fn footers(file: &Arc<dyn File>, length: u64) -> BTreeMap<u64, Vec<SegmentFooter>> {
    let mut footers: BTreeMap<u64, Vec<SegmentFooter>> = BTreeMap::new();
    let mut look = |at: u64, piece: &[u8]| {
        for (i, bytes) in piece.chunks_exact(FRAME_BYTES as usize).enumerate().filter(|(_, bytes)| bytes.starts_with(&FOOTER_MAGIC)) {
            let end = at + (i as u64 + 1) * FRAME_BYTES;
            let Ok(footer) = SegmentFooter::decode(bytes) else { continue };
            let start = end.checked_sub(footer.length.get()).filter(|start| start.is_multiple_of(BLOCK) && end - start >= 2 * FRAME_BYTES);
            if let Some(start) = start {
                footers.entry(start).or_default().push(footer);
            }
        }
    };
    let mut at = 0;
    while at < length {
        let end = length.min(at + PIECE_BYTES);
        match read(file, at, end - at) {
            Some(piece) => look(at, &piece),
            // One block that cannot be read must not hide what stands beside it.
            None => (at..end).step_by(BLOCK_BYTES).for_each(|block| {
                if let Some(piece) = read(file, block, BLOCK.min(end - block)) {
                    look(block, &piece);
                }
            }),
        }
        at = end;
    }
    footers
}

//! Writes the live rows of a merge's inputs into one segment, reads it back, and holds it against them, document by document.

use super::files::NewFile;
use super::flush::{DerivedBuilder, fill, new_entry};
use super::graphs;
use super::merge::{Plan, Workshop};
use super::segments::{SegmentFile, SegmentHandle};
use crate::docstore::{RowsBuilder, content_hash};
use crate::error::{Error, Result};
use crate::format::manifest::SegmentEntry;
use crate::ids::Lsn;
use crate::io::names::FileName;
use crate::progress::Progress;
use crate::segment::SegmentWriter;
use crate::text::{Analyzer, DROPPED, TextReader, merge_text};
use crate::vector::VectorsBuilder;
use std::sync::Arc;

/// So many rows are written between two reports of progress.
const TOLD_ROWS: u32 = 4096;

/// What a plan's inputs became.
pub(crate) struct Rewritten {
    pub(crate) plan: Plan,
    /// The segment that holds their live rows; `None` when no row lives.
    pub(crate) handle: Option<Arc<SegmentHandle>>,
    /// For each input, the new row of each old one.
    pub(crate) row_maps: Vec<Vec<u32>>,
}

/// Writes one segment after another into the file of a pass, which is made when the first row is to be written.
pub(crate) struct Rewriter<'a> {
    shop: Workshop<'a>,
    file: Option<NewFile>,
    /// Segments in the file, and where the last one ends.
    segments: u32,
    end: u64,
    written: Vec<(Plan, Vec<Vec<u32>>, Option<SegmentEntry>)>,
}

impl<'a> Rewriter<'a> {
    pub(crate) fn new(shop: Workshop<'a>) -> Rewriter<'a> {
        Rewriter { shop, file: None, segments: 0, end: 0, written: Vec::new() }
    }

    /// Writes the live rows of a plan's inputs. After an error the next plan's segment takes the same place.
    pub(crate) fn write(&mut self, plan: &Plan) -> Result<()> {
        let mut row_maps = Vec::with_capacity(plan.inputs.len());
        let mut next = 0u32;
        for input in &plan.inputs {
            let rooms = input.rooms()?;
            let map: Vec<u32> = (0..input.rows())
                .map(|row| {
                    let lives = rooms.deaths.lives(row, plan.lsn);
                    next += u32::from(lives);
                    if lives { next - 1 } else { DROPPED }
                })
                .collect();
            row_maps.push(map);
        }
        if next == 0 {
            self.written.push((plan.clone(), row_maps, None));
            return Ok(());
        }
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(self.shop.files.create(FileName::Segments)?),
        };
        let mut out = SegmentWriter::new(file.handle().clone(), file.name(), self.shop.database, file.number(), self.segments, self.end);
        let mut entry = fill_segment(self.shop, &mut out, plan, &row_maps, next)?;
        fill(&mut entry, file.number(), out.finish()?);
        self.segments += 1;
        self.end = (entry.offset + entry.length).next_multiple_of(4096);
        self.written.push((plan.clone(), row_maps, Some(entry)));
        Ok(())
    }

    /// Syncs the file, reads it back and holds every segment against its inputs.
    pub(crate) fn finish(&mut self) -> Result<Vec<Rewritten>> {
        let open = match &self.file {
            Some(file) if self.segments > 0 => {
                // A plan that failed may have left bytes behind the last segment.
                let last = self.written.iter().filter_map(|(_, _, e)| e.as_ref()).next_back();
                let end = last.map_or(0, |e| e.offset + e.length);
                file.handle().set_len(end).map_err(|e| Error::io(format!("cutting {}", file.name()), e))?;
                file.sync()?;
                Some(SegmentFile::open(self.shop.dir, file.number(), self.shop.options.io_mode)?)
            }
            _ => None,
        };
        let mut done = Vec::with_capacity(self.written.len());
        for (plan, row_maps, entry) in self.written.drain(..) {
            let handle = match (entry, &open) {
                (Some(entry), Some(open)) => {
                    let handle = SegmentHandle::new(self.shop.database, open.clone(), None, entry, Lsn(0), plan.lsn);
                    check_conserved(&handle)?;
                    Some(handle)
                }
                _ => None,
            };
            done.push(Rewritten { plan, handle, row_maps });
        }
        Ok(done)
    }

    /// The file, if one was made: to be discarded when nothing names it.
    pub(crate) fn into_file(self) -> Option<NewFile> {
        self.file
    }
}

fn fill_segment(shop: Workshop<'_>, out: &mut SegmentWriter, plan: &Plan, row_maps: &[Vec<u32>], rows: u32) -> Result<SegmentEntry> {
    let (mut entry, derived) = merge_rows(shop, out, plan, rows)?;
    merge_vectors(out, plan, row_maps, rows, &mut entry)?;
    graphs::write_merged(shop, out, plan, row_maps, &entry)?;
    let mut lengths = Vec::with_capacity(rows as usize);
    let mut texts: Vec<(&TextReader, &[u32])> = Vec::new();
    for (input, map) in plan.inputs.iter().zip(row_maps) {
        let text = input.rooms()?.text.as_ref();
        for row in (0..input.rows()).filter(|&r| map[r as usize] != DROPPED) {
            lengths.push(text.map_or(Ok(0), |t| t.length(row))?);
        }
        texts.extend(text.map(|t| (t, map.as_slice())));
    }
    entry.tokens = lengths.iter().map(|&l| u64::from(l)).sum();
    merge_text(&texts, &Analyzer::new(plan.info.schema.analyzer), lengths, out)?;
    derived.finish(out)?;
    Ok(entry)
}

fn merge_rows(shop: Workshop<'_>, out: &mut SegmentWriter, plan: &Plan, rows: u32) -> Result<(SegmentEntry, DerivedBuilder)> {
    let mut entry: Option<SegmentEntry> = None;
    let (mut derived, mut new_row) = (DerivedBuilder::new(plan.info.schema.derivation()), 0);
    let mut documents = RowsBuilder::begin(out)?;
    for input in &plan.inputs {
        let rooms = input.rooms()?;
        let mut scanner = rooms.rows.scanner();
        for row in (0..input.rows()).filter(|&r| rooms.deaths.lives(r, plan.lsn)) {
            shop.check_stop()?;
            if new_row % TOLD_ROWS == 0 {
                shop.options.tell(Progress::Rewritten { done: u64::from(new_row), of: u64::from(rows) });
            }
            let seq = rooms.rows.seq_after(row, entry.as_ref().filter(|_| new_row > 0).map(|e| e.last_seq))?;
            let entry = entry.get_or_insert_with(|| new_entry(seq, seq, u64::from(rows)));
            let mut document = scanner.document(row)?;
            documents.push(out, seq.0 - entry.base_seq.0, &document)?;
            derived.add(new_row, &document)?;
            new_row += 1;
            if let Some(vectors) = &rooms.vectors {
                document.vector = vectors.get(row)?.map(|v| v.into_owned().into());
            }
            entry.content_hash = entry.content_hash.wrapping_add(content_hash(&document));
            entry.last_seq = seq;
        }
    }
    documents.finish(out)?;
    Ok((entry.expect("a row lives"), derived))
}

/// Conservation: what was written, read back, is what was read. Counts, and the sum of every document's hash.
fn check_conserved(handle: &SegmentHandle) -> Result<()> {
    let rooms = handle.rooms()?;
    let mut hash = 0u64;
    let mut scanner = rooms.rows.scanner();
    for row in 0..handle.rows() {
        let mut document = scanner.document(row)?;
        if let Some(vectors) = &rooms.vectors {
            document.vector = vectors.get(row)?.map(|v| v.into_owned().into());
        }
        hash = hash.wrapping_add(content_hash(&document));
    }
    let tokens = rooms.text.as_ref().map_or(0, TextReader::tokens);
    if hash != handle.entry.content_hash || tokens != handle.entry.tokens {
        return Err(Error::corrupt(
            FileName::Segments(handle.entry.file).to_string(),
            0,
            format!(
                "a merged segment holds hash {hash:#x} and {tokens} tokens, its inputs {:#x} and {}; the merge was not published",
                handle.entry.content_hash, handle.entry.tokens
            ),
        ));
    }
    Ok(())
}

fn merge_vectors(out: &mut SegmentWriter, plan: &Plan, row_maps: &[Vec<u32>], rows: u32, entry: &mut SegmentEntry) -> Result<()> {
    let mut builder: Option<VectorsBuilder> = None;
    for (input, map) in plan.inputs.iter().zip(row_maps) {
        let Some(vectors) = &input.rooms()?.vectors else { continue };
        vectors.for_each(|row, vector| {
            let new = map.get(row as usize).copied().unwrap_or(DROPPED);
            if new == DROPPED {
                return Ok(());
            }
            if builder.is_none() {
                builder = Some(VectorsBuilder::begin(out, vectors.dimension())?);
            }
            entry.vectors += 1;
            builder.as_mut().expect("was set above").push(out, new, vector)
        })?;
    }
    builder.map_or(Ok(()), |b| b.finish(out, rows))
}

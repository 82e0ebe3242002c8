//! Merges adjacent segments of a collection into one, dropping dead rows.
//!
//! A merge drops exactly the rows that had died by the `applied_lsn` of the manifest it started from. Later deaths are carried: those up to
//! the `applied_lsn` it is published with become the new segment's tombstones, the rest go on living in memory. Before a merge is published
//! its output is read back and held against its inputs, document by document.

use super::checkpoint::{Tombstones, same_place};
use super::core::Core;
use super::files::NewFile;
use super::flush::{DerivedBuilder, fill, new_entry};
use super::segments::{SegmentFile, SegmentHandle};
use super::version::{CollectionInfo, CollectionSegments, Version};
use crate::docstore::{RowsBuilder, content_hash};
use crate::error::{Error, Result};
use crate::format::manifest::{Manifest, SegmentEntry};
use crate::ids::{Generation, Incarnation, Lsn};
use crate::io::names::FileName;
use crate::memtable::deaths::ALIVE;
use crate::segment::SegmentWriter;
use crate::text::{Analyzer, DROPPED, TextReader, merge_text};
use crate::vector::VectorsBuilder;
use std::sync::Arc;

/// What is to be merged.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) incarnation: Incarnation,
    pub(crate) info: CollectionInfo,
    /// Adjacent segments, all of them named by the manifest, oldest first.
    pub(crate) inputs: Vec<Arc<SegmentHandle>>,
    /// Rows that died by this lsn are dropped.
    pub(crate) lsn: Lsn,
}

/// A merged segment that nothing names yet.
struct Merged {
    file: NewFile,
    handle: Arc<SegmentHandle>,
    /// For each input, the new row of each old one.
    row_maps: Vec<Vec<u32>>,
}

impl Core {
    /// Carries out a plan. Returns false when the inputs were gone by the time it was done: somebody dropped the collection.
    pub(crate) fn merge(&self, plan: &Plan) -> Result<bool> {
        {
            let mut w = self.writer.lock();
            self.writable(&w)?;
            self.settle(&mut w)?;
        }
        let merged = self.write_merged(plan)?;
        let _maintenance = self.maintenance.lock();
        let version = {
            let w = self.writer.lock();
            if let Err(e) = self.writable(&w) {
                // A commit failed meanwhile: a writer that stopped publishes nothing and deletes nothing but what nobody ever named.
                drop(w);
                merged.into_iter().for_each(|m| self.files.discard(m.file));
                return Err(e);
            }
            w.version.clone()
        };
        let Some(at) = find_inputs(&version, plan) else {
            merged.into_iter().for_each(|m| self.files.discard(m.file));
            return Ok(false);
        };
        let mut manifest = Manifest::clone(&version.manifest);
        if let Err(e) = self.rewrite_entry(&mut manifest, plan, at, merged.as_ref()) {
            merged.into_iter().for_each(|m| self.files.discard(m.file));
            return Err(e);
        }
        let generation = match self.publish_manifest(&manifest, None) {
            Ok(generation) => generation,
            Err(Error::OutcomeUnknown(why)) => return Err(self.writer.lock().poison(why)),
            Err(e) => {
                merged.into_iter().for_each(|m| self.files.discard(m.file));
                return Err(e);
            }
        };
        self.follow(plan, merged, manifest, generation)?;
        self.collect_garbage()?;
        Ok(true)
    }

    /// Writes the live rows of the inputs into one segment, syncs it and holds it against them. `None` when no row lives.
    fn write_merged(&self, plan: &Plan) -> Result<Option<Merged>> {
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
            return Ok(None);
        }
        let file = self.files.create(FileName::Segments)?;
        match self.fill_merged(&file, plan, &row_maps, next) {
            Ok(handle) => Ok(Some(Merged { file, handle, row_maps })),
            Err(e) => {
                self.files.discard(file);
                Err(e)
            }
        }
    }

    fn fill_merged(&self, file: &NewFile, plan: &Plan, row_maps: &[Vec<u32>], rows: u32) -> Result<Arc<SegmentHandle>> {
        let mut out = SegmentWriter::new(file.handle().clone(), file.name(), self.database, file.number(), 0, 0);
        let (mut entry, derived) = self.merge_rows(&mut out, plan, rows)?;
        merge_vectors(&mut out, plan, row_maps, rows, &mut entry)?;
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
        merge_text(&texts, &Analyzer::new(plan.info.schema.analyzer), lengths, &mut out)?;
        derived.finish(&mut out)?;
        fill(&mut entry, file.number(), out.finish()?);
        file.sync()?;
        let open = SegmentFile::open(self.dir.as_ref(), file.number(), self.options.io_mode)?;
        let handle = SegmentHandle::new(self.dir.as_ref(), self.database, open, entry, Lsn(0), plan.lsn)?;
        self.check_conserved(&handle)?;
        Ok(handle)
    }

    fn merge_rows(&self, out: &mut SegmentWriter, plan: &Plan, rows: u32) -> Result<(SegmentEntry, DerivedBuilder)> {
        let mut entry: Option<SegmentEntry> = None;
        let (mut derived, mut new_row) = (DerivedBuilder::new(plan.info.schema.derivation()), 0);
        let mut documents = RowsBuilder::begin(out)?;
        for input in &plan.inputs {
            let rooms = input.rooms()?;
            let mut scanner = rooms.rows.scanner();
            for row in (0..input.rows()).filter(|&r| rooms.deaths.lives(r, plan.lsn)) {
                self.background.check_stop()?;
                let seq = rooms.rows.seq(row)?;
                if new_row > 0 && entry.as_ref().is_some_and(|e| seq <= e.last_seq) {
                    let what = format!("row {row} has seq {seq}, at or below that of a row before it");
                    return Err(Error::corrupt(FileName::Segments(input.entry.file).to_string(), input.entry.offset, what));
                }
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
    fn check_conserved(&self, handle: &SegmentHandle) -> Result<()> {
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

    /// Replaces the inputs in the manifest by the merged segment, with tombstones for what died meanwhile.
    fn rewrite_entry(&self, manifest: &mut Manifest, plan: &Plan, at: usize, merged: Option<&Merged>) -> Result<()> {
        let applied = manifest.applied_lsn;
        let collection =
            manifest.collections.iter_mut().find(|c| c.incarnation == plan.incarnation).expect("the inputs were found in this manifest");
        let mut replacement = None;
        if let Some(m) = merged {
            let mut entry = m.handle.entry.clone();
            // A handle of its own carries the deaths up to here, so that the new tombstones come about as every other does.
            let probe = SegmentHandle::new(self.dir.as_ref(), self.database, m.handle.file().clone(), entry.clone(), Lsn(0), plan.lsn)?;
            carry(plan, &m.row_maps, &probe, applied)?;
            let mut tombstones = Tombstones { core: self, lsn: applied, writer: None };
            tombstones.bring_up(&mut entry, &probe, &plan.info)?;
            tombstones.finish()?;
            let all_dead = entry.tombstones.as_ref().is_some_and(|t| t.dead == entry.rows);
            replacement = Some(entry).filter(|_| !all_dead);
        }
        collection.segments.splice(at..at + plan.inputs.len(), replacement);
        Ok(())
    }

    /// Lets memory follow a published merge.
    fn follow(&self, plan: &Plan, merged: Option<Merged>, manifest: Manifest, generation: Generation) -> Result<()> {
        let mut w = self.writer.lock();
        let named = |s: &SegmentHandle| manifest.collections.iter().flat_map(|c| &c.segments).any(|e| same_place(e, &s.entry));
        let replacement = match &merged {
            Some(m) if named(&m.handle) => {
                // Under the writer's lock, so that no death is missed.
                carry(plan, &m.row_maps, &m.handle, Lsn(ALIVE - 1))
                    .map_err(|e| w.poison(format!("following a published merge failed: {e}")))?;
                Some(m.handle.clone())
            }
            _ => None,
        };
        let version = Arc::make_mut(&mut w.version);
        if let Some(c) = version.collections.get_mut(&plan.incarnation) {
            let c: &mut CollectionSegments = Arc::make_mut(c);
            c.segments.retain(|s| !plan.inputs.iter().any(|i| same_place(&i.entry, &s.entry)));
            c.segments.extend(replacement);
            c.segments.sort_by_key(|s| s.entry.base_seq);
        }
        version.manifest = Arc::new(manifest);
        version.generation = generation;
        self.publish(&w);
        Ok(())
    }
}

/// Where the inputs stand in the manifest of `version`, if they still do, one after another.
fn find_inputs(version: &Version, plan: &Plan) -> Option<usize> {
    let collection = version.manifest.collections.iter().find(|c| c.incarnation == plan.incarnation)?;
    let at = collection.segments.iter().position(|e| same_place(e, &plan.inputs[0].entry))?;
    let here = collection.segments.get(at..at + plan.inputs.len())?;
    here.iter().zip(&plan.inputs).all(|(e, i)| same_place(e, &i.entry)).then_some(at)
}

/// Gives `target` the deaths of the inputs after the merge's lsn and at or before `until`.
fn carry(plan: &Plan, row_maps: &[Vec<u32>], target: &SegmentHandle, until: Lsn) -> Result<()> {
    let mut deaths: Vec<(u64, u32)> = Vec::new();
    for (input, map) in plan.inputs.iter().zip(row_maps) {
        for row in input.log.rows_between(plan.lsn, until) {
            let new = map.get(row as usize).copied().unwrap_or(DROPPED);
            if new != DROPPED {
                deaths.push((input.rooms()?.deaths.death(row), new));
            }
        }
    }
    deaths.sort_unstable();
    deaths.into_iter().try_for_each(|(lsn, row)| target.kill(row, Lsn(lsn), target.row_totals(row)?))
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

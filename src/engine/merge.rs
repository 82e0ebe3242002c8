//! Merges: adjacent segments of a collection become one, without their dead rows.
//!
//! A **pass** carries out the plans of many collections: one file of segments, one manifest, one publishing. A plan drops exactly the rows
//! that had died by the `applied_lsn` of the manifest it started from. Later deaths are carried: those up to the `applied_lsn` it is
//! published with become the new segment's tombstones, the rest go on living in memory. Before a pass is published its output is read back
//! and held against its inputs (`rewrite.rs`).

use super::buried::Tombstones;
use super::checkpoint::same_place;
use super::core::Core;
use super::events::{self, Timer};
use super::files::Files;
use super::rewrite::{Rewriter, Rewritten};
use super::segments::SegmentHandle;
use super::version::{CollectionInfo, CollectionSegments};
use crate::error::{Error, Result};
use crate::format::manifest::{CollectionEntry, Manifest};
use crate::format::sabotage::{Rule, breaks};
use crate::ids::{Generation, Incarnation, Lsn, Uuid};
use crate::io::Directory;
use crate::memtable::deaths::ALIVE;
use crate::options::Options;
use crate::text::DROPPED;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Where segments are rewritten, for whom, and what cuts it short: of a handle, or of a database that is being made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workshop<'a> {
    pub(crate) dir: &'a dyn Directory,
    pub(crate) files: &'a Files,
    pub(crate) database: Uuid,
    pub(crate) options: &'a Options,
    /// Whether nobody waits for it.
    pub(crate) in_background: bool,
    /// Set when the work is to be given up.
    pub(crate) stop: &'a AtomicBool,
}

impl Workshop<'_> {
    /// Ends the work when it is to be given up.
    pub(crate) fn check_stop(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted(
                "merging was given up, since the database is closing or somebody asked for it; nothing changed".into(),
            ));
        }
        Ok(())
    }
}

/// What became of a pass.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// Plans that were published. The others' inputs were gone by then: somebody dropped or emptied their collection.
    pub(crate) merged: usize,
    /// Collections whose inputs could not be read, each with its error. They are as they were.
    pub(crate) damaged: Vec<(Incarnation, Error)>,
}

impl Core {
    /// Carries out plans, at most one a collection. Damage to one collection's files does not keep the others' plans back; any other error
    /// leaves everything as it was.
    pub(crate) fn merge(&self, plans: &[Plan]) -> Result<Passed> {
        {
            let mut w = self.writer.lock();
            self.writable(&w)?;
            self.settle(&mut w)?;
        }
        let mut rewriter = Rewriter::new(self.workshop());
        let result = self.rewrite_and_publish(plans, &mut rewriter);
        let named = match &result {
            Ok(passed) => passed.merged > 0,
            // Some slot may name it.
            Err(Error::OutcomeUnknown(_)) => true,
            Err(_) => false,
        };
        if !named {
            rewriter.into_file().into_iter().for_each(|file| self.files.discard(file));
        }
        result
    }

    fn workshop(&self) -> Workshop<'_> {
        Workshop {
            dir: self.dir.as_ref(),
            files: &self.files,
            database: self.database,
            options: &self.options,
            in_background: self.background.is_own_thread(),
            stop: self.background.stop_flag(),
        }
    }

    fn rewrite_and_publish(&self, plans: &[Plan], rewriter: &mut Rewriter<'_>) -> Result<Passed> {
        let _span = events::merge_span(plans.len());
        let timer = Timer::start();
        let mut passed = Passed::default();
        for plan in plans {
            match rewriter.write(plan) {
                Ok(()) => {}
                Err(e @ Error::Corrupt(_)) => passed.damaged.push((plan.incarnation, e)),
                Err(e) => return Err(e),
            }
        }
        let mut rewritten = rewriter.finish()?;
        let _maintenance = self.maintenance.lock();
        let version = {
            let w = self.writer.lock();
            // A commit may have failed meanwhile: a writer that stopped publishes nothing and deletes nothing but what nobody ever named.
            self.writable(&w)?;
            w.version.clone()
        };
        let mut manifest = Manifest::clone(&version.manifest);
        self.rewrite_entries(&mut manifest, &mut rewritten)?;
        if rewritten.is_empty() {
            return Ok(passed);
        }
        let generation = match self.publish_manifest(&manifest, None) {
            Ok(generation) => generation,
            Err(Error::OutcomeUnknown(why)) => return Err(self.writer.lock().poison(why)),
            Err(e) => return Err(e),
        };
        passed.merged = rewritten.len();
        self.follow(&rewritten, manifest, generation)?;
        let new = || rewritten.iter().filter_map(|r| r.handle.as_ref());
        let rows = new().map(|h| h.entry.rows).sum();
        events::merged(passed.merged, new().count(), rows, new().map(|h| h.entry.length).sum(), timer);
        self.collect_garbage_or_tell();
        Ok(passed)
    }

    /// Replaces the inputs in the manifest by the merged segments, with tombstones for what died meanwhile. Drops those whose inputs are gone.
    fn rewrite_entries(&self, manifest: &mut Manifest, rewritten: &mut Vec<Rewritten>) -> Result<()> {
        let applied = manifest.applied_lsn;
        let mut entries: BTreeMap<Incarnation, &mut CollectionEntry> =
            manifest.collections.iter_mut().map(|c| (c.incarnation, c)).collect();
        let mut tombstones = Tombstones::new(self, applied);
        let mut kept = Vec::with_capacity(rewritten.len());
        for r in rewritten.drain(..) {
            let plan = &r.plan;
            let Some(collection) = entries.get_mut(&plan.incarnation) else { continue };
            let Some(at) = find_inputs(collection, plan) else { continue };
            let mut replacement = None;
            if let Some(handle) = &r.handle {
                let mut entry = handle.entry.clone();
                // A handle of its own carries the deaths up to here, so that the new tombstones come about as every other does.
                let probe = SegmentHandle::new(self.database, handle.file().clone(), None, entry.clone(), Lsn(0), plan.lsn);
                if !breaks(Rule::MergeCarries) {
                    carry(plan, &r.row_maps, &probe, applied)?;
                }
                tombstones.bring_up(&mut entry, &probe, &plan.info)?;
                let all_dead = entry.tombstones.as_ref().is_some_and(|t| t.dead == entry.rows);
                replacement = Some(entry).filter(|_| !all_dead);
            }
            collection.segments.splice(at..at + plan.inputs.len(), replacement);
            kept.push(r);
        }
        *rewritten = kept;
        tombstones.finish()
    }

    /// Lets memory follow a published pass.
    fn follow(&self, rewritten: &[Rewritten], manifest: Manifest, generation: Generation) -> Result<()> {
        let mut w = self.writer.lock();
        let named: BTreeSet<(u64, u64)> = manifest.collections.iter().flat_map(|c| &c.segments).map(|e| (e.file, e.offset)).collect();
        for r in rewritten {
            let named = |s: &&Arc<SegmentHandle>| named.contains(&(s.entry.file, s.entry.offset));
            let replacement = r.handle.as_ref().filter(named).cloned();
            if let Some(handle) = &replacement {
                // Under the writer's lock, so that no death is missed.
                carry(&r.plan, &r.row_maps, handle, Lsn(ALIVE - 1))
                    .map_err(|e| w.poison(format!("following a published merge failed: {e}")))?;
            }
            let version = Arc::make_mut(&mut w.version);
            if let Some(c) = version.collections.get_mut(&r.plan.incarnation) {
                let c: &mut CollectionSegments = Arc::make_mut(c);
                c.segments.retain(|s| !r.plan.inputs.iter().any(|i| same_place(&i.entry, &s.entry)));
                c.segments.extend(replacement);
                c.segments.sort_by_key(|s| s.entry.base_seq);
            }
        }
        let version = Arc::make_mut(&mut w.version);
        version.manifest = Arc::new(manifest);
        version.generation = generation;
        self.publish(&w);
        Ok(())
    }
}

/// Where the inputs stand in the collection's entry, if they still do, one after another.
fn find_inputs(collection: &CollectionEntry, plan: &Plan) -> Option<usize> {
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

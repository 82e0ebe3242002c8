//! A checkpoint: frozen memtables become segments, deaths become tombstones, and a new manifest says so.
//!
//! Files are written, synced and read back; then the manifest is; then HEAD names it, which is the moment the checkpoint exists; then memory
//! follows. An error before HEAD leaves everything as it was; one while HEAD is written leaves the outcome unknown and stops the writer.

use super::buried::Tombstones;
use super::core::{Core, Writer};
use super::events::{self, Timer};
use super::files::NewFile;
use super::flush::{self, Flushed};
use super::segments::{SegmentFile, SegmentHandle};
use super::version::{CollectionInfo, CollectionSegments, Frozen, Version};
use crate::error::{Error, Result};
use crate::format::head::HeadState;
use crate::format::manifest::{CollectionEntry, Manifest, SegmentEntry};
use crate::format::sabotage::{Rule, breaks};
use crate::ids::{Generation, Incarnation, Lsn};
use crate::io::names::FileName;
use crate::manifest::{self, write_manifest};
use crate::memtable::Totals;
use crate::wal::WalWriter;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Segments and tombstones that stand in synced files and that no manifest names yet.
pub(crate) struct Prepared {
    files: Vec<NewFile>,
    manifest: Manifest,
    /// New segments with what they were made of.
    flushed: Vec<(Flushed, Arc<SegmentHandle>)>,
    /// Segments none of whose rows lives any more: by file and offset.
    vanished: BTreeSet<(u64, u64)>,
}

impl Core {
    /// Brings everything committed so far into segments. On a full disk the spare room is given for it, since it frees logs and files.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let _maintenance = self.maintenance.lock();
        self.with_spare_room(|| self.checkpoint_once())
    }

    /// Tries once more with the room of the ballast when the disk is full: what is done here frees logs and files. The caller holds
    /// `maintenance`.
    fn with_spare_room(&self, act: impl Fn() -> Result<()>) -> Result<()> {
        let result = act();
        if !matches!(result, Err(Error::DiskFull(_))) || self.writer.lock().poisoned.is_some() || !self.give_up_ballast() {
            return result;
        }
        act().inspect_err(|_| self.refill_ballast())
    }

    fn checkpoint_once(&self) -> Result<()> {
        {
            let mut w = self.writer.lock();
            self.writable(&w)?;
            self.settle_found(&mut w)?;
            let covered = w.version.frozen.last().map_or(w.version.applied_lsn(), |f| f.last_lsn);
            if w.lsn > covered {
                self.freeze(&mut w)?;
            }
        }
        self.flush_once()
    }

    /// The end of a recovery: what was replayed goes into fresh, synced files, named together with a new log.
    pub(crate) fn checkpoint_recovered(&self) -> Result<()> {
        let _maintenance = self.maintenance.lock();
        {
            let mut w = self.writer.lock();
            self.sync_found_logs(&w)?;
            self.settle(&mut w)?;
            let (last_lsn, catalog) = (w.lsn, w.catalog.clone());
            let (next_seq, next_incarnation) = (w.next_seq, w.next_incarnation);
            let version = Arc::make_mut(&mut w.version);
            let memtable = std::mem::take(&mut version.active);
            version.frozen.push(Arc::new(Frozen { memtable, last_lsn, catalog, next_seq, next_incarnation }));
        }
        // What earlier recoveries left when they were killed goes first: on a full disk this one may need the room.
        if !breaks(Rule::OrphansFirst) {
            self.collect_garbage()?;
        }
        let prepared = self.prepare()?.expect("a memtable was just frozen");
        let mut w = self.writer.lock();
        let sequence = self.files.next_number()?;
        let claim = self.files.claim(FileName::Wal(sequence));
        let made = WalWriter::create(&self.dir, self.database, sequence, w.lsn.next(), w.lsn, None);
        let wal = match made {
            Ok(wal) => wal,
            Err(e) => {
                let _ = self.dir.unlink(&FileName::Wal(sequence).to_string());
                self.discard(prepared);
                return Err(e);
            }
        };
        // Everything up to here stands in files that were synced before HEAD names them.
        self.durable.store(w.lsn.0, std::sync::atomic::Ordering::Release);
        let log = (sequence, wal.id());
        w.logs.insert(sequence, None);
        w.wal = Some(wal);
        drop(w);
        self.install(prepared, Some(log))?;
        drop(claim);
        Ok(())
    }

    /// Syncs the logs that were replayed, before HEAD is written: commits that only the cache held would be gone if both the slot that is
    /// written again and then the power were lost.
    fn sync_found_logs(&self, w: &Writer) -> Result<()> {
        for &sequence in w.logs.keys() {
            let name = FileName::Wal(sequence).to_string();
            let log = self.dir.open_writable(&name).map_err(|e| Error::io(format!("opening {name}"), e))?;
            log.sync().map_err(|e| Error::io(format!("syncing {name}"), e))?;
        }
        Ok(())
    }

    /// Flushes every frozen memtable, with the spare room when the disk is full. The caller holds `maintenance`.
    pub(crate) fn flush_frozen(&self) -> Result<()> {
        self.with_spare_room(|| self.flush_once())
    }

    fn flush_once(&self) -> Result<()> {
        let _span = events::checkpoint_span();
        match self.prepare()? {
            Some(prepared) => self.install(prepared, None),
            None => Ok(()),
        }
    }

    /// Removes files that were never named.
    fn discard(&self, prepared: Prepared) {
        prepared.files.into_iter().for_each(|f| self.files.discard(f));
    }

    /// Writes and syncs everything that the next manifest names, except the manifest. The directory is synced once, with the manifest in it.
    fn prepare(&self) -> Result<Option<Prepared>> {
        let version = self.writer.lock().version.clone();
        let Some(last) = version.frozen.last().cloned() else { return Ok(None) };
        let mut prepared = Prepared {
            files: Vec::new(),
            manifest: Manifest {
                applied_lsn: last.last_lsn,
                next_seq: last.next_seq,
                next_incarnation: last.next_incarnation,
                collections: Vec::new(),
                unknown: version.manifest.unknown.clone(),
            },
            flushed: Vec::new(),
            vanished: BTreeSet::new(),
        };
        match self.fill(&version, &last, &mut prepared) {
            Ok(()) => Ok(Some(prepared)),
            Err(e) => {
                self.discard(prepared);
                Err(e)
            }
        }
    }

    fn fill(&self, version: &Version, last: &Frozen, prepared: &mut Prepared) -> Result<()> {
        let live: BTreeSet<Incarnation> = last.catalog.collections.values().map(|c| c.incarnation).collect();
        for frozen in &version.frozen {
            self.flush_one(frozen, last.last_lsn, &live, prepared)?;
        }
        let mut tombstones = Tombstones::new(self, last.last_lsn);
        tombstones.rewrite_stale_files(version);
        let stored: BTreeMap<Incarnation, &CollectionEntry> = version.manifest.collections.iter().map(|c| (c.incarnation, c)).collect();
        let mut fresh: BTreeMap<Incarnation, Vec<SegmentEntry>> = BTreeMap::new();
        for (f, _) in &prepared.flushed {
            fresh.entry(f.incarnation).or_default().push(f.entry.clone());
        }
        for (name, info) in &last.catalog.collections {
            let before = stored.get(&info.incarnation).copied();
            let mut entry = match before {
                Some(before) => CollectionEntry { name: name.to_string(), schema: info.schema.clone(), ..before.clone() },
                None => CollectionEntry::empty(&**name, info.incarnation, info.schema.clone()),
            };
            entry.segments = segments_now(version, info, before, &mut prepared.vanished, &mut tombstones)?;
            entry.segments.extend(fresh.remove(&info.incarnation).unwrap_or_default());
            entry.segments.sort_by_key(|s| s.base_seq);
            count(&mut entry, version.parts(info.incarnation, last.last_lsn).totals(), last.last_lsn)?;
            prepared.manifest.collections.push(entry);
        }
        tombstones.finish()?;
        for (_, handle) in &prepared.flushed {
            // Read back before it is named.
            handle.rooms()?;
        }
        Ok(())
    }

    fn flush_one(&self, frozen: &Frozen, lsn: Lsn, live: &BTreeSet<Incarnation>, prepared: &mut Prepared) -> Result<()> {
        let timer = Timer::start();
        let any = frozen.memtable.collections().iter().any(|(i, m)| live.contains(i) && m.totals(lsn).documents > 0);
        if !any {
            return Ok(());
        }
        prepared.files.push(self.files.create(FileName::Segments)?);
        let file = prepared.files.last().expect("was just pushed");
        let flushed = flush::write_memtable(file, self.database, &frozen.memtable, lsn, |i| live.contains(&i))?;
        file.sync()?;
        let open = SegmentFile::open(self.dir.as_ref(), file.number(), self.options.io_mode)?;
        let rows = flushed.iter().map(|f| f.entry.rows).sum();
        events::flushed(file.number(), flushed.len(), rows, flushed.iter().map(|f| f.entry.length).sum(), timer);
        for f in flushed {
            self.bytes_flushed.fetch_add(f.entry.length, std::sync::atomic::Ordering::Relaxed);
            let components = f.memory.derivation().components;
            let handle = SegmentHandle::new(self.database, open.clone(), None, f.entry.clone(), components, Lsn(0), lsn);
            prepared.flushed.push((f, handle));
        }
        Ok(())
    }

    /// Writes the manifest, publishes it, and lets memory follow.
    fn install(&self, prepared: Prepared, log: Option<(u64, crate::ids::Uuid)>) -> Result<()> {
        let generation = match self.publish_manifest(&prepared.manifest, log) {
            Ok(generation) => generation,
            Err(Error::OutcomeUnknown(why)) => return Err(self.writer.lock().poison(why)),
            Err(e) => {
                self.discard(prepared);
                return Err(e);
            }
        };
        let (applied, vanished) = (prepared.manifest.applied_lsn, prepared.vanished.len());
        let segments = prepared.manifest.collections.iter().map(|c| c.segments.len()).sum();
        let mut w = self.writer.lock();
        self.swap(&mut w, prepared, generation).map_err(|e| w.poison(format!("following a published checkpoint failed: {e}")))?;
        self.publish(&w);
        drop(w);
        events::checkpointed(generation.0, applied, segments, vanished);
        self.refill_ballast();
        self.collect_garbage_or_tell();
        Ok(())
    }

    /// Writes a manifest and publishes it in both slots of HEAD. `OutcomeUnknown` when HEAD failed; any other error changed nothing.
    pub(crate) fn publish_manifest(&self, manifest: &Manifest, log: Option<(u64, crate::ids::Uuid)>) -> Result<Generation> {
        manifest::check(manifest)?;
        // A writer that stopped while the files were written does not know what the disk holds, and changes nothing any more.
        self.writable(&self.writer.lock())?;
        let number = self.files.next_number()?;
        let _claim = self.files.claim(FileName::Manifest(number));
        let written = write_manifest(self.dir.as_ref(), number, self.database, manifest);
        // One sync for the names of the manifest and of all files that it names: nothing of them counts before a slot names the manifest.
        let (length, crc) = match written.and_then(|w| self.sync_directory().map(|()| w)) {
            Ok(written) => written,
            Err(e) => {
                let _ = self.dir.unlink(&FileName::Manifest(number).to_string());
                return Err(e);
            }
        };
        self.write_head(|head| {
            let (wal_sequence, wal_id) = log.unwrap_or((head.wal_sequence, head.wal_id));
            HeadState {
                manifest_number: number,
                manifest_length: length,
                manifest_crc: crc,
                applied_lsn: manifest.applied_lsn,
                wal_sequence,
                wal_id,
                ..head
            }
        })
    }

    fn swap(&self, w: &mut Writer, prepared: Prepared, generation: Generation) -> Result<()> {
        let applied = prepared.manifest.applied_lsn;
        let mut fresh: BTreeMap<Incarnation, Vec<Arc<SegmentHandle>>> = BTreeMap::new();
        for (flushed, handle) in prepared.flushed {
            flush::carry_deaths(&flushed, &handle)?;
            fresh.entry(flushed.incarnation).or_default().push(handle);
        }
        let named: BTreeSet<Incarnation> = prepared.manifest.collections.iter().map(|c| c.incarnation).collect();
        let current: BTreeSet<Incarnation> = w.catalog.collections.values().map(|c| c.incarnation).collect();
        let version = Arc::make_mut(&mut w.version);
        // The log after this manifest names what landed since, also for a collection that is gone again: replay opens those files.
        let replayed = |c: &CollectionSegments| c.segments.iter().any(|s| s.landed > applied);
        version.collections.retain(|i, c| named.contains(i) || current.contains(i) || replayed(c));
        for entry in &prepared.manifest.collections {
            let totals = Totals { documents: entry.documents, tokens: entry.tokens, vectors: entry.vectors };
            let mut segments = version.collections.get(&entry.incarnation).map_or(Vec::new(), |c| c.segments.clone());
            segments.retain(|s| !prepared.vanished.contains(&(s.entry.file, s.entry.offset)));
            segments.extend(fresh.remove(&entry.incarnation).unwrap_or_default());
            segments.sort_by_key(|s| s.entry.base_seq);
            version.collections.insert(entry.incarnation, Arc::new(CollectionSegments { totals, segments }));
        }
        version.generation = generation;
        version.manifest = Arc::new(prepared.manifest);
        version.frozen.retain(|f| f.last_lsn > applied);
        w.logs.retain(|_, last| last.is_none_or(|l| l > applied));
        w.logged.retain(|_, l| *l > applied);
        Ok(())
    }
}

/// The segments that a collection had and those that landed, tombstones brought up to date. Those without a live row go to `vanished`.
fn segments_now(
    version: &Version,
    info: &CollectionInfo,
    before: Option<&CollectionEntry>,
    vanished: &mut BTreeSet<(u64, u64)>,
    tombstones: &mut Tombstones<'_>,
) -> Result<Vec<SegmentEntry>> {
    let mut segments = Vec::new();
    let lsn = tombstones.lsn;
    let handles = version.collections.get(&info.incarnation).map_or(&[][..], |c| &c.segments);
    for handle in handles.iter().filter(|s| s.landed <= lsn) {
        let stored = before.and_then(|b| b.segments.iter().find(|e| same_place(e, &handle.entry)));
        let mut segment = stored.unwrap_or(&handle.entry).clone();
        tombstones.bring_up(&mut segment, handle, info)?;
        if segment.tombstones.as_ref().is_some_and(|t| t.dead == segment.rows) {
            vanished.insert((segment.file, segment.offset));
        } else {
            segments.push(segment);
        }
    }
    Ok(segments)
}

/// Puts the totals into the entry, if they are what its segments hold.
fn count(entry: &mut CollectionEntry, totals: Totals, lsn: Lsn) -> Result<()> {
    (entry.documents, entry.tokens, entry.vectors) = (totals.documents, totals.tokens, totals.vectors);
    let live = |s: &SegmentEntry| s.rows - s.tombstones.as_ref().map_or(0, |t| t.dead);
    let lives: u64 = entry.segments.iter().map(live).sum();
    if lives != entry.documents {
        // The totals are memory's, and one of these files or memory is wrong: all of them are named.
        let files: BTreeSet<u64> = entry.segments.iter().map(|s| s.file).collect();
        let names: Vec<String> = files.iter().map(|&n| FileName::Segments(n).to_string()).collect();
        let first = entry.segments.first().map_or((String::from("memory"), 0), |s| (FileName::Segments(s.file).to_string(), s.offset));
        return Err(Error::corrupt(
            first.0,
            first.1,
            format!(
                "collection {:?} counts {} documents at lsn {lsn}, its segments (in {}) hold {lives} live rows; the checkpoint was not made",
                entry.name,
                entry.documents,
                names.join(", ")
            ),
        ));
    }
    Ok(())
}

pub(crate) fn same_place(a: &SegmentEntry, b: &SegmentEntry) -> bool {
    (a.file, a.offset) == (b.file, b.offset)
}

//! What a writing or reading handle shares between its threads, and the few acts that change the state on disk.
//!
//! Locks, in the order in which they are taken: `merging`, `maintenance`, `writer`, `publisher`, `published`. `maintenance` holds the manifest
//! still: only checkpoints and merges change it. `publisher` is held only while HEAD is written.

use super::events::{self, Timer};
use super::files::Files;
use super::health::Pins;
use super::resolve::Resolved;
use super::segments::SegmentHandle;
use super::version::{Catalog, Frozen, Version};
use super::{commit, flush};
use crate::error::{Error, Result};
use crate::format::effects::{CommitEffects, DEAD_INLINE_BYTES_MAX, DeadSet};
use crate::format::head::HeadState;
use crate::format::wal::RECORD_COMMIT;
use crate::ids::{Incarnation, Lsn, Seq, Uuid};
use crate::io::names::{self, FileName};
use crate::io::{Directory, LockGuard};
use crate::manifest::Publisher;
use crate::memtable::Memtable;
use crate::options::{Options, limits};
use crate::tombstones::TombstonesWriter;
use crate::wal::{LogEnd, NewRecord, WalWriter, Witness};
use parking_lot::{Mutex, RwLock};
use roaring::RoaringTreemap;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Generations of HEAD that a writer wants before it commits anything: more than it writes until it looks again.
const GENERATIONS_AHEAD: u64 = 64;

/// Everything a handle shares.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) dir: Arc<dyn Directory>,
    pub(crate) options: Options,
    pub(crate) database: Uuid,
    pub(crate) files: Files,
    pub(crate) queue: Mutex<Vec<Arc<commit::Request>>>,
    pub(crate) writer: Mutex<Writer>,
    /// `None` for a reader, which never writes HEAD.
    pub(crate) publisher: Mutex<Option<Publisher>>,
    pub(crate) maintenance: Mutex<()>,
    pub(crate) merging: Mutex<()>,
    pub(crate) published: RwLock<Published>,
    /// A sync of the directory failed: it may have dropped names that other threads made, and a later one would call them durable.
    pub(crate) names_unknown: AtomicBool,
    /// The greatest lsn known to be synced.
    pub(crate) durable: AtomicU64,
    /// Bytes of segments written by this handle: what `close` may spend on folding.
    pub(crate) bytes_flushed: AtomicU64,
    pub(crate) background: super::background::Background,
    /// Snapshots that are held.
    pub(crate) pins: Arc<Pins>,
    /// Where the log ends, for those who do not hold the writer.
    pub(crate) log_bytes: AtomicU64,
    /// What a handle for reading saw when it read the files last; `None` for a writer.
    pub(crate) seen: Mutex<Option<Seen>>,
    /// Held while the handle lives; `None` for a reader.
    pub(crate) lock: Mutex<Option<LockGuard>>,
}

/// What a handle for reading found: while it is still there, there is nothing newer.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) head: HeadState,
    /// The manifest, the logs, and the files that records name.
    pub(crate) reached: BTreeSet<FileName>,
    /// Where the active log ended, when nothing followed.
    pub(crate) end: Option<LogEnd>,
}

/// What readers see.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) version: Arc<Version>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) lsn: Lsn,
}

/// What the committing thread owns.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The log of this process, once it has written anything.
    pub(crate) wal: Option<WalWriter>,
    pub(crate) witness: Option<Witness>,
    pub(crate) version: Arc<Version>,
    pub(crate) catalog: Arc<Catalog>,
    /// The last staged commit.
    pub(crate) lsn: Lsn,
    pub(crate) next_seq: Seq,
    pub(crate) next_incarnation: Incarnation,
    /// Every log that replay may need: sequence, and its last lsn once it is closed.
    pub(crate) logs: BTreeMap<u64, Option<Lsn>>,
    /// Files that log records name (dying seqs, landed segments), each with the greatest lsn that may do so. They stay for replay even when the
    /// state names them no more: a later record may have dropped their collection.
    pub(crate) logged: BTreeMap<FileName, Lsn>,
    /// Why this writer stopped.
    pub(crate) poisoned: Option<String>,
    /// Why the last group was undone, if it was.
    pub(crate) undone: Option<Error>,
    /// Whether HEAD was written once more since it was read.
    pub(crate) settled: bool,
    /// Why a reader cannot write.
    pub(crate) read_only: Option<String>,
    pub(crate) closed: bool,
}

impl Writer {
    /// Stops the writer for good and says so.
    pub(crate) fn poison(&mut self, why: String) -> Error {
        let error = Error::OutcomeUnknown(format!(
            "{why}. Whether the last commits are durable is not known; nothing was deleted, reads go on, and reopening the database decides"
        ));
        if self.poisoned.is_none() {
            events::poisoned();
        }
        self.poisoned.get_or_insert(why);
        error
    }
}

impl Core {
    /// Refuses a write that cannot be made.
    pub(crate) fn writable(&self, w: &Writer) -> Result<()> {
        if let Some(why) = &w.read_only {
            return Err(Error::ReadOnly(format!("{why}; nothing was written")));
        }
        if w.closed {
            return Err(Error::ReadOnly("the database was closed; nothing was written. Open it again".into()));
        }
        self.refuse_unknown_names()?;
        // The log after the next commit starts one further, and HEAD is written a few times for it.
        Error::refuse_counter("lsn", w.lsn.0.saturating_add(2))?;
        // While another thread writes HEAD, a commit does not wait to look.
        let publisher = self.publisher.try_lock();
        let generation = publisher.as_ref().and_then(|p| p.as_ref()).map_or(0, |publisher| publisher.current().generation.0);
        Error::refuse_counter("generation", generation.saturating_add(GENERATIONS_AHEAD))?;
        match &w.poisoned {
            Some(why) => {
                Err(Error::Poisoned(format!("this writer stopped after a failure ({why}); nothing was written. Reopen the database")))
            }
            None => Ok(()),
        }
    }

    /// Shows readers everything that the writer has. What a poisoned writer staged last stays unseen: nobody knows whether it is durable.
    pub(crate) fn publish(&self, w: &Writer) {
        if w.poisoned.is_some() {
            self.published.write().version = w.version.clone();
            return;
        }
        *self.published.write() = Published { version: w.version.clone(), catalog: w.catalog.clone(), lsn: w.lsn };
    }

    /// Writes HEAD once more before the first write of this process: nothing may rest on pages that an earlier process never synced.
    pub(crate) fn settle(&self, w: &mut Writer) -> Result<()> {
        if !w.settled {
            self.with_publisher(Publisher::settle).map_err(|e| w.poison(format!("writing HEAD failed: {e}")))?;
            w.settled = true;
        }
        Ok(())
    }

    /// Makes sure that what was found at opening does not rest on a slot that was never synced. Writes nothing when that is known.
    pub(crate) fn settle_found(&self, w: &mut Writer) -> Result<()> {
        if self.publisher.lock().as_ref().is_none_or(Publisher::is_even) {
            return Ok(());
        }
        self.settle(w)
    }

    /// Makes the first log of this process. It has no link: what came before it is in the manifest. A WITNESS that somebody removed is made
    /// after it, so that it takes no room from it.
    pub(crate) fn ensure_log(&self, w: &mut Writer) -> Result<()> {
        if w.wal.is_some() {
            return Ok(());
        }
        self.settle(w)?;
        self.start_log(w, None)?;
        w.witness = w.witness.take().or_else(|| Witness::make(self.dir.as_ref()));
        Ok(())
    }

    /// Starts the next log, linked to the one before, which is synced first.
    pub(crate) fn rotate_log(&self, w: &mut Writer) -> Result<()> {
        self.sync_log(w)?;
        let Some(old) = &w.wal else { return self.ensure_log(w) };
        let (sequence, link) = (old.sequence(), old.link_for_successor());
        self.start_log(w, Some(link))?;
        w.logs.insert(sequence, Some(link.last_lsn));
        Ok(())
    }

    fn start_log(&self, w: &mut Writer, link: Option<crate::format::wal::Link>) -> Result<()> {
        let sequence = self.files.next_number()?;
        let claim = self.files.claim(FileName::Wal(sequence));
        let made = WalWriter::create(&self.dir, self.database, sequence, w.lsn.next(), w.lsn, link).and_then(|wal| {
            self.sync_directory()?;
            Ok(wal)
        });
        let wal = match made {
            Ok(wal) => wal,
            Err(e) => {
                let _ = self.dir.unlink(&FileName::Wal(sequence).to_string());
                return Err(e);
            }
        };
        // Records go to a log only after both slots that name it are synced.
        self.write_head(|head| HeadState { wal_sequence: sequence, wal_id: wal.id(), ..head }).map_err(|e| w.poison(e.to_string()))?;
        w.logs.insert(sequence, None);
        self.log_bytes.store(wal.end_offset(), Ordering::Relaxed);
        w.wal = Some(wal);
        drop(claim);
        Ok(())
    }

    /// Publishes a change of HEAD. The error of a failed publish leaves its outcome unknown: the caller poisons the writer.
    pub(crate) fn write_head(&self, change: impl Fn(HeadState) -> HeadState) -> Result<crate::ids::Generation> {
        self.with_publisher(|publisher| {
            let mut next = change(publisher.current().clone());
            next.durable_lsn = next.durable_lsn.max(Lsn(self.durable.load(Ordering::Acquire)));
            publisher.publish(&next)
        })
        .map_err(|e| Error::OutcomeUnknown(format!("publishing HEAD failed: {e}")))
    }

    /// Refuses to rely on names once the files of the database are no longer those that this writer opened. LOCK is the one that it can tell
    /// by: whoever replaces the files replaces it, and another writer may hold the new one.
    pub(crate) fn refuse_replaced(&self) -> Result<()> {
        let lock = self.lock.lock();
        let Some(lock) = lock.as_ref() else { return Ok(()) };
        match lock.is_in_place() {
            // What cannot be looked up is not known to be replaced.
            Ok(true) | Err(_) => Ok(()),
            Ok(false) => Err(Error::Poisoned(format!(
                "{} in {} is no longer the file that this writer has locked: files of the database were replaced or removed while it was open",
                names::LOCK,
                self.dir.describe()
            ))),
        }
    }

    /// Makes every name durable. After a failure nothing is named any more, by any thread.
    pub(crate) fn sync_directory(&self) -> Result<()> {
        // Before and after: a name that was made before another thread's sync failed may be one that it dropped.
        self.refuse_unknown_names()?;
        self.dir.sync().map_err(|e| {
            self.names_unknown.store(true, Ordering::SeqCst);
            Error::io("syncing the database directory", e)
        })?;
        self.refuse_unknown_names()
    }

    pub(crate) fn refuse_unknown_names(&self) -> Result<()> {
        if self.names_unknown.load(Ordering::SeqCst) {
            return Err(Error::Poisoned(
                "a sync of the database directory failed, so no new file can be relied on; reopen the database".into(),
            ));
        }
        Ok(())
    }

    /// Freezes the active memtable at the last commit and goes on in a new one and a new log.
    pub(crate) fn freeze(&self, w: &mut Writer) -> Result<()> {
        self.rotate_log(w)?;
        let version = Arc::make_mut(&mut w.version);
        let memtable = std::mem::replace(&mut version.active, Arc::new(Memtable::new()));
        version.frozen.push(Arc::new(Frozen {
            memtable,
            last_lsn: w.lsn,
            catalog: w.catalog.clone(),
            next_seq: w.next_seq,
            next_incarnation: w.next_incarnation,
        }));
        self.publish(w);
        self.background.call();
        Ok(())
    }

    /// Commits a batch that is too large for a record: its rows are written as segments and synced, then a small record names them.
    pub(crate) fn land(&self, w: &mut Writer, mut effects: CommitEffects, resolved: &Resolved) -> Result<Lsn> {
        let timer = Timer::start();
        self.ensure_log(w)?;
        if !w.version.active.is_empty() {
            // Seqs ascend from part to part only if what came before is a part of its own.
            self.freeze(w)?;
        }
        let lsn = w.lsn.next();
        let private = Memtable::new();
        for c in resolved.collections.iter().filter(|c| !c.rows.is_empty()) {
            let memory = private.collection_or_new(c.incarnation, c.derivation);
            for r in &c.rows {
                memory.append(lsn, r.seq, r.document.clone(), &r.analysis);
            }
        }
        let mut file = None;
        let mut landed = Vec::new();
        if !private.is_empty() {
            let new = self.files.create(FileName::Segments)?;
            match self.write_landed(&new, &private, lsn) {
                Ok(handles) => landed = handles,
                Err(e) => {
                    self.files.discard(new);
                    return Err(e);
                }
            }
            file = Some(new);
        }
        for c in &mut effects.collections {
            c.rows.clear();
            c.landed = landed.iter().filter(|(i, _)| *i == c.incarnation).map(|(_, s)| s.entry.clone()).collect();
        }
        let mut payload = Vec::new();
        if effects.encoded_len_estimate() <= limits::RECORD_BYTES_MAX {
            effects.encode(&mut payload);
        }
        let result = if payload.is_empty() {
            Err(Error::LimitExceeded("one batch changes more collections than a log record holds (8 MiB); commit it in parts".into()))
        } else {
            self.log(w, &[NewRecord { lsn, kind: RECORD_COMMIT, payload: &payload }], true, false)
        };
        if let Err(e) = result {
            if let Some(file) = file.filter(|_| w.poisoned.is_none()) {
                self.files.discard(file);
            }
            return Err(e);
        }
        w.logged.extend(landed.iter().map(|(_, s)| (FileName::Segments(s.entry.file), lsn)));
        let (segments, documents) = (landed.len(), landed.iter().map(|(_, s)| s.entry.rows).sum());
        self.show_landed(w, landed, resolved, lsn)?;
        self.witness(w);
        events::landed(lsn, segments, documents, timer);
        Ok(lsn)
    }

    fn write_landed(&self, file: &super::files::NewFile, rows: &Memtable, lsn: Lsn) -> Result<Vec<(Incarnation, Arc<SegmentHandle>)>> {
        let flushed = flush::write_memtable(file, self.database, rows, lsn, |_| true)?;
        file.sync()?;
        self.sync_directory()?;
        let open = super::segments::SegmentFile::open(self.dir.as_ref(), file.number(), self.options.io_mode)?;
        flushed
            .into_iter()
            .map(|f| {
                let handle = SegmentHandle::new(self.database, open.clone(), None, f.entry, f.memory.derivation().components, lsn, lsn);
                // Read back before it is named: what cannot be read is not committed.
                handle.rooms()?;
                Ok((f.incarnation, handle))
            })
            .collect()
    }

    /// Makes a landed batch visible. The record is durable, so nothing may fail halfway: a failure poisons the writer.
    fn show_landed(&self, w: &mut Writer, landed: Vec<(Incarnation, Arc<SegmentHandle>)>, resolved: &Resolved, lsn: Lsn) -> Result<()> {
        for d in resolved.collections.iter().flat_map(|c| &c.dying) {
            commit::kill(d.part.clone(), d.row, lsn, d.totals).map_err(|e| w.poison(format!("applying a durable commit failed: {e}")))?;
        }
        let version = Arc::make_mut(&mut w.version);
        landed.into_iter().for_each(|(incarnation, handle)| version.with_segment(incarnation, handle));
        (w.lsn, w.catalog, w.next_seq, w.next_incarnation) = (lsn, resolved.catalog.clone(), resolved.next_seq, resolved.next_incarnation);
        self.publish(w);
        Ok(())
    }

    /// How a record names its dying seqs: inline, or in a synced file when they are many.
    pub(crate) fn dead_set(&self, w: &mut Writer, dying: RoaringTreemap) -> Result<DeadSet> {
        if dying.serialized_size() <= self.options.thresholds.dead_inline_bytes.min(DEAD_INLINE_BYTES_MAX) {
            return Ok(DeadSet::Inline(dying));
        }
        self.settle(w)?;
        let number = self.files.next_number()?;
        let _claim = self.files.claim(FileName::Tombstones(number));
        let mut file = TombstonesWriter::create(self.dir.as_ref(), self.database, number)?;
        let part = file.add_dying_seqs(&dying)?;
        file.finish()?;
        self.sync_directory()?;
        w.logged.insert(FileName::Tombstones(number), w.lsn.next());
        Ok(DeadSet::File { number, length: part.length, crc: part.crc })
    }

    /// Gives the spare room to a commit that frees some. False when there is none to give.
    pub(crate) fn give_up_ballast(&self) -> bool {
        match self.dir.open_writable(names::BALLAST) {
            Ok(file) => file.len().is_ok_and(|len| len > 0) && file.set_len(0).and_then(|()| file.sync()).is_ok(),
            Err(_) => false,
        }
    }

    /// Takes the spare room back, if there is any again, in a new file where somebody removed it. A failure is no error: there will be a next
    /// time.
    pub(crate) fn refill_ballast(&self) {
        let made = |e: std::io::Error| if e.kind() == ErrorKind::NotFound { self.dir.create_new(names::BALLAST) } else { Err(e) };
        let Ok(file) = self.dir.open_writable(names::BALLAST).or_else(made) else { return };
        if file.len().is_ok_and(|len| len < super::create::BALLAST_BYTES as u64)
            && file.write_all_at(0, &vec![0xb5; super::create::BALLAST_BYTES]).and_then(|()| file.sync()).is_err()
        {
            let _ = file.set_len(0);
        }
    }

    /// Removes the files that nothing reaches any more. False when that is to be tried again later.
    ///
    /// The caller holds `maintenance`: what a checkpoint or merge has written, and may be naming at this moment, is not looked at. A writer
    /// that stopped removes nothing, since it does not know what the disk names.
    pub(crate) fn collect_garbage(&self) -> Result<bool> {
        {
            let mut w = self.writer.lock();
            if self.writable(&w).is_err() {
                return Ok(false);
            }
            // What only the older slot reaches is reachable as long as that slot may be chosen after a crash.
            self.settle(&mut w)?;
            self.with_publisher(Publisher::even).map_err(|e| w.poison(format!("writing HEAD failed: {e}")))?;
        }
        self.files.collect(|| {
            let w = self.writer.lock();
            if self.writable(&w).is_err() {
                return None;
            }
            self.reachable(&w)
        })
    }

    /// As [`Core::collect_garbage`], after something became durable. That it did is the caller's answer; what went wrong here is told by
    /// `health`, and tried again by the next call.
    pub(crate) fn collect_garbage_or_tell(&self) {
        if let Err(e) = self.collect_garbage() {
            self.background.failed(e);
        }
    }

    /// Every file that the state needs, and replay after a crash.
    pub(crate) fn reachable(&self, w: &Writer) -> Option<BTreeSet<FileName>> {
        let (version, mut reachable) = match &*self.seen.lock() {
            Some(seen) => (self.published.read().version.clone(), seen.reached.clone()),
            None => {
                // Replay starts after the manifest. A log that ends before that is followed by none.
                let applied = w.version.applied_lsn();
                let replayed = w.logs.iter().filter(|(_, last)| last.is_none_or(|l| l > applied));
                let mut reachable: BTreeSet<FileName> = replayed.map(|(&n, _)| FileName::Wal(n)).collect();
                let publisher = self.publisher.lock();
                let head = publisher.as_ref()?.current();
                reachable.insert(FileName::Manifest(head.manifest_number));
                reachable.insert(FileName::Wal(head.wal_sequence));
                reachable.extend(w.logged.keys());
                (w.version.clone(), reachable)
            }
        };
        reachable.extend(version.segments().map(|s| FileName::Segments(s.file().number)));
        for entry in version.manifest.collections.iter().flat_map(|c| &c.segments) {
            reachable.insert(FileName::Segments(entry.file));
            reachable.extend(entry.tombstones.as_ref().map(|t| FileName::Tombstones(t.file)));
        }
        Some(reachable)
    }

    /// Whether this handle only reads.
    pub(crate) fn is_reader(&self) -> bool {
        self.seen.lock().is_some()
    }

    /// Lets a writer's publisher act, and once more with the room of the ballast when the disk was too full to write HEAD. Not after a sync
    /// that failed: a second one would prove nothing.
    fn with_publisher<T>(&self, act: impl Fn(&mut Publisher) -> Result<T>) -> Result<T> {
        self.refuse_replaced()?;
        let mut publisher = self.publisher.lock();
        let Some(publisher) = publisher.as_mut() else {
            return Err(Error::ReadOnly("the database was opened for reading; nothing was written".into()));
        };
        match act(publisher) {
            Err(Error::DiskFull(_)) if !publisher.is_poisoned() && self.give_up_ballast() => act(publisher),
            other => other,
        }
    }
}
